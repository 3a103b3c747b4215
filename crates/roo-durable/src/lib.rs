//! Durable files, all on one [`disk::Disk`]: an append-only log for each request, with large payloads as blobs beside
//! it and a small summary for lists; files that are replaced atomically; recovery of tails torn by a crash; users'
//! files, which may be read while they are being saved; and threads for what blocks on all of that.
//!
//! This crate knows files, checksums and locks; what an event means is up to the engine. Layout below the
//! state directory, everything readable by the user alone:
//!
//! ```text
//! reserve                      disk space that is released when the disk is full
//! workspaces/forks.lock        held while a request is forked or removed; see `fork`
//! workspaces/<16 hex of the root's digest>/
//!   root                       the root itself, and which directory that was; see `adoption`
//!   trust.json                 what the user trusts of it; see `customization`
//!   <file>.json.lock           held while such a file is read and replaced; see `private_file`
//!   <64 hex>.lock, outside.lock  short locks for commits to files, by root; see `workspace`
//!   <64 hex>.changes           a multi-file edit in progress; see `workspace`
//!   trace/                     what agents did; see `roo-trace`
//!   history                    what the logs came to, for lists; rebuildable
//!   requests.lock              of which the process that drives a request locks one byte
//!   requests/<task id>/
//!     log.jsonl                  the events, the only source of truth
//!     log.jsonl.torn-<offset>    a torn tail, moved away when the log was opened
//!     blobs/<64 hex>             payloads over 32 KiB, by SHA-256
//!     contents/<64 hex>          files that the request changed, by SHA-256; see `contents`
//!     base.json                  of a fork: the parts of other logs that its own goes on from
//!     forks/<workspace>.<task id>  a fork that goes on from this log
//!     summary.json               rebuildable
//! ```

#![warn(unreachable_pub)]

mod adoption;
mod blocking;
mod byte_locks;
mod contents;
mod directory;
mod directory_identity;
pub mod disk;
mod fingerprint;
mod fork;
mod history;
mod line;
mod lines;
mod lock_file;
mod log;
pub mod private_file;
mod regular_file;
mod replace;
mod replica;
mod request_locks;
pub mod reserve;
#[cfg(any(test, feature = "simulation"))]
pub mod simulated_disk;
mod temporary_name;
mod torn_tail;
mod watched_file;
mod whole;

pub use adoption::{AdoptedTrace, Adoption, VanishedFolder};
#[cfg(feature = "simulation")]
pub use blocking::simulation::OneThread;
pub use blocking::spawn_blocking;
pub use contents::{ContentLimits, Contents, MAX_CONTENT_BYTES, expire};
pub use directory::{RequestDirectory, WorkspaceDirectory};
pub use directory_identity::DirectoryIdentity;
pub use fingerprint::Fingerprint;
pub use history::History;
pub use line::Record;
pub use log::{Damage, Loaded, RequestLog, Synced, read_from, read_while};
pub use private_file::PrivateFile;
pub use regular_file::{create_named, open_regular, read_named, read_regular};
pub use replace::{replace, replace_checked, replace_unsynced};
pub use replica::LogPart;
pub use temporary_name::{is_temporary_name, temporary_name};
pub use torn_tail::keep_torn_tail;
pub use watched_file::{SAVING, WatchedFile};

use std::io;
use std::path::{Path, PathBuf};

use roo_protocol::ids::TaskId;

fn names_of(requests: &[TaskId]) -> String {
    requests.iter().map(TaskId::as_str).collect::<Vec<_>>().join(", ")
}

impl StoreError {
    /// Returns the error of the system, if it was one.
    pub fn system(&self) -> Option<&io::Error> {
        match self {
            Self::Io { source, .. } | Self::TooManyOpenFiles { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// An operation on a request's files failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file operation failed.
    #[error("can't {doing} {}: {source}", path.display())]
    Io {
        /// Attempted operation.
        doing: &'static str,
        /// File or directory.
        path: PathBuf,
        /// Reason why it failed.
        source: io::Error,
    },
    /// This process, or the whole system, has reached its limit on open files.
    #[error("can't {doing} {}: too many open files; raise the limit (`ulimit -n`) and start roo-lsp again", path.display())]
    TooManyOpenFiles {
        /// Attempted operation.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another process runs the request.
    #[error("{} is in use by another roo-lsp process; use that one, or stop it first", path.display())]
    Held {
        /// The request's directory.
        path: PathBuf,
    },
    /// A request's log is the beginning of others.
    #[error("it can't be removed before {}, whose log begins with its events", names_of(forks))]
    Forked {
        /// The requests.
        forks: Vec<TaskId>,
    },
    /// A log has no event of that number.
    #[error("{} has no event {seq}", path.display())]
    NoSuchEvent {
        /// The log.
        path: PathBuf,
        /// The number.
        seq: u64,
    },
    /// Another program wrote to a log, truncated it or removed it, despite its lock.
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
        /// The next number.
        expected: u64,
        /// The record's number.
        found: u64,
    },
    /// A record is longer than a reader accepts. A defect, not a fault of the disk.
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
        move |source| match source.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
            Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) => {
                Self::TooManyOpenFiles { doing, path, source }
            }
            _ => Self::Io { doing, path, source },
        }
    }
}
