//! A small LSP client over the real program's standard input and output.
//!
//! It keeps documents as an editor does, answers the server's requests by its [`Table`], and fails a
//! test that leaves a request unanswered on either side.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::replays;

/// How long anything may take.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Looks again and again at the state of another process, or at what it has left on the disk, where no message tells of it.
#[track_caller]
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        leave_the_processor();
    }
}

/// Disturbs another process again and again, until that is over.
pub fn again_and_again(is_over: &AtomicBool, mut disturb: impl FnMut()) {
    while !is_over.load(Ordering::SeqCst) {
        disturb();
        leave_the_processor();
    }
}

/// Gives other processes their turn. The one place where tests sleep; nothing depends on how long.
fn leave_the_processor() {
    std::thread::sleep(Duration::from_millis(3));
}

/// True for an event that ends its request, not only a branch of it.
pub fn is_end_of_request(params: &Value) -> bool {
    let state = params["event"]["state"].as_str().unwrap_or_default();
    params["taskId"] == params["rootId"] && ["completed", "failed", "cancelled"].contains(&state)
}

/// A user's directories and a workspace, removed at the end.
pub struct Home {
    directory: tempfile::TempDir,
    /// True if its requests are replayed at the end.
    replays: bool,
}

impl Home {
    /// Empty directories.
    pub fn new() -> Self {
        let home = Self { directory: tempfile::tempdir().unwrap(), replays: true };
        for name in ["config/roo-lsp", "state", "work"] {
            std::fs::create_dir_all(home.path(name)).unwrap();
        }
        home
    }

    /// For requests of earlier versions, which asked in other words: a replay tells the difference.
    pub fn of_earlier_version() -> Self {
        let mut home = Self::new();
        home.replays = false;
        home
    }

    /// With a model that plays this script.
    pub fn playing(script: &str) -> Self {
        let home = Self::new();
        std::fs::write(home.path("script.yaml"), script).unwrap();
        home.configure("");
        home
    }

    /// Writes the settings file: the scripted profile, and these lines.
    pub fn configure(&self, more: &str) {
        let script = self.path("script.yaml");
        let profile =
            format!("profiles:\n  default: {{ provider: scripted, script: {} }}\n", script.display());
        std::fs::write(self.config_file(), profile + more).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    pub fn config_file(&self) -> PathBuf {
        self.path("config/roo-lsp/config.yaml")
    }

    /// A file in the workspace.
    pub fn work(&self, name: &str) -> PathBuf {
        self.path("work").join(name)
    }

    /// The file of a task's events.
    pub fn log(&self, task: &str) -> PathBuf {
        let workspaces = self.path("state/roo-lsp/workspaces");
        let mut found = std::fs::read_dir(workspaces).unwrap();
        found.next().unwrap().unwrap().path().join("requests").join(task).join("log.jsonl")
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if self.replays {
            replays::check(&self.path("state/roo-lsp"), &self.path("work"));
        }
    }
}

/// `file:` URI of a path without special characters.
pub fn uri(path: &Path) -> String {
    format!("file://{}", path.display())
}

/// Which server requests a client answers, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// All that we offer.
    Full,
    /// Those of Helix 25.07; everything else is `-32601`.
    Helix,
    /// As `Full`, but `window/showMessageRequest` waits for the test.
    Popups,
}

/// An open document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    pub version: i64,
    pub text: String,
}

/// How a client is.
pub struct Options {
    pub table: Table,
    /// What `initialize` says besides the workspace; merged into its parameters.
    pub initialize: Value,
    /// The answer to `workspace/configuration`.
    pub configuration: Value,
    /// Whether the test answers that, which finds it among the notifications.
    pub holds_configuration: bool,
    /// Whether it sends `initialize` at all.
    pub initialized: bool,
    pub environment: Vec<(&'static str, String)>,
    /// The program that starts the server, with its arguments; none where the client starts it.
    pub launcher: &'static [&'static str],
    /// What follows `serve`.
    pub arguments: &'static [&'static str],
    /// A copy of the program to start instead.
    pub program: Option<PathBuf>,
    /// The limit on open files, if it is another than the test's.
    pub open_files: Option<u32>,
    /// The same, but it may be raised.
    pub soft_limit: Option<u32>,
}

impl Options {
    /// A client that speaks `roo/*`.
    pub fn typed() -> Self {
        Self {
            table: Table::Full,
            initialize: json!({
                "clientInfo": { "name": "test-editor" },
                "capabilities": {
                    "experimental": { "roo": { "protocolVersion": 1, "documentSave": true } },
                    "general": { "positionEncodings": ["utf-16", "utf-8"] },
                    "workspace": { "applyEdit": true, "workspaceEdit": { "documentChanges": true } },
                },
            }),
            configuration: Value::Null,
            holds_configuration: false,
            initialized: true,
            environment: vec![],
            launcher: &[],
            arguments: &[],
            program: None,
            open_files: None,
            soft_limit: None,
        }
    }

    /// A client of plain LSP with popups and progress.
    pub fn plain() -> Self {
        Self {
            table: Table::Popups,
            initialize: json!({
                "clientInfo": { "name": "plain-editor" },
                "capabilities": {
                    "window": {
                        "workDoneProgress": true,
                        "showMessage": { "messageActionItem": {} },
                        "showDocument": { "support": true },
                    },
                    "workspace": { "applyEdit": true, "workspaceEdit": { "documentChanges": true } },
                },
            }),
            ..Self::typed()
        }
    }

    /// Helix 25.07, as far as it matters.
    pub fn helix() -> Self {
        Self {
            table: Table::Helix,
            initialize: json!({
                "clientInfo": { "name": "helix", "version": "25.07.1" },
                "capabilities": {
                    "general": { "positionEncodings": ["utf-8", "utf-32", "utf-16"] },
                    "window": { "workDoneProgress": true },
                    "workspace": {
                        "applyEdit": true, "configuration": true,
                        "workspaceEdit": { "documentChanges": true },
                    },
                },
            }),
            ..Self::typed()
        }
    }

    /// With more in `initialize`.
    pub fn with(mut self, more: Value) -> Self {
        merge(&mut self.initialize, more);
        self
    }
}

fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

/// Holds the reader, so that the client looks as if it had stopped to read.
#[derive(Default)]
struct Gate {
    is_closed: Mutex<bool>,
    opened: Condvar,
}

/// A running server, and its client.
pub struct Client {
    /// None once it has ended.
    child: Option<Child>,
    input: Option<ChildStdin>,
    incoming: Receiver<Value>,
    gate: Arc<Gate>,
    options: Options,
    next_id: i64,
    unanswered: BTreeSet<i64>,
    answers: HashMap<i64, Value>,
    /// Every message from the server, in order.
    pub seen: Vec<Value>,
    /// Notifications that no `wait_for` has taken.
    notifications: VecDeque<Value>,
    /// Message requests that wait for the test.
    pub popups: VecDeque<Value>,
    pub documents: HashMap<String, Document>,
    /// Whether edits are applied, or refused with this reason.
    pub refuse_edits: Option<String>,
    /// What its user does not take of edits that they are to confirm: the names of files.
    pub unticked: Vec<String>,
    /// What `initialize` answered.
    pub server: Value,
}

impl Client {
    /// Starts the server and introduces the client.
    pub fn start(home: &Home, options: Options) -> Self {
        let limits = [("", options.open_files), ("-S", options.soft_limit)];
        let limits =
            limits.iter().filter_map(|(flag, limit)| Some(format!("ulimit {flag} -n {}; ", (*limit)?)));
        let limits = format!("{}exec \"$0\" \"$@\"", limits.collect::<String>());
        let has_limits = options.open_files.or(options.soft_limit).is_some();
        let shell: &[&str] = if has_limits { &["bash", "-c", &limits] } else { &[] };
        let program = options.program.as_ref().map(|path| path.to_str().unwrap());
        let program = program.unwrap_or(env!("CARGO_BIN_EXE_roo-lsp"));
        let line = [shell, options.launcher, &[program, "serve"], options.arguments].concat();
        let mut child = Command::new(line[0])
            .args(&line[1..])
            .env("XDG_CONFIG_HOME", home.path("config"))
            .env("XDG_STATE_HOME", home.path("state"))
            .env("HOME", home.path(""))
            .env_remove("ROO_LSP_LOG")
            .envs(options.environment.iter().cloned())
            .current_dir(home.path("work"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, incoming) = channel();
        let gate = Arc::new(Gate::default());
        let mut output = BufReader::with_capacity(1024, child.stdout.take().unwrap());
        let reader_gate = Arc::clone(&gate);
        std::thread::spawn(move || {
            loop {
                let closed = reader_gate.is_closed.lock().unwrap();
                drop(reader_gate.opened.wait_while(closed, |closed| *closed).unwrap());
                let Some(message) = read_message(&mut output) else { break };
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let input = child.stdin.take();
        let mut client = Self {
            child: Some(child),
            input,
            incoming,
            gate,
            options,
            next_id: 0,
            unanswered: BTreeSet::new(),
            answers: HashMap::new(),
            seen: Vec::new(),
            notifications: VecDeque::new(),
            popups: VecDeque::new(),
            documents: HashMap::new(),
            refuse_edits: None,
            unticked: vec![],
            server: Value::Null,
        };
        if client.options.initialized {
            let work = home.path("work");
            let mut params = json!({
                "processId": null,
                "rootUri": uri(&work),
                "workspaceFolders": [{ "uri": uri(&work), "name": "work" }],
                "capabilities": {},
            });
            merge(&mut params, client.options.initialize.clone());
            client.server = client.request("initialize", params);
            client.notify("initialized", json!({}));
        }
        client
    }

    /// Sends bytes as they are.
    pub fn write_raw(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("the input is closed");
        input.write_all(bytes).unwrap();
        input.flush().unwrap();
    }

    fn write(&mut self, message: &Value) {
        let body = message.to_string();
        self.write_raw(format!("Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        self.write(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Sends a request, to be taken up by [`Client::answer`].
    pub fn ask(&mut self, method: &str, params: Value) -> i64 {
        self.next_id += 1;
        let id = self.next_id;
        self.unanswered.insert(id);
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Waits for the answer to a request.
    pub fn answer(&mut self, id: i64) -> Value {
        self.pump(&format!("an answer to {id}"), |client| client.answers.remove(&id))
    }

    /// Asks, and returns the result.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        let answer = self.answer(id);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Asks, and returns the error.
    pub fn refused(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        let answer = self.answer(id);
        assert!(answer.get("result").is_none(), "{method}: {answer}");
        answer["error"].clone()
    }

    /// Runs a command.
    pub fn command(&mut self, name: &str, argument: Value) -> Value {
        let arguments = if argument.is_null() { vec![] } else { vec![argument] };
        self.request("workspace/executeCommand", json!({ "command": name, "arguments": arguments }))
    }

    /// Starts a task in the code mode; returns its id.
    pub fn start_task(&mut self, prompt: &str) -> String {
        let started = self.request("roo/task/start", json!({ "prompt": prompt, "mode": "code" }));
        started["taskId"].as_str().unwrap().to_owned()
    }

    /// Waits for a notification that fits, and drops those before it.
    pub fn wait_for(&mut self, what: &str, mut fits: impl FnMut(&Value) -> bool) -> Value {
        self.pump(what, |client| {
            while let Some(notification) = client.notifications.pop_front() {
                if fits(&notification) {
                    return Some(notification);
                }
            }
            None
        })
    }

    /// Waits for an event of this type.
    pub fn event(&mut self, kind: &str) -> Value {
        self.wait_for(kind, |message| {
            message["method"] == "roo/event" && message["params"]["event"]["type"] == kind
        })["params"]
            .clone()
    }

    /// Waits until a task is in this state.
    pub fn state(&mut self, state: &str) -> Value {
        self.wait_for(state, |message| {
            let event = &message["params"]["event"];
            event["type"] == "task.state" && event["state"] == state
        })["params"]
            .clone()
    }

    /// Answers what asks by the option that its title leads to, until the request is completed. Returns the titles and
    /// subjects of what asked.
    pub fn answer_until_completed(
        &mut self,
        mut option: impl FnMut(&str) -> &'static str,
    ) -> Vec<(String, String)> {
        let mut asked = Vec::new();
        loop {
            let message = self.wait_for("an approval or the end", |message| {
                let event = &message["params"]["event"];
                event["type"] == "approval.requested"
                    || event["state"] == "completed"
                    || event["state"] == "failed"
            });
            let event = &message["params"]["event"];
            if event["type"] != "approval.requested" {
                assert_eq!(event["state"], "completed", "{event}");
                return asked;
            }
            let text = |field: &str| event[field].as_str().unwrap().to_owned();
            let (title, subject) = (text("title"), text("subject"));
            let (id, digest) = (&event["approvalId"], &event["digest"]);
            let answer = json!({ "approvalId": id, "digest": digest, "optionId": option(&title) });
            asked.push((title, subject));
            self.request("roo/approval/respond", answer);
        }
    }

    /// As [`Client::answer_until_completed`], for tests that look at the titles alone.
    pub fn titles_until_completed(&mut self, option: impl FnMut(&str) -> &'static str) -> Vec<String> {
        self.answer_until_completed(option).into_iter().map(|(title, _)| title).collect()
    }

    /// Waits for a message to the user that contains this.
    pub fn message(&mut self, text: &str) -> Value {
        self.wait_for(&format!("the message '{text}'"), |message| {
            message["method"] == "window/showMessage"
                && message["params"]["message"].as_str().unwrap().contains(text)
        })["params"]
            .clone()
    }

    /// Waits for the `begin` or the `end` of a progress.
    pub fn progress(&mut self, kind: &str) -> Value {
        self.wait_for(kind, |message| message["params"]["value"]["kind"] == kind)["params"].clone()
    }

    /// Waits for a progress that says this, as it begins or later.
    pub fn progress_message(&mut self, text: &str) -> Value {
        self.wait_for(&format!("the progress '{text}'"), |message| {
            message["method"] == "$/progress" && message["params"]["value"]["message"] == text
        })["params"]
            .clone()
    }

    /// Waits for a message request.
    pub fn popup(&mut self) -> Value {
        self.pump("a message request", |client| client.popups.pop_front())
    }

    /// Answers a request of the server.
    pub fn reply(&mut self, request: &Value, result: Value) {
        self.write(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }));
    }

    /// The first request that events came from.
    pub fn numbered_root(&self) -> String {
        let event = self.seen.iter().find(|message| message["method"] == "roo/event").unwrap();
        event["params"]["rootId"].as_str().unwrap().to_owned()
    }

    /// The numbered events of a task, as they came.
    pub fn numbered(&self, task: &str) -> Vec<Value> {
        let events = self.seen.iter().filter(|message| message["method"] == "roo/event");
        let events = events.map(|message| &message["params"]);
        events.filter(|event| event["rootId"] == task && event.get("seq").is_some()).cloned().collect()
    }

    pub fn open(&mut self, path: &Path, text: &str) -> String {
        let uri = uri(path);
        let document = json!({ "uri": uri, "languageId": "text", "version": 1, "text": text });
        self.notify("textDocument/didOpen", json!({ "textDocument": document }));
        self.documents.insert(uri.clone(), Document { version: 1, text: text.to_owned() });
        uri
    }

    /// Changes the text of a range, given in the units that were settled.
    pub fn change(&mut self, uri: &str, range: Value, text: &str) {
        let encoding = self.encoding();
        let document = self.documents.get_mut(uri).unwrap();
        apply(&mut document.text, &range, text, &encoding);
        document.version += 1;
        let identifier = json!({ "uri": uri, "version": document.version });
        let change = json!({ "range": range, "text": text });
        let params = json!({ "textDocument": identifier, "contentChanges": [change] });
        self.notify("textDocument/didChange", params);
    }

    /// Closes a document, without saving it.
    pub fn close(&mut self, uri: &str) {
        self.documents.remove(uri);
        self.notify("textDocument/didClose", json!({ "textDocument": { "uri": uri } }));
    }

    /// Writes at the end of a document.
    pub fn append(&mut self, uri: &str, text: &str) {
        let end = json!({ "line": self.documents[uri].text.lines().count() + 1, "character": 0 });
        self.change(uri, json!({ "start": end, "end": end }), text);
    }

    /// The code actions for some lines, by their titles.
    pub fn actions(&mut self, uri: &str, lines: std::ops::Range<u64>) -> Vec<(String, Value)> {
        let at = |line: u64| json!({ "line": line, "character": 0 });
        let params = json!({
            "textDocument": { "uri": uri },
            "range": { "start": at(lines.start), "end": at(lines.end) },
            "context": { "diagnostics": [], "triggerKind": 1 },
        });
        let actions = self.request("textDocument/codeAction", params);
        let title = |action: &Value| action["title"].as_str().unwrap().to_owned();
        actions.as_array().unwrap().iter().map(|action| (title(action), action.clone())).collect()
    }

    /// Chooses the code action whose title has this in it.
    #[track_caller]
    pub fn choose(&mut self, uri: &str, lines: std::ops::Range<u64>, title: &str) -> Value {
        let actions = self.actions(uri, lines);
        let titles: Vec<&String> = actions.iter().map(|(title, _)| title).collect();
        let found = actions.iter().find(|(name, _)| name.contains(title));
        let (_, action) = found.unwrap_or_else(|| panic!("there is no {title} in {titles:?}"));
        // A bare command, or one within an action.
        let command = if action["command"].is_string() { action } else { &action["command"] };
        let params = json!({ "command": command["command"], "arguments": command["arguments"] });
        self.request("workspace/executeCommand", params)
    }

    /// Waits until a document has this in it; returns its whole text.
    pub fn until_document(&mut self, name: &str, text: &str) -> (String, String) {
        self.pump(&format!("'{text}' in {name}"), |client| {
            let mut found = client.documents.iter().filter(|(uri, _)| uri.ends_with(name));
            let (uri, document) = found.find(|(_, document)| document.text.contains(text))?;
            Some((uri.clone(), document.text.clone()))
        })
    }

    fn encoding(&self) -> String {
        self.server["capabilities"]["positionEncoding"].as_str().unwrap().to_owned()
    }

    /// Answers a request of the server with an error.
    pub fn refuse(&mut self, request: &Value, code: i64, message: &str) {
        let error = json!({ "code": code, "message": message });
        self.write(&json!({ "jsonrpc": "2.0", "id": request["id"], "error": error }));
    }

    /// Answers `workspace/configuration` with this from now on.
    pub fn set_configuration(&mut self, configuration: Value) {
        self.options.configuration = configuration;
    }

    /// Reads messages, or stops to.
    pub fn set_reading(&self, reads: bool) {
        *self.gate.is_closed.lock().unwrap() = !reads;
        self.gate.opened.notify_all();
    }

    /// Handles what comes until there is what is waited for.
    pub fn pump<T>(&mut self, what: &str, mut ready: impl FnMut(&mut Self) -> Option<T>) -> T {
        let end = Instant::now() + DEADLINE;
        loop {
            if let Some(found) = ready(self) {
                return found;
            }
            match self.incoming.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(message) => self.handle(message),
                Err(RecvTimeoutError::Timeout) => {
                    panic!("waited in vain for {what}; seen: {:#?}", self.last_seen())
                }
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("the server ended before {what}; seen: {:#?}", self.last_seen())
                }
            }
        }
    }

    fn last_seen(&self) -> Vec<String> {
        self.seen.iter().rev().take(12).rev().map(ToString::to_string).collect()
    }

    fn handle(&mut self, message: Value) {
        self.seen.push(message.clone());
        match (message.get("method").and_then(Value::as_str), message.get("id")) {
            (Some(_), Some(_)) => self.serve(message),
            (Some(_), None) => self.notifications.push_back(message),
            (None, _) => {
                let Some(id) = message["id"].as_i64() else {
                    // An answer to nothing in particular.
                    self.notifications.push_back(message);
                    return;
                };
                assert!(self.unanswered.remove(&id), "answered twice or never asked: {message}");
                self.answers.insert(id, message);
            }
        }
    }

    fn serve(&mut self, request: Value) {
        let method = request["method"].as_str().unwrap();
        let helix = self.options.table == Table::Helix;
        match method {
            "window/workDoneProgress/create" | "client/registerCapability" => {
                self.reply(&request, Value::Null)
            }
            // What the user's browser would open.
            "window/showDocument" if request["params"]["external"] == true => {
                self.reply(&request, json!({ "success": true }));
            }
            "window/showDocument" => {
                let uri = request["params"]["uri"].as_str().unwrap();
                let path = PathBuf::from(uri.strip_prefix("file://").unwrap());
                // What is edited has to be open; what is only looked at doesn't matter.
                if uri.ends_with(".md") && !self.documents.contains_key(uri) {
                    let text = std::fs::read_to_string(&path).unwrap();
                    self.open(&path, &text);
                }
                self.reply(&request, json!({ "success": true }));
            }
            "workspace/configuration" if self.options.holds_configuration => {
                self.notifications.push_back(request);
            }
            "workspace/configuration" => {
                let items = request["params"]["items"].as_array().unwrap().len();
                let answer = vec![self.options.configuration.clone(); items];
                self.reply(&request, json!(answer));
            }
            "workspace/applyEdit" => self.edit(&request),
            "window/showMessageRequest" if self.options.table == Table::Popups => {
                self.popups.push_back(request)
            }
            // The test answers it.
            "roo/code/ask" => self.notifications.push_back(request),
            "roo/document/save" if !helix => {
                let uris: Vec<String> = serde_json::from_value(request["params"]["uris"].clone()).unwrap();
                for uri in &uris {
                    let path = uri.strip_prefix("file://").unwrap();
                    std::fs::write(path, &self.documents[uri].text).unwrap();
                    self.notify("textDocument/didSave", json!({ "textDocument": { "uri": uri } }));
                }
                self.reply(&request, json!({ "saved": uris }));
            }
            _ if helix => {
                let error = json!({ "code": -32601, "message": format!("Method not found: {method}") });
                self.write(&json!({ "jsonrpc": "2.0", "id": request["id"], "error": error }));
            }
            _ => panic!("this client has no answer to {request}"),
        }
    }

    /// Applies an edit as an editor does: whole or not at all, bound to versions, then `didChange`.
    fn edit(&mut self, request: &Value) {
        if let Some(reason) = &self.refuse_edits {
            let refused = json!({ "applied": false, "failureReason": reason });
            self.reply(request, refused);
            return;
        }
        let encoding = self.encoding();
        let changes = request["params"]["edit"]["documentChanges"].as_array().unwrap().clone();
        let is_stale = |change: &Value| {
            let version = &change["textDocument"]["version"];
            !version.is_null()
                && *version != self.documents[change["textDocument"]["uri"].as_str().unwrap()].version
        };
        if changes.iter().any(is_stale) {
            self.reply(request, json!({ "applied": false, "failureReason": "stale version" }));
            return;
        }
        let confirmed = request["params"]["edit"].get("changeAnnotations").is_some();
        for change in &changes {
            if confirmed && !self.confirms(change) {
                continue;
            }
            if change.get("kind").is_some() {
                self.change_file(change);
                continue;
            }
            let uri = change["textDocument"]["uri"].as_str().unwrap().to_owned();
            let document = self.documents.get_mut(&uri).expect("an edit of a document that is not open");
            let mut edits = change["edits"].as_array().unwrap().clone();
            edits.reverse();
            for edit in &edits {
                apply(&mut document.text, &edit["range"], edit["newText"].as_str().unwrap(), &encoding);
            }
            document.version += 1;
            let params = json!({
                "textDocument": { "uri": uri, "version": document.version },
                "contentChanges": [{ "text": document.text }],
            });
            self.notify("textDocument/didChange", params);
        }
        self.reply(request, json!({ "applied": true }));
    }

    /// Whether the user takes a part of an edit; what is not open yet is then opened.
    fn confirms(&mut self, change: &Value) -> bool {
        let name = |uri: &Value| uri.as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        let uris = [&change["uri"], &change["newUri"], &change["oldUri"], &change["textDocument"]["uri"]];
        let named = || uris.into_iter().filter(|uri| uri.is_string());
        if named().any(|uri| self.unticked.contains(&name(uri))) {
            return false;
        }
        let mut parts = change["edits"].as_array().into_iter().flatten().chain([change]);
        assert!(parts.any(|part| part["annotationId"] == "roo"), "{change}");
        if let Some(text) =
            change["textDocument"]["uri"].as_str().filter(|uri| !self.documents.contains_key(*uri))
        {
            let path = std::path::PathBuf::from(text.strip_prefix("file://").unwrap());
            let text = std::fs::read_to_string(&path).unwrap();
            self.open(&path, &text);
        }
        true
    }

    /// Does to a file, and to the document over it, what an edit says.
    fn change_file(&mut self, change: &Value) {
        let place =
            |uri: &Value| std::path::PathBuf::from(uri.as_str().unwrap().strip_prefix("file://").unwrap());
        match change["kind"].as_str().unwrap() {
            "create" => {
                let file = place(&change["uri"]);
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, "").unwrap();
            }
            "delete" => {
                std::fs::remove_file(place(&change["uri"])).unwrap();
                let uri = change["uri"].as_str().unwrap();
                if self.documents.remove(uri).is_some() {
                    self.notify("textDocument/didClose", json!({ "textDocument": { "uri": uri } }));
                }
            }
            "rename" => {
                let (old, new) = (&change["oldUri"], &change["newUri"]);
                assert!(!place(new).exists(), "{change}");
                std::fs::rename(place(old), place(new)).unwrap();
                let open = self.documents.remove(old.as_str().unwrap());
                if let Some(Document { text, .. }) = open {
                    self.notify("textDocument/didClose", json!({ "textDocument": { "uri": old } }));
                    self.open(&place(new), &text);
                }
            }
            kind => panic!("{kind}"),
        }
    }

    /// The server's process.
    pub fn process(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Ends in the orderly way; returns the exit code.
    pub fn shut_down(mut self) -> i32 {
        assert_eq!(self.request("shutdown", Value::Null), Value::Null);
        self.notify("exit", Value::Null);
        self.exit_code()
    }

    /// Closes the server's input; returns the exit code.
    pub fn hang_up(mut self) -> i32 {
        self.input = None;
        self.unanswered.clear();
        self.exit_code()
    }

    /// Waits for the process to end.
    pub fn exit_code(mut self) -> i32 {
        let mut child = self.child.take().unwrap();
        let process = child.id().to_string();
        let (sender, ended) = channel();
        std::thread::spawn(move || sender.send(child.wait()));
        let Ok(status) = ended.recv_timeout(DEADLINE) else {
            Command::new("kill").args(["-KILL", &process]).status().unwrap();
            panic!("the server does not end");
        };
        status.unwrap().code().unwrap_or(-1)
    }

    fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// The id of the server's process.
    pub fn process_id(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Kills the server as power loss would.
    pub fn kill(mut self) {
        self.end();
        self.unanswered.clear();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.set_reading(true);
        self.end();
        if !std::thread::panicking() {
            assert!(self.unanswered.is_empty(), "requests {:?} have no answer", self.unanswered);
        }
    }
}

fn read_message(output: &mut BufReader<std::process::ChildStdout>) -> Option<Value> {
    let mut length = None;
    loop {
        let mut line = String::new();
        if output.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        let (name, value) =
            line.split_once(": ").unwrap_or_else(|| panic!("not LSP on standard output: {line}"));
        assert_eq!(name, "Content-Length");
        length = Some(value.parse().unwrap());
    }
    let mut body = vec![0; length.expect("no length")];
    output.read_exact(&mut body).ok()?;
    Some(serde_json::from_slice(&body).unwrap())
}

/// Replaces a range of a text.
fn apply(text: &mut String, range: &Value, new: &str, encoding: &str) {
    let offset = |place: &Value| {
        let line = usize::try_from(place["line"].as_u64().unwrap()).unwrap();
        let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
        let mut left = place["character"].as_u64().unwrap();
        let rest = &text[start..];
        let chars = rest.char_indices().take_while(|(_, c)| *c != '\n');
        for (index, c) in chars {
            if left == 0 {
                return start + index;
            }
            left -= match encoding {
                "utf-8" => c.len_utf8(),
                "utf-32" => 1,
                _ => c.len_utf16(),
            } as u64;
        }
        start + rest.find('\n').unwrap_or(rest.len())
    };
    let range = offset(&range["start"])..offset(&range["end"]);
    text.replace_range(range, new);
}
