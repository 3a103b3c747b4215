//! What happens when the disk, the power, a client or somebody else fails: no acknowledged event is lost,
//! nothing happens twice or unasked, and the user is told.

mod clients;
mod damage;
mod disk_full;
mod io_errors;
mod power_loss;
mod trace;
mod workspace;

use std::path::Path;
use std::sync::Arc;

use roo_durable::simulated_disk::{Random, SimulatedDisk};
use roo_durable::{Loaded, Record, RequestDirectory, RequestLog, StoreError, WorkspaceDirectory};
use roo_protocol::ids::TaskId;
use serde_json::{Value, json};

/// The numbers of errors, which differ from system to system.
mod errno {
    use rustix::io::Errno;

    pub const EINTR: i32 = Errno::INTR.raw_os_error();
    pub const EIO: i32 = Errno::IO.raw_os_error();
    pub const EAGAIN: i32 = Errno::AGAIN.raw_os_error();
    pub const EMFILE: i32 = Errno::MFILE.raw_os_error();
    pub const ENOSPC: i32 = Errno::NOSPC.raw_os_error();
    pub const EROFS: i32 = Errno::ROFS.raw_os_error();
    pub const EDQUOT: i32 = Errno::DQUOT.raw_os_error();
}

/// The one request of a simulated disk.
fn request(disk: &SimulatedDisk) -> RequestDirectory {
    let state = Path::new("/state");
    WorkspaceDirectory::on(Arc::new(disk.clone()), state, Path::new("/work")).request(&TaskId::new("t1"))
}

fn open(disk: &SimulatedDisk) -> Result<(RequestLog, Loaded<Value>), StoreError> {
    RequestLog::open(request(disk))
}

/// The event of this number; every ninth has a payload beside the log, and some of these are the same.
fn record(seq: u64) -> Record<Value> {
    let mut random = Random::new(seq);
    let text = match seq % 9 {
        0 => format!("{:>1$}", seq % 4, 40_000),
        _ => "some words ".repeat(random.below(40)),
    };
    Record { seq, at: 0, task_id: TaskId::new("t1"), event: json!({ "n": seq, "text": text }) }
}

/// A step of the life of a log: appends some records.
fn append_some(log: &mut RequestLog, random: &mut Random) -> Result<(), StoreError> {
    let first = log.last_seq() + 1;
    let records: Vec<_> = (first..=first + random.below(3) as u64).map(record).collect();
    log.append(&records)
}

/// Another: makes all durable. Returns the number of the newest record that survives.
fn sync(log: &mut RequestLog) -> Result<u64, StoreError> {
    match log.sync_handle()() {
        Ok(synced) => {
            log.synced(&synced);
            Ok(synced.seq())
        }
        Err(error) => {
            log.sync_failed();
            Err(error)
        }
    }
}

/// What was loaded is the beginning of what was written.
#[track_caller]
fn assert_honest(loaded: &Loaded<Value>, acknowledged: u64, place: &str) {
    for found in &loaded.records {
        assert_eq!(*found, record(found.seq), "{place}");
    }
    let seqs: Vec<u64> = loaded.records.iter().map(|record| record.seq).collect();
    let prefix = seqs.iter().zip(1..).take_while(|(seq, next)| **seq == *next).count();
    assert!(prefix as u64 >= acknowledged, "{place}: {acknowledged} were acknowledged, there are {seqs:?}");
    assert_eq!(prefix, seqs.len(), "{place}: there is a gap in {seqs:?}");
    assert!(!seqs.is_empty() || !loaded.damage.is_empty(), "{place}: nobody is told that there is nothing");
}
