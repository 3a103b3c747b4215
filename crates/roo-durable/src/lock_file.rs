//! Files as locks of the whole system: opened as nothing but regular files, locked, and found again by name.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

/// Locks a file without waiting, and makes it if need be. None while another opening of it has the lock.
pub(crate) fn try_lock(path: &Path) -> io::Result<Option<File>> {
    loop {
        let file = open_lock_file(path)?;
        match file.try_lock() {
            Ok(()) if is_at(&file, path) => return Ok(Some(file)),
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Returns whether another opening of a file has its lock.
pub(crate) fn is_locked(path: &Path) -> bool {
    let file = open_regular(path, OpenOptions::new().read(true));
    file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Returns whether a file has this name, and no other one has taken its place.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    let ours = file.metadata().map(|found| (found.dev(), found.ino()));
    let there = fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()));
    ours.is_ok_and(|ours| there.is_ok_and(|there| there == ours))
}

/// Opens a file to be locked, and makes it if need be.
pub(crate) fn open_lock_file(path: &Path) -> io::Result<File> {
    open_regular(path, OpenOptions::new().read(true).append(true).create(true).mode(0o600))
}

/// Opens a regular file. A link is not followed, and a pipe or device doesn't block.
pub(crate) fn open_regular(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let irregular = || io::Error::new(io::ErrorKind::InvalidData, "it is not a regular file");
    // The flags of the system are small and positive.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = options.custom_flags(flags).open(path).map_err(|error| match error.raw_os_error() {
        Some(number) if number == rustix::io::Errno::LOOP.raw_os_error() => irregular(),
        _ => error,
    })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(irregular()) }
}
