//! Telling one state of a file from another without reading it.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Granularity of the times of common file systems, with a margin.
const TIME_GRAIN: Duration = Duration::from_millis(50);

/// Fingerprint that tells one state of a file from another without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Fingerprint {
    /// Number of bytes of [`Self::to_bytes`].
    pub const BYTES: usize = 56;

    /// Of the file that a path leads to; none when there is none.
    pub fn from_file(path: &Path) -> Option<Self> {
        Some(Self::from_metadata(&fs::metadata(path).ok()?))
    }

    /// Of a file by what was found out about it.
    pub fn from_metadata(found: &Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }

    /// The fingerprint as it can be kept on disk, for this machine.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let Self { device, inode, size, modified, changed } = self;
        let times = [modified.0, modified.1, changed.0, changed.1].map(i64::cast_unsigned);
        let numbers = [device, inode, size].into_iter().chain(times);
        let mut bytes = [0; Self::BYTES];
        for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// A fingerprint that was kept.
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let mut numbers = [0; Self::BYTES / 8];
        for (number, place) in numbers.iter_mut().zip(bytes.chunks_exact(8)) {
            let mut copied = [0; 8];
            copied.copy_from_slice(place);
            *number = u64::from_le_bytes(copied);
        }
        let [device, inode, size, times @ ..] = numbers;
        let [modified, modified_nanoseconds, changed, changed_nanoseconds] = times.map(u64::cast_signed);
        let (modified, changed) = ((modified, modified_nanoseconds), (changed, changed_nanoseconds));
        Self { device, inode, size, modified, changed }
    }

    /// Returns whether the file was left alone for long enough that a further change can't have the same times.
    pub fn is_settled(&self, now: SystemTime) -> bool {
        let age = self
            .changed_at()
            .zip(now.duration_since(UNIX_EPOCH).ok())
            .and_then(|(then, now)| now.checked_sub(then));
        age.is_some_and(|age| age > TIME_GRAIN)
    }

    /// Returns when the file was changed last, as time since the Unix epoch; none where that makes no sense.
    pub fn changed_at(&self) -> Option<Duration> {
        let (seconds, nanoseconds) = self.changed;
        let changed = u64::try_from(seconds).ok().zip(u32::try_from(nanoseconds).ok());
        changed.map(|(seconds, nanoseconds)| Duration::new(seconds, nanoseconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_settled_when_its_change_is_a_while_ago() {
        let found =
            Fingerprint { device: 1, inode: 1, size: 1, modified: (0, 0), changed: (100, 980_000_000) };
        let settled = |milliseconds| found.is_settled(UNIX_EPOCH + Duration::from_millis(milliseconds));
        assert!(!settled(100_990) && !settled(99_000) && settled(101_100));
        assert_eq!(Fingerprint::from_bytes(found.to_bytes()), found);
    }
}
