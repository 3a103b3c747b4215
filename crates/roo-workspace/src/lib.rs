//! The files that tasks work on: open documents over files on disk, one path resolver, rules for reading, and
//! writes that never overwrite another program's changes.
//!
//! What a tool call may do is decided by `roo_engine::policy`; the protocol of editors is the server's. [`Editor`] is
//! the interface to an editor that this crate needs.

#![warn(unreachable_pub)]

mod code_questions;
mod commit;
mod directory_listing;
mod disk_digests;
mod documents;
mod editor;
mod editor_state;
mod encoding;
mod file;
mod file_reader;
mod files_in_order;
mod folder;
mod git_ignore;
mod ignore;
mod image;
mod journal;
mod links;
mod lock;
mod multi_file_edit;
mod numbered;
mod path_entry;
mod protected;
mod read_access;
mod recent_texts;
mod recent_writes;
mod resolver;
mod review;
mod rules_file;
mod unsynced_names;
mod uri;
mod walk;

pub use self::ignore::ignore_problems;
#[cfg(feature = "fuzzing")]
pub use self::ignore::is_ignored;
pub use code_questions::EditorAnswer;
pub use commit::{WriteError, check_encodable};
pub use directory_listing::FoundKind;
pub use documents::{AttachedEditor, Attachment, Change, Document, DocumentError, Documents};
pub use editor::{DocumentChange, EditRefused, Editor, EditorId, FileOperations, FilePurpose};
pub use editor_state::{ActiveFile, Diagnostic, FileProblems, FileReport};
pub use encoding::{TextEncoding, UnencodableCharacter, as_utf8, to_utf8};
pub use file::{Contents, EDIT_LIMIT, FileText, ReadError};
pub use file_reader::FileReader;
pub use files_in_order::{FileVisitor, VisitedFile};
pub use image::{IMAGE_BYTES, ImageType, from_base64};
pub use journal::UnresolvedChange;
pub use lock::LockError;
pub use multi_file_edit::{BytesEdit, ChangedFile, FileEdit};
pub use path_entry::{FileOrLink, PathEntry, file_that_stays};
pub use protected::{ProtectedBy, ProtectedNames, Protection, protected_names, protection};
pub use read_access::ReadAccess;
pub use recent_writes::{WriteMark, WrittenSince};
pub use resolver::{Location, PathError, Purpose, Resolved, RootError, Roots};
pub use review::Reviewed;
pub use unsynced_names::UnsyncedNames;
pub use uri::{file_uri, path_of};

pub use self::ignore::{Ignores, NAME as IGNORE_FILE, Rules};
pub use self::links::{FileId, several_names};
pub use file::{read_beginning, read_disk};
pub use numbered::{IMAGES_BYTES, ONE_LINE_CHARACTERS, Reading, copied_cut_line};
pub use protected::is_git;
pub use walk::{Walk, WalkEntry, WalkRules};

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, timeout, timeout_at};

use self::disk_digests::DiskDigests;
use self::file::READ_LIMIT;
use self::journal::Journal;
use self::lock::WorkspaceLock;
use self::protected::ProtectedFiles;
use self::recent_texts::RecentTexts;
use roo_protocol::ids::Digest;
use roo_text::position::{Encoding, minimal_edits};
use roo_text::render::exact_line;

/// Time limit for an editor's answer to an edit; it may ask its user something.
const ANSWER_DEADLINE: Duration = Duration::from_secs(30);

/// Time limit for an editor to show the edited text after its answer.
const CHANGE_DEADLINE: Duration = Duration::from_secs(5);

/// Time limit for saving.
const SAVE_DEADLINE: Duration = Duration::from_secs(5);

/// Settings of a workspace.
pub struct Setup {
    /// The workspace folders; `.roo/` lives in the first.
    pub folders: Vec<PathBuf>,
    /// Directory of the lock files; private to the user, outside the workspace.
    pub state_directory: PathBuf,
    /// Documents open in the editor.
    pub documents: Arc<Documents>,
    /// Takes edits and saves of open documents; none when the client can't.
    pub editor: Option<Arc<dyn Editor>>,
    /// The negotiated position encoding.
    pub encoding: Encoding,
}

/// The files of a workspace.
pub struct Workspace {
    roots: Arc<Roots>,
    ignores: Ignores,
    protected: ProtectedFiles,
    documents: Arc<Documents>,
    editor: Option<Arc<dyn Editor>>,
    encoding: Encoding,
    state_directory: PathBuf,
    /// One writer at a time for each file, by its real path.
    writers: Mutex<HashMap<PathBuf, Weak<tokio::sync::Mutex<()>>>>,
    /// One commit to disk at a time within this process.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Directories whose names are not durable yet.
    unsynced_names: Arc<UnsyncedNames>,
    recent: RecentTexts,
    disk_digests: DiskDigests,
    /// Multi-file edits that could be neither completed nor undone, until they are reported.
    stopped: Mutex<Vec<UnresolvedChange>>,
}

/// A file that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenFile {
    /// The document.
    pub uri: String,
    /// The digest before; none for a new file.
    pub before: Option<Digest>,
    /// The digest after: of the buffer's text where the file is open, else of the bytes on disk.
    pub after: Digest,
    /// True if its text is the one that was given: an editor may format it.
    pub is_as_given: bool,
}

/// A directory can't be created.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// The path is invalid.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A link on the way leads elsewhere.
    #[error(
        "the directory {path} can't be created: it goes through a symlink to {to}, and nothing is created there"
    )]
    Elsewhere {
        /// As it was named.
        path: String,
        /// Real path.
        to: String,
    },
    /// The disk returned an error.
    #[error("the directory {path} can't be created: {source}")]
    Io {
        /// As it was named.
        path: String,
        /// Reason why not.
        source: io::Error,
    },
}

/// An open document whose text is not on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsavedDocument {
    /// As the editor names it.
    pub uri: String,
    /// Its real path, for people.
    pub path: String,
    /// The editor that has it open.
    editor: EditorId,
}

impl Workspace {
    /// Opens the workspace folders.
    pub fn open(setup: Setup) -> Result<Self, RootError> {
        Ok(Self {
            roots: Arc::new(Roots::open(&setup.folders)?),
            ignores: Ignores::new(setup.folders.len()),
            protected: ProtectedFiles::new(setup.folders.len()),
            documents: setup.documents,
            editor: setup.editor,
            encoding: setup.encoding,
            state_directory: setup.state_directory,
            writers: Mutex::default(),
            turn: Arc::default(),
            unsynced_names: Arc::default(),
            recent: RecentTexts::default(),
            disk_digests: DiskDigests::default(),
            stopped: Mutex::default(),
        })
    }

    /// Opens another folder beside this workspace, with locks in the same place and without an editor: a work tree that was made
    /// for a part of the work. A folder that isn't there gives a workspace without folders.
    #[must_use]
    pub fn beside(&self, folder: &Path) -> Self {
        let (roots, count) = match Roots::open(&[folder.to_owned()]) {
            Ok(roots) => (roots, 1),
            Err(_) => (Roots::default(), 0),
        };
        Self {
            roots: Arc::new(roots),
            ignores: Ignores::new(count),
            protected: ProtectedFiles::new(count),
            documents: Arc::default(),
            editor: None,
            encoding: self.encoding,
            state_directory: self.state_directory.clone(),
            writers: Mutex::default(),
            turn: Arc::default(),
            unsynced_names: Arc::clone(&self.unsynced_names),
            recent: RecentTexts::default(),
            disk_digests: DiskDigests::default(),
            stopped: Mutex::default(),
        }
    }

    /// The workspace folders.
    pub fn roots(&self) -> &Roots {
        &self.roots
    }

    /// Returns the directories to be synced before it is recorded for good that a file in them was written.
    pub fn unsynced_names(&self) -> &Arc<UnsyncedNames> {
        &self.unsynced_names
    }

    /// Returns the documents open in the editor.
    pub fn documents(&self) -> &Arc<Documents> {
        &self.documents
    }

    /// Finds out where a path leads; see [`Roots::resolve`].
    pub fn resolve(&self, text: &str, purpose: Purpose) -> Result<Resolved, PathError> {
        self.roots.resolve(text, purpose)
    }

    /// Returns whether a place may be read: the one answer for every reader.
    pub fn read_access(&self, place: &Resolved) -> ReadAccess {
        self.ignores.access(place)
    }

    /// Returns the reason why a place is [`ReadAccess::Ignored`], and what to do, for the model.
    pub fn ignore_reason(&self, place: &Resolved) -> String {
        self.ignores.reason(place)
    }

    /// The rules of a place's root as they are now, for readers of many files; none outside.
    pub fn rules(&self, place: &Resolved) -> Option<Arc<Rules>> {
        self.ignores.rules(place)
    }

    /// Returns a reader of many files below a directory, by the rules as they are now.
    pub fn file_reader(&self, directory: &Resolved) -> FileReader<'_> {
        FileReader::new(self, self.rules(directory))
    }

    /// Returns the names protected in a root. `settings` are the patterns that the user adds.
    pub fn protected(&self, root: usize, settings: &[String]) -> ProtectedNames {
        match self.roots.handle(root) {
            Some(handle) => self.protected.names(root, handle, settings),
            None => ProtectedNames::default(),
        }
    }

    /// Reads a whole file for showing: the open buffer where there is one, else the disk.
    pub async fn read(&self, file: &Resolved) -> Result<Contents, ReadError> {
        self.read_at_most(file, READ_LIMIT).await
    }

    /// Reads a whole file for editing: only text that can be written back as it was, and at most [`EDIT_LIMIT`] bytes.
    pub async fn read_for_edit(&self, file: &Resolved) -> Result<FileText, ReadError> {
        match self.read_to_replace(file).await? {
            Contents::Text(text) => Ok(text),
            Contents::Binary { .. } => Err(ReadError::NotText { path: file.display() }),
        }
    }

    /// Reads a whole file that is to be replaced: what is no text, or text that can be written back as it was. At most
    /// [`EDIT_LIMIT`] bytes.
    ///
    /// # Errors
    /// [`ReadError`].
    pub async fn read_to_replace(&self, file: &Resolved) -> Result<Contents, ReadError> {
        match self.read_at_most(file, EDIT_LIMIT).await? {
            Contents::Text(text) if text.lossy => Err(ReadError::NotText { path: file.display() }),
            contents => Ok(contents),
        }
    }

    async fn read_at_most(&self, file: &Resolved, limit: u64) -> Result<Contents, ReadError> {
        self.check_ignored(file)?;
        if !self.is_being_written(file.absolute()) {
            self.refresh(file, FilePurpose::Read).await;
        }
        let contents = match self.documents.at(file.absolute()) {
            Some(document) => Contents::Text(FileText::from(&document)),
            None => {
                let place = file.clone();
                blocking(move || Contents::of_file(&place, limit))
                    .await
                    .unwrap_or_else(|source| Err(ReadError::Io { path: file.display(), source }))?
            }
        };
        if let Contents::Text(text) = &contents {
            self.recent.remember(text.digest, &text.text);
        }
        Ok(contents)
    }

    /// Creates a directory of the first root and its ancestors. Returns whether it is new. Blocks on the disk.
    /// `path` is relative, with plain names. The user isn't asked, so links that lead elsewhere are refused.
    ///
    /// # Errors
    /// [`PathError`] when the path is invalid, [`DirectoryError::Elsewhere`] where a link leads away,
    /// and what the disk says.
    pub fn create_directory(&self, path: &str) -> Result<bool, DirectoryError> {
        // Directories are made for a file in them.
        let inner = format!("{path}/x");
        let file = self.resolve(&inner, Purpose::Write)?;
        if !is_in_place(&file, &inner) {
            let to = file.absolute().parent().unwrap_or(file.absolute()).to_string_lossy();
            return Err(DirectoryError::Elsewhere { path: path.to_owned(), to: exact_line(&to) });
        }
        let is_new = !self.resolve(path, Purpose::Directory).is_ok_and(|directory| directory.is_directory());
        file.parent_created().map_err(|source| DirectoryError::Io { path: path.to_owned(), source })?;
        Ok(is_new)
    }

    /// Returns whether a directory of the first root is, or would be, where its path says: no link leads it elsewhere.
    pub fn has_place_for(&self, path: &str) -> bool {
        let inner = format!("{path}/x");
        self.resolve(&inner, Purpose::Write).is_ok_and(|file| is_in_place(&file, &inner))
    }

    /// The text of this digest, if it was read here not long ago.
    pub fn recall(&self, digest: Digest) -> Option<Arc<str>> {
        self.recent.recall(digest)
    }

    /// The editor that has a document open; none where it takes no edits.
    fn editor_of(&self, document: EditorId) -> Option<Arc<dyn Editor>> {
        match document == EditorId::default() {
            true => self.editor.clone(),
            false => self.documents.editor(document)?.editor,
        }
    }

    /// The position encoding of the editor that has a document open.
    fn encoding_of(&self, document: EditorId) -> Encoding {
        self.documents.editor(document).map_or(self.encoding, |editor| editor.encoding)
    }

    /// Tells the other editors that have unsaved text of a file that it was changed in this one.
    fn tell_others(&self, place: &Resolved, editor: EditorId) {
        for document in self.documents.unsaved_elsewhere(place.absolute(), editor) {
            if let Some(other) = self.editor_of(document.editor) {
                other.changed_elsewhere(&document.uri);
            }
        }
    }

    /// Looks what the editor has of a file, where it doesn't say that by itself.
    async fn refresh(&self, file: &Resolved, purpose: FilePurpose) {
        if let Some(editor) = &self.editor {
            editor.refresh(file.absolute(), purpose).await;
        }
    }

    fn check_ignored(&self, file: &Resolved) -> Result<(), ReadError> {
        match self.read_access(file) {
            ReadAccess::Ignored => {
                Err(ReadError::Ignored { path: file.display(), reason: self.ignore_reason(file) })
            }
            ReadAccess::Free | ReadAccess::Secret | ReadAccess::Outside => Ok(()),
        }
    }

    /// Writes a whole file, if it still is what `expected` says: the digest of its exact bytes or of
    /// its text, none if it must not exist. An open file is edited in its editor and not saved, a
    /// closed one is exchanged on disk; missing directories are created. Its encoding is kept.
    /// `label` is for the editor's history of edits.
    pub async fn write(
        &self,
        target: &Resolved,
        expected: Option<Digest>,
        after: &str,
        label: &str,
    ) -> Result<WrittenFile, WriteError> {
        let _writer = self.only_writer(target.absolute()).await;
        self.check_ignored(target)?;
        let size = after.len() as u64;
        if size > EDIT_LIMIT {
            return Err(WriteError::TooLarge { path: target.display(), size });
        }
        self.refresh(target, FilePurpose::Write).await;
        let document = self.documents.at_with(target.absolute(), expected);
        let editor = document.as_ref().and_then(|document| self.editor_of(document.editor));
        match (document, editor) {
            (Some(document), Some(editor)) => {
                let written =
                    self.write_open(target, &document, editor.as_ref(), expected, after, label).await;
                self.refresh(target, FilePurpose::Read).await;
                if written.is_ok() {
                    self.tell_others(target, document.editor);
                }
                written
            }
            (Some(document), None) if document.dirty => Err(WriteError::Unsaved { path: target.display() }),
            _ => self.write_closed(target, expected, after).await,
        }
    }

    /// Writes a whole file that is no text, if its bytes still have this digest; none if it must not exist. What an editor has
    /// open is not replaced. Missing directories are created. Returns the bytes that were replaced, too.
    ///
    /// # Errors
    /// As for [`Self::write`].
    pub async fn write_bytes(
        &self,
        target: &Resolved,
        expected: Option<Digest>,
        bytes: Vec<u8>,
    ) -> Result<(WrittenFile, Option<Vec<u8>>), WriteError> {
        let _writer = self.only_writer(target.absolute()).await;
        self.check_ignored(target)?;
        let size = bytes.len() as u64;
        if size > EDIT_LIMIT {
            return Err(WriteError::TooLarge { path: target.display(), size });
        }
        self.refresh(target, FilePurpose::Write).await;
        self.check_closed(target)?;
        let (replaced, after) = self
            .commit_closed(target, move |lock, unsynced, place| {
                commit::commit_bytes(lock, unsynced, place, expected, &bytes)
            })
            .await?;
        // What was there has the expected digest.
        let before = replaced.as_ref().and(expected);
        Ok((WrittenFile { uri: target.uri(), before, after, is_as_given: true }, replaced))
    }

    /// Refuses to write the bytes of a file over what an editor shows.
    fn check_closed(&self, target: &Resolved) -> Result<(), WriteError> {
        if self.documents.at(target.absolute()).is_some() {
            let reason = "it has the file open as text".to_owned();
            return Err(WriteError::Refused { path: target.display(), reason });
        }
        Ok(())
    }

    async fn write_open(
        &self,
        target: &Resolved,
        document: &Document,
        editor: &dyn Editor,
        expected: Option<Digest>,
        after: &str,
        label: &str,
    ) -> Result<WrittenFile, WriteError> {
        let path = || target.display();
        let uri = document.uri.as_str();
        let current = Digest::of(&*document.text);
        match expected {
            Some(expected) if expected == current => {}
            Some(expected) => {
                return Err(WriteError::Stale { path: path(), expected, actual: Some(current) });
            }
            // An editor may have a file open that is yet to be written.
            None if document.text.is_empty() && !is_on_disk(target) => {}
            None => return Err(WriteError::Exists { path: path() }),
        }
        let written = |digest, is_as_given| WrittenFile {
            uri: uri.to_owned(),
            before: expected,
            after: digest,
            is_as_given,
        };
        let edits = minimal_edits(&document.text, after, self.encoding_of(document.editor));
        if edits.is_empty() {
            return Ok(written(current, true));
        }

        // Editors may turn line ends into the document's own and care for the last one themselves.
        let wanted = after.to_owned();
        let reached = self.documents.expect(document, move |text| text.lines().eq(wanted.lines()));
        match timeout(ANSWER_DEADLINE, editor.apply_edit(label, uri, document.version, edits)).await {
            Ok(Ok(())) => {}
            Ok(Err(EditRefused { reason })) => {
                let actual = self.documents.now(document).map(|now| Digest::of(&*now.text));
                return Err(match actual == Some(current) {
                    true => WriteError::Refused { path: path(), reason },
                    false => WriteError::Stale { path: path(), expected: current, actual },
                });
            }
            Err(_) => return Err(self.unconfirmed(target, document)),
        }
        match timeout(CHANGE_DEADLINE, reached).await {
            Ok(Ok(changed)) => Ok(written(Digest::of(&*changed.text), *changed.text == *after)),
            // Closed meanwhile, or never seen.
            Ok(Err(_)) | Err(_) => Err(self.unconfirmed(target, document)),
        }
    }

    fn unconfirmed(&self, target: &Resolved, document: &Document) -> WriteError {
        let actual = self.documents.now(document).map(|now| Digest::of(&*now.text));
        WriteError::Unconfirmed { path: target.display(), actual }
    }

    async fn write_closed(
        &self,
        target: &Resolved,
        expected: Option<Digest>,
        after: &str,
    ) -> Result<WrittenFile, WriteError> {
        let text = after.to_owned();
        let (before, after) = self
            .commit_closed(target, move |lock, unsynced, place| {
                commit::commit(lock, unsynced, place, expected, &text)
            })
            .await?;
        Ok(WrittenFile { uri: target.uri(), before, after, is_as_given: true })
    }

    /// Commits a file that no editor has open. Returns what `commit` tells of what was there, and the digest after.
    async fn commit_closed<B: Send + 'static>(
        &self,
        target: &Resolved,
        commit: impl FnOnce(&mut WorkspaceLock, &UnsyncedNames, &Resolved) -> Result<(B, Digest), WriteError>
        + Send
        + 'static,
    ) -> Result<(B, Digest), WriteError> {
        let mut lock = self.lock(target).await?;
        let (place, written) = (target.clone(), Arc::clone(self.documents.written()));
        let unsynced = Arc::clone(&self.unsynced_names);
        // Runs to its end even if the caller is cancelled.
        let committed = blocking(move || {
            let committed = commit(&mut lock, &unsynced, &place);
            if let Ok((_, after)) = &committed {
                written.add(place.absolute(), Some(*after));
            }
            committed
        });
        committed.await.unwrap_or_else(|source| Err(WriteError::Io { path: target.display(), source }))
    }

    /// Takes the lock of the root that a place is in, against other servers on this machine.
    async fn lock(&self, place: &Resolved) -> Result<WorkspaceLock, LockError> {
        let root = match place.location() {
            Location::Inside { root } => self.roots.paths().nth(root),
            Location::Outside => None,
        };
        let path = self.lock_file(root);
        self.lock_at(path, PendingChange::Settled).await
    }

    async fn lock_at(&self, path: PathBuf, waiting: PendingChange) -> Result<WorkspaceLock, LockError> {
        let mut lock = WorkspaceLock::acquire(Arc::clone(&self.turn), path.clone()).await?;
        let (roots, documents) = (Arc::clone(&self.roots), Arc::clone(&self.documents));
        let journal = Journal::beside(&path);
        let settled = blocking(move || {
            commit::settle(&roots, &mut lock)?;
            let text = |path: &Path| match documents.at(path) {
                Some(document) => Some(Digest::of(&*document.text)),
                None => file::digest_of_text(path),
            };
            let stopped = match waiting {
                PendingChange::Settled => journal.recover(&roots, Some(&text))?,
                PendingChange::LeftAlone => journal.recover(&roots, None)?,
            };
            Ok((lock, stopped))
        });
        let (lock, stopped) = settled
            .await
            .and_then(|settled| settled)
            .map_err(|source| LockError::Io { path: path.display().to_string(), source })?;
        if let Some(stopped) = stopped {
            tracing::error!(files = ?stopped.files, journal = ?stopped.journal, "a change of several files is incomplete");
            self.stopped.lock().unwrap_or_else(PoisonError::into_inner).push(stopped);
        }
        Ok(lock)
    }

    /// Now, among what is written to disk through this workspace and by its editor.
    pub fn mark(&self) -> WriteMark {
        self.documents.written().mark()
    }

    /// Returns the files written to disk since then through this workspace and by its editor.
    pub fn written_since(&self, mark: &WriteMark) -> WrittenSince {
        self.documents.written().since(mark)
    }

    /// Keeps every server on this machine from writing to the workspace folders until the result is dropped.
    ///
    /// # Errors
    /// When another one writes for too long, or a lock file can't be used.
    pub async fn hold_writes(&self) -> Result<impl Sized + use<>, LockError> {
        // In one order for all servers.
        let files: BTreeSet<PathBuf> = self.roots.paths().map(|root| self.lock_file(Some(root))).collect();
        let mut held = Vec::new();
        for file in files {
            held.push(match held.is_empty() {
                true => self.lock_at(file, PendingChange::Settled).await?,
                // This process holds the root's turn already.
                false => WorkspaceLock::acquire(Arc::default(), file).await?,
            });
        }
        Ok(held)
    }

    /// Completes or undoes multi-file edits of servers that ended. Returns those for which neither is possible, which
    /// the user has to look at. Edits that waited for an editor are left alone.
    pub async fn recover(&self) -> Vec<UnresolvedChange> {
        self.settle_all(PendingChange::LeftAlone).await;
        std::mem::take(&mut *self.stopped.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Recovers as [`Self::recover`] does, once the editor has reported its open documents.
    pub async fn settle(&self) {
        self.settle_all(PendingChange::Settled).await;
    }

    async fn settle_all(&self, waiting: PendingChange) {
        let roots: Vec<PathBuf> = self.roots.paths().map(Path::to_path_buf).collect();
        for root in roots {
            let path = self.lock_file(Some(&root));
            // Without a journal there is nothing to wait for a lock for.
            if Journal::beside(&path).is_there()
                && let Err(error) = self.lock_at(path, waiting).await
            {
                tracing::error!(%error, "a change of several files could not be completed");
            }
        }
    }

    fn lock_file(&self, root: Option<&Path>) -> PathBuf {
        let name = match root {
            Some(path) => Digest::of(path.as_os_str().as_encoded_bytes()).hex(),
            None => "outside".to_owned(),
        };
        self.state_directory.join(format!("{name}.lock"))
    }

    async fn only_writer(&self, path: &Path) -> OwnedMutexGuard<()> {
        let writer = {
            let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
            match writers.get(path).and_then(Weak::upgrade) {
                Some(writer) => writer,
                None => {
                    writers.retain(|_, writer| writer.strong_count() > 0);
                    let writer = Arc::default();
                    writers.insert(path.to_path_buf(), Arc::downgrade(&writer));
                    writer
                }
            }
        };
        writer.lock_owned().await
    }

    /// Returns whether somebody writes a file, or is about to. Its document is the writer's then: a look at the editor could
    /// close it, or replace it, before the editor has shown the new text.
    fn is_being_written(&self, path: &Path) -> bool {
        let writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        writers.get(path).is_some_and(|writer| writer.strong_count() > 0)
    }

    /// The open documents of the workspace whose text is not on disk, sorted by path: what a command
    /// would not see.
    pub async fn dirty_documents(&self) -> Vec<UnsavedDocument> {
        if let Some(editor) = &self.editor {
            for (path, _) in self.documents.with_files() {
                if !self.is_being_written(&path) {
                    editor.refresh(&path, FilePurpose::Read).await;
                }
            }
        }
        let changed: Vec<(PathBuf, Document)> = self
            .documents
            .with_files()
            .into_iter()
            .filter(|(path, document)| {
                document.dirty && self.roots.paths().any(|root| path.starts_with(root))
            })
            .collect();
        // Not every editor sends didSave, and a change may be undone.
        let differ = move || {
            let mut unsaved: Vec<UnsavedDocument> = changed
                .into_iter()
                .filter(|(path, document)| file::differs(path, &document.text) != Some(false))
                .map(|(path, document)| UnsavedDocument {
                    uri: document.uri,
                    editor: document.editor,
                    path: exact_line(&path.to_string_lossy()),
                })
                .collect();
            unsaved.sort_by(|one, other| one.path.cmp(&other.path));
            unsaved
        };
        // This fails only during shutdown, when no command runs either.
        blocking(differ).await.unwrap_or_default()
    }

    /// Asks the editor to save an open document and waits for its answer. A refusal is ignored.
    pub async fn save(&self, place: &Resolved) {
        let Some(document) = self.documents.at(place.absolute()) else { return };
        let Some(editor) = self.editor_of(document.editor) else { return };
        let uris = [document.uri];
        // If it can't be asked, the user has to save.
        let _ = timeout(SAVE_DEADLINE, editor.save(&uris)).await;
    }

    /// Has the editor save what is unsaved, or waits until the user does, for at most 5 seconds.
    /// Returns what remains unsaved.
    pub async fn save_dirty(&self) -> Vec<UnsavedDocument> {
        let deadline = Instant::now() + SAVE_DEADLINE;
        let mut happenings = self.documents.subscribe();
        let mut unsaved = self.dirty_documents().await;
        if unsaved.is_empty() {
            return unsaved;
        }
        let ids: BTreeSet<EditorId> = unsaved.iter().map(|document| document.editor).collect();
        let mut was_asked = false;
        for id in ids {
            let Some(editor) = self.editor_of(id) else { continue };
            let own = unsaved.iter().filter(|document| document.editor == id);
            let uris: Vec<String> = own.map(|document| document.uri.clone()).collect();
            // The disk shows what was saved, so the answer isn't needed.
            let _ = timeout_at(deadline, editor.save(&uris)).await;
            was_asked = true;
        }
        if was_asked {
            unsaved = self.dirty_documents().await;
        }
        while !unsaved.is_empty() && matches!(timeout_at(deadline, happenings.changed()).await, Ok(Ok(()))) {
            unsaved = self.dirty_documents().await;
        }
        unsaved
    }
}

/// Recovery of a change that an editor was about to apply when its server ended.
#[derive(Clone, Copy)]
enum PendingChange {
    /// The editor's documents show whether it was applied.
    Settled,
    /// It may not have shown yet what it has open.
    LeftAlone,
}

fn is_in_place(file: &Resolved, path: &str) -> bool {
    matches!(file.location(), Location::Inside { root: 0 }) && file.relative() == path
}

fn is_on_disk(file: &Resolved) -> bool {
    file.parent().is_ok_and(|(directory, name)| directory.symlink_metadata(name).is_ok())
}

/// Runs blocking file operations. Fails only when the runtime is shutting down.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    roo_durable::spawn_blocking(work).await.map_err(io::Error::other)
}

#[cfg(test)]
mod tests;
