//! What is other than it was.

use std::path::PathBuf;

use super::Allowed;
use super::record::State;

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
    /// Why there may be more.
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
