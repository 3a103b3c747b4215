//! The command line as its users meet it: the real program, its output and its exit codes.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::json;

use crate::support::client::eventually;
use crate::support::processes;
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

const QUESTION: &str = "  - calls:\n      - tool: ask_followup_question\n        \
                        params: { question: Which one?, follow_up: [{ text: This }] }\n";
const EDIT: &str = "  - calls: [{ tool: write_to_file, params: { path: b.txt, content: two } }]\n";

/// The record that the supervisor of the running command keeps.
fn journal(place: &Path) -> Option<std::path::PathBuf> {
    let entries = fs::read_dir(place).ok()?;
    entries.filter_map(|entry| Some(entry.ok()?.path())).find_map(|path| {
        let is_it = path.ends_with("journal") && path.ancestors().nth(2)?.ends_with("captures");
        if is_it { Some(path) } else { path.is_dir().then(|| journal(&path)).flatten() }
    })
}

/// A fault of the server's own, and no word on what the command did.
#[test]
fn a_run_ends_where_it_is_not_known_what_a_command_changed() {
    let project = project(
        "  - calls:\n      - tool: execute_command\n        \
         params: { command: \"while [ ! -e go ]; do sleep 0.05; done\" }\n",
    );
    let mut command = project.program();
    // An answer to the model's questions is no leave to go on.
    command.args(["run", "Do it.", "--on-ask=allow", "--answer=Yes", "--script"]);
    command.arg(project.beside("script.yaml")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = command.spawn().unwrap();
    let mut kept = None;
    eventually("the command's record", || {
        kept = journal(project.beside("").as_path());
        kept.is_some()
    });
    let kept = kept.unwrap();
    fs::remove_file(&kept).unwrap();
    fs::create_dir(&kept).unwrap();
    project.write("go", "");
    let output = running.wait_with_output().unwrap();
    let asked = "changed is not known: what was kept of files before it can't be read: ";
    assert_ends(&output, 3, asked);
    assert!(stderr(&output).contains("Check the working tree"), "{output:?}");
    let urid = urid(&project);
    let script = project.beside("script.yaml");
    let answer = ["tasks", "resume", &urid, "--answer=Go on", "--script", script.to_str().unwrap()];
    assert_eq!(project.succeed(&answer), "Done.\n");
}

#[test]
fn a_question_that_waits_is_asked_again_by_resume() {
    let project = project(QUESTION);
    let first = play(&project, &[]);
    let urid = urid(&project);
    let script = project.beside("script.yaml");
    let told = |flags: &str| {
        format!(
            "roo-lsp: {urid} waits for an answer; continue with: roo-lsp tasks resume {urid}{flags} (without a terminal, \
             answer by --answer=TEXT)\n"
        )
    };
    assert_ends(&first, 3, &told(&format!(" --script {}", script.display())));
    assert!(!stderr(&first).contains("--on-ask"), "{first:?}");
    let again = project.run(&["tasks", "resume", &urid]);
    assert_ends(&again, 3, &told(""));
    assert!(stderr(&again).contains("? Which one?"), "{again:?}");
    let folder = project.folder();
    let elsewhere = ["--workspace", folder.to_str().unwrap(), "tasks", "resume", &urid];
    let elsewhere = project.program().current_dir("/").args(elsewhere).output().unwrap();
    assert_ends(&elsewhere, 3, &told(&format!(" --workspace {}", folder.display())));
    let answer =
        |text: &str| project.run(&["tasks", "resume", &urid, text, "--script", script.to_str().unwrap()]);
    let refused = answer("--answer=7");
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(stderr(&refused).contains("there is no suggestion 7, only 1: This; add a word"), "{refused:?}");
    let answered = answer("--answer=1");
    assert!(answered.status.success() && answered.stdout == b"Done.\n", "{answered:?}");
    let log = fs::read_to_string(&project.logs()[0]).unwrap();
    assert!(log.contains("<user_message>\\nThis\\n</user_message>"), "the suggestion of that number");
}

#[test]
fn a_completed_task_goes_on_with_what_is_said_to_it() {
    let more = "  - when: { contains: one more thing }\n    calls: [{ tool: attempt_completion, params: { result: That too. } }]\n";
    let project = project("");
    project.script(&format!("turns:\n{DONE}{more}"));
    assert!(play(&project, &[]).status.success());
    let urid = urid(&project);
    let told = format!(
        "roo-lsp: {urid} is completed; it goes on with what you say to it: roo-lsp tasks resume {urid} \"…\"\n"
    );
    assert_ends(&project.run(&["tasks", "resume", &urid]), 1, &told);
    let script = project.beside("script.yaml");
    let resume = ["tasks", "resume", &urid, "And one more thing.", "--script", script.to_str().unwrap()];
    assert_eq!(project.succeed(&resume), "That too.\n");
    assert_eq!(project.succeed(&["tasks", "list"]).lines().count(), 1);
}

#[test]
fn an_answer_that_is_pasted_in_several_lines_is_taken_whole() {
    use crate::support::terminal::{self, Output};

    let project = project(
        "  - calls: [{ tool: ask_followup_question, params: { question: Which error?, follow_up: [{ text: None }] } }]\n",
    );
    let mut command = project.program();
    command.args(["run", "Do it.", "--script"]).arg(project.beside("script.yaml")).stdout(Stdio::piped());
    let mut typed = vec![
        ("  > ", "error one\n  at two\n\nat"),
        ("(an empty line ends it) > ", " three\n"),
        (" three\r\n  (an empty line ends it) > ", "\n"),
    ];
    typed.reverse();
    let (child, shown) = terminal::answering(command, Output::Own, |shown| {
        let (words, _) = typed.last()?;
        shown.contains(words).then(|| typed.pop().map(|(_, keys)| keys.to_owned())).flatten()
    });
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(0), "{shown}");
    let log = fs::read_to_string(&project.logs()[0]).unwrap();
    assert!(log.contains("error one\\n  at two\\n\\nat three"), "{shown}");
}

#[test]
fn permission_that_waits_is_asked_again_by_resume() {
    let project = project(EDIT);
    assert_ends(&play(&project, &[]), 3, "waits for permission; continue with: roo-lsp tasks resume");
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
    project.configure(
        &serde_json::json!({
            "mode": "code",
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
    project
        .configure("profiles: { keyless: { provider: anthropic, model: m }, empty: { provider: openai } }\n");
    assert_ends(&project.run(&["run", "x", "--script=none.yaml"]), 1, "none.yaml");
    assert_ends(&project.run(&["run", "x", "--profile=keyless"]), 1, "ANTHROPIC_API_KEY is not set");
    assert_ends(&project.run(&["run", "x", "--profile=empty"]), 1, "lacks `model`");
    let choose = "there is no model profile 'default'; the profiles are: empty, keyless; choose one with `profile: empty`";
    assert_ends(&project.run(&["run", "x"]), 1, choose);
    assert_ends(
        &project.run(&["models"]),
        1,
        "there is no model profile 'default'; the profiles are: empty, keyless",
    );
    assert_ends(
        &project.run(&["run", "x", "--mode=Code"]),
        2,
        "There is no mode 'Code'; did you mean 'code'?",
    );
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

#[test]
fn standard_input_goes_along_with_a_prompt_where_that_is_asked_for_and_is_not_lost_unseen() {
    let end =
        |result: &str| format!("calls: [{{ tool: attempt_completion, params: {{ result: {result} }} }}]");
    let turns = [("when: { contains: \"Review this:\\n\\n-one\" }, ", "Seen"), ("", "Alone")];
    let turns = turns.map(|(when, result)| format!("  - {{ {when}{} }}\n", end(result)));
    let project = project(&turns.concat());
    let change = project.beside("change.diff");
    fs::write(&change, "-one\n+two\n").unwrap();
    let run = |more: &[&str]| {
        let mut command = project.program();
        command.args(["run", "Review this:", "--mode=ask", "--script"]).arg(project.beside("script.yaml"));
        command.args(more).stdin(fs::File::open(&change).unwrap());
        let output = command.output().unwrap();
        (
            String::from_utf8(output.stdout.clone()).unwrap(),
            stderr(&output).contains("standard input is not read"),
        )
    };
    assert_eq!(run(&["-"]), ("Seen\n".to_owned(), false));
    assert_eq!(run(&[]), ("Alone\n".to_owned(), true));
}

/// Sends a signal to the program while it runs a command, and returns its exit code.
#[cfg(unix)]
fn signalled(project: &Project, signal: rustix::process::Signal) -> Option<i32> {
    let mut command = project.program();
    command.args(["run", "Do it.", "--on-ask=allow", "--format=ndjson", "--script"]);
    command.arg(project.beside("script.yaml")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut program = command.spawn().unwrap();
    let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("begun\\n")), "the command did not begin");
    let pid = rustix::process::Pid::from_child(&program);
    rustix::process::kill_process(pid, signal).unwrap();
    lines.for_each(drop);
    let output = program.wait_with_output().unwrap();
    assert!(stderr(&output).contains("continue with: roo-lsp tasks resume "), "{output:?}");
    output.status.code()
}

#[cfg(unix)]
#[test]
fn a_signal_leaves_no_command_behind() {
    use rustix::process::Signal;
    for (number, (signal, code, state)) in [
        (Signal::INT, 130, "cancelled"),
        (Signal::TERM, 143, "interrupted"),
        (Signal::HUP, 143, "interrupted"),
    ]
    .into_iter()
    .enumerate()
    {
        let mark = processes::mark(number);
        let project = project(&format!(
            "  - calls: [{{ tool: execute_command, params: {{ command: \"echo begun; sleep {mark}\" }} }}]\n"
        ));
        assert_eq!(signalled(&project, signal), Some(code), "{signal:?}");
        assert_eq!(processes::with(&mark), Vec::<String>::new(), "{signal:?}: the command still runs");
        assert!(project.succeed(&["tasks", "list"]).contains(state), "{signal:?}");
    }
}

#[test]
fn a_task_that_waits_says_for_what() {
    for (turns, state) in
        [(QUESTION, "interrupted, waits for an answer"), (EDIT, "interrupted, waits for permission")]
    {
        let project = project(turns);
        play(&project, &[]);
        let list = project.succeed(&["tasks", "list"]);
        assert!(list.contains(&format!("  {state}  code")), "{list}");
        let shown = project.succeed(&["tasks", "show", &urid(&project)]);
        assert!(shown.contains(&format!("- State: {state}\n")), "{shown}");
    }
}

#[test]
fn the_newest_tasks_are_listed_and_older_ones_when_asked_for() {
    let project = project("");
    let mut newest_first = Vec::new();
    for _ in 0..3 {
        play(&project, &[]);
        newest_first.insert(0, urid(&project));
    }
    let left_out = "Older tasks are left out; --all lists them.\n";
    for (flags, listed, notice) in [
        (&["-n", "2"][..], 2, left_out),
        (&["-n", "2", "--json"], 2, left_out),
        (&["-n", "3"], 3, ""),
        (&["--all"], 3, ""),
    ] {
        let output = project.run(&[&["tasks", "list"], flags].concat());
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        assert_eq!(text.lines().count(), listed, "{text}");
        for (line, urid) in text.lines().zip(&newest_first) {
            assert!(line.contains(urid), "{text}");
        }
        assert_eq!(stderr(&output), notice, "{flags:?}");
    }
}

#[test]
fn the_beginning_of_a_urid_names_a_task() {
    let project = project("");
    play(&project, &[]);
    let first = urid(&project);
    let beginning = &first[..first.len() - 2];
    assert!(project.succeed(&["tasks", "show", beginning]).contains(&first));
    play(&project, &[]);
    let second = urid(&project);
    // Both began in this century.
    let output = project.run(&["tasks", "show", "20"]);
    assert_ends(&output, 1, "is the start of several task names");
    assert!(stderr(&output).contains(&first) && stderr(&output).contains(&second), "{output:?}");
    assert!(project.succeed(&["tasks", "show", &first]).contains(&first));
}

/// In a bash that has loaded the script, what is offered behind these words.
fn completed(words: &[&str]) -> String {
    let script = "source <(\"$0\" completions bash); COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); \
                  _roo__lsp roo-lsp \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"; echo \"${COMPREPLY[*]}\"";
    let mut bash = std::process::Command::new("bash");
    bash.args(["-c", script, env!("CARGO_BIN_EXE_roo-lsp"), "roo-lsp"]).args(words);
    String::from_utf8(bash.output().unwrap().stdout).unwrap()
}

#[test]
fn bash_completes_subcommands_at_each_level() {
    for (words, offered) in [
        (&["ta"][..], "tasks"),
        (&["tasks", "l"], "list"),
        (&["tasks", "list", "--a"], "--all"),
        (&["run", "--on-ask", ""], "ask deny allow"),
        (&["helix-config", "--"], "--help"),
    ] {
        assert!(completed(words).contains(offered), "{words:?}: {}", completed(words));
    }
}

#[test]
fn manual_pages_are_printed_and_written() {
    let project = Project::new(&[("man/keep", "")]);
    let page = project.succeed(&["man"]);
    assert!(page.contains(".TH roo-lsp 1") && page.contains("roo\\-lsp\\-run(1)"), "{page}");
    assert_eq!(project.succeed(&["man", "--directory", "man"]), "");
    assert!(project.read("man/roo-lsp-tasks-resume.1").contains("on\\-ask"));
    assert_ends(&project.run(&["man", "--directory", "absent"]), 1, "absent");
}

#[test]
fn a_demo_overwrites_nothing() {
    let project = Project::new(&[("kept/project/test.sh", "mine\n")]);
    assert_ends(&project.run(&["demo", "--keep", "kept"]), 1, "is not empty");
    assert_eq!(project.read("kept/project/test.sh"), "mine\n");
    project.succeed(&["demo", "--keep", "new"]);
    assert!(project.folder().join("new/project/test.sh").exists());
    let mut command = project.program();
    command.arg("demo").env("TMPDIR", project.beside("absent"));
    assert_ends(&command.output().unwrap(), 1, "can't create");
    assert!(!project.beside("absent").exists());
}

#[test]
fn the_demo_goes_through_the_whole_team() {
    let project = Project::new(&[]);
    let output = project.run(&["demo"]);
    let (told, result) = (stderr(&output), String::from_utf8(output.stdout.clone()).unwrap());
    assert!(output.status.success(), "{told}");
    assert!(
        result.starts_with("The failing test is fixed: ") && result.ends_with("describes the library.\n")
    );
    // What happens before, in the middle of and after the interruption; the branches beside each other
    // may be told in any order.
    let (before, rest) = told.split_once("Two branches wait at the same time.").unwrap();
    let (between, after) = rest.split_once("The tree is the same, and the same approvals wait.").unwrap();
    for line in [
        "· gathering context for the model",
        "→ new_task 🪃 Fix and describe the page count",
        "  ▸ 🏗️ Describe the page library",
        "    ▸ 💻 Make the failing test pass",
        "│     └── 💻 Make the failing test pass",
        "✗ Not run: your brief lists context files that you have not read.",
        "→ select_active_intent INT-001",
        "✗ Scope Violation: INT-001 is not authorized to edit README.md.",
        "? Run sh test.sh — ",
        "allowed by the demo",
        "not ok 3 - a page begun is a page",
        "? Create docs/pages.md — ",
        "      ▸ 🪲 Find why a page is missing\n      ? Edit lib/pages.sh — ",
    ] {
        assert!(before.contains(line), "{line}:\n{before}");
    }
    assert!(!before.contains("→ apply_diff") && !before.contains("● completed"), "{before}");
    let tree = |state: &str, indentation: &str| -> String {
        [
            "🆕 A test of this project fails. Find out why, fix it, and describe the library.",
            "└── 🪃 Fix and describe the page count",
            "    ├── 🏗️ Describe the page library",
            "    └── 💻 Make the failing test pass",
            "        └── 🪲 Find why a page is missing",
        ]
        .map(|line| format!("{indentation}{line} — {state}\n"))
        .concat()
    };
    assert!(between.contains(&tree("interrupted", "")), "{between}");
    for line in
        ["→ write_to_file docs/pages.md", "→ apply_diff lib/pages.sh", "ok 3 - a page begun is a page"]
    {
        assert!(after.contains(line), "{line}:\n{after}");
    }
    assert!(!after.contains("not ok"), "{after}");
    assert!(after.contains(&tree("completed", "  ")), "{after}");
    assert!(after.contains("\n✓ Architect and Code worked at the same time\n"), "{after}");
    assert!(
        after.contains(
            "\n✓ a write outside of the intent was refused, and not done:\n  Scope Violation: INT-001 is not \
             authorized to edit README.md. Request scope expansion.\n"
        ),
        "{after}"
    );
    let (_, trace) = after.split_once("events; numbers and checksums are right\n").unwrap();
    assert!(trace.contains("✓ trace verify: all 8 records are intact\n"), "{trace}");
    assert!(trace.trim_end().contains("the refused write was done:\n  not intact: record "), "{trace}");
}

#[test]
fn the_demo_works_where_there_is_no_sandbox() {
    let project = Project::new(&[]);
    // A sandbox is tried out in the directory for temporary files.
    let mut command = project.program();
    command.args(["demo", "--keep", "kept"]).env("TMPDIR", project.beside("absent"));
    let output = command.output().unwrap();
    let told = stderr(&output);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("? Run sh test.sh — this machine has no sandbox"), "{told}");
    assert!(told.contains("\n· this machine has no sandbox: the commands ran without one\n"), "{told}");
}

mod team {
    use super::*;

    fn delegates(mode: &str, to: &str, title: &str) -> String {
        let emoji = if to == "code" { "💻" } else { "🪲" };
        let message = format!("{emoji} {title}\n\nURID: {{{{urid}}}}\n\nDo it: {title}.\n");
        let call = serde_json::json!({ "tool": "new_task", "params": { "mode": to, "message": message } });
        format!("  - {{ mode: {mode}, when: {{ notContains: [\"was completed\"] }}, calls: [{call}] }}\n")
    }

    /// An orchestrator has Code do something; each then completes.
    fn team(turns_of_code: &str) -> Project {
        let delegates = delegates("orchestrator", "code", "Count it");
        let completes =
            "  - { mode: code, calls: [{ tool: attempt_completion, params: { result: Counted. } }] }\n";
        project(&format!("{delegates}{turns_of_code}{completes}"))
    }

    const BRANCH_ASKS: &str = "  - mode: code\n    calls:\n      - tool: ask_followup_question\n        \
                               params: { question: Which one?, follow_up: [{ text: This }, { text: That }] }\n";
    const FLAGS: [&str; 1] = ["--mode=orchestrator"];

    /// The tree with `N` for the numbers of branches.
    fn tree(project: &Project, name: &str) -> String {
        let text = project.succeed(&["tasks", "tree", name]);
        let digits = |c: char| c.is_ascii_digit();
        text.lines().map(|line| line.trim_end_matches(digits).to_owned() + "\n").collect()
    }

    #[test]
    fn the_end_of_a_branch_is_not_the_end() {
        let project = team("");
        let output = play(&project, &FLAGS);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(String::from_utf8(output.stdout.clone()).unwrap(), "Done.\n");
        let told = stderr(&output);
        for line in ["→ new_task 💻 Count it\n", "  ▸ 💻 Count it\n", "  ● completed\n    │ Counted.\n"]
        {
            assert!(told.contains(line), "{line}: {told}");
        }
        assert!(told.ends_with("● completed\n"), "{told}");
        let urid = urid(&project);
        assert_eq!(tree(&project, &urid), "🪃 Do it. — completed\n└── 💻 Count it — completed, .\n");
    }

    #[test]
    fn a_branch_is_named_by_number_or_id() {
        let project = team("");
        play(&project, &FLAGS);
        let urid = urid(&project);
        let nodes: Vec<serde_json::Value> = project
            .succeed(&["tasks", "tree", &urid, "--json"])
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let id = nodes[1]["id"].as_str().unwrap();
        assert_eq!((nodes.len(), &nodes[1]["parentId"]), (2, &nodes[0]["id"]));
        let (_, number) = id.split_once('.').unwrap();
        let shown = project.succeed(&["tasks", "show", id]);
        assert!(shown.starts_with("# Count it\n"), "{shown}");
        assert!(shown.contains("## Brief\n\n```\n💻 Count it\n"), "{shown}");
        let marked =
            format!("🪃 Do it. — completed\n└── 💻 Count it — completed, .{number}\n    ^ we are here\n");
        assert!(shown.contains(&marked), "{shown}");
        assert_eq!(project.succeed(&["tasks", "show", &format!("{urid}.{number}")]), shown);
        assert!(project.succeed(&["tasks", "show", &urid]).contains(&format!("completed, .{number}\n```\n")));
        let absent = project.run(&["tasks", "show", &format!("{urid}.0")]);
        assert_ends(
            &absent,
            1,
            &format!(
                "has no branch '.0'; its branches are:\n🪃 Do it. — completed\n└── 💻 Count it — completed, .{number}\n"
            ),
        );
    }

    #[test]
    fn a_branch_that_waits_is_named_and_asked_again() {
        let project = team(BRANCH_ASKS);
        let first = play(&project, &FLAGS);
        let urid = urid(&project);
        let told =
            format!("{urid} waits for an answer (💻 Count it); continue with: roo-lsp tasks resume {urid}");
        assert_ends(&first, 3, &told);
        let question = "  ▸ 💻 Count it\n  ? Which one?\n      1. This\n      2. That\n";
        assert!(stderr(&first).contains(question), "{first:?}");
        let again = project.run(&["tasks", "resume", &urid]);
        assert_ends(&again, 3, &told);
        assert!(stderr(&again).contains(question), "{again:?}");
        assert!(project.succeed(&["tasks", "list"]).contains("interrupted, waits for an answer"));
        assert_eq!(tree(&project, &urid), "🪃 Do it. — interrupted\n└── 💻 Count it — interrupted, .\n");
    }

    #[test]
    fn one_branch_goes_on_while_another_one_waits() {
        let message = |title: &str| format!("💻 {title}\n\nURID: {{{{urid}}}}\n\nDo it: {title}.\n");
        let calls = ["Ask", "Write"].map(|title| {
            serde_json::json!({ "tool": "new_task", "params": { "mode": "code", "message": message(title) } })
        });
        let calls = serde_json::Value::from(calls.to_vec());
        let project = project(&format!(
            "  - {{ mode: orchestrator, calls: {calls} }}\n\
             \x20 - {{ mode: code, when: {{ contains: \"Do it: Ask\" }}, calls: [{{ tool: ask_followup_question, params: {{ question: Which?, follow_up: [{{ text: A }}, {{ text: B }}] }} }}] }}\n\
             \x20 - {{ mode: code, when: {{ contains: \"Do it: Write\" }}, delayMs: 30, calls: [{{ tool: write_to_file, params: {{ path: b.txt, content: two }} }}] }}\n",
        ));
        let output = play(&project, &["--mode=orchestrator", "--allow-write"]);
        assert_ends(&output, 3, "waits for an answer (💻 Ask); continue with");
        assert_eq!(project.read("b.txt").trim_end(), "two");
        let urid = urid(&project);
        let expected = "🪃 Do it. — interrupted\n├── 💻 Ask — interrupted, .\n└── 💻 Write — completed, .\n";
        assert_eq!(tree(&project, &urid), expected);
    }

    #[test]
    fn a_killed_request_is_resumed_with_its_branches() {
        let command = "  - { mode: code, calls: [{ tool: execute_command, params: { command: \"echo begun; sleep 60\" } }] }\n";
        let project = team(command);
        let mut program = project.program();
        program.args([
            "run",
            "Do it.",
            "--mode=orchestrator",
            "--on-ask=allow",
            "--format=ndjson",
            "--script",
        ]);
        program.arg(project.beside("script.yaml")).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut program = program.spawn().unwrap();
        let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("begun\\n")), "the command did not begin");
        program.kill().unwrap();
        program.wait().unwrap();
        let urid = urid(&project);
        assert_eq!(tree(&project, &urid), "🪃 Do it. — interrupted\n└── 💻 Count it — interrupted, .\n");
        // To resume a branch is to resume its request.
        let nodes = project.succeed(&["tasks", "tree", &urid, "--json"]);
        let branch: serde_json::Value = serde_json::from_str(nodes.lines().last().unwrap()).unwrap();
        let script = project.beside("script.yaml");
        let resume =
            ["tasks", "resume", branch["id"].as_str().unwrap(), "--script", script.to_str().unwrap()];
        let output = project.run(&resume);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(String::from_utf8(output.stdout.clone()).unwrap(), "Done.\n");
        assert!(stderr(&output).contains("  ▸ 💻 Count it\n  ✗ "), "{output:?}");
        assert_eq!(tree(&project, &urid), "🪃 Do it. — completed\n└── 💻 Count it — completed, .\n");
    }

    /// Runs the request on a terminal of its own; what is typed once the words are shown, and all that was
    /// shown.
    #[cfg(unix)]
    fn on_a_terminal(project: &Project, words: &str, typed: &str) -> (Option<i32>, String, String) {
        use std::io::Read as _;

        use crate::support::terminal::{self, Output};
        let mut command = project.program();
        command.args(["run", "Do it.", "--mode=orchestrator", "--script"]).arg(project.beside("script.yaml"));
        command.env("TERM", "xterm").env("NO_COLOR", "1").stdout(Stdio::piped());
        let (mut program, shown) = terminal::on_a_terminal(command, Output::Own, words, typed);
        let mut result = String::new();
        program.stdout.take().unwrap().read_to_string(&mut result).unwrap();
        (program.wait().unwrap().code(), shown, result)
    }

    #[cfg(unix)]
    #[test]
    fn on_a_terminal_a_branch_is_answered_and_the_tree_stays_below() {
        let asks = BRANCH_ASKS.to_owned()
            + "  - { mode: code, when: { contains: That }, calls: [{ tool: attempt_completion, params: { result: Counted that. } }] }\n";
        let project = team(&asks);
        let (code, shown, result) = on_a_terminal(&project, "  > ", "2\n");
        assert_eq!((code, result.as_str()), (Some(0), "Done.\n"), "{shown}");
        assert!(shown.contains("  ▸ 💻 Count it\n  ? Which one?\n      1. This\n      2. That\n"), "{shown}");
        assert!(shown.contains("    │ Counted that.\n"), "{shown}");
        let tree = |root: &str, branch: &str| format!("🪃 Do it. — {root}\n└── 💻 Count it — {branch}\n");
        let footer = |root: &str, branch: &str| format!("\u{1b}[?7l{}\u{1b}[?7h", tree(root, branch));
        assert!(shown.contains(&footer("paused", "waiting")), "{shown:?}");
        // Every tree is taken away but for the last one. Below some of them stands what is at work.
        let erased = shown.matches("\u{1b}[2A\u{1b}[J").count() + shown.matches("\u{1b}[3A\u{1b}[J").count();
        assert_eq!(shown.matches("\u{1b}[?7l").count(), erased, "{shown:?}");
        let last = "🪃 Do it. — completed\n  └── 💻 Count it — completed\n";
        assert_eq!(shown.matches(last).count(), 1, "{shown:?}");
        // The result is written behind this, and nothing may reach up to it.
        assert!(shown.ends_with("▸ 🪃 Do it.\n● completed\n"), "{shown:?}");
    }
}

#[test]
fn agents_are_not_let_loose_on_a_home_directory_by_accident() {
    let project = project(EDIT);
    let (home, script) = (project.beside("home"), project.beside("script.yaml"));
    fs::create_dir_all(&home).unwrap();
    let run = |directory: &Path, more: &[&str]| {
        let mut program = project.program();
        program.current_dir(directory).args(["run", "Go", "--mode", "code", "--allow-write", "--script"]);
        program.arg(&script).args(more).output().unwrap()
    };
    assert_ends(&run(&home, &[]), 2, "which is all of your home directory. Go into a project, or name it");
    assert_ends(&run(Path::new("/"), &[]), 2, "which is the whole file system.");
    assert_eq!(fs::read_dir(&home).unwrap().count(), 0, "nothing was made there");
    // Who names it means it.
    let named = run(&home, &["--workspace", home.to_str().unwrap()]);
    assert!(named.status.success() && stderr(&named).contains("is all of your home directory"), "{named:?}");
    assert_eq!(fs::read_to_string(home.join("b.txt")).unwrap().trim_end(), "two");
}

#[cfg(unix)]
#[test]
fn on_a_terminal_a_run_in_the_home_directory_says_what_is_there_and_asks() {
    use crate::support::terminal::{self, Output};
    let project = project(EDIT);
    let home = project.beside("home");
    fs::create_dir_all(home.join("Documents")).unwrap();
    let run = |typed: &str| {
        let mut command = project.program();
        command.current_dir(&home).args(["run", "Go", "--mode", "code", "--allow-write", "--script"]);
        command.arg(project.beside("script.yaml")).env("TERM", "dumb").stdout(Stdio::null());
        let (mut program, shown) = terminal::on_a_terminal(command, Output::Own, "[y/N]", typed);
        (program.wait().unwrap().code(), shown)
    };
    let (code, shown) = run("\n");
    assert!(
        shown.contains("is all of your home directory: Documents. Agents would work on all of it."),
        "{shown}"
    );
    assert!(code == Some(2) && shown.ends_with("nothing was started\n"), "{shown}");
    assert!(!home.join("b.txt").exists());
    let (code, shown) = run("y\n");
    assert_eq!(code, Some(0), "{shown}");
    assert!(
        home.join("b.txt").exists() && !shown.contains('\u{1b}'),
        "a dumb terminal gets no sequences: {shown:?}"
    );
}

#[cfg(unix)]
#[test]
fn on_a_terminal_a_clock_runs_while_a_command_works() {
    use crate::support::terminal::{self, Output};
    let project = project(
        "  - calls: [{ tool: execute_command, params: { command: \"while [ ! -e go ]; do sleep 0.1; done\" } }]\n",
    );
    let mut command = project.program();
    command.args([
        "run",
        "Go",
        "--mode",
        "code",
        "--allow-command",
        "while",
        "--on-ask",
        "allow",
        "--script",
    ]);
    command
        .arg(project.beside("script.yaml"))
        .env("TERM", "xterm")
        .env("NO_COLOR", "1")
        .stdout(Stdio::null());
    let go = project.folder().join("go");
    // The command ends once the clock has begun.
    let clock = "… execute_command while [ ! -e go ]; do sleep 0.1; done · ";
    let (mut program, shown) = terminal::answering(command, Output::Own, |shown| {
        if shown.contains(clock) {
            fs::write(&go, "").unwrap();
        }
        None
    });
    assert_eq!(program.wait().unwrap().code(), Some(0), "{shown}");
    assert!(shown.contains(clock), "{shown:?}");
    assert!(shown.ends_with("● completed\n"), "{shown:?}");
}

#[test]
fn a_run_whose_approvals_a_flag_answers_prints_what_decides_them() {
    let project = project("  - calls: [{ tool: execute_command, params: { command: make } }]\n");
    project.write("AGENTS.md", "Be kind.\n");
    let told = stderr(&play(&project, &["--mode=code", "--on-ask=deny"]));
    assert!(told.contains("? Run make — commands ask here\n    make\n    (in .)\n"), "{told}");
    assert!(!told.contains("Trust"), "{told}");
    // Who has to decide reads it all.
    let told = stderr(&play(&project, &["--mode=code"]));
    let offer = "  Trust this folder (AGENTS.md will steer agents) and run its commands in the sandbox without asking?\n";
    assert!(told.contains("? Run make — no rule allows `make`") && told.contains(offer), "{told}");
}

#[test]
fn the_doctor_names_a_settings_file_with_another_ending() {
    let project = project("");
    let file = project.beside("config/roo-lsp/config.yaml");
    fs::rename(&file, file.with_extension("yml")).unwrap();
    let told = String::from_utf8(project.run(&["doctor", "--offline"]).stdout).unwrap();
    assert!(told.contains("config.yaml does not exist; the defaults apply"), "{told}");
    assert!(told.contains("config.yml; the name is config.yaml"), "{told}");
}

#[test]
fn the_doctor_looks_at_everything_that_the_settings_name() {
    let project = project("");
    let script = project.beside("script.yaml");
    let report = |text: &str| {
        project.configure(text);
        let output = project.run(&["doctor"]);
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, text) = report("");
    assert!(!text.contains("is not there"), "{text}");
    assert!(
        code == Some(1) && text.contains("FAIL profiles: none, so no task can begin; run roo-lsp setup"),
        "{text}"
    );
    let good = format!("profiles: {{ default: {{ provider: scripted, script: {} }} }}\n", script.display());
    let (code, text) = report(&format!("{good}limts: {{}}\n"));
    assert!(
        code == Some(0) && text.contains("limts: unknown key, ignored; did you mean `limits`?"),
        "{text}"
    );
    let spare = "  spare: { provider: openai, baseUrl: \"https://x.example/v1\", model: y }\n";
    let others =
        format!("profiles:\n  default: {{ provider: scripted, script: {} }}\n{spare}", script.display());
    let (code, text) = report(&others);
    assert!(
        code == Some(0)
            && text.contains("note profile spare: nothing uses it. The model profile lacks `apiKeyEnv`"),
        "{text}"
    );
    assert!(text.contains("run roo-lsp login openai --base-url https://x.example/v1."), "{text}");
    let (code, text) = report(&others.replace("script:", "fallback: spare, script:"));
    assert!(code == Some(1) && text.contains("FAIL profile spare: The model profile lacks"), "{text}");
    let (code, text) =
        report("profile: mine\nprofiles: { a: { provider: openai, api_key: x } }\nautoApprove: yes\n");
    assert!(code == Some(1) && text.contains("must have keys below it, such as `read: true`"), "{text}");
    for (wrong, line) in [
        (
            "profile: absent\n",
            "FAIL default profile: there is no model profile 'absent'; the profiles are: default; choose",
        ),
        ("profile: defualt\n", "did you mean 'default'? The profiles are: default"),
        ("mode: cod\n", "FAIL mode: There is no mode 'cod'; did you mean 'code'?"),
        ("mode: poet\n", "FAIL mode: "),
        ("modes: { code: { profile: absent } }\n", "FAIL modes.code: there is no model profile 'absent'"),
        ("modes: { poet: {} }\n", "FAIL modes.poet: "),
    ] {
        let (code, text) = report(&format!("{good}{wrong}"));
        assert!(code == Some(1) && text.contains(line), "{wrong}: {text}");
        assert_eq!(text.matches("FAIL").count(), 1, "{wrong}: {text}");
    }
    let (code, text) = report("profiles: { default: { provider: openai, model: m } }\n");
    assert!(code == Some(1) && text.contains("OPENAI_API_KEY is not set"), "{text}");
    let (code, text) = report("mode: [\n");
    assert!(code == Some(1) && !text.contains("ok   settings"), "{text}");
    let hook = json!([{ "hooks": [{ "type": "command", "command": "~/guard.sh" }] }]);
    fs::write(
        project.beside("config/roo-lsp/hooks.json"),
        json!({ "hooks": { "PreToolUse": hook } }).to_string(),
    )
    .unwrap();
    project.write(
        ".orchestration/active_intents.yaml",
        "active_intents:\n  - id: INT-1\n    name: One\n    owned_scop: [a]\n",
    );
    let (code, text) = report(&good);
    assert!(code == Some(1) && text.contains("~/guard.sh can't start: there is no file "), "{text}");
    assert!(text.contains("FAIL intents: .orchestration/active_intents.yaml:"), "{text}");
    assert!(text.contains("no intent of .orchestration/active_intents.yaml counts"), "{text}");
    let checked = project.run(&["hooks", "check"]);
    assert!(String::from_utf8(checked.stdout).unwrap().contains("warning: "), "it is told, and runs nothing");
    let run = stderr(&play(&project, &[]));
    assert!(run.contains("active_intents.yaml:") && run.contains("guard.sh can't start"), "{run}");
}

#[test]
fn what_was_deleted_is_said_although_the_next_task_can_not_be() {
    let project =
        project("  - calls: [{ tool: execute_command, params: { command: \"echo begun; sleep 60\" } }]\n");
    let start = || {
        let mut program = project.program();
        program.args(["run", "Go", "--mode=code", "--on-ask=allow", "--format=ndjson", "--script"]);
        program.arg(project.beside("script.yaml")).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut program = program.spawn().unwrap();
        let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("begun\\n")), "the command did not begin");
        (program, lines, urid(&project))
    };
    let end = |(mut program, _, _): (std::process::Child, _, String)| {
        program.kill().unwrap();
        program.wait().unwrap();
    };
    let first = start();
    let interrupted = first.2.clone();
    end(first);
    let second = start();
    assert_ne!(interrupted, second.2);
    let output = project.run(&["tasks", "delete", "--yes", &interrupted, &second.2]);
    assert_ends(&output, 1, &second.2);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{interrupted} is deleted.\n"));
    end(second);
}

#[test]
fn places_that_are_named_must_be_there() {
    let project = project("");
    for command in [&["doctor"][..], &["tasks", "list"], &["run", "x"], &["tool", "list_files"]] {
        let with = |flags: &[&str]| project.run(&[command, flags].concat());
        assert_ends(&with(&["--config", "none.yaml"]), 2, "none.yaml can't be found");
        assert_ends(&with(&["--workspace", "a.txt"]), 2, "not a directory");
    }
}

#[test]
fn arguments_that_newcomers_give_are_explained() {
    let project = project("");
    let cases: [(&[&str], &str); 4] = [
        (
            &["run", "fix", "the", "tests"],
            "put the whole prompt in quotes, such as roo-lsp run \"fix the tests\"",
        ),
        (&["web", "--listen", "7467"], "expected an address and a port, such as 127.0.0.1:7467"),
        (&["mcp", "serve", "--http", "7466"], "expected an address and a port"),
        (&["tasks", "list", "-n", "0"], "expected a number from 1"),
    ];
    for (arguments, words) in cases {
        assert_ends(&project.run(arguments), 2, words);
    }
    let output = project.run(&["attach", "2026"]);
    assert_ends(&output, 1, "roo-lsp tasks show 2026 says where it stands");
}

#[test]
fn a_key_that_means_nothing_is_a_note() {
    let project = project("");
    project.configure("limts: {}\n");
    let output = project.run(&["tasks", "list"]);
    let error = stderr(&output);
    assert!(
        output.status.success() && error.starts_with("roo-lsp: ") && error.contains("limts: "),
        "{error}"
    );
}

#[test]
fn tool_knows_its_tools() {
    let project = project("");
    let help = project.succeed(&["tool", "--help"]);
    assert!(help.contains("execute_command            command, [cwd], [timeout]"), "{help}");
    assert_ends(&project.run(&["tool", "fly"]), 2, "the tools are read_file, ");
    let output = project.run(&["tool", "list_files", "--params", r#"{"path": ".", "deep": true}"#]);
    assert_ends(&output, 0, "list_files has no parameter 'deep'");
}

#[test]
fn definitions_are_listed_of_a_file_or_a_directory_that_a_mode_may_read() {
    let project = project("");
    project.write("src/a.rs", "pub struct A;\n\nimpl A {\n    fn b() {}\n}\n");
    project.write("src/b.py", "def b():\n    pass\n");
    let list = |path: &str| {
        let params = format!(r#"{{"path": "{path}"}}"#);
        project.run(&["tool", "list_code_definition_names", "--mode=ask", "--params", &params])
    };
    let of_file = "# src/a.rs\n1--1 | pub struct A;\n3--5 | impl A {\n4--4 |     fn b() {}\n";
    for (path, expected) in
        [("src/a.rs", of_file.to_owned()), ("src", format!("{of_file}\n# src/b.py\n1--2 | def b():\n"))]
    {
        let output = list(path);
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && printed.contains(&expected), "{printed}");
    }
    assert_ends(&list("src/c.rs"), 1, "");
}

#[test]
fn tool_judges_a_write_by_policy() {
    let project = project("");
    let write = ["tool", "write_to_file", "--params", r#"{"path": "a.txt", "content": "two"}"#];
    assert_ends(&project.run(&write), 3, "ask (policy)");
    project.succeed(&[&write[..], &["--allow"]].concat());
    assert_eq!(project.read("a.txt").trim_end(), "two");
}

#[test]
fn a_workspace_whose_path_is_not_utf_8_is_refused() {
    use std::os::unix::ffi::OsStrExt as _;

    let project = project("");
    let folder = project.folder().with_file_name(std::ffi::OsStr::from_bytes(b"not-\xff"));
    std::fs::create_dir(&folder).unwrap();
    let output = project.program().current_dir(&folder).args(["run", "Go."]).output().unwrap();
    assert_ends(&output, 2, "its path is not UTF-8");
}

const POET: &str = "customModes:\n  - slug: poet\n    name: 🪶 Poet\n    roleDefinition: You rhyme.\n    groups:\n      \
                    - read\n      - [edit, { fileRegex: '\\.txt$', description: Poems }]\n";

#[test]
fn a_workspaces_modes_count_once_it_is_trusted() {
    let project = project("");
    project.write(".roomodes", POET);
    let listed = project.run(&["modes"]);
    assert_ends(&listed, 0, "not trusted, so these have no effect: .roomodes");
    assert!(!String::from_utf8(listed.stdout).unwrap().contains("poet"));
    assert_ends(&project.run(&["modes", "show", "poet"]), 2, "There is no mode 'poet'");
    assert_eq!(project.succeed(&["trust"]), "trusted; these steer agents:\n  .roomodes\n");

    let list = project.succeed(&["modes", "list"]);
    let expected = "poet          project   🪶 Poet\n              tools: apply_diff, search_and_replace, insert_content, \
                    generate_image, apply_code_action, rename_symbol\n              changes only: \\.txt$ (Poems)\n";
    assert!(list.contains(expected), "{list}");
    assert!(list.contains("code          built-in  💻 Code\n"), "{list}");
    let shown = project.succeed(&["modes", "show", "poet"]);
    assert!(shown.starts_with("# 🪶 Poet\n\n- Slug: poet\n- Source: project\n"), "{shown}");
    assert!(shown.contains("- Delegates to: none\n") && shown.contains("## Role\n\nYou rhyme.\n"), "{shown}");

    let write = |path: &str| {
        let params = format!(r#"{{"path": "{path}", "content": "x"}}"#);
        project.run(&["tool", "write_to_file", "--mode=poet", "--allow", "--params", &params])
    };
    assert_eq!(write("poem.txt").status.code(), Some(0));
    let refused = write("poem.rs");
    assert_ends(&refused, 1, "deny");
    assert!(String::from_utf8(refused.stdout).unwrap().contains("may change Poems only"));

    assert!(project.succeed(&["trust", "--revoke"]).starts_with("not trusted; these have no effect:\n"));
    assert_ends(&project.run(&["modes", "show", "poet"]), 2, "There is no mode 'poet'");
}

#[test]
fn a_wider_mode_is_approved_as_it_is() {
    let project = project("");
    project.write(".roomodes", &POET.replace("poet", "ask"));
    let trusted = project.succeed(&["trust"]);
    assert!(
        trusted.contains("waits for approval: the mode 'ask' would get more than it has: apply_diff"),
        "{trusted}"
    );
    assert_ends(&project.run(&["modes", "check"]), 1, "");
    assert_ends(&project.run(&["trust", "--approve", "AGENTS.md"]), 1, "nothing in 'AGENTS.md' waits");
    assert!(project.succeed(&["trust", "--approve", ".roomodes"]).starts_with("approved: the mode 'ask'"));
    assert!(project.succeed(&["modes", "show", "ask"]).contains("- Source: project\n"));
    let report: serde_json::Value = serde_json::from_str(&project.succeed(&["trust", "--json"])).unwrap();
    let expected = serde_json::json!({ "trusted": true, "brings": [".roomodes (replaces ask)"], "pendingApprovals": [] });
    assert_eq!(report, expected);
}

#[test]
fn a_team_of_roo_code_delegates_once_its_user_allows_it() {
    let project = Project::new(&[]);
    let message = "🪶 Rhyme it\n\nURID: {{urid}}\n\nRhyme it.\n";
    project.script(&format!(
        "turns:\n  - {{ mode: lead, when: {{ notContains: [\"was completed\", \"not in the list\", \"ERROR\"] }}, calls: [{}] }}\n{DONE}{DONE}",
        serde_json::json!({ "tool": "new_task", "params": { "mode": "poet", "message": message } })
    ));
    let lead = POET.replace("poet", "lead").replace("Poet", "Lead").replace("customModes:\n", "");
    project.write(".roomodes", &format!("{POET}{lead}"));
    let trusted = project.succeed(&["trust"]);
    let question = "question: may the modes of .roomodes delegate to each other, as in Roo Code? None has canDelegateTo: poet, lead\n\
                    answer with: roo-lsp trust --delegation allow, or refuse\n";
    assert!(trusted.ends_with(question), "{trusted}");
    let branches = || {
        let output = play(&project, &["--mode=lead"]);
        let urid = urid(&project);
        (project.succeed(&["tasks", "tree", &urid]).lines().count(), stderr(&output))
    };
    let (count, told) = branches();
    assert_eq!(count, 1, "{told}");

    let allowed = project.succeed(&["trust", "--delegation", "allow"]);
    assert!(allowed.ends_with("may delegate to each other, as you allowed: poet, lead\n"), "{allowed}");
    let (count, told) = branches();
    assert_eq!(count, 2, "{told}");
    let doctor = project.run(&["doctor", "--offline"]);
    assert!(
        String::from_utf8(doctor.stdout)
            .unwrap()
            .contains("poet, lead may delegate to each other, as you answered")
    );

    project.succeed(&["trust", "--delegation", "refuse"]);
    assert!(project.succeed(&["modes", "show", "lead"]).contains("- Delegates to: none\n"));
    assert!(!project.succeed(&["trust", "--show"]).contains("question:"), "it is asked once");
    project.write(".roomodes", POET);
    assert_ends(
        &project.run(&["trust", "--delegation", "allow"]),
        1,
        "nothing in '.roomodes' waits for approval",
    );
}

#[test]
fn modes_of_ones_own_delegate_once_their_user_allows_it() {
    let project = Project::new(&[]);
    let lead = POET.replace("poet", "lead").replace("Poet", "Lead").replace("customModes:\n", "");
    std::fs::write(project.beside("config/roo-lsp/custom_modes.yaml"), format!("{POET}{lead}")).unwrap();
    let asked = project.run(&["modes"]);
    let question = "question: may your own modes delegate to each other, as in Roo Code? None has canDelegateTo: lead, poet (";
    assert!(stderr(&asked).contains(question), "{asked:?}");
    let targets = || {
        let shown = project.succeed(&["modes", "show", "lead"]);
        shown.lines().find(|line| line.starts_with("- Delegates to:")).unwrap().to_owned()
    };
    assert_eq!(targets(), "- Delegates to: none");
    let doctor = project.run(&["doctor", "--offline"]);
    let told = String::from_utf8(doctor.stdout).unwrap();
    assert!(told.contains("Answer with roo-lsp modes delegation allow, or refuse"), "{told}");

    let allowed = project.succeed(&["modes", "delegation", "allow"]);
    assert_eq!(allowed, "may delegate to each other, as you allowed: lead, poet\n");
    assert_eq!(targets(), "- Delegates to: poet");
    assert!(!stderr(&project.run(&["modes"])).contains("question:"), "it is asked once");
    project.succeed(&["modes", "delegation", "refuse"]);
    assert_eq!(targets(), "- Delegates to: none");
    assert!(project.succeed(&["modes", "delegation", "ask"]).starts_with("question:"));
    std::fs::write(project.beside("config/roo-lsp/custom_modes.yaml"), POET).unwrap();
    assert!(project.succeed(&["modes", "delegation"]).starts_with("there is nothing to ask"));
    assert_ends(
        &project.run(&["modes", "delegation", "allow"]),
        1,
        "nothing in 'custom-modes.yaml' waits for approval",
    );
}

#[test]
fn nothing_is_said_to_be_approved_that_is_not() {
    let project = project("");
    project.write(".roomodes", &POET.replace("poet", "ask"));
    project.succeed(&["trust"]);
    let workspaces = project.beside("state/roo-lsp/workspaces");
    let workspace = std::fs::read_dir(workspaces).unwrap().next().unwrap().unwrap().path();
    // No approval can be kept without the lock.
    let lock = workspace.join("trust.json.lock");
    std::fs::remove_file(&lock).unwrap();
    std::fs::create_dir(&lock).unwrap();
    let output = project.run(&["trust", "--approve", ".roomodes"]);
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stdout).as_ref()), (Some(1), ""));
}

#[test]
fn mistakes_in_mode_files_are_told_with_their_places() {
    let project = project("");
    let wrong = POET.replace("- read", "- reed");
    project.write("modes.yaml", &wrong);
    let output = project.run(&["modes", "check", "modes.yaml"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("error: modes.yaml:6:9: there is no group 'reed'"), "{text}");
    assert!(text.ends_with("\n0 modes\n"), "{text}");
    project.write("modes.yaml", &format!("{POET}    colour: red\n"));
    let text = project.succeed(&["modes", "check", "modes.yaml"]);
    assert!(
        text.starts_with("warning: modes.yaml:8:5: unknown key `colour`") && text.ends_with("1 mode\n"),
        "{text}"
    );
    assert_ends(&project.run(&["modes", "check", "none.yaml"]), 1, "can't read none.yaml");
    let pipe = project.folder().join("pipe.yaml");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert_ends(&project.run(&["modes", "check", "pipe.yaml"]), 1, "is neither a file nor a directory");

    project.configure("");
    fs::write(project.beside("config/roo-lsp/custom-modes.yaml"), &wrong).unwrap();
    assert_ends(&project.run(&["modes"]), 0, "custom-modes.yaml:6:9: there is no group 'reed'");
    assert_eq!(project.run(&["modes", "check"]).status.code(), Some(1));
    let doctor = project.run(&["doctor"]);
    assert!(String::from_utf8(doctor.stdout).unwrap().contains("custom-modes.yaml:6:9: there is no group"));
}

/// The user's hooks file, which guards every command.
fn guard(project: &Project, event: &str) {
    let hook = r#"[{ "matcher": "", "hooks": [{ "type": "command", "command": "echo no >&2; exit 2" }] }]"#;
    let path = project.beside("config/roo-lsp/hooks.json");
    fs::write(path, format!(r#"{{ "hooks": {{ "{event}": {hook} }} }}"#)).unwrap();
}

#[test]
fn nothing_runs_without_the_guard_that_a_broken_hooks_file_was_meant_to_bring() {
    let project = project("  - calls: [{ tool: write_to_file, params: { path: b.txt, content: two } }]\n");
    let flags = ["--mode=code", "--on-ask=allow"];
    guard(&project, "PreToolUse");
    assert!(stderr(&play(&project, &flags)).contains("A hook refused this call: no"));
    let urid = urid(&project);
    guard(&project, "PreToolUze");
    let broken = play(&project, &flags);
    assert_ends(&broken, 1, "hooks.json:1:");
    let told = stderr(&broken);
    assert!(told.contains("there is no event 'PreToolUze'"), "{told}");
    assert_eq!((told.lines().count(), told.matches("hooks check").count()), (1, 1), "{told}");
    fs::write(project.beside("config/roo-lsp/hooks.json"), "{ \"hooks\": ").unwrap();
    assert_ends(&play(&project, &flags), 1, "invalid JSON");
    let resumed = project.run(&["tasks", "resume", &urid]);
    assert_ends(&resumed, 1, "invalid JSON");
    assert_eq!(project.succeed(&["tasks", "list"]).lines().count(), 1, "no request has begun");
    assert_eq!(project.read("b.txt"), "");
}

#[test]
fn a_run_tells_the_problems_of_the_files_that_steer_it_once() {
    let project = project("");
    project.write(".roomodes", "customModes:\n  - slug: [\n");
    fs::write(project.beside("config/roo-lsp/mcp.json"), "{").unwrap();
    let untrusted = stderr(&play(&project, &[]));
    assert!(untrusted.contains("mcp.json:1:") && !untrusted.contains(".roomodes:"), "{untrusted}");
    project.succeed(&["trust"]);
    project.write(".roorules", "\0");
    project.write("AGENTS.md", &"Be brief. ".repeat(300_000));
    let output = play(&project, &[]);
    assert!(output.status.success(), "{output:?}");
    let told = stderr(&output);
    assert!(told.contains(".roorules: these rules are left out"), "{told}");
    assert!(told.contains("AGENTS.md: these rules are left out"), "{told}");
    assert_eq!((told.matches("mcp.json:").count(), told.matches(".roomodes:").count()), (1, 1), "{told}");
    // The mode may well be in the file.
    let output = play(&project, &["--mode=docs"]);
    assert_ends(&output, 2, ".roomodes:");
    assert_ends(&output, 2, "There is no mode 'docs'");
}

#[test]
fn what_asks_for_nothing_is_a_wrong_argument() {
    let project = project("");
    assert_ends(&project.run(&["run", " "]), 2, "the prompt is empty");
    assert_ends(&project.run(&["policy", "check"]), 2, "there is nothing to check: give --command");
}

#[test]
fn a_flag_that_refuses_is_named_as_who_refused() {
    let project = project(EDIT);
    let output = play(&project, &["--mode=code", "--on-ask=deny"]);
    assert!(stderr(&output).contains("denied by --on-ask deny"), "{output:?}");
}

#[test]
fn a_model_is_told_that_a_run_asks_nobody_and_what_would_allow_the_call() {
    let told =
        "  - when: { contains: \"set to refuse instead of asking (`--on-ask deny`)\", status: denied }\n";
    let done = DONE.replacen("  - calls", "    calls", 1);
    let project = Project::new(&[("a.txt", "one\n")]);
    project.script(&format!("turns:\n{EDIT}{told}{done}"));
    let output = play(&project, &["--mode=code", "--on-ask=deny"]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_server_without_a_client_says_what_it_is() {
    let project = project("");
    let output = project.run(&["serve"]);
    assert_eq!(
        stderr(&output).matches("this is a language server, which an editor starts").count(),
        1,
        "{output:?}"
    );
}
