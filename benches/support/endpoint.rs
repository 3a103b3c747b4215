//! A model endpoint on loopback, with one blocking thread a connection: nothing stands between the
//! arrival of a byte and its time.

use std::io::{self, BufReader, Read, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::Outcome;

/// How long a request is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request that waits for its answer.
pub struct Request {
    /// When its first byte was there.
    pub first_byte: Instant,
    /// What was sent.
    pub body: Vec<u8>,
    /// Counts the connections from 0.
    pub connection: usize,
    stream: Arc<TcpStream>,
}

impl Request {
    /// Writes a whole response. Returns when it began; one that fits into the socket's buffer leaves at
    /// that time as a whole.
    pub fn answer(&self, response: &[u8]) -> io::Result<Instant> {
        let begun = Instant::now();
        (&*self.stream).write_all(response)?;
        Ok(begun)
    }
}

/// The endpoint. It listens until the process ends.
pub struct Endpoint {
    address: SocketAddr,
    requests: Receiver<Request>,
}

impl Endpoint {
    /// Listens on a free port.
    pub fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let (sender, requests) = mpsc::channel();
        thread::spawn(move || {
            for (connection, stream) in listener.incoming().enumerate() {
                let sender = sender.clone();
                // A connection that fails is missed by whoever waits for its request.
                thread::spawn(move || stream.and_then(|stream| read(stream, connection, &sender)));
            }
        });
        Ok(Self { address, requests })
    }

    /// Its root.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The next request.
    pub fn request(&self) -> Outcome<Request> {
        Ok(self.requests.recv_timeout(PATIENCE).map_err(|error| format!("no request came: {error}"))?)
    }
}

fn read(stream: TcpStream, connection: usize, sender: &Sender<Request>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let stream = Arc::new(stream);
    let mut reader = BufReader::new(&*stream);
    loop {
        let mut head = vec![0];
        reader.read_exact(&mut head)?;
        let first_byte = Instant::now();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            reader.read_exact(&mut byte)?;
            head.extend(byte);
        }
        let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.and_then(|length| length.parse().ok()).unwrap_or(0)];
        reader.read_exact(&mut body)?;
        let request = Request { first_byte, body, connection, stream: Arc::clone(&stream) };
        if sender.send(request).is_err() {
            return Ok(());
        }
    }
}
