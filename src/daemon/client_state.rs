//! What an editor and the daemon have said to each other, as far as another daemon must know it to go on where one was killed.
//!
//! Pure: messages come in, and those to be passed on come out. What one daemon has asked the editor, another one knows nothing
//! of; so from the second daemon on, its requests get numbers that no earlier one has used.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::RangeInclusive;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::server::TextSync;
use roo_protocol::error::{ErrorData, ErrorKind};
use roo_protocol::event::{DegradedUntil, Event, EventParams};
use roo_protocol::ids::TaskId;
use roo_text::position::Encoding;
use roo_workspace::Documents;

/// Stands for every request.
const EVERYTHING: &str = "*";
/// LSP's `RequestFailed`.
const REQUEST_FAILED: i64 = -32803;
/// Notifications of the editor of which the newest one counts, as each replaces the one before.
const REPLACING: &[&str] =
    &["workspace/didChangeConfiguration", "roo/options/didChange", "roo/editor/didChange"];
/// The same, for each document.
const DIAGNOSTICS: &str = "roo/editor/diagnostics";
/// What our own requests begin with; the editor's are told apart by that.
const OWN_ID: &str = "roo-lsp/relay/";

/// A message on its way, as the body of a frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Routed {
    ToEditor(Vec<u8>),
    ToDaemon(Vec<u8>),
}

/// What is known of an editor and of what it waits for.
#[derive(Default)]
pub(super) struct ClientState {
    /// The number of daemons that were lost.
    generation: u64,
    /// The request `initialize` and its id.
    initialize: Option<(Vec<u8>, Value)>,
    is_initialized: bool,
    /// The editor has asked for an orderly end.
    is_shut_down: bool,
    /// The editor has said its last word.
    has_exited: bool,
    /// The newest of the notifications that replace each other, by their method and subject.
    told: BTreeMap<(String, String), Vec<u8>>,
    documents: Documents,
    encoding: Encoding,
    /// The requests whose events the editor gets, with the number of the newest that it has.
    cursors: BTreeMap<TaskId, u64>,
    /// It gets the events of all requests.
    follows_everything: bool,
    /// Requests of the editor, and of our own, that are unanswered, by their ids as JSON.
    asked: HashMap<String, Asked>,
    /// The ids of requests that the editor has yet to answer: by those that it knows, those of the daemon.
    asking: HashMap<i64, Value>,
    /// The largest number that a daemon has given a request.
    last_number: i64,
    /// Progress that was begun and has not ended, by its token as JSON.
    progress: BTreeMap<String, Value>,
    /// What was registered at the editor.
    registered: HashSet<String>,
    /// Number of requests of our own.
    own: u64,
}

/// A request that is unanswered.
struct Asked {
    id: Value,
    /// Our own, of which the editor knows nothing.
    is_own: bool,
    kind: AskedKind,
}

enum AskedKind {
    Initialize,
    Shutdown,
    /// The events of a request after this number.
    Attach(TaskId, u64),
    Detach(TaskId),
    /// A request that begins, and is followed from its start.
    Start,
    Other,
}

/// The parts of a message that say where it goes.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    id: Option<Value>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct WithParams<T> {
    params: T,
}

#[derive(Deserialize)]
struct WithResult<T> {
    result: T,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OfTask {
    task_id: TaskId,
    #[serde(default)]
    after_seq: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Begun {
    task_id: TaskId,
    /// Of a fork that lives in a workspace of its own.
    #[serde(default)]
    folder: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NumberedEvent {
    root_id: TaskId,
    /// The first of several that it stands for.
    #[serde(default)]
    from: Option<u64>,
    #[serde(default)]
    seq: Option<u64>,
}

/// An event, beside those of its request that the editor has.
enum Arrival {
    /// It is to be passed on.
    Next,
    /// The editor has it.
    Known,
    /// Some are missing that come before it, after this number.
    Early { after: u64 },
}

#[derive(Deserialize)]
struct Progress {
    token: Value,
    value: ProgressValue,
}

#[derive(Deserialize)]
struct ProgressValue {
    kind: Option<String>,
}

#[derive(Deserialize)]
struct Cancelled {
    id: Value,
}

#[derive(Deserialize)]
struct OfDocument {
    uri: String,
}

#[derive(Deserialize)]
struct Initialized {
    capabilities: Capabilities,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Capabilities {
    position_encoding: Option<String>,
}

impl ClientState {
    /// Takes a message of the editor. Returns what becomes of it; none if it answers what nobody waits for any more.
    pub(super) fn take_from_editor(&mut self, body: Vec<u8>) -> Option<Routed> {
        // What can't be read is the daemon's to refuse.
        let Ok(Envelope { method, id, .. }) = serde_json::from_slice::<Envelope<'_>>(&body) else {
            return Some(Routed::ToDaemon(body));
        };
        match (method, id) {
            (Some(method), Some(id)) => {
                let kind = self.kind_of(&method, &id, &body);
                self.asked.insert(id.to_string(), Asked { id, is_own: false, kind });
            }
            (Some(method), None) => {
                let method = method.into_owned();
                self.note_told(&method, &body);
            }
            (None, Some(id)) => {
                let asked = id.as_i64().and_then(|number| self.asking.remove(&number));
                match asked {
                    Some(known) if known != id => return rewritten(&body, known).map(Routed::ToDaemon),
                    Some(_) => {}
                    // A daemon that is gone has asked that.
                    None if self.generation > 0 => return None,
                    None => {}
                }
            }
            (None, None) => {}
        }
        Some(Routed::ToDaemon(body))
    }

    fn kind_of(&mut self, method: &str, id: &Value, body: &[u8]) -> AskedKind {
        let task = || serde_json::from_slice::<WithParams<OfTask>>(body).map(|message| message.params);
        match method {
            "initialize" if self.initialize.is_none() => {
                self.initialize = Some((body.to_vec(), id.clone()));
                AskedKind::Initialize
            }
            "shutdown" => {
                self.is_shut_down = true;
                AskedKind::Shutdown
            }
            "roo/task/attach" => {
                task().map_or(AskedKind::Other, |task| AskedKind::Attach(task.task_id, task.after_seq))
            }
            "roo/task/detach" | "roo/task/delete" => {
                task().map_or(AskedKind::Other, |task| AskedKind::Detach(task.task_id))
            }
            "roo/task/start" | "roo/task/fork" => AskedKind::Start,
            _ => AskedKind::Other,
        }
    }

    /// Takes a notification of the editor.
    fn note_told(&mut self, method: &str, body: &[u8]) {
        if method == "initialized" {
            self.is_initialized = true;
        } else if method == "exit" {
            self.has_exited = true;
        } else if REPLACING.contains(&method) {
            self.told.insert((method.to_owned(), String::new()), body.to_vec());
        } else if method == DIAGNOSTICS {
            if let Ok(message) = serde_json::from_slice::<WithParams<OfDocument>>(body) {
                self.told.insert((method.to_owned(), message.params.uri), body.to_vec());
            }
        } else if TextSync::METHODS.contains(&method)
            && let Ok(message) = serde_json::from_slice::<WithParams<Value>>(body)
            && let Some(Ok(sync)) = TextSync::read(method, message.params)
        {
            // The daemon logs what doesn't fit, as it gets the same.
            let _ = sync.apply(&self.documents, self.encoding);
        }
    }

    /// Takes a message of the daemon. Returns what becomes of it; none for an answer to what the editor has not asked.
    pub(super) fn take_from_daemon(&mut self, body: Vec<u8>) -> Option<Routed> {
        let Ok(Envelope { method, id, error }) = serde_json::from_slice::<Envelope<'_>>(&body) else {
            return Some(Routed::ToEditor(body));
        };
        match (method, id) {
            (Some(method), Some(id)) => {
                let registers = method == "client/registerCapability";
                return self.asks(registers, id, body);
            }
            (Some(method), None) if method == "$/cancelRequest" && self.generation > 0 => {
                let message: WithParams<Cancelled> = serde_json::from_slice(&body).ok()?;
                let known = self.asking.iter().find(|(_, id)| **id == message.params.id)?;
                return Some(Routed::ToEditor(cancel(*known.0)));
            }
            (Some(method), None) => match &*method {
                "roo/event" => {
                    if let Ok(message) = serde_json::from_slice::<WithParams<NumberedEvent>>(&body)
                        && let NumberedEvent { root_id, from, seq: Some(seq) } = message.params
                    {
                        match self.arrival(&root_id, from.unwrap_or(seq)..=seq) {
                            Arrival::Next => drop(self.cursors.insert(root_id, seq)),
                            Arrival::Known => return None,
                            Arrival::Early { after } => return self.catch_up(root_id, after),
                        }
                    }
                }
                "$/progress" => {
                    if let Ok(message) = serde_json::from_slice::<WithParams<Progress>>(&body) {
                        let Progress { token, value } = message.params;
                        match value.kind.as_deref() {
                            Some("begin") => drop(self.progress.insert(token.to_string(), token)),
                            Some("end") => drop(self.progress.remove(&token.to_string())),
                            _ => {}
                        }
                    }
                }
                _ => {}
            },
            (None, Some(id)) => {
                if let Some(asked) = self.asked.remove(&id.to_string()) {
                    let is_error = error.is_some();
                    return self.answered(asked, is_error, body);
                }
            }
            (None, None) => {}
        }
        Some(Routed::ToEditor(body))
    }

    /// Events of these numbers have come. Whoever follows all requests gets those of one by that subscription too until its own has
    /// begun, which the next daemon may see to in either order.
    fn arrival(&self, root: &TaskId, numbers: RangeInclusive<u64>) -> Arrival {
        match self.cursors.get(root) {
            Some(after) if after >= numbers.end() => Arrival::Known,
            Some(after) if self.generation > 0 && *numbers.start() > after + 1 => {
                Arrival::Early { after: *after }
            }
            _ => Arrival::Next,
        }
    }

    /// Asks for the events of a request after this number, unless that is under way.
    fn catch_up(&mut self, root: TaskId, after: u64) -> Option<Routed> {
        let is_it = |asked: &Asked| matches!(&asked.kind, AskedKind::Attach(task, _) if *task == root);
        let is_asked = self.asked.values().any(is_it);
        (!is_asked).then(|| Routed::ToDaemon(self.attach(root, after)))
    }

    /// The daemon asks the editor.
    fn asks(&mut self, registers: bool, id: Value, body: Vec<u8>) -> Option<Routed> {
        if registers {
            let message: WithParams<Value> = serde_json::from_slice(&body).ok()?;
            if !self.registered.insert(message.params.to_string()) {
                let answer = json!({ "jsonrpc": "2.0", "id": id, "result": null });
                return Some(Routed::ToDaemon(bytes(&answer)));
            }
        }
        let number = match (self.generation, id.as_i64()) {
            (0, Some(number)) => number,
            (0, None) => return Some(Routed::ToEditor(body)),
            _ => self.last_number + 1,
        };
        self.last_number = self.last_number.max(number);
        let is_known = id == number;
        self.asking.insert(number, id);
        match is_known {
            true => Some(Routed::ToEditor(body)),
            false => rewritten(&body, number.into()).map(Routed::ToEditor),
        }
    }

    /// The daemon has answered.
    fn answered(&mut self, asked: Asked, is_error: bool, body: Vec<u8>) -> Option<Routed> {
        match asked.kind {
            AskedKind::Attach(task, _) if is_error && asked.is_own => {
                self.cursors.remove(&task.root());
                return Some(Routed::ToEditor(bytes(&not_followed(&task))));
            }
            _ if is_error => {}
            AskedKind::Initialize => {
                if let Ok(message) = serde_json::from_slice::<WithResult<Initialized>>(&body) {
                    self.encoding = match message.result.capabilities.position_encoding.as_deref() {
                        Some("utf-8") => Encoding::Utf8,
                        Some("utf-32") => Encoding::Utf32,
                        _ => Encoding::Utf16,
                    };
                }
            }
            AskedKind::Attach(task, _) if task.as_str() == EVERYTHING => self.follows_everything = true,
            // Where it is already, or further: events may have come before by another way.
            AskedKind::Attach(task, _) if asked.is_own => drop(self.cursors.entry(task.root()).or_default()),
            AskedKind::Attach(task, after) => drop(self.cursors.insert(task.root(), after)),
            AskedKind::Detach(task) if task.as_str() == EVERYTHING => {
                self.follows_everything = false;
                self.cursors.clear();
            }
            AskedKind::Detach(task) => drop(self.cursors.remove(&task.root())),
            AskedKind::Start => {
                if let Ok(message) = serde_json::from_slice::<WithResult<Begun>>(&body)
                    && message.result.folder.is_none()
                {
                    self.cursors.entry(message.result.task_id.root()).or_default();
                }
            }
            AskedKind::Shutdown | AskedKind::Other => {}
        }
        (!asked.is_own).then_some(Routed::ToEditor(body))
    }

    /// Returns whether the editor wants no server any more.
    pub(super) fn is_shut_down(&self) -> bool {
        self.is_shut_down
    }

    /// Returns whether the editor says nothing more.
    pub(super) fn has_exited(&self) -> bool {
        self.has_exited
    }

    /// The daemon is gone. Returns what the editor is told of what it has asked, and of what it was asked and shown.
    pub(super) fn lose_daemon(&mut self) -> Vec<Vec<u8>> {
        self.generation += 1;
        let mut told = Vec::new();
        let mut asked: Vec<Asked> = self.asked.drain().map(|(_, asked)| asked).collect();
        asked.sort_by_key(|asked| asked.id.to_string());
        for Asked { id, is_own, kind } in asked {
            match kind {
                // It is asked of the next daemon.
                AskedKind::Initialize if !is_own => {
                    self.asked.insert(id.to_string(), Asked { id, is_own, kind });
                }
                _ if is_own => {}
                AskedKind::Shutdown => {
                    told.push(bytes(&json!({ "jsonrpc": "2.0", "id": id, "result": null })));
                }
                _ => told.push(bytes(&json!({ "jsonrpc": "2.0", "id": id, "error": unanswered() }))),
            }
        }
        let mut asking: Vec<i64> = self.asking.drain().map(|(number, _)| number).collect();
        asking.sort_unstable();
        told.extend(asking.into_iter().map(cancel));
        for token in std::mem::take(&mut self.progress).into_values() {
            let params = json!({ "token": token, "value": { "kind": "end" } });
            told.push(bytes(&notification("$/progress", params)));
        }
        told
    }

    /// The first message to the next daemon; none where the editor has not introduced itself.
    pub(super) fn greeting(&mut self) -> Option<Vec<u8>> {
        let (body, id) = self.initialize.clone()?;
        self.asked.entry(id.to_string()).or_insert(Asked { id, is_own: true, kind: AskedKind::Initialize });
        Some(body)
    }

    /// Returns whether the daemon has yet to answer the greeting.
    pub(super) fn is_greeting(&self) -> bool {
        self.asked.values().any(|asked| matches!(asked.kind, AskedKind::Initialize))
    }

    /// What the next daemon is told once it has answered the greeting: documents, what the editor has said of itself, and behind
    /// which event it goes on with each request.
    pub(super) fn account(&mut self) -> Vec<Vec<u8>> {
        if !self.is_initialized {
            return vec![];
        }
        let mut told = vec![bytes(&notification("initialized", json!({})))];
        for document in self.documents.opened() {
            // The daemon asks for no language.
            let item = json!({
                "uri": document.uri, "languageId": "", "version": document.version, "text": document.text,
            });
            told.push(bytes(&notification("textDocument/didOpen", json!({ "textDocument": item }))));
        }
        told.extend(self.told.values().cloned());
        for (task, seq) in self.cursors.clone() {
            told.push(self.attach(task, seq));
        }
        if self.follows_everything {
            told.push(self.attach(TaskId::new(EVERYTHING), 0));
        }
        told
    }

    fn attach(&mut self, task: TaskId, seq: u64) -> Vec<u8> {
        self.own += 1;
        let id = Value::from(format!("{OWN_ID}{}", self.own));
        let params = json!({ "taskId": task, "afterSeq": seq });
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": "roo/task/attach", "params": params });
        let kind = AskedKind::Attach(task, seq);
        self.asked.insert(id.to_string(), Asked { id, is_own: true, kind });
        bytes(&message)
    }
}

/// A message to the editor's user.
pub(super) fn show_message(kind: u8, text: &str) -> Vec<u8> {
    bytes(&notification("window/showMessage", json!({ "type": kind, "message": format!("roo: {text}") })))
}

/// The answer to what was no message.
pub(super) fn refusal(code: i64, problem: &str) -> Vec<u8> {
    bytes(&json!({ "jsonrpc": "2.0", "id": null, "error": { "code": code, "message": problem } }))
}

fn unanswered() -> Value {
    let data = ErrorData {
        kind: ErrorKind::Disconnected,
        task_id: None,
        hint: "Look at the state of the request, and try again.".to_owned(),
    };
    json!({
        "code": REQUEST_FAILED,
        "message": "the daemon ended before it answered; whether it has done this is not known",
        "data": data,
    })
}

/// An event that says that a request is not followed any more.
fn not_followed(task: &TaskId) -> Value {
    let reason = "the daemon ended, and the next one can't follow this request";
    let event = EventParams {
        root_id: task.root(),
        task_id: task.root(),
        seq: None,
        from: None,
        at: 0,
        event: Event::ServerDegraded { reason: reason.to_owned(), until: Some(DegradedUntil::Attached) },
    };
    notification("roo/event", json!(event))
}

fn cancel(number: i64) -> Vec<u8> {
    bytes(&notification("$/cancelRequest", json!({ "id": number })))
}

fn notification(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

fn bytes(message: &impl Serialize) -> Vec<u8> {
    // A plain value always becomes JSON.
    serde_json::to_vec(message).unwrap_or_default()
}

/// The message under another id.
fn rewritten(body: &[u8], id: Value) -> Option<Vec<u8>> {
    let mut message: Value = serde_json::from_slice(body).ok()?;
    *message.get_mut("id")? = id;
    Some(bytes(&message))
}

#[cfg(test)]
mod tests;
