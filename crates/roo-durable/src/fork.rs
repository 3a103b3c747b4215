//! Forks of requests: a log that begins with records of another one.
//!
//! The records stay where they are. In the fork's directory `base.json` says which parts of which logs come before its
//! own, and a file in `forks/` of each directory that it reads says that the fork needs it, so that a request isn't removed
//! before its forks. Both are durable before the fork's log appears with its first record, and without a log a
//! request doesn't exist: whatever is left of a fork that was cut off counts for nothing. Forking and removing exclude each
//! other by one lock, for all processes and workspaces.

use std::io::{self, Read, Take};
use std::path::{Path, PathBuf};

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::disk::{Access, HeldLock};
use super::line::{self, Record};
use super::log::read_shared;
use super::replace::replace;
use super::{RequestDirectory, StoreError};
use roo_protocol::ids::{Digest, TaskId};

/// Name of the file that says what a fork's log begins with.
const BASE: &str = "base.json";
/// Name of the directory of the names of forks.
const FORKS: &str = "forks";
/// Name of the lock, beside the directories of workspaces.
pub(super) const FORK_LOCK: &str = "forks.lock";
/// The longest file that says what a log begins with, in bytes.
const MAX_BASE_BYTES: u64 = 1 << 20;

/// The records that a fork's log begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Base {
    /// The number of the last one.
    seq: u64,
    /// Where they are, oldest first.
    parts: Vec<BasePart>,
}

/// The beginning of another request's own part of its log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct BasePart {
    /// Name of the directory of its workspace.
    workspace: String,
    /// Its id.
    request: TaskId,
    /// In bytes.
    length: u64,
}

impl Base {
    /// Length of all parts together, in bytes.
    pub(super) fn length(&self) -> u64 {
        self.parts.iter().map(|part| part.length).sum()
    }
}

/// Reads a part of a log. That it is shorter than it was is an error, not an end.
struct WholePart(Take<Box<dyn Read + Send>>);

impl Read for WholePart {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(buffer)?;
        if read == 0 && self.0.limit() > 0 && !buffer.is_empty() {
            let problem = "the log that it was forked from is shorter than it was";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, problem));
        }
        Ok(read)
    }
}

impl RequestDirectory {
    /// What the log begins with; nothing unless the request is a fork.
    pub(super) fn base(&self) -> io::Result<Base> {
        let bytes = match self.disk().read(&self.path().join(BASE), 0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Base::default()),
            file => {
                let mut bytes = Vec::new();
                file?.take(MAX_BASE_BYTES).read_to_end(&mut bytes)?;
                bytes
            }
        };
        let base: Base = serde_json::from_slice(&bytes)?;
        let is_name = |name: &str| !name.is_empty() && !name.starts_with('.') && !name.contains('/');
        if base.parts.iter().all(|part| is_name(&part.workspace) && is_name(part.request.as_str())) {
            Ok(base)
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidData, "it names no request"))
        }
    }

    /// Reads the log from an offset on, which counts from the first record that it shares.
    pub(super) fn read_log(&self, base: &Base, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        let disk = self.disk();
        let own = disk.read(&self.log(), offset.saturating_sub(base.length()))?;
        let (mut reader, mut end) = (own, base.length());
        for part in base.parts.iter().rev() {
            let begin = end - part.length;
            if offset < end {
                let skipped = offset.saturating_sub(begin);
                let shared = disk.read(&self.sibling(part).log(), skipped)?;
                reader = Box::new(WholePart(shared.take(part.length - skipped)).chain(reader));
            }
            end = begin;
        }
        Ok(reader)
    }

    /// The directories of the requests whose records the log begins with, newest first.
    pub(super) fn shared(&self) -> io::Result<Vec<RequestDirectory>> {
        Ok(self.base()?.parts.iter().rev().map(|part| self.sibling(part)).collect())
    }

    fn sibling(&self, part: &BasePart) -> RequestDirectory {
        let path = self.workspaces().join(&part.workspace).join("requests").join(part.request.as_str());
        self.at(path, part.request.as_str())
    }

    /// The directory of all workspaces' directories.
    fn workspaces(&self) -> &Path {
        self.path().ancestors().nth(3).unwrap_or(Path::new("/"))
    }

    /// Name of the directory of its workspace.
    fn workspace(&self) -> &str {
        self.path()
            .ancestors()
            .nth(2)
            .and_then(Path::file_name)
            .and_then(|name| name.to_str())
            .unwrap_or_default()
    }

    /// Keeps forks from being made and requests from being removed until it is dropped.
    fn lock_forks(&self) -> Result<HeldLock, StoreError> {
        let path = self.workspaces().join(FORK_LOCK);
        self.disk().lock(&path).map_err(StoreError::io("lock", &path))
    }

    /// The file in which a request notes that this one needs it.
    fn note_in(&self, other: &RequestDirectory) -> PathBuf {
        let request = self.path().file_name().and_then(|name| name.to_str()).unwrap_or_default();
        other.path().join(FORKS).join(format!("{}.{request}", self.workspace()))
    }

    /// The requests whose logs begin with records of this one.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn forks(&self) -> Result<Vec<TaskId>, StoreError> {
        let mut forks: Vec<_> =
            self.directories_of_forks()?.iter().map(RequestDirectory::request_id).collect();
        forks.sort();
        Ok(forks)
    }

    fn directories_of_forks(&self) -> Result<Vec<RequestDirectory>, StoreError> {
        let path = self.path().join(FORKS);
        let names = match self.disk().names(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
            names => names.map_err(StoreError::io("list", &path))?,
        };
        let mut forks = Vec::new();
        for (workspace, request) in names.iter().filter_map(|name| name.split_once('.')) {
            let path = self.workspaces().join(workspace).join("requests").join(request);
            let fork = self.at(path, request);
            if self.disk().exists(&fork.log()).map_err(StoreError::io("look at", &fork.log()))? {
                forks.push(fork);
            }
        }
        Ok(forks)
    }

    /// Notes in the requests whose records this one shares that it will be in another workspace's directory too. A note of
    /// what isn't there counts for nothing.
    pub(super) fn announce_move(&self, moved: &RequestDirectory) -> Result<(), StoreError> {
        let shared = self.shared().map_err(StoreError::io("read", &self.path().join(BASE)))?;
        for other in shared.iter().filter(|other| other.exists()) {
            let note = moved.note_in(other);
            replace(self.disk().as_ref(), &note, b"", Access::Private)
                .map_err(StoreError::io("write", &note))?;
        }
        Ok(())
    }

    /// After a move of this request from another workspace's directory of that name: what shares its records finds them
    /// here, and what it shares knows it by its new name alone. It changes nothing when that is so already.
    pub(super) fn follow_move(&self, earlier: &str) -> Result<(), StoreError> {
        for fork in self.directories_of_forks()? {
            fork.find_parts_elsewhere(earlier, self)?;
        }
        for other in self.shared().unwrap_or_default() {
            let request = self.path().file_name().and_then(|name| name.to_str()).unwrap_or_default();
            // A note of what is gone counts for nothing.
            let _ = self.disk().remove(&other.path().join(FORKS).join(format!("{earlier}.{request}")));
        }
        Ok(())
    }

    fn find_parts_elsewhere(&self, earlier: &str, moved: &RequestDirectory) -> Result<(), StoreError> {
        let path = self.path().join(BASE);
        let mut base = self.base().map_err(StoreError::io("read", &path))?;
        let id = moved.request_id();
        let mut is_changed = false;
        for part in base.parts.iter_mut().filter(|part| part.workspace == earlier && part.request == id) {
            moved.workspace().clone_into(&mut part.workspace);
            is_changed = true;
        }
        if !is_changed {
            return Ok(());
        }
        let bytes = serde_json::to_vec(&base)?;
        replace(self.disk().as_ref(), &path, &bytes, Access::Private).map_err(StoreError::io("write", &path))
    }

    /// Makes a request whose log begins with the records of `parent` up to a number, and goes on with `own`, of which there
    /// has to be one. It survives power loss when this returns; before, there is none of it.
    ///
    /// # Errors
    /// [`StoreError::NoSuchEvent`] when the parent's log doesn't go as far, [`StoreError::Sequence`] and
    /// [`StoreError::TooLong`] for records that can't follow, [`StoreError::Io`].
    pub fn fork<E: Serialize>(
        &self,
        parent: &RequestDirectory,
        seq: u64,
        own: &[Record<E>],
    ) -> Result<(), StoreError> {
        let lines = lines_behind(seq, own)?;
        let _lock = parent.lock_forks()?;
        let base = parent.base_up_to(seq)?;
        let (disk, log) = (self.disk(), self.log());
        for shared in base.parts.iter().map(|part| self.sibling(part)) {
            let note = self.note_in(&shared);
            let directory = shared.path().join(FORKS);
            disk.create_directories_durably(&directory).map_err(StoreError::io("create", &directory))?;
            replace(disk.as_ref(), &note, b"", Access::Private).map_err(StoreError::io("write", &note))?;
        }
        self.create()?;
        self.sync()?;
        let path = self.path().join(BASE);
        let bytes = serde_json::to_vec(&base)?;
        replace(disk.as_ref(), &path, &bytes, Access::Private).map_err(StoreError::io("write", &path))?;
        replace(disk.as_ref(), &log, &lines, Access::Private).map_err(StoreError::io("write", &log))
    }

    /// Where the records up to a number are. They survive power loss when this returns.
    fn base_up_to(&self, seq: u64) -> Result<Base, StoreError> {
        let (mut found, mut blobs) = (false, Vec::<Digest>::new());
        let mut offset = read_shared(self, |record: &Record<IgnoredAny>, digests| {
            found |= record.seq == seq;
            blobs.extend(digests);
            record.seq < seq
        })?;
        if !found {
            return Err(StoreError::NoSuchEvent { path: self.log(), seq });
        }
        let disk = self.disk();
        let sync = |path: &Path| disk.sync(path).map_err(StoreError::io("sync", path));
        for digest in &blobs {
            sync(&self.blob(*digest))?;
        }
        if !blobs.is_empty() {
            sync(&self.blobs())?;
        }
        sync(&self.log())?;
        self.sync()?;
        let mut parts = self.base().map_err(StoreError::io("read", &self.path().join(BASE)))?.parts;
        let (workspace, request) = (self.workspace().to_owned(), self.request_id());
        parts.push(BasePart { workspace, request, length: u64::MAX });
        for part in &mut parts {
            part.length = part.length.min(offset);
            offset -= part.length;
        }
        parts.retain(|part| part.length > 0);
        Ok(Base { seq, parts })
    }

    /// Removes the request with all its files.
    ///
    /// # Errors
    /// [`StoreError::Forked`] while there are requests whose logs begin with its records, [`StoreError::Io`].
    pub fn remove(&self) -> Result<(), StoreError> {
        let _lock = self.lock_forks()?;
        let forks = self.forks()?;
        if !forks.is_empty() {
            return Err(StoreError::Forked { forks });
        }
        // What can't be read names nothing that anybody could read by it.
        let shared = self.shared().unwrap_or_default();
        if !shared.is_empty() {
            // What is left of it after a kill must not be taken for a request that begins with nothing.
            self.disk().remove(&self.log()).map_err(StoreError::io("remove", &self.log()))?;
        }
        self.disk().remove_directory(self.path()).map_err(StoreError::io("remove", self.path()))?;
        for other in shared {
            // A note of what is gone counts for nothing.
            let _ = self.disk().remove(&self.note_in(&other));
        }
        Ok(())
    }
}

/// The lines of records that follow a number. None has a payload beside the log.
fn lines_behind<E: Serialize>(seq: u64, records: &[Record<E>]) -> Result<Vec<u8>, StoreError> {
    let (mut lines, mut too_long) = (Vec::new(), None);
    let mut last_seq = seq;
    for record in records {
        last_seq += 1;
        if record.seq != last_seq {
            return Err(StoreError::Sequence { expected: last_seq, found: record.seq });
        }
        line::encode(record, seq, &mut lines, |_, text| too_long = Some(text.len()))?;
    }
    match (too_long, last_seq) {
        (Some(length), _) => Err(StoreError::TooLong { length }),
        (None, last) if last == seq => Err(StoreError::Sequence { expected: seq + 1, found: seq }),
        (None, _) => Ok(lines),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::disk::Disk as _;
    use crate::simulated_disk::SimulatedDisk;
    use crate::{Loaded, RequestLog, WorkspaceDirectory, read_from};

    fn requests(disk: &SimulatedDisk) -> WorkspaceDirectory {
        WorkspaceDirectory::on(Arc::new(disk.clone()), Path::new("/state"), Path::new("/work"))
    }

    fn request(disk: &SimulatedDisk, id: &str) -> RequestDirectory {
        requests(disk).request(&TaskId::new(id))
    }

    fn record(task: &str, seq: u64) -> Record<Value> {
        // Some are kept beside the log.
        let text = if seq.is_multiple_of(2) { "x".repeat(40_000) } else { String::new() };
        Record { seq, at: 0, task_id: TaskId::new(task), event: json!({ "n": seq, "text": text }) }
    }

    fn first(task: &str, seq: u64) -> Record<Value> {
        Record { event: json!({ "forked": true }), ..record(task, seq) }
    }

    fn fork(disk: &SimulatedDisk, id: &str, parent: &str, seq: u64) -> Result<(), StoreError> {
        request(disk, id).fork(&request(disk, parent), seq, &[first(id, seq + 1)])
    }

    fn append(directory: &RequestDirectory, task: &str, seqs: std::ops::RangeInclusive<u64>) {
        let mut log = match directory.exists() {
            true => RequestLog::open::<Value>(directory.clone()).unwrap().0,
            false => RequestLog::create(directory.clone()).unwrap(),
        };
        for seq in seqs {
            log.append(&[record(task, seq)]).unwrap();
        }
        log.sync_handle()().unwrap();
    }

    fn loaded(directory: &RequestDirectory) -> Vec<Record<Value>> {
        let (_log, Loaded { records, damage }) = RequestLog::open(directory.clone()).unwrap();
        assert_eq!(damage, []);
        records
    }

    /// Six events of `a`, of which `b` has four and two of its own, of which `c` has three and one of its own.
    fn forked() -> SimulatedDisk {
        let disk = SimulatedDisk::new();
        append(&request(&disk, "a"), "a", 1..=6);
        fork(&disk, "b", "a", 4).unwrap();
        append(&request(&disk, "b"), "b", 6..=6);
        fork(&disk, "c", "b", 3).unwrap();
        disk
    }

    #[test]
    fn a_fork_has_the_events_up_to_there_and_goes_on_with_its_own() {
        let disk = forked();
        let shared = |count| (1..=count).map(|seq| record("a", seq)).collect::<Vec<_>>();
        assert_eq!(loaded(&request(&disk, "a")), shared(6));
        let b = [shared(4), vec![first("b", 5), record("b", 6)]].concat();
        assert_eq!(loaded(&request(&disk, "b")), b);
        assert_eq!(loaded(&request(&disk, "c")), [shared(3), vec![first("c", 4)]].concat());
        // Shared means that nothing of it is written twice.
        assert!(disk.bytes(&request(&disk, "b").log()).unwrap().len() < 500);
        assert_eq!(disk.names(&request(&disk, "b").blobs()).unwrap().len(), 1);
    }

    #[test]
    fn a_fork_of_a_fork_can_begin_anywhere() {
        for seq in 1..=6 {
            let disk = forked();
            fork(&disk, "d", "b", seq).unwrap();
            let whole = loaded(&request(&disk, "b"));
            let expected = [&whole[..usize::try_from(seq).unwrap()], &[first("d", seq + 1)]].concat();
            assert_eq!(loaded(&request(&disk, "d")), expected);
        }
    }

    #[test]
    fn a_fork_is_read_in_pages_of_any_size() {
        let disk = forked();
        let directory = request(&disk, "b");
        let whole = loaded(&directory);
        for page in 1..=whole.len() {
            let (mut all, mut offset) = (vec![], 0);
            loop {
                let (records, next) = read_from::<Value>(&directory, offset, page).unwrap();
                offset = next;
                if records.is_empty() {
                    break;
                }
                all.extend(records);
            }
            assert_eq!(all, whole, "pages of {page}");
        }
    }

    #[test]
    fn an_event_that_is_not_there_can_not_be_forked_at() {
        let disk = forked();
        for seq in [0, 7] {
            let refused = fork(&disk, "d", "a", seq);
            assert!(matches!(refused, Err(StoreError::NoSuchEvent { .. })), "{seq}");
            assert!(!request(&disk, "d").exists());
        }
    }

    #[test]
    fn a_request_is_removed_after_its_forks() {
        let disk = forked();
        let [a, b, c] = ["a", "b", "c"].map(|id| request(&disk, id));
        assert_eq!(a.forks().unwrap(), [TaskId::new("b"), TaskId::new("c")]);
        // The fork of a fork shares nothing that the fork added.
        assert_eq!(b.forks().unwrap(), []);
        let error = a.remove().unwrap_err();
        assert_eq!(error.to_string(), "it can't be removed before b, c, whose log begins with its events");
        b.remove().unwrap();
        assert_eq!(loaded(&c).len(), 4);
        c.remove().unwrap();
        a.remove().unwrap();
        assert!(!a.exists());
    }

    #[test]
    fn after_a_loss_of_power_a_fork_is_whole_or_there_is_none() {
        let disk = SimulatedDisk::new();
        append(&request(&disk, "a"), "a", 1..=6);
        let begun = disk.operations();
        fork(&disk, "b", "a", 4).unwrap();
        let mut found = [0, 0];
        for (operations, left) in disk.every_power_loss(begun) {
            let [a, b] = ["a", "b"].map(|id| request(&left, id));
            assert_eq!(loaded(&a).len(), 6);
            if b.exists() {
                assert_eq!(loaded(&b).len(), 5, "after {operations} operations");
                assert!(
                    matches!(a.remove(), Err(StoreError::Forked { .. })),
                    "after {operations} operations"
                );
            } else {
                assert!(operations < disk.operations(), "the call returned");
                a.remove().unwrap();
            }
            found[usize::from(b.exists())] += 1;
        }
        assert!(found[0] > 10 && found[1] > 0, "{found:?}");
    }

    #[test]
    fn a_fork_whose_first_record_is_damaged_does_not_pass_for_its_parent() {
        let disk = forked();
        let (directory, log) = (request(&disk, "c"), request(&disk, "c").log());
        for damage in [&b""[..], b"{}\n", b"x\n", b"{\"seq\":4"] {
            disk.write(&log, &mut &damage[..], Access::Private).unwrap();
            assert!(RequestLog::open::<Value>(directory.clone()).is_err(), "{damage:?}");
            assert!(read_from::<Value>(&directory, 0, 100).is_err(), "{damage:?}");
        }
    }

    #[test]
    fn a_fork_says_so_when_what_it_shares_was_cut() {
        let disk = forked();
        let log = request(&disk, "a").log();
        let bytes = disk.bytes(&log).unwrap();
        disk.write(&log, &mut &bytes[..bytes.len() / 3], Access::Private).unwrap();
        let error = read_from::<Value>(&request(&disk, "b"), 0, 100).unwrap_err();
        assert!(error.to_string().contains("shorter than it was"), "{error}");
    }

    #[test]
    fn a_torn_tail_of_a_fork_is_moved_away_and_the_rest_goes_on() {
        let disk = forked();
        let directory = request(&disk, "b");
        let mut bytes = disk.bytes(&directory.log()).unwrap();
        bytes.truncate(bytes.len() - 5);
        disk.write(&directory.log(), &mut &bytes[..], Access::Private).unwrap();
        let (mut log, loaded) = RequestLog::open::<Value>(directory.clone()).unwrap();
        assert_eq!((loaded.records.len(), loaded.damage.len()), (5, 1));
        log.append(&[record("b", 6)]).unwrap();
        drop(log);
        assert_eq!(self::loaded(&directory).len(), 6);
    }
}
