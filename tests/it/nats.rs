//! The bridge and workers over a real NATS server: the real programs, and a client of NATS that sees and says what is on the
//! subjects.

mod bridge;
mod connection;
mod killed;
mod workers;

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;

use async_nats::Client;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::timeout;

use crate::support::client::DEADLINE;
use crate::support::project::Project;
use crate::support::repository::git;

const DONE: &str = "  - calls: [{ tool: attempt_completion, params: { result: Done. } }]\n";

/// A program that was started, with what it says on standard error.
struct Program {
    child: Child,
    said: Option<JoinHandle<String>>,
}

impl Program {
    /// Starts a program, and waits until it has said something with these words; it panics with what it said instead.
    #[track_caller]
    fn start(command: &mut Command, ready: &str) -> Self {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut said = String::new();
        loop {
            let line = lines.next().unwrap_or_else(|| panic!("it is not ready: {said}"));
            said.push_str(&line);
            said.push('\n');
            if line.contains(ready) {
                break;
            }
        }
        // Nobody else empties the pipe.
        let said = std::thread::spawn(move || lines.fold(said, |said, line| said + &line + "\n"));
        Self { child, said: Some(said) }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id().cast_signed()).unwrap(), signal).unwrap();
    }

    /// Ends it by a signal, and returns its exit code and what it has said.
    fn end(mut self, signal: Signal) -> (Option<i32>, String) {
        self.signal(signal);
        let code = self.child.wait().unwrap().code();
        (code, self.said.take().unwrap().join().unwrap())
    }

    /// Ends it as the system does, without a word.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A NATS server with JetStream, which keeps its files when it is killed.
struct Broker {
    directory: TempDir,
    port: u16,
    flags: Vec<String>,
    server: Option<Program>,
}

impl Broker {
    fn start() -> Self {
        Self::with(&[])
    }

    fn with(flags: &[&str]) -> Self {
        // It has to be known before, to be the same behind a restart.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let mut broker = Self { directory: tempfile::tempdir().unwrap(), port, flags, server: None };
        broker.restart();
        broker
    }

    /// Kills it if it runs, and starts it with the files that it has.
    fn restart(&mut self) {
        if let Some(server) = self.server.take() {
            server.kill();
        }
        let mut command = Command::new(server_program());
        command.args(["--addr", "127.0.0.1", "--port", &self.port.to_string(), "--jetstream", "--store_dir"]);
        command.arg(self.directory.path()).args(&self.flags);
        self.server = Some(Program::start(&mut command, "Server is ready"));
    }

    fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    async fn connect(&self) -> Client {
        async_nats::connect(self.url()).await.unwrap()
    }
}

/// Debian puts it where plain users don't look.
fn server_program() -> PathBuf {
    let of_debian = Path::new("/usr/sbin/nats-server");
    if of_debian.exists() { of_debian.to_owned() } else { "nats-server".into() }
}

/// A trusted workspace in a git repository with one commit, whose model plays these turns.
fn playing(turns: &str) -> Project {
    let project = Project::new(&[("a.txt", "one\ntwo\nthree\n")]);
    let script = project.script(&format!("turns:\n{turns}"));
    let profile = format!("profiles:\n  default: {{ provider: scripted, script: {} }}\n", script.display());
    project.configure(&format!("mode: code\n{profile}"));
    project.succeed(&["trust"]);
    git(&project.folder(), &["init", "--quiet"]);
    git(&project.folder(), &["add", "a.txt"]);
    git(&project.folder(), &["commit", "--quiet", "-m", "Begin"]);
    project
}

/// Starts a worker that uses the settings of a project.
fn worker(project: &Project, broker: &Broker, flags: &[&str]) -> Program {
    let mut command = project.program();
    command.args(["worker", "--server", &broker.url(), "--directory"]).arg(project.beside("checkouts"));
    Program::start(command.args(flags), "takes work of the queue")
}

/// Submits, and waits for the result.
fn submit(project: &Project, broker: &Broker, arguments: &[&str]) -> Output {
    project.run(&[&["submit", "--server", &broker.url()], arguments].concat())
}

/// The next message of a subject that ends so, and the subject.
async fn next(messages: &mut async_nats::Subscriber, ending: &str) -> (String, Value) {
    use futures_util::StreamExt as _;

    let found = async {
        loop {
            let message = messages.next().await.expect("the connection lasts");
            if message.subject.ends_with(ending) {
                return (message.subject.to_string(), serde_json::from_slice(&message.payload).unwrap());
            }
        }
    };
    timeout(DEADLINE, found).await.unwrap_or_else(|_| panic!("nothing came on …{ending}"))
}

/// Sends a message and returns its answer.
async fn ask(client: &Client, subject: &str, message: &[u8]) -> Value {
    let answer = client.request(subject.to_owned(), message.to_vec().into()).await.unwrap();
    serde_json::from_slice(&answer.payload).unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
