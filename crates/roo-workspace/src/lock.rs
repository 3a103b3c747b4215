//! The workspace lock: one writer at a time on a root, over all servers of this machine.
//!
//! The lock file also holds the commit that is under way. Whoever takes the lock and finds one knows
//! that its writer has died, and settles it (see [`super::commit`]).

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, OwnedMutexGuard};

use roo_protocol::ids::Digest;

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
#[derive(Debug)]
pub(super) struct WorkspaceLock {
    file: File,
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
        let turn = turn.lock_owned().await;
        let shown = path.display().to_string();
        let io = |source| LockError::Io { path: shown.clone(), source };
        // Out of patience, the thread waits on and gives the lock back as soon as it has it.
        let waiting = tokio::task::spawn_blocking(move || lock_file(&path));
        match tokio::time::timeout(PATIENCE, waiting).await {
            Err(_) => Err(LockError::Busy),
            Ok(Err(ended)) => Err(io(io::Error::other(ended))),
            Ok(Ok(locked)) => Ok(Self { file: locked.map_err(io)?, _turn: turn }),
        }
    }

    /// The commit that a writer left behind when it died.
    pub(super) fn pending(&mut self) -> io::Result<Option<Pending>> {
        let mut text = String::new();
        self.file.rewind()?;
        self.file.read_to_string(&mut text)?;
        // A record that is cut was not followed by anything.
        Ok(serde_json::from_str(&text).ok())
    }

    /// Says which commit is under way. Not synced: it is there for a process that dies.
    pub(super) fn record(&mut self, pending: Option<&Pending>) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        match pending {
            None => Ok(()),
            Some(pending) => self.file.write_all(&serde_json::to_vec(pending)?),
        }
    }
}

fn lock_file(path: &Path) -> io::Result<File> {
    if let Some(directory) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    loop {
        match file.lock() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            locked => return locked.map(|()| file),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_holds_the_lock_too_long_makes_others_give_up() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state/w.lock");
        // Two servers are two files opened for one lock.
        let held = lock_file(&path).unwrap();
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
