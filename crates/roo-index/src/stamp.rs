//! State of a file on disk, kept to find out whether it has changed without reading it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Granularity of the times of common file systems, with a margin.
const GRAIN: Duration = Duration::from_millis(50);

/// Number of bytes of a stamp.
const BYTES: usize = 32;

/// Size, times and number of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp([u8; BYTES]);

impl Stamp {
    /// Of what is not on disk, or may change within the granularity of its times: no file has it.
    pub(crate) const UNSETTLED: Self = Self([0xff; BYTES]);

    /// Of a file that was looked at `now`.
    pub(crate) fn new(found: &Metadata, now: SystemTime) -> Self {
        let nanoseconds = |seconds: i64, rest: i64| seconds.wrapping_mul(1_000_000_000).wrapping_add(rest);
        let changed = nanoseconds(found.ctime(), found.ctime_nsec());
        let age = now.duration_since(UNIX_EPOCH + Duration::from_nanos(changed.unsigned_abs()));
        if !age.is_ok_and(|age| age > GRAIN) {
            return Self::UNSETTLED;
        }
        let mut bytes = [0; BYTES];
        let modified = nanoseconds(found.mtime(), found.mtime_nsec()).to_le_bytes();
        let numbers =
            [found.size().to_le_bytes(), modified, changed.to_le_bytes(), found.ino().to_le_bytes()];
        for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number);
        }
        Self(bytes)
    }

    pub(crate) fn from_bytes(bytes: [u8; BYTES]) -> Self {
        Self(bytes)
    }

    pub(crate) fn as_bytes(&self) -> &[u8; BYTES] {
        &self.0
    }

    /// Returns whether the file is surely as it was.
    pub(crate) fn is_same(self, now: Self) -> bool {
        self == now && self != Self::UNSETTLED
    }
}
