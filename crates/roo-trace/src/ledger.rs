//! The original of the trace: appended to, chained, durable, and never rewritten.
//!
//! A [`Ledger`] is shared by all tasks of a process, and several processes may share a workspace. Its
//! functions block; call them where that is allowed. Appends that arrive while another one is running are written as
//! one group with one sync.
//!
//! During an append a lock excludes all other processes. A process that takes it reads the records of the others first,
//! so bytes are never interleaved and the chain has one order.

use std::collections::HashMap;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use super::anchor::{Anchor, Head, Signer};
use super::chain::{self, VerifiedLink};
use super::directory::{Appender, TraceDirectory, complete_lines_length};
use super::history::{self, FORMAT, Header, Position};
use super::map::IntentMap;
use super::projection::{AppendedLines, Projection, ProjectionError};
use super::record::Draft;
use super::revision;
use roo_durable::disk::HeldLock;
use roo_durable::keep_torn_tail;
use roo_protocol::ids::Digest;

/// The head is signed each time that this many records were added.
const SIGN_EVERY: u64 = 256;

/// Size limits of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A segment of the original, in bytes.
    pub segment: u64,
    /// The copy in the workspace, in bytes. A full copy is replaced by its newest half.
    pub copy: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { segment: 64 << 20, copy: 16 << 20 }
    }
}

/// Settings of a ledger.
pub struct Setup {
    /// The workspace's part of the user's state directory.
    pub state_directory: PathBuf,
    /// The first workspace folder, for the copy and for the repository's state. None for no copy.
    pub folder: Option<PathBuf>,
    /// Size limits of files.
    pub limits: Limits,
    /// Generates the random id of a new chain.
    pub new_id: Box<dyn Fn() -> Uuid + Send + Sync>,
}

impl Setup {
    /// Settings with the default limits and random ids.
    pub fn new(state_directory: PathBuf, folder: Option<PathBuf>) -> Self {
        Self { state_directory, folder, limits: Limits::default(), new_id: Box::new(Uuid::new_v4) }
    }
}

/// Records could not be added to the trace.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LedgerError {
    /// A file operation failed. The trace is unchanged, and the same records can be appended again.
    #[error("can't {doing} {}: {source}; what agents do is not recorded: check the disk", path.display())]
    Io {
        /// Attempted operation.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// Reason why it failed.
        source: Arc<io::Error>,
    },
    /// A record can't be written as JSON. A defect, not a fault of the disk.
    #[error("a trace record can't be written as JSON: {0}")]
    Encode(String),
}

/// Damage of the trace. New records are appended nevertheless, and [`super::verify`] still finds the damage.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The last line is incomplete, as after a loss of power.
    #[error("the last line was cut off; it was moved to {}", moved_to.display())]
    TornTail {
        /// The bytes.
        moved_to: PathBuf,
    },
    /// A line is not a record.
    #[error("line at byte {offset} of segment {segment} is damaged")]
    BadLine {
        /// Number of the file.
        segment: u64,
        offset: u64,
    },
    /// Records are missing at the end.
    #[error("the records up to {to} existed, and those after {from} are missing")]
    Truncated {
        /// The newest remaining one, as far as it is known.
        from: u64,
        /// The newest one that existed.
        to: u64,
    },
    /// The head is missing or damaged.
    #[error("the head of the trace was lost; it was rebuilt from the records")]
    HeadLost,
}

/// Position of a record in the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordPosition {
    /// Its number.
    pub seq: u64,
    pub hash: Digest,
}

/// Result of an append.
#[derive(Clone, Debug)]
pub struct Appended {
    /// One for each record, in order. All are durable.
    pub records: Vec<RecordPosition>,
    /// Reason why they are missing from the workspace's copy.
    pub copy_problem: Option<ProjectionError>,
    /// Damage of the trace that was found.
    pub damage: Vec<Damage>,
}

/// Files of the copy in a workspace that are exactly what a roo-lsp process wrote there last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CurrentCopies {
    /// The records.
    pub trace: bool,
    /// The map of intents.
    pub map: bool,
}

/// The trace of a workspace, open for appending.
pub struct Ledger {
    directory: TraceDirectory,
    projection: Option<Projection>,
    folder: Option<PathBuf>,
    limits: Limits,
    new_id: Box<dyn Fn() -> Uuid + Send + Sync>,
    queue: Mutex<Queue>,
    /// An append has ended.
    ended: Condvar,
    state: Mutex<LedgerState>,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<(u64, Vec<Draft>)>,
    done: HashMap<u64, Result<Appended, LedgerError>>,
    next_ticket: u64,
    /// True while a thread appends for all others.
    has_leader: bool,
}

/// State of this process.
#[derive(Default)]
struct LedgerState {
    head: Option<Head>,
    segment: Option<Appender>,
    /// Position where the segment has to end, if a failed append could not be undone.
    to_undo: Option<Position>,
    map: Option<(Position, IntentMap)>,
    damage: Vec<Damage>,
}

impl Ledger {
    /// Opens the trace of a workspace. A missing one is created by the first append. The remains of an append that a
    /// crash interrupted are read or moved away, and damage is returned.
    ///
    /// # Errors
    /// [`LedgerError::Io`].
    pub fn open(setup: Setup) -> Result<(Self, Vec<Damage>), LedgerError> {
        Self::in_directory(TraceDirectory::new(&setup.state_directory), setup)
    }

    pub(super) fn in_directory(
        directory: TraceDirectory,
        setup: Setup,
    ) -> Result<(Self, Vec<Damage>), LedgerError> {
        let ledger = Self {
            projection: setup.folder.clone().map(|folder| Projection::new(folder, setup.limits.copy)),
            directory,
            folder: setup.folder,
            limits: setup.limits,
            new_id: setup.new_id,
            queue: Mutex::default(),
            ended: Condvar::new(),
            state: Mutex::default(),
        };
        let path = ledger.directory.path();
        let exists = ledger.directory.exists().map_err(io_error("look at", path))?;
        let damage = if exists {
            let mut state = locked(&ledger.state);
            let _lock = ledger.lock()?;
            if !ledger.directory.segments().map_err(io_error("list", path))?.is_empty() {
                ledger.update_head(&mut state)?;
            }
            if let Some(projection) = &ledger.projection {
                projection.sweep();
            }
            std::mem::take(&mut state.damage)
        } else {
            vec![]
        };
        Ok((ledger, damage))
    }

    /// Appends records, all or none. When this returns they survive power loss.
    ///
    /// Waits for the disk and for other processes that append.
    ///
    /// # Errors
    /// [`LedgerError`]; the same drafts can be appended again.
    pub fn append(&self, drafts: &[Draft]) -> Result<Appended, LedgerError> {
        let mut queue = locked(&self.queue);
        let ticket = queue.next_ticket;
        queue.next_ticket += 1;
        queue.waiting.push((ticket, drafts.to_vec()));
        loop {
            if let Some(outcome) = queue.done.remove(&ticket) {
                return outcome;
            }
            if queue.has_leader {
                queue = self.ended.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            queue.has_leader = true;
            let group = std::mem::take(&mut queue.waiting);
            drop(queue);
            let leading = LeaderGuard(self);
            let outcomes = self.commit(&group);
            queue = locked(&self.queue);
            queue.done.extend(outcomes);
            drop(queue);
            drop(leading);
            queue = locked(&self.queue);
        }
    }

    /// Signs the newest record's hash, for instance when an intent is completed. This also happens every 256 records.
    ///
    /// # Errors
    /// [`LedgerError::Io`].
    pub fn sign(&self) -> Result<(), LedgerError> {
        let mut state = locked(&self.state);
        let _lock = self.lock()?;
        self.update_head(&mut state)?;
        self.sign_head(&mut state)
    }

    /// Returns which files of the copy in the workspace are unchanged since they were written. Temporary files of
    /// killed processes are removed.
    ///
    /// # Errors
    /// [`LedgerError::Io`].
    pub fn current_copies(&self) -> Result<CurrentCopies, LedgerError> {
        let Some(projection) = &self.projection else { return Ok(CurrentCopies::default()) };
        let path = self.directory.path();
        if !self.directory.exists().map_err(io_error("look at", path))? {
            return Ok(CurrentCopies::default());
        }
        let mut state = locked(&self.state);
        // Under the lock no process replaces the files.
        let _lock = self.lock()?;
        projection.sweep();
        if self.directory.segments().map_err(io_error("list", path))?.is_empty() {
            return Ok(CurrentCopies::default());
        }
        let head = self.update_head(&mut state)?;
        Ok(CurrentCopies {
            trace: projection.is_current(head.projection),
            map: head.map.is_some_and(|map| projection.has_map(map)),
        })
    }

    fn lock(&self) -> Result<HeldLock, LedgerError> {
        self.directory.lock().map_err(io_error("lock", self.directory.path()))
    }

    /// Appends a group with one write and one sync.
    fn commit(&self, group: &[(u64, Vec<Draft>)]) -> Vec<(u64, Result<Appended, LedgerError>)> {
        let mut state = locked(&self.state);
        let written = self.write(&mut state, group);
        let damage = std::mem::take(&mut state.damage);
        let mut appended = match written {
            Ok(appended) => appended,
            Err(error) => return group.iter().map(|(ticket, _)| (*ticket, Err(error.clone()))).collect(),
        };
        let outcomes = group.iter().map(|(ticket, drafts)| {
            let count: usize = drafts.iter().map(|draft| draft.0.len()).sum();
            let records = appended.records.drain(..count).collect();
            let (copy_problem, damage) = (appended.copy_problem.clone(), damage.clone());
            (*ticket, Ok(Appended { records, copy_problem, damage }))
        });
        outcomes.collect()
    }

    fn write(&self, state: &mut LedgerState, group: &[(u64, Vec<Draft>)]) -> Result<Appended, LedgerError> {
        let _lock = self.lock()?;
        let mut head = self.update_head(state)?;
        let vcs = self.folder.as_deref().and_then(revision::head_commit);
        let mut bytes = Vec::new();
        let mut records = Vec::new();
        let (mut seq, mut hash) = (head.seq, head.hash);
        for draft in group.iter().flat_map(|(_, drafts)| drafts) {
            for record in draft.0.iter() {
                let mut record = record.clone();
                record.vcs.clone_from(&vcs);
                let commit = record.own().and_then(|own| own.commit.clone());
                if let (Some(vcs), Some(commit)) = (&mut record.vcs, commit) {
                    vcs.revision = commit.id;
                }
                seq += 1;
                hash = chain::seal(record, &head.chain, seq, hash, &mut bytes)
                    .map_err(|error| LedgerError::Encode(error.to_string()))?;
                records.push(RecordPosition { seq, hash });
            }
        }
        if bytes.is_empty() {
            return Ok(Appended { records, copy_problem: None, damage: vec![] });
        }
        if head.offset + bytes.len() as u64 > self.limits.segment {
            // A segment without records takes records of any size.
            let empty = self.header(head.segment)?.is_some_and(|(_, length)| length == head.offset);
            if !empty {
                let next = head.segment + 1;
                self.start_segment(state, &mut head, next)?;
            }
        }
        self.add_lines(state, &head, &bytes)?;
        head.offset += bytes.len() as u64;
        let lines = AppendedLines { bytes: &bytes, after: head.seq, last: seq };
        (head.seq, head.hash) = (seq, hash);
        let copied = self.projection.as_ref().map(|projection| {
            projection
                .append(head.projection, &lines, &head.chain, |limit| history::newest(&self.directory, limit))
        });
        let mut copy_problem = None;
        match copied {
            Some(Ok(projected)) => head.projection = Some(projected),
            Some(Err(problem)) => copy_problem = Some(problem),
            None => {}
        }
        if group.iter().flat_map(|(_, drafts)| drafts).any(Draft::evolves) {
            match self.write_map(state) {
                Ok(written) => head.map = written,
                Err(problem) => drop(copy_problem.get_or_insert(problem)),
            }
        }
        if let Err(error) = head.write(&self.directory) {
            // The records are durable, and the next append reads them.
            tracing::warn!(%error, "the head of the trace can't be written");
        }
        let due = head.seq / SIGN_EVERY > head.signed / SIGN_EVERY;
        state.head = Some(head);
        if due && let Err(error) = self.sign_head(state) {
            tracing::warn!(%error, "the head of the trace can't be signed");
        }
        Ok(Appended { records, copy_problem, damage: vec![] })
    }

    /// Appends and syncs, or undoes the append.
    fn add_lines(&self, state: &mut LedgerState, head: &Head, bytes: &[u8]) -> Result<(), LedgerError> {
        let segment = self.segment(state, head)?;
        let path = segment.path().to_owned();
        let durable = segment.append(bytes).map_err(io_error("append to", &path));
        if durable.is_err() {
            // A torn line has to go, as the next append would continue it; and so do complete ones, which would
            // be duplicated by another attempt.
            let undone = segment.truncate(head.offset);
            state.to_undo =
                undone.is_err().then_some(Position { segment: head.segment, offset: head.offset });
            // After a failed sync the system may have dropped unsynced data.
            state.segment = None;
        }
        durable
    }

    fn segment<'a>(&self, state: &'a mut LedgerState, head: &Head) -> Result<&'a Appender, LedgerError> {
        let path = self.directory.segment(head.segment);
        if state.segment.as_ref().is_some_and(|segment| segment.path() != path || !segment.is_in_place()) {
            state.segment = None;
        }
        match &mut state.segment {
            Some(segment) => Ok(segment),
            empty => {
                let opened = self.directory.open(path.clone(), false).map_err(io_error("open", &path))?;
                Ok(empty.insert(opened))
            }
        }
    }

    /// Begins a segment after the newest record.
    fn start_segment(
        &self,
        state: &mut LedgerState,
        head: &mut Head,
        number: u64,
    ) -> Result<(), LedgerError> {
        let path = self.directory.segment(number);
        let header = Header {
            roo_lsp_trace: FORMAT,
            chain: head.chain.clone(),
            segment: number,
            first: head.seq + 1,
            prev: head.hash,
        };
        let started = || {
            let line = header.line()?;
            let segment = self.directory.open(path.clone(), true)?;
            let written = segment.append(&line).and_then(|()| self.directory.sync());
            if written.is_err() {
                // Or the next attempt would find the file there.
                let _ = self.directory.disk().remove(&path);
            }
            written.map(|()| (segment, line.len() as u64))
        };
        let (segment, length) = started().map_err(io_error("create", &path))?;
        (head.segment, head.offset) = (number, length);
        state.segment = Some(segment);
        Ok(())
    }

    /// Brings the head up to the newest record of any process; under the lock.
    fn update_head(&self, state: &mut LedgerState) -> Result<Head, LedgerError> {
        let path = self.directory.head();
        let stored = Head::read(&self.directory).map_err(io_error("read", &path))?;
        let known = state.head.take();
        // The newer one, in case the stored head was replaced by an older one.
        let base = match (stored, known) {
            (Some(stored), Some(known)) => {
                Some(if stored.chain == known.chain && stored.seq < known.seq { known } else { stored })
            }
            (stored, known) => stored.or(known),
        };
        let mut head = match base {
            Some(head) => head,
            None => {
                let mut head = self.find_head(state)?;
                head.write_durably(&self.directory).map_err(io_error("write", &path))?;
                head
            }
        };
        let followed = self.follow(state, &mut head);
        state.head = Some(head.clone());
        followed.map(|()| head)
    }

    /// The head of a trace without a stored one: from its records, or of a new chain.
    fn find_head(&self, state: &mut LedgerState) -> Result<Head, LedgerError> {
        let path = self.directory.path();
        let mut segments = self.directory.segments().map_err(io_error("list", path))?;
        let (anchors, _) = Anchor::read_all(&self.directory).map_err(io_error("read", path))?;
        let newest = anchors.into_iter().rfind(Anchor::is_genuine);
        let known_damage = state.damage.len();
        // The newest segment with a header that can be read.
        for number in segments.iter().rev() {
            let Some((header, length)) = self.header(*number)? else { continue };
            let mut head = Head {
                chain: header.chain,
                seq: header.first.saturating_sub(1),
                hash: header.prev,
                segment: *number,
                offset: length,
                signed: 0,
                projection: None,
                map: None,
                turn: 0,
            };
            self.follow(state, &mut head)?;
            // Without a record nothing is lost: its process may have ended before it wrote the first head.
            if newest.is_some() || head.seq > 0 {
                state.damage.insert(known_damage, Damage::HeadLost);
            }
            if let Some(anchor) = newest.filter(|anchor| anchor.chain == head.chain) {
                head.signed = anchor.seq;
                if anchor.seq > head.seq {
                    state.damage.push(Damage::Truncated { from: head.seq, to: anchor.seq });
                    (head.seq, head.hash) = (anchor.seq, anchor.hash);
                }
            }
            return Ok(head);
        }
        // The process ended before the header of the first segment was complete.
        if let (None, [1]) = (&newest, segments.as_slice())
            && !self.has_complete_line(1)?
        {
            self.move_away(state, 1)?;
            segments.clear();
        }
        if newest.is_some() || !segments.is_empty() {
            state.damage.push(Damage::HeadLost);
        }
        let mut head = match newest {
            Some(anchor) => {
                state.damage.push(Damage::Truncated { from: 0, to: anchor.seq });
                Head {
                    chain: anchor.chain.clone(),
                    seq: anchor.seq,
                    hash: anchor.hash,
                    segment: 0,
                    offset: 0,
                    signed: anchor.seq,
                    projection: None,
                    map: None,
                    turn: 0,
                }
            }
            None => {
                let chain = (self.new_id)().to_string();
                let hash = chain::genesis(&chain);
                Head {
                    chain,
                    seq: 0,
                    hash,
                    segment: 0,
                    offset: 0,
                    signed: 0,
                    projection: None,
                    map: None,
                    turn: 0,
                }
            }
        };
        let next = segments.last().map_or(1, |last| last + 1);
        self.start_segment(state, &mut head, next)?;
        Ok(head)
    }

    /// A segment's header and its length with its line end. None when it is damaged.
    fn header(&self, number: u64) -> Result<Option<(Header, u64)>, LedgerError> {
        let path = self.directory.segment(number);
        let found = self.directory.disk().read_beginning(&path, 4096).map_err(io_error("read", &path))?;
        let bytes = found.unwrap_or_default();
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
        Ok(Header::read(&bytes[..end]).map(|header| (header, end as u64 + 1)))
    }

    fn has_complete_line(&self, number: u64) -> Result<bool, LedgerError> {
        let path = self.directory.segment(number);
        let found = self.directory.disk().read_beginning(&path, u64::MAX).map_err(io_error("read", &path))?;
        Ok(found.unwrap_or_default().contains(&b'\n'))
    }

    /// Moves away a segment whose header was never completed.
    fn move_away(&self, state: &mut LedgerState, number: u64) -> Result<(), LedgerError> {
        let (disk, path) = (self.directory.disk(), self.directory.segment(number));
        let moved_to = keep_torn_tail(disk, &path, 0).map_err(io_error("move", &path))?;
        disk.remove(&path).map_err(io_error("remove", &path))?;
        state.damage.push(Damage::TornTail { moved_to });
        Ok(())
    }

    /// Reads the records after the head, and repairs what a crash has left.
    fn follow(&self, state: &mut LedgerState, head: &mut Head) -> Result<(), LedgerError> {
        loop {
            let path = self.directory.segment(head.segment);
            match self.segment(state, head) {
                Ok(_) => {}
                Err(LedgerError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                    state.damage.push(Damage::Truncated { from: 0, to: head.seq });
                    let last = self.directory.segments().map_err(io_error("list", &path))?.into_iter().max();
                    let next = last.unwrap_or(0).max(head.segment) + 1;
                    return self.start_segment(state, head, next);
                }
                Err(error) => return Err(error),
            }
            self.follow_segment(state, head).map_err(io_error("read", &path))?;
            let next = head.segment + 1;
            let beyond = self.directory.segment(next);
            if !self.directory.disk().exists(&beyond).map_err(io_error("look at", &beyond))? {
                // Not even the header of this segment remains.
                return if head.offset == 0 { self.start_segment(state, head, next) } else { Ok(()) };
            }
            match self.header(next)?.filter(|(header, _)| header.chain == head.chain) {
                Some((header, length)) => {
                    if header.first > head.seq + 1 {
                        state.damage.push(Damage::Truncated { from: head.seq, to: header.first - 1 });
                    }
                    if header.first > head.seq {
                        (head.seq, head.hash) = (header.first - 1, header.prev);
                    }
                    (head.segment, head.offset) = (next, length);
                }
                // Its process ended while it created the segment.
                None => return self.move_away(state, next),
            }
        }
    }

    fn follow_segment(&self, state: &mut LedgerState, head: &mut Head) -> io::Result<()> {
        let Some(segment) = &state.segment else { return Ok(()) };
        // If another process has appended since, it has read those records, so they stay.
        if state.to_undo == Some(Position { segment: head.segment, offset: head.offset }) {
            if segment.length()? > head.offset {
                segment.truncate(head.offset)?;
            }
            state.to_undo = None;
        }
        let length = segment.length()?;
        if length == head.offset {
            return Ok(());
        }
        let from = if length < head.offset { 0 } else { head.offset };
        let mut bytes = Vec::new();
        self.directory.read_segment(head.segment, from)?.take(length - from).read_to_end(&mut bytes)?;
        let whole = complete_lines_length(&bytes);
        if length < head.offset {
            let left = bytes[..whole].split(|byte| *byte == b'\n').rev();
            let newest = left.filter_map(|line| chain::read(line, &head.chain)).map(|fact| fact.seq).next();
            // The next record follows the newest lost one, so that the gap remains visible.
            state.damage.push(Damage::Truncated { from: newest.unwrap_or(0), to: head.seq });
        }
        if whole < bytes.len() {
            let end = from + whole as u64;
            let moved_to = keep_torn_tail(self.directory.disk(), segment.path(), end)?;
            segment.truncate(end)?;
            state.damage.push(Damage::TornTail { moved_to });
        }
        if length >= head.offset {
            let mut offset = head.offset;
            for line in bytes[..whole].split_inclusive(|byte| *byte == b'\n') {
                let fact = chain::read(line.strip_suffix(b"\n").unwrap_or(line), &head.chain);
                match fact.filter(|fact| fact.seq > head.seq) {
                    Some(VerifiedLink { seq, hash, .. }) => (head.seq, head.hash) = (seq, hash),
                    None => state.damage.push(Damage::BadLine { segment: head.segment, offset }),
                }
                offset += line.len() as u64;
            }
        }
        head.offset = from + whole as u64;
        Ok(())
    }

    fn sign_head(&self, state: &mut LedgerState) -> Result<(), LedgerError> {
        let Some(head) = state.head.as_mut().filter(|head| head.seq > head.signed) else { return Ok(()) };
        let path = self.directory.anchors();
        Signer::open(&self.directory)
            .and_then(|signer| signer.sign(&self.directory, head))
            .map_err(io_error("sign", &path))?;
        head.signed = head.seq;
        // If this fails, the head is signed again later.
        head.write(&self.directory).map_err(io_error("write", &self.directory.head()))
    }

    /// Updates the map of intents to the newest record. Returns the digest of its text.
    fn write_map(&self, state: &mut LedgerState) -> Result<Option<Digest>, ProjectionError> {
        let Some(projection) = &self.projection else { return Ok(None) };
        let (position, map) = state.map.get_or_insert_default();
        let read = history::changes(&self.directory, *position, |record| map.add(record));
        let path = || self.directory.path().to_owned();
        *position = read.map_err(|source| ProjectionError::Io {
            doing: "read",
            path: path(),
            source: Arc::new(source),
        })?;
        let text = map.render();
        projection.write_map(&text)?;
        Ok(Some(Digest::of(text)))
    }
}

/// Lets another thread append when it is dropped.
struct LeaderGuard<'a>(&'a Ledger);

impl Drop for LeaderGuard<'_> {
    fn drop(&mut self) {
        locked(&self.0.queue).has_leader = false;
        self.0.ended.notify_all();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn io_error<'a>(
    doing: &'static str,
    path: &'a std::path::Path,
) -> impl Fn(io::Error) -> LedgerError + use<'a> {
    move |source| LedgerError::Io { doing, path: path.to_owned(), source: Arc::new(source) }
}

#[cfg(test)]
mod tests;
