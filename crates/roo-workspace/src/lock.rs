//! The workspace lock: one writer at a time on a root, over all servers of this machine.
//!
//! The lock file also records the commit in progress. A process that takes the lock and finds such a record knows that
//! its writer ended, and resolves it (see [`super::commit`]).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, OwnedMutexGuard};

use roo_durable::disk::{Access, Disk, HeldLock, RealDisk};
use roo_protocol::ids::Digest;

/// The longest record of a commit, in bytes.
const MAX_RECORD_BYTES: u64 = 64 * 1024;

/// Time for which another server may hold the lock. A commit takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// The workspace lock could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process held it for too long.
    #[error("another process has been writing to this workspace for {} seconds: try again", PATIENCE.as_secs())]
    Busy,
    /// The lock file can't be used.
    #[error("the lock file {path} can't be used: {source}")]
    Io {
        /// The lock file.
        path: String,
        /// Reason.
        source: io::Error,
    },
}

/// The right to write to a root. Dropping it releases the lock.
pub(super) struct WorkspaceLock {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    _held: HeldLock,
    /// Lock within this process, so that waiting takes no thread.
    _turn: OwnedMutexGuard<()>,
}

/// A commit in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PendingCommit {
    /// The file to be written.
    pub target: PathBuf,
    /// Name in the same directory of its new content, or of its old one after the exchange.
    pub temporary: String,
    /// The digest of the new content.
    pub after: Digest,
    /// The digest of the old content, once new and old may be exchanged.
    pub exchanging: Option<Digest>,
}

impl WorkspaceLock {
    /// Waits for the lock.
    pub(super) async fn acquire(turn: Arc<Mutex<()>>, path: PathBuf) -> Result<Self, LockError> {
        Self::acquire_on(Arc::new(RealDisk), turn, path).await
    }

    /// Waits for the lock on this disk.
    pub(super) async fn acquire_on(
        disk: Arc<dyn Disk>,
        turn: Arc<Mutex<()>>,
        path: PathBuf,
    ) -> Result<Self, LockError> {
        let turn = turn.lock_owned().await;
        let shown = path.display().to_string();
        let io = |source| LockError::Io { path: shown.clone(), source };
        // After the timeout the thread keeps waiting, and releases the lock as soon as it has it.
        let (own, place) = (Arc::clone(&disk), path.clone());
        let waiting = roo_durable::spawn_blocking(move || lock_file(disk.as_ref(), &path));
        match tokio::time::timeout(PATIENCE, waiting).await {
            Err(_) => Err(LockError::Busy),
            Ok(Err(ended)) => Err(io(io::Error::other(ended))),
            Ok(Ok(locked)) => Ok(Self { disk: own, path: place, _held: locked.map_err(io)?, _turn: turn }),
        }
    }

    /// The commit of a process that ended.
    pub(super) fn pending(&mut self) -> io::Result<Option<PendingCommit>> {
        let text = self.disk.read_beginning(&self.path, MAX_RECORD_BYTES)?.unwrap_or_default();
        // Nothing was done after a record that is incomplete.
        Ok(serde_json::from_slice(&text).ok())
    }

    /// Records the commit in progress. Not synced: it only has to survive the end of the process.
    pub(super) fn record(&mut self, pending: Option<&PendingCommit>) -> io::Result<()> {
        let text = pending.map(serde_json::to_vec).transpose()?.unwrap_or_default();
        self.disk.write(&self.path, &mut text.as_slice(), Access::Private)
    }
}

fn lock_file(disk: &dyn Disk, path: &Path) -> io::Result<HeldLock> {
    if let Some(directory) = path.parent() {
        disk.create_directories_durably(directory)?;
    }
    disk.lock(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waiting_for_a_lock_that_is_held_too_long_fails() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state/w.lock");
        // Two servers are two files opened for one lock.
        let held = lock_file(&RealDisk, &path).unwrap();
        let waiting = tokio::spawn(WorkspaceLock::acquire(Arc::default(), path.clone()));
        tokio::task::yield_now().await;
        // By hand, because the paused clock doesn't advance while a thread is blocked.
        tokio::time::advance(PATIENCE).await;
        assert!(matches!(waiting.await.unwrap(), Err(LockError::Busy)));
        drop(held);
        WorkspaceLock::acquire(Arc::default(), path).await.unwrap();
    }

    #[tokio::test]
    async fn a_record_is_found_by_the_next_holder() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("w.lock");
        let pending = PendingCommit {
            target: "/w/a".into(),
            temporary: "t".to_owned(),
            after: Digest::of("a"),
            exchanging: None,
        };
        let mut lock = WorkspaceLock::acquire(Arc::default(), path.clone()).await.unwrap();
        assert_eq!(lock.pending().unwrap(), None);
        lock.record(Some(&pending)).unwrap();
        drop(lock);
        let mut lock = WorkspaceLock::acquire(Arc::default(), path).await.unwrap();
        assert_eq!(lock.pending().unwrap(), Some(pending));
        lock.record(None).unwrap();
        assert_eq!(lock.pending().unwrap(), None);
    }
}
