//! The log of one request.

use std::collections::{BTreeSet, VecDeque};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::disk::{Access, Disk, DiskFile, FileIdentity};
use super::line::{self, BadLine, Mark, Record};
use super::lines::{Lines, LogLine, MAX_LINE_BYTES};
use super::replace::replace_by;
use super::request_locks::RequestLock;
use super::torn_tail::keep_torn_tail;
use super::{RequestDirectory, StoreError};
use roo_protocol::ids::Digest;

/// A request's log, open for appending by the one process that holds its lock.
///
/// What is appended is kept in memory until it is synced: a disk that fails a sync may have dropped the data although
/// it can still be read, so all of it is then written again.
pub struct RequestLog {
    directory: RequestDirectory,
    /// Open from an append until all is synced and it is closed; see [`RequestLog::close`].
    file: Option<Arc<dyn DiskFile>>,
    /// Identity of the file, to recognise it.
    identity: FileIdentity,
    /// Offset after the last complete line.
    end: u64,
    /// The number of the newest record.
    last_seq: u64,
    /// The number up to which all records are known to be synced. Each record says what it was, see [`Holes`].
    synced: u64,
    /// True if part of an append that failed may follow `end`.
    is_torn: bool,
    /// How often a sync by [`cut`] has failed. One that is under way meanwhile may not tell of that.
    failed_cuts: Arc<AtomicU64>,
    /// Data not yet synced.
    unsynced: Unsynced,
    #[cfg(debug_assertions)]
    crash: CrashPoint,
    /// Held until the log is dropped.
    _lock: RequestLock,
}

/// Data that no sync has covered yet.
#[derive(Default)]
struct Unsynced {
    /// Offset after what a sync has covered, as far as that is known.
    from: u64,
    /// The unsynced bytes that this process wrote, at the end of the log.
    bytes: VecDeque<u8>,
    /// Payloads that lines in `bytes` refer to, in order.
    blobs: VecDeque<Blob>,
    /// True until the names of the log and of its ancestor directories are synced.
    names: bool,
    /// True if the directory of payloads was created since the last sync.
    blob_directory: bool,
    /// True after a failed sync, which may be that of an earlier process: unsynced data may be lost although it can be read.
    must_rewrite: bool,
}

impl Unsynced {
    fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.blobs.is_empty() && !self.names && !self.must_rewrite
    }
}

/// A payload beside the log.
#[derive(Clone)]
struct Blob {
    digest: Digest,
    /// None if an earlier process wrote it.
    text: Option<Arc<str>>,
}

/// Extent of a successful sync, for [`RequestLog::synced`].
#[derive(Debug)]
pub struct Synced {
    seq: u64,
    end: u64,
    blobs: usize,
    failed_cuts: u64,
}

impl Synced {
    /// The number of the newest record that survives power loss.
    pub fn seq(&self) -> u64 {
        self.seq
    }
}

/// Result of opening a log.
#[derive(Debug)]
pub struct Loaded<E> {
    /// The records in order.
    pub records: Vec<Record<E>>,
    /// Parts that could not be read; all other records are loaded.
    pub damage: Vec<Damage>,
}

/// Part of a log that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The last line was incomplete; it was moved to a separate file.
    TornTail {
        /// New path.
        moved_to: PathBuf,
    },
    /// A loss of power has lost a record, but not all that was appended behind it. That part was moved to a separate file, too:
    /// it was never acknowledged.
    Hole {
        /// The number of the last record before it.
        after: u64,
        /// New path.
        moved_to: PathBuf,
    },
    /// A line before the last one is not a record.
    BadLine {
        /// Counted from 1.
        line: usize,
        problem: String,
    },
    /// Records are missing, by their numbers.
    Gap {
        /// The first missing number.
        from: u64,
        /// The last missing number.
        to: u64,
    },
    /// There is no record at all, although every log is created with one.
    Empty,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TornTail { moved_to } => {
                write!(f, "the last line is incomplete; it was moved to {}", moved_to.display())
            }
            Self::Hole { after, moved_to } => write!(
                f,
                "what was written behind event {after} is incomplete, as after a loss of power; it was moved to {}",
                moved_to.display()
            ),
            Self::BadLine { line, problem } => write!(f, "line {line} can't be read: {problem}"),
            Self::Gap { from, to } => write!(f, "the records {from} to {to} are missing"),
            Self::Empty => f.write_str("it holds no record"),
        }
    }
}

impl RequestLog {
    /// Creates the log of a new request.
    ///
    /// # Errors
    /// [`StoreError::Io`] when the directory can't be created or written.
    pub fn create(directory: RequestDirectory) -> Result<Self, StoreError> {
        directory.create()?;
        let lock = directory.lock()?;
        let path = directory.log();
        let file = directory.disk().open(&path, true).map_err(StoreError::io("create", &path))?;
        let identity = file.identity().map_err(StoreError::io("look at", &path))?;
        let unsynced = Unsynced { names: true, ..Unsynced::default() };
        Ok(Self::over(directory, identity, Extent::default(), unsynced, lock))
    }

    /// Opens the log of an earlier request to continue it. Its writer may have ended before a sync, or after one that failed, so
    /// the next sync writes again what isn't known to be synced.
    ///
    /// # Errors
    /// [`StoreError::Held`] when another process runs the request, else [`StoreError::Io`].
    pub fn open<E: DeserializeOwned>(directory: RequestDirectory) -> Result<(Self, Loaded<E>), StoreError> {
        let mut records = Vec::new();
        let (log, damage) = Self::replay(directory, |record| records.push(record))?;
        Ok((log, Loaded { records, damage }))
    }

    /// Opens the log of an earlier request, as [`RequestLog::open`], and gives its records to `take`, one after another.
    /// Returns the parts that could not be read.
    ///
    /// # Errors
    /// As [`RequestLog::open`].
    pub fn replay<E: DeserializeOwned>(
        directory: RequestDirectory,
        take: impl FnMut(Record<E>),
    ) -> Result<(Self, Vec<Damage>), StoreError> {
        let lock = directory.lock()?;
        let path = directory.log();
        let disk = Arc::clone(directory.disk());
        let file = disk.open(&path, false).map_err(StoreError::io("open", &path))?;
        let mut scan = Scan::new(&directory, take).map_err(StoreError::io("read", &path))?;
        let Extent { end, last_seq, .. } = scan.extent;
        if scan.tail != Tail::Whole {
            let moved_to = keep_torn_tail(disk.as_ref(), &path, end)
                .map_err(StoreError::io("move the torn tail of", &path))?;
            cut(disk.as_ref(), file.as_ref(), &path, end)?;
            scan.damage.push(match scan.tail {
                Tail::Hole => Damage::Hole { after: last_seq, moved_to },
                Tail::Torn | Tail::Whole => Damage::TornTail { moved_to },
            });
        }
        if last_seq == 0 && scan.damage.is_empty() {
            // A log is created with its first records, so another program emptied it.
            scan.damage.push(Damage::Empty);
        }
        let blobs: BTreeSet<Digest> = scan.uncertain.into_iter().flat_map(|record| record.blobs).collect();
        let blobs = blobs.into_iter().map(|digest| Blob { digest, text: None }).collect();
        let (from, must_rewrite) = (scan.certain, scan.certain < end);
        let unsynced = Unsynced { from, names: true, blobs, must_rewrite, ..Unsynced::default() };
        let identity = file.identity().map_err(StoreError::io("look at", &path))?;
        let log = Self::over(directory, identity, scan.extent, unsynced, lock);
        Ok((log, scan.damage))
    }

    fn over(
        directory: RequestDirectory,
        identity: FileIdentity,
        Extent { end, last_seq, synced }: Extent,
        unsynced: Unsynced,
        lock: RequestLock,
    ) -> Self {
        Self {
            directory,
            file: None,
            identity,
            end,
            last_seq,
            synced,
            is_torn: false,
            failed_cuts: Arc::default(),
            unsynced,
            #[cfg(debug_assertions)]
            crash: CrashPoint::from_environment(),
            _lock: lock,
        }
    }

    /// Returns the directory of the request.
    pub fn directory(&self) -> &RequestDirectory {
        &self.directory
    }

    /// The number of the newest record.
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// Appends records, all or none. They survive the end of the process at once, and power loss after
    /// the next sync.
    ///
    /// # Errors
    /// [`StoreError`]; the log is unchanged, and these records or others can be appended next. Until one is, a loss of power
    /// may bring some of these back.
    pub fn append<E: Serialize>(&mut self, records: &[Record<E>]) -> Result<(), StoreError> {
        let mut bytes = Vec::new();
        let mut blobs = Vec::new();
        let mut last_seq = self.last_seq;
        for record in records {
            if record.seq != last_seq + 1 {
                return Err(StoreError::Sequence { expected: last_seq + 1, found: record.seq });
            }
            last_seq = record.seq;
            let begin = bytes.len();
            line::encode(record, self.synced, &mut bytes, |digest, text| {
                blobs.push((digest, Arc::from(text)))
            })?;
            let length = bytes.len() - begin;
            if length > MAX_LINE_BYTES {
                return Err(StoreError::TooLong { length });
            }
        }
        for (digest, text) in blobs {
            self.write_blob(digest, text)?;
        }
        let file = self.file()?;
        self.cut_torn_tail(file.as_ref())?;
        if let Err(error) = file.append_all(&bytes) {
            // A partial line has to go, or the next append would continue it, and so have whole ones.
            self.is_torn = true;
            // If this fails too, the next append does it first.
            let _ = self.cut_torn_tail(file.as_ref());
            return Err(StoreError::io("write", &self.directory.log())(error));
        }
        self.end += bytes.len() as u64;
        self.last_seq = last_seq;
        self.unsynced.bytes.extend(&bytes);
        #[cfg(debug_assertions)]
        self.crash.count();
        Ok(())
    }

    /// The log's file, opened if necessary.
    fn file(&mut self) -> Result<Arc<dyn DiskFile>, StoreError> {
        if let Some(file) = &self.file {
            return Ok(Arc::clone(file));
        }
        let path = self.directory.log();
        let gone = || StoreError::Changed { path: path.clone(), length: None, expected: self.end };
        let file: Arc<dyn DiskFile> = match self.directory.disk().open(&path, false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(gone()),
            file => file.map_err(StoreError::io("open", &path))?.into(),
        };
        if file.identity().map_err(StoreError::io("look at", &path))? != self.identity {
            return Err(gone());
        }
        self.check_end(file.as_ref())?;
        self.file = Some(Arc::clone(&file));
        Ok(file)
    }

    /// Returns whether it holds a descriptor.
    pub fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// Closes the file and frees what was kept to write it again, if everything is synced; before that, nobody would learn
    /// of a failure of the disk. The next append opens it again.
    pub fn close(&mut self) {
        if self.unsynced.is_empty() && !self.is_torn {
            self.file = None;
            self.unsynced.bytes = VecDeque::new();
            self.unsynced.blobs = VecDeque::new();
        }
    }

    /// Removes what a failed append has written, if there is anything.
    fn cut_torn_tail(&mut self, file: &dyn DiskFile) -> Result<(), StoreError> {
        if self.is_torn {
            if self.check_end(file)? > self.end {
                let done = cut(self.directory.disk().as_ref(), file, &self.directory.log(), self.end);
                if done.is_err() {
                    self.failed_cuts.fetch_add(1, Ordering::Relaxed);
                    self.unsynced.must_rewrite = true;
                }
                done?;
            }
            self.is_torn = false;
        }
        Ok(())
    }

    /// Checks that no other program has appended to the log, truncated it or removed it. Returns its length.
    fn check_end(&self, file: &dyn DiskFile) -> Result<u64, StoreError> {
        let path = self.directory.log();
        match file.length().map_err(StoreError::io("look at", &path))? {
            Some(length) if length == self.end || (length > self.end && self.is_torn) => Ok(length),
            length => Err(StoreError::Changed { path, length, expected: self.end }),
        }
    }

    /// Returns a function that makes everything appended until now survive power loss. It blocks, and only one may run
    /// at a time. Pass its result to [`RequestLog::synced`], or call [`RequestLog::sync_failed`]. A log that another
    /// program has changed is an error, so that nothing is done on account of it.
    pub fn sync_handle(&mut self) -> impl FnOnce() -> Result<Synced, StoreError> + Send + use<> {
        let opened = self.file().and_then(|file| self.check_end(file.as_ref()).map(|_| file));
        let failed_cuts = Arc::clone(&self.failed_cuts);
        let unsynced = &self.unsynced;
        let blobs: Vec<Blob> = unsynced.blobs.iter().cloned().collect();
        let synced = Synced {
            seq: self.last_seq,
            end: self.end,
            blobs: blobs.len(),
            failed_cuts: failed_cuts.load(Ordering::Relaxed),
        };
        let must_rewrite = unsynced.must_rewrite;
        let bytes: Vec<u8> = if must_rewrite { unsynced.bytes.iter().copied().collect() } else { Vec::new() };
        let (from, names, new_blob_directory) = (unsynced.from, unsynced.names, unsynced.blob_directory);
        let directory = self.directory.clone();
        move || {
            let file = opened?;
            let disk = directory.disk();
            let sync = |path: &Path| disk.sync(path).map_err(StoreError::io("sync", path));
            for blob in &blobs {
                if must_rewrite {
                    // The blob that it replaces may be durable, so this one has to be first.
                    blob.put(&directory, |temporary| disk.sync(temporary))?;
                }
                sync(&directory.blob(blob.digest))?;
            }
            if !blobs.is_empty() {
                sync(&directory.blobs())?;
            }
            if new_blob_directory {
                sync(directory.path())?;
            }
            let path = directory.log();
            if must_rewrite {
                let earlier = synced.end - from - bytes.len() as u64;
                let mut all = read_exactly(disk.as_ref(), &path, from, earlier)?;
                all.extend(bytes);
                disk.rewrite(&path, from, &all).map_err(StoreError::io("write again", &path))?;
                if read_exactly(disk.as_ref(), &path, from, all.len() as u64)? != all {
                    return Err(StoreError::io("write again", &path)(io::ErrorKind::InvalidData.into()));
                }
            } else {
                file.sync().map_err(StoreError::io("sync", &path))?;
            }
            if failed_cuts.load(Ordering::Relaxed) != synced.failed_cuts {
                return Err(StoreError::io("sync", &path)(io::Error::other("another sync of it has failed")));
            }
            // The name of a new log has to be durable too.
            if names {
                directory.sync()?;
            }
            Ok(synced)
        }
    }

    /// Records that a sync has succeeded.
    pub fn synced(&mut self, synced: &Synced) {
        self.synced = self.synced.max(synced.seq);
        let newer = usize::try_from(self.end.saturating_sub(synced.end)).unwrap_or(usize::MAX);
        let unsynced = &mut self.unsynced;
        unsynced.from = synced.end;
        unsynced.bytes.drain(..unsynced.bytes.len().saturating_sub(newer));
        unsynced.blobs.drain(..synced.blobs.min(unsynced.blobs.len()));
        unsynced.names = false;
        // If the directory was created after that sync, it has payloads that wait for the next one.
        unsynced.blob_directory &= !unsynced.blobs.is_empty();
        unsynced.must_rewrite = self.failed_cuts.load(Ordering::Relaxed) != synced.failed_cuts;
        if unsynced.bytes.is_empty() {
            unsynced.bytes.shrink_to(MAX_KEPT_CAPACITY_BYTES);
        }
    }

    /// Records that a sync has failed; the next one writes all unsynced data again.
    pub fn sync_failed(&mut self) {
        self.unsynced.must_rewrite = true;
    }

    fn write_blob(&mut self, digest: Digest, text: Arc<str>) -> Result<(), StoreError> {
        if self.unsynced.blobs.iter().any(|blob| blob.digest == digest) {
            return Ok(());
        }
        self.unsynced.blob_directory |= self.directory.create_blobs()?;
        let blob = Blob { digest, text: Some(text) };
        // After a loss of power an earlier one may have its name but not its bytes.
        let found = read_own_blob(&self.directory, digest);
        if !matches!(found, Ok(Some(_))) {
            blob.put(&self.directory, |_| Ok(()))?;
        }
        // Its writer may have ended before the sync.
        self.unsynced.blobs.push_back(blob);
        Ok(())
    }
}

/// Capacity kept for unsynced bytes, in bytes.
const MAX_KEPT_CAPACITY_BYTES: usize = 64 * 1024;

impl Blob {
    /// Writes the blob atomically.
    fn put(
        &self,
        directory: &RequestDirectory,
        secure: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<(), StoreError> {
        let path = directory.blob(self.digest);
        let text = match &self.text {
            Some(text) => Arc::clone(text),
            None => read_own_blob(directory, self.digest)
                .and_then(|text| text.map(Arc::from).ok_or_else(|| io::ErrorKind::InvalidData.into()))
                .map_err(StoreError::io("read", &path))?,
        };
        let disk = directory.disk().as_ref();
        // Another name each time: a loss of power may keep the rename and undo what was last written under the name.
        let temporary = path.with_extension(format!("{}.new", uuid::Uuid::new_v4().simple()));
        replace_by(disk, &temporary, &path, text.as_bytes(), Access::Private, secure)
            .map_err(StoreError::io("write", &path))
    }
}

/// Removes what follows a log's last record, for good: what is appended next takes the place of it, and a loss of power must not
/// mix the two. Until that is certain a first byte stays, which is no line: from it, a later writer knows that it isn't.
fn cut(disk: &dyn Disk, file: &dyn DiskFile, path: &Path, end: u64) -> Result<(), StoreError> {
    file.truncate(end + 1).map_err(StoreError::io("truncate", path))?;
    // By a descriptor of its own: each tells of a failure once, and another sync may be under way.
    disk.sync(path).map_err(StoreError::io("sync", path))?;
    file.truncate(end).map_err(StoreError::io("truncate", path))
}

/// Reads exactly `length` bytes.
fn read_exactly(disk: &dyn Disk, path: &Path, offset: u64, length: u64) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    let read = disk.read(path, offset).and_then(|file| file.take(length).read_to_end(&mut bytes));
    match read {
        Ok(count) if count as u64 == length => Ok(bytes),
        Ok(_) => Err(StoreError::io("read", path)(io::ErrorKind::UnexpectedEof.into())),
        Err(error) => Err(StoreError::io("read", path)(error)),
    }
}

/// Reads up to `limit` records of a log, without its lock, from an offset: 0, or the one that an earlier
/// call returned. Returns the offset of the next record as well. Damaged lines are skipped.
///
/// # Errors
/// [`StoreError::Io`] when the log can't be read.
pub fn read_from<E: DeserializeOwned>(
    directory: &RequestDirectory,
    offset: u64,
    limit: usize,
) -> Result<(Vec<Record<E>>, u64), StoreError> {
    let mut records = Vec::new();
    let read = |record| {
        records.push(record);
        records.len() < limit
    };
    let end = if limit == 0 { offset } else { read_while(directory, offset, read)? };
    Ok((records, end))
}

/// Reads the records of a log as [`read_from`], one after another, as long as `take` returns true. Returns where the
/// next record begins.
///
/// # Errors
/// [`StoreError::Io`] when the log can't be read.
pub fn read_while<E: DeserializeOwned>(
    directory: &RequestDirectory,
    offset: u64,
    mut take: impl FnMut(Record<E>) -> bool,
) -> Result<u64, StoreError> {
    read_lines(directory, offset, |record, _| take(record))
}

/// Reads the records of a log up to the one for which `take` returns false, with the payloads of those that are in its own
/// part. Returns where the next record begins.
pub(super) fn read_shared<E: DeserializeOwned>(
    directory: &RequestDirectory,
    mut take: impl FnMut(&Record<E>, Vec<Digest>) -> bool,
) -> Result<u64, StoreError> {
    read_lines(directory, 0, |record, digests| take(&record, digests))
}

fn read_lines<E: DeserializeOwned>(
    directory: &RequestDirectory,
    offset: u64,
    mut take: impl FnMut(Record<E>, Vec<Digest>) -> bool,
) -> Result<u64, StoreError> {
    let path = directory.log();
    let error = || StoreError::io("read", &path);
    let base = directory.base().map_err(error())?;
    let mut lines = Lines::new(directory.read_log(&base, offset).map_err(error())?, offset);
    let mut holes = Holes::new(directory, base.length());
    loop {
        let begin = lines.offset();
        let next = lines.next().map_err(error())?;
        let is_first = begin == base.length() && begin > 0;
        match next {
            Some(LogLine::Complete(line)) => {
                let mut digests = Vec::new();
                let record = decode(directory, line, |digest| digests.push(digest)).map_err(error())?;
                if begin < base.length() {
                    digests.clear();
                }
                if record.is_err() && is_first {
                    return Err(error()(no_fork()));
                }
                match &record {
                    Err(BadLine::Checksum | BadLine::Blob { .. }) => holes.damaged(begin),
                    _ if holes.is_before(line).map_err(error())? => break,
                    _ => {}
                }
                if let Ok(record) = record
                    && !take(record, digests)
                {
                    break;
                }
            }
            _ if is_first => return Err(error()(no_fork())),
            Some(LogLine::NotARecord) => holes.damaged(begin),
            // A line without a line end is still being written.
            Some(LogLine::Unfinished) | None => break,
        }
    }
    Ok(holes.begin.unwrap_or(lines.offset()))
}

/// The first record of a fork's own part says that it is a fork. Without it the request would pass for the one that it was
/// forked from.
fn no_fork() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the record of the fork is damaged")
}

/// Tells holes from other damage.
///
/// Unsynced appends may reach the disk in any order, so that a loss of power may leave a record without one before it. Such a
/// record was never acknowledged, and what it follows from is gone: it counts for nothing, with all that comes
/// behind it. Where a record was lost that was synced, as when a sector of the disk has gone bad, what follows counts. Each
/// record says up to which number all were synced when it was written; so damage is no hole where a later record says that all
/// records before the next one were synced. Records of earlier versions don't say that, and count.
struct Holes<'a> {
    directory: &'a RequestDirectory,
    /// Length of what other logs have of it, in bytes.
    shared: u64,
    /// Offset of the first damaged line in the request's own part that no whole line has followed yet.
    begin: Option<u64>,
    /// The highest number of a synced record that is found from the first damaged line on.
    synced: Option<u64>,
}

impl<'a> Holes<'a> {
    fn new(directory: &'a RequestDirectory, shared: u64) -> Self {
        Self { directory, shared, begin: None, synced: None }
    }

    /// A line at this offset is no record, or its payload is missing.
    fn damaged(&mut self, offset: u64) {
        if offset >= self.shared {
            self.begin.get_or_insert(offset);
        }
    }

    /// Returns whether there is a hole before this line, which is whole.
    fn is_before(&mut self, line: &[u8]) -> io::Result<bool> {
        let Some(begin) = self.begin else { return Ok(false) };
        let Some(mark) = line::mark(line) else { return Ok(false) };
        let is_hole = match mark.synced {
            None => false,
            Some(_) => self.synced_from(begin)? < mark.seq.saturating_sub(1),
        };
        if !is_hole {
            self.begin = None;
        }
        Ok(is_hole)
    }

    fn synced_from(&mut self, begin: u64) -> io::Result<u64> {
        if let Some(synced) = self.synced {
            return Ok(synced);
        }
        let mut lines = Lines::new(self.directory.read_log(&self.directory.base()?, begin)?, begin);
        let mut newest = 0;
        while let Some(line) = lines.next()? {
            if let LogLine::Complete(line) = line
                && let Some(Mark { synced: Some(synced), .. }) = line::mark(line)
            {
                newest = newest.max(synced);
            }
        }
        self.synced = Some(newest);
        Ok(newest)
    }
}

/// What a log has.
#[derive(Clone, Copy, Debug, Default)]
struct Extent {
    /// Offset after the last line that counts, in the request's own part.
    end: u64,
    /// The number of the last record.
    last_seq: u64,
    /// The number up to which all records are known to be synced.
    synced: u64,
}

/// What follows the last line that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tail {
    /// Nothing.
    Whole,
    /// An incomplete line.
    Torn,
    /// A hole, and whatever is behind it.
    Hole,
}

/// A record of which no later one says that it was synced.
struct Uncertain {
    seq: u64,
    /// Offset after it, in the request's own part.
    end: u64,
    /// Its payloads.
    blobs: Vec<Digest>,
}

struct Scan {
    damage: Vec<Damage>,
    /// The last records, which may not be synced.
    uncertain: VecDeque<Uncertain>,
    /// Offset after the record before them, in the request's own part.
    certain: u64,
    extent: Extent,
    tail: Tail,
}

impl Scan {
    fn new<E: DeserializeOwned>(
        directory: &RequestDirectory,
        mut take: impl FnMut(Record<E>),
    ) -> io::Result<Self> {
        let base = directory.base()?;
        let mut lines = Lines::new(directory.read_log(&base, 0)?, 0);
        let mut holes = Holes::new(directory, base.length());
        // The damage since the last whole line, and the number of a record in it whose payload is missing.
        let (mut pending, mut numbered) = (Vec::new(), 0);
        let mut damage = Vec::new();
        let (mut last_seq, mut synced, mut tail) = (0, 0, Tail::Whole);
        let (mut uncertain, mut certain) = (VecDeque::<Uncertain>::new(), 0);
        for line in 1.. {
            let begin = lines.offset();
            let is_shared = begin < base.length();
            let next = lines.next()?;
            if begin == base.length() && begin > 0 && !matches!(next, Some(LogLine::Complete(_))) {
                return Err(no_fork());
            }
            let bad = |problem: &dyn ToString| Damage::BadLine { line, problem: problem.to_string() };
            let bytes = match next {
                None => break,
                Some(LogLine::Unfinished) => {
                    tail = Tail::Torn;
                    break;
                }
                Some(LogLine::NotARecord) => {
                    holes.damaged(begin);
                    pending.push(bad(&"it is not a record: it doesn't start with `{`"));
                    continue;
                }
                Some(LogLine::Complete(bytes)) => bytes,
            };
            let mut found = Vec::new();
            let decoded = decode(directory, bytes, |digest| found.push(digest))?;
            if begin == base.length() && begin > 0 && decoded.is_err() {
                return Err(no_fork());
            }
            if let Err(problem @ (BadLine::Checksum | BadLine::Blob { .. })) = &decoded {
                holes.damaged(begin);
                // Without the checksum its number can't be trusted.
                if let BadLine::Blob { seq, .. } = problem {
                    numbered = *seq;
                }
                pending.push(bad(problem));
                continue;
            }
            if holes.is_before(bytes)? {
                break;
            }
            damage.append(&mut pending);
            last_seq = last_seq.max(std::mem::take(&mut numbered));
            // One of a later version whose event is not known here is damage, and no hole.
            let record = match decoded {
                Ok(record) => record,
                Err(problem) => {
                    damage.push(bad(&problem));
                    continue;
                }
            };
            if record.seq <= last_seq {
                damage.push(bad(&format!("the number {} occurs twice", record.seq)));
                continue;
            }
            if record.seq > last_seq + 1 {
                damage.push(Damage::Gap { from: last_seq + 1, to: record.seq - 1 });
            }
            last_seq = record.seq;
            synced = synced.max(line::synced_before(bytes).unwrap_or(0));
            if !is_shared {
                let end = lines.offset() - base.length();
                uncertain.push_back(Uncertain { seq: record.seq, end, blobs: found });
            }
            while let Some(record) = uncertain.front()
                && record.seq <= synced
            {
                certain = record.end;
                uncertain.pop_front();
            }
            take(record);
        }
        let mut end = lines.offset();
        if let Some(begin) = holes.begin {
            (end, tail) = (begin, Tail::Hole);
        }
        let extent = Extent { end: end - base.length(), last_seq, synced };
        Ok(Self { damage, uncertain, certain, extent, tail })
    }
}

/// Reads the payload of this digest; none when it is missing or damaged.
fn read_blob(directory: &RequestDirectory, digest: Digest) -> io::Result<Option<String>> {
    if let Some(text) = read_own_blob(directory, digest)? {
        return Ok(Some(text));
    }
    for shared in directory.shared()? {
        if let Some(text) = read_own_blob(&shared, digest)? {
            return Ok(Some(text));
        }
    }
    Ok(None)
}

fn read_own_blob(directory: &RequestDirectory, digest: Digest) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    match directory.disk().read(&directory.blob(digest), 0) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?.read_to_end(&mut bytes)?,
    };
    Ok(String::from_utf8(bytes).ok().filter(|text| Digest::of(text.as_bytes()) == digest))
}

/// Decodes a line with its payloads. A payload that can't be read for now is an error, not damage.
fn decode<E: DeserializeOwned>(
    directory: &RequestDirectory,
    line: &[u8],
    mut found: impl FnMut(Digest),
) -> io::Result<Result<Record<E>, BadLine>> {
    let mut failure = None;
    let decoded = line::decode(line, |digest| {
        let text = read_blob(directory, digest).unwrap_or_else(|error| {
            failure = Some(error);
            None
        })?;
        found(digest);
        Some(text)
    });
    failure.map_or(Ok(decoded), Err)
}

/// In debug builds: aborts the process after a number of appends, as `kill -9` would.
#[cfg(debug_assertions)]
struct CrashPoint {
    /// Number of appends left; none for no limit.
    left: Option<u64>,
}

#[cfg(debug_assertions)]
impl CrashPoint {
    fn from_environment() -> Self {
        let left = std::env::var("ROO_LSP_CRASH_AFTER_APPENDS").ok().and_then(|count| count.parse().ok());
        Self { left }
    }

    fn count(&mut self) {
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(1);
            if *left == 0 {
                std::process::abort();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use serde_json::{Value, json};

    use super::*;
    use crate::WorkspaceDirectory;
    use crate::simulated_disk::{Fault, Random, SimulatedDisk};
    use roo_protocol::ids::TaskId;

    struct Fixture {
        _root: tempfile::TempDir,
        directory: RequestDirectory,
    }

    impl Fixture {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            let workspace = WorkspaceDirectory::new(root.path(), Path::new("/somewhere"));
            let directory = workspace.request(&TaskId::new("t1"));
            Self { _root: root, directory }
        }

        fn with_records(count: u64) -> Self {
            let fixture = Self::new();
            let mut log = RequestLog::create(fixture.directory.clone()).unwrap();
            for seq in 1..=count {
                log.append(&[record(seq)]).unwrap();
            }
            fixture
        }

        fn open(&self) -> (RequestLog, Loaded<Value>) {
            RequestLog::open(self.directory.clone()).unwrap()
        }

        fn bytes(&self) -> Vec<u8> {
            fs::read(self.directory.log()).unwrap()
        }
    }

    fn record(seq: u64) -> Record<Value> {
        Record { seq, at: 0, task_id: TaskId::new("t1"), event: json!({ "n": seq }) }
    }

    fn seqs(loaded: &Loaded<Value>) -> Vec<u64> {
        loaded.records.iter().map(|record| record.seq).collect()
    }

    #[test]
    fn what_was_appended_is_there_when_opened_again() {
        let fixture = Fixture::with_records(3);
        let (mut log, loaded) = fixture.open();
        assert_eq!((seqs(&loaded), loaded.damage.len()), (vec![1, 2, 3], 0));
        log.append(&[record(4), record(5)]).unwrap();
        log.sync_handle()().unwrap();
        let (first, next) = read_from::<Value>(&fixture.directory, 0, 3).unwrap();
        assert_eq!(first, [record(1), record(2), record(3)]);
        let (rest, end) = read_from::<Value>(&fixture.directory, next, 10).unwrap();
        assert_eq!(rest, [record(4), record(5)]);
        assert_eq!(read_from::<Value>(&fixture.directory, end, 10).unwrap(), (vec![], end));
    }

    #[test]
    fn a_tail_cut_at_any_byte_loses_only_the_unfinished_line() {
        let bytes = Fixture::with_records(3).bytes();
        let last_line = bytes[..bytes.len() - 1].iter().rposition(|&b| b == b'\n').unwrap() + 1;
        for cut in last_line..bytes.len() {
            let fixture = Fixture::with_records(3);
            fs::write(fixture.directory.log(), &bytes[..cut]).unwrap();
            let (mut log, loaded) = fixture.open();
            assert_eq!(seqs(&loaded), [1, 2], "cut at {cut}");
            assert_eq!(loaded.damage.len(), usize::from(cut > last_line), "cut at {cut}");
            log.append(&[record(3)]).unwrap();
            drop(log);
            assert_eq!(seqs(&fixture.open().1), [1, 2, 3], "cut at {cut}");
        }
    }

    #[test]
    fn a_bad_line_among_synced_ones_is_reported_and_the_rest_loads() {
        let fixture = Fixture::with_records(2);
        let (mut log, _) = fixture.open();
        let synced = log.sync_handle()().unwrap();
        log.synced(&synced);
        log.append(&[record(3)]).unwrap();
        drop(log);
        let mut bytes = fixture.bytes();
        let second = bytes.iter().position(|&b| b == b'\n').unwrap() + 10;
        bytes[second] = 0;
        fs::write(fixture.directory.log(), &bytes).unwrap();
        let (mut log, loaded) = fixture.open();
        assert_eq!(seqs(&loaded), [1, 3]);
        assert_eq!(
            loaded.damage,
            [
                Damage::BadLine { line: 2, problem: "the checksum doesn't match".into() },
                Damage::Gap { from: 2, to: 2 }
            ]
        );
        log.append(&[record(4)]).unwrap();
        assert_eq!(log.last_seq(), 4);
    }

    fn request_on(disk: &SimulatedDisk) -> RequestDirectory {
        let (state, root) = (Path::new("/state"), Path::new("/work"));
        WorkspaceDirectory::on(Arc::new(disk.clone()), state, root).request(&TaskId::new("t1"))
    }

    #[test]
    fn the_first_request_survives_where_all_directories_above_it_are_new() {
        let directory_on = |disk: &SimulatedDisk| {
            let (state, root) = (Path::new("/home/me/.local/state/roo-lsp"), Path::new("/work"));
            WorkspaceDirectory::on(Arc::new(disk.clone()), state, root).request(&TaskId::new("t1"))
        };
        let (io, denied) = (rustix::io::Errno::IO.raw_os_error(), rustix::io::Errno::ACCESS.raw_os_error());
        for failing in 0.. {
            let disk = SimulatedDisk::new();
            let mut log = RequestLog::create(directory_on(&disk)).unwrap();
            log.append(&[record(1)]).unwrap();
            let mut syncs = 0;
            disk.plan(move |_, call| {
                syncs += usize::from(call == "sync");
                (call == "sync" && syncs == failing + 1).then_some(Fault::Errno(io))
            });
            let failed = log.sync_handle()().map(|synced| log.synced(&synced));
            disk.heal();
            if failed.is_err() {
                log.sync_failed();
                let synced = log.sync_handle()().unwrap();
                log.synced(&synced);
            }
            for seed in 0..50 {
                let left = disk.after_power_loss(disk.operations(), &mut Random::new(seed));
                let opened = RequestLog::open::<Value>(directory_on(&left));
                let (_, loaded) = opened.unwrap_or_else(|error| panic!("sync {failing} failed: {error}"));
                assert_eq!(seqs(&loaded), [1], "sync {failing} failed");
            }
            if failed.is_ok() {
                // The log, its directory, and nine above that.
                assert_eq!(failing, 11);
                break;
            }
        }
        // What is not the user's can't be opened, and holds nothing new.
        let disk = SimulatedDisk::new();
        let mut log = RequestLog::create(directory_on(&disk)).unwrap();
        log.append(&[record(1)]).unwrap();
        let mut syncs = 0;
        disk.plan(move |_, call| {
            syncs += usize::from(call == "sync");
            (call == "sync" && syncs == 11).then_some(Fault::Errno(denied))
        });
        log.sync_handle()().unwrap();
    }

    #[test]
    fn what_the_failed_sync_of_an_earlier_writer_has_lost_is_written_again() {
        let long =
            |seq: u64| Record { event: json!({ "text": format!("{seq}").repeat(40_000) }), ..record(seq) };
        for failing in 1.. {
            let disk = SimulatedDisk::new();
            let mut log = RequestLog::create(request_on(&disk)).unwrap();
            log.append(&[record(1), long(2)]).unwrap();
            let synced = log.sync_handle()().unwrap();
            log.synced(&synced);
            log.append(&[record(3), long(4), record(5)]).unwrap();
            let mut syncs = 0;
            disk.plan(move |_, call| {
                syncs += usize::from(call == "sync");
                (call == "sync" && syncs == failing).then_some(Fault::SyncLost)
            });
            let failed = log.sync_handle()().is_err();
            disk.heal();
            drop(log);
            let (mut log, loaded) = RequestLog::open::<Value>(request_on(&disk)).unwrap();
            assert_eq!(seqs(&loaded), [1, 2, 3, 4, 5]);
            log.append(&[record(6)]).unwrap();
            let synced = log.sync_handle()().unwrap();
            log.synced(&synced);
            for seed in 0..50 {
                let left = disk.after_power_loss(disk.operations(), &mut Random::new(seed));
                let (_, loaded) = RequestLog::open::<Value>(request_on(&left)).unwrap();
                assert_eq!(
                    (seqs(&loaded), loaded.damage),
                    (vec![1, 2, 3, 4, 5, 6], vec![]),
                    "sync {failing}"
                );
            }
            if !failed {
                // That of the payload, of its directory, and of the log.
                assert_eq!(failing, 4);
                break;
            }
        }
    }

    #[test]
    fn behind_a_hole_of_a_loss_of_power_nothing_counts() {
        let disk = SimulatedDisk::new();
        let mut log = RequestLog::create(request_on(&disk)).unwrap();
        log.append(&[record(1)]).unwrap();
        let synced = log.sync_handle()().unwrap();
        log.synced(&synced);
        let begun = disk.operations();
        for seq in 2..=4 {
            // The third has a payload beside the log.
            let text = if seq == 3 { "x".repeat(40_000) } else { String::new() };
            log.append(&[Record { event: json!({ "n": seq, "text": text }), ..record(seq) }]).unwrap();
        }
        let (mut holes, mut states) = (0, 0);
        for (operations, left) in disk.every_power_loss(begun) {
            let place = format!("state {states}, after {operations} operations");
            let path = log.directory().log();
            let before = left.bytes(&path).unwrap();
            let read: Vec<u64> = {
                let directory = request_on(&left);
                let (records, end) = read_from::<Value>(&directory, 0, 10).unwrap();
                assert_eq!(read_from::<Value>(&directory, end, 10).unwrap(), (vec![], end), "{place}");
                records.iter().map(|record| record.seq).collect()
            };
            let (mut log, loaded) = RequestLog::open::<Value>(request_on(&left)).unwrap();
            let last = loaded.records.len() as u64;
            assert!(last >= 1 && seqs(&loaded) == (1..=last).collect::<Vec<_>>(), "{place}: {loaded:?}");
            assert_eq!(read, seqs(&loaded), "{place}: a reader sees what the next writer goes on from");
            let kept = left.bytes(&path).unwrap();
            match loaded.damage.as_slice() {
                [] => assert_eq!(kept, before, "{place}"),
                [Damage::Hole { moved_to, .. } | Damage::TornTail { moved_to }] => {
                    assert_eq!([kept, left.bytes(moved_to).unwrap()].concat(), before, "{place}");
                }
                damage => panic!("{place}: {damage:?}"),
            }
            holes += usize::from(matches!(loaded.damage.as_slice(), [Damage::Hole { .. }]));
            // What was set aside doesn't come back, whatever is written in its place.
            log.append(&[Record { event: json!("new"), ..record(last + 1) }]).unwrap();
            let mut random = Random::new(states);
            let again = left.after_power_loss(left.operations(), &mut random);
            let again = RequestLog::open::<Value>(request_on(&again)).unwrap().1;
            let is_new = again.records.get(loaded.records.len()).is_none_or(|record| record.event == "new");
            assert!(again.records.starts_with(&loaded.records) && is_new, "{place}: {again:?}");
            assert!(again.records.len() <= loaded.records.len() + 1, "{place}: {again:?}");
            states += 1;
        }
        assert!(holes > 100, "{holes} of {states}");
    }

    #[test]
    fn nothing_of_a_failed_append_comes_back_among_what_was_appended_later() {
        // Which syncs fail: that after the append, and those of another writer for the copy, for its name, and for the log.
        const FAILING: [&[i32]; 6] = [&[], &[1], &[1, 2], &[1, 3], &[1, 4], &[4]];
        let full = rustix::io::Errno::NOSPC.raw_os_error();
        let named = |seq: u64, name: &str| Record { event: json!(name), ..record(seq) };
        for (failing, reopens) in FAILING.into_iter().flat_map(|failing| [(failing, false), (failing, true)])
        {
            let place = format!("the syncs {failing:?} fail, reopens: {reopens}");
            let disk = SimulatedDisk::new();
            let mut log = RequestLog::create(request_on(&disk)).unwrap();
            log.append(&[named(1, "one")]).unwrap();
            let synced = log.sync_handle()().unwrap();
            log.synced(&synced);
            let begun = disk.operations();
            let (mut appends, mut syncs) = (0, 0);
            disk.plan(move |_, call| match call {
                "append" => {
                    appends += 1;
                    [Fault::Short, Fault::Errno(full)].get(appends - 1).copied()
                }
                "sync" => {
                    syncs += 1;
                    failing.contains(&syncs).then_some(Fault::SyncLost)
                }
                _ => None,
            });
            // Half of it is written: two whole records.
            log.append(&[2, 3, 4, 5].map(|seq| named(seq, "old"))).unwrap_err();
            let mut log = Some(log);
            for attempt in 1.. {
                assert!(attempt < 10, "{place}");
                if reopens {
                    drop(log.take());
                    log = RequestLog::open::<Value>(request_on(&disk)).ok().map(|(log, _)| log);
                }
                if let Some(log) = &mut log
                    && log.append(&[named(2, "new")]).is_ok()
                {
                    log.append(&[named(3, "new")]).unwrap();
                    break;
                }
            }
            disk.heal();
            let mut came_back = 0;
            for (operations, left) in disk.every_power_loss(begun) {
                let (_, loaded) = RequestLog::open::<Value>(request_on(&left)).unwrap();
                let events: Vec<_> =
                    loaded.records.iter().filter_map(|record| record.event.as_str()).collect();
                let is_old = ["one", "old", "old"].starts_with(&events);
                // What comes of an append isn't known before the next one.
                let may_be_old = operations < disk.operations() - 1;
                came_back += usize::from(is_old && events.len() == 3);
                assert!(
                    ["one", "new", "new"].starts_with(&events) || (may_be_old && is_old),
                    "{place}: {events:?} after {operations} operations of {}",
                    disk.operations()
                );
            }
            assert!(came_back > 0, "{place}");
            let mut log = log.unwrap();
            let synced = log.sync_handle()().unwrap();
            log.synced(&synced);
            let loaded = RequestLog::open::<Value>(request_on(&disk.synced())).unwrap().1;
            assert_eq!(loaded.records, [named(1, "one"), named(2, "new"), named(3, "new")], "{place}");
        }
    }

    #[test]
    fn a_sync_counts_for_nothing_when_one_after_a_failed_append_failed_meanwhile() {
        let io = rustix::io::Errno::IO.raw_os_error();
        for is_done_before in [false, true] {
            let disk = SimulatedDisk::new();
            let mut log = RequestLog::create(request_on(&disk)).unwrap();
            log.append(&[record(1)]).unwrap();
            let sync = log.sync_handle();
            let (mut sync, mut synced) = (Some(sync), None);
            if is_done_before {
                synced = sync.take().map(|sync| sync().unwrap());
                log.append(&[record(2)]).unwrap();
            }
            let mut appends = 0;
            disk.plan(move |_, call| match call {
                "append" => {
                    appends += 1;
                    Some(if appends == 1 { Fault::Short } else { Fault::Errno(io) })
                }
                "sync" => Some(Fault::SyncLost),
                _ => None,
            });
            log.append(&[record(log.last_seq() + 1)]).unwrap_err();
            disk.heal();
            match (sync, synced) {
                (Some(sync), _) => {
                    sync().unwrap_err();
                    log.sync_failed();
                }
                (None, synced) => log.synced(&synced.unwrap()),
            }
            let synced = log.sync_handle()().unwrap();
            log.synced(&synced);
            let loaded = RequestLog::open::<Value>(request_on(&disk.synced())).unwrap().1;
            assert_eq!(loaded.records.len() as u64, synced.seq());
        }
    }

    #[test]
    fn a_damaged_line_of_an_earlier_version_is_no_hole() {
        let fixture = Fixture::with_records(3);
        let without_marks: Vec<String> = String::from_utf8(fixture.bytes())
            .unwrap()
            .lines()
            .map(|line| {
                let body = line.split_once(",\"synced\"").unwrap().0;
                format!("{body},\"sum\":\"{:08x}\"}}\n", crc32fast::hash(body.as_bytes()))
            })
            .collect();
        let damaged = [&without_marks[0], "{}\n", &without_marks[2]].concat();
        fs::write(fixture.directory.log(), damaged).unwrap();
        let (mut log, loaded) = fixture.open();
        assert_eq!((seqs(&loaded), loaded.damage.len()), (vec![1, 3], 2));
        log.append(&[record(4)]).unwrap();
        drop(log);
        assert_eq!(seqs(&fixture.open().1), [1, 3, 4]);
    }

    #[test]
    fn a_log_is_held_until_it_is_dropped() {
        let fixture = Fixture::with_records(1);
        assert!(!fixture.directory.is_held());
        let (log, _) = fixture.open();
        assert!(fixture.directory.is_held());
        drop(log);
        assert!(!fixture.directory.is_held());
    }

    /// How many descriptors of this process lead below a directory.
    fn descriptors_below(directory: &Path) -> usize {
        let open = fs::read_dir("/proc/self/fd").unwrap();
        let targets = open.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
        targets.filter(|target| target.starts_with(directory)).count()
    }

    #[test]
    fn a_log_at_rest_holds_no_descriptor_and_goes_on_where_it_was() {
        let fixture = Fixture::new();
        let mut log = RequestLog::create(fixture.directory.clone()).unwrap();
        assert_eq!(descriptors_below(fixture.directory.path()), 0);
        log.append(&[record(1)]).unwrap();
        log.close();
        assert!(log.is_open(), "what is not synced needs the descriptor that wrote it");
        let synced = log.sync_handle()().unwrap();
        log.synced(&synced);
        log.close();
        assert!(!log.is_open());
        assert_eq!(log.unsynced.bytes.capacity(), 0);
        assert_eq!(descriptors_below(fixture.directory.path()), 0);
        log.append(&[record(2)]).unwrap();
        assert!(log.is_open());
        drop(log);
        assert_eq!(seqs(&fixture.open().1), [1, 2]);
    }

    #[test]
    fn a_log_that_was_changed_at_rest_is_not_written() {
        let changes: [fn(&Path); 4] = [
            |log| fs::write(log, [fs::read(log).unwrap().as_slice(), b"a line\n"].concat()).unwrap(),
            |log| File::options().write(true).open(log).unwrap().set_len(10).unwrap(),
            |log| fs::remove_file(log).unwrap(),
            |log| {
                let other = log.with_extension("other");
                fs::copy(log, &other).unwrap();
                fs::rename(other, log).unwrap();
            },
        ];
        for change in changes {
            let fixture = Fixture::with_records(2);
            let (mut log, _) = fixture.open();
            change(&fixture.directory.log());
            assert!(matches!(log.append(&[record(3)]), Err(StoreError::Changed { .. })));
        }
    }

    #[test]
    fn a_limit_on_open_files_is_told_as_what_it_is() {
        let disk = SimulatedDisk::new();
        let mut log = RequestLog::create(request_on(&disk)).unwrap();
        let limit = rustix::io::Errno::MFILE.raw_os_error();
        disk.plan(move |_, call| (call == "open").then_some(Fault::Errno(limit)));
        let error = log.append(&[record(1)]).unwrap_err();
        assert!(matches!(error, StoreError::TooManyOpenFiles { .. }), "{error}");
        assert!(error.to_string().contains("too many open files"), "{error}");
        disk.heal();
        log.append(&[record(1)]).unwrap();
    }

    #[test]
    fn a_log_that_an_earlier_version_drives_is_held() {
        let fixture = Fixture::with_records(1);
        let sign = fixture.directory.path().join("log.driven");
        let earlier = crate::disk::RealDisk.lock(&sign).unwrap();
        assert!(fixture.directory.is_held());
        let second = RequestLog::open::<Value>(fixture.directory.clone());
        assert!(matches!(second, Err(StoreError::Held { .. })));
        drop(earlier);
        fixture.open();
    }

    #[test]
    fn only_one_process_can_open_a_log() {
        let fixture = Fixture::with_records(1);
        let (log, _) = fixture.open();
        let second = RequestLog::open::<Value>(fixture.directory.clone());
        assert!(matches!(second, Err(StoreError::Held { .. })));
        drop(log);
        fixture.open();
    }

    #[test]
    fn a_log_that_another_program_changed_is_not_synced() {
        let changes: [fn(&Path); 3] = [
            |log| fs::write(log, [fs::read(log).unwrap().as_slice(), b"a line\n"].concat()).unwrap(),
            |log| File::options().write(true).open(log).unwrap().set_len(10).unwrap(),
            |log| fs::remove_file(log).unwrap(),
        ];
        for change in changes {
            let fixture = Fixture::with_records(2);
            let (mut log, _) = fixture.open();
            log.append(&[record(3)]).unwrap();
            let synced = log.sync_handle()().unwrap();
            log.synced(&synced);
            change(&fixture.directory.log());
            assert!(matches!(log.sync_handle()(), Err(StoreError::Changed { .. })));
        }
    }

    #[test]
    fn a_record_with_a_number_out_of_order_is_refused() {
        let fixture = Fixture::with_records(2);
        let before = fixture.bytes();
        let (mut log, _) = fixture.open();
        for seqs in [[2, 3], [4, 5], [3, 3]] {
            let refused = log.append(&seqs.map(record));
            assert!(matches!(refused, Err(StoreError::Sequence { .. })), "{seqs:?}");
        }
        assert_eq!(fixture.bytes(), before);
    }

    #[test]
    fn a_damaged_blob_is_never_taken_for_the_payload() {
        let fixture = Fixture::new();
        let mut log = RequestLog::create(fixture.directory.clone()).unwrap();
        let large = Record { event: json!({ "text": "x".repeat(40_000) }), ..record(1) };
        log.append(std::slice::from_ref(&large)).unwrap();
        drop(log);
        let (log, loaded) = fixture.open();
        assert_eq!(loaded.records, [large]);
        drop(log);
        for entry in fs::read_dir(fixture.directory.blobs()).unwrap() {
            fs::write(entry.unwrap().path(), "y").unwrap();
        }
        assert_eq!(fixture.open().1.damage.len(), 1);
    }
}
