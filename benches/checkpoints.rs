//! What checkpoints cost: keeping the two sides of an edit, also beside a commit of git to a shadow repository, a command that
//! changes many files, and a restore of those.
//!
//! `cargo bench --bench checkpoints`. What each figure means is told in `docs/src/performance.md`.

#[path = "support/engine_fixture.rs"]
mod engine_fixture;
#[path = "support/table.rs"]
mod table;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use roo_durable::WorkspaceDirectory;
use roo_engine::tool_run::{BinaryContents, FileDetails, save};
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
    for files in [10_000, 100_000] {
        beside_git(files)?;
    }
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
            let (_, new) =
                save(&[change], &FileDetails::default(), &BinaryContents::default(), &contents, &mask);
            contents.sync(&new)?;
            samples.push(milliseconds(begun.elapsed()));
        }
        row(Row { what, unit: "ms", target: "" }, samples)?;
    }
    Ok(())
}

/// An edit of one file among many: what is kept for a checkpoint, and by turns the same edit committed to a repository of its own
/// by git. The index of git is warm, and the file is in the page cache, for both.
fn beside_git(files: usize) -> Outcome {
    const RUNS: usize = 9;
    let directory = tempfile::tempdir()?;
    let (work, shadow) = (directory.path().join("work"), directory.path().join("shadow"));
    for number in 0..files {
        let folder = work.join(format!("d{}", number / 50));
        if number % 50 == 0 {
            fs::create_dir_all(&folder)?;
        }
        fs::write(folder.join(format!("f{number}.rs")), format!("fn f{number}() {{}}\n").repeat(20))?;
    }
    git(&work, &shadow, &["init", "--quiet"])?;
    commit(&work, &shadow)?;
    let contents =
        WorkspaceDirectory::new(directory.path(), &work).request(&TaskId::new("request")).contents();
    let mask = TextMask::new(true, Default::default);
    let file = work.join("d7/f357.rs");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        let before = fs::read_to_string(&file)?;
        let after = format!("{before}// edited {run}\n");
        fs::write(&file, &after)?;
        let change = FileChange {
            path: "d7/f357.rs".to_owned(),
            old_path: None,
            before: Side::text(before),
            after: Side::text(after),
            author: Author::Ai,
        };
        let begun = Instant::now();
        let (_, new) = save(&[change], &FileDetails::default(), &BinaryContents::default(), &contents, &mask);
        contents.sync(&new)?;
        ours.push(milliseconds(begun.elapsed()));
        let begun = Instant::now();
        commit(&work, &shadow)?;
        theirs.push(milliseconds(begun.elapsed()));
    }
    let what = format!("checkpoint of an edit among {files} files");
    row(Row { what: &what, unit: "ms", target: "0.3 x git" }, ours)?;
    Ok(row(Row { what: "  the same committed by git add -A && git commit", unit: "ms", target: "" }, theirs)?)
}

/// Commits everything, as a checkpoint of a shadow repository.
fn commit(work: &Path, shadow: &Path) -> Outcome {
    git(work, shadow, &["add", "-A"])?;
    git(work, shadow, &["commit", "--quiet", "--no-verify", "-m", "checkpoint"])
}

fn git(work: &Path, shadow: &Path, arguments: &[&str]) -> Outcome {
    let settings = ["user.name=bench", "user.email=bench@localhost", "gc.auto=0", "commit.gpgSign=false"];
    let status = Command::new("git")
        .args(settings.iter().flat_map(|setting| ["-c", setting]))
        .args(arguments)
        .env("GIT_DIR", shadow)
        .env("GIT_WORK_TREE", work)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .current_dir(work)
        .status()?;
    if status.success() { Ok(()) } else { Err(format!("git {arguments:?}: {status}").into()) }
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
