//! Commit of a staged command's changes to the workspace, one file at a time and only where nobody else has changed it
//! since the command began. What does not get there is kept for the user.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Mode, OFlags, RenameFlags, Timespec, Timestamps, fchmod, flistxattr, fremovexattr, futimens,
    mkdirat, openat, renameat_with, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::difference::{Change, What};
use super::files::{is_same_file, look, open_directory, open_file, open_root, parent, pending, set_mode};
use super::record::{Fingerprint, Kind, State, is_fresh};
use super::recording::{Recording, digest};
use super::staged::{CommitStep, StagedChanges, StagedEntry, Withheld, kept_path};
use super::staging::Stage;
use super::store::Store;

/// Prefix of the kernel's attributes on copied files, which must not be taken along.
const OVERLAY: &[u8] = b"user.overlay.";

/// Outcome of committing the changes of a staged command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitOutcome {
    /// Changes made in the workspace.
    pub committed: Vec<Change>,
    /// Changes withheld.
    pub withheld: Vec<WithheldChange>,
    /// A directory with what the command wrote and is not in the workspace, by the same paths.
    pub kept: Option<PathBuf>,
}

/// A change that did not reach the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WithheldChange {
    pub change: Change,
    /// Reason why it did not.
    pub why: Withheld,
}

impl StagedChanges {
    /// Makes the changes that may be made, and keeps the others. Of a command that did not come to its end none
    /// are made. Writes the disk, so not for a thread of the runtime.
    pub fn commit(
        mut self,
        stage: &Stage,
        recording: &Recording,
        store: &Store,
        finished: bool,
    ) -> CommitOutcome {
        if !finished {
            for step in &mut self.steps {
                step.withheld.get_or_insert(Withheld::Unfinished);
            }
        }
        let mut commit = Commit { stage, recording, withheld: HashSet::new(), made: Vec::new() };
        let mut landed = CommitOutcome::default();
        let mut kept = KeptFiles { store, roots: recording.roots.len(), place: None };
        // What is new comes first, from the outside in: if this ends halfway, nothing is lost that was only moved.
        // Then goes what is gone, from the inside out, then comes what takes a directory's place, and last are the
        // permissions of directories, which may forbid all that.
        let late = |step: &CommitStep| {
            let is_directory =
                |state: &Option<State>| state.as_ref().is_some_and(|state| state.kind == Kind::Directory);
            match step.change.what {
                What::Deleted => 1,
                _ if !is_directory(&step.change.before) => 0,
                _ if is_directory(&step.change.after) => 3,
                _ => 2,
            }
        };
        let mut steps = self.steps;
        steps.sort_by(|one, other| {
            late(one).cmp(&late(other)).then_with(|| match late(one) {
                1 | 3 => other.change.path.cmp(&one.change.path),
                _ => one.change.path.cmp(&other.change.path),
            })
        });
        for step in steps {
            let outcome = match step.withheld.clone() {
                Some(why) => Err(why),
                None => commit.make(&step),
            };
            match outcome {
                // Somebody else made the same directory; what is in it is looked at by itself.
                Ok(()) | Err(Withheld::ThereAlready) if step.is_quiet => {}
                Err(Withheld::ThereAlready) => {}
                Ok(()) => landed.committed.push(step.change),
                Err(why) => {
                    if let Some(from) = &step.change.renamed_from {
                        commit.withheld.insert((step.change.root, from.clone()));
                    }
                    kept.keep(stage, &step);
                    if !step.is_quiet {
                        landed.withheld.push(WithheldChange { change: step.change, why });
                    }
                }
            }
        }
        commit.set_modes();
        landed.committed.sort_by(by_path);
        landed.withheld.sort_by(|one, other| by_path(&one.change, &other.change));
        landed.kept = kept.place.map(|(place, _)| place);
        landed
    }
}

fn by_path(one: &Change, other: &Change) -> std::cmp::Ordering {
    (one.root, &one.path).cmp(&(other.root, &other.path))
}

impl From<io::Error> for Withheld {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<Errno> for Withheld {
    fn from(error: Errno) -> Self {
        io::Error::from(error).into()
    }
}

struct Commit<'a> {
    stage: &'a Stage,
    recording: &'a Recording,
    /// Original paths of files that were not moved to their destination.
    withheld: HashSet<(usize, PathBuf)>,
    /// The directories that were made, with their permissions.
    made: Vec<(usize, PathBuf, u32)>,
}

impl Commit<'_> {
    fn make(&mut self, step: &CommitStep) -> Result<(), Withheld> {
        let change = &step.change;
        let gone = || Withheld::Failed("the file it belongs to no longer exists".to_owned());
        let root = self.recording.roots.get(change.root).ok_or_else(gone)?;
        let layer = self.stage.layers().get(change.root).ok_or_else(gone)?;
        let bytes = change.path.as_os_str().as_bytes();
        let (directory, name) = parent(root.handle.as_fd(), bytes).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Withheld::Failed("its directory is not in the workspace".to_owned()),
            io::ErrorKind::NotADirectory => Withheld::ChangedMeanwhile,
            _ => error.into(),
        })?;
        let before = change.before.as_ref();
        let target = Target { bytes, directory, name, changed_meanwhile: step.changed_meanwhile };
        match (&step.entry, before) {
            (None, Some(before)) => {
                if self.withheld.contains(&(change.root, change.path.clone())) {
                    return Err(Withheld::Moved);
                }
                target.delete(before)
            }
            (None, None) => Err(Withheld::ChangedMeanwhile),
            (Some(entry), before) => {
                let made = match before {
                    None => target.create(&layer.upper, entry),
                    Some(before) => target.modify(&layer.upper, entry, before, step.same_content),
                };
                if made.is_ok() && entry.print.kind == Kind::Directory && !step.same_content {
                    self.made.push((change.root, change.path.clone(), entry.print.mode));
                }
                made
            }
        }
    }

    /// Gives the directories that were made their permissions, the inner ones first.
    fn set_modes(&self) {
        for (root, path, mode) in self.made.iter().rev() {
            let Some(root) = self.recording.roots.get(*root) else { continue };
            let set = parent(root.handle.as_fd(), path.as_os_str().as_bytes())
                .and_then(|(directory, name)| set_mode(&directory, name, *mode));
            if let Err(error) = set {
                tracing::warn!(%error, path = %path.display(), "a directory keeps permissions of its user's alone");
            }
        }
    }
}

/// A place in the workspace.
struct Target<'a> {
    bytes: &'a [u8],
    directory: OwnedFd,
    name: &'a [u8],
    changed_meanwhile: bool,
}

impl Target<'_> {
    /// Returns the fingerprint of a file that is as it was when the command began.
    fn as_it_was(&self, before: &State) -> Result<Fingerprint, Withheld> {
        let now = look(&self.directory, self.name)?.ok_or(Withheld::ChangedMeanwhile)?;
        if self.changed_meanwhile {
            return Err(Withheld::ChangedMeanwhile);
        }
        let is_as_it_was = match before.print {
            // Its times don't tell what was written in the same moment.
            Some(print) if now == print && !is_fresh(print.changed) => true,
            Some(print) if now.kind != print.kind || now.mode != print.mode => false,
            _ => match now.kind {
                Kind::Directory => true,
                Kind::File => {
                    before.digest.is_some() && before.digest == digest(&self.directory, self.name, &now)
                }
                Kind::Link => {
                    before.target.is_some()
                        && before.target == super::files::target(&self.directory, self.name).ok()
                }
                Kind::Special => before.print == Some(now),
            },
        };
        if is_as_it_was { Ok(now) } else { Err(Withheld::ChangedMeanwhile) }
    }

    fn delete(&self, before: &State) -> Result<(), Withheld> {
        if look(&self.directory, self.name)?.is_none() {
            return Ok(());
        }
        let now = self.as_it_was(before)?;
        if now.kind == Kind::Directory {
            return self.remove_directory();
        }
        let aside = self.set_aside(now)?;
        Ok(unlinkat(&self.directory, &*aside, AtFlags::empty())?)
    }

    /// Only when it is empty: what is left in it is withheld, or somebody else's.
    fn remove_directory(&self) -> Result<(), Withheld> {
        match unlinkat(&self.directory, self.name, AtFlags::REMOVEDIR) {
            Ok(()) => Ok(()),
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => Err(Withheld::ChangedMeanwhile),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives what is no directory another name, if it still is what was found.
    fn set_aside(&self, now: Fingerprint) -> Result<Vec<u8>, Withheld> {
        let pending = pending();
        renameat_with(&self.directory, self.name, &self.directory, &*pending, RenameFlags::NOREPLACE)?;
        // Looked at only now, when nobody who goes by its name can change it any more.
        if !look(&self.directory, &pending)?.is_some_and(|moved| is_same_file(&moved, &now)) {
            renameat_with(&self.directory, &*pending, &self.directory, self.name, RenameFlags::NOREPLACE)?;
            return Err(Withheld::ChangedMeanwhile);
        }
        Ok(pending)
    }

    fn create(&self, upper: &Path, entry: &StagedEntry) -> Result<(), Withheld> {
        if entry.print.kind == Kind::Directory {
            // Its own permissions come last: they may forbid to fill it.
            return match mkdirat(&self.directory, self.name, Mode::RWXU) {
                Ok(()) => Ok(()),
                Err(Errno::EXIST) => match look(&self.directory, self.name)? {
                    Some(found) if found.kind == Kind::Directory => Err(Withheld::ThereAlready),
                    _ => Err(Withheld::ChangedMeanwhile),
                },
                Err(error) => Err(error.into()),
            };
        }
        let brought = self.bring(upper, entry, false)?;
        match renameat_with(
            &self.directory,
            &*brought.pending,
            &self.directory,
            self.name,
            RenameFlags::NOREPLACE,
        ) {
            Ok(()) => Ok(()),
            Err(error) => {
                brought.give_back(self)?;
                Err(if error == Errno::EXIST { Withheld::ChangedMeanwhile } else { error.into() })
            }
        }
    }

    fn modify(
        &self,
        upper: &Path,
        entry: &StagedEntry,
        before: &State,
        same_content: bool,
    ) -> Result<(), Withheld> {
        let now = self.as_it_was(before)?;
        // Under another name it may be anybody's.
        let has_other_names = now.kind == Kind::File
            && statat(&self.directory, self.name, AtFlags::SYMLINK_NOFOLLOW)?.st_nlink > 1;
        if same_content && !has_other_names {
            return Ok(set_mode(&self.directory, self.name, entry.print.mode)?);
        }
        match (now.kind, entry.print.kind) {
            (Kind::Directory, _) => {
                self.remove_directory()?;
                self.create(upper, entry)
            }
            (_, Kind::Directory) => {
                let aside = self.set_aside(now)?;
                if let Err(why) = self.create(upper, entry) {
                    renameat_with(
                        &self.directory,
                        &*aside,
                        &self.directory,
                        self.name,
                        RenameFlags::NOREPLACE,
                    )?;
                    return Err(why);
                }
                Ok(unlinkat(&self.directory, &*aside, AtFlags::empty())?)
            }
            _ => self.exchange(upper, entry, now),
        }
    }

    fn exchange(&self, upper: &Path, entry: &StagedEntry, now: Fingerprint) -> Result<(), Withheld> {
        let brought = self.bring(upper, entry, true)?;
        let pending = &*brought.pending;
        let exchange =
            || renameat_with(&self.directory, pending, &self.directory, self.name, RenameFlags::EXCHANGE);
        if let Err(error) = exchange() {
            brought.give_back(self)?;
            return Err(if error == Errno::NOENT { Withheld::ChangedMeanwhile } else { error.into() });
        }
        // What was displaced is looked at only now: between a check and an exchange somebody could write.
        if !look(&self.directory, pending)?.is_some_and(|moved| is_same_file(&moved, &now)) {
            exchange()?;
            brought.give_back(self)?;
            return Err(Withheld::ChangedMeanwhile);
        }
        Ok(unlinkat(&self.directory, pending, AtFlags::empty())?)
    }

    /// Makes what the command wrote under another name beside where it goes.
    fn bring(&self, upper: &Path, entry: &StagedEntry, replaces: bool) -> Result<TemporaryFile, Withheld> {
        let (from, name) = parent(open_root(upper)?.as_fd(), self.bytes)?;
        let mut brought = TemporaryFile { pending: pending(), from, name: name.to_vec(), is_moved: false };
        if let Some(link) = &entry.target {
            symlinkat(&**link, &self.directory, &*brought.pending)?;
            return Ok(brought);
        }
        match self.fill(&mut brought, entry, replaces) {
            Ok(()) => Ok(brought),
            Err(error) => {
                // Nothing may be there yet.
                let _ = brought.give_back(self);
                Err(error.into())
            }
        }
    }

    fn fill(&self, brought: &mut TemporaryFile, entry: &StagedEntry, replaces: bool) -> io::Result<()> {
        let (mut file, _) = open_file(&brought.from, &brought.name)?;
        if entry.links == 1 {
            let TemporaryFile { from, name, pending, .. } = &*brought;
            match renameat_with(from, &**name, &self.directory, &**pending, RenameFlags::NOREPLACE) {
                Ok(()) => brought.is_moved = true,
                // On another file system.
                Err(Errno::XDEV) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if brought.is_moved {
            forget_the_overlay(&file)?;
        } else {
            // Its other names, if it has any, go their own ways.
            file = copy(&file, &self.directory, &brought.pending, entry)?;
        }
        fchmod(&file, Mode::from_raw_mode(entry.print.mode))?;
        // What is new can be made again; what it replaces could not.
        if replaces { file.sync_all() } else { Ok(()) }
    }
}

/// Temporary file beside its destination.
struct TemporaryFile {
    pending: Vec<u8>,
    from: OwnedFd,
    name: Vec<u8>,
    /// True if it is the file that the command wrote, as against a copy of it.
    is_moved: bool,
}

impl TemporaryFile {
    /// Undoes it, so that what the command wrote can be kept.
    fn give_back(&self, target: &Target<'_>) -> io::Result<()> {
        let Self { pending, from, name, is_moved } = self;
        if *is_moved {
            renameat_with(&target.directory, &**pending, from, &**name, RenameFlags::NOREPLACE)?;
        } else {
            unlinkat(&target.directory, &**pending, AtFlags::empty())?;
        }
        Ok(())
    }
}

fn copy(from: &File, directory: &OwnedFd, name: &[u8], entry: &StagedEntry) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut to = File::from(openat(directory, name, flags, Mode::RUSR | Mode::WUSR)?);
    let mut from = from;
    io::copy(&mut from, &mut to)?;
    let (tv_sec, tv_nsec) = entry.print.modified;
    let time = Timespec { tv_sec, tv_nsec };
    futimens(&to, &Timestamps { last_access: time, last_modification: time })?;
    Ok(to)
}

/// Removes what the kernel noted on a file.
fn forget_the_overlay(file: &File) -> io::Result<()> {
    let mut list = vec![0; 64 << 10];
    let length = match flistxattr(file, &mut list[..]) {
        Ok(length) => length,
        Err(Errno::NOTSUP) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let names = list.get(..length).unwrap_or_default().split(|&byte| byte == 0);
    for name in names.filter(|name| name.starts_with(OVERLAY)) {
        fremovexattr(file, name)?;
    }
    Ok(())
}

/// Files of one command that are kept for the user.
struct KeptFiles<'a> {
    store: &'a Store,
    roots: usize,
    place: Option<(PathBuf, OwnedFd)>,
}

impl KeptFiles<'_> {
    /// Keeps what a command wrote; of a deletion and of what holds nothing there is nothing to keep.
    fn keep(&mut self, stage: &Stage, step: &CommitStep) {
        let Some(entry) = &step.entry else { return };
        // Build output is made again sooner than looked at.
        if entry.print.kind == Kind::Special || step.same_content || step.is_quiet {
            return;
        }
        if let Err(error) = self.move_here(stage, step, entry) {
            tracing::warn!(%error, path = %step.change.path.display(), "the staged output of a command can't be saved");
        }
    }

    fn move_here(&mut self, stage: &Stage, step: &CommitStep, entry: &StagedEntry) -> io::Result<()> {
        let Some(layer) = stage.layers().get(step.change.root) else { return Ok(()) };
        let upper = open_root(&layer.upper)?;
        let (from, name) = parent(upper.as_fd(), step.change.path.as_os_str().as_bytes())?;
        let kept = kept_path(self.roots, &step.change);
        let mut to = self.place()?.try_clone()?;
        for name in kept.parent().into_iter().flat_map(Path::components) {
            let name = name.as_os_str().as_bytes();
            to = match open_directory(&to, name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    mkdirat(&to, name, Mode::RWXU)?;
                    open_directory(&to, name)?
                }
                opened => opened?,
            };
        }
        let own = kept.file_name().unwrap_or_default().as_bytes();
        if entry.print.kind == Kind::Directory && !step.goes_as_a_whole() {
            return match mkdirat(&to, own, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => Ok(()),
                Err(error) => Err(error.into()),
            };
        }
        match renameat_with(&from, name, &to, own, RenameFlags::NOREPLACE) {
            Err(Errno::XDEV) if entry.print.kind == Kind::File => {
                copy(&open_file(&from, name)?.0, &to, own, entry)?;
            }
            moved => moved?,
        }
        if entry.print.kind == Kind::File {
            let (file, _) = open_file(&to, own)?;
            forget_the_overlay(&file)?;
            // Readable for the user, and of no power.
            fchmod(&file, Mode::from_raw_mode((entry.print.mode & 0o777) | 0o600))?;
        }
        Ok(())
    }

    fn place(&mut self) -> io::Result<&OwnedFd> {
        if self.place.is_none() {
            let path = self.store.place_for(Path::new("command"));
            fs::DirBuilder::new().mode(0o700).create(&path)?;
            let handle = open_root(&path)?;
            self.place = Some((path, handle));
        }
        self.place.as_ref().map(|(_, handle)| handle).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}
