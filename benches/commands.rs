//! What it takes to judge a command line: before every command that an agent runs.

use divan::{Bencher, black_box};
use roo_engine::policy::command::{NoDisk, judge, summarize};
use roo_formats::config::Execute;
use roo_shell::{LINE_BYTES, SYNTAX_CHARACTERS};

fn main() {
    divan::main();
}

/// What is measured is the judgement.
const NOWHERE: NoDisk = NoDisk { is_writable: false };

fn rules() -> Execute {
    let split =
        |rules: &[&str]| rules.iter().map(|rule| rule.split(' ').map(str::to_owned).collect()).collect();
    Execute {
        allow: split(&["ls", "cat", "grep", "head", "sort", "wc", "cargo test", "git status", "git log"]),
        deny: split(&["rm", "sudo", "git push"]),
        ..Execute::default()
    }
}

const PIPELINE: &str =
    "cat a.txt | grep -v '^#' | sort -u | head -50 | grep -n 'a b' | cat | sort | wc -l | head | cat 2>&1";

#[divan::bench]
fn short(bencher: Bencher) {
    let rules = rules();
    bencher.bench(|| judge(&rules, black_box("cargo test --workspace -q"), &NOWHERE));
}

#[divan::bench]
fn pipeline(bencher: Bencher) {
    let rules = rules();
    bencher.bench(|| judge(&rules, black_box(PIPELINE), &NOWHERE));
}

#[divan::bench]
fn pipeline_summary(bencher: Bencher) {
    bencher.bench(|| summarize(black_box(PIPELINE), &NOWHERE));
}

/// What a hostile line is made of, over and over.
const PARTS: &[&str] = &[
    "a",
    "(",
    "$(",
    "`",
    "a`",
    "'",
    "\"",
    "\"$(",
    "{",
    "[[ ",
    "<(",
    "<<a\n",
    "<<a\na\n",
    "if ",
    "a|",
    "x; ",
    "$((",
    "${a:-",
    "case x in ",
    "env -S'",
    "sh -c ",
    "a=(",
    "\\\n",
    "f(){ ",
    "a >b ",
];

fn hostile(part: &str, bytes: usize) -> String {
    part.repeat(bytes / part.len())
}

/// As much of it as the grammar still reads.
#[divan::bench(args = PARTS, sample_count = 5, sample_size = 1)]
fn hostile_read(bencher: Bencher, part: &str) {
    let syntax =
        part.bytes().filter(|byte| !byte.is_ascii_alphanumeric() && !b" \n-:".contains(byte)).count();
    let most = SYNTAX_CHARACTERS / syntax.max(1);
    let (rules, line) = (rules(), hostile(part, LINE_BYTES.min(most * part.len())));
    bencher.bench(|| judge(&rules, black_box(&line), &NOWHERE));
}

#[divan::bench(args = PARTS, sample_count = 5, sample_size = 1)]
fn hostile_64k(bencher: Bencher, part: &str) {
    let (rules, line) = (rules(), hostile(part, 64 * 1024));
    bencher.bench(|| judge(&rules, black_box(&line), &NOWHERE));
}
