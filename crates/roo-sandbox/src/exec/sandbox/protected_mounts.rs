//! Places that a command can't write or look into for what is mounted on them, and whether it still is: when another
//! program replaces or moves a file, the kernel takes away what is mounted on it, or moves that along.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat, StatVfsMountFlags, Statx, StatxAttributes,
    StatxFlags, fstat, fstatvfs, makedev, openat2, statx,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::helper_protocol::JsonPath;

/// A place, with what is mounted on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ProtectedMount {
    pub path: JsonPath,
    pub kind: MountKind,
}

/// What a command finds at a held place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum MountKind {
    /// What is there, which can't be written.
    ReadOnly,
    /// Something that nobody can open.
    Closed,
    /// A private copy.
    Copy {
        /// Index among the handles of copies.
        number: usize,
        device: u64,
        inode: u64,
    },
}

/// State of a held place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MountState {
    Mounted,
    /// The command finds what it should not.
    Exposed,
    /// Nothing is there, or a link.
    Missing,
}

impl MountKind {
    /// That of a copy, by its handle.
    pub(super) fn copy(number: usize, handle: &impl AsFd) -> rustix::io::Result<Self> {
        let found = look(handle)?;
        Ok(Self::Copy { number, device: device_of(&found), inode: found.stx_ino })
    }
}

impl ProtectedMount {
    pub(super) fn state(&self) -> MountState {
        match open_place(&self.path.0) {
            Ok(handle) if self.is_mounted(&handle) => MountState::Mounted,
            // Nothing can be mounted on a link, and what it leads to is held where it is.
            Ok(handle) if is_link(&handle) => MountState::Missing,
            // Within another one that is closed.
            Err(Errno::ACCESS) => MountState::Mounted,
            Ok(_) => MountState::Exposed,
            Err(_) => MountState::Missing,
        }
    }

    /// Returns whether a file was reached through what is mounted here.
    pub(super) fn shows(&self, file: &OwnedFd) -> bool {
        let Ok(place) = open_place(&self.path.0) else { return false };
        let mount = |handle: &OwnedFd| look(handle).map(|found| found.stx_mnt_id);
        self.is_mounted(&place) && mount(&place).is_ok_and(|held| mount(file) == Ok(held))
    }

    /// Returns whether this is the private copy that is shown here.
    pub(super) fn is_copy(&self, file: &Stat) -> bool {
        matches!(self.kind, MountKind::Copy { device, inode, .. } if (device, inode) == (file.st_dev, file.st_ino))
    }

    /// Returns whether the file of a handle is mounted here.
    pub(super) fn is_covered_by(&self, cover: &OwnedFd) -> bool {
        let found = open_place(&self.path.0).and_then(|place| look(&place));
        let (Ok(found), Ok(cover)) = (found, look(cover)) else { return false };
        found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)
            && (device_of(&found), found.stx_ino) == (device_of(&cover), cover.stx_ino)
    }

    fn is_mounted(&self, handle: &OwnedFd) -> bool {
        let Ok(found) = look(handle) else { return false };
        if !found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
            return false;
        }
        match self.kind {
            MountKind::ReadOnly => is_read_only(handle),
            MountKind::Closed => true,
            MountKind::Copy { device, inode, .. } => (device_of(&found), found.stx_ino) == (device, inode),
        }
    }
}

/// Opens a place itself, through no link.
pub(super) fn open_place(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::io::retry_on_intr(|| openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS))
}

/// Returns whether nothing can be written through the mount of a handle.
pub(super) fn is_read_only(handle: &OwnedFd) -> bool {
    fstatvfs(handle).is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::RDONLY))
}

fn is_link(handle: &OwnedFd) -> bool {
    fstat(handle).is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink)
}

fn look(handle: &impl AsFd) -> rustix::io::Result<Statx> {
    statx(handle, c"", AtFlags::EMPTY_PATH, StatxFlags::INO | StatxFlags::MNT_ID)
}

fn device_of(found: &Statx) -> u64 {
    makedev(found.stx_dev_major, found.stx_dev_minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_in_place_of_a_held_file_exposes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap().join("a");
        let state = || ProtectedMount { path: JsonPath(path.clone()), kind: MountKind::ReadOnly }.state();
        assert_eq!(state(), MountState::Missing);
        std::fs::write(&path, "").unwrap();
        assert_eq!(state(), MountState::Exposed);
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(directory.path(), &path).unwrap();
        assert_eq!(state(), MountState::Missing);
    }
}
