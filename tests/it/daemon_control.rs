//! The daemon's files, its end, and what happens where there can be none.

use std::fs::{self, Permissions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::daemon::{DaemonUser, is_gone};
use crate::support::client::{Client, Options, eventually};

/// Says something and is done.
const HELLO: &str =
    "turns: [{ text: Hello., calls: [{ tool: attempt_completion, params: { result: Done. } }] }]";
const ASKS: &str = r#"
turns:
  - calls: [{ tool: ask_followup_question, params: { question: Go on?, follow_up: [{ text: Yes }] } }]
  - { calls: [{ tool: attempt_completion, params: { result: Done. } }] }
"#;

fn mode(path: &std::path::Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o777
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The client works without the daemon, and its user is told why.
#[track_caller]
fn assert_serves_itself(mut client: Client, why: &str) {
    let told = client.message("without the daemon")["message"].clone();
    assert!(told.as_str().unwrap().contains(why), "{told}");
    client.start_task("Say hello");
    client.state("completed");
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn the_socket_is_the_users_alone() {
    let user = DaemonUser::playing(HELLO);
    let client = user.typed();
    assert_eq!((mode(&user.sockets()), mode(&user.socket())), (0o700, 0o600));
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn what_others_may_use_is_not_trusted() {
    let user = DaemonUser::playing(HELLO);
    assert_eq!(user.typed().shut_down(), 0);
    let socket = user.socket();
    fs::set_permissions(&socket, Permissions::from_mode(0o666)).unwrap();
    assert_serves_itself(user.typed(), "other users may use it");
    fs::set_permissions(&socket, Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(user.sockets(), Permissions::from_mode(0o755)).unwrap();
    assert_serves_itself(user.typed(), "other users may use it");
    fs::set_permissions(user.sockets(), Permissions::from_mode(0o700)).unwrap();
    assert_eq!(user.typed().shut_down(), 0);
}

/// A user of the system whom nobody is.
const NOBODY: u32 = 65534;

#[test]
fn what_belongs_to_another_user_is_not_trusted() {
    let user = DaemonUser::playing(HELLO);
    assert_eq!(user.typed().shut_down(), 0);
    let socket = user.socket();
    match chown(&socket, Some(NOBODY), None) {
        Ok(()) => {}
        // Only root can make such a socket, so that another one's can't be put there either.
        Err(error) => return assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied),
    }
    assert_serves_itself(user.typed(), "it belongs to another user");
    let status = user.run(&["daemon", "status"]);
    assert!(String::from_utf8_lossy(&status.stdout).contains("it belongs to another user"), "{status:?}");
    let stop = user.run(&["daemon", "stop"]);
    assert!(!stop.status.success(), "nothing is said to whoever listens there: {stop:?}");
    chown(&socket, Some(0), None).unwrap();
    let owned = user.sockets();
    chown(&owned, Some(NOBODY), None).unwrap();
    assert_serves_itself(user.typed(), "it belongs to another user");
    chown(&owned, Some(0), None).unwrap();
    assert_eq!(user.typed().shut_down(), 0);
}

#[test]
fn who_does_not_know_the_key_is_refused() {
    let user = DaemonUser::playing(HELLO);
    let client = user.typed();
    for wish in [json!({ "kind": "status" }), json!({ "kind": "stop", "onlyIfIdle": false })] {
        let mut stream = UnixStream::connect(user.socket()).unwrap();
        let hello = json!({ "build": { "version": "", "digest": "" }, "key": "guessed", "environment": null, "wish": wish });
        stream.write_all(format!("{hello}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains("refused") && answer.contains("key"), "{answer}");
    }
    assert_eq!(user.daemon()["clients"], 1, "it serves on");
    assert_eq!(client.shut_down(), 0);
}

/// As when the runtime directory goes with the last login, or the user has removed the state directory.
#[test]
fn a_daemon_whose_files_were_removed_is_found_again() {
    let user = DaemonUser::playing(ASKS);
    let mut client = user.typed();
    let task = client.start_task("Ask");
    client.event("question.asked");
    let process = user.process();
    fs::remove_dir_all(user.sockets()).unwrap();
    eventually("the daemon", || user.daemons().iter().any(|daemon| daemon["process"] == process));
    assert_eq!((mode(&user.sockets()), mode(&user.socket())), (0o700, 0o600));
    fs::remove_dir_all(user.home.path("state/roo-lsp/daemon")).unwrap();
    eventually("the key", || user.run(&["daemon", "status"]).status.success() && user.daemons().len() == 1);
    let mut other = user.typed();
    other.request("roo/task/attach", json!({ "taskId": task, "afterSeq": 0 }));
    other.event("question.asked");
    assert_eq!(user.process(), process);
    assert_eq!(other.shut_down(), 0);
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn without_a_place_for_a_socket_a_client_serves_itself() {
    let user = DaemonUser::playing(HELLO);
    fs::write(user.sockets(), "a file").unwrap();
    assert_serves_itself(user.typed(), "it is no folder");
    fs::remove_file(user.sockets()).unwrap();
}

#[test]
fn a_daemon_that_does_not_answer_is_not_waited_for() {
    let user = DaemonUser::playing(HELLO);
    assert_eq!(user.typed().shut_down(), 0);
    let socket = user.socket();
    user.run(&["daemon", "stop"]);
    let listener = UnixListener::bind(&socket).unwrap();
    fs::set_permissions(&socket, Permissions::from_mode(0o600)).unwrap();
    assert_serves_itself(user.typed(), "doesn't answer");
    let attached = user.run(&["attach"]);
    let said = String::from_utf8_lossy(&attached.stderr);
    assert!(said.contains("a daemon can't be asked: the daemon doesn't answer"), "{said}");
    assert_eq!(attached.status.code(), Some(1));
    drop(listener);
    fs::remove_file(&socket).unwrap();
}

#[test]
fn the_socket_of_a_daemon_that_was_killed_is_replaced() {
    let user = DaemonUser::playing(ASKS);
    let mut client = user.typed();
    let task = client.start_task("Ask");
    client.event("question.asked");
    let process = user.process();
    Command::new("kill").args(["-KILL", &process.to_string()]).status().unwrap();
    eventually("the end of the daemon", || is_gone(process));
    client.message("another one has taken over");
    assert_ne!(user.process(), process);
    let found = client.request("roo/task/list", json!({}));
    assert_eq!(found["items"][0]["taskId"], task, "its requests are kept: {found}");
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn a_daemon_is_shown_stopped_and_started_anew() {
    let user = DaemonUser::playing(ASKS);
    assert_eq!(text(&user.run(&["daemon", "status"])), "no daemon runs\n");
    assert_eq!(text(&user.run(&["daemon", "stop"])), "no daemon ran\n");
    let mut client = user.typed();
    let prompt = json!({ "prompt": "Ask me something", "mode": "code" });
    let urid = client.request("roo/task/start", prompt)["urid"].as_str().unwrap().to_owned();
    client.event("question.asked");
    let process = user.process();
    let shown = text(&user.run(&["daemon", "status"]));
    for part in [&format!("process {process}"), "1 client", &urid, "waiting", "Ask me something"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let stopped = text(&user.run(&["daemon", "stop"]));
    assert_eq!(stopped, "1 daemon was stopped; its requests can be resumed\n");
    eventually("the end of the daemon", || is_gone(process));
    assert_eq!(client.exit_code(), 1);
    assert!(text(&user.run(&["daemon", "restart"])).ends_with("a daemon runs\n"));
    let first = user.process();
    text(&user.run(&["daemon", "restart"]));
    assert_ne!(user.process(), first);
    let log = text(&user.run(&["daemon", "logs"]));
    assert!(!log.contains("panicked"), "{log}");
}

#[test]
fn how_requests_are_is_told_without_reading_their_logs() {
    let user = DaemonUser::playing(ASKS);
    let mut client = user.typed();
    let task = client.start_task("Ask me something");
    client.event("question.asked");
    let (log, elsewhere) = (user.home.log(&task), user.home.path("log"));
    fs::rename(&log, &elsewhere).unwrap();
    let request = user.daemon()["requests"][0].clone();
    fs::rename(&elsewhere, &log).unwrap();
    let told = (&request["state"], &request["waiting"], &request["isAtWork"], &request["title"]);
    assert_eq!(told, (&json!("waiting"), &json!(1), &json!(false), &json!("Ask me something")));
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn another_build_replaces_an_idle_daemon_and_leaves_a_busy_one() {
    let user = DaemonUser::playing(HELLO);
    let copy = user.home.path("roo-lsp-copy");
    fs::copy(env!("CARGO_BIN_EXE_roo-lsp"), &copy).unwrap();
    let other = || {
        let options = Options { program: Some(copy.clone()), ..user.options(Options::typed()) };
        Client::start(&user.home, options)
    };
    let client = user.typed();
    let process = user.process();
    assert_serves_itself(other(), "another build");
    assert_eq!(client.shut_down(), 0);
    eventually("the client to be gone", || user.daemon()["clients"] == 0);
    let client = other();
    assert_ne!(user.process(), process);
    eventually("the end of the daemon", || is_gone(process));
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn a_client_with_another_environment_has_a_daemon_of_its_own() {
    let user = DaemonUser::playing(HELLO);
    let with = |name, value: &str| {
        let mut options = user.options(Options::typed());
        options.environment.push((name, value.to_owned()));
        Client::start(&user.home, options)
    };
    let one = user.typed();
    let same = with("TERM", "another-terminal");
    assert_eq!(user.daemons().len(), 1, "a terminal is no environment");
    let other = with("ANY_KEY", "value");
    let clients: Vec<Value> = user.daemons().iter().map(|daemon| daemon["clients"].clone()).collect();
    assert_eq!(clients.len(), 2);
    assert_eq!(clients.iter().filter_map(Value::as_u64).sum::<u64>(), 3);
    for client in [one, same, other] {
        assert_eq!(client.shut_down(), 0);
    }
}
