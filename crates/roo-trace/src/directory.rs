//! The directory of the trace: its files and its lock, on a disk that tests can simulate.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use roo_durable::disk::{Disk, DiskFile, HeldLock, RealDisk};

/// The directory in which one workspace's trace is kept, for the user alone.
///
/// ```text
/// 00000001.jsonl …           the records, in segments; each begins with a header
/// 00000001.jsonl.torn-<n>    a torn tail, moved away when it was found
/// head                       the newest record, written after each append
/// anchors.jsonl              heads that were signed, one every few hundred records
/// key                        the key that signs them: Ed25519, PKCS#8
/// lock                       held during an append
/// ```
#[derive(Clone, Debug)]
pub(super) struct TraceDirectory {
    path: PathBuf,
    disk: Arc<dyn Disk>,
}

impl TraceDirectory {
    /// Below the state directory of a workspace.
    pub(super) fn new(state_directory: &Path) -> Self {
        Self::on(Arc::new(RealDisk), state_directory)
    }

    /// The directory below a state directory of this disk.
    pub(super) fn on(disk: Arc<dyn Disk>, state_directory: &Path) -> Self {
        Self { path: state_directory.join("trace"), disk }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn disk(&self) -> &dyn Disk {
        self.disk.as_ref()
    }

    pub(super) fn segment(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:08}.jsonl"))
    }

    pub(super) fn head(&self) -> PathBuf {
        self.path.join("head")
    }

    pub(super) fn anchors(&self) -> PathBuf {
        self.path.join("anchors.jsonl")
    }

    pub(super) fn key(&self) -> PathBuf {
        self.path.join("key")
    }

    pub(super) fn exists(&self) -> io::Result<bool> {
        self.disk.exists(&self.path)
    }

    /// The numbers of the segments, in order.
    pub(super) fn segments(&self) -> io::Result<Vec<u64>> {
        let names = match self.disk.names(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
            names => names?,
        };
        let number = |name: String| {
            let digits = name.strip_suffix(".jsonl").filter(|digits| digits.len() >= 8)?;
            digits.parse::<u64>().ok()
        };
        let mut found: Vec<u64> = names.into_iter().filter_map(number).collect();
        found.sort_unstable();
        Ok(found)
    }

    /// Waits until no other process appends. Creates the directory if it is missing. The system releases the lock when
    /// its process ends.
    pub(super) fn lock(&self) -> io::Result<HeldLock> {
        loop {
            self.disk.create_directories_durably(&self.path)?;
            match self.disk.lock(&self.path.join("lock")) {
                // The directory was removed meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                locked => return locked,
            }
        }
    }

    /// Syncs the directory, so that its names survive power loss.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.disk.sync(&self.path)
    }

    /// Opens a file for appending: creates it if `new`, else it has to exist.
    pub(super) fn open(&self, path: PathBuf, new: bool) -> io::Result<Appender> {
        Ok(Appender { file: self.disk.open(&path, new)?, path })
    }

    /// Reads a segment from an offset on.
    pub(super) fn read_segment(&self, number: u64, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        self.disk.read(&self.segment(number), offset)
    }

    /// The length of a segment in bytes.
    pub(super) fn segment_length(&self, number: u64) -> io::Result<u64> {
        self.disk.length(&self.segment(number))
    }
}

/// A file that lines are appended to.
#[derive(Debug)]
pub(super) struct Appender {
    file: Box<dyn DiskFile>,
    path: PathBuf,
}

impl Appender {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether its path still leads to it.
    pub(super) fn is_in_place(&self) -> bool {
        self.file.is_at(&self.path)
    }

    pub(super) fn length(&self) -> io::Result<u64> {
        self.file.length()?.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Appends bytes, which survive power loss when this returns.
    ///
    /// # Errors
    /// Those of the disk. Part of the bytes may remain; see [`Appender::truncate`].
    pub(super) fn append(&self, bytes: &[u8]) -> io::Result<()> {
        self.file.append_all(bytes)?;
        self.file.sync()
    }

    /// Truncates the file to a length, durably.
    pub(super) fn truncate(&self, length: u64) -> io::Result<()> {
        self.file.truncate(length)?;
        self.file.sync()
    }
}

/// The length of the complete lines at the beginning of `bytes`. A loss of power may leave last lines without a line
/// end, or with zero bytes, which no valid line contains.
pub(super) fn complete_lines_length(bytes: &[u8]) -> usize {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').rev();
    let torn = lines.take_while(|line| !line.ends_with(b"\n") || line.contains(&0));
    bytes.len() - torn.map(<[u8]>::len).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dangling_link_in_the_place_of_the_directory_is_an_error() {
        let state = tempfile::tempdir().unwrap();
        let directory = TraceDirectory::new(state.path());
        std::os::unix::fs::symlink("missing", directory.path()).unwrap();
        let error = directory.lock().map(drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    }
}
