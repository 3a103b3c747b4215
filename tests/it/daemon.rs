//! The daemon: several editors on the same live requests. Its files and its end are in [`crate::daemon_control`].

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::server::WRITES;
use crate::support::client::{Client, DEADLINE, Home, Options, eventually};
use crate::support::{assert_gapless, scratch};

const ASKS: &str = r#"
turns:
  - calls: [{ tool: ask_followup_question, params: { question: Which?, follow_up: [{ text: this }, { text: that }] } }]
  - { calls: [{ tool: attempt_completion, params: { result: Answered. } }] }
"#;
/// Speaks for a while and is done.
const SPEAKS: &str = r#"
turns:
  - text: "A text that takes a while."
    chunk: 1
    delayMs: 100
    calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;
/// Reads a file and changes it.
const EDITS: &str = r#"
turns:
  - calls: [{ tool: read_file, params: { path: a.txt } }]
  - calls: [{ tool: write_to_file, params: { path: a.txt, content: "new\n" } }]
  - { when: { status: ok }, calls: [{ tool: attempt_completion, params: { result: Changed. } }] }
"#;

/// A user with a daemon, which is ended with the test.
pub struct DaemonUser {
    pub home: Home,
    /// For sockets.
    runtime: tempfile::TempDir,
    /// The time without clients after which the daemon ends, in seconds.
    pub idle: u32,
}

impl DaemonUser {
    pub fn playing(script: &str) -> Self {
        let runtime = tempfile::Builder::new().prefix("run").tempdir_in(scratch()).unwrap();
        Self { home: Home::playing(script), runtime, idle: 300 }
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("XDG_RUNTIME_DIR", self.runtime.path().to_str().unwrap().to_owned()),
            ("ROO_LSP_DAEMON_IDLE", self.idle.to_string()),
        ]
    }

    /// These clients, served by the daemon.
    pub fn options(&self, options: Options) -> Options {
        Options { arguments: &["--daemon"], environment: self.environment(), ..options }
    }

    /// An editor that speaks `roo/*`.
    pub fn typed(&self) -> Client {
        Client::start(&self.home, self.options(Options::typed()))
    }

    /// An editor of plain LSP.
    pub fn plain(&self) -> Client {
        Client::start(&self.home, self.options(Options::plain()))
    }

    /// The folder of the sockets.
    pub fn sockets(&self) -> PathBuf {
        self.runtime.path().join("roo-lsp")
    }

    /// The one socket.
    pub fn socket(&self) -> PathBuf {
        let files = fs::read_dir(self.sockets()).unwrap().map(|entry| entry.unwrap().path());
        let mut sockets: Vec<_> = files.filter(|path| path.extension().unwrap() == "sock").collect();
        assert_eq!(sockets.len(), 1, "{sockets:?}");
        sockets.remove(0)
    }

    /// A run of `roo-lsp` in the same environment.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).stdin(Stdio::null()).output().unwrap()
    }

    /// The same, to be started.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_roo-lsp"));
        command
            .args(arguments)
            .env("XDG_CONFIG_HOME", self.home.path("config"))
            .env("XDG_STATE_HOME", self.home.path("state"))
            .env("HOME", self.home.path(""))
            .env_remove("ROO_LSP_LOG")
            .envs(self.environment())
            .current_dir(self.home.path("work"));
        command
    }

    /// What daemons say of themselves.
    pub fn daemons(&self) -> Vec<Value> {
        let output = self.run(&["daemon", "status", "--json"]);
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What the one daemon says of itself.
    #[track_caller]
    pub fn daemon(&self) -> Value {
        let mut daemons = self.daemons();
        assert_eq!(daemons.len(), 1, "{daemons:?}");
        daemons.remove(0)
    }

    /// The daemon's process.
    #[track_caller]
    pub fn process(&self) -> u64 {
        self.daemon()["process"].as_u64().unwrap()
    }
}

impl Drop for DaemonUser {
    fn drop(&mut self) {
        let processes: Vec<u64> = match std::thread::panicking() {
            true => vec![],
            false => self.daemons().iter().map(|daemon| daemon["process"].as_u64().unwrap()).collect(),
        };
        let output = self.run(&["daemon", "stop"]);
        if !std::thread::panicking() {
            assert!(output.status.success(), "{output:?}");
            for process in processes {
                eventually("the end of the daemon", || is_gone(process));
            }
        }
    }
}

/// True if a process has ended, whether or not its parent has heard of it.
pub fn is_gone(process: u64) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    status.is_empty() || status.rsplit(") ").next().unwrap().starts_with('Z')
}

fn allow(approval: &Value) -> Value {
    json!({ "approvalId": approval["approvalId"], "digest": approval["digest"], "optionId": "allow_once" })
}

fn follow(client: &mut Client, task: &str) {
    client.request("roo/task/attach", json!({ "taskId": task, "afterSeq": 0 }));
}

#[test]
fn two_editors_see_one_request_by_the_same_numbers_and_either_answers() {
    let user = DaemonUser::playing(WRITES);
    let (mut one, mut other) = (user.typed(), user.typed());
    let task = one.start_task("Write");
    follow(&mut other, &task);
    let (asked, seen) = (one.event("approval.requested"), other.event("approval.requested"));
    assert_eq!((&asked["seq"], &asked["event"]), (&seen["seq"], &seen["event"]));
    assert_eq!(other.request("roo/approval/respond", allow(&seen["event"]))["accepted"], true);
    assert_eq!(one.event("approval.resolved")["event"]["approvalId"], asked["event"]["approvalId"]);
    let (ended, seen) = (one.state("completed"), other.state("completed"));
    assert_eq!(ended["seq"], seen["seq"]);
    assert_gapless(&other.numbered(&task), 1);
    assert_eq!(fs::read_to_string(user.home.work("new.txt")).unwrap(), "one\n");
    let daemon = user.daemon();
    assert_eq!(daemon["clients"], 2, "{daemon}");
    assert_eq!((one.shut_down(), other.shut_down()), (0, 0));
}

#[test]
fn an_approval_that_one_editor_answers_vanishes_in_the_others() {
    let user = DaemonUser::playing(WRITES);
    let (mut one, mut other) = (user.plain(), user.plain());
    // Both are there before the request.
    one.command("roo.status", Value::Null);
    other.command("roo.status", Value::Null);
    one.command("roo.newTask", json!({ "prompt": "Write", "mode": "code" }));
    let (popup, same) = (one.popup(), other.popup());
    assert_eq!(popup["params"]["message"], same["params"]["message"]);
    one.reply(&popup, json!({ "title": "Allow" }));
    let taken_away = other.wait_for("the end of the popup", |message| message["method"] == "$/cancelRequest");
    assert_eq!(taken_away["params"]["id"], same["id"]);
    other.reply(&same, Value::Null);
    one.message("completed: Written.");
    other.message("completed: Written.");
    assert_eq!((one.shut_down(), other.shut_down()), (0, 0));
}

#[test]
fn an_editor_that_comes_later_is_asked_what_waits() {
    let user = DaemonUser::playing(ASKS);
    let mut one = user.plain();
    one.command("roo.newTask", json!({ "prompt": "Ask", "mode": "code" }));
    let popup = one.popup();
    let mut late = user.plain();
    let same = late.popup();
    assert!(same["params"]["message"].as_str().unwrap().contains("Which?"), "{same}");
    late.reply(&same, json!({ "title": "this" }));
    let (mut is_withdrawn, mut is_completed) = (false, false);
    one.wait_for("the end of the popup and of the request", move |message| {
        is_withdrawn |= message["method"] == "$/cancelRequest";
        let said = message["params"]["message"].as_str().unwrap_or_default();
        is_completed |= said.contains("completed: Answered.");
        is_withdrawn && is_completed
    });
    one.reply(&popup, Value::Null);
    late.message("completed: Answered.");
    assert!(late.popups.is_empty(), "it is asked once");
    assert_eq!((one.shut_down(), late.shut_down()), (0, 0));
}

#[test]
fn editors_of_either_protocol_work_on_one_request() {
    let user = DaemonUser::playing(WRITES);
    // As VS Code and Neovim say what they speak.
    let spoken = json!({ "protocolVersion": 1, "documentSave": true, "codeAsk": true });
    let options = Options::typed().with(json!({ "initializationOptions": { "roo": spoken } }));
    let mut typed = Client::start(&user.home, user.options(options));
    let mut plain = user.plain();
    plain.command("roo.status", Value::Null);
    typed.start_task("Write");
    typed.event("approval.requested");
    let popup = plain.popup();
    assert_eq!(user.daemon()["requests"][0]["clients"], 2);
    plain.reply(&popup, json!({ "title": "Allow" }));
    assert_eq!(typed.state("completed")["event"]["result"], "Written.");
    plain.message("completed: Written.");
    assert_eq!((typed.shut_down(), plain.shut_down()), (0, 0));
}

#[test]
fn a_request_goes_on_when_the_editor_that_started_it_is_killed() {
    let user = DaemonUser::playing(SPEAKS);
    let mut one = user.typed();
    let task = one.start_task("Speak");
    one.event("message.delta");
    one.kill();
    let mut other = user.typed();
    follow(&mut other, &task);
    assert_eq!(other.state("completed")["event"]["result"], "Done.");
    assert_gapless(&other.numbered(&task), 1);
    assert_eq!(other.shut_down(), 0);
}

#[test]
fn a_daemon_is_no_child_of_the_client_that_started_it() {
    let user = DaemonUser::playing(WRITES);
    let mut editor = user.typed();
    editor.request("roo/task/list", json!({}));
    let status = fs::read_to_string(format!("/proc/{}/stat", user.process())).unwrap();
    let parent = status.rsplit(") ").next().unwrap().split(' ').nth(1).unwrap();
    assert_ne!(parent, editor.process_id().to_string(), "an editor may kill all processes below its server");
    assert_eq!(editor.shut_down(), 0);
}

#[test]
fn a_request_goes_on_when_its_editor_is_closed_in_good_order() {
    let user = DaemonUser::playing(SPEAKS);
    let mut one = user.typed();
    let task = one.start_task("Speak");
    one.event("message.delta");
    assert_eq!(one.shut_down(), 0);
    let mut other = user.typed();
    follow(&mut other, &task);
    other.state("completed");
    assert_eq!(other.shut_down(), 0);
}

#[test]
fn the_exit_code_says_whether_the_client_asked_first() {
    let user = DaemonUser::playing(WRITES);
    assert_eq!(user.typed().shut_down(), 0);
    assert_eq!(user.typed().hang_up(), 1);
    let mut client = user.typed();
    client.notify("exit", Value::Null);
    assert_eq!(client.exit_code(), 1);
}

/// A user whose model changes a file without asking.
fn editing() -> DaemonUser {
    let user = DaemonUser::playing(EDITS);
    user.home.configure("autoApprove: { write: true }\n");
    fs::write(user.home.work("a.txt"), "old\n").unwrap();
    user
}

#[test]
fn an_edit_lands_in_the_editor_that_has_the_file_open() {
    let user = editing();
    let (mut holder, mut starter) = (user.typed(), user.typed());
    let uri = holder.open(&user.home.work("a.txt"), "old\n");
    holder.append(&uri, "typed\n");
    // Answered behind what the editor has said before.
    holder.request("roo/task/list", json!({}));
    let task = starter.start_task("Change");
    let (_, text) = holder.until_document("a.txt", "new");
    assert_eq!(text, "new\n");
    assert_eq!(starter.state("completed")["event"]["result"], "Changed.");
    assert_eq!(
        fs::read_to_string(user.home.work("a.txt")).unwrap(),
        "old\n",
        "the editor saves, not the task"
    );
    assert_eq!(starter.request("roo/task/get", json!({ "taskId": task }))["state"], "completed");
    assert_eq!((holder.shut_down(), starter.shut_down()), (0, 0));
}

#[test]
fn of_two_editors_with_unsaved_text_one_gets_the_edit_and_the_other_is_told() {
    let user = editing();
    let (mut other, mut holder, mut starter) = (user.typed(), user.typed(), user.typed());
    // What was typed last is what the task reads.
    for (editor, text) in [(&mut other, "typed first\n"), (&mut holder, "typed last\n")] {
        let uri = editor.open(&user.home.work("a.txt"), "old\n");
        editor.append(&uri, text);
        editor.request("roo/task/list", json!({}));
    }
    starter.start_task("Change");
    assert_eq!(holder.until_document("a.txt", "new").1, "new\n");
    other.message("in another editor");
    assert_eq!(starter.state("completed")["event"]["result"], "Changed.");
    let texts: Vec<&str> = other.documents.values().map(|document| document.text.as_str()).collect();
    assert_eq!(texts, ["old\ntyped first\n"], "no keystroke is lost");
    for editor in [other, holder, starter] {
        assert_eq!(editor.shut_down(), 0);
    }
}

#[test]
fn a_file_that_its_editor_has_left_is_written_on_disk() {
    let user = editing();
    let (mut holder, mut starter) = (user.typed(), user.typed());
    let uri = holder.open(&user.home.work("a.txt"), "old\n");
    holder.append(&uri, "typed\n");
    holder.request("roo/task/list", json!({}));
    assert_eq!(holder.shut_down(), 0);
    starter.start_task("Change");
    assert_eq!(starter.state("completed")["event"]["result"], "Changed.");
    assert_eq!(fs::read_to_string(user.home.work("a.txt")).unwrap(), "new\n");
    assert_eq!(starter.shut_down(), 0);
}

#[test]
fn editors_with_other_settings_have_requests_of_their_own() {
    let user = DaemonUser::playing(WRITES);
    let mut one = user.typed();
    let stricter = json!({ "initializationOptions": { "roo": { "limits": { "depth": 1 } } } });
    let mut other = Client::start(&user.home, user.options(Options::typed().with(stricter)));
    let task = one.start_task("Write");
    one.event("approval.requested");
    // It is there to be looked at, as any request of another process.
    assert_eq!(other.request("roo/task/get", json!({ "taskId": task }))["taskId"], task);
    let refused = other.refused("roo/task/attach", json!({ "taskId": task, "afterSeq": 0 }));
    assert_eq!(refused["data"]["kind"], "heldElsewhere", "{refused}");
    let daemon = user.daemon();
    assert_eq!((&daemon["clients"], &daemon["requests"][0]["clients"]), (&json!(2), &json!(1)), "{daemon}");
    assert_eq!((one.shut_down(), other.shut_down()), (0, 0));
}

#[test]
fn settings_that_one_editor_changes_leave_the_others_requests_alone() {
    let user = DaemonUser::playing(WRITES);
    let (mut one, mut other) = (user.typed(), user.typed());
    let task = one.start_task("Write");
    one.event("approval.requested");
    other.request("roo/task/list", json!({}));
    let loose = json!({ "options": { "roo": { "autoApprove": { "write": true } } } });
    other.notify("roo/options/didChange", loose);
    other.message("the settings of this editor have changed");
    let settings = one.request("roo/autoApprove/get", json!({}));
    let write = settings["settings"].as_array().unwrap().iter().find(|item| item["key"] == "write").unwrap();
    assert_eq!(write["unasked"], "none", "{write}");
    one.request("roo/task/cancel", json!({ "taskId": task }));
    one.state("cancelled");
    assert_eq!((one.shut_down(), other.shut_down()), (0, 0));
}

#[test]
#[ignore = "needs Python and a sandbox; ./scripts/test runs it"]
fn a_command_in_the_sandbox_does_not_reach_the_daemon() {
    let user = DaemonUser::playing("turns: []\n");
    user.home.configure("mode: code\nautoApprove: { execute: { allow: [[python3]] } }\n");
    let mut client = user.typed();
    client.request("roo/task/list", json!({}));
    fs::write(user.home.work("reach.py"), reaching(&user.socket())).unwrap();
    let script = r#"
turns:
  - calls: [{ tool: execute_command, params: { command: python3 reach.py } }]
  - calls: [{ tool: attempt_completion, params: { result: Tried. } }]
"#;
    fs::write(user.home.path("script.yaml"), script).unwrap();
    let task = client.start_task("Reach the daemon");
    loop {
        let event = client.wait_for("a question or the end", |message| {
            let event = &message["params"]["event"];
            event["type"] == "approval.requested" || event["state"] == "completed"
        })["params"]["event"]
            .clone();
        if event["type"] != "approval.requested" {
            break;
        }
        client.request("roo/approval/respond", allow(&event));
    }
    let log = fs::read_to_string(user.home.log(&task)).unwrap();
    assert!(log.contains("not reached"), "{log}");
    assert!(!log.contains("was reached"), "{log}");
    assert_eq!(client.shut_down(), 0);
}

/// A program that says whether it can connect to a socket.
fn reaching(socket: &Path) -> String {
    format!(
        "import socket\ns = socket.socket(socket.AF_UNIX)\ntry:\n    s.connect({:?})\n    print(\"it was\" + \" reached\")\n\
         except OSError as error:\n    print(\"it was\", \"not\" + \" reached:\", error)\n",
        socket.to_str().unwrap()
    )
}

#[test]
fn clients_that_start_at_once_start_one_daemon() {
    let user = DaemonUser::playing(WRITES);
    let clients: Vec<Client> = std::thread::scope(|scope| {
        let starting: Vec<_> = (0..4).map(|_| scope.spawn(|| user.typed())).collect();
        starting.into_iter().map(|client| client.join().unwrap()).collect()
    });
    assert_eq!(user.daemon()["clients"], 4);
    for client in clients {
        assert_eq!(client.shut_down(), 0);
    }
    eventually("the clients to be gone", || user.daemon()["clients"] == 0);
}

#[test]
fn a_daemon_that_nobody_needs_ends() {
    let mut user = DaemonUser::playing(WRITES);
    user.idle = 1;
    let client = user.typed();
    let process = user.process();
    assert_eq!(client.shut_down(), 0);
    eventually("the end of the daemon", || is_gone(process));
    assert_eq!(user.daemons(), Vec::<Value>::new());
}

#[test]
fn a_daemon_is_there_for_as_long_as_a_request_works() {
    let mut user = DaemonUser::playing(SPEAKS);
    user.idle = 1;
    let mut client = user.typed();
    let process = user.process();
    let task = client.start_task("Speak");
    client.event("message.delta");
    client.kill();
    eventually("the end of the daemon", || is_gone(process));
    let log = fs::read_to_string(user.home.log(&task)).unwrap();
    assert!(log.contains("Done."), "the request was completed first: {log}");
}

/// `roo-lsp attach`, as it runs.
pub struct Terminal {
    child: std::process::Child,
    output: std::sync::mpsc::Receiver<String>,
    seen: String,
}

impl Terminal {
    pub fn attach(user: &DaemonUser, arguments: &[&str]) -> Self {
        let arguments = [&["attach"] as &[&str], arguments].concat();
        let mut command = user.command(&arguments);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut error = child.stderr.take().unwrap();
        let (sender, output) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(length @ 1..) = error.read(&mut piece) {
                let text = String::from_utf8_lossy(&piece[..length]).into_owned();
                if sender.send(text).is_err() {
                    return;
                }
            }
        });
        Self { child, output, seen: String::new() }
    }

    /// Waits until this is shown.
    #[track_caller]
    pub fn shows(&mut self, text: &str) {
        self.shows_times(text, 1);
    }

    /// Waits until this was shown so many times.
    #[track_caller]
    pub fn shows_times(&mut self, text: &str, times: usize) {
        while self.seen.matches(text).count() < times {
            match self.output.recv_timeout(DEADLINE) {
                Ok(piece) => self.seen.push_str(&piece),
                Err(error) => panic!("waited in vain for {times} '{text}' ({error}): {}", self.seen),
            }
        }
    }

    /// Waits until this is shown behind the first of something else.
    #[track_caller]
    pub fn shows_behind(&mut self, first: &str, text: &str) {
        self.shows(first);
        while !self.seen.split_once(first).is_some_and(|(_, rest)| rest.contains(text)) {
            match self.output.recv_timeout(DEADLINE) {
                Ok(piece) => self.seen.push_str(&piece),
                Err(error) => panic!("waited in vain for '{text}' behind '{first}' ({error}): {}", self.seen),
            }
        }
    }

    pub fn types(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// All that is shown until the end.
    pub fn shown(&mut self) -> &str {
        while let Ok(piece) = self.output.recv_timeout(DEADLINE) {
            self.seen.push_str(&piece);
        }
        &self.seen
    }

    /// Waits for the end: the exit code, and what was printed to standard output.
    pub fn end(self) -> (i32, String) {
        let output = self.child.wait_with_output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    }
}

#[test]
fn a_terminal_answers_what_an_editor_has_started() {
    let user = DaemonUser::playing(WRITES);
    let mut editor = user.plain();
    editor.command("roo.newTask", json!({ "prompt": "Write", "mode": "code" }));
    let popup = editor.popup();
    let mut terminal = Terminal::attach(&user, &[]);
    terminal.shows("Allow?");
    terminal.types("y");
    editor.wait_for("the end of the popup", |message| message["method"] == "$/cancelRequest");
    editor.reply(&popup, Value::Null);
    editor.message("completed: Written.");
    assert_eq!(terminal.end(), (0, "Written.\n".to_owned()));
    assert_eq!(fs::read_to_string(user.home.work("new.txt")).unwrap(), "one\n");
    assert_eq!(editor.shut_down(), 0);
}

#[test]
fn a_terminal_leaves_a_request_as_it_is_and_cancels_it_only_when_told() {
    let user = DaemonUser::playing(ASKS);
    let mut editor = user.typed();
    let task = editor.start_task("Ask");
    editor.event("question.asked");
    let mut terminal = Terminal::attach(&user, &[&task]);
    terminal.shows("Which?");
    terminal.shows("  > ");
    terminal.types("/detach");
    terminal.shows("the request goes on");
    assert_eq!(terminal.end().0, 0);
    let mut terminal = Terminal::attach(&user, &[&task]);
    terminal.shows("  > ");
    terminal.types("/cancel");
    editor.state("cancelled");
    assert_eq!(terminal.shown().matches("  > ").count(), 1, "what shows nothing asks nothing again");
    assert_eq!(terminal.end().0, 130);
    assert_eq!(editor.shut_down(), 0);
}

#[test]
fn a_question_is_answered_by_the_number_of_a_suggestion() {
    let user = DaemonUser::playing(ASKS);
    let mut editor = user.typed();
    let task = editor.start_task("Ask");
    editor.event("question.asked");
    let mut terminal = Terminal::attach(&user, &[&task]);
    terminal.shows("  > ");
    terminal.types("2");
    assert_eq!(editor.event("question.answered")["event"]["text"], "that");
    assert_eq!(terminal.end(), (0, "Answered.\n".to_owned()));
    editor.state("completed");
    assert_eq!(editor.shut_down(), 0);
}

#[test]
fn without_a_live_request_there_is_nothing_to_attach_to() {
    let user = DaemonUser::playing(ASKS);
    let output = user.run(&["attach"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), error.contains("no request is live")), (Some(1), true), "{error}");
    let mut editor = user.typed();
    let task = editor.start_task("Ask");
    editor.event("question.asked");
    let output = user.run(&["attach", "nothing"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("no live request is named 'nothing'"), "{error}");
    assert!(
        error.contains("\nroo-lsp tasks show nothing says where it stands; one that has stopped"),
        "{error}"
    );
    editor.request("roo/task/cancel", json!({ "taskId": task }));
    editor.state("cancelled");
    assert_eq!(editor.shut_down(), 0);
}
