//! A client of the Agent Client Protocol over the real program's standard input and output. Each message that it gets is
//! checked against the published schema.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc::RecvTimeoutError::Disconnected;
use std::sync::mpsc::{Receiver, channel};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::schema::Schemas;
use crate::support::client::DEADLINE;
use crate::support::project::Project;

/// A client, and the agent that it has started.
pub struct Client {
    agent: Child,
    input: Option<ChildStdin>,
    output: Receiver<Value>,
    /// Messages that nobody has waited for yet.
    pub unread: Vec<Value>,
    /// Methods of the requests without an answer.
    asked: HashMap<i64, String>,
    next: i64,
    schemas: Schemas,
}

impl Client {
    /// Starts an agent, without a word.
    pub fn start(project: &Project) -> Self {
        let mut agent = project
            .program()
            .arg("acp")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let (sender, output) = channel();
        let lines = BufReader::new(agent.stdout.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                // The test may be over.
                let _ = sender.send(serde_json::from_str(&line).expect("nothing but messages is written"));
            }
        });
        let input = agent.stdin.take();
        let (unread, asked, schemas) = (vec![], HashMap::new(), Schemas::new());
        Self { agent, input, output, unread, asked, next: 0, schemas }
    }

    /// Starts an agent and initializes it.
    pub fn initialized(project: &Project, capabilities: Value) -> Self {
        let mut client = Self::start(project);
        client.initialize(capabilities);
        client
    }

    #[track_caller]
    pub fn initialize(&mut self, capabilities: Value) -> Value {
        self.initialize_as("test-client", capabilities)
    }

    /// Initializes the agent under the name of a client.
    #[track_caller]
    pub fn initialize_as(&mut self, name: &str, capabilities: Value) -> Value {
        self.succeed(
            "initialize",
            json!({
                "protocolVersion": 1, "clientCapabilities": capabilities,
                "clientInfo": { "name": name, "version": "1" },
            }),
        )
    }

    /// Begins a session in the project's folder, and returns its id.
    #[track_caller]
    pub fn new_session(&mut self, project: &Project) -> String {
        let params = json!({ "cwd": project.folder(), "mcpServers": [] });
        self.succeed("session/new", params)["sessionId"].as_str().unwrap().to_owned()
    }

    pub fn write_bytes(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(bytes).unwrap();
        input.flush().unwrap();
    }

    pub fn write_line(&mut self, line: &str) {
        self.write_bytes(format!("{line}\n").as_bytes());
    }

    pub fn write(&mut self, message: &Value) {
        self.write_line(&message.to_string());
    }

    /// Sends a request, and returns its id.
    pub fn send(&mut self, method: &str, params: Value) -> i64 {
        self.next += 1;
        let id = self.next;
        self.asked.insert(id, method.to_owned());
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        self.write(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    pub fn answer(&mut self, request: &Value, result: Value) {
        self.write(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }));
    }

    /// Chooses an option of a question for permission.
    pub fn choose(&mut self, request: &Value, option: &str) {
        self.answer(request, json!({ "outcome": { "outcome": "selected", "optionId": option } }));
    }

    /// The next message that fits, also among those that came before.
    #[track_caller]
    pub fn wait_for(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        if let Some(place) = self.unread.iter().position(&is_it) {
            return self.unread.remove(place);
        }
        loop {
            let Ok(message) = self.output.recv_timeout(DEADLINE) else {
                panic!("the agent does not say it; it said {:#?}", self.unread);
            };
            self.check(&message);
            if is_it(&message) {
                return message;
            }
            self.unread.push(message);
        }
    }

    #[track_caller]
    fn check(&mut self, message: &Value) {
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        match message["method"].as_str() {
            Some(method) => self.schemas.check_params(method, &message["params"]),
            None => {
                let asked = message["id"].as_i64().and_then(|id| self.asked.remove(&id));
                match (asked, message.get("result")) {
                    (Some(method), Some(result)) => self.schemas.check_result(&method, result),
                    _ => self.schemas.check_error(&message["error"]),
                }
            }
        }
    }

    /// The answer to a request.
    #[track_caller]
    pub fn answer_to(&mut self, id: i64) -> Value {
        self.wait_for(|message| message["id"] == id && message.get("method").is_none())
    }

    #[track_caller]
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer_to(id)
    }

    /// The result of a request that is done.
    #[track_caller]
    pub fn succeed(&mut self, method: &str, params: Value) -> Value {
        let answer = self.request(method, params);
        assert!(answer.get("result").is_some(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// The error of a request that is refused.
    #[track_caller]
    pub fn refused(&mut self, method: &str, params: Value) -> Value {
        let answer = self.request(method, params);
        assert!(answer.get("error").is_some(), "{method}: {answer}");
        answer["error"].clone()
    }

    /// Says something in a session, and returns the request's id.
    pub fn say(&mut self, session: &str, text: &str) -> i64 {
        self.send(
            "session/prompt",
            json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] }),
        )
    }

    /// Says something, and waits until the turn is over. Returns the reason.
    #[track_caller]
    pub fn prompt(&mut self, session: &str, text: &str) -> String {
        let id = self.say(session, text);
        self.end_of_turn(id)
    }

    #[track_caller]
    pub fn end_of_turn(&mut self, prompt: i64) -> String {
        let answer = self.answer_to(prompt);
        answer["result"]["stopReason"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// The next question for permission.
    #[track_caller]
    pub fn asked_for_permission(&mut self) -> Value {
        self.wait_for(|message| message["method"] == "session/request_permission")
    }

    /// The next update of a kind.
    #[track_caller]
    pub fn update(&mut self, kind: &str) -> Value {
        self.update_that(kind, |_| true)
    }

    /// The next update of a kind that fits.
    #[track_caller]
    pub fn update_that(&mut self, kind: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let message = self.wait_for(|message| {
            let update = &message["params"]["update"];
            message["method"] == "session/update" && update["sessionUpdate"] == kind && is_it(update)
        });
        message["params"]["update"].clone()
    }

    /// Takes the updates of a kind that have come.
    pub fn updates(&mut self, kind: &str) -> Vec<Value> {
        let is_it = |message: &Value| {
            message["method"] == "session/update" && message["params"]["update"]["sessionUpdate"] == kind
        };
        let (found, rest): (Vec<_>, Vec<_>) = self.unread.drain(..).partition(is_it);
        self.unread = rest;
        found.into_iter().map(|message| message["params"]["update"].clone()).collect()
    }

    /// Takes the text that has come in updates of a kind.
    pub fn text(&mut self, kind: &str) -> String {
        self.updates(kind).iter().map(|update| update["content"]["text"].as_str().unwrap()).collect()
    }

    /// The client goes; the agent ends.
    #[track_caller]
    pub fn leave(mut self) -> ExitStatus {
        drop(self.input.take());
        self.until_end()
    }

    #[track_caller]
    fn until_end(mut self) -> ExitStatus {
        // Its output is over when it has ended.
        while self.output.recv_timeout(DEADLINE).map_err(|late| assert_eq!(late, Disconnected)).is_ok() {}
        self.agent.wait().unwrap()
    }

    /// Tells the agent to end.
    #[track_caller]
    pub fn terminate(self) -> ExitStatus {
        let agent = Pid::from_child(&self.agent);
        kill_process(agent, Signal::TERM).unwrap();
        self.until_end()
    }

    /// Kills the agent.
    pub fn kill(mut self) {
        self.agent.kill().unwrap();
        self.agent.wait().unwrap();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.agent.kill();
        let _ = self.agent.wait();
    }
}
