//! The proxy as its clients see it: bytes in, bytes out, and what reaches a server on loopback.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;

use futures_util::future::BoxFuture;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::*;

/// Resolves names to loopback, and remembers which were asked for.
#[derive(Default)]
struct TestResolver {
    asked: Mutex<Vec<String>>,
    /// Names that resolve to something else.
    others: HashMap<String, Vec<SocketAddr>>,
}

impl Resolve for TestResolver {
    fn resolve<'a>(&'a self, name: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        self.asked.lock().unwrap().push(name.to_owned());
        let loopback = vec![SocketAddr::from(([127, 0, 0, 1], port))];
        Box::pin(std::future::ready(Ok(self.others.get(name).cloned().unwrap_or(loopback))))
    }
}

/// A proxy, and what is known of it from outside.
struct Bench {
    proxy: Arc<Proxy>,
    rules: watch::Sender<Arc<HostRules>>,
    decisions: UnboundedReceiver<EgressDecision>,
    names: Arc<TestResolver>,
}

fn rules(patterns: &[&str]) -> HostRules {
    patterns.iter().fold(HostRules::default(), |rules, pattern| rules.allow(pattern.parse().unwrap()))
}

impl Bench {
    /// With the rules for loopback that all tests need, and these.
    fn new(patterns: &[&str]) -> Self {
        Self::with(patterns, TestResolver::default(), UpstreamProxies::default(), Limits::default())
    }

    fn with(patterns: &[&str], names: TestResolver, upstream: UpstreamProxies, limits: Limits) -> Self {
        let (rules, watched) = watch::channel(Arc::new(rules(patterns)));
        let (report, decisions) = unbounded_channel();
        let names = Arc::new(names);
        let proxy = Proxy {
            rules: watched,
            decisions: Decisions::new(report, ReportedDecisions::default()),
            upstream,
            unresolved: Mutex::default(),
            resolver: Arc::clone(&names) as Arc<dyn Resolve>,
            loopback: None,
            limits,
            tasks: TaskTracker::new(),
            cancel: CancellationToken::new(),
        };
        Self { proxy: Arc::new(proxy), rules, decisions, names }
    }

    fn client(&self) -> Client {
        let (client, server) = duplex(1 << 16);
        tokio::spawn(Arc::clone(&self.proxy).serve(server));
        Client(client)
    }

    /// Decisions so far.
    fn decided(&mut self) -> Vec<String> {
        let mut decided = Vec::new();
        while let Ok(decision) = self.decisions.try_recv() {
            decided.push(format!("{:?} {}:{}", decision.verdict, decision.host, decision.port));
        }
        decided
    }
}

struct Client(DuplexStream);

impl Client {
    async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    /// Reads until a text has come.
    async fn until(&mut self, end: &str) -> String {
        let mut read = Vec::new();
        while !read.ends_with(end.as_bytes()) {
            let mut byte = [0];
            let count = self.0.read(&mut byte).await.unwrap();
            assert!(count == 1, "{:?} ends without {end:?}", String::from_utf8_lossy(&read));
            read.push(byte[0]);
        }
        String::from_utf8(read).unwrap()
    }

    /// An answer with a length.
    async fn answer(&mut self) -> (u16, String) {
        let head = self.until("\r\n\r\n").await;
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let length = head.to_lowercase();
        let length = length.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        self.0.read_exact(&mut body).await.unwrap();
        (status, head + &String::from_utf8(body).unwrap())
    }

    async fn rest(mut self) -> String {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).await.unwrap();
        String::from_utf8_lossy(&rest).into_owned()
    }

    /// Sends a request and reads its answer.
    async fn ask(&mut self, request: &str) -> (u16, String) {
        self.send(request).await;
        self.answer().await
    }
}

/// A server that answers with what it got; `/close` ends its connection.
async fn origin() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = hyper::service::service_fn(|request: Request<Incoming>| async move {
                let mut seen = format!("{} {}\n", request.method(), request.uri());
                for (name, value) in request.headers() {
                    seen.push_str(&format!("{name}: {}\n", value.to_str().unwrap()));
                }
                let closes = request.uri().path() == "/close";
                seen.push_str(&String::from_utf8_lossy(
                    &request.into_body().collect().await.unwrap().to_bytes(),
                ));
                let mut response = Response::new(Full::new(Bytes::from(seen)));
                if closes {
                    response.headers_mut().insert("connection", "close".parse().unwrap());
                }
                Ok::<_, Infallible>(response)
            });
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
            );
        }
    });
    port
}

/// A server of one connection.
async fn once<F>(
    serve: impl FnOnce(TcpStream) -> F + Send + 'static,
) -> (u16, tokio::task::JoinHandle<F::Output>)
where
    F: Future + Send,
    F::Output: Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (port, tokio::spawn(async move { serve(listener.accept().await.unwrap().0).await }))
}

/// A server of one connection that reads to its end and answers with that.
async fn echo() -> u16 {
    let serve = |mut stream: TcpStream| async move {
        let mut read = Vec::new();
        stream.read_to_end(&mut read).await.unwrap();
        stream.write_all(&read).await.unwrap();
        stream.shutdown().await.unwrap();
    };
    once(serve).await.0
}

#[tokio::test]
async fn a_tunnel_passes_bytes_and_the_end_of_each_direction() {
    let port = echo().await;
    let mut bench = Bench::new(&["a.test", "127.0.0.1"]);
    let mut client = bench.client();
    let (status, _) =
        client.ask(&format!("CONNECT A.test.:{port} HTTP/1.1\r\nHost: whatever\r\n\r\nhello ")).await;
    assert_eq!(status, 200);
    client.send("world").await;
    client.0.shutdown().await.unwrap();
    assert_eq!(client.rest().await, "hello world");
    assert_eq!(bench.decided(), [format!("Allowed a.test:{port}")]);
}

#[tokio::test]
async fn socks_passes_bytes_and_the_end_of_each_direction() {
    let port = echo().await;
    let mut bench = Bench::new(&["a.test", "127.0.0.1"]);
    let mut client = bench.client();
    client.send("\x05\x01\0\x05\x01\0\x03\x06A.test").await;
    client.0.write_all(&port.to_be_bytes()).await.unwrap();
    client.send("hello").await;
    client.0.shutdown().await.unwrap();
    assert_eq!(client.rest().await, "\x05\0\x05\0\0\x01\0\0\0\0\0\0hello");
    assert_eq!(bench.decided(), [format!("Allowed a.test:{port}")]);
}

#[tokio::test]
async fn a_refused_host_is_not_looked_up_and_the_refusal_says_what_would_allow_it() {
    let mut bench = Bench::new(&["a.test"]);
    let mut client = bench.client();
    for request in
        ["CONNECT b.test:443 HTTP/1.1\r\n\r\n", "GET http://b.test:443/ HTTP/1.1\r\nHost: a.test\r\n\r\n"]
    {
        let (status, answer) = client.ask(request).await;
        assert_eq!(status, 403);
        assert!(answer.starts_with("HTTP/1.1 403 Refused by the sandbox of roo-lsp\r\n"), "{answer}");
        assert!(answer.contains("proxy-status: roo-lsp; error=http_request_denied"), "{answer}");
        assert!(answer.contains("add `b.test:443` to the setting `sandbox.network`"), "{answer}");
    }
    let mut client = bench.client();
    client.send("\x05\x01\0\x05\x01\0\x03\x06b.test\x01\u{3b}").await;
    assert!(client.rest().await.starts_with("\x05\0\x05\x02"), "not allowed by the rules");
    assert_eq!(bench.decided(), ["Refused b.test:443", "Refused b.test:315"]);
    assert_eq!(*bench.names.asked.lock().unwrap(), [""; 0]);
}

#[tokio::test]
async fn closed_addresses_are_refused_in_every_spelling() {
    let bench = Bench::new(&["any"]);
    for host in [
        "127.0.0.1",
        "0x7f.1",
        "2130706433",
        "0177.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "localhost",
        "LOCALHOST.",
        "169.254.169.254",
        "[fd00:ec2::254]",
        "metadata.google.internal",
        "0",
        "[::]",
        "a.test",
    ] {
        let connect = format!("CONNECT {host}:80 HTTP/1.1\r\n\r\n");
        let get = format!("GET http://{host}/ HTTP/1.1\r\nHost: example.com\r\n\r\n");
        for request in [connect, get] {
            let (status, answer) = bench.client().ask(&request).await;
            assert_eq!(status, 403, "{request}{answer}");
        }
    }
}

#[tokio::test]
async fn what_names_no_host_is_a_bad_request() {
    let bench = Bench::new(&["any"]);
    for request in [
        "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "GET https://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "GET ftp://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "GET http://a.test@b.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "GET http://a.test:80@b.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "CONNECT a.test HTTP/1.1\r\n\r\n",
        "CONNECT a.test:0 HTTP/1.1\r\n\r\n",
        "CONNECT a.test@b.test:443 HTTP/1.1\r\n\r\n",
        "CONNECT [fe80::1%25eth0]:443 HTTP/1.1\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "nothing like HTTP\r\n\r\n",
    ] {
        let (status, answer) = bench.client().ask(request).await;
        assert_eq!(status, 400, "{request}{answer}");
    }
}

#[tokio::test]
async fn a_header_without_end_is_cut_off() {
    let bench = Bench::new(&["any"]);
    let (client, server) = duplex(1 << 20);
    let served = tokio::spawn(Arc::clone(&bench.proxy).serve(server));
    let mut client = Client(client);
    client.send(&format!("GET http://a.test/ HTTP/1.1\r\nA: {}", "x".repeat(200_000))).await;
    assert_eq!(client.answer().await.0, 431);
    served.await.unwrap();
}

#[tokio::test]
async fn a_server_gets_the_host_that_was_judged_and_nothing_of_the_way_to_the_proxy() {
    let port = origin().await;
    let bench = Bench::new(&["a.test", "127.0.0.1"]);
    let request = format!(
        "POST http://a.test:{port}/path?query HTTP/1.1\r\nHost: evil.test\r\nProxy-Authorization: Basic eA==\r\n\
         Proxy-Connection: keep-alive\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nX-End: 2\r\nContent-Length: 4\r\n\r\nbody"
    );
    let (status, answer) = bench.client().ask(&request).await;
    assert_eq!(status, 200);
    let seen = answer.split_once("\r\n\r\n").unwrap().1;
    let mut lines: Vec<&str> = seen.lines().collect();
    lines[1..].sort_unstable();
    assert_eq!(
        lines,
        ["POST /path?query", "body", "content-length: 4", &format!("host: a.test:{port}"), "x-end: 2"]
    );
}

#[tokio::test]
async fn each_request_of_a_connection_is_judged() {
    let (one, other) = (origin().await, origin().await);
    let mut bench = Bench::new(&["a.test", "b.test", "127.0.0.1"]);
    let mut client = bench.client();
    let get = |host: &str, port: u16| format!("GET http://{host}:{port}/ HTTP/1.1\r\nHost: {host}\r\n\r\n");
    for (host, port, expected) in [
        ("a.test", one, 200),
        ("a.test", one, 200),
        ("b.test", other, 200),
        ("c.test", one, 403),
        ("a.test", one, 200),
    ] {
        let (status, answer) = client.ask(&get(host, port)).await;
        assert_eq!(status, expected, "{host} {answer}");
        assert!(status == 403 || answer.contains(&format!("host: {host}:{port}")), "{answer}");
    }
    // The second request went by the connection of the first.
    assert_eq!(*bench.names.asked.lock().unwrap(), ["a.test", "b.test", "a.test"]);
    let decided =
        [format!("Allowed a.test:{one}"), format!("Allowed b.test:{other}"), format!("Refused c.test:{one}")];
    assert_eq!(bench.decided(), decided);
}

#[tokio::test]
async fn rules_that_change_count_for_the_next_request() {
    let port = origin().await;
    let bench = Bench::new(&["a.test", "127.0.0.1"]);
    let mut client = bench.client();
    let request = format!("GET http://a.test:{port}/ HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(client.ask(&request).await.0, 200);
    bench.rules.send_replace(Arc::default());
    assert_eq!(client.ask(&request).await.0, 403);
    bench.rules.send_replace(Arc::new(rules(&["*.test", "127.0.0.1"])));
    assert_eq!(client.ask(&request).await.0, 200);
}

#[tokio::test]
async fn a_connection_that_the_server_has_closed_is_made_anew() {
    let port = origin().await;
    let bench = Bench::new(&["a.test", "127.0.0.1"]);
    let mut client = bench.client();
    for path in ["/close", "/", "/close", "/"] {
        let request = format!("GET http://a.test:{port}{path} HTTP/1.1\r\nHost: a.test\r\n\r\n");
        let (status, answer) = client.ask(&request).await;
        assert_eq!(status, 200, "{answer}");
    }
}

#[tokio::test]
async fn bodies_in_chunks_pass_both_ways() {
    let serve = |mut stream: TcpStream| async move {
        let mut read = vec![0; 4096];
        let mut seen = String::new();
        while !seen.ends_with("0\r\n\r\n") {
            let count = stream.read(&mut read).await.unwrap();
            seen.push_str(&String::from_utf8_lossy(&read[..count]));
        }
        let answer =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n";
        stream.write_all(answer.as_bytes()).await.unwrap();
        seen
    };
    let (port, served) = once(serve).await;
    let bench = Bench::new(&["a.test", "127.0.0.1"]);
    let mut client = bench.client();
    // Two lengths are how requests are smuggled: only one is passed on.
    client
        .send(&format!(
            "POST http://a.test:{port}/ HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n\
             3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
        ))
        .await;
    let head = client.until("\r\n\r\n").await.to_lowercase();
    assert!(head.starts_with("http/1.1 200") && head.contains("transfer-encoding: chunked"), "{head}");
    let body = client.until("0\r\n\r\n").await;
    assert!(body.contains("hello") && body.contains(" world"), "{body}");
    let seen = served.await.unwrap().to_lowercase();
    assert!(seen.contains("abc") && seen.contains("de"), "{seen}");
    assert!(seen.contains("transfer-encoding: chunked") && !seen.contains("content-length"), "{seen}");
}

#[tokio::test]
async fn a_protocol_can_be_switched() {
    let serve = |mut stream: TcpStream| async move {
        let mut read = vec![0; 4096];
        let count = stream.read(&mut read).await.unwrap();
        let answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Accept: 1\r\n\r\nfirst";
        stream.write_all(answer.as_bytes()).await.unwrap();
        let mut more = [0; 4];
        stream.read_exact(&mut more).await.unwrap();
        stream.write_all(&more).await.unwrap();
        String::from_utf8_lossy(&read[..count]).into_owned()
    };
    let (port, served) = once(serve).await;
    let bench = Bench::new(&["a.test", "127.0.0.1"]);
    let mut client = bench.client();
    client
        .send(&format!(
            "GET http://a.test:{port}/socket HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        ))
        .await;
    let head = client.until("\r\n\r\n").await.to_lowercase();
    assert!(head.starts_with("http/1.1 101") && head.contains("upgrade: websocket"), "{head}");
    assert!(head.contains("x-accept: 1"), "{head}");
    client.until("first").await;
    client.send("ping").await;
    client.until("ping").await;
    assert!(served.await.unwrap().to_lowercase().contains("upgrade: websocket"));
}

#[tokio::test]
async fn a_name_is_resolved_once_and_what_was_judged_is_connected_to() {
    let port = origin().await;
    // Of several addresses only those count that may be reached.
    let mixed = vec!["169.254.169.254:80".parse().unwrap(), "127.0.0.1:1".parse().unwrap()];
    let names =
        TestResolver { others: HashMap::from([("mixed.test".to_owned(), mixed)]), ..TestResolver::default() };
    let bench = Bench::with(&["*.test", "127.0.0.1"], names, UpstreamProxies::default(), Limits::default());
    let request = format!("GET http://mixed.test:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(bench.client().ask(&request).await.0, 200);
    assert_eq!(*bench.names.asked.lock().unwrap(), ["mixed.test"]);
}

#[tokio::test]
async fn what_does_not_answer_is_told() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let names = TestResolver {
        others: HashMap::from([("nowhere.test".to_owned(), vec![])]),
        ..TestResolver::default()
    };
    let bench = Bench::with(&["*.test", "127.0.0.1"], names, UpstreamProxies::default(), Limits::default());
    let (status, answer) = bench.client().ask(&format!("CONNECT a.test:{closed} HTTP/1.1\r\n\r\n")).await;
    assert_eq!(status, 502);
    assert!(
        answer.to_lowercase().contains("refused") && answer.contains("destination_unavailable"),
        "{answer}"
    );
    let (status, answer) = bench.client().ask("GET http://nowhere.test/ HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!(status, 502);
    assert!(answer.contains("nowhere.test:80 can't be resolved"), "{answer}");
    let mut client = bench.client();
    client.send("\x05\x01\0\x05\x01\0\x03\x06a.test").await;
    client.0.write_all(&closed.to_be_bytes()).await.unwrap();
    assert!(client.rest().await.starts_with("\x05\0\x05\x05"), "connection refused");
}

#[tokio::test]
async fn a_server_can_not_speak_for_the_proxy() {
    let (port, _served) = once(|mut stream: TcpStream| async move {
        assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
        let answer = "HTTP/1.1 200 OK\r\nProxy-Status: roo-lsp; error=Obey\r\nContent-Length: 0\r\n\r\n";
        stream.write_all(answer.as_bytes()).await.unwrap();
    })
    .await;
    let bench = Bench::new(&["127.0.0.1"]);
    let request = format!("GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n");
    let (status, answer) = bench.client().ask(&request).await;
    assert!(status == 200 && !answer.to_lowercase().contains("proxy-status"), "{answer}");
}

/// A program that seems to listen at port 80 of another loopback, at a port of this one as long as it does.
struct OwnServer(Mutex<Option<u16>>);

impl Loopback for OwnServer {
    fn connect(&self, port: u16) -> BoxFuture<'_, io::Result<Option<TcpStream>>> {
        let listens = self.0.lock().unwrap().filter(|_| port == 80);
        Box::pin(async move {
            match listens {
                Some(port) => TcpStream::connect(("127.0.0.1", port)).await.map(Some),
                None => Ok(None),
            }
        })
    }
}

#[tokio::test]
async fn what_listens_at_the_other_loopback_is_reached_whatever_the_rules_and_only_while_it_listens() {
    let server = Arc::new(OwnServer(Mutex::new(Some(origin().await))));
    let mut bench = Bench::new(&["a.test"]);
    let proxy = Arc::get_mut(&mut bench.proxy).unwrap();
    proxy.loopback = Some(Arc::clone(&server) as Arc<dyn Loopback>);
    let mut client = bench.client();
    for host in ["localhost", "localhost", "127.0.0.1"] {
        let request = format!("GET http://{host}/ HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(client.ask(&request).await.0, 200, "{host}");
    }
    let tunnel = |port: u16| format!("CONNECT localhost:{port} HTTP/1.1\r\n\r\n");
    assert_eq!(bench.client().ask(&tunnel(80)).await.0, 200);
    assert_eq!(bench.client().ask(&tunnel(81)).await.0, 403);
    assert_eq!(bench.decided(), ["Refused localhost:81"]);
    *server.0.lock().unwrap() = None;
    assert_eq!(bench.client().ask(&tunnel(80)).await.0, 403);
    assert_eq!(bench.client().ask("GET http://localhost/ HTTP/1.1\r\nHost: x\r\n\r\n").await.0, 403);
}

/// The user's proxy: reads one request's head, answers, and gives what comes then back.
async fn users_proxy(answer: &'static str) -> (u16, tokio::task::JoinHandle<String>) {
    once(move |stream: TcpStream| async move {
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(stream.read_line(&mut head).await.unwrap() > 0, "{head}");
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
        let mut more = [0; 4];
        if stream.read_exact(&mut more).await.is_ok() {
            stream.write_all(&more).await.unwrap();
        }
        head
    })
    .await
}

fn upstream(variable: &str, value: &str) -> UpstreamProxies {
    UpstreamProxies::from_variables(|name| match name {
        "NO_PROXY" => Some("direct.test".to_owned()),
        name => (name == variable).then(|| value.to_owned()),
    })
    .unwrap()
}

fn public_names(names: &[&str]) -> TestResolver {
    let public = |name: &&str| ((*name).to_owned(), vec!["198.51.100.7:1".parse().unwrap()]);
    TestResolver { others: names.iter().map(public).collect(), ..TestResolver::default() }
}

#[tokio::test]
async fn tunnels_go_through_the_users_proxy_with_a_login_that_the_command_does_not_know() {
    // Whoever speaks first is heard, however its words arrive.
    let (port, served) = users_proxy("HTTP/1.1 200 OK\r\n\r\nbanner").await;
    let upstream = upstream("HTTPS_PROXY", &format!("http://ada:secret@127.0.0.1:{port}"));
    let mut bench = Bench::with(&["a.test"], public_names(&["a.test"]), upstream, Limits::default());
    let mut client = bench.client();
    assert_eq!(client.ask("CONNECT a.test:443 HTTP/1.1\r\n\r\n").await.0, 200);
    client.until("banner").await;
    client.send("ping").await;
    client.until("ping").await;
    let head = served.await.unwrap().to_lowercase();
    assert!(head.starts_with("connect a.test:443 http/1.1\r\n"), "{head}");
    assert!(head.contains("proxy-authorization: basic ywrhonnly3jlda==\r\n"), "{head}");
    assert_eq!(bench.decided(), ["Allowed a.test:443"]);
    assert_eq!(bench.client().ask("CONNECT b.test:443 HTTP/1.1\r\n\r\n").await.0, 403);
}

#[tokio::test]
async fn plain_requests_go_through_the_users_proxy_in_absolute_form() {
    let (port, served) = users_proxy("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
    let upstream = upstream("http_proxy", &format!("http://ada:secret@127.0.0.1:{port}"));
    let bench = Bench::with(&["a.test"], public_names(&["a.test"]), upstream, Limits::default());
    let request = "GET http://a.test/x?y HTTP/1.1\r\nHost: b.test\r\nProxy-Authorization: mine\r\nConnection: close\r\n\r\n";
    let (status, answer) = bench.client().ask(request).await;
    assert_eq!(status, 200, "{answer}");
    let head = served.await.unwrap().to_lowercase();
    assert!(
        head.starts_with("get http://a.test/x?y http/1.1\r\n") && head.contains("host: a.test\r\n"),
        "{head}"
    );
    assert!(head.contains("proxy-authorization: basic ") && !head.contains("mine"), "{head}");
}

#[tokio::test]
async fn a_socks_proxy_of_the_users_resolves_the_name() {
    let serve = |mut stream: TcpStream| async move {
        let asked = socks::accept(&mut stream).await.unwrap().unwrap();
        socks::reply(&mut stream, socks::Reply::Succeeded).await.unwrap();
        let mut head = vec![0; 4096];
        assert!(stream.read(&mut head).await.unwrap() > 0);
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        stream.write_all(answer.as_bytes()).await.unwrap();
        asked.to_string()
    };
    let (port, served) = once(serve).await;
    let upstream = upstream("ALL_PROXY", &format!("socks5h://127.0.0.1:{port}"));
    let bench = Bench::with(&["a.test"], public_names(&["a.test"]), upstream, Limits::default());
    assert_eq!(bench.client().ask("GET http://a.test:8080/ HTTP/1.1\r\nHost: a.test\r\n\r\n").await.0, 200);
    assert_eq!(served.await.unwrap(), "a.test:8080");
}

#[tokio::test]
async fn what_needs_no_proxy_goes_direct_and_a_proxy_is_no_way_to_this_machine() {
    let origin = origin().await;
    let upstream = || upstream("ALL_PROXY", "http://127.0.0.1:1");
    let bench = Bench::with(&["any", "127.0.0.1"], TestResolver::default(), upstream(), Limits::default());
    let request = format!("GET http://direct.test:{origin}/ HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(bench.client().ask(&request).await.0, 200);
    let request = format!("GET http://localhost:{origin}/ HTTP/1.1\r\nHost: x\r\n\r\n");
    let bench = Bench::with(&["localhost"], TestResolver::default(), upstream(), Limits::default());
    assert_eq!(bench.client().ask(&request).await.0, 200, "this machine is none to the proxy");
    // The proxy would resolve the name; as far as this machine can tell, it leads to loopback.
    let bench = Bench::with(&["any"], TestResolver::default(), upstream(), Limits::default());
    assert_eq!(bench.client().ask("CONNECT other.test:443 HTTP/1.1\r\n\r\n").await.0, 403);
    // A proxy that can't be reached is told of, without its login.
    let bench = Bench::with(&["any"], public_names(&["a.test"]), upstream(), Limits::default());
    let (status, answer) = bench.client().ask("CONNECT a.test:443 HTTP/1.1\r\n\r\n").await;
    assert!(status == 502 && answer.contains("the proxy can't be reached"), "{answer}");
}

#[tokio::test]
async fn the_answer_of_a_proxy_that_refuses_is_told() {
    for (answer, told) in [
        ("HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n", "requires another login"),
        ("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", "answered 403"),
        ("nonsense\r\n\r\n", "can't be read"),
    ] {
        let (port, _served) = users_proxy(answer).await;
        let upstream = upstream("HTTPS_PROXY", &format!("127.0.0.1:{port}"));
        let bench = Bench::with(&["a.test"], public_names(&["a.test"]), upstream, Limits::default());
        let (status, body) = bench.client().ask("CONNECT a.test:443 HTTP/1.1\r\n\r\n").await;
        assert!(status == 502 && body.contains(told), "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_says_nothing_or_never_ends_is_left() {
    let bench = Bench::new(&["any"]);
    for begin in ["", "GET http://a.test/ HTTP/1.1\r\nA: ", "\x05\x01", "\x05\x01\0\x05\x01\0\x03\x06a."] {
        let (client, server) = duplex(1 << 16);
        let served = tokio::spawn(Arc::clone(&bench.proxy).serve(server));
        let mut client = Client(client);
        client.send(begin).await;
        let begun = tokio::time::Instant::now();
        served.await.unwrap();
        let lived = begun.elapsed();
        assert!(lived >= Duration::from_secs(60) && lived <= Duration::from_secs(61), "{begin:?}: {lived:?}");
    }
}

/// A proxy that is served on a real port.
async fn served(
    limits: Limits,
) -> (
    u16,
    CancellationToken,
    tokio::task::JoinHandle<io::Result<EgressSummary>>,
    UnboundedReceiver<EgressDecision>,
) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (_, watched) = watch::channel(Arc::new(rules(&["*.test", "127.0.0.1"])));
    let (report, decisions) = unbounded_channel();
    let cancel = CancellationToken::new();
    let egress =
        Egress::new(watched, report).with_resolver(Arc::new(TestResolver::default())).with_limits(limits);
    let served = tokio::spawn(egress.serve(listener, cancel.clone()));
    (port, cancel, served, decisions)
}

#[tokio::test]
async fn cancelling_ends_every_connection_and_task() {
    let origin = origin().await;
    let (far, _far) = once(|stream: TcpStream| async move {
        let (mut stream, mut end) = (stream, Vec::new());
        let _ = stream.read_to_end(&mut end).await;
    })
    .await;
    let before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let (port, cancel, served, _decisions) = served(Limits::default()).await;
    let mut clients = Vec::new();
    for request in [
        "".to_owned(),
        "GET http://a.test".to_owned(),
        format!("GET http://a.test:{origin}/ HTTP/1.1\r\nHost: a\r\n\r\n"),
        format!("CONNECT a.test:{far} HTTP/1.1\r\n\r\n"),
    ] {
        let mut client = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        client.write_all(request.as_bytes()).await.unwrap();
        if request.ends_with("\r\n\r\n") {
            assert!(client.read(&mut [0; 1024]).await.unwrap() > 0, "an answer");
        }
        clients.push(client);
    }
    // All four are being served once a fifth is.
    cancel.cancel();
    let summary = served.await.unwrap().unwrap();
    assert!(summary.connections >= 2, "{summary:?}");
    for mut client in clients {
        let mut rest = Vec::new();
        // Cut off or reset, but ended.
        let _ = client.read_to_end(&mut rest).await;
    }
    drop(_far);
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    // The tasks of the two servers above end by themselves.
    while alive() > before {
        tokio::task::yield_now().await;
    }
    assert!(TcpStream::connect(("127.0.0.1", port)).await.is_err(), "nobody listens");
}

#[tokio::test]
async fn a_connection_too_many_waits() {
    let origin = origin().await;
    let limits = Limits { connections: 1, ..Limits::default() };
    let (port, cancel, served, mut decisions) = served(limits).await;
    let ask = |host: &str| format!("GET http://{host}.test:{origin}/ HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut first = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let mut second = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    second.write_all(ask("second").as_bytes()).await.unwrap();
    first.write_all(ask("first").as_bytes()).await.unwrap();
    assert!(first.read(&mut [0; 1024]).await.unwrap() > 0);
    assert_eq!(decisions.recv().await.unwrap().host.to_string(), "first.test");
    assert!(decisions.try_recv().is_err(), "the second is not being served");
    drop(first);
    assert!(second.read(&mut [0; 1024]).await.unwrap() > 0);
    assert_eq!(decisions.recv().await.unwrap().host.to_string(), "second.test");
    cancel.cancel();
    assert_eq!(served.await.unwrap().unwrap().connections, 2);
}

#[tokio::test]
async fn a_slow_reader_slows_the_server() {
    // A server that writes as fast as it can, and counts.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sent, mut sending) = watch::channel(0_usize);
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let piece = vec![0; 1 << 16];
        while stream.write_all(&piece).await.is_ok() {
            sent.send_modify(|sent| *sent += piece.len());
        }
    });
    let bench = Bench::new(&["a.test", "127.0.0.1"]);
    let mut client = bench.client();
    assert_eq!(client.ask(&format!("CONNECT a.test:{port} HTTP/1.1\r\n\r\n")).await.0, 200);
    // Nothing is read: the buffers of the proxy and of the kernel fill, and no more is taken.
    let stalled = loop {
        let before = *sending.borrow_and_update();
        if timeout(Duration::from_secs(1), sending.changed()).await.is_err() {
            break before;
        }
    };
    assert!(stalled > 0 && stalled < 64 << 20, "{stalled} bytes taken from the server for nobody");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    /// Whatever a client sends, in whatever pieces, no other host is looked up than those that the rules name.
    #[test]
    fn no_bytes_reach_another_host(
        pieces in prop::collection::vec(
            prop_oneof![
                prop::sample::select(vec![
                    "GET ", "CONNECT ", "http://", "HTTP://", "a.test", "b.test", "evil.test", "127.0.0.1", "[::1]",
                    "0x7f.1", ":80", ":443", "/", "?", "#", "@", "%2e", "%40", ".", "\\", " HTTP/1.1", " HTTP/1.0", "\r\n",
                    "\n", "\r\n\r\n", "Host: evil.test", "Host: a.test", "Transfer-Encoding: chunked",
                    "Content-Length: 5", "Connection: Upgrade", "Upgrade: x", "0\r\n\r\n", "\x05\x01\0",
                    "\x05\x01\0\x03\x06a.test\0P", "\x05\x01\0\x03\x09evil.test\0P", "\x05\x01\0\x01\x7f\0\0\x01\0P", "\0",
                ]).prop_map(|text| text.as_bytes().to_vec()),
                prop::collection::vec(any::<u8>(), 1..4),
            ],
            0..24,
        ),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut bench = Bench::new(&["a.test", "b.test"]);
            let (mut client, server) = duplex(1 << 16);
            let served = tokio::spawn(Arc::clone(&bench.proxy).serve(server));
            for piece in &pieces {
                // The proxy may have hung up.
                if client.write_all(piece).await.is_err() {
                    break;
                }
                tokio::task::yield_now().await;
            }
            let _ = client.shutdown().await;
            let _ = client.read_to_end(&mut Vec::new()).await;
            served.await.unwrap();
            for name in bench.names.asked.lock().unwrap().iter() {
                assert!(matches!(name.as_str(), "a.test" | "b.test"), "{name} was looked up");
            }
            // Both resolve to loopback, which no rule opens.
            assert!(bench.decided().iter().all(|decision| decision.starts_with("Refused ")));
        });
    }
}
