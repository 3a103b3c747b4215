//! Messages of the real program to its users: in the transcript of a run, by its exit code, and later.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Output;

use serde_json::Value;

use crate::support::project::Project;

const DONE: &str = "  - calls: [{ tool: attempt_completion, params: { result: Done. } }]\n";

/// A project whose model plays these turns, then completes.
fn project(turns: &str) -> Project {
    let project = Project::new(&[("a.txt", "one\n")]);
    project.script(&format!("turns:\n{turns}{DONE}"));
    project
}

/// Plays the script with everything allowed.
fn play(project: &Project) -> Output {
    let mut command = project.program();
    command.args(["run", "Do it.", "--mode=code", "--on-ask=allow", "--script"]);
    command.arg(project.beside("script.yaml")).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn nothing_is_made_where_a_link_of_the_workspace_leads() {
    let project = project("");
    let victim = project.beside("victim");
    fs::create_dir(&victim).unwrap();
    fs::create_dir(project.folder().join(".roo")).unwrap();
    symlink(&victim, project.folder().join(".roo/tasks")).unwrap();
    let output = play(&project);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 0);
    assert_eq!(stderr(&output).matches("request's directory can't be created").count(), 1, "{output:?}");
    let log = fs::read_to_string(&project.logs()[0]).unwrap();
    assert!(!log.contains("Task directory:"), "{log}");
}

#[test]
fn who_stops_reading_a_run_is_not_told_that_it_is_done() {
    let project = project("");
    let script = project.beside("script.yaml");
    let ends = |arguments: &[&str]| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = project.program();
        command.args(arguments).stdout(writer);
        command.output().unwrap()
    };
    let run = ["run", "Do it.", "--format=ndjson", "--script", script.to_str().unwrap()];
    let output = ends(&run);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stderr(&output).contains("can't write to standard output"), "{output:?}");
    // What only prints has done what it could.
    assert_eq!(ends(&["schema"]).status.code(), Some(0));
}

/// The records of the trace's copy, each as its own part, its first file and that file's ranges.
fn records(project: &Project) -> Vec<(Value, String, Value)> {
    let text = project.read(".orchestration/agent_trace.jsonl");
    let read = |line: &str| {
        let record: Value = serde_json::from_str(line).unwrap();
        let file = &record["files"][0];
        let path = file["path"].as_str().unwrap_or_default().to_owned();
        (record["metadata"]["dev.roo-lsp"].clone(), path, file["conversations"][0]["ranges"].clone())
    };
    text.lines().map(read).collect()
}

fn runs(line: &str) -> String {
    format!("  - calls: [{{ tool: execute_command, params: {{ command: {line:?} }} }}]\n")
}

#[test]
fn lines_that_a_command_changes_in_a_file_are_its_own() {
    for (level, line) in [("best", "echo two >> a.txt"), ("staged", "printf 'zero\\none\\n' > a.txt")] {
        let project = project(&runs(line));
        project.configure(&format!("mode: code\nsandbox: {{ level: {level} }}\n"));
        let output = play(&project);
        assert!(output.status.success(), "{output:?}");
        let records = records(&project);
        let (own, _, ranges) =
            records.iter().find(|(_, path, _)| path == "a.txt").expect("a record of the file");
        let changed = if level == "staged" { 1 } else { 2 };
        assert_eq!(
            (&ranges[0]["start_line"], &ranges[0]["end_line"]),
            (&changed.into(), &changed.into()),
            "{own}"
        );
        let blame = project.succeed(&["trace", "blame", "a.txt"]);
        let by = |line: u64| blame.lines().nth(line as usize - 1).is_some_and(|line| line.contains(" code "));
        assert!(by(changed) && !by(3 - changed), "{blame}");
    }
}

#[test]
fn a_link_that_a_command_makes_has_a_record() {
    let project = project(&runs("ln -s a.txt in"));
    assert!(play(&project).status.success());
    assert!(project.folder().join("in").is_symlink());
    let records = records(&project);
    let (own, _, _) = records.iter().find(|(_, path, _)| path == "in").expect("a record of the link");
    assert_eq!(own["outcome"], "ok");
}

#[test]
fn withheld_changes_are_reported_to_people() {
    let project = project(&runs("echo x > b.txt; echo '{}' > .mcp.json"));
    project.configure("mode: code\nsandbox: { level: staged }\n");
    let output = play(&project);
    let summary = "exit code 0; 1 change was withheld";
    assert!(stderr(&output).contains(summary), "{output:?}");
    let urid = project.succeed(&["tasks", "list"]).split(' ').next().unwrap().to_owned();
    let shown = project.succeed(&["tasks", "show", &urid]);
    assert!(shown.contains(&format!("✗ {summary}")), "{shown}");
    let doctor = String::from_utf8(project.run(&["doctor"]).stdout).unwrap();
    assert!(doctor.contains("note withheld: ") && doctor.contains("/changes/moved"), "{doctor}");
    let other = String::from_utf8(Project::new(&[]).run(&["doctor"]).stdout).unwrap();
    assert!(other.contains("ok   version") && !other.contains("withheld"), "{other}");
}

#[test]
fn a_task_tells_what_came_of_each_call() {
    let denied = r#"  - calls: [{ tool: write_to_file, params: { path: ../out.txt, content: x } }]
"#;
    let project = project(&format!("{}{denied}", runs("exit 3")));
    play(&project);
    let urid = project.succeed(&["tasks", "list"]).split(' ').next().unwrap().to_owned();
    let shown = project.succeed(&["tasks", "show", &urid]);
    assert!(shown.contains("$ exit 3\n```\n\n! exit code 3\n"), "{shown}");
    assert!(shown.contains("**write_to_file ../out.txt**") && shown.contains("\n✗ "), "{shown}");
    assert!(!shown.contains("finishTask") && !shown.contains("\"tool\""), "{shown}");
    assert_eq!(project.succeed(&["tasks", "export", &urid]), shown);
}

#[test]
fn a_question_to_policy_names_the_hooks_that_it_does_not_ask() {
    let project = project("");
    let check = || {
        let output = project.run(&["policy", "check", "--read", "a.txt"]);
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    assert!(check().get("hooks").is_none());
    let hooks = r#"{ "hooks": { "PreToolUse": [{ "hooks": [{ "type": "command", "command": "./guard.sh" }] }],
        "Stop": [{ "hooks": [{ "type": "command", "command": "x" }] }] } }"#;
    fs::write(project.beside("config/roo-lsp/hooks.json"), hooks).unwrap();
    assert_eq!(check()["hooks"], serde_json::json!(["PreToolUse: ./guard.sh"]));
}

#[test]
fn the_doctor_says_what_keeps_agents_from_working() {
    let project = project(&runs("true"));
    let doctor = || String::from_utf8(project.run(&["doctor"]).stdout).unwrap();
    assert!(play(&project).status.success());
    assert!(doctor().contains("ok   trace: 1 record, intact"), "{}", doctor());
    project.write(".orchestration/active_intents.yaml", "active_intents: [\n");
    fs::write(project.beside("config/roo-lsp/hooks.json"), "{").unwrap();
    let text = doctor();
    assert!(text.contains("FAIL intents: .orchestration/active_intents.yaml:2:1: "), "{text}");
    assert!(text.contains("FAIL hooks: ") && !text.contains("FAIL modes"), "{text}");
}

#[test]
fn a_query_of_a_damaged_trace_warns() {
    let project = project(&runs("true"));
    assert!(play(&project).status.success());
    let query = || stderr(&project.run(&["trace", "query"]));
    assert_eq!(query(), "");
    let trace = project.logs()[0].ancestors().nth(3).unwrap().join("trace");
    let mut segments = fs::read_dir(trace).unwrap().map(|entry| entry.unwrap().path());
    let segment = segments.find(|path| path.extension().is_some_and(|kind| kind == "jsonl")).unwrap();
    let text = fs::read_to_string(&segment).unwrap();
    fs::write(&segment, text.replace(r#""outcome":"ok""#, r#""outcome":"denied""#)).unwrap();
    assert!(query().starts_with("roo-lsp: warning: the trace is not intact"), "{}", query());
    assert_eq!(query().lines().count(), 1);
}

#[test]
fn hooks_are_imported_whole_or_not_at_all() {
    let project = project("");
    project.write(
        ".claude/settings.json",
        r#"{ "hooks": { "Stop": [{ "hooks": [{ "type": "command", "command": "true" }] }] } }"#,
    );
    for own in [r#"{ "hooks": { "Stop": 3 } }"#, "{"] {
        project.write(".roo/hooks.json", own);
        let output = project.run(&["hooks", "import", "--write"]);
        assert!(!output.status.success(), "{output:?}");
        let told = stderr(&output);
        assert!(told.contains("/.roo/hooks.json: ") && !told.contains("Stop: true"), "{told}");
        assert_eq!(project.read(".roo/hooks.json"), own);
    }
}

#[test]
fn people_are_not_told_what_a_model_is_to_call() {
    let project = project("");
    fs::create_dir(project.folder().join("src")).unwrap();
    for command in [&["modes", "check", "src"][..], &["hooks", "check", "src"], &["hooks", "import", "src"]] {
        let told = stderr(&project.run(command));
        assert!(told.contains("it is a directory") && !told.contains("list_files"), "{told}");
    }
}

#[test]
fn what_a_prompt_mentions_and_is_not_there_is_told() {
    let project = project("");
    project.write(".rooignore", "hidden.txt\n");
    project.write("hidden.txt", "x");
    let script = project.beside("script.yaml");
    let run = |prompt: &str| {
        let output = project.run(&["run", prompt, "--mode=code", "--script", script.to_str().unwrap()]);
        assert!(output.status.success(), "{output:?}");
        stderr(&output)
    };
    let told = run("Look at @/nope.rs and @/hidden.txt");
    assert!(told.contains("Nothing is attached for @/nope.rs: nope.rs does not exist"), "{told}");
    assert!(told.contains("Nothing is attached for @/hidden.txt: "), "{told}");
    let list = project.succeed(&["tasks", "list"]);
    let shown = project.succeed(&["tasks", "show", list.split_whitespace().next().unwrap()]);
    assert!(shown.contains("Nothing is attached for @/nope.rs"), "{shown}");

    let unknown = "there is no command or skill 'inot'; did you mean 'init'?";
    let told = run("/inot a.txt");
    assert!(told.contains(unknown), "{told}");
    assert!(!run("/etc is no command").contains("Nothing is attached"));
}

#[test]
fn a_command_that_switches_the_mode_says_so() {
    let project = project("");
    project.write(".roo/commands/review.md", "---\nmode: ask\n---\nReview it.");
    project.succeed(&["trust"]);
    let script = project.beside("script.yaml");
    let run = |prompt: &str| {
        stderr(&project.run(&["run", prompt, "--mode=code", "--script", script.to_str().unwrap()]))
    };
    let told = run("/review a.txt");
    assert!(told.contains(" — code") && told.contains("· the mode is ask from here on\n"), "{told}");
    assert!(!run("Review it.").contains("the mode is"));
}
