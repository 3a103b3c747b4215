//! Room kept back in the state directory for the time when the disk is full: then what is begun can be put
//! down, and the user is told.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Size of the reserve, in bytes.
pub const SIZE: u64 = 64 << 20;

/// Free space that the reserve requires, in bytes: who has less needs it more than we do.
const FREE: u64 = 4 * SIZE;

/// A file that holds room and nothing else; one for all workspaces of a user.
#[derive(Clone, Debug)]
pub struct Reserve {
    path: PathBuf,
}

impl Reserve {
    /// Of this state directory. Nothing is kept back yet.
    pub fn new(state: &Path) -> Self {
        Self { path: state.join("reserve") }
    }

    /// Keeps room back, if that isn't done yet and the disk has plenty. Waits for the disk.
    ///
    /// # Errors
    /// What the system says; a file system that can't give out room beforehand says
    /// [`io::ErrorKind::Unsupported`].
    pub fn fill(&self) -> io::Result<()> {
        let state = self.path.parent().unwrap_or(&self.path);
        let disk = rustix::fs::statvfs(state)?;
        let kept = std::fs::metadata(&self.path).is_ok_and(|found| found.blocks() * 512 >= SIZE);
        if kept || disk.f_bavail.saturating_mul(disk.f_frsize) < FREE {
            return Ok(());
        }
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&self.path)?;
        hold(&file).inspect_err(|_| {
            // Part of it is of no use.
            let _ = std::fs::remove_file(&self.path);
        })
    }

    /// Gives the room back, when `error` says that the disk is full. Whether there was any.
    pub fn relieve(&self, error: &io::Error) -> bool {
        let is_full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        is_full && std::fs::remove_file(&self.path).is_ok()
    }
}

#[cfg(target_os = "linux")]
fn hold(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, SIZE)?)
}

#[cfg(not(target_os = "linux"))]
fn hold(_: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_reserved_and_given_when_there_is_none() {
        let state = tempfile::tempdir().unwrap();
        let reserve = Reserve::new(state.path());
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert!(!reserve.relieve(&full), "there is none yet");
        reserve.fill().unwrap();
        reserve.fill().unwrap();
        let kept = std::fs::metadata(state.path().join("reserve")).unwrap();
        assert_eq!((kept.len(), kept.mode() & 0o777), (SIZE, 0o600));
        assert!(!reserve.relieve(&io::ErrorKind::PermissionDenied.into()));
        assert!(reserve.relieve(&full));
        assert!(!reserve.relieve(&full), "it is used up");
        reserve.fill().unwrap();
        assert!(reserve.relieve(&full));
    }
}
