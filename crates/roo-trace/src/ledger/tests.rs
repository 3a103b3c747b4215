use std::fs;
use std::path::Path;
use std::sync::Barrier;

use pretty_assertions::assert_eq;

use super::super::fixture::{LedgerFixture, denied, lines, read, wrote};
use super::super::history;
use super::super::verify::verify_in;
use super::*;
use roo_durable::simulated_disk::{Fault, Random, SimulatedDisk};

fn seqs(fixture: &LedgerFixture) -> Vec<u64> {
    fixture.records().iter().map(|record| record.own().unwrap().seq).collect()
}

/// Returns whether every record follows the one before it.
fn is_whole(fixture: &LedgerFixture) -> bool {
    is_chain(&fixture.directory())
}

fn is_chain(directory: &TraceDirectory) -> bool {
    let head = Head::read(directory).unwrap().unwrap();
    let mut prev = chain::genesis(&head.chain);
    let lines = lines(directory);
    for (line, seq) in lines.iter().zip(1..) {
        match chain::read(line.trim_end().as_bytes(), &head.chain) {
            Some(fact) if fact.prev == prev && fact.seq == seq => prev = fact.hash,
            _ => return false,
        }
    }
    (head.seq, head.hash) == (lines.len() as u64, prev)
}

fn small() -> Limits {
    Limits { segment: 4000, copy: 6000 }
}

#[test]
fn records_are_chained_and_copied_to_the_workspace() {
    let fixture = LedgerFixture::new();
    let ledger = fixture.ledger();
    let first = ledger.append(&[denied(1), wrote("a.rs", "", "fn a() {}\n")]).unwrap();
    let second = ledger.append(&[denied(3)]).unwrap();
    let placed: Vec<u64> = first.records.iter().chain(&second.records).map(|placed| placed.seq).collect();
    assert_eq!((placed, first.copy_problem.is_none()), (vec![1, 2, 3], true));
    assert!(is_whole(&fixture));
    assert_eq!(read(&fixture.copy()), fixture.lines().concat());
}

#[test]
fn a_line_is_canonical_json_of_its_record() {
    let fixture = LedgerFixture::new();
    fixture.ledger().append(&[wrote("a.rs", "", "fn a() {}\n")]).unwrap();
    let line = fixture.lines().concat();
    assert_eq!(serde_json_canonicalizer::pipe(&line).unwrap() + "\n", line);
    // The hash as anyone can compute it from the rule alone.
    let mut value: serde_json::Value = serde_json::from_str(&line).unwrap();
    let own = value["metadata"]["dev.roo-lsp"].as_object_mut().unwrap();
    let hash = own.remove("hash").unwrap();
    let prev = own["prev"].as_str().unwrap().to_owned();
    let hashed = prev + &serde_json_canonicalizer::to_string(&value).unwrap();
    assert_eq!(hash, Digest::of(hashed).to_string());
}

#[test]
fn nothing_is_made_before_the_first_record() {
    let fixture = LedgerFixture::new();
    fixture.ledger();
    assert!(!fixture.directory().path().exists() && !fixture.copy().exists());
}

#[test]
fn the_trace_is_the_users_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let fixture = LedgerFixture::new();
    let ledger = fixture.ledger();
    ledger.append(&[denied(1)]).unwrap();
    ledger.sign().unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let directory = fixture.directory();
    assert_eq!(mode(directory.path()), 0o700);
    let names: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(names.len(), 5, "{names:?}");
    for path in names {
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[test]
fn full_segments_are_followed_by_others() {
    let fixture = LedgerFixture::new();
    let ledger = fixture.ledger_with(small());
    for number in 0..20 {
        ledger.append(&[denied(number)]).unwrap();
    }
    assert!(fixture.directory().segments().unwrap().len() > 4);
    assert!(is_whole(&fixture));
    // Another process continues the same chain.
    fixture.ledger_with(small()).append(&[denied(20)]).unwrap();
    ledger.append(&[denied(21)]).unwrap();
    assert_eq!(seqs(&fixture), (1..=22).collect::<Vec<_>>());
    assert!(is_whole(&fixture));
}

#[test]
fn what_many_bring_at_once_has_one_order() {
    let fixture = LedgerFixture::new();
    let (one, other) = (fixture.ledger_with(small()), fixture.ledger_with(small()));
    let barrier = Barrier::new(8);
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let (ledger, barrier) = (if thread % 2 == 0 { &one } else { &other }, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for number in 0..25 {
                    let drafts = [denied(thread * 1000 + number), denied(thread * 1000 + number + 500)];
                    let placed = ledger.append(&drafts).unwrap().records;
                    assert_eq!(placed[0].seq + 1, placed[1].seq);
                }
            });
        }
    });
    assert_eq!(seqs(&fixture), (1..=400).collect::<Vec<_>>());
    assert!(is_whole(&fixture));
    // The copy has the newest of them, to the last.
    let lines = fixture.lines().concat();
    let copy = read(&fixture.copy());
    assert!(lines.ends_with(&copy) && copy.len() > 2000, "{}", copy.len());
}

#[test]
fn the_copy_heals_whatever_becomes_of_it() {
    let fixture = LedgerFixture::new();
    let ledger = fixture.ledger();
    ledger.append(&[denied(1), denied(2)]).unwrap();
    let old = read(&fixture.copy());
    let copy = fixture.copy();
    let damages: [&dyn Fn(); 6] = [
        &|| fs::remove_file(&copy).unwrap(),
        &|| fs::remove_dir_all(copy.parent().unwrap()).unwrap(),
        &|| fs::write(&copy, &old).unwrap(),
        &|| fs::write(&copy, "").unwrap(),
        &|| fs::write(&copy, old.replace("denied", "failed")).unwrap(),
        // As a checkout does it.
        &|| {
            fs::write(copy.with_extension("x"), &old).unwrap();
            fs::rename(copy.with_extension("x"), &copy).unwrap();
        },
    ];
    for (number, damage) in damages.iter().enumerate() {
        damage();
        let appended = ledger.append(&[denied(3)]).unwrap();
        assert!(appended.copy_problem.is_none());
        assert_eq!(read(&copy), fixture.lines().concat(), "damage {number}");
    }
    assert!(is_whole(&fixture));
}

#[test]
fn what_killed_processes_left_beside_the_copy_goes_and_nothing_else() {
    let fixture = LedgerFixture::new();
    fixture.ledger().append(&[denied(1)]).unwrap();
    let beside = |name: &str| fixture.copy().with_file_name(name);
    let left = [".agent_trace.jsonl.123.new", ".intent_map.md.7.new"];
    let others =
        [".agent_trace.jsonl.new", ".agent_trace.jsonl.x.new", "agent_trace.jsonl.1.new", "notes.md"];
    left.iter().chain(&others).for_each(|name| fs::write(beside(name), "x").unwrap());
    fixture.ledger();
    assert!(left.iter().all(|name| !beside(name).exists()));
    assert!(others.iter().all(|name| beside(name).exists()));
}

#[test]
fn the_copy_is_never_written_by_way_of_a_link() {
    let fixture = LedgerFixture::new();
    let ledger = fixture.ledger();
    let outside = fixture.state().join("outside");
    fs::create_dir_all(&outside).unwrap();
    let victim = outside.join("agent_trace.jsonl");
    fs::write(&victim, "mine").unwrap();
    let place = fixture.folder().join(".orchestration");
    let problem = |ledger: &Ledger| ledger.append(&[denied(1)]).unwrap().copy_problem;
    std::os::unix::fs::symlink(&outside, &place).unwrap();
    assert!(matches!(problem(&ledger), Some(ProjectionError::Foreign { expected: "directory", .. })));
    fs::remove_file(&place).unwrap();
    fs::create_dir(&place).unwrap();
    type Make = fn(&std::path::Path, &std::path::Path) -> io::Result<()>;
    let makes: [Make; 4] = [
        |victim, copy| std::os::unix::fs::symlink(victim, copy),
        |victim, copy| fs::hard_link(victim, copy),
        |_, copy| fs::create_dir(copy),
        |_, copy| {
            let mode = rustix::fs::Mode::from_bits_truncate(0o600);
            Ok(rustix::fs::mknodat(rustix::fs::CWD, copy, rustix::fs::FileType::Fifo, mode, 0)?)
        },
    ];
    for make in makes {
        make(&victim, &fixture.copy()).unwrap();
        let problem = problem(&ledger);
        assert!(matches!(problem, Some(ProjectionError::Foreign { expected: "file", .. })), "{problem:?}");
        let _ = fs::remove_file(fixture.copy());
        let _ = fs::remove_dir(fixture.copy());
    }
    assert_eq!(read(&victim), "mine");
    assert!(problem(&ledger).is_none() && is_whole(&fixture));
}

/// The copies of traces beside the copy of this one, and itself.
fn copies(fixture: &LedgerFixture) -> Vec<PathBuf> {
    let entries = fs::read_dir(fixture.copy().parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl")).collect()
}

#[test]
fn records_of_others_are_set_aside() {
    let (fixture, other) = (LedgerFixture::new(), LedgerFixture::new());
    other.ledger().append(&[denied(1)]).unwrap();
    fs::create_dir(fixture.folder().join(".orchestration")).unwrap();
    fs::copy(other.copy(), fixture.copy()).unwrap();
    fixture.ledger().append(&[denied(1)]).unwrap();
    assert_eq!(read(&fixture.copy()), fixture.lines().concat());
    let copies_then = copies(&fixture);
    let aside = copies_then.iter().find(|path| **path != fixture.copy()).unwrap();
    assert_eq!(read(aside), read(&other.copy()));
    let chain = Head::read(&other.directory()).unwrap().unwrap().chain;
    assert!(aside.ends_with(format!("agent_trace.{}.jsonl", &chain[..8])), "{aside:?}");
    let count = || copies(&fixture).len();
    // The same chain, longer: nothing is lost if it takes the place of its beginning.
    other.ledger().append(&[denied(2)]).unwrap();
    fs::copy(other.copy(), fixture.copy()).unwrap();
    fixture.ledger().append(&[denied(2)]).unwrap();
    assert_eq!((read(aside), count()), (read(&other.copy()), 2));
    // Other files stay.
    fs::write(aside, "mine").unwrap();
    fs::copy(other.copy(), fixture.copy()).unwrap();
    fixture.ledger().append(&[denied(3)]).unwrap();
    assert_eq!((read(aside).as_str(), count()), ("mine", 3));
    assert_eq!(
        read(&aside.with_file_name(format!("agent_trace.{}-2.jsonl", &chain[..8]))),
        read(&other.copy())
    );
    assert_eq!(read(&fixture.copy()), fixture.lines().concat());
}

#[test]
fn the_name_of_what_is_set_aside_is_the_servers() {
    let (fixture, other) = (LedgerFixture::new(), LedgerFixture::new());
    other.ledger().append(&[denied(1)]).unwrap();
    let chain = Head::read(&other.directory()).unwrap().unwrap().chain;
    fs::create_dir(fixture.folder().join(".orchestration")).unwrap();
    fs::write(fixture.copy(), read(&other.copy()).replace(&chain, "../../x/../../x")).unwrap();
    fixture.ledger().append(&[denied(1)]).unwrap();
    assert_eq!(fs::read_dir(fixture.folder()).unwrap().count(), 1);
    assert_eq!(copies(&fixture).len(), 2);
}

#[test]
fn a_tail_cut_at_any_byte_is_moved_away() {
    let whole = LedgerFixture::new();
    whole.ledger().append(&[denied(1), denied(2), denied(3), denied(4)]).unwrap();
    let path = whole.directory().segment(1);
    let bytes = fs::read(&path).unwrap();
    let lines = whole.lines();
    let last: usize = lines[1..].iter().map(String::len).sum();
    for cut in (bytes.len() - last..bytes.len()).step_by(7).chain([bytes.len() - 1]) {
        fs::write(&path, &bytes[..cut]).unwrap();
        // As after a loss of power: the head is older than the records.
        let _ = fs::remove_file(whole.directory().head());
        let (ledger, damage) = Ledger::open(Setup::new(whole.state(), Some(whole.folder()))).unwrap();
        let torn = damage.iter().any(|damage| matches!(damage, Damage::TornTail { .. }));
        assert_eq!(torn, bytes[cut - 1] != b'\n', "cut at {cut}: {damage:?}");
        ledger.append(&[denied(9)]).unwrap();
        assert!(is_whole(&whole), "cut at {cut}");
    }
}

#[test]
fn records_that_were_there_are_missed_and_the_gap_stays() {
    let fixture = LedgerFixture::new();
    let ledger = fixture.ledger();
    ledger.append(&[denied(1), denied(2), denied(3), denied(4)]).unwrap();
    let lines = fixture.lines();
    let path = fixture.directory().segment(1);
    let bytes = read(&path);
    fs::write(&path, bytes.strip_suffix(&lines[2..].concat()).unwrap()).unwrap();
    let appended = ledger.append(&[denied(5)]).unwrap();
    assert_eq!(appended.damage, [Damage::Truncated { from: 2, to: 4 }]);
    assert_eq!(seqs(&fixture), [1, 2, 5]);
    // It is reported once.
    assert_eq!(ledger.append(&[denied(6)]).unwrap().damage, []);
    // All of it is gone.
    fs::remove_dir_all(fixture.directory().path()).unwrap();
    let appended = ledger.append(&[denied(7)]).unwrap();
    assert!(matches!(appended.damage[..], [Damage::Truncated { to: 6, .. }]), "{:?}", appended.damage);
    assert_eq!(seqs(&fixture), [7]);
}

#[test]
fn a_lost_head_is_found_again() {
    let fixture = LedgerFixture::new();
    let ledger = fixture.ledger_with(small());
    for number in 0..10 {
        ledger.append(&[denied(number)]).unwrap();
    }
    ledger.sign().unwrap();
    drop(ledger);
    for damage in [Vec::new(), vec![0; 2048], b"nonsense\n".to_vec()] {
        fs::write(fixture.directory().head(), damage).unwrap();
        let (ledger, damage) = Ledger::open(Setup::new(fixture.state(), None)).unwrap();
        assert_eq!(damage, [Damage::HeadLost]);
        ledger.append(&[denied(10)]).unwrap();
        assert!(is_whole(&fixture));
    }
}

#[test]
fn bad_lines_after_the_head_are_reported_and_kept() {
    let fixture = LedgerFixture::new();
    let ledger = fixture.ledger();
    ledger.append(&[denied(1)]).unwrap();
    let path = fixture.directory().segment(1);
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend([0; 100]);
    bytes.extend(b"\nnonsense\n");
    fs::write(&path, &bytes).unwrap();
    let appended = ledger.append(&[denied(2)]).unwrap();
    assert!(matches!(appended.damage[..], [Damage::BadLine { .. }, Damage::BadLine { .. }]));
    assert!(fs::read(&path).unwrap().starts_with(&bytes));
}

/// The trace on a disk that fails.
fn directory_on(disk: &SimulatedDisk) -> TraceDirectory {
    TraceDirectory::on(Arc::new(disk.clone()), Path::new("/state"))
}

fn open_on(disk: &SimulatedDisk) -> Result<(Ledger, Vec<Damage>), LedgerError> {
    let setup = Setup { limits: small(), ..Setup::new("/state".into(), None) };
    Ledger::in_directory(directory_on(disk), setup)
}

/// Appends some records; the number of the newest one.
fn append(ledger: &Ledger, count: u64) -> Result<u64, LedgerError> {
    let drafts: Vec<Draft> = (0..count).map(denied).collect();
    ledger.append(&drafts).map(|appended| appended.records.last().unwrap().seq)
}

#[test]
fn an_append_is_atomic_whatever_the_disk_does() {
    let mut refused = 0;
    for fault in [Fault::Errno(5), Fault::Errno(28), Fault::Short, Fault::SyncLost] {
        for times in [1, 2, 3, 4] {
            let disk = SimulatedDisk::new();
            let (ledger, _) = open_on(&disk).unwrap();
            let mut acknowledged = 0;
            for number in 0..60 {
                let after = number % 13;
                disk.plan(move |ordinal, _| (after..after + times).contains(&ordinal).then_some(fault));
                match append(&ledger, 2) {
                    Ok(seq) => acknowledged = seq,
                    Err(error) => {
                        disk.heal();
                        assert!(error.to_string().contains("check the disk"), "{error}");
                        let retried = ledger.append(&[denied(number as u64), denied(1)]).unwrap();
                        acknowledged = retried.records[1].seq;
                        // A segment that could be neither begun nor removed is moved away.
                        let is_begun = |damage: &Damage| matches!(damage, Damage::TornTail { moved_to } if moved_to.to_string_lossy().ends_with(".torn-0"));
                        assert!(
                            retried.damage.iter().all(|damage| times > 1 && is_begun(damage)),
                            "{fault:?} {number}: {:?}",
                            retried.damage
                        );
                        refused += 1;
                    }
                }
                disk.heal();
            }
            assert_eq!(lines(&directory_on(&disk)).len() as u64, acknowledged);
            assert_eq!(acknowledged, 120);
            assert!(is_chain(&directory_on(&disk)));
        }
    }
    assert!(refused > 200, "{refused}");
}

#[test]
fn a_process_that_ends_at_any_write_leaves_what_it_acknowledged() {
    for is_full in [false, true] {
        for after in 0..120 {
            let disk = SimulatedDisk::new();
            let (ledger, _) = open_on(&disk).unwrap();
            match is_full {
                true => disk.fill_from(after),
                false => disk.stop_at(after),
            }
            let acknowledged = (0..20).map_while(|_| append(&ledger, 1).ok()).last().unwrap_or(0);
            drop(ledger);
            disk.heal();
            let (next, damage) = open_on(&disk).unwrap();
            let place = format!("full: {is_full}, after {after}");
            assert!(
                damage.iter().all(|damage| matches!(damage, Damage::TornTail { .. })),
                "{place}: {damage:?}"
            );
            assert!(append(&next, 1).unwrap() > acknowledged, "{place}");
            assert!(is_chain(&directory_on(&disk)), "{place}");
            assert!(verify_in(directory_on(&disk), None).unwrap().is_whole(), "{place}");
        }
    }
}

/// A life of a trace: some appends of at most so many records, of which some are signed, and what was acknowledged
/// after how many operations.
fn life(appends: usize, most: u64) -> (SimulatedDisk, Vec<(usize, u64)>) {
    let disk = SimulatedDisk::new();
    let mut promises = vec![(0, 0)];
    let (ledger, _) = open_on(&disk).unwrap();
    for number in 0..appends {
        let seq = append(&ledger, number as u64 % most + 1).unwrap();
        promises.push((disk.operations(), seq));
        if number % 3 == 1 {
            ledger.sign().unwrap();
        }
    }
    (disk, promises)
}

fn promised(promises: &[(usize, u64)], operations: usize) -> u64 {
    promises.iter().rfind(|(at, _)| *at <= operations).unwrap().1
}

#[test]
fn after_a_loss_of_power_at_any_moment_the_chain_is_intact_and_verifies() {
    let (disk, promises) = life(4, 3);
    let mut states = 0;
    for (operations, left) in disk.every_power_loss(0) {
        states += 1;
        // The more there are, the more they are alike.
        if operations > 20 && states % 7 != 0 {
            continue;
        }
        let place = format!("state {states}, after {operations} operations");
        let (ledger, damage) = open_on(&left).unwrap();
        assert!(damage.iter().all(|damage| matches!(damage, Damage::TornTail { .. })), "{place}: {damage:?}");
        let before = lines(&directory_on(&left)).len() as u64;
        assert!(before >= promised(&promises, operations), "{place}: {before}");
        ledger.sign().unwrap();
        assert_eq!(append(&ledger, 1).unwrap(), before + 1, "{place}");
        assert!(is_chain(&directory_on(&left)), "{place}");
        let report = verify_in(directory_on(&left), None).unwrap();
        assert!(report.is_whole(), "{place}: {:?}", report.original.finding);
    }
    assert!(states > 500, "{states}");
}

#[test]
fn what_was_acknowledged_survives_losses_of_power_that_tear_writes_by_sectors() {
    let mut random = Random::new(7);
    for most in [1, 3] {
        let (disk, promises) = life(12, most);
        let whole = lines(&directory_on(&disk));
        for state in 0..300 {
            let operations = random.below(disk.operations() + 1);
            let left = disk.after_power_loss(operations, &mut random);
            let place = format!("at most {most}, state {state}, after {operations} operations");
            let (ledger, damage) = open_on(&left).unwrap();
            // Of several records the first may be torn and the next one whole.
            let is_torn = |damage: &Damage| match damage {
                Damage::TornTail { .. } => true,
                Damage::BadLine { .. } => most > 1,
                _ => false,
            };
            assert!(damage.iter().all(is_torn), "{place}: {damage:?}");
            let acknowledged = promised(&promises, operations);
            assert!(append(&ledger, 2).unwrap() > acknowledged, "{place}");
            if damage.iter().all(|damage| matches!(damage, Damage::TornTail { .. })) {
                let report = verify_in(directory_on(&left), None).unwrap();
                assert!(report.is_whole(), "{place}: {:?}", report.original.finding);
            }
            let again = left.after_power_loss(left.operations(), &mut random);
            open_on(&again).unwrap();
            let found = lines(&directory_on(&again));
            let kept = usize::try_from(acknowledged).unwrap();
            assert_eq!(found[..kept], whole[..kept], "{place}");
            assert!(found.len() > kept, "{place}");
        }
    }
}

#[test]
fn an_append_takes_one_sync() {
    let disk = SimulatedDisk::new();
    let (ledger, _) = open_on(&disk).unwrap();
    append(&ledger, 1).unwrap();
    let before = disk.syncs();
    append(&ledger, 2).unwrap();
    assert_eq!(disk.syncs() - before, 1);
}

#[test]
fn heads_are_signed_now_and_then_and_on_demand() {
    let fixture = LedgerFixture::new();
    let ledger = fixture.ledger();
    let many: Vec<Draft> = (0..300).map(denied).collect();
    ledger.append(&many).unwrap();
    ledger.append(&[denied(1)]).unwrap();
    let signed = || {
        let (anchors, bad) = Anchor::read_all(&fixture.directory()).unwrap();
        assert!(bad == 0 && anchors.iter().all(Anchor::is_genuine));
        anchors.iter().map(|anchor| anchor.seq).collect::<Vec<_>>()
    };
    assert_eq!(signed(), [300]);
    ledger.sign().unwrap();
    ledger.sign().unwrap();
    assert_eq!(signed(), [300, 301]);
    let (mut anchors, _) = Anchor::read_all(&fixture.directory()).unwrap();
    anchors[0].seq = 299;
    assert!(!anchors[0].is_genuine());
}

#[test]
fn a_copy_is_current_until_anybody_else_writes_it() {
    let fixture = LedgerFixture::new();
    let (ledger, other) = (fixture.ledger(), fixture.ledger());
    let current = |trace, map| CurrentCopies { trace, map };
    assert_eq!(ledger.current_copies().unwrap(), CurrentCopies::default());
    assert!(!fixture.state().join("trace").exists());
    other.append(&[wrote("src/a.rs", "", "pub fn a() {}\n")]).unwrap();
    assert_eq!(ledger.current_copies().unwrap(), current(true, true));
    fs::write(fixture.folder().join(".orchestration/intent_map.md"), "something else").unwrap();
    assert_eq!(ledger.current_copies().unwrap(), current(true, false));
    // The same bytes, but written by another program.
    fs::write(fixture.copy(), read(&fixture.copy())).unwrap();
    assert_eq!(ledger.current_copies().unwrap(), current(false, false));
    other.append(&[denied(2)]).unwrap();
    ledger.append(&[wrote("src/b.rs", "", "pub fn b() {}\n")]).unwrap();
    assert_eq!(other.current_copies().unwrap(), current(true, true));
    fs::remove_dir_all(fixture.folder().join(".orchestration")).unwrap();
    assert_eq!(other.current_copies().unwrap(), current(false, false));
    assert!(!fixture.folder().join(".orchestration").exists());
}

#[test]
fn the_map_of_intents_follows_new_behaviour() {
    let fixture = LedgerFixture::new();
    let ledger = fixture.ledger();
    ledger.append(&[wrote("src/a.rs", "", "pub fn a() {}\n"), denied(2)]).unwrap();
    let map = fixture.folder().join(".orchestration/intent_map.md");
    let first = read(&map);
    assert!(
        first
            .contains("## INT-001 - JWT Authentication Migration\n\n- `src/a.rs` (symbols: a; ast: `sha256:")
    );
    fs::write(&map, "something else").unwrap();
    ledger.append(&[wrote("src/a.rs", "pub fn a() {}\n", "pub fn a() { }\n")]).unwrap();
    assert_eq!(read(&map), "something else");
    let other = fixture.ledger();
    other.append(&[wrote("src/b.rs", "", "pub fn b() {}\n")]).unwrap();
    assert_eq!(read(&map), super::super::map::render(&fixture.records()));
    assert!(read(&map).contains("src/b.rs") && read(&map).contains("src/a.rs"));
}

#[test]
fn the_newest_lines_are_found_from_the_end() {
    let fixture = LedgerFixture::new();
    let ledger = fixture.ledger_with(small());
    for number in 0..20 {
        ledger.append(&[denied(number)]).unwrap();
    }
    let lines = fixture.lines().concat();
    for limit in [0, 1, 1000, 2000, 5000, 10_000, 1 << 20] {
        let newest = history::newest(&fixture.directory(), limit).unwrap();
        assert!(newest.lines.len() as u64 <= limit, "{limit}");
        assert!(lines.ends_with(std::str::from_utf8(&newest.lines).unwrap()));
        if limit >= 1 << 20 {
            assert_eq!((newest.first, newest.lines.len()), (1, lines.len()));
        }
    }
}

/// Damages a log.
fn damaged(bytes: &[u8], kind: usize, at: usize) -> Vec<u8> {
    let at = at % bytes.len();
    let mut damaged = bytes.to_vec();
    match kind {
        0 => damaged[at] ^= 1 << (at % 8),
        1 => damaged[at..].fill(0),
        2 => damaged.truncate(at),
        3 => damaged.extend_from_slice(&bytes[at..]),
        // Two records without the line end between them.
        4 => {
            if let Some(end) = bytes[at..].iter().position(|byte| *byte == b'\n') {
                damaged.remove(at + end);
            }
        }
        5 => damaged.clear(),
        _ => damaged.splice(at..at, *b"\0\xffgarbage\n").for_each(drop),
    }
    damaged
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(60))]
    #[test]
    fn whatever_is_damaged_the_rest_is_read_and_the_trace_goes_on(
        kind in 0..7_usize,
        at in 0..100_000_usize,
        with_head in proptest::prelude::any::<bool>(),
    ) {
        let fixture = LedgerFixture::new();
        fixture.ledger().append(&[denied(1), denied(2), denied(3), denied(4), denied(5)]).unwrap();
        let lines = fixture.lines();
        let path = fixture.directory().segment(1);
        let bytes = fs::read(&path).unwrap();
        let bad = damaged(&bytes, kind, at);
        fs::write(&path, &bad).unwrap();
        if !with_head {
            fs::remove_file(fixture.directory().head()).unwrap();
        }
        let (ledger, damage) = Ledger::open(Setup::new(fixture.state(), Some(fixture.folder()))).unwrap();
        ledger.append(&[denied(6)]).unwrap();
        let now = fixture.lines();
        for line in lines.iter().filter(|line| bad.windows(line.len()).any(|window| window == line.as_bytes())) {
            let starts = bad.windows(line.len()).position(|window| window == line.as_bytes()).unwrap();
            // A whole line of its own is still read, whatever is around it.
            if starts == 0 || bad[starts - 1] == b'\n' {
                assert!(now.contains(line), "{kind} at {at}: {damage:?}");
            }
        }
        assert!(now.last().unwrap().contains("call_6"));
        let report = super::super::verify::verify(&fixture.state(), None).unwrap();
        // Where the head is lost too, a trace that was cut at the end is as if it had never been longer.
        let whole_lines = bad.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let is_shorter = !with_head && bytes.starts_with(&bad[..whole_lines]);
        assert!(bad == bytes || is_shorter || !report.is_whole(), "{kind} at {at}");
    }
}
