//! Contents of files by their digests, beside a request's log: what checkpoints go back to.
//!
//! A content is written once, however often it is named. It is verified when it is read, so a write needs no sync
//! before the log tells of it; [`Contents::sync`] is for whoever makes the log durable. What is removed, to keep within
//! a budget, is missed by checkpoints and by nothing else.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::disk::Disk;
use super::replace::replace_unsynced;
use roo_protocol::ids::Digest;

/// The largest content that is kept, in bytes.
pub const MAX_CONTENT_BYTES: u64 = 8 << 20;

/// The contents that one request keeps.
#[derive(Clone, Debug)]
pub struct Contents {
    directory: PathBuf,
    /// Directories of other requests that are read, too.
    earlier: Vec<PathBuf>,
    disk: Arc<dyn Disk>,
}

/// Limits on all contents of a workspace.
#[derive(Clone, Copy, Debug)]
pub struct ContentLimits {
    pub bytes: u64,
    /// Time for which a content is kept after it was last written.
    pub age: Duration,
}

/// A content that can be removed.
#[derive(Debug)]
struct Removable {
    path: PathBuf,
    bytes: u64,
    /// In nanoseconds since the Unix epoch.
    written: u64,
}

impl Contents {
    pub(super) fn new(disk: Arc<dyn Disk>, directory: PathBuf, earlier: Vec<PathBuf>) -> Self {
        Self { directory, earlier, disk }
    }

    fn path(&self, digest: Digest) -> PathBuf {
        self.directory.join(digest.hex())
    }

    /// Keeps a content, and returns its digest and whether it is new. It is not durable before [`Contents::sync`].
    ///
    /// # Errors
    /// Those of the disk.
    pub fn keep(&self, bytes: &[u8]) -> io::Result<(Digest, bool)> {
        let digest = Digest::of(bytes);
        let path = self.path(digest);
        // A loss of power may have cut it.
        if self.disk.length(&path).is_ok_and(|length| length == bytes.len() as u64) {
            return Ok((digest, false));
        }
        self.disk.create_directories(&self.directory)?;
        let temporary = path.with_extension(format!("{}.new", uuid::Uuid::new_v4().simple()));
        replace_unsynced(self.disk.as_ref(), &temporary, &path, bytes)?;
        Ok((digest, true))
    }

    /// Reads a content; none where it was removed or is damaged.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn read(&self, digest: Digest) -> io::Result<Option<Vec<u8>>> {
        for directory in std::iter::once(&self.directory).chain(&self.earlier) {
            let bytes = self.disk.read_at_most(&directory.join(digest.hex()), MAX_CONTENT_BYTES)?;
            if let Some(bytes) = bytes.filter(|bytes| Digest::of(bytes) == digest) {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }

    /// Makes contents durable, and returns the number of those that are gone: they were removed to keep within the budget,
    /// or with the whole request.
    ///
    /// # Errors
    /// Those of the disk. All of them are to be synced again then.
    pub fn sync(&self, digests: &[Digest]) -> io::Result<usize> {
        let paths: Vec<PathBuf> = digests.iter().map(|digest| self.path(*digest)).collect();
        let missing = self.disk.sync_files(&paths)?;
        if missing < digests.len() {
            self.disk.sync(&self.directory)?;
        }
        Ok(missing)
    }

    fn all(&self) -> io::Result<Vec<Removable>> {
        let names = match self.disk.names(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
            names => names?,
        };
        let mut found = Vec::new();
        for name in names {
            let path = self.directory.join(name);
            if let Ok(stamp) = self.disk.stamp(&path) {
                found.push(Removable { bytes: stamp.length, written: stamp.modified, path });
            }
        }
        Ok(found)
    }
}

/// Removes contents, the oldest first, until all requests together keep within the limits. `now` is in nanoseconds since
/// the Unix epoch. Returns the number of removed contents.
///
/// # Errors
/// Those of the disk.
pub fn expire(requests: &[Contents], limits: ContentLimits, now: u64) -> io::Result<usize> {
    let mut all = Vec::new();
    for contents in requests {
        all.extend(contents.all()?.into_iter().map(|found| (contents, found)));
    }
    all.sort_by_key(|(_, found)| std::cmp::Reverse(found.written));
    let oldest = now.saturating_sub(u64::try_from(limits.age.as_nanos()).unwrap_or(u64::MAX));
    let (mut total, mut removed) = (0_u64, 0);
    for (contents, Removable { path, bytes, written }) in all {
        total = total.saturating_add(bytes);
        if total > limits.bytes || written < oldest {
            contents.disk.remove(&path)?;
            removed += 1;
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;

    const DAY: u64 = 24 * 3600 * 1_000_000_000;

    fn contents(directory: &tempfile::TempDir, request: &str) -> Contents {
        Contents::new(Arc::new(RealDisk), directory.path().join(request).join("contents"), vec![])
    }

    fn now() -> u64 {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        u64::try_from(now.as_nanos()).unwrap()
    }

    #[test]
    fn a_content_is_written_once_and_verified_when_it_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let contents = contents(&directory, "r");
        let (digest, is_new) = contents.keep(b"text").unwrap();
        assert!(is_new);
        assert_eq!(contents.keep(b"text").unwrap(), (digest, false));
        assert_eq!(contents.read(digest).unwrap().as_deref(), Some(&b"text"[..]));
        assert_eq!(contents.sync(&[digest, Digest::of("other")]).unwrap(), 1);
        std::fs::write(contents.path(digest), b"tex!").unwrap();
        assert_eq!(contents.read(digest).unwrap(), None);
        assert_eq!(contents.read(Digest::of("other")).unwrap(), None);
    }

    #[test]
    fn a_content_that_was_cut_is_written_again() {
        let directory = tempfile::tempdir().unwrap();
        let contents = contents(&directory, "r");
        let (digest, _) = contents.keep(b"text").unwrap();
        std::fs::write(contents.path(digest), b"").unwrap();
        assert_eq!(contents.keep(b"text").unwrap(), (digest, true));
        assert_eq!(contents.read(digest).unwrap().as_deref(), Some(&b"text"[..]));
    }

    #[test]
    fn the_oldest_contents_go_first_when_there_are_too_many() {
        let directory = tempfile::tempdir().unwrap();
        let (one, two) = (contents(&directory, "1"), contents(&directory, "2"));
        let (old, _) = one.keep(b"old").unwrap();
        let file = std::fs::File::options().write(true).open(one.path(old)).unwrap();
        file.set_modified(std::time::SystemTime::now() - Duration::from_secs(60)).unwrap();
        let (new, _) = two.keep(b"new").unwrap();
        let limits = ContentLimits { bytes: 4, age: Duration::from_secs(3600) };
        assert_eq!(expire(&[one.clone(), two.clone()], limits, now()).unwrap(), 1);
        assert_eq!((one.read(old).unwrap(), two.read(new).unwrap()), (None, Some(b"new".to_vec())));
        assert_eq!(expire(&[one, two.clone()], limits, now() + DAY).unwrap(), 1);
        assert_eq!(two.read(new).unwrap(), None);
    }
}
