//! Changes of a staged command, read from its upper directory: by the kernel's documentation of overlayfs a whiteout is
//! a character device 0/0, and a directory that hides what was there bears the attribute `user.overlay.opaque` with the
//! value `y`.
//!
//! A command can write neither through an overlay. If it could, it would say no more by them than that it
//! deleted something, and each deletion is judged like any other change.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, fgetxattr, statat};
use rustix::io::Errno;

use super::difference::{Change, What};
use super::files::{
    fingerprint, join, look, names, open_directory, open_file, open_root, parent, path, read_at_most,
    set_mode, target, unsigned,
};
use super::record::{Fingerprint, Kind, State};
use super::recording::{self, RecordedRoot, Recording, RootNow};
use super::staging::Stage;
use super::{Allowed, ChangesError, Scope};
use crate::exec::sandbox::Staged;
use roo_protocol::ids::Digest;

/// The most that is read of an upper directory, in names. A command that writes more is told so.
const MAX_NAMES: usize = 400_000;

/// Maximum depth of a directory. Each is opened from the top, name by name.
const MAX_DEPTH: usize = 200;

/// The largest file of which a digest is made, in bytes.
const MAX_DIGESTED_BYTES: u64 = 64 << 20;

/// The largest file that is compared byte by byte with what it was, in bytes.
const MAX_COMPARED_BYTES: u64 = 1 << 30;

/// Reasons why a change does not reach the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Withheld {
    /// The task may not change it, or its name is protected.
    NotAllowed,
    /// The command did not come to its end.
    Unfinished,
    /// Somebody else changed it since the command began.
    ChangedMeanwhile,
    /// The other half of a move, which is withheld.
    Moved,
    /// A link that leads out of the workspace or to what is protected.
    LeadsOut,
    /// A device, pipe or socket, or a program that would run as its owner.
    Special,
    /// It is a directory, and there is one.
    ThereAlready,
    /// The system refused.
    Failed(String),
}

/// A thing in an upper directory.
#[derive(Clone, Debug)]
pub(super) struct StagedEntry {
    /// As it was before anybody looked into it.
    pub print: Fingerprint,
    /// Number of names it has.
    pub links: u64,
    /// Of a link.
    pub target: Option<Vec<u8>>,
    is_whiteout: bool,
    /// True if it hides what was below its path.
    hides: bool,
    /// True if it is or lies in a directory of build output that is new.
    scratch: bool,
    /// True if nobody looked into it: build output that is withheld goes as a whole.
    is_closed: bool,
}

/// A change with what has to be done for it.
pub(super) struct CommitStep {
    pub change: Change,
    /// None for a deletion.
    pub entry: Option<StagedEntry>,
    /// True if only its permissions changed.
    pub same_content: bool,
    /// True if somebody else has changed what was there since the command began.
    pub changed_meanwhile: bool,
    /// Reason why it is not to be made at all.
    pub withheld: Option<Withheld>,
    /// True if nobody wants to hear of it.
    pub is_quiet: bool,
}

impl CommitStep {
    pub(super) fn goes_as_a_whole(&self) -> bool {
        self.entry.as_ref().is_some_and(|entry| entry.is_closed)
    }
}

/// Changes of a staged command, with permissions.
pub struct StagedChanges {
    pub(super) steps: Vec<CommitStep>,
}

impl StagedChanges {
    /// Returns the changes to be made in the workspace.
    pub fn wanted(&self) -> impl Iterator<Item = &Change> {
        self.steps.iter().filter(|step| step.withheld.is_none()).map(|step| &step.change)
    }
}

impl Stage {
    /// Reads what was changed below the roots of a recording, which are this stage's. All processes of the command
    /// are dead. Reads the disk, so not for a thread of the runtime.
    ///
    /// # Errors
    /// [`ChangesError`] when it can't be read, or is more than can be judged.
    pub fn changes(&self, recording: &Recording, scope: &dyn Scope) -> Result<StagedChanges, ChangesError> {
        let mut steps = Vec::new();
        for (number, (root, layer)) in recording.roots.iter().zip(self.layers()).enumerate() {
            let upper = open_root(&layer.upper).map_err(|source| unreadable(layer, source))?;
            let now = recording.now(number).map_err(|source| unreadable(layer, source))?;
            let entries = UpperDirectoryWalk { number, now: &now, layer, scope, entries: BTreeMap::new() }
                .run(&upper)?;
            let judged = RootContext { number, recording, root, now, scope, upper, entries };
            judged.run(&mut steps);
        }
        pair_moves(&mut steps);
        Ok(StagedChanges { steps })
    }
}

fn unreadable(layer: &Staged, source: io::Error) -> ChangesError {
    ChangesError::Io { what: "read", path: layer.upper.clone(), source }
}

/// A walk through an upper directory. Each directory is reopened from the top, so that no depth needs more
/// handles than two.
struct UpperDirectoryWalk<'a> {
    number: usize,
    now: &'a RootNow<'a>,
    layer: &'a Staged,
    scope: &'a dyn Scope,
    entries: BTreeMap<Vec<u8>, StagedEntry>,
}

impl UpperDirectoryWalk<'_> {
    fn run(mut self, upper: &OwnedFd) -> Result<BTreeMap<Vec<u8>, StagedEntry>, ChangesError> {
        let mut waiting = vec![(Vec::new(), false)];
        while let Some((prefix, scratch)) = waiting.pop() {
            let is_within = self.list(upper, &prefix, scratch, &mut waiting);
            if !is_within.map_err(|source| unreadable(self.layer, source))? {
                let root = self.layer.root.clone();
                return Err(ChangesError::TooMany { root, most: MAX_NAMES, deepest: MAX_DEPTH });
            }
        }
        Ok(self.entries)
    }

    fn list(
        &mut self,
        upper: &OwnedFd,
        prefix: &[u8],
        scratch: bool,
        waiting: &mut Vec<(Vec<u8>, bool)>,
    ) -> io::Result<bool> {
        let directory = match prefix {
            [] => open_directory(upper, b".")?,
            _ => {
                let (above, name) = parent(upper.as_fd(), prefix)?;
                open_directory(above, name)?
            }
        };
        for name in names(&directory)? {
            let relative = join(prefix, &name);
            let depth = relative.iter().filter(|&&byte| byte == b'/').count();
            if depth > MAX_DEPTH || self.entries.len() >= MAX_NAMES {
                return Ok(false);
            }
            let Some(mut entry) = read(&directory, &name)? else { continue };
            entry.scratch = scratch;
            if entry.print.kind == Kind::Directory {
                let judged = || self.scope.allowed_as(self.number, &path(&relative), Some(Kind::Directory));
                let is_new_scratch = !scratch && self.now.is_scratch(&relative);
                // Those at the top are open to every command.
                let is_open = || !relative.contains(&b'/') || judged() != Allowed::OutOfScope;
                if is_new_scratch && judged() != Allowed::Protected {
                    entry.scratch = is_open();
                }
                entry.is_closed = is_new_scratch && !entry.scratch;
                if !entry.is_closed {
                    waiting.push((relative.clone(), entry.scratch));
                }
            }
            self.entries.insert(relative, entry);
        }
        Ok(true)
    }
}

/// Looks at a thing, and makes it readable for us.
fn read(directory: &OwnedFd, name: &[u8]) -> io::Result<Option<StagedEntry>> {
    let found = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => found,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let print = fingerprint(&found);
    let is_device = FileType::from_raw_mode(found.st_mode) == FileType::CharacterDevice;
    let mut entry = StagedEntry {
        print,
        links: unsigned(found.st_nlink),
        target: None,
        is_whiteout: is_device && found.st_rdev == 0,
        hides: true,
        scratch: false,
        is_closed: false,
    };
    match print.kind {
        Kind::Directory => {
            if print.mode & 0o700 != 0o700 {
                set_mode(directory, name, print.mode | 0o700)?;
            }
            entry.hides = is_opaque(&open_directory(directory, name)?)?;
        }
        Kind::File => {
            if print.mode & 0o600 != 0o600 {
                set_mode(directory, name, print.mode | 0o600)?;
            }
        }
        Kind::Link => entry.target = Some(target(directory, name)?),
        Kind::Special => {}
    }
    Ok(Some(entry))
}

fn is_opaque(directory: &OwnedFd) -> io::Result<bool> {
    let mut value = [0_u8; 2];
    match fgetxattr(directory, "user.overlay.opaque", &mut value[..]) {
        Ok(length) => Ok(value.get(..length) == Some(b"y")),
        Err(Errno::NODATA | Errno::RANGE | Errno::NOTSUP) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Context for the entries of one root.
struct RootContext<'a> {
    number: usize,
    recording: &'a Recording,
    root: &'a RecordedRoot,
    now: RootNow<'a>,
    scope: &'a dyn Scope,
    upper: OwnedFd,
    entries: BTreeMap<Vec<u8>, StagedEntry>,
}

/// Something that was there when the command began.
struct EarlierState {
    state: State,
    changed_meanwhile: bool,
}

impl RootContext<'_> {
    fn run(self, steps: &mut Vec<CommitStep>) {
        for (relative, entry) in &self.entries {
            let before = self.before(relative);
            let was_directory = before.as_ref().is_some_and(|before| before.state.kind == Kind::Directory);
            if was_directory && (entry.hides || entry.is_whiteout) {
                let below = self.now.below(relative);
                let gone = below.iter().filter(|below| !self.entries.contains_key(*below));
                steps.extend(gone.filter_map(|below| self.deleted(below, self.before(below)?)));
            }
            match before {
                Some(before) if entry.is_whiteout => steps.extend(self.deleted(relative, before)),
                Some(before) => steps.extend(self.modified(relative, before, entry)),
                None if entry.is_whiteout => steps.extend(self.deleted_unknown(relative)),
                None => steps.extend(self.created(relative, entry)),
            }
        }
    }

    /// Returns the state of a path when the command began: what is there still where nobody has touched it since.
    fn before(&self, relative: &[u8]) -> Option<EarlierState> {
        if let Some(touch) = self.now.touched(relative)
            && touch.content
        {
            let earlier = touch.before?;
            return Some(EarlierState {
                state: State::unknown(earlier.kind, earlier.mode),
                changed_meanwhile: true,
            });
        }
        // What is not in the index is build output, or hidden.
        self.now.kind(relative)?;
        let (directory, name) = parent(self.root.handle.as_fd(), relative).ok()?;
        let print = look(&directory, name).ok()??;
        Some(EarlierState { state: recording::now(&directory, name, print), changed_meanwhile: false })
    }

    fn deleted(&self, relative: &[u8], before: EarlierState) -> Option<CommitStep> {
        let change = self.change(relative, What::Deleted, Some(before.state), None)?;
        Some(CommitStep { changed_meanwhile: before.changed_meanwhile, ..self.step(change, None, false) })
    }

    /// Handles a deletion of what came after the command began, and of build output. What is there still is somebody
    /// else's.
    fn deleted_unknown(&self, relative: &[u8]) -> Option<CommitStep> {
        let (directory, name) = parent(self.root.handle.as_fd(), relative).ok()?;
        let found = look(directory, name).ok()??;
        if self.now.is_scratch(relative) {
            return None;
        }
        let change = self.change(relative, What::Deleted, Some(State::new(found, None, None)), None)?;
        let mut step = self.step(change, None, false);
        step.withheld.get_or_insert(Withheld::ChangedMeanwhile);
        Some(step)
    }

    fn modified(&self, relative: &[u8], before: EarlierState, entry: &StagedEntry) -> Option<CommitStep> {
        let EarlierState { state: before, changed_meanwhile } = before;
        let after = self.state(relative, entry);
        let same_content = before.kind == after.kind
            && match after.kind {
                Kind::Directory => true,
                Kind::Link => before.target.is_some() && before.target == entry.target,
                Kind::File => before.size == after.size && self.has_same_bytes(relative, &before, &after),
                Kind::Special => true,
            };
        if same_content && before.mode == after.mode {
            return None;
        }
        let change = self.change(relative, What::Modified, Some(before), Some(after))?;
        Some(CommitStep { changed_meanwhile, ..self.step(change, Some(entry.clone()), same_content) })
    }

    fn created(&self, relative: &[u8], entry: &StagedEntry) -> Option<CommitStep> {
        let change = self.change(relative, What::Created, None, Some(self.state(relative, entry)));
        Some(self.step(change?, Some(entry.clone()), false))
    }

    /// A change; none where nobody looks.
    fn change(
        &self,
        relative: &[u8],
        what: What,
        before: Option<State>,
        after: Option<State>,
    ) -> Option<Change> {
        let named = path(relative);
        let allowed = match self.entries.get(relative) {
            Some(entry) if entry.scratch => Allowed::Scratch,
            _ => match self.scope.allowed_as(self.number, &named, after.as_ref().map(|after| after.kind)) {
                // What this leaves to nobody is no place that a staged command reaches.
                Allowed::Scratch => Allowed::Protected,
                Allowed::InScope => {
                    let kind = after.as_ref().or(before.as_ref())?.kind;
                    self.scope.allowed_change(what, kind)
                }
                allowed => allowed,
            },
        };
        Some(Change { root: self.number, path: named, what, allowed, before, after, renamed_from: None })
    }

    fn step(&self, change: Change, entry: Option<StagedEntry>, same_content: bool) -> CommitStep {
        let withheld = match (&entry, change.allowed) {
            (_, Allowed::OutOfScope | Allowed::Protected) => Some(Withheld::NotAllowed),
            (Some(entry), allowed) => match entry.print.kind {
                Kind::Special => Some(Withheld::Special),
                // On a directory it says whose group what is made there is.
                Kind::File if entry.print.mode & 0o6000 != 0 && !has_same_bits(&change) => {
                    Some(Withheld::Special)
                }
                Kind::Link if allowed == Allowed::InScope && self.leads_out(&change.path, entry) => {
                    Some(Withheld::LeadsOut)
                }
                _ => None,
            },
            (None, _) => None,
        };
        let is_quiet = change.allowed == Allowed::Scratch;
        CommitStep { is_quiet, change, entry, same_content, withheld, changed_meanwhile: false }
    }

    fn state(&self, relative: &[u8], entry: &StagedEntry) -> State {
        let StagedEntry { print, scratch, .. } = entry;
        let digest = (print.kind == Kind::File && !scratch && print.size <= MAX_DIGESTED_BYTES)
            .then(|| self.digest(relative))
            .flatten();
        State::new(*print, digest, entry.target.clone())
    }

    fn digest(&self, relative: &[u8]) -> Option<Digest> {
        read_at_most(self.staged_file(relative).ok()?, MAX_DIGESTED_BYTES).ok()?.map(Digest::of)
    }

    fn staged_file(&self, relative: &[u8]) -> io::Result<File> {
        let (directory, name) = parent(self.upper.as_fd(), relative)?;
        Ok(open_file(directory, name)?.0)
    }

    /// Returns whether a file only looks changed: opened for writing, or rewritten as it was.
    fn has_same_bytes(&self, relative: &[u8], before: &State, after: &State) -> bool {
        if let (Some(before), Some(after)) = (before.digest, after.digest) {
            return before == after;
        }
        let compare = || -> io::Result<bool> {
            let (directory, name) = parent(self.root.handle.as_fd(), relative)?;
            let (file, found) = open_file(directory, name)?;
            if before.print != Some(found) || found.size > MAX_COMPARED_BYTES {
                return Ok(false);
            }
            same_bytes(file, self.staged_file(relative)?)
        };
        compare().unwrap_or(false)
    }

    /// Returns whether a link may lead somewhere else than to a place of the workspace that is nobody's but the task's.
    fn leads_out(&self, link: &Path, entry: &StagedEntry) -> bool {
        let Some(target) = entry.target.as_deref().map(path) else { return true };
        let roots = || self.recording.roots.iter().enumerate();
        let (number, mut place) = if target.is_absolute() {
            let inner = |(number, root): (usize, &RecordedRoot)| {
                Some((number, target.strip_prefix(&root.path).ok()?.to_path_buf()))
            };
            let Some((number, below)) = roots().filter_map(inner).next() else { return true };
            if below.components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir)) {
                return true;
            }
            (number, below)
        } else {
            // The directory of a link is one. Behind the first name of its target there may be further links, so
            // that only leading steps upwards are what they look like.
            let mut place = link.parent().map(Path::to_path_buf).unwrap_or_default();
            let mut named = false;
            for part in target.components() {
                match part {
                    Component::ParentDir if !named && place.pop() => {}
                    Component::CurDir => {}
                    Component::Normal(name) => {
                        named = true;
                        place.push(name);
                    }
                    _ => return true,
                }
            }
            (self.number, place)
        };
        place = place.components().filter(|part| *part != Component::CurDir).collect();
        self.scope.allowed(number, &place) == Allowed::Protected
    }
}

/// Returns whether a file bore the bits already by which a program runs as its owner.
fn has_same_bits(change: &Change) -> bool {
    let mode = |state: &Option<State>| state.as_ref().and_then(|state| state.mode).map(|mode| mode & 0o6000);
    mode(&change.before) == mode(&change.after)
}

fn same_bytes(mut one: impl Read, mut other: impl Read) -> io::Result<bool> {
    let (mut ours, mut theirs) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        let length = fill(&mut one, &mut ours)?;
        if fill(&mut other, &mut theirs)? != length || ours.get(..length) != theirs.get(..length) {
            return Ok(false);
        }
        if length < ours.len() {
            return Ok(true);
        }
    }
}

fn fill(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(buffer.get_mut(filled..).unwrap_or_default()) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Finds what was moved: an overlay shows a deletion and a new file with the same content. Where one half is
/// withheld, the other is too, so that a file which was moved away is not gone.
fn pair_moves(steps: &mut [CommitStep]) {
    let mut gone: HashMap<Digest, usize> = HashMap::new();
    for (index, step) in steps.iter().enumerate() {
        if let (What::Deleted, Some(before)) = (step.change.what, &step.change.before)
            && let Some(digest) = before.digest.filter(|_| before.size > 0)
        {
            gone.entry(digest).or_insert(index);
        }
    }
    // What came up where nothing was has the first claim on what is gone.
    let (came_up, replaced): (Vec<usize>, Vec<usize>) = (0..steps.len())
        .filter(|index| steps.get(*index).is_some_and(|step| step.change.what != What::Deleted))
        .partition(|index| steps.get(*index).is_some_and(|step| step.change.what == What::Created));
    for index in came_up.into_iter().chain(replaced) {
        let Some(step) = steps.get(index) else { continue };
        let digest = step.change.after.as_ref().and_then(|after| after.digest);
        let Some(from) = digest.and_then(|digest| gone.remove(&digest)) else { continue };
        let is_withheld = step.withheld.is_some();
        let is_new = step.change.what == What::Created;
        let Some(deletion) = steps.get_mut(from) else { continue };
        // What may be kept from going is in the workspace still; what may go is gone by its deletion.
        if is_withheld && deletion.withheld.is_none() {
            deletion.withheld = Some(Withheld::Moved);
        }
        let (root, named) = (deletion.change.root, deletion.change.path.clone());
        if let Some(step) = steps.get_mut(index)
            && is_new
            && step.change.root == root
        {
            step.change.renamed_from = Some(named);
        }
    }
}

impl StagedChanges {
    /// All changes that anybody wants to hear of, whatever becomes of them.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.steps.iter().filter(|step| !step.is_quiet).map(|step| &step.change)
    }

    /// Returns their number, including those that are not shown.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Returns whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

/// Returns the path in the user's kept files for a path below a root.
pub(super) fn kept_path(roots: usize, change: &Change) -> PathBuf {
    if roots == 1 { change.path.clone() } else { Path::new(&change.root.to_string()).join(&change.path) }
}
