//! State of a file at one time: what tells it from another and from itself at another time.

use std::time::{Duration, SystemTime};

use roo_protocol::ids::Digest;

/// Largest distance of two changes of a file that its times may not tell apart.
const TICK: Duration = Duration::from_millis(20);

/// Kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    Directory,
    /// A symbolic link.
    Link,
    /// A device, pipe or socket.
    Special,
}

/// Fingerprint that tells a file from another and from itself at another time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Fingerprint {
    pub kind: Kind,
    pub mode: u32,
    pub size: u64,
    /// Seconds and nanoseconds.
    pub modified: (i64, i64),
    /// The time that nobody can set.
    pub changed: (i64, i64),
    pub inode: u64,
    pub device: u64,
}

impl Fingerprint {
    /// Of something of which nothing more is known.
    pub(super) fn of_kind(kind: Kind) -> Self {
        Self { kind, mode: 0, size: 0, modified: (0, 0), changed: (0, 0), inode: 0, device: 0 }
    }
}

/// State of a file, before or after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub kind: Kind,
    /// Its permissions, where they are known.
    pub mode: Option<u32>,
    /// In bytes; 0 for a directory, and where it is not known.
    pub size: u64,
    /// Of a file's content, where it is known.
    pub digest: Option<Digest>,
    /// Target of a link, if known.
    pub target: Option<Vec<u8>>,
    /// None where no more is known.
    pub(super) print: Option<Fingerprint>,
}

impl State {
    pub(super) fn new(print: Fingerprint, digest: Option<Digest>, target: Option<Vec<u8>>) -> Self {
        let Fingerprint { kind, mode, size, .. } = print;
        Self { kind, mode: Some(mode), size, digest, target, print: Some(print) }
    }

    /// Of something of which no more is known than what it was.
    pub(super) fn unknown(kind: Kind, mode: Option<u32>) -> Self {
        Self { kind, mode, size: 0, digest: None, target: None, print: None }
    }
}

/// Returns whether a time is so recent that a later change could bear the same.
pub(super) fn is_fresh((seconds, nanoseconds): (i64, i64)) -> bool {
    let since = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let changed = Duration::new(
        u64::try_from(seconds).unwrap_or_default(),
        u32::try_from(nanoseconds).unwrap_or_default(),
    );
    since(SystemTime::now()).saturating_sub(changed) < TICK
}
