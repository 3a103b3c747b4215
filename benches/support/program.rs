//! The program under measurement: a home and a workspace of its own, its figures in `/proc`, and a
//! client that speaks LSP to it.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::Outcome;
use super::answer::{Protocol, Wire};

/// A workspace, and places for the program's configuration and state.
pub struct Home {
    directory: TempDir,
}

impl Home {
    /// A home whose one profile is the endpoint at `url`. `approve` is the value of `autoApprove`.
    pub fn new(url: &str, wire: Wire, protocol: Protocol, approve: Value) -> Outcome<Self> {
        let (provider, base) = match wire {
            Wire::Anthropic => ("anthropic", url.to_owned()),
            Wire::OpenAi => ("openai", format!("{url}/v1")),
        };
        Self::with_profile(provider, &base, protocol, approve)
    }

    /// A home whose one profile is an endpoint at `url` that speaks OpenAI's Responses, with native tool calls.
    pub fn with_responses(url: &str, approve: Value) -> Outcome<Self> {
        Self::with_profile("openai-responses", &format!("{url}/v1"), Protocol::Native, approve)
    }

    fn with_profile(provider: &str, base: &str, protocol: Protocol, approve: Value) -> Outcome<Self> {
        let home = Self { directory: tempfile::tempdir()? };
        let protocol = match protocol {
            Protocol::Native => "native",
            Protocol::Xml => "xml",
        };
        let profile =
            json!({ "provider": provider, "baseUrl": base, "model": "m", "toolProtocol": protocol });
        let limits = json!({ "requests": 10_000 });
        let settings = json!({
            "mode": "code", "profiles": { "default": profile }, "autoApprove": approve, "limits": limits,
        });
        fs::create_dir_all(home.work())?;
        fs::create_dir_all(home.directory.path().join("config/roo-lsp"))?;
        // JSON is YAML.
        fs::write(home.settings(), settings.to_string())?;
        Ok(home)
    }

    /// The file of settings.
    pub fn settings(&self) -> PathBuf {
        self.directory.path().join("config/roo-lsp/config.yaml")
    }

    /// The workspace folder.
    pub fn work(&self) -> PathBuf {
        self.directory.path().join("work")
    }

    /// The program, with nothing of the tester's own environment.
    pub fn program(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_roo-lsp"));
        let place = |name: &str| self.directory.path().join(name);
        command
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", place("home"))
            .env("XDG_CONFIG_HOME", place("config"))
            .env("XDG_STATE_HOME", place("state"))
            .current_dir(self.work())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }
}

/// The processor time of all threads that a process has now. The program ends none of its threads
/// within ten seconds of their last work, so over a shorter time none is missed.
pub fn processor_time(process: u32) -> Outcome<Duration> {
    let mut total = 0;
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let figures = fs::read_to_string(thread?.path().join("schedstat"))?;
        let running = figures.split(' ').next().ok_or("schedstat is empty")?;
        total += running.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(total))
}

/// The processor time of a process with its threads that ended and with all that it started and that has ended. The
/// system counts it in hundredths of a second.
pub fn processor_time_of_all(process: u32) -> Outcome<Duration> {
    let figures = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name before may hold spaces. After it, the 12th to the 15th are times.
    let (_, figures) = figures.rsplit_once(") ").ok_or("stat has no name")?;
    let ticks = figures.split(' ').skip(11).take(4).map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(Duration::from_millis(ticks * 10))
}

/// A running process that is killed when dropped.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A client of `roo-lsp serve`.
pub struct Client {
    /// The server.
    pub server: Running,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    requests: u64,
}

impl Client {
    /// Starts a server and returns once it has answered `initialize`.
    pub fn start(home: &Home) -> Outcome<Self> {
        Self::start_by(home, &["serve"])
    }

    /// The same, by other arguments.
    pub fn start_by(home: &Home, arguments: &[&str]) -> Outcome<Self> {
        let mut server = home.program(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(input), Some(output)) = (server.stdin.take(), server.stdout.take()) else {
            return Err("the server has no pipes".into());
        };
        let mut client = Self { server: Running(server), input, output: BufReader::new(output), requests: 0 };
        client.request(
            "initialize",
            json!({
                "processId": null,
                "rootUri": format!("file://{}", home.work().display()),
                "capabilities": { "experimental": { "roo": { "protocolVersion": 1 } } },
            }),
        )?;
        Ok(client)
    }

    /// Makes a request and waits for its answer, which must be a result.
    pub fn request(&mut self, method: &str, params: Value) -> Outcome<Value> {
        self.requests += 1;
        let id = self.requests;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        loop {
            let mut message = self.message()?;
            if message["id"] == id && message.get("method").is_none() {
                return match message.get("error") {
                    Some(error) => Err(format!("{method}: {error}").into()),
                    None => Ok(message["result"].take()),
                };
            }
        }
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: Value) -> Outcome {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
    }

    /// Waits for an event, and returns it with its number and request.
    pub fn event_params(&mut self) -> Outcome<Value> {
        loop {
            let mut message = self.message()?;
            if message["method"] == "roo/event" {
                return Ok(message["params"].take());
            }
        }
    }

    /// Waits for an event of a kind, and returns it.
    pub fn event(&mut self, kind: &str) -> Outcome<Value> {
        loop {
            let event = self.message()?["params"]["event"].take();
            if event["type"] == kind {
                return Ok(event);
            }
        }
    }

    fn send(&mut self, message: &Value) -> Outcome {
        let message = message.to_string();
        write!(self.input, "Content-Length: {}\r\n\r\n{message}", message.len())?;
        Ok(self.input.flush()?)
    }

    fn message(&mut self) -> Outcome<Value> {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line)? == 0 {
                return Err("the server has closed its output".into());
            }
            match line.trim_end().split_once(": ") {
                Some(("Content-Length", value)) => length = value.parse()?,
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        self.output.read_exact(&mut body)?;
        Ok(serde_json::from_slice(&body)?)
    }
}
