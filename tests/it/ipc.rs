//! `roo-lsp ipc` as programs meet it that drove Roo Code: the real program, and clients at its socket.

mod beside_editor;
mod node_ipc;

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::client::DEADLINE;
use crate::support::project::Project;

const DONE: &str = "  - calls: [{ tool: attempt_completion, params: { result: Done. } }]\n";
const WRITES: &str = "  - calls: [{ tool: write_to_file, params: { path: a.txt, content: \"one\\n\" } }]\n";
const ASKS: &str = "  - calls: [{ tool: ask_followup_question, params: { question: Which one?, follow_up: [{ text: First }, { text: Second }] } }]\n";
/// An answer that is written for as long as a test takes.
const SLOW: &str =
    "  - text: \"one two three four five six seven eight nine ten\"\n    chunk: 4\n    delayMs: 2000\n";

/// A trusted workspace whose model plays these turns.
fn playing(turns: &str) -> Project {
    let project = Project::new(&[]);
    let script = project.script(&format!("turns:\n{turns}"));
    let profile = format!("profiles:\n  default: {{ provider: scripted, script: {} }}\n", script.display());
    project.configure(&format!("mode: code\n{profile}"));
    project.succeed(&["trust"]);
    project
}

/// The program, while it serves.
struct Server {
    program: Child,
    socket: PathBuf,
}

impl Server {
    fn start(project: &Project, flags: &[&str]) -> Self {
        let socket = project.beside("ipc/roo.sock");
        let mut command = project.program();
        command.arg("ipc").args(flags).env("ROO_CODE_IPC_SOCKET_PATH", &socket);
        let mut program = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(program.stderr.take().unwrap()).lines().map_while(Result::ok);
        let serving = lines.find(|line| line.starts_with("roo-lsp: serving IPC at "));
        assert!(serving.is_some(), "it did not begin to serve");
        // Nobody else empties the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self { program, socket }
    }

    fn connect(&self) -> Client {
        Client::connect(&self.socket, Framing::NodeIpc)
    }

    /// Ends it by a signal, as its user does.
    fn end(mut self, signal: Signal) -> Option<i32> {
        let pid = Pid::from_raw(self.program.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
        let code = self.program.wait().unwrap().code();
        assert!(!self.socket.exists(), "the socket is removed");
        code
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Framing {
    NodeIpc,
    Lines,
}

/// A program that drives agents.
struct Client {
    input: UnixStream,
    output: BufReader<UnixStream>,
    framing: Framing,
}

impl Client {
    fn connect(socket: &PathBuf, framing: Framing) -> Self {
        let input = UnixStream::connect(socket).unwrap();
        input.set_read_timeout(Some(DEADLINE)).unwrap();
        let output = BufReader::new(input.try_clone().unwrap());
        Self { input, output, framing }
    }

    fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.input.write_all(bytes.as_ref()).unwrap();
    }

    /// Sends a command.
    fn command(&mut self, name: &str, data: Value) {
        let mut command = json!({ "commandName": name });
        if !data.is_null() {
            command["data"] = data;
        }
        let message = json!({ "type": "TaskCommand", "origin": "client", "clientId": "c", "data": command });
        match self.framing {
            Framing::NodeIpc => self.write(format!("{}\x0c", json!({ "type": "message", "data": message }))),
            Framing::Lines => self.write(format!("{message}\n")),
        }
    }

    fn start(&mut self, text: &str) {
        self.command("StartNewTask", json!({ "configuration": {}, "text": text }));
    }

    /// The next message; none at the end of the connection.
    fn next(&mut self) -> Option<Value> {
        let end = if self.framing == Framing::NodeIpc { 0x0c } else { b'\n' };
        loop {
            let mut frame = Vec::new();
            self.output.read_until(end, &mut frame).expect("the server says it");
            frame.pop()?;
            let Ok(message) = serde_json::from_slice::<Value>(&frame) else {
                // What came before a client has shown that it reads lines is none.
                assert!(self.framing == Framing::Lines, "{}", String::from_utf8_lossy(&frame));
                continue;
            };
            return Some(match self.framing {
                Framing::NodeIpc => {
                    assert_eq!(message["type"], "message", "{message}");
                    message["data"].clone()
                }
                Framing::Lines => message,
            });
        }
    }

    #[track_caller]
    fn wait_for(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.next().unwrap_or_else(|| panic!("the connection ended before {what}"));
            if is_it(&message) {
                return message;
            }
        }
    }

    /// The payload of the next event of this name.
    #[track_caller]
    fn event(&mut self, name: &str) -> Value {
        let message = self.wait_for(name, |message| message["data"]["eventName"] == name);
        assert_eq!((&message["type"], &message["origin"]), (&json!("TaskEvent"), &json!("server")));
        message["data"]["payload"].clone()
    }

    /// The next message of a task of this kind, such as `say text`, in its first version.
    #[track_caller]
    fn message(&mut self, kind: &str) -> Value {
        let (kind, name) = kind.split_once(' ').unwrap();
        let found = self.wait_for(name, |message| {
            message["data"]["eventName"] == "message"
                && message["data"]["payload"][0]["message"][kind] == name
        });
        found["data"]["payload"][0]["message"].clone()
    }
}

#[test]
fn a_client_is_welcomed_and_sees_a_task_to_its_end() {
    let project = playing(&format!(
        "  - text: I do it.\n    calls: [{{ tool: list_files, params: {{ path: . }} }}]\n{DONE}"
    ));
    let server = Server::start(&project, &[]);
    let mut client = server.connect();
    let ack = client.next().unwrap();
    assert_eq!((&ack["type"], &ack["origin"]), (&json!("Ack"), &json!("server")));
    assert_eq!(ack["data"]["pid"], server.program.id());
    assert_eq!(ack["data"]["ppid"], std::process::id());
    assert!(!ack["data"]["clientId"].as_str().unwrap().is_empty());

    client.start("Do it.");
    let id = client.event("taskCreated")[0].clone();
    assert_eq!(client.event("taskStarted"), json!([id]));
    assert_eq!(client.event("taskFocused"), json!([id]));
    assert_eq!(client.message("say text")["text"], "Do it.");
    let request = client.message("say api_req_started");
    assert!(request["text"].as_str().unwrap().contains("\"request\""), "{request}");
    assert!(client.message("say text")["text"].as_str().unwrap().starts_with('I'));
    let tool = client.message("ask tool");
    assert!(tool["text"].as_str().unwrap().contains("listFilesTopLevel"), "{tool}");
    assert_eq!(client.message("say completion_result")["text"], "Done.");
    let completed = client.event("taskCompleted");
    assert_eq!((&completed[0], &completed[3]), (&id, &json!({ "isSubtask": false })));
    assert_eq!(completed[2]["list_files"], json!({ "attempts": 1, "failures": 0 }));
    assert_eq!(client.message("ask completion_result")["text"], "");
    assert_eq!(client.event("taskIdle"), json!([id]));
    assert_eq!(server.end(Signal::INT), Some(130));
    assert_eq!(client.next(), None, "the connection ends with the server");
}

#[test]
fn a_client_that_writes_lines_is_answered_in_lines() {
    let project = playing(DONE);
    let server = Server::start(&project, &[]);
    let mut client = Client::connect(&server.socket, Framing::Lines);
    client.start("Do it.");
    let ack = client.next().unwrap();
    assert_eq!(ack["type"], "Ack", "once it has written one: {ack}");
    assert_eq!(client.message("say completion_result")["text"], "Done.");
    assert_eq!(server.end(Signal::TERM), Some(143));
}

#[test]
fn all_clients_are_told_and_each_of_them_steers() {
    let project = playing(&format!(
        "{ASKS}  - when: {{ contains: Second }}\n    calls: [{{ tool: attempt_completion, params: {{ result: Took it. }} }}]\n"
    ));
    let server = Server::start(&project, &[]);
    let (mut one, mut other) = (server.connect(), server.connect());
    for client in [&mut one, &mut other] {
        assert_eq!(client.next().unwrap()["type"], "Ack");
    }
    one.start("Choose.");
    let asked = other.message("ask followup");
    let data: Value = serde_json::from_str(asked["text"].as_str().unwrap()).unwrap();
    assert_eq!(
        data,
        json!({ "question": "Which one?", "suggest": [{ "answer": "First" }, { "answer": "Second" }] })
    );
    let id = other.event("taskInteractive");
    assert_eq!(one.event("taskInteractive"), id);
    other.command("SendMessage", json!({ "text": "Second" }));
    for client in [&mut one, &mut other] {
        assert_eq!(client.message("say user_feedback")["text"], "Second");
        assert_eq!(client.event("taskAskResponded"), id);
        assert_eq!(client.message("say completion_result")["text"], "Took it.");
        client.event("taskIdle");
    }
}

#[test]
fn a_completed_task_goes_on_with_what_is_said_to_it() {
    let more = "  - when: { contains: the rest }\n    calls: [{ tool: attempt_completion, params: { result: All of it. } }]\n";
    let project = playing(&format!("{DONE}{more}"));
    let server = Server::start(&project, &[]);
    let mut client = server.connect();
    client.start("Do it.");
    let id = client.event("taskCompleted")[0].clone();
    client.event("taskIdle");
    client.command("SendMessage", json!({ "text": "And the rest." }));
    assert_eq!(client.message("say user_feedback")["text"], "And the rest.");
    assert_eq!(client.event("taskCompleted")[0], id, "it is the same task");
    assert_eq!(project.logs().len(), 1);
    server.end(Signal::INT);

    // Another server knows it by its id.
    let server = Server::start(&project, &[]);
    let mut client = server.connect();
    client.command("ResumeTask", id.clone());
    assert_eq!(client.event("taskFocused"), json!([id]));
    client.command("ResumeTask", json!("no-such-task"));
    let told = client.message("say error");
    assert!(told["text"].as_str().unwrap().contains("no-such-task"), "{told}");
}

#[test]
fn a_task_is_cancelled_and_resumed() {
    for data in [Value::Null, json!("its id")] {
        let project = playing(&format!("{SLOW}{DONE}"));
        let server = Server::start(&project, &[]);
        let mut client = server.connect();
        client.start("Do it.");
        let id = client.event("taskCreated")[0].clone();
        client.message("say api_req_started");
        // Earlier versions named the task.
        client.command("CancelTask", if data.is_null() { Value::Null } else { id.clone() });
        assert_eq!(client.event("taskAborted"), json!([id]));
        client.message("ask resume_task");
        assert_eq!(client.event("taskResumable"), json!([id]));
        client.command("ResumeTask", id.clone());
        assert_eq!(client.event("taskActive"), json!([id]));
        client.command("CancelTask", Value::Null);
        assert_eq!(client.event("taskAborted"), json!([id]));
        client.event("taskResumable");
    }
}

#[test]
fn a_command_is_cancelled_and_its_task_goes_on() {
    let runs = "  - calls: [{ tool: execute_command, params: { command: 'echo begun; sleep 600' } }]\n";
    let told = "  - when: { contains: The user stopped the command }\n    calls: [{ tool: attempt_completion, params: { result: Stopped. } }]\n";
    let project = playing(&format!("{runs}{told}"));
    let server = Server::start(&project, &["--on-ask", "allow"]);
    let mut client = server.connect();
    client.start("Run it.");
    client.wait_for("its output", |message| {
        let message = &message["data"]["payload"][0]["message"];
        message["say"] == "command_output"
            && message["text"].as_str().is_some_and(|text| text.contains("begun"))
    });
    client.command("CancelCommand", Value::Null);
    assert_eq!(client.message("say completion_result")["text"], "Stopped.");
    client.event("taskIdle");
    // There is none any more.
    client.command("CancelCommand", Value::Null);
    let told = client.message("say error");
    assert!(told["text"].as_str().unwrap().contains("no command in the foreground"), "{told}");
}

#[test]
fn a_closed_task_is_left_to_be_resumed() {
    let project = playing(&format!("{SLOW}{DONE}"));
    let server = Server::start(&project, &[]);
    let mut client = server.connect();
    client.start("Do it.");
    let id = client.event("taskCreated")[0].clone();
    client.message("say api_req_started");
    client.command("CloseTask", Value::Null);
    assert_eq!(client.event("taskAborted"), json!([id]));
    assert_eq!(client.event("taskUnfocused"), json!([id]));
    client.command("SendMessage", json!({ "text": "Are you there?" }));
    let told = client.message("say error");
    assert!(told["text"].as_str().unwrap().contains("no current task"), "{told}");
    let listed = project.succeed(&["tasks", "list", "--json"]);
    assert!(listed.contains(id.as_str().unwrap()), "{listed}");
}

#[test]
fn what_needs_permission_waits_for_the_user_whatever_a_client_says() {
    // What the client says waits until the task would end.
    let project = playing(&format!("{WRITES}{DONE}{DONE}"));
    let server = Server::start(&project, &[]);
    let mut client = server.connect();
    let everything = json!({ "autoApprovalEnabled": true, "alwaysAllowWrite": true, "mode": "code" });
    client.command("StartNewTask", json!({ "configuration": everything, "text": "Write it." }));
    let id = client.event("taskCreated")[0].as_str().unwrap().to_owned();
    let told = client.message("say error");
    assert!(told["text"].as_str().unwrap().contains("alwaysAllowWrite, autoApprovalEnabled"), "{told}");
    let shown = client.message("ask tool");
    assert!(shown["text"].as_str().unwrap().contains("a.txt"), "{shown}");
    assert_eq!(client.event("taskInteractive"), json!([id]));
    client.command("SendMessage", json!({ "text": "yes" }));
    client.event("queuedMessagesUpdated");
    assert!(!project.folder().join("a.txt").exists());
    server.end(Signal::INT);

    // The user goes on in a terminal.
    project.succeed(&["tasks", "resume", &id, "--on-ask", "allow"]);
    assert_eq!(project.read("a.txt"), "one\n");
}

#[test]
fn flags_of_the_command_line_answer_where_the_user_wants_that() {
    for (flags, written) in [
        (&["--on-ask", "deny"][..], ""),
        (&["--on-ask", "allow"][..], "one\n"),
        (&["--allow-write"][..], "one\n"),
    ] {
        let project = playing(&format!("{WRITES}{DONE}"));
        let server = Server::start(&project, flags);
        let mut client = server.connect();
        client.start("Write it.");
        client.event("taskCompleted");
        assert_eq!(project.read("a.txt"), written, "{flags:?}");
    }
}

#[test]
fn modes_commands_and_models_are_listed() {
    let project = playing(DONE);
    project.write(".roo/commands/release.md", "---\ndescription: Makes a release.\n---\nRelease it.");
    project.succeed(&["trust"]);
    let server = Server::start(&project, &[]);
    let mut client = server.connect();
    client.command("GetModes", Value::Null);
    let modes = client.event("modesResponse");
    let slugs: Vec<&str> =
        modes[0].as_array().unwrap().iter().map(|mode| mode["slug"].as_str().unwrap()).collect();
    assert!(slugs.contains(&"code") && slugs.contains(&"architect"), "{modes}");
    client.command("GetCommands", Value::Null);
    let commands = client.event("commandsResponse");
    let own = commands[0].as_array().unwrap().iter().find(|command| command["name"] == "release").unwrap();
    assert_eq!((&own["source"], &own["description"]), (&json!("project"), &json!("Makes a release.")));
    client.command("GetModels", Value::Null);
    assert!(client.event("modelsResponse")[0].is_object());
}

#[test]
fn modes_and_profiles_are_chosen_by_name_and_an_unknown_one_is_refused() {
    let project = playing(DONE);
    let server = Server::start(&project, &[]);
    let mut client = server.connect();
    for (key, words) in [("mode", "nonsense"), ("currentApiConfigName", "nonsense")] {
        client.command("StartNewTask", json!({ "configuration": { key: words }, "text": "Do it." }));
        let told = client.message("say error");
        assert!(told["text"].as_str().unwrap().contains("nonsense"), "{told}");
    }
    assert_eq!(project.logs().len(), 0);
    let chosen = json!({ "mode": "code", "currentApiConfigName": "default" });
    client.command("StartNewTask", json!({ "configuration": chosen, "text": "Do it." }));
    client.event("taskCompleted");
}

#[test]
fn a_message_that_waits_is_deleted_by_its_id() {
    let project = playing(&format!("{SLOW}{DONE}"));
    let server = Server::start(&project, &[]);
    let mut client = server.connect();
    client.start("Do it.");
    client.message("say api_req_started");
    client.command("SendMessage", json!({ "text": "Later." }));
    let queued = client.event("queuedMessagesUpdated");
    assert_eq!(queued[1][0]["text"], "Later.", "{queued}");
    client.command("DeleteQueuedMessage", queued[1][0]["id"].clone());
    assert_eq!(client.event("queuedMessagesUpdated")[1], json!([]));
}

#[test]
fn what_is_no_message_is_skipped_and_the_rest_counts() {
    let project = playing(DONE);
    let server = Server::start(&project, &[]);
    let mut client = server.connect();
    client.write("{\x0c[]\x0c\"\x0c\x0c");
    client.write([&b"\xff\xfe\x0c"[..], &vec![b'x'; (16 << 20) + 1], b"\x0c"].concat());
    client.command("PressPrimaryButton", Value::Null);
    client.command("StartNewTask", json!({ "configuration": {} }));
    client.command("GetModes", Value::Null);
    client.event("modesResponse");
    // Half a message of one who goes.
    let mut other = server.connect();
    other.write("{\"type\":\"message\",");
    drop(other);
    client.start("Do it.");
    client.event("taskCompleted");
}

#[test]
fn a_socket_is_private_and_one_that_is_stale_is_replaced() {
    let project = playing(DONE);
    let folder = project.beside("ipc");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
    drop(UnixListener::bind(folder.join("roo.sock")).unwrap());
    let server = Server::start(&project, &[]);
    let mode = |path: &PathBuf| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(&server.socket), mode(&folder)), (0o600, 0o700));
    // Another one does not take it from a server that lives.
    let socket = server.socket.to_string_lossy().into_owned();
    let refused = project.run(&["ipc", "--socket", &socket]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("another program listens"), "{refused:?}");
    let mut client = server.connect();
    assert_eq!(client.next().unwrap()["type"], "Ack");
    assert_eq!(server.end(Signal::INT), Some(130));
}

#[test]
fn no_socket_is_made_where_others_or_commands_of_agents_could_put_theirs() {
    let project = playing(DONE);
    let open = project.beside("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, Permissions::from_mode(0o755)).unwrap();
    for (path, words) in [
        (open.join("roo.sock"), "is open to others"),
        (project.folder().join(".roo.sock"), "commands of agents may write"),
        (PathBuf::from("new/roo.sock"), "commands of agents may write"),
    ] {
        let refused = project.run(&["ipc", "--socket", path.to_str().unwrap()]);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains(words), "{refused:?}");
    }
    let unnamed = project.run(&["ipc"]);
    assert_eq!(unnamed.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unnamed.stderr).contains("ROO_CODE_IPC_SOCKET_PATH"), "{unnamed:?}");
}

/// A command of an agent that would steer the server that runs it.
#[test]
#[ignore = "needs Python; ./scripts/test runs it"]
fn a_command_in_the_sandbox_does_not_reach_the_socket() {
    // Outside of `/tmp`, in whose place commands have a directory of their own.
    let project = Project::outside_temp(&[]);
    let socket =
        project.beside("ipc/roo.sock").canonicalize().unwrap_or_else(|_| project.beside("ipc/roo.sock"));
    let connect = format!(
        "import socket\ns = socket.socket(socket.AF_UNIX)\ntry: s.connect('{}'); print('conn' + 'ected')\nexcept OSError as error: print('ref' + 'used')\n",
        socket.display()
    );
    project.write("connect.py", &connect);
    let script = project.script(&format!(
        "turns:\n  - calls: [{{ tool: execute_command, params: {{ command: python3 connect.py }} }}]\n{DONE}"
    ));
    let profile = format!("profiles:\n  default: {{ provider: scripted, script: {} }}\n", script.display());
    project.configure(&format!(
        "mode: code\n{profile}autoApprove: {{ execute: {{ allow: [[python3, connect.py]] }} }}\n"
    ));
    project.succeed(&["trust"]);
    let server = Server::start(&project, &["--on-ask", "allow"]);
    let mut client = server.connect();
    client.start("Run it.");
    let output = client.wait_for("its output", |message| {
        let message = &message["data"]["payload"][0]["message"];
        message["say"] == "command_output" && message["partial"] == false
    });
    let text = output["data"]["payload"][0]["message"]["text"].as_str().unwrap().to_owned();
    assert!(text.contains("refused") && !text.contains("connected"), "{text}");
    client.event("taskCompleted");
}

#[test]
fn a_client_that_does_not_read_is_not_waited_for() {
    // More than the system keeps for one who does not read.
    let text = format!(
        "  - text: {}\n    chunk: 100000\n    calls: [{{ tool: attempt_completion, params: {{ result: Done. }} }}]\n",
        "x".repeat(1_000_000)
    );
    let project = playing(&text);
    let server = Server::start(&project, &[]);
    let _silent = server.connect();
    let mut client = server.connect();
    client.start("Do it.");
    client.event("taskCompleted");
}
