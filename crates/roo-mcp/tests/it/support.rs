//! Servers within this process, and what tests say to a hub.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use roo_formats::mcp::{ResolvedRemote, ResolvedServer, ResolvedStdio, ToolNames, Transport};
use roo_mcp::{
    AddressPolicy, ClientIdentity, DesiredServer, DesiredState, Ended, Hub, HubServices, LaunchError,
    LaunchRequest, LaunchedServer, ServerCatalog, ServerLauncher, ServerProcess, ServerStatus,
};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines};
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub fn identity() -> ClientIdentity {
    ClientIdentity { name: "roo-lsp".to_owned(), version: "1.2.3".to_owned() }
}

/// The server's end of a connection.
pub struct Peer {
    lines: Lines<BufReader<DuplexStream>>,
    out: DuplexStream,
    pub stderr: DuplexStream,
}

impl Peer {
    /// The next message of the client; none when it has gone.
    pub async fn read(&mut self) -> Option<Value> {
        let line = self.lines.next_line().await.ok()??;
        Some(serde_json::from_str(&line).unwrap())
    }

    pub async fn write(&mut self, bytes: &[u8]) {
        // A client that has gone hears nothing.
        let _ = self.out.write_all(bytes).await;
    }

    pub async fn send(&mut self, message: Value) {
        self.write(format!("{message}\n").as_bytes()).await;
    }

    pub async fn reply(&mut self, id: &Value, result: Value) {
        self.send(json!({ "jsonrpc": "2.0", "id": id, "result": result })).await;
    }

    pub async fn notify(&mut self, method: &str, params: Value) {
        self.send(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    /// Answers one request in the usual way.
    pub async fn answer(&mut self, message: &Value, tools: &Value) {
        let id = &message["id"];
        match message["method"].as_str().unwrap_or_default() {
            "initialize" => self.reply(id, initialized(json!({ "tools": { "listChanged": true } }))).await,
            "tools/list" => self.reply(id, json!({ "tools": tools })).await,
            "ping" => self.reply(id, json!({})).await,
            _ if id.is_null() => {}
            method => {
                let error = json!({ "code": -32601, "message": format!("no {method}") });
                self.send(json!({ "jsonrpc": "2.0", "id": id, "error": error })).await;
            }
        }
    }

    /// Answers until a tool is called: its id, and the parameters.
    pub async fn serve_until_call(&mut self, tools: &Value) -> Option<(Value, Value)> {
        loop {
            let message = self.read().await?;
            if message["method"] == "tools/call" {
                return Some((message["id"].clone(), message["params"].clone()));
            }
            self.answer(&message, tools).await;
        }
    }
}

pub fn initialized(capabilities: Value) -> Value {
    json!({
        "protocolVersion": "2025-06-18", "capabilities": capabilities,
        "serverInfo": { "name": "fake", "version": "0.1" }, "instructions": "Be kind.",
    })
}

pub fn tool(name: &str) -> Value {
    json!({ "name": name, "description": format!("Does {name}."), "inputSchema": { "type": "object" } })
}

pub fn text(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

type Behaviour = dyn Fn(usize, Peer) -> BoxFuture<'static, ()> + Send + Sync;

/// Launches servers within this process.
pub struct FakeLauncher {
    behaviour: Box<Behaviour>,
    launched: Arc<AtomicUsize>,
    running: Arc<AtomicUsize>,
}

impl FakeLauncher {
    /// The server's behaviour gets the number of the launch, from 0.
    pub fn new<F: Future<Output = ()> + Send + 'static>(
        behaviour: impl Fn(usize, Peer) -> F + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            behaviour: Box::new(move |launch, peer| Box::pin(behaviour(launch, peer))),
            launched: Arc::default(),
            running: Arc::default(),
        })
    }

    pub fn launched(&self) -> usize {
        self.launched.load(Ordering::SeqCst)
    }

    pub fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }
}

impl ServerLauncher for FakeLauncher {
    fn launch<'a>(
        &'a self,
        request: &'a LaunchRequest,
    ) -> BoxFuture<'a, Result<LaunchedServer, LaunchError>> {
        Box::pin(async move {
            if request.program.command == "missing" {
                return Err(LaunchError::NotFound("missing".to_owned()));
            }
            let (stdin, server_in) = tokio::io::duplex(64 << 10);
            let (server_out, stdout) = tokio::io::duplex(64 << 10);
            let (server_err, stderr) = tokio::io::duplex(64 << 10);
            let peer = Peer { lines: BufReader::new(server_in).lines(), out: server_out, stderr: server_err };
            let number = self.launched.fetch_add(1, Ordering::SeqCst);
            self.running.fetch_add(1, Ordering::SeqCst);
            let counter = Running(Arc::clone(&self.running));
            let (end, ended) = watch::channel(false);
            let life = (self.behaviour)(number, peer);
            let task = tokio::spawn(async move {
                let _counter = counter;
                life.await;
                end.send_replace(true);
            });
            Ok(LaunchedServer {
                stdin: Box::new(stdin),
                stdout: Box::new(stdout),
                stderr: Box::new(stderr),
                process: Box::new(FakeProcess { task, ended }),
            })
        })
    }
}

struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

struct FakeProcess {
    task: JoinHandle<()>,
    ended: watch::Receiver<bool>,
}

impl ServerProcess for FakeProcess {
    fn ended(&mut self) -> BoxFuture<'_, Ended> {
        Box::pin(async move {
            let _ = self.ended.wait_for(|ended| *ended).await;
            Ended::Code(9)
        })
    }

    fn end(mut self: Box<Self>) -> BoxFuture<'static, Ended> {
        Box::pin(async move {
            self.task.abort();
            let _ = (&mut self.task).await;
            Ended::Signal(9)
        })
    }
}

impl Drop for FakeProcess {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub fn stdio(name: &str, command: &str, args: &[&str]) -> ResolvedServer {
    ResolvedServer {
        name: name.to_owned(),
        transport: Transport::Stdio(ResolvedStdio {
            command: command.to_owned(),
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            env: BTreeMap::new(),
            directory: None,
            writable: vec![],
            watched: vec![],
        }),
        timeout: Duration::from_secs(60),
    }
}

pub fn remote(url: &str, headers: &[(&str, &str)]) -> ResolvedRemote {
    let headers = headers.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    ResolvedRemote { url: url.to_owned(), headers }
}

pub fn running(server: ResolvedServer) -> DesiredServer {
    let state = DesiredState::Running {
        server: Box::new(server.clone()),
        policy: AddressPolicy::User,
        credentials: None,
        disabled_tools: ToolNames::default(),
        sampling: false,
        lazy: false,
        prefers_initialize: false,
        sandbox: Box::default(),
        files: 0,
    };
    DesiredServer { name: server.name, state }
}

pub fn hub(launcher: &Arc<FakeLauncher>) -> Hub {
    let launcher: Arc<dyn ServerLauncher> = launcher.clone();
    Hub::new(HubServices::new(launcher, identity()))
}

/// A hub with the one server `s` within this process.
pub fn hub_with(launcher: &Arc<FakeLauncher>) -> Hub {
    let hub = hub(launcher);
    hub.configure(vec![running(stdio("s", "fake", &[]))]);
    hub
}

/// Waits until a server has a status.
pub async fn status(hub: &Hub, server: &str, wanted: impl Fn(&ServerStatus) -> bool) -> ServerStatus {
    let mut statuses = hub.statuses();
    let found = statuses.wait_for(|statuses| statuses.get(server).is_some_and(&wanted)).await.unwrap();
    found[server].clone()
}

pub async fn connected(hub: &Hub, server: &str) -> Arc<ServerCatalog> {
    let status = status(hub, server, |status| !matches!(status, ServerStatus::Starting)).await;
    match status {
        ServerStatus::Connected(catalog) => catalog,
        other => panic!("{other:?}"),
    }
}

/// Waits until a server has failed: why, and the pause before the next attempt.
pub async fn failed(hub: &Hub, server: &str) -> (String, Option<u64>) {
    match status(hub, server, |status| matches!(status, ServerStatus::Failed { .. })).await {
        ServerStatus::Failed { fault, retry_after } => {
            (fault.to_string(), retry_after.map(|pause| pause.as_secs()))
        }
        other => panic!("{other:?}"),
    }
}

/// Waits until a server needs a login: what its user is told to do.
pub async fn needs_login(hub: &Hub, server: &str) -> String {
    match status(hub, server, |status| !matches!(status, ServerStatus::Starting)).await {
        ServerStatus::NeedsLogin(fault) => fault.to_string(),
        other => panic!("{other:?}"),
    }
}

pub fn arguments(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}
