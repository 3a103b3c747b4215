//! Documents that are open in an editor. Their text takes precedence over the file on disk.
//!
//! Several editors may work on one workspace. Each has documents of its own, which are attached to the workspace's: whoever
//! looks there finds those of all editors.
//!
//! Everything here is synchronous and fast, so that text sync is applied in order of arrival. The disk is only read
//! when a document opens: for its real path, and to find out whether the editor restored unsaved text.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use tokio::sync::{oneshot, watch};

use super::editor::{Editor, EditorId};
use super::editor_state::{DiagnosticsReport, EditorState};
use super::encoding::TextEncoding;
use super::file::{FileText, differs};
use super::recent_writes::WrittenFiles;
use super::resolver::real_path;
use super::uri::path_of;
use roo_protocol::editor::{ActiveEditor, EditorDiagnosticsParams};
use roo_protocol::ids::Digest;
use roo_protocol::task::Range;
use roo_text::position::{Encoding, apply_change};

/// Number of changes, and amount of text, that are kept to apply a late change in order.
const LATE: usize = 16;
const LATE_BYTES: usize = 4 << 20;

/// An open document at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The editor that has it open.
    pub editor: EditorId,
    /// As the editor names it.
    pub uri: String,
    /// The editor's version.
    pub version: i32,
    /// The whole text.
    pub text: Arc<str>,
    /// True if it has text that the editor has not saved.
    pub dirty: bool,
}

/// One change of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Replaced range; the whole text when none.
    pub range: Option<Range>,
    /// The new text.
    pub text: String,
}

/// Reasons why a notification about a document was not applied.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// It was never opened, or is closed.
    #[error("{uri} is not open: its editor must send didOpen first")]
    NotOpen {
        /// The document.
        uri: String,
    },
    /// Versions must grow.
    #[error("{uri} is at version {have}, so a change to version {got} is out of order and was dropped")]
    VersionOrder {
        /// The document.
        uri: String,
        /// Ours.
        have: i32,
        /// The change's.
        got: i32,
    },
}

/// The open documents of an editor, and of those that are attached to it.
pub struct Documents {
    open: Mutex<HashMap<String, OpenDocument>>,
    /// Counts what happened, so that waiting needs no polling.
    revision: watch::Sender<u64>,
    /// Other reports of the editor.
    editor_state: EditorState,
    written: Arc<WrittenFiles>,
    /// Editors whose documents count as well.
    attached: Mutex<AttachedEditors>,
    /// The documents that these are attached to, and under which id.
    host: Mutex<Option<(EditorId, Weak<Documents>)>>,
}

/// An editor with its documents, to be attached to those of a workspace.
#[derive(Clone)]
pub struct AttachedEditor {
    /// Documents open in it.
    pub documents: Arc<Documents>,
    /// Takes edits and saves; none when the client can't.
    pub editor: Option<Arc<dyn Editor>>,
    /// Its position encoding.
    pub encoding: Encoding,
}

/// Editors in the order in which they came.
#[derive(Default)]
struct AttachedEditors {
    editors: Vec<(EditorId, AttachedEditor)>,
    /// The id that was given last.
    last: u64,
    /// The one whose report of its active file counts.
    active: EditorId,
}

/// An editor is attached. It no longer is when this is dropped.
#[must_use = "the editor is detached when this is dropped"]
pub struct Attachment {
    id: EditorId,
    host: Weak<Documents>,
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if let Some(host) = self.host.upgrade() {
            host.detach(self.id);
        }
    }
}

struct OpenDocument {
    version: i32,
    text: Arc<str>,
    dirty: bool,
    /// The real place; none for a document without a file.
    path: Option<PathBuf>,
    /// When it was last opened or changed, which orders documents of different editors too.
    touched: Instant,
    /// The newest changes, by version, so that a late one can be applied in order.
    newest: VecDeque<Applied>,
    /// The version before those.
    base: i32,
    expected: Vec<Expectation>,
}

/// A change that is in a text.
struct Applied {
    version: i32,
    changes: Vec<Change>,
    /// The text that it was made from.
    before: Arc<str>,
}

/// A waiter for a document to have a certain text.
struct Expectation {
    fits: Box<dyn Fn(&str) -> bool + Send>,
    reached: oneshot::Sender<Document>,
}

impl OpenDocument {
    /// Applies changes in the order of their versions. Some editors send fast typing out of order.
    fn apply(&mut self, version: i32, changes: &[Change], encoding: Encoding) -> bool {
        let behind = self.newest.partition_point(|applied| applied.version < version);
        if version <= self.base || self.newest.get(behind).is_some_and(|next| next.version == version) {
            return false;
        }
        let later: Vec<Applied> = self.newest.drain(behind..).collect();
        let before = later.first().map_or_else(|| Arc::clone(&self.text), |next| Arc::clone(&next.before));
        let mut text = String::from(&*before);
        let change = |text: &mut String, changes: &[Change]| {
            for change in changes {
                apply_change(text, change.range, &change.text, encoding);
            }
        };
        change(&mut text, changes);
        self.newest.push_back(Applied { version, changes: changes.to_vec(), before });
        for Applied { version, changes, .. } in later {
            let before = Arc::from(text.as_str());
            change(&mut text, &changes);
            self.newest.push_back(Applied { version, changes, before });
        }
        while self.newest.len() > LATE || self.newest.len() * text.len() > LATE_BYTES {
            let Some(oldest) = self.newest.pop_front() else { break };
            self.base = oldest.version;
        }
        self.dirty |= *text != *self.text;
        self.text = text.into();
        self.version = self.version.max(version);
        true
    }

    fn document(&self, uri: &str) -> Document {
        Document {
            editor: EditorId::default(),
            uri: uri.to_owned(),
            version: self.version,
            text: Arc::clone(&self.text),
            dirty: self.dirty,
        }
    }
}

impl From<&Document> for FileText {
    fn from(document: &Document) -> Self {
        Self {
            text: String::from(&*document.text),
            digest: Digest::of(&*document.text),
            encoding: TextEncoding::UTF_8,
            lossy: false,
        }
    }
}

impl Default for Documents {
    fn default() -> Self {
        Self {
            open: Mutex::default(),
            revision: watch::Sender::new(0),
            editor_state: EditorState::default(),
            written: Arc::default(),
            attached: Mutex::default(),
            host: Mutex::default(),
        }
    }
}

impl Documents {
    /// Counts an editor's documents among these for as long as the result lives. What the editor has reported of itself
    /// counts too.
    pub fn attach(self: &Arc<Self>, editor: AttachedEditor) -> Attachment {
        let (documents, id) = (Arc::clone(&editor.documents), {
            let mut attached = self.attached();
            attached.last += 1;
            let id = EditorId(attached.last);
            attached.editors.push((id, editor));
            id
        });
        *documents.host.lock().unwrap_or_else(PoisonError::into_inner) = Some((id, Arc::downgrade(self)));
        if self.editor_state.adopt(&documents.editor_state, id) {
            self.attached().active = id;
        }
        self.happened();
        Attachment { id, host: Arc::downgrade(self) }
    }

    fn detach(&self, id: EditorId) {
        let (gone, was_active) = {
            let mut attached = self.attached();
            let place = attached.editors.iter().position(|(known, _)| *known == id);
            (place.map(|place| attached.editors.remove(place).1), attached.active == id)
        };
        if let Some(gone) = gone {
            *gone.documents.host.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        if was_active {
            self.editor_state.set_active(None);
        }
        // What it said of a file may have replaced what another editor still says.
        let forgotten = self.editor_state.forget(id);
        for (other, editor) in self.editors() {
            self.editor_state.restore(&editor.documents.editor_state, other, &forgotten);
        }
        self.happened();
    }

    /// The editors that are attached, with their ids.
    pub(super) fn editors(&self) -> Vec<(EditorId, AttachedEditor)> {
        self.attached().editors.clone()
    }

    /// An attached editor; none for the workspace's own, and for one that has gone.
    pub(super) fn editor(&self, id: EditorId) -> Option<AttachedEditor> {
        self.attached().editors.iter().find(|(known, _)| *known == id).map(|(_, editor)| editor.clone())
    }

    /// Adds an opened document, replacing one that is open already.
    pub fn open(&self, uri: &str, version: i32, text: impl Into<Arc<str>>) {
        let path = path_of(uri).map(|path| real_path(&path));
        let text = text.into();
        let entry = OpenDocument {
            version,
            dirty: path.as_deref().and_then(|path| differs(path, &text)) == Some(true),
            text,
            path,
            touched: Instant::now(),
            newest: VecDeque::new(),
            base: version,
            expected: Vec::new(),
        };
        self.lock().insert(uri.to_owned(), entry);
        self.happened();
    }

    /// A document changed; the changes apply one after the other.
    pub fn change(
        &self,
        uri: &str,
        version: i32,
        changes: &[Change],
        encoding: Encoding,
    ) -> Result<(), DocumentError> {
        {
            let mut open = self.lock();
            let entry = open.get_mut(uri).ok_or_else(|| DocumentError::NotOpen { uri: uri.to_owned() })?;
            if !entry.apply(version, changes, encoding) {
                return Err(DocumentError::VersionOrder {
                    uri: uri.to_owned(),
                    have: entry.version,
                    got: version,
                });
            }
            entry.touched = Instant::now();
            // Checked at every version: when the user keeps typing, only one version has the awaited
            // text.
            let document = entry.document(uri);
            for expectation in entry.expected.extract_if(.., |expectation| (expectation.fits)(&document.text))
            {
                // The waiter may have given up.
                let _ = expectation.reached.send(document.clone());
            }
        }
        self.happened();
        Ok(())
    }

    /// A document was saved.
    pub fn save(&self, uri: &str) -> Result<(), DocumentError> {
        {
            let mut open = self.lock();
            let entry = open.get_mut(uri).ok_or_else(|| DocumentError::NotOpen { uri: uri.to_owned() })?;
            entry.dirty = false;
            if let Some(path) = &entry.path {
                let digest = Digest::of(&*entry.text);
                self.written.add(path, Some(digest));
                if let Some((_, host)) = self.host() {
                    host.written.add(path, Some(digest));
                }
            }
        }
        self.happened();
        Ok(())
    }

    /// Returns the recent writes to disk: what editors saved, and through the workspace.
    pub(super) fn written(&self) -> &Arc<WrittenFiles> {
        &self.written
    }

    /// A document was closed; the file on disk is the truth again.
    pub fn close(&self, uri: &str) -> Result<(), DocumentError> {
        let closed = self.lock().remove(uri);
        self.happened();
        closed.map(drop).ok_or_else(|| DocumentError::NotOpen { uri: uri.to_owned() })
    }

    /// The documents open in this editor alone, by their URIs.
    pub fn opened(&self) -> Vec<Document> {
        let mut all: Vec<Document> = self.lock().iter().map(|(uri, entry)| entry.document(uri)).collect();
        all.sort_by(|one, other| one.uri.cmp(&other.uri));
        all
    }

    /// A document by its URI, in any spelling of it.
    pub fn get(&self, uri: &str) -> Option<Document> {
        if let Some(document) = self.own(uri) {
            return Some(document);
        }
        let editors = self.editors();
        let of_editors =
            editors.iter().find_map(|(id, editor)| Some(with_editor(*id, editor.documents.own(uri)?)));
        of_editors.or_else(|| self.at(&real_path(&path_of(uri)?)))
    }

    /// The document of the file at a real path. Of several (one file opened by two names, or in two editors), the one with
    /// unsaved text, then the one touched last.
    pub fn at(&self, path: &Path) -> Option<Document> {
        self.all_at(path).into_iter().max_by_key(Found::rank).map(|found| found.document)
    }

    /// As [`Documents::at`], but the one with the text of this digest comes first: it is what a task has read.
    pub(super) fn at_with(&self, path: &Path, text: Option<Digest>) -> Option<Document> {
        let mut found = self.all_at(path);
        if found.len() > 1
            && let Some(text) = text
            && found.iter().any(|found| Digest::of(&*found.document.text) == text)
        {
            found.retain(|found| Digest::of(&*found.document.text) == text);
        }
        found.into_iter().max_by_key(Found::rank).map(|found| found.document)
    }

    /// The document of the file at a real path in one editor. Of several there, as for [`Documents::at`].
    pub(super) fn at_in(&self, path: &Path, editor: EditorId) -> Option<Document> {
        let found = self.all_at(path).into_iter().filter(|found| found.document.editor == editor);
        found.max_by_key(Found::rank).map(|found| found.document)
    }

    /// The documents with unsaved text of the file at a real path, in other editors than this one.
    pub(super) fn unsaved_elsewhere(&self, path: &Path, editor: EditorId) -> Vec<Document> {
        let all = self.all_at(path).into_iter().map(|found| found.document);
        all.filter(|document| document.dirty && document.editor != editor).collect()
    }

    /// The same document as it is now, in the same editor; none when it was closed.
    pub(super) fn now(&self, document: &Document) -> Option<Document> {
        if document.editor == EditorId::default() {
            return self.own(&document.uri);
        }
        Some(with_editor(document.editor, self.editor(document.editor)?.documents.own(&document.uri)?))
    }

    /// Every open document that has a file, with its real path. Of a file that several editors have open, the one of
    /// [`Documents::at`].
    pub fn with_files(&self) -> Vec<(PathBuf, Document)> {
        let mut all = self.own_with_files();
        let editors = self.editors();
        if editors.is_empty() {
            return all.into_iter().filter_map(|found| Some((found.path?, found.document))).collect();
        }
        for (id, editor) in editors {
            all.extend(editor.documents.own_with_files().into_iter().map(|found| found.with_editor(id)));
        }
        let mut best: HashMap<PathBuf, Found> = HashMap::new();
        for found in all {
            let Some(path) = found.path.clone() else { continue };
            if best.get(&path).is_none_or(|known| known.rank() < found.rank()) {
                best.insert(path, found);
            }
        }
        best.into_iter().map(|(path, found)| (path, found.document)).collect()
    }

    fn own(&self, uri: &str) -> Option<Document> {
        self.lock().get(uri).map(|entry| entry.document(uri))
    }

    fn own_with_files(&self) -> Vec<Found> {
        let open = self.lock();
        open.iter()
            .filter(|(_, entry)| entry.path.is_some())
            .map(|(uri, entry)| Found::new(uri, entry))
            .collect()
    }

    fn own_at(&self, path: &Path) -> Vec<Found> {
        let open = self.lock();
        let at_path = open.iter().filter(|(_, entry)| entry.path.as_deref() == Some(path));
        at_path.map(|(uri, entry)| Found::new(uri, entry)).collect()
    }

    fn all_at(&self, path: &Path) -> Vec<Found> {
        let mut all = self.own_at(path);
        for (id, editor) in self.editors() {
            all.extend(editor.documents.own_at(path).into_iter().map(|found| found.with_editor(id)));
        }
        all
    }

    /// Counts what happened to documents. Waiting for something means: subscribe, look, await a change,
    /// look again.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// Receives a document once a change gives it a text that fits, and an error when it is closed
    /// before. To be called before the change is asked for.
    pub(super) fn expect(
        &self,
        document: &Document,
        fits: impl Fn(&str) -> bool + Send + 'static,
    ) -> oneshot::Receiver<Document> {
        if document.editor == EditorId::default() {
            return self.expect_own(&document.uri, fits);
        }
        match self.editor(document.editor) {
            Some(editor) => editor.documents.expect_own(&document.uri, fits),
            // The sender is dropped: its editor has gone.
            None => oneshot::channel().1,
        }
    }

    fn expect_own(
        &self,
        uri: &str,
        fits: impl Fn(&str) -> bool + Send + 'static,
    ) -> oneshot::Receiver<Document> {
        let (reached, receiver) = oneshot::channel();
        if let Some(entry) = self.lock().get_mut(uri) {
            entry.expected.retain(|expectation| !expectation.reached.is_closed());
            entry.expected.push(Expectation { fits: Box::new(fits), reached });
        }
        receiver
    }

    /// The file that has the user's attention is another one, or none.
    pub fn set_active(&self, active: Option<ActiveEditor>) {
        if let Some((id, host)) = self.host() {
            host.set_active_of(id, active.clone());
        }
        self.editor_state.set_active(active);
    }

    /// An attached editor reports its active file. One that has none says nothing about the others.
    fn set_active_of(&self, editor: EditorId, active: Option<ActiveEditor>) {
        {
            let mut attached = self.attached();
            if active.is_none() && attached.active != editor {
                return;
            }
            attached.active = editor;
        }
        self.editor_state.set_active(active);
    }

    /// Replaces the diagnostics of a file. Positions count in the units of `encoding`, in the text as it is now; where
    /// the file isn't open, a unit counts as a character.
    pub fn set_diagnostics(&self, params: EditorDiagnosticsParams, encoding: Encoding) {
        let Some(path) = path_of(&params.uri).map(|path| real_path(&path)) else { return };
        let text = self.at(&path).map(|document| document.text);
        let report = DiagnosticsReport::new(params.diagnostics, text.as_deref(), encoding);
        if let Some((id, host)) = self.host() {
            host.editor_state.set_diagnostics(path.clone(), report.clone(), id);
        }
        self.editor_state.set_diagnostics(path, report, EditorId::default());
        self.happened();
    }

    pub(super) fn editor_state(&self) -> &EditorState {
        &self.editor_state
    }

    /// The documents that these are attached to.
    fn host(&self) -> Option<(EditorId, Arc<Documents>)> {
        let host = self.host.lock().unwrap_or_else(PoisonError::into_inner);
        host.as_ref().and_then(|(id, host)| Some((*id, host.upgrade()?)))
    }

    fn attached(&self) -> MutexGuard<'_, AttachedEditors> {
        // Every change under the lock is complete or not begun.
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, OpenDocument>> {
        // Every change under the lock is complete or not begun, whatever panicked elsewhere.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn happened(&self) {
        self.revision.send_modify(|revision| *revision = revision.wrapping_add(1));
        if let Some((_, host)) = self.host() {
            host.happened();
        }
    }
}

/// A document that was looked for, with what orders it among others.
struct Found {
    document: Document,
    touched: Instant,
    path: Option<PathBuf>,
}

impl Found {
    fn new(uri: &str, entry: &OpenDocument) -> Self {
        Self { document: entry.document(uri), touched: entry.touched, path: entry.path.clone() }
    }

    fn with_editor(self, editor: EditorId) -> Self {
        Self { document: with_editor(editor, self.document), ..self }
    }

    /// Unsaved text comes before what was touched last.
    fn rank(&self) -> (bool, Instant) {
        (self.document.dirty, self.touched)
    }
}

fn with_editor(editor: EditorId, document: Document) -> Document {
    Document { editor, ..document }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::uri::file_uri;
    use roo_protocol::editor::{EditorDiagnostic, Severity};
    use roo_protocol::task::Position;
    use roo_text::position::Positions;

    const URI: &str = "file:///w/a.rs";

    fn whole(text: &str) -> Change {
        Change { range: None, text: text.to_owned() }
    }

    fn insert(line: u32, character: u32, text: &str) -> Change {
        let place = Position { line, character };
        Change { range: Some(Range { start: place, end: place }), text: text.to_owned() }
    }

    #[test]
    fn changes_apply_in_order_and_make_it_dirty_until_saved() {
        let documents = Documents::default();
        documents.open(URI, 1, "b\n");
        documents.change(URI, 2, &[insert(0, 0, "a"), insert(0, 2, "c")], Encoding::Utf16).unwrap();
        let document = documents.get(URI).unwrap();
        assert_eq!((&*document.text, document.version, document.dirty), ("abc\n", 2, true));
        let mark = documents.written().mark();
        documents.save(URI).unwrap();
        assert!(!documents.get(URI).unwrap().dirty);
        let path = real_path(&path_of(URI).unwrap());
        assert!(documents.written().since(&mark).left(&path, Some(Digest::of("abc\n"))));
        documents.close(URI).unwrap();
        assert_eq!(documents.get(URI), None);
    }

    proptest! {
        #[test]
        fn what_comes_late_takes_its_place(typed in "[a-zäß\n]{1,40}", swaps in vec(0usize..38, 0..12)) {
            let mut order: Vec<(i32, Vec<Change>)> = Vec::new();
            let mut text = String::from("begin");
            for (version, c) in (2..).zip(typed.chars()) {
                let positions = Positions::new(&text, Encoding::Utf16);
                let end = positions.position(text.len());
                let range = Some(Range { start: end, end });
                order.push((version, vec![Change { range, text: c.to_string() }]));
                text.push(c);
            }
            for at in swaps {
                if at + 1 < order.len() {
                    order.swap(at, at + 1);
                }
            }
            let documents = Documents::default();
            documents.open(URI, 1, "begin");
            for (version, changes) in &order {
                prop_assert_eq!(documents.change(URI, *version, changes, Encoding::Utf16), Ok(()));
            }
            let document = documents.get(URI).unwrap();
            prop_assert_eq!((&*document.text, document.version), (text.as_str(), typed.chars().count() as i32 + 1));
            // None of them counts twice.
            for (version, changes) in order {
                prop_assert!(documents.change(URI, version, &changes, Encoding::Utf16).is_err());
            }
        }
    }

    #[test]
    fn a_change_out_of_order_is_an_error_and_changes_nothing() {
        let documents = Documents::default();
        documents.open(URI, 5, "text");
        for got in [5, 4, i32::MIN] {
            let error = documents.change(URI, got, &[whole("other")], Encoding::Utf8).unwrap_err();
            assert_eq!(error, DocumentError::VersionOrder { uri: URI.to_owned(), have: 5, got });
        }
        assert_eq!(&*documents.get(URI).unwrap().text, "text");
        // Versions may skip.
        documents.change(URI, 9, &[whole("other")], Encoding::Utf8).unwrap();
    }

    #[test]
    fn what_is_not_open_is_an_error() {
        let documents = Documents::default();
        let error = DocumentError::NotOpen { uri: URI.to_owned() };
        assert_eq!(documents.change(URI, 1, &[], Encoding::Utf8), Err(error));
        assert!(documents.save(URI).is_err());
        assert!(documents.close(URI).is_err());
    }

    #[test]
    fn two_spellings_of_one_file_meet() {
        let directory = tempfile::tempdir().unwrap();
        let real = directory.path().canonicalize().unwrap().join("ä b.rs");
        fs::write(&real, "disk").unwrap();
        let link = directory.path().join("link.rs");
        symlink(&real, &link).unwrap();

        let documents = Documents::default();
        documents.open(&file_uri(&link), 1, "buffer");
        assert_eq!(&*documents.at(&real).unwrap().text, "buffer");
        assert_eq!(&*documents.get(&file_uri(&real)).unwrap().text, "buffer");
        let spelled = file_uri(&real).replace("%C3%A4", "ä").replace("%20", " ");
        assert_eq!(&*documents.get(&spelled).unwrap().text, "buffer");
    }

    #[test]
    fn of_two_documents_of_one_file_the_unsaved_one_counts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap().join("a.rs");
        fs::write(&path, "disk").unwrap();
        let (uri, other) = (file_uri(&path), file_uri(&path).replace("a.rs", "%61.rs"));
        let documents = Documents::default();
        documents.open(&uri, 1, "disk");
        documents.open(&other, 1, "disk");
        assert_eq!(documents.at(&path).unwrap().uri, other);
        documents.change(&uri, 2, &[whole("typed")], Encoding::Utf8).unwrap();
        documents.open(&other, 3, "disk");
        assert_eq!(documents.at(&path).unwrap().uri, uri);
    }

    #[test]
    fn an_expected_text_is_noticed_even_when_it_is_typed_over() {
        let documents = Documents::default();
        documents.open(URI, 1, "old");
        let mut reached = documents.expect(&documents.get(URI).unwrap(), |text| text == "new");
        documents.change(URI, 2, &[whole("half")], Encoding::Utf8).unwrap();
        assert!(reached.try_recv().is_err());
        documents.change(URI, 3, &[whole("new")], Encoding::Utf8).unwrap();
        documents.change(URI, 4, &[whole("new and typed")], Encoding::Utf8).unwrap();
        assert_eq!(reached.try_recv().unwrap().version, 3);
    }

    #[test]
    fn waiting_for_a_document_ends_when_it_is_closed() {
        let documents = Documents::default();
        documents.open(URI, 1, "old");
        let document = documents.get(URI).unwrap();
        let mut reached = documents.expect(&document, |_| true);
        documents.close(URI).unwrap();
        assert_eq!(reached.try_recv(), Err(oneshot::error::TryRecvError::Closed));
        assert_eq!(
            documents.expect(&document, |_| true).try_recv(),
            Err(oneshot::error::TryRecvError::Closed)
        );
    }

    /// An editor without documents yet, attached to a workspace's.
    fn attached(shared: &Arc<Documents>) -> (Arc<Documents>, Attachment) {
        let documents = Arc::new(Documents::default());
        let editor =
            AttachedEditor { documents: Arc::clone(&documents), editor: None, encoding: Encoding::Utf8 };
        let attachment = shared.attach(editor);
        (documents, attachment)
    }

    #[test]
    fn documents_of_attached_editors_are_found_until_they_are_detached() {
        let shared = Arc::new(Documents::default());
        let (editor, attachment) = attached(&shared);
        let happenings = shared.subscribe();
        editor.open(URI, 3, "buffer");
        assert!(happenings.has_changed().unwrap(), "what happens in an editor is told to whoever waits");
        let document = shared.get(URI).unwrap();
        assert_eq!((&*document.text, document.version, document.editor), ("buffer", 3, EditorId(1)));
        let mut reached = shared.expect(&document, |text| text == "new");
        editor.change(URI, 4, &[whole("new")], Encoding::Utf8).unwrap();
        assert_eq!(reached.try_recv().unwrap().version, 4);
        drop(attachment);
        assert_eq!(shared.get(URI), None);
        assert_eq!(shared.now(&document), None);
        assert!(shared.expect(&document, |_| true).try_recv().is_err());
        assert_eq!(editor.get(URI).unwrap().version, 4, "the editor keeps its own");
    }

    #[test]
    fn of_two_editors_the_one_with_the_text_that_was_read_counts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap().join("a.rs");
        fs::write(&path, "disk").unwrap();
        let uri = file_uri(&path);
        let shared = Arc::new(Documents::default());
        let ((one, _one), (other, _other)) = (attached(&shared), attached(&shared));
        one.open(&uri, 1, "disk");
        other.open(&uri, 1, "disk");
        one.change(&uri, 2, &[whole("typed here")], Encoding::Utf8).unwrap();
        assert_eq!(&*shared.at(&path).unwrap().text, "typed here", "unsaved text counts");
        other.change(&uri, 2, &[whole("typed there")], Encoding::Utf8).unwrap();
        assert_eq!(&*shared.at(&path).unwrap().text, "typed there", "then the newest");
        let read = Some(Digest::of("typed here"));
        assert_eq!(shared.at_with(&path, read).unwrap().editor, EditorId(1));
        let gone = Some(Digest::of("read long ago"));
        assert_eq!(shared.at_with(&path, gone).unwrap().editor, EditorId(2));
        assert_eq!(shared.with_files().len(), 1, "a file is one file");
        let elsewhere = shared.unsaved_elsewhere(&path, EditorId(1));
        assert_eq!(elsewhere.iter().map(|document| document.editor).collect::<Vec<_>>(), [EditorId(2)]);
    }

    #[test]
    fn what_an_editor_has_reported_ends_with_it() {
        let problem = |message: &str| EditorDiagnostic {
            range: Range::default(),
            severity: Severity::Error,
            source: None,
            message: message.to_owned(),
        };
        let report = |editor: &Documents, uri: &str, messages: &[&str]| {
            let diagnostics = messages.iter().map(|message| problem(message)).collect();
            editor.set_diagnostics(
                EditorDiagnosticsParams { uri: uri.to_owned(), diagnostics },
                Encoding::Utf8,
            );
        };
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let shared = Arc::new(Documents::default());
        let workspace = crate::Workspace::open(crate::Setup {
            folders: vec![root.clone()],
            state_directory: root.join("state"),
            documents: Arc::clone(&shared),
            editor: None,
            encoding: Encoding::Utf8,
        })
        .unwrap();
        let messages = || {
            let found = workspace.diagnostics()?;
            Some(found.into_iter().map(|found| found.message).collect::<Vec<_>>())
        };
        let ((one, one_is_there), (other, other_is_there)) = (attached(&shared), attached(&shared));
        let (both, only) = (file_uri(&root.join("a.rs")), file_uri(&root.join("b.rs")));
        report(&other, &both, &["of the other"]);
        report(&one, &both, &["of the one"]);
        report(&one, &only, &["of a file that the other has not looked at"]);
        assert_eq!(messages().unwrap().len(), 2);
        drop(one_is_there);
        assert_eq!(messages().unwrap(), ["of the other"], "its report counts again");
        drop(other_is_there);
        assert_eq!(messages(), None, "no editor is left that could report anything");
    }

    #[test]
    fn what_an_attached_editor_saves_is_known() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap().join("a.rs");
        let shared = Arc::new(Documents::default());
        let (editor, _attachment) = attached(&shared);
        let mark = shared.written().mark();
        editor.open(&file_uri(&path), 1, "text");
        editor.save(&file_uri(&path)).unwrap();
        assert!(shared.written().since(&mark).left(&path, Some(Digest::of("text"))));
    }
}
