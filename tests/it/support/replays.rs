//! Every request that a test makes replays to its log.

use std::path::Path;
use std::thread;

use roo_durable::{Record, WorkspaceDirectory, read_from};
use roo_engine::engine::event::Event;
use roo_engine::engine::replay;

/// Replays the logs of a workspace whose test is over. Those that the test has damaged are left out.
pub fn check(state: &Path, folder: &Path) {
    if thread::panicking() {
        return;
    }
    let workspace = WorkspaceDirectory::new(state, folder);
    for request in workspace.requests().unwrap_or_default() {
        let Ok((records, _)) = read_from::<Event>(&workspace.request(&request), 0, usize::MAX) else {
            continue;
        };
        let is_whole = |(seq, record): (u64, &Record<Event>)| record.seq == seq;
        if !(1..).zip(&records).all(is_whole) {
            continue;
        }
        if let Err(difference) = replay(&request, &records) {
            let before = records.iter().filter(|record| record.seq < difference.seq).rev().take(6);
            let before: Vec<_> = before.map(|record| (&record.task_id, &record.event)).collect();
            panic!("a replay differs from the log: {difference:#?}\nbehind, the newest first, {before:#?}");
        }
    }
}
