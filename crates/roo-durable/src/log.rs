//! The log of one request.

use std::collections::{HashSet, VecDeque};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::disk::{Access, Disk, DiskFile, Held};
use super::line::{self, BadLine, Record};
use super::lines::{LONGEST_LINE, Lines, LogLine};
use super::replace::replace_by;
use super::torn_tail::keep_torn_tail;
use super::{RequestDirectory, StoreError};
use roo_protocol::ids::Digest;

/// A request's log, open for appending by the one process that holds its lock.
///
/// What is appended is kept in memory until it is synced: a disk that fails a sync may have dropped what
/// was written, though it can still be read, so that all of it is then written again.
pub struct RequestLog {
    directory: RequestDirectory,
    file: Arc<dyn DiskFile>,
    /// Everything before this offset is whole lines.
    end: u64,
    /// The number of the newest record.
    last_seq: u64,
    /// True if behind `end` may be the beginning of a line that was refused.
    is_torn: bool,
    /// Data not yet synced.
    unsynced: Unsynced,
    #[cfg(debug_assertions)]
    crash: CrashPoint,
    /// Kept for their locks, which the system drops with the process.
    _locks: Locks,
}

/// Data that no sync has covered yet.
#[derive(Default)]
struct Unsynced {
    /// From where on no sync has covered the log; where it was opened, from its beginning.
    from: u64,
    /// The last bytes of the log: those of this process.
    bytes: VecDeque<u8>,
    /// Payloads that lines in `bytes` refer to, in order.
    blobs: VecDeque<Blob>,
    /// True if the names of the log and of the directories above it are yet to be synced.
    names: bool,
    /// True if the directory of payloads was made since.
    blob_directory: bool,
    /// A sync has failed: what is unsynced may be lost though it can be read.
    is_doubtful: bool,
}

/// A payload beside the log.
#[derive(Clone)]
struct Blob {
    digest: Digest,
    /// None where an earlier process wrote it.
    text: Option<Arc<str>>,
}

/// Data that a sync has covered; for [`RequestLog::synced`].
#[derive(Debug)]
pub struct Synced {
    seq: u64,
    end: u64,
    blobs: usize,
}

impl Synced {
    /// The number of the newest record that survives power loss now.
    pub fn seq(&self) -> u64 {
        self.seq
    }
}

/// Result of opening a log.
#[derive(Debug)]
pub struct Loaded<E> {
    /// The records in order.
    pub records: Vec<Record<E>>,
    /// Parts that could not be read. The rest is there all the same.
    pub damage: Vec<Damage>,
}

/// Something in a log that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The last line was never finished; it was moved to a file of its own.
    TornTail {
        /// New path.
        moved_to: PathBuf,
    },
    /// A line in the middle is no record.
    BadLine {
        /// Counted from 1.
        line: usize,
        /// Problem.
        problem: String,
    },
    /// Records are missing, by their numbers.
    Gap {
        /// The first missing number.
        from: u64,
        /// The last missing number.
        to: u64,
    },
    /// There is no record at all, though no log is made without one.
    Empty,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TornTail { moved_to } => {
                write!(f, "the last line is incomplete; it was moved to {}", moved_to.display())
            }
            Self::BadLine { line, problem } => write!(f, "line {line} can't be read: {problem}"),
            Self::Gap { from, to } => write!(f, "the records {from} to {to} are missing"),
            Self::Empty => f.write_str("it holds no record"),
        }
    }
}

impl RequestLog {
    /// Starts the log of a new request.
    ///
    /// # Errors
    /// [`StoreError::Io`] when the directory can't be made or written.
    pub fn create(directory: RequestDirectory) -> Result<Self, StoreError> {
        directory.create()?;
        let locks = Locks::take(&directory)?;
        let path = directory.log();
        let file = directory.disk().open(&path, true).map_err(StoreError::io("create", &path))?;
        let unsynced = Unsynced { names: true, ..Unsynced::default() };
        Ok(Self::over(directory, file, (0, 0), unsynced, locks))
    }

    /// Opens the log of an earlier request, to go on with it. Whoever wrote it may have ended before it
    /// was synced: the next sync covers all of it.
    ///
    /// # Errors
    /// [`StoreError::Held`] when another process drives the request, else [`StoreError::Io`].
    pub fn open<E: DeserializeOwned>(directory: RequestDirectory) -> Result<(Self, Loaded<E>), StoreError> {
        let locks = Locks::take(&directory)?;
        let path = directory.log();
        let disk = Arc::clone(directory.disk());
        let file = disk.open(&path, false).map_err(StoreError::io("open", &path))?;
        let mut scan = Scan::new(&directory).map_err(StoreError::io("read", &path))?;
        if scan.is_torn {
            let moved_to = keep_torn_tail(disk.as_ref(), &path, scan.end)
                .map_err(StoreError::io("move the torn tail of", &path))?;
            file.truncate(scan.end).map_err(StoreError::io("truncate", &path))?;
            scan.loaded.damage.push(Damage::TornTail { moved_to });
        }
        if scan.loaded.records.is_empty() && scan.loaded.damage.is_empty() {
            // A log is made and has its first records at once: somebody else emptied it.
            scan.loaded.damage.push(Damage::Empty);
        }
        let blobs = scan.blobs.into_iter().map(|digest| Blob { digest, text: None }).collect();
        let unsynced = Unsynced { names: true, blobs, ..Unsynced::default() };
        let log = Self::over(directory, file, (scan.end, scan.last_seq), unsynced, locks);
        Ok((log, scan.loaded))
    }

    fn over(
        directory: RequestDirectory,
        file: Box<dyn DiskFile>,
        (end, last_seq): (u64, u64),
        unsynced: Unsynced,
        locks: Locks,
    ) -> Self {
        Self {
            directory,
            file: Arc::from(file),
            end,
            last_seq,
            is_torn: false,
            unsynced,
            #[cfg(debug_assertions)]
            crash: CrashPoint::from_environment(),
            _locks: locks,
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

    /// Appends records, all or none. They survive the end of the process now, and power loss after
    /// the next sync.
    ///
    /// # Errors
    /// [`StoreError`]; the log is then as it was before, and the same records can be tried again.
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
            line::encode(record, &mut bytes, |digest, text| blobs.push((digest, Arc::from(text))))?;
            let length = bytes.len() - begin;
            if length > LONGEST_LINE {
                return Err(StoreError::TooLong { length });
            }
        }
        for (digest, text) in blobs {
            self.write_blob(digest, text)?;
        }
        self.mend_tail()?;
        if let Err(error) = self.file.append_all(&bytes) {
            // A half-written line must not stay: the next append would fuse with it.
            self.is_torn = true;
            // When this fails too, it is made up for before the next append.
            let _ = self.mend_tail();
            return Err(StoreError::io("write", &self.directory.log())(error));
        }
        self.end += bytes.len() as u64;
        self.last_seq = last_seq;
        self.unsynced.bytes.extend(&bytes);
        #[cfg(debug_assertions)]
        self.crash.count();
        Ok(())
    }

    /// Cuts off what was refused of a line, if that is still to be done.
    fn mend_tail(&mut self) -> Result<(), StoreError> {
        if self.is_torn {
            self.check_end()?;
            let path = self.directory.log();
            self.file.truncate(self.end).map_err(StoreError::io("truncate", &path))?;
            self.is_torn = false;
        }
        Ok(())
    }

    /// The log ends where its last record does: nobody else has written to it, cut or removed it.
    fn check_end(&self) -> Result<(), StoreError> {
        let path = self.directory.log();
        match self.file.length().map_err(StoreError::io("look at", &path))? {
            Some(length) if length == self.end || (length > self.end && self.is_torn) => Ok(()),
            length => Err(StoreError::Changed { path, length, expected: self.end }),
        }
    }

    /// Returns what has to be synced for all that was appended until now to survive power loss: to be run where
    /// blocking is allowed, one at a time. When it has succeeded, call [`RequestLog::synced`], else
    /// [`RequestLog::sync_failed`]. A log that somebody else has changed is not synced: nothing must be done because of
    /// it.
    pub fn sync_handle(&self) -> impl FnOnce() -> Result<Synced, StoreError> + Send + use<> {
        let unsynced = &self.unsynced;
        let blobs: Vec<Blob> = unsynced.blobs.iter().cloned().collect();
        let synced = Synced { seq: self.last_seq, end: self.end, blobs: blobs.len() };
        let is_doubtful = unsynced.is_doubtful;
        let bytes: Vec<u8> = if is_doubtful { unsynced.bytes.iter().copied().collect() } else { Vec::new() };
        let (from, names, new_blob_directory) = (unsynced.from, unsynced.names, unsynced.blob_directory);
        let (file, directory) = (Arc::clone(&self.file), self.directory.clone());
        let checked = self.check_end();
        move || {
            checked?;
            let disk = directory.disk();
            let sync = |path: &Path| disk.sync(path).map_err(StoreError::io("sync", path));
            for blob in &blobs {
                if is_doubtful {
                    // What it replaces may be safe: not before this is.
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
            if is_doubtful {
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
            // The name of a new log has to survive too.
            if names {
                directory.sync()?;
            }
            Ok(synced)
        }
    }

    /// A sync has succeeded.
    pub fn synced(&mut self, synced: &Synced) {
        let newer = usize::try_from(self.end.saturating_sub(synced.end)).unwrap_or(usize::MAX);
        let unsynced = &mut self.unsynced;
        unsynced.from = synced.end;
        unsynced.bytes.drain(..unsynced.bytes.len().saturating_sub(newer));
        unsynced.blobs.drain(..synced.blobs.min(unsynced.blobs.len()));
        unsynced.names = false;
        // One that was made since has payloads in it that wait.
        unsynced.blob_directory &= !unsynced.blobs.is_empty();
        unsynced.is_doubtful = false;
        if unsynced.bytes.is_empty() {
            unsynced.bytes.shrink_to(LARGEST_KEPT);
        }
    }

    /// A sync has failed: the next one writes everything again.
    pub fn sync_failed(&mut self) {
        self.unsynced.is_doubtful = true;
    }

    fn write_blob(&mut self, digest: Digest, text: Arc<str>) -> Result<(), StoreError> {
        if self.unsynced.blobs.iter().any(|blob| blob.digest == digest) {
            return Ok(());
        }
        self.unsynced.blob_directory |= self.directory.create_blobs()?;
        let blob = Blob { digest, text: Some(text) };
        // Whoever wrote it may have lost power, and then it has a name but not its bytes.
        let found = read_blob(&self.directory, digest);
        if !matches!(found, Ok(Some(_))) {
            blob.put(&self.directory, |_| Ok(()))?;
        }
        // Or ended before its sync.
        self.unsynced.blobs.push_back(blob);
        Ok(())
    }
}

/// Capacity kept for unsynced bytes, in bytes.
const LARGEST_KEPT: usize = 64 * 1024;

impl Blob {
    /// Writes it under its name, all of it or nothing.
    fn put(
        &self,
        directory: &RequestDirectory,
        secure: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<(), StoreError> {
        let path = directory.blob(self.digest);
        let text = match &self.text {
            Some(text) => Arc::clone(text),
            None => read_blob(directory, self.digest)
                .and_then(|text| text.map(Arc::from).ok_or_else(|| io::ErrorKind::InvalidData.into()))
                .map_err(StoreError::io("read", &path))?,
        };
        let (disk, temporary) = (directory.disk().as_ref(), path.with_extension("new"));
        replace_by(disk, &temporary, &path, text.as_bytes(), Access::Private, secure)
            .map_err(StoreError::io("write", &path))
    }
}

/// Reads so many bytes, or fails.
fn read_exactly(disk: &dyn Disk, path: &Path, offset: u64, length: u64) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    let read = disk.read(path, offset).and_then(|file| file.take(length).read_to_end(&mut bytes));
    match read {
        Ok(count) if count as u64 == length => Ok(bytes),
        Ok(_) => Err(StoreError::io("read", path)(io::ErrorKind::UnexpectedEof.into())),
        Err(error) => Err(StoreError::io("read", path)(error)),
    }
}

/// Reads up to `limit` records of a log, without its lock, from an offset: 0, or one that an earlier
/// call returned, where the next record begins. Damaged lines are left out.
///
/// # Errors
/// [`StoreError::Io`] when the log can't be read.
pub fn read_from<E: DeserializeOwned>(
    directory: &RequestDirectory,
    offset: u64,
    limit: usize,
) -> Result<(Vec<Record<E>>, u64), StoreError> {
    let path = directory.log();
    let error = || StoreError::io("read", &path);
    let mut lines = Lines::new(directory.disk().read(&path, offset).map_err(error())?, offset);
    let mut records = Vec::new();
    while records.len() < limit {
        match lines.next().map_err(error())? {
            Some(LogLine::Whole(line)) => {
                records.extend(decode(directory, line, |_| ()).map_err(error())?);
            }
            Some(LogLine::NoRecord) => {}
            // A line without its end is still being written.
            Some(LogLine::Unfinished) | None => break,
        }
    }
    Ok((records, lines.offset()))
}

struct Scan<E> {
    loaded: Loaded<E>,
    /// The payloads of the records.
    blobs: HashSet<Digest>,
    last_seq: u64,
    end: u64,
    /// True if something follows the last whole line.
    is_torn: bool,
}

impl<E: DeserializeOwned> Scan<E> {
    fn new(directory: &RequestDirectory) -> io::Result<Self> {
        let mut lines = Lines::new(directory.disk().read(&directory.log(), 0)?, 0);
        let (mut records, mut damage) = (Vec::new(), Vec::new());
        let (mut last_seq, mut is_torn) = (0, false);
        let mut blobs = HashSet::new();
        for line in 1.. {
            let decoded = match lines.next()? {
                None => break,
                Some(LogLine::Unfinished) => {
                    is_torn = true;
                    break;
                }
                Some(LogLine::NoRecord) => Err(BadLine::Json("it starts differently".to_owned())),
                Some(LogLine::Whole(bytes)) => decode(directory, bytes, |digest| _ = blobs.insert(digest))?,
            };
            let seq = match &decoded {
                Ok(Record { seq, .. }) | Err(BadLine::Blob { seq, .. }) => *seq,
                // It has no number that could be trusted.
                Err(problem) => {
                    damage.push(Damage::BadLine { line, problem: problem.to_string() });
                    continue;
                }
            };
            if seq <= last_seq {
                damage.push(Damage::BadLine { line, problem: format!("the number {seq} occurs twice") });
                continue;
            }
            if let Err(problem) = &decoded {
                damage.push(Damage::BadLine { line, problem: problem.to_string() });
            }
            if seq > last_seq + 1 {
                damage.push(Damage::Gap { from: last_seq + 1, to: seq - 1 });
            }
            last_seq = seq;
            records.extend(decoded);
        }
        let end = lines.offset();
        Ok(Self { loaded: Loaded { records, damage }, blobs, last_seq, end, is_torn })
    }
}

/// The payload of this digest; none when it is missing or damaged.
fn read_blob(directory: &RequestDirectory, digest: Digest) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    match directory.disk().read(&directory.blob(digest), 0) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?.read_to_end(&mut bytes)?,
    };
    Ok(String::from_utf8(bytes).ok().filter(|text| Digest::of(text.as_bytes()) == digest))
}

/// Reads a line with its payloads. A payload that can't be read at this moment is no damage, but an error.
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

/// In test builds: ends the process at an exact place, as `kill -9` would.
#[cfg(debug_assertions)]
struct CrashPoint {
    /// Number of appends left; none never ends.
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

/// Locks of a request's driver.
struct Locks {
    /// Against other drivers.
    _driver: Held,
    /// For [`RequestDirectory::is_held`], which locks it for a moment to look: on the driver's own
    /// lock such a look could turn a driver away.
    _sign: Held,
}

impl Locks {
    fn take(directory: &RequestDirectory) -> Result<Self, StoreError> {
        let disk = directory.disk();
        let path = directory.lock();
        let driver = disk
            .try_lock(&path)
            .map_err(StoreError::io("lock", &path))?
            .ok_or_else(|| StoreError::Held { path: directory.path().to_owned() })?;
        let path = directory.sign();
        let sign = disk.lock(&path).map_err(StoreError::io("lock", &path))?;
        Ok(Self { _driver: driver, _sign: sign })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use serde_json::{Value, json};

    use super::*;
    use crate::WorkspaceDirectory;
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
        let whole = Fixture::with_records(3).bytes();
        let last_line = whole[..whole.len() - 1].iter().rposition(|&b| b == b'\n').unwrap() + 1;
        for cut in last_line..whole.len() {
            let fixture = Fixture::with_records(3);
            fs::write(fixture.directory.log(), &whole[..cut]).unwrap();
            let (mut log, loaded) = fixture.open();
            assert_eq!(seqs(&loaded), [1, 2], "cut at {cut}");
            assert_eq!(loaded.damage.len(), usize::from(cut > last_line), "cut at {cut}");
            log.append(&[record(3)]).unwrap();
            drop(log);
            assert_eq!(seqs(&fixture.open().1), [1, 2, 3], "cut at {cut}");
        }
    }

    #[test]
    fn a_bad_line_in_the_middle_is_reported_and_the_rest_loads() {
        let fixture = Fixture::with_records(3);
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

    #[test]
    fn looking_whether_a_log_is_driven_turns_no_driver_away() {
        let fixture = Fixture::with_records(1);
        assert!(!fixture.directory.is_held());
        let look = File::open(fixture.directory.sign()).unwrap();
        look.lock_shared().unwrap();
        let directory = fixture.directory.clone();
        let driver = std::thread::spawn(move || RequestLog::open::<Value>(directory).map(|(log, _)| log));
        drop(look);
        let log = driver.join().unwrap().unwrap();
        assert!(fixture.directory.is_held());
        drop(log);
        assert!(!fixture.directory.is_held());
    }

    #[test]
    fn two_drivers_never_hold_one_log() {
        let fixture = Fixture::with_records(1);
        let (log, _) = fixture.open();
        let second = RequestLog::open::<Value>(fixture.directory.clone());
        assert!(matches!(second, Err(StoreError::Held { .. })));
        drop(log);
        fixture.open();
    }

    #[test]
    fn a_log_that_somebody_else_changed_is_acknowledged_no_more() {
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
    fn a_record_that_does_not_come_next_is_refused() {
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
