use std::fs;

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::super::fixture::{LedgerFixture, denied, read};
use super::super::ledger::{Ledger, Limits, Setup};
use super::*;

/// A trace of `count` records, some to a segment, signed at the seventh.
fn fixture(count: u64) -> LedgerFixture {
    let fixture = LedgerFixture::new();
    let ledger = fixture.ledger_with(Limits { segment: 5 * 1024, copy: 1 << 20 });
    for number in 1..=count {
        ledger.append(&[denied(number)]).unwrap();
        if number == 7 {
            ledger.sign().unwrap();
        }
    }
    fixture
}

fn check(fixture: &LedgerFixture) -> Report {
    verify(&fixture.state(), Some(Copy::OfFolder(&fixture.folder()))).unwrap()
}

fn original(fixture: &LedgerFixture) -> Option<(u64, Tamper)> {
    check(fixture).original.finding.map(|finding| (finding.seq, finding.kind))
}

fn copy(fixture: &LedgerFixture) -> Option<(u64, Tamper)> {
    check(fixture).copy.unwrap().finding.map(|finding| (finding.seq, finding.kind))
}

/// Changes the lines of the copy.
fn change_copy(fixture: &LedgerFixture, change: impl FnOnce(&mut Vec<String>)) {
    let mut lines: Vec<String> = fixture.lines();
    change(&mut lines);
    fs::write(fixture.copy(), lines.concat()).unwrap();
}

/// Changes the lines of the original; which segment they are in stays as it is for those that stay.
fn change_original(fixture: &LedgerFixture, change: impl FnOnce(&mut Vec<(u64, String)>)) {
    let directory = fixture.directory();
    let (mut headers, mut lines) = (vec![], vec![]);
    for number in directory.segments().unwrap() {
        let text = read(&directory.segment(number));
        let mut all = text.split_inclusive('\n');
        headers.push((number, all.next().unwrap().to_owned()));
        lines.extend(all.map(|line| (number, line.to_owned())));
    }
    change(&mut lines);
    for (number, header) in headers {
        let own = lines.iter().filter(|(segment, _)| *segment == number).map(|(_, line)| line.as_str());
        fs::write(directory.segment(number), header + &own.collect::<String>()).unwrap();
    }
}

/// Another record in the place of one, with a hash that is right for what it says.
fn forged(line: &str) -> String {
    let mut record = super::super::record::Record::read(line.trim_end().as_bytes()).unwrap();
    let own = record.metadata.own.as_mut().unwrap();
    let (chain, seq, prev) = (own.chain.clone(), own.seq, own.prev);
    own.mode = "evil".to_owned();
    let mut out = Vec::new();
    chain::seal(record, &chain, seq, prev, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_pipe_in_the_place_of_the_copy_does_not_block() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    let fixture = fixture(3);
    fs::remove_file(fixture.copy()).unwrap();
    mknodat(CWD, fixture.copy(), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    for copy in [Copy::OfFolder(&fixture.folder()), Copy::File(&fixture.copy())] {
        let error = verify(&fixture.state(), Some(copy)).unwrap_err();
        assert_eq!(error.to_string(), "it is not a regular file");
    }
}

#[test]
fn an_unchanged_trace_is_intact() {
    let fixture = fixture(20);
    assert!(fixture.directory().segments().unwrap().len() > 2);
    let report = check(&fixture);
    assert!(report.is_whole(), "{report:?}");
    assert_eq!((report.newest, report.original.records, report.original.anchors), (20, 20, 1));
    assert_eq!(report.copy.unwrap().records, 20);
    assert!(report.key.is_some());
}

#[test]
fn without_a_trace_there_is_nothing_to_check() {
    let fixture = LedgerFixture::new();
    let report = check(&fixture);
    assert!(report.is_whole() && report.chain.is_none() && report.copy.is_none());
}

/// A trace whose newest record came to the original alone: its process was killed before it wrote the copy, and
/// with `head` before it wrote the head.
fn killed_before_the_copy(head: bool) -> LedgerFixture {
    let fixture = LedgerFixture::new();
    let ledger = fixture.ledger();
    (1..=7).for_each(|number| drop(ledger.append(&[denied(number)]).unwrap()));
    let before = fs::read(fixture.directory().head()).unwrap();
    let (without_copy, _) = Ledger::open(Setup::new(fixture.state(), None)).unwrap();
    without_copy.append(&[denied(8)]).unwrap();
    if head {
        fs::write(fixture.directory().head(), before).unwrap();
    }
    fixture
}

#[test]
fn records_missing_from_the_copy_after_a_crash_are_no_finding_and_are_copied_with_the_next_one() {
    for head in [false, true] {
        let fixture = killed_before_the_copy(head);
        assert_eq!(fixture.lines().len(), 8);
        assert!(check(&fixture).is_whole(), "{:?}", check(&fixture));
        fixture.ledger().append(&[denied(9)]).unwrap();
        assert_eq!(read(&fixture.copy()), fixture.lines().concat());
        let report = check(&fixture);
        assert!(report.is_whole(), "{report:?}");
        assert_eq!(report.copy.unwrap().records, 9);
    }
}

#[test]
fn a_line_of_the_copy_that_a_crash_cut_is_no_deed_and_any_other_part_of_a_line_is() {
    let fixture = killed_before_the_copy(true);
    let (copied, lines) = (read(&fixture.copy()), fixture.lines());
    let last = lines.last().unwrap();
    for cut in (1..last.len()).step_by(13) {
        fs::write(fixture.copy(), copied.clone() + &last[..cut]).unwrap();
        assert!(check(&fixture).is_whole(), "{cut}");
        fs::write(fixture.copy(), copied.clone() + &last[..cut] + "x").unwrap();
        assert_eq!(copy(&fixture), Some((8, Tamper::Insert)), "{cut}");
        // Not even the beginning of an older one.
        fs::write(fixture.copy(), copied.clone() + &lines[2][..cut.max(400)]).unwrap();
        assert_eq!(copy(&fixture), Some((8, Tamper::Insert)), "{cut}");
    }
    // What was in the copy is missed all the same.
    fs::write(fixture.copy(), lines[..6].concat()).unwrap();
    assert_eq!(copy(&fixture), Some((7, Tamper::Truncation)));
    fs::write(fixture.copy(), lines[..6].concat() + &lines[6][..100]).unwrap();
    assert_eq!(copy(&fixture), Some((7, Tamper::Truncation)));
    fs::remove_file(fixture.copy()).unwrap();
    assert_eq!(copy(&fixture), Some((1, Tamper::Truncation)));
    fixture.ledger().append(&[denied(9)]).unwrap();
    assert!(check(&fixture).is_whole());
}

#[test]
fn every_change_of_the_copy_is_named() {
    let fixture = fixture(20);
    type Change = fn(&mut Vec<String>);
    let cases: [(Change, u64, Tamper); 16] = [
        (|lines| lines[4] = lines[4].replace("denied", "failed"), 5, Tamper::Edit),
        (|lines| lines[4] = forged(&lines[4]), 5, Tamper::Edit),
        (|lines| lines[19] = forged(&lines[19]), 20, Tamper::Edit),
        (|lines| lines[0] = "{}\n".to_owned(), 1, Tamper::Edit),
        (|lines| drop(lines.remove(4)), 5, Tamper::Delete),
        (|lines| drop(lines.remove(0)), 1, Tamper::Delete),
        (|lines| lines.swap(4, 5), 5, Tamper::Reorder),
        (
            |lines| {
                let line = lines.remove(12);
                lines.insert(3, line)
            },
            4,
            Tamper::Reorder,
        ),
        (
            |lines| {
                let line = lines.remove(3);
                lines.insert(12, line)
            },
            4,
            Tamper::Reorder,
        ),
        (|lines| lines.insert(5, lines[4].clone()), 5, Tamper::Duplicate),
        (|lines| lines.push(lines[4].clone()), 5, Tamper::Duplicate),
        (|lines| lines.insert(4, forged(&lines[4])), 5, Tamper::Insert),
        (|lines| lines.push(forged(&lines[19])), 21, Tamper::Insert),
        (|lines| lines.truncate(17), 18, Tamper::Truncation),
        (
            |lines| {
                lines.truncate(17);
                let cut = lines[16].len() - 1;
                lines[16].truncate(cut)
            },
            17,
            Tamper::Truncation,
        ),
        (Vec::clear, 1, Tamper::Truncation),
    ];
    for (index, (change, seq, kind)) in cases.into_iter().enumerate() {
        change_copy(&fixture, change);
        assert_eq!(copy(&fixture), Some((seq, kind)), "case {index}");
        assert_eq!(original(&fixture), None);
    }
    fs::remove_file(fixture.copy()).unwrap();
    assert_eq!(copy(&fixture), Some((1, Tamper::Truncation)));
}

#[test]
fn another_history_in_the_place_of_the_copy_is_found() {
    let (first, second) = (fixture(20), fixture(5));
    fs::copy(second.copy(), first.copy()).unwrap();
    assert_eq!(copy(&first), Some((1, Tamper::Replacement)));
    // Yesterday's file.
    change_copy(&first, |lines| lines.truncate(9));
    assert_eq!(copy(&first), Some((10, Tamper::Truncation)));
    fs::write(first.copy(), "nonsense\n").unwrap();
    assert_eq!(copy(&first), Some((1, Tamper::Replacement)));
}

#[test]
fn a_full_copy_begins_later_and_is_intact() {
    let fixture = LedgerFixture::new();
    let ledger = fixture.ledger_with(Limits { segment: 1 << 20, copy: 8 * 1024 });
    for number in 0..30 {
        ledger.append(&[denied(number)]).unwrap();
    }
    let report = check(&fixture);
    assert!(report.is_whole() && report.copy.as_ref().unwrap().records < 10, "{report:?}");
    let text = read(&fixture.copy());
    let first = 31 - report.copy.unwrap().records;
    fs::write(fixture.copy(), text.split_once('\n').unwrap().1).unwrap();
    assert_eq!(copy(&fixture), Some((first, Tamper::Delete)));
    // A copy of all of it is one too.
    let all = fixture.state().join("all.jsonl");
    fs::write(&all, fixture.lines().concat()).unwrap();
    let report = verify(&fixture.state(), Some(Copy::File(&all))).unwrap();
    assert!(report.is_whole(), "{report:?}");
}

#[test]
fn every_change_of_the_original_is_named() {
    type Change = fn(&mut Vec<(u64, String)>);
    let cases: [(Change, u64, Tamper); 12] = [
        (|lines| lines[4].1 = lines[4].1.replace("denied", "failed"), 5, Tamper::Edit),
        (|lines| lines[4].1 = forged(&lines[4].1), 5, Tamper::Edit),
        (|lines| lines[0].1 = forged(&lines[0].1), 1, Tamper::Edit),
        (|lines| lines[18].1 = forged(&lines[18].1), 19, Tamper::Edit),
        (|lines| drop(lines.remove(4)), 5, Tamper::Delete),
        (|lines| drop(lines.remove(0)), 1, Tamper::Delete),
        (
            |lines| {
                let (a, b) = (lines[9].1.clone(), lines[10].1.clone());
                lines[9].1 = b;
                lines[10].1 = a
            },
            10,
            Tamper::Reorder,
        ),
        (|lines| lines.insert(5, lines[4].clone()), 5, Tamper::Duplicate),
        (|lines| lines.insert(4, (lines[4].0, forged(&lines[4].1))), 5, Tamper::Insert),
        (|lines| lines.truncate(17), 18, Tamper::Truncation),
        (|lines| lines.truncate(7), 8, Tamper::Truncation),
        (Vec::clear, 1, Tamper::Truncation),
    ];
    for (index, (change, seq, kind)) in cases.into_iter().enumerate() {
        let fixture = fixture(20);
        change_original(&fixture, change);
        assert_eq!(original(&fixture), Some((seq, kind)), "case {index}");
    }
}

#[test]
fn a_history_written_anew_does_not_fit_its_anchors() {
    let fixture = fixture(20);
    change_original(&fixture, |lines| {
        let mut prev = None;
        for (_, line) in &mut lines[4..] {
            let mut record = super::super::record::Record::read(line.trim_end().as_bytes()).unwrap();
            let own = record.metadata.own.as_mut().unwrap();
            own.mode = "evil".to_owned();
            let (chain, seq, before) = (own.chain.clone(), own.seq, prev.unwrap_or(own.prev));
            let mut out = Vec::new();
            prev = Some(chain::seal(record, &chain, seq, before, &mut out).unwrap());
            *line = String::from_utf8(out).unwrap();
        }
    });
    let found = original(&fixture).unwrap();
    // The seventh was signed; between there and the fifth a segment may begin that no longer follows.
    assert!(found.0 <= 7 && matches!(found.1, Tamper::Replacement | Tamper::BrokenSegmentLink), "{found:?}");
}

#[test]
fn segments_and_anchors_are_checked_too() {
    let whole = |change: &dyn Fn(&LedgerFixture, &[u64])| {
        let fixture = fixture(20);
        let segments = fixture.directory().segments().unwrap();
        change(&fixture, &segments);
        original(&fixture)
    };
    let segment = |fixture: &LedgerFixture, number: u64| fixture.directory().segment(number);
    let first_of =
        |fixture: &LedgerFixture, number: u64| header(&fixture.directory(), number).unwrap().unwrap().0.first;
    let second = first_of(&fixture(20), 2);
    let third = first_of(&fixture(20), 3);
    let header_changed = whole(&|fixture, _| {
        let text = read(&segment(fixture, 2));
        fs::write(segment(fixture, 2), text.replacen("sha256:", "sha257:", 1)).unwrap();
    });
    assert_eq!(header_changed, Some((second, Tamper::BrokenSegmentLink)));
    assert_eq!(
        whole(&|fixture, _| fs::remove_file(segment(fixture, 2)).unwrap()),
        Some((second, Tamper::Delete))
    );
    let last_gone = whole(&|fixture, all| fs::remove_file(segment(fixture, *all.last().unwrap())).unwrap());
    assert_eq!(last_gone.unwrap().1, Tamper::Truncation);
    let swapped = whole(&|fixture, _| {
        let (two, three) = (read(&segment(fixture, 2)), read(&segment(fixture, 3)));
        fs::write(segment(fixture, 2), three).unwrap();
        fs::write(segment(fixture, 3), two).unwrap();
    });
    assert!(
        matches!(swapped, Some((seq, Tamper::BrokenSegmentLink | Tamper::Reorder)) if seq <= third),
        "{swapped:?}"
    );
    assert_eq!(
        whole(&|fixture, _| fs::remove_file(fixture.directory().head()).unwrap()).unwrap().1,
        Tamper::Anchor
    );
    let signature = whole(&|fixture, _| {
        let text = read(&fixture.directory().anchors());
        fs::write(fixture.directory().anchors(), text.replace("\"seq\":7", "\"seq\":6")).unwrap();
    });
    assert_eq!(signature, Some((6, Tamper::Anchor)));
}

#[test]
fn damage_of_any_byte_is_found() {
    let fixture = fixture(6);
    let whole = fs::read(fixture.copy()).unwrap();
    for index in (0..whole.len()).step_by(11) {
        for change in [1_u8, 0x80] {
            let mut bytes = whole.clone();
            bytes[index] ^= change;
            fs::write(fixture.copy(), &bytes).unwrap();
            let seq = whole[..index].iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
            let found = copy(&fixture).map(|found| found.0);
            assert_eq!(found, Some(seq), "byte {index}");
        }
        fs::write(fixture.copy(), &whole[..index]).unwrap();
        assert!(copy(&fixture).is_some(), "cut at {index}");
    }
}

#[derive(Clone, Debug)]
enum Tampering {
    Edit(usize),
    Forge(usize),
    Delete(usize),
    Swap(usize),
    Duplicate(usize),
    Insert(usize),
    Truncate(usize),
    Move(usize, usize),
}

fn tampering() -> impl Strategy<Value = Tampering> {
    let line = 0..12_usize;
    prop_oneof![
        line.clone().prop_map(Tampering::Edit),
        line.clone().prop_map(Tampering::Forge),
        // The last one is a truncation.
        (0..11_usize).prop_map(Tampering::Delete),
        (0..11_usize).prop_map(Tampering::Swap),
        line.clone().prop_map(Tampering::Duplicate),
        line.clone().prop_map(Tampering::Insert),
        line.clone().prop_map(Tampering::Truncate),
        (line.clone(), line)
            .prop_filter("it moves", |(from, to)| from != to)
            .prop_map(|(a, b)| Tampering::Move(a, b)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_tampering_is_found_and_named(tampering in tampering(), at_original in any::<bool>()) {
        let fixture = fixture(12);
        let apply = |lines: &mut Vec<String>| -> (usize, Tamper) {
            match tampering {
                Tampering::Edit(at) => { lines[at] = lines[at].replace("code", "cade"); (at, Tamper::Edit) }
                Tampering::Forge(at) => { lines[at] = forged(&lines[at]); (at, Tamper::Edit) }
                Tampering::Delete(at) => { lines.remove(at); (at, Tamper::Delete) }
                Tampering::Swap(at) => { lines.swap(at, at + 1); (at, Tamper::Reorder) }
                Tampering::Duplicate(at) => { lines.insert(at, lines[at].clone()); (at, Tamper::Duplicate) }
                Tampering::Insert(at) => { lines.insert(at, forged(&lines[at])); (at, Tamper::Insert) }
                Tampering::Truncate(at) => { lines.truncate(at); (at, Tamper::Truncation) }
                Tampering::Move(from, to) => {
                    let line = lines.remove(from);
                    lines.insert(to, line);
                    (from.min(to), Tamper::Reorder)
                }
            }
        };
        let found = if at_original {
            let mut expected = None;
            change_original(&fixture, |lines| {
                // Into one segment, so that only the lines change.
                let mut texts: Vec<String> = lines.iter().map(|(_, line)| line.clone()).collect();
                let numbers: Vec<u64> = lines.iter().map(|(number, _)| *number).collect();
                expected = Some(apply(&mut texts));
                let last = *numbers.last().unwrap();
                *lines = texts.into_iter().enumerate().map(|(index, line)| (numbers.get(index).copied().unwrap_or(last), line)).collect();
            });
            (original(&fixture), expected)
        } else {
            let mut expected = None;
            change_copy(&fixture, |lines| expected = Some(apply(lines)));
            (copy(&fixture), expected)
        };
        let (seq, kind) = found.1.unwrap();
        let (found_seq, found_kind) = found.0.unwrap();
        prop_assert_eq!(found_seq, seq as u64 + 1);
        // Lines that go to another segment break its link too.
        prop_assert!(found_kind == kind || (at_original && found_kind == Tamper::BrokenSegmentLink), "{:?}", found_kind);
    }
}
