//! The directory of the trace, on a disk that can be simulated: its files, its lock, and where they are.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use roo_durable::disk::{Disk, DiskFile, Held, RealDisk};

/// The directory in which one workspace's trace is kept, for the user alone.
///
/// ```text
/// 00000001.jsonl …           the records, in segments; each begins with a header
/// 00000001.jsonl.torn-<n>    a torn tail, moved away when it was found
/// head                       the newest record, told after each append
/// anchors.jsonl              the newest record now and then, signed
/// key                        what signs them: Ed25519, PKCS#8
/// lock                       held for the time of an append
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

    /// As [`TraceDirectory::new`], on this disk.
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

    /// Waits until no other process appends, in a directory that is made if need be. The system drops the lock with
    /// its holder.
    pub(super) fn lock(&self) -> io::Result<Held> {
        loop {
            self.disk.create_directories_durably(&self.path)?;
            match self.disk.lock(&self.path.join("lock")) {
                // Someone has removed the directory meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                locked => return locked,
            }
        }
    }

    /// Makes the names in it survive power loss.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.disk.sync(&self.path)
    }

    /// A file that is appended to; one that must not be there yet where it is `new`.
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

/// A file to whose end lines are added.
#[derive(Debug)]
pub(super) struct Appender {
    file: Box<dyn DiskFile>,
    path: PathBuf,
}

impl Appender {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether it is still the file of its name.
    pub(super) fn is_in_place(&self) -> bool {
        self.file.is_at(&self.path)
    }

    pub(super) fn length(&self) -> io::Result<u64> {
        self.file.length()?.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Adds bytes that survive power loss when this returns.
    ///
    /// # Errors
    /// What the disk says. What was added may stay; see [`Appender::cut`].
    pub(super) fn append(&self, bytes: &[u8]) -> io::Result<()> {
        self.file.append_all(bytes)?;
        self.file.sync()
    }

    /// Drops all from an offset on, durably.
    pub(super) fn cut(&self, length: u64) -> io::Result<()> {
        self.file.truncate(length)?;
        self.file.sync()
    }
}

/// The length of what begins some lines and is not torn: a loss of power may leave a last line without its end, or with
/// zero bytes, which no line holds, where its beginning should be.
pub(super) fn whole_lines(bytes: &[u8]) -> usize {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').rev();
    let torn = lines.take_while(|line| !line.ends_with(b"\n") || line.contains(&0));
    bytes.len() - torn.map(<[u8]>::len).sum::<usize>()
}
