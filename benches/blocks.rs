//! How long it takes to find out that a block or a hunk has no place: the worst case of `apply_diff` and
//! `apply_patch`. And a patch of several files that fits.

use std::fmt::Write;

use divan::{Bencher, black_box};
use roo_text::blocks::{Block, Threshold, apply};
use roo_text::patch::{self, Hunk, HunkLine, Mark, PatchOf};

fn main() {
    divan::main();
}

/// A text of lines that are much alike, as code is.
fn text(lines: usize) -> String {
    let mut text = String::new();
    for n in 0..lines {
        let _ = writeln!(text, "    let value_{n} = self.compute({}, \"{}\");", n * 7919 % 1013, n % 17);
    }
    text
}

/// Thirty lines of the text, every one misspelt.
fn search(text: &str) -> Vec<String> {
    text.lines()
        .skip(text.lines().count() / 2)
        .take(30)
        .map(|line| line.replace("compute", "comptue"))
        .collect()
}

fn miss(bencher: Bencher, lines: usize, threshold: f64) {
    let text = text(lines);
    let block = Block { line: 1, start_line: None, decoded: false, search: search(&text), replace: vec![] };
    let threshold = Threshold::new(threshold);
    bencher.bench(|| apply(black_box(&text), std::slice::from_ref(&block), threshold).is_err());
}

/// The default: only white space and typography may differ.
#[divan::bench(args = [500, 5_000, 50_000])]
fn miss_whole(bencher: Bencher, lines: usize) {
    miss(bencher, lines, 1.0);
}

/// Other text may differ too, but not so much.
#[divan::bench(args = [500, 5_000, 50_000])]
fn miss_similar(bencher: Bencher, lines: usize) {
    miss(bencher, lines, 0.97);
}

/// A block that fits, for comparison.
#[divan::bench(args = [5_000])]
fn hit(bencher: Bencher, lines: usize) {
    let text = text(lines);
    let search = text.lines().skip(lines / 2).take(30).map(str::to_owned).collect();
    let block = Block { line: 1, start_line: None, decoded: false, search, replace: vec!["new".to_owned()] };
    bencher.bench(|| apply(black_box(&text), std::slice::from_ref(&block), Threshold::default()).is_ok());
}

/// Blocks of three lines each all over a text, in which one line is changed.
fn many(lines: usize, blocks: usize, has_hints: bool) -> (String, Vec<Block>) {
    let text = text(lines);
    let all: Vec<&str> = text.lines().collect();
    let block = |number: usize| {
        let at = number * (lines / blocks);
        let search: Vec<String> = all[at..at + 3].iter().map(|line| (*line).to_owned()).collect();
        let mut replace = search.clone();
        replace[1] = format!("    let changed_{number} = self.compute();");
        Block { line: 1, start_line: has_hints.then_some(at + 1), decoded: false, search, replace }
    };
    let blocks = (0..blocks).map(block).collect();
    (text, blocks)
}

fn apply_many(bencher: Bencher, (text, blocks): &(String, Vec<Block>)) {
    bencher.bench(|| {
        let applied = apply(black_box(text), blocks, Threshold::default());
        assert!(applied.is_ok_and(|applied| applied.failed.is_empty()));
    });
}

/// Many blocks, each with the line where it begins: lines of the text, and blocks.
#[divan::bench(args = [(20_000, 50), (200_000, 5_000)], sample_count = 10)]
fn many_with_hints(bencher: Bencher, (lines, blocks): (usize, usize)) {
    apply_many(bencher, &many(lines, blocks, true));
}

/// Many blocks that don't say where they begin.
#[divan::bench(args = [(20_000, 50), (200_000, 5_000)], sample_count = 10)]
fn many_without_hints(bencher: Bencher, (lines, blocks): (usize, usize)) {
    apply_many(bencher, &many(lines, blocks, false));
}

/// Many blocks that differ from the text by white space within a line: the text is searched for each.
#[divan::bench(args = [(20_000, 50), (200_000, 500)], sample_count = 2)]
fn many_with_other_white_space(bencher: Bencher, (lines, blocks): (usize, usize)) {
    let (text, mut blocks) = many(lines, blocks, false);
    blocks.iter_mut().for_each(|block| block.search[0] = block.search[0].replace(" = ", "  =  "));
    apply_many(bencher, &(text, blocks));
}

/// Many blocks that have no place.
#[divan::bench(args = [(20_000, 50), (200_000, 500)], sample_count = 1)]
fn many_misses(bencher: Bencher, (lines, blocks): (usize, usize)) {
    let (text, mut blocks) = many(lines, blocks, false);
    blocks.iter_mut().for_each(|block| block.search[0] = block.search[0].replace("compute", "comptue"));
    bencher.bench(|| apply(black_box(&text), &blocks, Threshold::default()).is_err());
}

/// A patch of twenty files of two thousand lines, three hunks each: read, and brought into the texts.
#[divan::bench]
fn patch_of_twenty_files(bencher: Bencher) {
    let text = text(2_000);
    let lines: Vec<&str> = text.lines().collect();
    let mut patch = String::from("*** Begin Patch\n");
    for file in 0..20 {
        let _ = writeln!(patch, "*** Update File: src/file_{file}.rs");
        for hunk in 1..=3 {
            let at = hunk * 500 + file;
            let (before, old, after) = (lines[at - 1], lines[at], lines[at + 1]);
            let _ = writeln!(patch, "@@\n {before}\n-{old}\n+    new();\n {after}");
        }
    }
    patch.push_str("*** End Patch\n");
    bencher.bench(|| {
        let patch = patch::parse(black_box(&patch));
        let files = patch.map(|patch| patch.files).unwrap_or_default();
        let applied = files.iter().filter(|file| match &file.change {
            PatchOf::Update { hunks, .. } => patch::apply(black_box(&text), hunks).is_ok(),
            _ => false,
        });
        assert_eq!(applied.count(), 20);
    });
}

/// A hunk that has no place, in a text whose lines are much alike.
#[divan::bench(args = [5_000, 50_000])]
fn patch_miss(bencher: Bencher, lines: usize) {
    let text = text(lines);
    let lines: Vec<HunkLine> =
        search(&text).into_iter().map(|text| HunkLine { mark: Mark::Remove, text }).collect();
    let hunk = Hunk { line: 1, contexts: vec![], lines, at_end: false };
    bencher.bench(|| patch::apply(black_box(&text), std::slice::from_ref(&hunk)).is_err());
}
