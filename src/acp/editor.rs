//! The files of a client that reads and writes them itself (`fs/*`): what it has of a file is the truth, and edits are made by
//! it. It doesn't say which files its user has open, so it is asked for a file's text whenever that is read or written.
//!
//! An edit is made only where the client's text still is the one that the edit was made from: it is read once more right
//! before. The protocol has no versions, so what is typed in the moment between can't be seen.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent_client_protocol::v1::schema::{ReadTextFileRequest, SessionId, WriteTextFileRequest};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use roo_text::position::{Encoding, Range, apply_change};
use roo_workspace::{
    Change, Document, DocumentChange, Documents, EditRefused, Editor, FileOperations, FilePurpose, file_uri,
    path_of,
};
use tokio::time::timeout;

use super::client::Client;

/// The largest file that the client is asked for, in bytes.
const LARGEST: u64 = 4 << 20;
/// Time limit for the text of a file. A client that takes longer isn't asked any more.
const TEXT: Duration = Duration::from_secs(5);
/// The units in which edits count.
const ENCODING: Encoding = Encoding::Utf8;

/// The files of a client.
pub(super) struct ClientFiles {
    client: Client,
    documents: Arc<Documents>,
    /// Files elsewhere are none of the client's.
    folders: Vec<PathBuf>,
    /// The session that was spoken to last: requests are made in its name.
    session: Mutex<Option<SessionId>>,
    version: AtomicI32,
    /// It took too long once.
    is_deaf: AtomicBool,
}

impl ClientFiles {
    pub(super) fn new(client: Client, documents: Arc<Documents>, folders: Vec<PathBuf>) -> Self {
        let (session, version, is_deaf) = (Mutex::default(), AtomicI32::new(1), AtomicBool::new(false));
        Self { client, documents, folders, session, version, is_deaf }
    }

    /// Requests are made in the name of this session from now on.
    pub(super) fn speak_for(&self, session: &SessionId) {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(session.clone());
    }

    fn session(&self) -> Option<SessionId> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn next_version(&self) -> i32 {
        self.version.fetch_add(1, Ordering::SeqCst)
    }

    /// The client's text of a file; none where it has none. An error where it can't be asked.
    async fn text(&self, path: &Path) -> Result<Option<String>, String> {
        let session = self.session().ok_or("no session was spoken to")?;
        let read = timeout(TEXT, self.client.read(ReadTextFileRequest::new(session, path))).await;
        match read {
            Ok(read) => read.map_err(|error| error.message),
            Err(_) => {
                self.is_deaf.store(true, Ordering::SeqCst);
                tracing::warn!(path = %path.display(), "the client does not tell the text of a file, and is not asked any more");
                Err("it took too long".to_owned())
            }
        }
    }

    async fn look(&self, path: &Path, purpose: FilePurpose) {
        let is_ours = self.folders.iter().any(|folder| path.starts_with(folder));
        if !is_ours || self.is_deaf.load(Ordering::SeqCst) {
            return;
        }
        let on_disk = match on_disk(path).await {
            OnDisk::Text(text) => Some(text),
            OnDisk::Nothing => None,
            OnDisk::Other => return,
        };
        let (uri, known) = (file_uri(path), self.documents.at(path));
        let text = match self.text(path).await {
            Ok(text) => text,
            Err(reason) => {
                return tracing::debug!(path = %path.display(), reason, "the client has no text of a file");
            }
        };
        let is_saved = |text: &str| on_disk.as_deref().is_some_and(|saved| same_lines(saved, text));
        match (text, known) {
            (Some(text), known) if is_saved(&text) => match (purpose, known, on_disk) {
                // Its user may have it open: then the edit is the editor's to make.
                (FilePurpose::Write, _, Some(saved)) => self.documents.open(&uri, self.next_version(), saved),
                (_, Some(known), _) => self.close(&known.uri),
                _ => {}
            },
            (Some(text), Some(known)) if *known.text == *text => {}
            (Some(text), _) => self.documents.open(&uri, self.next_version(), text),
            (None, Some(known)) => self.close(&known.uri),
            (None, None) => {}
        }
    }

    fn close(&self, uri: &str) {
        if let Err(error) = self.documents.close(uri) {
            tracing::debug!(%error, "a document was closed before");
        }
    }

    /// Refuses an edit of a text that the client no longer has; its text is known then.
    async fn check(&self, uri: &str, version: i32) -> Result<(PathBuf, Document), EditRefused> {
        let refused = |reason: &str| EditRefused { reason: reason.to_owned() };
        let path = path_of(uri).ok_or_else(|| refused("it is no file"))?;
        let document = self.documents.get(uri).filter(|document| document.version == version);
        let document = document.ok_or_else(|| refused("its text has changed"))?;
        let now = self.text(&path).await.map_err(|reason| EditRefused { reason })?;
        match now {
            Some(now) if same_lines(&now, &document.text) => Ok((path, document)),
            Some(now) => {
                self.documents.open(uri, self.next_version(), now);
                Err(refused("its text has changed"))
            }
            None => {
                self.close(uri);
                Err(refused("it is gone"))
            }
        }
    }

    async fn write(&self, path: &Path, document: &Document, after: String) -> Result<(), EditRefused> {
        let refused = |reason: String| EditRefused { reason };
        let session = self.session().ok_or_else(|| refused("no session was spoken to".to_owned()))?;
        let request = WriteTextFileRequest::new(session, path, after.clone());
        self.client.write(request).await.map_err(|error| refused(error.message))?;
        self.changed(&document.uri, after);
        // It may have been formatted.
        if let Ok(Some(now)) = self.text(path).await {
            let told = self.documents.get(&document.uri);
            if told.is_some_and(|told| !same_lines(&told.text, &now)) {
                self.changed(&document.uri, now);
            }
        }
        self.note_saved(path, &document.uri).await;
        Ok(())
    }

    fn changed(&self, uri: &str, text: String) {
        let change = Change { range: None, text };
        if let Err(error) = self.documents.change(uri, self.next_version(), &[change], ENCODING) {
            tracing::debug!(%error, "a document was closed before");
        }
    }

    /// Notes that a document is saved, if it is. Returns whether so.
    async fn note_saved(&self, path: &Path, uri: &str) -> bool {
        let OnDisk::Text(saved) = on_disk(path).await else { return false };
        let is_saved = self.documents.get(uri).is_some_and(|document| same_lines(&document.text, &saved));
        is_saved && self.documents.save(uri).is_ok()
    }
}

impl Editor for ClientFiles {
    fn refresh<'a>(&'a self, path: &'a Path, purpose: FilePurpose) -> BoxFuture<'a, ()> {
        self.look(path, purpose).boxed()
    }

    fn apply_edit<'a>(
        &'a self,
        _label: &'a str,
        uri: &'a str,
        version: i32,
        edits: Vec<(Range, String)>,
    ) -> BoxFuture<'a, Result<(), EditRefused>> {
        async move {
            let (path, document) = self.check(uri, version).await?;
            let after = edited(&document.text, edits);
            self.write(&path, &document, after).await
        }
        .boxed()
    }

    fn apply_all<'a>(
        &'a self,
        _label: &'a str,
        changes: Vec<DocumentChange>,
    ) -> BoxFuture<'a, Result<(), EditRefused>> {
        async move {
            let mut checked = Vec::new();
            for change in changes {
                let DocumentChange::Text { uri, version: Some(version), edits } = change else {
                    return Err(EditRefused { reason: "it changes texts of files alone".to_owned() });
                };
                let (path, document) = self.check(&uri, version).await?;
                let after = edited(&document.text, edits);
                checked.push((path, document, after));
            }
            for (path, document, after) in checked {
                self.write(&path, &document, after).await?;
            }
            Ok(())
        }
        .boxed()
    }

    fn file_operations(&self) -> FileOperations {
        FileOperations::default()
    }

    fn save<'a>(&'a self, uris: &'a [String]) -> BoxFuture<'a, Vec<String>> {
        async move {
            let mut saved = Vec::new();
            for uri in uris {
                let (Some(path), Some(document)) = (path_of(uri), self.documents.get(uri)) else { continue };
                // What is saved is what its user has now. Clients save what they write.
                let Ok(Some(now)) = self.text(&path).await else { continue };
                if self.write(&path, &document, now).await.is_ok() && self.note_saved(&path, uri).await {
                    saved.push(uri.clone());
                }
            }
            saved
        }
        .boxed()
    }
}

/// A file as it is on disk.
enum OnDisk {
    Text(String),
    Nothing,
    /// It is too large, no text, has a byte order mark, or can't be read.
    Other,
}

async fn on_disk(path: &Path) -> OnDisk {
    let path = path.to_owned();
    let read = tokio::task::spawn_blocking(move || match std::fs::metadata(&path) {
        Ok(found) if found.is_file() && found.len() <= LARGEST => match std::fs::read_to_string(&path) {
            Ok(text) if !text.starts_with('\u{feff}') => OnDisk::Text(text),
            _ => OnDisk::Other,
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => OnDisk::Nothing,
        _ => OnDisk::Other,
    });
    // The process ends.
    read.await.unwrap_or(OnDisk::Other)
}

/// Returns whether two texts differ in their line ends at most: clients have their own.
fn same_lines(one: &str, other: &str) -> bool {
    one.lines().eq(other.lines())
}

/// The text with edits, whose ranges are of the text before and don't overlap.
fn edited(text: &str, mut edits: Vec<(Range, String)>) -> String {
    edits.sort_by_key(|(range, _)| (range.start.line, range.start.character));
    let mut after = text.to_owned();
    for (range, new) in edits.into_iter().rev() {
        apply_change(&mut after, Some(range), &new, ENCODING);
    }
    after
}

#[cfg(test)]
mod tests {
    use super::*;
    use roo_text::position::minimal_edits;

    #[test]
    fn edits_lead_from_the_one_text_to_the_other() {
        for (before, after) in
            [("a\nb\nc\n", "a\nx\nc\nd\n"), ("", "x"), ("é\n🦀\n", "🦀\né\n"), ("a\r\nb\r\n", "a\r\nc\r\n")]
        {
            assert_eq!(edited(before, minimal_edits(before, after, ENCODING)), after);
        }
    }

    #[test]
    fn line_ends_make_no_difference() {
        assert!(same_lines("a\r\nb\r\n", "a\nb"));
        assert!(!same_lines("a\nb", "a\nb\nc"));
    }
}
