//! User hooks through the real program: scripts in `tests/hooks/`, written for the public contract alone and
//! run unchanged, and one table that uses all of the contract.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};

use pretty_assertions::assert_eq;
use roo_engine::hooks::{EventName, Refusal};
use serde_json::{Map, Value, json};

use crate::support::package;
use crate::support::project::Project;

/// A project with the scripts in `.roo/hooks`.
fn project() -> Project {
    for (program, what) in [("bash", "Bash"), ("python3", "Python 3"), ("node", "Node")] {
        let found =
            Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        assert!(
            found.is_ok_and(|status| status.success()),
            "{what} is needed to test hooks: install `{program}`"
        );
    }
    let project = Project::new(&[]);
    for entry in fs::read_dir(package().join("tests/hooks")).unwrap() {
        let script = entry.unwrap();
        let name = script.file_name().into_string().unwrap();
        project.write(&format!(".roo/hooks/{name}"), &fs::read_to_string(script.path()).unwrap());
        let path = project.folder().join(".roo/hooks").join(name);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    project
}

fn approve(project: &Project) {
    project.succeed(&["trust"]);
    project.succeed(&["trust", "--approve", ".roo/hooks.json"]);
}

/// Runs an event.
fn run(project: &Project, event: &str, input: &Value) -> Output {
    let mut program = project.program();
    program.args(["hooks", "run", event]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = program.spawn().unwrap();
    // One that fails early reads no input: its output says why.
    let _ = child.stdin.take().unwrap().write_all(input.to_string().as_bytes());
    child.wait_with_output().unwrap()
}

/// What came of an event, without the list of hooks.
#[track_caller]
fn outcome(project: &Project, event: &str, input: &Value) -> Value {
    let output = run(project, event, input);
    assert!(output.status.success(), "{output:?}");
    let mut outcome: Map<String, Value> = serde_json::from_slice(&output.stdout).unwrap();
    outcome.shift_remove("hooks");
    assert_eq!(outcome.shift_remove("event"), Some(event.into()));
    if outcome["verdict"].is_null() {
        outcome.shift_remove("verdict");
    }
    Value::Object(outcome)
}

/// One use of the contract.
struct Row {
    event: &'static str,
    /// None where the key is left out.
    matcher: Option<&'static str>,
    script: &'static str,
    input: Value,
    expected: Value,
}

fn row(
    (event, matcher): (&'static str, Option<&'static str>),
    script: &'static str,
    input: Value,
    expected: Value,
) -> Row {
    Row { event, matcher, script, input, expected }
}

fn tool(name: &str, input: Value) -> Value {
    json!({ "tool_name": name, "tool_input": input, "tool_use_id": "toolu_1" })
}

fn bash(command: &str) -> Value {
    tool("Bash", json!({ "command": command }))
}

fn table(root: &str) -> Vec<Row> {
    let pre = |matcher| ("PreToolUse", matcher);
    let file = |name: &str| json!({ "file_path": format!("{root}/{name}"), "content": "x" });
    let failure = |error: &str| {
        let mut event = bash("just test");
        event["error"] = error.into();
        event["is_interrupt"] = false.into();
        event
    };
    let ran = |stdout: &str| {
        let mut event = bash("env");
        event["tool_response"] =
            json!({ "stdout": stdout, "stderr": "", "interrupted": false, "isImage": false });
        event
    };
    let wrote = |name: &str| {
        let mut event = tool("Write", file(name));
        event["tool_response"] = json!({ "success": true });
        event
    };
    let calls = |names: &[&str]| json!({ "tool_calls": names.iter().map(|n| json!({ "tool_name": n })).collect::<Vec<_>>() });
    let stop = |active: bool| json!({ "stop_hook_active": active, "last_assistant_message": "Done." });
    let branch =
        |last: &str| json!({ "agent_id": "a", "agent_type": "debug", "last_assistant_message": last });
    let noted = json!({});
    vec![
        // Exit code 2, and 0 without a word.
        row(
            pre(Some("Bash")),
            "guard_bash.sh",
            bash("rm -rf build"),
            json!({ "verdict": "deny", "reasons": ["Removing recursively is not done here; move it to /tmp instead."] }),
        ),
        row(pre(Some("Bash")), "guard_bash.sh", bash("ls"), json!({})),
        // By our own name.
        row(
            pre(Some("execute_command")),
            "guard_bash.sh",
            bash("rm -rf build"),
            json!({ "verdict": "deny", "reasons": ["Removing recursively is not done here; move it to /tmp instead."] }),
        ),
        // Lists of names.
        row(
            pre(Some("Edit|Write")),
            "protect_paths.py",
            tool("Write", file("notes.md")),
            json!({ "verdict": "allow", "allowedBy": "workspace", "reasons": ["notes are free"] }),
        ),
        row(
            pre(Some("Edit, Write")),
            "protect_paths.py",
            tool("Edit", file("src/a.rs")),
            json!({ "verdict": "ask", "reasons": ["a.rs is code"] }),
        ),
        row(
            pre(Some("Edit|Write")),
            "protect_paths.py",
            tool("write_to_file", file(".env.local")),
            json!({ "verdict": "deny", "reasons": [".env.local holds secrets"] }),
        ),
        row(pre(Some("Edit|Write")), "protect_paths.py", tool("Read", file(".env")), json!({})),
        // Everything, in two spellings.
        row(
            pre(Some("*")),
            "rewrite_command.js",
            bash("npm test"),
            json!({
                "verdict": "allow", "allowedBy": "workspace",
                "updatedInput": { "command": "npm test --silent" },
                "context": [format!("Tests run quietly in {root}.")],
            }),
        ),
        row(
            pre(Some("")),
            "legacy_decision.py",
            tool("Read", file("a")),
            json!({ "verdict": "allow", "allowedBy": "workspace", "reasons": ["reading is free"] }),
        ),
        row(
            pre(None),
            "legacy_decision.py",
            bash("ls"),
            json!({ "verdict": "deny", "reasons": ["only reading is"] }),
        ),
        // Patterns.
        row(
            pre(Some("mcp__.*__write.*")),
            "defer_question.js",
            tool("mcp__files__write_all", json!({})),
            json!({ "verdict": "ask", "reasons": ["files is somebody else's"] }),
        ),
        row(
            pre(Some("mcp__.*__write.*")),
            "defer_question.js",
            tool("mcp__files__read", json!({})),
            json!({}),
        ),
        row(
            pre(Some("^(?!Read$)")),
            "legacy_decision.py",
            tool("Grep", json!({ "pattern": "x" })),
            json!({ "verdict": "deny", "reasons": ["only reading is"] }),
        ),
        // Another exit code.
        row(
            pre(Some("Grep")),
            "fails.sh",
            tool("Grep", json!({ "pattern": "x" })),
            json!({ "warnings": [format!("The hook `\"$CLAUDE_PROJECT_DIR\"/.roo/hooks/fails.sh` failed: exit code 1: no linter here")] }),
        ),
        row(
            ("PermissionRequest", Some("Bash")),
            "answer_permission.py",
            json!({ "tool_name": "Bash", "tool_input": { "command": "git status" } }),
            json!({
                "verdict": "allow", "allowedBy": "workspace", "updatedInput": { "command": "git status --short" },
                "warnings": ["A hook tried to change permissions; only the user's settings can do that."],
            }),
        ),
        row(
            ("PermissionRequest", Some("Bash")),
            "answer_permission.py",
            json!({ "tool_name": "Bash", "tool_input": { "command": "git push" } }),
            json!({ "verdict": "deny", "reasons": ["nobody pushes on Fridays"], "stop": "nobody pushes on Fridays" }),
        ),
        row(("PermissionDenied", None), "retry_denied.sh", bash("ls"), json!({ "retry": true })),
        row(
            ("PostToolUse", Some("Write")),
            "format_after_write.sh",
            wrote("tabs.txt"),
            json!({ "verdict": "deny", "reasons": ["tabs.txt has tabs; use spaces."] }),
        ),
        row(("PostToolUse", Some("Write")), "format_after_write.sh", wrote("plain.txt"), json!({})),
        row(
            ("PostToolUse", Some("Bash")),
            "redact_output.js",
            ran("the KEY-123 is"),
            json!({
                "context": ["A key was taken out of the output."],
                "updatedToolOutput": { "stdout": "the [redacted] is", "stderr": "", "interrupted": false, "isImage": false },
            }),
        ),
        row(
            ("PostToolUseFailure", Some("Bash")),
            "explain_failure.py",
            failure("just: command not found"),
            json!({ "verdict": "deny", "reasons": ["The tool chain is in the container: prefix commands with `just`."] }),
        ),
        row(("PostToolUseFailure", Some("Bash")), "explain_failure.py", failure("Exit code 1"), json!({})),
        row(
            ("PostToolBatch", None),
            "after_batch.sh",
            calls(&["Read"]),
            json!({ "context": ["Run the tests now."] }),
        ),
        row(
            ("PostToolBatch", None),
            "after_batch.sh",
            calls(&["Write", "Write"]),
            json!({ "stop": "Two files at once are too many." }),
        ),
        row(
            ("Notification", Some("permission_prompt")),
            "notify.py",
            json!({ "notification_type": "permission_prompt", "message": "May I?", "title": "roo" }),
            noted.clone(),
        ),
        row(
            ("UserPromptSubmit", None),
            "prompt_filter.py",
            json!({ "prompt": "use KEY-123" }),
            json!({ "verdict": "deny", "reasons": ["The prompt holds a key."] }),
        ),
        row(
            ("UserPromptSubmit", None),
            "prompt_filter.py",
            json!({ "prompt": "title: Release" }),
            json!({ "context": ["The user gave a title."], "title": "Release" }),
        ),
        row(
            ("UserPromptSubmit", None),
            "prompt_filter.py",
            json!({ "prompt": "Hello" }),
            json!({ "context": ["The release is on Friday."] }),
        ),
        row(
            ("Stop", None),
            "finish_tests.sh",
            stop(false),
            json!({ "verdict": "deny", "reasons": ["The tests don't pass yet."] }),
        ),
        row(("Stop", None), "finish_tests.sh", stop(true), json!({})),
        row(
            ("StopFailure", Some("rate_limit|overloaded")),
            "notify.py",
            json!({ "error": "overloaded", "error_details": "529" }),
            noted.clone(),
        ),
        row(
            ("SubagentStart", Some("debug")),
            "brief_branch.sh",
            json!({ "agent_id": "a", "agent_type": "debug" }),
            json!({ "context": ["Read CONTRIBUTING.md first."] }),
        ),
        row(
            ("SubagentStop", Some("debug")),
            "review_branch.py",
            branch("Found."),
            json!({
                "verdict": "deny", "reasons": ["End with a Summary."], "warnings": ["debug wrote no summary"],
            }),
        ),
        row(("SubagentStop", Some("debug")), "review_branch.py", branch("Summary: none."), json!({})),
        row(
            ("PreCompact", Some("auto")),
            "keep_conversation.sh",
            json!({ "trigger": "auto", "custom_instructions": "" }),
            json!({ "verdict": "deny", "reasons": ["Nothing may be lost now."] }),
        ),
        row(
            ("PostCompact", Some("manual")),
            "notify.py",
            json!({ "trigger": "manual", "compact_summary": "Short." }),
            noted.clone(),
        ),
        row(
            ("SessionStart", Some("startup")),
            "session_context.sh",
            json!({ "source": "startup" }),
            json!({ "context": ["The branch is main."] }),
        ),
        row(
            ("SessionStart", Some("resume|clear")),
            "session_title.js",
            json!({ "source": "resume" }),
            json!({ "title": "From resume", "firstMessage": "Say hello." }),
        ),
        row(("SessionEnd", Some("other")), "notify.py", json!({ "reason": "other" }), noted),
    ]
}

/// The hooks file of a row. What the script prints and how it ends is written down beside it.
fn file(row: &Row) -> String {
    let command = format!("\"$CLAUDE_PROJECT_DIR\"/.roo/hooks/{}", row.script);
    let mut group = json!({ "hooks": [{ "type": "command", "command": command, "timeout": 60 }] });
    if let Some(matcher) = row.matcher {
        group["matcher"] = matcher.into();
    }
    json!({ "hooks": { row.event: [group] } }).to_string()
}

/// The paths of all fields.
fn fields(value: &Value, start: &str, found: &mut BTreeSet<String>) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let path = format!("{start}{name}");
        // What is below these is not the contract's.
        if !matches!(name.as_str(), "updatedInput" | "updatedToolOutput") {
            fields(value, &format!("{path}."), found);
        }
        found.insert(path);
    }
}

/// Every answer field of the contract for commands, but those of events that never come here, and those that the
/// contract itself calls for another program's use (`classifierContext`).
const ANSWER_FIELDS: &[&str] = &[
    "continue",
    "decision",
    "hookSpecificOutput",
    "hookSpecificOutput.additionalContext",
    "hookSpecificOutput.decision",
    "hookSpecificOutput.decision.behavior",
    "hookSpecificOutput.decision.interrupt",
    "hookSpecificOutput.decision.message",
    "hookSpecificOutput.decision.updatedInput",
    "hookSpecificOutput.decision.updatedPermissions",
    "hookSpecificOutput.hookEventName",
    "hookSpecificOutput.initialUserMessage",
    "hookSpecificOutput.permissionDecision",
    "hookSpecificOutput.permissionDecisionReason",
    "hookSpecificOutput.reloadSkills",
    "hookSpecificOutput.retry",
    "hookSpecificOutput.sessionTitle",
    "hookSpecificOutput.updatedInput",
    "hookSpecificOutput.updatedToolOutput",
    "hookSpecificOutput.watchPaths",
    "reason",
    "stopReason",
    "suppressOriginalPrompt",
    "suppressOutput",
    "systemMessage",
    "terminalSequence",
];

/// Runs a script by hand, as its row does.
fn by_hand(project: &Project, row: &Row) -> (Option<i32>, String) {
    let mut event = row.input.clone();
    event["hook_event_name"] = row.event.into();
    event["cwd"] = project.folder().display().to_string().into();
    let mut child = Command::new(project.folder().join(".roo/hooks").join(row.script))
        .current_dir(project.folder())
        .env("CLAUDE_PROJECT_DIR", project.folder())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // A script need not read it.
    let _ = child.stdin.take().unwrap().write_all(event.to_string().as_bytes());
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
fn scripts_of_the_public_contract_run_unchanged() {
    let project = project();
    project.write("tabs.txt", "a\tb\n");
    project.write("plain.txt", "a b\n");
    project.succeed(&["trust"]);
    let root = project.folder().display().to_string();
    for row in table(&root) {
        project.write(".roo/hooks.json", &file(&row));
        // Nothing waits where the row before has the same hook.
        project.run(&["trust", "--approve", ".roo/hooks.json"]);
        let found = outcome(&project, row.event, &row.input);
        assert_eq!(found, row.expected, "{} {:?} {} {}", row.event, row.matcher, row.script, row.input);
    }
    let notified = project.read("notified.jsonl");
    let events: Vec<Value> = notified.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = events.iter().map(|event| event["hook_event_name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Notification", "StopFailure", "PostCompact", "SessionEnd"]);
    assert_eq!(events[0]["message"], "May I?");
}

#[test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
fn the_table_uses_all_of_the_contract() {
    let project = project();
    project.write("tabs.txt", "a\tb\n");
    project.write("plain.txt", "a b\n");
    let rows = table(&project.folder().display().to_string());

    let events: BTreeSet<&str> = rows.iter().map(|row| row.event).collect();
    assert_eq!(events, EventName::all().map(EventName::as_str).collect());

    let scripts: BTreeSet<&str> = rows.iter().map(|row| row.script).collect();
    let there = fs::read_dir(package().join("tests/hooks")).unwrap();
    let there: BTreeSet<String> =
        there.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(scripts, there.iter().map(String::as_str).collect(), "every script is in the table");
    for kind in [".sh", ".py", ".js"] {
        assert!(scripts.iter().filter(|script| script.ends_with(kind)).count() >= 3, "{kind}");
    }

    // Left out, empty, everything, one name, names with bars and commas, patterns with and without look-around,
    // our own names, tools of servers; and each both matching and not.
    let matchers: BTreeSet<Option<&str>> = rows.iter().map(|row| row.matcher).collect();
    for form in [None, Some(""), Some("*"), Some("Bash"), Some("Edit|Write"), Some("Edit, Write")] {
        assert!(matchers.contains(&form), "{form:?}");
    }
    for form in
        ["execute_command", "mcp__.*__write.*", "^(?!Read$)", "startup", "debug", "auto", "permission_prompt"]
    {
        assert!(matchers.contains(&Some(form)), "{form}");
    }

    let (mut codes, mut found) = (BTreeSet::new(), BTreeSet::new());
    let (mut refused, mut printed) = (BTreeSet::new(), false);
    for row in &rows {
        let (code, stdout) = by_hand(&project, row);
        codes.insert(code);
        match serde_json::from_str::<Value>(&stdout) {
            Ok(answer) => fields(&answer, "", &mut found),
            Err(_) => printed |= !stdout.trim().is_empty(),
        }
        if code == Some(2) {
            refused.insert(row.event);
        }
    }
    assert_eq!(codes, [Some(0), Some(1), Some(2)].into());
    assert!(printed, "a script answers in plain text");
    assert_eq!(found, ANSWER_FIELDS.iter().map(|field| (*field).to_owned()).collect());
    let words: BTreeSet<&str> = rows.iter().filter_map(|row| row.expected["verdict"].as_str()).collect();
    assert_eq!(words, ["allow", "ask", "deny"].into());
    for event in
        EventName::all().filter(|event| !matches!(event.refusal(), Refusal::Nothing | Refusal::TellUser))
    {
        let is_refused = rows.iter().any(|row| {
            let ends = row.expected["verdict"] == "deny" || row.expected.get("stop").is_some();
            row.event == event.as_str() && ends
        });
        assert!(is_refused, "{event}");
    }
}

#[test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
fn nothing_runs_before_it_is_trusted_and_approved() {
    let project = project();
    let command = "touch CANARY";
    let hooks = json!({ "hooks": { "Stop": [{ "hooks": [{ "type": "command", "command": command }] }] } });
    project.write(".roo/hooks.json", &hooks.to_string());
    let canary = || project.folder().join("CANARY").exists();
    let refused = run(&project, "Stop", &json!({}));
    assert!(refused.status.success() && !canary());
    assert!(
        String::from_utf8(refused.stderr)
            .unwrap()
            .contains("not trusted, so no hook of .roo/hooks.json runs")
    );
    assert!(project.succeed(&["trust", "--show"]).contains("  .roo/hooks.json\n"));

    let trusted = project.succeed(&["trust"]);
    assert!(trusted.contains("waits for approval: would run on Stop: touch CANARY\n"), "{trusted}");
    assert!(trusted.contains("approve with: roo-lsp trust --approve .roo/hooks.json"), "{trusted}");
    run(&project, "Stop", &json!({}));
    assert!(!canary());
    let listed = project.run(&["hooks"]);
    let list = String::from_utf8(listed.stdout).unwrap();
    assert_eq!(list, "workspace  waits for approval  Stop: touch CANARY  (600 s)\n");

    let approved = project.succeed(&["trust", "--approve", ".roo/hooks.json"]);
    assert!(approved.starts_with("approved: would run on Stop: touch CANARY\n"), "{approved}");
    assert!(project.succeed(&["hooks", "list"]).contains("  runs  "));
    run(&project, "Stop", &json!({}));
    assert!(canary());

    // Another command is another approval (the file's name stays).
    fs::remove_file(project.folder().join("CANARY")).unwrap();
    project.write(".roo/hooks.json", &hooks.to_string().replace("touch", "touch ./"));
    run(&project, "Stop", &json!({}));
    assert!(!canary());
    assert_eq!(project.run(&["hooks", "check"]).status.code(), Some(1));
}

#[test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
fn the_users_hooks_run_without_trust() {
    let project = project();
    let hooks = json!({ "hooks": { "UserPromptSubmit": [{ "hooks": [{ "type": "command", "command": "echo mine" }] }] } });
    fs::write(project.beside("config/roo-lsp/hooks.json"), hooks.to_string()).unwrap();
    assert_eq!(
        outcome(&project, "UserPromptSubmit", &json!({ "prompt": "x" })),
        json!({ "context": ["mine"] })
    );
    assert_eq!(
        project.succeed(&["hooks"]),
        "user       runs                UserPromptSubmit: echo mine  (30 s)\n"
    );
    assert_eq!(run(&project, "Nothing", &json!({})).status.code(), Some(2));
}

#[test]
fn mistakes_are_told_with_their_places() {
    let project = Project::new(&[("a.json", "{\n  \"hooks\": {\n    \"PreTolUse\": []\n  }\n}\n")]);
    let output = project.run(&["hooks", "check", "a.json"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("error: a.json:3:5: there is no event 'PreTolUse'"), "{text}");
    assert!(text.ends_with("0 hooks\n"), "{text}");
    project.write("a.json", "{\"hooks\": {}}");
    assert_eq!(project.succeed(&["hooks", "check", "a.json"]), "0 hooks\n");
    assert_eq!(project.run(&["hooks", "check", "none.json"]).status.code(), Some(1));
    // One that isn't trusted is checked all the same.
    project.write(".roo/hooks.json", "{");
    let output = project.run(&["hooks", "check"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stdout).unwrap().contains("invalid JSON"));
}

#[test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
fn hooks_of_another_program_are_taken_over() {
    let project = project();
    let settings = json!({
        "model": "x",
        "hooks": {
            "PreToolUse": [{ "matcher": "Bash", "hooks": [
                { "type": "command", "command": "\"$CLAUDE_PROJECT_DIR\"/.roo/hooks/guard_bash.sh" },
                { "type": "prompt", "prompt": "Is it safe?" },
            ] }],
        },
    });
    assert_eq!(project.run(&["hooks", "import"]).status.code(), Some(1));
    project.write(".claude/settings.json", &settings.to_string());
    let shown = project.run(&["hooks", "import"]);
    assert_eq!(shown.status.code(), Some(1), "something is left out");
    let notes = String::from_utf8(shown.stderr).unwrap();
    assert!(notes.contains("hooks of the type 'prompt' are not supported"), "{notes}");
    assert!(notes.contains("nothing was written; use --write to write this to"), "{notes}");
    assert!(!project.folder().join(".roo/hooks.json").exists());
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(!text.contains("model") && !text.contains("prompt"), "{text}");

    project.run(&["hooks", "import", "--write"]);
    assert_eq!(project.read(".roo/hooks.json"), text);
    let again = project.run(&["hooks", "import", "--write", ".claude/settings.json"]);
    assert!(String::from_utf8(again.stderr).unwrap().contains("1 hooks existed already"));
    assert_eq!(project.read(".roo/hooks.json"), text);
    approve(&project);
    assert_eq!(outcome(&project, "PreToolUse", &bash("rm -rf x"))["verdict"], "deny");

    // What can't be read is not written over.
    project.write(".roo/hooks.json", "{ mine");
    assert_eq!(project.run(&["hooks", "import", "--write"]).status.code(), Some(1));
    assert_eq!(project.read(".roo/hooks.json"), "{ mine");

    // For the user, from the home directory.
    fs::create_dir_all(project.beside("home/.claude")).unwrap();
    fs::write(project.beside("home/.claude/settings.json"), settings.to_string()).unwrap();
    project.run(&["hooks", "import", "--user", "--write"]);
    assert!(
        fs::read_to_string(project.beside("config/roo-lsp/hooks.json")).unwrap().contains("guard_bash.sh")
    );
}

/// Hooks that no task waits for, when the program ends right after the request.
#[test]
fn a_run_lets_hooks_of_its_end_finish() {
    let project = Project::outside_temp(&[]);
    project.script("turns:\n  - calls: [{ tool: attempt_completion, params: { result: Done. } }]\n");
    let hook = |line: &str, is_async: bool| json!([{ "hooks": [{ "type": "command", "command": line, "async": is_async }] }]);
    let hooks = json!({ "hooks": {
        "SessionEnd": hook("sleep 0.7; echo x >session-end", false),
        "Stop": hook("sleep 0.7; echo x >async-stop", true),
    } });
    let file = project.beside("config/roo-lsp/hooks.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, hooks.to_string()).unwrap();
    let mut command = project.program();
    let output =
        command.args(["run", "Go.", "--script"]).arg(project.beside("script.yaml")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    for name in ["session-end", "async-stop"] {
        assert!(project.folder().join(name).exists(), "{name}: {output:?}");
    }
}
