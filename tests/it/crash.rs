//! `kill -9` after every append of a task's log: no acknowledged event is lost, no effect happens twice.

use std::fs;

use serde_json::Value;

use crate::support::bounded_process::output_of;
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

const ARGUMENTS: [&str; 4] = ["--on-ask=allow", "--allow-write", "--format=ndjson", "--answer=2"];

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
    output_of(&mut command)
}

fn resume(project: &Project, task: &str, crash_after: Option<usize>) -> std::process::Output {
    let mut command = project.program();
    command.args(["tasks", "resume", task, "--script"]).arg(project.beside("script.yaml")).args(ARGUMENTS);
    if let Some(appends) = crash_after {
        command.env("ROO_LSP_CRASH_AFTER_APPENDS", appends.to_string());
    }
    output_of(&mut command)
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
    let trace = project.succeed(&["trace", "query", "--json"]);
    let trace: Vec<Value> = trace.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for path in ["count.txt", "new.txt"] {
        let of_path = trace.iter().filter(|record| record["files"][0]["path"] == path);
        assert_eq!(of_path.count(), 1, "{place}: every edit is in the trace once: {path}");
    }
    let runs = trace.iter().filter(|record| record.to_string().contains("\"command\":{"));
    assert_eq!(runs.count(), 1, "{place}: the command is in the trace once, whether its end was seen or not");
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

/// Task → Orchestrator → Architect and Code at once, Code → Debug: with context that is saved and read, an
/// edit in two branches, a command, and a to-do list.
const TREE: &str = r##"
turns:
  - mode: new-task
    calls: [{ tool: write_to_file, params: { path: ".roo/tasks/{{urid}}/notes.md", content: "Count to two.\n" } }]
  - mode: new-task
    calls:
      - tool: new_task
        params:
          mode: orchestrator
          message: "🪃 Count to two\n\nURID: {{urid}}\n\nDo as the notes say.\n\nRelevant context files:\n.roo/tasks/{{urid}}/notes.md\n\nRead them first.\n@.roo/tasks/{{urid}}/\n"
  - mode: orchestrator
    calls:
      - { tool: read_file, params: { files: [{ path: ".roo/tasks/{{urid}}/notes.md" }] } }
      - { tool: update_todo_list, params: { todos: "[-] Plan\n[-] Count" } }
  - mode: orchestrator
    calls:
      - { tool: new_task, params: { mode: architect, message: "🏗️ Plan it\n\nURID: {{urid}}\n\nWrite the plan.\n" } }
      - { tool: new_task, params: { mode: code, message: "💻 Count it\n\nURID: {{urid}}\n\nCount to two.\n" } }
  - mode: architect
    calls:
      - { tool: list_files, params: { path: . } }
      - { tool: read_file, params: { files: [{ path: count.txt }] } }
      - { tool: search_files, params: { path: ., regex: one } }
  - mode: architect
    thinking: First a list of what there is to do.
    text: I make a list.
    calls: [{ tool: update_todo_list, params: { todos: "[ ] Write\n[ ] End" } }]
  - mode: architect
    text: I look for three.
    calls: [{ tool: search_files, params: { path: ., regex: "three" } }]
  - mode: architect
    text: I look for four.
    calls: [{ tool: search_files, params: { path: ., regex: "four" } }]
  - mode: architect
    text: I look for five.
    calls: [{ tool: search_files, params: { path: ., regex: "five" } }]
  - mode: architect
    calls: [{ tool: ask_followup_question, params: { question: Which numbers?, follow_up: [{ text: All. }, { text: "One, two." }] } }]
  - mode: architect
    when: { contains: "One, two." }
    calls: [{ tool: write_to_file, params: { path: docs/plan.md, content: "One, two.\n" } }]
  - mode: architect
    calls: [{ tool: attempt_completion, params: { result: Planned. } }]
  - mode: code
    calls: [{ tool: read_file, params: { files: [{ path: count.txt }] } }]
  - mode: code
    text: Then I look around.
    calls:
      - { tool: list_files, params: { path: . } }
      - { tool: search_files, params: { path: ., regex: two } }
      - { tool: update_todo_list, params: { todos: "[-] Insert\n[ ] Have it checked" } }
  - mode: code
    calls: [{ tool: insert_content, params: { path: count.txt, line: 0, content: two } }]
  - mode: code
    calls: [{ tool: new_task, params: { mode: debug, message: "🪲 Check it\n\nURID: {{urid}}\n\nIs two there?\n" } }]
  - mode: debug
    thinking: What does the file hold?
    calls: [{ tool: read_file, params: { files: [{ path: count.txt }] } }]
  - mode: debug
    text: Is three there?
    calls: [{ tool: search_files, params: { path: ., regex: "three" } }]
  - mode: debug
    text: Is four there?
    calls: [{ tool: search_files, params: { path: ., regex: "four" } }]
  - mode: debug
    text: Is five there?
    calls: [{ tool: search_files, params: { path: ., regex: "five" } }]
  - mode: debug
    calls: [{ tool: execute_command, params: { command: "grep -q two count.txt" } }]
  - mode: debug
    calls: [{ tool: attempt_completion, params: { result: It is. } }]
  - mode: code
    calls: [{ tool: attempt_completion, params: { result: Counted. } }]
  - mode: orchestrator
    calls: [{ tool: update_todo_list, params: { todos: "[x] Plan\n[x] Count" } }]
  - mode: orchestrator
    calls: [{ tool: attempt_completion, params: { result: Both. } }]
  - mode: new-task
    calls: [{ tool: attempt_completion, params: { result: All. } }]
"##;

fn tree_project() -> Project {
    let project = Project::new(&[("count.txt", "one\n")]);
    project.script(TREE);
    project
}

fn run_tree(project: &Project, crash_after: Option<usize>) -> std::process::Output {
    let mut command = project.program();
    command.args(["run", "Count.", "--mode=new-task", "--script"]).arg(project.beside("script.yaml"));
    command.args(ARGUMENTS);
    if let Some(appends) = crash_after {
        command.env("ROO_LSP_CRASH_AFTER_APPENDS", appends.to_string());
    }
    output_of(&mut command)
}

/// What a finished tree must have left, whatever happened on the way.
#[track_caller]
fn assert_tree(project: &Project, place: &str) {
    let records = records(project);
    let kind = |record: &Value| record["event"]["type"].as_str().unwrap().to_owned();
    let of =
        |wanted: &str| -> Vec<&Value> { records.iter().filter(|record| kind(record) == wanted).collect() };
    let task = |record: &Value| record["taskId"].as_str().unwrap().to_owned();
    // Each branch begins once and ends once, and its parent's call has one result.
    let mut created: Vec<String> = of("created").into_iter().map(task).collect();
    let mut ended: Vec<String> = of("ended").into_iter().map(task).collect();
    assert_eq!(created.len(), 5, "{place}");
    created.sort();
    ended.sort();
    assert_eq!(created, ended, "{place}");
    assert!(of("ended").iter().all(|end| end["event"]["state"] == "completed"), "{place}");
    let finished: Vec<&str> =
        of("toolFinished").iter().map(|end| end["event"]["result"]["callId"].as_str().unwrap()).collect();
    for call in of("delegated") {
        let id = call["event"]["callId"].as_str().unwrap();
        assert_eq!(finished.iter().filter(|&&done| done == id).count(), 1, "{place}: {id}");
    }
    let modes: Vec<&str> = of("created").iter().map(|made| made["event"]["mode"].as_str().unwrap()).collect();
    for mode in ["new-task", "orchestrator", "architect", "code", "debug"] {
        assert!(modes.contains(&mode), "{place}: {modes:?}");
    }
    // A question is asked once, and keeps its id until it has its one answer.
    let ids = |kind, place: fn(&Value) -> &Value| -> Vec<String> {
        of(kind).iter().map(|record| place(&record["event"]).to_string()).collect()
    };
    let asked = ids("questionAsked", |event| &event["question"]["questionId"]);
    assert_eq!(asked.len(), 1, "{place}");
    assert_eq!(asked, ids("questionAnswered", |event| &event["questionId"]), "{place}");
    let root = records[0]["taskId"].as_str().unwrap();
    let lead = of("created").into_iter().find(|made| made["event"]["parent"] == root).map(task);
    let of_lead = of("todoChanged").into_iter().rfind(|change| Some(task(change)) == lead);
    let todo = of_lead.unwrap()["event"]["items"].to_string();
    assert_eq!(todo.matches("completed").count(), 2, "{place}: {todo}");
    assert_eq!(project.read("count.txt"), "one\ntwo\n", "{place}");
    assert_eq!(project.read("docs/plan.md"), "One, two.\n", "{place}");
}

#[test]
fn a_tree_comes_to_its_end_without_a_crash() {
    let whole = tree_project();
    let output = run_tree(&whole, None);
    assert!(output.status.success(), "{output:?}");
    assert_tree(&whole, "without a crash");
    let events = records(&whole).len();
    assert!((200..=240).contains(&events), "the tree has {events} events");
}

/// How many tests share the appends of a tree among them.
const SHARES: usize = 4;

/// Killed at every append from this one on that is a share's.
fn a_tree_goes_on_where_it_was(first: usize) {
    let mut crashes = 0;
    for appends in (first..).step_by(SHARES) {
        let project = tree_project();
        if run_tree(&project, Some(appends)).status.success() {
            break;
        }
        crashes += 1;
        let place = format!("killed after append {appends}");
        let before = records(&project);
        let list = project.succeed(&["tasks", "list", "--json"]);
        let item: Value = serde_json::from_str(list.lines().next().unwrap()).unwrap();
        let task = item["taskId"].as_str().unwrap();
        if item["state"] != "completed" {
            assert_eq!(item["state"], "interrupted", "{place}");
            let resumed = resume(&project, task, None);
            assert!(resumed.status.success(), "{place}: {resumed:?}");
        }
        // Ids, modes, approvals and all that was: nothing of it changes.
        assert_eq!(records(&project)[..before.len()], before, "{place}: the past was changed");
        assert_tree(&project, &place);
    }
    assert!(crashes > 50 / SHARES, "the script makes only {crashes} appends");
}

#[test]
fn a_tree_goes_on_where_it_was_after_a_kill_at_any_append_of_the_first_share() {
    a_tree_goes_on_where_it_was(1);
}

#[test]
fn a_tree_goes_on_where_it_was_after_a_kill_at_any_append_of_the_second_share() {
    a_tree_goes_on_where_it_was(2);
}

#[test]
fn a_tree_goes_on_where_it_was_after_a_kill_at_any_append_of_the_third_share() {
    a_tree_goes_on_where_it_was(3);
}

#[test]
fn a_tree_goes_on_where_it_was_after_a_kill_at_any_append_of_the_fourth_share() {
    a_tree_goes_on_where_it_was(4);
}

/// Changes, creates, moves and deletes by one patch.
const PATCH: &str = r#"
turns:
  - calls: [{ tool: read_file, params: { files: [{ path: count.txt }, { path: old.txt }, { path: gone.txt }] } }]
  - calls:
      - tool: apply_patch
        params:
          patch: |
            *** Begin Patch
            *** Update File: count.txt
            @@ one
            +two
            *** Add File: docs/new.md
            +# New
            *** Update File: old.txt
            *** Move to: new/name.txt
            -old
            +new
            *** Delete File: gone.txt
            *** End Patch
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;

const PATCHED: [(&str, &str); 5] = [
    ("count.txt", "one\ntwo\n"),
    ("docs/new.md", "# New\n"),
    ("old.txt", ""),
    ("new/name.txt", "new\n"),
    ("gone.txt", ""),
];

fn patch_project() -> Project {
    let project = Project::new(&[("count.txt", "one\n"), ("old.txt", "old\n"), ("gone.txt", "gone\n")]);
    project.script(PATCH);
    project
}

/// How many of the patch's files are as it makes them.
fn patched(project: &Project) -> usize {
    PATCHED.iter().filter(|(name, text)| project.read(name) == *text).count()
}

#[track_caller]
fn assert_patched(project: &Project, place: &str) {
    assert_eq!(patched(project), PATCHED.len(), "{place}");
    let mut left = vec![project.folder()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            assert!(!name.ends_with(".tmp"), "{place}: {name} is left");
            if entry.path().is_dir() {
                left.push(entry.path());
            }
        }
    }
    let finished: Vec<Value> = records(project)
        .into_iter()
        .filter(|record| record["event"]["type"] == "toolFinished")
        .filter(|record| record["event"]["result"]["name"] == "apply_patch")
        .collect();
    assert_eq!(finished.len(), 1, "{place}");
    assert_eq!(finished[0]["event"]["result"]["status"], "ok", "{place}");
    // Each file is in the trace, once.
    let trace = project.succeed(&["trace", "query", "--json"]);
    for (name, _) in PATCHED.iter().filter(|(name, _)| *name != "old.txt") {
        let path = format!("\"path\":\"{name}\"}}]");
        assert_eq!(trace.matches(&path).count(), 1, "{place}: {name} in {trace}");
    }
    assert!(trace.contains("old.txt"), "{place}: where it was moved from");
}

/// The task whose process was killed after so many steps of its patch; none if it takes fewer.
fn killed_in_a_patch(project: &Project, steps: u32) -> Option<String> {
    let mut command = project.program();
    command.args(["run", "Patch.", "--script"]).arg(project.beside("script.yaml")).args(ARGUMENTS);
    let killed = output_of(command.env("ROO_LSP_CRASH_AFTER_STEPS", steps.to_string()));
    if killed.status.success() {
        return None;
    }
    let list = project.succeed(&["tasks", "list", "--json"]);
    let item: Value = serde_json::from_str(list.lines().next().unwrap()).unwrap();
    Some(item["taskId"].as_str().unwrap().to_owned())
}

#[test]
fn a_kill_at_any_step_of_a_patch_leaves_all_files_changed_or_none() {
    let whole = patch_project();
    let output = run(&whole, None);
    assert!(output.status.success(), "{output:?}");
    assert_patched(&whole, "without a crash");
    // Who wrote a line is known by its file's new name.
    let blame = whole.succeed(&["trace", "blame", "new/name.txt"]);
    assert!(blame.contains("scripted/default") && blame.contains("| new"), "{blame}");

    let mut kills = 0;
    for steps in 1.. {
        let project = patch_project();
        let Some(task) = killed_in_a_patch(&project, steps) else { break };
        kills += 1;
        let place = format!("killed after step {steps}");
        let resumed = resume(&project, &task, None);
        assert!(resumed.status.success(), "{place}: {resumed:?}");
        assert_patched(&project, &place);
    }
    assert!(kills > 15, "a patch takes only {kills} steps");
}

#[test]
fn a_file_that_somebody_changed_after_a_kill_stops_the_recovery_and_is_told() {
    let mut stopped = 0;
    for steps in 1..30 {
        let project = patch_project();
        let Some(task) = killed_in_a_patch(&project, steps) else { break };
        project.write("count.txt", "somebody's\n");
        resume(&project, &task, None);
        // Whatever the recovery makes of it: these bytes are nobody's to change.
        assert_eq!(project.read("count.txt"), "somebody's\n", "killed after step {steps}");
        let doctor = String::from_utf8(project.run(&["doctor"]).stdout).unwrap();
        let log = fs::read_to_string(&project.logs()[0]).unwrap();
        if doctor.contains("unfinished") {
            stopped += 1;
            assert!(log.contains("count.txt hold neither"), "killed after step {steps}");
        }
    }
    assert!(stopped > 3, "{stopped}");
}
