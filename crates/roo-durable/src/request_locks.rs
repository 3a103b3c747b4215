//! The locks by which one process at a time drives a request: one file for all requests of a workspace, in which each
//! request has a byte. So a process that drives thousands of requests holds one descriptor for their locks.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::byte_locks::ByteLocks;
use super::disk::Disk;
use roo_protocol::ids::Digest;

/// The locks of the requests of a workspace.
#[derive(Debug)]
pub(super) struct RequestLocks {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The file, while a lock is held.
    file: Option<Arc<dyn ByteLocks>>,
    /// The bytes that are locked by way of this value: to the system one holder is as good as another one of the same
    /// open file.
    held: HashSet<u64>,
}

/// The lock of one request, held until it is dropped. The system drops it with the process, so it is never stale.
#[derive(Debug)]
pub(super) struct RequestLock {
    locks: Arc<RequestLocks>,
    file: Arc<dyn ByteLocks>,
    byte: u64,
}

impl RequestLocks {
    pub(super) fn new(disk: Arc<dyn Disk>, path: PathBuf) -> Self {
        Self { disk, path, state: Mutex::default() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change under the lock is whole before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks a request. None when another process holds it, or another value of this one.
    pub(super) fn try_lock(self: &Arc<Self>, request: &str) -> io::Result<Option<RequestLock>> {
        let byte = byte_of(request);
        let mut state = self.state();
        if state.held.contains(&byte) {
            return Ok(None);
        }
        loop {
            let file = match state.file.take().filter(|file| file.is_at(&self.path)) {
                Some(file) => file,
                None => self.disk.open_byte_locks(&self.path)?,
            };
            let is_locked = file.try_lock(byte)?;
            // Somebody may have removed the file: then others lock another one.
            if !file.is_at(&self.path) {
                if is_locked {
                    file.unlock(byte);
                }
                continue;
            }
            if !state.held.is_empty() || is_locked {
                state.file = Some(Arc::clone(&file));
            }
            if !is_locked {
                return Ok(None);
            }
            state.held.insert(byte);
            return Ok(Some(RequestLock { locks: Arc::clone(self), file, byte }));
        }
    }

    /// Returns whether somebody holds the lock of a request.
    pub(super) fn is_locked(&self, request: &str) -> bool {
        let byte = byte_of(request);
        let file = {
            let state = self.state();
            if state.held.contains(&byte) {
                return true;
            }
            state.file.clone()
        };
        let is_locked = match file.filter(|file| file.is_at(&self.path)) {
            Some(file) => file.is_locked(byte),
            None => self.disk.is_byte_locked(&self.path, byte),
        };
        is_locked.unwrap_or_default()
    }
}

impl Drop for RequestLock {
    fn drop(&mut self) {
        let mut state = self.locks.state();
        self.file.unlock(self.byte);
        state.held.remove(&self.byte);
        if state.held.is_empty() {
            state.file = None;
        }
    }
}

/// The byte of a request: two of a workspace's requests have the same one as rarely as two digests of 62 bits are equal,
/// and then one can't be driven while the other one is.
fn byte_of(request: &str) -> u64 {
    let hex = Digest::of(request.as_bytes()).hex();
    // A digest is hexadecimal.
    u64::from_str_radix(&hex[..16], 16).unwrap_or_default() >> 2
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::disk::RealDisk;
    use crate::simulated_disk::SimulatedDisk;

    fn locks(disk: &Arc<dyn Disk>, place: &Path) -> Arc<RequestLocks> {
        Arc::new(RequestLocks::new(Arc::clone(disk), place.join("requests.lock")))
    }

    /// Does the same on both disks.
    fn on_both(check: impl Fn(&Arc<dyn Disk>, &Path)) {
        let place = tempfile::tempdir().unwrap();
        let simulated = SimulatedDisk::new();
        simulated.create_directories(place.path()).unwrap();
        let disks: [Arc<dyn Disk>; 2] = [Arc::new(RealDisk), Arc::new(simulated)];
        disks.iter().for_each(|disk| check(disk, place.path()));
    }

    #[test]
    fn a_request_is_locked_once_whoever_asks() {
        on_both(|disk, place| {
            let (ours, theirs) = (locks(disk, place), locks(disk, place));
            assert!(!ours.is_locked("a") && !theirs.is_locked("a"));
            let held = ours.try_lock("a").unwrap().unwrap();
            let other = theirs.try_lock("b").unwrap().unwrap();
            for locks in [&ours, &theirs] {
                assert!(locks.try_lock("a").unwrap().is_none());
                assert!(locks.try_lock("b").unwrap().is_none());
                assert!(locks.is_locked("a") && locks.is_locked("b") && !locks.is_locked("c"));
            }
            drop(held);
            assert!(!ours.is_locked("a") && !theirs.is_locked("a"));
            assert!(ours.is_locked("b"), "one lock is given back and no other one");
            let again = theirs.try_lock("a").unwrap().unwrap();
            drop(other);
            assert!(ours.is_locked("a"));
            drop(again);
            assert!(!ours.is_locked("a"));
        });
    }

    #[test]
    fn a_look_gives_no_lock_back() {
        let place = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let (ours, theirs) = (locks(&disk, place.path()), locks(&disk, place.path()));
        let _held = ours.try_lock("a").unwrap().unwrap();
        // Locks of a process would go with the first descriptor of the file that is closed.
        assert!(ours.is_locked("a") && !ours.is_locked("b"));
        drop(fs::File::open(ours.path()).unwrap());
        assert!(theirs.is_locked("a"));
        assert!(theirs.try_lock("a").unwrap().is_none());
    }

    #[test]
    fn many_locks_hold_one_descriptor_and_none_hold_none() {
        let place = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let locks = locks(&disk, place.path());
        let open = || {
            let open = fs::read_dir("/proc/self/fd").unwrap();
            let targets = open.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
            targets.filter(|target| target.starts_with(place.path())).count()
        };
        let held: Vec<RequestLock> =
            (0..100).map(|number| locks.try_lock(&number.to_string()).unwrap().unwrap()).collect();
        assert_eq!(open(), 1);
        drop(held);
        assert_eq!(open(), 0);
    }

    #[test]
    fn a_lock_whose_file_was_removed_is_taken_on_the_new_one() {
        let place = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let (ours, theirs) = (locks(&disk, place.path()), locks(&disk, place.path()));
        let old = ours.try_lock("a").unwrap().unwrap();
        fs::remove_file(ours.path()).unwrap();
        let new = ours.try_lock("b").unwrap().unwrap();
        assert!(theirs.is_locked("b"));
        assert!(ours.try_lock("a").unwrap().is_none(), "this process knows what it holds");
        drop((old, new));
        assert!(!theirs.is_locked("b"));
    }
}
