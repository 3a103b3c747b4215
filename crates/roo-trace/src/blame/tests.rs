use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::super::fixture::{LedgerFixture, change, draft, entry, wrote};
use super::super::record::{Author, Entry, FileChange, Side};
use super::*;

const PATH: &str = "src/a.txt";

/// A trace of these changes, one after another.
fn index(changes: &[FileChange]) -> (LedgerFixture, Index) {
    let fixture = LedgerFixture::new();
    let ledger = fixture.ledger();
    for change in changes {
        ledger.append(&[draft(&Entry { files: vec![change.clone()], ..entry() })]).unwrap();
    }
    let mut index = Index::new(&fixture.state());
    index.refresh().unwrap();
    (fixture, index)
}

/// The numbers of the records of all lines; 0 for none.
fn seqs(index: &Index, path: &str, text: &str) -> Vec<u64> {
    index.lines(path, text).iter().map(|found| found.as_ref().map_or(0, |found| found.seq)).collect()
}

fn steps(texts: &[&str]) -> Vec<FileChange> {
    texts.windows(2).map(|pair| change(PATH, pair[0], pair[1])).collect()
}

fn of(texts: &[&str], current: &str) -> Vec<u64> {
    seqs(&index(&steps(texts)).1, PATH, current)
}

#[test]
fn recorded_changes_are_followed_exactly() {
    let last = "new\none\n}\nthree\nfour\n}\n";
    assert_eq!(
        of(&["", "one\ntwo\nthree\n}\n", "one\n}\nthree\n}\n", "new\none\n}\nthree\n}\n", last], last),
        [3, 1, 2, 1, 4, 1]
    );
    assert_eq!(of(&["", "one\ntwo\n", "two\n"], "two\n"), [1]);
    assert_eq!(of(&["", "one\n", "two\n", "one\n"], "one\n"), [3]);
}

#[test]
fn what_was_there_before_has_no_record() {
    let (_house, index) =
        index(&[change(PATH, "first line\nsecond line\n", "first line\nwritten\nsecond line\n")]);
    assert_eq!(seqs(&index, PATH, "first line\nwritten\nsecond line\n"), [0, 1, 0]);
    assert_eq!(seqs(&index, "elsewhere", "written\n"), [0]);
}

const BLOCK: &str = "if token.is_expired() {\n    return Err(Expired);\n}\n";

#[test]
fn lines_are_found_wherever_a_person_moved_them() {
    let written = format!("start of it\n{BLOCK}end of it\n");
    let texts = ["", written.as_str()];
    let above: String = (0..100).map(|n| format!("line {n}\n")).collect();
    let mut expected = vec![0; 100];
    expected.extend([1; 5]);
    assert_eq!(of(&texts, &format!("{above}{written}")), expected);
    // Other line ends, deeper, and with something in between.
    assert_eq!(of(&texts, &written.replace('\n', "\r\n")), [1; 5]);
    let deeper = written.lines().map(|line| format!("    {line}\n")).collect::<String>();
    assert_eq!(of(&texts, &deeper), [1; 5]);
    let between = written.replace("    return", "    log(\"expired\");\n    return");
    assert_eq!(of(&texts, &between), [1, 1, 0, 1, 1, 1]);
    // One token is another one.
    assert_eq!(of(&texts, &written.replace("Expired", "Outdated")), [1, 1, 0, 1, 1]);
    // Somebody else's line end of a block is nobody's.
    assert_eq!(of(&texts, "something {\n}\n"), [0, 0]);
}

#[test]
fn a_block_that_changed_places_is_found_by_its_hash() {
    let other = "alpha\nbeta\ngamma\ndelta\nepsilon\nzeta\n";
    let (_house, index) =
        index(&[change(PATH, other, &format!("{BLOCK}{other}")), change("b.txt", "x\n", "x\ny\n")]);
    assert_eq!(seqs(&index, PATH, &format!("{other}{BLOCK}")), [0, 0, 0, 0, 0, 0, 1, 1, 1]);
}

#[test]
fn edits_that_were_not_recorded_are_gone_around() {
    let first = format!("{BLOCK}first line\n");
    let by_hand = format!("by hand\n{first}more by hand\n");
    let last = format!("by hand\n{first}more by hand\nsecond line\n");
    let changes = [change(PATH, "", &first), change(PATH, &by_hand, &last)];
    let (_house, index) = index(&changes);
    assert_eq!(seqs(&index, PATH, &last), [0, 1, 1, 1, 1, 0, 2]);
    assert_eq!(seqs(&index, PATH, &format!("above it\n{last}")), [0, 0, 1, 1, 1, 1, 0, 2]);
}

#[test]
fn the_lines_of_a_moved_file_keep_their_records() {
    let moved = FileChange { old_path: Some(PATH.to_owned()), ..change("b.txt", BLOCK, BLOCK) };
    let (fixture, mut index) = index(&[change(PATH, "", BLOCK), moved]);
    assert_eq!(seqs(&index, "b.txt", BLOCK), [1, 1, 1]);
    assert_eq!(seqs(&index, PATH, BLOCK), [0, 0, 0]);
    let gone = FileChange { after: Side::Absent, ..change("b.txt", BLOCK, "") };
    fixture.ledger().append(&[draft(&Entry { files: vec![gone], ..entry() })]).unwrap();
    index.refresh().unwrap();
    assert_eq!((seqs(&index, "b.txt", BLOCK), index.runs), (vec![0, 0, 0], 0));
}

#[test]
fn a_line_has_an_author_and_a_purpose() {
    let mixed = FileChange { author: Author::Mixed, ..change(PATH, "", "a line\n") };
    let (fixture, index) = index(&[mixed]);
    let found = index.line(PATH, "a line\n", 1).unwrap();
    assert_eq!(super::line(&fixture.state(), PATH, "a line\n", 1).unwrap(), Some(Arc::clone(&found)));
    insta::assert_json_snapshot!(found, @r#"
    {
      "seq": 1,
      "at": "2026-11-20T12:00:00.123Z",
      "author": "mixed",
      "intent": "INT-001",
      "intentName": "JWT Authentication Migration",
      "task": "0198f0c2-77aa-7c3e-9f51-2a4f6f0e9b11.4",
      "urid": "20250502-11-36-b4649193",
      "mode": "code",
      "model": "anthropic/claude-sonnet-4-5",
      "prompt": {
        "id": "m1",
        "title": "Move to JWT"
      },
      "tool": "write_to_file"
    }
    "#);
    assert_eq!(index.line(PATH, "a line\n", 0), None);
    assert_eq!(index.line(PATH, "a line\n", 2), None);
}

#[test]
fn an_index_grows_with_the_trace_and_forgets_another_one() {
    let (fixture, mut index) = index(&steps(&["", "one line\n"]));
    let ledger = fixture.ledger();
    ledger.append(&[wrote(PATH, "one line\n", "one line\nanother line\n")]).unwrap();
    index.refresh().unwrap();
    assert_eq!(seqs(&index, PATH, "one line\nanother line\n"), [1, 2]);
    drop(ledger);
    std::fs::remove_dir_all(fixture.directory().path()).unwrap();
    fixture.ledger().append(&[wrote("b.txt", "", "x y z\n")]).unwrap();
    index.refresh().unwrap();
    assert_eq!(index.paths(), ["b.txt"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// With all changes recorded, a line belongs to the record that wrote it, as a comparison of kept texts shows.
    #[test]
    fn blame_is_exact_for_recorded_changes(texts in prop::collection::vec("([abc]{3}\n){0,6}", 1..6)) {
        let mut all = vec![String::new()];
        all.extend(texts);
        all.dedup();
        let mut index = Index::new(Path::new("/nowhere"));
        let mut owners: Vec<u64> = Vec::new();
        for (seq, pair) in (1..).zip(all.windows(2)) {
            let side = |text: &str| if seq == 1 && text.is_empty() { Side::Absent } else { Side::text(text) };
            let files = vec![FileChange {
                path: PATH.to_owned(),
                old_path: None,
                before: side(&pair[0]),
                after: Side::text(pair[1].as_str()),
                author: Author::Ai,
            }];
            let draft = draft(&Entry { files, ..entry() });
            let mut record = draft.0[0].clone();
            record.metadata.own.as_mut().unwrap().seq = seq;
            index.add(&record);
            let (old, new) = (ranges::split(&pair[0]), ranges::split(&pair[1]));
            let mut next = Vec::new();
            let mut at = 0;
            for hunk in ranges::Changes::between(&old, &new).hunks {
                next.extend_from_slice(&owners[at..hunk.old_start]);
                next.extend(std::iter::repeat_n(seq, hunk.new_len));
                at = hunk.old_start + hunk.old_len;
            }
            next.extend_from_slice(&owners[at..]);
            owners = next;
            prop_assert_eq!(seqs(&index, PATH, &pair[1]), owners.clone());
        }
    }

    #[test]
    fn any_text_has_an_answer(first in "([ab]{0,3}\n){0,8}", second in "([ab]{0,3}\n){0,8}", current in "([ab]{0,3}\n){0,8}") {
        let mut index = Index::new(Path::new("/nowhere"));
        for (before, after) in [("", first.as_str()), (second.as_str(), current.as_str()), (first.as_str(), second.as_str())] {
            let draft = draft(&Entry { files: vec![change(PATH, before, after)], ..entry() });
            index.add(&draft.0[0]);
        }
        prop_assert_eq!(index.lines(PATH, &current).len(), ranges::split(&current).len());
    }
}
