//! Store of the contents that checkpoints go back to: where each request keeps them, when they are durable, and when they
//! expire.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::tool_run::{BinaryContents, FileDetails, SavedContent, SavedFile, save};
use roo_durable::{ContentLimits, Contents, WorkspaceDirectory, expire};
use roo_protocol::ids::{Digest, TaskId};
use roo_sandbox::exec::redaction::TextMask;
use roo_trace::record::{FileChange, Side};

/// The most that the requests of a workspace keep together, and for how long.
const LIMITS: ContentLimits = ContentLimits { bytes: 1 << 30, age: Duration::from_secs(30 * 24 * 60 * 60) };
/// Number of new contents after which it is looked whether some expire. The first one of a process counts as so many.
const EXPIRE_AFTER: u64 = 1000;

/// Store of contents of files, by request.
pub(super) struct CheckpointStore {
    directory: WorkspaceDirectory,
    /// Contents that no sync has covered yet, by request.
    unsynced: Mutex<HashMap<TaskId, Unsynced>>,
    /// New contents since some expired.
    written: AtomicU64,
}

/// What is to be synced for a request.
#[derive(Default)]
struct Unsynced {
    new: Vec<Digest>,
    /// Held during a sync of what was new before: who finds nothing new has to wait for that all the same.
    turn: Arc<Mutex<()>>,
    /// Number of callers that sync it or wait for their turn.
    settling: usize,
}

impl CheckpointStore {
    pub(super) fn new(directory: WorkspaceDirectory) -> Self {
        Self { directory, unsynced: Mutex::default(), written: AtomicU64::new(EXPIRE_AFTER) }
    }

    /// The contents that the request of a task keeps.
    pub(super) fn of(&self, task: &TaskId) -> Contents {
        self.directory.request(&task.root()).contents()
    }

    fn unsynced(&self) -> MutexGuard<'_, HashMap<TaskId, Unsynced>> {
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Saves changes of files for a checkpoint. Writes the disk.
    pub(super) fn save(
        &self,
        task: &TaskId,
        changes: &[FileChange],
        details: &FileDetails,
        binaries: &BinaryContents,
        mask: &TextMask,
    ) -> Vec<SavedFile> {
        let (files, new) = save(changes, details, binaries, &self.of(task), mask);
        self.add(task, new);
        files
    }

    /// Keeps texts that a checkpoint may need, where they hold no secret. Writes the disk.
    pub(super) fn keep(&self, task: &TaskId, texts: &[String], mask: &TextMask) {
        let contents = self.of(task);
        let mut new = Vec::new();
        for text in texts {
            match SavedContent::keep(Some(text), &contents, mask) {
                Ok((SavedContent::Kept(digest), true)) => new.push(digest),
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "a content can't be kept for a checkpoint"),
            }
        }
        self.add(task, new);
    }

    /// A file as it was with this content; opaque where that is not kept. Reads the disk.
    pub(super) fn side(&self, task: &TaskId, digest: Option<Digest>) -> Side {
        let Some(digest) = digest else { return Side::Absent };
        let bytes = self.of(task).read(digest).ok().flatten();
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        text.map_or(Side::Opaque(digest), Side::text)
    }

    /// Takes note of new contents, and removes old ones where there are too many.
    fn add(&self, task: &TaskId, new: Vec<Digest>) {
        let count = new.len() as u64;
        if count == 0 {
            return;
        }
        self.unsynced().entry(task.root()).or_default().new.extend(new);
        if self.written.fetch_add(count, Ordering::Relaxed) + count > EXPIRE_AFTER {
            self.written.store(0, Ordering::Relaxed);
            self.expire();
        }
    }

    /// Makes durable what was saved for a request. To be called before its log, which tells of it, is made durable; the sooner
    /// before, the less that has to wait. What could not be synced is tried again the next time; until then a loss of power
    /// may cost its checkpoint, which then says so.
    pub(super) fn settle(&self, request: &TaskId) {
        let turn = self.unsynced().get_mut(request).map(|unsynced| {
            unsynced.settling += 1;
            Arc::clone(&unsynced.turn)
        });
        let Some(turn) = turn else { return };
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        let new = self.unsynced().get_mut(request).map(|unsynced| std::mem::take(&mut unsynced.new));
        let new = new.unwrap_or_default();
        let synced = if new.is_empty() { Ok(0) } else { self.of(request).sync(&new) };
        let mut all = self.unsynced();
        match synced {
            Ok(0) => {}
            Ok(missing) => tracing::warn!(%request, missing, "contents of checkpoints are gone already"),
            Err(error) => {
                tracing::warn!(%request, %error, "contents of checkpoints could not be synced");
                all.entry(request.clone()).or_default().new.extend(new);
            }
        }
        let Some(unsynced) = all.get_mut(request) else { return };
        unsynced.settling -= 1;
        if unsynced.new.is_empty() && unsynced.settling == 0 {
            all.remove(request);
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

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc;
    use std::thread;

    use pretty_assertions::assert_eq;

    use super::*;
    use roo_durable::simulated_disk::{Fault, SimulatedDisk};

    /// A store that has removed what is old: that goes with the first content of a process, and to this disk's clock all is.
    fn store(disk: &SimulatedDisk, mask: &TextMask) -> CheckpointStore {
        let directory = WorkspaceDirectory::on(Arc::new(disk.clone()), Path::new("/state"), Path::new("/w"));
        let store = CheckpointStore::new(directory);
        let first = TaskId::new("first");
        store.keep(&first, &["x".to_owned()], mask);
        store.settle(&first);
        store
    }

    #[test]
    fn contents_are_synced_by_request_and_again_after_a_failure() {
        let (disk, mask) = (SimulatedDisk::new(), TextMask::new(false, Default::default));
        let store = store(&disk, &mask);
        let (one, other) = (TaskId::new("one"), TaskId::new("other"));
        store.keep(&one, &["a".to_owned()], &mask);
        store.keep(&other, &["b".to_owned()], &mask);
        let waiting = || {
            let mut waiting: Vec<TaskId> = store.unsynced().keys().cloned().collect();
            waiting.sort();
            waiting
        };
        disk.plan(|_, call| (call == "sync").then_some(Fault::Errno(5)));
        store.settle(&one);
        assert_eq!(waiting(), [one.clone(), other.clone()]);
        disk.heal();
        let before = disk.syncs();
        store.settle(&one);
        // The content and its directory.
        assert_eq!((waiting(), disk.syncs() - before), (vec![other], 2));
    }

    #[test]
    fn who_finds_nothing_new_waits_for_a_sync_that_is_under_way() {
        let (disk, mask) = (SimulatedDisk::new(), TextMask::new(false, Default::default));
        let store = store(&disk, &mask);
        let one = TaskId::new("one");
        store.keep(&one, &["a".to_owned()], &mask);
        let (begun, begins) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let is_synced = Arc::new(AtomicBool::new(false));
        let synced = Arc::clone(&is_synced);
        disk.plan(move |_, call| {
            if call == "sync" {
                let _ = begun.send(());
                // Until the other end is dropped.
                let _ = released.recv();
                synced.store(true, Ordering::SeqCst);
            }
            None
        });
        thread::scope(|scope| {
            scope.spawn(|| store.settle(&one));
            begins.recv().unwrap();
            let late = scope.spawn(|| {
                store.settle(&one);
                is_synced.load(Ordering::SeqCst)
            });
            drop(release);
            assert!(late.join().unwrap());
        });
        assert!(store.unsynced().is_empty());
    }
}
