//! A client of one request: it starts one, or follows the events of a live one and sends what a user says to it, by the `roo/*`
//! methods that editors use.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

use super::client::connect;
use super::connection::{Connection, ConnectionError};
use super::handshake::{Answer, Build, Hello, Wish};
use super::pieces::Pieces;
use super::place::DaemonPlace;
use super::reconnect::in_time;
use super::watcher::Watcher;
use crate::server::ConnectionKind;
use roo_formats::config::Directories;
use roo_language_servers::message_frames::{Frames, write_frame};
use roo_protocol::PROTOCOL_VERSION;
use roo_protocol::event::EventParams;
use roo_protocol::ids::TaskId;
use roo_protocol::task::{TaskStartParams, TaskStartResult, TaskState};
use roo_workspace::file_uri;

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
    Event(Box<EventParams>),
    /// The answer to what was sent under this number: its result, or what is wrong in words.
    Answer(i64, Result<Value, String>),
}

/// A request that is to be started in the daemon.
pub(crate) struct RequestStart<'a> {
    pub(crate) directories: &'a Directories,
    /// The workspace.
    pub(crate) folder: &'a Path,
    /// Settings over those of the file, by their names.
    pub(crate) settings: Value,
    pub(crate) params: TaskStartParams,
    /// Name of the client.
    pub(crate) client: &'a str,
}

impl RequestClient {
    /// Connects to a request that lives in the daemon at a place. Returns the number of its newest event too; events come from
    /// the one behind `after` on.
    ///
    /// # Errors
    /// [`ConnectionError`].
    pub(crate) async fn connect(
        place: &DaemonPlace,
        request: &TaskId,
        name: &str,
        after: u64,
    ) -> Result<(Self, u64), ConnectionError> {
        let gone = || ConnectionError::Io(io::ErrorKind::ConnectionRefused.into());
        let mut connection = Connection::open(place).await?.ok_or_else(gone)?;
        let wish = Wish::Serve {
            settings_file: None,
            client: ConnectionKind::Terminal,
            request: Some(request.clone()),
        };
        let hello = Hello { build: Build::own()?, key: place.read_key()?, environment: None, wish };
        match connection.ask(&hello).await? {
            Answer::Welcome => {}
            Answer::OtherBuild(build) => return Err(ConnectionError::OtherBuild(build)),
            Answer::Refused { reason } => return Err(ConnectionError::Refused(reason)),
            _ => return Err(ConnectionError::Mismatch),
        }
        let mut client = Self::over(connection);
        client.introduce(name, None, &Value::Null).await?;
        let attach = json!({ "taskId": request, "afterSeq": after });
        let attached = client.ask("roo/task/attach", &attach).await?;
        let seq = attached["seq"].as_u64().ok_or(ConnectionError::Mismatch)?;
        Ok((client, seq))
    }

    /// The same, in another daemon than the one that was lost. None where that one doesn't go on with the request.
    ///
    /// # Errors
    /// [`ConnectionError`].
    pub(crate) async fn reconnect(
        directories: &Directories,
        place: &DaemonPlace,
        request: &TaskId,
        name: &str,
        after: u64,
    ) -> Result<Option<(Self, u64)>, ConnectionError> {
        in_time(async {
            let mut watcher = Watcher::reconnect(directories, place, vec![request.clone()]).await?;
            let settled = watcher.settled().await.ok_or(ConnectionError::Unsteady)?;
            let found = settled.requests.iter().find(|found| found.id == *request);
            if found.is_none_or(|found| found.state == TaskState::Interrupted.as_str()) {
                return Ok(None);
            }
            Self::connect(place, request, name, after).await.map(Some)
        })
        .await
    }

    /// Starts a request in the daemon of this environment, which is started if need be, and leaves it there.
    ///
    /// # Errors
    /// [`ConnectionError`]; what the engine refuses is [`ConnectionError::Refused`].
    pub(crate) async fn start(start: RequestStart<'_>) -> Result<TaskStartResult, ConnectionError> {
        let RequestStart { directories, folder, settings, params, client: name } = start;
        let settings_file: Option<PathBuf> = directories.settings_file.clone();
        let mut client = Self::over(connect(directories, settings_file, ConnectionKind::Terminal).await?);
        client.introduce(name, Some(folder), &settings).await?;
        let started = client.ask("roo/task/start", &params).await?;
        // In good order, so that the daemon has no broken connection to log.
        client.ask("shutdown", &Value::Null).await?;
        client.write(json!({ "jsonrpc": "2.0", "method": "exit" }));
        while client.next().await?.is_some() {}
        serde_json::from_value(started).map_err(|_| ConnectionError::Mismatch)
    }

    /// A client of the language server behind a connection.
    fn over(Connection { input, output }: Connection) -> Self {
        let (read, incoming) = mpsc::unbounded_channel();
        let (outgoing, written) = mpsc::unbounded_channel();
        // Of their own, so that no message is cut off when something else comes first.
        tokio::spawn(read_messages(Frames::new(Pieces::new(input)), read));
        tokio::spawn(write_messages(written, output));
        Self { incoming, outgoing, next_id: 0 }
    }

    async fn introduce(
        &mut self,
        name: &str,
        folder: Option<&Path>,
        settings: &Value,
    ) -> Result<(), ConnectionError> {
        let uri = folder.map(file_uri);
        let folders = uri.as_ref().map(|uri| json!([{ "uri": uri, "name": "workspace" }]));
        let mut initialize = json!({
            "processId": std::process::id(),
            "rootUri": uri,
            "workspaceFolders": folders,
            "clientInfo": { "name": name },
            "capabilities": { "experimental": { "roo": { "protocolVersion": PROTOCOL_VERSION } } },
        });
        if !settings.is_null() {
            initialize["initializationOptions"] = json!({ "roo": settings });
        }
        self.ask("initialize", &initialize).await?;
        self.write(json!({ "jsonrpc": "2.0", "method": "initialized", "params": {} }));
        Ok(())
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
    mut input: Frames<Pieces<BufReader<OwnedReadHalf>>>,
    messages: mpsc::UnboundedSender<io::Result<Value>>,
) {
    while let Some(message) = input.next_message().await.transpose() {
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
    let mut batch = Vec::new();
    while let Some(message) = messages.recv().await {
        write_frame(message.to_string().as_bytes(), &mut batch);
        output.write_all(&batch).await?;
        batch.clear();
    }
    Ok(())
}
