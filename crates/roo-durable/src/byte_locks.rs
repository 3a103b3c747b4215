//! Locks on single bytes of one file, so that many locks need one descriptor.
//!
//! They are locks of the open file and not of the process: closing another descriptor of the file gives none of them
//! back, and two openings of the file in one process exclude each other as two processes do.

use std::fmt::Debug;
use std::io;
use std::path::Path;

/// A file that holds nothing, of which each byte is a lock. Dropping it gives all of its locks back.
pub trait ByteLocks: Debug + Send + Sync {
    /// Locks a byte against all other openings of the file. False when one of them holds it.
    ///
    /// # Errors
    /// What the system says.
    fn try_lock(&self, byte: u64) -> io::Result<bool>;

    /// Gives a byte back.
    fn unlock(&self, byte: u64);

    /// Returns whether another opening of the file has locked a byte.
    ///
    /// # Errors
    /// What the system says.
    fn is_locked(&self, byte: u64) -> io::Result<bool>;

    /// Returns whether it is the file of this name, and no other one has taken its place.
    fn is_at(&self, path: &Path) -> bool;
}

#[cfg(target_os = "linux")]
mod system {
    use std::fs::File;
    use std::io;
    use std::path::Path;

    use nix::fcntl::{FcntlArg, fcntl};
    use nix::libc::{self, c_int, c_short, flock};

    use super::ByteLocks;
    use crate::lock_file::{is_at, open_lock_file};

    #[derive(Debug)]
    struct LockedFile(File);

    /// Opens the file, and makes it if need be.
    pub(crate) fn open(path: &Path) -> io::Result<impl ByteLocks + 'static> {
        Ok(LockedFile(open_lock_file(path)?))
    }

    fn range(kind: c_int, byte: u64) -> io::Result<flock> {
        let start = byte.try_into().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        // The kinds of locks and the origins of offsets are small.
        let (kind, origin) = (kind as c_short, libc::SEEK_SET as c_short);
        Ok(flock { l_type: kind, l_whence: origin, l_start: start, l_len: 1, l_pid: 0 })
    }

    impl ByteLocks for LockedFile {
        fn try_lock(&self, byte: u64) -> io::Result<bool> {
            match fcntl(&self.0, FcntlArg::F_OFD_SETLK(&range(libc::F_WRLCK, byte)?)) {
                Ok(_) => Ok(true),
                Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EACCES) => Ok(false),
                Err(error) => Err(error.into()),
            }
        }

        fn unlock(&self, byte: u64) {
            // It fails for lack of kernel memory alone; then the lock is given back with the file.
            let _ = range(libc::F_UNLCK, byte).map(|range| fcntl(&self.0, FcntlArg::F_OFD_SETLK(&range)));
        }

        fn is_locked(&self, byte: u64) -> io::Result<bool> {
            let mut found = range(libc::F_WRLCK, byte)?;
            fcntl(&self.0, FcntlArg::F_OFD_GETLK(&mut found))?;
            Ok(c_int::from(found.l_type) != libc::F_UNLCK)
        }

        fn is_at(&self, path: &Path) -> bool {
            is_at(&self.0, path)
        }
    }
}

/// Locks of systems without byte locks: each is a file of its own.
#[cfg(not(target_os = "linux"))]
mod system {
    use std::collections::HashMap;
    use std::fs::{self, File};
    use std::io;
    use std::path::{Path, PathBuf};
    use std::sync::{Mutex, PoisonError};

    use super::ByteLocks;
    use crate::lock_file;

    struct LockFiles {
        path: PathBuf,
        held: Mutex<HashMap<u64, File>>,
    }

    impl std::fmt::Debug for LockFiles {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_tuple("LockFiles").field(&self.path).finish()
        }
    }

    /// Opens the files of these locks.
    pub(crate) fn open(path: &Path) -> io::Result<impl ByteLocks + 'static> {
        drop(lock_file::open_lock_file(path)?);
        Ok(LockFiles { path: path.to_owned(), held: Mutex::default() })
    }

    impl LockFiles {
        fn file(&self, byte: u64) -> PathBuf {
            self.path.with_extension(format!("{byte:x}.lock"))
        }
    }

    impl ByteLocks for LockFiles {
        fn try_lock(&self, byte: u64) -> io::Result<bool> {
            let Some(held) = lock_file::try_lock(&self.file(byte))? else { return Ok(false) };
            self.held.lock().unwrap_or_else(PoisonError::into_inner).insert(byte, held);
            Ok(true)
        }

        fn unlock(&self, byte: u64) {
            if self.held.lock().unwrap_or_else(PoisonError::into_inner).remove(&byte).is_some() {
                // What is left of it locks nothing.
                let _ = fs::remove_file(self.file(byte));
            }
        }

        fn is_locked(&self, byte: u64) -> io::Result<bool> {
            let is_ours = self.held.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&byte);
            Ok(!is_ours && lock_file::is_locked(&self.file(byte)))
        }

        fn is_at(&self, path: &Path) -> bool {
            path == self.path && path.exists()
        }
    }
}

pub(crate) use system::open;
