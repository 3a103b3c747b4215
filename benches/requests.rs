//! How long an editor waits for an answer while twenty tasks stream: the release binary over its standard input
//! and output, with a typed client that is attached to all of them, and with a plain one that has all of
//! their documents open.
//!
//! `cargo bench --bench requests`. A request goes out every few milliseconds, as from somebody who types.

#[path = "support/table.rs"]
mod table;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use table::{Row, milliseconds, row};

const TASKS: usize = 20;
const REQUESTS: usize = 2000;
/// Between two requests.
const PAUSE: Duration = Duration::from_millis(3);
/// How long an answer may take at all.
const DEADLINE: Duration = Duration::from_secs(10);
/// Of a simple request. To begin a task makes directories and a log.
const TARGET: &str = "p99 5";

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome {
    // `cargo test --all-targets` starts benches too, without this flag.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    table::head()?;
    for typed in [true, false] {
        measure(typed)?;
    }
    Ok(())
}

fn measure(typed: bool) -> Outcome {
    let directory = tempfile::tempdir()?;
    let folder = directory.path().canonicalize()?;
    let (config, work) = (folder.join("config/roo-lsp"), folder.join("work"));
    fs::create_dir_all(&config)?;
    fs::create_dir_all(&work)?;
    // Some 300 pieces a second and task, for longer than this takes.
    let story = "Once upon a time there was a server that told a story to its end. ".repeat(3000);
    let script = folder.join("script.yaml");
    fs::write(
        &script,
        json!({ "turns": [{ "text": story, "chunk": 8, "delayMs": 3, "repeat": true }] }).to_string(),
    )?;
    let profile = json!({ "provider": "scripted", "script": script });
    fs::write(
        config.join("config.yaml"),
        json!({ "mode": "code", "profiles": { "default": profile } }).to_string(),
    )?;

    let mut client = Client::start(&folder, &work, typed)?;
    let text = "fn main() {}\n// name it better AI!\n".repeat(200);
    let uri = format!("file://{}/a.rs", work.display());
    let document = json!({ "uri": uri, "languageId": "rust", "version": 1, "text": text });
    client.notify("textDocument/didOpen", json!({ "textDocument": document }))?;
    let mut starts = Vec::new();
    for number in 0..TASKS {
        let prompt = json!({ "prompt": format!("Tell story {number}.") });
        let (method, params) = match typed {
            true => ("roo/task/start", prompt),
            false => ("workspace/executeCommand", json!({ "command": "roo.newTask", "arguments": [prompt] })),
        };
        starts.push(client.request(method, params)?);
    }
    client.wait_until_all_stream()?;
    let at = |line: usize| json!({ "line": line, "character": 3 });
    let simple = [
        ("textDocument/completion", json!({ "textDocument": { "uri": uri }, "position": at(7) })),
        (
            "textDocument/codeAction",
            json!({
                "textDocument": { "uri": uri }, "range": { "start": at(7), "end": at(7) },
                "context": { "diagnostics": [] },
            }),
        ),
    ];
    let mut times: HashMap<&str, Vec<f64>> = HashMap::new();
    let before = client.shared().pieces;
    for number in 0..REQUESTS {
        let (method, params) = &simple[number % simple.len()];
        times.entry(method).or_default().push(client.request(method, params.clone())?);
        std::thread::sleep(PAUSE);
    }
    let pieces = client.shared().pieces - before;
    let who = if typed { "typed" } else { "plain" };
    for (method, times) in times {
        p99(&format!("{method}, {who}, {TASKS} tasks stream"), TARGET, times)?;
    }
    p99(&format!("key press to the answer that a task began, {who}"), "", starts)?;
    Ok(writeln!(io::stdout(), "{pieces} pieces of text came meanwhile")?)
}

fn p99(what: &str, target: &str, mut times: Vec<f64>) -> io::Result<()> {
    times.sort_by(f64::total_cmp);
    let at = (times.len() * 99 / 100).min(times.len().saturating_sub(1));
    let p99 = times.get(at).copied().unwrap_or_default();
    row(Row { what, unit: "ms", target }, times)?;
    writeln!(io::stdout(), "  p99: {p99:.3} ms")
}

/// What the reader knows.
#[derive(Default)]
struct Shared {
    /// The tasks or documents from which text has come.
    streams: HashSet<String>,
    /// How many pieces of text have come.
    pieces: usize,
    /// The versions of the documents that are open, by URI.
    documents: HashMap<String, i64>,
}

struct Client {
    server: Child,
    input: Arc<Mutex<ChildStdin>>,
    answers: Receiver<(u64, Instant, Value)>,
    shared: Arc<Mutex<Shared>>,
    /// A text has come from a task for the first time.
    streams: Receiver<()>,
    requests: u64,
}

impl Drop for Client {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Client {
    fn start(folder: &Path, work: &Path, typed: bool) -> Outcome<Self> {
        let mut server = Command::new(env!("CARGO_BIN_EXE_roo-lsp"))
            .arg("serve")
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", folder)
            .env("XDG_CONFIG_HOME", folder.join("config"))
            .env("XDG_STATE_HOME", folder.join("state"))
            .current_dir(work)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (Some(input), Some(output)) = (server.stdin.take(), server.stdout.take()) else {
            return Err("the server has no pipes".into());
        };
        let (sender, answers) = channel();
        let (input, shared) = (Arc::new(Mutex::new(input)), Arc::<Mutex<Shared>>::default());
        let (begins, streams) = channel();
        let reader = Reader { input: Arc::clone(&input), shared: Arc::clone(&shared), begins };
        std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            while let Ok(Some(message)) = message(&mut output) {
                let now = Instant::now();
                match (message["id"].as_u64(), message["method"].as_str()) {
                    (Some(id), None) => {
                        if sender.send((id, now, message)).is_err() {
                            break;
                        }
                    }
                    _ => {
                        // The server is killed at the end.
                        let _ = reader.serve(&message);
                    }
                }
            }
        });
        let mut client = Self { server, input, answers, shared, streams, requests: 0 };
        let mut capabilities = json!({
            "workspace": { "applyEdit": true, "workspaceEdit": { "documentChanges": true } },
            "window": { "showDocument": { "support": true } },
        });
        if typed {
            capabilities["experimental"] = json!({ "roo": { "protocolVersion": 1 } });
        }
        let root = format!("file://{}", work.display());
        client.request(
            "initialize",
            json!({ "processId": null, "rootUri": root, "capabilities": capabilities }),
        )?;
        client.notify("initialized", json!({}))?;
        Ok(client)
    }

    fn wait_until_all_stream(&self) -> Outcome {
        for number in 0..TASKS {
            self.streams.recv_timeout(DEADLINE).map_err(|_| format!("{number} of {TASKS} tasks stream"))?;
        }
        Ok(())
    }

    fn shared(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a request; returns how many milliseconds its answer took, which must be a result.
    fn request(&mut self, method: &str, params: Value) -> Outcome<f64> {
        self.requests += 1;
        let sent = Instant::now();
        send(
            &self.input,
            &json!({ "jsonrpc": "2.0", "id": self.requests, "method": method, "params": params }),
        )?;
        loop {
            let (id, at, answer) = self.answers.recv_timeout(DEADLINE)?;
            if id != self.requests {
                continue;
            }
            return match answer.get("error") {
                Some(error) => Err(format!("{method}: {error}").into()),
                None => Ok(milliseconds(at - sent)),
            };
        }
    }

    fn notify(&self, method: &str, params: Value) -> io::Result<()> {
        send(&self.input, &json!({ "jsonrpc": "2.0", "method": method, "params": params }))
    }
}

/// Takes in what the server says, as an editor does.
struct Reader {
    input: Arc<Mutex<ChildStdin>>,
    shared: Arc<Mutex<Shared>>,
    begins: Sender<()>,
}

impl Reader {
    fn streams(&self, shared: &mut Shared, task: String) {
        if shared.streams.insert(task) {
            // Nobody waits for more than that there are all.
            let _ = self.begins.send(());
        }
    }

    fn serve(&self, message: &Value) -> io::Result<()> {
        let params = &message["params"];
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let result = match message["method"].as_str().unwrap_or_default() {
            "roo/event" => {
                if params["event"]["type"] == "message.delta" {
                    shared.pieces += 1;
                    self.streams(&mut shared, params["rootId"].to_string());
                }
                Value::Null
            }
            "window/showDocument" => {
                let uri = params["uri"].as_str().unwrap_or_default();
                let text = fs::read_to_string(uri.trim_start_matches("file://"))?;
                shared.documents.insert(uri.to_owned(), 1);
                let document = json!({ "uri": uri, "languageId": "markdown", "version": 1, "text": text });
                self.notify("textDocument/didOpen", json!({ "textDocument": document }))?;
                json!({ "success": true })
            }
            "workspace/applyEdit" => {
                let change = &params["edit"]["documentChanges"][0];
                let uri = change["textDocument"]["uri"].as_str().unwrap_or_default().to_owned();
                shared.pieces += 1;
                let open = shared.documents.entry(uri.clone()).or_default();
                *open += 1;
                let version = *open;
                self.streams(&mut shared, uri.clone());
                let changes: Vec<Value> = change["edits"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|edit| json!({ "range": edit["range"], "text": edit["newText"] }))
                    .collect();
                let identifier = json!({ "uri": uri, "version": version });
                self.notify(
                    "textDocument/didChange",
                    json!({ "textDocument": identifier, "contentChanges": changes }),
                )?;
                json!({ "applied": true })
            }
            _ => Value::Null,
        };
        match message.get("id") {
            Some(id) => send(&self.input, &json!({ "jsonrpc": "2.0", "id": id, "result": result })),
            None => Ok(()),
        }
    }

    fn notify(&self, method: &str, params: Value) -> io::Result<()> {
        send(&self.input, &json!({ "jsonrpc": "2.0", "method": method, "params": params }))
    }
}

fn send(input: &Mutex<ChildStdin>, message: &Value) -> io::Result<()> {
    let message = message.to_string();
    let mut input = input.lock().unwrap_or_else(PoisonError::into_inner);
    input.write_all(format!("Content-Length: {}\r\n\r\n{message}", message.len()).as_bytes())?;
    input.flush()
}

fn message(output: &mut impl io::BufRead) -> Outcome<Option<Value>> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if output.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        match line.trim_end().split_once(": ") {
            Some(("Content-Length", value)) => length = value.parse()?,
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    output.read_exact(&mut body)?;
    Ok(Some(serde_json::from_slice(&body)?))
}
