//! The workspace lock: one writer at a time on a root, over all servers of this machine.
//!
//! The lock file also holds the commit that is under way. Whoever takes the lock and finds one knows
//! that its writer has died, and settles it (see [`super::commit`]).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, OwnedMutexGuard};

use roo_durable::disk::{Access, Disk, Held, RealDisk};
use roo_protocol::ids::Digest;

/// The longest record of a commit, in bytes.
const LONGEST: u64 = 64 * 1024;

/// Time for which another server may hold the lock. A commit takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reasons why the workspace lock can't be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds it for too long.
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

/// The right to write to a root. Dropping it gives it up.
pub(super) struct WorkspaceLock {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    _held: Held,
    /// Within this process, so that waiting takes no thread.
    _turn: OwnedMutexGuard<()>,
}

/// A commit that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pending {
    /// The file to be written.
    pub target: PathBuf,
    /// The name beside it that its new content has, or its old one once they are exchanged.
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

    /// As [`WorkspaceLock::acquire`], on this disk.
    pub(super) async fn acquire_on(
        disk: Arc<dyn Disk>,
        turn: Arc<Mutex<()>>,
        path: PathBuf,
    ) -> Result<Self, LockError> {
        let turn = turn.lock_owned().await;
        let shown = path.display().to_string();
        let io = |source| LockError::Io { path: shown.clone(), source };
        // Out of patience, the thread waits on and gives the lock back as soon as it has it.
        let (own, place) = (Arc::clone(&disk), path.clone());
        let waiting = tokio::task::spawn_blocking(move || lock_file(disk.as_ref(), &path));
        match tokio::time::timeout(PATIENCE, waiting).await {
            Err(_) => Err(LockError::Busy),
            Ok(Err(ended)) => Err(io(io::Error::other(ended))),
            Ok(Ok(locked)) => Ok(Self { disk: own, path: place, _held: locked.map_err(io)?, _turn: turn }),
        }
    }

    /// The commit that a writer left behind when it died.
    pub(super) fn pending(&mut self) -> io::Result<Option<Pending>> {
        let text = self.disk.read_beginning(&self.path, LONGEST)?.unwrap_or_default();
        // A record that is cut was not followed by anything.
        Ok(serde_json::from_slice(&text).ok())
    }

    /// Says which commit is under way. Not synced: it is there for a process that dies.
    pub(super) fn record(&mut self, pending: Option<&Pending>) -> io::Result<()> {
        let text = pending.map(serde_json::to_vec).transpose()?.unwrap_or_default();
        self.disk.write(&self.path, &mut text.as_slice(), Access::Private)
    }
}

fn lock_file(disk: &dyn Disk, path: &Path) -> io::Result<Held> {
    if let Some(directory) = path.parent() {
        disk.create_directories_durably(directory)?;
    }
    disk.lock(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_holds_the_lock_too_long_makes_others_give_up() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state/w.lock");
        // Two servers are two files opened for one lock.
        let held = lock_file(&RealDisk, &path).unwrap();
        let waiting = tokio::spawn(WorkspaceLock::acquire(Arc::default(), path.clone()));
        tokio::task::yield_now().await;
        // By hand, for the clock stands still while a thread is blocked.
        tokio::time::advance(PATIENCE).await;
        assert!(matches!(waiting.await.unwrap(), Err(LockError::Busy)));
        drop(held);
        WorkspaceLock::acquire(Arc::default(), path).await.unwrap();
    }

    #[tokio::test]
    async fn a_record_is_found_by_the_next_holder() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("w.lock");
        let pending = Pending {
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
