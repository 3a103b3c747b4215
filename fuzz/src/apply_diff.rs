//! `apply_diff`: nothing panics, a block that was made from a text changes just the lines that it names, and
//! every other byte stays.

use roo_text::blocks::{Block, Threshold, apply, parse};

use crate::Input;

/// Lines that meet in hostile ways.
const LINES: [&str; 12] =
    ["", "a", "b", "a", "  a", "\ta", "fn x() {", "}", "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE", "é "];

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
    let diff = input.text();
    if let Ok(blocks) = parse(&diff)
        && let Ok(applied) = apply(&text, &blocks, Threshold::new(0.9))
    {
        assert_eq!(applied.applied.len() + applied.failed.len(), blocks.len());
    }
}

/// A block made from lines of the file, whose place is given, goes there.
fn round_trip(mut input: Input<'_>) {
    let ends = ["\n", "\r\n"];
    let end = input.one(&ends);
    let lines: Vec<&str> = (0..1 + input.below(12)).map(|_| input.one(&LINES)).collect();
    let text: String = lines.iter().map(|line| format!("{line}{end}")).collect();
    let from = input.below(lines.len());
    let to = from + 1 + input.below(lines.len() - from);
    let new: Vec<&str> = (0..input.below(4)).map(|_| input.one(&LINES)).collect();
    let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    let (search, replace) = (owned(&lines[from..to]), owned(&new));
    let block = Block { line: 1, start_line: Some(from + 1), decoded: false, search, replace };
    let Ok(applied) = apply(&text, &[block], Threshold::new(1.0)) else { return };
    let expected: String =
        lines[..from].iter().chain(&new).chain(&lines[to..]).map(|line| format!("{line}{end}")).collect();
    if lines[from..to].iter().any(|line| !line.trim().is_empty()) {
        assert_eq!(applied.text, expected, "{text:?} at {from}..{to} with {new:?}");
    }
}
