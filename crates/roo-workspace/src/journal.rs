//! Several files on disk, all of them changed or none: the journal, the steps of a commit, and what follows
//! when its process dies.
//!
//! A change goes through phases, and each is durable before the next begins: [`Phase::Prepare`], while the
//! new contents are written beside their files; [`Phase::Commit`], while each takes the place of its file and
//! the old content takes its own; [`Phase::Done`], while the old contents are removed. Until the end both
//! contents are there, so that whoever finds the journal can go on to either side. [`Phase::Undo`] leads
//! back. A file that holds neither its old nor its new content stops this: its bytes are somebody's, and so
//! the user decides.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::commit::{WriteError, put_back};
use super::folder::{Folder, Folders, WorkspaceFolders};
use super::resolver::{Purpose, Resolved, Roots};
use roo_durable::PrivateFile;
use roo_durable::disk::{Disk, RealDisk};
use roo_protocol::ids::Digest;

/// The largest journal that is read, in bytes.
const LARGEST: u64 = 64 << 20;

/// The digest of a text that an editor has open, or of the file where none is open; none where nothing is.
pub(super) type BufferText<'a> = &'a dyn Fn(&Path) -> Option<Digest>;

/// One file of a change, with its exact bytes.
#[derive(Clone, Debug)]
pub(super) struct FileStep {
    pub(super) target: Resolved,
    /// The digest of the bytes that are there; none for a file that is created.
    pub(super) before: Option<Digest>,
    /// The bytes that come; none for a file that is deleted.
    pub(super) after: Option<Vec<u8>>,
    /// File from which a created file takes owner and mode, if it is a moved one.
    pub(super) like: Option<Resolved>,
}

/// Progress of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Phase {
    /// New contents are written beside their files. No file has changed.
    Prepare,
    /// All are there. No file has changed on disk; an editor may have changed what it has open.
    Edit,
    /// Files change.
    Commit,
    /// Files change back.
    Undo,
    /// All have changed; what is beside them is removed.
    Done,
}

/// A change that is under way, as it is on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) phase: Phase,
    pub(super) files: Vec<FileRecord>,
    /// The files of it that an editor changes, with the digests of their new texts; none of one that it
    /// deletes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) buffers: Vec<(PathBuf, Option<Digest>)>,
}

/// One file of a change, as it is on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileRecord {
    target: PathBuf,
    /// The name beside it that its new content has, and then its old one.
    temporary: String,
    before: Option<Digest>,
    after: Option<Digest>,
}

/// The place of the journal of a root. It is used under the root's lock alone.
#[derive(Clone, Debug)]
pub(super) struct Journal {
    file: PrivateFile,
    disk: Arc<dyn Disk>,
    folders: Arc<dyn Folders>,
}

/// A change that could be brought to neither side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// The files that hold neither what they held before nor what they were to hold.
    pub files: Vec<PathBuf>,
    /// Path of its journal.
    pub journal: PathBuf,
}

/// A change whose new contents are all beside their files.
#[derive(Debug)]
pub(super) struct Prepared {
    journal: Journal,
    record: Record,
    steps: Vec<FileStep>,
    kills: Kills,
}

/// State of a file of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    /// As before; whether its new content is at hand.
    Before { ready: bool },
    /// As after; whether its old content is at hand.
    After { kept: bool },
    /// Neither.
    Neither,
}

/// Files that may remain beside a file at the end.
#[derive(Clone, Copy, Debug)]
enum Left {
    /// Its new content, finished or not.
    Anything,
    /// Its new content.
    New,
    /// Its old content.
    Old,
}

/// Reasons why a step failed.
#[derive(Debug)]
enum StepFailure {
    /// The file holds this instead of what it should; none when it is missing.
    Other(Option<Digest>),
    /// Something is where nothing should be.
    Taken,
    Io(io::Error),
    /// The process has died here; told within tests only.
    #[cfg_attr(not(test), expect(dead_code, reason = "elsewhere nothing lives to tell it"))]
    Killed,
}

impl From<io::Error> for StepFailure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Journal {
    /// The journal whose lock has this path.
    pub(super) fn beside(lock: &Path) -> Self {
        Self::on(Arc::new(RealDisk), Arc::new(WorkspaceFolders), lock)
    }

    /// As [`Journal::beside`], on this disk, with these directories of the workspace.
    fn on(disk: Arc<dyn Disk>, folders: Arc<dyn Folders>, lock: &Path) -> Self {
        let file = PrivateFile::on(Arc::clone(&disk), lock.with_extension("changes"));
        Self { file, disk, folders }
    }

    /// Returns whether a change is under way, or was when its writer died.
    pub(super) fn is_there(&self) -> bool {
        // Where that can't be known, the lock is taken to find out.
        self.disk.exists(self.file.path()).unwrap_or(true)
    }

    /// The change that a writer left behind when it died.
    fn read(&self) -> io::Result<Option<Record>> {
        let bytes = self.file.read(LARGEST)?;
        bytes.map(|bytes| serde_json::from_slice(&bytes).map_err(io::Error::other)).transpose()
    }

    /// Durable when it returns.
    fn write(&self, record: &Record) -> io::Result<()> {
        self.file.replace(&serde_json::to_vec(record)?)
    }

    fn remove(&self) -> io::Result<()> {
        self.file.remove().map(drop)
    }

    /// Makes the names of some files survive a loss of power.
    fn sync<'a>(&self, places: impl Iterator<Item = &'a Resolved>) -> io::Result<()> {
        let directories: BTreeMap<&Path, &Resolved> =
            places.filter_map(|place| Some((place.absolute().parent()?, place))).collect();
        directories.into_values().try_for_each(|place| match self.folders.parent(place) {
            // What is not there has no names.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            folder => folder?.sync(),
        })
    }

    /// Brings a change whose writer died to one side. `buffer` tells the digest of the text of an open file,
    /// or of the file where none is open; a change that waits for an editor is left alone without it.
    pub(super) fn recover(
        &self,
        roots: &Roots,
        buffer: Option<BufferText<'_>>,
    ) -> io::Result<Option<Stopped>> {
        self.recover_with(roots, buffer, &mut Kills::from_environment())
    }

    fn recover_with(
        &self,
        roots: &Roots,
        buffer: Option<BufferText<'_>>,
        kills: &mut Kills,
    ) -> io::Result<Option<Stopped>> {
        let mut record = match self.read() {
            Ok(Some(record)) => record,
            Ok(None) => return Ok(None),
            // It is put in place whole, so one that can't be read was written by another version.
            Err(_) => return self.stop(vec![]).map(Some),
        };
        let phase = match (record.phase, buffer) {
            (Phase::Edit, None) => return Ok(None),
            // What the editor has shows whether it took the edit.
            (Phase::Edit, Some(buffer)) => {
                let taken = record.buffers.iter().all(|(path, after)| buffer(path) == *after);
                if taken { Phase::Commit } else { Phase::Prepare }
            }
            (phase, _) => phase,
        };
        let mut files = Vec::new();
        for file in &record.files {
            // The place of a file that is to be created may have lost its directory.
            let place = roots.resolve(&file.target.to_string_lossy(), Purpose::Write);
            files.push((file.clone(), place.ok().filter(|place| place.absolute() == file.target)));
        }
        let left = match phase {
            // Nothing was touched, and what is beside the files may be unfinished.
            Phase::Prepare | Phase::Edit => Left::Anything,
            Phase::Done => Left::Old,
            Phase::Commit | Phase::Undo => {
                let side = self.bring_to_one_side(&mut record, phase, &files, kills)?;
                match side {
                    Ok(left) => left,
                    Err(lost) => return self.stop(lost).map(Some),
                }
            }
        };
        let cleaned = files.iter().filter_map(|(file, place)| Some((file, place.as_ref()?)));
        self.clean(cleaned, left, kills).map_err(|_| killed())?;
        self.remove()?;
        Ok(None)
    }

    /// Brings all files forward if that is possible, else all back; the files that stand in the way of both.
    fn bring_to_one_side(
        &self,
        record: &mut Record,
        phase: Phase,
        files: &[(FileRecord, Option<Resolved>)],
        kills: &mut Kills,
    ) -> io::Result<Result<Left, Vec<PathBuf>>> {
        let stood = |(file, place): &(FileRecord, Option<Resolved>)| match place {
            Some(place) => file.stand(self.folders.as_ref(), place),
            None => Stand::Neither,
        };
        let stands: Vec<Stand> = files.iter().map(stood).collect();
        let forward = phase == Phase::Commit && !stands.contains(&Stand::Before { ready: false });
        let impossible = |stand: &Stand| match stand {
            Stand::Neither => true,
            Stand::After { kept } => !forward && !kept,
            Stand::Before { ready } => forward && !ready,
        };
        let mut lost: Vec<PathBuf> = files
            .iter()
            .zip(&stands)
            .filter(|(_, stand)| impossible(stand))
            .map(|((file, _), _)| file.target.clone())
            .collect();
        if lost.is_empty() {
            let side = if forward { Phase::Commit } else { Phase::Undo };
            if record.phase != side {
                record.phase = side;
                self.write(record)?;
            }
            for ((file, place), stand) in files.iter().zip(&stands) {
                let Some(place) = place else { continue };
                let moved = match (forward, stand) {
                    (true, Stand::Before { .. }) => file.forward(self.folders.as_ref(), place, kills),
                    (false, Stand::After { .. }) => file.back(self.folders.as_ref(), place, kills),
                    _ => Ok(()),
                };
                match moved {
                    Ok(()) => {}
                    Err(StepFailure::Killed) => return Err(killed()),
                    Err(_) => lost.push(file.target.clone()),
                }
            }
            if lost.is_empty() {
                self.sync(files.iter().filter_map(|(_, place)| place.as_ref()))?;
            }
            if forward && lost.is_empty() {
                record.phase = Phase::Done;
                self.write(record)?;
                kills.pass().map_err(|_| killed())?;
            }
        }
        Ok(if lost.is_empty() { Ok(if forward { Left::Old } else { Left::New }) } else { Err(lost) })
    }

    /// Puts the journal where it holds up nothing and nothing is lost.
    fn stop(&self, files: Vec<PathBuf>) -> io::Result<Stopped> {
        let name = format!("stopped-{}", uuid::Uuid::new_v4().simple());
        let journal = self.file.path().with_extension(name);
        self.disk.rename(self.file.path(), &journal)?;
        Ok(Stopped { files, journal })
    }

    /// Removes what is beside the files.
    fn clean<'a>(
        &self,
        files: impl Iterator<Item = (&'a FileRecord, &'a Resolved)>,
        left: Left,
        kills: &mut Kills,
    ) -> Result<(), StepFailure> {
        let mut replaced = Vec::new();
        for (file, place) in files {
            file.clean(self.folders.as_ref(), place, left);
            if file.before.is_some() && file.after.is_some() {
                replaced.push(place);
            }
            kills.pass()?;
        }
        // A loss of power may only bring back what is of no use.
        let _ = self.sync(replaced.into_iter());
        Ok(())
    }
}

fn killed() -> io::Error {
    io::Error::other("ended here")
}

impl FileRecord {
    fn stand(&self, folders: &dyn Folders, place: &Resolved) -> Stand {
        let Ok(folder) = folders.parent(place) else {
            // A directory that is missing holds nothing.
            return match self.before {
                None => Stand::Before { ready: false },
                Some(_) => Stand::Neither,
            };
        };
        let (folder, name) = (folder.as_ref(), name_of(place));
        let (Ok(target), Ok(beside)) = (folder.digest(name), folder.digest(&self.temporary)) else {
            return Stand::Neither;
        };
        if target == self.after && target != self.before {
            // Of a created or a moved file nothing is beside it, and of a deleted one its old content.
            return match beside {
                beside if beside == self.before || self.before.is_none() => Stand::After { kept: true },
                // Somebody has written just this.
                beside if beside.is_none() || beside == self.after => Stand::After { kept: false },
                _ => self.displaced(folder, name),
            };
        }
        if target == self.before {
            let ready = self.after.is_none() || beside == self.after;
            return Stand::Before { ready };
        }
        Stand::Neither
    }

    /// Handles a displaced file that was not the expected one: it gets its name back.
    fn displaced(&self, folder: &dyn Folder, name: &str) -> Stand {
        match self.after {
            Some(after) => {
                put_back(folder, &self.temporary, name, after);
            }
            None => {
                let _ = folder.rename_new(&self.temporary, name);
            }
        }
        Stand::Neither
    }

    /// Gives the file its new content, and keeps the old one beside it.
    fn forward(&self, folders: &dyn Folders, place: &Resolved, kills: &mut Kills) -> Result<(), StepFailure> {
        let (folder, name) = (folders.parent(place)?, name_of(place));
        let folder = folder.as_ref();
        kills.pass()?;
        match (self.before, self.after) {
            (Some(before), Some(after)) => self.exchange(folder, name, [before, after], kills)?,
            (None, _) => folder.rename_new(&self.temporary, name).map_err(taken)?,
            (Some(before), None) => self.take_away(folder, name, Some(before), kills)?,
        }
        kills.pass()
    }

    /// Gives the file its old content back.
    fn back(&self, folders: &dyn Folders, place: &Resolved, kills: &mut Kills) -> Result<(), StepFailure> {
        let (folder, name) = (folders.parent(place)?, name_of(place));
        let folder = folder.as_ref();
        kills.pass()?;
        match (self.before, self.after) {
            (Some(before), Some(after)) => self.exchange(folder, name, [after, before], kills)?,
            (None, after) => self.take_away(folder, name, after, kills)?,
            (Some(_), None) => folder.rename_new(&self.temporary, name).map_err(taken)?,
        }
        kills.pass()
    }

    /// Exchanges a file with what lies beside it, if it holds the first of these contents; it gets the second.
    fn exchange(
        &self,
        folder: &dyn Folder,
        name: &str,
        [from, to]: [Digest; 2],
        kills: &mut Kills,
    ) -> Result<(), StepFailure> {
        folder.exchange(&self.temporary, name).map_err(missing)?;
        kills.pass()?;
        let displaced = digest(folder, &self.temporary);
        if displaced == Some(from) {
            return Ok(());
        }
        put_back(folder, &self.temporary, name, to);
        Err(StepFailure::Other(displaced))
    }

    /// Puts a file beside its place, if it holds this.
    fn take_away(
        &self,
        folder: &dyn Folder,
        name: &str,
        from: Option<Digest>,
        kills: &mut Kills,
    ) -> Result<(), StepFailure> {
        folder.rename_new(name, &self.temporary).map_err(missing)?;
        kills.pass()?;
        let displaced = digest(folder, &self.temporary);
        if displaced == from {
            return Ok(());
        }
        let _ = folder.rename_new(&self.temporary, name);
        Err(StepFailure::Other(displaced))
    }

    /// Removes what is beside the file, unless it is somebody else's.
    fn clean(&self, folders: &dyn Folders, place: &Resolved, left: Left) {
        let Ok(folder) = folders.parent(place) else { return };
        let ours = match left {
            Left::Anything => None,
            Left::New => Some(self.after),
            Left::Old => Some(self.before),
        };
        if ours.is_some_and(|ours| digest(folder.as_ref(), &self.temporary) != ours) {
            if folder.has(&self.temporary) {
                tracing::warn!(file = self.temporary, "another version of a file was saved beside it");
            }
            return;
        }
        let _ = folder.remove(&self.temporary);
    }
}

/// The name of a file in its directory.
fn name_of(place: &Resolved) -> &str {
    place.names_below().1
}

fn missing(error: io::Error) -> StepFailure {
    match error.kind() {
        io::ErrorKind::NotFound => StepFailure::Other(None),
        _ => StepFailure::Io(error),
    }
}

fn taken(error: io::Error) -> StepFailure {
    match error.kind() {
        io::ErrorKind::AlreadyExists => StepFailure::Taken,
        _ => StepFailure::Io(error),
    }
}

fn digest(folder: &dyn Folder, name: &str) -> Option<Digest> {
    folder.digest(name).ok().flatten()
}

impl Prepared {
    /// Writes the new contents beside their files. No file changes. When this fails nothing is left.
    pub(super) fn new(
        journal: Journal,
        steps: Vec<FileStep>,
        buffers: Vec<(PathBuf, Option<Digest>)>,
    ) -> Result<Self, WriteError> {
        Self::new_with(journal, steps, buffers, Kills::from_environment())
    }

    fn new_with(
        journal: Journal,
        steps: Vec<FileStep>,
        buffers: Vec<(PathBuf, Option<Digest>)>,
        kills: Kills,
    ) -> Result<Self, WriteError> {
        let files = steps.iter().map(|step| FileRecord {
            target: step.target.absolute().to_path_buf(),
            temporary: format!(".roo-lsp-{}.tmp", uuid::Uuid::new_v4().simple()),
            before: step.before,
            after: step.after.as_ref().map(Digest::of),
        });
        let files = files.collect();
        let record = Record { phase: Phase::Prepare, files, buffers };
        let mut prepared = Self { journal, record, steps, kills };
        let place = prepared.steps.first().map(|step| step.target.display()).unwrap_or_default();
        prepared.reach(Phase::Prepare).map_err(|failure| failed(&place, None, failure))?;
        for index in 0..prepared.steps.len() {
            if let Err(failure) = prepared.stage(index) {
                let is_alive = !matches!(failure, StepFailure::Killed);
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
        self.kills.pass()?;
        folder.create(&file.temporary, content, like)?;
        self.kills.pass()
    }

    fn reach(&mut self, phase: Phase) -> Result<(), StepFailure> {
        self.record.phase = phase;
        self.journal.write(&self.record)?;
        self.kills.pass()
    }

    /// Says that an editor is about to change what it has open.
    pub(super) fn edits(&mut self) -> Result<(), WriteError> {
        let place = self.steps.first().map(|step| step.target.display()).unwrap_or_default();
        self.reach(Phase::Edit).map_err(|failure| failed(&place, None, failure))
    }

    /// Changes the files, or none of them.
    pub(super) fn commit(mut self) -> Result<(), WriteError> {
        let place = self.steps.first().map(|step| step.target.display()).unwrap_or_default();
        if let Err(failure) = self.reach(Phase::Commit) {
            let is_alive = !matches!(failure, StepFailure::Killed);
            let error = failed(&place, None, failure);
            if is_alive {
                self.abandon();
            }
            return Err(error);
        }
        for index in 0..self.steps.len() {
            let (step, file) = (&self.steps[index], &self.record.files[index]);
            if let Err(failure) = file.forward(self.journal.folders.as_ref(), &step.target, &mut self.kills) {
                if matches!(failure, StepFailure::Killed) {
                    return Err(failed(&place, None, failure));
                }
                let error = failed(&step.target.display(), step.before, failure);
                return Err(self.undo(index).unwrap_or(error));
            }
        }
        // They are all there. What fails from now on is for the next holder of the lock.
        if self.sync().is_ok() && self.reach(Phase::Done).is_ok() {
            let _ = self.clean(Left::Old);
        }
        Ok(())
    }

    /// Brings back the files before this one; why not, if it can't.
    fn undo(&mut self, count: usize) -> Option<WriteError> {
        let unsettled = |files: Vec<String>| Some(WriteError::Unsettled { files });
        let names = |steps: &[FileStep]| steps.iter().map(|step| step.target.display()).collect();
        if self.reach(Phase::Undo).is_err() {
            return unsettled(names(&self.steps[..count]));
        }
        let mut left = Vec::new();
        for (file, step) in self.record.files.iter().zip(&self.steps).take(count).rev() {
            if file.back(self.journal.folders.as_ref(), &step.target, &mut self.kills).is_err() {
                left.push(step.target.display());
            }
        }
        if left.is_empty() {
            // Where the old names could not be synced, the journal stays as well.
            let _ = self.sync().map_err(StepFailure::from).and_then(|()| self.clean(Left::New));
            return None;
        }
        // The journal stays, and with it what is needed to go either way.
        unsettled(left)
    }

    /// Removes what was prepared. No file has changed.
    pub(super) fn abandon(mut self) {
        let _ = self.clean(Left::Anything);
    }

    fn sync(&self) -> io::Result<()> {
        self.journal.sync(self.steps.iter().map(|step| &step.target))
    }

    fn clean(&mut self, left: Left) -> Result<(), StepFailure> {
        let files = self.record.files.iter().zip(self.steps.iter().map(|step| &step.target));
        self.journal.clean(files, left, &mut self.kills)?;
        self.journal.remove()?;
        Ok(())
    }
}

fn failed(path: &str, expected: Option<Digest>, failure: StepFailure) -> WriteError {
    let path = path.to_owned();
    match (failure, expected) {
        (StepFailure::Other(actual), Some(expected)) => WriteError::Stale { path, expected, actual },
        (StepFailure::Other(_) | StepFailure::Taken, _) => WriteError::Exists { path },
        (StepFailure::Io(source), _) => WriteError::Io { path, source },
        (StepFailure::Killed, _) => WriteError::Io { path, source: killed() },
    }
}

/// In test builds: ends the process at an exact step, as `kill -9` would.
#[derive(Debug, Default)]
struct Kills {
    /// Number of steps left; none never ends.
    #[cfg(debug_assertions)]
    left: Option<u64>,
    /// Within a test, which goes on without the process.
    #[cfg(test)]
    only_told: bool,
}

impl Kills {
    #[cfg(debug_assertions)]
    fn from_environment() -> Self {
        let left = std::env::var("ROO_LSP_CRASH_AFTER_STEPS").ok().and_then(|count| count.parse().ok());
        Self {
            left,
            #[cfg(test)]
            only_told: false,
        }
    }

    #[cfg(not(debug_assertions))]
    fn from_environment() -> Self {
        Self::default()
    }

    /// A step is done.
    #[cfg_attr(not(debug_assertions), expect(clippy::unused_self, reason = "nothing is counted"))]
    fn pass(&mut self) -> Result<(), StepFailure> {
        #[cfg(debug_assertions)]
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(1);
            if *left == 0 {
                #[cfg(test)]
                if self.only_told {
                    // Whatever is tried from now on has not happened either.
                    *left = 1;
                    return Err(StepFailure::Killed);
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
