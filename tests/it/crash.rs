//! `kill -9` after every append of a task's log: no acknowledged event is lost, no effect happens twice.

use std::fs;

use serde_json::Value;

use crate::support::project::Project;

/// Reads, writes and runs: one effect of each kind, with an approval for the command.
const SCRIPT: &str = r#"
turns:
  - text: First I read.
    calls: [{ tool: read_file, params: { files: [{ path: count.txt }] } }]
  - calls:
      - tool: apply_diff
        params:
          path: count.txt
          diff: "<<<<<<< SEARCH\none\n=======\none\ntwo\n>>>>>>> REPLACE\n"
      - tool: write_to_file
        params: { path: new.txt, content: "new\n" }
  - calls: [{ tool: execute_command, params: { command: "echo ran >> ran.txt" } }]
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;

const ARGUMENTS: [&str; 3] = ["--on-ask=allow", "--allow-write", "--format=ndjson"];

fn project() -> Project {
    let project = Project::new(&[("count.txt", "one\n")]);
    project.script(SCRIPT);
    project
}

fn run(project: &Project, crash_after: Option<usize>) -> std::process::Output {
    let mut command = project.program();
    command.args(["run", "Count.", "--script"]).arg(project.beside("script.yaml")).args(ARGUMENTS);
    if let Some(appends) = crash_after {
        command.env("ROO_LSP_CRASH_AFTER_APPENDS", appends.to_string());
    }
    command.output().unwrap()
}

fn resume(project: &Project, task: &str, crash_after: Option<usize>) -> std::process::Output {
    let mut command = project.program();
    command.args(["tasks", "resume", task, "--script"]).arg(project.beside("script.yaml")).args(ARGUMENTS);
    if let Some(appends) = crash_after {
        command.env("ROO_LSP_CRASH_AFTER_APPENDS", appends.to_string());
    }
    command.output().unwrap()
}

/// The numbers of the events that a client was told of.
fn told(output: &std::process::Output) -> Vec<u64> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()?.get("seq")?.as_u64()).collect()
}

fn records(project: &Project) -> Vec<Value> {
    let logs = project.logs();
    let [log] = logs.as_slice() else { panic!("one request, but {logs:?}") };
    fs::read_to_string(log).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[track_caller]
fn assert_sound(project: &Project, place: &str) {
    assert_eq!(project.read("count.txt"), "one\ntwo\n", "{place}");
    assert_eq!(project.read("new.txt"), "new\n", "{place}");
    let records = records(project);
    let seqs: Vec<u64> = records.iter().map(|record| record["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "{place}");
    // Every call of an answer that counts has exactly one result.
    let finished: Vec<&str> = records
        .iter()
        .filter(|record| record["event"]["type"] == "toolFinished")
        .map(|record| record["event"]["result"]["callId"].as_str().unwrap())
        .collect();
    let mut unique = finished.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), finished.len(), "{place}: {finished:?}");
    let ends = records.iter().filter(|record| record["event"]["type"] == "ended").count();
    assert_eq!(ends, 1, "{place}");
}

/// Whether the command started and its end is not in the log: then its effects are unknown, and it
/// must not have been run again.
fn command_was_interrupted(records: &[Value]) -> bool {
    records.iter().any(|record| {
        record["event"]["type"] == "toolFinished"
            && record["event"]["result"]["name"] == "execute_command"
            && record["event"]["result"]["status"] == "interrupted"
    })
}

#[test]
fn a_kill_after_any_append_loses_nothing_and_repeats_nothing() {
    let whole = project();
    let output = run(&whole, None);
    assert!(output.status.success(), "{output:?}");
    assert_sound(&whole, "without a crash");
    assert_eq!(whole.read("ran.txt"), "ran\n");

    let mut crashes = 0;
    for appends in 1.. {
        let project = project();
        let killed = run(&project, Some(appends));
        if killed.status.success() {
            break;
        }
        crashes += 1;
        let place = format!("killed after append {appends}");
        let before = records(&project);
        let last = before.last().unwrap()["seq"].as_u64().unwrap();
        assert!(told(&killed).iter().all(|&seq| seq <= last), "{place}: told of more than is kept");

        let list = project.succeed(&["tasks", "list", "--json"]);
        let item: Value = serde_json::from_str(list.lines().next().unwrap()).unwrap();
        let task = item["taskId"].as_str().unwrap();
        let ended = before.last().unwrap()["event"]["type"] == "ended";
        assert_eq!(item["state"], if ended { "completed" } else { "interrupted" }, "{place}");
        if !ended {
            let resumed = resume(&project, task, None);
            assert!(resumed.status.success(), "{place}: {resumed:?}");
            let told = told(&resumed);
            assert_eq!(told, (last + 1..=last + told.len() as u64).collect::<Vec<_>>(), "{place}");
        }
        assert_eq!(records(&project)[..before.len()], before, "{place}: the past was changed");
        assert_sound(&project, &place);
        let ran = project.read("ran.txt");
        if command_was_interrupted(&records(&project)) {
            assert!(ran.is_empty() || ran == "ran\n", "{place}: {ran:?}");
        } else {
            assert_eq!(ran, "ran\n", "{place}");
        }
    }
    assert!(crashes > 12, "the script makes only {crashes} appends");
}

#[test]
fn a_second_kill_during_recovery_is_survived_too() {
    for appends in 1..=4 {
        let project = project();
        // In the middle: after the first write, before the command.
        run(&project, Some(12));
        let list = project.succeed(&["tasks", "list", "--json"]);
        let item: Value = serde_json::from_str(list.lines().next().unwrap()).unwrap();
        let task = item["taskId"].as_str().unwrap();
        assert!(!resume(&project, task, Some(appends)).status.success());
        let resumed = resume(&project, task, None);
        assert!(resumed.status.success(), "killed again after append {appends}: {resumed:?}");
        assert_sound(&project, &format!("killed again after append {appends}"));
    }
}
