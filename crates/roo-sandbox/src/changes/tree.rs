//! The names below a root, kept current by what the kernel tells of changes (inotify(7)), so that a command in a large
//! workspace costs no walk through it.
//!
//! Each directory is watched before it is listed, so that nothing is missed. Where the kernel has lost events, and where
//! directories can't be watched (too many of them, or another system), everything is walked instead: see
//! [`NameTree::refresh`]. Build output that git ignores and what is hidden is not looked into.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, statat};

use super::files::{
    entries, join, look, open_below, open_directory, open_file, open_root, parent, path, read_at_most,
};
use super::record::{Fingerprint, Kind};
use super::scratch::Rules;
use super::watcher::{Event, Watcher};

/// The largest ignore file that is read, in bytes.
const MAX_IGNORE_FILE_BYTES: u64 = 1 << 20;

/// Ignored entries of a git directory, except below its references, where names are free.
const GIT_LEFT_OUT: &[&[u8]] = &[
    b"objects",
    b"lfs",
    b"logs",
    b"index",
    b"COMMIT_EDITMSG",
    b"MERGE_MSG",
    b"TAG_EDITMSG",
    b"FETCH_HEAD",
    b"ORIG_HEAD",
    b"AUTO_MERGE",
    b"gc.log",
];

/// Meaning of a name, independent of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Nothing.
    None,
    /// It may not be read, nor what is below it.
    Hidden,
    /// It steers agents, git or editors.
    Protected,
    /// It is protected, and if it is a directory somebody else looks into it.
    Opaque,
}

/// Tells what names mean. Paths are relative to the root, with `/` between names.
pub trait Marker: Send + Sync {
    /// Returns the meaning of a name.
    fn mark(&self, path: &Path, kind: Kind) -> Mark;
}

type NodeId = usize;

/// A directory that is looked into.
struct Node {
    parent: Option<NodeId>,
    name: Box<[u8]>,
    mode: u32,
    watch: Option<i32>,
    items: BTreeMap<Box<[u8]>, TreeEntry>,
}

/// A name in a directory.
#[derive(Debug)]
struct TreeEntry {
    kind: Kind,
    /// The directory, where it is one that is looked into.
    node: Option<NodeId>,
    /// Only where nothing is watched.
    print: Option<Box<Fingerprint>>,
}

/// State of a file when a recording began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Earlier {
    pub kind: Kind,
    /// Of a directory; of a file it isn't known.
    pub mode: Option<u32>,
    /// Only where nothing is watched.
    pub print: Option<Fingerprint>,
}

/// Known events of a path since a recording began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Touch {
    /// None where nothing was there.
    pub before: Option<Earlier>,
    /// True if the content may be another one, as against the mode or a time.
    pub content: bool,
}

/// The touched paths of one root.
pub(super) type Touched = BTreeMap<Vec<u8>, Touch>;

/// State of a recording while it exists.
#[derive(Debug, Default)]
struct RecordingState {
    touched: Touched,
    /// True if the kernel lost events, so that any file may have been written.
    lost: bool,
    /// Directories that could not be looked into when it began.
    unreadable: BTreeSet<Vec<u8>>,
}

/// The names below one root.
pub(super) struct NameTree {
    pub path: PathBuf,
    pub handle: OwnedFd,
    /// Identity of the root itself, so that its replacement is noticed.
    identity: (u64, u64),
    marker: Arc<dyn Marker>,
    pub rules: Rules,
    nodes: Vec<Option<Node>>,
    free: Vec<NodeId>,
    watcher: Option<Watcher>,
    by_watch: HashMap<i32, NodeId>,
    /// Outermost ones.
    hidden: BTreeMap<Vec<u8>, Kind>,
    /// Outermost ones.
    protected: BTreeMap<Vec<u8>, Kind>,
    /// Directories of build output that git ignores.
    pub scratch: BTreeSet<Vec<u8>>,
    /// Directories that are there and can't be looked into.
    pub unreadable: BTreeSet<Vec<u8>>,
    /// True if an ignore file of git has changed, by which directories were taken for build output.
    rules_changed: bool,
    recordings: HashMap<u64, RecordingState>,
    count: usize,
    /// True if a file may have got a second name.
    pub links_changed: bool,
    /// True if what is listed has just come up.
    comes_up: bool,
}

/// The root's own node.
const ROOT: NodeId = 0;

impl NameTree {
    /// Lists what is below a root. Reads the disk, so not for a thread of the runtime.
    ///
    /// # Errors
    /// When the root can't be read.
    pub(super) fn new(root: &Path, marker: Arc<dyn Marker>, watch: bool) -> io::Result<Self> {
        let handle = open_root(root)?;
        let watcher = if watch { Watcher::new().ok() } else { None };
        let mut tree = Self {
            path: root.to_owned(),
            identity: identity(&handle)?,
            handle,
            marker,
            rules: Rules::default(),
            nodes: Vec::new(),
            free: Vec::new(),
            watcher,
            by_watch: HashMap::new(),
            hidden: BTreeMap::new(),
            protected: BTreeMap::new(),
            scratch: BTreeSet::new(),
            unreadable: BTreeSet::new(),
            rules_changed: false,
            recordings: HashMap::new(),
            count: 0,
            links_changed: true,
            comes_up: false,
        };
        tree.list_all()?;
        Ok(tree)
    }

    /// Returns whether the kernel tells of changes.
    pub(super) fn is_watched(&self) -> bool {
        self.watcher.is_some()
    }

    /// Number of names it has.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Returns the hidden paths, with their kinds: outermost places.
    pub(super) fn hidden(&self) -> impl Iterator<Item = (&[u8], Kind)> {
        self.hidden.iter().map(|(path, kind)| (path.as_slice(), *kind))
    }

    /// Returns the protected paths, with their kinds: outermost places.
    pub(super) fn protected(&self) -> impl Iterator<Item = (&[u8], Kind)> {
        self.protected.iter().map(|(path, kind)| (path.as_slice(), *kind))
    }

    /// Brings the tree up to now. Whether anything had to be listed again is nobody's concern but for the time that it
    /// takes: a look at what changed, or a walk through everything where events were lost or rules have changed.
    ///
    /// # Errors
    /// When the root can't be read any more.
    pub(super) fn refresh(&mut self, marker: &Arc<dyn Marker>) -> io::Result<()> {
        let is_same_root = open_root(&self.path).and_then(|handle| identity(&handle))? == self.identity;
        let is_same_marker = std::ptr::addr_eq(Arc::as_ptr(marker), Arc::as_ptr(&self.marker));
        if !is_same_root || !is_same_marker || self.rules_changed || self.watcher.is_none() {
            self.marker = Arc::clone(marker);
            return self.list_again(!is_same_root);
        }
        self.drain()
    }

    /// Applies what the kernel has told, by the rules as they are.
    ///
    /// # Errors
    /// When the root can't be read any more.
    pub(super) fn drain(&mut self) -> io::Result<()> {
        let Some(watcher) = &mut self.watcher else { return self.list_again(false) };
        let mut events: BTreeMap<NodeId, BTreeMap<Box<[u8]>, Happened>> = BTreeMap::new();
        let mut lost = false;
        let by_watch = &mut self.by_watch;
        watcher.drain(|event| match event {
            Event::Lost => lost = true,
            Event::Ended { watch } => {
                by_watch.remove(&watch);
            }
            Event::Name { watch, name, came_or_went, content } => {
                if let Some(node) = by_watch.get(&watch) {
                    let happened = events.entry(*node).or_default().entry(name.into()).or_default();
                    happened.came_or_went |= came_or_went;
                    happened.content |= content;
                }
            }
        })?;
        if lost {
            return self.list_again(false);
        }
        for (node, names) in events {
            self.apply(node, names);
        }
        Ok(())
    }

    fn apply(&mut self, id: NodeId, names: BTreeMap<Box<[u8]>, Happened>) {
        // Gone with a directory above it, whose names are all touched.
        let Some(prefix) = self.prefix(id) else { return };
        let directory = open_below(self.handle.as_fd(), &prefix);
        for (name, happened) in names {
            let relative = join(&prefix, &name);
            if is_left_out(&relative) {
                continue;
            }
            if &*name == b".gitignore" || relative == b".git/info/exclude" {
                self.rules_changed = true;
            }
            self.touch(&relative, id, &name, happened.content || happened.came_or_went);
            if !happened.came_or_went {
                if let Ok(directory) = &directory
                    && let Ok(Some(print)) = look(directory, &name)
                    && let Some(node) = self.child(id, &name)
                    && let Some(Some(node)) = self.nodes.get_mut(node)
                {
                    node.mode = print.mode;
                }
                continue;
            }
            self.forget(id, &name, &relative);
            let Ok(directory) = &directory else { continue };
            self.links_changed |= has_other_names(directory, &name);
            if let Ok(Some(print)) = look(directory, &name) {
                let mut waiting = Vec::new();
                let shared = Rc::new(match directory.try_clone() {
                    Ok(directory) => directory,
                    Err(_) => continue,
                });
                self.comes_up = true;
                self.enter(&shared, id, name, relative, print, &mut waiting);
                self.list_waiting(waiting);
                self.comes_up = false;
            }
        }
    }

    /// Walks through everything, and tells recordings what is other than it was.
    fn list_again(&mut self, reopen: bool) -> io::Result<()> {
        let earlier = self.flat();
        let unseen_before: BTreeSet<Vec<u8>> =
            self.scratch.iter().chain(self.hidden.keys()).cloned().collect();
        if reopen {
            self.handle = open_root(&self.path)?;
            self.identity = identity(&self.handle)?;
        }
        if self.watcher.take().is_some() {
            self.watcher = Watcher::new().ok();
            // What happens between the old watches and the new ones is told by nobody.
            self.recordings.values_mut().for_each(|recording| recording.lost = true);
        }
        self.list_all()?;
        if self.recordings.is_empty() {
            return Ok(());
        }
        let unseen: BTreeSet<Vec<u8>> =
            self.scratch.iter().chain(self.hidden.keys()).cloned().chain(unseen_before).collect();
        let now = self.flat();
        for recording in self.recordings.values_mut() {
            compare(&earlier, &now, &unseen, &mut recording.touched);
        }
        Ok(())
    }

    fn list_all(&mut self) -> io::Result<()> {
        let handle = open_directory(&self.handle, b".")?;
        self.nodes.clear();
        self.free.clear();
        self.by_watch.clear();
        self.hidden.clear();
        self.protected.clear();
        self.scratch.clear();
        self.unreadable.clear();
        self.rules = Rules::default();
        self.rules_changed = false;
        self.links_changed = true;
        self.count = 0;
        // Before the walk: what is ignored has to be known when it is met.
        if let Ok((directory, name)) = parent(self.handle.as_fd(), b".git/info/exclude") {
            self.read_rules(&directory, name, b"");
        }
        self.new_node(None, b"".as_slice().into(), 0);
        let mut waiting = Vec::new();
        self.list(&Rc::new(handle), ROOT, Vec::new(), &mut waiting);
        self.list_waiting(waiting);
        Ok(())
    }

    /// Lists directories and what they hold. Those around one that waits stay open, and no others.
    fn list_waiting(&mut self, mut waiting: Vec<PendingDirectory>) {
        while let Some(PendingDirectory { above, name, node, relative }) = waiting.pop() {
            match open_directory(&*above, &name) {
                Ok(directory) => self.list(&Rc::new(directory), node, relative, &mut waiting),
                // Gone since its name was read, or swapped for something else: its directory tells.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(_) => {
                    self.unreadable.insert(relative);
                }
            }
        }
    }

    fn list(
        &mut self,
        directory: &Rc<OwnedFd>,
        id: NodeId,
        prefix: Vec<u8>,
        waiting: &mut Vec<PendingDirectory>,
    ) {
        let watched = self.watcher.as_mut().map(|watcher| watcher.add(directory));
        match watched {
            Some(Ok(watch)) => {
                self.by_watch.insert(watch, id);
                if let Some(Some(node)) = self.nodes.get_mut(id) {
                    node.watch = Some(watch);
                }
            }
            // Without a watch on each directory none is worth anything: from now on everything is walked.
            Some(Err(_)) => {
                self.watcher = None;
                self.by_watch.clear();
            }
            None => {}
        }
        let Ok(found) = entries(directory) else {
            self.unreadable.insert(prefix);
            return;
        };
        if found.iter().any(|(name, _)| name == b".gitignore") {
            self.read_rules(directory, b".gitignore", &prefix);
        }
        for (name, kind) in found {
            let relative = join(&prefix, &name);
            if is_left_out(&relative) {
                continue;
            }
            // A directory needs its mode, and without watches all is needed.
            let known = match kind {
                Some(kind) if self.watcher.is_some() && kind != Kind::Directory => {
                    Ok(Some(Fingerprint::of_kind(kind)))
                }
                _ => look(&**directory, &name),
            };
            match known {
                Ok(Some(print)) => self.enter(directory, id, name.into(), relative, print, waiting),
                // Gone since its name was read.
                Ok(None) => {}
                Err(_) => {
                    self.unreadable.insert(relative);
                }
            }
        }
    }

    fn enter(
        &mut self,
        directory: &Rc<OwnedFd>,
        parent: NodeId,
        name: Box<[u8]>,
        relative: Vec<u8>,
        print: Fingerprint,
        waiting: &mut Vec<PendingDirectory>,
    ) {
        let kind = print.kind;
        if self.comes_up {
            for recording in self.recordings.values_mut() {
                let touch = recording.touched.entry(relative.clone());
                touch.or_insert(Touch { before: None, content: true }).content = true;
            }
        }
        let mark = self.mark(&relative, kind);
        match mark {
            Mark::Hidden if kind != Kind::Link => {
                self.hidden.insert(relative.clone(), kind);
            }
            Mark::Protected | Mark::Opaque => {
                self.protected.insert(relative.clone(), kind);
            }
            _ => {}
        }
        let mut item = TreeEntry { kind, node: None, print: None };
        if kind == Kind::Directory && !matches!(mark, Mark::Hidden | Mark::Opaque) {
            if self.rules.is_scratch(&relative) {
                self.scratch.insert(relative.clone());
            } else {
                let node = self.new_node(Some(parent), name.clone(), print.mode);
                item.node = Some(node);
                waiting.push(PendingDirectory {
                    above: Rc::clone(directory),
                    name: name.clone(),
                    node,
                    relative,
                });
            }
        }
        if self.watcher.is_none() {
            item.print = Some(Box::new(print));
        }
        self.count += 1;
        if let Some(Some(node)) = self.nodes.get_mut(parent) {
            node.items.insert(name, item);
        }
    }

    /// Returns the meaning of a name; nothing more where a directory above it means the same.
    fn mark(&self, relative: &[u8], kind: Kind) -> Mark {
        let is_below =
            |places: &BTreeMap<Vec<u8>, Kind>| above(relative).any(|above| places.contains_key(above));
        match self.marker.mark(&path(relative), kind) {
            Mark::Protected if !self.protected.is_empty() && is_below(&self.protected) => Mark::None,
            mark => mark,
        }
    }

    fn new_node(&mut self, parent: Option<NodeId>, name: Box<[u8]>, mode: u32) -> NodeId {
        let node = Some(Node { parent, name, mode, watch: None, items: BTreeMap::new() });
        if let Some(id) = self.free.pop()
            && let Some(place) = self.nodes.get_mut(id)
        {
            *place = node;
            return id;
        }
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn child(&self, id: NodeId, name: &[u8]) -> Option<NodeId> {
        self.nodes.get(id)?.as_ref()?.items.get(name)?.node
    }

    /// The path of a directory; none where it is not there any more.
    fn prefix(&self, id: NodeId) -> Option<Vec<u8>> {
        let mut names = Vec::new();
        let mut at = id;
        loop {
            let node = self.nodes.get(at)?.as_ref()?;
            match node.parent {
                None => break,
                Some(above) => {
                    names.push(&*node.name);
                    at = above;
                }
            }
        }
        names.reverse();
        Some(names.join(&b'/'))
    }

    /// Tells recordings that something happens to a name, and with it to all below where it is a directory.
    fn touch(&mut self, relative: &[u8], id: NodeId, name: &[u8], content: bool) {
        if self.recordings.is_empty() {
            return;
        }
        let item = self.nodes.get(id).and_then(Option::as_ref).and_then(|node| node.items.get(name));
        let before = item.map(|item| self.earlier(item));
        for recording in self.recordings.values_mut() {
            let touch =
                recording.touched.entry(relative.to_vec()).or_insert(Touch { before, content: false });
            touch.content |= content;
        }
    }

    fn mode(&self, id: NodeId) -> Option<u32> {
        Some(self.nodes.get(id)?.as_ref()?.mode)
    }

    /// Takes a name out, with all below. Recordings are told of what was below.
    fn forget(&mut self, id: NodeId, name: &[u8], relative: &[u8]) {
        let Some(Some(node)) = self.nodes.get_mut(id) else { return };
        let Some(item) = node.items.remove(name) else { return };
        self.count -= 1;
        self.unmark(relative);
        let mut waiting = vec![(item.node, relative.to_vec())];
        while let Some((node, prefix)) = waiting.pop() {
            let Some(id) = node else { continue };
            let Some(node) = self.nodes.get_mut(id).and_then(Option::take) else { continue };
            self.free.push(id);
            if let Some(watch) = node.watch
                && self.by_watch.get(&watch) == Some(&id)
            {
                self.by_watch.remove(&watch);
                if let Some(watcher) = &mut self.watcher {
                    watcher.remove(watch);
                }
            }
            for (name, item) in node.items {
                let below = join(&prefix, &name);
                self.count -= 1;
                self.unmark(&below);
                let before = Some(self.earlier(&item));
                for recording in self.recordings.values_mut() {
                    let touch =
                        recording.touched.entry(below.clone()).or_insert(Touch { before, content: true });
                    touch.content = true;
                }
                waiting.push((item.node, below));
            }
        }
    }

    fn unmark(&mut self, relative: &[u8]) {
        self.hidden.remove(relative);
        self.protected.remove(relative);
        self.scratch.remove(relative);
        self.unreadable.remove(relative);
    }

    fn read_rules(&mut self, directory: &OwnedFd, name: &[u8], prefix: &[u8]) {
        if let Ok((file, _)) = open_file(directory, name)
            && let Ok(Some(text)) = read_at_most(file, MAX_IGNORE_FILE_BYTES)
        {
            self.rules.add(prefix, &String::from_utf8_lossy(&text));
        }
    }

    /// Everything, by path.
    fn flat(&self) -> BTreeMap<Vec<u8>, Earlier> {
        let mut flat = BTreeMap::new();
        self.visit(b"", &mut |relative, item| {
            flat.insert(relative, self.earlier(item));
        });
        flat
    }

    fn earlier(&self, item: &TreeEntry) -> Earlier {
        let mode = item.node.and_then(|node| self.mode(node));
        Earlier { kind: item.kind, mode, print: item.print.as_deref().copied() }
    }

    fn visit(&self, below: &[u8], tell: &mut impl FnMut(Vec<u8>, &TreeEntry)) {
        let Some(begin) = self.find_node(below) else { return };
        let mut waiting = vec![(begin, below.to_vec())];
        while let Some((id, prefix)) = waiting.pop() {
            let Some(node) = self.nodes.get(id).and_then(Option::as_ref) else { continue };
            for (name, item) in &node.items {
                let relative = join(&prefix, name);
                if let Some(inner) = item.node {
                    waiting.push((inner, relative.clone()));
                }
                tell(relative, item);
            }
        }
    }

    fn find_node(&self, relative: &[u8]) -> Option<NodeId> {
        let names = relative.split(|&byte| byte == b'/').filter(|name| !name.is_empty());
        let mut at = ROOT;
        for name in names {
            at = self.child(at, name)?;
        }
        Some(at)
    }

    /// Lists a directory recursively: path and kind, in no order.
    pub(super) fn below(&self, directory: &[u8]) -> Vec<(Vec<u8>, Kind)> {
        let mut found = Vec::new();
        self.visit(directory, &mut |relative, item| found.push((relative, item.kind)));
        found
    }

    /// Returns the kind of a path; none where nothing is, or it is not watched.
    pub(super) fn kind(&self, relative: &[u8]) -> Option<Kind> {
        let (directory, name) = match relative.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => (relative.get(..slash)?, relative.get(slash + 1..)?),
            None => (&b""[..], relative),
        };
        let node = self.nodes.get(self.find_node(directory)?)?.as_ref()?;
        Some(node.items.get(name)?.kind)
    }

    /// Begins to record what is touched.
    pub(super) fn begin(&mut self, number: u64) {
        let unreadable = self.unreadable.clone();
        self.recordings.insert(number, RecordingState { unreadable, ..RecordingState::default() });
    }

    /// Returns the paths touched since a recording began, and whether any other file may have been written; none where it
    /// doesn't know of the recording.
    pub(super) fn touched(&self, number: u64) -> Option<(Touched, bool)> {
        let recording = self.recordings.get(&number)?;
        Some((recording.touched.clone(), recording.lost))
    }

    /// Returns whether a directory could not be looked into when a recording began either.
    pub(super) fn was_unreadable(&self, number: u64, directory: &[u8]) -> bool {
        self.recordings.get(&number).is_some_and(|recording| recording.unreadable.contains(directory))
    }

    /// Ends a recording.
    pub(super) fn end(&mut self, number: u64) {
        self.recordings.remove(&number);
    }

    /// The files of which something changed at or after a time of the kernel's clock.
    pub(super) fn written_since(&self, since: (i64, i64)) -> Vec<(Vec<u8>, Earlier)> {
        let mut found = Vec::new();
        let mut waiting = vec![(ROOT, Vec::new())];
        while let Some((id, prefix)) = waiting.pop() {
            let Some(node) = self.nodes.get(id).and_then(Option::as_ref) else { continue };
            let directory = open_below(self.handle.as_fd(), &prefix);
            for (name, item) in &node.items {
                let relative = join(&prefix, name);
                match (item.kind, &directory) {
                    (Kind::Directory, _) => waiting.extend(item.node.map(|inner| (inner, relative))),
                    (Kind::File, Ok(directory)) => {
                        if let Ok(Some(print)) = look(directory, name)
                            && print.changed >= since
                        {
                            found.push((relative, self.earlier(item)));
                        }
                    }
                    _ => {}
                }
            }
        }
        found
    }
}

#[derive(Default)]
struct Happened {
    came_or_went: bool,
    content: bool,
}

/// A directory to be listed: the one that holds it, and its name there.
struct PendingDirectory {
    above: Rc<OwnedFd>,
    name: Box<[u8]>,
    node: NodeId,
    relative: Vec<u8>,
}

/// Tells what came up, went and changed, but for what is `unseen` before or now.
fn compare(
    earlier: &BTreeMap<Vec<u8>, Earlier>,
    now: &BTreeMap<Vec<u8>, Earlier>,
    unseen: &BTreeSet<Vec<u8>>,
    touched: &mut Touched,
) {
    let is_seen = |path: &[u8]| unseen.is_empty() || !above(path).any(|above| unseen.contains(above));
    let mut touch = |path: &Vec<u8>, before: Option<Earlier>, content: bool| {
        touched.entry(path.clone()).or_insert(Touch { before, content: false }).content |= content;
    };
    for (path, was) in earlier {
        match now.get(path) {
            None if is_seen(path) => touch(path, Some(*was), true),
            None => {}
            Some(is) if is != was => touch(path, Some(*was), true),
            Some(_) => {}
        }
    }
    for path in now.keys().filter(|path| !earlier.contains_key(*path) && is_seen(path)) {
        touch(path, None, true);
    }
}

/// The directories that a path lies in, the innermost first.
pub(super) fn above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = path.iter().enumerate().rev().filter(|(_, byte)| **byte == b'/');
    slashes.filter_map(|(index, _)| path.get(..index))
}

/// Returns whether something is of no interest: what git keeps.
fn is_left_out(path: &[u8]) -> bool {
    let mut names = path.split(|&byte| byte == b'/');
    if !names.by_ref().any(|name| name == b".git") {
        return false;
    }
    let inside: Vec<&[u8]> = names.collect();
    let Some((name, above)) = inside.split_last() else { return false };
    GIT_LEFT_OUT.contains(name) && !above.contains(&&b"refs"[..]) && !above.contains(&&b"hooks"[..])
}

fn has_other_names(directory: &OwnedFd, name: &[u8]) -> bool {
    let found = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
    found.is_ok_and(|found| {
        FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
            && super::files::unsigned(found.st_nlink) > 1
    })
}

fn identity(handle: &OwnedFd) -> io::Result<(u64, u64)> {
    let found = rustix::fs::fstat(handle)?;
    Ok((super::files::unsigned(found.st_dev), super::files::unsigned(found.st_ino)))
}
