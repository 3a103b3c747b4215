//! `roo-lsp mcp serve` as another program's agent meets it: the real program over its standard input and output, and over HTTP.

mod conformance;
mod http;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use crate::support::client::DEADLINE;
use crate::support::project::Project;

const DONE: &str = "  - calls: [{ tool: attempt_completion, params: { result: Done. } }]\n";
/// Asks its user for permission, as nothing allows to write.
const WRITES: &str = "turns:\n  - calls: [{ tool: write_to_file, params: { path: a.txt, content: x } }]\n";
const ASKS: &str = "turns:
  - calls: [{ tool: ask_followup_question, params: { question: Which one?, follow_up: [{ text: First }, { text: Second }] } }]
";

/// A trusted workspace whose model plays this script.
fn playing(script: &str) -> Project {
    let project = untrusted(script);
    project.succeed(&["trust"]);
    project
}

fn untrusted(script: &str) -> Project {
    let project = Project::new(&[]);
    let script = project.script(script);
    let profile = format!("profiles:\n  default: {{ provider: scripted, script: {} }}\n", script.display());
    project.configure(&format!("mode: code\n{profile}"));
    project
}

/// An agent's host: starts the server, and sees all that it says.
struct Caller {
    server: Child,
    input: Option<ChildStdin>,
    output: Receiver<Value>,
    /// Messages that nobody has waited for yet.
    unread: Vec<Value>,
    next: i64,
}

impl Caller {
    fn start(project: &Project, flags: &[&str]) -> Self {
        Self::start_with(project, flags, json!({}))
    }

    /// A client with these capabilities.
    fn start_with(project: &Project, flags: &[&str], capabilities: Value) -> Self {
        let mut command = project.program();
        command.args(["mcp", "serve"]).args(flags);
        let mut server =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let (sender, output) = channel();
        let lines = BufReader::new(server.stdout.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                // The test may be over.
                let _ = sender.send(serde_json::from_str(&line).unwrap());
            }
        });
        let input = server.stdin.take();
        let mut caller = Self { server, input, output, unread: vec![], next: 0 };
        let me = json!({ "name": "test-agent", "version": "1" });
        let params =
            json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": me });
        let answer = caller.request("initialize", params);
        assert_eq!(answer["result"]["serverInfo"]["name"], "roo-lsp");
        caller.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        caller
    }

    fn write(&mut self, message: &Value) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{message}").unwrap();
        input.flush().unwrap();
    }

    fn send(&mut self, method: &str, params: Value) -> i64 {
        self.next += 1;
        let id = self.next;
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    #[track_caller]
    fn wait_for(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        if let Some(place) = self.unread.iter().position(&is_it) {
            return self.unread.remove(place);
        }
        loop {
            let message = self.output.recv_timeout(DEADLINE).expect("the server says it");
            if is_it(&message) {
                return message;
            }
            self.unread.push(message);
        }
    }

    #[track_caller]
    fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.wait_for(|message| message["id"] == id && message.get("method").is_none())
    }

    /// Result of a call of a tool.
    #[track_caller]
    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].clone()
    }

    /// What a tool returned that did its work.
    #[track_caller]
    fn succeed(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], false, "{result}");
        result["structuredContent"].clone()
    }

    /// Text of a tool that did its work.
    #[track_caller]
    fn text(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], false, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Words of a tool that refused.
    #[track_caller]
    fn refused(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Starts a task, waits for it, and returns its status.
    #[track_caller]
    fn run(&mut self, prompt: &str) -> Value {
        let started = self.succeed("start_task", json!({ "prompt": prompt }));
        self.succeed("wait_for_task", json!({ "id": started["id"] }))
    }

    /// The client goes; the server ends in good order.
    fn leave(mut self) {
        drop(self.input.take());
        assert!(self.server.wait().unwrap().success());
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn what_needs_permission_waits_for_its_user_whatever_the_caller_says() {
    let project = playing(&format!("{WRITES}{DONE}"));
    let mut caller = Caller::start(&project, &[]);
    let waiting = caller.run("Write it.");
    assert_eq!(waiting["state"], "waits_for_user", "{waiting}");
    let asked = &waiting["waits_for"][0];
    assert_eq!((&asked["answered_by"], &asked["question_id"]), (&json!("user"), &Value::Null), "{asked}");
    assert!(asked["subject"].as_str().unwrap().contains("a.txt"), "{asked}");
    let id = waiting["id"].as_str().unwrap().to_owned();
    let resume = format!("tasks resume {id}");
    assert!(waiting["next"].as_str().unwrap().contains(&resume), "{waiting}");

    for words in ["yes", "allow_once", "allow_always"] {
        let refused = caller.refused("answer_task", json!({ "id": id, "text": words }));
        assert!(refused.contains("waits for its user"), "{refused}");
    }
    let refused = caller.refused("answer_task", json!({ "id": id, "text": "yes", "question_id": "x.a4" }));
    assert!(refused.contains("does not ask"), "{refused}");
    for tool in ["approve_task", "roo/approval/respond"] {
        let answer = caller.request("tools/call", json!({ "name": tool, "arguments": { "id": id } }));
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    assert_eq!(caller.succeed("task_status", json!({ "id": id }))["state"], "waits_for_user");
    assert!(!project.folder().join("a.txt").exists());

    // The user takes it over in a terminal while the server lives.
    project.succeed(&["tasks", "resume", &id, "--on-ask", "allow"]);
    let done = caller.succeed("wait_for_task", json!({ "id": id }));
    assert_eq!((&done["state"], &done["result"]), (&json!("completed"), &json!("Done.")), "{done}");
    assert_eq!(done["files_changed"], json!(["a.txt"]));
    assert_eq!(project.read("a.txt"), "x");
    caller.leave();
}

#[test]
fn a_request_comes_back_to_its_caller_once_its_user_has_answered() {
    let project = playing(&format!("{WRITES}{}{DONE}", ASKS.trim_start_matches("turns:\n")));
    let mut caller = Caller::start(&project, &[]);
    let waiting = caller.run("Write it, then ask.");
    assert_eq!(waiting["state"], "waits_for_user", "{waiting}");
    let id = waiting["id"].as_str().unwrap().to_owned();
    let resumed = project.run(&["tasks", "resume", &id, "--on-ask", "allow"]);
    assert_eq!(resumed.status.code(), Some(3), "nobody answers the model's question there: {resumed:?}");
    assert_eq!(caller.succeed("task_status", json!({ "id": id }))["state"], "waits_for_answer");
    caller.succeed("answer_task", json!({ "id": id, "text": "First" }));
    assert_eq!(caller.succeed("wait_for_task", json!({ "id": id }))["state"], "completed");
    caller.leave();
}

#[test]
fn a_caller_fetches_nothing_by_mentions_that_its_user_would_be_asked_about() {
    let project = playing(&format!("turns:\n{DONE}{DONE}"));
    project.write("a.txt", "x");
    let mut caller = Caller::start(&project, &[]);
    assert_eq!(caller.run("Read @a.txt and @git-changes.")["state"], "completed");
    caller.leave();
    let settings = std::fs::read_to_string(project.beside("config/roo-lsp/config.yaml")).unwrap();
    project.configure(&format!("{settings}autoApprove: {{ read: false }}\n"));
    let mut caller = Caller::start(&project, &[]);
    for mention in ["@a.txt", "@git-changes", "@problems", "@0123456"] {
        let refused = caller.refused("start_task", json!({ "prompt": format!("Read {mention}.") }));
        assert!(refused.contains(&format!("the message names {mention}")), "{refused}");
    }
    assert_eq!(caller.run("Ask user@example.com.")["state"], "completed");
    caller.leave();
}

#[test]
fn flags_of_the_command_line_answer_where_the_user_wants_that() {
    let project = playing(&format!("{WRITES}{DONE}{}{DONE}", WRITES.trim_start_matches("turns:\n")));
    for (flag, written) in [("deny", ""), ("allow", "x")] {
        let project = playing(&format!("{WRITES}{DONE}"));
        let mut caller = Caller::start(&project, &["--on-ask", flag]);
        assert_eq!(caller.run("Write it.")["state"], "completed");
        assert_eq!(project.read("a.txt"), written, "--on-ask {flag}");
        caller.leave();
    }
    let mut caller = Caller::start(&project, &["--allow-write"]);
    assert_eq!(caller.run("Write it.")["state"], "completed");
    caller.leave();
}

#[test]
fn a_caller_answers_questions_follows_the_work_and_tells_more() {
    let project = playing(&format!(
        "{ASKS}  - when: {{ contains: Second }}\n    calls: [{{ tool: attempt_completion, params: {{ result: Took it. }} }}]\n  \
         - when: {{ contains: And now the rest }}\n    calls: [{{ tool: attempt_completion, params: {{ result: All. }} }}]\n"
    ));
    let mut caller = Caller::start(&project, &[]);
    let started = caller.succeed("start_task", json!({ "prompt": "Choose.", "mode": "code" }));
    let id = started["id"].clone();
    let wait =
        json!({ "name": "wait_for_task", "arguments": { "id": id }, "_meta": { "progressToken": "p" } });
    let waited = caller.request("tools/call", wait)["result"]["structuredContent"].clone();
    assert_eq!(waited["state"], "waits_for_answer", "{waited}");
    let asked = &waited["waits_for"][0];
    assert_eq!(asked["answered_by"], "you");
    assert_eq!((&asked["text"], &asked["suggestions"]), (&json!("Which one?"), &json!(["First", "Second"])));
    let answer = json!({ "id": id, "text": "Second", "question_id": asked["question_id"] });
    caller.succeed("answer_task", answer.clone());
    let done = caller.succeed("wait_for_task", json!({ "id": id }));
    assert_eq!((&done["state"], &done["result"]), (&json!("completed"), &json!("Took it.")));
    assert!(caller.refused("answer_task", answer).contains("does not ask"));
    caller.succeed("answer_task", json!({ "id": id, "text": "And now the rest" }));
    assert_eq!(caller.succeed("wait_for_task", json!({ "id": id }))["result"], "All.");
    caller.leave();
}

/// A question of the model, and then one about permission.
fn asks_twice() -> Project {
    playing(&format!(
        "{ASKS}  - when: {{ contains: Second }}\n    calls: [{{ tool: write_to_file, params: {{ path: a.txt, content: x }} }}]\n{DONE}"
    ))
}

#[test]
fn a_clients_user_is_asked_the_models_questions_where_that_is_wanted_and_never_for_permission() {
    let project = asks_twice();
    let mut caller = Caller::start_with(&project, &["--elicit-questions"], json!({ "elicitation": {} }));
    let id = caller.succeed("start_task", json!({ "prompt": "Choose." }))["id"].clone();
    let wait = json!({ "name": "wait_for_task", "arguments": { "id": id } });
    let waiting = caller.send("tools/call", wait);
    let asked = caller.wait_for(|message| message["method"] == "elicitation/create");
    assert_eq!(asked["params"]["message"], "The task \"Choose.\" asks: Which one?");
    let field = &asked["params"]["requestedSchema"]["properties"]["answer"];
    assert_eq!(field["description"], "Suggested: First; Second. Any other text will do too.", "{asked}");
    let answer = json!({ "action": "accept", "content": { "answer": "Second" } });
    caller.write(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": answer }));
    let waited = caller.wait_for(|message| message["id"] == waiting && message.get("method").is_none());
    let status = &waited["result"]["structuredContent"];
    assert_eq!(status["state"], "waits_for_user", "{waited}");
    assert_eq!(status["waits_for"][0]["answered_by"], "user");
    assert!(caller.unread.iter().all(|message| message["method"] != "elicitation/create"));
    assert!(!project.folder().join("a.txt").exists());
    caller.leave();
}

#[test]
fn a_question_that_a_clients_user_does_not_answer_stays_the_callers() {
    let project = asks_twice();
    let mut caller =
        Caller::start_with(&project, &["--elicit-questions"], json!({ "elicitation": { "form": {} } }));
    let id = caller.succeed("start_task", json!({ "prompt": "Choose." }))["id"].clone();
    let wait = json!({ "name": "wait_for_task", "arguments": { "id": id } });
    for answer in [
        json!({ "action": "decline" }),
        json!({ "action": "accept", "content": { "answer": "@db:notes://a" } }),
    ] {
        let waiting = caller.send("tools/call", wait.clone());
        let asked = caller.wait_for(|message| message["method"] == "elicitation/create");
        caller.write(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": answer }));
        let waited = caller.wait_for(|message| message["id"] == waiting && message.get("method").is_none());
        assert_eq!(waited["result"]["structuredContent"]["state"], "waits_for_answer", "{waited}");
    }
    let waiting = caller.send("tools/call", wait);
    let asked = caller.wait_for(|message| message["method"] == "elicitation/create");
    let stop = json!({ "requestId": waiting, "reason": "enough" });
    caller.write(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": stop }));
    let told = caller.wait_for(|message| message["method"] == "notifications/cancelled");
    assert_eq!(told["params"]["requestId"], asked["id"]);
    caller.leave();

    // Without the flag, or without a client that can, the caller alone is asked.
    for (flags, capabilities) in
        [(&[][..], json!({ "elicitation": {} })), (&["--elicit-questions"][..], json!({}))]
    {
        let mut caller = Caller::start_with(&project, flags, capabilities);
        assert_eq!(caller.run("Choose.")["state"], "waits_for_answer");
        caller.leave();
    }
}

#[test]
fn a_waiting_caller_is_told_of_progress_and_can_stop_waiting() {
    let slow = "turns:\n  - text: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n    chunk: 1\n    delayMs: 60000\n";
    let project = playing(&format!(
        "turns:\n  - calls: [{{ tool: list_files, params: {{ path: . }} }}]\n{}",
        slow.trim_start_matches("turns:\n")
    ));
    let mut caller = Caller::start(&project, &[]);
    let id = caller.succeed("start_task", json!({ "prompt": "Look." }))["id"].clone();
    let wait = json!({ "name": "wait_for_task", "arguments": { "id": id }, "_meta": { "progressToken": 7 } });
    let waiting = caller.send("tools/call", wait);
    let progress = caller.wait_for(|message| message["method"] == "notifications/progress");
    assert_eq!(progress["params"]["progressToken"], 7, "{progress}");
    let stop = json!({ "requestId": waiting, "reason": "enough" });
    caller.write(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": stop }));
    let status = caller.succeed("task_status", json!({ "id": id }));
    assert_eq!(status["state"], "working", "the task goes on: {status}");
    assert!(caller.unread.iter().all(|message| message["id"] != waiting), "who cancels wants no answer");
    // Its time is over before the task's.
    let waited = caller.succeed("wait_for_task", json!({ "id": id, "timeout_s": 0 }));
    assert_eq!(waited["state"], "working");

    assert_eq!(caller.succeed("cancel_task", json!({ "id": id }))["state"], "cancelled");
    assert_eq!(caller.succeed("cancel_task", json!({ "id": id }))["state"], "cancelled");
    caller.leave();
}

#[test]
fn sixteen_tasks_work_at_once_however_many_are_started_together() {
    let slow = "turns:\n".to_owned() + &"  - { text: Working., delayMs: 600000 }\n".repeat(20);
    let project = playing(&slow);
    let mut caller = Caller::start(&project, &[]);
    let start = json!({ "name": "start_task", "arguments": { "prompt": "Work." } });
    let calls: Vec<i64> = (0..20).map(|_| caller.send("tools/call", start.clone())).collect();
    let (mut started, mut refused) = (vec![], 0);
    for call in calls {
        let answer = caller.wait_for(|message| message["id"] == call && message.get("method").is_none());
        let result = &answer["result"];
        match result["isError"].as_bool() {
            Some(false) => started.push(result["structuredContent"]["id"].as_str().unwrap().to_owned()),
            _ => {
                let words = result["content"][0]["text"].as_str().unwrap();
                assert!(words.contains("16 tasks are at work already"), "{words}");
                refused += 1;
            }
        }
    }
    assert_eq!((started.len(), refused), (16, 4));
    for id in started.drain(..3) {
        caller.succeed("cancel_task", json!({ "id": id }));
        // Its place is free at once.
        caller.succeed("start_task", json!({ "prompt": "Work." }));
    }
    caller.leave();
}

#[test]
fn requests_of_others_are_read_and_not_steered() {
    let project = playing(&format!("{ASKS}{DONE}"));
    assert_eq!(project.run(&["run", "Mine."]).status.code(), Some(3));
    let mut caller = Caller::start(&project, &[]);
    let listed = caller.succeed("list_tasks", json!({}));
    let id = listed["tasks"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!((&listed["tasks"][0]["title"], &listed["older"]), (&json!("Mine."), &json!(0)));
    assert_eq!(caller.succeed("task_status", json!({ "id": id }))["state"], "waits_for_answer");
    assert!(caller.text("read_task", json!({ "id": id })).contains("Which one?"));
    for (tool, arguments) in
        [("answer_task", json!({ "id": id, "text": "First" })), ("cancel_task", json!({ "id": id }))]
    {
        let refused = caller.refused(tool, arguments);
        assert!(refused.contains("was not started by this server"), "{refused}");
    }
    caller.leave();
}

#[test]
fn what_can_not_be_done_is_said_in_words() {
    let project = untrusted(&format!("turns:\n{DONE}"));
    let mut caller = Caller::start(&project, &[]);
    let refused = caller.refused("start_task", json!({ "prompt": "Go." }));
    assert!(refused.contains("is not trusted") && refused.contains(" trust"), "{refused}");
    project.succeed(&["trust"]);
    for (tool, arguments, words) in [
        ("start_task", json!({ "prompt": "Go.", "mode": "nobody" }), "nobody"),
        (
            "start_task",
            json!({ "prompt": "Go.", "profile": "nothing" }),
            "there is no model profile 'nothing'",
        ),
        ("start_task", json!({ "prompt": " " }), "the prompt is empty"),
        ("start_task", json!({}), "missing field `prompt`"),
        ("start_task", json!({ "prompt": "Go.", "approve": true }), "unknown field `approve`"),
        ("start_task", json!({ "prompt": "/files:delete now" }), "only its user may fetch"),
        ("task_status", json!({ "id": "20200101" }), "no task of this workspace is named '20200101'"),
        ("wait_for_task", json!({ "id": "20200101" }), "no task of this workspace is named '20200101'"),
        ("read_task", json!({ "id": "../x" }), "no task of this workspace is named ''"),
        ("query_trace", json!({ "since": "yesterday" }), "since: expected 2026-11-20"),
        ("query_trace", json!({ "blame": "../config/roo-lsp/config.yaml" }), "can't be named"),
    ] {
        let refused = caller.refused(tool, arguments);
        assert!(refused.contains(words), "{refused}");
    }
    let missing = caller.request("resources/read", json!({ "uri": "roo://task/20200101" }));
    assert!(missing["error"]["message"].as_str().unwrap().contains("roo://task/20200101"), "{missing}");
    assert_eq!(caller.run("Go.")["state"], "completed", "trust counts from then on");
    caller.leave();
}

#[test]
fn documents_events_and_the_trace_are_read_page_by_page_and_without_secrets() {
    let secret = format!("ghp_{}", "a1B2c3D4e5".repeat(4).get(..36).unwrap());
    let long = "line of text. ".repeat(4000);
    // One with what JSON escapes, and one where a long result is cut.
    let quoted = r#"qu"ote\1234567-secret"#;
    let fill = "x".repeat((16 << 10) - 20);
    let project = playing(&format!(
        "{WRITES}  - text: 'I found {secret} and {quoted}. {long}'\n    calls: [{{ tool: attempt_completion, params: {{ result: '{fill} {secret}' }} }}]\n"
    ));
    project.write(".env", &format!("PASSWORD='{quoted}'\n"));
    let mut caller = Caller::start(&project, &["--allow-write"]);
    let done = caller.run("Write it.");
    assert_eq!(done["state"], "completed", "{done}");
    assert!(!done.to_string().contains(&secret[..8]), "{done}");
    let id = done["id"].as_str().unwrap().to_owned();

    let first = caller.text("read_task", json!({ "id": id }));
    assert!(first.contains("# Write it.") && !first.contains(&secret), "{first}");
    let offset: usize = first.rsplit_once("with offset ").unwrap().1.trim_end_matches(')').parse().unwrap();
    let second = caller.text("read_task", json!({ "id": id, "offset": offset }));
    assert!(second.contains("## Result") && !second.contains(&secret), "{second}");

    let resources = caller.request("resources/list", json!({}));
    let uri = format!("roo://task/{id}");
    assert_eq!(resources["result"]["resources"][0]["uri"], uri);
    let document = caller.request("resources/read", json!({ "uri": uri }));
    assert!(document["result"]["contents"][0]["text"].as_str().unwrap().starts_with("# Write it."));
    let events = caller.request("resources/read", json!({ "uri": format!("{uri}/events") }));
    let lines = events["result"]["contents"][0]["text"].as_str().unwrap();
    let events: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events[0]["event"]["type"], "task.created");
    assert!(!lines.contains(&secret));
    let said = events.iter().find(|event| {
        event["event"]["message"]["text"].as_str().is_some_and(|text| text.starts_with("I found"))
    });
    assert!(!said.unwrap().to_string().contains("1234567-secret"));

    let records = caller.text("query_trace", json!({ "task": id, "outcome": "ok" }));
    assert!(records.contains("a.txt"), "{records}");
    let blamed = caller.text("query_trace", json!({ "blame": "a.txt" }));
    assert!(blamed.starts_with("line 1: ") && blamed.contains(&id), "{blamed}");
    let none = caller.text("query_trace", json!({ "mode": "ask" }));
    assert!(none.contains("no such records"), "{none}");
    caller.leave();
}

#[test]
fn tools_are_few_and_described_with_schemas() {
    let project = untrusted("turns: []\n");
    let mut caller = Caller::start(&project, &[]);
    let listed = caller.request("tools/list", json!({}))["result"]["tools"].clone();
    let tools: Vec<String> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| {
            let required = tool["inputSchema"]["required"].as_array().cloned().unwrap_or_default();
            let required: Vec<&str> = required.iter().map(|name| name.as_str().unwrap()).collect();
            let reads = if tool["annotations"]["readOnlyHint"] == true { "reads" } else { "acts" };
            format!("{}({}) {reads}", tool["name"].as_str().unwrap(), required.join(", "))
        })
        .collect();
    insta::assert_snapshot!(tools.join("\n"), @"
    start_task(prompt) acts
    wait_for_task(id) reads
    task_status(id) reads
    answer_task(id, text) acts
    cancel_task(id) acts
    list_tasks() reads
    read_task(id) reads
    query_trace() reads
    ");
    assert!(listed.to_string().len() < 16_000, "a caller's model reads all of it");
    caller.leave();
}
