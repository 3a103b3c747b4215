//! Requests that were under way when the daemon was killed go on when another one begins, whoever starts it and whether or not an
//! editor comes back.

use std::fs;

use serde_json::{Value, json};

use crate::daemon::DaemonUser;
use crate::daemon_reconnect::kill_daemon;
use crate::daemon_terminal::detached;
use crate::support::client::eventually;

/// Speaks for a while, twice, and is done.
const SPEAKS: &str = r#"
turns:
  - text: "A text that takes a while."
    chunk: 1
    delayMs: 100
    calls: [{ tool: update_todo_list, params: { todos: "[x] Speak" } }]
  - text: "Another one, which takes as long."
    chunk: 1
    delayMs: 100
    calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;
const RESUMES: &str = "daemon: { resumeAfterCrash: true }\n";

/// A user whose requests go on after a crash.
fn resuming() -> DaemonUser {
    let user = DaemonUser::playing(SPEAKS);
    user.home.configure(RESUMES);
    user
}

/// True if the daemon has noted that a request is under way.
fn is_marked(user: &DaemonUser, task: &str) -> bool {
    let files = fs::read_dir(user.home.path("state/roo-lsp/daemon")).unwrap();
    files.map(|entry| entry.unwrap().path().join(task)).any(|mark| mark.exists())
}

/// A request that is under way in a daemon, which was killed then. Returns its URID and its id.
fn interrupted(user: &DaemonUser) -> (String, String) {
    let urid = detached(user, &[]);
    let task = user.daemon()["requests"][0]["id"].as_str().unwrap().to_owned();
    eventually("the request to be noted", || is_marked(user, &task));
    kill_daemon(user);
    (urid, task)
}

fn is_completed(user: &DaemonUser, task: &str) -> bool {
    let log = fs::read_to_string(user.home.log(task)).unwrap();
    log.contains("\"completed\"") && log.contains("Done.")
}

/// Waits until the daemon has gone on with what it goes on with. Returns what it says of itself then.
fn settled(user: &DaemonUser) -> Value {
    eventually("the daemon to have gone on", || user.daemon()["resuming"] == json!([]));
    user.daemon()
}

#[test]
fn a_request_without_a_client_goes_on_when_the_daemon_is_started_again() {
    let user = resuming();
    let (_, task) = interrupted(&user);
    assert!(user.run(&["daemon", "restart"]).status.success());
    eventually("the end of the request", || is_completed(&user, &task));
    assert_eq!(user.daemon()["clients"], 0, "nobody has come back");
    eventually("the note to be gone", || !is_marked(&user, &task));
}

#[test]
fn whoever_attaches_to_it_starts_the_daemon_again() {
    let user = resuming();
    let (urid, _) = interrupted(&user);
    let output = user.run(&["attach", &urid]);
    let (code, text) = (output.status.code(), String::from_utf8(output.stdout).unwrap());
    assert_eq!((code, text.as_str()), (Some(0), "Done.\n"), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn another_request_that_is_started_starts_the_daemon_again() {
    let user = resuming();
    let (_, task) = interrupted(&user);
    detached(&user, &[]);
    eventually("the end of the request", || is_completed(&user, &task));
}

#[test]
fn a_request_goes_on_by_the_flags_that_it_was_started_with() {
    let user = DaemonUser::playing(
        r#"
turns:
  - { text: "A text that takes a while.", chunk: 1, delayMs: 100, calls: [{ tool: update_todo_list, params: { todos: "[x] Speak" } }] }
  - calls: [{ tool: write_to_file, params: { path: new.txt, content: "one\n" } }]
  - { when: { status: ok }, calls: [{ tool: attempt_completion, params: { result: Done. } }] }
"#,
    );
    user.home.configure(RESUMES);
    detached(&user, &["--allow-write"]);
    let task = user.daemon()["requests"][0]["id"].as_str().unwrap().to_owned();
    eventually("the request to be noted", || is_marked(&user, &task));
    kill_daemon(&user);
    assert!(user.run(&["daemon", "restart"]).status.success());
    eventually("the end of the request", || is_completed(&user, &task));
    assert_eq!(fs::read_to_string(user.home.work("new.txt")).unwrap(), "one\n");
}

#[test]
fn nothing_goes_on_unless_the_user_wants_that() {
    let user = DaemonUser::playing(SPEAKS);
    let (_, task) = interrupted(&user);
    assert!(user.run(&["daemon", "restart"]).status.success());
    assert_eq!(settled(&user)["requests"], json!([]));
    assert!(!is_completed(&user, &task) && !is_marked(&user, &task));
    // To want it later is no reason to go on with what was left before.
    user.home.configure(RESUMES);
    kill_daemon(&user);
    assert!(user.run(&["daemon", "restart"]).status.success());
    assert_eq!(settled(&user)["requests"], json!([]));
}

#[test]
fn nothing_goes_on_by_other_settings_or_with_other_trust() {
    let looser = format!("{RESUMES}autoApprove: {{ write: true }}\n");
    let user = resuming();
    let (_, task) = interrupted(&user);
    user.home.configure(&looser);
    assert!(user.run(&["daemon", "restart"]).status.success());
    assert_eq!(settled(&user)["requests"], json!([]), "the settings have changed");
    kill_daemon(&user);
    user.home.configure(RESUMES);
    assert!(user.run(&["trust"]).status.success());
    assert!(user.run(&["daemon", "restart"]).status.success());
    assert_eq!(settled(&user)["requests"], json!([]), "the workspace was not trusted");
    kill_daemon(&user);
    assert!(user.run(&["trust", "--revoke"]).status.success());
    assert!(user.run(&["daemon", "restart"]).status.success());
    eventually("the end of the request", || is_completed(&user, &task));
}

#[test]
fn a_request_waits_a_while_for_its_editor_and_then_goes_on_without() {
    let user = resuming();
    let mut editor = user.typed();
    let task = editor.start_task("Speak");
    eventually("the request to be noted", || is_marked(&user, &task));
    // Both at once, as at the end of a session: the editor's server first, so that it starts no daemon.
    editor.kill();
    kill_daemon(&user);
    assert!(user.run(&["daemon", "restart"]).status.success());
    assert_eq!(user.daemon()["resuming"], json!([task]));
    eventually("the end of the request", || is_completed(&user, &task));
}

#[test]
fn what_its_user_has_cancelled_since_does_not_go_on() {
    let user = resuming();
    let (urid, task) = interrupted(&user);
    let output = user.run(&["tasks", "cancel", &urid]);
    assert!(output.status.success() && is_marked(&user, &task), "{output:?}");
    assert!(user.run(&["daemon", "restart"]).status.success());
    assert_eq!(settled(&user)["requests"], json!([]));
    let log = fs::read_to_string(user.home.log(&task)).unwrap();
    assert!(!log.contains("\"resumed\""), "{log}");
    assert!(!is_marked(&user, &task), "no later daemon looks at it again");
}

#[test]
fn an_orderly_end_leaves_nothing_to_go_on_with() {
    let user = resuming();
    detached(&user, &[]);
    let task = user.daemon()["requests"][0]["id"].as_str().unwrap().to_owned();
    eventually("the request to be noted", || is_marked(&user, &task));
    assert!(user.run(&["daemon", "restart"]).status.success());
    let daemon = user.daemon();
    assert_eq!((&daemon["requests"], &daemon["resuming"]), (&json!([]), &json!([])));
    assert!(!is_completed(&user, &task));
}
