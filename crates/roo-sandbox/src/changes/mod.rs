//! Detection of a command's changes to files: what was touched while it ran, how it was and how it is, and the way back
//! for what it was not allowed.
//!
//! A [`FileIndex`] knows the names below the roots and keeps itself current by the kernel's notifications, so that a
//! command costs what it changes and not what there is. A [`Recording`] lasts as long as a command and compares when all
//! its processes are dead. What may be changed is decided by whoever asks, by a [`Scope`]; whether a command may run, and
//! what a violation leads to, is decided elsewhere. Only [`Store`] keeps contents, in a private directory.
//!
//! Everything goes by handles from the root and through no link, so that a directory which a process
//! swaps for a link shows nothing, and gets nothing, of what is outside. Whatever is brought back is
//! compared once more in the same step: what somebody else wrote meanwhile is held for the user.
//!
//! A staged command ([`Stage`]) has changed nothing yet when it ends: what it wrote is judged by the same rules
//! ([`StagedChanges`]), and what is allowed is brought to the workspace where nobody else has been since it began
//! ([`CommitOutcome`]).
//!
//! Left out of the index:
//! - git's objects, logs and index, with which no command can make git run something; its references,
//!   configuration and hooks are in it;
//! - scratch directories: those with the usual names of build output and dependencies that git's
//!   ignore rules, as they were before the command, leave out as well (see `scratch.rs`), and what the
//!   [`Scope`] calls so;
//! - what is below a hidden directory;
//! - the size and times of directories, which follow from what they hold.

mod commit;
mod difference;
mod files;
mod layers;
mod record;
mod recording;
mod restore;
mod scratch;
mod staged;
mod staging;
mod store;
mod tree;
mod watcher;

use std::path::{Path, PathBuf};

pub use commit::{CommitOutcome, WithheldChange};
pub use difference::{Change, Changes, What};
pub use files::remove_tree;
pub use layers::LeasedLayers;
pub use record::{Kind, State};
pub use recording::{FileIndex, IndexedRoot, MarkedPlaces, Recording};
pub use restore::{UndoFailure, UndoOutcome, UndoResult};
pub use scratch::may_be_build_output;
pub use staged::{StagedChanges, Withheld};
pub use staging::{Stage, StagingArea};
pub use store::{Limits, Store};
pub use tree::{Mark, Marker};

/// Permission of a command for a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// Change it.
    InScope,
    /// Nothing, and what it did anyway is undone.
    OutOfScope,
    /// Nothing: the name steers agents, git or editors. It need not exist.
    Protected,
    /// Anything, and nobody looks. Of a directory, that goes for all below.
    Scratch,
}

/// Requirement to keep content, so that a change can be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The change is reported, without earlier content except what a supervisor has seen.
    Nothing,
    /// The earlier content can be restored.
    Content,
}

/// The rules that paths are judged by. Paths are relative to a root, which is named by its index.
pub trait Scope {
    /// Returns the permission of a command for a path.
    fn allowed(&self, root: usize, path: &Path) -> Allowed;

    /// The same for what is known to be something, or to be gone, wherever it is.
    fn allowed_as(&self, root: usize, path: &Path, _kind: Option<Kind>) -> Allowed {
        self.allowed(root, path)
    }

    /// The same for a change of something that is in scope, such as where no file may be deleted.
    fn allowed_change(&self, _what: What, _kind: Kind) -> Allowed {
        Allowed::InScope
    }

    /// Returns what is kept of a file before a command runs.
    fn keep(&self, root: usize, path: &Path) -> Keep;

    /// The places, files or directories, below which [`Self::keep`] is asked; an empty path for the whole root.
    fn kept_below(&self, _root: usize) -> Vec<PathBuf> {
        vec![PathBuf::new()]
    }
}

/// Reasons why there is no record or comparison.
#[derive(Debug, thiserror::Error)]
pub enum ChangesError {
    /// More than can be judged.
    #[error("the command wrote more than {most} files below {}, or nested them deeper than {deepest} directories", .root.display())]
    TooMany {
        /// Root that was written.
        root: PathBuf,
        /// The most names.
        most: usize,
        /// The deepest directory.
        deepest: usize,
    },
    /// The system refused.
    #[error("{} can't be {what}: {source}", .path.display())]
    Io {
        /// Attempted operation.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Reason why not.
        source: std::io::Error,
    },
}

#[cfg(test)]
mod tests;
