//! Cost of the proxy against a direct connection, all on loopback and in one process.
//!
//! `cargo bench --bench egress [-- words of the measurements]`. What each figure means is told in
//! `docs/src/performance.md`.

#[path = "support/table.rs"]
mod table;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use roo_sandbox::egress::{Egress, HostRules};
use table::{Row, milliseconds, row};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const MIB: usize = 1 << 20;
/// Bytes of one transfer.
const TRANSFER: usize = 256 * MIB;
const WAYS: [Way; 3] = [Way::Direct, Way::Connect, Way::Socks];

/// The way from a client to a server.
#[derive(Clone, Copy, Debug)]
enum Way {
    Direct,
    Connect,
    Socks,
}

/// The ports of the servers.
#[derive(Clone, Copy)]
struct Ports {
    /// Answers each byte.
    echo: u16,
    /// Sends without end.
    source: u16,
    /// Answers plain requests.
    http: u16,
    proxy: u16,
}

fn main() -> Outcome {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --all-targets` starts benches too, without this flag.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return Ok(());
    }
    arguments.retain(|argument| !argument.starts_with('-'));
    let wanted =
        |name: &str| arguments.is_empty() || arguments.iter().any(|word| name.contains(word.as_str()));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        table::head()?;
        let ports = listen().await?;
        if wanted("latency") {
            latency(ports).await?;
        }
        if wanted("connections") {
            connections(ports).await?;
        }
        if wanted("throughput") {
            throughput(ports).await?;
        }
        if wanted("requests") {
            requests(ports).await?;
        }
        Ok(())
    })
}

async fn listen() -> Outcome<Ports> {
    let (echo, source, http) = (bind().await?, bind().await?, bind().await?);
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let ports = Ports { echo: echo.1, source: source.1, http: http.1, proxy: listener.local_addr()?.port() };
    tokio::spawn(serve(echo.0, |mut stream| async move {
        let mut byte = [0];
        while stream.read_exact(&mut byte).await.is_ok() && stream.write_all(&byte).await.is_ok() {}
    }));
    tokio::spawn(serve(source.0, |mut stream| async move {
        let piece = vec![0; 256 * 1024];
        while stream.write_all(&piece).await.is_ok() {}
    }));
    tokio::spawn(serve(http.0, |stream| async move {
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        while stream.read_line(&mut line).await.is_ok_and(|count| count > 0) {
            let ends = line == "\r\n";
            line.clear();
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
            if ends && stream.write_all(answer).await.is_err() {
                break;
            }
        }
    }));
    let rules = HostRules::default().allow("127.0.0.1".parse()?);
    let (_, rules) = watch::channel(Arc::new(rules));
    let (report, _) = mpsc::unbounded_channel();
    tokio::spawn(Egress::new(rules, report).serve(listener, CancellationToken::new()));
    Ok(ports)
}

async fn bind() -> io::Result<(TcpListener, u16)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let port = listener.local_addr()?.port();
    Ok((listener, port))
}

async fn serve<F: Future<Output = ()> + Send + 'static>(listener: TcpListener, each: fn(TcpStream) -> F) {
    while let Ok((stream, _)) = listener.accept().await {
        // As servers do.
        let _ = stream.set_nodelay(true);
        tokio::spawn(each(stream));
    }
}

/// A connection to a port.
async fn reach(way: Way, ports: Ports, port: u16) -> Outcome<TcpStream> {
    let via = if matches!(way, Way::Direct) { port } else { ports.proxy };
    let mut stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, via))).await?;
    stream.set_nodelay(true)?;
    match way {
        Way::Direct => {}
        Way::Connect => {
            stream.write_all(format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n").as_bytes()).await?;
            head(&mut stream).await?;
        }
        Way::Socks => {
            stream.write_all(b"\x05\x01\0\x05\x01\0\x01\x7f\0\0\x01").await?;
            stream.write_all(&port.to_be_bytes()).await?;
            stream.read_exact(&mut [0; 12]).await?;
        }
    }
    Ok(stream)
}

/// Reads to the end of an answer's head.
async fn head(stream: &mut TcpStream) -> Outcome {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        read.push(stream.read_u8().await?);
    }
    Ok(())
}

/// Connects, sends a byte and gets it back.
async fn exchange(way: Way, ports: Ports) -> Outcome {
    let mut stream = reach(way, ports, ports.echo).await?;
    stream.write_all(b"x").await?;
    stream.read_u8().await?;
    Ok(())
}

/// One connection after the other; the ways in turn, so that a busy machine is busy for all.
async fn latency(ports: Ports) -> Outcome {
    let mut samples = [vec![], vec![], vec![]];
    for _ in 0..1000 {
        for (way, samples) in WAYS.into_iter().zip(&mut samples) {
            let begin = Instant::now();
            exchange(way, ports).await?;
            samples.push(milliseconds(begin.elapsed()));
        }
    }
    for (way, samples) in WAYS.into_iter().zip(samples) {
        let what = format!("connect and one byte there and back, {way:?}");
        row(Row { what: &what, unit: "ms", target: "" }, samples)?;
    }
    Ok(())
}

/// 32 clients at a time.
async fn connections(ports: Ports) -> Outcome {
    const CLIENTS: u32 = 32;
    const EACH: u32 = 100;
    for way in WAYS {
        let mut samples = Vec::new();
        for _ in 0..5 {
            let begin = Instant::now();
            let clients = (0..CLIENTS).map(|_| {
                tokio::spawn(async move {
                    for _ in 0..EACH {
                        exchange(way, ports).await?;
                    }
                    Outcome::Ok(())
                })
            });
            for client in clients.collect::<Vec<_>>() {
                client.await??;
            }
            samples.push(f64::from(CLIENTS * EACH) / begin.elapsed().as_secs_f64());
        }
        let what = format!("connections, {CLIENTS} clients at a time, {way:?}");
        row(Row { what: &what, unit: "1/s", target: "" }, samples)?;
    }
    Ok(())
}

async fn throughput(ports: Ports) -> Outcome {
    for way in WAYS {
        let mut samples = Vec::new();
        for _ in 0..5 {
            let mut stream = reach(way, ports, ports.source).await?;
            let (mut buffer, mut left) = (vec![0; 256 * 1024], TRANSFER);
            let begin = Instant::now();
            while left > 0 {
                left = left.saturating_sub(stream.read(&mut buffer).await?);
            }
            samples.push((TRANSFER / MIB) as f64 / begin.elapsed().as_secs_f64());
        }
        let what = format!("{} MiB to the client, {way:?}", TRANSFER / MIB);
        row(Row { what: &what, unit: "MiB/s", target: "" }, samples)?;
    }
    Ok(())
}

/// Plain requests on one connection.
async fn requests(ports: Ports) -> Outcome {
    for (way, port, target) in [
        ("Direct", ports.http, String::new()),
        ("by the proxy", ports.proxy, format!("http://127.0.0.1:{}", ports.http)),
    ] {
        let mut stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
        stream.set_nodelay(true)?;
        let request = format!("GET {target}/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        let mut samples = Vec::new();
        for _ in 0..2000 {
            let begin = Instant::now();
            stream.write_all(request.as_bytes()).await?;
            head(&mut stream).await?;
            stream.read_exact(&mut [0; 2]).await?;
            samples.push(milliseconds(begin.elapsed()));
        }
        row(
            Row { what: &format!("a plain request on an open connection, {way}"), unit: "ms", target: "" },
            samples,
        )?;
    }
    Ok(())
}
