//! Directories of checkouts. Each has a lock that ends with its worker, so the next one removes what a killed worker has left.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use roo_durable::WorkspaceDirectory;
use roo_protocol::ids::TaskId;
use roo_sandbox::changes::remove_tree;
use rustix::fs::{FlockOperation, flock};
use uuid::Uuid;

/// Ending of the names of locks.
const LOCK: &str = "lock";

/// Where checkouts are.
pub(super) struct Places {
    /// For work trees.
    directory: PathBuf,
    /// The user's state directory.
    state: PathBuf,
}

/// The place of one checkout. It is removed when this is dropped.
pub(super) struct Place {
    /// The work tree, which isn't there yet.
    pub(super) folder: PathBuf,
    /// Private directory beside it.
    pub(super) private: PathBuf,
    state: PathBuf,
    lock: PathBuf,
    /// Held as long as the place is in use.
    _held: File,
}

impl Places {
    /// Opens the directory, which is made if need be, and removes what earlier workers have left there.
    ///
    /// # Errors
    /// When it can't be made or read.
    pub(super) fn open(directory: &Path, state: &Path) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let places = Self { directory: directory.canonicalize()?, state: state.to_owned() };
        for entry in fs::read_dir(&places.directory)? {
            let lock = entry?.path();
            if lock.extension().is_some_and(|extension| extension == LOCK)
                && let Some(name) = lock.file_stem().and_then(|name| name.to_str())
            {
                // One that is held is another worker's; any other is removed by being dropped.
                drop(places.held(name));
            }
        }
        Ok(places)
    }

    /// A new place for a request.
    ///
    /// # Errors
    /// When it can't be made.
    pub(super) fn take(&self, request: &TaskId) -> io::Result<Place> {
        let place = self.held(&format!("{request}-{:.8}", Uuid::new_v4().simple().to_string()))?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&place.private)?;
        Ok(place)
    }

    /// The place of a name, unless another process holds it.
    fn held(&self, name: &str) -> io::Result<Place> {
        let lock = self.directory.join(format!("{name}.{LOCK}"));
        let held = File::options().create(true).truncate(false).write(true).open(&lock)?;
        flock(&held, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Place {
            folder: self.directory.join(name),
            private: self.state.join("checkouts").join(name),
            state: self.state.clone(),
            lock,
            _held: held,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let own = WorkspaceDirectory::new(&self.state, &self.folder);
        let mut is_gone = true;
        for directory in [&self.folder, &self.private, own.path()] {
            match remove_tree(directory) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!("{} was not removed: {error}", directory.display());
                    is_gone = false;
                }
                _ => {}
            }
        }
        // By its lock, the next worker finds what is left.
        if is_gone {
            let _ = fs::remove_file(&self.lock);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_place_is_removed_with_its_worker_or_by_the_next_one() {
        let directory = tempfile::tempdir().unwrap();
        let (checkouts, state) = (directory.path().join("checkouts"), directory.path().join("state"));
        let places = Places::open(&checkouts, &state).unwrap();
        let (kept, killed) = (TaskId::new("kept"), TaskId::new("killed"));
        let (kept, killed) = (places.take(&kept).unwrap(), places.take(&killed).unwrap());
        for place in [&kept, &killed] {
            fs::create_dir(&place.folder).unwrap();
        }
        let left = killed.folder.clone();
        // As Go leaves its modules.
        fs::create_dir(left.join("closed")).unwrap();
        fs::write(left.join("closed/file"), "x").unwrap();
        fs::set_permissions(left.join("closed"), fs::Permissions::from_mode(0o500)).unwrap();
        // As when its process is killed: the lock ends, the files stay.
        flock(&killed._held, FlockOperation::Unlock).unwrap();
        std::mem::forget(killed);
        Places::open(&checkouts, &state).unwrap();
        assert!(!left.exists());
        assert!(kept.folder.exists(), "its worker lives");
        let folder = kept.folder.clone();
        drop(kept);
        assert!(!folder.exists());
        assert_eq!(fs::read_dir(&checkouts).unwrap().count(), 0);
    }
}
