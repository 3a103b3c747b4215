//! The recorded requests in `tests/fixtures/events`, folded by the view. What is to be seen of them is in the files beside
//! them, by which the editors' clients are tested too. `UPDATE_EVENTS=1 cargo test --lib view::recorded_tests` writes those again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use roo_protocol::event::{Event, EventParams};
use roo_protocol::ids::TaskId;
use roo_protocol::message::{MessageKind, Say};
use roo_protocol::task::TaskState;
use serde_json::{Value, json};

use super::{ApprovalEnd, OpenItem, RequestView, Update, approval_end};

/// What is kept of one task beside its state: as a front end that shows everything would have it.
#[derive(Default)]
struct Transcript {
    messages: Vec<Value>,
    calls: Vec<Value>,
    approvals: Vec<Value>,
}

/// The view, and all that its updates brought.
#[derive(Default)]
struct Front {
    view: RequestView,
    transcripts: BTreeMap<TaskId, Transcript>,
}

fn find<'v>(items: &'v mut [Value], id: &str) -> Option<&'v mut Value> {
    items.iter_mut().rev().find(|item| item["id"] == id)
}

impl Front {
    fn apply(&mut self, params: &EventParams) {
        let Some(update) = self.view.apply(params) else { return };
        let of_task = self.transcripts.entry(params.task_id.clone()).or_default();
        match update {
            Update::Message { message, .. } => {
                if let MessageKind::Say(
                    say @ (Say::Text
                    | Say::Reasoning
                    | Say::UserFeedback
                    | Say::Error
                    | Say::CompletionResult),
                ) = message.kind
                {
                    let item = json!({ "id": message.id, "say": say, "text": message.text });
                    match find(&mut of_task.messages, message.id.as_str()) {
                        Some(known) => *known = item,
                        None => of_task.messages.push(item),
                    }
                }
            }
            Update::AnswerVoid { request, .. } => {
                let prefix = format!("{request}.");
                of_task.messages.retain(|item| !item["id"].as_str().unwrap().starts_with(&prefix));
            }
            Update::CallStarted { call, target } => {
                of_task.calls.push(json!({ "id": call, "name": target.name, "subject": target.subject }));
            }
            Update::CallFinished { call, result, .. } => {
                if find(&mut of_task.calls, call.as_str()).is_none() {
                    // What only steers the conversation is no item of its own.
                    if result.is_success() {
                        return;
                    }
                    of_task.calls.push(json!({ "id": call }));
                }
                let item = find(&mut of_task.calls, call.as_str()).unwrap();
                item["status"] = json!(result.status);
                item["summary"] = json!(result.summary);
                if let Some(code) = result.exit_code {
                    item["exitCode"] = json!(code);
                }
            }
            Update::ApprovalRequested(approval) => {
                let item = json!({ "id": approval.approval_id, "title": approval.title });
                match find(&mut of_task.approvals, approval.approval_id.as_str()) {
                    Some(known) => *known = item,
                    None => of_task.approvals.push(item),
                }
            }
            Update::ApprovalResolved { approval: Some(approval), by, option_id, rule } => {
                let allowed = match approval_end(Some(&approval), option_id, rule) {
                    ApprovalEnd::Chosen { option, .. } => option.map(|option| option.kind.allows()),
                    ApprovalEnd::ByRule(_) | ApprovalEnd::Void => None,
                };
                let item = find(&mut of_task.approvals, approval.approval_id.as_str()).unwrap();
                item["answer"] = json!({ "by": by, "allowed": allowed });
            }
            _ => {}
        }
    }

    /// What is to be seen now.
    fn seen(&self) -> Value {
        let view = &self.view;
        let tasks = view.tasks().iter().map(|task| {
            let transcript = &self.transcripts[&task.id];
            let mut messages = transcript.messages.clone();
            messages.extend(view.open().filter_map(|(owner, item)| match item {
                OpenItem::Message(open) if *owner == task.id && open.say != Say::Tool => {
                    Some(json!({ "id": open.id, "say": open.say, "text": open.text, "streams": true }))
                }
                _ => None,
            }));
            let todo = task.todo.iter().map(|item| json!({ "content": item.content, "status": item.status }));
            json!({
                "id": task.id,
                "parentId": task.parent,
                "mode": task.mode,
                "profile": task.profile,
                "title": task.title,
                "state": task.state,
                "usage": task.usage,
                "todo": todo.collect::<Vec<_>>(),
                "queue": task.queue.iter().map(|item| &item.text).collect::<Vec<_>>(),
                "messages": messages,
                "calls": transcript.calls,
                "approvals": transcript.approvals,
            })
        });
        let tasks: Vec<Value> = tasks.collect();
        let nodes = view.tree().nodes();
        let tree = nodes.iter().map(|node| {
            json!({
                "id": node.id, "parentId": node.parent_id, "mode": node.mode, "title": node.title,
                "state": node.state, "tokens": node.tokens, "costUsd": node.cost_usd,
            })
        });
        let commands = view.commands().iter().map(|command| (command.id.to_string(), json!(command.line)));
        json!({
            "title": view.root().map(|root| &root.title),
            "tasks": tasks,
            "tree": tree.collect::<Vec<_>>(),
            "total": {
                "tokens": nodes.iter().map(|node| node.tokens).sum::<u64>(),
                "costUsd": nodes.iter().map(|node| node.cost_usd).sum::<f64>(),
            },
            "waiting": view.prompts().map(|(_, prompt)| prompt.id()).collect::<Vec<_>>(),
            "commands": commands.collect::<serde_json::Map<_, _>>(),
        })
    }
}

/// Returns whether a request waits, is interrupted or has ended after an event, or a text is cut off there.
fn is_checkpoint(params: &EventParams, next: Option<&EventParams>) -> bool {
    match &params.event {
        Event::TreeChanged { nodes } => {
            let root = nodes[0].state;
            let waits = nodes.iter().any(|node| node.state == TaskState::Waiting);
            waits || root.is_final() || root == TaskState::Interrupted
        }
        // The last piece of a text that nobody lets come to its end.
        Event::MessageDelta { .. } => next.is_some_and(|next| matches!(next.event, Event::TaskState { .. })),
        _ => next.is_none(),
    }
}

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/events").join(name)
}

/// The names of all recordings.
pub(crate) fn names() -> Vec<String> {
    let files =
        fs::read_dir(fixture("")).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> =
        files.filter_map(|file| Some(file.strip_suffix(".jsonl")?.to_owned())).collect();
    names.sort();
    names
}

/// The events of a recording.
pub(crate) fn events(name: &str) -> Vec<EventParams> {
    let recording = fs::read_to_string(fixture(&format!("{name}.jsonl"))).unwrap();
    recording.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn check(name: &str) {
    let events = events(name);
    let mut front = Front::default();
    let mut seen: Vec<Value> = Vec::new();
    for (index, params) in events.iter().enumerate() {
        front.apply(params);
        if is_checkpoint(params, events.get(index + 1)) {
            seen.push(json!({ "after": index + 1, "view": front.seen() }));
        }
    }
    let path = fixture(&format!("{name}.view.json"));
    if std::env::var_os("UPDATE_EVENTS").is_some() {
        fs::write(&path, serde_json::to_string_pretty(&seen).unwrap() + "\n").unwrap();
    }
    let expected: Vec<Value> = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert!(!expected.is_empty(), "{name}: nothing is looked at");
    for (expected, seen) in expected.iter().zip(&seen) {
        assert_eq!(
            expected, seen,
            "{name}.view.json: run UPDATE_EVENTS=1 cargo test --lib view::recorded_tests"
        );
    }
    assert_eq!(expected.len(), seen.len());
}

#[test]
fn recorded_requests_are_seen_as_by_every_front_end() {
    names().iter().for_each(|name| check(name));
}

/// Kinds of events that no recording has.
const NOT_RECORDED: &[(&str, &str)] = &[
    ("task.imported", "it is made from another program's files, whose paths and times it has"),
    ("context.kept", "it comes when a summary fails, and the reason differs by what a script has seen"),
    ("intent.selected", "a workspace with intents would govern all of a recording"),
    ("server.degraded", "it comes when the disk is full or a client is too slow"),
    ("server.recovered", "it follows on that"),
];

#[test]
fn every_kind_of_event_is_in_a_recording() {
    let schema = serde_json::to_value(schemars::schema_for!(Event)).unwrap();
    let kinds = schema["oneOf"].as_array().unwrap().iter();
    let mut missing: BTreeSet<String> =
        kinds.filter_map(|kind| Some(kind["properties"]["type"]["const"].as_str()?.to_owned())).collect();
    assert!(missing.len() > 30, "{schema}");
    for params in names().iter().flat_map(|name| events(name)) {
        let event = serde_json::to_value(&params.event).unwrap();
        missing.remove(event["type"].as_str().unwrap());
    }
    let expected: BTreeSet<String> = NOT_RECORDED.iter().map(|(kind, _)| (*kind).to_owned()).collect();
    missing.remove("Unknown");
    assert_eq!(missing, expected);
}

#[test]
fn running_text_makes_no_difference_once_it_is_complete() {
    for name in &names() {
        let (mut live, mut replayed) = (Front::default(), Front::default());
        for params in events(name) {
            live.apply(&params);
            if !matches!(params.event, Event::MessageDelta { .. } | Event::ToolOutput { .. }) {
                replayed.apply(&params);
            }
        }
        assert_eq!(live.seen(), replayed.seen(), "{name}");
    }
}
