//! The table of all attacks of the corpus: none is forgotten, and what is not held against yet only gets less.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

/// How many attacks there are of a kind.
const CORPUS: &[(&str, usize)] = &[
    ("CMD", 63),
    ("PATH", 21),
    ("CFG", 21),
    ("APP", 14),
    ("INJ", 12),
    ("EXF", 7),
    ("SEC", 7),
    ("NET", 7),
    ("DOS", 13),
    ("TRC", 5),
];

/// What can't be tried in full before something else is built. Only ever take away from it.
const PENDING: [&str; 5] = ["PATH-10", "PATH-15", "PATH-19", "EXF-04", "DOS-06"];

/// What is tried and still works, in whole or in part. Only ever take away from it.
const GAPS: [&str; 0] = [];

/// The lengths of both lists when they were drawn up.
const MAX_LENGTHS: (usize, usize) = (20, 0);

/// An attack, and what holds against it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    id: String,
    /// Tests as `file::name`.
    tests: Vec<String>,
    /// What has to be built before the rest can be tried.
    pending: Option<String>,
    /// What still works.
    gap: Option<String>,
}

fn rows() -> Vec<Row> {
    let lines = include_str!("../../corpus/rows.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

fn ids(with: impl Fn(&Row) -> bool) -> Vec<String> {
    rows().into_iter().filter(with).map(|row| row.id).collect()
}

#[test]
fn every_attack_has_one_row() {
    let known =
        CORPUS.iter().flat_map(|(kind, count)| (1..=*count).map(move |number| format!("{kind}-{number:02}")));
    assert_eq!(ids(|_| true), known.collect::<Vec<_>>());
    for row in rows() {
        assert!(!(row.pending.is_some() && row.gap.is_some()), "{} is both", row.id);
        let is_open = row.pending.is_some() || row.gap.is_some();
        assert!(is_open || !row.tests.is_empty(), "{} has neither a test nor a reason", row.id);
    }
    let commands = include_str!("../../corpus/commands.jsonl").lines();
    let commands: BTreeSet<String> = commands
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(commands, ids(|row| row.id.starts_with("CMD")).into_iter().collect());
}

#[test]
fn every_test_of_a_row_is_there() {
    let mut sources = BTreeMap::new();
    for row in rows() {
        for test in &row.tests {
            let (file, name) = test.split_once("::").unwrap_or_else(|| panic!("{}: {test}", row.id));
            let text = sources.entry(file.to_owned()).or_insert_with(|| {
                std::fs::read_to_string(crate::support::package().join(file)).unwrap_or_default()
            });
            let begin = text.find(&format!("fn {name}()"));
            let begin = begin.unwrap_or_else(|| panic!("{}: there is no test {test}", row.id));
            // Attributes stand right before it.
            let above: Vec<&str> = text[..begin].lines().rev().take(6).collect();
            assert!(
                above.iter().any(|line| line.contains("test]") || line.contains("test(")),
                "{}: {test} is no test",
                row.id
            );
            assert!(
                !above
                    .iter()
                    .take(3)
                    .any(|line| line.contains("#[ignore") && !line.contains("scripts/test runs it")),
                "{}: {test} never runs",
                row.id
            );
        }
    }
}

#[test]
fn what_is_open_only_gets_less() {
    assert_eq!(ids(|row| row.pending.is_some()), PENDING);
    assert_eq!(ids(|row| row.gap.is_some()), GAPS);
    assert!(
        PENDING.len() <= MAX_LENGTHS.0 && GAPS.len() <= MAX_LENGTHS.1,
        "an attack that was held off works again"
    );
}
