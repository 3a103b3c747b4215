//! `roo-lsp policy` as its users meet it: verdicts without effects, where the policy comes from, and standing
//! rules.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use roo_durable::WorkspaceDirectory;
use roo_engine::approvals::StandingRules;
use roo_protocol::rule::{RuleSubject, RuleVerdict};
use serde_json::{Value, json};

use crate::support::project::Project;

const SETTINGS: &str = "\
autoApprove:
  execute:
    allow: [[cargo, test]]
    deny: [[rm]]
sandbox: { level: 'off' }
limits: { requests: 10 }
";

fn project() -> Project {
    let project = Project::new(&[("src/lib.rs", "// one\n"), (".env", "KEY=1\n")]);
    project.configure(SETTINGS);
    project
}

/// The same, where agents need an intent.
fn governed() -> Project {
    let project = project();
    project.write(
        ".orchestration/active_intents.yaml",
        "active_intents:\n  - id: INT-001\n    name: One\n    status: PENDING\n    owned_scope: [src/**]\n",
    );
    project
}

fn check(project: &Project, arguments: &[&str]) -> (Value, i32) {
    let output = project.run(&[&["policy", "check"], arguments].concat());
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(text.lines().count(), 1, "{output:?}");
    (serde_json::from_str(&text).unwrap(), output.status.code().unwrap())
}

/// Asks line by line.
fn ask(project: &Project, arguments: &[&str], input: &str) -> Output {
    let mut command = project.program();
    command.args(["policy", "check"]).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn answers(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// All files and directories below one, with what they hold.
fn everything(below: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![below.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path.clone());
                found.insert(path, vec![]);
            } else {
                let bytes = fs::read(&path).unwrap();
                found.insert(path, bytes);
            }
        }
    }
    found
}

pub(crate) fn rules(project: &Project) -> StandingRules {
    let state = WorkspaceDirectory::new(&project.beside("state").join("roo-lsp"), &project.folder());
    StandingRules::new(state.path(), Some(&project.folder()))
}

#[test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
fn a_question_has_one_verdict_and_an_exit_code() {
    let project = project();
    let reason = "the user's settings allow it without asking";
    assert_eq!(
        check(&project, &["--read", "src/lib.rs"]),
        (json!({ "verdict": "allow", "rule": "autoApprove.read", "reason": reason }), 0)
    );
    assert_eq!(
        check(&project, &["--command", "cargo test --lib"]),
        (
            json!({ "verdict": "allow", "rule": "autoApprove.execute.allow cargo test", "reason": reason,
                "sandbox": "none" }),
            0
        )
    );
    assert_eq!(
        check(&project, &["--command", "make all"]),
        (
            json!({ "verdict": "ask", "rule": "command", "reason": "no rule allows `make`",
                "always": "Always allow `make all`", "sandbox": "none" }),
            3
        )
    );
    for (arguments, verdict, rule, code) in [
        (&["--command", "cargo test; rm -r src"] as &[&str], "deny", "autoApprove.execute.deny", 1),
        (&["--command", "cargo test", "--network"], "ask", "network", 3),
        (&["--command", "cargo test", "--cwd", "absent"], "deny", "path", 1),
        (&["--read", ".env"], "ask", "secret", 3),
        (&["--write", "src/new.rs"], "ask", "policy", 3),
        (&["--write", "src/lib.rs"], "ask", "policy", 3),
        (&["--write", "src/lib.rs", "--allow-write"], "allow", "autoApprove.write", 0),
        (&["--write", ".git/config", "--allow-write"], "ask", "protected", 3),
        (&["--write", ".orchestration/x.yaml", "--allow-write"], "deny", "protected", 1),
        (&["--write", "src/lib.rs", "--mode", "ask"], "deny", "mode", 1),
        (&["--tool", "list_files", "--params", r#"{"path": "src"}"#], "allow", "autoApprove.read", 0),
        (&["--tool", "list_files"], "deny", "parameters", 1),
    ] {
        let (answer, ended) = check(&project, arguments);
        let found = (answer["verdict"].as_str().unwrap(), answer["rule"].as_str().unwrap(), ended);
        assert_eq!(found, (verdict, rule, code), "{arguments:?}: {answer}");
    }
}

#[test]
fn an_existing_file_counts_as_seen_whatever_it_holds() {
    let project = project();
    for text in ["", "a\n", "b\n", "a", "// long\n"] {
        project.write("src/lib.rs", text);
        let (answer, code) = check(&project, &["--write", "src/lib.rs", "--allow-write"]);
        assert_eq!((answer["verdict"].as_str(), code), (Some("allow"), 0), "{text:?}: {answer}");
        assert_eq!(project.read("src/lib.rs"), text);
    }
}

#[test]
fn questions_under_an_intent_are_judged_by_its_scope() {
    let project = governed();
    let (answer, code) = check(&project, &["--write", "src/lib.rs"]);
    assert_eq!((answer["detail"]["code"].as_str(), code), (Some("NO_ACTIVE_INTENT"), 1), "{answer}");
    let (answer, code) = check(&project, &["--write", "src/lib.rs", "--intent", "INT-001"]);
    assert_eq!((answer["verdict"].as_str(), code), (Some("ask"), 3), "{answer}");
    let (answer, code) = check(&project, &["--write", "README.md", "--intent", "INT-001"]);
    assert_eq!((answer["detail"]["code"].as_str(), code), (Some("SCOPE_VIOLATION"), 1), "{answer}");
    assert_eq!(
        answer["reason"],
        "Scope Violation: INT-001 is not authorized to edit README.md. Request scope expansion."
    );
    let unknown = project.run(&["policy", "check", "--read", "a", "--intent", "INT-9"]);
    assert_eq!(unknown.status.code(), Some(2), "{unknown:?}");
    assert!(project.read(".orchestration/active_intents.yaml").contains("PENDING"), "nothing is begun");
}

#[test]
fn lines_are_answered_one_by_one_and_the_worst_is_the_exit_code() {
    let project = project();
    let allowed = "{\"read\": \"src/lib.rs\"}\n";
    let asked = "{\"tool\": \"write_to_file\", \"params\": {\"path\": \"a\", \"content\": \"b\"}}\n";
    let denied = "{\"command\": \"rm a\", \"cwd\": \"src\"}\n";
    // A list may be empty; without one there is nothing to check.
    assert_eq!(ask(&project, &["-"], "").status.code(), Some(0));
    assert_eq!(ask(&project, &[], "").status.code(), Some(2));
    for (input, verdicts, code) in [
        (format!("{allowed}\n{allowed}"), &["allow", "allow"] as &[&str], 0),
        (format!("{asked}{allowed}"), &["ask", "allow"], 3),
        (format!("{denied}{asked}{allowed}"), &["deny", "ask", "allow"], 1),
    ] {
        for arguments in [&[] as &[&str], &["-"]] {
            let output = ask(&project, arguments, &input);
            let found: Vec<Value> = answers(&output).iter().map(|answer| answer["verdict"].clone()).collect();
            assert_eq!((json!(found), output.status.code()), (json!(verdicts), Some(code)), "{output:?}");
        }
    }
}

#[test]
fn a_malformed_line_is_told_and_the_others_are_answered() {
    let project = project();
    let output = ask(&project, &[], "nonsense\n{\"read\": \"src/lib.rs\"}\n{\"reed\": \"a\"}\n\u{0}");
    let answers = answers(&output);
    assert_eq!(answers.len(), 4, "{answers:?}");
    assert_eq!(answers[1]["verdict"], "allow");
    for wrong in [0, 2, 3] {
        assert!(answers[wrong]["error"].is_string() && answers[wrong]["verdict"].is_null(), "{answers:?}");
    }
    assert_eq!(output.status.code(), Some(2));
    let output = project.run(&["policy", "check", "--read", "a", "--write", "b"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let output = project.run(&["policy", "check", "--tool", "list_files", "--params", "[]"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
fn people_get_lines() {
    let output = project().run(&["policy", "check", "--format", "text", "--command", "make all"]);
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "ask    run make all\n       command: no rule allows `make`\n       offers: Always allow `make all`\n       \
         sandbox: none\n"
    );
}

#[test]
fn nothing_is_done() {
    let project = governed();
    // With whatever sandbox this machine has.
    project.configure("autoApprove: { write: true, execute: { allow: [[touch]] } }\n");
    let before = everything(&project.beside("."));
    let input = "{\"command\": \"touch src/made\"}\n{\"write\": \"src/made\"}\n{\"write\": \"src/lib.rs\"}\n\
                 {\"write\": \"README.md\"}\n{\"tool\": \"select_active_intent\", \"params\": {\"intent_id\": \
                 \"INT-001\"}}\n{\"read\": \".env\"}\n{\"command\": \"mkdir -p .roo/tasks/x\"}\n";
    let output = ask(&project, &["--intent", "INT-001"], input);
    let answers = answers(&output);
    assert_eq!(answers.len(), 7, "{output:?}");
    assert_eq!(answers[4]["verdict"], "allow", "{answers:?}");
    project.succeed(&["policy", "explain"]);
    project.succeed(&["policy", "rules"]);
    assert_eq!(everything(&project.beside(".")), before);
}

#[test]
fn without_a_sandbox_commands_ask_or_are_refused() {
    let project = project();
    let judged = |level: &str| {
        project.configure(&format!(
            "autoApprove: {{ execute: {{ allow: [[ls]] }} }}\nsandbox: {{ level: {level} }}\n"
        ));
        // A sandbox is tried out in the directory for temporary files.
        let mut command = project.program();
        command.args(["policy", "check", "--command", "ls"]).env("TMPDIR", project.beside("absent"));
        answers(&command.output().unwrap()).remove(0)
    };
    let best = judged("best");
    assert_eq!(
        (&best["verdict"], &best["rule"], &best["sandbox"]),
        (&json!("ask"), &json!("sandbox"), &json!("L0"))
    );
    let best = judged("L2");
    assert_eq!(
        (&best["verdict"], &best["rule"], &best["sandbox"]),
        (&json!("deny"), &json!("sandbox"), &Value::Null)
    );
}

#[test]
fn where_commands_can_not_be_staged_and_have_to_be_none_runs() {
    let project = project();
    project.configure("sandbox: { level: staged }\n");
    let check = |state: std::path::PathBuf| {
        let mut command = project.program();
        command.args(["policy", "check", "--command", "ls"]).env("XDG_STATE_HOME", state);
        answers(&command.output().unwrap()).remove(0)
    };
    let works = check(project.beside("state"));
    assert_eq!((&works["verdict"], &works["sandbox"]), (&json!("ask"), &json!("L3")));
    // What is written in a folder can't be staged in the same folder.
    let refused = check(project.folder().join(".state"));
    assert_eq!((&refused["verdict"], &refused["rule"]), (&json!("deny"), &json!("sandbox")));
    let reason = refused["reason"].as_str().unwrap();
    assert!(reason.contains("commands can't be staged here: ") && reason.contains("is inside"), "{reason}");

    let mut command = project.program();
    command.args(["tool", "execute_command", "--allow", "--params", r#"{"command": "touch ran"}"#]);
    let ran = command.env("XDG_STATE_HOME", project.folder().join(".state")).output().unwrap();
    assert!(!ran.status.success() && !project.folder().join("ran").exists(), "{ran:?}");
    let doctor = |state: std::path::PathBuf| {
        let output = project.program().args(["doctor"]).env("XDG_STATE_HOME", state).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let told = doctor(project.folder().join(".state"));
    assert!(told.contains("\nFAIL staged commands: "), "{told}");
    let told = doctor(project.beside("state"));
    assert!(told.contains("\nok   staged commands: L3 works in this workspace\n"), "{told}");

    let written = ["tool", "execute_command", "--allow", "--params", r#"{"command": "echo two >b.txt; ls"}"#];
    assert!(project.succeed(&written).contains("b.txt"));
    assert_eq!(project.read("b.txt"), "two\n");
}

/// Whatever it would change could neither be told of nor undone.
#[test]
fn no_command_runs_whose_changes_nobody_keeps_track_of() {
    let project = Project::new(&[]);
    let touch = |name: &str| format!(r#"{{"command": "touch {name}"}}"#);
    project.succeed(&["tool", "execute_command", "--allow", "--params", &touch("first")]);
    let workspaces = project.beside("state/roo-lsp/workspaces");
    let workspace = std::fs::read_dir(workspaces).unwrap().next().unwrap().unwrap().path();
    std::fs::remove_dir_all(workspace.join("changes")).unwrap();
    std::fs::write(workspace.join("changes"), "in the way").unwrap();
    let output = project.run(&["tool", "execute_command", "--allow", "--params", &touch("second")]);
    let told =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("can't be tracked"), "{told}");
    assert!(project.folder().join("first").exists() && !project.folder().join("second").exists());
}

#[test]
fn explain_says_where_each_part_comes_from() {
    let project = governed();
    project.write(".rooignore", "secret\n");
    project.write(
        ".roo/hooks.json",
        r#"{"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "true"}]}]}}"#,
    );
    rules(&project).add(RuleVerdict::Allow, RuleSubject::Edits, "nvim", 1_795_176_000_000).unwrap();
    let told = project.succeed(&["policy", "explain", "--allow-write"]);
    let has = |beginning: &str, end: &str| {
        let found = told.lines().any(|line| line.starts_with(beginning) && line.ends_with(end));
        assert!(found, "{beginning} … {end}:\n{told}");
    };
    has("autoApprove.read ", " yes  (default)");
    has("autoApprove.write ", " yes  (command line)");
    has("autoApprove.execute.allow ", "config.yaml:3)");
    has("autoApprove.execute.deny ", "config.yaml:4)");
    has("limits.requests ", "config.yaml:6)");
    has("intents.require ", " destructive  (default)");
    has("sandbox.level ", "config.yaml:5)");
    has("intents ", "nothing is changed without an intent of it");
    has("intent INT-001 ", "One (PENDING): src/**");
    has(".rooignore ", " hides files from agents");
    has("trust ", "not trusted; these have no effect: .roo/hooks.json");
    has("hooks ", " none");
    has("rule r1 ", "Always allow edits of this workspace's files (by nvim)");
    has("only the server writes ", " .orchestration/**");
    let told: Value = serde_json::from_str(&project.succeed(&["policy", "explain", "--json"])).unwrap();
    let write = told["settings"].as_array().unwrap().iter().find(|one| one["key"] == "autoApprove.write");
    assert_eq!(write.unwrap(), &json!({ "key": "autoApprove.write", "value": false, "origin": "default" }));
    assert_eq!(told["rules"][0]["ruleId"], "r1");
    assert_eq!((&told["sandbox"]["wanted"], &told["sandbox"]["level"]), (&json!("off"), &json!("none")));
    assert!(told["protected"]["alwaysAsks"].as_array().unwrap().contains(&json!(".git")));
}

#[test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
fn standing_rules_count_are_listed_and_taken_back() {
    let project = project();
    assert_eq!(project.succeed(&["policy", "rules"]), "no standing rules\n");
    let make = RuleSubject::Commands { commands: vec![vec!["make".to_owned(), "all".to_owned()]] };
    rules(&project).add(RuleVerdict::Allow, make, "nvim", 1_795_176_000_000).unwrap();
    assert_eq!(project.succeed(&["policy", "rules"]), "r1   Always allow `make all` (2026-11-20, by nvim)\n");
    assert_eq!(check(&project, &["--command", "make all"]).1, 0);
    project.succeed(&["policy", "revoke", "r1"]);
    assert_eq!(check(&project, &["--command", "make all"]).1, 3);
    let again = project.run(&["policy", "revoke", "r1"]);
    assert_eq!(again.status.code(), Some(1), "{again:?}");
    assert!(String::from_utf8_lossy(&again.stderr).contains("there is no standing rule 'r1'"));
}

#[test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
fn standing_rules_of_a_workspace_allow_nothing_in_another_directory_at_its_path() {
    let project = project();
    let command = |line: &[&str]| RuleSubject::Commands {
        commands: vec![line.iter().map(|word| (*word).to_owned()).collect()],
    };
    let allow = || rules(&project).add(RuleVerdict::Allow, command(&["make", "all"]), "nvim", 1).unwrap();
    allow();
    rules(&project).add(RuleVerdict::Deny, command(&["make", "install"]), "nvim", 1).unwrap();
    assert_eq!(check(&project, &["--command", "make all"]).1, 0);

    fs::rename(project.folder(), project.beside("moved")).unwrap();
    fs::create_dir(project.folder()).unwrap();
    assert_eq!(check(&project, &["--command", "make all"]).1, 3);
    assert_eq!(check(&project, &["--command", "make install"]).1, 1);
    let told = "`make all` (no effect: made for another directory at this path)";
    for listed in [&["policy", "rules"][..], &["policy", "explain"]] {
        let listed = project.succeed(listed);
        assert!(listed.contains(told), "{listed}");
    }
    let doctor = String::from_utf8(project.run(&["doctor"]).stdout).unwrap();
    assert!(doctor.contains("1 standing rule has no effect, because"), "{doctor}");
    allow();
    assert_eq!(check(&project, &["--command", "make all"]).1, 0, "made again");
}
