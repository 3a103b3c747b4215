//! How long it takes to find out that a block has no place: the worst case of `apply_diff`.

use std::fmt::Write;

use divan::{Bencher, black_box};
use roo_lsp::text::blocks::{Block, Threshold, apply};

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
    let block = Block { line: 1, start_line: None, search: search(&text), replace: vec![] };
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
    let block = Block { line: 1, start_line: None, search, replace: vec!["new".to_owned()] };
    bencher.bench(|| apply(black_box(&text), std::slice::from_ref(&block), Threshold::default()).is_ok());
}
