//! Requests of the daemon in terminals: started there, watched, and told of. Following one is in [`crate::daemon`].

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use crate::daemon::{DaemonUser, Terminal};
use crate::daemon_reconnect::{SPEAKS, kill_daemon};
use crate::server::WRITES;
use crate::support::assert_gapless;
use crate::support::client::{DEADLINE, eventually};

const ASKS: &str = r#"
turns:
  - calls: [{ tool: ask_followup_question, params: { question: Which?, follow_up: [{ text: this }, { text: that }] } }]
  - { calls: [{ tool: attempt_completion, params: { result: Answered. } }] }
"#;

/// Starts a request in the daemon; returns its id.
pub fn detached(user: &DaemonUser, arguments: &[&str]) -> String {
    let output = user.run(&[&["run", "--detach", "Ask me", "--mode", "code"], arguments].concat());
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{error}");
    let urid = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    assert!(error.contains(&format!("roo-lsp attach {urid}")), "{error}");
    urid
}

#[test]
fn a_request_is_started_in_the_daemon_and_followed_from_there() {
    let user = DaemonUser::playing(ASKS);
    let urid = detached(&user, &[]);
    let daemon = user.daemon();
    assert_eq!(daemon["requests"][0]["urid"], urid.as_str(), "{daemon}");
    let mut terminal = Terminal::attach(&user, &[&urid]);
    terminal.shows("Which?");
    terminal.shows("  > ");
    terminal.types("1");
    assert_eq!(terminal.end(), (0, "Answered.\n".to_owned()));
}

#[test]
fn what_the_flags_allow_counts_for_the_request_alone() {
    let user = DaemonUser::playing(WRITES);
    detached(&user, &["--allow-write"]);
    eventually("the file", || {
        fs::read_to_string(user.home.work("new.txt")).is_ok_and(|text| text == "one\n")
    });
    fs::remove_file(user.home.work("new.txt")).unwrap();
    let mut editor = user.typed();
    let task = editor.start_task("Write");
    editor.event("approval.requested");
    editor.request("roo/task/cancel", json!({ "taskId": task }));
    editor.state("cancelled");
    assert_eq!(editor.shut_down(), 0);
}

#[test]
fn what_would_fail_is_told_before_anything_is_started() {
    let user = DaemonUser::playing(ASKS);
    for (arguments, problem, code) in [
        (&["run", "--detach", "Go", "--mode", "nothing"] as &[&str], "nothing", 2),
        (&["run", "--detach", "Go", "--profile", "none"], "no model profile 'none'", 2),
        (&["run", "--detach", "Go", "--format", "ndjson"], "--detach", 2),
    ] {
        let output = user.run(arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), error.contains(problem)), (Some(code), true), "{error}");
    }
    assert_eq!(user.daemons().len(), 0);
}

/// `roo-lsp tasks watch`, as it runs.
struct Watching {
    child: std::process::Child,
    lines: Receiver<String>,
}

impl Watching {
    fn start(user: &DaemonUser, arguments: &[&str], path: Option<String>) -> Self {
        let mut command = user.command(&[&["tasks", "watch"], arguments].concat());
        if let Some(path) = path {
            command.env("PATH", path);
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { child, lines }
    }

    /// Waits for a line with these in it. Returns the lines before it.
    #[track_caller]
    fn tells(&self, parts: &[&str]) -> Vec<String> {
        let mut before = vec![];
        loop {
            let line = self.lines.recv_timeout(DEADLINE).unwrap_or_else(|error| panic!("{parts:?}: {error}"));
            if parts.iter().all(|part| line.contains(part)) {
                return before;
            }
            before.push(line);
        }
    }
}

#[test]
fn requests_are_watched_as_they_change() {
    let user = DaemonUser::playing(ASKS);
    let nobody = user.run(&["tasks", "watch"]);
    let error = String::from_utf8(nobody.stderr).unwrap();
    assert_eq!((nobody.status.code(), error.contains("no daemon runs")), (Some(1), true), "{error}");
    let urid = detached(&user, &[]);
    let mut watching = Watching::start(&user, &[], None);
    watching.tells(&[&urid, "waiting (1 question open)", "Ask me"]);
    let mut terminal = Terminal::attach(&user, &[&urid]);
    terminal.shows("  > ");
    terminal.types("2");
    watching.tells(&[&urid, "completed"]);
    assert_eq!(terminal.end().0, 0);
    assert!(user.run(&["daemon", "stop"]).status.success());
    assert_eq!(watching.child.wait().unwrap().code(), Some(0), "it ends with the daemon");
}

#[test]
fn a_terminal_keeps_no_editor_from_changing_its_settings() {
    let user = DaemonUser::playing(ASKS);
    let mut editor = user.typed();
    let task = editor.start_task("Ask");
    editor.event("question.asked");
    let mut terminal = Terminal::attach(&user, &[&task]);
    terminal.shows("  > ");
    let options = json!({ "options": { "roo": { "autoApprove": { "write": true } } } });
    editor.notify("roo/options/didChange", options);
    eventually("the new settings", || {
        let settings = editor.request("roo/autoApprove/get", json!({}));
        let items = settings["settings"].as_array().unwrap();
        items.iter().any(|item| item["key"] == "write" && item["unasked"] != "none")
    });
    terminal.types("/cancel");
    editor.state("cancelled");
    assert_eq!(terminal.end().0, 130);
    assert_eq!(editor.shut_down(), 0);
}

#[test]
fn the_user_is_notified_if_they_want_that() {
    let user = DaemonUser::playing(ASKS);
    user.home.configure("daemon: { notifications: notify-send }\n");
    let (programs, told) = (user.home.path("programs"), user.home.path("told"));
    fs::create_dir(&programs).unwrap();
    let program = programs.join("notify-send");
    fs::write(&program, format!("#!/bin/sh\nprintf '%s|' \"$@\" >>{0}\necho >>{0}\n", told.display()))
        .unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut editor = user.typed();
    editor.request("roo/task/list", json!({}));
    let watching = Watching::start(&user, &[], Some(path));
    let first = editor.start_task("Ask <b>me</b>");
    let question = editor.event("question.asked")["event"]["questionId"].clone();
    watching.tells(&["waiting"]);
    editor.request("roo/question/answer", json!({ "questionId": question, "text": "this" }));
    watching.tells(&["completed"]);
    let has = |text: &str| fs::read_to_string(&told).is_ok_and(|told| told.contains(text));
    eventually("the notifications", || {
        has("a request has ended|Ask &lt;b&gt;me&lt;/b&gt;|") && has("--app-name=roo-lsp|--|")
    });
    editor.state("completed");
    editor.request("roo/task/detach", json!({ "taskId": first }));
    assert_eq!(editor.shut_down(), 0);
    assert!(user.run(&["daemon", "stop"]).status.success());
}

#[test]
fn a_terminal_goes_on_with_the_next_daemon_and_shows_each_event_once() {
    let user = DaemonUser::playing(SPEAKS);
    user.home.configure("daemon: { resumeAfterCrash: true }\n");
    let urid = detached(&user, &[]);
    let mut terminal = Terminal::attach(&user, &[&urid, "--format", "ndjson"]);
    eventually("the terminal", || user.daemon()["clients"] == 1);
    for kill in 1..=2 {
        kill_daemon(&user);
        terminal.shows_times("another daemon has taken over", kill);
    }
    let (code, output) = terminal.end();
    let events: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let numbered: Vec<Value> = events.into_iter().filter(|event| event["seq"].is_u64()).collect();
    assert_gapless(&numbered, 1);
    let ends: Vec<&Value> = numbered.iter().filter(|event| event["event"]["state"] == "completed").collect();
    assert_eq!((code, ends.len(), &ends[0]["event"]["result"]), (0, 1, &json!("Done.")));
}

#[test]
fn what_a_terminal_was_asked_is_asked_again_by_the_next_daemon_and_answered_once() {
    let user = DaemonUser::playing(ASKS);
    user.home.configure("daemon: { resumeAfterCrash: true }\n");
    let urid = detached(&user, &[]);
    let task = user.daemon()["requests"][0]["id"].as_str().unwrap().to_owned();
    let mut terminal = Terminal::attach(&user, &[&urid]);
    terminal.shows("  > ");
    kill_daemon(&user);
    terminal.shows_behind("another daemon has taken over", "  > ");
    terminal.types("2");
    assert_eq!(terminal.end(), (0, "Answered.\n".to_owned()));
    let log = fs::read_to_string(user.home.log(&task)).unwrap();
    assert_eq!(log.matches("\"questionAnswered\"").count(), 1, "{log}");
}

#[test]
fn a_line_that_was_typed_before_something_was_asked_answers_nothing() {
    let user = DaemonUser::playing(WRITES);
    let urid = detached(&user, &[]);
    let task = user.daemon()["requests"][0]["id"].as_str().unwrap().to_owned();
    let log = user.home.log(&task);
    eventually("the approval", || {
        fs::read_to_string(&log).is_ok_and(|log| log.contains("approvalRequested"))
    });
    let mut terminal = Terminal::attach(&user, &[&urid]);
    terminal.types("n");
    terminal.shows_behind("Allow?", "'n' was not sent");
    terminal.shows_behind("'n' was not sent", "Allow?");
    terminal.types("y");
    assert_eq!(terminal.end(), (0, "Written.\n".to_owned()));
}

#[test]
fn a_terminal_whose_request_does_not_go_on_says_how_to_continue() {
    let user = DaemonUser::playing(ASKS);
    let urid = detached(&user, &[]);
    let mut terminal = Terminal::attach(&user, &[&urid]);
    terminal.shows("  > ");
    kill_daemon(&user);
    terminal.shows("the daemon ended unexpectedly");
    terminal.shows(&format!("the request is interrupted; continue with: roo-lsp tasks resume {urid}"));
    assert_eq!(terminal.end().0, 1);
}

#[test]
fn requests_are_watched_in_the_next_daemon_and_no_change_is_told_twice() {
    let user = DaemonUser::playing(SPEAKS);
    user.home.configure("daemon: { resumeAfterCrash: true }\n");
    let urid = detached(&user, &[]);
    let mut watching = Watching::start(&user, &[], None);
    watching.tells(&[&urid, "running"]);
    kill_daemon(&user);
    assert_eq!(watching.tells(&[&urid, "completed"]), Vec::<String>::new());
    assert!(user.run(&["daemon", "stop"]).status.success());
    assert_eq!(watching.child.wait().unwrap().code(), Some(0), "it ends with a daemon that is stopped");
}
