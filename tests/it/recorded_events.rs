//! The recorded requests in `tests/fixtures/events`, by which every front end is tested: what the real server tells a
//! client of them is as it was recorded. `UPDATE_EVENTS=1 cargo test --test it recorded_events` records them again.
//!
//! A recording is one `roo/event` a line. Ids, times, digests and paths are replaced by fixed ones. Running text and trees
//! come when the clock says so, which is why only the numbered events are compared.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use regex::{Captures, Regex};
use serde_json::{Value, json};

use crate::support::client::{Client, Home, Options, uri};
use crate::support::package;

/// The line that is never saved.
const UNSAVED: &str = "# not saved yet\n";
/// Every command asks as it is, and what a machine has to bound it makes no difference.
const SETTINGS: &str = "autoApprove: { execute: { mode: rules } }\nsandbox: { level: 'off' }\n";
/// The time of the event before the first one.
const BEGIN: i64 = 1_767_322_800_000;

/// The events of one request, over all servers that it has seen.
#[derive(Default)]
struct Recording(Vec<Value>);

impl Recording {
    /// Takes what a client has seen.
    fn take(&mut self, client: &Client) {
        let events = client.seen.iter().filter(|message| message["method"] == "roo/event");
        self.0.extend(events.map(|message| message["params"].clone()));
    }

    /// What a client has seen of one of several requests, without the pieces of running text.
    fn whole_events(client: &Client, request: &str) -> Self {
        let mut recording = Self::default();
        recording.take(client);
        let is_piece = |kind: &Value| kind == "message.delta" || kind == "tool.output";
        recording.0.retain(|event| event["rootId"] == request && !is_piece(&event["event"]["type"]));
        recording
    }

    fn last_number(&self) -> u64 {
        self.0.iter().filter_map(|event| event["seq"].as_u64()).max().unwrap_or_default()
    }

    /// The lines of the file, with nothing in them that differs from run to run.
    fn lines(&self, home: &Home) -> Vec<String> {
        let root = self.0[0]["rootId"].as_str().unwrap();
        // A fork tells of its own id after the events that it shares.
        let forked = self.0.iter().map(|event| &event["event"]).find(|event| event["type"] == "task.forked");
        let urid = forked.unwrap_or(&self.0[0]["event"])["urid"].as_str().unwrap();
        let place = home.path("");
        let place = place.to_str().unwrap().trim_end_matches('/');
        let digest = Regex::new("sha256:[0-9a-f]{64}").unwrap();
        let mut digests: HashMap<String, usize> = HashMap::new();
        let mut number = 0;
        let mut line = |event: &Value| {
            let mut event = event.clone();
            number = event["seq"].as_i64().unwrap_or(number);
            set_times(&mut event, BEGIN + number * 1000);
            // The size of a request depends on the machine, which the system prompt describes.
            if let Some(event) = event["event"].as_object_mut() {
                event.remove("context");
                for (name, size) in [("tokensBefore", 9000), ("tokensAfter", 3000)] {
                    event.entry(name).and_modify(|tokens| *tokens = size.into());
                }
            }
            let text = serde_json::to_string(&event).unwrap();
            let text = text.replace(root, "request").replace(urid, "20260102-03-04-0a0b0c0d");
            let text = text.replace(place, "/home/user");
            let text = ["taskId", "urid"].iter().fold(text, |text, name| {
                let id = forked.and_then(|forked| forked["from"][name].as_str());
                id.map_or(text.clone(), |id| text.replace(id, &format!("origin-{name}")))
            });
            let numbered = |found: &Captures<'_>| {
                let next = digests.len() + 1;
                format!("sha256:{:064x}", digests.entry(found[0].to_owned()).or_insert(next))
            };
            digest.replace_all(&text, numbered).into_owned()
        };
        self.0.iter().map(&mut line).collect()
    }

    /// Compares it with the file of this name, or writes that.
    fn check(&self, home: &Home, name: &str) {
        let path = package().join("tests/fixtures/events").join(format!("{name}.jsonl"));
        let lines = self.lines(home);
        if std::env::var_os("UPDATE_EVENTS").is_some() {
            fs::write(&path, lines.join("\n") + "\n").unwrap();
            return;
        }
        let recorded = fs::read_to_string(&path).unwrap();
        let (recorded, seen) = (numbered(recorded.lines()), numbered(lines.iter().map(String::as_str)));
        for (recorded, seen) in recorded.iter().zip(&seen) {
            assert_eq!(
                recorded, seen,
                "{name}.jsonl does not match the server; run UPDATE_EVENTS=1 cargo test --test it recorded_events"
            );
        }
        assert_eq!(recorded.len(), seen.len(), "{name}.jsonl has another number of events");
    }
}

/// The numbered events of a recording. Versions of a message in a row are one event, as if they had come together.
fn numbered<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<Value> {
    let mut events: Vec<Value> = Vec::new();
    let message = |event: &Value| (event["taskId"].clone(), event["event"]["message"]["id"].clone());
    for line in lines {
        let mut event: Value = serde_json::from_str(line).unwrap();
        if event.get("seq").is_none() {
            continue;
        }
        if let Some(last) =
            events.pop_if(|last| !message(last).1.is_null() && message(last) == message(&event))
        {
            event["from"] = last.get("from").unwrap_or(&last["seq"]).clone();
        }
        events.push(event);
    }
    events
}

/// Sets every time in an event.
fn set_times(value: &mut Value, time: i64) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match name.as_str() {
                    "at" | "startedAt" | "endedAt" => *value = time.into(),
                    _ => set_times(value, time),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| set_times(item, time)),
        _ => {}
    }
}

/// Waits for an event of a task.
fn until(client: &mut Client, kind: &str, fits: impl Fn(&Value) -> bool) -> Value {
    let found = client.wait_for(kind, |message| {
        let params = &message["params"];
        message["method"] == "roo/event" && params["event"]["type"] == kind && fits(params)
    });
    found["params"].clone()
}

/// Waits until the request's own task is in this state, and until the tree says so.
fn until_root(client: &mut Client, state: &str) {
    until(client, "task.state", |params| {
        params["taskId"] == params["rootId"] && params["event"]["state"] == state
    });
    until(client, "tree.changed", |params| params["event"]["nodes"][0]["state"] == state);
}

/// Waits until the user is asked, and until the tree says so.
fn until_asked(client: &mut Client, kind: &str) -> Value {
    let asked = until(client, kind, |_| true);
    until(client, "tree.changed", |params| {
        let nodes = params["event"]["nodes"].as_array().unwrap();
        nodes.iter().any(|node| node["id"] == asked["taskId"] && node["state"] == "waiting")
    });
    asked["event"].clone()
}

/// Answers the next approval.
fn decide(client: &mut Client, option: &str, text: Option<&str>) {
    let approval = until_asked(client, "approval.requested");
    respond(client, &approval, option, text);
}

fn respond(client: &mut Client, approval: &Value, option: &str, text: Option<&str>) {
    let answer = json!({
        "approvalId": approval["approvalId"], "digest": approval["digest"], "optionId": option, "text": text,
    });
    assert_eq!(client.request("roo/approval/respond", answer)["accepted"], true);
}

/// Opens the script of the scenario, and adds the line that is not saved.
fn open_script(client: &mut Client, path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let uri = client.open(path, &text);
    client.append(&uri, UNSAVED);
    uri
}

#[test]
fn the_scenario_of_the_editors_is_told_as_recorded() {
    let scenario = package().join("tests/editors/scenario");
    let script = fs::read_to_string(scenario.join("turns.yaml")).unwrap();
    // Nobody looks at it here, but for the turn that is cancelled while it is written.
    assert!(script.contains("delayMs: 150\n") && script.contains("delayMs: 900\n"));
    let script = script.replace("delayMs: 150", "delayMs: 20").replace("delayMs: 900", "delayMs: 300");
    let home = Home::playing(&script);
    home.configure(SETTINGS);
    for name in ["greeting.sh", "README.md"] {
        fs::copy(scenario.join("workspace").join(name), home.work(name)).unwrap();
    }
    let greeting = home.work("greeting.sh");
    let mut recording = Recording::default();

    let mut client = Client::start(&home, Options::typed());
    open_script(&mut client, &greeting);
    let selection = json!({ "start": { "line": 3, "character": 0 }, "end": { "line": 5, "character": 0 } });
    let context = json!([{ "uri": uri(&greeting), "range": selection }]);
    let prompt = json!({ "prompt": "Greet politely", "mode": "new-task", "context": context });
    let task = client.request("roo/task/start", prompt)["taskId"].clone();
    let question = until_asked(&mut client, "question.asked");
    let answer = json!({ "questionId": question["questionId"], "text": question["suggestions"][0]["text"] });
    client.request("roo/question/answer", answer);
    until_asked(&mut client, "approval.requested");
    recording.take(&client);
    // The server dies while the user thinks about it.
    client.kill();

    let mut client = Client::start(&home, Options::typed());
    open_script(&mut client, &greeting);
    client.request("roo/task/attach", json!({ "taskId": task, "afterSeq": recording.last_number() }));
    client.request("roo/task/resume", json!({ "taskId": task }));
    for _ in 0..3 {
        decide(&mut client, "allow_once", None);
    }
    until(&mut client, "message.delta", |params| {
        params["event"]["text"].as_str().is_some_and(|text| text.contains("peace"))
            || params["event"]["offset"].as_u64() > Some(60)
    });
    client.request("roo/task/cancel", json!({ "taskId": task }));
    until_root(&mut client, "cancelled");
    client.request("roo/task/resume", json!({ "taskId": task }));
    until_root(&mut client, "completed");
    recording.take(&client);
    assert_eq!(client.shut_down(), 0);
    recording.check(&home, "greeting");
}

#[test]
fn a_request_that_is_steered_is_told_as_recorded() {
    let script = package().join("tests/fixtures/events/steering.yaml");
    let home = Home::playing(&fs::read_to_string(script).unwrap());
    home.configure(SETTINGS);
    for (name, text) in [
        ("notes.txt", "milk\nbread\n"),
        ("check.sh", "echo nothing to check\nexit 3\n"),
        ("watch.sh", "echo watching\nsleep 1000\n"),
    ] {
        fs::write(home.work(name), text).unwrap();
    }
    let mut recording = Recording::default();
    let mut client = Client::start(&home, Options::typed());
    let task = json!(client.start_task("Tidy the notes"));
    // A message on the way, and a refusal with a reason.
    let edit = until_asked(&mut client, "approval.requested");
    client.request("roo/task/send", json!({ "taskId": task, "text": "There is no hurry" }));
    respond(&mut client, &edit, "reject_once", Some("Keep the order"));
    decide(&mut client, "allow_once", None);
    decide(&mut client, "allow_once", None);
    until(&mut client, "tool.output", |_| true);
    client.request("roo/command/background", json!({ "taskId": task }));
    let command = until(&mut client, "command.backgrounded", |_| true)["event"]["commandId"].clone();
    let question = until_asked(&mut client, "question.asked");
    client.request("roo/command/stop", json!({ "taskId": task, "commandId": command }));
    until(&mut client, "command.ended", |_| true);
    let answer = json!({ "questionId": question["questionId"], "text": "My sister's" });
    client.request("roo/question/answer", answer);
    until_root(&mut client, "failed");
    recording.take(&client);
    assert_eq!(client.shut_down(), 0);
    recording.check(&home, "steering");
}

const SETTLED: &str = r#"
turns:
  - when: { contains: "Write a.txt" }
    calls: [{ tool: write_to_file, params: { path: a.txt, content: "one\n" } }]
  - when: { contains: "Write b.txt" }
    calls: [{ tool: write_to_file, params: { path: b.txt, content: "two\n" } }]
  - calls: [{ tool: attempt_completion, params: { result: It is written. } }]
  - calls: [{ tool: attempt_completion, params: { result: It is written. } }]
"#;

#[test]
fn a_request_in_which_a_rule_decides_is_told_as_recorded() {
    let home = Home::playing(SETTLED);
    home.configure(SETTINGS);
    let mut client = Client::start(&home, Options::typed());
    let task = client.start_task("Write a.txt");
    until_asked(&mut client, "approval.requested");
    // The rule is made in another request.
    let other = client.start_task("Write b.txt");
    decide(&mut client, "allow_always", None);
    client.wait_for("the ends of both", {
        let mut open = vec![task.clone(), other];
        move |message| {
            let params = &message["params"];
            let is_end = params["event"]["type"] == "tree.changed"
                && params["event"]["nodes"][0]["state"] == "completed";
            open.retain(|open| !(is_end && params["rootId"] == open.as_str()));
            open.is_empty()
        }
    });
    Recording::whole_events(&client, &task).check(&home, "settled");
    assert_eq!(client.shut_down(), 0);
}

const REWORKED: &str = r#"
turns:
  - text: I write the list.
    calls: [{ tool: write_to_file, params: { path: list.txt, content: "one\ntwo\n" } }]
  - calls: [{ tool: read_file, params: { path: a.txt } }]
  - calls: [{ tool: read_file, params: { path: b.txt } }]
  - calls: [{ tool: ask_followup_question, params: { question: "Go on?", follow_up: [{ text: "Yes" }] } }]
  - calls: [{ tool: ask_followup_question, params: { question: "And now?", follow_up: [{ text: "Yes" }] } }]
  - calls: [{ tool: ask_followup_question, params: { question: "Done?", follow_up: [{ text: "Yes" }] } }]
  - calls: [{ tool: attempt_completion, params: { result: There is a list. } }]
"#;

const SUMMARIES: &str = r#"
turns:
  - mode: condense
    text: A list was written.
    usage: { tokensIn: 100, tokensOut: 10 }
"#;

#[test]
fn a_request_that_is_shortened_and_restored_is_told_as_recorded() {
    let home = Home::playing(REWORKED);
    let (script, summaries) = (home.path("script.yaml"), home.path("summaries.yaml"));
    fs::write(&summaries, SUMMARIES).unwrap();
    let settings = json!({
        "autoApprove": { "write": true, "read": true }, "sandbox": { "level": "off" },
        "profiles": {
            "default": { "provider": "scripted", "script": script, "condense": { "profile": "short" } },
            "short": { "provider": "scripted", "script": summaries },
        },
    });
    // JSON is YAML.
    fs::write(home.config_file(), settings.to_string()).unwrap();
    for name in ["a.txt", "b.txt"] {
        fs::write(home.work(name), "A line of the file.\n".repeat(300)).unwrap();
    }
    let mut client = Client::start(&home, Options::typed());
    let task = client.start_task("Write a list");
    let answer = |client: &mut Client, question: &Value| {
        let answer = json!({ "questionId": question["questionId"], "text": "Yes" });
        client.request("roo/question/answer", answer);
    };
    let question = until_asked(&mut client, "question.asked");
    client.request("roo/context/condense", json!({ "taskId": task }));
    answer(&mut client, &question);
    let shortened = until(&mut client, "context.shortened", |_| true);
    let question = until_asked(&mut client, "question.asked");
    client.request("roo/context/restore", json!({ "taskId": task, "seq": shortened["seq"] }));
    answer(&mut client, &question);
    let question = until_asked(&mut client, "question.asked");
    answer(&mut client, &question);
    until_root(&mut client, "completed");
    let listed = client.request("roo/checkpoint/list", json!({ "taskId": task }));
    let restore = json!({ "taskId": task, "seq": listed["checkpoints"][0]["seq"], "what": "files" });
    client.request("roo/checkpoint/restore", restore);
    until(&mut client, "restore.finished", |_| true);
    Recording::whole_events(&client, &task).check(&home, "reworked");
    assert_eq!(client.shut_down(), 0);
}

const FORKED: &str = r#"
turns:
  - when: { contains: "another way" }
    text: Then otherwise.
    calls: [{ tool: attempt_completion, params: { result: Otherwise. } }]
  - calls: [{ tool: ask_followup_question, params: { question: "Which way?", follow_up: [{ text: "This one" }] } }]
"#;

#[test]
fn a_fork_is_told_as_recorded() {
    let home = Home::playing(FORKED);
    home.configure(SETTINGS);
    let mut client = Client::start(&home, Options::typed());
    let task = client.start_task("Find a way");
    until_asked(&mut client, "question.asked");
    let forked = client.request("roo/task/fork", json!({ "taskId": task }));
    let fork = forked["taskId"].as_str().unwrap().to_owned();
    assert_eq!(client.shut_down(), 0);

    // A client that comes later is told all of it.
    let mut client = Client::start(&home, Options::typed());
    client.request("roo/task/attach", json!({ "taskId": fork, "afterSeq": 0 }));
    client.request("roo/task/send", json!({ "taskId": fork, "text": "Go another way." }));
    until_root(&mut client, "completed");
    Recording::whole_events(&client, &fork).check(&home, "forked");
    assert_eq!(client.shut_down(), 0);
}
