//! FT-06: logs that a disk or a person has damaged. What is whole is read, before and behind the damage, and
//! the user is told: never is the past silently blank.

use std::fs::File;
use std::path::Path;

use roo_durable::disk::Access;
use roo_durable::disk::Disk as _;
use roo_durable::simulated_disk::{Random, SimulatedDisk};
use roo_durable::{Damage, Loaded, RequestLog, WorkspaceDirectory};
use roo_engine::engine::EngineError;
use roo_protocol::ids::TaskId;
use serde_json::{Value, json};

use super::{open, record, request, sync};
use crate::support::engine::Fixture;

/// How many records the logs have.
const RECORDS: u64 = 8;

/// A log whose records were synced one by one, and where its lines begin.
fn whole() -> (SimulatedDisk, Vec<u8>, Vec<usize>) {
    let disk = SimulatedDisk::new();
    let mut log = RequestLog::create(request(&disk)).unwrap();
    for seq in 1..=RECORDS {
        log.append(&[record(seq)]).unwrap();
        assert_eq!(sync(&mut log).unwrap(), seq);
    }
    let bytes = disk.bytes(&request(&disk).log()).unwrap();
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(index, _)| index + 1);
    let begins = std::iter::once(0).chain(ends).collect();
    (disk, bytes, begins)
}

fn load(disk: &SimulatedDisk, damaged: &[u8], place: &str) -> (RequestLog, Loaded<Value>) {
    disk.write(&request(disk).log(), &mut &damaged[..], Access::Private).unwrap();
    open(disk).unwrap_or_else(|error| panic!("{place}: {error}"))
}

fn seqs(loaded: &Loaded<Value>) -> Vec<u64> {
    loaded.records.iter().map(|record| record.seq).collect()
}

/// All lines that the damage did not touch are there, it is told of, and the log goes on.
#[track_caller]
fn assert_survives(disk: &SimulatedDisk, damaged: &[u8], untouched: &[u64], place: &str) {
    let (mut log, loaded) = load(disk, damaged, place);
    assert_eq!(seqs(&loaded), untouched, "{place}: {:?}", loaded.damage);
    assert!(loaded.records.iter().all(|found| *found == record(found.seq)), "{place}");
    if untouched.len() as u64 != RECORDS {
        // Only a log that was cut between two lines looks as if it had never been longer.
        let clean_cut = untouched.last() == Some(&(untouched.len() as u64)) && damaged.ends_with(b"\n");
        assert!(clean_cut || !loaded.damage.is_empty(), "{place}: nobody is told");
    }
    let next = log.last_seq() + 1;
    log.append(&[record(next)]).unwrap();
    drop(log);
    let (_, again) = open(disk).unwrap();
    assert_eq!(seqs(&again), [untouched, &[next]].concat(), "{place}");
}

#[test]
fn a_cut_at_any_byte_of_the_last_three_records_loses_only_what_is_behind_it() {
    let (disk, bytes, begins) = whole();
    for cut in begins[RECORDS as usize - 3]..bytes.len() {
        let kept = begins.iter().skip(1).filter(|end| **end <= cut).count() as u64;
        assert_survives(&disk, &bytes[..cut], &(1..=kept).collect::<Vec<_>>(), &format!("cut at {cut}"));
    }
}

#[test]
fn a_flipped_bit_costs_its_line_alone() {
    let (disk, bytes, begins) = whole();
    let mut random = Random::new(6);
    for _ in 0..100 {
        let (at, bit) = (random.below(bytes.len()), random.below(8));
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << bit;
        let line = begins.iter().filter(|begin| **begin <= at).count() as u64;
        let is_newline = bytes[at] == b'\n';
        let split = damaged[at] == b'\n';
        // Without its newline a line is one with the next.
        let untouched: Vec<u64> =
            (1..=RECORDS).filter(|seq| *seq != line && !(is_newline && *seq == line + 1)).collect();
        assert_survives(&disk, &damaged, &untouched, &format!("bit {bit} of byte {at}, split: {split}"));
    }
}

#[test]
fn what_was_filled_or_fused_is_told_of_and_the_rest_is_read() {
    let (disk, bytes, begins) = whole();
    let mut random = Random::new(7);
    let lines = |from: usize, to: usize| &bytes[begins[from - 1]..begins[to]];
    for round in 0..50 {
        let from = random.below(bytes.len() - 1);
        let to = from + 1 + random.below((bytes.len() - from - 1).min(700));
        let mut damaged = bytes.clone();
        damaged[from..to].fill(0);
        let untouched: Vec<u64> = (1..=RECORDS)
            .filter(|seq| {
                let (begin, end) = (begins[*seq as usize - 1], begins[*seq as usize]);
                // A newline that is gone takes the next line along.
                let fused = *seq > 1 && (from..to).contains(&(begin - 1));
                !fused && (end <= from || begin >= to)
            })
            .collect();
        assert_survives(&disk, &damaged, &untouched, &format!("round {round}: nothing from {from} to {to}"));
    }
    for garbage in [&b"\n"[..], b"garbage\n", b"{\"seq\":3}\n", b"\xff\xfe\n", &[b'\n'; 3], &[b'{'; 100_000]]
    {
        let line = if garbage.ends_with(b"\n") { garbage.to_vec() } else { [garbage, b"\n"].concat() };
        let damaged = [lines(1, 4), &line, lines(5, 8)].concat();
        assert_survives(&disk, &damaged, &[1, 2, 3, 4, 5, 6, 7, 8], "garbage between two lines");
    }
    let half = &lines(4, 4)[..40];
    let damaged = [lines(1, 3), half, lines(5, 8)].concat();
    assert_survives(&disk, &damaged, &[1, 2, 3, 6, 7, 8], "half a line before a whole one");
    let damaged = [lines(1, 8), lines(3, 4)].concat();
    assert_survives(&disk, &damaged, &[1, 2, 3, 4, 5, 6, 7, 8], "two lines once more");
    let damaged = [lines(1, 2), lines(5, 8), lines(3, 4)].concat();
    assert_survives(&disk, &damaged, &[1, 2, 5, 6, 7, 8], "two lines at the wrong place");
}

#[test]
fn an_empty_log_is_not_taken_for_a_new_one() {
    let (disk, ..) = whole();
    let (log, loaded) = load(&disk, b"", "empty");
    assert_eq!((log.last_seq(), loaded.damage), (0, vec![Damage::Empty]));
}

#[test]
fn an_unfinished_line_is_kept_however_often_that_happens() {
    let (disk, bytes, begins) = whole();
    for torn in ["first", "second", "third"] {
        let damaged = [&bytes[..begins[3]], torn.as_bytes()].concat();
        let (_, loaded) = load(&disk, &damaged, torn);
        let [Damage::TornTail { moved_to }] = loaded.damage.as_slice() else { panic!("{:?}", loaded.damage) };
        assert_eq!(disk.bytes(moved_to).unwrap(), torn.as_bytes());
    }
    let names = disk.names(request(&disk).path()).unwrap();
    assert_eq!(names.iter().filter(|name| name.contains("torn")).count(), 3, "{names:?}");
}

#[test]
fn two_gibibytes_of_nothing_are_moved_away_without_being_kept_in_memory() {
    let root = tempfile::tempdir().unwrap();
    let directory = WorkspaceDirectory::new(root.path(), Path::new("/work")).request(&TaskId::new("t1"));
    let mut log = RequestLog::create(directory.clone()).unwrap();
    log.append(&[record(1), record(2)]).unwrap();
    drop(log);
    let end = std::fs::metadata(directory.log()).unwrap().len();
    File::options().write(true).open(directory.log()).unwrap().set_len(2 << 30).unwrap();
    let (log, loaded) = RequestLog::open::<Value>(directory.clone()).unwrap();
    assert_eq!(log.last_seq(), 2);
    let [Damage::TornTail { moved_to }] = loaded.damage.as_slice() else { panic!("{:?}", loaded.damage) };
    let moved = std::fs::metadata(moved_to).unwrap();
    assert_eq!(moved.len(), (2 << 30) - end);
    assert!(std::os::unix::fs::MetadataExt::blocks(&moved) < 1000, "it takes no room");
    assert_eq!(std::fs::metadata(directory.log()).unwrap().len(), end);
}

#[tokio::test]
async fn a_request_whose_log_is_gone_is_still_listed_as_damaged() {
    let script = "turns:\n  - calls: [{ tool: ask_followup_question, params: { question: Tabs?, follow_up: [{ text: Yes }] } }]\n";
    let fixture = Fixture::scripted(&[], script, json!({}));
    let mut task = fixture.start("Precious").await;
    task.until(|event| matches!(event, roo_protocol::event::Event::QuestionAsked { .. }).then_some(())).await;
    fixture.engine.shutdown().await;
    std::fs::remove_file(fixture.project.logs().pop().unwrap()).unwrap();
    let other = Fixture::beside(&fixture, json!({ "profiles": {} }));
    let list = other.engine.list(None).await.unwrap();
    assert_eq!(list.items[0].title, "[damaged log] Precious");
    let error = other.engine.get(&task.task).await.unwrap_err();
    assert!(matches!(error, EngineError::NotFound { .. }), "{error}");
}
