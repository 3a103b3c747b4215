//! Tasks that are longer than their model's window: what the endpoint gets, and what of it can be undone.

use std::collections::HashSet;
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::measured::endpoint::{Endpoint, Request};
use crate::support::client::{Client, Home, Options};
use crate::support::model_server::{base_url, body};
use crate::support::project::Project;

/// The window of the endpoint, in tokens.
const WINDOW: u64 = 32_000;
/// Tokens that an answer may have.
const ANSWER: u64 = 2_000;

/// Tokens of a request, by a rule that no rate of bytes can match: words, numbers and signs count by themselves.
fn tokens(body: &[u8]) -> u64 {
    let (mut tokens, mut run) = (0, 0_u64);
    let mut kind = 0;
    for byte in body {
        let now = if byte.is_ascii_alphabetic() { 6 } else { u64::from(byte.is_ascii_digit()) * 3 };
        if now == 0 || now != kind {
            tokens += run.div_ceil(kind.max(1));
            run = 0;
        }
        tokens += u64::from(now == 0 && !byte.is_ascii_whitespace());
        run += u64::from(now > 0);
        kind = now;
    }
    tokens + run.div_ceil(kind.max(1))
}

/// The program at work on one task, and its endpoint.
struct Work {
    project: Project,
    endpoint: Endpoint,
    provider: &'static str,
    protocol: &'static str,
    /// The window of its model, in tokens.
    window: u64,
    /// Requests that were refused as too long.
    refused: usize,
    /// Requests for a summary.
    summaries: usize,
    /// The newest of them.
    summary_request: String,
    /// Tokens of each request that was taken, but for those for summaries.
    sizes: Vec<u64>,
}

impl Work {
    /// A project whose profile has more settings.
    fn new(provider: &'static str, protocol: &'static str, more: &Value) -> Self {
        let endpoint = Endpoint::start().unwrap();
        let project = Project::new(&[]);
        let mut profile = json!({
            "provider": provider, "baseUrl": base_url(provider, &endpoint.url()), "model": "m",
            "toolProtocol": protocol, "apiKeyCommand": ["echo", "key"],
        });
        profile.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let settings = json!({
            "mode": "code", "profiles": { "default": profile }, "autoApprove": { "write": true },
            "limits": { "requests": 10_000 },
        });
        // JSON is YAML.
        project.configure(&settings.to_string());
        Self {
            project,
            endpoint,
            provider,
            protocol,
            window: WINDOW,
            refused: 0,
            summaries: 0,
            summary_request: String::new(),
            sizes: vec![],
        }
    }

    fn start(&self, arguments: &[&str]) -> Child {
        self.project.program().args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// The next request that the window of its model has room for.
    fn fitting(&mut self) -> (Request, Value) {
        let window = self.window;
        self.request(|body| tokens(body) + ANSWER > window)
    }

    /// The next request; those that a bound refuses don't count.
    fn request(&mut self, is_too_long: impl Fn(&[u8]) -> bool) -> (Request, Value) {
        loop {
            let request = self.endpoint.request().unwrap();
            let asked: Value = serde_json::from_slice(&request.body).unwrap();
            check_sequence(&asked);
            if is_too_long(&request.body) {
                self.refused += 1;
                let error = json!({ "type": "invalid_request_error", "code": "context_length_exceeded", "message": "prompt is too long" });
                respond(
                    &request,
                    400,
                    "application/json",
                    &json!({ "type": "error", "error": error }).to_string(),
                );
                continue;
            }
            return (request, asked);
        }
    }

    /// Answers with a text and calls, and says how many tokens the request had.
    fn answer(&self, request: &Request, text: &str, calls: &[(&str, Value)]) {
        let count = tokens(&request.body);
        let answer = body(self.provider, self.protocol, text, calls)
            .replace("\"input_tokens\":10,", &format!("\"input_tokens\":{},", count - 50))
            .replace("\"prompt_tokens\":100,", &format!("\"prompt_tokens\":{count},"));
        respond(request, 200, "text/event-stream", &answer);
    }

    /// Answers a request for a summary; returns whether it was one.
    fn summarise(&mut self, request: &Request, summary: &str) -> bool {
        let asks =
            String::from_utf8_lossy(&request.body).contains("You summarise the work of a coding agent");
        if asks {
            self.summaries += 1;
            self.summary_request = String::from_utf8_lossy(&request.body).into_owned();
            self.answer(request, summary, &[]);
        }
        asks
    }

    /// Lets the model make a call in each of so many turns, in a window of tokens.
    fn turns(&mut self, count: usize, call: impl Fn(usize) -> (String, &'static str, Value)) {
        let mut turn = 0;
        while turn < count {
            let (request, _) = self.fitting();
            if self.summarise(&request, &format!("The files up to {turn} are read. Next: read on.")) {
                continue;
            }
            self.sizes.push(tokens(&request.body));
            let (text, name, params) = call(turn);
            self.answer(&request, &text, &[(name, params)]);
            turn += 1;
        }
    }

    /// Lets the model complete the task. Returns its last request.
    fn complete(&mut self, mut program: Child) -> Value {
        loop {
            let (request, asked) = self.fitting();
            if !self.summarise(&request, "All is read.") {
                self.answer(&request, "", &[("attempt_completion", json!({ "result": "Done." }))]);
                assert!(program.wait().unwrap().success());
                return asked;
            }
        }
    }
}

fn respond(request: &Request, status: u16, kind: &str, body: &str) {
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status} Status\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n");
    request.answer((head + body).as_bytes()).unwrap();
}

/// Checks that user and assistant take turns, and that each call has its one result right behind it.
fn check_sequence(request: &Value) {
    let mut open: HashSet<String> = HashSet::new();
    let mut last = String::new();
    for message in request["messages"].as_array().unwrap() {
        let role = message["role"].as_str().unwrap().to_owned();
        assert!(role != last || role == "tool" || last == "system", "{role} twice in a row");
        let blocks = message["content"].as_array().cloned().unwrap_or_default();
        let given = blocks.iter().filter_map(|block| block["tool_use_id"].as_str());
        let given: Vec<&str> = given.chain(message["tool_call_id"].as_str()).collect();
        for id in given {
            assert!(open.remove(id), "a result without its call: {id}");
        }
        if role == "assistant" {
            assert!(open.is_empty(), "calls without results: {open:?}");
            let calls = blocks.iter().filter(|block| block["type"] == "tool_use");
            let calls = calls.chain(message["tool_calls"].as_array().into_iter().flatten());
            open.extend(calls.map(|call| call["id"].as_str().unwrap().to_owned()));
        }
        last = role;
    }
    assert!(open.is_empty(), "calls without results: {open:?}");
}

/// Lines as code has them, different in each file.
fn source(number: usize, bytes: usize) -> String {
    let mut text = String::new();
    for line in 0.. {
        if text.len() >= bytes {
            break;
        }
        text += &format!("    let value_{number}_{line} = list[{line}] < limit && \"a\\tb\" != name;\n");
    }
    text
}

fn average(sizes: &[u64]) -> u64 {
    sizes.iter().sum::<u64>() / sizes.len() as u64
}

#[test]
fn a_task_of_four_hundred_turns_is_never_too_long_for_its_window() {
    let more = json!({ "contextWindow": WINDOW, "maxTokens": ANSWER });
    let mut work = Work::new("anthropic", "native", &more);
    for number in 0..40 {
        work.project.write(&format!("file_{number}.rs"), &source(number, 5_000));
    }
    let program = work.start(&["run", "Read all files. The magic word is heron-42; never forget it."]);
    work.turns(400, |turn| {
        let text = format!("Now file {turn}. {}", "I look at what it does. ".repeat(turn % 17));
        (text, "read_file", json!({ "path": format!("file_{}.rs", turn % 40) }))
    });
    let last = work.complete(program).to_string();
    assert_eq!(work.refused, 0, "of {} requests", work.sizes.len());
    assert!(last.contains("heron-42") && last.contains("conversation_summary"));
    assert!(
        work.summary_request.contains("## The user said\\n<user_message>\\nRead all files. The magic word")
    );
    assert!(work.summaries > 0 && work.summaries < 40, "{} summaries", work.summaries);
    let (early, late) = (average(&work.sizes[100..200]), average(&work.sizes[300..]));
    assert!(late * 10 < early * 12 && early * 10 < late * 12, "a turn costs {early}, then {late} tokens");
}

#[test]
fn calls_as_text_fit_the_window_too() {
    let more = json!({ "contextWindow": WINDOW, "maxTokens": ANSWER, "condense": "off" });
    let mut work = Work::new("openai", "xml", &more);
    for number in 0..10 {
        work.project.write(&format!("file_{number}.rs"), &source(number, 5_000));
    }
    let program = work.start(&["run", "Read all files. The magic word is heron-42."]);
    work.turns(120, |turn| {
        let text = format!("Now file {turn}. {}", "I look at what it does. ".repeat(40));
        (text, "read_file", json!({ "path": format!("file_{}.rs", turn % 10) }))
    });
    let last = work.complete(program).to_string();
    assert_eq!((work.refused, work.summaries), (0, 0));
    assert!(last.contains("heron-42") && last.contains("- read_file 'file_"), "{last}");
}

#[test]
fn in_a_small_window_every_result_is_sent_before_it_is_left_out() {
    const WINDOW: u64 = 11_000;
    let more = json!({ "contextWindow": WINDOW, "maxTokens": ANSWER, "condense": "off" });
    let mut work = Work::new("openai", "xml", &more);
    work.window = WINDOW;
    for number in 0..10 {
        work.project.write(&format!("file_{number}.rs"), &source(number, 5_000));
    }
    let program = work.start(&["run", "Read all files. The magic word is heron-42."]);
    for turn in 0..60 {
        let (request, asked) = work.fitting();
        let newest = asked["messages"].as_array().unwrap().last().unwrap()["content"].to_string();
        if let Some(before) = usize::checked_sub(turn, 1) {
            let begin = format!("let value_{}_0 = list[0]", before % 10);
            assert!(newest.contains(&begin), "turn {turn}: {newest}");
        }
        let read = ("read_file", json!({ "path": format!("file_{}.rs", turn % 10) }));
        work.answer(&request, "Now the next one.", &[read]);
    }
    let last = work.complete(program).to_string();
    assert_eq!(work.refused, 0);
    assert!(last.contains("heron-42"));
}

#[test]
fn instructions_that_fill_the_window_are_a_question_and_no_request() {
    let more = json!({ "contextWindow": 3_000, "maxTokens": 1_000 });
    let work = Work::new("openai", "xml", &more);
    let output = work.project.run(&["run", "--on-ask", "deny", "Read all files."]);
    assert!(!output.status.success());
    let told =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("too many for the model's window of 3000 tokens"), "{told}");
    let output = work.project.run(&["doctor", "--offline"]);
    let report = String::from_utf8(output.stdout).unwrap();
    assert!(
        report.contains("FAIL window of default: the system prompt and the tools of the mode"),
        "{report}"
    );
}

#[test]
fn a_mentioned_file_that_is_larger_than_the_window_is_cut() {
    let more = json!({ "contextWindow": WINDOW, "maxTokens": ANSWER });
    let mut work = Work::new("openai", "xml", &more);
    work.project.write("big.txt", &"A line of a log file, as there are many.\n".repeat(3_700));
    let program = work.start(&["run", "See @/big.txt."]);
    let asked = work.complete(program).to_string();
    assert_eq!(work.refused, 0);
    assert!(
        asked.contains("A line of a log file") && asked.contains("To go on, read the line_range"),
        "{asked}"
    );
}

#[test]
fn the_files_of_the_workspace_stay_in_the_conversation() {
    for provider in ["openai", "anthropic"] {
        let mut work = Work::new(provider, "native", &json!({}));
        work.project.write("heron.txt", "A bird.\n");
        let has_files = |asked: &Value| {
            let asked = asked.to_string();
            assert_eq!(asked.matches("# Workspace Files").count(), 1, "{asked}");
            assert!(asked.contains("── heron.txt"), "{asked}");
        };
        let program = work.start(&["run", "Look around."]);
        let (request, asked) = work.fitting();
        has_files(&asked);
        respond(&request, 503, "application/json", r#"{"error":{"message":"overloaded"}}"#);
        for _ in 0..2 {
            let (request, asked) = work.fitting();
            has_files(&asked);
            work.answer(&request, "", &[("read_file", json!({ "path": "heron.txt" }))]);
        }
        has_files(&work.complete(program));
    }
}

#[test]
fn images_that_the_endpoint_refuses_are_left_out() {
    for (provider, protocol) in [("openai", "native"), ("openai", "xml"), ("anthropic", "native")] {
        let mut work = Work::new(provider, protocol, &json!({}));
        std::fs::write(work.project.folder().join("p.png"), b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR a red fox")
            .unwrap();
        let program = work.start(&["run", "See p.png."]);
        let (request, _) = work.fitting();
        work.answer(&request, "", &[("read_file", json!({ "path": "p.png" }))]);
        let (request, asked) = work.fitting();
        assert!(asked.to_string().contains("base64"), "{asked}");
        let error = json!({ "error": { "message": "This model does not support image input" } });
        respond(&request, 400, "application/json", &error.to_string());
        let (request, asked) = work.fitting();
        let body = asked.to_string();
        assert!(
            !body.contains("base64") && body.contains("An image is left out: this model takes no images")
        );
        work.answer(&request, "", &[("read_file", json!({ "path": "p.png" }))]);
        assert!(!work.complete(program).to_string().contains("base64"), "it is remembered");
    }
}

#[test]
fn a_summary_is_asked_for_again_and_of_another_model_before_turns_become_a_list() {
    let more = json!({ "contextWindow": WINDOW, "maxTokens": ANSWER, "condense": { "profile": "cheap" } });
    let mut work = Work::new("anthropic", "native", &more);
    let own = json!({
        "provider": "anthropic", "baseUrl": base_url("anthropic", &work.endpoint.url()), "model": "own",
        "contextWindow": WINDOW, "maxTokens": ANSWER, "condense": { "profile": "cheap" },
        "apiKeyCommand": ["echo", "key"],
    });
    let mut cheap = own.clone();
    (cheap["model"], cheap["condense"]) = ("cheap".into(), "off".into());
    let settings = json!({
        "mode": "code", "profiles": { "default": own, "cheap": cheap }, "autoApprove": { "write": true },
    });
    // JSON is YAML.
    work.project.configure(&settings.to_string());
    for turn in 0..100 {
        work.project.write(&format!("{turn}.txt"), "A short file.\n");
    }
    let program = work.start(&["run", "Think."]);
    let mut asked_for_a_summary = vec![];
    for turn in 0..100 {
        let (request, asked) = work.fitting();
        if !String::from_utf8_lossy(&request.body).contains("You summarise the work of a coding agent") {
            let text = format!("{turn}. {}", "I think about it. ".repeat(150));
            let read = ("read_file", json!({ "path": format!("{turn}.txt") }));
            work.answer(&request, &text, &[read]);
            continue;
        }
        asked_for_a_summary.push(asked["model"].as_str().unwrap().to_owned());
        let (status, kind) = match asked_for_a_summary.len() {
            1 => (404, "not_found_error"),
            2 => (529, "overloaded_error"),
            _ => {
                work.answer(&request, "It was thought about.", &[]);
                break;
            }
        };
        let error = json!({ "type": "error", "error": { "type": kind, "message": "Not now." } });
        respond(&request, status, "application/json", &error.to_string());
    }
    assert_eq!(asked_for_a_summary, ["cheap", "own", "own"]);
    let last = work.complete(program).to_string();
    assert!(last.contains("It was thought about."), "{last}");
}

#[test]
fn large_writes_go_through_at_an_endpoint_whose_window_nobody_knows() {
    const MAX_BYTES: usize = 120_000;
    let mut work = Work::new("anthropic", "native", &json!({}));
    let mut program = work.start(&["run", "Write it."]);
    let mut written = 0;
    loop {
        let (request, _) = work.request(|body| body.len() > MAX_BYTES);
        if work.summarise(&request, "Files are written.") {
            continue;
        }
        if written == 10 {
            work.answer(&request, "", &[("attempt_completion", json!({ "result": "Done." }))]);
            break;
        }
        let params = json!({ "path": format!("new_{written}.rs"), "content": source(written, 15_000) });
        work.answer(&request, "", &[("write_to_file", params)]);
        written += 1;
    }
    assert!(program.wait().unwrap().success());
    assert!(work.refused <= 2, "{} requests were refused", work.refused);
    assert_eq!(work.project.read("new_9.rs"), source(9, 15_000));
}

#[test]
fn a_task_that_is_killed_while_it_is_summarised_goes_on_with_a_summary() {
    let more = json!({ "contextWindow": WINDOW, "maxTokens": ANSWER });
    let mut work = Work::new("anthropic", "native", &more);
    for turn in 0..100 {
        work.project.write(&format!("{turn}.txt"), "A short file.\n");
    }
    let mut program = work.start(&["run", "Think. The magic word is heron-42."]);
    let mut turn = 0;
    loop {
        let (request, _) = work.fitting();
        if String::from_utf8_lossy(&request.body).contains("You summarise the work of a coding agent") {
            break;
        }
        let text = format!("{turn}. {}", "I think about it. ".repeat(150));
        work.answer(&request, &text, &[("read_file", json!({ "path": format!("{turn}.txt") }))]);
        turn += 1;
        assert!(turn < 100, "no summary is asked for");
    }
    program.kill().unwrap();
    program.wait().unwrap();
    let log = work.project.logs().remove(0);
    let task = log.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let resumed = work.start(&["tasks", "resume", &task]);
    let (request, _) = work.fitting();
    assert!(work.summarise(&request, "It was thought about."), "the summary is asked for again");
    let last = work.complete(resumed).to_string();
    assert!(last.contains("It was thought about.") && last.contains("heron-42"), "{last}");
    assert_eq!(work.refused, 0);
}

const SUMMARY: &str = r#"turns:
  - mode: condense
    when: { contains: "Read both." }
    text: Two files were read.
    usage: { tokensIn: 1000, tokensOut: 100, costUsd: 0.002 }
"#;

const SCRIPT: &str = r#"turns:
  - calls: [{ tool: read_file, params: { path: a.txt } }]
  - calls: [{ tool: read_file, params: { path: b.txt } }]
  - calls: [{ tool: ask_followup_question, params: { question: "Go on?", follow_up: [{ text: "Yes" }] } }]
  - calls: [{ tool: ask_followup_question, params: { question: "And now?", follow_up: [{ text: "Yes" }] } }]
  - calls: [{ tool: ask_followup_question, params: { question: "Done?", follow_up: [{ text: "Yes" }] } }]
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;

#[test]
fn a_summary_that_the_user_asked_for_can_be_undone() {
    let home = Home::playing(SCRIPT);
    let (script, summary) = (home.path("script.yaml"), home.path("summary.yaml"));
    std::fs::write(&summary, SUMMARY).unwrap();
    let profiles = json!({ "profiles": {
        "default": { "provider": "scripted", "script": script, "condense": { "profile": "cheap" } },
        "cheap": { "provider": "scripted", "script": summary },
    }});
    // JSON is YAML.
    std::fs::write(home.config_file(), profiles.to_string()).unwrap();
    for name in ["a.txt", "b.txt"] {
        std::fs::write(home.work(name), "A line of the file.\n".repeat(300)).unwrap();
    }
    let mut client = Client::start(&home, Options::typed());
    let task = client.start_task("Read both.");
    let answer = |client: &mut Client, question: Value| {
        let question = question["event"]["questionId"].clone();
        client.request("roo/question/answer", json!({ "questionId": question, "text": "Yes" }));
    };
    let asked = client.event("question.asked");
    let used = |client: &mut Client| {
        client.request("roo/task/get", json!({ "taskId": task }))["context"]["used"].as_u64().unwrap()
    };
    let before = used(&mut client);
    client.request("roo/task/send", json!({ "taskId": task, "text": "/condense" }));
    answer(&mut client, asked);
    let shortened = client.event("context.shortened");
    assert_eq!(shortened["event"]["method"], "summary");
    assert_eq!(shortened["event"]["summary"], "Two files were read.");
    let cost = shortened["event"]["costUsd"].as_f64().unwrap();
    assert!((cost - 0.002).abs() < 1e-9, "what the other model wrote costs {cost}");
    let asked = client.event("question.asked");
    let condensed = used(&mut client);
    assert!(condensed + 2_000 < before, "{condensed} of {before} tokens");

    let restore = json!({ "taskId": task, "seq": shortened["seq"] });
    client.request("roo/context/restore", restore.clone());
    let restored = client.event("context.restored");
    assert_eq!(restored["event"]["seq"], shortened["seq"]);
    assert!(used(&mut client) >= before);
    let refused = client.refused("roo/context/restore", restore);
    assert!(refused["message"].as_str().unwrap().contains("undone already"), "{refused}");
    answer(&mut client, asked);
    let asked = client.event("question.asked");
    let context = client.request("roo/context/get", json!({ "taskId": task }));
    assert_eq!(context["shortenings"][0]["restored"], true, "{context}");
    assert_eq!(context["shortenings"].as_array().unwrap().len(), 1);
    let snapshot = client.request("roo/task/get", json!({ "taskId": task }));
    assert_eq!(snapshot["shortenings"], context["shortenings"]);
    answer(&mut client, asked);
    client.state("completed");
    client.shut_down();
}

#[test]
fn condense_given_as_an_answer_is_a_command_and_the_question_still_waits() {
    let home = Home::playing(SCRIPT);
    let (script, summary) = (home.path("script.yaml"), home.path("summary.yaml"));
    std::fs::write(&summary, SUMMARY).unwrap();
    let profiles = json!({ "profiles": {
        "default": { "provider": "scripted", "script": script, "condense": { "profile": "cheap" } },
        "cheap": { "provider": "scripted", "script": summary },
    }});
    // JSON is YAML.
    std::fs::write(home.config_file(), profiles.to_string()).unwrap();
    for name in ["a.txt", "b.txt"] {
        std::fs::write(home.work(name), "A line of the file.\n".repeat(300)).unwrap();
    }
    let mut client = Client::start(&home, Options::typed());
    let task = client.start_task("Read both.");
    let asked = client.event("question.asked");
    let question = asked["event"]["questionId"].clone();
    let answer = |client: &mut Client, text: &str| {
        client.request("roo/question/answer", json!({ "questionId": question, "text": text }))
    };
    let told = answer(&mut client, "/condense");
    assert_eq!((&told["accepted"], &told["waits"]), (&json!(true), &json!(true)));
    let snapshot = client.request("roo/task/get", json!({ "taskId": task }));
    assert_eq!(snapshot["question"]["questionId"], question, "{snapshot}");
    let told = answer(&mut client, "Yes");
    assert_eq!((&told["accepted"], &told["waits"]), (&json!(true), &json!(null)));
    assert_eq!(client.event("context.shortened")["event"]["method"], "summary");
    client.event("question.asked");
    client.request("roo/task/cancel", json!({ "taskId": task }));
    client.state("cancelled");
    client.shut_down();
}
