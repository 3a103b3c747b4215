//! Identity of a directory, whatever its path: what a user has decided about a workspace doesn't hold for another directory
//! that takes its place later.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryIdentity {
    device: u64,
    inode: u64,
    /// Creation time, in nanoseconds since the Unix epoch: a new directory often gets the inode of a removed one. None
    /// where the file system, or the version that has kept this, doesn't tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created: Option<u64>,
}

impl DirectoryIdentity {
    /// Reads the identity of the directory at a path.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn read(directory: &Path) -> io::Result<Self> {
        let found = fs::metadata(directory)?;
        let since = found.created().ok().and_then(|created| created.duration_since(UNIX_EPOCH).ok());
        let created = since.and_then(|since| u64::try_from(since.as_nanos()).ok());
        Ok(Self { device: found.dev(), inode: found.ino(), created })
    }

    /// Returns whether both are of one directory, as far as both tell. The number of a device may be another one after the
    /// file system was remounted, so it only counts where nothing tells when the directory was created.
    pub fn is_same(self, other: Self) -> bool {
        let is_of_one_time = match (self.created, other.created) {
            (Some(one), Some(other)) => one == other,
            _ => self.device == other.device,
        };
        self.inode == other.inode && is_of_one_time
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Much more than the clock of a file system takes for a step.
    const DEADLINE: Duration = Duration::from_secs(30);

    #[test]
    fn a_new_directory_is_another_one_though_it_has_the_inode_of_a_removed_one() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("work");
        fs::create_dir(&path).unwrap();
        let trusted = DirectoryIdentity::read(&path).unwrap();
        fs::write(path.join("file"), "").unwrap();
        assert!(trusted.is_same(DirectoryIdentity::read(&path).unwrap()), "it stays itself when it changes");
        let begun = Instant::now();
        loop {
            fs::remove_dir_all(&path).unwrap();
            fs::create_dir(&path).unwrap();
            let new = DirectoryIdentity::read(&path).unwrap();
            // Until the clock of the file system has gone on; one that doesn't tell the time tells none at all.
            if new.created.is_none() || !trusted.is_same(new) {
                break;
            }
            assert!(begun.elapsed() < DEADLINE, "{trusted:?} {new:?}");
        }
    }

    #[test]
    fn where_one_does_not_tell_when_it_was_created_device_and_inode_decide() {
        let known = DirectoryIdentity { device: 1, inode: 2, created: Some(3) };
        let of_earlier_version: DirectoryIdentity =
            serde_json::from_str(r#"{ "device": 1, "inode": 2 }"#).unwrap();
        assert!(of_earlier_version.is_same(known) && known.is_same(of_earlier_version));
        assert!(!known.is_same(DirectoryIdentity { created: Some(4), ..known }));
        assert!(!known.is_same(DirectoryIdentity { inode: 4, ..of_earlier_version }));
        assert!(!known.is_same(DirectoryIdentity { device: 4, ..of_earlier_version }));
    }

    #[test]
    fn a_directory_stays_itself_when_its_file_system_is_mounted_as_another_device() {
        let known = DirectoryIdentity { device: 1, inode: 2, created: Some(3) };
        assert!(known.is_same(DirectoryIdentity { device: 4, ..known }));
        assert!(!known.is_same(DirectoryIdentity { device: 4, inode: 5, ..known }));
        assert!(!known.is_same(DirectoryIdentity { device: 4, created: Some(5), ..known }));
    }
}
