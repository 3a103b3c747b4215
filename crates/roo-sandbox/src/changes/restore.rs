//! The way back: what a command was not allowed to do is undone, where nobody else has been since.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, Timespec, Timestamps, fchmod, futimens, mkdirat, openat,
    renameat, renameat_with, symlinkat, unlinkat,
};

use super::difference::{Change, Changes, What};
use super::files::{is_same_file, look, open_file, open_root, parent, pending, read_at_most, set_mode};
use super::record::{Fingerprint, Kind, State};
use super::recording::{RecordedRoot, Recording, is_moved};
use super::store::Store;
use crate::exec::sandbox::{BeforeImage, Journal};
use roo_protocol::ids::Digest;

/// The largest file that is copied when it can't be moved out of the way, in bytes.
const MAX_COPY_BYTES: u64 = 64 << 20;

/// Reasons why something was left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UndoFailure {
    /// Somebody else changed it after the command.
    ChangedMeanwhile,
    /// The earlier content has not been kept: too large, or more than there is room for.
    NotKept,
    /// The system refused.
    Failed(String),
}

/// Outcome of undoing a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UndoOutcome {
    /// It is as it was before the command.
    Restored {
        /// Path of the command's version, if it was kept.
        moved: Option<PathBuf>,
    },
    /// It is as it is, and the user has to decide.
    NotUndone {
        /// Reason.
        why: UndoFailure,
        /// Path of the content from before the command, if it was kept.
        kept: Option<PathBuf>,
    },
}

/// A change and what came of undoing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndoResult {
    pub change: Change,
    pub outcome: UndoOutcome,
}

impl UndoResult {
    /// Returns whether it is as it was before the command.
    pub fn is_restored(&self) -> bool {
        matches!(self.outcome, UndoOutcome::Restored { .. })
    }
}

impl Recording {
    /// Undoes the violations among the changes, with what the store and the journal kept. A file that was moved to a name
    /// which is not allowed comes back to its old one, though it might have been removed there. Writes the disk, so not
    /// for a thread of the runtime.
    pub fn restore(&self, changes: &Changes, store: &Store, journal: &Journal) -> Vec<UndoResult> {
        let moves = forbidden_moves(changes);
        let mut wrong: Vec<&Change> = changes.violations().collect();
        let departures = moves.iter().map(|(_, departure)| *departure);
        wrong.extend(departures.filter(|departure| !departure.is_violation()));
        for directory in directories_around(&wrong, changes) {
            // Where one can't be made, that is told of what was in it.
            let _ = self.undo(directory, store, journal, &HashMap::new());
        }
        let mut settled = Vec::new();
        let mut is_settled: HashSet<(usize, &Path)> = HashSet::new();
        for (arrival, departure) in &moves {
            if self.move_back(arrival, departure).is_ok() {
                for change in [*departure, *arrival] {
                    is_settled.insert((change.root, &change.path));
                    let outcome = UndoOutcome::Restored { moved: None };
                    settled.push(UndoResult { change: change.clone(), outcome });
                }
            }
        }
        self.remove_emptied(&settled, changes);
        // A file that is only at another place can be brought back from there.
        let mut elsewhere: HashMap<(u64, u64), CurrentLocation> = HashMap::new();
        let renamed = changes.changes.iter().filter(|change| change.renamed_from.is_some());
        for change in renamed.chain(moves.iter().map(|(arrival, _)| *arrival)) {
            if let Some(print) = change.after.as_ref().and_then(|after| after.print) {
                let place = CurrentLocation::InRoot(change.root, change.path.as_os_str().as_bytes().to_vec());
                elsewhere.insert((print.device, print.inode), place);
            }
        }
        wrong.retain(|change| !is_settled.contains(&(change.root, &*change.path)));
        // Moved files are brought back before their new places are cleared. Then new files go from the inside out, and
        // deleted ones come back from the outside in.
        wrong.sort_by_key(|change| {
            let depth = change.path.components().count();
            match change.what {
                _ if !change.is_violation() => (0, depth),
                What::Created => (1, usize::MAX - depth),
                _ => (2, depth),
            }
        });
        let mut undo = |change: &Change| {
            let settled = self.undo(change, store, journal, &elsewhere);
            if let (Some(print), UndoOutcome::Restored { moved: Some(moved) }) =
                (change.after.as_ref().and_then(|after| after.print), &settled.outcome)
            {
                elsewhere.insert((print.device, print.inode), CurrentLocation::Moved(moved.clone()));
            }
            settled
        };
        settled.extend(wrong.into_iter().map(&mut undo));
        settled
    }

    /// Moves a file that came up where it is not allowed to the place where it was, if nothing is there.
    fn move_back(&self, arrival: &Change, departure: &Change) -> Result<(), UndoFailure> {
        let handle = |change: &Change| self.roots.get(change.root).map(|root| root.handle.as_fd());
        let (Some(there), Some(here)) = (handle(arrival), handle(departure)) else {
            return Err(UndoFailure::NotKept);
        };
        let print = |state: &Option<State>| state.as_ref().and_then(|state| state.print);
        let numbers = |print: Fingerprint| (print.device, print.inode);
        let before = print(&departure.before).map(numbers);
        // A copy, or what took another file's place, is undone like any other change.
        let is_it = |after: &Fingerprint| arrival.what == What::Created && before == Some(numbers(*after));
        let after = print(&arrival.after).filter(is_it).ok_or(UndoFailure::NotKept)?;
        let (from, moved) = parent(there, arrival.path.as_os_str().as_bytes())?;
        let (to, name) = parent(here, departure.path.as_os_str().as_bytes())?;
        if look(&from, moved)? != Some(after) {
            return Err(UndoFailure::ChangedMeanwhile);
        }
        renameat_with(&from, moved, &to, name, RenameFlags::NOREPLACE)?;
        // Looked at only now, when nobody who goes by its name can change it any more.
        if !look(&to, name)?.is_some_and(|found| is_same_file(&found, &after)) {
            renameat_with(&to, name, &from, moved, RenameFlags::NOREPLACE)?;
            return Err(UndoFailure::ChangedMeanwhile);
        }
        match departure.before.as_ref().and_then(|before| before.mode) {
            Some(mode) if after.kind == Kind::File && mode != after.mode => Ok(set_mode(&to, name, mode)?),
            _ => Ok(()),
        }
    }

    /// Removes the directories that the command made above files which were moved back, where nothing else is in them.
    fn remove_emptied(&self, moved: &[UndoResult], changes: &Changes) {
        let is_directory = |state: &State| state.kind == Kind::Directory;
        let made: HashSet<(usize, &Path)> = (changes.changes.iter())
            .filter(|change| change.what == What::Created && change.after.as_ref().is_some_and(is_directory))
            .map(|change| (change.root, change.path.as_path()))
            .collect();
        let above = moved.iter().flat_map(|UndoResult { change, .. }| {
            change.path.ancestors().skip(1).map(|above| (change.root, above))
        });
        let mut emptied: Vec<_> = above.filter(|place| made.contains(place)).collect();
        emptied.sort_by_key(|(_, path)| std::cmp::Reverse(path.components().count()));
        for (root, path) in emptied {
            let Some(root) = self.roots.get(root) else { continue };
            if let Ok((directory, name)) = parent(root.handle.as_fd(), path.as_os_str().as_bytes()) {
                // What somebody has put something into, or has removed, stays as it is.
                let _ = unlinkat(&directory, name, AtFlags::REMOVEDIR);
            }
        }
    }

    fn undo(
        &self,
        change: &Change,
        store: &Store,
        journal: &Journal,
        elsewhere: &HashMap<(u64, u64), CurrentLocation>,
    ) -> UndoResult {
        let settled = |outcome| UndoResult { change: change.clone(), outcome };
        let Some(root) = self.roots.get(change.root) else {
            return settled(UndoOutcome::NotUndone { why: UndoFailure::NotKept, kept: None });
        };
        let bytes = change.path.as_os_str().as_bytes();
        let before = change.before.as_ref();
        let undo = Undo { recording: self, root, bytes, change, before, store, journal, elsewhere };
        settled(match undo.run() {
            Ok(moved) => UndoOutcome::Restored { moved },
            Err(why) => UndoOutcome::NotUndone { why, kept: before.and_then(|before| undo.keep(before)) },
        })
    }
}

/// The files that are where they may not be and gone from where they were: both changes of each, the new place first.
/// What is at a place where it may be as well is not lost.
fn forbidden_moves(changes: &Changes) -> Vec<(&Change, &Change)> {
    let departures = || changes.changes.iter().filter(|change| change.what == What::Deleted);
    let mut arrivals = MovedFiles::default();
    for arrival in changes.changes.iter().filter(|change| change.what != What::Deleted) {
        let digest = |state: &Option<State>| state.as_ref().and_then(|state| state.digest);
        let has_new_content =
            digest(&arrival.before).is_none_or(|before| Some(before) != digest(&arrival.after));
        if let Some(after) = arrival.after.as_ref().filter(|_| has_new_content) {
            arrivals.add(arrival, after);
        }
    }
    let mut departed = MovedFiles::default();
    for departure in departures() {
        if let Some(before) = &departure.before {
            departed.add(departure, before);
        }
    }
    let arrival = |departure: &Change| {
        let before = departure.before.as_ref()?;
        let same = arrivals.same_file(before);
        if !same.is_empty() {
            return same
                .iter()
                .all(|arrival| arrival.is_violation())
                .then(|| same.first().copied())
                .flatten();
        }
        // Where several files are alike, nobody knows which is which.
        departed.only_with_content(before)?;
        let arrival = arrivals.only_with_content(before).filter(|arrival| arrival.is_violation())?;
        is_other_device(before, arrival.after.as_ref()?).then_some(arrival)
    };
    departures().filter_map(|departure| Some((arrival(departure)?, departure))).collect()
}

/// Files and links that came up or went, by what they keep when they are moved.
#[derive(Default)]
struct MovedFiles<'a> {
    /// By the numbers of the device and of the file.
    by_number: HashMap<(u64, u64), Vec<&'a Change>>,
    /// By content, as after a move to another device; none where several have it.
    by_content: HashMap<Digest, Option<&'a Change>>,
}

impl<'a> MovedFiles<'a> {
    fn add(&mut self, change: &'a Change, state: &State) {
        if let Some(print) = state.print.filter(|print| matches!(print.kind, Kind::File | Kind::Link)) {
            self.by_number.entry((print.device, print.inode)).or_default().push(change);
        }
        // Empty files are alike without having anything to do with each other.
        if let Some(digest) = state.digest.filter(|_| state.size > 0) {
            self.by_content.entry(digest).and_modify(|only| *only = None).or_insert(Some(change));
        }
    }

    /// Those that are the file of an earlier state.
    fn same_file(&self, before: &State) -> Vec<&'a Change> {
        let Some(print) = before.print else { return vec![] };
        let numbered = self.by_number.get(&(print.device, print.inode)).into_iter().flatten();
        numbered.filter(|change| is_moved(Some(before), change.after.as_ref())).copied().collect()
    }

    fn only_with_content(&self, state: &State) -> Option<&'a Change> {
        *self.by_content.get(&state.digest?)?
    }
}

/// Returns whether a file may have been moved between devices, so that its number says nothing.
fn is_other_device(before: &State, after: &State) -> bool {
    let devices = before.print.zip(after.print).map(|(before, after)| (before.device, after.device));
    devices.is_none_or(|(before, after)| before != after)
}

/// The directories that the command was allowed to remove and without which what was in them can't be brought back, from
/// the outside in.
fn directories_around<'a>(wrong: &[&Change], changes: &'a Changes) -> Vec<&'a Change> {
    let is_removed = |change: &&Change| {
        change.what == What::Deleted
            && !change.is_violation()
            && change.before.as_ref().is_some_and(|before| before.kind == Kind::Directory)
    };
    let removed = changes.changes.iter().filter(is_removed);
    let mut removed: Vec<&Change> =
        removed.filter(|directory| wrong.iter().any(|change| is_around(directory, change))).collect();
    removed.sort_by_key(|change| change.path.components().count());
    removed
}

/// Returns whether a change is to be brought back into this directory, or one below it.
fn is_around(directory: &Change, change: &Change) -> bool {
    change.before.is_some()
        && directory.root == change.root
        && directory.path != change.path
        && change.path.starts_with(&directory.path)
}

impl From<io::Error> for UndoFailure {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<rustix::io::Errno> for UndoFailure {
    fn from(error: rustix::io::Errno) -> Self {
        io::Error::from(error).into()
    }
}

/// Current location of a file that was at another path.
enum CurrentLocation {
    InRoot(usize, Vec<u8>),
    Moved(PathBuf),
}

struct Undo<'a> {
    recording: &'a Recording,
    root: &'a RecordedRoot,
    bytes: &'a [u8],
    change: &'a Change,
    before: Option<&'a State>,
    store: &'a Store,
    journal: &'a Journal,
    elsewhere: &'a HashMap<(u64, u64), CurrentLocation>,
}

impl Undo<'_> {
    fn run(&self) -> Result<Option<PathBuf>, UndoFailure> {
        let (directory, name) = match parent(self.root.handle.as_fd(), self.bytes) {
            Ok(found) => found,
            // What it was in is gone, and with it what came up there.
            Err(error) if self.change.what == What::Created && error.kind() == io::ErrorKind::NotFound => {
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let expected = self.change.after.as_ref().and_then(|after| after.print);
        let now = look(&directory, name)?;
        // What was put away under another name of the same file changed its times here.
        let is_expected = match (&now, &expected) {
            (Some(now), Some(expected)) if self.is_quarantined(expected) => is_same_file(now, expected),
            _ => now == expected,
        };
        if !is_expected {
            // Somebody may have undone it already.
            return if now.is_none() && self.before.is_none() {
                Ok(None)
            } else {
                Err(UndoFailure::ChangedMeanwhile)
            };
        }
        match (self.before, expected) {
            (None, None) => Ok(None),
            (None, Some(after)) => self.remove(&directory, name, after),
            (Some(before), None) => self.bring_back(&directory, name, before).map(|()| None),
            (Some(before), Some(after)) => self.replace(&directory, name, before, after),
        }
    }

    fn is_quarantined(&self, print: &Fingerprint) -> bool {
        matches!(self.elsewhere.get(&(print.device, print.inode)), Some(CurrentLocation::Moved(_)))
    }

    /// Moves away what came up.
    fn remove(
        &self,
        directory: &OwnedFd,
        name: &[u8],
        after: Fingerprint,
    ) -> Result<Option<PathBuf>, UndoFailure> {
        if after.kind == Kind::Directory {
            // Only when it is empty: what is left in it is allowed, or somebody else's.
            return match unlinkat(directory, name, AtFlags::REMOVEDIR) {
                Ok(()) => Ok(None),
                Err(rustix::io::Errno::NOTEMPTY | rustix::io::Errno::EXIST) => {
                    Err(UndoFailure::ChangedMeanwhile)
                }
                Err(error) => Err(error.into()),
            };
        }
        let pending = pending();
        renameat_with(directory, name, directory, &*pending, RenameFlags::NOREPLACE)?;
        // Looked at only now, when nobody who goes by its name can change it any more.
        if !look(directory, &pending)?.is_some_and(|moved| is_same_file(&moved, &after)) {
            return match renameat_with(directory, &*pending, directory, name, RenameFlags::NOREPLACE) {
                Ok(()) => Err(UndoFailure::ChangedMeanwhile),
                Err(error) => Err(error.into()),
            };
        }
        self.quarantine(directory, &pending, after)
    }

    /// Puts what was there in place of what is.
    fn replace(
        &self,
        directory: &OwnedFd,
        name: &[u8],
        before: &State,
        after: Fingerprint,
    ) -> Result<Option<PathBuf>, UndoFailure> {
        let same_content = before.kind == after.kind
            && match after.kind {
                Kind::Directory => true,
                Kind::File => {
                    let now = self.change.after.as_ref().and_then(|after| after.digest);
                    before.digest.is_some() && before.digest == now
                }
                _ => false,
            };
        if same_content {
            // Only its permissions were changed.
            set_mode(directory, name, before.mode.ok_or(UndoFailure::NotKept)?)?;
            return Ok(None);
        }
        if after.kind == Kind::Directory {
            // A file became a directory; what is in it went before.
            unlinkat(directory, name, AtFlags::REMOVEDIR).map_err(|_| UndoFailure::ChangedMeanwhile)?;
            self.bring_back(directory, name, before)?;
            return Ok(None);
        }
        if before.kind == Kind::Directory {
            let moved = self.remove(directory, name, after)?;
            self.bring_back(directory, name, before)?;
            return Ok(moved);
        }
        let pending = self.make(directory, before)?;
        renameat_with(directory, &*pending, directory, name, RenameFlags::EXCHANGE).inspect_err(|_| {
            let _ = unlinkat(directory, &*pending, AtFlags::empty());
        })?;
        // What was displaced is looked at only now: between a check and an exchange somebody could write.
        if !look(directory, &pending)?.is_some_and(|moved| is_same_file(&moved, &after)) {
            renameat_with(directory, &*pending, directory, name, RenameFlags::EXCHANGE)?;
            unlinkat(directory, &*pending, AtFlags::empty())?;
            return Err(UndoFailure::ChangedMeanwhile);
        }
        self.quarantine(directory, &pending, after)
    }

    /// Recreates what is gone.
    fn bring_back(&self, directory: &OwnedFd, name: &[u8], before: &State) -> Result<(), UndoFailure> {
        if before.kind == Kind::Directory {
            let mode = before.mode.ok_or(UndoFailure::NotKept)?;
            mkdirat(directory, name, Mode::from_raw_mode(mode))?;
            // Whatever the mask of this process took away.
            set_mode(directory, name, mode)?;
            return Ok(());
        }
        let pending = self.make(directory, before)?;
        match renameat_with(directory, &*pending, directory, name, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(()),
            Err(error) => {
                unlinkat(directory, &*pending, AtFlags::empty())?;
                Err(if error == rustix::io::Errno::EXIST {
                    UndoFailure::ChangedMeanwhile
                } else {
                    error.into()
                })
            }
        }
    }

    /// Makes what was there under another name beside it.
    fn make(&self, directory: &OwnedFd, before: &State) -> Result<Vec<u8>, UndoFailure> {
        let pending = pending();
        match before.kind {
            Kind::Link => {
                let target = before.target.as_deref().ok_or(UndoFailure::NotKept)?;
                symlinkat(target, directory, &*pending)?;
            }
            Kind::File => {
                let content = self.content(before).ok_or(UndoFailure::NotKept)?;
                let flags =
                    OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = openat(directory, &*pending, flags, Mode::RUSR | Mode::WUSR)?;
                let written = write(&File::from(file), &content, before);
                if let Err(error) = written {
                    let _ = unlinkat(directory, &*pending, AtFlags::empty());
                    return Err(error.into());
                }
            }
            Kind::Directory | Kind::Special => return Err(UndoFailure::NotKept),
        }
        Ok(pending)
    }

    /// Keeps the content of a file that can't be brought back, where a person can find it.
    fn keep(&self, before: &State) -> Option<PathBuf> {
        if before.kind != Kind::File {
            return None;
        }
        let place = self.store.place_for(&self.change.path);
        copy(&place, &self.content(before)?).ok().map(|()| place)
    }

    fn content(&self, before: &State) -> Option<Vec<u8>> {
        let stored = before.digest.and_then(|digest| self.store.content(digest));
        stored.or_else(|| self.image(before)).or_else(|| self.content_elsewhere(before))
    }

    /// The content that a supervisor kept before the first write.
    fn image(&self, before: &State) -> Option<Vec<u8>> {
        let path = self.root.path.join(&self.change.path);
        // A file may have been written by another of its names.
        let file = before.print.map(|print| (print.device, print.inode));
        let is_it = |image: &&BeforeImage| image.path == path || Some((image.device, image.inode)) == file;
        let images = self.journal.images.iter().filter(is_it);
        let mut contents = images.filter_map(|image| self.journal.content(image));
        contents.find(|content| Some(Digest::of(content)) == before.digest)
    }

    /// The content of a file that was moved, if nobody has written it since the record.
    fn content_elsewhere(&self, before: &State) -> Option<Vec<u8>> {
        let before = before.print?;
        let (directory, name) = match self.elsewhere.get(&(before.device, before.inode))? {
            CurrentLocation::InRoot(root, path) => {
                let (directory, name) = parent(self.recording.roots.get(*root)?.handle.as_fd(), path).ok()?;
                (directory, name.to_vec())
            }
            CurrentLocation::Moved(place) => {
                (open_root(place.parent()?).ok()?, place.file_name()?.as_bytes().to_vec())
            }
        };
        let (file, found) = open_file(&directory, &name).ok()?;
        let is_unwritten = (found.size, found.modified) == (before.size, before.modified);
        if !is_unwritten || (found.device, found.inode) != (before.device, before.inode) {
            return None;
        }
        read_at_most(file, MAX_COPY_BYTES).ok()?
    }

    /// Moves what was displaced into the store, where a person can find it.
    fn quarantine(
        &self,
        directory: &OwnedFd,
        pending: &[u8],
        after: Fingerprint,
    ) -> Result<Option<PathBuf>, UndoFailure> {
        let place = self.store.place_for(&self.change.path);
        match renameat(directory, pending, CWD, &place) {
            Ok(()) => Ok(Some(place)),
            // On another file system.
            Err(_) if after.kind == Kind::File && after.size <= MAX_COPY_BYTES => {
                let (file, _) = open_file(directory, pending)?;
                let bytes = read_at_most(file, MAX_COPY_BYTES)?;
                let copied = bytes.is_some_and(|bytes| copy(&place, &bytes).is_ok());
                unlinkat(directory, pending, AtFlags::empty())?;
                Ok(copied.then_some(place))
            }
            Err(_) => {
                unlinkat(directory, pending, AtFlags::empty())?;
                Ok(None)
            }
        }
    }
}

fn write(mut file: &File, content: &[u8], before: &State) -> io::Result<()> {
    file.write_all(content)?;
    fchmod(file, Mode::from_raw_mode(before.mode.unwrap_or(0o644)))?;
    // With its old time, so that no build takes it for news.
    if let Some(print) = before.print {
        let (tv_sec, tv_nsec) = print.modified;
        let time = Timespec { tv_sec, tv_nsec };
        futimens(file, &Timestamps { last_access: time, last_modification: time })?;
    }
    file.sync_all()
}

fn copy(place: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::File::options().write(true).create_new(true).mode(0o600).open(place)?;
    file.write_all(bytes)
}
