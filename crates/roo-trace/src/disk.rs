//! The files of the trace: the few operations on them that have to hold when a disk fails.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

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
    #[cfg(test)]
    pub(super) faults: faults::Faults,
}

impl TraceDirectory {
    /// Below the state directory of a workspace.
    pub(super) fn new(state_directory: &Path) -> Self {
        Self {
            path: state_directory.join("trace"),
            #[cfg(test)]
            faults: faults::Faults::default(),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
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

    fn lock_file(&self) -> PathBuf {
        self.path.join("lock")
    }

    /// The numbers of the segments, in order.
    pub(super) fn segments(&self) -> io::Result<Vec<u64>> {
        let entries = match std::fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
            Err(error) => return Err(error),
        };
        let mut found = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(".jsonl"));
            let number =
                number.filter(|digits| digits.len() >= 8).and_then(|digits| digits.parse::<u64>().ok());
            found.extend(number);
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Makes the directory, with those above it.
    pub(super) fn create(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.path)
    }

    /// Makes the names in it survive power loss.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.fault("sync the directory")?;
        File::open(&self.path)?.sync_all()
    }

    /// Waits until no other process appends. The system drops the lock with its holder.
    pub(super) fn lock(&self) -> io::Result<File> {
        loop {
            let file = private().create(true).truncate(false).open(self.lock_file())?;
            match file.lock() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                locked => locked?,
            }
            // Someone may have removed the directory meanwhile: then others lock another file.
            let (ours, there) = (file.metadata()?, std::fs::metadata(self.lock_file()));
            if there.is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
                return Ok(file);
            }
            self.create()?;
        }
    }

    /// A file that is appended to.
    pub(super) fn open(&self, path: PathBuf) -> io::Result<Appender> {
        Appender::new(self, private().append(true).open(&path)?, path)
    }

    /// A new file, which must not be there yet.
    pub(super) fn create_new(&self, path: PathBuf) -> io::Result<Appender> {
        self.fault("create")?;
        Appender::new(self, private().append(true).create_new(true).open(&path)?, path)
    }

    /// Moves bytes that are no whole line out of a file, to another one beside it that tells where they stood.
    pub(super) fn move_away(&self, file: &mut Appender, from: u64) -> io::Result<PathBuf> {
        let tail = file.read_from(from)?;
        let aside = PathBuf::from(format!("{}.torn-{from}", file.path.display()));
        let mut kept = private().create(true).truncate(true).open(&aside)?;
        kept.write_all(&tail)?;
        kept.sync_all()?;
        file.truncate(from)?;
        file.sync()?;
        Ok(aside)
    }

    /// Replaces a small file of the directory; it outlives power loss.
    pub(super) fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let new = path.with_extension("new");
        let mut file = private().create(true).truncate(true).open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&new, path)?;
        self.sync()
    }

    /// Writes at a place of a file, without making it durable.
    pub(super) fn write_at(&self, path: &Path, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.fault("write the head")?;
        private().create(true).truncate(false).open(path)?.write_all_at(bytes, offset)
    }

    fn fault(&self, _doing: &'static str) -> io::Result<()> {
        #[cfg(test)]
        self.faults.hit(_doing, 0).map(drop)?;
        Ok(())
    }
}

/// For the user alone, and never by way of a link.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    // The flags of the system are small and positive.
    options.read(true).write(true).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options
}

/// A file to whose end lines are added.
#[derive(Debug)]
pub(super) struct Appender {
    file: File,
    path: PathBuf,
    #[cfg(test)]
    faults: faults::Faults,
}

impl Appender {
    #[cfg_attr(not(test), expect(unused_variables, reason = "faults come from the directory"))]
    fn new(directory: &TraceDirectory, file: File, path: PathBuf) -> io::Result<Self> {
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        Ok(Self {
            file,
            path,
            #[cfg(test)]
            faults: directory.faults.clone(),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether it is still the file of its name.
    pub(super) fn is_in_place(&self) -> bool {
        let ours = self.file.metadata().map(|found| (found.dev(), found.ino()));
        let there = std::fs::symlink_metadata(&self.path).map(|found| (found.dev(), found.ino()));
        ours.is_ok_and(|ours| there.is_ok_and(|there| there == ours))
    }

    pub(super) fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Adds bytes. What was added before an error stays; see [`Appender::truncate`].
    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        #[cfg(test)]
        if let Some(part) = self.faults.hit("append", bytes.len())? {
            self.file.write_all(&bytes[..part])?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.write_all(bytes)
    }

    /// Makes what was added survive power loss.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        #[cfg(test)]
        self.faults.hit("sync", 0)?;
        self.file.sync_data()
    }

    pub(super) fn truncate(&mut self, length: u64) -> io::Result<()> {
        #[cfg(test)]
        self.faults.hit("truncate", 0)?;
        self.file.set_len(length)
    }

    /// All from an offset on.
    pub(super) fn read_from(&mut self, offset: u64) -> io::Result<Vec<u8>> {
        let length = usize::try_from(self.length()?.saturating_sub(offset)).map_err(io::Error::other)?;
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }
}

/// A small file, whole. None when it is not there.
pub(super) fn read_small(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

#[cfg(test)]
pub(super) mod faults {
    //! A disk that fails at a chosen operation.

    use std::io;
    use std::sync::{Arc, Mutex};

    /// Injected fault.
    #[derive(Clone, Copy, Debug)]
    pub(crate) enum DiskFault {
        /// The operation fails and does nothing.
        Refused,
        /// An append writes this part of its bytes, in thousandths, and fails. Other operations are refused.
        Short(usize),
    }

    #[derive(Debug, Default)]
    struct Plan {
        /// Number of operations that succeed before the fault, and of those that then fail.
        next: Option<(usize, usize, DiskFault)>,
        count: usize,
    }

    #[derive(Clone, Debug, Default)]
    pub(crate) struct Faults(Arc<Mutex<Plan>>);

    impl Faults {
        /// Lets `times` operations fail, after `after` that succeed.
        pub(crate) fn plan(&self, after: usize, times: usize, fault: DiskFault) {
            self.0.lock().unwrap().next = Some((after, times, fault));
        }

        /// From now on the disk is well.
        pub(crate) fn clear(&self) -> usize {
            let mut plan = self.0.lock().unwrap();
            plan.next = None;
            std::mem::take(&mut plan.count)
        }

        /// Some number of bytes where only these shall be written.
        pub(super) fn hit(&self, doing: &'static str, length: usize) -> io::Result<Option<usize>> {
            let mut plan = self.0.lock().unwrap();
            plan.count += 1;
            match &mut plan.next {
                None => Ok(None),
                Some((after @ 1.., _, _)) => {
                    *after -= 1;
                    Ok(None)
                }
                Some((_, 0, _)) => Ok(None),
                Some((_, times, fault)) => {
                    *times -= 1;
                    match *fault {
                        DiskFault::Short(part) if length > 0 => Ok(Some(length * part / 1000)),
                        DiskFault::Short(_) | DiskFault::Refused => {
                            Err(io::Error::other(format!("no {doing}")))
                        }
                    }
                }
            }
        }
    }
}
