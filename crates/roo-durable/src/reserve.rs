//! Disk space reserved in the state directory. It is released when the disk is full, so that running requests can
//! still be recorded and the user can be notified.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Size of the reserve, in bytes.
pub const SIZE: u64 = 64 << 20;

/// Free space that is required before space is reserved, in bytes: on a disk with less, the user needs it more.
const FREE: u64 = 4 * SIZE;

/// A file that takes up space and holds nothing; one for all workspaces of a user.
#[derive(Clone, Debug)]
pub struct Reserve {
    path: PathBuf,
}

impl Reserve {
    /// The reserve of this state directory. Nothing is reserved yet.
    pub fn new(state: &Path) -> Self {
        Self { path: state.join("reserve") }
    }

    /// Reserves space unless it is reserved already or the disk has little left. Blocks on the disk.
    ///
    /// # Errors
    /// Those of the system; [`io::ErrorKind::Unsupported`] on a file system that can't allocate space in advance.
    pub fn fill(&self) -> io::Result<()> {
        let state = self.path.parent().unwrap_or(&self.path);
        let disk = rustix::fs::statvfs(state)?;
        let is_filled = std::fs::metadata(&self.path).is_ok_and(|found| found.blocks() * 512 >= SIZE);
        if is_filled || disk.f_bavail.saturating_mul(disk.f_frsize) < FREE {
            return Ok(());
        }
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&self.path)?;
        allocate(&file).inspect_err(|_| {
            // A partial reserve is useless.
            let _ = std::fs::remove_file(&self.path);
        })
    }

    /// Releases the space if `error` means that the disk is full. Returns whether there was any.
    pub fn release_if_full(&self, error: &io::Error) -> bool {
        let is_full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        is_full && std::fs::remove_file(&self.path).is_ok()
    }
}

#[cfg(target_os = "linux")]
fn allocate(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, SIZE)?)
}

#[cfg(not(target_os = "linux"))]
fn allocate(_: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_space_is_released_when_the_disk_is_full() {
        let state = tempfile::tempdir().unwrap();
        let reserve = Reserve::new(state.path());
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert!(!reserve.release_if_full(&full), "nothing is reserved yet");
        reserve.fill().unwrap();
        reserve.fill().unwrap();
        let kept = std::fs::metadata(state.path().join("reserve")).unwrap();
        assert_eq!((kept.len(), kept.mode() & 0o777), (SIZE, 0o600));
        assert!(!reserve.release_if_full(&io::ErrorKind::PermissionDenied.into()));
        assert!(reserve.release_if_full(&full));
        assert!(!reserve.release_if_full(&full), "it is released already");
        reserve.fill().unwrap();
        assert!(reserve.release_if_full(&full));
    }
}
