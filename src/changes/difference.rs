//! What is other than it was.

use std::collections::HashMap;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::time::Duration;

use super::files::{open_file, parent, path, read_at_most};
use super::manifest::{Deadline, Entry, Fingerprint, Kind, Root, Snapshot, Source, State, Walk};
use super::{Allowed, Scope};
use crate::protocol::ids::Digest;

/// The largest file that is read to compare it, in bytes.
const LARGEST: u64 = 64 << 20;

/// What happened to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It was not there.
    Created,
    /// It has another content, another kind or other permissions.
    Modified,
    /// It is not there any more.
    Deleted,
}

/// One path that is other than it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which root.
    pub root: usize,
    /// Relative to the root.
    pub path: PathBuf,
    /// What happened.
    pub what: What,
    /// Whether that was allowed; never [`Allowed::Scratch`].
    pub allowed: Allowed,
    /// How it was; none when it was not there.
    pub before: Option<State>,
    /// How it is; none when it is gone.
    pub after: Option<State>,
    /// Where it was before, if it is the same file at another place. The deletion there is a change of
    /// its own.
    pub renamed_from: Option<PathBuf>,
}

impl Change {
    /// Whether the command was not allowed to do this.
    pub fn is_violation(&self) -> bool {
        matches!(self.allowed, Allowed::OutOfScope | Allowed::Protected)
    }
}

/// All that is other than it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// By root and path.
    pub changes: Vec<Change>,
    /// Why there may be more, which has to be taken for a violation.
    pub unknown: Option<String>,
}

impl Changes {
    /// What the command was not allowed to do.
    pub fn violations(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| change.is_violation())
    }

    /// Whether all is known and allowed.
    pub fn is_clean(&self) -> bool {
        self.unknown.is_none() && self.violations().next().is_none()
    }
}

impl Snapshot {
    /// Compares the record with what is there now. Reads the disk, so not for a thread of the runtime.
    pub fn diff(&self, scope: &dyn Scope, budget: Duration) -> Changes {
        let deadline = Deadline::new(budget);
        let mut found = Changes::default();
        for (number, root) in self.roots.iter().enumerate() {
            if let Err(error) = compare(number, root, scope, &deadline, &mut found) {
                found.unknown.get_or_insert(error.to_string());
            }
        }
        found
    }
}

fn compare(
    number: usize,
    root: &Root,
    scope: &dyn Scope,
    deadline: &Deadline,
    found: &mut Changes,
) -> Result<(), super::ChangesError> {
    let mut walk = Walk {
        number,
        root: &root.path,
        scope,
        deadline,
        rules: Source::Known(&root.rules),
        keep: None,
        entries: Vec::with_capacity(root.entries.len()),
        unreadable: Vec::new(),
        scratch: Vec::new(),
    };
    let walked = walk.run(root.handle.as_fd());
    let Walk { entries: mut now, unreadable, .. } = walk;
    // Half a walk would make a deletion of everything it did not see.
    walked?;
    now.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    if let Some(directory) = unreadable.first() {
        let shown = root.path.join(path(directory));
        found.unknown.get_or_insert(format!("{} can't be read", shown.display()));
    }

    let mut pairs = Vec::new();
    let (mut before, mut after) = (root.entries.iter().peekable(), now.iter().peekable());
    loop {
        let order = match (before.peek(), after.peek()) {
            (None, None) => break,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(one), Some(other)) => one.path.cmp(&other.path),
        };
        match order {
            std::cmp::Ordering::Less => pairs.push((before.next(), None)),
            std::cmp::Ordering::Greater => pairs.push((None, after.next())),
            std::cmp::Ordering::Equal => {
                let (one, other) = (before.next(), after.next());
                if one.zip(other).is_some_and(|(one, other)| may_differ(one, other)) {
                    pairs.push((one, other));
                }
            }
        }
    }

    let gone: HashMap<(u64, u64), &Entry> = pairs
        .iter()
        .filter_map(|pair| match pair {
            (Some(one), None) if one.print.kind == Kind::File => {
                Some(((one.print.device, one.print.inode), *one))
            }
            _ => None,
        })
        .collect();
    for (one, other) in pairs {
        deadline.check(&root.path)?;
        let Some(bytes) = one.or(other).map(|entry| &entry.path) else { continue };
        let relative = path(bytes);
        let allowed = scope.allowed(number, &relative);
        if allowed == Allowed::Scratch {
            continue;
        }
        let mut state = other.map(Entry::state);
        if let Some(state) = state.as_mut().filter(|state| state.kind == Kind::File) {
            state.digest = digest(root, bytes, &state.print);
        }
        let what = match (one, &state) {
            (Some(one), Some(now)) if is_same(one, now, other) => continue,
            (Some(_), Some(_)) => What::Modified,
            (None, _) => What::Created,
            (_, None) => What::Deleted,
        };
        let from =
            other.filter(|_| what == What::Created && other.is_some_and(|e| e.print.kind == Kind::File));
        let from = from.and_then(|entry| gone.get(&(entry.print.device, entry.print.inode)));
        found.changes.push(Change {
            root: number,
            path: relative,
            what,
            allowed,
            before: one.map(Entry::state),
            after: state,
            renamed_from: from.map(|entry| path(&entry.path)),
        });
    }
    Ok(())
}

/// Whether a look at the content is needed.
fn may_differ(one: &Entry, other: &Entry) -> bool {
    one.print != other.print || one.target != other.target || one.is_fresh
}

/// Whether it is the same after all: touched, or written anew as it was.
fn is_same(one: &Entry, now: &State, other: Option<&Entry>) -> bool {
    let (before, after) = (one.print, now.print);
    if (before.kind, before.mode) != (after.kind, after.mode) {
        return false;
    }
    match before.kind {
        Kind::Directory => true,
        Kind::Link => other.is_some_and(|other| one.target.is_some() && one.target == other.target),
        Kind::Special => before == after,
        Kind::File => match (one.digest, now.digest) {
            (Some(one), Some(now)) => one == now,
            _ => before == after,
        },
    }
}

/// The digest of a file, if it still is what was found.
pub(super) fn digest(root: &Root, bytes: &[u8], print: &Fingerprint) -> Option<Digest> {
    if print.size > LARGEST {
        return None;
    }
    let (directory, name) = parent(root.handle.as_fd(), bytes).ok()?;
    let (file, opened) = open_file(&directory, name).ok()?;
    if opened != *print {
        return None;
    }
    read_at_most(file, LARGEST).ok()?.map(Digest::of)
}
