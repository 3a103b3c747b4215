//! JSON-RPC with one server: requests with their answers, notifications, and what the server asks of its client.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use roo_text::render::one_line;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::message_frames::{Frames, send_message};
use crate::problem::Reports;

/// The largest body of a message, in bytes. A larger one ends the connection, as does what is no message.
const BODY_LIMIT: u64 = 32 << 20;

/// Number of messages to the server that wait until it reads.
const QUEUE: usize = 64;

/// The most that is kept of what the server prints on standard error, in bytes: the newest.
const STDERR: usize = 2 << 10;

/// Number of pieces of work that a server may report at once. What is above isn't waited for.
const WORK: usize = 64;

/// The longest text of what a server says is wrong, in characters.
const TROUBLE: usize = 200;

/// Reasons why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestError {
    /// The connection has ended.
    Gone,
    /// The server answered with this error.
    Refused(String),
    /// The server's answer can't be used, for this reason.
    Unusable(String),
    /// The server has not read the whole project, without which its answer would do harm.
    Loading,
}

/// What a server says of its work on the project. By default it has said nothing yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Activity {
    /// True once it has said anything of it.
    is_told: bool,
    /// Number of pieces of work that are under way (`$/progress`).
    work: usize,
    /// Whether it knows the whole project (`quiescent` of `experimental/serverStatus`); none from a server without such a status.
    is_quiescent: Option<bool>,
    /// What it says is wrong with itself or the project.
    trouble: Option<String>,
    /// Number of a compiler's checks that have begun.
    checks: u64,
    /// True while one is under way.
    is_checking: bool,
}

impl Activity {
    /// Reports whether answers may be incomplete. Work that goes on beside, such as a compiler's checks, makes none incomplete, so
    /// a status counts for more.
    fn is_loading(&self) -> bool {
        self.is_quiescent.map_or(self.work > 0, |is_quiescent| !is_quiescent)
    }
}

type Answers = HashMap<i64, oneshot::Sender<Result<Value, RequestError>>>;

/// State that the reader of a connection changes.
#[derive(Default)]
struct Shared {
    reports: Reports,
    pending: Mutex<Answers>,
    stderr: Mutex<Vec<u8>>,
}

/// How a server is set up.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerSetup {
    /// Its settings, with the name of their section.
    pub(crate) settings: Option<(&'static str, Value)>,
    /// Part of the names of its work while a compiler checks what is saved.
    pub(crate) check_token: Option<&'static str>,
}

/// A connection. Dropping it stops its tasks.
pub(crate) struct Connection {
    outgoing: mpsc::Sender<Value>,
    shared: Arc<Shared>,
    next_id: AtomicI64,
    gone: CancellationToken,
    activity: watch::Receiver<Activity>,
    _stop: DropGuard,
}

impl Connection {
    /// Starts to read and write.
    pub(crate) fn new(
        stdin: impl AsyncWrite + Send + Unpin + 'static,
        stdout: impl AsyncRead + Send + Unpin + 'static,
        stderr: impl AsyncRead + Send + Unpin + 'static,
        setup: ServerSetup,
    ) -> Self {
        let (outgoing, queue) = mpsc::channel(QUEUE);
        let (told, activity) = watch::channel(Activity::default());
        let (gone, shared) = (CancellationToken::new(), Arc::new(Shared::default()));
        tokio::spawn(gone.clone().run_until_cancelled_owned(write_all(stdin, queue, gone.clone())));
        let reader = Reader {
            shared: Arc::clone(&shared),
            outgoing: outgoing.downgrade(),
            activity: told,
            tokens: HashSet::new(),
            setup,
        };
        tokio::spawn(gone.clone().run_until_cancelled_owned(reader.read_all(stdout, gone.clone())));
        tokio::spawn(gone.clone().run_until_cancelled_owned(keep_end(stderr, Arc::clone(&shared))));
        let stop = gone.clone().drop_guard();
        Self { outgoing, shared, next_id: AtomicI64::new(1), gone, activity, _stop: stop }
    }

    /// Returns whether the server has closed the connection, or sent what is no message.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.is_cancelled()
    }

    /// Waits until the server has closed the connection.
    pub(crate) async fn ended(&self) {
        self.gone.cancelled().await;
    }

    /// Returns the problems that the server has reported unasked.
    pub(crate) fn reports(&self) -> &Reports {
        &self.shared.reports
    }

    /// Returns the last line that the server printed on standard error.
    pub(crate) fn last_words(&self) -> Option<String> {
        let bytes = self.shared.stderr.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        text.lines().map(str::trim).rfind(|line| !line.is_empty()).map(str::to_owned)
    }

    /// Returns whether the server reports that work is under way.
    pub(crate) fn is_working(&self) -> bool {
        let activity = self.activity.borrow();
        activity.is_loading() || activity.work > 0
    }

    /// Returns whether the server reports that it doesn't know the whole project yet.
    pub(crate) fn is_loading(&self) -> bool {
        self.activity.borrow().is_loading()
    }

    /// Returns what the server says is wrong with itself or the project.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.activity.borrow().trouble.clone()
    }

    /// Waits until the server reports that it has loaded the project. One that has reported nothing is given until a time to begin.
    pub(crate) async fn loaded(&self, begins_by: Instant) {
        let mut activity = self.activity.clone();
        // An error means that its reader has ended.
        let _ = timeout_at(begins_by, activity.wait_for(|activity| activity.is_told)).await;
        let _ = activity.wait_for(|activity| !activity.is_loading()).await;
    }

    /// Returns the number of a compiler's checks that have begun so far.
    pub(crate) fn checks(&self) -> u64 {
        self.activity.borrow().checks
    }

    /// Waits until a check has ended that began after so many, and what it found has had this time to arrive. Returns whether
    /// there was one: it has to begin in time.
    pub(crate) async fn checked(&self, after: u64, begins_by: Instant, settle: Duration) -> bool {
        let mut activity = self.activity.clone();
        let begun = timeout_at(begins_by, activity.wait_for(|activity| activity.checks > after)).await;
        if !begun.is_ok_and(|begun| begun.is_ok()) {
            return false;
        }
        loop {
            // An error means that its reader has ended.
            let Ok(known) = activity.wait_for(|activity| !activity.is_checking).await.map(|now| now.checks)
            else {
                return false;
            };
            sleep(settle).await;
            // A check that is restarted ends first.
            if activity.borrow().checks == known {
                return true;
            }
        }
    }

    /// Sends a request and waits for its answer. When this is dropped, the server is told that nobody waits.
    pub(crate) async fn request(&self, method: &str, params: Value) -> Result<Value, RequestError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        self.pending().insert(id, sender);
        let mut waiting = Waiting { connection: self, id, is_sent: false };
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await?;
        waiting.is_sent = true;
        tokio::select! {
            answer = answer => answer.unwrap_or(Err(RequestError::Gone)),
            () = self.gone.cancelled() => Err(RequestError::Gone),
        }
    }

    /// Sends a notification. Waits while too much is unread.
    pub(crate) async fn notify(&self, method: &str, params: Value) -> Result<(), RequestError> {
        self.send(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await
    }

    async fn send(&self, message: Value) -> Result<(), RequestError> {
        tokio::select! {
            sent = self.outgoing.send(message) => sent.map_err(|_| RequestError::Gone),
            () = self.gone.cancelled() => Err(RequestError::Gone),
        }
    }

    fn pending(&self) -> std::sync::MutexGuard<'_, Answers> {
        self.shared.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that waits for its answer.
struct Waiting<'a> {
    connection: &'a Connection,
    id: i64,
    is_sent: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let is_open = self.connection.pending().remove(&self.id).is_some();
        if is_open && self.is_sent {
            let params = json!({ "id": self.id });
            let message = json!({ "jsonrpc": "2.0", "method": "$/cancelRequest", "params": params });
            // A server that reads nothing doesn't read this either.
            let _ = self.connection.outgoing.try_send(message);
        }
    }
}

async fn write_all(
    mut stdin: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<Value>,
    gone: CancellationToken,
) {
    while let Some(message) = queue.recv().await {
        if let Err(error) = send_message(&mut stdin, &message).await {
            tracing::debug!("a language server doesn't read: {error}");
            gone.cancel();
        }
    }
}

async fn keep_end(mut stderr: impl AsyncRead + Unpin, shared: Arc<Shared>) {
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        let mut kept = shared.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&buffer[..count]);
        let excess = kept.len().saturating_sub(STDERR);
        kept.drain(..excess);
    }
}

/// Reads what the server sends.
struct Reader {
    shared: Arc<Shared>,
    outgoing: mpsc::WeakSender<Value>,
    activity: watch::Sender<Activity>,
    /// Tokens of the work that is under way.
    tokens: HashSet<String>,
    setup: ServerSetup,
}

impl Reader {
    async fn read_all(mut self, stdout: impl AsyncRead + Unpin, gone: CancellationToken) {
        let mut frames = Frames::with_limit(stdout, BODY_LIMIT);
        loop {
            match frames.next_message().await {
                Ok(Some(message)) => self.take(message),
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!("a language server can't be read: {error}");
                    break;
                }
            }
        }
        gone.cancel();
    }

    fn take(&mut self, mut message: Value) {
        let id = message.get("id").cloned().filter(|id| !id.is_null());
        match (message.get("method").and_then(Value::as_str), id) {
            (Some(method), Some(id)) => {
                let answer = answer_to(method, &message["params"], &self.setup);
                let reply = match answer {
                    Some(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
                    None => {
                        let error =
                            json!({ "code": -32601, "message": "the client doesn't have this method" });
                        json!({ "jsonrpc": "2.0", "id": id, "error": error })
                    }
                };
                // A server that asks and doesn't read gets no answer.
                if let Some(outgoing) = self.outgoing.upgrade() {
                    let _ = outgoing.try_send(reply);
                }
            }
            (Some("$/progress"), None) => self.note_work(&message["params"]),
            (Some("experimental/serverStatus"), None) => self.note_status(&message["params"]),
            (Some("textDocument/publishDiagnostics"), None) => {
                self.shared.reports.take(message["params"].take());
            }
            (Some(_), None) => {}
            (None, Some(id)) => {
                let waiting = id.as_i64().and_then(|id| {
                    self.shared.pending.lock().unwrap_or_else(PoisonError::into_inner).remove(&id)
                });
                let result = match message.get("error").filter(|error| !error.is_null()) {
                    Some(error) => {
                        let text = error.get("message").and_then(Value::as_str).unwrap_or("no reason given");
                        Err(RequestError::Refused(text.to_owned()))
                    }
                    None => Ok(message["result"].take()),
                };
                if let Some(waiting) = waiting {
                    // Whoever waited may have stopped.
                    let _ = waiting.send(result);
                }
            }
            (None, None) => {}
        }
    }

    fn note_work(&mut self, params: &Value) {
        let token = params["token"].to_string();
        let is_check = |token: &String| self.setup.check_token.is_some_and(|part| token.contains(part));
        let begins_check = params["value"]["kind"] == "begin" && is_check(&token);
        match params["value"]["kind"].as_str() {
            Some("begin") if self.tokens.len() < WORK => {
                self.tokens.insert(token);
            }
            Some("end") => {
                self.tokens.remove(&token);
            }
            _ => {}
        }
        let (work, is_checking) = (self.tokens.len(), self.tokens.iter().any(is_check));
        self.activity.send_modify(|activity| {
            activity.work = work;
            activity.checks += u64::from(begins_check);
            activity.is_checking = is_checking;
            activity.is_told |= work > 0;
        });
    }

    fn note_status(&self, params: &Value) {
        let Some(is_quiescent) = params["quiescent"].as_bool() else { return };
        let is_well = params["health"].as_str().is_none_or(|health| health == "ok");
        let trouble = params["message"].as_str().filter(|_| !is_well);
        let trouble = trouble.map(|message| one_line(message.trim(), TROUBLE));
        self.activity.send_modify(|activity| {
            activity.is_told = true;
            activity.is_quiescent = Some(is_quiescent);
            activity.trouble = trouble;
        });
    }
}

/// Returns the answer to a request of the server; none for one that this client doesn't have. Nothing is ever edited for it.
fn answer_to(method: &str, params: &Value, setup: &ServerSetup) -> Option<Value> {
    match method {
        "workspace/configuration" => {
            let of_section = |item: &Value| match &setup.settings {
                Some((section, settings)) if item["section"] == *section => settings.clone(),
                _ => Value::Null,
            };
            Some(params["items"].as_array().into_iter().flatten().map(of_section).collect())
        }
        "workspace/workspaceFolders"
        | "window/workDoneProgress/create"
        | "client/registerCapability"
        | "client/unregisterCapability"
        | "window/showMessageRequest" => Some(Value::Null),
        "workspace/applyEdit" => Some(json!({ "applied": false })),
        _ => None,
    }
}
