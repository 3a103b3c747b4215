//! Operations that durable files need of a disk. Everything that has to survive a crash goes through [`Disk`], so that
//! tests can put one in its place that fails, fills up or loses power at any call.

use std::any::Any;
use std::fmt::Debug;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// Number of bytes copied at once.
const BLOCK: usize = 64 * 1024;
/// Content left by a lost write.
const NOTHING: &[u8] = &[0; BLOCK];

/// A lock that is held until it is dropped. The system drops it with the process, so it is never stale.
pub type Held = Box<dyn Any + Send + Sync>;

/// Permissions of a file that is written as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Its user alone may read it.
    Private,
    /// Whom the process's mask of permissions lets read it.
    Shared,
}

/// A file system, as far as durable files need one. Nothing survives power loss before it is synced: of a file its
/// bytes, of a directory its names. No file is opened through a symbolic link in its last name, nor one that is not a
/// regular file.
pub trait Disk: Debug + Send + Sync {
    /// Creates a directory whose parent is there, for the user alone.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::AlreadyExists`] when something has that name.
    fn create_directory(&self, path: &Path) -> io::Result<()>;

    /// Returns whether something has this name.
    ///
    /// # Errors
    /// What the system says, where it can't be known.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// The length of a file in bytes.
    ///
    /// # Errors
    /// What the system says.
    fn length(&self, path: &Path) -> io::Result<u64>;

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
    /// What the system says; [`io::ErrorKind::InvalidData`] where it is something else than a regular file.
    fn read(&self, path: &Path, offset: u64) -> io::Result<Box<dyn Read + Send>>;

    /// Writes a whole file, new or in place of what it held.
    ///
    /// # Errors
    /// What the system says; part of it may have been written.
    fn write(&self, path: &Path, content: &mut dyn Read, access: Access) -> io::Result<()>;

    /// Writes bytes over those at an offset of a file of the user alone, which is made if need be.
    ///
    /// # Errors
    /// What the system says; part of it may have been written.
    fn write_at(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()>;

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

    /// Creates a directory with those above it, for the user alone. Returns the directories that hold a new name,
    /// which are yet to be synced.
    ///
    /// # Errors
    /// What the system says.
    fn create_directories(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let mut missing = Vec::new();
        for directory in path.ancestors() {
            if self.exists(directory)? {
                break;
            }
            missing.push(directory);
        }
        let mut changed = Vec::new();
        for directory in missing.into_iter().rev() {
            match self.create_directory(directory) {
                // Whoever came first may end before it is synced.
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => changed.extend(directory.parent().map(Path::to_owned)),
            }
        }
        Ok(changed)
    }

    /// As [`Disk::create_directories`]; the new names survive a loss of power.
    ///
    /// # Errors
    /// What the system says.
    fn create_directories_durably(&self, path: &Path) -> io::Result<()> {
        self.create_directories(path)?.iter().try_for_each(|directory| self.sync(directory))
    }

    /// Reads a whole file of at most `limit` bytes. None when there is none.
    ///
    /// # Errors
    /// As [`Disk::read`]; [`io::ErrorKind::FileTooLarge`].
    fn read_at_most(&self, path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
        match self.read_beginning(path, limit.saturating_add(1))? {
            Some(bytes) if bytes.len() as u64 > limit => {
                let problem = format!("it has more than {limit} bytes");
                Err(io::Error::new(io::ErrorKind::FileTooLarge, problem))
            }
            found => Ok(found),
        }
    }

    /// Reads the first bytes of a file, at most `limit`. None when there is none.
    ///
    /// # Errors
    /// As [`Disk::read`].
    fn read_beginning(&self, path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
        let file = match self.read(path, 0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }
}

/// A file that is appended to.
pub trait DiskFile: Debug + Send + Sync {
    /// Writes bytes behind the last one, perhaps not all of them; returns how many.
    ///
    /// # Errors
    /// What the system says; nothing was written.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Writes all bytes behind the last one.
    ///
    /// # Errors
    /// What the system says; part of them may have been written, see [`DiskFile::truncate`].
    fn append_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.append(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Its length in bytes; none when its name is gone.
    ///
    /// # Errors
    /// What the system says.
    fn length(&self) -> io::Result<Option<u64>>;

    /// Returns whether it is the file of this name, and no other one has taken its place.
    fn is_at(&self, path: &Path) -> bool;

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

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn length(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::metadata(path)?.len())
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(directory)?;
        Ok(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
    }

    fn open(&self, path: &Path, new: bool) -> io::Result<Box<dyn DiskFile>> {
        let file = open(path, OpenOptions::new().read(true).append(true).create_new(new).mode(0o600))?;
        Ok(Box::new(file))
    }

    fn read(&self, path: &Path, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        let mut file = open(path, OpenOptions::new().read(true))?;
        if offset > 0 {
            file.seek(SeekFrom::Start(offset))?;
        }
        Ok(Box::new(file))
    }

    fn write(&self, path: &Path, content: &mut dyn Read, access: Access) -> io::Result<()> {
        let mode = match access {
            Access::Private => 0o600,
            Access::Shared => 0o666,
        };
        let mut file = open(path, OpenOptions::new().write(true).create(true).truncate(true).mode(mode))?;
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

    fn write_at(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let file = open(path, options.write(true).create(true).truncate(false).mode(0o600))?;
        file.write_all_at(bytes, offset)
    }

    fn rewrite(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let file = open(path, OpenOptions::new().write(true))?;
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
        loop {
            let file = lock_file(path)?;
            match file.try_lock() {
                Ok(()) if file.is_at(path) => return Ok(Some(Box::new(file))),
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    fn lock(&self, path: &Path) -> io::Result<Held> {
        loop {
            let file = lock_file(path)?;
            match file.lock() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                locked => locked?,
            }
            // Somebody may have removed it meanwhile: then others lock another file.
            if file.is_at(path) {
                return Ok(Box::new(file));
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

    fn is_at(&self, path: &Path) -> bool {
        let ours = self.metadata().map(|found| (found.dev(), found.ino()));
        let there = fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()));
        ours.is_ok_and(|ours| there.is_ok_and(|there| there == ours))
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

fn lock_file(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().read(true).append(true).create(true).mode(0o600))
}

/// Opens a regular file; a link, a pipe or a device in its place leads nowhere and makes nobody wait.
fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let irregular = || io::Error::new(io::ErrorKind::InvalidData, "it is not a regular file");
    // The flags of the system are small and positive.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = options.custom_flags(flags).open(path).map_err(|error| match error.raw_os_error() {
        Some(number) if number == rustix::io::Errno::LOOP.raw_os_error() => irregular(),
        _ => error,
    })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(irregular()) }
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;
    use crate::simulated_disk::SimulatedDisk;

    /// Does the same on both disks; what they answer.
    fn on_both(action: impl Fn(&dyn Disk, &Path) -> String) -> [String; 2] {
        let (place, simulated) = (tempfile::tempdir().unwrap(), SimulatedDisk::new());
        simulated.create_directories(place.path()).unwrap();
        [action(&RealDisk, place.path()), action(&simulated, place.path())]
    }

    #[test]
    fn the_simulated_disk_answers_as_the_real_one() {
        let [real, simulated] = on_both(|disk, place| {
            let at = |name: &str| place.join(name);
            let mut answers = Vec::new();
            let mut tell = |what: &str, answer: io::Result<String>| {
                answers.push(format!("{what}: {:?}", answer.map_err(|error| error.kind())));
            };
            tell("missing", disk.read(&at("a"), 0).map(|_| String::new()));
            tell("open missing", disk.open(&at("a"), false).map(|_| String::new()));
            tell("length of missing", disk.length(&at("a")).map(|it| it.to_string()));
            tell("write", disk.write(&at("a"), &mut &b"hello"[..], Access::Private).map(|()| String::new()));
            tell("new that is there", disk.open(&at("a"), true).map(|_| String::new()));
            let file = disk.open(&at("a"), false).unwrap();
            tell("append", file.append_all(b" world").map(|()| String::new()));
            tell("write at", disk.write_at(&at("a"), 1, b"E").map(|()| String::new()));
            tell("write at new", disk.write_at(&at("b"), 2, b"x").map(|()| String::new()));
            let read = |name: &str| disk.read_at_most(&at(name), 100).map(|it| format!("{it:?}"));
            tell("a", read("a"));
            tell("b", read("b"));
            tell("too much", disk.read_at_most(&at("a"), 3).map(|it| format!("{it:?}")));
            tell("beginning", disk.read_beginning(&at("a"), 3).map(|it| format!("{it:?}")));
            tell("directory as a file", disk.read(place, 0).map(|_| String::new()));
            tell("make", disk.create_directory(&at("d")).map(|()| String::new()));
            tell("make again", disk.create_directory(&at("d")).map(|()| String::new()));
            tell("make deep", disk.create_directory(&at("e/f")).map(|()| String::new()));
            let made = disk.create_directories(&at("e/f"));
            tell("make all", made.map(|made| format!("{:?}", made == [place.to_owned(), at("e")])));
            tell("make none", disk.create_directories(&at("e/f")).map(|made| format!("{made:?}")));
            tell("there", Ok(format!("{} {}", file.is_at(&at("a")), file.is_at(&at("b")))));
            tell("rename", disk.rename(&at("b"), &at("a")).map(|()| String::new()));
            tell("replaced", Ok(format!("{} {:?}", file.is_at(&at("a")), file.length().unwrap())));
            tell("rename missing", disk.rename(&at("b"), &at("a")).map(|()| String::new()));
            tell("remove", disk.remove(&at("a")).map(|()| String::new()));
            tell("remove missing", disk.remove(&at("a")).map(|()| String::new()));
            let held = disk.lock(&at("lock")).unwrap();
            let lock = || disk.try_lock(&at("lock")).map(|held| held.is_some().to_string());
            tell("held", lock());
            tell("is held", Ok(disk.is_locked(&at("lock")).to_string()));
            drop(held);
            tell("free", lock());
            tell("lock nowhere", disk.lock(&at("g/lock")).map(|_| String::new()));
            answers.join("\n")
        });
        assert_eq!(real, simulated);
        assert!(real.contains("held: Ok(\"false\")") && real.contains("free: Ok(\"true\")"), "{real}");
    }

    #[test]
    fn nothing_is_read_or_written_by_way_of_a_link() {
        let place = tempfile::tempdir().unwrap();
        let (target, link) = (place.path().join("target"), place.path().join("link"));
        fs::write(&target, "mine").unwrap();
        symlink(&target, &link).unwrap();
        let disk = RealDisk;
        let refused = [
            disk.read(&link, 0).map(drop),
            disk.open(&link, false).map(drop),
            disk.write(&link, &mut &b"x"[..], Access::Private),
            disk.write_at(&link, 0, b"x"),
            disk.rewrite(&link, 0, b"x"),
            disk.lock(&link).map(drop),
        ];
        for refused in refused {
            assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
        assert_eq!(fs::read_to_string(&target).unwrap(), "mine");
    }

    #[test]
    fn files_are_for_their_user_unless_they_are_shared() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let disk = RealDisk;
        disk.open(&at("log"), true).unwrap();
        disk.write(&at("whole"), &mut &b"x"[..], Access::Private).unwrap();
        disk.write_at(&at("part"), 0, b"x").unwrap();
        let _lock = disk.lock(&at("lock")).unwrap();
        disk.write(&at("shared"), &mut &b"x"[..], Access::Shared).unwrap();
        let made = fs::write(at("as anybody"), "x").and_then(|()| fs::metadata(at("as anybody"))).unwrap();
        let mode = |name: &str| fs::metadata(at(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(["log", "whole", "part", "lock"].map(mode), [0o600; 4]);
        assert_eq!(mode("shared"), made.permissions().mode() & 0o777);
    }

    #[test]
    fn a_lock_whose_file_was_removed_is_taken_on_the_new_one() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("lock");
        let old = RealDisk.lock(&path).unwrap();
        let waiting = {
            let path = path.clone();
            std::thread::spawn(move || RealDisk.lock(&path).unwrap())
        };
        fs::remove_file(&path).unwrap();
        let new = RealDisk.lock(&path).unwrap();
        drop(old);
        drop(new);
        let last = waiting.join().unwrap();
        assert!(RealDisk.is_locked(&path));
        drop(last);
        assert!(!RealDisk.is_locked(&path));
    }
}
