//! Directories for a staged command's writes: private directories that live as long as the command and what is made of
//! its changes. Mounting them is [`crate::exec::sandbox`]'s.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::files::remove_tree;
use super::store::Store;
use crate::exec::sandbox::Staged;
use roo_durable::disk::{Disk as _, HeldLock, RealDisk};

/// The name of a lock file.
const LOCK: &str = "lock";

/// A private directory for all that is staged in a workspace. Several servers may share it.
#[derive(Debug)]
pub struct StagingArea {
    directory: PathBuf,
}

/// The private directories of one command, which serve once; removed with it.
pub struct Stage {
    directory: PathBuf,
    layers: Vec<Staged>,
    /// Tells other servers that somebody lives here.
    _lock: Option<HeldLock>,
}

impl StagingArea {
    /// Opens a directory, which is made for the user alone, and removes what servers left there that were
    /// killed. It must be outside of every root.
    ///
    /// # Errors
    /// When it can't be made or read.
    pub fn open(directory: impl Into<PathBuf>) -> io::Result<Self> {
        let directory = directory.into();
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let area = Self { directory: directory.canonicalize()? };
        for (left, _lock) in area.abandoned()? {
            if let Err(error) = remove_tree(&left) {
                // It is in nobody's way.
                tracing::warn!(%error, directory = %left.display(), "staged files can't be removed");
            }
        }
        Ok(area)
    }

    /// Makes the directories of a command over some roots.
    ///
    /// # Errors
    /// When they can't be made, or lie in a root: an overlay over itself is undefined.
    pub fn begin(&self, roots: &[PathBuf]) -> io::Result<Stage> {
        for root in roots {
            if self.directory.starts_with(root.canonicalize()?) {
                let (own, root) = (self.directory.display(), root.display());
                return Err(io::Error::other(format!(
                    "{own}, which would hold the staged files, is inside {root} itself"
                )));
            }
        }
        let directory = self.directory.join(uuid::Uuid::now_v7().to_string());
        let lock = {
            let _area = self.lock()?;
            private(&directory)?;
            RealDisk.lock(&directory.join(LOCK))?
        };
        let mut stage = Stage { directory, layers: Vec::new(), _lock: Some(lock) };
        for (number, root) in roots.iter().enumerate() {
            let own = stage.directory.join(number.to_string());
            let layer = Staged { root: root.clone(), upper: own.join("upper"), work: own.join("work") };
            private(&own)?;
            private(&layer.work)?;
            private(&layer.upper)?;
            // What is seen of the root itself is the upper directory's.
            let mode = fs::metadata(root)?.permissions().mode() & 0o7777;
            fs::set_permissions(&layer.upper, fs::Permissions::from_mode(mode | 0o700))?;
            stage.layers.push(layer);
        }
        Ok(stage)
    }

    /// Keeps other servers from looking while a directory has no lock of its own yet.
    fn lock(&self) -> io::Result<HeldLock> {
        RealDisk.lock(&self.directory.join(LOCK))
    }

    /// Returns directories without a living owner, locked.
    fn abandoned(&self) -> io::Result<Vec<(PathBuf, Option<HeldLock>)>> {
        let _area = self.lock()?;
        let mut left = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            if path.file_name().is_some_and(|name| name == LOCK) {
                continue;
            }
            // One that was killed before its lock was made gets one here.
            match RealDisk.try_lock(&path.join(LOCK)) {
                Ok(Some(lock)) => left.push((path, Some(lock))),
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => left.push((path, None)),
                // Somebody may live in it.
                Err(error) => {
                    tracing::warn!(%error, directory = %path.display(), "staged files can't be looked at");
                }
            }
        }
        Ok(left)
    }
}

impl Stage {
    /// The directories, by root.
    pub fn layers(&self) -> &[Staged] {
        &self.layers
    }

    /// Keeps all that was written for the user, as the kernel left it, where it is more than can be judged.
    ///
    /// # Errors
    /// When it can't be moved.
    pub fn keep(&self, store: &Store) -> io::Result<PathBuf> {
        let place = store.place_for(Path::new("command"));
        private(&place)?;
        for (number, layer) in self.layers.iter().enumerate() {
            fs::rename(&layer.upper, place.join(number.to_string()))?;
        }
        Ok(place)
    }
}

impl Stage {
    /// The lock goes last, and while no other server looks: what has none is taken for what a dead one left.
    fn remove(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            if entry.file_name() != LOCK {
                remove_tree(&entry.path())?;
            }
        }
        let area = StagingArea { directory: self.directory.parent().unwrap_or(&self.directory).to_owned() };
        let _area = area.lock()?;
        remove_tree(&self.directory)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            // The next start tries again.
            tracing::warn!(%error, directory = %self.directory.display(), "staged files can't be removed");
        }
    }
}

fn private(directory: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_dead_server_left_is_removed_and_what_lives_is_not() {
        let place = tempfile::tempdir().unwrap();
        let roots = [place.path().join("w")];
        fs::create_dir(&roots[0]).unwrap();
        let area = StagingArea::open(place.path().join("staged")).unwrap();
        let living = area.begin(&roots).unwrap();
        let mut dead = area.begin(&roots).unwrap();
        let left = dead.directory.clone();
        // As the kernel unlocks what a killed process locked.
        dead._lock = None;
        std::mem::forget(dead);
        fs::create_dir(place.path().join("staged/unlocked")).unwrap();
        fs::write(living.layers()[0].upper.join("a"), "a").unwrap();

        StagingArea::open(place.path().join("staged")).unwrap();
        assert!(!left.exists() && !place.path().join("staged/unlocked").exists());
        assert!(living.layers()[0].upper.join("a").exists());
        let own = living.directory.clone();
        drop(living);
        assert!(!own.exists());
    }

    #[test]
    fn what_is_being_removed_is_not_taken_for_what_a_dead_server_left() {
        let place = tempfile::tempdir().unwrap();
        let (roots, staged) = ([place.path().join("w")], place.path().join("staged"));
        fs::create_dir(&roots[0]).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let stage = StagingArea::open(&staged).unwrap().begin(&roots).unwrap();
                        for name in 0..20 {
                            fs::write(stage.layers()[0].upper.join(name.to_string()), "x").unwrap();
                        }
                        stage.remove().unwrap();
                    }
                });
            }
        });
    }
}
