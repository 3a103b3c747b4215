//! A workspace with intents, through the real program over its real standard input and output: the server
//! is asked, the model is told, and the trace says who wrote what.

use std::fs;

use serde_json::{Value, json};

use crate::support::client::{Client, Home, Options, uri};

const INTENTS: &str = "\
# What we are at.
active_intents:
  - id: INT-001
    name: Greeting
    status: TODO # soon
    owned_scope: [\"src/**\"]
";

/// Writes out of turn, then out of scope, then what was wanted, and runs a command that goes too far.
const SCRIPT: &str = r#"
turns:
  - calls: [{ tool: write_to_file, params: { path: src/a.txt, content: "too early\n" } }]
  - { when: { contains: "You must cite a valid active Intent ID." }, calls: [{ tool: select_active_intent, params: { intent_id: INT-001 } }] }
  - { when: { contains: "<intent_context>" }, calls: [{ tool: write_to_file, params: { path: docs/a.txt, content: "x\n" } }] }
  - when: { contains: "Scope Violation: INT-001 is not authorized to edit docs/a.txt. Request scope expansion." }
    calls: [{ tool: write_to_file, params: { path: src/a.txt, content: "one\ntwo\n" } }]
  - calls: [{ tool: execute_command, params: { command: "echo three >> src/a.txt; mkdir -p docs; echo x > docs/b.txt; echo '[]' > .orchestration/active_intents.yaml; true" } }]
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;

fn governed() -> Home {
    governed_playing(SCRIPT)
}

fn governed_playing(script: &str) -> Home {
    let home = Home::playing(script);
    fs::create_dir_all(home.work(".orchestration")).unwrap();
    fs::create_dir_all(home.work("src")).unwrap();
    fs::write(home.work(".orchestration/active_intents.yaml"), INTENTS).unwrap();
    home
}

fn allow(client: &mut Client) {
    let asked = client.event("approval.requested");
    let answer = json!({
        "approvalId": asked["event"]["approvalId"], "digest": asked["event"]["digest"], "optionId": "allow_once",
    });
    assert_eq!(client.request("roo/approval/respond", answer)["accepted"], true);
}

#[test]
fn a_task_changes_what_its_intent_owns_and_nothing_else() {
    let home = governed();
    home.configure("mode: code\nautoApprove: { write: true }\n");
    let mut client = Client::start(&home, Options::typed());
    client.start_task("Greet the world");
    let refused = client.event("gate.decided");
    assert_eq!(refused["event"]["detail"]["code"], "NO_ACTIVE_INTENT", "{refused}");
    let selected = client.event("intent.selected");
    assert_eq!(selected["event"]["intentId"], "INT-001");
    allow(&mut client);
    client.state("completed");

    // What was wanted is there, and only that; the user's comments are kept.
    assert_eq!(fs::read_to_string(home.work("src/a.txt")).unwrap(), "one\ntwo\nthree\n");
    assert!(!home.work("docs").exists());
    let intents = fs::read_to_string(home.work(".orchestration/active_intents.yaml")).unwrap();
    assert_eq!(intents, INTENTS.replace("TODO", "IN_PROGRESS"));

    // The trace says it, in the workspace too.
    let records: Vec<Value> = fs::read_to_string(home.work(".orchestration/agent_trace.jsonl"))
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let own = |record: &Value| record["metadata"]["dev.roo-lsp"].clone();
    let told: Vec<String> = records
        .iter()
        .map(|record| {
            let own = own(record);
            let file = record["files"][0]["path"].as_str().unwrap_or("-");
            format!("{} {} {} {file}", own["tool_call"], own["outcome"], own["intent_id"]).replace('"', "")
        })
        .collect();
    assert_eq!(
        told,
        [
            "write_to_file denied null -",
            "write_to_file denied INT-001 -",
            "write_to_file ok INT-001 src/a.txt",
            "execute_command ok INT-001 -",
            "execute_command ok INT-001 src/a.txt",
        ]
    );

    // A client can ask for it.
    let answer =
        client.request("roo/trace/query", json!({ "intentId": "INT-001", "outcome": "ok", "limit": 3 }));
    assert_eq!(answer["records"].as_array().unwrap(), &records[2..]);
    let refused = client.refused("roo/trace/query", json!({ "outcome": "good" }));
    assert!(refused["message"].as_str().unwrap().contains("good"), "{refused}");

    // And so does the line itself.
    let file = client.open(&home.work("src/a.txt"), "one\ntwo\nthree\n");
    let hover = |client: &mut Client, line: u32| {
        let position = json!({ "line": line, "character": 0 });
        client.request("textDocument/hover", json!({ "textDocument": { "uri": file }, "position": position }))
    };
    let shown = hover(&mut client, 0)["contents"]["value"].as_str().unwrap().to_owned();
    for part in
        ["Intent INT-001: Greeting", "Prompt: Greet the world", "Mode code, model scripted/", "request 20"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let other = client.open(&home.work("README.md"), "by hand\n");
    let position = json!({ "line": 0, "character": 0 });
    let params = json!({ "textDocument": { "uri": other }, "position": position });
    assert_eq!(client.request("textDocument/hover", params), Value::Null);
    assert_eq!(client.shut_down(), 0);
}

/// Binds an intent, and goes on when the file of intents is gone.
const FILE_GONE: &str = r#"
turns:
  - calls: [{ tool: select_active_intent, params: { intent_id: INT-001 } }]
  - calls: [{ tool: execute_command, params: { command: "true" } }]
  - calls: [{ tool: write_to_file, params: { path: docs/a.txt, content: "x\n" } }]
  - when: { contains: "active_intents.yaml is not there any more, and the task is bound to INT-001" }
    calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;

#[test]
fn a_task_is_not_freed_of_its_intent_where_the_file_goes_away() {
    let home = governed_playing(FILE_GONE);
    home.configure("mode: code\nautoApprove: { write: true }\n");
    let mut client = Client::start(&home, Options::typed());
    client.start_task("Greet the world");
    let asked = client.event("approval.requested");
    // As when the user switches to a branch that doesn't have it.
    fs::remove_file(home.work(".orchestration/active_intents.yaml")).unwrap();
    let answer = json!({
        "approvalId": asked["event"]["approvalId"], "digest": asked["event"]["digest"], "optionId": "allow_once",
    });
    client.request("roo/approval/respond", answer);
    client.state("completed");
    assert!(!home.work("docs/a.txt").exists());
    assert_eq!(client.shut_down(), 0);
}

/// Level L3: what the command changes is judged before any of it is in the workspace.
#[test]
fn a_staged_command_changes_what_its_intent_owns_and_the_rest_is_kept() {
    let script = r#"
turns:
  - calls: [{ tool: select_active_intent, params: { intent_id: INT-001 } }]
  - calls: [{ tool: execute_command, params: { command: "mkdir -p docs src/new; echo one > src/a.txt; echo two > src/new/b.txt; echo x > docs/b.txt; echo '{}' > .mcp.json" } }]
  - when: { contains: "Scope Violation: the command changed what it may not change. This has not reached the workspace:\n- .mcp.json\n- docs\n- docs/b.txt\nWhat the command wrote of that is kept for the user in " }
    calls: [{ tool: execute_command, params: { command: "echo more >> src/a.txt; echo half > src/half.txt; sleep 60", timeout: 1 } }]
  - when: { contains: "The command did not end by itself, so none of this has reached the workspace:\n- src/a.txt\n- src/half.txt" }
    calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;
    let home = governed();
    fs::write(home.path("script.yaml"), script).unwrap();
    home.configure("mode: code\nsandbox: { level: staged }\n");
    let mut client = Client::start(&home, Options::typed());
    client.start_task("Greet the world");
    let asked = client.event("approval.requested");
    assert!(asked["event"]["subject"].as_str().unwrap().ends_with("\nSandbox: L3"), "{asked}");
    let answer = json!({
        "approvalId": asked["event"]["approvalId"], "digest": asked["event"]["digest"], "optionId": "allow_once",
    });
    client.request("roo/approval/respond", answer);
    allow(&mut client);
    client.state("completed");

    assert_eq!(fs::read_to_string(home.work("src/a.txt")).unwrap(), "one\n");
    assert_eq!(fs::read_to_string(home.work("src/new/b.txt")).unwrap(), "two\n");
    for absent in ["docs", ".mcp.json", "src/half.txt"] {
        assert!(!home.work(absent).exists(), "{absent}");
    }
    let workspace = home.log("x").ancestors().nth(3).unwrap().to_owned();
    let mut kept: Vec<_> =
        fs::read_dir(workspace.join("changes/moved")).unwrap().map(|entry| entry.unwrap().path()).collect();
    kept.sort();
    assert_eq!(fs::read_to_string(kept[0].join("docs/b.txt")).unwrap(), "x\n");
    assert_eq!(fs::read_to_string(kept[1].join("src/a.txt")).unwrap(), "one\nmore\n");

    let records: Vec<Value> = fs::read_to_string(home.work(".orchestration/agent_trace.jsonl"))
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let own = |record: &Value| record["metadata"]["dev.roo-lsp"].clone();
    let commands: Vec<_> =
        records.iter().map(own).filter(|own| own["tool_call"] == "execute_command").collect();
    assert!(commands.iter().all(|own| own["sandbox"] == "L3"), "{commands:#?}");
    assert_eq!(commands[0]["outcome"], "scope_violation");
    assert_eq!(commands[0]["violations"][0]["action"], "withheld");
    assert_eq!(commands.last().unwrap()["outcome"], "failed");
    let files: Vec<_> = records.iter().filter_map(|record| record["files"][0]["path"].as_str()).collect();
    assert_eq!(files, ["src/a.txt", "src/new/b.txt"]);
    // These are in the workspace, though others of the same command are not.
    let arrived = commands.iter().filter(|own| own["after"].is_string() || own["mutation_class"].is_string());
    let arrived: Vec<_> = arrived.map(|own| own["outcome"].as_str().unwrap()).collect();
    assert_eq!(arrived, ["ok", "ok"]);
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn clients_see_and_change_intents() {
    let home = governed();
    let mut client = Client::start(&home, Options::typed());
    let listed = client.request("roo/intent/list", json!({}));
    assert_eq!(listed["governed"], true);
    assert_eq!(listed["intents"][0]["ownedScope"], json!(["src/**"]));
    let expand = |accept: Value| json!({ "intentId": "INT-001", "patterns": ["docs/**"], "accept": accept });
    // Nothing is widened before the user has seen it.
    let shown = client.request("roo/intent/expand", expand(Value::Null));
    assert_eq!((&shown["changed"], &shown["loosens"]), (&json!(false), &json!(["scope: docs/**"])));
    let done = client.request("roo/intent/expand", expand(shown["digest"].clone()));
    assert_eq!(done["changed"], true);
    let text = fs::read_to_string(home.work(".orchestration/active_intents.yaml")).unwrap();
    assert_eq!(text, INTENTS.replace("[\"src/**\"]", "[\"src/**\", \"docs/**\"]"));
    let blocked = client.request("roo/intent/update", json!({ "intentId": "INT-001", "status": "BLOCKED" }));
    assert_eq!(blocked["changed"], true);
    let wrong = client.refused("roo/intent/update", json!({ "intentId": "X", "status": "BLOCKED" }));
    assert_eq!(wrong["data"]["kind"], "notFound");
    let new = json!({ "intentId": "INT-002", "name": "More", "ownedScope": ["lib/**"] });
    client.request("roo/intent/create", new.clone());
    assert_eq!(client.refused("roo/intent/create", new)["code"], -32803);
    assert_eq!(client.request("roo/intent/list", json!({}))["intents"].as_array().unwrap().len(), 2);
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn an_answer_for_good_is_a_rule_that_can_be_taken_back() {
    let script = r#"
turns:
  - calls: [{ tool: write_to_file, params: { path: a.txt, content: "a\n" } }]
  - calls: [{ tool: write_to_file, params: { path: b.txt, content: "b\n" } }]
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;
    let home = Home::playing(script);
    let mut client = Client::start(&home, Options::typed());
    client.start_task("Write two files");
    let asked = client.event("approval.requested");
    assert_eq!(asked["event"]["options"][2]["name"], "Always allow edits of this workspace's files");
    let answer = json!({
        "approvalId": asked["event"]["approvalId"], "digest": asked["event"]["digest"], "optionId": "allow_always",
    });
    assert_eq!(client.request("roo/approval/respond", answer)["accepted"], true);
    client.state("completed");
    assert_eq!(fs::read_to_string(home.work("b.txt")).unwrap(), "b\n");
    let rules = client.request("roo/rule/list", json!({}));
    assert_eq!(rules["rules"][0]["text"], "Always allow edits of this workspace's files");
    client.request("roo/rule/revoke", json!({ "ruleId": rules["rules"][0]["ruleId"] }));
    assert_eq!(client.request("roo/rule/list", json!({})), json!({ "rules": [] }));
    assert!(uri(&home.work("a.txt")).starts_with("file:"));
    assert_eq!(client.shut_down(), 0);
}
