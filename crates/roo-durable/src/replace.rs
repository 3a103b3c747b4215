//! Atomic replacement of files: a reader sees the old content or the new one, also after a crash.

use std::io;
use std::path::Path;

use super::disk::{Access, Disk};

/// Creates `file` or replaces its content. It survives a loss of power when this returns. The directory must exist.
///
/// # Errors
/// Those of the disk. The file is then unchanged, or replaced if only its name could not be synced.
pub fn replace(disk: &dyn Disk, file: &Path, bytes: &[u8], access: Access) -> io::Result<()> {
    replace_checked(disk, file, bytes, access, || Ok(()))
}

/// Replaces a file as [`replace`] does, if a last check allows it: whether the file still is what the new content was
/// made from.
///
/// # Errors
/// Those of [`replace`] and of the check.
pub fn replace_checked(
    disk: &dyn Disk,
    file: &Path,
    bytes: &[u8],
    access: Access,
    check: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    // Two processes may write at once, so each uses another name.
    let temporary = file.with_extension(format!("{}.new", uuid::Uuid::new_v4().simple()));
    let secure = |temporary: &Path| disk.sync(temporary).and_then(|()| check());
    replace_by(disk, &temporary, file, bytes, access, secure)?;
    disk.sync(file.parent().unwrap_or(Path::new("/")))
}

/// Replaces a file through a temporary file of this name, without a sync: for content that can be computed again or is
/// verified when it is read.
///
/// # Errors
/// Those of the disk. The file is then unchanged.
pub fn replace_unsynced(disk: &dyn Disk, temporary: &Path, file: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_by(disk, temporary, file, bytes, Access::Private, |_| Ok(()))
}

/// Writes the temporary file, calls `secure` to sync or check it, and renames it.
pub(super) fn replace_by(
    disk: &dyn Disk,
    temporary: &Path,
    file: &Path,
    mut bytes: &[u8],
    access: Access,
    secure: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let placed = disk
        .write(temporary, &mut bytes, access)
        .and_then(|()| secure(temporary))
        .and_then(|()| disk.rename(temporary, file));
    if placed.is_err() {
        // The error is returned; the temporary file would only take up space on a disk that may be full.
        let _ = disk.remove(temporary);
    }
    placed
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::disk::RealDisk;
    use crate::simulated_disk::{Fault, SimulatedDisk};

    const FILE: &str = "/state/file";

    /// A disk that holds the old content, or none.
    fn disk_with(old: Option<&str>) -> SimulatedDisk {
        let (disk, directory) = (SimulatedDisk::new(), Path::new("/state"));
        disk.create_directory(directory).unwrap();
        disk.sync(Path::new("/")).unwrap();
        if let Some(old) = old {
            replace(&disk, Path::new(FILE), old.as_bytes(), Access::Private).unwrap();
        }
        disk
    }

    fn content(disk: &SimulatedDisk) -> Option<String> {
        disk.bytes(Path::new(FILE)).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn after_a_loss_of_power_at_any_moment_the_file_is_the_old_or_the_new_one() {
        for old in [None, Some("old and long")] {
            let disk = disk_with(old);
            let begun = disk.operations();
            replace(&disk, Path::new(FILE), b"new", Access::Private).unwrap();
            let mut found = [0, 0];
            for (operations, left) in disk.every_power_loss(begun) {
                let now = content(&left);
                let is_new = now.as_deref() == Some("new");
                assert!(is_new || now.as_deref() == old, "after {operations} operations: {now:?}");
                assert!(
                    is_new || operations < disk.operations(),
                    "the old content is left after the call returned"
                );
                found[usize::from(is_new)] += 1;
            }
            assert!(found[0] > 10 && found[1] > 0, "{found:?}");
        }
    }

    #[test]
    fn whatever_call_fails_the_file_is_the_old_or_the_new_one() {
        let disk = disk_with(Some("old"));
        disk.plan(|_, _| None);
        replace(&disk, Path::new(FILE), b"new", Access::Private).unwrap();
        for first in 0..disk.heal() {
            for fault in [Fault::Errno(28), Fault::Errno(5), Fault::Short, Fault::SyncLost] {
                let disk = disk_with(Some("old"));
                disk.plan(move |ordinal, _| (ordinal >= first).then_some(fault));
                let replaced = replace(&disk, Path::new(FILE), b"new", Access::Private);
                disk.heal();
                for left in disk.power_losses(disk.operations()).into_iter().chain([disk]) {
                    let now = content(&left).unwrap();
                    assert!(now == "new" || (now == "old" && replaced.is_err()), "{fault:?} {first}: {now}");
                }
            }
        }
    }

    #[test]
    fn a_full_disk_leaves_the_old_file_and_nothing_beside_it() {
        let mut refused = 0;
        for first in 0..6 {
            let disk = disk_with(Some("old"));
            disk.fill_from(first);
            let replaced = replace(&disk, Path::new(FILE), b"new", Access::Private);
            disk.heal();
            assert_eq!(content(&disk).unwrap(), if replaced.is_ok() { "new" } else { "old" });
            assert_eq!(disk.files(), [Path::new(FILE)]);
            refused += usize::from(replaced.is_err());
        }
        assert!(refused >= 3, "{refused}");
    }

    #[test]
    fn a_file_that_fails_the_check_is_left_unchanged() {
        let disk = disk_with(Some("theirs"));
        let check = || Err(io::Error::other("it has changed"));
        let refused = replace_checked(&disk, Path::new(FILE), b"new", Access::Shared, check).unwrap_err();
        assert_eq!(refused.to_string(), "it has changed");
        assert_eq!(content(&disk).as_deref(), Some("theirs"));
        assert_eq!(disk.files(), [Path::new(FILE)]);
    }

    #[test]
    fn replacing_takes_two_syncs_and_replacing_unsynced_none() {
        let disk = disk_with(None);
        let before = disk.syncs();
        replace(&disk, Path::new(FILE), b"new", Access::Private).unwrap();
        assert_eq!(disk.syncs() - before, 2);
        replace_unsynced(&disk, Path::new("/state/.new"), Path::new(FILE), b"newer").unwrap();
        assert_eq!((disk.syncs() - before, content(&disk).as_deref()), (2, Some("newer")));
    }

    #[test]
    fn a_link_is_replaced_and_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let (target, link) = (place.path().join("target"), place.path().join("link"));
        std::fs::write(&target, "mine").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        replace(&RealDisk, &link, b"new", Access::Private).unwrap();
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "mine");
        let found = std::fs::symlink_metadata(&link).unwrap();
        assert!(found.is_file());
        assert_eq!(found.permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 2);
    }
}
