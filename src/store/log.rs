//! The log of one request.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::line::{self, Record};
use super::{RequestDirectory, StoreError};
use crate::protocol::ids::Digest;

/// A request's log, open for appending by the one process that holds its lock.
pub struct RequestLog {
    directory: RequestDirectory,
    file: Arc<File>,
    /// Everything before this offset is whole lines.
    end: u64,
    /// The number of the newest record.
    last_seq: u64,
    /// Whether the directory is yet to be synced.
    is_new: bool,
    /// Blobs that no [`RequestLog::sync_handle`] covers yet.
    unsynced_blobs: Vec<PathBuf>,
    #[cfg(debug_assertions)]
    crash: CrashPoint,
    /// Kept for their locks, which the system drops with the process.
    _locks: Locks,
}

/// What opening a log found.
#[derive(Debug)]
pub struct Loaded<E> {
    /// The records in order.
    pub records: Vec<Record<E>>,
    /// What could not be read. The rest is there all the same.
    pub damage: Vec<Damage>,
}

/// Something in a log that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The last line was never finished; it was moved to a file of its own.
    TornTail {
        /// Where it is now.
        moved_to: PathBuf,
    },
    /// A line in the middle is no record.
    BadLine {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// Records are missing, by their numbers.
    Gap {
        /// The first missing number.
        from: u64,
        /// The last missing number.
        to: u64,
    },
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TornTail { moved_to } => {
                write!(f, "the last line was never finished; it is kept in {}", moved_to.display())
            }
            Self::BadLine { line, problem } => write!(f, "line {line} can't be read: {problem}"),
            Self::Gap { from, to } => write!(f, "the records {from} to {to} are missing"),
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
        let file = open_options().create_new(true).open(&path).map_err(StoreError::io("create", &path))?;
        Ok(Self {
            directory,
            file: Arc::new(file),
            end: 0,
            last_seq: 0,
            is_new: true,
            unsynced_blobs: Vec::new(),
            #[cfg(debug_assertions)]
            crash: CrashPoint::from_environment(),
            _locks: locks,
        })
    }

    /// Opens the log of an earlier request, to go on with it.
    ///
    /// # Errors
    /// [`StoreError::Held`] when another process drives the request, else [`StoreError::Io`].
    pub fn open<E: DeserializeOwned>(directory: RequestDirectory) -> Result<(Self, Loaded<E>), StoreError> {
        let locks = Locks::take(&directory)?;
        let path = directory.log();
        let file = open_options().open(&path).map_err(StoreError::io("open", &path))?;
        let scan = scan(&directory, &file).map_err(StoreError::io("read", &path))?;
        let mut loaded = scan.loaded;
        if let Some(tail) = scan.torn {
            let moved_to = PathBuf::from(format!("{}.torn-{}", path.display(), scan.end));
            write_private(&moved_to, &tail).map_err(StoreError::io("write", &moved_to))?;
            file.set_len(scan.end).map_err(StoreError::io("truncate", &path))?;
            loaded.damage.push(Damage::TornTail { moved_to });
        }
        let log = Self {
            directory,
            file: Arc::new(file),
            end: scan.end,
            last_seq: scan.last_seq,
            is_new: false,
            unsynced_blobs: Vec::new(),
            #[cfg(debug_assertions)]
            crash: CrashPoint::from_environment(),
            _locks: locks,
        };
        Ok((log, loaded))
    }

    /// Where the request is kept.
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
    /// [`StoreError::Io`]; the log is then as it was before, and the same records can be tried again.
    pub fn append<E: Serialize>(&mut self, records: &[Record<E>]) -> Result<(), StoreError> {
        let mut bytes = Vec::new();
        let mut blobs = Vec::new();
        for record in records {
            line::encode(record, &mut bytes, |digest, text| blobs.push((digest, text.to_owned())))?;
        }
        for (digest, text) in blobs {
            self.write_blob(digest, &text)?;
        }
        let path = self.directory.log();
        if let Err(error) = (&*self.file).write_all(&bytes) {
            // A half-written line must not stay: the next append would fuse with it.
            self.file.set_len(self.end).map_err(StoreError::io("truncate", &path))?;
            return Err(StoreError::io("write", &path)(error));
        }
        self.end += bytes.len() as u64;
        self.last_seq = records.last().map_or(self.last_seq, |record| record.seq);
        #[cfg(debug_assertions)]
        self.crash.count();
        Ok(())
    }

    /// What has to be synced for all that was appended until now to survive power loss: to be run
    /// where blocking is allowed. When it has succeeded, call [`RequestLog::synced`].
    pub fn sync_handle(&self) -> impl FnOnce() -> Result<(), StoreError> + Send + use<> {
        let file = Arc::clone(&self.file);
        let blobs = self.unsynced_blobs.clone();
        // The name of a new log has to survive too.
        let directory = self.is_new.then(|| self.directory.clone());
        let path = self.directory.log();
        let blob_directory = self.directory.blobs();
        move || {
            for blob in &blobs {
                File::open(blob).and_then(|blob| blob.sync_all()).map_err(StoreError::io("sync", blob))?;
            }
            if !blobs.is_empty() {
                File::open(&blob_directory)
                    .and_then(|directory| directory.sync_all())
                    .map_err(StoreError::io("sync", &blob_directory))?;
            }
            file.sync_data().map_err(StoreError::io("sync", &path))?;
            directory.map_or(Ok(()), |directory| directory.sync())
        }
    }

    /// A sync has succeeded; no other was under way, and `blobs` payloads were waiting when it began.
    pub fn synced(&mut self, blobs: usize) {
        self.is_new = false;
        self.unsynced_blobs.drain(..blobs.min(self.unsynced_blobs.len()));
    }

    /// How many payloads wait for the next sync.
    pub fn unsynced_blobs(&self) -> usize {
        self.unsynced_blobs.len()
    }

    fn write_blob(&mut self, digest: Digest, text: &str) -> Result<(), StoreError> {
        let directory = self.directory.blobs();
        super::directory::create_private(&directory)?;
        let path = directory.join(digest.hex());
        if path.exists() {
            // Whoever wrote it may have ended before its sync.
            self.unsynced_blobs.push(path);
            return Ok(());
        }
        let temporary = directory.join(format!(".{}.new", digest.hex()));
        write_private(&temporary, text.as_bytes()).map_err(StoreError::io("write", &temporary))?;
        fs::rename(&temporary, &path).map_err(StoreError::io("rename", &temporary))?;
        self.unsynced_blobs.push(path);
        Ok(())
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
    let mut file = File::open(&path).map_err(error())?;
    file.seek(SeekFrom::Start(offset)).map_err(error())?;
    let mut reader = BufReader::new(file);
    let mut records = Vec::new();
    let mut line = Vec::new();
    let mut next = offset;
    while records.len() < limit {
        line.clear();
        let length = reader.read_until(b'\n', &mut line).map_err(error())?;
        // A line without its end is still being written.
        if line.pop() != Some(b'\n') {
            break;
        }
        next += length as u64;
        if let Ok(record) = line::decode(&line, |digest| read_blob(directory, digest)) {
            records.push(record);
        }
    }
    Ok((records, next))
}

struct Scan<E> {
    loaded: Loaded<E>,
    last_seq: u64,
    end: u64,
    torn: Option<Vec<u8>>,
}

fn scan<E: DeserializeOwned>(directory: &RequestDirectory, mut file: &File) -> io::Result<Scan<E>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut bytes)?;
    let end = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |index| index + 1);
    let torn = (end < bytes.len()).then(|| bytes[end..].to_vec());
    let mut loaded = Loaded { records: Vec::new(), damage: Vec::new() };
    let mut last_seq = 0;
    let mut damage = Vec::new();
    for (index, line) in bytes[..end].split_inclusive(|&byte| byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        match line::decode::<E>(line, |digest| read_blob(directory, digest)) {
            Err(problem) => {
                damage.push(Damage::BadLine { line: index + 1, problem: problem.to_string() });
            }
            Ok(record) => {
                let expected = last_seq + 1;
                if record.seq < expected {
                    let problem = format!("the number {} stands twice", record.seq);
                    damage.push(Damage::BadLine { line: index + 1, problem });
                    continue;
                }
                if record.seq > expected {
                    damage.push(Damage::Gap { from: expected, to: record.seq - 1 });
                }
                last_seq = record.seq;
                loaded.records.push(record);
            }
        }
    }
    loaded.damage = damage;
    Ok(Scan { loaded, last_seq, end: end as u64, torn })
}

fn read_blob(directory: &RequestDirectory, digest: Digest) -> Option<String> {
    let text = fs::read_to_string(directory.blobs().join(digest.hex())).ok()?;
    (Digest::of(text.as_bytes()) == digest).then_some(text)
}

/// In test builds: ends the process at an exact place, as `kill -9` would.
#[cfg(debug_assertions)]
struct CrashPoint {
    /// How many appends are left; none never ends.
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

/// What a request's driver holds. The system drops it with the process, so it is never stale.
struct Locks {
    /// Against other drivers.
    _driver: File,
    /// For [`RequestDirectory::is_held`], which locks it for a moment to look: on the driver's own
    /// lock such a look could turn a driver away.
    _sign: File,
}

impl Locks {
    fn take(directory: &RequestDirectory) -> Result<Self, StoreError> {
        let path = directory.lock();
        let driver = open_options().create(true).open(&path).map_err(StoreError::io("open", &path))?;
        match driver.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                return Err(StoreError::Held { path: directory.path().to_owned() });
            }
            Err(fs::TryLockError::Error(error)) => return Err(StoreError::io("lock", &path)(error)),
        }
        let path = directory.sign();
        let sign = open_options().create(true).open(&path).map_err(StoreError::io("open", &path))?;
        sign.lock().map_err(StoreError::io("lock", &path))?;
        Ok(Self { _driver: driver, _sign: sign })
    }
}

fn open_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

pub(super) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::protocol::ids::TaskId;
    use crate::store::WorkspaceDirectory;

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
                Damage::BadLine { line: 2, problem: "the checksum does not fit".into() },
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
