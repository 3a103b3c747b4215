//! The vocabulary over recorded requests, and over events that those have none of.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use roo_protocol::event::{Event, EventParams};
use roo_protocol::message::Message;
use serde_json::{Value, json};

use super::names::ABSENT;
use super::{Lifecycle, RooEvent, Vocabulary};
use crate::masking::Mask;
use crate::view::recorded_tests::{events as recorded, names};

fn vocabulary() -> Vocabulary {
    let providers = BTreeMap::from([("default".to_owned(), "scripted".to_owned())]);
    Vocabulary::new(Mask::default(), providers)
}

fn told<'e>(events: impl IntoIterator<Item = &'e EventParams>) -> Vec<RooEvent> {
    let mut vocabulary = vocabulary();
    events.into_iter().flat_map(|params| vocabulary.apply(params, None)).collect()
}

/// An event of the task `t`; its time is a second for each number.
fn event(seq: u64, event: Value) -> EventParams {
    let params = json!({ "rootId": "t", "taskId": "t", "seq": seq, "at": seq * 1000, "event": event });
    serde_json::from_value(params).unwrap()
}

fn message(seq: u64, id: &str, kind: (&str, &str), text: &Value) -> EventParams {
    let text = text.as_str().map_or_else(|| text.to_string(), str::to_owned);
    event(seq, json!({ "type": "message", "message": { "id": id, kind.0: kind.1, "text": text } }))
}

#[test]
fn a_text_that_is_an_object_stays_as_it_is_where_it_holds_no_secret() {
    let mask = Mask::new(true, std::iter::empty());
    let masked = |text: &str| {
        let said = message(1, "r1.b0", ("say", "text"), &json!(text));
        let mut told = told(&[said]);
        let [event] = told.as_mut_slice() else { panic!("{told:?}") };
        event.mask(&mask);
        event.payload()[0]["message"]["text"].as_str().unwrap().to_owned()
    };
    let text = r#"{ "b": 12345678901234567890123, "a": 1.0, "a": [1e3] }"#;
    assert_eq!(masked(text), text);
    let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9".repeat(2));
    for secret in [
        format!(r#"{{"key": "{token}"}}"#),
        format!(r#"{{"key": "\u0067{}"}}"#, &token[1..]),
        // The first of two fields of one name is not read.
        format!(r#"{{"key": "{token}", "key": ""}}"#),
    ] {
        let masked = masked(&secret);
        assert!(masked.contains("[masked: GitHub token]") && !masked.contains(&token[1..]), "{masked}");
    }
}

/// The newest version of each message, by its task and its time.
fn messages(events: &[RooEvent]) -> BTreeMap<(String, i64), Value> {
    let mut messages = BTreeMap::new();
    for event in events {
        let RooEvent::Message { task, message, .. } = event else { continue };
        messages.insert((task.to_string(), message.ts), json!(message));
    }
    messages
}

/// `ask` or `say`, and which.
fn kind(message: &Value) -> String {
    let kind = message["type"].as_str().unwrap();
    format!("{kind} {}", message[kind].as_str().unwrap())
}

fn kinds(events: &[RooEvent], task: &str) -> String {
    let of_task = messages(events).into_iter().filter(|((owner, _), _)| owner == task);
    of_task.map(|(_, message)| kind(&message) + "\n").collect()
}

/// The text of the first message of a kind that has these words.
#[track_caller]
fn text_of(events: &[RooEvent], wanted: &str, words: &str) -> String {
    let messages = messages(events).into_values();
    let text = |message: Value| message["text"].as_str().unwrap_or_default().to_owned();
    let mut texts = messages.filter(|message| kind(message) == wanted).map(text);
    texts.find(|text| text.contains(words)).unwrap_or_else(|| panic!("no {wanted} has {words}"))
}

#[test]
fn what_becomes_of_tasks_is_told_by_events() {
    let lines = told(&recorded("steering")).into_iter().filter_map(|event| {
        let words = event.payload();
        let words = words.as_array()?.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
        let is_other = !matches!(event, RooEvent::Message { .. } | RooEvent::TaskTokenUsageUpdated { .. });
        is_other.then(|| format!("{} {words}", event.name()).trim().to_owned() + "\n")
    });
    insta::assert_snapshot!(lines.collect::<String>(), @r#"
    taskCreated request
    taskStarted request
    taskToolFailed request read_file Could not read missing.txt
    taskInteractive request
    queuedMessagesUpdated request
    taskAskResponded request
    taskActive request
    taskUserMessage request
    queuedMessagesUpdated request
    taskInteractive request
    taskAskResponded request
    taskActive request
    taskInteractive request
    taskAskResponded request
    taskActive request
    taskModeSwitched request orchestrator
    modeChanged orchestrator
    providerProfileChanged
    taskCreated request.64
    taskSpawned request request.64
    taskDelegated request request.64
    taskPaused request
    taskStarted request.64
    taskAborted request.64
    taskToolFailed request new_task The subtask "Find the owner" failed.
    taskUnpaused request
    taskDelegationResumed request request.64
    taskInteractive request
    taskUserMessage request
    taskAskResponded request
    taskActive request
    taskAborted request
    taskResumable request
    "#);
}

#[test]
fn messages_are_told_in_the_vocabulary_of_roo_code() {
    let events = told(&recorded("steering"));
    insta::assert_snapshot!(kinds(&events, "request"), @r"
    say text
    say api_req_started
    say api_req_retry_delayed
    say api_req_retried
    say api_req_started
    say reasoning
    say text
    ask tool
    ask tool
    say api_req_started
    ask tool
    say error
    say api_req_started
    say text
    ask tool
    say user_feedback
    say user_feedback
    say api_req_started
    ask command
    say command_output
    say api_req_started
    ask command
    say command_output
    say api_req_started
    ask tool
    say api_req_started
    ask tool
    say subtask_result
    say api_req_started
    ask followup
    say user_feedback
    say api_req_started
    say error
    ask resume_task
    ");
    insta::assert_snapshot!(kinds(&events, "request.64"), @r"
    say text
    say api_req_started
    say text
    ask tool
    say error
    ");
}

#[test]
fn payloads_have_what_the_events_hold() {
    let events = told(&recorded("steering"));
    let json = |wanted: &str, words: &str| -> Value {
        serde_json::from_str(&text_of(&events, wanted, words)).unwrap()
    };
    let failed = json("say api_req_started", "streaming_failed");
    let why = "The script lets this request fail: Cut.";
    assert_eq!(
        failed,
        json!({ "request": "Model request 1", "cancelReason": "streaming_failed", "streamingFailedMessage": why })
    );
    let second = json("say api_req_started", "Model request 3");
    let expected = json!({
        "request": "Model request 3", "tokensIn": 120, "tokensOut": 10, "cacheWrites": 0, "cacheReads": 0, "cost": 0.0,
    });
    assert_eq!(second, expected, "what one request used, and not all of them");
    let edit = json("ask tool", "editedExistingFile");
    assert_eq!(edit["path"], "notes.txt");
    assert!(edit["diff"].as_str().unwrap().starts_with("--- a/notes.txt\n"), "{edit}");
    assert_eq!(json("ask tool", "updateTodoList")["todos"][1]["content"], "Tidy them");
    let asked = json("ask followup", "Whose");
    let suggest = json!([{ "answer": "Mine" }, { "answer": "Nobody's", "mode": "code" }]);
    assert_eq!(asked, json!({ "question": "Whose notes are these?", "suggest": suggest }));
    assert_eq!(text_of(&events, "say command_output", "check"), "nothing to check\n");
    let answered = messages(&events).into_values().filter(|message| message["isAnswered"] == true);
    let answered: Vec<String> = answered.map(|message| kind(&message)).collect();
    assert_eq!(answered, ["ask tool", "ask command", "ask command", "ask followup"]);
}

#[test]
fn no_two_messages_of_a_task_have_one_time() {
    let mut count = 0;
    for name in &names() {
        let mut known = BTreeSet::new();
        for told in told(&recorded(name)) {
            let RooEvent::Message { task, message, .. } = &told else { continue };
            let is_new = known.insert((task.clone(), message.ts));
            let action = if is_new { "created" } else { "updated" };
            assert_eq!(told.payload()[0]["action"], action, "{name}: {message:?}");
        }
        assert!(known.len() > 3, "{name}");
        count += known.len();
    }
    assert!(count > 60, "{count}");
}

fn is_live(params: &EventParams) -> bool {
    matches!(params.event, Event::MessageDelta { .. } | Event::ToolOutput { .. })
}

proptest! {
    /// Whoever follows a request from the beginning, later or with gaps in what is being written gets the same messages.
    #[test]
    fn a_replay_gives_the_same_messages(missed in any::<[u64; 8]>(), name in prop::sample::select(names())) {
        let all = recorded(&name);
        let is_missed = |index: usize| missed[index / 64 % 8] >> (index % 64) & 1 == 1;
        let live = all.iter().enumerate().filter(|(index, params)| !(is_live(params) && is_missed(*index)));
        let live = messages(&told(live.map(|(_, params)| params)));
        let replayed = messages(&told(all.iter().filter(|params| !is_live(params))));
        for (at, mut expected) in replayed {
            let mut message = live[&at].clone();
            if kind(&expected) == "say command_output" {
                // Nothing but the live events has it.
                (message["text"], expected["text"]) = (json!(null), json!(null));
            }
            prop_assert_eq!(message, expected);
        }
    }
}

#[test]
fn text_is_told_while_it_is_written_and_keeps_its_time() {
    let delta = |offset: u64, at: u64, text: &str| {
        let event =
            json!({ "type": "message.delta", "id": "r1.b0", "say": "text", "offset": offset, "text": text });
        let params = json!({ "rootId": "t", "taskId": "t", "at": at, "event": event });
        serde_json::from_value::<EventParams>(params).unwrap()
    };
    let begin = message(3, "r1", ("say", "api_req_started"), &json!({ "request": 1 }));
    let whole = message(4, "r1.b0", ("say", "text"), &json!("One two three."));
    let events = told(&[begin, delta(0, 3001, "One "), delta(4, 3002, "two "), delta(8, 3300, "thr"), whole]);
    let texts = events.iter().filter_map(|event| match event {
        RooEvent::Message { message, .. } if message.ts == 3001 => {
            Some((message.text.as_deref().unwrap(), message.partial.unwrap()))
        }
        _ => None,
    });
    let texts: Vec<_> = texts.collect();
    assert_eq!(texts, [("One ", true), ("One two thr", true), ("One two three.", false)]);
}

#[test]
fn usage_is_told_at_once_and_then_every_two_seconds() {
    let usage = |at: u64, tokens: u64| {
        let event = json!({ "type": "usage", "tokensIn": tokens, "tokensOut": 1, "cacheReads": 2, "cacheWrites": 3, "costUsd": 0.5 });
        let params = json!({ "rootId": "t", "taskId": "t", "seq": at, "at": at, "event": event });
        serde_json::from_value::<EventParams>(params).unwrap()
    };
    let total = |events: &[RooEvent]| match events {
        [RooEvent::TaskTokenUsageUpdated { usage, .. }] => usage.total_tokens_in,
        other => panic!("{other:?}"),
    };
    let mut vocabulary = vocabulary();
    assert_eq!(total(&vocabulary.apply(&usage(1000, 10), None)), 15, "with those of the cache");
    assert_eq!(vocabulary.due(), None);
    assert_eq!(vocabulary.apply(&usage(1500, 20), None), []);
    assert_eq!(vocabulary.apply(&usage(2500, 30), None), []);
    assert_eq!(vocabulary.due(), Some(3000));
    assert_eq!(vocabulary.flush(2999), []);
    assert_eq!(total(&vocabulary.flush(3000)), 35);
    assert_eq!(vocabulary.due(), None);
    assert_eq!(total(&vocabulary.apply(&usage(5000, 40), None)), 45);
    vocabulary.apply(&usage(5500, 50), None);
    let end = json!({ "type": "task.state", "state": "completed", "result": "Done." });
    let names: Vec<&str> = vocabulary.apply(&event(6, end), None).iter().map(RooEvent::name).collect();
    assert_eq!(names, ["taskTokenUsageUpdated", "taskCompleted", "message", "taskIdle"]);
    assert_eq!(vocabulary.due(), None);
}

#[test]
fn a_notice_stands_before_everything_else() {
    let created = json!({ "type": "task.created", "urid": "u", "mode": "code", "title": "T" });
    let mut vocabulary = vocabulary().with_notice(Some("Not all of it.".to_owned()));
    let events = vocabulary.apply(&event(1, created), None);
    let names: Vec<&str> = events.iter().map(RooEvent::name).collect();
    assert_eq!(names, ["taskCreated", "taskStarted", "message"]);
    assert_eq!(
        events[2].payload()[0]["message"],
        json!({ "ts": 999, "type": "say", "say": "error", "text": "Not all of it." })
    );
}

/// What the recorded requests have none of.
fn other_events() -> Vec<RooEvent> {
    let mut vocabulary = vocabulary();
    let finished = |seq, call: &str, status: &str, images: Value| {
        event(
            seq,
            json!({ "type": "tool.finished", "toolCallId": call, "status": status, "summary": "So.", "images": images }),
        )
    };
    let started = |seq, call: &str, name: &str| {
        event(seq, json!({ "type": "tool.started", "toolCallId": call, "name": name, "subject": "x" }))
    };
    let question = |seq: u64, kind: &str| {
        [
            message(seq, &format!("m{seq}"), ("ask", kind), &json!("Go on?")),
            event(
                seq + 1,
                json!({ "type": "question.asked", "questionId": format!("t.q{seq}"), "kind": kind, "text": "Go on?", "suggestions": [] }),
            ),
            event(
                seq + 2,
                json!({ "type": "question.answered", "questionId": format!("t.q{seq}"), "by": "x", "text": "Yes" }),
            ),
        ]
    };
    let none = json!([]);
    let picture = json!(["data:image/png;base64,AA=="]);
    let asked =
        json!({ "type": "use_mcp_tool", "serverName": "notes", "toolName": "find", "arguments": "{}" });
    let hunk = json!({
        "hunkId": "h1", "digest": format!("sha256:{}", "0".repeat(64)), "path": "a.txt", "line": 3, "oldText": "a\n",
        "newText": "b\n", "decision": "edit", "text": "c\n",
    });
    let mut events = vec![
        event(1, json!({ "type": "task.created", "urid": "u", "mode": "code", "title": "T" })),
        message(2, "r1", ("say", "api_req_started"), &json!({ "request": 1 })),
        message(
            3,
            "r1.b0",
            ("say", "tool"),
            &json!({ "tool": "browserAction", "action": "launch", "url": "http://localhost" }),
        ),
        started(4, "call_3", "browser_action"),
        finished(5, "call_3", "ok", picture.clone()),
        message(
            6,
            "r1.b1",
            ("say", "tool"),
            &json!({ "tool": "browserAction", "action": "click", "coordinate": "1,2" }),
        ),
        message(7, "r1.b2", ("ask", "use_mcp_server"), &asked),
        started(8, "call_7", "use_mcp_tool"),
        finished(9, "call_7", "ok", none.clone()),
        message(10, "r1.b3", ("say", "tool"), &json!({ "tool": "codebaseSearch", "query": "q" })),
        finished(11, "call_10", "ok", none.clone()),
        message(12, "r1.b4", ("say", "tool"), &json!({ "tool": "readFile", "path": "a.png" })),
        finished(13, "call_12", "ok", picture),
        message(
            14,
            "r1.b5",
            ("say", "tool"),
            &json!({ "tool": "appliedDiff", "path": "a.txt", "diff": "x" }),
        ),
        finished(15, "call_14", "failed", none),
        message(16, "r1.b6", ("say", "tool"), &json!({ "tool": "readFile", "path": "hidden.txt" })),
        event(
            17,
            json!({ "type": "gate.decided", "toolCallId": "call_16", "verdict": "deny", "rule": "rooignore", "reason": "So." }),
        ),
        message(18, "call_18.checkpoint", ("say", "checkpoint_saved"), &json!("abc")),
        event(19, json!({ "type": "context.shortening", "method": "summary" })),
        event(
            20,
            json!({ "type": "context.shortened", "method": "summary", "tokensBefore": 9, "tokensAfter": 3, "summary": "S", "costUsd": 0.1 }),
        ),
        event(21, json!({ "type": "context.kept", "reason": "too short" })),
        event(
            22,
            json!({ "type": "context.shortened", "method": "placeholders", "tokensBefore": 9, "tokensAfter": 3, "results": 2 }),
        ),
        event(23, json!({ "type": "retry.scheduled", "at": 1, "attempt": 1, "reason": "a limit" })),
        event(
            24,
            json!({ "type": "approval.resolved", "approvalId": "t.a1", "by": "x", "optionId": "allow_once", "hunks": [hunk] }),
        ),
    ];
    events.extend(question(30, "mistake_limit_reached"));
    events.extend(question(40, "auto_approval_max_req_reached"));
    events.extend(question(50, "api_req_failed"));
    events.push(message(60, "call_60.end", ("say", "completion_result"), &json!("Done.")));
    events.push(event(61, json!({ "type": "task.state", "state": "completed", "result": "Done." })));
    let found = json!({ "tool": "codebaseSearch", "content": { "query": "q", "results": [] } });
    let mut told = Vec::new();
    for params in &events {
        let result = vocabulary.wanted_result(params).map(|id| {
            let (say, text) = match id.as_str() {
                "call_7" => (
                    "mcp_server_response",
                    json!({ "executionId": "call_7", "status": "completed", "response": "R" }),
                ),
                _ => ("codebase_search_result", found.clone()),
            };
            serde_json::from_value::<Message>(json!({ "id": id, "say": say, "text": text.to_string() }))
                .unwrap()
        });
        told.extend(vocabulary.apply(params, result.as_ref()));
    }
    told
}

#[test]
fn a_model_a_server_and_a_browser_are_shown_with_what_came_of_them() {
    let events = other_events();
    let json = |wanted: &str| -> Value { serde_json::from_str(&text_of(&events, wanted, "")).unwrap() };
    assert_eq!(text_of(&events, "ask browser_action_launch", ""), "http://localhost");
    assert_eq!(json("say browser_action"), json!({ "action": "click", "coordinate": "1,2" }));
    assert_eq!(
        json("say browser_action_result"),
        json!({ "logs": "So.", "screenshot": "data:image/png;base64,AA==" })
    );
    let started =
        json!({ "executionId": "call_7", "status": "started", "serverName": "notes", "toolName": "find" });
    assert_eq!(json("say mcp_server_request_started"), started);
    assert_eq!(json("say mcp_server_response")["response"], "R");
    assert_eq!(text_of(&events, "say rooignore_error", ""), "hidden.txt");
    assert_eq!(json("say user_feedback_diff")["diff"], "--- a.txt\n+++ a.txt\n@@ line 3 @@\n-b\n+c\n");
    let condensed = messages(&events).into_values().find(|message| kind(message) == "say condense_context");
    let expected = json!({ "cost": 0.1, "prevContextTokens": 9, "newContextTokens": 3, "summary": "S" });
    assert_eq!(condensed.unwrap()["contextCondense"], expected);
}

const ASKS: &[&str] = &[
    "followup",
    "command",
    "command_output",
    "completion_result",
    "tool",
    "api_req_failed",
    "api_req_deleted",
    "resume_task",
    "resume_completed_task",
    "mistake_limit_reached",
    "browser_action_launch",
    "use_mcp_server",
    "auto_approval_max_req_reached",
];
const SAYS: &[&str] = &[
    "error",
    "api_req_started",
    "api_req_finished",
    "api_req_retried",
    "api_req_retry_delayed",
    "api_req_rate_limit_wait",
    "api_req_deleted",
    "text",
    "image",
    "reasoning",
    "completion_result",
    "user_feedback",
    "user_feedback_diff",
    "command_output",
    "shell_integration_warning",
    "browser_action",
    "browser_action_result",
    "browser_session_status",
    "mcp_server_request_started",
    "mcp_server_response",
    "subtask_result",
    "checkpoint_saved",
    "rooignore_error",
    "diff_error",
    "condense_context",
    "condense_context_error",
    "sliding_window_truncation",
    "codebase_search_result",
    "user_edit_todos",
    "too_many_tools_warning",
];
const EVENTS: &[&str] = &[
    "taskCreated",
    "taskStarted",
    "taskCompleted",
    "taskAborted",
    "taskFocused",
    "taskUnfocused",
    "taskActive",
    "taskInteractive",
    "taskResumable",
    "taskIdle",
    "taskPaused",
    "taskUnpaused",
    "taskSpawned",
    "taskDelegated",
    "taskDelegationCompleted",
    "taskDelegationResumed",
    "message",
    "taskModeSwitched",
    "taskAskResponded",
    "taskUserMessage",
    "queuedMessagesUpdated",
    "taskTokenUsageUpdated",
    "taskToolFailed",
    "modeChanged",
    "providerProfileChanged",
    "commandsResponse",
    "modesResponse",
    "modelsResponse",
    "evalPass",
    "evalFail",
];
/// The JSON texts, each with a message that has it and the keys by which clients know it.
const PAYLOADS: &[(&str, &str, &[&str])] = &[
    ("ClineSayTool", "ask tool", &["tool"]),
    ("TaskCreationData", "ask tool", &["tool", "mode", "content"]),
    ("ModeSwitchData", "ask tool", &["tool", "mode", "reason"]),
    ("FollowupQuestionData", "ask followup", &["question", "suggest"]),
    ("ClineAskUseMcpServer", "ask use_mcp_server", &["serverName", "type", "toolName", "arguments"]),
    ("ClineApiReqInfo", "say api_req_started", &["request", "tokensIn", "tokensOut", "cost"]),
    ("McpExecutionStatus", "say mcp_server_request_started", &["executionId", "status", "serverName"]),
    ("McpExecutionStatus", "say mcp_server_response", &["executionId", "status", "response"]),
    ("ClineSayBrowserAction", "say browser_action", &["action", "coordinate"]),
    ("BrowserActionResult", "say browser_action_result", &["screenshot", "logs"]),
    ("CodebaseSearchResult", "say codebase_search_result", &["tool", "content"]),
    ("CommandExecutionStatus", "", &[]),
];

#[test]
fn every_name_of_roo_code_comes_or_says_why_not() {
    let mut all: Vec<RooEvent> = names().iter().flat_map(|name| told(&recorded(name))).collect();
    all.extend(other_events());
    let mut produced: BTreeSet<String> = all.iter().map(|event| format!("event {}", event.name())).collect();
    // These are told by front ends, which know what is looked at and asked.
    let task = || roo_protocol::ids::TaskId::new("t");
    let of_front_ends = [
        RooEvent::Lifecycle(Lifecycle::Focused, task()),
        RooEvent::Lifecycle(Lifecycle::Unfocused, task()),
        RooEvent::Commands(json!([])),
        RooEvent::Modes(json!([])),
        RooEvent::Models(json!({})),
    ];
    produced.extend(of_front_ends.iter().map(|event| format!("event {}", event.name())));
    let messages: Vec<Value> = all
        .iter()
        .filter_map(|event| match event {
            RooEvent::Message { message, .. } => Some(json!(message)),
            _ => None,
        })
        .collect();
    produced.extend(messages.iter().map(kind));
    for (name, wanted, keys) in PAYLOADS {
        let has_all = messages.iter().filter(|message| kind(message) == *wanted).any(|message| {
            let payload: Value =
                serde_json::from_str(message["text"].as_str().unwrap_or_default()).unwrap_or_default();
            keys.iter().all(|key| payload.get(key).is_some())
        });
        if has_all {
            produced.insert(format!("payload {name}"));
        }
    }
    let absent: BTreeSet<String> = ABSENT.iter().map(|(name, _)| (*name).to_owned()).collect();
    let named = |kind: &'static str, names: &[&str]| -> Vec<String> {
        names.iter().map(|name| format!("{kind} {name}")).collect()
    };
    let payloads: Vec<&str> = PAYLOADS.iter().map(|(name, ..)| *name).collect();
    let all_names =
        [named("ask", ASKS), named("say", SAYS), named("event", EVENTS), named("payload", &payloads)]
            .concat();
    for name in &all_names {
        assert_ne!(
            produced.contains(name),
            absent.contains(name),
            "{name}: it comes, or names.rs says why it doesn't, and not both"
        );
    }
    let known: BTreeSet<&String> = all_names.iter().collect();
    let unknown: Vec<&String> = produced.iter().chain(&absent).filter(|name| !known.contains(name)).collect();
    assert!(unknown.is_empty(), "Roo Code has no {unknown:?}");
}

#[test]
fn the_page_for_users_names_what_never_comes() {
    let page = include_str!("../../docs/src/roo-ipc.md");
    for (name, why) in ABSENT {
        let (_, name) = name.split_once(' ').unwrap();
        assert!(page.contains(&format!("`{name}`")) && !why.is_empty(), "the page doesn't name {name}");
    }
}
