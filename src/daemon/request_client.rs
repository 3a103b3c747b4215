//! A client of one live request: it follows its events and sends what a user says to it, by the `roo/*` methods that
//! editors use.

use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream,
};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

use super::connection::{Connection, ConnectionError};
use super::handshake::{Answer, Build, Hello, Wish};
use super::place::DaemonPlace;
use roo_protocol::PROTOCOL_VERSION;
use roo_protocol::event::EventParams;
use roo_protocol::ids::TaskId;

/// Bytes that are on the way from the pieces of the connection to their reader.
const PIPE: usize = 64 * 1024;
/// The largest message, in bytes, as the server has it for its clients.
const BODY_LIMIT: usize = 64 * 1024 * 1024;
/// The code of a method that this client doesn't have.
const METHOD_NOT_FOUND: i64 = -32601;

/// A connection to a live request.
pub(crate) struct RequestClient {
    /// Messages that were read whole; the last one may be an error.
    incoming: mpsc::UnboundedReceiver<io::Result<Value>>,
    outgoing: mpsc::UnboundedSender<Value>,
    next_id: i64,
}

/// Something that came of a request.
#[derive(Debug)]
pub(crate) enum FromRequest {
    /// An event of it.
    Event(Box<EventParams>),
    /// The answer to what was sent under this number: its result, or what is wrong in words.
    Answer(i64, Result<Value, String>),
}

impl RequestClient {
    /// Connects to a request that lives in the daemon at a place. Returns the number of its newest event too; events come from
    /// the first one on.
    ///
    /// # Errors
    /// [`ConnectionError`].
    pub(crate) async fn connect(
        place: &DaemonPlace,
        request: &TaskId,
        name: &str,
    ) -> Result<(Self, u64), ConnectionError> {
        let Some(mut connection) = Connection::open(place).await? else {
            return Err(ConnectionError::Silent);
        };
        let wish = Wish::Serve { settings_file: None, request: Some(request.clone()) };
        let hello = Hello { build: Build::own()?, key: place.read_key()?, environment: None, wish };
        match connection.ask(&hello).await? {
            Answer::Welcome => {}
            Answer::OtherBuild(build) => return Err(ConnectionError::OtherBuild(build)),
            Answer::Refused { reason } => return Err(ConnectionError::Refused(reason)),
            _ => return Err(ConnectionError::Mismatch),
        }
        let Connection { input, output } = connection;
        let (messages, whole) = tokio::io::duplex(PIPE);
        let (read, incoming) = mpsc::unbounded_channel();
        let (outgoing, written) = mpsc::unbounded_channel();
        // Of their own, so that no message is cut off when something else comes first.
        tokio::spawn(join_pieces(input, messages));
        tokio::spawn(read_messages(BufReader::new(whole), read));
        tokio::spawn(write_messages(written, output));
        let mut client = Self { incoming, outgoing, next_id: 0 };
        let initialize = json!({
            "processId": std::process::id(),
            "rootUri": null,
            "clientInfo": { "name": name },
            "capabilities": { "experimental": { "roo": { "protocolVersion": PROTOCOL_VERSION } } },
        });
        client.ask("initialize", &initialize).await?;
        client.write(json!({ "jsonrpc": "2.0", "method": "initialized", "params": {} }));
        let attached = client.ask("roo/task/attach", &json!({ "taskId": request, "afterSeq": 0 })).await?;
        let seq = attached["seq"].as_u64().ok_or(ConnectionError::Mismatch)?;
        Ok((client, seq))
    }

    /// Sends a request; its answer comes under the number that is returned.
    pub(crate) fn send(&mut self, method: &str, params: &impl Serialize) -> i64 {
        self.next_id += 1;
        let message = json!({ "jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params });
        self.write(message);
        self.next_id
    }

    /// The next thing that comes; none when the connection has ended. Nothing is lost where this isn't waited for to its end.
    ///
    /// # Errors
    /// When the connection is broken.
    pub(crate) async fn next(&mut self) -> io::Result<Option<FromRequest>> {
        loop {
            let Some(message) = self.incoming.recv().await.transpose()? else { return Ok(None) };
            let (method, id) = (message["method"].as_str(), &message["id"]);
            match (method, id.as_i64()) {
                (Some("roo/event"), None) => {
                    // What a newer server tells besides is left out.
                    if let Ok(event) = serde_json::from_value(message["params"].clone()) {
                        return Ok(Some(FromRequest::Event(Box::new(event))));
                    }
                }
                (Some(_), _) if !id.is_null() => {
                    let error =
                        json!({ "code": METHOD_NOT_FOUND, "message": "this client shows one request" });
                    self.write(json!({ "jsonrpc": "2.0", "id": id, "error": error }));
                }
                (None, Some(id)) => {
                    let answer = match message.get("error") {
                        None => Ok(message["result"].clone()),
                        Some(error) => Err(error["message"].as_str().unwrap_or_default().to_owned()),
                    };
                    return Ok(Some(FromRequest::Answer(id, answer)));
                }
                _ => {}
            }
        }
    }

    /// Sends a request before anything is followed, and waits for its result.
    async fn ask(&mut self, method: &str, params: &impl Serialize) -> Result<Value, ConnectionError> {
        let id = self.send(method, params);
        loop {
            match self.next().await?.ok_or(ConnectionError::Silent)? {
                FromRequest::Answer(answered, answer) if answered == id => {
                    return answer.map_err(ConnectionError::Refused);
                }
                _ => {}
            }
        }
    }

    fn write(&self, message: Value) {
        // Where the connection is broken, the next thing to come says so.
        let _ = self.outgoing.send(message);
    }
}

/// Hands on what is read, until the end.
async fn read_messages(
    mut input: BufReader<DuplexStream>,
    messages: mpsc::UnboundedSender<io::Result<Value>>,
) {
    while let Some(message) = read_message(&mut input).await.transpose() {
        let is_last = message.is_err();
        if messages.send(message).is_err() || is_last {
            return;
        }
    }
}

/// Writes what is sent, until the end.
async fn write_messages(
    mut messages: mpsc::UnboundedReceiver<Value>,
    mut output: OwnedWriteHalf,
) -> io::Result<()> {
    while let Some(message) = messages.recv().await {
        let body = message.to_string();
        let head = format!("Content-Length: {}\r\n\r\n", body.len());
        output.write_all(head.as_bytes()).await?;
        output.write_all(body.as_bytes()).await?;
    }
    Ok(())
}

/// Puts the pieces together that the daemon sends, until it has said its exit code or is gone: either ends the messages.
async fn join_pieces(mut input: BufReader<OwnedReadHalf>, mut messages: DuplexStream) -> io::Result<()> {
    loop {
        let length = input.read_u32().await?;
        if length == 0 {
            return Ok(());
        }
        let mut piece = (&mut input).take(u64::from(length));
        tokio::io::copy_buf(&mut piece, &mut messages).await?;
    }
}

/// Reads a message of our own server; none at the end.
async fn read_message<T: DeserializeOwned>(input: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<T>> {
    let mut length: Option<usize> = None;
    loop {
        let mut line = String::new();
        if input.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        match line.trim_end().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().ok();
            }
            Some(_) => {}
            None => break,
        }
    }
    let length = length.filter(|length| *length <= BODY_LIMIT).ok_or(io::ErrorKind::InvalidData)?;
    let mut body = vec![0; length];
    input.read_exact(&mut body).await?;
    Ok(Some(serde_json::from_slice(&body)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_are_read_one_after_the_other() {
        let mut input: &[u8] = b"Content-Length: 2\r\n\r\n[]Content-Type: x\r\nContent-Length: 1\r\n\r\n7";
        assert_eq!(read_message::<Value>(&mut input).await.unwrap(), Some(json!([])));
        assert_eq!(read_message::<Value>(&mut input).await.unwrap(), Some(json!(7)));
        assert_eq!(read_message::<Value>(&mut input).await.unwrap(), None);
        for broken in ["Content-Length: 3\r\n\r\n1", "X: 1\r\n\r\n{}", "Content-Length: 99999999999\r\n\r\n"]
        {
            assert!(read_message::<Value>(&mut broken.as_bytes()).await.is_err(), "{broken}");
        }
    }
}
