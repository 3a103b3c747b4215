//! The document in which a request is written that has not begun: what it is about, as links, and its prompt.
//! There is one for each workspace.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tower_lsp::jsonrpc::Result;

use super::prompt::HEADING;
use super::{described, lines, prompt, sent_text};
use crate::server::editor::ClientEditor;
use crate::server::failure;
use crate::server::session::{Session, WorkspaceServices};
use roo_durable::PrivateFile;
use roo_protocol::error::ErrorKind;
use roo_protocol::ids::Digest;
use roo_protocol::task::{ContextItem, Position, Range};
use roo_text::position::Positions;
use roo_workspace::{Document, Editor as _, FileOperations, file_uri, path_of};

/// Its name in the workspace's part of the state directory.
const FILE: &str = "new-request.md";
const BEGIN: &str = "# A new request\n\nDescribe the task below, then run the code action \
                     \"Roo: send the prompt\".\n";
const ABOUT: &str = "\n## About\n\n";
/// Time limit for an editor's answer.
const ANSWER: Duration = Duration::from_secs(10);
/// The largest one that is read from the disk, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Returns whether a document could be one, by its names alone.
pub(super) fn is_one(uri: &str) -> bool {
    let Some(path) = path_of(uri) else { return false };
    let above = path.parent().and_then(Path::parent).and_then(Path::file_name);
    path.file_name().is_some_and(|name| name == FILE) && above.is_some_and(|name| name == "workspaces")
}

/// A request that has not begun.
pub(super) struct NewRequest {
    path: PathBuf,
    text: String,
    open: Option<Document>,
}

impl NewRequest {
    /// The one of this workspace, as it is in the editor or on disk. What is on disk and was sent counts as nothing.
    async fn new(session: &Session, services: &WorkspaceServices) -> Result<Self> {
        let path = services.directory.path().join(FILE);
        let open = session.documents.get(&file_uri(&path));
        let text = match &open {
            Some(open) => open.text.to_string(),
            None => {
                let file = PrivateFile::new(&path);
                let read = tokio::task::spawn_blocking(move || file.read(MAX_FILE_BYTES)).await;
                let bytes = read.ok().and_then(std::result::Result::ok).flatten().unwrap_or_default();
                match sent_text::known(&path).await {
                    Some(sent) if sent == Digest::of(&bytes) => String::new(),
                    _ => String::from_utf8(bytes).unwrap_or_default(),
                }
            }
        };
        Ok(Self { path, text, open })
    }

    /// The one of this workspace, if that is the document of this URI.
    pub(super) async fn find(
        session: &Session,
        services: &WorkspaceServices,
        uri: &str,
    ) -> Result<Option<Self>> {
        if !is_one(uri) {
            return Ok(None);
        }
        let this = Self::new(session, services).await?;
        let named = path_of(uri).and_then(|path| path.canonicalize().ok());
        Ok((named == this.path.canonicalize().ok()).then_some(this))
    }

    pub(super) fn prompt(&self) -> String {
        prompt::user_text(&self.text, &[])
    }

    /// Returns the context of the request.
    pub(super) fn context(&self) -> Vec<ContextItem> {
        let head = self.text.get(..prompt::start(&self.text, &[])).unwrap_or_default();
        head.lines().filter_map(read_link).collect()
    }

    /// Gives it another text: in the editor if that has it open.
    async fn replace(&self, session: &Session, text: String) -> Result<()> {
        let failed =
            |message: String| failure(ErrorKind::Storage, message, None, "Check the state directory.");
        let negotiated = session.negotiated();
        let edits = negotiated.and_then(|negotiated| Some((negotiated.edits?, negotiated.encoding)));
        if let (Some(open), Some((edits, encoding))) = (&self.open, edits) {
            let Some((range, new)) = prompt::edit(&open.text, &text) else { return Ok(()) };
            let positions = Positions::new(&open.text, encoding);
            let range = Range { start: positions.position(range.start), end: positions.position(range.end) };
            let editor = ClientEditor {
                client: session.client.clone(),
                edits,
                files: FileOperations::default(),
                reviews: false,
                saves: false,
                answers_code: false,
                ended: session.ended.clone(),
            };
            let applied = editor.apply_edit("A new request", &open.uri, open.version, vec![(range, new)]);
            return match timeout(ANSWER, applied).await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(failed(error.to_string())),
                Err(_) => Err(failed("the editor did not answer".to_owned())),
            };
        }
        let file = PrivateFile::new(&self.path);
        let written = tokio::task::spawn_blocking(move || {
            file.replace(text.as_bytes())?;
            sent_text::forget(file.path());
            Ok::<_, io::Error>(())
        })
        .await;
        match written {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(failed(format!("can't write {}: {error}", self.path.display()))),
            Err(_) => Err(failed("the server is ending".to_owned())),
        }
    }
}

/// Adds what a new request is about; where it is to be written.
pub(in crate::server) async fn add_context(
    session: &Arc<Session>,
    services: &Arc<WorkspaceServices>,
    items: Vec<ContextItem>,
) -> Result<PathBuf> {
    let request = NewRequest::new(session, services).await?;
    let mut about = request.context();
    for item in items {
        if !about.contains(&item) {
            about.push(item);
        }
    }
    let root = services.engine.workspace().roots().paths().next();
    let users = request.text.get(prompt::start(&request.text, &[])..).filter(|_| !request.text.is_empty());
    let text = written(&about, root, users.unwrap_or("\n"));
    request.replace(session, text).await?;
    Ok(request.path)
}

/// Empties the document once its request has begun.
pub(in crate::server) async fn empty(session: &Arc<Session>, services: &Arc<WorkspaceServices>) {
    let Ok(request) = NewRequest::new(session, services).await else { return };
    // Before it is gone from the editor, which may be closed at once.
    sent_text::remember(&request.path, MAX_FILE_BYTES).await;
    if let Err(error) = request.replace(session, written(&[], None, "\n")).await {
        tracing::warn!(%error, "the text that was sent could not be removed from the document for new requests");
    }
}

fn written(about: &[ContextItem], root: Option<&Path>, users: &str) -> String {
    let mut text = BEGIN.to_owned();
    if !about.is_empty() {
        text.push_str(ABOUT);
    }
    for item in about {
        let path = path_of(&item.uri);
        let path =
            path.as_deref().map(|path| root.and_then(|root| path.strip_prefix(root).ok()).unwrap_or(path));
        let name = path.map_or_else(|| item.uri.clone(), |path| path.to_string_lossy().into_owned());
        let name = described(item, &name).replace(['[', ']'], "_");
        let fragment = item.range.map(lines).map(|(first, last)| format!("#L{first}-L{last}"));
        // Writing to a string can't fail.
        let _ = writeln!(text, "- [{name}]({}{})", item.uri, fragment.unwrap_or_default());
    }
    [&text, HEADING, users].concat()
}

/// Reads `- [name](uri#L4-L5)`.
fn read_link(line: &str) -> Option<ContextItem> {
    let (_, target) = line.strip_prefix("- [")?.split_once("](")?;
    let target = target.trim_end().strip_suffix(')')?;
    let (uri, fragment) = target.split_once('#').map_or((target, None), |(uri, part)| (uri, Some(part)));
    let range = fragment.and_then(|fragment| {
        let (first, last) = fragment.split_once('-')?;
        let line = |text: &str| text.strip_prefix('L')?.parse::<u32>().ok().filter(|line| *line > 0);
        let at = |line| Position { line, character: 0 };
        Some(Range { start: at(line(first)? - 1), end: at(line(last)?) })
    });
    path_of(uri)?;
    Some(ContextItem { uri: uri.to_owned(), range })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let at = |line| Position { line, character: 0 };
        let about = [
            ContextItem {
                uri: "file:///work/a%20b.sh".to_owned(),
                range: Some(Range { start: at(3), end: at(5) }),
            },
            ContextItem { uri: "file:///work/c.md".to_owned(), range: None },
        ];
        let text = written(&about, Some(Path::new("/work")), "\nGreet politely\n");
        insta::assert_snapshot!(text);
        let request = NewRequest { path: PathBuf::new(), text, open: None };
        assert_eq!(request.context(), about);
        assert_eq!(request.prompt(), "Greet politely");
    }

    #[test]
    fn one_is_known_by_its_place() {
        assert!(is_one("file:///state/roo-lsp/workspaces/0a/new-request.md"));
        assert!(!is_one("file:///work/new-request.md"));
    }
}
