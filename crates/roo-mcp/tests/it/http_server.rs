//! A server of HTTP on the loopback that answers as a test says, and keeps what it was asked.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::support::{initialized, text, tool};

#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub headers: BTreeMap<String, String>,
    pub body: Value,
    /// The body as it came.
    pub text: String,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub fn rpc(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }
}

/// An answer: status and headers, and what comes after them.
pub struct Reply {
    pub head: String,
    pub body: Vec<u8>,
    /// Further pieces, until the channel closes.
    pub more: Option<mpsc::Receiver<Vec<u8>>>,
}

pub fn reply(status: &str, headers: &str, body: impl Into<Vec<u8>>) -> Reply {
    Reply {
        head: format!("HTTP/1.1 {status}\r\nconnection: close\r\n{headers}\r\n"),
        body: body.into(),
        more: None,
    }
}

pub fn json_reply(id: &Value, result: Value) -> Reply {
    let body = json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
    reply("200 OK", "content-type: application/json\r\n", body)
}

/// What an ordinary server says to a message.
pub fn ordinary(request: &Request) -> Reply {
    let id = &request.body["id"];
    match request.rpc() {
        "initialize" => json_reply(id, initialized(json!({ "tools": {} }))),
        "tools/list" => json_reply(id, json!({ "tools": [tool("echo")] })),
        "tools/call" => json_reply(id, text("hello")),
        "ping" => json_reply(id, json!({})),
        _ if request.method != "POST" => reply("405 Method Not Allowed", "", ""),
        _ if id.is_null() => reply("202 Accepted", "", ""),
        method => {
            let body = json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": method } });
            reply("200 OK", "content-type: application/json\r\n", body.to_string())
        }
    }
}

/// A server on the loopback, and what it was asked.
pub struct Server {
    pub address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    pub async fn start(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<Request>>> = Arc::default();
        let (seen, answer) = (Arc::clone(&requests), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                tokio::spawn(async move {
                    // The client may go at any time.
                    let _ = serve(stream, &seen, &*answer).await;
                });
            }
        });
        Self { address, requests }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

async fn serve(
    mut stream: TcpStream,
    seen: &Mutex<Vec<Request>>,
    answer: &(dyn Fn(&Request) -> Reply + Send + Sync),
) -> io::Result<()> {
    let (reader, mut writer) = stream.split();
    let mut reader = BufReader::new(reader);
    let mut line = String::new();
    reader.read_line(&mut line).await?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).await?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).await?;
    let text = String::from_utf8_lossy(&body).into_owned();
    let request =
        Request { method, path, headers, body: serde_json::from_slice(&body).unwrap_or_default(), text };
    seen.lock().unwrap().push(request.clone());
    let mut reply = answer(&request);
    writer.write_all(reply.head.as_bytes()).await?;
    writer.write_all(&reply.body).await?;
    while let Some(more) = &mut reply.more {
        let Some(piece) = more.recv().await else { break };
        writer.write_all(&piece).await?;
    }
    writer.shutdown().await
}
