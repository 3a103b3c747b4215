//! What the trace costs: an append that is durable, one alone and many at once; finding the class of a
//! change; verifying a million records; telling who wrote the lines of a long file.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use divan::Bencher;
use roo_protocol::ids::{TaskId, ToolCallId, Urid};
use roo_trace::blame::Index;
use roo_trace::mutation::class_of;
use roo_trace::record::{Author, Decision, Draft, Entry, FileChange, Outcome, Side};
use roo_trace::verify::verify;
use roo_trace::{ComparableForms, Ledger, Setup};
use tempfile::TempDir;
use uuid::Uuid;

const RECORDS: usize = 1_000_000;
/// How many records are appended at once where only their number counts.
const GROUP: usize = 1000;

fn main() {
    percentiles();
    divan::main();
}

fn entry(number: usize, files: Vec<FileChange>) -> Entry {
    Entry {
        at: 1_795_176_000_123,
        outcome: if files.is_empty() { Outcome::Denied } else { Outcome::Ok },
        tool_call: "write_to_file".to_owned(),
        tool_call_id: ToolCallId::new(format!("call_{number}")),
        task: TaskId::new("0198f0c2-77aa-7c3e-9f51-2a4f6f0e9b11"),
        parent_task: None,
        urid: Urid::new("20250502-11-36-b4649193"),
        mode: "code".to_owned(),
        model: None,
        intent: None,
        decision: Decision { by: "rule".to_owned(), ..Decision::default() },
        sandbox: None,
        files,
        prompt: None,
        command: None,
        commit: None,
        violations: vec![],
        server_call: None,
        requested: None,
        claimed: None,
    }
}

fn draft(number: usize) -> Draft {
    Draft::new(&entry(number, vec![]), &ComparableForms::default(), Uuid::new_v4)
}

fn ledger() -> Option<(TempDir, Ledger)> {
    let root = tempfile::tempdir().ok()?;
    let folder = root.path().join("work");
    std::fs::create_dir(&folder).ok()?;
    let (ledger, _) = Ledger::open(Setup::new(root.path().join("state"), Some(folder))).ok()?;
    Some((root, ledger))
}

/// Single durable appends and their spread.
#[allow(clippy::print_stdout, reason = "it is what a bench is for")]
fn percentiles() {
    let Some((_root, ledger)) = ledger() else { return };
    let mut times: Vec<Duration> = (0..1000)
        .map(|number| {
            let draft = [draft(number)];
            let start = Instant::now();
            divan::black_box(ledger.append(&draft).is_ok());
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    let at = |part: usize| times[times.len() * part / 100];
    println!("append, durable: p50 {:?}, p95 {:?}, p99 {:?}", at(50), at(95), at(99));
}

#[divan::bench(sample_count = 200, sample_size = 1)]
fn append(bencher: Bencher) {
    let Some((_root, ledger)) = ledger() else { return };
    let drafts = [draft(1)];
    bencher.bench_local(|| ledger.append(&drafts).is_ok());
}

#[divan::bench(sample_count = 100, sample_size = 1)]
fn append_64_at_once(bencher: Bencher) {
    let Some((_root, ledger)) = ledger() else { return };
    let drafts: Vec<Draft> = (0..64).map(draft).collect();
    bencher.bench_local(|| ledger.append(&drafts).is_ok());
}

/// Sixteen threads that each append four times, one record each.
#[divan::bench(sample_count = 20, sample_size = 1)]
fn append_64_by_16_threads(bencher: Bencher) {
    let Some((_root, ledger)) = ledger() else { return };
    let drafts = [draft(1)];
    bencher.bench_local(|| {
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| (0..4).all(|_| ledger.append(&drafts).is_ok()));
            }
        });
    });
}

#[divan::bench(sample_count = 3, sample_size = 1)]
fn verify_a_million_records(bencher: Bencher) {
    let Some((root, ledger)) = ledger() else { return };
    let drafts: Vec<Draft> = (0..GROUP).map(draft).collect();
    for _ in 0..RECORDS / GROUP {
        if ledger.append(&drafts).is_err() {
            return;
        }
    }
    let state = root.path().join("state");
    bencher.bench_local(|| verify(&state, None).map(|report| report.is_whole()));
}

/// Ten thousand recorded changes of a file of five thousand lines.
static HISTORY: LazyLock<(Index, String)> = LazyLock::new(history);

fn history() -> (Index, String) {
    let mut index = Index::new(Path::new("/nowhere"));
    let mut lines: Vec<String> = (0..5000).map(|line| format!("let line_{line} = {line};\n")).collect();
    let mut text = lines.concat();
    for number in 0..10_000 {
        let at = number * 7919 % lines.len();
        lines[at] = format!("let changed_{number} = {at};\n");
        let next = lines.concat();
        let change = FileChange {
            path: "a.txt".to_owned(),
            old_path: None,
            before: Side::text(text.as_str()),
            after: Side::text(next.as_str()),
            author: Author::Ai,
        };
        Draft::new(&entry(number, vec![change]), &ComparableForms::default(), Uuid::new_v4)
            .records()
            .iter()
            .for_each(|record| index.add(record));
        text = next;
    }
    (index, text)
}

#[divan::bench(sample_count = 50, sample_size = 1)]
fn blame_5000_lines(bencher: Bencher) {
    let (index, text) = &*HISTORY;
    bencher.bench_local(|| index.lines("a.txt", text).len());
}

/// The same after an edit that was not recorded.
#[divan::bench(sample_count = 50, sample_size = 1)]
fn blame_5000_lines_after_an_edit_by_hand(bencher: Bencher) {
    let (index, text) = &*HISTORY;
    let text = format!("by hand\n{text}");
    bencher.bench_local(|| index.lines("a.txt", &text).len());
}

fn program(lines: usize, name: &str) -> String {
    let mut text = String::new();
    for number in 0..lines / 5 {
        // Writing to a string can't fail.
        let _ = write!(
            text,
            "/// Says {number}.\npub fn number_{number}({name}: u32) -> u32 {{\n    let twice = {name} * 2;\n    twice + {number}\n}}\n"
        );
    }
    text
}

#[divan::bench(sample_count = 50, sample_size = 1)]
fn class_of_a_thousand_lines(bencher: Bencher) {
    let (before, after) = (program(1000, "input"), program(1000, "value"));
    bencher.bench_local(|| class_of("a.rs", &before, &after));
}
