//! Recording of a command's changes: the paths that were touched while it ran, as they were and as they are.
//!
//! Which paths those are is known by the index of the roots. How they were is known by what was kept before the
//! command began (what it must not change), and by what its supervisor kept before the first write to each
//! ([`Journal`]).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::difference::{Change, Changes, What};
use super::files::{identity, look, open_below, open_file, parent, path, read_at_most, target};
use super::record::{Fingerprint, Kind, State};
use super::store::{Generation, Store};
use super::tree::{Earlier, Marker, NameTree, Touch};
use super::{Allowed, ChangesError, Keep, Scope};
use crate::exec::sandbox::{BeforeImage, Journal, MovedDirectory};
use roo_protocol::ids::Digest;

/// The largest file that is read to compare it, in bytes.
const MAX_COMPARED_BYTES: u64 = 64 << 20;

/// A root that is indexed, and what its names mean.
#[derive(Clone)]
pub struct IndexedRoot {
    /// Absolute and real.
    pub path: PathBuf,
    /// Meaning of names. With another one everything is listed again.
    pub marker: Arc<dyn Marker>,
}

/// The names below the roots of a workspace, for all commands in it. It is made when it is first asked.
#[derive(Default)]
pub struct FileIndex {
    state: Mutex<Indexed>,
    /// True if everything is walked each time, as where the kernel can't tell of changes.
    walks: bool,
}

#[derive(Default)]
struct Indexed {
    trees: Vec<NameTree>,
    next: u64,
}

/// Places below the roots that mean something for every command. Paths are absolute, and outermost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MarkedPlaces {
    /// Hidden paths.
    pub hidden: Vec<PathBuf>,
    /// Paths that steer agents, git or editors.
    pub protected: Vec<PathBuf>,
    /// Directories of build output that git ignores.
    pub scratch: Vec<PathBuf>,
    /// Directories that can't be looked into.
    pub unreadable: Vec<PathBuf>,
    /// True if since the last look a file may have got a second name.
    pub links_changed: bool,
}

impl FileIndex {
    /// An index that walks through everything each time, for where processes can give a file a second name in a place
    /// that nobody watches, and write it there.
    pub fn walking() -> Self {
        Self { walks: true, ..Self::default() }
    }

    fn state(&self) -> MutexGuard<'_, Indexed> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings the index up to now. Reads the disk, so not for a thread of the runtime.
    ///
    /// # Errors
    /// [`ChangesError::Io`] when a root can't be read.
    pub fn places(&self, roots: &[IndexedRoot]) -> Result<MarkedPlaces, ChangesError> {
        let mut state = self.state();
        state.refresh(roots, !self.walks)?;
        let mut places = MarkedPlaces::default();
        for tree in &mut state.trees {
            places.links_changed |= std::mem::take(&mut tree.links_changed);
            let tree = &*tree;
            let real = |(relative, kind): (&[u8], Kind)| {
                // What a link leads to means what it means where it is.
                (kind != Kind::Link).then(|| tree.path.join(path(relative)))
            };
            places.hidden.extend(tree.hidden().filter_map(real));
            places.protected.extend(tree.protected().filter_map(real));
            places.scratch.extend(tree.scratch.iter().map(|relative| tree.path.join(path(relative))));
            places.unreadable.extend(tree.unreadable.iter().map(|relative| tree.path.join(path(relative))));
        }
        Ok(places)
    }

    /// Begins to record what changes. What the scope keeps is put into the store. Reads the disk, so not for a thread
    /// of the runtime.
    ///
    /// # Errors
    /// [`ChangesError::Io`] when a root can't be read: then nothing can be compared later.
    pub fn begin(
        self: &Arc<Self>,
        roots: &[IndexedRoot],
        scope: &dyn Scope,
        store: &Store,
    ) -> Result<Recording, ChangesError> {
        let mut state = self.state();
        state.refresh(roots, !self.walks)?;
        let generation = store.begin();
        let (mut recorded, mut kept) = (Vec::new(), HashMap::new());
        for (number, tree) in state.trees.iter().enumerate() {
            let handle = tree.handle.try_clone().map_err(|source| failed("opened", &tree.path, source))?;
            recorded.push(RecordedRoot { path: tree.path.clone(), handle });
            for prefix in scope.kept_below(number) {
                keep(tree, number, prefix.as_os_str().as_bytes(), scope, store, &generation, &mut kept);
            }
        }
        state.next += 1;
        let number = state.next;
        state.trees.iter_mut().for_each(|tree| tree.begin(number));
        let since = coarse_now();
        Ok(Recording {
            index: Arc::clone(self),
            number,
            roots: recorded,
            kept,
            since,
            _generation: generation,
        })
    }

    /// All files, as they were at the last look.
    pub fn files(&self) -> Vec<PathBuf> {
        let state = self.state();
        let files = |tree: &NameTree| {
            let files = tree.below(b"").into_iter().filter(|(_, kind)| *kind == Kind::File);
            files.map(|(relative, _)| tree.path.join(path(&relative))).collect::<Vec<_>>()
        };
        state.trees.iter().flat_map(files).collect()
    }

    /// Number of names it has.
    pub fn len(&self) -> usize {
        self.state().trees.iter().map(NameTree::len).sum()
    }

    /// Returns whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Indexed {
    fn refresh(&mut self, roots: &[IndexedRoot], watch: bool) -> Result<(), ChangesError> {
        let is_same = self.trees.iter().map(|tree| &tree.path).eq(roots.iter().map(|root| &root.path));
        if is_same {
            for (tree, root) in self.trees.iter_mut().zip(roots) {
                tree.refresh(&root.marker).map_err(|source| failed("read", &root.path, source))?;
            }
            return Ok(());
        }
        let new = |root: &IndexedRoot| {
            NameTree::new(&root.path, Arc::clone(&root.marker), watch)
                .map_err(|source| failed("opened", &root.path, source))
        };
        self.trees = roots.iter().map(new).collect::<Result<_, _>>()?;
        Ok(())
    }
}

fn failed(what: &'static str, path: &Path, source: io::Error) -> ChangesError {
    ChangesError::Io { what, path: path.to_owned(), source }
}

/// The time that the kernel gives to what is changed now.
#[cfg(target_os = "linux")]
fn coarse_now() -> (i64, i64) {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    #[allow(clippy::useless_conversion, reason = "not on all processors")]
    (now.tv_sec.into(), now.tv_nsec.into())
}

#[cfg(not(target_os = "linux"))]
fn coarse_now() -> (i64, i64) {
    (0, 0)
}

/// Keeps what is there below a directory and may have to be brought back, or the one file that is named.
fn keep(
    tree: &NameTree,
    number: usize,
    prefix: &[u8],
    scope: &dyn Scope,
    store: &Store,
    generation: &Arc<Generation>,
    kept: &mut HashMap<(usize, Vec<u8>), State>,
) {
    let mut open: Option<(Vec<u8>, OwnedFd)> = None;
    let mut found = tree.below(prefix);
    found.extend(tree.kind(prefix).map(|kind| (prefix.to_vec(), kind)));
    found.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    for (relative, kind) in found {
        let wanted = scope.keep(number, &path(&relative));
        if wanted == Keep::Nothing || kind == Kind::Directory || kind == Kind::Special {
            continue;
        }
        let (above, name) = split(&relative);
        if open.as_ref().is_none_or(|(opened, _)| opened != above) {
            open = open_below(tree.handle.as_fd(), above).ok().map(|handle| (above.to_vec(), handle));
        }
        let Some((_, directory)) = &open else { continue };
        let Ok(Some(print)) = look(directory, name) else { continue };
        let state = match print.kind {
            Kind::File => {
                State::new(print, store.digest_of(directory, name, print, wanted, generation), None)
            }
            Kind::Link => State::new(print, None, target(directory, name).ok()),
            Kind::Directory | Kind::Special => continue,
        };
        kept.insert((number, relative), state);
    }
}

pub(super) fn split(relative: &[u8]) -> (&[u8], &[u8]) {
    match relative.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => relative
            .split_at_checked(slash)
            .map_or((&[], relative), |(above, name)| (above, name.strip_prefix(b"/").unwrap_or(name))),
        None => (&[], relative),
    }
}

pub(super) struct RecordedRoot {
    pub path: PathBuf,
    pub handle: OwnedFd,
}

/// Recording of the changes below some roots, from its beginning until it is dropped.
pub struct Recording {
    index: Arc<FileIndex>,
    number: u64,
    pub(super) roots: Vec<RecordedRoot>,
    /// Files that may have to be restored, by root and path.
    pub(super) kept: HashMap<(usize, Vec<u8>), State>,
    since: (i64, i64),
    /// Keeps the contents that it needs.
    _generation: Arc<Generation>,
}

impl Drop for Recording {
    fn drop(&mut self) {
        let mut state = self.index.state();
        state.trees.iter_mut().for_each(|tree| tree.end(self.number));
    }
}

impl Recording {
    /// The directories of build output that there are: root and path below it.
    pub fn scratch(&self) -> Vec<(usize, PathBuf)> {
        let state = self.index.state();
        let trees = state.trees.iter().enumerate();
        trees.flat_map(|(number, tree)| tree.scratch.iter().map(move |found| (number, path(found)))).collect()
    }

    /// The same as they are now: some may have come up since the recording began. Reads the disk.
    pub fn scratch_now(&self) -> Vec<(usize, PathBuf)> {
        // What can't be read now is reported with the changes.
        self.index.state().trees.iter_mut().for_each(|tree| _ = tree.drain());
        self.scratch()
    }

    /// Returns the changes so far, except those that the `journal` attributes to somebody else. It also says how things
    /// were, as far as it goes. Reads the disk, so not for a thread of the runtime.
    pub fn changes(&self, scope: &dyn Scope, journal: &Journal) -> Changes {
        let mut found = Changes::default();
        let earlier = EarlierStates::new(self, journal);
        for (number, root) in self.roots.iter().enumerate() {
            let touched = match self.touched(number) {
                Ok(touched) => touched,
                Err(error) => {
                    let shown = root.path.display();
                    found.unknown.get_or_insert(format!("{shown} can't be read: {error}"));
                    continue;
                }
            };
            // What came up and went again meanwhile is not in the index.
            let gone = earlier.gone(number, &touched.paths);
            for (relative, touch) in touched.paths.into_iter().chain(gone) {
                found.changes.extend(self.change(number, &relative, touch, scope, &earlier));
            }
            if let Some(directory) = touched.unreadable {
                let shown = root.path.join(directory);
                found.unknown.get_or_insert(format!("{} can't be read", shown.display()));
            }
        }
        found.changes.sort_by(|one, other| (one.root, &one.path).cmp(&(other.root, &other.path)));
        pair_moves(&mut found.changes);
        found
    }

    /// Returns the paths of one root touched so far.
    pub(super) fn touched(&self, number: usize) -> io::Result<TouchedPaths> {
        let mut state = self.index.state();
        let Some(tree) = state.trees.get_mut(number) else { return Err(io::ErrorKind::NotFound.into()) };
        tree.drain()?;
        let unknown = || io::Error::other("its names were listed again for other folders");
        let (mut paths, lost) = tree.touched(self.number).ok_or_else(unknown)?;
        if lost && tree.is_watched() {
            for (relative, before) in tree.written_since(self.since) {
                paths.entry(relative).or_insert(Touch { before: Some(before), content: true }).content = true;
            }
        }
        // Build output is nobody's concern, but for what takes its name.
        let is_scratch = |path: &[u8], touch: &Touch| {
            let kinds = [touch.before.map(|before| before.kind), tree.kind(path)];
            kinds.iter().flatten().all(|kind| *kind == Kind::Directory) && tree.rules.is_scratch(path)
        };
        paths.retain(|path, touch| !is_scratch(path, touch));
        let unreadable = tree.unreadable.iter().find(|found| !tree.was_unreadable(self.number, found));
        let unreadable = unreadable.map(|found| path(found));
        Ok(TouchedPaths { paths: paths.into_iter().collect(), unreadable })
    }

    /// A root as it is now, but for what the command wrote elsewhere.
    pub(super) fn now(&self, number: usize) -> io::Result<RootNow<'_>> {
        let touched = self.touched(number)?.paths.into_iter().collect();
        Ok(RootNow { index: &self.index, number, touched })
    }

    fn change(
        &self,
        number: usize,
        relative: &[u8],
        touch: Touch,
        scope: &dyn Scope,
        earlier: &EarlierStates<'_>,
    ) -> Option<Change> {
        let root = self.roots.get(number)?;
        let (above, name) = split(relative);
        let directory = open_below(root.handle.as_fd(), above);
        let print = directory.as_ref().ok().and_then(|directory| look(directory, name).ok().flatten());
        let named = path(relative);
        let kind = print.map(|print| print.kind).or(touch.before.map(|before| before.kind));
        let allowed = scope.allowed_as(number, &named, kind);
        if allowed == Allowed::Scratch {
            return None;
        }
        let is_created_directory = touch.before.is_none() && kind == Some(Kind::Directory);
        if earlier.is_by_others(&root.path.join(&named), print.as_ref(), is_created_directory) {
            return None;
        }
        // What a server had under way when the command began.
        if print.is_none() && roo_durable::is_temporary_name(name) {
            return None;
        }
        let after = match (&directory, print) {
            (Ok(directory), Some(print)) => Some(now(directory, name, print)),
            _ => None,
        };
        let mut before = match touch.before {
            Some(before) => Some(earlier.state(number, relative, before)),
            None => earlier.made_meanwhile(&root.path.join(&named), print.as_ref()),
        };
        if let (Some(before), Some(after)) = (&mut before, &after)
            && !touch.content
            && before.kind == after.kind
        {
            // Only its mode or its times can be others.
            before.digest = before.digest.or(after.digest);
        }
        let what = match (&before, &after) {
            (Some(before), Some(after)) if is_same(before, after, touch) => return None,
            (Some(_), Some(_)) => What::Modified,
            (None, None) => return None,
            (None, _) => What::Created,
            (_, None) => What::Deleted,
        };
        let kind = after.as_ref().or(before.as_ref())?.kind;
        let allowed = if allowed == Allowed::InScope { scope.allowed_change(what, kind) } else { allowed };
        Some(Change { root: number, path: named, what, allowed, before, after, renamed_from: None })
    }
}

/// A root at the end of a command, for whoever looks at what a command wrote elsewhere.
pub(super) struct RootNow<'a> {
    index: &'a FileIndex,
    number: usize,
    touched: BTreeMap<Vec<u8>, Touch>,
}

impl RootNow<'_> {
    fn tree<T>(&self, look: impl FnOnce(&NameTree) -> T) -> Option<T> {
        self.index.state().trees.get(self.number).map(look)
    }

    /// Returns the kind of the file there, where it is watched.
    pub(super) fn kind(&self, relative: &[u8]) -> Option<Kind> {
        self.tree(|tree| tree.kind(relative)).flatten()
    }

    /// Returns the names below a directory.
    pub(super) fn below(&self, directory: &[u8]) -> Vec<Vec<u8>> {
        let below = self.tree(|tree| tree.below(directory)).unwrap_or_default();
        below.into_iter().map(|(path, _)| path).collect()
    }

    /// Returns whether a directory is build output that git ignores.
    pub(super) fn is_scratch(&self, relative: &[u8]) -> bool {
        self.tree(|tree| tree.rules.is_scratch(relative)).unwrap_or_default()
    }

    /// Returns what has happened to a path since the command began.
    pub(super) fn touched(&self, relative: &[u8]) -> Option<Touch> {
        self.touched.get(relative).copied()
    }
}

/// The touched paths of a root, in order.
pub(super) struct TouchedPaths {
    pub paths: Vec<(Vec<u8>, Touch)>,
    /// A directory that came up and can't be looked into.
    pub unreadable: Option<PathBuf>,
}

/// Returns the current state of a file.
pub(super) fn now(directory: &OwnedFd, name: &[u8], print: Fingerprint) -> State {
    match print.kind {
        Kind::File => State::new(print, digest(directory, name, &print), None),
        Kind::Link => State::new(print, None, target(directory, name).ok()),
        Kind::Directory | Kind::Special => State::new(print, None, None),
    }
}

/// The digest of a file, if it still is what was found.
pub(super) fn digest(directory: &OwnedFd, name: &[u8], print: &Fingerprint) -> Option<Digest> {
    if print.size > MAX_COMPARED_BYTES {
        return None;
    }
    let (file, opened) = open_file(directory, name).ok()?;
    if opened != *print {
        return None;
    }
    read_at_most(file, MAX_COMPARED_BYTES).ok()?.map(Digest::of)
}

/// Returns whether it is the same after all: touched, or rewritten as it was.
fn is_same(before: &State, after: &State, touch: Touch) -> bool {
    if before.kind != after.kind || (before.mode.is_some() && before.mode != after.mode) {
        return false;
    }
    match before.kind {
        Kind::Directory => true,
        Kind::Link if before.target.is_some() => before.target == after.target,
        Kind::File => match (before.digest, after.digest) {
            (Some(before), Some(after)) => before == after,
            _ => !touch.content || (before.print.is_some() && before.print == after.print),
        },
        Kind::Link | Kind::Special => !touch.content,
    }
}

/// States of files before a command.
struct EarlierStates<'a> {
    recording: &'a Recording,
    journal: &'a Journal,
    images: HashMap<&'a Path, (&'a BeforeImage, Option<&'a BeforeImage>)>,
    /// Possible current paths of moved directories.
    moved: HashMap<&'a Path, Vec<&'a MovedDirectory>>,
}

impl<'a> EarlierStates<'a> {
    fn new(recording: &'a Recording, journal: &'a Journal) -> Self {
        let mut images: HashMap<&Path, (&BeforeImage, Option<&BeforeImage>)> = HashMap::new();
        for image in &journal.images {
            let with_content = image.content.map(|_| image);
            // The first look at a path knows its mode, the first write its content.
            let known = images.entry(&image.path).or_insert((image, with_content));
            known.1 = known.1.or(with_content);
        }
        let mut moved: HashMap<&Path, Vec<&MovedDirectory>> = HashMap::new();
        for directory in &journal.moved_directories {
            moved.entry(&directory.from).or_default().push(directory);
        }
        Self { recording, journal, images, moved }
    }

    /// Returns whether it is certain that somebody else made a change, and the command had no part in it.
    fn is_by_others(&self, path: &Path, print: Option<&Fingerprint>, is_created_directory: bool) -> bool {
        let file = print.map(|print| (print.device, print.inode));
        if !self.journal.has_left_alone(path, file) {
            return false;
        }
        // A new repository is judged as a whole.
        let is_repository = is_created_directory && path.ends_with(".git");
        !(is_repository && self.journal.has_touched_below(path))
    }

    /// Returns the state of a file that somebody else made since the command began, before the command touched it.
    fn made_meanwhile(&self, path: &Path, print: Option<&Fingerprint>) -> Option<State> {
        if !self.journal.is_complete_at(path) {
            return None;
        }
        let by_another_name = || {
            let file = print.map(|print| (print.device, print.inode))?;
            let is_it = |image: &&BeforeImage| (image.device, image.inode) == file && image.content.is_some();
            let image =
                self.journal.images.iter().find(is_it).filter(|_| self.journal.has_touched_file(file))?;
            Some((image, Some(image)))
        };
        let (first, with_content) = self.images.get(path).copied().or_else(by_another_name)?;
        let kind = super::files::kind_of(rustix::fs::FileType::from_raw_mode(first.mode));
        let content = with_content.and_then(|image| self.journal.content(image)).map(Digest::of);
        let is_unwritten =
            || !self.journal.images.iter().any(|image| image.path == path && !image.keeps_content);
        let content = content.or_else(|| {
            let (directory, name, print) =
                self.look(path).filter(|_| kind == Kind::File && is_unwritten())?;
            digest(&directory, &name, &print)
        });
        Some(State::new(print_of(first, kind), content, first.target.clone()))
    }

    /// Returns the files that somebody else made since the command began and the command removed.
    fn gone(&self, number: usize, known: &[(Vec<u8>, Touch)]) -> Vec<(Vec<u8>, Touch)> {
        let Some(root) = self.recording.roots.get(number) else { return Vec::new() };
        let known: HashSet<&[u8]> = known.iter().map(|(relative, _)| relative.as_slice()).collect();
        let below = self.images.keys().filter_map(|path| Some((path, path.strip_prefix(&root.path).ok()?)));
        let relative = below.map(|(path, relative)| (path, relative.as_os_str().as_bytes()));
        let gone = relative.filter(|(path, relative)| !known.contains(relative) && self.look(path).is_none());
        let touch = Touch { before: None, content: true };
        gone.map(|(_, relative)| (relative.to_vec(), touch)).collect()
    }

    fn state(&self, number: usize, relative: &[u8], before: Earlier) -> State {
        if let Some(root) = self.recording.roots.get(number)
            && let Some(meanwhile) = self.made_meanwhile(&root.path.join(path(relative)), None)
            && meanwhile.kind == before.kind
        {
            // Somebody else may have changed it between the command's beginning and this.
            return meanwhile;
        }
        if let Some(kept) = self.recording.kept.get(&(number, relative.to_vec())) {
            return kept.clone();
        }
        let unknown = State::unknown(before.kind, before.mode);
        if before.kind == Kind::Directory {
            return unknown;
        }
        let Some(root) = self.recording.roots.get(number) else { return unknown };
        let absolute = root.path.join(path(relative));
        if let Some((first, with_content)) = self.images.get(absolute.as_path()) {
            let content = with_content.and_then(|image| self.journal.content(image));
            let state =
                State::new(print_of(first, before.kind), content.map(Digest::of), first.target.clone());
            return if state.kind == before.kind { state } else { unknown };
        }
        let elsewhere = self.unchanged_elsewhere(&absolute).filter(|state| state.kind == before.kind);
        elsewhere.or(before.print.map(|print| State::new(print, None, None))).unwrap_or(unknown)
    }

    /// Returns the state of an unwritten file below a directory that was moved.
    fn unchanged_elsewhere(&self, absolute: &Path) -> Option<State> {
        let (above, moved) =
            absolute.ancestors().skip(1).find_map(|above| Some((above, self.moved.get(above)?)))?;
        // The last move that was not refused.
        let to = moved.iter().rev().find(|moved| {
            // The fingerprint of a directory has no numbers.
            let found = self.parent(&moved.to).and_then(|(directory, name)| identity(&directory, &name));
            found == Some(moved.identity)
        })?;
        let (directory, name, print) = self.look(&to.to.join(absolute.strip_prefix(above).ok()?))?;
        Some(now(&directory, &name, print))
    }

    /// Finds the file at a path below one of the roots.
    fn look(&self, place: &Path) -> Option<(OwnedFd, Vec<u8>, Fingerprint)> {
        let (directory, name) = self.parent(place)?;
        let print = look(&directory, &name).ok()??;
        Some((directory, name, print))
    }

    /// Opens the directory of a path below one of the roots; with the name in it.
    fn parent(&self, place: &Path) -> Option<(OwnedFd, Vec<u8>)> {
        let roots = &self.recording.roots;
        let (root, relative) =
            roots.iter().find_map(|root| Some((root, place.strip_prefix(&root.path).ok()?)))?;
        let (directory, name) = parent(root.handle.as_fd(), relative.as_os_str().as_bytes()).ok()?;
        let name = name.to_vec();
        Some((directory, name))
    }
}

fn print_of(image: &BeforeImage, kind: Kind) -> Fingerprint {
    use rustix::fs::FileType;

    let is_same_kind = super::files::kind_of(FileType::from_raw_mode(image.mode)) == kind;
    Fingerprint {
        kind: if is_same_kind { kind } else { Kind::Special },
        mode: image.mode & 0o7777,
        size: image.size,
        modified: image.modified,
        changed: image.changed,
        inode: image.inode,
        device: image.device,
    }
}

/// Finds what was only moved: the same file with the same content at another place. A new file may get the inode of a
/// deleted one.
fn pair_moves(changes: &mut [Change]) {
    let file = |state: &Option<State>| {
        let print = state.as_ref()?.print.filter(|print| print.kind == Kind::File)?;
        Some((print.device, print.inode))
    };
    let gone: HashMap<(usize, u64, u64), (PathBuf, Option<State>)> = changes
        .iter()
        .filter(|change| change.what == What::Deleted)
        .filter_map(|change| {
            let (device, inode) = file(&change.before)?;
            Some(((change.root, device, inode), (change.path.clone(), change.before.clone())))
        })
        .collect();
    for change in changes.iter_mut().filter(|change| change.what == What::Created) {
        let moved = file(&change.after)
            .and_then(|(device, inode)| gone.get(&(change.root, device, inode)))
            .filter(|(_, before)| is_moved(before.as_ref(), change.after.as_ref()));
        change.renamed_from = moved.map(|(from, _)| from.clone());
    }
}

/// Returns whether a file that went, and one with the same number that came up, are the same one by what a move keeps. A new file
/// may have the number of one that was removed.
pub(super) fn is_moved(before: Option<&State>, after: Option<&State>) -> bool {
    let (Some(before), Some(after)) = (before, after) else { return false };
    let kept = |state: &State| state.print.map(|print| (print.size, print.modified));
    let is_other = before.digest.zip(after.digest).is_some_and(|(before, after)| before != after);
    !is_other && kept(before) == kept(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_with_the_inode_of_a_deleted_one_was_not_moved() {
        let state = |inode: u64, modified: i64, text: Option<&str>| {
            let print =
                Fingerprint { inode, modified: (modified, 0), size: 3, ..Fingerprint::of_kind(Kind::File) };
            State::new(print, text.map(Digest::of), None)
        };
        let change = |path: &str, what, before, after| Change {
            root: 0,
            path: path.into(),
            what,
            allowed: Allowed::InScope,
            before,
            after,
            renamed_from: None,
        };
        let moved = |before: State, after: State| {
            let mut changes = [
                change("old", What::Deleted, Some(before), None),
                change("new", What::Created, None, Some(after)),
            ];
            pair_moves(&mut changes);
            changes[1].renamed_from.as_deref() == Some(Path::new("old"))
        };
        assert!(moved(state(7, 1, Some("one")), state(7, 1, Some("one"))));
        assert!(moved(state(7, 1, Some("one")), state(7, 1, None)));
        assert!(!moved(state(7, 1, Some("one")), state(7, 2, Some("two"))));
        assert!(!moved(state(7, 1, Some("one")), state(7, 2, Some("one"))));
        assert!(!moved(state(7, 1, None), state(7, 2, Some("two"))));
        assert!(!moved(state(7, 1, Some("one")), state(8, 1, Some("one"))));
    }
}
