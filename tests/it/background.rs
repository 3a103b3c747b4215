//! Commands that run on after their call: how they get to the background, are read and stopped there, and that none
//! outlives its task or its server.

use serde_json::{Value, json};

use crate::support::client::{Client, Home, Options, eventually};
use crate::support::processes;

/// What these tests run needs nobody's leave.
const SETTINGS: &str = r#"
autoApprove:
  write: true
  execute: { allow: [[echo], [sleep], [mkdir], [curl, -sS, "http://127.0.0.1:8000/"], ["python3", "-u", "-m", "http.server"]] }
"#;

/// The id of the command that the first call of a script runs: its event's number follows from what came before.
const FIRST: &str = "cmd-4";

fn playing(script: &str, more: &str) -> Home {
    let home = Home::playing(&script.replace("FIRST", FIRST));
    home.configure(&format!("{SETTINGS}{more}"));
    home
}

/// Waits until the output of the running command has this text.
fn until_printed(client: &mut Client, text: &str) {
    let mut printed = String::new();
    client.wait_for(text, |message| {
        let event = &message["params"]["event"];
        if event["type"] == "tool.output" {
            printed.push_str(event["text"].as_str().unwrap());
        }
        printed.contains(text)
    });
}

/// Allows what asks, as redirections do, until the request is completed.
fn allow_until_completed(client: &mut Client) {
    loop {
        let message = client.wait_for("an approval or the end", |message| {
            let event = &message["params"]["event"];
            event["type"] == "approval.requested" || event["state"] == "completed"
        });
        let event = &message["params"]["event"];
        if event["state"] == "completed" {
            return;
        }
        let (id, digest) = (&event["approvalId"], &event["digest"]);
        let answer = json!({ "approvalId": id, "digest": digest, "optionId": "allow_once" });
        client.request("roo/approval/respond", answer);
    }
}

/// The numbered events of these types, in order.
fn types<'a>(events: &'a [Value], wanted: &[&str]) -> Vec<&'a str> {
    let types = events.iter().map(|event| event["event"]["type"].as_str().unwrap());
    types.filter(|name| wanted.contains(name)).collect()
}

/// The texts that a task's model got, with its calls and their results.
fn log(home: &Home, task: &str) -> String {
    std::fs::read_to_string(home.log(task)).unwrap()
}

#[test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
fn a_server_is_sent_to_the_background_read_and_stopped() {
    let script = r#"
turns:
  - calls: [{ tool: execute_command, params: { command: "python3 -u -m http.server --bind 127.0.0.1 8000" } }]
  - when: { contains: ["in the background now", "Serving HTTP"] }
    calls: [{ tool: execute_command, params: { command: "curl -sS http://127.0.0.1:8000/" } }]
  - when: { contains: "Directory listing" }
    calls: [{ tool: read_command_output, params: {} }]
  - when: { contains: "FIRST: python3" }
    calls: [{ tool: read_command_output, params: { command_id: FIRST } }]
  - when: { contains: "FIRST is still running" }
    calls: [{ tool: stop_command, params: { command_id: FIRST } }]
  - when: { contains: ["FIRST has ended", "The command was stopped"] }
    calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;
    let home = playing(script, "");
    let mut client = Client::start(&home, Options::typed());
    let task = client.start_task("Serve.");
    until_printed(&mut client, "Serving HTTP");
    client.request("roo/command/background", json!({ "taskId": task }));
    let begun = client.event("command.backgrounded");
    assert_eq!(begun["event"]["commandId"], FIRST, "{begun}");
    let ended = client.event("command.ended");
    assert_eq!(
        (&ended["event"]["commandId"], &ended["event"]["summary"]),
        (&json!(FIRST), &json!("stopped"))
    );
    client.state("completed");
    // What the server printed first was told once.
    assert_eq!(log(&home, &task).matches("Serving HTTP").count(), 1);
    let refused = client.refused("roo/command/stop", json!({ "taskId": task, "commandId": FIRST }));
    assert_eq!(refused["data"]["kind"], "notFound");
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn a_command_that_runs_for_long_goes_to_the_background_by_itself() {
    let mark = processes::mark(700);
    let script = format!(
        r#"
turns:
  - calls: [{{ tool: execute_command, params: {{ command: "echo begun; sleep {mark}" }} }}]
  - when: {{ contains: [is still running after 1 s, begun] }}
    calls: [{{ tool: ask_followup_question, params: {{ question: Go on?, follow_up: [{{ text: Yes }}] }} }}]
  - when: {{ contains: The user stopped the command }}
    calls: [{{ tool: attempt_completion, params: {{ result: Done. }} }}]
"#
    );
    let home = playing(&script, "limits: { backgroundAfterSec: 1 }\n");
    let mut client = Client::start(&home, Options::typed());
    let task = client.start_task("Wait.");
    let question = client.event("question.asked");
    assert_eq!(processes::with(&mark).len(), 1);
    client.request("roo/command/stop", json!({ "taskId": task, "commandId": FIRST }));
    assert_eq!(client.event("command.ended")["event"]["summary"], "stopped by the user");
    assert_eq!(processes::with(&mark), [""; 0]);
    let answer = json!({ "questionId": question["event"]["questionId"], "text": "Yes" });
    client.request("roo/question/answer", answer);
    client.state("completed");
    assert_eq!(client.shut_down(), 0);
}

/// What ends a request ends its commands, and tells of them first.
#[test]
fn the_only_command_in_the_background_is_awaited_without_its_id() {
    let marks = [processes::mark(701), processes::mark(702)];
    let script = format!(
        r#"
turns:
  - calls: [{{ tool: read_command_output, params: {{ until: ready }} }}]
  - when: {{ contains: No command runs in the background }}
    calls: [{{ tool: execute_command, params: {{ command: "echo ready; sleep {}", background: true }} }}]
  - calls: [{{ tool: read_command_output, params: {{ until: ready }} }}]
  - when: {{ contains: its output matches `ready` }}
    calls: [{{ tool: execute_command, params: {{ command: "echo begun; sleep {}", background: true }} }}]
  - calls: [{{ tool: read_command_output, params: {{ port: 1 }} }}]
  - when: {{ contains: Which one is meant }}
    calls: [{{ tool: attempt_completion, params: {{ result: Done. }} }}]
"#,
        marks[0], marks[1]
    );
    let home = playing(&script, "");
    let mut client = Client::start(&home, Options::typed());
    client.start_task("Serve.");
    client.state("completed");
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn no_command_outlives_its_request() {
    let mark = processes::mark(710);
    let script = format!(
        r#"
turns:
  - calls: [{{ tool: execute_command, params: {{ command: "echo begun; sleep {mark}", timeout: 1 }} }}]
  - when: {{ contains: [is still running after 1 s, begun] }}
    calls: [{{ tool: ask_followup_question, params: {{ question: Go on?, follow_up: [{{ text: Yes }}] }} }}]
  - calls: [{{ tool: attempt_completion, params: {{ result: Done. }} }}]
"#
    );
    for end in ["cancelled", "completed"] {
        let home = playing(&script, "");
        let mut client = Client::start(&home, Options::typed());
        let task = client.start_task("Wait.");
        let question = client.event("question.asked");
        assert_eq!(processes::with(&mark).len(), 1, "{end}");
        if end == "cancelled" {
            client.request("roo/task/cancel", json!({ "taskId": task }));
        } else {
            let answer = json!({ "questionId": question["event"]["questionId"], "text": "Yes" });
            client.request("roo/question/answer", answer);
        }
        client.state(end);
        assert_eq!(processes::with(&mark), [""; 0], "{end}");
        let events = client.numbered(&task);
        let told = types(&events, &["command.backgrounded", "command.ended"]);
        assert_eq!(told, ["command.backgrounded", "command.ended"], "{end}");
        assert_eq!(events.last().unwrap()["event"]["type"], "task.state", "{end}");
        assert_eq!(client.shut_down(), 0);
    }
}

#[test]
fn a_killed_server_leaves_no_command_and_the_model_is_told() {
    let mark = processes::mark(720);
    let script = format!(
        r#"
turns:
  - calls: [{{ tool: execute_command, params: {{ command: "echo begun; sleep {mark}", timeout: 1 }} }}]
  - calls: [{{ tool: ask_followup_question, params: {{ question: Go on?, follow_up: [{{ text: Yes }}] }} }}]
  - when: {{ contains: [FIRST has ended, because the server ended] }}
    calls: [{{ tool: attempt_completion, params: {{ result: Done. }} }}]
"#
    );
    for how in ["killed", "ended"] {
        let home = playing(&script, "");
        let mut client = Client::start(&home, Options::typed());
        let task = client.start_task("Wait.");
        let question = client.event("question.asked");
        assert_eq!(processes::with(&mark).len(), 1, "{how}");
        match how {
            "killed" => client.kill(),
            _ => assert_eq!(client.shut_down(), 0),
        }
        eventually("the end of the command", || processes::with(&mark).is_empty());

        let mut client = Client::start(&home, Options::typed());
        client.request("roo/task/attach", json!({ "taskId": task }));
        client.request("roo/task/resume", json!({ "taskId": task }));
        let answer = json!({ "questionId": question["event"]["questionId"], "text": "Yes" });
        client.request("roo/question/answer", answer);
        client.state("completed");
        assert_eq!(client.shut_down(), 0);
    }
}

/// CFG-08.
#[test]
fn what_a_command_in_the_background_must_not_change_is_undone_at_its_end() {
    let mark = processes::mark(730);
    let script = format!(
        r#"
turns:
  - calls:
      - tool: execute_command
        params: {{ command: "mkdir .vscode; echo x >.vscode/tasks.json; echo y >ok.txt; sleep {mark}", timeout: 1 }}
  - calls: [{{ tool: execute_command, params: {{ command: "echo z >beside.txt" }} }}]
  - calls: [{{ tool: stop_command, params: {{ command_id: FIRST }} }}]
  - when: {{ contains: [FIRST has ended, Scope Violation, .vscode] }}
    calls: [{{ tool: attempt_completion, params: {{ result: Done. }} }}]
"#
    );
    let home = playing(&script, "");
    let mut client = Client::start(&home, Options::typed());
    let task = client.start_task("Try.");
    allow_until_completed(&mut client);
    assert!(!home.work(".vscode").exists());
    assert_eq!(std::fs::read_to_string(home.work("ok.txt")).unwrap(), "y\n");
    assert_eq!(std::fs::read_to_string(home.work("beside.txt")).unwrap(), "z\n");
    assert_eq!(types(&client.numbered(&task), &["command.ended"]).len(), 1);
    // Each change is put down once, for the command that made it.
    let trace = std::fs::read_to_string(home.work(".orchestration/agent_trace.jsonl")).unwrap();
    let records: Vec<Value> = trace.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |path: &str| {
        let touched = |record: &&Value| record.to_string().contains(&format!("\"{path}\""));
        records
            .iter()
            .filter(touched)
            .map(|record| record["metadata"]["dev.roo-lsp"]["tool_call_id"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!((of("ok.txt").len(), of("beside.txt").len()), (1, 1), "{records:#?}");
    assert_ne!(of("ok.txt"), of("beside.txt"));
    assert_eq!(client.shut_down(), 0);
}

/// A server runs for hours, and its user goes on working in other programs.
#[test]
fn what_the_user_does_beside_a_command_in_the_background_is_theirs() {
    let mark = processes::mark(735);
    let script = format!(
        r#"
turns:
  - calls:
      - tool: execute_command
        params: {{ command: "echo x >own.txt; echo y >>both.txt; echo begun; sleep {mark}", timeout: 1 }}
  - calls: [{{ tool: ask_followup_question, params: {{ question: Go on?, follow_up: [{{ text: Yes }}] }} }}]
  - calls: [{{ tool: stop_command, params: {{ command_id: FIRST }} }}]
  - when: {{ contains: [FIRST has ended] }}
    calls: [{{ tool: attempt_completion, params: {{ result: Done. }} }}]
"#
    );
    let home = playing(&script, "");
    for name in ["edited.rs", "both.txt"] {
        std::fs::write(home.work(name), "old\n").unwrap();
    }
    let mut client = Client::start(&home, Options::typed());
    let task = client.start_task("Serve.");
    let question = client.event("question.asked");
    std::fs::create_dir(home.work(".vscode")).unwrap();
    let mine = [
        ("CLAUDE.md", "mine"),
        (".vscode/tasks.json", "{}"),
        ("new.rs", "fn new() {}"),
        ("edited.rs", "new"),
    ];
    for (name, text) in mine {
        std::fs::write(home.work(name), text).unwrap();
    }
    let answer = json!({ "questionId": question["event"]["questionId"], "text": "Yes" });
    client.request("roo/question/answer", answer);
    client.state("completed");
    for (name, text) in mine {
        assert_eq!(std::fs::read_to_string(home.work(name)).unwrap(), text, "{name}");
    }
    assert!(!log(&home, &task).contains("Scope Violation"));
    let trace = std::fs::read_to_string(home.work(".orchestration/agent_trace.jsonl")).unwrap();
    assert!(trace.contains("own.txt") && trace.contains("both.txt"), "{trace}");
    for (name, _) in mine {
        assert!(!trace.contains(name), "{name} is told as the task's: {trace}");
    }
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn a_server_that_a_shell_left_behind_is_named() {
    let mark = processes::mark(740);
    let script = format!(
        r#"
turns:
  - calls: [{{ tool: execute_command, params: {{ command: "sleep {mark} & echo started" }} }}]
  - when: {{ contains: ["Ended 1 process that the command left running: sleep {mark}."] }}
    calls: [{{ tool: attempt_completion, params: {{ result: Done. }} }}]
"#
    );
    let home = playing(&script, "");
    let mut client = Client::start(&home, Options::typed());
    client.start_task("Serve.");
    allow_until_completed(&mut client);
    assert_eq!(client.shut_down(), 0);
}

/// More than these run in the foreground, however long.
#[test]
fn at_most_sixteen_commands_run_in_the_background() {
    let mark = processes::mark(760);
    // The same call many times in a row would be refused.
    let call =
        |number| format!("{{ tool: execute_command, params: {{ command: \"sleep {mark} {number}\" }} }}");
    let calls: Vec<String> = (1..=17).map(call).collect();
    let home = playing(&format!("turns:\n  - calls: [{}]\n", calls.join(", ")), "");
    let mut client = Client::start(&home, Options::typed());
    let task = client.start_task("Wait.");
    for running in 1..=16 {
        client.event("tool.started");
        eventually("the start of the command", || processes::with(&mark).len() == running);
        client.request("roo/command/background", json!({ "taskId": task }));
        client.event("command.backgrounded");
    }
    client.event("tool.started");
    eventually("the start of the last command", || processes::with(&mark).len() == 17);
    client.request("roo/command/background", json!({ "taskId": task }));
    until_printed(&mut client, "can't go to the background: too many commands run there already");
    client.request("roo/task/cancel", json!({ "taskId": task }));
    client.state("cancelled");
    assert_eq!(processes::with(&mark), [""; 0]);
    assert_eq!(types(&client.numbered(&task), &["command.ended"]).len(), 16);
    assert_eq!(client.shut_down(), 0);
}

/// What it writes reaches the workspace at its end, and nobody would see it before.
#[test]
fn a_staged_command_stays_in_the_foreground() {
    let mark = processes::mark(770);
    let script = format!(
        "turns:\n  - calls: [{{ tool: execute_command, params: {{ command: \"echo begun; sleep {mark}\", timeout: 1000 }} }}]\n"
    );
    let home = playing(&script, "sandbox: { level: staged }\nlimits: { backgroundAfterSec: 1 }\n");
    let mut client = Client::start(&home, Options::typed());
    let task = client.start_task("Wait.");
    until_printed(&mut client, "begun");
    client.request("roo/command/background", json!({ "taskId": task }));
    until_printed(&mut client, "can't go to the background: what it writes is staged");
    client.request("roo/task/cancel", json!({ "taskId": task }));
    client.state("cancelled");
    assert_eq!(types(&client.numbered(&task), &["command.backgrounded"]), [""; 0]);
    assert_eq!(processes::with(&mark), [""; 0]);
    assert_eq!(client.shut_down(), 0);
}

/// Where a client has neither buttons nor a progress, the task document has both.
#[test]
fn the_task_document_offers_to_send_a_command_to_the_background_and_to_stop_it() {
    let mark = processes::mark(780);
    let script = format!(
        r#"
turns:
  - calls: [{{ tool: execute_command, params: {{ command: "echo begun; sleep {mark}" }} }}]
  - calls: [{{ tool: ask_followup_question, params: {{ question: Go on?, follow_up: [{{ text: Yes }}] }} }}]
  - calls: [{{ tool: attempt_completion, params: {{ result: Done. }} }}]
"#
    );
    let home = playing(&script, "");
    let mut client = Client::start(&home, Options::helix());
    client.command("roo.newTask", json!({ "prompt": "Wait.", "mode": "code" }));
    eventually("the start of the command", || !processes::with(&mark).is_empty());
    client.command("roo.openTask", Value::Null);
    let (uri, _) = client.until_document("/task.md", "sleep");
    client.choose(&uri, 0..0, "Roo: move the running command to the background");
    client.until_document("/task.md", "continues in the background as");
    let stop = format!("Roo: stop {FIRST}: echo begun; sleep {mark}");
    let titles: Vec<String> = client.actions(&uri, 0..0).into_iter().map(|(title, _)| title).collect();
    assert!(titles.contains(&stop), "{titles:?}");
    assert!(!titles.iter().any(|title| title.contains("to the background")), "{titles:?}");
    client.choose(&uri, 0..0, &stop);
    client.until_document("/task.md", "stopped by the user");
    assert_eq!(processes::with(&mark), [""; 0]);
    client.command("roo.answer", json!(1));
    client.progress("end");
    assert_eq!(client.shut_down(), 0);
}

/// What Helix shows: a progress of its own for each command, which can be cancelled.
#[test]
fn a_plain_client_sees_a_command_in_its_progress_and_stops_it_there() {
    let mark = processes::mark(750);
    let script = format!(
        r#"
turns:
  - calls: [{{ tool: execute_command, params: {{ command: "echo begun; sleep {mark}" }} }}]
  - calls: [{{ tool: ask_followup_question, params: {{ question: Go on?, follow_up: [{{ text: Yes }}] }} }}]
  - calls: [{{ tool: attempt_completion, params: {{ result: Done. }} }}]
"#
    );
    let home = playing(&script, "");
    let mut client = Client::start(&home, Options::helix());
    client.command("roo.newTask", json!({ "prompt": "Wait.", "mode": "code" }));
    eventually("the start of the command", || !processes::with(&mark).is_empty());
    client.command("roo.backgroundCommand", Value::Null);
    let begun = client.wait_for("the progress of the command", |message| {
        let token = message["params"]["token"].as_str().unwrap_or_default();
        token.ends_with(&format!("/command/{FIRST}"))
    });
    assert_eq!(begun["params"]["value"]["cancellable"], true, "{begun}");
    let token = begun["params"]["token"].clone();
    client.notify("window/workDoneProgress/cancel", json!({ "token": token }));
    client.wait_for("the end of the command", |message| {
        message["params"]["token"] == token && message["params"]["value"]["kind"] == "end"
    });
    assert_eq!(processes::with(&mark), [""; 0]);
    client.command("roo.answer", json!(1));
    client.progress("end");
    assert_eq!(client.shut_down(), 0);
}

/// What would be judged at the end of a command is not there for hours.
#[test]
fn a_command_that_keeps_a_repository_which_may_not_stay_is_ended() {
    let mark = processes::mark(730);
    let line = "git init -q fine; git init -q sub; git -C sub config core.fsmonitor evil; echo made; sleep";
    let script = format!(
        r#"
turns:
  - calls: [{{ tool: execute_command, params: {{ command: "{line} {mark}", background: true }} }}]
  - when: {{ contains: [is still running, made] }}
    calls: [{{ tool: ask_followup_question, params: {{ question: Go on?, follow_up: [{{ text: Yes }}] }} }}]
  - when: {{ contains: [it made a git repository that can make git run programs, "sub/.git: core.fsmonitor"] }}
    calls: [{{ tool: attempt_completion, params: {{ result: Done. }} }}]
"#
    );
    let home = playing(&script, "");
    let mut client = Client::start(&home, Options::typed());
    client.start_task("Make it.");
    let asked = client.event("approval.requested");
    let (id, digest) = (&asked["event"]["approvalId"], &asked["event"]["digest"]);
    let answer = json!({ "approvalId": id, "digest": digest, "optionId": "allow_once" });
    client.request("roo/approval/respond", answer);
    let question = client.event("question.asked");
    let ended = client.event("command.ended");
    let summary = ended["event"]["summary"].as_str().unwrap();
    assert!(summary.starts_with("ended: it made a git repository that may not stay"), "{summary}");
    assert_eq!(processes::with(&mark), [""; 0]);
    assert!(!home.path("work/sub/.git").exists() && home.path("work/fine/.git").exists());
    let answer = json!({ "questionId": question["event"]["questionId"], "text": "Yes" });
    client.request("roo/question/answer", answer);
    client.state("completed");
    assert_eq!(client.shut_down(), 0);
}
