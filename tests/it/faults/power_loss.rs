//! FT-03: power is lost after any operation on the disk, and what was not synced is there or not, in part
//! and in any order.

use roo_durable::simulated_disk::{Fault, Random, SimulatedDisk};
use roo_durable::{RequestLog, StoreError};

use super::{append_some, assert_honest, open, record, request, sync};

/// A log's life on a disk, and what it promised when.
struct Life {
    disk: SimulatedDisk,
    /// After so many operations, so many records were acknowledged.
    promises: Vec<(usize, u64)>,
}

impl Life {
    /// Appends and syncs as chance has it; now and then a sync fails.
    fn live(seed: u64, steps: usize) -> Self {
        let mut random = Random::new(seed);
        let disk = SimulatedDisk::new();
        let mut chance = random.clone();
        disk.plan(move |_, call| (call == "sync" && chance.one_in(7)).then_some(Fault::SyncLost));
        let mut log = RequestLog::create(request(&disk)).unwrap();
        let mut life = Self { disk, promises: vec![(0, 0)] };
        let mut is_doubtful = false;
        for _ in 0..steps {
            match random.below(3) {
                0 => is_doubtful = !life.sync(&mut log),
                // What a sync has dropped is known to the process that saw it fail, and to no other.
                1 if !is_doubtful && random.one_in(5) => {
                    drop(log);
                    log = open(&life.disk).unwrap().0;
                }
                _ => append_some(&mut log, &mut random).unwrap(),
            }
        }
        life.disk.heal();
        life
    }

    fn sync(&mut self, log: &mut RequestLog) -> bool {
        let synced = sync(log);
        let promise = synced.as_ref().ok().map(|seq| (self.disk.operations(), *seq));
        self.promises.extend(promise);
        synced.is_ok()
    }

    fn promised(&self, operations: usize) -> u64 {
        self.promises.iter().filter(|(at, _)| *at <= operations).map(|(_, seq)| *seq).max().unwrap_or(0)
    }
}

/// Opens what is left, and goes on with it: what was there stays, and power is lost once more.
fn recover(left: &SimulatedDisk, acknowledged: u64, random: &mut Random, place: &str) {
    let begun = left.operations();
    let (mut log, loaded) = match open(left) {
        Ok(opened) => opened,
        Err(StoreError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            assert_eq!(acknowledged, 0, "{place}: the log is gone");
            return;
        }
        Err(error) => panic!("{place}: {error}"),
    };
    assert_honest(&loaded, acknowledged, place);
    let (recovered, first) = (left.operations(), log.last_seq() + 1);
    append_some(&mut log, random).unwrap();
    let last = sync(&mut log).unwrap();
    drop(log);

    let again = left.after_power_loss(left.operations(), random);
    let (log, reloaded) = open(&again).unwrap_or_else(|error| panic!("{place}, and again: {error}"));
    assert_eq!(log.last_seq(), last, "{place}");
    let found: Vec<u64> = reloaded.records.iter().map(|record| record.seq).collect();
    let kept: Vec<u64> = loaded.records.iter().map(|record| record.seq).chain(first..=last).collect();
    assert_eq!(found, kept, "{place}");
    assert!(reloaded.records.iter().all(|found| *found == record(found.seq)), "{place}");

    // Within the recovery itself, too.
    let during = left.after_power_loss(begun + random.below(recovered - begun + 1), random);
    match open(&during) {
        Ok((_, loaded)) => assert_honest(&loaded, acknowledged, &format!("{place}, during recovery")),
        Err(error) => assert_eq!(acknowledged, 0, "{place}, during recovery: {error}"),
    }
}

#[test]
fn what_was_acknowledged_survives_a_loss_of_power_at_any_moment() {
    let mut states = 0;
    let mut promises = 0;
    for seed in 0..40 {
        let life = Life::live(seed, 30);
        promises += life.promises.len();
        let mut random = Random::new(seed + 1000);
        for _ in 0..50 {
            let operations = random.below(life.disk.operations() + 1);
            let left = life.disk.after_power_loss(operations, &mut random);
            let place = format!("life {seed}, power lost after {operations} operations, state {states}");
            recover(&left, life.promised(operations), &mut random, &place);
            states += 1;
        }
    }
    assert_eq!(states, 2000);
    assert!(promises > 200, "{promises}");
}

/// A sync that fails may have lost what it was to write, and the next one says nothing of it.
#[test]
fn a_sync_that_failed_is_made_up_for_by_writing_again() {
    let disk = SimulatedDisk::new();
    let mut log = RequestLog::create(request(&disk)).unwrap();
    log.append(&[record(1)]).unwrap();
    assert_eq!(sync(&mut log).unwrap(), 1);
    log.append(&(2..=10).map(record).collect::<Vec<_>>()).unwrap();
    let mut first = true;
    disk.plan(move |_, call| (call == "sync" && std::mem::take(&mut first)).then_some(Fault::SyncLost));
    assert!(sync(&mut log).is_err());
    log.append(&[record(11)]).unwrap();
    assert_eq!(sync(&mut log).unwrap(), 11);
    log.append(&[record(12)]).unwrap();
    for seed in 0..50 {
        let left = disk.after_power_loss(disk.operations(), &mut Random::new(seed));
        assert_honest(&open(&left).unwrap().1, 11, &format!("seed {seed}"));
    }
}
