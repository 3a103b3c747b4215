//! Operations that the store needs of a disk. Everything that has to survive goes through [`Disk`], so that tests can
//! put one in its place that fails, fills up or loses power at any call.

use std::any::Any;
use std::fmt::Debug;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Number of bytes copied at once.
const BLOCK: usize = 64 * 1024;
/// Content left by a lost write.
const NOTHING: &[u8] = &[0; BLOCK];

/// A lock that is held until it is dropped. The system drops it with the process, so it is never stale.
pub type Held = Box<dyn Any + Send + Sync>;

/// A file system, as far as logs need one. Nothing survives power loss before it is synced: of a file its
/// bytes, of a directory its names.
pub trait Disk: Debug + Send + Sync {
    /// Creates a directory whose parent is there, for the user alone.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::AlreadyExists`] when something has that name.
    fn create_directory(&self, path: &Path) -> io::Result<()>;

    /// Returns whether something has this name.
    fn exists(&self, path: &Path) -> bool;

    /// The names in a directory, in any order; those that are not UTF-8 are left out.
    ///
    /// # Errors
    /// What the system says.
    fn names(&self, directory: &Path) -> io::Result<Vec<String>>;

    /// Opens a file for appending; one that must not be there yet where it is `new`.
    ///
    /// # Errors
    /// What the system says.
    fn open(&self, path: &Path, new: bool) -> io::Result<Box<dyn DiskFile>>;

    /// Reads a file from an offset on.
    ///
    /// # Errors
    /// What the system says.
    fn read(&self, path: &Path, offset: u64) -> io::Result<Box<dyn Read + Send>>;

    /// Writes a whole file of the user alone, new or in place of what it held.
    ///
    /// # Errors
    /// What the system says; part of it may have been written.
    fn write(&self, path: &Path, content: &mut dyn Read) -> io::Result<()>;

    /// Writes bytes over those at an offset, and syncs them, with a file handle of its own.
    ///
    /// # Errors
    /// What the system says; part of it may have been written.
    fn rewrite(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Renames within a directory; what had the new name is gone.
    ///
    /// # Errors
    /// What the system says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// What the system says.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Removes a directory with all that is in it.
    ///
    /// # Errors
    /// What the system says.
    fn remove_directory(&self, path: &Path) -> io::Result<()>;

    /// Makes a file's bytes, or a directory's names, survive power loss.
    ///
    /// # Errors
    /// What the system says.
    fn sync(&self, path: &Path) -> io::Result<()>;

    /// Locks a file, which is made if need be, against every other process. None when another holds it.
    ///
    /// # Errors
    /// What the system says.
    fn try_lock(&self, path: &Path) -> io::Result<Option<Held>>;

    /// Locks a file as [`Disk::try_lock`] does, but waits for others.
    ///
    /// # Errors
    /// What the system says.
    fn lock(&self, path: &Path) -> io::Result<Held>;

    /// Returns whether somebody holds the lock on a file.
    fn is_locked(&self, path: &Path) -> bool;
}

/// A file that is appended to.
pub trait DiskFile: Debug + Send + Sync {
    /// Writes bytes behind the last one, perhaps not all of them; returns how many.
    ///
    /// # Errors
    /// What the system says; nothing was written.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Its length in bytes; none when its name is gone.
    ///
    /// # Errors
    /// What the system says.
    fn length(&self) -> io::Result<Option<u64>>;

    /// Drops everything from an offset on.
    ///
    /// # Errors
    /// What the system says.
    fn truncate(&self, length: u64) -> io::Result<()>;

    /// Makes its bytes survive power loss.
    ///
    /// # Errors
    /// What the system says. The bytes may then be lost although they can still be read, and a later sync
    /// that succeeds does not speak of them.
    fn sync(&self) -> io::Result<()>;
}

/// The disk of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(path)
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(directory)?;
        Ok(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
    }

    fn open(&self, path: &Path, new: bool) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create_new(new).mode(0o600).open(path)?;
        Ok(Box::new(file))
    }

    fn read(&self, path: &Path, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(Box::new(file))
    }

    fn write(&self, path: &Path, content: &mut dyn Read) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
        let mut block = vec![0; BLOCK];
        let mut length = 0;
        loop {
            let filled = fill(content, &mut block)?;
            length += filled as u64;
            // It may be gigabytes, and needs no room.
            match block[..filled] == NOTHING[..filled] {
                true => file.seek_relative(filled as i64)?,
                false => file.write_all(&block[..filled])?,
            }
            if filled < BLOCK {
                return file.set_len(length);
            }
        }
    }

    fn rewrite(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(path)?;
        file.write_all_at(bytes, offset)?;
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Held>> {
        let file = lock_file(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn lock(&self, path: &Path) -> io::Result<Held> {
        let file = lock_file(path)?;
        loop {
            match file.lock() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                locked => return locked.map(|()| Box::new(file) as Held),
            }
        }
    }

    fn is_locked(&self, path: &Path) -> bool {
        let file = File::open(path);
        file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }
}

impl DiskFile for File {
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut file = self;
        file.write(bytes)
    }

    fn length(&self) -> io::Result<Option<u64>> {
        let found = self.metadata()?;
        Ok((found.nlink() > 0).then_some(found.len()))
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

fn lock_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)
}

/// Reads until the block is full or nothing more comes.
fn fill(source: &mut dyn Read, block: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < block.len() {
        match source.read(&mut block[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
