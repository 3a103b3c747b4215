//! A NATS server for tests, which takes one client and only keeps what that publishes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::requests::Setup;
use crate::nats::{Connection, Server};
use crate::scripted_engine::ScriptedEngine;

/// A server with its client.
pub(super) struct PlainServer {
    pub(super) connection: Connection,
    /// The subjects and messages that were published.
    pub(super) published: mpsc::UnboundedReceiver<(String, Value)>,
    serving: JoinHandle<()>,
}

impl PlainServer {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (told, published) = mpsc::unbounded_channel();
        let serving = tokio::spawn(async move {
            let (client, _) = listener.accept().await.unwrap();
            serve(client, &told).await;
        });
        let server = Server {
            address: format!("nats://{address}").parse().unwrap(),
            prefix: "roo".parse().unwrap(),
            credentials: None,
            authorities: None,
            certificate: None,
            plaintext: true,
        };
        let connection = Connection::open(&server, "test").await.unwrap();
        Self { connection, published, serving }
    }

    /// Goes away for good.
    pub(super) fn end(&self) {
        self.serving.abort();
    }
}

async fn serve(client: TcpStream, told: &mpsc::UnboundedSender<(String, Value)>) {
    let (input, mut output) = client.into_split();
    let mut input = BufReader::new(input);
    let info =
        json!({ "server_id": "s", "version": "2.10.0", "proto": 1, "headers": true, "max_payload": 1 << 20 });
    output.write_all(format!("INFO {info}\r\n").as_bytes()).await.unwrap();
    let mut line = String::new();
    while input.read_line(&mut line).await.is_ok_and(|length| length > 0) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match *words.as_slice() {
            ["PING"] => output.write_all(b"PONG\r\n").await.unwrap(),
            ["PUB", subject, .., size] => {
                let mut payload = vec![0; size.parse::<usize>().unwrap() + 2];
                input.read_exact(&mut payload).await.unwrap();
                payload.truncate(payload.len() - 2);
                // Others than the bridge need not send JSON.
                let message = serde_json::from_slice(&payload).unwrap_or_default();
                let _ = told.send((subject.to_owned(), message));
            }
            _ => {}
        }
        line.clear();
    }
}

/// The parts of a bridge to an engine.
pub(super) fn setup(scripted: &ScriptedEngine) -> Setup {
    Setup {
        engine: Arc::clone(&scripted.engine),
        customization: Arc::clone(&scripted.customization),
        folder: scripted.folder.clone(),
        instance: "desk".to_owned(),
        takes_approvals: false,
        heartbeat: Duration::from_secs(30),
    }
}
