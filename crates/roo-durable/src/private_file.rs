//! Small private files that are replaced atomically: a reader sees the old content or the new one.
//! A process that changes one holds its [`FileLock`] from reading it to replacing it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk::{Access, Disk, HeldLock, RealDisk};
use super::replace::replace;

/// A small file that only its user can read.
#[derive(Clone, Debug)]
pub struct PrivateFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
}

/// Exclusive right to change a file, against all threads and processes that lock it. The system releases it when the
/// process ends.
#[must_use = "the lock is held as long as this value lives"]
pub struct FileLock(#[expect(dead_code, reason = "held, never read")] HeldLock);

impl PrivateFile {
    /// The file at a path, whether or not it exists.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self::on(Arc::new(RealDisk), path)
    }

    /// The file at a path of this disk.
    pub fn on(disk: Arc<dyn Disk>, path: impl Into<PathBuf>) -> Self {
        Self { disk, path: path.into() }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether something exists at the path of the file.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn exists(&self) -> io::Result<bool> {
        self.disk.exists(&self.path)
    }

    /// Waits for the lock that a change of the file needs. The lock file beside the file is never removed, so that all
    /// processes lock the same one.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn lock(&self) -> io::Result<FileLock> {
        self.create_directory()?;
        let mut path = self.path.as_os_str().to_owned();
        path.push(".lock");
        self.disk.lock(Path::new(&path)).map(FileLock)
    }

    /// Replaces the content of the file atomically. It survives a loss of power when this returns.
    ///
    /// # Errors
    /// Those of the disk. The file is then unchanged, or replaced if only its name could not be synced.
    pub fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        self.create_directory()?;
        replace(self.disk.as_ref(), &self.path, bytes, Access::Private)
    }

    /// Reads the file if it is a regular file of at most `limit` bytes. None when it doesn't exist.
    ///
    /// # Errors
    /// Those of the disk; [`io::ErrorKind::InvalidData`] for anything but such a file.
    pub fn read(&self, limit: u64) -> io::Result<Option<Vec<u8>>> {
        self.disk.read_at_most(&self.path, limit).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::FileTooLarge => {
                io::Error::new(io::ErrorKind::InvalidData, "it was not created by roo-lsp")
            }
            _ => error,
        })
    }

    /// Renames the file within its directory, replacing a file that has the new name. A loss of power may undo it.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn rename(&self, to: &Path) -> io::Result<()> {
        self.disk.rename(&self.path, to)
    }

    /// Removes the file. Returns whether it existed. A loss of power may bring it back.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn remove(&self) -> io::Result<bool> {
        match self.disk.remove(&self.path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Creates the directory of the file, for its user alone, so that it survives a loss of power.
    fn create_directory(&self) -> io::Result<()> {
        self.disk.create_directories_durably(self.path.parent().unwrap_or(Path::new("/")))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;
    use crate::simulated_disk::SimulatedDisk;

    fn file(disk: &SimulatedDisk) -> PrivateFile {
        PrivateFile::on(Arc::new(disk.clone()), "/home/state/file.json")
    }

    fn content(disk: &SimulatedDisk) -> Option<Vec<u8>> {
        file(disk).read(100).unwrap()
    }

    /// Appends a byte to the content of the file.
    fn add(disk: &SimulatedDisk, byte: u8) -> io::Result<()> {
        let file = file(disk);
        let _lock = file.lock()?;
        let mut bytes = file.read(100)?.unwrap_or_default();
        bytes.push(byte);
        file.replace(&bytes)
    }

    #[test]
    fn a_replaced_file_and_its_new_directories_survive_a_loss_of_power() {
        let disk = SimulatedDisk::new();
        let mut promises = vec![(0, None)];
        for byte in [b'a', b'b'] {
            add(&disk, byte).unwrap();
            promises.push((disk.operations(), content(&disk)));
        }
        for (operations, left) in disk.every_power_loss(0) {
            let next = promises.iter().position(|(at, _)| *at > operations).unwrap_or(promises.len());
            let possible = &promises[next - 1..promises.len().min(next + 1)];
            let found = content(&left);
            assert!(possible.iter().any(|(_, content)| *content == found), "{operations}: {found:?}");
            // And it can be changed again.
            add(&left, b'c').unwrap();
            let again = left.power_losses(left.operations());
            assert!(again.iter().all(|left| content(left).unwrap().ends_with(b"c")));
        }
    }

    #[test]
    fn a_disk_that_fills_up_at_any_call_leaves_the_old_content_or_the_new() {
        for first in 0..16 {
            let disk = SimulatedDisk::new();
            add(&disk, b'a').unwrap();
            disk.fill_from(first);
            let added = add(&disk, b'b');
            disk.heal();
            let expected: &[u8] = if added.is_ok() { b"ab" } else { b"a" };
            assert_eq!(content(&disk).as_deref(), Some(expected), "full from call {first} on");
            add(&disk, b'c').unwrap();
        }
    }

    #[test]
    fn changes_under_the_lock_are_never_lost() {
        let (disk, start) = (SimulatedDisk::new(), Barrier::new(8));
        std::thread::scope(|threads| {
            for byte in 0..8 {
                let (disk, start) = (&disk, &start);
                threads.spawn(move || {
                    start.wait();
                    add(disk, byte).unwrap();
                });
            }
        });
        let mut bytes = content(&disk).unwrap();
        bytes.sort_unstable();
        assert_eq!(bytes, [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn only_a_regular_file_of_the_expected_size_is_read() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| PrivateFile::new(place.path().join(name));
        assert_eq!(at("missing").read(10).unwrap(), None);
        std::fs::write(at("file").path(), "12345").unwrap();
        assert_eq!(at("file").read(5).unwrap().unwrap(), b"12345");
        std::os::unix::fs::symlink(at("file").path(), at("link").path()).unwrap();
        std::fs::create_dir(at("directory").path()).unwrap();
        for refused in [at("file").read(4), at("link").read(10), at("directory").read(10)] {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            assert_eq!(error.to_string(), "it was not created by roo-lsp");
        }
    }
}
