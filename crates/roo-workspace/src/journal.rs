//! Journal of multi-file edits on disk: all files change or none, also when the process or the machine stops.
//!
//! A change goes through phases, and each is durable before the next begins: [`Phase::Prepare`], while the
//! new contents are written beside their files; [`Phase::Commit`], while each takes the place of its file and
//! the old content is moved beside it; [`Phase::Done`], while the old contents are removed. Until the end both
//! contents exist, so that the next process that finds the journal can complete the change or undo it;
//! [`Phase::Undo`] is the way back. A file that holds neither its old nor its new content was written by another
//! program; the change is then left as it is, and the user decides.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::commit::{WriteError, digest_of, put_back};
use super::file::EntryError;
use super::folder::{Folder, Folders, WorkspaceFolders, is_unsupported};
use super::resolver::{Resolved, Roots};
use roo_durable::PrivateFile;
use roo_durable::disk::{Disk, RealDisk};
use roo_protocol::ids::Digest;

/// The largest journal that is read, in bytes.
const MAX_JOURNAL_BYTES: u64 = 64 << 20;

/// Looks up the digest of a file's text: of the open document, else of the file on disk; none for a missing file.
pub(super) type BufferText<'a> = &'a dyn Fn(&Path) -> Option<Digest>;

/// One file of a change, with its exact bytes.
#[derive(Clone, Debug)]
pub(super) struct FileStep {
    pub(super) target: Resolved,
    /// The digest of the current bytes; none for a file that is created.
    pub(super) before: Option<Digest>,
    /// The new bytes; none for a file that is deleted.
    pub(super) after: Option<Vec<u8>>,
    /// For the destination of a move: the file whose owner and mode it gets.
    pub(super) like: Option<Resolved>,
}

/// Progress of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Phase {
    /// New contents are written beside their files. No file has changed.
    Prepare,
    /// All new contents are written. No file has changed on disk; an editor may have changed its open documents.
    Edit,
    /// Files get their new content.
    Commit,
    /// Files get their old content back.
    Undo,
    /// All files have changed; the old contents beside them are removed.
    Done,
}

/// A change in progress, as the journal stores it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JournalRecord {
    pub(super) phase: Phase,
    pub(super) files: Vec<FileRecord>,
    /// Files that the editor changes, with the digests of their new texts; no digest for a file that it deletes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) buffers: Vec<(PathBuf, Option<Digest>)>,
}

/// One file of a change, as the journal stores it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileRecord {
    target: PathBuf,
    /// Name in the same directory under which its new content is kept, and later its old one.
    temporary: String,
    before: Option<Digest>,
    after: Option<Digest>,
}

/// The journal of a root. Only the holder of the root's lock uses it.
#[derive(Clone, Debug)]
pub(super) struct Journal {
    file: PrivateFile,
    folders: Arc<dyn Folders>,
}

/// A change that could be neither completed nor undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnresolvedChange {
    /// The files that hold neither their old nor their new content.
    pub files: Vec<PathBuf>,
    /// Path of its journal.
    pub journal: PathBuf,
}

/// For its user.
impl fmt::Display for UnresolvedChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files: Vec<String> = self.files.iter().map(|file| file.display().to_string()).collect();
        write!(
            f,
            "a change of several files was interrupted and can't be completed: {} changed in the meantime. The missing parts are \
             beside the files, in .roo-lsp-*.tmp; {} lists them",
            if files.is_empty() { "its journal was".to_owned() } else { files.join(", ") },
            self.journal.display(),
        )
    }
}

/// A change whose new contents are all written beside their files.
#[derive(Debug)]
pub(super) struct Prepared {
    journal: Journal,
    record: JournalRecord,
    steps: Vec<FileStep>,
    crash: CrashPoint,
}

/// Content that a file of a change holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileSide {
    /// The old one; `ready` if the new one is beside it.
    Before { ready: bool },
    /// The new one; `kept` if the old one is beside it.
    After { kept: bool },
    /// Another one.
    Neither,
}

/// Content beside a file that may be removed at the end.
#[derive(Clone, Copy, Debug)]
enum LeftoverContent {
    /// Any: it is the new content, complete or not.
    Any,
    /// The new content.
    New,
    /// The old content.
    Old,
}

/// Reasons why a step failed.
#[derive(Debug)]
enum StepFailure {
    /// The file holds this content instead of the expected one; none when it is missing.
    OtherContent(Option<Digest>),
    /// A file exists where one was to be created.
    Exists,
    Io(io::Error),
    /// Simulated end of the process, in tests only.
    #[cfg_attr(not(test), expect(dead_code, reason = "outside tests the process ends"))]
    Crashed,
}

impl From<io::Error> for StepFailure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Journal {
    /// The journal that belongs to the lock file at a path.
    pub(super) fn beside(lock: &Path) -> Self {
        Self::on(Arc::new(RealDisk), Arc::new(WorkspaceFolders), lock)
    }

    /// The journal that belongs to a lock file, on this disk and with these workspace directories.
    fn on(disk: Arc<dyn Disk>, folders: Arc<dyn Folders>, lock: &Path) -> Self {
        Self { file: PrivateFile::on(disk, lock.with_extension("changes")), folders }
    }

    /// Returns whether there is a journal: of a change in progress, or of one whose process ended.
    pub(super) fn is_there(&self) -> bool {
        // If that is unknown, the caller finds out under the lock.
        self.file.exists().unwrap_or(true)
    }

    /// Reads the change of a process that ended. A file that is not a journal of this version is
    /// [`io::ErrorKind::InvalidData`].
    fn read(&self) -> io::Result<Option<JournalRecord>> {
        let Some(bytes) = self.file.read(MAX_JOURNAL_BYTES)? else { return Ok(None) };
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        serde_json::from_slice(&bytes).map(Some).map_err(invalid)
    }

    /// Writes the journal durably.
    fn write(&self, record: &JournalRecord) -> io::Result<()> {
        self.file.replace(&serde_json::to_vec(record)?)
    }

    fn remove(&self) -> io::Result<()> {
        self.file.remove().map(drop)
    }

    /// Syncs the directories of files, so that their names survive a loss of power.
    fn sync<'a>(&self, places: impl Iterator<Item = &'a Resolved>) -> io::Result<()> {
        let directories: BTreeMap<&Path, &Resolved> =
            places.filter_map(|place| Some((place.absolute().parent()?, place))).collect();
        directories.into_values().try_for_each(|place| match self.folders.parent(place) {
            // A missing directory has no names to sync.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            folder => folder?.sync(),
        })
    }

    /// Completes or undoes a change whose process ended. Without `buffer`, a change that waited for an editor is left
    /// alone.
    pub(super) fn recover(
        &self,
        roots: &Roots,
        buffer: Option<BufferText<'_>>,
    ) -> io::Result<Option<UnresolvedChange>> {
        self.recover_with(roots, buffer, &mut CrashPoint::from_environment())
    }

    fn recover_with(
        &self,
        roots: &Roots,
        buffer: Option<BufferText<'_>>,
        crash: &mut CrashPoint,
    ) -> io::Result<Option<UnresolvedChange>> {
        let mut record = match self.read() {
            Ok(Some(record)) => record,
            Ok(None) => return Ok(None),
            // A journal is replaced atomically, so an invalid one was written by another version.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return self.set_aside(vec![]).map(Some);
            }
            Err(error) => return Err(error),
        };
        let phase = match (record.phase, buffer) {
            (Phase::Edit, None) => return Ok(None),
            // The open documents show whether the editor applied the edit.
            (Phase::Edit, Some(buffer)) => {
                let taken = record.buffers.iter().all(|(path, after)| buffer(path) == *after);
                if taken { Phase::Commit } else { Phase::Prepare }
            }
            (phase, _) => phase,
        };
        let mut files = Vec::new();
        for file in &record.files {
            // The directory of a file that was to be created may be missing.
            let place = self.folders.place(roots, &file.target)?;
            files.push((file.clone(), place.filter(|place| place.absolute() == file.target)));
        }
        let left = match phase {
            // No file has changed, and the new contents beside them may be incomplete.
            Phase::Prepare | Phase::Edit => LeftoverContent::Any,
            Phase::Done => LeftoverContent::Old,
            Phase::Commit | Phase::Undo => {
                let side = self.bring_to_one_side(&mut record, phase, &files, crash)?;
                match side {
                    Ok(left) => left,
                    Err(lost) => return self.set_aside(lost).map(Some),
                }
            }
        };
        let cleaned = files.iter().filter_map(|(file, place)| Some((file, place.as_ref()?)));
        self.clean(cleaned, left, crash).map_err(|_| crashed())?;
        self.remove()?;
        Ok(None)
    }

    /// Completes the change if that is possible, else undoes it. The inner error is the files that prevent both.
    ///
    /// # Errors
    /// Those of the system. The journal is as far as the change then, and the next attempt goes on from there.
    fn bring_to_one_side(
        &self,
        record: &mut JournalRecord,
        phase: Phase,
        files: &[(FileRecord, Option<Resolved>)],
        crash: &mut CrashPoint,
    ) -> io::Result<Result<LeftoverContent, Vec<PathBuf>>> {
        let side_of = |(file, place): &(FileRecord, Option<Resolved>)| match place {
            Some(place) => file.side(self.folders.as_ref(), place),
            None => Ok(FileSide::Neither),
        };
        let sides = files.iter().map(side_of).collect::<io::Result<Vec<FileSide>>>()?;
        let forward = phase == Phase::Commit && !sides.contains(&FileSide::Before { ready: false });
        let impossible = |side: &FileSide| match side {
            FileSide::Neither => true,
            FileSide::After { kept } => !forward && !kept,
            FileSide::Before { ready } => forward && !ready,
        };
        let mut lost: Vec<PathBuf> = files
            .iter()
            .zip(&sides)
            .filter(|(_, side)| impossible(side))
            .map(|((file, _), _)| file.target.clone())
            .collect();
        if lost.is_empty() {
            let side = if forward { Phase::Commit } else { Phase::Undo };
            if record.phase != side {
                record.phase = side;
                self.write(record)?;
            }
            for ((file, place), side) in files.iter().zip(&sides) {
                let Some(place) = place else { continue };
                let moved = match (forward, side) {
                    (true, FileSide::Before { .. }) => file.forward(self.folders.as_ref(), place, crash),
                    (false, FileSide::After { .. }) => file.back(self.folders.as_ref(), place, crash),
                    _ => Ok(()),
                };
                match moved {
                    Ok(()) => {}
                    Err(StepFailure::Crashed) => return Err(crashed()),
                    // What the file system can't do fails each time.
                    Err(StepFailure::Io(error)) if !is_unsupported(&error) => return Err(error),
                    Err(_) => lost.push(file.target.clone()),
                }
            }
            if lost.is_empty() {
                self.sync(files.iter().filter_map(|(_, place)| place.as_ref()))?;
            }
            if forward && lost.is_empty() {
                record.phase = Phase::Done;
                self.write(record)?;
                crash.pass().map_err(|_| crashed())?;
            }
        }
        Ok(if lost.is_empty() {
            Ok(if forward { LeftoverContent::Old } else { LeftoverContent::New })
        } else {
            Err(lost)
        })
    }

    /// Renames the journal, so that it is kept for the user and blocks no later change.
    fn set_aside(&self, files: Vec<PathBuf>) -> io::Result<UnresolvedChange> {
        let name = format!("stopped-{}", uuid::Uuid::new_v4().simple());
        let journal = self.file.path().with_extension(name);
        self.file.rename(&journal)?;
        Ok(UnresolvedChange { files, journal })
    }

    /// Removes the contents beside the files.
    fn clean<'a>(
        &self,
        files: impl Iterator<Item = (&'a FileRecord, &'a Resolved)>,
        left: LeftoverContent,
        crash: &mut CrashPoint,
    ) -> Result<(), StepFailure> {
        let mut replaced = Vec::new();
        for (file, place) in files {
            file.clean(self.folders.as_ref(), place, left);
            if file.before.is_some() && file.after.is_some() {
                replaced.push(place);
            }
            crash.pass()?;
        }
        // A loss of power only brings back contents that nobody needs.
        let _ = self.sync(replaced.into_iter());
        Ok(())
    }
}

fn crashed() -> io::Error {
    io::Error::other("simulated crash")
}

impl FileRecord {
    fn side(&self, folders: &dyn Folders, place: &Resolved) -> io::Result<FileSide> {
        let folder = match folders.parent(place) {
            Ok(folder) => folder,
            // A missing directory has no files.
            Err(error) if is_no_directory(&error) => {
                return Ok(match self.before {
                    None => FileSide::Before { ready: false },
                    Some(_) => FileSide::Neither,
                });
            }
            Err(error) => return Err(error),
        };
        let (folder, name) = (folder.as_ref(), name_of(place));
        match (folder.digest(name), folder.digest(&self.temporary)) {
            (Ok(target), Ok(beside)) => Ok(self.side_with(folder, name, target, beside)),
            (Err(EntryError::Io(error)), _) | (_, Err(EntryError::Io(error))) => Err(error),
            _ => Ok(FileSide::Neither),
        }
    }

    /// The side of a file with this content, and this one beside it.
    fn side_with(
        &self,
        folder: &dyn Folder,
        name: &str,
        target: Option<Digest>,
        beside: Option<Digest>,
    ) -> FileSide {
        if target == self.after && target != self.before {
            // Beside a created or moved file is nothing, beside a deleted one its old content.
            return match beside {
                beside if beside == self.before || self.before.is_none() => FileSide::After { kept: true },
                // Another program has written the same content.
                beside if beside.is_none() || beside == self.after => FileSide::After { kept: false },
                _ => self.displaced(folder, name),
            };
        }
        if target == self.before {
            let ready = self.after.is_none() || beside == self.after;
            return FileSide::Before { ready };
        }
        FileSide::Neither
    }

    /// Gives a displaced file with unexpected content its name back.
    fn displaced(&self, folder: &dyn Folder, name: &str) -> FileSide {
        match self.after {
            Some(after) => {
                put_back(folder, &self.temporary, name, after);
            }
            None => {
                let _ = folder.rename_new(&self.temporary, name);
            }
        }
        FileSide::Neither
    }

    /// Gives the file its new content, and keeps the old one beside it.
    fn forward(
        &self,
        folders: &dyn Folders,
        place: &Resolved,
        crash: &mut CrashPoint,
    ) -> Result<(), StepFailure> {
        let (folder, name) = (folders.parent(place)?, name_of(place));
        let folder = folder.as_ref();
        crash.pass()?;
        match (self.before, self.after) {
            (Some(before), Some(after)) => self.exchange(folder, name, [before, after], crash)?,
            (None, _) => folder.rename_new(&self.temporary, name).map_err(taken)?,
            (Some(before), None) => self.take_away(folder, name, Some(before), crash)?,
        }
        crash.pass()
    }

    /// Gives the file its old content back.
    fn back(
        &self,
        folders: &dyn Folders,
        place: &Resolved,
        crash: &mut CrashPoint,
    ) -> Result<(), StepFailure> {
        let (folder, name) = (folders.parent(place)?, name_of(place));
        let folder = folder.as_ref();
        crash.pass()?;
        match (self.before, self.after) {
            (Some(before), Some(after)) => self.exchange(folder, name, [after, before], crash)?,
            (None, after) => self.take_away(folder, name, after, crash)?,
            (Some(_), None) => folder.rename_new(&self.temporary, name).map_err(taken)?,
        }
        crash.pass()
    }

    /// Exchanges a file with the one beside it, if it holds the first of these contents; it then holds the second.
    fn exchange(
        &self,
        folder: &dyn Folder,
        name: &str,
        [from, to]: [Digest; 2],
        crash: &mut CrashPoint,
    ) -> Result<(), StepFailure> {
        folder.exchange(&self.temporary, name).map_err(missing)?;
        crash.pass()?;
        self.check_displaced(folder, Some(from)).inspect_err(|_| {
            put_back(folder, &self.temporary, name, to);
        })
    }

    /// Moves a file beside its place, if it holds this content.
    fn take_away(
        &self,
        folder: &dyn Folder,
        name: &str,
        from: Option<Digest>,
        crash: &mut CrashPoint,
    ) -> Result<(), StepFailure> {
        folder.rename_new(name, &self.temporary).map_err(missing)?;
        crash.pass()?;
        self.check_displaced(folder, from).inspect_err(|_| {
            let _ = folder.rename_new(&self.temporary, name);
        })
    }

    /// Checks that what a step has moved beside the file is the expected content.
    fn check_displaced(&self, folder: &dyn Folder, expected: Option<Digest>) -> Result<(), StepFailure> {
        match folder.digest(&self.temporary) {
            Ok(displaced) if displaced == expected => Ok(()),
            Ok(displaced) => Err(StepFailure::OtherContent(displaced)),
            Err(EntryError::Io(error)) => Err(StepFailure::Io(error)),
            Err(EntryError::NotAFile | EntryError::TooLarge { .. }) => Err(StepFailure::OtherContent(None)),
        }
    }

    /// Removes the file beside this one, unless it holds other content than `left` allows.
    fn clean(&self, folders: &dyn Folders, place: &Resolved, left: LeftoverContent) {
        let Ok(folder) = folders.parent(place) else { return };
        let ours = match left {
            LeftoverContent::Any => None,
            LeftoverContent::New => Some(self.after),
            LeftoverContent::Old => Some(self.before),
        };
        if ours.is_some_and(|ours| digest_of(folder.as_ref(), &self.temporary) != ours) {
            if folder.has(&self.temporary) {
                tracing::warn!(file = self.temporary, "another version of a file was kept beside it");
            }
            return;
        }
        let _ = folder.remove(&self.temporary);
    }
}

/// Returns whether there is no such directory, as against one that can't be used.
fn is_no_directory(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The name of a file in its directory.
fn name_of(place: &Resolved) -> &str {
    place.names_below().1
}

fn missing(error: io::Error) -> StepFailure {
    match error.kind() {
        io::ErrorKind::NotFound => StepFailure::OtherContent(None),
        _ => StepFailure::Io(error),
    }
}

fn taken(error: io::Error) -> StepFailure {
    match error.kind() {
        io::ErrorKind::AlreadyExists => StepFailure::Exists,
        _ => StepFailure::Io(error),
    }
}

impl Prepared {
    /// Writes the new contents beside their files. No file changes, and nothing remains if this fails.
    pub(super) fn new(
        journal: Journal,
        steps: Vec<FileStep>,
        buffers: Vec<(PathBuf, Option<Digest>)>,
    ) -> Result<Self, WriteError> {
        Self::new_with(journal, steps, buffers, CrashPoint::from_environment())
    }

    fn new_with(
        journal: Journal,
        steps: Vec<FileStep>,
        buffers: Vec<(PathBuf, Option<Digest>)>,
        crash: CrashPoint,
    ) -> Result<Self, WriteError> {
        let files = steps.iter().map(|step| FileRecord {
            target: step.target.absolute().to_path_buf(),
            temporary: roo_durable::temporary_name(),
            before: step.before,
            after: step.after.as_ref().map(Digest::of),
        });
        let files = files.collect();
        let record = JournalRecord { phase: Phase::Prepare, files, buffers };
        let mut prepared = Self { journal, record, steps, crash };
        let place = prepared.steps.first().map(|step| step.target.display()).unwrap_or_default();
        prepared.reach(Phase::Prepare).map_err(|failure| failed(&place, None, failure))?;
        for index in 0..prepared.steps.len() {
            if let Err(failure) = prepared.stage(index) {
                let is_alive = !matches!(failure, StepFailure::Crashed);
                let step = &prepared.steps[index];
                let error = failed(&step.target.display(), step.before, failure);
                if is_alive {
                    prepared.abandon();
                }
                return Err(error);
            }
        }
        Ok(prepared)
    }

    fn stage(&mut self, index: usize) -> Result<(), StepFailure> {
        let (step, file) = (&self.steps[index], &self.record.files[index]);
        let Some(content) = &step.after else { return Ok(()) };
        let folders = &self.journal.folders;
        let folder = match step.before {
            Some(_) => folders.parent(&step.target)?,
            None => folders.parent_created(&step.target)?,
        };
        let like = step.like.as_ref().or(step.before.map(|_| &step.target));
        self.crash.pass()?;
        folder.create(&file.temporary, content, like)?;
        self.crash.pass()
    }

    fn reach(&mut self, phase: Phase) -> Result<(), StepFailure> {
        self.record.phase = phase;
        self.journal.write(&self.record)?;
        self.crash.pass()
    }

    /// Records that an editor is about to change its open documents.
    pub(super) fn edits(&mut self) -> Result<(), WriteError> {
        let place = self.steps.first().map(|step| step.target.display()).unwrap_or_default();
        self.reach(Phase::Edit).map_err(|failure| failed(&place, None, failure))
    }

    /// Changes the files, or none of them.
    pub(super) fn commit(mut self) -> Result<(), WriteError> {
        let place = self.steps.first().map(|step| step.target.display()).unwrap_or_default();
        if let Err(failure) = self.reach(Phase::Commit) {
            let is_alive = !matches!(failure, StepFailure::Crashed);
            let error = failed(&place, None, failure);
            if is_alive {
                self.abandon();
            }
            return Err(error);
        }
        for index in 0..self.steps.len() {
            let (step, file) = (&self.steps[index], &self.record.files[index]);
            if let Err(failure) = file.forward(self.journal.folders.as_ref(), &step.target, &mut self.crash) {
                if matches!(failure, StepFailure::Crashed) {
                    return Err(failed(&place, None, failure));
                }
                let error = failed(&step.target.display(), step.before, failure);
                return Err(self.undo(index).unwrap_or(error));
            }
        }
        // All files have changed. The next holder of the lock completes what fails from now on.
        if self.sync().is_ok() && self.reach(Phase::Done).is_ok() {
            let _ = self.clean(LeftoverContent::Old);
        }
        Ok(())
    }

    /// Restores the first `count` files. Returns an error if that fails.
    fn undo(&mut self, count: usize) -> Option<WriteError> {
        let unsettled = |files: Vec<String>| Some(WriteError::Unsettled { files });
        let names = |steps: &[FileStep]| steps.iter().map(|step| step.target.display()).collect();
        if self.reach(Phase::Undo).is_err() {
            return unsettled(names(&self.steps[..count]));
        }
        let mut left = Vec::new();
        for (file, step) in self.record.files.iter().zip(&self.steps).take(count).rev() {
            if file.back(self.journal.folders.as_ref(), &step.target, &mut self.crash).is_err() {
                left.push(step.target.display());
            }
        }
        if left.is_empty() {
            // Where the old names could not be synced, the journal stays as well.
            let _ = self.sync().map_err(StepFailure::from).and_then(|()| self.clean(LeftoverContent::New));
            return None;
        }
        // The journal stays, and with it both contents of every file.
        unsettled(left)
    }

    /// Removes the prepared contents. No file has changed.
    pub(super) fn abandon(mut self) {
        let _ = self.clean(LeftoverContent::Any);
    }

    fn sync(&self) -> io::Result<()> {
        self.journal.sync(self.steps.iter().map(|step| &step.target))
    }

    fn clean(&mut self, left: LeftoverContent) -> Result<(), StepFailure> {
        let files = self.record.files.iter().zip(self.steps.iter().map(|step| &step.target));
        self.journal.clean(files, left, &mut self.crash)?;
        self.journal.remove()?;
        Ok(())
    }
}

fn failed(path: &str, expected: Option<Digest>, failure: StepFailure) -> WriteError {
    let path = path.to_owned();
    match (failure, expected) {
        (StepFailure::OtherContent(actual), Some(expected)) => WriteError::Stale { path, expected, actual },
        (StepFailure::OtherContent(_) | StepFailure::Exists, _) => WriteError::Exists { path },
        (StepFailure::Io(source), _) => WriteError::Io { path, source },
        (StepFailure::Crashed, _) => WriteError::Io { path, source: crashed() },
    }
}

/// In debug builds: aborts the process after a number of steps, as `kill -9` would.
#[derive(Debug, Default)]
struct CrashPoint {
    /// Number of steps left; none for no limit.
    #[cfg(debug_assertions)]
    left: Option<u64>,
    /// Returns an error instead of aborting, in unit tests.
    #[cfg(test)]
    returns_error: bool,
}

impl CrashPoint {
    #[cfg(debug_assertions)]
    fn from_environment() -> Self {
        let left = std::env::var("ROO_LSP_CRASH_AFTER_STEPS").ok().and_then(|count| count.parse().ok());
        Self {
            left,
            #[cfg(test)]
            returns_error: false,
        }
    }

    #[cfg(not(debug_assertions))]
    fn from_environment() -> Self {
        Self::default()
    }

    /// Counts a step.
    #[cfg_attr(not(debug_assertions), expect(clippy::unused_self, reason = "nothing is counted"))]
    fn pass(&mut self) -> Result<(), StepFailure> {
        #[cfg(debug_assertions)]
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(1);
            if *left == 0 {
                #[cfg(test)]
                if self.returns_error {
                    // Every later step fails too.
                    *left = 1;
                    return Err(StepFailure::Crashed);
                }
                std::process::abort();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
