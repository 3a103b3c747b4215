//! Bringing a task document where it is read: by edits into the editor that has it open, at most four a
//! second and each bound to a version; to the disk where none has it.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until, timeout};
use tower_lsp::ls_types::notification::Notification;

use super::transcript::{MarkKind, Rendering};
use super::{MAX_DOCUMENT_BYTES, TaskDocument, prompt, sent_text};
use crate::server::editor::ClientEditor;
use crate::server::session::{Session, WorkspaceServices};
use crate::view::Prompt;
use roo_durable::PrivateFile;
use roo_engine::engine::Follower;
use roo_mcp::{ServerStatus, Statuses};
use roo_protocol::event::{Event, EventParams};
use roo_protocol::ids::{Digest, TaskId};
use roo_protocol::message::{MessageKind, Say};
use roo_protocol::task::{Range, TaskSnapshot, TaskState};
use roo_text::position::Positions;
use roo_workspace::{Document, Editor as _, FileOperations, file_uri};

/// The shortest time between two edits of a document.
const EDITS: Duration = Duration::from_millis(250);
/// The shortest time between two writes to the disk.
const WRITES: Duration = Duration::from_secs(1);
/// Time limit for an editor to answer, and then to show the result.
const ANSWER: Duration = Duration::from_secs(10);
const CHANGE: Duration = Duration::from_secs(5);
/// Number of refusals of an edit after which the document is written to disk.
const REFUSALS: u32 = 3;

/// `textDocument/publishDiagnostics`, with a document's URI as its editor spells it.
enum PublishDiagnostics {}

impl Notification for PublishDiagnostics {
    type Params = Value;
    const METHOD: &'static str = "textDocument/publishDiagnostics";
}

/// Writes a document from now on, for as long as its request works or it is open.
pub(super) fn start(
    session: &Arc<Session>,
    services: &Arc<WorkspaceServices>,
    document: Arc<TaskDocument>,
    follower: Follower,
) {
    let delivery = Delivery {
        uri: file_uri(&document.path),
        session: Arc::clone(session),
        services: Arc::clone(services),
        document,
        follower,
        seen: None,
        refusals: 0,
        diagnostics: Value::Null,
    };
    session.spawn(delivery.run());
}

struct Delivery {
    session: Arc<Session>,
    services: Arc<WorkspaceServices>,
    document: Arc<TaskDocument>,
    follower: Follower,
    /// As we spell it.
    uri: String,
    /// The version of the editor's document that was looked at last; none while it is closed.
    seen: Option<i32>,
    /// Number of refusals by the editor in a row.
    refusals: u32,
    /// The diagnostics that the client has.
    diagnostics: Value,
}

/// The MCP servers that are meant to run and don't, each with the reason.
fn stopped(statuses: &Statuses) -> Vec<(String, String)> {
    let reason = |status: &ServerStatus| match status {
        ServerStatus::Failed { fault, .. } => Some(format!("failed: {fault}")),
        ServerStatus::NeedsLogin(fault) => Some(format!("needs login: {fault}")),
        ServerStatus::WaitingForApproval => Some("waits for your approval".to_owned()),
        ServerStatus::Disabled
        | ServerStatus::NotStarted
        | ServerStatus::Starting
        | ServerStatus::Connected(_) => None,
    };
    statuses.iter().filter_map(|(name, status)| Some((name.clone(), reason(status)?))).collect()
}

impl Delivery {
    async fn run(mut self) {
        let session = Arc::clone(&self.session);
        let mut revision = session.documents.subscribe();
        let mut servers = self.services.mcp.changes();
        servers.mark_changed();
        let (mut due, mut is_due) = (Instant::now(), true);
        loop {
            let is_behind = self.follower.position() < self.follower.published();
            // Before its first event there is nothing to write.
            let is_known = self.document.transcript().view().root().is_some();
            tokio::select! {
                batch = self.follower.next(|| session.process.clock.now()) => match batch {
                    Ok(batch) => {
                        self.read(batch).await;
                        is_due = true;
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a task document can no longer be written");
                        break;
                    }
                },
                // The session holds the sender.
                _ = revision.changed() => {
                    let version = session.documents.get(&self.uri).map(|document| document.version);
                    is_due |= version != self.seen;
                }
                Ok(()) = servers.changed() => {
                    let stopped = stopped(&servers.borrow_and_update());
                    is_due |= self.document.transcript().set_stopped_servers(stopped);
                }
                () = self.document.wake.notified() => {
                    is_due = true;
                    due = Instant::now();
                }
                () = sleep_until(due), if is_due && !is_behind && is_known => {
                    is_due = !self.deliver().await;
                    due = Instant::now() + if self.seen.is_some() { EDITS } else { WRITES };
                    self.document.begun.send_replace(true);
                }
            }
            if !is_due && self.seen.is_none() && self.is_over() {
                break;
            }
        }
        self.document.begun.send_replace(true);
        session.task_documents.lock().remove(&self.document.root);
    }

    fn is_over(&self) -> bool {
        self.document.transcript().view().root().is_some_and(|root| root.state.is_final())
    }

    /// Takes in events. What commands have printed is not in them.
    async fn read(&self, batch: Vec<Arc<EventParams>>) {
        let mut snapshots: HashMap<TaskId, Option<TaskSnapshot>> = HashMap::new();
        for params in batch {
            let mut output = None;
            if let Event::ToolFinished { tool_call_id, .. } = &params.event
                && self.document.transcript().view().is_command(&params.task_id, tool_call_id)
            {
                let task = &params.task_id;
                if !snapshots.contains_key(task) {
                    snapshots.insert(task.clone(), self.services.engine.get(task).await.ok());
                }
                let messages = snapshots.get(task).and_then(Option::as_ref).map(|task| &task.messages);
                let printed = messages.into_iter().flatten().find(|message| {
                    message.id.as_str() == tool_call_id.as_str()
                        && message.kind == MessageKind::Say(Say::CommandOutput)
                });
                output = printed.map(|message| message.text.clone());
            }
            self.document.transcript().apply(&params, output.as_deref());
        }
    }

    /// Brings the document up to date; false when it is to be tried again.
    async fn deliver(&mut self) -> bool {
        let rendering = Arc::new(self.document.transcript().render());
        let open = self.session.documents.get(&self.uri);
        if open.is_none() {
            self.refusals = 0;
        }
        let done = match &open {
            Some(open) if self.refusals < REFUSALS && self.edits() => self.edit(open, &rendering).await,
            _ => self.write(&rendering).await,
        };
        self.seen = self.session.documents.get(&self.uri).map(|document| document.version);
        if done {
            self.show_what_waits(open.as_ref()).await;
        }
        // Closed meanwhile, it is to be written to the disk.
        let was_closed = open.is_some() && self.seen.is_none();
        done && !was_closed
    }

    fn edits(&self) -> bool {
        self.session.negotiated().is_some_and(|negotiated| negotiated.edits.is_some())
    }

    /// Returns the intended text of the document, and where the user's part begins.
    fn wanted(&self, text: &str, rendering: &Rendering) -> String {
        let mut texts = self.document.texts();
        let users = text.get(prompt::start(text, &texts.known())..).unwrap_or_default();
        let was_sent = texts.sent_on_disk.is_some_and(|sent| sent == Digest::of(text));
        let users = match &texts.taken {
            // Saved before it was sent, and opened or read again.
            _ if was_sent => String::new(),
            // What was sent has done its work; what was typed since stays.
            Some(taken) => match users.find(taken.as_str()) {
                Some(at) => [users[..at].trim_end(), &users[at + taken.len()..]].concat(),
                None => users.to_owned(),
            },
            None => users.to_owned(),
        };
        texts.taken = None;
        // There is always a line to write on.
        let users = if users.starts_with('\n') { users } else { format!("\n{users}") };
        [&rendering.text, users.as_str()].concat()
    }

    async fn edit(&mut self, open: &Document, rendering: &Arc<Rendering>) -> bool {
        let taken = self.document.texts().taken.clone();
        let wanted = self.wanted(&open.text, rendering);
        let Some((range, text)) = prompt::edit(&open.text, &wanted) else {
            self.arrived(rendering);
            return true;
        };
        let Some((edits, encoding)) =
            self.session.negotiated().and_then(|negotiated| Some((negotiated.edits?, negotiated.encoding)))
        else {
            return true;
        };
        let positions = Positions::new(&open.text, encoding);
        let range = Range { start: positions.position(range.start), end: positions.position(range.end) };
        self.document.texts().sent = Arc::clone(rendering);
        let editor = ClientEditor {
            client: self.session.client.clone(),
            edits,
            files: FileOperations::default(),
            reviews: false,
            saves: false,
            answers_code: false,
            ended: self.session.ended.clone(),
        };
        let applied = editor.apply_edit("The task continues", &open.uri, open.version, vec![(range, text)]);
        match timeout(ANSWER, applied).await {
            Ok(Ok(())) => {
                self.refusals = 0;
                self.changed_since(open).await;
                self.arrived(rendering);
                true
            }
            refused => {
                self.document.texts().taken = taken;
                // While the user types, an edit is sometimes late; that is no refusal.
                let same =
                    self.session.documents.get(&open.uri).is_some_and(|now| now.version == open.version);
                self.refusals += u32::from(same);
                tracing::debug!(?refused, "an edit of a task document was refused");
                false
            }
        }
    }

    /// Waits until the editor has told what it made of an edit, so that the next one builds on it.
    async fn changed_since(&self, before: &Document) {
        let mut revision = self.session.documents.subscribe();
        let changed = async {
            while self.session.documents.get(&before.uri).is_some_and(|now| now.version <= before.version) {
                if revision.changed().await.is_err() {
                    return;
                }
            }
        };
        // It may never tell; then the next edit is refused.
        let _ = timeout(CHANGE, changed).await;
    }

    fn arrived(&self, rendering: &Arc<Rendering>) {
        let mut texts = self.document.texts();
        (texts.arrived, texts.sent) = (Arc::clone(rendering), Arc::clone(rendering));
    }

    async fn write(&mut self, rendering: &Arc<Rendering>) -> bool {
        // What was deleted does not come back by its document.
        if !self.services.directory.request(&self.document.root).exists() {
            return true;
        }
        let file = PrivateFile::new(&self.document.path);
        let read = tokio::task::spawn_blocking(move || match file.read(MAX_DOCUMENT_BYTES) {
            Ok(bytes) => Ok(bytes.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()),
            Err(error) => Err(error),
        });
        let old = match read.await.map_err(io::Error::other).flatten() {
            Ok(old) => old,
            Err(error) => return self.unwritten(&error),
        };
        let wanted = self.wanted(&old, rendering);
        if old != wanted {
            let (file, bytes) = (PrivateFile::new(&self.document.path), wanted.clone());
            let written = tokio::task::spawn_blocking(move || {
                file.replace(bytes.as_bytes())?;
                sent_text::forget(file.path());
                Ok(())
            });
            if let Err(error) = written.await.map_err(io::Error::other).flatten() {
                return self.unwritten(&error);
            }
            self.document.texts().sent_on_disk = None;
        }
        self.arrived(rendering);
        true
    }

    fn unwritten(&self, error: &io::Error) -> bool {
        tracing::warn!(path = %self.document.path.display(), %error, "a task document can't be written");
        // What comes next tries again by itself.
        true
    }

    /// Marks what waits in the open document.
    async fn show_what_waits(&mut self, open: Option<&Document>) {
        let uri = open.map_or_else(|| self.uri.clone(), |open| open.uri.clone());
        let diagnostics = match open.and_then(|open| self.session.documents.get(&open.uri)) {
            Some(now) => self.waiting(&now),
            None => json!([]),
        };
        let is_known = match &self.diagnostics {
            Value::Null => diagnostics == json!([]),
            known => *known == diagnostics,
        };
        if !is_known {
            self.diagnostics.clone_from(&diagnostics);
            let params = json!({ "uri": uri, "diagnostics": diagnostics });
            self.session.client.send_notification::<PublishDiagnostics>(params).await;
        }
    }

    fn waiting(&self, now: &Document) -> Value {
        let rendering = Arc::clone(self.document.texts().shown(&now.text));
        let encoding = self.session.negotiated().map(|negotiated| negotiated.encoding).unwrap_or_default();
        let positions = Positions::new(&now.text, encoding);
        let transcript = self.document.transcript();
        let diagnostic = |range: &std::ops::Range<usize>, severity: u32, message: String| {
            let range = Range { start: positions.position(range.start), end: positions.position(range.end) };
            json!({ "range": range, "severity": severity, "source": "roo-lsp", "message": message })
        };
        let mut found = Vec::new();
        for mark in &rendering.marks {
            if let MarkKind::Asked(id) = &mark.kind
                && let Some((_, prompt)) = transcript.view().prompts().find(|(_, prompt)| prompt.id() == id)
            {
                if let Prompt::Approval(approval) = prompt {
                    self.session.shown_approvals.note(approval);
                }
                // Information: it is nothing wrong, and it is not to be overlooked.
                found.push(diagnostic(&mark.range, 3, format!("waits for you: {}", prompt.title())));
            }
        }
        let section = |kind: &MarkKind| matches!(kind, MarkKind::Section(_));
        if let Some(root) = transcript.view().root()
            && root.state == TaskState::Interrupted
            && let Some(mark) = rendering.marks.iter().rev().find(|mark| section(&mark.kind))
        {
            found.push(diagnostic(&mark.range, 4, "interrupted: run roo.resume to continue".to_owned()));
        }
        found.into()
    }
}
