//! What all lives of a server have in common: the workspace, the clock, and what was seen from outside.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use roo_durable::simulated_disk::{Random, SimulatedDisk};
use roo_durable::{RequestDirectory, WorkspaceDirectory, read_from};
use roo_engine::engine::clock::Clock;
use roo_engine::engine::event::Event;
use roo_protocol::ids::TaskId;
use serde_json::Value;
use tokio::time::Instant;
use uuid::{Builder, Uuid};

use super::plan::{Part, numbers};
use super::promises::lines_of;

/// When the first life begins, in milliseconds since the Unix epoch.
const BEGIN: i64 = 1_767_225_600_000;

/// The directory of a simulated world. Removed when it is dropped.
#[derive(Debug)]
pub struct Place(PathBuf);

impl Place {
    /// An empty directory for a seed, in memory where that is possible. The same seed has the same place again.
    pub fn new(seed: u64) -> Self {
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let place = base.join(format!("roo-lsp-simulation-{}", std::process::id())).join(seed.to_string());
        // What an earlier run of this seed left when it was killed.
        let _ = fs::remove_dir_all(&place);
        fs::create_dir_all(&place).unwrap();
        Self(place)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The workspace folder.
    pub fn folder(&self) -> PathBuf {
        self.0.join("work")
    }

    /// Where logs are on the simulated disk, and the rest of the state in this directory.
    pub fn state(&self) -> PathBuf {
        self.0.join("state")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
        // Fails while others are in it.
        let _ = self.0.parent().map(fs::remove_dir);
    }
}

/// What happened outside of the engine, in all lives.
#[derive(Debug, Default)]
pub struct Seen {
    /// How often each command line was run.
    pub executed: BTreeMap<String, u32>,
    /// The lines that the model put into files, or wanted to.
    pub by_model: BTreeSet<String>,
    /// The lines that the user put into files and that must not get lost, by file.
    pub by_user: BTreeMap<String, BTreeSet<String>>,
    /// The calls that the user refused, and those that they allowed.
    pub refused: BTreeSet<String>,
    pub allowed: BTreeSet<String>,
    /// Promises that were broken as somebody looked.
    pub broken: Vec<String>,
    /// What happened, in words.
    pub story: Vec<String>,
    /// The disk of this life, the state directory on it and the workspace folder.
    life: Option<(SimulatedDisk, PathBuf, PathBuf)>,
    /// What is synced in this life, by request.
    synced: BTreeMap<TaskId, SyncedLog>,
}

/// What of a log any loss of power would leave, read as far as it was when somebody looked last.
#[derive(Debug, Default)]
struct SyncedLog {
    bytes: Vec<u8>,
    /// Where the next record begins.
    next: u64,
    /// The lines in the parameters of each call.
    calls: BTreeMap<String, BTreeSet<String>>,
    /// The lines of the calls that have started.
    started: BTreeSet<String>,
}

impl SyncedLog {
    /// Reads what has come since.
    fn read(&mut self, disk: &SimulatedDisk, request: &RequestDirectory) {
        let bytes = disk.bytes(&request.log()).unwrap_or_default();
        if !bytes.starts_with(&self.bytes) {
            *self = Self::default();
        }
        self.bytes = bytes;
        let Ok((records, next)) = read_from::<Event>(request, self.next, usize::MAX) else { return };
        self.next = next;
        for record in records {
            match record.event {
                Event::Called { call, .. } => {
                    let mut lines = BTreeSet::new();
                    lines_of(&Value::Object(call.params), &mut lines);
                    self.calls.insert(call.id.to_string(), lines);
                }
                Event::ToolStarted { call_id, .. } => {
                    self.started.extend(self.calls.get(call_id.as_str()).into_iter().flatten().cloned());
                }
                _ => {}
            }
        }
    }
}

/// Shared between the parts of the world.
#[derive(Clone, Debug, Default)]
pub struct Witness(Arc<Mutex<Seen>>);

impl Witness {
    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A life begins, on this disk.
    pub fn begin_life(&self, disk: &SimulatedDisk, place: &Place) {
        let mut seen = self.seen();
        seen.life = Some((disk.clone(), place.state(), place.folder()));
        seen.synced.clear();
    }

    /// Something is done that a call with this line is to do. It may be only when the log says so for good.
    pub fn is_done(&self, what: &str, line: &str) {
        let mut seen = self.seen();
        let Seen { life: Some((disk, state, folder)), synced, broken, .. } = &mut *seen else { return };
        // What is synced stays synced.
        if synced.values().any(|log| log.started.contains(line)) {
            return;
        }
        let left = disk.synced();
        let directory = WorkspaceDirectory::on(Arc::new(left.clone()), state, folder);
        let mut requests = directory.requests().unwrap_or_default().into_iter();
        let is_told = requests.any(|id| {
            let log = synced.entry(id.clone()).or_default();
            log.read(&left, &directory.request(&id));
            log.started.contains(line)
        });
        if !is_told {
            broken.push(format!("{what} '{line}', and its start is not synced"));
        }
    }

    pub fn tell(&self, what: impl Into<String>) {
        self.seen().story.push(what.into());
    }
}

/// Time and ids of the simulated world. Time goes on from one life to the next.
#[derive(Debug)]
pub struct WorldClock(Mutex<ClockState>);

#[derive(Debug)]
struct ClockState {
    /// The time at which this life began.
    begin: i64,
    /// The same by the runtime's clock; none between lives.
    begun: Option<Instant>,
    random: Random,
}

impl WorldClock {
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(ClockState { begin: BEGIN, begun: None, random: numbers(seed, Part::Clock) }))
    }

    fn state(&self) -> MutexGuard<'_, ClockState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A life begins: to be called in its runtime.
    pub fn begin_life(&self) {
        self.state().begun = Some(Instant::now());
    }

    /// A life ends: to be called in its runtime. The next one begins ten seconds later.
    pub fn end_life(&self) {
        let mut state = self.state();
        state.begin = state.now() + 10_000;
        state.begun = None;
    }
}

impl ClockState {
    fn now(&self) -> i64 {
        let elapsed = self.begun.map_or(0, |begun| begun.elapsed().as_millis());
        self.begin + i64::try_from(elapsed).unwrap()
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| u8::try_from(self.random.below(256)).unwrap())
    }
}

impl Clock for WorldClock {
    fn now(&self) -> i64 {
        self.state().now()
    }

    fn zoned(&self) -> Zoned {
        Timestamp::from_millisecond(self.now()).unwrap().to_zoned(TimeZone::UTC)
    }

    fn random(&self) -> Uuid {
        Builder::from_random_bytes(self.state().bytes()).into_uuid()
    }

    fn ordered(&self) -> Uuid {
        let mut state = self.state();
        let now = u64::try_from(state.now()).unwrap();
        Builder::from_unix_timestamp_millis(now, &state.bytes()).into_uuid()
    }
}
