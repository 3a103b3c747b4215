//! `roo-lsp replay` over the real program. That every other request of these tests replays too is checked where their
//! projects end; see `support::replays`.

use std::fs;

use roo_durable::{Record, RequestLog, WorkspaceDirectory};
use roo_engine::engine::event::Event;
use roo_protocol::ids::TaskId;
use serde_json::{Value, json};

use crate::support::project::Project;

const SCRIPT: &str = r#"
turns:
  - text: "I look."
    calls: [{ tool: read_file, params: { path: notes.txt } }, { tool: execute_command, params: { command: "echo milk >> notes.txt" } }]
  - text: "I forgot the call."
  - calls: [{ tool: attempt_completion, params: { result: "Milk is on the list." } }]
"#;

/// A project with a request that has ended, and the request's id.
fn ended() -> (Project, TaskId) {
    let project = Project::new(&[("notes.txt", "bread\n")]);
    project.script(SCRIPT);
    let mut command = project.program();
    command.args(["run", "Add milk.", "--on-ask=allow", "--script"]).arg(project.beside("script.yaml"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let [log] = project.logs().try_into().unwrap();
    let id = log.parent().unwrap().file_name().unwrap().to_str().unwrap();
    (project, TaskId::new(id))
}

/// Rewrites the log of a request.
fn rewrite(project: &Project, request: &TaskId, change: impl FnOnce(&mut Vec<Record<Event>>)) {
    let workspace = WorkspaceDirectory::new(&project.beside("state/roo-lsp"), &project.folder());
    let (log, loaded) = RequestLog::open::<Event>(workspace.request(request)).unwrap();
    drop(log);
    let mut records = loaded.records;
    change(&mut records);
    fs::remove_file(workspace.request(request).log()).unwrap();
    let mut log = RequestLog::create(workspace.request(request)).unwrap();
    log.append(&records).unwrap();
}

#[test]
fn a_request_replays_to_the_identical_log_which_stays_as_it_is() {
    let (project, request) = ended();
    let [log] = project.logs().try_into().unwrap();
    let (before, notes) = (fs::read(&log).unwrap(), project.read("notes.txt"));
    let events = String::from_utf8(before.clone()).unwrap().lines().count();
    let told = project.succeed(&["replay", request.as_str()]);
    assert_eq!(told, format!("identical, {events} events\n"));
    let told: Value =
        serde_json::from_str(&project.succeed(&["replay", request.as_str(), "--format=json"])).unwrap();
    assert_eq!(told, json!({ "identical": true, "events": events, "given": 2 }));
    assert_eq!(fs::read(&log).unwrap(), before);
    assert_eq!(notes, "bread\nmilk\n");
    assert_eq!(project.read("notes.txt"), notes, "nothing is run");
}

#[test]
fn the_first_difference_is_shown_with_both_events() {
    let (project, request) = ended();
    let mut seq = 0_u64;
    rewrite(&project, &request, |records| {
        let corrected = records.iter_mut().find_map(|record| match &mut record.event {
            Event::Corrected { mistake, .. } => Some((record.seq, mistake)),
            _ => None,
        });
        let (place, mistake) = corrected.unwrap();
        (seq, *mistake) = (place, false);
    });
    let output = project.run(&["replay", request.as_str()]);
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.starts_with(&format!("event {seq} is recorded")), "{told}");
    assert!(told.contains("-    \"mistake\": false") && told.contains("+    \"mistake\": true"), "{told}");

    let output = project.run(&["replay", request.as_str(), "--format=json"]);
    assert_eq!(output.status.code(), Some(1));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let difference = &told["difference"];
    assert_eq!(told["identical"], false);
    assert_eq!(difference["seq"], seq);
    assert_eq!(difference["expected"]["event"]["mistake"], false);
    assert_eq!(difference["got"]["event"]["mistake"], true);

    let script = project.beside("script.yaml");
    let goes_on = |from: u64| {
        let mut command = project.program();
        command.args(["replay", request.as_str(), "--from", &from.to_string(), "--on-ask=allow", "--script"]);
        command.arg(&script).output().unwrap()
    };
    let output = goes_on(seq);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8(output.stdout).unwrap().starts_with(&format!("event {seq} is recorded")));
    assert_eq!(project.logs().len(), 1, "nothing goes on from what doesn't replay");
    let output = goes_on(seq - 1);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(project.logs().len(), 2);
    // What was changed on purpose replays no more when the test ends.
    fs::remove_dir_all(project.beside("state")).unwrap();
}

#[test]
fn a_request_goes_on_live_from_an_event_in_a_fork() {
    let (project, request) = ended();
    let [log] = project.logs().try_into().unwrap();
    let before = fs::read_to_string(&log).unwrap();
    // The command has run by then, and is not run again.
    let corrected = before.lines().find(|line| line.contains(r#""type":"corrected""#)).unwrap();
    let corrected: Value = serde_json::from_str(corrected).unwrap();
    let mut command = project.program();
    command.args(["replay", request.as_str(), "--from", &corrected["seq"].to_string(), "--script"]);
    let output = command.arg(project.beside("script.yaml")).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && told.contains("Milk is on the list."), "{told}");
    assert_eq!(fs::read_to_string(&log).unwrap(), before);
    assert_eq!(project.read("notes.txt"), "bread\nmilk\n");
    assert_eq!(project.logs().len(), 2);
}

#[test]
fn what_a_fork_may_do_is_refused_where_nothing_is_forked() {
    let project = Project::new(&[]);
    for option in ["--allow-write", "--allow-command=ls", "--on-ask=deny", "--script=script.yaml"] {
        let output = project.run(&["replay", "20260102", option]);
        assert_eq!(output.status.code(), Some(2), "{option}: {output:?}");
        assert!(String::from_utf8(output.stderr).unwrap().contains("--from <EVENT>"), "{option}");
    }
}

#[test]
fn an_event_that_is_missing_is_a_difference() {
    let (project, request) = ended();
    rewrite(&project, &request, |records| {
        let place = records.iter().position(|record| matches!(record.event, Event::GateDecided { .. }));
        records.remove(place.unwrap());
        for (seq, record) in (1..).zip(records) {
            record.seq = seq;
        }
    });
    assert_eq!(project.run(&["replay", request.as_str()]).status.code(), Some(1));
    fs::remove_dir_all(project.beside("state")).unwrap();
}

#[test]
fn a_request_that_is_not_there_is_named() {
    let project = Project::new(&[]);
    let output = project.run(&["replay", "20260102"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("20260102"));
}
