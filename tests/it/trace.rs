//! The trace as its users meet it: `roo-lsp trace` with the real program, over a trace as agents leave it.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use roo_durable::WorkspaceDirectory;
use roo_protocol::ids::{Digest, MessageId, TaskId, ToolCallId, Urid};
use roo_trace::record::{
    Author, CommandRun, Decision, Draft, Entry, FileChange, IntentRef, Outcome, PromptRef, Side,
};
use roo_trace::{ComparableForms, Ledger, Setup};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::project::Project;

const BEFORE: &str = "pub fn one() -> u32 {\n    1\n}\n";
const AFTER: &str = "pub fn one() -> u32 {\n    1\n}\n\npub fn two() -> u32 {\n    2\n}\n";

fn entry(outcome: Outcome, files: Vec<FileChange>) -> Entry {
    Entry {
        at: 1_795_176_000_123,
        outcome,
        tool_call: "write_to_file".to_owned(),
        tool_call_id: ToolCallId::new("call_1"),
        task: TaskId::new("0198f0c2-77aa-7c3e-9f51-2a4f6f0e9b11"),
        parent_task: None,
        urid: Urid::new("20250502-11-36-b4649193"),
        mode: "code".to_owned(),
        model: Some("anthropic/claude-sonnet-4-5".to_owned()),
        intent: Some(IntentRef {
            id: "INT-001".to_owned(),
            name: "Counting".to_owned(),
            digest: None,
            requirements: vec![],
        }),
        decision: Decision { by: "user".to_owned(), ..Decision::default() },
        sandbox: None,
        files,
        prompt: Some(PromptRef { id: MessageId::new("m1"), title: "Count to two".to_owned() }),
        command: None,
        violations: vec![],
        server_call: None,
        requested: None,
        claimed: None,
        commit: None,
    }
}

fn ledger(project: &Project) -> Ledger {
    let state = WorkspaceDirectory::new(&project.beside("state").join("roo-lsp"), &project.folder());
    Ledger::open(Setup::new(state.path().to_owned(), Some(project.folder()))).unwrap().0
}

/// A workspace in which an agent wrote a function, was refused something and ran a command.
fn project() -> Project {
    let project = Project::new(&[("src/lib.rs", AFTER)]);
    let change = FileChange {
        path: "src/lib.rs".to_owned(),
        old_path: None,
        before: Side::text(BEFORE),
        after: Side::text(AFTER),
        author: Author::Ai,
    };
    let command = CommandRun { digest: Digest::of("cargo test"), exit_code: Some(0) };
    let entries = [
        entry(Outcome::Ok, vec![change]),
        entry(Outcome::Denied, vec![]),
        Entry {
            command: Some(command),
            tool_call: "execute_command".to_owned(),
            ..entry(Outcome::Ok, vec![])
        },
    ];
    let drafts: Vec<Draft> =
        entries.iter().map(|entry| Draft::new(entry, &ComparableForms::default(), Uuid::new_v4)).collect();
    let appended = ledger(&project).append(&drafts).unwrap();
    assert!(appended.copy_problem.is_none(), "{appended:?}");
    project
}

fn copy(project: &Project) -> PathBuf {
    project.folder().join(".orchestration/agent_trace.jsonl")
}

#[track_caller]
fn assert_fails(output: &Output, sentence: &str) {
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && told.contains(sentence), "{output:?}");
    assert_eq!(told.lines().count(), 1, "{told}");
}

#[test]
fn a_whole_trace_is_verified_and_says_what_was_checked() {
    let project = project();
    let told = project.succeed(&["trace", "verify"]);
    assert!(told.contains("3 records and 0 signed heads checked, intact"), "{told}");
    assert!(told.contains("agent_trace.jsonl: 3 records checked, intact"), "{told}");
    let report: serde_json::Value =
        serde_json::from_str(&project.succeed(&["trace", "verify", "--json"])).unwrap();
    assert_eq!((&report["newest"], &report["original"]["finding"]), (&3.into(), &serde_json::Value::Null));
    fs::copy(copy(&project), project.beside("copy.jsonl")).unwrap();
    project.succeed(&["trace", "verify", project.beside("copy.jsonl").to_str().unwrap()]);
}

#[test]
fn a_copy_that_was_changed_fails_with_the_first_wrong_record() {
    let project = project();
    let whole = fs::read_to_string(copy(&project)).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    let file = project.beside("copy.jsonl");
    for (text, sentence) in [
        (whole.replacen("denied", "ok", 1), "record 2: edit"),
        ([lines[0], lines[2]].concat(), "record 2: delete"),
        ([lines[0], lines[2], lines[1]].concat(), "record 2: reorder"),
        ([lines[0], lines[0], lines[1], lines[2]].concat(), "record 1: duplicate"),
        (lines[0].to_owned(), "record 2: truncation"),
        (String::new(), "record 1: truncation"),
        ("{}\n".to_owned(), "record 1: replacement"),
    ] {
        fs::write(&file, &text).unwrap();
        assert_fails(&project.run(&["trace", "verify", file.to_str().unwrap()]), sentence);
        // The workspace's own copy is intact all the while, then it is not either.
        project.succeed(&["trace", "verify"]);
        fs::write(copy(&project), &text).unwrap();
        assert_fails(&project.run(&["trace", "verify"]), sentence);
        fs::write(copy(&project), &whole).unwrap();
    }
    assert_fails(&project.run(&["trace", "verify", "nowhere.jsonl"]), "can't check nowhere.jsonl");
    // What a checkout took away is brought back by the next record.
    fs::remove_file(copy(&project)).unwrap();
    assert_fails(&project.run(&["trace", "verify"]), "is missing; the next record restores it");
    let draft = Draft::new(&entry(Outcome::Denied, vec![]), &ComparableForms::default(), Uuid::new_v4);
    ledger(&project).append(&[draft]).unwrap();
    project.succeed(&["trace", "verify"]);
}

#[test]
fn without_an_original_a_copy_proves_nothing() {
    let other = Project::new(&[]);
    assert!(other.succeed(&["trace", "verify"]).contains("there is no trace"));
    assert_eq!(other.succeed(&["trace", "query"]), "");
    fs::create_dir(other.folder().join(".orchestration")).unwrap();
    fs::copy(copy(&project()), copy(&other)).unwrap();
    assert_fails(&other.run(&["trace", "verify"]), "has no original to compare it with");
}

#[test]
fn records_are_found() {
    let project = project();
    let all = project.succeed(&["trace", "query"]);
    assert_eq!(all.lines().count(), 3, "{all}");
    let denied = project.succeed(&["trace", "query", "--outcome", "denied"]);
    assert!(denied.starts_with("     2  2026-11-20T12:00:00.123Z  denied"), "{denied}");
    let written = project.succeed(&["trace", "query", "--path", "./src", "--json"]);
    let record: serde_json::Value = serde_json::from_str(&written).unwrap();
    assert_eq!(record["metadata"]["dev.roo-lsp"]["mutation_class"], "INTENT_EVOLUTION");
    assert_eq!(project.succeed(&["trace", "query", "--since", "2026-11-21"]), "");
    assert_eq!(
        project.succeed(&["trace", "query", "--until", "2026-11-21", "--limit", "1"]).lines().count(),
        1
    );
    for wrong in [["--outcome", "good"], ["--since", "yesterday"]] {
        assert_eq!(project.run(&[&["trace", "query"], &wrong[..]].concat()).status.code(), Some(2));
    }
}

#[test]
fn a_refusal_outside_of_the_workspace_is_found_by_its_full_path() {
    let project = Project::new(&[]);
    fs::write(project.beside("other.txt"), "o\n").unwrap();
    let outside = project.folder().parent().unwrap().join("other.txt");
    let read = format!(
        "  - calls: [{{ tool: read_file, params: {{ files: [{{ path: {} }}] }} }}]\n",
        outside.display()
    );
    let script = project.script(&format!("turns:\n{read}{}", REFUSED.lines().last().unwrap()));
    project.run(&["run", "Go.", "--mode=code", "--on-ask=deny", "--script", script.to_str().unwrap()]);
    for path in [outside.to_str().unwrap(), "../other.txt"] {
        let found = project.succeed(&["trace", "query", "--outcome", "denied", "--path", path]);
        assert!(found.contains("  read_file  ") && found.lines().count() == 1, "{path}: {found}");
    }
}

#[test]
fn every_line_tells_who_wrote_it() {
    let project = project();
    insta::assert_snapshot!(project.succeed(&["trace", "blame", "src/lib.rs"]), @r"
                                                          | pub fn one() -> u32 {
                                                          |     1
                                                          | }
    1 INT-001 code anthropic/claude-sonnet-4-5 2026-11-20 | 
    1 INT-001 code anthropic/claude-sonnet-4-5 2026-11-20 | pub fn two() -> u32 {
    1 INT-001 code anthropic/claude-sonnet-4-5 2026-11-20 |     2
    1 INT-001 code anthropic/claude-sonnet-4-5 2026-11-20 | }
    ");
    let above: String = (0..100).map(|line| format!("// line {line}\n")).collect();
    project.write("src/lib.rs", &(above + AFTER));
    let lines = project.succeed(&["trace", "blame", "src/lib.rs", "--json"]);
    let found = lines.lines().nth(104).unwrap();
    assert!(found.contains("\"title\":\"Count to two\""), "{found}");
    assert_eq!(lines.lines().take(103).filter(|line| *line != "null").count(), 0);
    assert_fails(&project.run(&["trace", "blame", "missing.rs"]), "can't read missing.rs");
    std::fs::write(project.folder().join("latin1.txt"), b"caf\xe9\n").unwrap();
    assert!(project.succeed(&["trace", "blame", "latin1.txt"]).contains("| café"));
}

#[test]
fn the_trace_is_exported_in_other_shapes() {
    let project = project();
    assert_eq!(project.succeed(&["trace", "export"]), fs::read_to_string(copy(&project)).unwrap());
    let flat = project.succeed(&["trace", "export", "--shape", "challenge"]);
    let first: serde_json::Value = serde_json::from_str(flat.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&first["intent_id"], &first["files"][0]["relative_path"]),
        (&"INT-001".into(), &"src/lib.rs".into())
    );
    let note = project.succeed(&["trace", "export", "--shape", "git-ai"]);
    assert!(note.starts_with("src/lib.rs\n  ") && note.contains(" 4-7\n---\n{"), "{note}");
    let file = project.beside("out.jsonl");
    project.succeed(&["trace", "export", "-o", file.to_str().unwrap()]);
    project.succeed(&["trace", "verify", file.to_str().unwrap()]);
}

#[test]
fn the_workspace_has_a_map_of_intents() {
    let map = project().read(".orchestration/intent_map.md");
    assert!(
        map.starts_with(
            "# Intent Map\n\n## INT-001 - Counting\n\n- `src/lib.rs` (symbols: two; ast: `sha256:"
        ),
        "{map}"
    );
    assert!(map.ends_with("last: seq 1)\n"), "{map}");
}

/// Asks for what is refused by a rule or by its user, in every kind.
const REFUSED: &str = r##"
turns:
  - calls: [{ tool: select_active_intent, params: { intent_id: GONE } }]
  - calls: [{ tool: select_active_intent, params: { intent_id: A } }]
  - calls: [{ tool: write_to_file, params: { path: docs/a.md, content: "x\n" } }]
  - calls: [{ tool: read_file, params: { files: [{ path: private.txt }] } }]
  - calls: [{ tool: write_to_file, params: { path: src/b.txt, content: "x\n" } }]
  - calls: [{ tool: execute_command, params: { command: "rm src/c.txt" } }]
  - calls: [{ tool: request_scope_expansion, params: { patterns: "docs/**", reason: "For the manual" } }]
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
"##;

#[test]
fn each_refusal_is_found_by_what_it_was_about() {
    let intents = "active_intents:\n  - { id: A, name: a, status: IN_PROGRESS, owned_scope: ['src/**'] }\n";
    let files = [
        (".orchestration/active_intents.yaml", intents),
        (".rooignore", "private.txt\n"),
        ("private.txt", "p\n"),
        ("src/c.txt", "c\n"),
    ];
    let project = Project::new(&files);
    project.script(REFUSED);
    let run = |on_ask: &str| {
        let mut command = project.program();
        let command = command.args(["run", "Go.", "--script"]).arg(project.beside("script.yaml")).arg(on_ask);
        command.output().unwrap()
    };
    let output = run("--on-ask=deny");
    let query = |more: &[&str]| {
        let found = project.succeed(&[&["trace", "query", "--json"][..], more].concat());
        let own = |line: &str| {
            let record: Value = serde_json::from_str(line).unwrap();
            let own = &record["metadata"]["dev.roo-lsp"];
            assert!(own["outcome"] != "denied" || record["files"] == json!([]), "{record}");
            format!("{} by {}", own["tool_call"].as_str().unwrap(), own["decision"]["by"].as_str().unwrap())
        };
        found.lines().map(own).collect::<Vec<_>>()
    };
    let expected = [
        "select_active_intent by rule",
        "write_to_file by rule",
        "read_file by rule",
        "write_to_file by user",
        "execute_command by user",
        "request_scope_expansion by user",
    ];
    assert_eq!(query(&["--outcome", "denied"]), expected, "{output:?}");
    let about = |path: &str| query(&["--outcome", "denied", "--path", path]);
    assert_eq!(about("docs/a.md"), ["write_to_file by rule"]);
    assert_eq!(about("private.txt"), ["read_file by rule"]);
    assert_eq!(about("src"), ["write_to_file by user"]);
    // By a full path too.
    let full = |path: &str| project.folder().join(path).to_str().unwrap().to_owned();
    assert_eq!(about(&full("docs/a.md")), ["write_to_file by rule"]);
    assert_eq!(about(&full("docs/../src")), ["write_to_file by user"]);
    assert_eq!(about(&full("")), about("."));
    assert_eq!(about(".").len(), 4, "{:?}", about("."));
    assert_eq!(about("docs"), ["write_to_file by rule", "request_scope_expansion by user"]);
    let all = project.succeed(&["trace", "query", "--outcome", "denied", "--json"]);
    let digest = roo_protocol::ids::Digest::of("rm src/c.txt").to_string();
    assert!(all.contains(&format!(r#""requested":{{"command":"{digest}"}}"#)), "{all}");

    run("--on-ask=allow");
    assert_eq!(query(&["--outcome", "ok", "--path", "docs"]), ["request_scope_expansion by user"]);
    project.succeed(&["trace", "verify"]);
}
