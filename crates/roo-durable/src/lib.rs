//! Durable files, all on one [`disk::Disk`]: one append-only log a request with large payloads as blobs beside it and a
//! small summary that serves lists; files that are replaced as a whole; tails that were torn by a crash.
//!
//! This crate knows files, checksums and locks; what an event means is the engine's. Layout below the
//! state directory, everything readable by the user alone:
//!
//! ```text
//! reserve                      room for the time when the disk is full
//! workspaces/<16 hex of the root's digest>/
//!   trust.json                 what the user trusts of it; see `customization`
//!   <file>.json.lock           held while such a file is read, changed and replaced; see `private_file`
//!   <64 hex>.lock, outside.lock  short locks for commits to files, by root; see `workspace`
//!   <64 hex>.changes           a change of several files that is under way; see `workspace`
//!   trace/                     what agents did; see `roo-trace`
//!   requests/<task id>/
//!     log.jsonl                  the events; nothing else is the truth
//!     log.lock                   held by the process that drives the request
//!     log.driven                 held too, and looked at by others
//!     log.jsonl.torn-<offset>    a torn tail, moved away when the log was opened
//!     blobs/<64 hex>             payloads over 32 KiB, by SHA-256
//!     summary.json               rebuildable
//! ```

mod directory;
pub mod disk;
mod line;
mod lines;
mod log;
pub mod private_file;
mod regular_file;
mod replace;
pub mod reserve;
#[cfg(any(test, feature = "simulation"))]
pub mod simulated_disk;
mod torn_tail;

pub use directory::{RequestDirectory, WorkspaceDirectory};
pub use line::Record;
pub use log::{Damage, Loaded, RequestLog, Synced, read_from};
pub use private_file::PrivateFile;
pub use regular_file::{create_named, open_regular, read_named, read_regular};
pub use replace::{replace, replace_checked, replace_unsynced};
pub use torn_tail::keep_torn_tail;

use std::io;
use std::path::{Path, PathBuf};

impl StoreError {
    /// Returns the error of the system, if it was one.
    pub fn system(&self) -> Option<&io::Error> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Reasons why the store could not do something.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file operation failed.
    #[error("can't {doing} {}: {source}", path.display())]
    Io {
        /// Attempted operation.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// Reason why it failed.
        source: io::Error,
    },
    /// Another process drives the request.
    #[error("{} is in use by another roo-lsp process; use that one, or stop it first", path.display())]
    Held {
        /// The request's directory.
        path: PathBuf,
    },
    /// Somebody else wrote to a log, cut it or removed it, against its lock.
    #[error("{} was changed by another program: {}", path.display(),
        length.map_or("it is gone".to_owned(), |length| format!("it has {length} bytes instead of {expected}")))]
    Changed {
        /// The log.
        path: PathBuf,
        /// In bytes; none when it was removed.
        length: Option<u64>,
        /// In bytes.
        expected: u64,
    },
    /// A record doesn't follow the one before it. A defect, not a fault of the disk.
    #[error("the event {found} can't be written where the event {expected} belongs")]
    Sequence {
        /// The number that comes next.
        expected: u64,
        /// The number that came.
        found: u64,
    },
    /// A record is too long to be read again. A defect, not a fault of the disk.
    #[error("an event of {length} bytes is too long to be written")]
    TooLong {
        /// In bytes.
        length: usize,
    },
    /// An event can't be written as JSON. A defect, not a fault of the disk.
    #[error("an event can't be written as JSON: {0}")]
    Encode(#[from] serde_json::Error),
}

impl StoreError {
    fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }
}
