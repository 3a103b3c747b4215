//! Differences made by a command.

use std::path::PathBuf;

use super::Allowed;
use super::record::State;

/// Kind of change of a path.
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
    /// Index of the root.
    pub root: usize,
    /// Relative to the root.
    pub path: PathBuf,
    /// Kind of change.
    pub what: What,
    /// Permission for the change; never [`Allowed::Scratch`].
    pub allowed: Allowed,
    /// State before; none when it did not exist.
    pub before: Option<State>,
    /// State after; none when it is gone.
    pub after: Option<State>,
    /// Previous path, if it is the same file at another path. The deletion there is a change of its own.
    pub renamed_from: Option<PathBuf>,
}

impl Change {
    /// Returns whether the command was not allowed to do this.
    pub fn is_violation(&self) -> bool {
        matches!(self.allowed, Allowed::OutOfScope | Allowed::Protected)
    }
}

/// All that is other than it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// By root and path.
    pub changes: Vec<Change>,
    /// Reason why there may be more.
    pub unknown: Option<String>,
}

impl Changes {
    /// Returns the changes that the command was not allowed to make.
    pub fn violations(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| change.is_violation())
    }

    /// Returns whether all is known and allowed.
    pub fn is_clean(&self) -> bool {
        self.unknown.is_none() && self.violations().next().is_none()
    }
}
