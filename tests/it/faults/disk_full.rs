//! FT-04: the disk is full, or can't be made to sync. The task stands still, everybody is told, nothing is
//! written or run, and it goes on by itself when there is room again.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use roo_durable::simulated_disk::{Fault, SimulatedDisk};
use roo_engine::engine::EngineError;
use roo_protocol::event::Event;
use roo_protocol::task::{SendWhen, TaskSendParams, TaskState};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::errno::{EIO, ENOSPC};
use crate::support::client::DEADLINE;
use crate::support::engine::{Fixture, Watched};
use crate::support::project::Project;

const SCRIPT: &str = r#"
turns:
  - calls: [{ tool: read_file, params: { files: [{ path: count.txt }] } }]
  - text: Now I write.
    calls:
      - { tool: write_to_file, params: { path: new.txt, content: "new\n" } }
      - { tool: insert_content, params: { path: count.txt, line: 0, content: two } }
  - calls: [{ tool: execute_command, params: { command: "echo ran >> ran.txt" } }]
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;

fn fixture(disk: &SimulatedDisk) -> Fixture {
    // A redirection would ask, and nobody answers here.
    let allowed = json!({ "autoApprove": { "write": true, "execute": { "allow": [["touch"]] } } });
    Fixture::on(
        disk,
        &[("count.txt", "one\n")],
        &SCRIPT.replace("echo ran >> ran.txt", "touch ran.txt"),
        allowed,
    )
}

/// What tools have done to the workspace.
fn world(fixture: &Fixture) -> String {
    let texts = ["count.txt", "new.txt"].map(|name| fixture.project.read(name));
    format!("{texts:?} {}", fixture.project.folder().join("ran.txt").exists())
}

/// Lets the calls of these names fail, from the one with this ordinal among them, until it is healed.
/// Returns how often that happened, and who is told of it.
fn fail_from(
    disk: &SimulatedDisk,
    names: &'static [&'static str],
    first: usize,
    fault: Fault,
) -> (Arc<AtomicUsize>, Arc<Notify>) {
    let (failures, told) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (count, tell) = (Arc::clone(&failures), Arc::clone(&told));
    let mut calls = 0;
    disk.plan(move |_, call| {
        let is_meant = names.contains(&call);
        calls += usize::from(is_meant);
        let fails = is_meant && calls > first;
        if fails {
            count.fetch_add(1, Ordering::SeqCst);
            tell.notify_one();
        }
        fails.then_some(fault)
    });
    (failures, told)
}

async fn degraded(task: &mut Watched<'_>) -> Option<String> {
    task.until(|event| match event {
        Event::ServerDegraded { reason, .. } => Some(Some(reason.clone())),
        Event::TaskState { state, .. } if state.is_final() => Some(None),
        _ => None,
    })
    .await
}

/// A task on a disk that fails from a call on. Whether it came to that call at all.
async fn endures(names: &'static [&'static str], first: usize, fault: Fault) -> bool {
    let place = format!("{fault:?} at {names:?} {first}");
    let disk = SimulatedDisk::new();
    let fixture = fixture(&disk);
    let (failures, told) = fail_from(&disk, names, first, fault);
    let mut task = fixture.start("Count.").await;
    let Some(reason) = degraded(&mut task).await else {
        assert_eq!(failures.load(Ordering::SeqCst), 0, "{place}");
        return false;
    };
    assert!(reason.contains("until this is fixed"), "{place}: {reason}");
    let before = world(&fixture);
    // Who comes late is told too.
    let mut late = fixture.watch(task.task.clone(), 0).await;
    assert_eq!(degraded(&mut late).await.as_ref(), Some(&reason), "{place}");
    let tried = failures.load(Ordering::SeqCst);
    while failures.load(Ordering::SeqCst) < tried + 2 {
        told.notified().await;
    }
    assert_eq!(world(&fixture), before, "{place}: something was done while nothing could be kept");

    disk.heal();
    assert_eq!(task.end().await, (TaskState::Completed, "Done.".to_owned()), "{place}");
    late.until(|event| matches!(event, Event::ServerRecovered).then_some(())).await;
    task.assert_gapless();
    assert_eq!(world(&fixture), r#"["one\ntwo\n", "new\n"] true"#, "{place}");
    // The log has every event once, and no half line.
    fixture.engine.shutdown().await;
    let snapshot = fixture.engine.get(&task.task).await.unwrap();
    assert_eq!(snapshot.item.seq, task.seen.len() as u64, "{place}");
    let log = fixture.engine.list(None).await.unwrap();
    assert_eq!(log.items.len(), 1, "{place}");
    true
}

/// Every call of these names in turn, several at once. Returns how many there are.
async fn endures_everywhere(names: &'static [&'static str], fault: Fault) -> usize {
    let mut cases = 0;
    for first in (0..).step_by(8) {
        let rounds = (first..first + 8).map(|first| endures(names, first, fault));
        let came = futures_util::future::join_all(rounds).await;
        cases += came.iter().filter(|came| **came).count();
        if came.contains(&false) {
            break;
        }
    }
    cases
}

/// The program where no file may grow beyond this many KiB, as on a full disk: its writes fail.
fn without_room(project: &Project, kib: u32, script: &str) -> Command {
    fs::write(project.beside("script.yaml"), script).unwrap();
    let program = project.program();
    let mut shell = Command::new("/bin/bash");
    // The signal is ignored, so that the call fails instead.
    shell.arg("-c").arg(format!("trap '' XFSZ; ulimit -f {kib}; exec \"$@\"")).arg("bash");
    shell.arg(program.get_program());
    shell.args(["run", "Count.", "--mode", "code", "--on-ask", "allow", "--script"]);
    shell.arg(project.beside("script.yaml")).env_clear();
    shell.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.current_dir(project.folder()).stdin(Stdio::null());
    shell
}

#[test]
fn a_run_that_nobody_watches_ends_with_a_message_where_nothing_can_be_kept() {
    let project = Project::new(&[("count.txt", "one\n")]);
    let output = without_room(&project, 0, SCRIPT).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{told}");
    let last = told.lines().next_back().unwrap();
    assert!(last.starts_with("roo-lsp: ") && last.contains("File too large"), "{told}");
    assert!(!told.contains("ERROR") && !told.contains("roo_lsp::"), "{told}");
    assert!(!project.folder().join("new.txt").exists() && !project.folder().join("ran.txt").exists());
}

#[test]
fn a_run_that_nobody_watches_ends_with_a_message_where_no_more_can_be_kept() {
    let project = Project::new(&[("count.txt", "one\n")]);
    let long = "x".repeat(30_000);
    let script = format!(
        "turns:\n  - text: {long}\n    calls: [{{ tool: read_file, params: {{ files: [{{ path: count.txt }}] }} }}]\n    \
         repeat: true\n"
    );
    let output = without_room(&project, 128, &script).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", &told[told.len().saturating_sub(2000)..]);
    let last = told.lines().next_back().unwrap();
    assert!(
        last.contains("continue with: roo-lsp tasks resume ") && last.contains("File too large"),
        "{last}"
    );
    assert_eq!(told.matches("roo_lsp::").count(), 0, "{last}");
}

/// What is kept back lets a task end in order, and its user hears of it.
#[tokio::test]
async fn the_reserved_space_is_used_when_there_is_no_other() {
    let disk = SimulatedDisk::new();
    let fixture = fixture(&disk);
    let kept = fixture.project.beside("state/reserve");
    fs::create_dir_all(kept.parent().unwrap()).unwrap();
    fs::write(&kept, "").unwrap();
    let room = kept.clone();
    let mut appends = 0;
    disk.plan(move |_, call| {
        appends += usize::from(call == "append");
        (appends > 5 && call == "append" && room.exists()).then_some(Fault::Errno(ENOSPC))
    });
    let mut task = fixture.start("Count.").await;
    let reason = degraded(&mut task).await.unwrap();
    assert!(reason.contains("64 MiB reserved for this are now in use"), "{reason}");
    assert_eq!(task.end().await, (TaskState::Completed, "Done.".to_owned()));
}

#[tokio::test]
async fn a_task_stands_still_at_any_write_that_finds_no_room_and_goes_on_when_there_is() {
    let cases = endures_everywhere(&["append"], Fault::Errno(ENOSPC)).await;
    assert!(cases > 15, "{cases}");
}

#[tokio::test]
async fn half_a_line_never_stays() {
    let cases = endures_everywhere(&["append"], Fault::Short).await;
    assert!(cases > 15, "{cases}");
}

#[tokio::test]
async fn nothing_is_written_or_run_while_the_log_can_not_be_synced() {
    let cases = endures_everywhere(&["sync"], Fault::Errno(EIO)).await;
    assert!(cases > 8, "{cases}");
}

#[tokio::test]
async fn what_clients_want_is_refused_at_once_while_nothing_can_be_kept() {
    let disk = SimulatedDisk::new();
    let fixture = fixture(&disk);
    fail_from(&disk, &["append"], 2, Fault::Errno(ENOSPC));
    let mut task = fixture.start("Count.").await;
    degraded(&mut task).await.unwrap();
    let more = TaskSendParams {
        task_id: task.task.clone(),
        text: "More".into(),
        images: vec![],
        when: SendWhen::Now,
    };
    let refused = fixture.engine.send(more).await;
    assert!(matches!(refused, Err(EngineError::Refused)), "{refused:?}");
    // Nor does the end of the server wait for the disk.
    fixture.engine.shutdown().await;
}

#[tokio::test]
async fn no_request_begins_where_nothing_can_be_kept() {
    let disk = SimulatedDisk::new();
    let fixture = fixture(&disk);
    fail_from(&disk, &["mkdir", "open"], 0, Fault::Errno(ENOSPC));
    let refused = fixture.engine.start(serde_json::from_value(json!({ "prompt": "Count." })).unwrap());
    assert!(matches!(refused, Err(EngineError::Store(_))), "{refused:?}");
    disk.heal();
    let mut task = fixture.start("Count.").await;
    assert_eq!(task.end().await.0, TaskState::Completed);
}

/// The program on a file system of 64 KiB with so many pages free, in a name space of its own. Whether
/// they were too few.
fn run_on_a_small_disk(pages: usize) -> bool {
    let project = Project::new(&[("count.txt", "one\n")]);
    project.script(SCRIPT);
    let state = project.beside("state");
    fs::create_dir(&state).unwrap();
    let mount = "mount -t tmpfs -o size=64k,mode=700 tmpfs \"$1\" && head -c \"$2\" /dev/zero > \"$1/filler\" && shift 2 && exec \"$@\"";
    let program = project.program();
    let mut command = Command::new("unshare");
    command.args(["-Urm", "sh", "-c", mount, "sh"]).arg(&state).arg(((16 - pages) * 4096).to_string());
    command.arg(program.get_program()).args(["run", "Count.", "--script"]).arg(project.beside("script.yaml"));
    command.args(["--on-ask=allow", "--allow-write", "--format=ndjson"]).env_clear();
    command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(project.folder()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut was_full = None;
    let mut went_well = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if message["event"]["type"] == "server.degraded" && was_full.is_none() {
            // The shell has become the program, so its number names the name space.
            let filler = format!("/proc/{}/root{}", child.id(), state.join("filler").display());
            fs::remove_file(&filler).unwrap();
            was_full = Some(Instant::now());
        }
        if message["event"]["type"] == "tool.finished" {
            went_well.push(message["event"]["status"] == "ok");
        }
    }
    let status = child.wait().unwrap();
    assert!(status.success(), "{pages} pages: {status}");
    // What there was no room for to begin was refused and said so; the rest is whole.
    let [_, written, inserted, ran, ..] = went_well[..] else { panic!("{pages} pages: {went_well:?}") };
    assert_eq!(project.read("new.txt"), if written { "new\n" } else { "" }, "{pages} pages");
    assert_eq!(project.read("count.txt"), if inserted { "one\ntwo\n" } else { "one\n" }, "{pages} pages");
    assert_eq!(project.read("ran.txt"), if ran { "ran\n" } else { "" }, "{pages} pages");
    if let Some(since) = was_full {
        assert!(since.elapsed() < DEADLINE, "{pages} pages: {:?}", since.elapsed());
    }
    was_full.is_some()
}

#[test]
fn a_real_disk_that_is_full_is_survived() {
    let full: Vec<bool> = (0..6).map(run_on_a_small_disk).collect();
    assert!(full.iter().filter(|full| **full).count() >= 2, "{full:?}");
}

/// DOS-10: a command where what it writes goes to a small disk: the workspace, or, staged, the state directory.
/// What a model reads of its end.
fn on_a_small_disk(line: &str, staged: bool) -> String {
    let project = Project::new(&[]);
    let state = project.beside("state");
    fs::create_dir(&state).unwrap();
    let small = if staged { state } else { project.folder() };
    project.configure(if staged { "sandbox: { level: staged }\n" } else { "" });
    let mount =
        "mount -t tmpfs -o size=200m,nr_inodes=6000,mode=700 tmpfs \"$1\" && shift && cd . && exec \"$@\"";
    let program = project.program();
    let mut command = Command::new("unshare");
    command.args(["-Urm", "sh", "-c", mount, "sh"]).arg(small).arg(program.get_program());
    let params = json!({ "command": line, "timeout": 60 }).to_string();
    command.args(["tool", "execute_command", "--allow", "--params", &params, "--workspace"]);
    command.arg(project.folder()).env_clear();
    command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.current_dir(project.folder()).stdin(Stdio::null()).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn a_command_that_fills_the_disk_is_ended_and_one_that_leaves_room_is_not() {
    for staged in [false, true] {
        // How far they get before that is seen is for the machine to say.
        let bytes = on_a_small_disk("echo begun; head -c 150M /dev/zero > filler; sleep 1000", staged);
        assert!(bytes.contains("it filled a disk") && bytes.contains("begun"), "{bytes}");
        assert_eq!(bytes.contains("What it wrote was removed"), staged, "{bytes}");
        let files = on_a_small_disk("echo begun; seq 4000 | xargs touch; sleep 1000", staged);
        assert!(files.contains("it filled a disk") && files.contains("begun"), "{files}");
        let modest = "head -c 50M /dev/zero > filler; seq 1000 | xargs touch; sleep 1; echo written";
        let modest = on_a_small_disk(modest, staged);
        assert!(modest.contains("Exit code: 0") && modest.contains("written"), "{modest}");
    }
}
