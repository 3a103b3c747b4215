//! The command line as its users meet it: the real program, its output and its exit codes.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Output, Stdio};

use crate::support::project::Project;

const DONE: &str = "  - calls: [{ tool: attempt_completion, params: { result: Done. } }]\n";

/// A project whose model plays these turns, then completes.
fn project(turns: &str) -> Project {
    let project = Project::new(&[("a.txt", "one\n")]);
    project.script(&format!("turns:\n{turns}{DONE}"));
    project
}

/// Runs a task that the script plays.
fn play(project: &Project, flags: &[&str]) -> Output {
    let mut command = project.program();
    command.args(["run", "Do it.", "--script"]).arg(project.beside("script.yaml")).args(flags);
    command.output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn urid(project: &Project) -> String {
    project.succeed(&["tasks", "list"]).split(' ').next().unwrap().to_owned()
}

#[track_caller]
fn assert_ends(output: &Output, code: i32, error: &str) {
    assert!(output.status.code() == Some(code) && stderr(output).contains(error), "{output:?}");
}

fn config(project: &Project, text: &str) {
    let directory = project.beside("config").join("roo-lsp");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("config.yaml"), text).unwrap();
}

const QUESTION: &str = "  - calls:\n      - tool: ask_followup_question\n        \
                        params: { question: Which one?, follow_up: [{ text: This }] }\n";
const EDIT: &str = "  - calls: [{ tool: write_to_file, params: { path: b.txt, content: two } }]\n";

#[test]
fn a_question_that_waits_is_asked_again_by_resume() {
    let project = project(QUESTION);
    let first = play(&project, &[]);
    let urid = urid(&project);
    let told = format!("roo-lsp: {urid} waits for an answer; go on with: roo-lsp tasks resume {urid}\n");
    assert_ends(&first, 3, &told);
    assert!(!stderr(&first).contains("--on-ask"), "{first:?}");
    let again = project.run(&["tasks", "resume", &urid]);
    assert_ends(&again, 3, &told);
    assert!(stderr(&again).contains("? Which one?"), "{again:?}");
}

#[test]
fn permission_that_waits_is_asked_again_by_resume() {
    let project = project(EDIT);
    assert_ends(&play(&project, &[]), 3, "waits for permission; go on with: roo-lsp tasks resume");
    let urid = urid(&project);
    let script = project.beside("script.yaml");
    let resume = ["tasks", "resume", &urid, "--on-ask=allow", "--script", script.to_str().unwrap()];
    assert_eq!(project.succeed(&resume), "Done.\n");
    assert_eq!(project.read("b.txt").trim_end(), "two");
}

#[test]
fn flags_win_over_the_profile_of_a_mode() {
    let project = project("");
    let script = project.beside("script.yaml");
    let played = serde_json::json!({ "provider": "scripted", "script": script });
    let other = serde_json::json!({ "provider": "scripted", "script": "missing.yaml" });
    config(
        &project,
        &serde_json::json!({
            "modes": { "code": { "profile": "other" } },
            "profiles": { "played": played, "other": other },
        })
        .to_string(),
    );
    assert_eq!(play(&project, &[]).status.code(), Some(0));
    assert_eq!(project.succeed(&["run", "Do it.", "--profile=played"]), "Done.\n");
    assert_ends(&project.run(&["run", "Do it."]), 1, "missing.yaml");
}

#[test]
fn mistakes_are_found_before_the_task_starts() {
    let project = project("");
    config(
        &project,
        "profiles: { keyless: { provider: anthropic, model: m }, empty: { provider: openai } }\n",
    );
    assert_ends(&project.run(&["run", "x", "--script=none.yaml"]), 1, "none.yaml");
    assert_ends(&project.run(&["run", "x", "--profile=keyless"]), 1, "ANTHROPIC_API_KEY is not set");
    assert_ends(&project.run(&["run", "x", "--profile=empty"]), 1, "lacks `model`");
    assert_ends(&project.run(&["run", "x"]), 1, "there is no model profile 'default'");
    assert_ends(&project.run(&["run", "x", "--profile=absent"]), 2, "there is no model profile 'absent'");
    assert_ends(&project.run(&["run", "x", "--mode=poet"]), 2, "architect");
    for words in ["--allow-command=", "--allow-command='"] {
        assert_ends(&project.run(&["run", "x", words]), 2, "plain words");
    }
    assert_eq!(project.logs(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn input_that_can_not_be_read_is_named() {
    let project = project("");
    let mut command = project.program();
    command.args(["run", "-", "--script"]).arg(project.beside("script.yaml"));
    // Reading a directory fails.
    command.stdin(fs::File::open(project.folder()).unwrap());
    assert_ends(&command.output().unwrap(), 1, "can't read standard input");
}

/// Sends a signal to the program while it runs a command, and returns its exit code.
#[cfg(unix)]
fn signalled(project: &Project, signal: rustix::process::Signal) -> Option<i32> {
    let mut command = project.program();
    command.args(["run", "Do it.", "--on-ask=allow", "--format=ndjson", "--script"]);
    command.arg(project.beside("script.yaml")).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut program = command.spawn().unwrap();
    let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("begun\\n")), "the command did not begin");
    let pid = rustix::process::Pid::from_child(&program);
    rustix::process::kill_process(pid, signal).unwrap();
    lines.for_each(drop);
    program.wait().unwrap().code()
}

#[cfg(unix)]
#[test]
fn a_signal_leaves_no_command_behind() {
    use rustix::process::{Pid, Signal, test_kill_process};
    let turns = "  - calls: [{ tool: execute_command, params: { command: \"echo $$ > pid; echo begun; sleep 60\" } }]\n";
    for (signal, code, state) in [
        (Signal::INT, 130, "cancelled"),
        (Signal::TERM, 143, "interrupted"),
        (Signal::HUP, 143, "interrupted"),
    ] {
        let project = project(turns);
        assert_eq!(signalled(&project, signal), Some(code), "{signal:?}");
        let pid = Pid::from_raw(project.read("pid").trim().parse().unwrap()).unwrap();
        assert!(test_kill_process(pid).is_err(), "{signal:?}: the command still runs");
        assert!(project.succeed(&["tasks", "list"]).contains(state), "{signal:?}");
    }
}
