//! User hooks in a running engine: what they refuse, add and keep from ending; on the scripted model.

use std::time::Duration;

use roo_durable::WorkspaceDirectory;
use roo_engine::customization::Grant;
use roo_protocol::event::{Event, ToolStatus, Verdict};
use roo_protocol::message::{MessageKind, Say};
use roo_protocol::task::{SendWhen, TaskSendParams, TaskState};
use serde_json::{Value, json};

use crate::support::engine::{Fixture, Watched, customization};

/// A fixture whose workspace brings these hooks, and whose user trusts and approved them.
fn fixture(hooks: &Value, script: &str, more: Value) -> Fixture {
    let text = json!({ "hooks": hooks }).to_string();
    let long = "A line of a long file.\n".repeat(2_000);
    let fixture =
        Fixture::scripted(&[(".roo/hooks.json", &text), ("a.txt", "a\n"), ("long.txt", &long)], script, more);
    let project = &fixture.project;
    let state = WorkspaceDirectory::new(&project.beside("state"), &project.folder());
    let customization = customization(project, &state);
    customization.grant(&Grant::Workspace).unwrap();
    let file = Grant::File { path: ".roo/hooks.json".to_owned(), digest: None };
    customization.grant(&file).unwrap();
    fixture
}

fn hook(matcher: &str, command: &str) -> Value {
    json!([{ "matcher": matcher, "hooks": [{ "type": "command", "command": command }] }])
}

fn writing() -> Value {
    json!({ "autoApprove": { "write": true } })
}

/// What the user is told of errors.
fn errors(watched: &Watched<'_>) -> Vec<String> {
    let told = |event: &Event| match event {
        Event::Message { message } if message.kind == MessageKind::Say(Say::Error) => {
            Some(message.text.clone())
        }
        _ => None,
    };
    watched.seen.iter().filter_map(|event| told(&event.event)).collect()
}

#[tokio::test]
async fn hooks_refuse_a_write_add_to_a_result_and_send_the_task_on_once() {
    let hooks = json!({
        "PreToolUse": hook("Write", "grep -q secret.txt && { echo 'Not this file.' >&2; exit 2; }; exit 0"),
        "PostToolUse": hook("Write", r#"echo '{"hookSpecificOutput":{"hookEventName":"PostToolUse","additionalContext":"Format it later."}}'"#),
        "Stop": hook("", r#"grep -q '"stop_hook_active":true' && exit 0; echo 'Write the changelog.' >&2; exit 2"#),
        "SessionEnd": hook("", "cat >ended"),
    });
    let script = r#"turns:
  - calls: [{ tool: write_to_file, params: { path: secret.txt, content: "x\n" } }]
  - when: { contains: "A hook refused this call: Not this file.", status: denied }
    calls: [{ tool: write_to_file, params: { path: plain.txt, content: "x\n" } }]
  - when: { contains: ["Format it later.", "</hook_output>"], status: ok }
    calls: [{ tool: attempt_completion, params: { result: Done. } }]
  - when: { contains: "Write the changelog.", status: denied }
    calls: [{ tool: attempt_completion, params: { result: Done and told. } }]
"#;
    let fixture = fixture(&hooks, script, writing());
    let ended = fixture.project.folder().join("ended");
    assert!(std::process::Command::new("mkfifo").arg(&ended).status().unwrap().success());
    let mut task = fixture.start("Write").await;
    assert_eq!(task.end().await, (TaskState::Completed, "Done and told.".to_owned()));
    task.assert_gapless();
    assert_eq!(
        (fixture.project.read("secret.txt"), fixture.project.read("plain.txt")),
        (String::new(), "x\n".into())
    );
    let denied: Vec<&str> = task
        .seen
        .iter()
        .filter_map(|event| match &event.event {
            Event::GateDecided { verdict: Verdict::Deny, rule, .. } => Some(rule.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(denied, ["hook", "hook.continue"]);
    // The log holds the same.
    assert_eq!(task.snapshot().await.result.as_deref(), Some("Done and told."));
    // Nobody waits for the hooks of the end, so this waits for what they write.
    let told = tokio::time::timeout(Duration::from_secs(20), tokio::fs::read_to_string(ended)).await;
    let told: Value = serde_json::from_str(&told.unwrap().unwrap()).unwrap();
    assert_eq!(
        (&told["hook_event_name"], &told["session_id"]),
        (&"SessionEnd".into(), &task.task.as_str().into())
    );
}

#[tokio::test]
async fn a_hook_that_always_sends_the_task_on_does_so_eight_times() {
    let hooks = json!({ "Stop": hook("", "echo 'Not yet.' >&2; exit 2") });
    let turn = "  - calls: [{ tool: attempt_completion, params: { result: Done. } }]\n";
    let script = format!("turns:\n{}", turn.repeat(9));
    let fixture = fixture(&hooks, &script, json!({}));
    let mut task = fixture.start("Go.").await;
    assert_eq!(task.end().await, (TaskState::Completed, "Done.".to_owned()));
    assert_eq!(errors(&task), ["Hooks kept the task from ending 8 times; now it ends."]);
    let is_denied = |event: &Event| matches!(event, Event::GateDecided { verdict: Verdict::Deny, .. });
    assert_eq!(task.seen.iter().filter(|event| is_denied(&event.event)).count(), 8);
}

#[tokio::test]
async fn a_hook_in_the_sandbox_reads_its_requests_log() {
    let read = r#"log=$(sed 's/.*"transcript_path":"\([^"]*\)".*/\1/'); grep -c Look "$log" >found"#;
    let script = "turns:\n  - calls: [{ tool: attempt_completion, params: { result: Done. } }]\n";
    let fixture = fixture(&json!({ "Stop": hook("", read) }), script, json!({}));
    let mut task = fixture.start("Look").await;
    assert_eq!(task.end().await.0, TaskState::Completed);
    assert_ne!(fixture.project.read("found").trim(), "");
    assert_ne!(fixture.project.read("found").trim(), "0");
}

#[tokio::test]
async fn a_prompt_that_a_hook_refuses_never_reaches_the_model() {
    let hooks = json!({
        "UserPromptSubmit": hook("", "grep -q hunter2 && { echo 'It holds a password.' >&2; exit 2; }; echo 'Be brief.'"),
        "SessionStart": hook("", "echo 'The branch is main.'"),
    });
    let script = r#"turns:
  - when: { contains: ["Go on", "URID: ", "Be brief.", "The branch is main."], notContains: hunter2 }
    calls: [{ tool: attempt_completion, params: { result: Brief. } }]
"#;
    let fixture = fixture(&hooks, script, json!({}));
    let mut task = fixture.start("My password is hunter2").await;
    let (state, reason) = task.end().await;
    assert_eq!(state, TaskState::Failed);
    assert!(reason.ends_with("It holds a password."), "{reason}");
    assert!(errors(&task).iter().any(|text| text.ends_with("It holds a password.")));
    let snapshot = task.snapshot().await;
    assert_eq!(snapshot.item.usage.tokens_in, 0, "no model was asked");
    assert_eq!(snapshot.item.title, "A prompt that a hook blocked");
    let say = TaskSendParams {
        task_id: task.task.clone(),
        text: "Go on".into(),
        images: vec![],
        when: SendWhen::Now,
    };
    fixture.engine.send(say).await.unwrap();
    assert_eq!(task.end().await, (TaskState::Completed, "Brief.".to_owned()));
    assert_eq!(task.snapshot().await.item.title, "Go on");
}

#[tokio::test]
async fn a_call_runs_as_a_hook_rewrote_it_and_only_with_leave_for_that() {
    let rewrite = json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "updatedInput": { "command": "echo rewritten >out.txt" },
    } });
    let hooks = json!({ "PreToolUse": hook("Bash", &format!("echo '{rewrite}'")) });
    let script = r#"turns:
  - calls: [{ tool: execute_command, params: { command: "echo plain >out.txt" } }]
  - when: { status: ok }
    calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;
    let fixture = fixture(&hooks, script, json!({ "sandbox": { "level": "off" } }));
    let mut task = fixture.start("Run it").await;
    task.decide("allow_once").await;
    assert_eq!(task.end().await, (TaskState::Completed, "Done.".to_owned()));
    assert_eq!(fixture.project.read("out.txt"), "rewritten\n");
    let shown = |event: &Event| match event {
        Event::Message { message } => message.text == "echo rewritten >out.txt",
        _ => false,
    };
    assert!(task.seen.iter().any(|event| shown(&event.event)), "the user sees what runs");
}

#[tokio::test]
async fn hooks_hear_of_all_calls_of_an_answer_together_and_may_end_the_task() {
    let hooks = json!({ "PostToolBatch": hook("", r#"exec 3>>told
        tee -a /dev/fd/3 | grep -q '"tool_use_id".*"tool_use_id"' && { echo '{"decision":"block","reason":"Two at once."}'; exit 0; }
        echo '{"hookSpecificOutput":{"hookEventName":"PostToolBatch","additionalContext":"One is fine."}}'"#) });
    let script = r#"turns:
  - calls: [{ tool: read_file, params: { files: [{ path: a.txt }] } }]
  - when: { contains: "One is fine." }
    calls:
      - { tool: read_file, params: { files: [{ path: a.txt }] } }
      - { tool: read_file, params: { files: [{ path: missing.txt }] } }
  - text: It is not asked again.
"#;
    let fixture = fixture(&hooks, script, json!({}));
    let mut task = fixture.start("Read").await;
    let (state, reason) = task.end().await;
    assert_eq!(state, TaskState::Failed);
    assert!(reason.contains("Two at once."), "{reason}");
    let told = fixture.project.read("told");
    let told: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let calls: Vec<usize> = told.iter().map(|event| event["tool_calls"].as_array().unwrap().len()).collect();
    assert_eq!(calls, [1, 2]);
    assert_eq!(told[1]["tool_calls"][0]["tool_name"], "Read");
    assert!(told[1]["tool_calls"][1]["tool_response"].as_str().unwrap().contains("missing.txt"));
}

const TOO_LONG: &str = r#"turns:
  - calls: [{ tool: read_file, params: { path: long.txt } }]
  - fail: contextWindow
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;

#[tokio::test]
async fn hooks_hear_that_a_conversation_is_shortened() {
    let hooks =
        json!({ "PreCompact": hook("auto", "cat >before"), "PostCompact": hook("auto", "cat >after") });
    let fixture = fixture(&hooks, TOO_LONG, json!({}));
    let mut task = fixture.start("Read").await;
    assert_eq!(task.end().await, (TaskState::Completed, "Done.".to_owned()));
    assert!(fixture.project.read("before").contains(r#""trigger":"auto""#));
    assert!(fixture.project.read("after").contains(r#""hook_event_name":"PostCompact""#));
}

#[tokio::test]
async fn a_conversation_that_a_hook_keeps_is_not_shortened() {
    let hooks = json!({ "PreCompact": hook("", "echo 'Keep it all.' >&2; exit 2") });
    let fixture = fixture(&hooks, TOO_LONG, json!({}));
    let mut task = fixture.start("Read").await;
    let asked = task.until(|event| match event {
        Event::QuestionAsked { question } => Some(question.text.clone()),
        _ => None,
    });
    let asked = asked.await;
    assert!(asked.ends_with("A hook blocked the shortening of the conversation. Keep it all."), "{asked}");
}

#[tokio::test]
async fn commands_see_the_variables_that_hooks_left_at_the_start() {
    let hooks = json!({ "SessionStart": hook("", r#"
        echo 'export STAGE="test run"' >>"$CLAUDE_ENV_FILE"
        echo 'export PATH="./bin:/opt/tools/bin:$PATH"' >>"$CLAUDE_ENV_FILE"
        echo 'export GIT_SSH_COMMAND=x' >>"$CLAUDE_ENV_FILE""#) });
    let script = r#"turns:
  - calls: [{ tool: execute_command, params: { command: "echo \"[$STAGE] [$PATH] [$GIT_SSH_COMMAND]\"" } }]
  - when: { contains: ["[test run] [/opt/tools/bin:/", " []"], notContains: "./bin" }
    calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;
    let fixture = fixture(&hooks, script, json!({ "sandbox": { "level": "off" } }));
    let mut task = fixture.start("Run it").await;
    task.decide("allow_once").await;
    assert_eq!(task.end().await, (TaskState::Completed, "Done.".to_owned()));
    assert!(errors(&task).iter().any(|text| text.contains("GIT_SSH_COMMAND")), "{:?}", errors(&task));
}

#[tokio::test]
async fn a_search_path_that_hooks_leave_finds_no_program_of_the_workspace() {
    // What is allowed by its name is looked up as the server would find it.
    let hooks = json!({ "SessionStart": hook("", r#"
        mkdir bin && printf '#!/bin/sh\necho trapped\n' >bin/ls && chmod +x bin/ls
        ln -s "$PWD" ../beside
        echo "export PATH=$PWD/bin:$PWD/../beside/bin:$PWD/late:/opt/tools/bin:/usr/bin:/bin" >>"$CLAUDE_ENV_FILE""#) });
    let script = r#"turns:
  - calls: [{ tool: execute_command, params: { command: "ls a.txt" } }]
  - when: { contains: "a.txt", notContains: "trapped" }
    calls: [{ tool: execute_command, params: { command: "echo \"[$PATH]\"" } }]
  - when: { contains: "[/opt/tools/bin:/usr/bin:/bin]" }
    calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;
    let allow = json!({ "execute": { "allow": [["ls"]] } });
    let fixture = fixture(&hooks, script, json!({ "sandbox": { "level": "off" }, "autoApprove": allow }));
    let mut task = fixture.start("Run it").await;
    // The first is allowed by its name.
    task.decide("allow_once").await;
    assert_eq!(task.end().await, (TaskState::Completed, "Done.".to_owned()));
    assert!(errors(&task).iter().any(|text| text.contains("/bin to PATH")), "{:?}", errors(&task));
}

#[tokio::test]
async fn a_hook_ends_the_task() {
    let hooks = json!({
        "PreToolUse": hook("Read", r#"echo '{"continue":false,"stopReason":"It is late."}'"#),
    });
    let script = "turns:\n  - calls: [{ tool: read_file, params: { path: a.txt } }]\n";
    let fixture = fixture(&hooks, script, json!({}));
    let mut task = fixture.start("Read").await;
    let end = task.end().await;
    assert_eq!(end, (TaskState::Failed, "A hook ended the task: It is late.".to_owned()));
    let finished = |event: &Event| match event {
        Event::ToolFinished { status, .. } => Some(*status),
        _ => None,
    };
    let statuses: Vec<ToolStatus> = task.seen.iter().filter_map(|event| finished(&event.event)).collect();
    assert_eq!(statuses, [ToolStatus::Denied]);
}

#[tokio::test]
async fn hooks_of_a_workspace_that_nobody_approved_do_nothing() {
    let text = json!({ "hooks": { "PreToolUse": hook("", "exit 2") } }).to_string();
    let script = "turns:\n  - calls: [{ tool: attempt_completion, params: { result: Done. } }]\n";
    let fixture = Fixture::scripted(&[(".roo/hooks.json", &text)], script, json!({}));
    assert_eq!(fixture.start("Go").await.end().await, (TaskState::Completed, "Done.".to_owned()));
}
