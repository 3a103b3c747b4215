//! Digests of files on disk, computed again only for a file whose metadata changed.
//!
//! It watches nothing: who wants to know asks. Text in editors is [`super::documents`]' business.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Workspace;
use super::encoding::TextEncoding;
use super::file::{Contents, FileText, read_disk};
use super::read_access::ReadAccess;
use super::resolver::Purpose;
use roo_protocol::ids::Digest;

/// The largest file that is looked at, in bytes.
const MAX_FILE_BYTES: u64 = 8 << 20;
/// The most files that are remembered.
const REMEMBERED: usize = 4096;
/// A file that changed more recently may change again without its times showing it, on file systems that count seconds.
const UNSETTLED: Duration = Duration::from_secs(2);

/// What was found at the names of files.
#[derive(Debug, Default)]
pub(super) struct DiskDigests {
    known: Mutex<HashMap<String, Known>>,
}

#[derive(Clone, Debug)]
struct Known {
    path: PathBuf,
    stamp: Stamp,
    digests: FileDigests,
}

/// The digest of a file's bytes, and of the text that they encode.
#[derive(Clone, Copy, Debug)]
struct FileDigests {
    whole: Digest,
    text: Digest,
}

impl FileDigests {
    fn from_bytes(bytes: Vec<u8>) -> Self {
        match Contents::from_bytes(bytes) {
            Contents::Text(file) if !file.lossy && file.encoding != TextEncoding::UTF_8 => {
                Self { whole: file.digest, text: Digest::of(&file.text) }
            }
            Contents::Text(FileText { digest, .. }) | Contents::Binary { digest, .. } => {
                Self { whole: digest, text: digest }
            }
        }
    }

    fn is(self, digest: Digest) -> bool {
        self.whole == digest || self.text == digest
    }
}

/// Metadata that change with a file's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
    /// Time of the last change of content or metadata, which programs can't set.
    changed: (i64, i64),
}

impl From<&Metadata> for Stamp {
    fn from(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl Stamp {
    /// True if a later change must give another stamp.
    fn is_settled(&self, now: SystemTime) -> bool {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let changed = u64::try_from(self.changed.0).map_or(Duration::ZERO, Duration::from_secs);
        changed + UNSETTLED < now
    }
}

impl DiskDigests {
    /// Returns whether the file of this name, see [`super::Resolved::display`], has other content than this digest's.
    /// Not for what is no readable file of at most 8 MiB: it may be gone, hidden or a directory by now. Looks at the
    /// disk.
    pub(super) fn differs(&self, workspace: &Workspace, name: &str, digest: Digest) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        if let Some(known) = &known
            && fs::symlink_metadata(&known.path).is_ok_and(|metadata| Stamp::from(&metadata) == known.stamp)
        {
            return !known.digests.is(digest);
        }
        self.look(workspace, name, SystemTime::now()).is_some_and(|digests| !digests.is(digest))
    }

    fn look(&self, workspace: &Workspace, name: &str, now: SystemTime) -> Option<FileDigests> {
        let file = workspace.resolve(name, Purpose::Read).ok()?;
        if workspace.read_access(&file) == ReadAccess::Ignored {
            return None;
        }
        let path = file.absolute().to_owned();
        // Before the content is read, so that a change in between shows later.
        let metadata = fs::symlink_metadata(&path).ok().filter(Metadata::is_file)?;
        let digests = FileDigests::from_bytes(read_disk(&file, MAX_FILE_BYTES).ok()?);
        let stamp = Stamp::from(&metadata);
        if stamp.is_settled(now) {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if known.len() >= REMEMBERED {
                known.clear();
            }
            known.insert(name.to_owned(), Known { path, stamp, digests });
        }
        Some(digests)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use roo_text::position::Encoding;

    use super::super::Setup;
    use super::*;

    fn stamp(seconds: i64) -> Stamp {
        Stamp { device: 1, inode: 2, length: 3, modified: (0, 0), changed: (seconds, 0) }
    }

    #[test]
    fn a_file_that_changed_just_now_is_read_again() {
        let now = UNIX_EPOCH + Duration::from_secs(100);
        assert!(stamp(97).is_settled(now));
        assert!(!stamp(98).is_settled(now), "its next change may be within the same second");
        assert!(!stamp(101).is_settled(now), "a clock that is ahead");
    }

    #[test]
    fn what_is_known_of_a_file_holds_until_it_changes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.txt");
        fs::write(&path, "one\n").unwrap();
        let workspace = Workspace::open(Setup {
            folders: vec![directory.path().to_owned()],
            state_directory: directory.path().join("state"),
            documents: Arc::default(),
            editor: None,
            encoding: Encoding::Utf8,
        })
        .unwrap();
        let digests = DiskDigests::default();
        let later = SystemTime::now() + Duration::from_secs(10);
        digests.look(&workspace, "a.txt", later).unwrap();
        assert!(digests.known.lock().unwrap().contains_key("a.txt"));
        assert!(!digests.differs(&workspace, "a.txt", Digest::of("one\n")));
        // Another file of the same length in its place.
        fs::write(directory.path().join("b.txt"), "new\n").unwrap();
        fs::rename(directory.path().join("b.txt"), &path).unwrap();
        assert!(digests.differs(&workspace, "a.txt", Digest::of("one\n")));
        fs::remove_file(&path).unwrap();
        assert!(!digests.differs(&workspace, "a.txt", Digest::of("one\n")), "it is gone");
    }

    #[test]
    fn a_byte_order_mark_may_be_missing() {
        let digests = FileDigests::from_bytes("\u{feff}one\n".into());
        assert!(digests.is(Digest::of("one\n")) && digests.is(Digest::of("\u{feff}one\n")));
        assert!(!digests.is(Digest::of("two\n")));
    }
}
