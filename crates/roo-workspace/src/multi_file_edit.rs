//! Several files that change together or not at all, in editors and on disk.
//!
//! The changes on disk are prepared first, then the editor is asked to change its open documents in one request, and
//! only then do the files on disk change. What is likely to fail thus fails before anything has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};

use super::commit::{WriteError, encode, is_expected};
use super::editor::{DocumentChange, EditRefused, Editor, FilePurpose};
use super::encoding::TextEncoding;
use super::file::{Contents, EDIT_LIMIT, FileText, ReadError, digest_of_text, read_disk};
use super::journal::{FileStep, Journal, Prepared};
use super::lock::WorkspaceLock;
use super::resolver::{Location, Resolved};
use super::{ANSWER_DEADLINE, CHANGE_DEADLINE, Document, EditorId, Workspace, blocking, is_on_disk};
use roo_protocol::ids::Digest;
use roo_text::lines::BOM;
use roo_text::position::minimal_edits;

/// One file of a multi-file edit.
#[derive(Clone, Debug)]
pub enum FileEdit {
    /// Creates a file.
    Create {
        /// The file, which must not exist.
        file: Resolved,
        text: String,
        /// The encoding that it gets on disk.
        encoding: TextEncoding,
    },
    /// Changes a file's text.
    Update {
        file: Resolved,
        /// Its current text.
        before: String,
        /// Its new text.
        after: String,
    },
    /// Deletes a file.
    Delete {
        file: Resolved,
        /// Its current text.
        before: String,
    },
    /// Renames a file, and perhaps changes its text.
    Move {
        /// The file.
        from: Resolved,
        /// Destination, where nothing exists yet.
        to: Resolved,
        /// Its current text.
        before: String,
        /// Its new text.
        after: String,
    },
}

impl FileEdit {
    /// Creates a file in UTF-8.
    pub fn create(file: Resolved, text: String) -> Self {
        Self::Create { file, text, encoding: TextEncoding::UTF_8 }
    }

    /// The whole texts that it replaces and writes, each with its file's path.
    pub fn texts(&self) -> Vec<(String, String)> {
        let of = |file: &Resolved, text: &String| (file.display(), text.clone());
        match self {
            Self::Create { file, text, .. } | Self::Delete { file, before: text } => vec![of(file, text)],
            Self::Update { file, before, after } => vec![of(file, before), of(file, after)],
            // The old text is compared in the language of the new name.
            Self::Move { to, before, after, .. } => vec![of(to, before), of(to, after)],
        }
    }

    /// The file as it is called before; after, if it is created.
    pub fn file(&self) -> &Resolved {
        match self {
            Self::Create { file, .. } | Self::Update { file, .. } | Self::Delete { file, .. } => file,
            Self::Move { from, .. } => from,
        }
    }

    /// The new name of a file that is moved.
    pub fn moved_to(&self) -> Option<&Resolved> {
        match self {
            Self::Move { to, .. } => Some(to),
            _ => None,
        }
    }

    /// The text before; none for a file that is created.
    pub fn before(&self) -> Option<&str> {
        match self {
            Self::Create { .. } => None,
            Self::Update { before, .. } | Self::Delete { before, .. } | Self::Move { before, .. } => {
                Some(before)
            }
        }
    }

    /// The text after; none for a file that is deleted.
    pub fn after(&self) -> Option<&str> {
        match self {
            Self::Create { text, .. } => Some(text),
            Self::Update { after, .. } | Self::Move { after, .. } => Some(after),
            Self::Delete { .. } => None,
        }
    }

    /// The edit that takes this one back, with the encoding of the file that it deleted.
    #[must_use]
    pub fn inverse(self, encoding: TextEncoding) -> Self {
        match self {
            Self::Create { file, text, .. } => Self::Delete { file, before: text },
            Self::Update { file, before, after } => Self::Update { file, before: after, after: before },
            Self::Delete { file, before } => Self::Create { file, text: before, encoding },
            Self::Move { from, to, before, after } => {
                Self::Move { from: to, to: from, before: after, after: before }
            }
        }
    }

    /// Every path that it changes.
    pub fn places(&self) -> impl Iterator<Item = &Resolved> {
        [self.file()].into_iter().chain(self.moved_to())
    }
}

/// Edit of a file that is no text, or becomes none or text again, in a multi-file edit: its bytes are replaced, whatever they are.
#[derive(Clone, Debug)]
pub struct BytesEdit {
    pub file: Resolved,
    /// Its current bytes; none where it must not exist.
    pub before: Option<Arc<[u8]>>,
    /// Its new bytes; none to delete it.
    pub after: Option<Arc<[u8]>>,
}

impl BytesEdit {
    /// The edit that takes this one back.
    #[must_use]
    pub fn inverse(self) -> Self {
        Self { file: self.file, before: self.after, after: self.before }
    }
}

/// A file that a multi-file edit changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFile {
    /// The document, by its name after.
    pub uri: String,
    /// The digest before; none for a file that was created.
    pub before: Option<Digest>,
    /// The digest after, of the buffer's text where the file is open; none for a file that was deleted.
    pub after: Option<Digest>,
    /// The digest of the text after, which differs where its encoding is not plain UTF-8.
    pub text_after: Option<Digest>,
    /// The encoding of a file that was deleted or moved, as it was on disk; none for any other.
    pub removed_encoding: Option<TextEncoding>,
    /// True for a file that was deleted or moved and that its owner could execute.
    pub removed_executable: bool,
}

/// What is known of a file that is about to be deleted or moved.
#[derive(Clone, Copy, Default)]
pub(super) struct RemovedFile {
    pub(super) encoding: Option<TextEncoding>,
    pub(super) executable: bool,
}

/// An edit of a document that is open in the editor.
struct OpenFileEdit<'a> {
    edit: &'a FileEdit,
    document: Document,
    change: DocumentChange,
}

impl Workspace {
    /// Changes several files if each still has the text that its edit was made from, else none of them. Open files are
    /// changed in their editor and not saved, closed ones on disk. `label` is for the editor's history. The
    /// files are of one workspace folder and none is named twice.
    ///
    /// # Errors
    /// [`WriteError`]; nothing has changed then, unless it says so.
    pub async fn write_all(&self, edits: &[FileEdit], label: &str) -> Result<Vec<ChangedFile>, WriteError> {
        self.write_all_with(edits, &[], label).await
    }

    /// Changes several files as [`Self::write_all`] does, together with files that are no text, which no editor has open. Returns
    /// what became of the texts.
    ///
    /// # Errors
    /// As for [`Self::write_all`].
    pub async fn write_all_with(
        &self,
        edits: &[FileEdit],
        bytes: &[BytesEdit],
        label: &str,
    ) -> Result<Vec<ChangedFile>, WriteError> {
        let places = || edits.iter().flat_map(FileEdit::places).chain(bytes.iter().map(|edit| &edit.file));
        let first = || places().next().map(Resolved::display).unwrap_or_default();
        // In one order for all, so that two changes never wait for each other.
        let paths: BTreeSet<PathBuf> = places().map(|place| place.absolute().to_path_buf()).collect();
        let mut writers = Vec::new();
        for path in &paths {
            writers.push(self.only_writer(path).await);
        }
        for place in places() {
            self.check_ignored(place)?;
        }
        let texts = edits.iter().map(|edit| (edit.file(), edit.after().map_or(0, str::len)));
        let sizes =
            texts.chain(bytes.iter().map(|edit| (&edit.file, edit.after.as_ref().map_or(0, |it| it.len()))));
        for (file, size) in sizes {
            let size = size as u64;
            if size > EDIT_LIMIT {
                return Err(WriteError::TooLarge { path: file.display(), size });
            }
        }
        for place in places() {
            self.refresh(place, FilePurpose::Write).await;
        }
        let removed = self.removed_files(edits).await;
        let (mut open, mut closed) = (Vec::new(), Vec::new());
        for edit in edits {
            match self.in_editor(edit)? {
                Some(change) => open.push(change),
                None => closed.push(edit.clone()),
            }
        }
        for edit in bytes {
            self.check_closed(&edit.file)?;
        }
        let mut prepared = self.prepare(closed, bytes.to_vec(), &open).await?;
        if !open.is_empty() {
            if let Some((mut waiting, lock)) = prepared.take() {
                let place = first();
                let said = blocking(move || waiting.edits().map(|()| (waiting, lock)));
                prepared =
                    Some(said.await.unwrap_or_else(|source| Err(WriteError::Io { path: place, source }))?);
            }
            if let Err(error) = self.edit_all(&open, label).await {
                if let Some((prepared, lock)) = prepared {
                    let _ = blocking(move || (prepared.abandon(), lock)).await;
                }
                return Err(error);
            }
        }
        if let Some((prepared, lock)) = prepared {
            // Runs to its end even if the caller is cancelled.
            let (places, written) =
                (places().cloned().collect::<Vec<_>>(), Arc::clone(self.documents.written()));
            let committed = blocking(move || {
                let committed = prepared.commit();
                if committed.is_ok() {
                    places.iter().for_each(|place| written.add(place.absolute(), digest_on_disk(place)));
                }
                drop(lock);
                committed
            });
            let place = first();
            let committed =
                committed.await.unwrap_or_else(|source| Err(WriteError::Io { path: place, source }));
            if let Err(error) = committed {
                let mut left = self.take_back(&open.iter().collect::<Vec<_>>(), label).await;
                return Err(match error {
                    error if left.is_empty() => error,
                    WriteError::Unsettled { mut files } => {
                        files.append(&mut left);
                        WriteError::Unsettled { files }
                    }
                    _ => WriteError::Unsettled { files: left },
                });
            }
        }
        let changed = edits.iter().zip(removed).map(|(edit, removed)| {
            let open = open.iter().find(|open| std::ptr::eq(open.edit, edit));
            self.changed(edit, open, removed)
        });
        let changed = changed.collect();
        for one in &open {
            self.tell_others(one.edit.file(), one.document.editor);
        }
        for place in places() {
            self.refresh(place, FilePurpose::Read).await;
        }
        Ok(changed)
    }

    /// Looks at the files that are about to be deleted or moved, as they are on disk; there is nothing to know for any other
    /// edit.
    pub(super) async fn removed_files(&self, edits: &[FileEdit]) -> Vec<RemovedFile> {
        let mut all = Vec::new();
        for edit in edits {
            all.push(match edit {
                FileEdit::Delete { file, .. } | FileEdit::Move { from: file, .. } => {
                    let found = file.absolute().metadata();
                    RemovedFile {
                        encoding: Some(self.encoding_on_disk(file).await),
                        executable: found.is_ok_and(|found| found.permissions().mode() & 0o100 != 0),
                    }
                }
                FileEdit::Create { .. } | FileEdit::Update { .. } => RemovedFile::default(),
            });
        }
        all
    }

    /// Returns the encoding of a file on disk, whatever an editor has; plain UTF-8 where there is no text.
    pub async fn encoding_on_disk(&self, file: &Resolved) -> TextEncoding {
        let place = file.clone();
        match blocking(move || Contents::of_file(&place, EDIT_LIMIT)).await {
            Ok(Ok(Contents::Text(text))) => text.encoding,
            _ => TextEncoding::UTF_8,
        }
    }

    /// Returns the bytes of a file on disk, whatever an editor has.
    ///
    /// # Errors
    /// [`ReadError`].
    pub async fn bytes_on_disk(&self, file: &Resolved) -> Result<Vec<u8>, ReadError> {
        let place = file.clone();
        let read = blocking(move || read_disk(&place, EDIT_LIMIT)).await;
        read.unwrap_or_else(|source| Err(ReadError::Io { path: file.display(), source }))
    }

    /// Returns the edit by which a text file gets a text in another encoding; none where it has that encoding already, or where an
    /// editor, which minds the encoding itself, has it open. `text_before` is what the file is known to hold, with a byte order mark
    /// or without one.
    ///
    /// # Errors
    /// [`WriteError`] where the file can't be read or holds another text, or the encoding lacks a character.
    pub async fn recoded(
        &self,
        file: &Resolved,
        text_before: &str,
        after: &str,
        encoding: TextEncoding,
    ) -> Result<Option<BytesEdit>, WriteError> {
        let before = self.bytes_on_disk(file).await?;
        let Contents::Text(now) = Contents::from_bytes(before.clone()) else { return Ok(None) };
        if now.encoding == encoding || self.documents.at(file.absolute()).is_some() {
            return Ok(None);
        }
        let without_mark = |text: &str| Digest::of(text.strip_prefix(BOM).unwrap_or(text));
        let (expected, actual) = (without_mark(text_before), without_mark(&now.text));
        if actual != expected {
            return Err(WriteError::Stale { path: file.display(), expected, actual: Some(actual) });
        }
        let after = encode(file, encoding, after)?;
        Ok(Some(BytesEdit { file: file.clone(), before: Some(before.into()), after: Some(after.into()) }))
    }

    fn changed(&self, edit: &FileEdit, open: Option<&OpenFileEdit<'_>>, removed: RemovedFile) -> ChangedFile {
        let place = edit.moved_to().unwrap_or(edit.file());
        let document = match open {
            Some(open) => self.edited(open),
            None => self.documents.at_with(place.absolute(), edit.after().map(Digest::of)),
        };
        let after = edit.after().map(|after| match &document {
            Some(document) => Digest::of(&*document.text),
            None => digest_on_disk(place).unwrap_or_else(|| Digest::of(after)),
        });
        let text_after = match &document {
            Some(_) => after,
            None => edit.after().map(Digest::of),
        };
        ChangedFile {
            uri: document.map_or_else(|| place.uri(), |document| document.uri),
            before: edit.before().map(Digest::of),
            after,
            text_after,
            removed_encoding: removed.encoding,
            removed_executable: removed.executable,
        }
    }

    /// The document that an edit was made in, as it is now, whatever other editors have of its file.
    fn edited(&self, open: &OpenFileEdit<'_>) -> Option<Document> {
        match open.edit.moved_to() {
            Some(to) if matches!(open.change, DocumentChange::Rename { .. }) => {
                self.documents.at_in(to.absolute(), open.document.editor)
            }
            _ => self.documents.now(&open.document),
        }
    }

    /// Returns the editor's task for an edit; none for a file that it doesn't have open.
    fn in_editor<'a>(&self, edit: &'a FileEdit) -> Result<Option<OpenFileEdit<'a>>, WriteError> {
        let path = || edit.file().display();
        if let Some(to) = edit.moved_to()
            && (self.documents.at(to.absolute()).is_some() || is_on_disk(to))
        {
            return Err(WriteError::Exists { path: to.display() });
        }
        let expected = edit.before().map(Digest::of);
        let Some(document) = self.documents.at_with(edit.file().absolute(), expected) else {
            return Ok(None);
        };
        let current = Digest::of(&*document.text);
        match expected {
            Some(expected) if expected == current => {}
            Some(expected) => {
                return Err(WriteError::Stale { path: path(), expected, actual: Some(current) });
            }
            // An editor may have a file open that is yet to be written.
            None if document.text.is_empty() && !is_on_disk(edit.file()) => {}
            None => return Err(WriteError::Exists { path: path() }),
        }
        let does = self.editor_of(document.editor).map(|editor| editor.file_operations());
        let encoding = self.encoding_of(document.editor);
        let edits = |after: &str| minimal_edits(&document.text, after, encoding);
        let uri = document.uri.clone();
        let change = match (edit, does) {
            (FileEdit::Create { text: after, .. } | FileEdit::Update { after, .. }, Some(_)) => {
                DocumentChange::Text { uri, version: Some(document.version), edits: edits(after) }
            }
            (FileEdit::Delete { .. }, Some(does)) if does.delete => DocumentChange::Delete { uri },
            (FileEdit::Move { to, after, .. }, Some(does)) if does.rename => {
                DocumentChange::Rename { from: uri, to: to.uri(), edits: edits(after) }
            }
            _ if document.dirty => return Err(WriteError::Unsaved { path: path() }),
            _ => return Ok(None),
        };
        Ok(Some(OpenFileEdit { edit, document, change }))
    }

    /// Prepares what changes on disk.
    async fn prepare(
        &self,
        closed: Vec<FileEdit>,
        bytes: Vec<BytesEdit>,
        open: &[OpenFileEdit<'_>],
    ) -> Result<Option<(Prepared, WorkspaceLock)>, WriteError> {
        let mut files = closed.iter().map(FileEdit::file).chain(bytes.iter().map(|edit| &edit.file));
        let Some(first) = files.next().cloned() else { return Ok(None) };
        let lock = self.lock(&first).await?;
        let root = match first.location() {
            Location::Inside { root } => self.roots.paths().nth(root),
            Location::Outside => None,
        };
        let journal = Journal::beside(&self.lock_file(root));
        let buffers = open.iter().map(|open| {
            let place = open.edit.moved_to().unwrap_or(open.edit.file());
            (place.absolute().to_path_buf(), open.edit.after().map(Digest::of))
        });
        let buffers = buffers.collect();
        let prepared = blocking(move || {
            let mut steps = Vec::new();
            for edit in &closed {
                steps.extend(steps_of(edit)?);
            }
            for edit in &bytes {
                steps.push(step_of_bytes(edit)?);
            }
            Prepared::new(journal, steps, buffers).map(|prepared| (prepared, lock))
        });
        let path = first.display();
        prepared.await.unwrap_or_else(|source| Err(WriteError::Io { path, source })).map(Some)
    }

    /// Has each editor change its open documents in one request. Where one doesn't, those before it undo their changes.
    async fn edit_all(&self, open: &[OpenFileEdit<'_>], label: &str) -> Result<(), WriteError> {
        let ids: BTreeSet<EditorId> = open.iter().map(|open| open.document.editor).collect();
        let mut done = Vec::new();
        for id in ids {
            let part: Vec<&OpenFileEdit<'_>> =
                open.iter().filter(|open| open.document.editor == id).collect();
            let edited = match self.editor_of(id) {
                Some(editor) => self.edit_in(editor.as_ref(), &part, label).await,
                None => {
                    let path = part.first().map(|open| open.edit.file().display()).unwrap_or_default();
                    Err(WriteError::Refused { path, reason: "it was closed".to_owned() })
                }
            };
            if let Err(error) = edited {
                let mut left = self.take_back(&done, label).await;
                return Err(match error {
                    error if left.is_empty() => error,
                    WriteError::Unsettled { mut files } => {
                        files.append(&mut left);
                        WriteError::Unsettled { files }
                    }
                    _ => WriteError::Unsettled { files: left },
                });
            }
            done.extend(part);
        }
        Ok(())
    }

    /// Has an editor change its open documents in one request.
    async fn edit_in(
        &self,
        editor: &dyn Editor,
        open: &[&OpenFileEdit<'_>],
        label: &str,
    ) -> Result<(), WriteError> {
        let changes: Vec<DocumentChange> = open.iter().map(|open| open.change.clone()).collect();
        let expected: Vec<Option<oneshot::Receiver<Document>>> = open
            .iter()
            .map(|open| match (&open.change, open.edit.after()) {
                (DocumentChange::Text { edits, .. }, Some(after)) if !edits.is_empty() => {
                    let wanted = after.to_owned();
                    // Editors may turn line ends into the document's own and care for the last one themselves.
                    Some(self.documents.expect(&open.document, move |text| text.lines().eq(wanted.lines())))
                }
                _ => None,
            })
            .collect();
        let first = || open.first().map(|open| open.edit.file().display()).unwrap_or_default();
        match timeout(ANSWER_DEADLINE, editor.apply_all(label, changes)).await {
            Ok(Ok(())) => {}
            Ok(Err(EditRefused { reason })) => {
                let touched = open.iter().find(|open| {
                    let now = self.documents.now(&open.document);
                    now.is_none_or(|now| now.text != open.document.text)
                });
                let Some(touched) = touched else {
                    return Err(WriteError::Refused { path: first(), reason });
                };
                let left = self.take_back(open, label).await;
                return Err(match left.is_empty() {
                    true => WriteError::Stale {
                        path: touched.edit.file().display(),
                        expected: Digest::of(&*touched.document.text),
                        actual: self.documents.now(&touched.document).map(|now| Digest::of(&*now.text)),
                    },
                    false => WriteError::Unsettled { files: left },
                });
            }
            Err(_) => return Err(self.not_shown(open, label).await),
        }
        let deadline = Instant::now() + CHANGE_DEADLINE;
        for (one, expected) in open.iter().zip(expected) {
            let shown = match (expected, one.edit) {
                (Some(expected), _) => matches!(timeout_at(deadline, expected).await, Ok(Ok(_))),
                (None, FileEdit::Delete { file, .. }) => !is_on_disk(file),
                (None, FileEdit::Move { from, to, after, .. }) => {
                    !is_on_disk(from) && self.holds(to, one.document.editor, after, deadline).await
                }
                (None, _) => true,
            };
            if !shown {
                return Err(self.not_shown(open, label).await);
            }
        }
        Ok(())
    }

    /// Waits until the document of a file in an editor has a text; without one, the file on disk. Returns whether it does.
    pub(super) async fn holds(
        &self,
        place: &Resolved,
        editor: EditorId,
        text: &str,
        deadline: Instant,
    ) -> bool {
        let mut happenings = self.documents.subscribe();
        loop {
            let holds = match self.documents.at_in(place.absolute(), editor) {
                Some(document) => document.text.lines().eq(text.lines()),
                None => digest_of_text(place.absolute()) == Some(Digest::of(text)),
            };
            if holds {
                return true;
            }
            if !matches!(timeout_at(deadline, happenings.changed()).await, Ok(Ok(()))) {
                return false;
            }
        }
    }

    /// Handles an editor that reported success although its documents don't have the new texts.
    async fn not_shown(&self, open: &[&OpenFileEdit<'_>], label: &str) -> WriteError {
        let left = self.take_back(open, label).await;
        if !left.is_empty() {
            return WriteError::Unsettled { files: left };
        }
        let path = open.first().map(|open| open.edit.file().display()).unwrap_or_default();
        WriteError::Refused { path, reason: "it did not show the new text of every file".to_owned() }
    }

    /// Has the editors undo their changes. Returns the files that don't have their old text afterwards.
    async fn take_back(&self, open: &[&OpenFileEdit<'_>], label: &str) -> Vec<String> {
        let mut changes: BTreeMap<EditorId, Vec<DocumentChange>> = BTreeMap::new();
        for one in open {
            let (DocumentChange::Text { uri, .. }, Some(after)) = (&one.change, one.edit.after()) else {
                continue;
            };
            // Text that the user has typed since is kept.
            let now = self.documents.now(&one.document);
            if let Some(now) = now.filter(|now| now.text.lines().eq(after.lines())) {
                let edits = minimal_edits(&now.text, &one.document.text, self.encoding_of(now.editor));
                if !edits.is_empty() {
                    let version = Some(now.version);
                    let change = DocumentChange::Text { uri: uri.clone(), version, edits };
                    changes.entry(now.editor).or_default().push(change);
                }
            }
        }
        let deadline = Instant::now() + CHANGE_DEADLINE;
        for (id, changes) in changes {
            let Some(editor) = self.editor_of(id) else { continue };
            // Whether it did shows in the texts.
            let _ = timeout(CHANGE_DEADLINE, editor.apply_all(label, changes)).await;
        }
        let mut left = Vec::new();
        for one in open {
            let file = one.edit.file();
            let is_back = match &one.change {
                DocumentChange::Text { .. } => {
                    self.holds(file, one.document.editor, &one.document.text, deadline).await
                }
                _ => is_on_disk(file),
            };
            if !is_back {
                left.push(one.edit.moved_to().unwrap_or(file).display());
            }
        }
        left
    }
}

/// Returns the steps of an edit on disk, if the file there still is what it was made from. Reads the disk.
fn steps_of(edit: &FileEdit) -> Result<Vec<FileStep>, WriteError> {
    let absent = |place: &Resolved| match is_on_disk(place) {
        true => Err(WriteError::Exists { path: place.display() }),
        false => Ok(()),
    };
    let step =
        |target: &Resolved, before, after| FileStep { target: target.clone(), before, after, like: None };
    Ok(match edit {
        FileEdit::Create { file, text, encoding } => {
            absent(file)?;
            vec![step(file, None, Some(encode(file, *encoding, text)?))]
        }
        FileEdit::Update { file, before, after } => {
            let old = current(file, before)?;
            vec![step(file, Some(old.digest), Some(encode(file, old.encoding, after)?))]
        }
        FileEdit::Delete { file, before } => vec![step(file, Some(current(file, before)?.digest), None)],
        FileEdit::Move { from, to, before, after } => {
            absent(to)?;
            let old = current(from, before)?;
            let content = encode(to, old.encoding, after)?;
            let new = FileStep { like: Some(from.clone()), ..step(to, None, Some(content)) };
            vec![new, step(from, Some(old.digest), None)]
        }
    })
}

/// Returns the step of an edit of bytes, if the file there still is what it was made from. Reads the disk.
fn step_of_bytes(edit: &BytesEdit) -> Result<FileStep, WriteError> {
    let BytesEdit { file, before, after } = edit;
    let (path, expected) = (file.display(), before.as_ref().map(Digest::of));
    let actual = match read_disk(file, EDIT_LIMIT) {
        Ok(bytes) => Some(Digest::of(bytes)),
        Err(ReadError::NotFound { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    match expected {
        expected if expected == actual => {}
        Some(expected) => return Err(WriteError::Stale { path, expected, actual }),
        None => return Err(WriteError::Exists { path }),
    }
    Ok(FileStep {
        target: file.clone(),
        before: expected,
        after: after.as_ref().map(|bytes| bytes.to_vec()),
        like: None,
    })
}

/// Returns the text of a file on disk, if it is the expected one.
fn current(file: &Resolved, expected: &str) -> Result<FileText, WriteError> {
    let (path, expected) = (file.display(), Digest::of(expected));
    match read_disk(file, EDIT_LIMIT).map(Contents::from_bytes) {
        Ok(Contents::Text(old)) if !old.lossy && is_expected(&old, expected) => Ok(old),
        Ok(Contents::Text(old)) if !old.lossy => {
            Err(WriteError::Stale { path, expected, actual: Some(old.digest) })
        }
        Ok(_) => Err(ReadError::NotText { path }.into()),
        Err(ReadError::NotFound { .. }) => Err(WriteError::Stale { path, expected, actual: None }),
        Err(error) => Err(error.into()),
    }
}

fn digest_on_disk(place: &Resolved) -> Option<Digest> {
    read_disk(place, EDIT_LIMIT).ok().map(Digest::of)
}

#[cfg(test)]
mod tests;
