//! A disk in memory that can fail at any call and records every operation, so that it can produce any state that a
//! loss of power could leave. For tests only; it panics on misuse.
//!
//! Only what POSIX guarantees survives for certain: the bytes of a file after its sync, the names in a directory after
//! the directory's. A failed sync of a file may have dropped its bytes for good. Of everything else any subset may
//! survive, in any order, writes even sector by sector.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "only tests use it")]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Cursor, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::disk::{Access, ByteLocks, Disk, DiskFile, FileIdentity, FileStamp, HeldLock};

/// Number of bytes that a drive writes atomically.
const SECTOR: usize = 512;
/// The number of the root directory.
const ROOT: usize = 0;
/// The most states that [`SimulatedDisk::power_losses`] returns.
const MAX_STATES: usize = 1 << 14;

/// A small random number generator, so that a failure can be reproduced from its seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator for a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d)
    }

    /// The next number.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next()).unwrap() % limit.max(1)
    }

    /// True with a probability of one in `count`.
    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

/// Way in which a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails with this error number and does nothing.
    Errno(i32),
    /// Only half of the bytes are written.
    Short,
    /// A sync fails, and the bytes that it should have written are lost although they can be read.
    SyncLost,
}

/// Decides whether a call fails, by its ordinal from 0 and its name.
type FaultPlan = Box<dyn FnMut(usize, &'static str) -> Option<Fault> + Send>;

/// A change of the disk.
#[derive(Clone, Debug)]
enum Operation {
    Link {
        directory: usize,
        name: String,
        node: usize,
    },
    Rename {
        directory: usize,
        from: String,
        to: String,
    },
    Exchange {
        directory: usize,
        one: String,
        other: String,
    },
    Unlink {
        directory: usize,
        name: String,
    },
    Write {
        node: usize,
        offset: usize,
        bytes: Vec<u8>,
    },
    Truncate {
        node: usize,
        length: usize,
    },
    Sync {
        node: usize,
    },
    /// Unsynced bytes of the file may be lost, whatever later syncs return.
    SyncFailed {
        node: usize,
    },
}

impl Operation {
    /// The file or directory that has to be synced for it to survive.
    fn node(&self) -> usize {
        match self {
            Self::Link { directory, .. }
            | Self::Rename { directory, .. }
            | Self::Exchange { directory, .. }
            | Self::Unlink { directory, .. } => *directory,
            Self::Write { node, .. }
            | Self::Truncate { node, .. }
            | Self::Sync { node }
            | Self::SyncFailed { node } => *node,
        }
    }
}

#[derive(Clone, Debug)]
enum Node {
    Directory(BTreeMap<String, usize>),
    File(Vec<u8>),
}

/// Part of an operation that survives a loss of power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SurvivingPart {
    Nothing,
    All,
    /// The first half of a write.
    Half,
    /// The length of a write, with zeros for its bytes.
    Length,
}

#[derive(Default)]
struct State {
    nodes: HashMap<usize, Node>,
    operations: Vec<Operation>,
    calls: usize,
    plan: Option<FaultPlan>,
    locks: HashSet<PathBuf>,
}

/// The disk; clones are the same one.
#[derive(Clone)]
pub struct SimulatedDisk(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// A lock was released.
    unlocked: Condvar,
}

impl std::fmt::Debug for SimulatedDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SimulatedDisk")
    }
}

impl Default for SimulatedDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl SimulatedDisk {
    /// An empty disk.
    pub fn new() -> Self {
        let nodes = HashMap::from([(ROOT, Node::Directory(BTreeMap::new()))]);
        Self::with(State { nodes, ..State::default() })
    }

    fn with(state: State) -> Self {
        Self(Arc::new(Shared { state: Mutex::new(state), unlocked: Condvar::new() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A fault plan may panic, as a failing test does.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes calls fail from now on, as the plan decides.
    pub fn plan(&self, plan: impl FnMut(usize, &'static str) -> Option<Fault> + Send + 'static) {
        let mut state = self.state();
        state.plan = Some(Box::new(plan));
        state.calls = 0;
    }

    /// Ends the fault plan. Returns the number of calls under it.
    pub fn heal(&self) -> usize {
        let mut state = self.state();
        state.plan = None;
        state.calls
    }

    /// Makes the disk full from a call on, counted from now: writes are partial or fail, and calls that take no space
    /// succeed.
    pub fn fill_from(&self, first: usize) {
        let full = rustix::io::Errno::NOSPC.raw_os_error();
        let mut is_first = true;
        self.plan(move |ordinal, call| match call {
            _ if ordinal < first => None,
            "write" | "append" if std::mem::take(&mut is_first) => Some(Fault::Short),
            "write" | "append" | "mkdir" | "create" => Some(Fault::Errno(full)),
            _ => None,
        });
    }

    /// Makes every call fail from a call on, counted from now, as if the process were dead.
    pub fn stop_at(&self, first: usize) {
        let error = rustix::io::Errno::IO.raw_os_error();
        self.plan(move |ordinal, _| (ordinal >= first).then_some(Fault::Errno(error)));
    }

    /// Returns the number of operations so far.
    pub fn operations(&self) -> usize {
        self.state().operations.len()
    }

    /// Returns the number of successful syncs.
    pub fn syncs(&self) -> usize {
        let is_sync = |operation: &&Operation| matches!(operation, Operation::Sync { .. });
        self.state().operations.iter().filter(is_sync).count()
    }

    /// Returns the paths of all files, in order.
    pub fn files(&self) -> Vec<PathBuf> {
        let state = self.state();
        let (mut open, mut files) = (vec![(PathBuf::from("/"), ROOT)], Vec::new());
        while let Some((path, node)) = open.pop() {
            match &state.nodes[&node] {
                Node::Directory(names) => {
                    open.extend(names.iter().map(|(name, &child)| (path.join(name), child)));
                }
                Node::File(_) => files.push(path),
            }
        }
        files.sort();
        files
    }

    /// Exchanges two names of a directory atomically.
    ///
    /// # Errors
    /// Those of the fault plan; [`io::ErrorKind::NotFound`] if one of them is missing.
    pub fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.check("rename")?;
        state.find(one)?;
        state.find(other)?;
        let ((directory, one), (same, other)) = (state.parent(one)?, state.parent(other)?);
        assert_eq!(directory, same, "names are changed within a directory");
        state.record(Operation::Exchange { directory, one, other });
        Ok(())
    }

    /// Renames to a name that must not exist.
    ///
    /// # Errors
    /// Those of the fault plan; [`io::ErrorKind::AlreadyExists`].
    pub fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        if self.state().find(to).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.rename(from, to)
    }

    /// The bytes of a file.
    pub fn bytes(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state();
        match state.nodes.get(&state.find(path).ok()?) {
            Some(Node::File(bytes)) => Some(bytes.clone()),
            _ => None,
        }
    }

    /// What any loss of power at this moment would leave: nothing but what is synced.
    pub fn synced(&self) -> Self {
        let state = self.state();
        let mut left = state.empty();
        for (operation, survives) in state.operations.iter().zip(certain_survivors(&state.operations)) {
            if survives {
                left.apply(operation);
            }
        }
        Self::with(left)
    }

    /// A random state that a loss of power after this many operations may leave.
    pub fn after_power_loss(&self, operations: usize, random: &mut Random) -> Self {
        let state = self.state();
        let happened = &state.operations[..operations];
        let mut left = state.empty();
        // Some losses keep or drop nearly everything, as real ones do.
        let spared = [1, 2, 2, 8][random.below(4)];
        for (operation, survives) in happened.iter().zip(certain_survivors(happened)) {
            match operation {
                _ if survives => left.apply(operation),
                Operation::Write { node, offset, bytes } if random.one_in(2) => {
                    left.tear(*node, *offset, bytes, random);
                }
                operation if random.one_in(spared) => left.apply(operation),
                _ => {}
            }
        }
        left.operations = left.as_operations();
        Self::with(left)
    }

    /// Every state that a loss of power at any moment from this operation on may leave, with the number of operations
    /// before it; see [`SimulatedDisk::power_losses`].
    pub fn every_power_loss(&self, first: usize) -> impl Iterator<Item = (usize, Self)> + '_ {
        let moments = first..=self.operations();
        moments.flat_map(|operations| {
            self.power_losses(operations).into_iter().map(move |left| (operations, left))
        })
    }

    /// Every state that a loss of power after this many operations may leave: each operation that was not synced has
    /// happened or not, independently; of a write there may also be its first half, or its length alone.
    ///
    /// # Panics
    /// If there are too many; then use random ones of [`SimulatedDisk::after_power_loss`].
    pub(crate) fn power_losses(&self, operations: usize) -> Vec<Self> {
        let state = self.state();
        let happened = &state.operations[..operations];
        let choices: Vec<&[SurvivingPart]> = happened
            .iter()
            .zip(certain_survivors(happened))
            .map(|(operation, survives)| match operation {
                Operation::Sync { .. } | Operation::SyncFailed { .. } => &[SurvivingPart::All][..],
                _ if survives => &[SurvivingPart::All],
                Operation::Write { .. } => {
                    &[SurvivingPart::Nothing, SurvivingPart::All, SurvivingPart::Half, SurvivingPart::Length]
                }
                _ => &[SurvivingPart::Nothing, SurvivingPart::All],
            })
            .collect();
        let count: usize = choices.iter().map(|choices| choices.len()).product();
        assert!(count <= MAX_STATES, "{count} states after {operations} operations");
        let disks = (0..count).map(|mut index| {
            let mut left = state.empty();
            for (operation, choices) in happened.iter().zip(&choices) {
                let remains = choices[index % choices.len()];
                index /= choices.len();
                match (remains, operation) {
                    (SurvivingPart::Nothing, _) => {}
                    (SurvivingPart::Half, Operation::Write { node, offset, bytes }) => {
                        let bytes = bytes[..bytes.len() / 2].to_vec();
                        left.apply(&Operation::Write { node: *node, offset: *offset, bytes });
                    }
                    (SurvivingPart::Length, Operation::Write { node, offset, bytes }) => {
                        let file = left.file(*node);
                        file.resize(file.len().max(offset + bytes.len()), 0);
                    }
                    _ => left.apply(operation),
                }
            }
            left.operations = left.as_operations();
            Self::with(left)
        });
        disks.collect()
    }
}

/// Asserts that a change is atomic and durable. A loss of power at any moment leaves the old state or the new one, and
/// after the change has succeeded the new one; so does a disk that fills up at any call, where the result tells which.
///
/// `prepare` makes the old state on an empty disk, and `read` returns the state that a reader finds.
///
/// # Panics
/// When the change isn't, or can't fail on a full disk.
#[track_caller]
pub fn assert_old_or_new<S: PartialEq + std::fmt::Debug, E: std::fmt::Debug>(
    prepare: impl Fn(&SimulatedDisk),
    change: impl Fn(&SimulatedDisk) -> Result<(), E>,
    read: impl Fn(&SimulatedDisk) -> S,
) {
    let prepared = || {
        let disk = SimulatedDisk::new();
        prepare(&disk);
        disk
    };
    let disk = prepared();
    let (begin, old) = (disk.operations(), read(&disk));
    disk.plan(|_, _| None);
    change(&disk).unwrap();
    let (calls, new) = (disk.heal(), read(&disk));
    assert_ne!(old, new, "the change changes nothing");
    for (operations, left) in disk.every_power_loss(begin) {
        let found = read(&left);
        let is_possible = found == new || (found == old && operations < disk.operations());
        assert!(is_possible, "power lost after {operations} operations: {found:?}");
    }
    let mut failures = 0;
    for first in 0..calls {
        let disk = prepared();
        disk.fill_from(first);
        let changed = change(&disk);
        disk.heal();
        let expected = if changed.is_ok() { &new } else { &old };
        assert_eq!(read(&disk), *expected, "disk full from call {first} on: {changed:?}");
        failures += usize::from(changed.is_err());
    }
    assert!(failures > 0, "the change needs no space");
}

/// Determines which operations survive for certain: those followed by a sync without a failed one in between.
fn certain_survivors(operations: &[Operation]) -> Vec<bool> {
    let mut synced: HashMap<usize, bool> = HashMap::new();
    let mut survives: Vec<bool> = operations
        .iter()
        .rev()
        .map(|operation| match operation {
            Operation::Sync { node } => *synced.entry(*node).insert_entry(true).get(),
            Operation::SyncFailed { node } => *synced.entry(*node).insert_entry(false).get(),
            operation => synced.get(&operation.node()).copied().unwrap_or_default(),
        })
        .collect();
    survives.reverse();
    survives
}

impl State {
    /// The same files and directories, all empty.
    fn empty(&self) -> Self {
        let nodes = self.nodes.iter().map(|(number, node)| match node {
            Node::File(_) => (*number, Node::File(vec![])),
            Node::Directory(_) => (*number, Node::Directory(BTreeMap::new())),
        });
        Self { nodes: nodes.collect(), ..Self::default() }
    }

    fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Link { directory, name, node } => {
                self.directory(*directory).insert(name.clone(), *node);
            }
            Operation::Rename { directory, from, to } => {
                // The creation of the old name may itself be lost.
                if let Some(node) = self.directory(*directory).remove(from) {
                    self.directory(*directory).insert(to.clone(), node);
                }
            }
            Operation::Exchange { directory, one, other } => {
                let names = self.directory(*directory);
                if let (Some(&first), Some(&second)) = (names.get(one), names.get(other)) {
                    names.insert(one.clone(), second);
                    names.insert(other.clone(), first);
                }
            }
            Operation::Unlink { directory, name } => {
                self.directory(*directory).remove(name);
            }
            Operation::Write { node, offset, bytes } => {
                let file = self.file(*node);
                let end = offset + bytes.len();
                file.resize(file.len().max(end), 0);
                file[*offset..end].copy_from_slice(bytes);
            }
            Operation::Truncate { node, length } => self.file(*node).resize(*length, 0),
            Operation::Sync { .. } | Operation::SyncFailed { .. } => {}
        }
    }

    /// Writes some of its sectors, with or without the full length.
    fn tear(&mut self, node: usize, offset: usize, bytes: &[u8], random: &mut Random) {
        let end = offset + bytes.len();
        let is_long = random.one_in(2);
        let mut at = offset;
        while at < end {
            let next = ((at / SECTOR + 1) * SECTOR).min(end);
            let file = self.file(node);
            if is_long {
                file.resize(file.len().max(next), 0);
            }
            if random.one_in(2) {
                file.resize(file.len().max(next), 0);
                file[at..next].copy_from_slice(&bytes[at - offset..next - offset]);
            }
            at = next;
        }
    }

    /// The content of the disk as synced operations: the state after a restart.
    fn as_operations(&self) -> Vec<Operation> {
        let mut operations = Vec::new();
        for (&node, content) in &self.nodes {
            match content {
                Node::Directory(names) => operations.extend(names.iter().map(|(name, &child)| {
                    Operation::Link { directory: node, name: name.clone(), node: child }
                })),
                Node::File(bytes) => {
                    operations.push(Operation::Write { node, offset: 0, bytes: bytes.clone() });
                }
            }
        }
        operations.extend(self.nodes.keys().map(|&node| Operation::Sync { node }));
        operations
    }

    fn directory(&mut self, node: usize) -> &mut BTreeMap<String, usize> {
        match self.nodes.get_mut(&node) {
            Some(Node::Directory(names)) => names,
            other => panic!("{node} is not a directory but {other:?}"),
        }
    }

    fn file(&mut self, node: usize) -> &mut Vec<u8> {
        match self.nodes.get_mut(&node) {
            Some(Node::File(bytes)) => bytes,
            other => panic!("{node} is not a file but {other:?}"),
        }
    }

    fn find(&self, path: &Path) -> io::Result<usize> {
        let mut node = ROOT;
        for part in path.components() {
            let Component::Normal(name) = part else { continue };
            node = match &self.nodes[&node] {
                Node::Directory(names) => {
                    *names.get(name.to_str().unwrap()).ok_or(io::ErrorKind::NotFound)?
                }
                Node::File(_) => return Err(io::ErrorKind::NotADirectory.into()),
            };
        }
        Ok(node)
    }

    fn parent(&self, path: &Path) -> io::Result<(usize, String)> {
        let directory = self.find(path.parent().unwrap())?;
        Ok((directory, path.file_name().unwrap().to_str().unwrap().to_owned()))
    }

    fn record(&mut self, operation: Operation) {
        self.apply(&operation);
        self.operations.push(operation);
    }

    fn make(&mut self, path: &Path, node: Node) -> io::Result<usize> {
        let (directory, name) = self.parent(path)?;
        if self.directory(directory).contains_key(&name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let number = self.nodes.keys().max().unwrap() + 1;
        self.nodes.insert(number, node);
        self.record(Operation::Link { directory, name, node: number });
        Ok(number)
    }

    /// The file at a path, which is created if it is missing. Returns whether it is new.
    fn open_or_make(&mut self, path: &Path) -> io::Result<(usize, bool)> {
        self.check("open")?;
        match self.find(path) {
            Ok(node) => Ok((node, false)),
            Err(_) => {
                self.check("create")?;
                Ok((self.make(path, Node::File(vec![]))?, true))
            }
        }
    }

    /// Asks the plan about the next call.
    fn fault(&mut self, call: &'static str) -> Option<Fault> {
        let ordinal = self.calls;
        self.calls += 1;
        self.plan.as_mut()?(ordinal, call)
    }

    fn check(&mut self, call: &'static str) -> io::Result<()> {
        match self.fault(call) {
            Some(Fault::Errno(number)) => Err(io::Error::from_raw_os_error(number)),
            // These only apply to writes.
            Some(Fault::Short | Fault::SyncLost) | None => Ok(()),
        }
    }

    /// Writes as much as the plan allows.
    fn write(&mut self, call: &'static str, node: usize, offset: usize, bytes: &[u8]) -> io::Result<usize> {
        let mut count = bytes.len();
        match self.fault(call) {
            Some(Fault::Errno(number)) => return Err(io::Error::from_raw_os_error(number)),
            Some(Fault::Short) if count == 1 => return Err(io::ErrorKind::StorageFull.into()),
            Some(Fault::Short) => count /= 2,
            Some(Fault::SyncLost) | None => {}
        }
        self.record(Operation::Write { node, offset, bytes: bytes[..count].to_vec() });
        Ok(count)
    }

    fn write_all(&mut self, node: usize, mut offset: usize, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let count = self.write("write", node, offset, bytes)?;
            (offset, bytes) = (offset + count, &bytes[count..]);
        }
        Ok(())
    }

    fn sync(&mut self, node: usize) -> io::Result<()> {
        let number = match self.fault("sync") {
            Some(Fault::Errno(number)) => number,
            Some(Fault::SyncLost) => 5,
            Some(Fault::Short) | None => {
                self.record(Operation::Sync { node });
                return Ok(());
            }
        };
        // Names are journaled by the file system, so the next successful sync covers all of them.
        if matches!(self.nodes[&node], Node::File(_)) {
            self.record(Operation::SyncFailed { node });
        }
        Err(io::Error::from_raw_os_error(number))
    }
}

impl SimulatedDisk {
    fn held(&self, path: &Path) -> HeldLock {
        Box::new(SimulatedLock { disk: self.clone(), path: path.to_owned() })
    }
}

impl Disk for SimulatedDisk {
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.check("mkdir")?;
        state.make(path, Node::Directory(BTreeMap::new())).map(|_| ())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(path.parent().is_none() || self.state().find(path).is_ok())
    }

    fn length(&self, path: &Path) -> io::Result<u64> {
        let mut state = self.state();
        state.check("stat")?;
        let node = state.find(path)?;
        Ok(state.file(node).len() as u64)
    }

    fn stamp(&self, path: &Path) -> io::Result<FileStamp> {
        let mut state = self.state();
        state.check("stat")?;
        let node = state.find(path)?;
        let changes = |operation: &Operation| match operation {
            Operation::Write { node: written, .. } | Operation::Truncate { node: written, .. } => {
                *written == node
            }
            _ => false,
        };
        // The clock of this disk counts its operations.
        let modified = state.operations.iter().rposition(changes).unwrap_or_default() as u64;
        let length = state.file(node).len() as u64;
        Ok(FileStamp { identity: FileIdentity(0, node as u64), length, modified })
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<String>> {
        let mut state = self.state();
        state.check("list")?;
        let node = state.find(directory)?;
        Ok(state.directory(node).keys().cloned().collect())
    }

    fn open(&self, path: &Path, new: bool) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        state.check("open")?;
        let node = match new {
            true => {
                state.check("create")?;
                state.make(path, Node::File(vec![]))?
            }
            false => state.find(path)?,
        };
        Ok(Box::new(SimulatedFile { disk: self.clone(), node }))
    }

    fn read(&self, path: &Path, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        let mut state = self.state();
        state.check("read")?;
        let node = state.find(path)?;
        let Node::File(bytes) = &state.nodes[&node] else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a regular file"));
        };
        let offset = usize::try_from(offset).unwrap().min(bytes.len());
        Ok(Box::new(Cursor::new(bytes[offset..].to_vec())))
    }

    fn write(&self, path: &Path, content: &mut dyn Read, _: Access) -> io::Result<()> {
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes)?;
        let mut state = self.state();
        let (node, is_new) = state.open_or_make(path)?;
        if !is_new {
            state.record(Operation::Truncate { node, length: 0 });
        }
        state.write_all(node, 0, &bytes)
    }

    fn write_at(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let (node, _) = state.open_or_make(path)?;
        state.write_all(node, usize::try_from(offset).unwrap(), bytes)
    }

    fn rewrite(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        state.check("open")?;
        let node = state.find(path)?;
        state.write_all(node, usize::try_from(offset).unwrap(), bytes)?;
        state.sync(node)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.check("rename")?;
        state.find(from)?;
        let ((directory, from), (same, to)) = (state.parent(from)?, state.parent(to)?);
        assert_eq!(directory, same, "names are changed within a directory");
        state.record(Operation::Rename { directory, from, to });
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.check("unlink")?;
        state.find(path)?;
        let (directory, name) = state.parent(path)?;
        state.record(Operation::Unlink { directory, name });
        Ok(())
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.remove(path)
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.check("open")?;
        let node = state.find(path)?;
        state.sync(node)
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<HeldLock>> {
        let mut state = self.state();
        state.check("lock")?;
        // A lock file holds nothing, so none is created.
        state.parent(path)?;
        let is_free = state.locks.insert(path.to_owned());
        Ok(is_free.then(|| self.held(path)))
    }

    fn lock(&self, path: &Path) -> io::Result<HeldLock> {
        let mut state = self.state();
        state.check("lock")?;
        state.parent(path)?;
        while !state.locks.insert(path.to_owned()) {
            state = self.0.unlocked.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(self.held(path))
    }

    fn is_locked(&self, path: &Path) -> bool {
        self.state().locks.contains(path)
    }

    fn open_byte_locks(&self, path: &Path) -> io::Result<Arc<dyn ByteLocks>> {
        let mut state = self.state();
        state.check("lock")?;
        state.parent(path)?;
        Ok(Arc::new(SimulatedByteLocks { disk: self.clone(), path: path.to_owned(), held: Mutex::default() }))
    }

    fn is_byte_locked(&self, path: &Path, byte: u64) -> io::Result<bool> {
        Ok(self.is_locked(&byte_lock(path, byte)))
    }
}

/// The lock that stands for a byte of a file. What is only locked holds nothing, so no file is made.
fn byte_lock(path: &Path, byte: u64) -> PathBuf {
    path.join(byte.to_string())
}

#[derive(Debug)]
struct SimulatedByteLocks {
    disk: SimulatedDisk,
    path: PathBuf,
    held: Mutex<HashSet<u64>>,
}

impl SimulatedByteLocks {
    fn held(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ByteLocks for SimulatedByteLocks {
    fn try_lock(&self, byte: u64) -> io::Result<bool> {
        let mut state = self.disk.state();
        state.check("lock")?;
        let is_free = state.locks.insert(byte_lock(&self.path, byte)) && self.held().insert(byte);
        Ok(is_free || self.held().contains(&byte))
    }

    fn unlock(&self, byte: u64) {
        if self.held().remove(&byte) {
            self.disk.state().locks.remove(&byte_lock(&self.path, byte));
        }
    }

    fn is_locked(&self, byte: u64) -> io::Result<bool> {
        Ok(!self.held().contains(&byte) && self.disk.is_locked(&byte_lock(&self.path, byte)))
    }

    fn is_at(&self, path: &Path) -> bool {
        path == self.path
    }
}

impl Drop for SimulatedByteLocks {
    fn drop(&mut self) {
        let held = std::mem::take(&mut *self.held());
        let mut state = self.disk.state();
        for byte in held {
            state.locks.remove(&byte_lock(&self.path, byte));
        }
    }
}

#[derive(Debug)]
struct SimulatedFile {
    disk: SimulatedDisk,
    node: usize,
}

impl DiskFile for SimulatedFile {
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.disk.state();
        let end = state.file(self.node).len();
        state.write("append", self.node, end, bytes)
    }

    fn length(&self) -> io::Result<Option<u64>> {
        let mut state = self.disk.state();
        state.check("stat")?;
        let is_named = state.nodes.values().any(|node| match node {
            Node::Directory(names) => names.values().any(|&child| child == self.node),
            Node::File(_) => false,
        });
        let length = state.file(self.node).len() as u64;
        Ok(is_named.then_some(length))
    }

    fn is_at(&self, path: &Path) -> bool {
        self.disk.state().find(path).is_ok_and(|node| node == self.node)
    }

    fn identity(&self) -> io::Result<FileIdentity> {
        Ok(FileIdentity(0, self.node as u64))
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.check("truncate")?;
        let length = usize::try_from(length).unwrap();
        state.record(Operation::Truncate { node: self.node, length });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.state().sync(self.node)
    }
}

struct SimulatedLock {
    disk: SimulatedDisk,
    path: PathBuf,
}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        self.disk.state().locks.remove(&self.path);
        self.disk.0.unlocked.notify_all();
    }
}
