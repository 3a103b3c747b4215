//! The daemon is killed: its editors find or start another one, and go on where they were.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::daemon::{DaemonUser, is_gone};
use crate::server::WRITES;
use crate::support::assert_gapless;
use crate::support::client::{Client, Options, eventually};

/// Asks, and changes a file that it has read after the answer.
const ASKS_AND_EDITS: &str = r#"
turns:
  - calls: [{ tool: ask_followup_question, params: { question: Go on?, follow_up: [{ text: Yes }] } }]
  - calls: [{ tool: read_file, params: { path: a.txt } }]
  - calls: [{ tool: write_to_file, params: { path: a.txt, content: "new\n" } }]
  - { when: { status: ok }, calls: [{ tool: attempt_completion, params: { result: Changed. } }] }
"#;
/// Speaks for a while, twice, and is done.
pub const SPEAKS: &str = r#"
turns:
  - text: "A text that takes a while."
    chunk: 1
    delayMs: 60
    calls: [{ tool: update_todo_list, params: { todos: "[x] Speak" } }]
  - text: "Another one, which takes as long."
    chunk: 1
    delayMs: 60
    calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;

fn signal(process: u64, name: &str) {
    assert!(Command::new("kill").args([name, &process.to_string()]).status().unwrap().success());
}

/// Kills the one daemon.
pub fn kill_daemon(user: &DaemonUser) {
    let process = user.process();
    signal(process, "-KILL");
    eventually("the end of the daemon", || is_gone(process));
}

/// Waits until an editor is served by another daemon.
fn taken_over(client: &mut Client) {
    client.message("another one has taken over");
}

fn editing() -> DaemonUser {
    let user = DaemonUser::playing(ASKS_AND_EDITS);
    user.home.configure("autoApprove: { write: true }\n");
    fs::write(user.home.work("a.txt"), "old\n").unwrap();
    user
}

#[test]
fn documents_events_and_requests_go_on_with_the_next_daemon() {
    let user = editing();
    let mut editor = user.typed();
    let uri = editor.open(&user.home.work("a.txt"), "old\n");
    editor.append(&uri, "typed\n");
    let task = editor.start_task("Change");
    let question = editor.event("question.asked")["event"]["questionId"].clone();
    let process = user.process();
    kill_daemon(&user);
    // What is typed meanwhile is not lost either.
    editor.append(&uri, "and more\n");
    taken_over(&mut editor);
    assert_ne!(user.process(), process);
    editor.request("roo/task/resume", json!({ "taskId": task }));
    let answered = editor.request("roo/question/answer", json!({ "questionId": question, "text": "Yes" }));
    assert_eq!(answered["accepted"], true, "{answered}");
    assert_eq!(editor.state("completed")["event"]["result"], "Changed.");
    assert_gapless(&editor.numbered(&task), 1);
    assert_eq!(editor.documents[&uri].text, "new\n");
    let log = fs::read_to_string(user.home.log(&task)).unwrap();
    assert!(log.contains("and more"), "it has read what was typed: {log}");
    assert_eq!(
        fs::read_to_string(user.home.work("a.txt")).unwrap(),
        "old\n",
        "the buffer is edited, not the disk"
    );
    assert_eq!(editor.shut_down(), 0);
}

#[test]
fn what_was_not_answered_fails_and_the_client_is_served_on() {
    let user = DaemonUser::playing(SPEAKS);
    let mut editor = user.typed();
    editor.request("roo/task/list", json!({}));
    let process = user.process();
    // It reads nothing any more, so what is asked now can't be answered.
    signal(process, "-STOP");
    let asked = editor.ask("roo/task/list", json!({}));
    signal(process, "-KILL");
    let answer = editor.answer(asked);
    assert_eq!(answer["error"]["data"]["kind"], "disconnected", "{answer}");
    taken_over(&mut editor);
    assert_eq!(editor.request("roo/task/list", json!({}))["items"], json!([]));
    assert_eq!(editor.shut_down(), 0);
}

#[test]
fn a_popup_of_a_daemon_that_was_killed_is_withdrawn() {
    let user = DaemonUser::playing(WRITES);
    let mut editor = user.plain();
    let task = editor.command("roo.newTask", json!({ "prompt": "Write", "mode": "code" }))["taskId"].clone();
    let popup = editor.popup();
    kill_daemon(&user);
    let withdrawn = editor.wait_for("the end of the popup", |message| message["method"] == "$/cancelRequest");
    assert_eq!(withdrawn["params"]["id"], popup["id"]);
    // Its late answer is for nobody.
    editor.reply(&popup, json!({ "title": "Allow" }));
    taken_over(&mut editor);
    editor.command("roo.resume", json!({ "taskId": task }));
    let again = editor.popup();
    assert_ne!(again["id"], popup["id"]);
    editor.reply(&again, json!({ "title": "Allow" }));
    editor.message("completed: Written.");
    assert_eq!(editor.shut_down(), 0);
}

#[test]
fn what_was_interrupted_is_resumed_without_its_name() {
    for is_typed in [true, false] {
        let user = DaemonUser::playing(SPEAKS);
        let mut editor = if is_typed { user.typed() } else { user.plain() };
        let started = editor.command("roo.newTask", json!({ "prompt": "Speak", "mode": "code" }));
        kill_daemon(&user);
        taken_over(&mut editor);
        // At once, while the typed client's request is opened for its events.
        let resumed = editor.command("roo.resume", Value::Null);
        assert_eq!(resumed["taskId"], started["taskId"]);
        eventually("the end of the request", || {
            editor.command("roo.status", Value::Null)["items"][0]["state"] == "completed"
        });
        assert_eq!(editor.shut_down(), 0);
    }
}

#[test]
fn requests_go_on_by_themselves_if_their_user_wants_that() {
    let user = DaemonUser::playing(SPEAKS);
    user.home.configure("daemon: { resumeAfterCrash: true }\n");
    let (mut one, mut other) = (user.typed(), user.typed());
    let task = one.start_task("Speak");
    other.request("roo/task/attach", json!({ "taskId": task, "afterSeq": 0 }));
    for _ in 0..2 {
        one.event("message.delta");
        kill_daemon(&user);
        taken_over(&mut one);
        taken_over(&mut other);
    }
    for editor in [&mut one, &mut other] {
        let ended = editor.state("completed");
        assert_eq!(ended["event"]["result"], "Done.");
        let numbered = editor.numbered(&task);
        assert_gapless(&numbered, 1);
        let ends = numbered.iter().filter(|event| event["event"]["state"] == "completed");
        assert_eq!(ends.count(), 1);
    }
    assert_eq!((one.shut_down(), other.shut_down()), (0, 0));
}

#[test]
fn requests_wait_for_their_user_otherwise_and_after_an_orderly_end() {
    let user = DaemonUser::playing(SPEAKS);
    let state = |client: &mut Client, task: &str| {
        client.request("roo/task/get", json!({ "taskId": task }))["state"].as_str().unwrap().to_owned()
    };
    let mut editor = user.typed();
    let task = editor.start_task("Speak");
    editor.event("message.delta");
    kill_daemon(&user);
    taken_over(&mut editor);
    editor.state("interrupted");
    assert_eq!(state(&mut editor, &task), "interrupted");
    assert_eq!(editor.shut_down(), 0);
    user.home.configure("daemon: { resumeAfterCrash: true }\n");
    let mut editor = user.typed();
    let task = editor.start_task("Speak again");
    editor.event("message.delta");
    assert!(user.run(&["daemon", "stop"]).status.success());
    assert_eq!(editor.exit_code(), 1, "the end was asked for");
    let mut editor = user.typed();
    assert_eq!(state(&mut editor, &task), "interrupted");
    assert_eq!(editor.shut_down(), 0);
}

#[test]
fn an_editor_that_wants_an_end_gets_one_although_the_daemon_is_killed() {
    let user = DaemonUser::playing(SPEAKS);
    let mut editor = user.typed();
    editor.request("shutdown", Value::Null);
    kill_daemon(&user);
    editor.notify("exit", Value::Null);
    assert_eq!(editor.exit_code(), 0);
    assert_eq!(user.daemons(), Vec::<Value>::new(), "nobody has started another one");
}

#[test]
fn where_there_can_be_no_other_daemon_the_user_is_told_why() {
    let user = DaemonUser::playing(SPEAKS);
    let copy = user.home.path("roo-lsp-copy");
    fs::copy(env!("CARGO_BIN_EXE_roo-lsp"), &copy).unwrap();
    let options = Options { program: Some(copy.clone()), ..user.options(Options::typed()) };
    let mut editor = Client::start(&user.home, options);
    editor.request("roo/task/list", json!({}));
    let folder = user.sockets();
    let process = {
        let found = fs::read_dir("/proc").unwrap().filter_map(|entry| {
            let path = entry.ok()?.path();
            let program = fs::read_link(path.join("exe")).ok()?;
            let line = fs::read_to_string(path.join("cmdline")).ok()?;
            (program == copy && line.contains("daemon\0run"))
                .then(|| path.file_name()?.to_str()?.parse().ok())?
        });
        found.collect::<Vec<u64>>()[0]
    };
    // As an update that makes the folder again, and leaves it to everybody.
    fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    signal(process, "-KILL");
    let told = editor.message("the daemon has ended")["message"].as_str().unwrap().to_owned();
    assert!(told.contains("other users may use it") && told.contains("Restart the server"), "{told}");
    assert_eq!(editor.exit_code(), 1);
    fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
}
