//! The task document: a request as a Markdown file that any editor can show, below the user's state
//! directory. It grows while the request runs, and what is written below `## Prompt` is its user's.
//!
//! `transcript` makes the text and `prompt` keeps the user's part of it: all pure. `delivery` brings
//! the text to the editor, or to the disk where no editor has it open. `new_request` is the document in which
//! a request is written that has not begun. `sent_text` knows what a closed document still has of prompts that were sent. What an editor shows in both: `symbols`, `hover`, `completion`,
//! `actions`.

mod actions;
mod completion;
mod delivery;
mod documents;
mod hover;
mod new_request;
mod prompt;
mod sent_text;
mod symbols;
mod transcript;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tower_lsp::jsonrpc::{Error, Request, Result};
use tower_lsp::ls_types::MessageType;

pub(super) use self::documents::TaskDocuments;
use self::documents::{FILE, TaskDocument, Texts, request_of};
use self::new_request::NewRequest;
pub(super) use self::new_request::{add_context, empty as empty_new_request};
use self::transcript::{MarkdownTranscript, Rendering};
use super::answer_outcome::{answer_in_words, resume_after_answer};
use super::document_request::{self, Answer, DocumentRequest};
use super::documents::TextSync;
use super::session::{Session, WorkspaceServices};
use super::{engine_failure, failure};
use crate::view::Prompt;
use roo_engine::engine::EngineError;
use roo_protocol::error::ErrorKind;
use roo_protocol::ids::TaskId;
use roo_protocol::task::{
    ContextItem, PendingQuestion, Position, QuestionAnswerParams, Range, SendWhen, TaskSendParams,
    TaskStartParams, TaskState,
};
use roo_text::position::{Encoding, Positions};
use roo_workspace::path_of;

/// The largest document that is read back from the disk, in bytes.
const MAX_DOCUMENT_BYTES: u64 = 64 << 20;
/// Time limit for the first text of a document.
const FIRST: Duration = Duration::from_secs(5);

/// The document of a request, which is written from now on, once its first text is there.
async fn begin(
    session: &Arc<Session>,
    services: &Arc<WorkspaceServices>,
    task: &TaskId,
) -> Result<Arc<TaskDocument>> {
    let root = task.root();
    let known = session.task_documents.lock().get(&root).cloned();
    let document = match known {
        Some(document) => document,
        None => {
            let follower = services.engine.follow(&root, 0).await;
            let follower = follower.map_err(|error| engine_failure(&error, Some(&root)))?;
            let roots = services.engine.workspace().roots().paths().map(Path::to_path_buf).collect();
            let path = services.directory.request(&root).path().join(FILE);
            let texts = Texts { sent_on_disk: sent_text::known(&path).await, ..Texts::default() };
            let document = Arc::new(TaskDocument {
                path,
                root: root.clone(),
                transcript: Mutex::new(MarkdownTranscript::new(roots)),
                texts: Mutex::new(texts),
                begun: watch::Sender::new(false),
                wake: Notify::new(),
            });
            // Somebody else may have begun meanwhile.
            let kept = Arc::clone(session.task_documents.lock().entry(root).or_insert(Arc::clone(&document)));
            if Arc::ptr_eq(&kept, &document) {
                delivery::start(session, services, Arc::clone(&document), follower);
            }
            kept
        }
    };
    let mut begun = document.begun.subscribe();
    // The sender lives in the document.
    let _ = tokio::time::timeout(FIRST, begun.wait_for(|begun| *begun)).await;
    Ok(document)
}

/// Has the document of a task written; its place.
pub(super) async fn open(
    session: &Arc<Session>,
    services: &Arc<WorkspaceServices>,
    task: &TaskId,
) -> Result<PathBuf> {
    Ok(begin(session, services, task).await?.path.clone())
}

/// Goes on with a document that the editor opens by itself, as after a start with its windows kept.
pub(super) fn follow(session: &Arc<Session>, sync: &TextSync) {
    let TextSync::Opened { uri, .. } = sync else { return };
    let Some(path) = path_of(uri) else { return };
    let Some(request) = request_of(&path) else { return };
    let this = Arc::clone(session);
    session.spawn(async move {
        let Ok(services) = this.services().await else { return };
        let own = services.directory.request(&request).path().join(FILE);
        let (own, path) = (own.canonicalize().ok(), path.canonicalize().ok());
        if own.is_none() || own != path {
            return;
        }
        if let Err(error) = begin(&this, services, &request).await {
            tracing::info!(%error, "a task document stays as it is");
        }
    });
}

/// Result of `roo.sendPrompt`.
pub(super) enum Sent {
    /// A request is to begin.
    Started(TaskStartParams),
    /// A task was told, or its question answered.
    Told(TaskId),
}

/// Sends what stands below `## Prompt` in a document.
pub(super) async fn send_prompt(
    session: &Arc<Session>,
    services: &Arc<WorkspaceServices>,
    uri: &str,
) -> Result<Sent> {
    let empty = || Error::invalid_params("write a message below `## Prompt` first");
    let modes = super::customization::ask(services, |customization| {
        let commands: Vec<String> =
            customization.commands().into_iter().map(|command| command.name).collect();
        let modes = customization.modes();
        modes.iter().map(|mode| mode.slug.clone()).filter(|slug| !commands.contains(slug)).collect::<Vec<_>>()
    })
    .await?;
    let is_mode = |word: &str| modes.iter().any(|slug| slug == word);
    if let Some(request) = NewRequest::find(session, services, uri).await? {
        let text = request.prompt();
        let (mode, text) = prompt::mode_of(&text, is_mode);
        if text.is_empty() {
            return Err(empty());
        }
        let params = TaskStartParams {
            prompt: text.to_owned(),
            mode: mode.map(str::to_owned),
            context: request.context(),
            ..TaskStartParams::default()
        };
        return Ok(Sent::Started(params));
    }
    let whole = written(session, uri).await?;
    let Some(document) = session.task_documents.find(uri) else { return Err(not_a_document(uri)) };
    let (mode, text) = prompt::mode_of(&whole, is_mode);
    let task = tell(session, services, &document, mode, text).await?;
    take(session, uri, whole).await;
    Ok(Sent::Told(task))
}

/// What is written below `## Prompt` in the document of a request.
pub(super) async fn written(session: &Session, uri: &str) -> Result<String> {
    let Some(document) = session.task_documents.find(uri) else { return Err(not_a_document(uri)) };
    let text = match session.documents.get(uri) {
        Some(open) => open.text.to_string(),
        None => tokio::fs::read_to_string(&document.path).await.unwrap_or_default(),
    };
    match prompt::user_text(&text, &document.texts().known()) {
        text if text.is_empty() => Err(Error::invalid_params("write a message below `## Prompt` first")),
        text => Ok(text),
    }
}

/// Takes a text that was sent out of the document in which it was written.
pub(super) async fn take(session: &Session, uri: &str, text: String) {
    if let Some(document) = session.task_documents.find(uri) {
        let sent_on_disk = sent_text::remember(&document.path, MAX_DOCUMENT_BYTES).await;
        let mut texts = document.texts();
        (texts.taken, texts.sent_on_disk) = (Some(text), sent_on_disk);
        drop(texts);
        document.wake.notify_one();
    }
}

fn not_a_document(uri: &str) -> Error {
    let message = format!("{uri} is not a task document; open one with roo.openTask");
    failure(ErrorKind::NotFound, message, None, "Run roo.openTask.")
}

/// Tells a request something: an answer where one of its tasks asks, else a message.
async fn tell(
    session: &Session,
    services: &WorkspaceServices,
    document: &TaskDocument,
    mode: Option<&str>,
    text: &str,
) -> Result<TaskId> {
    let failed = |error: EngineError| engine_failure(&error, Some(&document.root));
    if let Some(mode) = mode {
        services.engine.switch_mode(&document.root, mode).await.map_err(failed)?;
        if text.is_empty() {
            return Ok(document.root.clone());
        }
    }
    let (question, waiting) = {
        let transcript = document.transcript();
        let mut prompts = transcript.view().prompts();
        let question = prompts.find_map(|(task, prompt)| match prompt {
            Prompt::Question(question) => Some((task.clone(), question.clone())),
            Prompt::Approval(_) => None,
        });
        let waiting = transcript.view().prompts().next().map(|(task, _)| task.clone());
        (question, waiting)
    };
    if let Some((task, PendingQuestion { question_id, text: what, .. })) = question {
        let params = QuestionAnswerParams { question_id, text: text.to_owned(), images: vec![] };
        let answer = services.engine.answer(params, session.decider()).await.map_err(failed)?;
        let goes_on = resume_after_answer(session, services, &document.root, &answer).await;
        let told = answer_in_words(&answer, &what, goes_on);
        if !answer.accepted {
            // What was written stays in the document.
            return Err(failure(ErrorKind::WrongState, told, Some(task), "Send it again as a message."));
        }
        if answer.waits || !goes_on {
            session.tell(MessageType::INFO, &told).await;
        }
        return Ok(task);
    }
    let task_id = waiting.unwrap_or_else(|| document.root.clone());
    let params = TaskSendParams {
        task_id: task_id.clone(),
        text: text.to_owned(),
        images: vec![],
        when: SendWhen::Now,
    };
    services.engine.send(params).await.map_err(failed)?;
    Ok(task_id)
}

/// Position of a request in a document, as far as it gives one.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DocumentParams {
    #[serde(default)]
    position: Position,
    #[serde(default)]
    range: Range,
}

/// The requests that are answered here, where they are about a document of ours.
const METHODS: &[&str] = &[
    "textDocument/documentSymbol",
    "textDocument/documentLink",
    "textDocument/hover",
    "textDocument/completion",
    "textDocument/codeAction",
];

/// Answers a request about a document of ours; gives back any other.
pub(super) fn answer(session: &Arc<Session>, request: Request) -> std::result::Result<Answer, Request> {
    if !METHODS.contains(&request.method()) {
        return Err(request);
    }
    let uri = |params: &Value| params.get("textDocument")?.get("uri")?.as_str().map(str::to_owned);
    let Some(uri) = request.params().and_then(uri) else { return Err(request) };
    let is_new = new_request::is_one(&uri);
    let known = session.task_documents.find(&uri);
    let nothing = matches!(request.method(), "textDocument/documentSymbol" | "textDocument/documentLink");
    if known.is_none() && !is_new && !nothing {
        return Err(request);
    }
    let request: DocumentRequest<DocumentParams> = match document_request::read(request) {
        Ok(request) => request,
        Err(answer) => return Ok(answer),
    };
    // The text as it is now: what comes later is another question.
    let text = session.documents.get(&uri).map(|document| document.text);
    let (Some(text), true) = (text, known.is_some() || is_new) else {
        return Ok(request.answer(Value::Null));
    };
    let session = Arc::clone(session);
    let encoding = session.negotiated().map(|negotiated| negotiated.encoding).unwrap_or_default();
    Ok(request.answer_with(|method, asked| async move {
        let place = DocumentPosition {
            uri,
            document: known,
            text,
            position: asked.position,
            range: asked.range,
            encoding,
        };
        match &*method {
            "textDocument/documentSymbol" => Ok(symbols::symbols(&session, &place)),
            "textDocument/documentLink" => Ok(symbols::links(&place)),
            "textDocument/hover" => hover::hover(&session, &place).await,
            "textDocument/completion" => completion::complete(&session, &place).await,
            _ => actions::actions(&session, &place).await,
        }
    }))
}

/// Position in a task document.
struct DocumentPosition {
    uri: String,
    /// None for a request that has not begun.
    document: Option<Arc<TaskDocument>>,
    /// As the editor has it.
    text: Arc<str>,
    position: Position,
    range: Range,
    encoding: Encoding,
}

impl DocumentPosition {
    /// Returns the rendering in the editor's version.
    fn rendering(&self) -> Option<Arc<Rendering>> {
        Some(Arc::clone(self.document.as_ref()?.texts().shown(&self.text)))
    }

    /// Returns the offset of the user's part.
    fn prompt_start(&self) -> usize {
        match &self.document {
            Some(document) => prompt::start(&self.text, &document.texts().known()),
            None => prompt::start(&self.text, &[]),
        }
    }

    fn positions(&self) -> Positions<'_> {
        Positions::new(&self.text, self.encoding)
    }

    /// Converts a range of a rendering to the editor's text.
    fn range_of(positions: &Positions<'_>, range: &std::ops::Range<usize>) -> Range {
        Range { start: positions.position(range.start), end: positions.position(range.end) }
    }
}

/// Returns whether a task in this state can be cancelled, and whether it can be resumed.
fn steerable(state: TaskState) -> (bool, bool) {
    match state {
        TaskState::Running | TaskState::Waiting | TaskState::Paused => (true, false),
        TaskState::Interrupted => (true, true),
        TaskState::Cancelled | TaskState::Failed => (false, true),
        TaskState::Completed => (false, false),
    }
}

/// A place as `context` of a request, on one line: where it is, for people.
fn described(item: &ContextItem, name: &str) -> String {
    match item.range {
        None => name.to_owned(),
        Some(range) => {
            let (first, last) = lines(range);
            if first == last {
                format!("{name}, line {first}")
            } else {
                format!("{name}, lines {first}-{last}")
            }
        }
    }
}

/// The lines of a range, counted from 1. A selection of whole lines ends at the beginning of the next one.
pub(super) fn lines(range: Range) -> (u32, u32) {
    let ends_before = range.end.character == 0 && range.end.line > range.start.line;
    let last = if ends_before { range.end.line - 1 } else { range.end.line };
    (range.start.line.saturating_add(1), last.max(range.start.line).saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_known_by_its_place() {
        let request = |path: &str| request_of(Path::new(path)).map(|id| id.to_string());
        assert_eq!(request("/state/w/requests/abc/task.md").as_deref(), Some("abc"));
        assert_eq!(request("/state/w/requests/abc/tree.txt"), None);
        assert_eq!(request("/work/task.md"), None);
    }

    #[test]
    fn lines_are_those_that_a_user_selected() {
        let at = |line, character| Position { line, character };
        let range = |start, end| lines(Range { start, end });
        assert_eq!(range(at(3, 0), at(5, 0)), (4, 5));
        assert_eq!(range(at(3, 2), at(3, 4)), (4, 4));
        assert_eq!(range(at(3, 0), at(3, 0)), (4, 4));
    }
}
