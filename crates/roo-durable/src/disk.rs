//! Disk operations of durable files. Everything that has to survive a crash goes through [`Disk`], so that tests can
//! replace it by one that fails, fills up or loses power at any call.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use crate::byte_locks::ByteLocks;

use crate::byte_locks;
use crate::lock_file::{self, open_regular};

/// Number of bytes copied at once.
const BLOCK: usize = 64 * 1024;
/// Content of a block that needs no space.
const ZEROS: &[u8] = &[0; BLOCK];

/// A lock that is held until it is dropped. The system releases it when the process ends, so it is never stale.
pub type HeldLock = Box<dyn Any + Send + Sync>;

/// Permissions of a file that is written by [`Disk::write`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Only its user may read it.
    Private,
    /// The process's umask decides who may read it.
    Shared,
}

/// The part of a file system that durable files need. Nothing survives power loss before it is synced: syncing a file
/// covers its bytes, syncing a directory covers its names. Only regular files are opened, and not through a symbolic
/// link as the last component of their path.
pub trait Disk: Debug + Send + Sync {
    /// Creates a directory in an existing one, for the user alone.
    ///
    /// # Errors
    /// Those of the system; [`io::ErrorKind::AlreadyExists`] when something has that name.
    fn create_directory(&self, path: &Path) -> io::Result<()>;

    /// Returns whether something exists at a path, links followed.
    ///
    /// # Errors
    /// Those of the system.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// The length of a file in bytes.
    ///
    /// # Errors
    /// Those of the system.
    fn length(&self, path: &Path) -> io::Result<u64>;

    /// The state of a file.
    ///
    /// # Errors
    /// Those of the system.
    fn stamp(&self, path: &Path) -> io::Result<FileStamp>;

    /// Looks at many files below one directory: what it returns gives the stamp of a file by its path there. The way to the
    /// directory is gone once and not for each of them.
    fn stamps_below<'a>(&'a self, directory: &Path) -> StampsBelow<'a> {
        let directory = directory.to_owned();
        Box::new(move |path| self.stamp(&directory.join(path)))
    }

    /// The names in a directory, in any order; those that are not UTF-8 are left out.
    ///
    /// # Errors
    /// Those of the system.
    fn names(&self, directory: &Path) -> io::Result<Vec<String>>;

    /// Opens a file for appending: creates it if `new`, else it has to exist.
    ///
    /// # Errors
    /// Those of the system.
    fn open(&self, path: &Path, new: bool) -> io::Result<Box<dyn DiskFile>>;

    /// Reads a file from an offset on.
    ///
    /// # Errors
    /// Those of the system; [`io::ErrorKind::InvalidData`] for anything but a regular file.
    fn read(&self, path: &Path, offset: u64) -> io::Result<Box<dyn Read + Send>>;

    /// Creates a file, or replaces its content in place.
    ///
    /// # Errors
    /// Those of the system; part of it may have been written.
    fn write(&self, path: &Path, content: &mut dyn Read, access: Access) -> io::Result<()>;

    /// Overwrites bytes at an offset of a file, which is created for the user alone if it is missing.
    ///
    /// # Errors
    /// Those of the system; part of it may have been written.
    fn write_at(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Overwrites bytes at an offset and syncs them, through a new file handle.
    ///
    /// # Errors
    /// Those of the system; part of it may have been written.
    fn rewrite(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Renames within a directory, replacing a file that has the new name.
    ///
    /// # Errors
    /// Those of the system.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// Those of the system.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Removes a directory and its content.
    ///
    /// # Errors
    /// Those of the system.
    fn remove_directory(&self, path: &Path) -> io::Result<()>;

    /// Makes a file's bytes, or a directory's names, survive power loss.
    ///
    /// # Errors
    /// Those of the system.
    fn sync(&self, path: &Path) -> io::Result<()>;

    /// Makes the bytes of files survive power loss. Returns how many of them are found to be gone.
    ///
    /// # Errors
    /// Those of the system.
    fn sync_files(&self, paths: &[PathBuf]) -> io::Result<usize> {
        sync_each(self, paths)
    }

    /// Locks a file, which is created if it is missing, against all other processes. None when another one holds it.
    ///
    /// # Errors
    /// Those of the system.
    fn try_lock(&self, path: &Path) -> io::Result<Option<HeldLock>>;

    /// Locks a file as [`Disk::try_lock`] does, but waits until it is free.
    ///
    /// # Errors
    /// Those of the system.
    fn lock(&self, path: &Path) -> io::Result<HeldLock>;

    /// Returns whether the lock on a file is held.
    fn is_locked(&self, path: &Path) -> bool;

    /// Opens a file whose bytes are locks, and makes it if need be.
    ///
    /// # Errors
    /// Those of the system.
    fn open_byte_locks(&self, path: &Path) -> io::Result<Arc<dyn ByteLocks>>;

    /// Returns whether somebody has locked a byte of such a file; nobody has where there is none.
    ///
    /// # Errors
    /// Those of the system.
    fn is_byte_locked(&self, path: &Path, byte: u64) -> io::Result<bool> {
        Ok(self.exists(path)? && self.open_byte_locks(path)?.is_locked(byte)?)
    }

    /// Creates a directory and its ancestors, for the user alone. Returns the directories that hold a new name,
    /// which are not yet synced.
    ///
    /// # Errors
    /// Those of the system.
    fn create_directories(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let mut changed = Vec::new();
        for directory in missing_directories(self, path)? {
            create_if_missing(self, directory)?;
            changed.extend(directory.parent().map(Path::to_owned));
        }
        Ok(changed)
    }

    /// Creates directories as [`Disk::create_directories`] does, and syncs the new names. A directory whose name can't be
    /// synced is removed again: another attempt would take it for one whose name is durable.
    ///
    /// # Errors
    /// Those of the system.
    fn create_directories_durably(&self, path: &Path) -> io::Result<()> {
        for directory in missing_directories(self, path)? {
            create_if_missing(self, directory)?;
            let synced = directory.parent().map_or(Ok(()), |parent| self.sync(parent));
            if let Err(error) = synced {
                // Where another process uses it by now, it stays.
                let _ = self.remove_directory(directory);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Reads a file of at most `limit` bytes. None when it doesn't exist.
    ///
    /// # Errors
    /// Those of [`Disk::read`]; [`io::ErrorKind::FileTooLarge`].
    fn read_at_most(&self, path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
        match self.read_beginning(path, limit.saturating_add(1))? {
            Some(bytes) if bytes.len() as u64 > limit => {
                let problem = format!("it has more than {limit} bytes");
                Err(io::Error::new(io::ErrorKind::FileTooLarge, problem))
            }
            found => Ok(found),
        }
    }

    /// Reads the first `limit` bytes of a file. None when it doesn't exist.
    ///
    /// # Errors
    /// Those of [`Disk::read`].
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

/// The directories of a path that don't exist, outermost first.
fn missing_directories<'a>(disk: &(impl Disk + ?Sized), path: &'a Path) -> io::Result<Vec<&'a Path>> {
    let mut missing = Vec::new();
    for directory in path.ancestors() {
        if disk.exists(directory)? {
            break;
        }
        missing.push(directory);
    }
    missing.reverse();
    Ok(missing)
}

/// Creates a directory that was found missing.
fn create_if_missing(disk: &(impl Disk + ?Sized), directory: &Path) -> io::Result<()> {
    match disk.create_directory(directory) {
        // Another process created it, and may end before it syncs the name.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && disk.exists(directory)? => Ok(()),
        // Among the errors is that of a dangling symbolic link.
        created => created,
    }
}

/// Syncs files one after another, and returns how many are gone.
fn sync_each(disk: &(impl Disk + ?Sized), paths: &[PathBuf]) -> io::Result<usize> {
    let mut gone = 0;
    for path in paths {
        match disk.sync(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => gone += 1,
            synced => synced?,
        }
    }
    Ok(gone)
}

/// Identity of a file: device and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity(pub u64, pub u64);

/// Gives the stamps of files below a directory by their paths there.
pub type StampsBelow<'a> = Box<dyn Fn(&str) -> io::Result<FileStamp> + 'a>;

/// State of a file. Whoever changes the file changes its stamp, but for a change of bytes within the resolution of the
/// clock after another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    /// Identity of the file.
    pub identity: FileIdentity,
    /// In bytes.
    pub length: u64,
    /// Time of the last change, in nanoseconds since the Unix epoch.
    pub modified: u64,
}

impl FileStamp {
    /// The time of change is in seconds and nanoseconds.
    fn new(identity: FileIdentity, length: u64, (seconds, nanoseconds): (u64, u64)) -> Self {
        Self { identity, length, modified: seconds.wrapping_mul(1_000_000_000).wrapping_add(nanoseconds) }
    }
}

/// A file that is appended to.
pub trait DiskFile: Debug + Send + Sync {
    /// Appends bytes, perhaps not all of them. Returns how many.
    ///
    /// # Errors
    /// Those of the system; nothing was written.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Appends all bytes.
    ///
    /// # Errors
    /// Those of the system; part of the bytes may have been written, see [`DiskFile::truncate`].
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

    /// Its length in bytes; none when it has no name any more.
    ///
    /// # Errors
    /// Those of the system.
    fn length(&self) -> io::Result<Option<u64>>;

    /// Returns whether the path leads to this file, and not to one that has replaced it.
    fn is_at(&self, path: &Path) -> bool;

    /// Identifies the file: no other one of its disk has the same while it is there.
    ///
    /// # Errors
    /// Those of the system.
    fn identity(&self) -> io::Result<FileIdentity>;

    /// Truncates the file to a length in bytes.
    ///
    /// # Errors
    /// Those of the system.
    fn truncate(&self, length: u64) -> io::Result<()>;

    /// Makes its bytes survive power loss.
    ///
    /// # Errors
    /// Those of the system. The bytes may then be lost although they can still be read, and a later successful
    /// sync doesn't cover them.
    fn sync(&self) -> io::Result<()>;
}

/// Number of files from which on their file systems are synced whole.
const MANY_FILES: usize = 256;

/// The disk of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

/// The stamp of a file by its path below an open directory. System calls differ in the types of the numbers.
#[allow(clippy::unnecessary_cast, clippy::useless_conversion, reason = "they do not on every system")]
fn stamp_below(directory: &fs::File, path: &str) -> io::Result<FileStamp> {
    let found = rustix::fs::statat(directory, path, rustix::fs::AtFlags::empty())?;
    let modified = (found.st_mtime as u64, found.st_mtime_nsec as u64);
    Ok(FileStamp::new(FileIdentity(found.st_dev as u64, found.st_ino as u64), found.st_size as u64, modified))
}

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

    fn stamp(&self, path: &Path) -> io::Result<FileStamp> {
        let found = fs::metadata(path)?;
        let modified = (found.mtime().cast_unsigned(), found.mtime_nsec().cast_unsigned());
        Ok(FileStamp::new(FileIdentity(found.dev(), found.ino()), found.len(), modified))
    }

    fn stamps_below<'a>(&'a self, directory: &Path) -> StampsBelow<'a> {
        let opened = fs::File::open(directory);
        let directory = directory.to_owned();
        Box::new(move |path| match &opened {
            Ok(opened) => stamp_below(opened, path),
            // One that can be passed but not listed.
            Err(_) => self.stamp(&directory.join(path)),
        })
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(directory)?;
        Ok(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
    }

    fn open(&self, path: &Path, new: bool) -> io::Result<Box<dyn DiskFile>> {
        let file =
            open_regular(path, OpenOptions::new().read(true).append(true).create_new(new).mode(0o600))?;
        Ok(Box::new(file))
    }

    fn read(&self, path: &Path, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        let mut file = open_regular(path, OpenOptions::new().read(true))?;
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
        let mut file =
            open_regular(path, OpenOptions::new().write(true).create(true).truncate(true).mode(mode))?;
        let mut block = vec![0; BLOCK];
        let mut length = 0;
        loop {
            let filled = fill(content, &mut block)?;
            length += filled as u64;
            // Sparse content may be gigabytes long and takes no space.
            match block[..filled] == ZEROS[..filled] {
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
        let file = open_regular(path, options.write(true).create(true).truncate(false).mode(0o600))?;
        file.write_all_at(bytes, offset)
    }

    fn rewrite(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let file = open_regular(path, OpenOptions::new().write(true))?;
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

    fn sync_files(&self, paths: &[PathBuf]) -> io::Result<usize> {
        let directories: BTreeSet<&Path> = paths.iter().filter_map(|path| path.parent()).collect();
        if paths.len() < MANY_FILES || directories.iter().any(|directory| !directory.is_dir()) {
            return sync_each(self, paths);
        }
        // The sync of a file waits for the disk, each time.
        for directory in directories {
            rustix::fs::syncfs(File::open(directory)?)?;
        }
        Ok(0)
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<HeldLock>> {
        Ok(lock_file::try_lock(path)?.map(|file| Box::new(file) as HeldLock))
    }

    fn lock(&self, path: &Path) -> io::Result<HeldLock> {
        loop {
            let file = lock_file::open_lock_file(path)?;
            match file.lock() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                locked => locked?,
            }
            // If the file was removed meanwhile, other processes lock a new one.
            if file.is_at(path) {
                return Ok(Box::new(file));
            }
        }
    }

    fn is_locked(&self, path: &Path) -> bool {
        lock_file::is_locked(path)
    }

    fn open_byte_locks(&self, path: &Path) -> io::Result<Arc<dyn ByteLocks>> {
        Ok(Arc::new(byte_locks::open(path)?))
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

    fn identity(&self) -> io::Result<FileIdentity> {
        let found = self.metadata()?;
        Ok(FileIdentity(found.dev(), found.ino()))
    }

    fn is_at(&self, path: &Path) -> bool {
        lock_file::is_at(self, path)
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Reads until the block is full or the source ends.
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

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;
    use crate::simulated_disk::{Fault, SimulatedDisk};

    /// Runs the same calls on both disks and returns their answers.
    fn on_both(action: impl Fn(&dyn Disk, &Path) -> String) -> [String; 2] {
        let (place, simulated) = (tempfile::tempdir().unwrap(), SimulatedDisk::new());
        simulated.create_directories(place.path()).unwrap();
        [action(&RealDisk, place.path()), action(&simulated, place.path())]
    }

    #[test]
    fn a_file_below_a_directory_has_the_stamp_of_its_path() {
        let answers = on_both(|disk, place| {
            disk.create_directories(&place.join("a/b")).unwrap();
            disk.write(&place.join("a/b/log"), &mut &b"text"[..], Access::Private).unwrap();
            let stamp_of = disk.stamps_below(&place.join("a"));
            assert_eq!(stamp_of("b/log").unwrap(), disk.stamp(&place.join("a/b/log")).unwrap());
            let missing = disk.stamps_below(&place.join("none"));
            format!("{:?} {:?}", stamp_of("b/none").unwrap_err().kind(), missing("log").unwrap_err().kind())
        });
        assert_eq!(answers, ["NotFound NotFound", "NotFound NotFound"]);
    }

    #[test]
    fn the_simulated_disk_behaves_like_the_real_one() {
        let [real, simulated] = on_both(|disk, place| {
            let at = |name: &str| place.join(name);
            let mut answers = Vec::new();
            let mut record = |what: &str, answer: io::Result<String>| {
                answers.push(format!("{what}: {:?}", answer.map_err(|error| error.kind())));
            };
            record("missing", disk.read(&at("a"), 0).map(|_| String::new()));
            record("open missing", disk.open(&at("a"), false).map(|_| String::new()));
            record("length of missing", disk.length(&at("a")).map(|it| it.to_string()));
            record(
                "write",
                disk.write(&at("a"), &mut &b"hello"[..], Access::Private).map(|()| String::new()),
            );
            record("new that is there", disk.open(&at("a"), true).map(|_| String::new()));
            let file = disk.open(&at("a"), false).unwrap();
            record("append", file.append_all(b" world").map(|()| String::new()));
            record("write at", disk.write_at(&at("a"), 1, b"E").map(|()| String::new()));
            record("write at new", disk.write_at(&at("b"), 2, b"x").map(|()| String::new()));
            let read = |name: &str| disk.read_at_most(&at(name), 100).map(|it| format!("{it:?}"));
            record("a", read("a"));
            record("b", read("b"));
            record("too much", disk.read_at_most(&at("a"), 3).map(|it| format!("{it:?}")));
            record("beginning", disk.read_beginning(&at("a"), 3).map(|it| format!("{it:?}")));
            record("directory as a file", disk.read(place, 0).map(|_| String::new()));
            record("make", disk.create_directory(&at("d")).map(|()| String::new()));
            record("make again", disk.create_directory(&at("d")).map(|()| String::new()));
            record("make deep", disk.create_directory(&at("e/f")).map(|()| String::new()));
            let made = disk.create_directories(&at("e/f"));
            record("make all", made.map(|made| format!("{:?}", made == [place.to_owned(), at("e")])));
            record("make none", disk.create_directories(&at("e/f")).map(|made| format!("{made:?}")));
            record("there", Ok(format!("{} {}", file.is_at(&at("a")), file.is_at(&at("b")))));
            record("rename", disk.rename(&at("b"), &at("a")).map(|()| String::new()));
            record("replaced", Ok(format!("{} {:?}", file.is_at(&at("a")), file.length().unwrap())));
            record("rename missing", disk.rename(&at("b"), &at("a")).map(|()| String::new()));
            record("remove", disk.remove(&at("a")).map(|()| String::new()));
            record("remove missing", disk.remove(&at("a")).map(|()| String::new()));
            let held = disk.lock(&at("lock")).unwrap();
            let lock = || disk.try_lock(&at("lock")).map(|held| held.is_some().to_string());
            record("held", lock());
            record("is held", Ok(disk.is_locked(&at("lock")).to_string()));
            drop(held);
            record("free", lock());
            record("lock nowhere", disk.lock(&at("g/lock")).map(|_| String::new()));
            answers.join("\n")
        });
        assert_eq!(real, simulated);
        assert!(real.contains("held: Ok(\"false\")") && real.contains("free: Ok(\"true\")"), "{real}");
    }

    #[test]
    fn directories_are_durable_when_another_attempt_succeeds() {
        let path = Path::new("/state/a/b");
        let attempt = |fails_at: usize| {
            let disk = SimulatedDisk::new();
            let error = rustix::io::Errno::IO.raw_os_error();
            disk.plan(move |ordinal, _| (ordinal == fails_at).then_some(Fault::Errno(error)));
            let first = disk.create_directories_durably(path);
            disk.heal();
            disk.create_directories_durably(path).unwrap();
            assert!(disk.synced().exists(path).unwrap(), "after a fault in call {fails_at}");
            first
        };
        let failed = (0..).take_while(|&ordinal| attempt(ordinal).is_err()).count();
        assert!(failed >= 6, "three directories are created and synced: {failed}");
    }

    #[test]
    fn no_file_is_opened_through_a_link() {
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
        let _lock = disk.lock(&target).unwrap();
        assert!(disk.is_locked(&target) && !disk.is_locked(&link));
    }

    #[test]
    fn a_pipe_is_not_locked_and_is_not_waited_for() {
        let place = tempfile::tempdir().unwrap();
        let pipe = place.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(!RealDisk.is_locked(&pipe));
    }

    #[test]
    fn a_dangling_link_in_the_place_of_a_directory_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        let link = place.path().join("link");
        symlink("missing", &link).unwrap();
        for directory in [link.clone(), link.join("below")] {
            let error = RealDisk.create_directories(&directory).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        }
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
