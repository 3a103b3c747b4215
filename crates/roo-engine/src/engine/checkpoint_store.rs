//! Store of the contents that checkpoints go back to: where each request keeps them, when they are durable, and when they
//! expire.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::tool_run::{SavedFile, save};
use roo_durable::{ContentLimits, Contents, WorkspaceDirectory, expire};
use roo_protocol::ids::{Digest, TaskId};
use roo_sandbox::exec::redaction::TextMask;
use roo_trace::record::FileChange;

/// The most that the requests of a workspace keep together, and for how long.
const LIMITS: ContentLimits = ContentLimits { bytes: 1 << 30, age: Duration::from_secs(30 * 24 * 60 * 60) };
/// Number of new contents after which it is looked whether some expire. The first one of a process counts as so many.
const EXPIRE_AFTER: u64 = 1000;

/// Store of contents of files, by request.
pub(super) struct CheckpointStore {
    directory: WorkspaceDirectory,
    /// Contents that no sync has covered yet.
    unsynced: Mutex<Vec<(TaskId, Digest)>>,
    /// New contents since some expired.
    written: AtomicU64,
}

impl CheckpointStore {
    pub(super) fn new(directory: WorkspaceDirectory) -> Self {
        Self { directory, unsynced: Mutex::default(), written: AtomicU64::new(EXPIRE_AFTER) }
    }

    /// The contents that the request of a task keeps.
    pub(super) fn of(&self, task: &TaskId) -> Contents {
        self.directory.request(&task.root()).contents()
    }

    fn unsynced(&self) -> MutexGuard<'_, Vec<(TaskId, Digest)>> {
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Saves changes of files for a checkpoint. Writes the disk.
    pub(super) fn save(&self, task: &TaskId, changes: &[FileChange], mask: &TextMask) -> Vec<SavedFile> {
        let (files, new) = save(changes, &self.of(task), mask);
        let count = new.len() as u64;
        self.unsynced().extend(new.into_iter().map(|digest| (task.root(), digest)));
        if count > 0 && self.written.fetch_add(count, Ordering::Relaxed) + count > EXPIRE_AFTER {
            self.written.store(0, Ordering::Relaxed);
            self.expire();
        }
        files
    }

    /// Makes durable what was saved. To be called before the log that tells of it is.
    pub(super) fn settle(&self) {
        let mut new = mem::take(&mut *self.unsynced());
        new.sort();
        for request in new.chunk_by(|(one, _), (other, _)| one == other) {
            let Some((task, _)) = request.first() else { continue };
            // A content that is lost all the same is missed by its checkpoint alone, which says so.
            if let Err(error) = self.of(task).sync(request.iter().map(|(_, digest)| *digest)) {
                tracing::warn!(%error, "contents of checkpoints could not be synced");
            }
        }
    }

    /// Removes the oldest contents where there are too many.
    fn expire(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let removed = self.directory.requests().map(|ids| {
            let all: Vec<Contents> = ids.iter().map(|id| self.of(id)).collect();
            expire(&all, LIMITS, u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
        });
        match removed {
            Ok(Ok(0)) => {}
            Ok(Ok(count)) => tracing::info!(count, "old contents of checkpoints were removed"),
            Ok(Err(error)) => tracing::warn!(%error, "old contents of checkpoints can't be removed"),
            Err(error) => tracing::warn!(%error, "old contents of checkpoints can't be removed"),
        }
    }
}
