//! The files of a client that reads and writes them itself (`fs/*`): what its user has not saved of a file is the truth, and
//! edits are made by it. It doesn't say which files its user has open, so it is asked for a file's text whenever that is read or
//! written.
//!
//! An edit is made only where the client's text still is the one that the edit was made from: it is read once more right
//! before. The protocol has no versions, so what is typed in the moment between can't be seen.
//!
//! Not every client loads a file again that a command has changed. Its text is then older than the disk's and not unsaved,
//! which shows in that client and disk once agreed on it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use agent_client_protocol::v1::schema::{
    NoticeSeverity, ReadTextFileRequest, SessionId, WriteTextFileRequest,
};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use roo_durable::read_regular;
use roo_protocol::ids::Digest;
use roo_text::position::{Encoding, Range, apply_change};
use roo_text::render::exact_line;
use roo_workspace::{
    Change, Document, DocumentChange, Documents, EditRefused, Editor, FileOperations, FilePurpose, file_uri,
    path_of,
};
use tokio::time::{Instant, timeout};

use super::client::Client;
use crate::masking::Mask;

/// The largest file that the client is asked for, in bytes.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// Time limit for the text of a file.
const TEXT: Duration = Duration::from_secs(5);
/// Time for which a client isn't asked that took longer.
const REST: Duration = Duration::from_secs(60);
/// The units in which edits count.
const ENCODING: Encoding = Encoding::Utf8;

pub(super) struct ClientFiles {
    client: Client,
    documents: Arc<Documents>,
    /// Files elsewhere are none of the client's.
    folders: Vec<PathBuf>,
    turn: Mutex<TurnState>,
    version: AtomicI32,
    /// Texts that the client had when it was asked.
    bases: Mutex<HashMap<PathBuf, Base>>,
    /// One edit or save at a time: each goes by a look at the client's text right before.
    writing: tokio::sync::Mutex<()>,
    /// The client is not asked before.
    asked_again: Mutex<Option<Instant>>,
    /// Its user was told that it is not asked.
    is_told: AtomicBool,
}

/// What its user has said last.
#[derive(Default)]
struct TurnState {
    /// Sessions that are open, the one that was spoken to last at the end: requests are made in its name.
    sessions: Vec<SessionId>,
    /// The time of it.
    began: Option<SystemTime>,
}

/// Text of a client from which what its user types is told apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Base {
    /// Client and disk agreed on it.
    Agreed(Digest),
    /// The client had it when it was first asked, and the disk had got another one in this turn: a command may have written that,
    /// or the user, who went on typing.
    Doubtful(Digest),
}

/// What counts of a file.
enum Found {
    /// What is on disk, if there is anything. The client has no part in it.
    Disk,
    /// The text on disk. The client has it too, or an older one that is saved.
    Saved(String),
    /// Text of the client that is not saved.
    Unsaved {
        text: String,
        /// The disk's text is not the one that it was made from, and is of this turn: to save would undo what a command has done.
        is_overtaken: bool,
    },
}

impl ClientFiles {
    pub(super) fn new(client: Client, documents: Arc<Documents>, folders: Vec<PathBuf>) -> Self {
        Self {
            client,
            documents,
            folders,
            turn: Mutex::default(),
            version: AtomicI32::new(1),
            bases: Mutex::default(),
            writing: tokio::sync::Mutex::default(),
            asked_again: Mutex::default(),
            is_told: AtomicBool::new(false),
        }
    }

    fn turn(&self) -> MutexGuard<'_, TurnState> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A turn begins. Requests are made in the name of this session from now on.
    pub(super) fn speak_for(&self, session: &SessionId) {
        let mut turn = self.turn();
        turn.sessions.retain(|known| known != session);
        turn.sessions.push(session.clone());
        turn.began = Some(SystemTime::now());
    }

    /// Requests are no longer made in the name of this session.
    pub(super) fn forget(&self, session: &SessionId) {
        self.turn().sessions.retain(|known| known != session);
    }

    fn session(&self) -> Result<SessionId, String> {
        self.turn().sessions.last().cloned().ok_or_else(|| "no session is spoken to".to_owned())
    }

    fn next_version(&self) -> i32 {
        self.version.fetch_add(1, Ordering::SeqCst)
    }

    fn base(&self, path: &Path) -> Option<Base> {
        self.bases.lock().unwrap_or_else(PoisonError::into_inner).get(path).copied()
    }

    fn set_base(&self, path: &Path, base: Base) {
        self.bases.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), base);
    }

    /// The client's text of a file; none where it has none. An error where it can't be asked.
    async fn text(&self, path: &Path) -> Result<Option<String>, String> {
        let session = self.session()?;
        let again = *self.asked_again.lock().unwrap_or_else(PoisonError::into_inner);
        if again.is_some_and(|again| Instant::now() < again) {
            return Err("it took too long before".to_owned());
        }
        let request = ReadTextFileRequest::new(session.clone(), path);
        if let Ok(read) = timeout(TEXT, self.client.read(request)).await {
            return read.map_err(|error| error.message);
        }
        *self.asked_again.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + REST);
        tracing::warn!(path = %path.display(), "the client does not tell the text of a file in time");
        if !self.is_told.swap(true, Ordering::SeqCst) {
            let notice = format!(
                "The editor did not tell the text of {} within {} seconds. When that happens, files are read and written on disk for a \
                 minute, so save yours.",
                exact_line(&path.to_string_lossy()),
                TEXT.as_secs()
            );
            self.client.notice(&session, NoticeSeverity::Warning, &notice, &Mask::default());
        }
        Err("it took too long".to_owned())
    }

    /// Asks the client for a file, and compares that with the disk.
    async fn compare(&self, path: &Path) -> Result<Found, String> {
        let on_disk = on_disk(path).await;
        if on_disk.text == DiskText::Other {
            return Ok(Found::Disk);
        }
        let Some(text) = self.text(path).await? else { return Ok(Found::Disk) };
        let saved = match on_disk.text {
            DiskText::Text(saved) => Some(saved),
            // Some clients say so of files that aren't there.
            DiskText::None if text.is_empty() => return Ok(Found::Disk),
            DiskText::None | DiskText::Other => None,
        };
        let is_new = on_disk.changed.zip(self.turn().began).is_some_and(|(changed, began)| changed > began);
        let lines = digest_of_lines(&text);
        let saved_lines = digest_of_lines(saved.as_deref().unwrap_or_default());
        let base = match self.base(path) {
            _ if lines == saved_lines => Base::Agreed(lines),
            Some(base) => base,
            None if is_new => Base::Doubtful(lines),
            None => Base::Agreed(saved_lines),
        };
        self.set_base(path, base);
        Ok(match base {
            Base::Agreed(agreed) if agreed == lines => saved.map_or(Found::Disk, Found::Saved),
            Base::Doubtful(before) if before == lines => Found::Disk,
            _ if is_new => Found::Unsaved { text, is_overtaken: base != Base::Agreed(saved_lines) },
            _ => {
                // What was on disk before the turn is what its user has typed over.
                self.set_base(path, Base::Agreed(saved_lines));
                Found::Unsaved { text, is_overtaken: false }
            }
        })
    }

    /// Makes the documents hold what counts of a file.
    async fn refresh_document(&self, path: &Path, purpose: FilePurpose) {
        if !self.folders.iter().any(|folder| path.starts_with(folder)) {
            return;
        }
        loop {
            let known = self.documents.at(path);
            let found = self.compare(path).await.unwrap_or_else(|reason| {
                tracing::debug!(path = %path.display(), reason, "the client has no text of a file");
                Found::Disk
            });
            let version = |document: &Option<Document>| document.as_ref().map(|document| document.version);
            if version(&self.documents.at(path)) == version(&known) {
                return self.take_in(path, known, found, purpose);
            }
            // Another one has looked meanwhile, or writes it: what was found is old.
            if purpose == FilePurpose::Read {
                return;
            }
        }
    }

    fn take_in(&self, path: &Path, known: Option<Document>, found: Found, purpose: FilePurpose) {
        let uri = file_uri(path);
        match (found, known) {
            // Its user may have it open: then the edit is the editor's to make.
            (Found::Saved(saved), _) if purpose == FilePurpose::Write => {
                self.documents.open(&uri, self.next_version(), saved);
            }
            (Found::Unsaved { text, .. }, Some(known)) if *known.text == *text => {}
            (Found::Unsaved { text, .. }, _) => self.documents.open(&uri, self.next_version(), text),
            (Found::Saved(_) | Found::Disk, Some(known)) => self.close(&known.uri),
            (Found::Saved(_) | Found::Disk, None) => {}
        }
    }

    fn close(&self, uri: &str) {
        if let Err(error) = self.documents.close(uri) {
            tracing::debug!(%error, "a document was closed before");
        }
    }

    /// Refuses an edit of a text that no longer counts; the one that does is known then.
    async fn check(&self, uri: &str, version: i32) -> Result<(PathBuf, Document), EditRefused> {
        let refused = |reason: &str| EditRefused { reason: reason.to_owned() };
        let path = path_of(uri).ok_or_else(|| refused("it is no file"))?;
        let document = self.documents.get(uri).filter(|document| document.version == version);
        let document = document.ok_or_else(|| refused("its text has changed"))?;
        match self.compare(&path).await.map_err(|reason| EditRefused { reason })? {
            Found::Saved(now) | Found::Unsaved { text: now, .. } if same_lines(&now, &document.text) => {
                Ok((path, document))
            }
            Found::Saved(now) | Found::Unsaved { text: now, .. } => {
                self.documents.open(uri, self.next_version(), now);
                Err(refused("its text has changed"))
            }
            Found::Disk => {
                self.close(uri);
                Err(refused("it is gone"))
            }
        }
    }

    async fn write(&self, path: &Path, document: &Document, after: String) -> Result<(), EditRefused> {
        let session = self.session().map_err(|reason| EditRefused { reason })?;
        let request = WriteTextFileRequest::new(session, path, after.clone());
        self.client.write(request).await.map_err(|error| EditRefused { reason: error.message })?;
        let now = self.text(path).await.ok().flatten().filter(|now| !same_lines(now, &after));
        if now.as_deref().is_some_and(|now| same_lines(now, &document.text)) {
            return Err(EditRefused { reason: "it did not write the text".to_owned() });
        }
        self.changed(&document.uri, after);
        // It may have been formatted.
        if let Some(now) = now {
            self.changed(&document.uri, now);
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
        let DiskText::Text(saved) = on_disk(path).await.text else { return false };
        let is_saved = self.documents.get(uri).is_some_and(|document| same_lines(&document.text, &saved));
        if is_saved {
            self.set_base(path, Base::Agreed(digest_of_lines(&saved)));
        }
        is_saved && self.documents.save(uri).is_ok()
    }
}

impl Editor for ClientFiles {
    fn refresh<'a>(&'a self, path: &'a Path, purpose: FilePurpose) -> BoxFuture<'a, ()> {
        self.refresh_document(path, purpose).boxed()
    }

    fn apply_edit<'a>(
        &'a self,
        _label: &'a str,
        uri: &'a str,
        version: i32,
        edits: Vec<(Range, String)>,
    ) -> BoxFuture<'a, Result<(), EditRefused>> {
        async move {
            let _writing = self.writing.lock().await;
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
            let _writing = self.writing.lock().await;
            let mut checked = Vec::new();
            for change in changes {
                let DocumentChange::Text { uri, version: Some(version), edits } = change else {
                    return Err(EditRefused { reason: "it changes texts of files alone".to_owned() });
                };
                let (_, document) = self.check(&uri, version).await?;
                checked.push((uri, version, edited(&document.text, edits)));
            }
            for (uri, version, after) in checked {
                // Its user may have typed while the others were written.
                let (path, document) = self.check(&uri, version).await?;
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
            let _writing = self.writing.lock().await;
            let mut saved = Vec::new();
            for uri in uris {
                let (Some(path), Some(document)) = (path_of(uri), self.documents.get(uri)) else { continue };
                // What is saved is what its user has now. Clients save what they write.
                let Ok(Found::Unsaved { text, is_overtaken: false }) = self.compare(&path).await else {
                    continue;
                };
                if self.write(&path, &document, text).await.is_ok() && self.note_saved(&path, uri).await {
                    saved.push(uri.clone());
                }
            }
            saved
        }
        .boxed()
    }
}

/// A file as it is on disk.
struct OnDisk {
    text: DiskText,
    /// Time of the last change: of the directory where the file isn't there.
    changed: Option<SystemTime>,
}

#[derive(PartialEq, Eq)]
enum DiskText {
    Text(String),
    None,
    /// It is too large, no text, has a byte order mark, or can't be read.
    Other,
}

async fn on_disk(path: &Path) -> OnDisk {
    let path = path.to_owned();
    let read = tokio::task::spawn_blocking(move || {
        let changed = |path: &Path| path.metadata().and_then(|found| found.modified()).ok();
        // Before the text: what is written in between counts as later.
        let changed_at = changed(&path);
        match read_regular(&path, MAX_FILE_BYTES) {
            Ok(text) if !text.starts_with('\u{feff}') => {
                OnDisk { text: DiskText::Text(text), changed: changed_at }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                OnDisk { text: DiskText::None, changed: path.parent().and_then(changed) }
            }
            _ => OnDisk { text: DiskText::Other, changed: changed_at },
        }
    });
    // The process ends.
    read.await.unwrap_or(OnDisk { text: DiskText::Other, changed: None })
}

/// The digest of a text's lines: clients have line ends of their own.
fn digest_of_lines(text: &str) -> Digest {
    let mut lines = String::with_capacity(text.len() + 1);
    for line in text.lines() {
        lines.push_str(line);
        lines.push('\n');
    }
    Digest::of(lines)
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
