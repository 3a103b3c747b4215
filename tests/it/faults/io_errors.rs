//! FT-05: calls to the disk fail one after the other, each in every way that the system knows. What fails
//! says so, nothing panics, and what was acknowledged stays.

use roo_durable::simulated_disk::{Fault, Random, SimulatedDisk};
use roo_durable::{RequestLog, StoreError};

use super::errno::{EAGAIN, EDQUOT, EINTR, EIO, EMFILE, ENOSPC, EROFS};
use super::{assert_honest, open, record, request, sync};

const FAULTS: [Fault; 9] = [
    Fault::Errno(EIO),
    Fault::Errno(EINTR),
    Fault::Errno(EAGAIN),
    Fault::Errno(EDQUOT),
    Fault::Errno(EMFILE),
    Fault::Errno(EROFS),
    Fault::Errno(ENOSPC),
    Fault::Short,
    Fault::SyncLost,
];

/// Tries until it is done, as whoever drives a log does. Every refusal is one of the store.
fn insist<T>(refused: &mut usize, mut action: impl FnMut() -> Result<T, StoreError>) -> T {
    for _ in 0..500 {
        match action() {
            Ok(done) => return done,
            Err(StoreError::Io { .. } | StoreError::TooManyOpenFiles { .. }) => *refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("refused for good");
}

/// A log is made, written, synced and opened again. Returns what was acknowledged.
fn live(disk: &SimulatedDisk, refused: &mut usize) -> u64 {
    let made = RequestLog::create(request(disk));
    let mut log = made.unwrap_or_else(|_| {
        *refused += 1;
        // The directory may be there, the log may not: another request begins.
        insist(refused, || match RequestLog::create(request(disk)) {
            Err(StoreError::Io { source, .. }) if source.kind() == std::io::ErrorKind::AlreadyExists => {
                open(disk).map(|(log, _)| log)
            }
            made => made,
        })
    });
    for step in 0..6 {
        let first = log.last_seq() + 1;
        let records: Vec<_> = (first..first + 4).map(record).collect();
        insist(refused, || log.append(&records));
        if step % 2 == 1 {
            insist(refused, || sync(&mut log));
        }
        if step == 3 {
            drop(log);
            let (opened, loaded) = insist(refused, || open(disk));
            assert_honest(&loaded, first + 3, "opened again");
            log = opened;
        }
    }
    insist(refused, || sync(&mut log))
}

#[test]
fn a_call_that_fails_once_costs_nothing_that_was_acknowledged() {
    let calls = {
        let disk = SimulatedDisk::new();
        disk.plan(|_, _| None);
        live(&disk, &mut 0);
        disk.heal()
    };
    assert!(calls > 60, "{calls}");
    let mut random = Random::new(5);
    let mut failed = 0;
    // Every call fails in some of the ways; the first ones, where a log is made, in all of them.
    let cases = (0..2 * calls).map(|at| (at / 2, FAULTS[random.below(FAULTS.len())]));
    let cases: Vec<_> = cases.chain((0..12).flat_map(|at| FAULTS.map(|fault| (at, fault)))).collect();
    assert!(cases.len() > 200, "{}", cases.len());
    for (at, fault) in cases {
        let disk = SimulatedDisk::new();
        disk.plan(move |ordinal, _| (ordinal == at).then_some(fault));
        let place = format!("{fault:?} at call {at}");
        let acknowledged = live(&disk, &mut failed);
        disk.heal();
        assert_eq!(acknowledged, 24, "{place}");
        assert_honest(&open(&disk).unwrap().1, acknowledged, &place);
        for seed in 0..3 {
            let left = disk.after_power_loss(disk.operations(), &mut Random::new(seed));
            assert_honest(&open(&left).unwrap().1, acknowledged, &format!("{place}, power lost"));
        }
    }
    assert!(failed > 100, "{failed} calls failed");
}

#[test]
fn calls_that_fail_all_the_time_cost_nothing_that_was_acknowledged() {
    for seed in 0..100 {
        let disk = SimulatedDisk::new();
        let mut random = Random::new(seed);
        disk.plan(move |_, _| random.one_in(9).then(|| FAULTS[random.below(FAULTS.len())]));
        let acknowledged = live(&disk, &mut 0);
        disk.heal();
        assert_honest(&open(&disk).unwrap().1, acknowledged, &format!("seed {seed}"));
        let left = disk.after_power_loss(disk.operations(), &mut Random::new(seed));
        assert_honest(&open(&left).unwrap().1, acknowledged, &format!("seed {seed}, power lost"));
    }
}
