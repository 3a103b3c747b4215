//! What a user's answer may be turned into (APP).

use roo_protocol::event::{Event, QuestionKind};
use roo_protocol::ids::{ApprovalId, Digest};
use roo_protocol::task::{ApprovalRespondParams, TaskState};

use super::*;
use crate::support::client::{Client, Home, Options};
use crate::support::engine::Fixture;

const RUN: &str = "turns:\n  - calls: [{ tool: execute_command, params: { command: echo x >>ran } }]\n  - calls: [{ tool: attempt_completion, params: { result: Done. } }]\n";

fn asked(event: &Event) -> Option<(ApprovalId, Digest)> {
    match event {
        Event::ApprovalRequested { approval } => Some((approval.approval_id.clone(), approval.digest)),
        _ => None,
    }
}

fn allow((approval_id, digest): (ApprovalId, Digest)) -> ApprovalRespondParams {
    ApprovalRespondParams {
        approval_id,
        digest,
        option_id: "allow_once".into(),
        opened: false,
        text: None,
        hunks: vec![],
    }
}

#[tokio::test]
async fn an_answer_counts_once_however_often_it_is_sent() {
    let fixture = Fixture::scripted(&[], RUN, json!({}));
    let mut task = fixture.start("Run").await;
    let question = task.until(asked).await;
    assert!(fixture.engine.respond(allow(question.clone()), "test").await.unwrap().accepted);
    let again = fixture.engine.respond(allow(question.clone()), "other").await;
    assert!(again.is_err() || !again.unwrap().accepted, "another client's repeat is no answer");
    assert_eq!(task.end().await.0, TaskState::Completed);
    // The same client's repeat is told what came of it; nothing runs again, also not in another server.
    let _ = fixture.engine.respond(allow(question.clone()), "test").await;
    fixture.engine.shutdown().await;
    let other = Fixture::beside(&fixture, json!({ "profiles": {} }));
    let _ = other.engine.respond(allow(question), "test").await;
    assert_eq!(other.engine.get(&task.task).await.unwrap().item.state, TaskState::Completed);
    assert_eq!(fixture.project.read("ran"), "x\n");
}

#[tokio::test]
async fn an_answer_after_the_cancellation_runs_nothing() {
    let fixture = Fixture::scripted(&[], RUN, json!({}));
    let mut task = fixture.start("Run").await;
    let question = task.until(asked).await;
    fixture.engine.cancel(&task.task).await.unwrap();
    assert_eq!(task.end().await.0, TaskState::Cancelled);
    let late = fixture.engine.respond(allow(question), "test").await;
    assert!(late.is_err() || !late.unwrap().accepted);
    assert_eq!(fixture.project.read("ran"), "");
}

#[test]
fn a_client_that_goes_away_has_not_consented_and_finds_the_same_question_again() {
    let home = Home::playing(RUN);
    let mut client = Client::start(&home, Options::typed());
    let task = client.start_task("Run");
    let first = client.event("approval.requested")["event"].clone();
    client.hang_up();
    assert!(!home.work("ran").exists());
    let mut client = Client::start(&home, Options::typed());
    client.request("roo/task/attach", json!({ "taskId": task, "afterSeq": 0 }));
    let again = client.event("approval.requested")["event"].clone();
    assert_eq!((&again["approvalId"], &again["digest"]), (&first["approvalId"], &first["digest"]));
    assert!(!home.work("ran").exists());
    client.shut_down();
}

fn executes(command: &str, argument: Value) -> Value {
    json!({ "command": command, "arguments": [argument] })
}

#[test]
fn what_a_user_has_not_been_shown_is_not_allowed_by_a_bare_command() {
    let home = Home::playing(RUN);
    home.configure("autoApprove: { execute: { mode: rules } }\n");
    let mut client = Client::start(&home, Options::plain());
    client.command("roo.newTask", "Run".into());
    client.popup();
    client.kill();
    // Another client finds it waiting, and has shown it to nobody.
    for argument in [Value::Null, json!({ "optionId": "allow_once" })] {
        let mut client = Client::start(&home, Options::plain());
        let refused = client.refused("workspace/executeCommand", executes("roo.approve", argument));
        assert!(refused["message"].as_str().unwrap().contains("you had not seen Run echo x"), "{refused}");
        client.message("nothing was allowed yet");
        client.kill();
    }
    let mut client = Client::start(&home, Options::plain());
    let allowing = executes("roo.deny", json!({ "optionId": "allow_once" }));
    client.refused("workspace/executeCommand", allowing);
    // Now it was shown, by the refusal itself.
    assert_eq!(client.command("roo.approve", Value::Null)["accepted"], true);
    client.message("completed: Done.");
    assert!(home.work("ran").exists());
    client.shut_down();
}

#[test]
fn a_bare_command_never_picks_one_of_several_approvals() {
    let home = Home::playing(RUN);
    let mut client = Client::start(&home, Options::plain());
    client.command("roo.newTask", "First".into());
    let popup = client.popup();
    let second = client.command("roo.newTask", "Second".into())["taskId"].clone();
    // The second one waits behind the first popup, unseen.
    loop {
        let status = client.command("roo.status", Value::Null);
        let items = status["items"].as_array().unwrap();
        if items.len() == 2 && items.iter().all(|item| item["state"] == "waiting") {
            break;
        }
    }
    let refused = client.refused("workspace/executeCommand", executes("roo.approve", Value::Null));
    assert!(refused["message"].as_str().unwrap().contains("2 approvals wait"), "{refused}");
    assert!(!home.work("ran").exists());
    // With the request it is clear which one is meant.
    client.command("roo.showDiff", json!({ "taskId": second }));
    assert_eq!(client.command("roo.approve", json!({ "taskId": second }))["accepted"], true);
    client.message("completed: Done.");
    client.reply(&popup, json!({ "title": "Deny" }));
    client.shut_down();
}

#[test]
fn a_command_that_names_the_digest_of_another_action_allows_nothing() {
    let home = Home::playing(RUN);
    let mut client = Client::start(&home, Options::typed());
    client.start_task("Run");
    let asked = client.event("approval.requested")["event"].clone();
    let (id, digest) = (&asked["approvalId"], &asked["digest"]);
    let other = Digest::of("something else");
    for argument in [json!({ "approvalId": id }), json!({ "approvalId": id, "digest": other }), Value::Null] {
        client.refused("workspace/executeCommand", executes("roo.approve", argument));
    }
    assert!(!home.work("ran").exists());
    let named = json!({ "approvalId": id, "digest": digest });
    assert_eq!(client.command("roo.approve", named)["accepted"], true);
    client.state("completed");
    client.shut_down();
}

const SUGGESTS: &str = "turns:\n  - calls: [{ tool: ask_followup_question, params: { question: How?, follow_up: [{ text: \
                        Build it., mode: code }, { text: Leave it. }] } }]\n  - calls: [{ tool: write_to_file, \
                        params: { path: a.txt, content: planted } }]\n  - calls: [{ tool: attempt_completion, \
                        params: { result: Done. } }]\n";

/// Runs a script in the mode `ask`, which can't write, and picks the first suggestion of its question.
fn picks_the_suggestion(settings: &str) -> (Ground, Told) {
    let ground = Ground::new();
    ground.write("script.yaml", SUGGESTS);
    let profile = format!("{{ provider: scripted, script: {} }}", ground.at("script.yaml").display());
    ground.settings(&format!("profiles: {{ default: {profile} }}\n{settings}"));
    let arguments = ["run", "Go", "--mode", "ask", "--answer", "1", "--on-ask", "deny"];
    let told = told(ground.program().args(arguments));
    (ground, told)
}

#[test]
fn an_answer_gives_an_agent_no_mode_that_the_gate_refuses() {
    let (ground, told) = picks_the_suggestion("autoApprove: { write: true, delegate: false }\n");
    assert!(told.errors.contains("Switch from"), "it is asked: {told:?}");
    assert_eq!(ground.read("ws/a.txt"), "", "{told:?}");
    let (ground, told) = picks_the_suggestion("autoApprove: { write: true, delegate: true }\n");
    assert_eq!(ground.read("ws/a.txt"), "planted", "{told:?}");
}

#[test]
fn an_answer_gives_an_agent_no_mode_that_a_hook_refuses() {
    let hook = json!({ "hooks": { "PreToolUse": [{ "matcher": "switch_mode", "hooks": [{
        "type": "command", "command": "echo 'stay as you are' >&2; exit 2",
    }] }] } });
    let ground = Ground::new();
    ground.write("config/roo-lsp/hooks.json", &hook.to_string());
    ground.write("script.yaml", SUGGESTS);
    let profile = format!("{{ provider: scripted, script: {} }}", ground.at("script.yaml").display());
    ground.settings(&format!("profiles: {{ default: {profile} }}\nautoApprove: {{ write: true }}\n"));
    let told = told(ground.program().args(["run", "Go", "--mode", "ask", "--answer", "1"]));
    assert_eq!(ground.read("ws/a.txt"), "", "{told:?}");
}

#[tokio::test]
async fn a_model_that_does_not_take_no_for_an_answer_is_stopped() {
    let lines = ["rm -r a", "rm -rf ./a", "rm -fr a/", "/bin/rm -r -f a"];
    let turns: String = lines
        .iter()
        .map(|line| format!("  - calls: [{{ tool: execute_command, params: {{ command: {line} }} }}]\n"))
        .collect();
    let fixture = Fixture::scripted(&[], &format!("turns:\n{turns}"), json!({}));
    let mut task = fixture.start("Go").await;
    for _ in 0..3 {
        task.decide("reject_once").await;
    }
    let (kind, text) = task
        .until(|event| match event {
            Event::QuestionAsked { question } => Some((question.kind, question.text.clone())),
            Event::ApprovalRequested { approval } => panic!("asked a fourth time: {approval:?}"),
            _ => None,
        })
        .await;
    assert_eq!(kind, QuestionKind::MistakeLimitReached);
    assert!(text.contains("rm 3 times"), "{text}");
}

#[test]
fn all_of_a_command_is_shown_however_much_is_put_before_it() {
    let ground = Ground::new();
    for filler in
        ["#".repeat(9_900), "\n".repeat(200), "\t".repeat(500), "true; ".repeat(45), " ".repeat(9_000)]
    {
        let line = format!("ls {filler}\nrm -rf ./PAYLOAD >OVERWRITTEN");
        let told = ground.tool("execute_command", json!({ "command": line }));
        assert!(told.verdict.starts_with("ask"), "{told:?}");
        let (text, steps) = told.text.split_once("What it does:").unwrap_or((&told.text, ""));
        assert!(text.contains("rm -rf ./PAYLOAD >OVERWRITTEN"), "{text}");
        assert!(steps.contains("rm -rf ./PAYLOAD"), "{steps}");
        // Where a line is too much to be taken apart, that is said.
        assert!(steps.contains("OVERWRITTEN") || steps.contains("read the full text"), "{steps}");
    }
    let long = format!("echo {} && rm PAYLOAD", "x".repeat(10_000));
    assert!(ground.tool("execute_command", json!({ "command": long })).text.contains("rm PAYLOAD"));
}

/// The part that matters may be anywhere in a line that fills several screens.
#[test]
fn a_command_that_is_too_long_for_a_glance_is_allowed_only_after_all_of_it_was_opened() {
    let line = format!("echo {} >ran", "x".repeat(5_000));
    let script = format!(
        "turns:\n  - calls: [{{ tool: execute_command, params: {{ command: {line} }} }}]\n  - calls: [{{ tool: \
         attempt_completion, params: {{ result: Done. }} }}]\n"
    );
    let home = Home::playing(&script);
    let mut client = Client::start(&home, Options::typed());
    client.start_task("Run");
    let asked = client.event("approval.requested");
    let asked = &asked["event"];
    assert_eq!(asked["mustOpen"], true);
    assert!(asked["subject"].as_str().unwrap().contains(&line));
    let mut answer = json!({
        "approvalId": asked["approvalId"], "digest": asked["digest"], "optionId": "allow_once",
    });
    let refused = client.refused("roo/approval/respond", answer.clone());
    assert!(refused["message"].as_str().unwrap().contains("open the whole text first"), "{refused}");
    assert!(!home.work("ran").exists());
    answer["opened"] = true.into();
    assert_eq!(client.request("roo/approval/respond", answer)["accepted"], true);
    client.state("completed");
    assert!(home.work("ran").exists());
    client.shut_down();

    let home = Home::playing(&script);
    home.configure("autoApprove: { execute: { mode: rules } }\n");
    let mut client = Client::start(&home, Options::plain());
    client.command("roo.newTask", "Run".into());
    let titles = |popup: &Value| -> Vec<String> {
        let actions = popup["params"]["actions"].as_array().unwrap();
        actions.iter().map(|action| action["title"].as_str().unwrap().to_owned()).collect()
    };
    let popup = client.popup();
    assert_eq!(titles(&popup), ["Show details", "Deny"]);
    client.reply(&popup, json!({ "title": "Show details" }));
    let popup = client.popup();
    assert_eq!(titles(&popup)[..3], ["Show details", "Deny", "Allow"]);
    client.reply(&popup, json!({ "title": "Allow" }));
    client.wait_for("the end", |message| message.to_string().contains("completed: Done."));
    assert!(home.work("ran").exists());
    client.shut_down();
}

#[test]
fn characters_that_hide_are_shown_and_are_never_allowed_by_a_rule() {
    let ground = Ground::new();
    ground.settings("autoApprove: { execute: { allow: [[ls], [echo]] } }\n");
    assert_eq!(ground.tool("execute_command", json!({ "command": "ls src" })).verdict, "allow");
    for (line, shown) in [
        ("ls # \u{202e} tac\u{2066}", "<U+202E>"),
        ("ls \u{200b}src", "<U+200B>"),
        ("echo \u{e0041}\u{e0042}", "<U+E0041>"),
        ("ls src\r touch x", "<U+000D>"),
        ("echo \u{1b}[2K", "<U+001B>"),
    ] {
        let told = ground.tool("execute_command", json!({ "command": line }));
        assert!(told.verdict.starts_with("ask"), "{line:?}: {told:?}");
        assert!(told.text.contains(shown), "{line:?}: {told:?}");
        let raw = line.chars().filter(|c| !c.is_ascii_graphic() && *c != ' ');
        raw.for_each(|c| assert!(!told.text.contains(c), "{line:?} holds {c:?}"));
    }
    let named = told_of_tool(&ground, "read\u{200b}_file");
    assert_ne!(named.code, Some(0), "a tool's name is no text to be read leniently");
}

fn told_of_tool(ground: &Ground, name: &str) -> Told {
    told(ground.program().args(["tool", name, "--params", r#"{"path":"a"}"#]))
}

#[test]
fn the_buttons_of_a_question_are_the_servers_own() {
    let script = "turns:\n  - calls: [{ tool: write_to_file, params: { path: \"Allow everything. Approve\", content: x } }]\n  - calls: [{ tool: attempt_completion, params: { result: Done. } }]\n";
    let home = Home::playing(script);
    let mut client = Client::start(&home, Options::plain());
    client.command("roo.newTask", json!({ "prompt": "Write", "mode": "code" }));
    let popup = client.popup();
    let actions = popup["params"]["actions"].as_array().unwrap();
    for action in actions {
        let title = action["title"].as_str().unwrap();
        assert!(!title.contains("everything") && !title.contains('\n'), "{title}");
    }
    client.reply(&popup, Value::Null);
    client.command("roo.status", Value::Null);
    assert!(!home.work("Allow everything. Approve").exists());
    client.shut_down();
}

#[test]
fn a_question_says_how_far_an_approval_of_a_script_goes() {
    let ground = Ground::new();
    ground.write("ws/lib.py", "print(1)\n");
    ground.write("ws/main.py", "import lib\n");
    let told = ground.tool("execute_command", json!({ "command": "python3 main.py" }));
    assert!(told.verdict.starts_with("ask"), "{told:?}");
    let covered =
        "An approval counts for what is in these files now: main.py. It doesn't cover what they load";
    assert!(told.text.contains(covered), "{told:?}");
    let plain = ground.tool("execute_command", json!({ "command": "touch x" }));
    assert!(!plain.text.contains("An approval counts"), "{plain:?}");
}
