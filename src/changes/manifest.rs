//! The record of the files below some roots.

use std::collections::BTreeSet;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::files::{
    is_pending, join, look, names, open_directory, open_file, open_root, path, read_at_most, target,
};
use super::scratch::Rules;
use super::store::{Generation, Store};
use super::{Allowed, ChangesError, Keep, Scope};
use crate::protocol::ids::Digest;

/// The largest ignore file that is read, in bytes.
const LARGEST_RULES: u64 = 1 << 20;

/// How close two changes of a file may be so that its times don't tell them apart.
const TICK: Duration = Duration::from_millis(20);

/// What is left out of a git directory, but below its references, where names are free.
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

/// What something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A device, pipe or socket.
    Special,
}

/// What tells a file from another and from itself at another time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Fingerprint {
    pub kind: Kind,
    pub mode: u32,
    pub size: u64,
    /// Seconds and nanoseconds.
    pub modified: (i64, i64),
    /// The time that nobody can set.
    pub changed: (i64, i64),
    pub inode: u64,
    pub device: u64,
}

/// How something was, before or after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// What it was.
    pub kind: Kind,
    /// Its permissions.
    pub mode: u32,
    /// In bytes; 0 for a directory.
    pub size: u64,
    /// Of a file's content, where it is known.
    pub digest: Option<Digest>,
    pub(super) print: Fingerprint,
}

/// One line of a record.
pub(super) struct Entry {
    /// Relative to the root, `/` between names.
    pub path: Vec<u8>,
    pub print: Fingerprint,
    /// Of a file's content.
    pub digest: Option<Digest>,
    /// Of a link.
    pub target: Option<Vec<u8>>,
    /// Whether its times tell later changes apart from this state.
    pub is_fresh: bool,
}

impl Entry {
    pub(super) fn state(&self) -> State {
        let Fingerprint { kind, mode, size, .. } = self.print;
        State { kind, mode, size, digest: self.digest, print: self.print }
    }
}

pub(super) struct Root {
    pub path: PathBuf,
    pub handle: OwnedFd,
    pub rules: Rules,
    /// Sorted by path.
    pub entries: Vec<Entry>,
    /// Directories that were left out as build output.
    pub scratch: Vec<Vec<u8>>,
}

/// The record of what was below some roots.
pub struct Snapshot {
    pub(super) roots: Vec<Root>,
    /// Keeps the contents that it needs.
    _generation: Arc<Generation>,
}

impl Snapshot {
    /// Records what is below the roots. Reads the disk, so not for a thread of the runtime.
    ///
    /// # Errors
    /// [`ChangesError`] when a root can't be read, or there is more than can be recorded in the time:
    /// then nothing can be compared later.
    pub fn take(
        roots: &[PathBuf],
        scope: &dyn Scope,
        store: &Store,
        budget: Duration,
    ) -> Result<Self, ChangesError> {
        let generation = store.begin();
        let mut taken = Vec::new();
        let deadline = Deadline::new(budget);
        for (number, path) in roots.iter().enumerate() {
            let io = |source| ChangesError::Io { what: "opened", path: path.clone(), source };
            let handle = open_root(path).map_err(io)?;
            let mut rules = Rules::default();
            let mut walk = Walk {
                number,
                root: path,
                scope,
                deadline: &deadline,
                rules: Source::Read(&mut rules),
                keep: Some((store, &generation)),
                entries: Vec::new(),
                unreadable: Vec::new(),
                scratch: Vec::new(),
            };
            walk.run(handle.as_fd())?;
            let Walk { mut entries, mut scratch, .. } = walk;
            scratch.sort_unstable();
            entries.sort_unstable_by(|one, other| one.path.cmp(&other.path));
            taken.push(Root { path: path.clone(), handle, rules, entries, scratch });
        }
        Ok(Self { roots: taken, _generation: generation })
    }

    /// How many files and directories it has on record.
    pub fn len(&self) -> usize {
        self.roots.iter().map(|root| root.entries.len()).sum()
    }

    /// Whether there was nothing to record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The directories of build output that were there: root and path below it.
    pub fn scratch(&self) -> impl Iterator<Item = (usize, PathBuf)> {
        let roots = self.roots.iter().enumerate();
        roots.flat_map(|(number, root)| root.scratch.iter().map(move |found| (number, path(found))))
    }

    /// The paths that were there and are protected, absolute and outermost: what a sandbox makes
    /// read-only.
    pub fn protected(&self, scope: &dyn Scope) -> Vec<PathBuf> {
        let mut found = BTreeSet::new();
        for (number, root) in self.roots.iter().enumerate() {
            for entry in root.entries.iter().filter(|entry| entry.print.kind != Kind::Link) {
                let relative = path(&entry.path);
                let absolute = root.path.join(&relative);
                // What is above comes first: a name sorts before all that begin with it.
                let is_below = || absolute.ancestors().skip(1).any(|above| found.contains(above));
                if scope.allowed(number, &relative) == Allowed::Protected && !is_below() {
                    found.insert(absolute);
                }
            }
        }
        found.into_iter().collect()
    }
}

/// When to give up.
pub(super) struct Deadline {
    at: Instant,
    budget: Duration,
}

impl Deadline {
    pub(super) fn new(budget: Duration) -> Self {
        Self { at: Instant::now() + budget, budget }
    }

    pub(super) fn check(&self, root: &Path) -> Result<(), ChangesError> {
        if Instant::now() < self.at {
            Ok(())
        } else {
            Err(ChangesError::TooMany { root: root.to_owned(), budget: self.budget })
        }
    }
}

/// Where ignore rules come from.
pub(super) enum Source<'a> {
    /// The disk, as it is now.
    Read(&'a mut Rules),
    /// An earlier walk.
    Known(&'a Rules),
}

impl Source<'_> {
    fn rules(&self) -> &Rules {
        match self {
            Self::Read(rules) => rules,
            Self::Known(rules) => rules,
        }
    }
}

/// A directory to be looked into: the one that holds it, its name there and its path.
type Waiting = (Rc<OwnedFd>, Vec<u8>, Vec<u8>);

/// A walk through a root, every directory by its handle.
pub(super) struct Walk<'a> {
    pub number: usize,
    pub root: &'a Path,
    pub scope: &'a dyn Scope,
    pub deadline: &'a Deadline,
    pub rules: Source<'a>,
    pub keep: Option<(&'a Store, &'a Arc<Generation>)>,
    pub entries: Vec<Entry>,
    /// Directories that are there and can't be looked into.
    pub unreadable: Vec<Vec<u8>>,
    /// Directories that git ignores and that bear the name of build output.
    pub scratch: Vec<Vec<u8>>,
}

impl Walk<'_> {
    pub(super) fn run(&mut self, root: BorrowedFd<'_>) -> Result<(), ChangesError> {
        let handle = root.try_clone_to_owned().and_then(|handle| open_directory(handle, b"."));
        let handle =
            handle.map_err(|source| ChangesError::Io { what: "read", path: self.root.to_owned(), source })?;
        // Before the walk: what is ignored has to be known when it is met.
        if let Ok(exclude) = super::files::parent(root, b".git/info/exclude") {
            self.read_rules(&exclude.0, b"exclude", b"");
        }
        let mut waiting = Vec::new();
        self.list(&Rc::new(handle), &[], &mut waiting);
        // The directories around one that waits stay open, and no others.
        while let Some((parent, name, prefix)) = waiting.pop() {
            self.deadline.check(self.root)?;
            match open_directory(&*parent, &name) {
                Ok(directory) => self.list(&Rc::new(directory), &prefix, &mut waiting),
                // Gone since its name was read, or swapped for something else: the next look tells.
                Err(_) => self.unreadable.push(prefix),
            }
        }
        Ok(())
    }

    fn list(&mut self, directory: &Rc<OwnedFd>, prefix: &[u8], waiting: &mut Vec<Waiting>) {
        let Ok(names) = names(directory) else { return self.unreadable.push(prefix.to_vec()) };
        if names.iter().any(|name| name == b".gitignore") {
            self.read_rules(directory, b".gitignore", prefix);
        }
        for name in names {
            let path = join(prefix, &name);
            self.enter(directory, name, path, waiting);
        }
    }

    fn enter(
        &mut self,
        directory: &Rc<OwnedFd>,
        name: Vec<u8>,
        relative: Vec<u8>,
        waiting: &mut Vec<Waiting>,
    ) {
        // What a server has under way is gone when the command has ended; it was never there.
        if is_left_out_of_git(&relative) || (self.keep.is_some() && is_pending(&name)) {
            return;
        }
        let print = match look(&**directory, &name) {
            Ok(Some(print)) => print,
            // Gone since its name was read.
            Ok(None) => return,
            Err(_) => return self.unreadable.push(relative),
        };
        let mut entry = Entry { path: relative, print, digest: None, target: None, is_fresh: false };
        match print.kind {
            Kind::Directory => {
                if self.rules.rules().is_scratch(&entry.path) {
                    return self.scratch.push(entry.path);
                }
                if self.scope.allowed(self.number, &path(&entry.path)) == Allowed::Scratch {
                    return;
                }
                waiting.push((Rc::clone(directory), name, entry.path.clone()));
            }
            Kind::Link => entry.target = target(&**directory, &name).ok(),
            Kind::File => {
                entry.is_fresh = is_fresh(print.changed);
                if let Some((store, generation)) = self.keep {
                    let keep = self.scope.keep(self.number, &path(&entry.path));
                    // Its times won't tell whether it changes in the next moment; its digest will.
                    let keep = if keep == Keep::Nothing && entry.is_fresh { Keep::Digest } else { keep };
                    entry.digest = store.digest_of(directory, &name, print, keep, generation);
                }
            }
            Kind::Special => {}
        }
        self.entries.push(entry);
    }

    fn read_rules(&mut self, directory: &OwnedFd, name: &[u8], prefix: &[u8]) {
        if let Source::Read(rules) = &mut self.rules
            && let Ok((file, _)) = open_file(directory, name)
            && let Ok(Some(text)) = read_at_most(file, LARGEST_RULES)
        {
            rules.add(prefix, &String::from_utf8_lossy(&text));
        }
    }
}

/// Whether a time is so recent that a later change could bear the same.
pub(super) fn is_fresh((seconds, nanoseconds): (i64, i64)) -> bool {
    let since = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let changed = Duration::new(
        u64::try_from(seconds).unwrap_or_default(),
        u32::try_from(nanoseconds).unwrap_or_default(),
    );
    since(SystemTime::now()).saturating_sub(changed) < TICK
}

fn is_left_out_of_git(path: &[u8]) -> bool {
    let mut names = path.split(|&byte| byte == b'/');
    if !names.by_ref().any(|name| name == b".git") {
        return false;
    }
    let inside: Vec<&[u8]> = names.collect();
    let Some((name, above)) = inside.split_last() else { return false };
    GIT_LEFT_OUT.contains(name) && !above.contains(&&b"refs"[..]) && !above.contains(&&b"hooks"[..])
}
