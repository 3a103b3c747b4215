//! Entries and ledgers for tests.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use tempfile::TempDir;
use uuid::Uuid;

use super::directory::TraceDirectory;
use super::ledger::{Ledger, Limits, Setup};
use super::normal_form_cache::ComparableForms;
use super::record::{
    Author, Decision, Draft, Entry, FileChange, IntentRef, Outcome, PromptRef, Record, Side,
};
use roo_protocol::ids::{Digest, MessageId, TaskId, ToolCallId, Urid};

/// A workspace with its state.
pub(super) struct LedgerFixture {
    root: TempDir,
}

impl LedgerFixture {
    pub(super) fn new() -> Self {
        let fixture = Self { root: tempfile::tempdir().unwrap() };
        std::fs::create_dir(fixture.folder()).unwrap();
        fixture
    }

    pub(super) fn folder(&self) -> PathBuf {
        self.root.path().join("work")
    }

    pub(super) fn state(&self) -> PathBuf {
        self.root.path().join("state")
    }

    pub(super) fn directory(&self) -> TraceDirectory {
        TraceDirectory::new(&self.state())
    }

    pub(super) fn copy(&self) -> PathBuf {
        super::projection::path_of(&self.folder())
    }

    pub(super) fn ledger(&self) -> Ledger {
        self.ledger_with(Limits::default())
    }

    pub(super) fn ledger_with(&self, limits: Limits) -> Ledger {
        let setup = Setup { limits, ..Setup::new(self.state(), Some(self.folder())) };
        let (ledger, damage) = Ledger::open(setup).unwrap();
        assert_eq!(damage, []);
        ledger
    }

    /// The lines of the original, in order, with their ends.
    pub(super) fn lines(&self) -> Vec<String> {
        lines(&self.directory())
    }

    pub(super) fn records(&self) -> Vec<Record> {
        self.lines().iter().map(|line| Record::read(line.trim_end().as_bytes()).unwrap()).collect()
    }
}

/// The lines of a trace, in order, with their ends.
pub(super) fn lines(directory: &TraceDirectory) -> Vec<String> {
    let mut found = Vec::new();
    super::history::lines(directory, super::history::Position::default(), |_, line| {
        found.push(String::from_utf8_lossy(line).into_owned() + "\n");
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    found
}

/// Ids that are drawn in order.
pub(super) fn ids() -> impl FnMut() -> Uuid {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    || {
        Uuid::from_u64_pair(
            0x0198_f0c2_77aa_4c3e,
            0x8000_0000_0000_0000 | NEXT.fetch_add(1, Ordering::Relaxed),
        )
    }
}

pub(super) fn entry() -> Entry {
    Entry {
        at: 1_795_176_000_123,
        outcome: Outcome::Ok,
        tool_call: "write_to_file".to_owned(),
        tool_call_id: ToolCallId::new("call_1"),
        task: TaskId::new("0198f0c2-77aa-7c3e-9f51-2a4f6f0e9b11.4"),
        parent_task: Some(TaskId::new("0198f0c2-77aa-7c3e-9f51-2a4f6f0e9b11")),
        urid: Urid::new("20250502-11-36-b4649193"),
        mode: "code".to_owned(),
        model: Some("anthropic/claude-sonnet-4-5".to_owned()),
        intent: Some(IntentRef {
            id: "INT-001".to_owned(),
            name: "JWT Authentication Migration".to_owned(),
            digest: Some(Digest::of("intent")),
            requirements: vec!["REQ-001".to_owned()],
        }),
        decision: Decision {
            by: "rule".to_owned(),
            rule: Some("autoApprove.write".to_owned()),
            ..Decision::default()
        },
        sandbox: None,
        files: vec![],
        prompt: Some(PromptRef { id: MessageId::new("m1"), title: "Move to JWT".to_owned() }),
        command: None,
        commit: None,
        violations: vec![],
        server_call: None,
        requested: None,
        claimed: None,
    }
}

pub(super) fn change(path: &str, before: &str, after: &str) -> FileChange {
    let before = if before.is_empty() { Side::Absent } else { Side::text(before) };
    let after = if after.is_empty() { Side::Absent } else { Side::text(after) };
    FileChange { path: path.to_owned(), old_path: None, before, after, author: Author::Ai }
}

pub(super) fn draft(entry: &Entry) -> Draft {
    Draft::new(entry, &ComparableForms::default(), ids())
}

/// One record that changes no file.
pub(super) fn denied(number: u64) -> Draft {
    let tool_call_id = ToolCallId::new(format!("call_{number}"));
    draft(&Entry { outcome: Outcome::Denied, tool_call_id, ..entry() })
}

/// One record of a changed file.
pub(super) fn wrote(path: &str, before: &str, after: &str) -> Draft {
    draft(&Entry { files: vec![change(path, before, after)], ..entry() })
}

pub(super) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}
