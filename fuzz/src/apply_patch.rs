//! `apply_patch`: nothing panics, a hunk that was made from a text changes just the lines that it names, and
//! every other byte stays.

use roo_text::patch::{Hunk, HunkLine, Mark, PatchOf, apply, parse};

use crate::Input;

/// Lines that meet in hostile ways.
const LINES: [&str; 12] = ["", "a", "b", "a", "  a", "\ta", "fn x() {", "}", "*** End Patch", "@@ a", "+", "é "];

/// The property.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    if input.byte() % 2 == 0 {
        anything(input);
    } else {
        round_trip(input);
    }
}

/// Whatever a model writes, and whatever a file holds.
fn anything(mut input: Input<'_>) {
    let length = usize::from(input.byte()) * 4;
    let text = String::from_utf8_lossy(input.bytes(length)).into_owned();
    let body = input.text();
    for patch in [body.clone(), format!("*** Begin Patch\n*** Update File: a\n{body}\n*** End Patch")] {
        let Ok(patch) = parse(&patch) else { continue };
        assert!(!patch.files.is_empty());
        for file in patch.files {
            assert!(!file.path.is_empty());
            if let PatchOf::Update { hunks, .. } = file.change {
                // Either it has one place for each hunk, or it says which one has none.
                match apply(&text, &hunks) {
                    Ok(applied) => assert!(applied.notices.len() <= hunks.len()),
                    Err(error) => assert!(error.hunk >= 1 && error.hunk <= hunks.len()),
                }
            }
        }
    }
}

/// A hunk made from lines of the file goes there, or has several places.
fn round_trip(mut input: Input<'_>) {
    let ends = ["\n", "\r\n"];
    let end = input.one(&ends);
    let lines: Vec<&str> = (0..1 + input.below(12)).map(|_| input.one(&LINES)).collect();
    let text: String = lines.iter().map(|line| format!("{line}{end}")).collect();
    let from = input.below(lines.len());
    let to = from + 1 + input.below(lines.len() - from);
    let new: Vec<&str> = (0..input.below(4)).map(|_| input.one(&LINES)).collect();
    let line = |mark, text: &&str| HunkLine { mark, text: (*text).to_owned() };
    let old = lines[from..to].iter().map(|text| line(Mark::Remove, text));
    let hunk = Hunk {
        line: 1,
        contexts: vec![],
        lines: old.chain(new.iter().map(|text| line(Mark::Insert, text))).collect(),
        at_end: false,
    };
    let Ok(applied) = apply(&text, &[hunk]) else { return };
    let expected: String =
        lines[..from].iter().chain(&new).chain(&lines[to..]).map(|line| format!("{line}{end}")).collect();
    // The lines stand there exactly once, so that is the place.
    assert_eq!(applied.text, expected, "{text:?} at {from}..{to} with {new:?}");
}
