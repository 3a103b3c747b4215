//! What checkpoints cost: keeping the two sides of an edit, a command that changes many files, and a restore of those.
//!
//! `cargo bench --bench checkpoints`. What each figure means is told in `docs/src/performance.md`.

#[path = "support/engine_fixture.rs"]
mod engine_fixture;
#[path = "support/table.rs"]
mod table;

use std::fs;
use std::sync::Arc;
use std::time::Instant;

use roo_durable::WorkspaceDirectory;
use roo_engine::tool_run::save;
use roo_protocol::checkpoint::{CheckpointRestoreParams, RestoreConflicts, RestoreScope, RestoreWhat};
use roo_protocol::ids::TaskId;
use roo_protocol::task::TaskStartParams;
use roo_sandbox::exec::redaction::TextMask;
use roo_trace::record::{Author, FileChange, Side};
use table::{Row, milliseconds, row};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Files that the command changes.
const FILES: usize = 1_000;
const SCRIPT: &str = r#"
turns:
  - calls: [{ tool: execute_command, params: { command: "sed -i s/old/new/ -- *.txt" } }]
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;

fn main() -> Outcome {
    // `cargo test --all-targets` starts benches too, without this flag.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    table::head()?;
    edits()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(commands())
}

/// The contents before and after an edit, looked through for secrets, written and synced.
fn edits() -> Outcome {
    const RUNS: usize = 50;
    for (what, lines) in [("checkpoint of an edit in 8 KiB", 200), ("checkpoint of an edit in 1 MiB", 25_000)]
    {
        let directory = tempfile::tempdir()?;
        let contents = WorkspaceDirectory::new(directory.path(), directory.path())
            .request(&TaskId::new("request"))
            .contents();
        let mask = TextMask::new(true, Default::default);
        let text = "    let value = self.compute(one, two);\n".repeat(lines);
        let mut samples = Vec::new();
        for run in 0..RUNS {
            let side = |name: &str| Side::text(format!("{text}// {name} {run}\n"));
            let change = FileChange {
                path: "file.rs".to_owned(),
                old_path: None,
                before: side("before"),
                after: side("after"),
                author: Author::Ai,
            };
            let begun = Instant::now();
            let (_, new) = save(&[change], &contents, &mask);
            contents.sync(&new)?;
            samples.push(milliseconds(begun.elapsed()));
        }
        row(Row { what, unit: "ms", target: "" }, samples)?;
    }
    Ok(())
}

/// A request whose command changes a thousand files, and the restore of them.
async fn commands() -> Outcome {
    const RUNS: usize = 3;
    let (mut runs, mut restores) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        let directory = tempfile::tempdir()?;
        let folder = directory.path().canonicalize()?;
        fs::create_dir(folder.join("work"))?;
        for number in 0..FILES {
            fs::write(folder.join(format!("work/f{number}.txt")), format!("{run} {number} old\n"))?;
        }
        let engine = engine_fixture::engine(&folder, "state", SCRIPT)?;
        let params =
            TaskStartParams { prompt: "Go.".into(), mode: Some("code".into()), ..TaskStartParams::default() };
        let begun = Instant::now();
        let task = engine.start(params)?.task_id;
        let follower = engine.follow(&task, 0).await?;
        engine_fixture::read(Arc::clone(&engine), follower).await?;
        runs.push(milliseconds(begun.elapsed()));
        let known = engine.checkpoints(&task).await?.checkpoints;
        let first = known.first().ok_or("the command has no checkpoint")?;
        let params = CheckpointRestoreParams {
            task_id: task.clone(),
            seq: first.seq,
            what: RestoreWhat::Files,
            scope: RestoreScope::Request,
            preview: false,
            conflicts: RestoreConflicts::Keep,
            digest: None,
        };
        let begun = Instant::now();
        let restored = engine.restore(params, "bench").await?;
        restores.push(milliseconds(begun.elapsed()));
        if restored.files.len() != FILES {
            return Err(format!("{} files restored", restored.files.len()).into());
        }
        engine.shutdown().await;
    }
    row(Row { what: "request with a command that changes 1,000 files", unit: "ms", target: "" }, runs)?;
    Ok(row(Row { what: "restore of 1,000 files", unit: "ms", target: "" }, restores)?)
}
