//! The socket of the language server: a program and the user of an editor on the same requests.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Client as Program, Framing, SLOW};
use crate::server::WRITES;
use crate::support::client::{Client as Editor, Home, Options, eventually};

const ASKS: &str = r#"
turns:
  - calls: [{ tool: ask_followup_question, params: { question: Which?, follow_up: [{ text: this }, { text: that }] } }]
  - { when: { contains: that }, calls: [{ tool: attempt_completion, params: { result: Answered. } }] }
  - { when: { contains: the rest }, calls: [{ tool: attempt_completion, params: { result: All of it. } }] }
"#;

fn socket(home: &Home) -> PathBuf {
    home.path("ipc/roo.sock")
}

/// An editor whose environment names the socket, and a program at it.
fn both(home: &Home) -> (Editor, Program) {
    let path = socket(home).to_str().unwrap().to_owned();
    let options = Options { environment: vec![("ROO_CODE_IPC_SOCKET_PATH", path)], ..Options::typed() };
    let mut editor = Editor::start(home, options);
    editor.request("roo/task/attach", json!({ "taskId": "*" }));
    let mut program = Program::connect(&socket(home), Framing::NodeIpc);
    let ack = program.next().unwrap();
    assert_eq!((&ack["type"], &ack["data"]["pid"]), (&json!("Ack"), &json!(editor.process())));
    (editor, program)
}

#[test]
fn a_program_starts_what_the_editor_shows_and_the_user_of_the_editor_answers() {
    let home = Home::playing(WRITES);
    let (mut editor, mut program) = both(&home);
    program.command("StartNewTask", json!({ "configuration": { "mode": "code" }, "text": "Write" }));
    let id = program.event("taskCreated")[0].clone();
    let asked = editor.event("approval.requested");
    assert_eq!(asked["rootId"], id);
    assert_eq!(program.event("taskInteractive"), json!([id]));
    assert!(!home.work("new.txt").exists());
    let approval = &asked["event"];
    let answer = json!({ "approvalId": approval["approvalId"], "digest": approval["digest"], "optionId": "allow_once" });
    assert_eq!(editor.request("roo/approval/respond", answer)["accepted"], true);
    assert_eq!(program.event("taskCompleted")[0], id);
    assert_eq!(fs::read_to_string(home.work("new.txt")).unwrap(), "one\n");
    editor.state("completed");
    assert_eq!(editor.shut_down(), 0);
    assert!(!socket(&home).exists(), "the socket is removed");
    while program.next().is_some() {}
}

#[test]
fn a_program_is_told_of_what_the_editor_starts_and_steers_it() {
    let home = Home::playing(ASKS);
    let (mut editor, mut program) = both(&home);
    // With the answer it is sure to be among those who are told.
    program.command("GetModes", Value::Null);
    program.event("modesResponse");
    let id = editor.start_task("Ask");
    assert_eq!(program.event("taskCreated"), json!([id]));
    assert_eq!(program.event("taskFocused"), json!([id]));
    program.message("ask followup");
    program.event("taskInteractive");
    program.command("SendMessage", json!({ "text": "that" }));
    assert_eq!(editor.state("completed")["event"]["result"], "Answered.");
    assert_eq!(program.event("taskCompleted")[0], json!(id));
    program.event("taskIdle");

    // What comes later is told, and what was told is not told again.
    editor.request("roo/task/send", json!({ "taskId": id, "text": "And the rest." }));
    let said = program.wait_for("the message", |message| {
        assert_ne!(message["data"]["eventName"], "taskCreated", "{message}");
        message["data"]["payload"][0]["message"]["say"] == "user_feedback"
    });
    assert_eq!(said["data"]["payload"][0]["message"]["text"], "And the rest.");
    assert_eq!(program.event("taskCompleted")[0], json!(id));
    assert_eq!(editor.shut_down(), 0);
}

#[test]
fn a_task_that_a_program_closes_is_cancelled_before_the_eyes_of_the_editor() {
    let home = Home::playing(&format!("turns:\n{SLOW}"));
    let (mut editor, mut program) = both(&home);
    program.command("StartNewTask", json!({ "configuration": { "mode": "code" }, "text": "Speak" }));
    let id = program.event("taskCreated")[0].clone();
    program.message("say api_req_started");
    program.command("CloseTask", Value::Null);
    assert_eq!(editor.state("cancelled")["rootId"], id);
    assert_eq!(editor.shut_down(), 0);
}

#[test]
fn the_user_names_the_socket_and_a_workspace_does_not() {
    let home = Home::playing(WRITES);
    let of_workspace = home.path("evil.sock");
    home.configure(&format!("ipcSocket: {}\n", socket(&home).display()));
    let options =
        Options::typed().with(json!({ "capabilities": { "workspace": { "configuration": true } } }));
    let options = Options { configuration: json!({ "ipcSocket": of_workspace }), ..options };
    let mut editor = Editor::start(&home, options);
    editor.request("roo/task/list", json!({}));
    let mut program = Program::connect(&socket(&home), Framing::Lines);
    program.command("GetModes", Value::Null);
    program.event("modesResponse");
    assert!(!of_workspace.exists());
    assert_eq!(editor.shut_down(), 0);
    assert!(!socket(&home).exists());
}

#[test]
fn where_no_socket_can_be_the_user_is_told_and_the_editor_works() {
    let home = Home::playing(WRITES);
    for (path, words) in [
        ("roo.sock".to_owned(), "no absolute path"),
        (home.work("roo.sock").display().to_string(), "which commands of agents may write"),
    ] {
        home.configure(&format!("ipcSocket: {path}\n"));
        let mut editor = Editor::start(&home, Options::typed());
        let told = editor.message("programs can't connect over Roo Code's IPC");
        assert!(told.to_string().contains(words), "{told}");
        assert_eq!(editor.request("roo/task/list", json!({}))["items"], json!([]));
        assert_eq!(editor.shut_down(), 0);
    }
    // Of two editors, the first one has it.
    home.configure(&format!("ipcSocket: {}\n", socket(&home).display()));
    let mut first = Editor::start(&home, Options::typed());
    first.request("roo/task/list", json!({}));
    eventually("the socket", || fs::exists(socket(&home)).unwrap());
    let mut second = Editor::start(&home, Options::typed());
    second.message("another program listens at");
    assert_eq!((second.shut_down(), first.shut_down()), (0, 0));
}
