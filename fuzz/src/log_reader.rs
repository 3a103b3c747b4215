//! Logs: whatever a disk made of one, opening it does not fail, gives only whole records in order, tells of
//! the rest, and what is appended then is there the next time with all that was there before.

use std::path::Path;
use std::sync::Arc;

use roo_protocol::ids::TaskId;
use roo_durable::disk::{Access, Disk as _};
use roo_durable::simulated_disk::SimulatedDisk;
use roo_durable::{Record, RequestDirectory, RequestLog, WorkspaceDirectory, read_from};
use serde_json::{Value, json};

use crate::Input;

/// The property.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let disk = SimulatedDisk::new();
    let directory = WorkspaceDirectory::on(Arc::new(disk.clone()), Path::new("/s"), Path::new("/w"));
    let directory = directory.request(&TaskId::new("t"));
    drop(RequestLog::create(directory.clone()).unwrap());
    let bytes = match input.byte() % 3 {
        0 => input.0.to_vec(),
        1 => sealed(input),
        _ => damaged(&directory, &disk, input),
    };
    disk.write(&directory.log(), &mut &bytes[..], Access::Private).unwrap();

    let (read, _) = read_from::<Value>(&directory, 0, usize::MAX).unwrap();
    let (mut log, loaded) = RequestLog::open::<Value>(directory.clone()).unwrap();
    assert!(loaded.records.windows(2).all(|pair| pair[0].seq < pair[1].seq));
    assert!(loaded.records.iter().all(|record| read.contains(record)));
    let is_whole = loaded.records.iter().zip(1..).all(|(record, seq)| record.seq == seq);
    assert!((is_whole && !loaded.records.is_empty()) || !loaded.damage.is_empty());
    if log.last_seq() == u64::MAX {
        return;
    }
    let next = record(log.last_seq() + 1);
    log.append(std::slice::from_ref(&next)).unwrap();
    log.sync_handle()().unwrap();
    drop(log);
    let (log, again) = RequestLog::open::<Value>(directory).unwrap();
    assert_eq!(again.records.split_last().unwrap(), (&next, loaded.records.as_slice()));
    assert_eq!(log.last_seq(), next.seq);
}

fn record(seq: u64) -> Record<Value> {
    Record { seq, at: 0, task_id: TaskId::new("t"), event: json!({ "n": seq, "text": "x".repeat(30) }) }
}

/// Lines whose checksums fit, whatever they say.
fn sealed(mut input: Input<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !input.is_empty() {
        let begin = bytes.len();
        let (choice, seq) = (input.byte(), input.byte());
        match choice % 3 {
            0 => bytes.extend(format!("{{\"seq\":{seq},\"at\":0,\"taskId\":\"t\",\"event\":1").bytes()),
            1 => bytes.extend(
                format!(
                    "{{\"seq\":{seq},\"at\":0,\"taskId\":\"t\",\"event\":{{\"$blob\":\"sha256:{seq:064}\"}}"
                )
                .bytes(),
            ),
            _ => bytes.extend(input.bytes(usize::from(seq)).iter().filter(|byte| **byte != b'\n')),
        }
        let sum = crc32fast::hash(&bytes[begin..]);
        bytes.extend(format!(",\"sum\":\"{sum:08x}\"}}\n").bytes());
    }
    bytes
}

/// A whole log with places that were overwritten, cut or copied.
fn damaged(directory: &RequestDirectory, disk: &SimulatedDisk, mut input: Input<'_>) -> Vec<u8> {
    let mut log = RequestLog::open::<Value>(directory.clone()).unwrap().0;
    log.append(&(1..=6).map(record).collect::<Vec<_>>()).unwrap();
    drop(log);
    let mut bytes = disk.bytes(&directory.log()).unwrap();
    while !input.is_empty() && !bytes.is_empty() {
        let at = (input.below(256) * 256 + input.below(256)) % bytes.len();
        let count = input.below(200).min(bytes.len() - at);
        match input.byte() % 4 {
            0 => bytes[at..at + count].fill(0),
            1 => bytes.truncate(at),
            2 => bytes[at] ^= 1 << input.below(8),
            _ => {
                let copy = bytes[at..at + count].to_vec();
                let to = (input.below(256) * 7) % bytes.len();
                bytes.splice(to..to, copy);
            }
        }
        if bytes.len() > 64 * 1024 {
            break;
        }
    }
    bytes
}
