//! MCP servers: what ten of them cost a task that begins, what a call costs over a bare client of `rmcp`, and what a server
//! costs in memory beside its own process.
//!
//! `cargo bench --bench mcp [-- words of the measurements]`. The servers are this program, started with `serve`.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rmcp::ServiceExt as _;
use rmcp::model::CallToolRequestParams;
use roo_formats::mcp::{ResolvedServer, ResolvedStdio, ToolNames, Transport};
use roo_mcp::{
    AddressPolicy, CallOptions, ClientIdentity, DesiredServer, DesiredState, Hub, HubServices, PlainLauncher,
};
use serde_json::{Value, json};

use support::Outcome;
use support::answer::{Call, Protocol, Wire, response};
use support::endpoint::{Endpoint, Request};
use support::memory;
use support::program::{Client, Home, Running};
use support::table::{self, Row, milliseconds, row};

/// Number of servers.
const SERVERS: usize = 10;
/// Rounds in which what is compared takes turns; the first one is not counted.
const ROUNDS: usize = 31;
const CALLS: usize = 2000;
/// The argument by which this program is a server, and the variable with its pause before it answers `initialize`, in
/// milliseconds.
const SERVE: &str = "serve";
const PAUSE: &str = "ROO_BENCH_PAUSE";

const DONE: Call<'_> = Call { name: "attempt_completion", parameters: &[("result", "Done.")] };
const LIST: Call<'_> = Call { name: "list_files", parameters: &[("path", ".")] };

type Measurement = (&'static str, fn() -> Outcome);

const MEASUREMENTS: &[Measurement] = &[
    ("run", start_of_a_run),
    ("session", start_in_a_session),
    ("late", late_tools),
    ("calls", calls),
    ("memory", memory_of_servers),
];

fn main() -> Outcome {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|argument| argument == SERVE) {
        return serve();
    }
    // `cargo test --all-targets` starts benches too, without this flag.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return Ok(());
    }
    arguments.retain(|argument| !argument.starts_with('-'));
    table::head()?;
    for (name, measure) in MEASUREMENTS {
        if arguments.is_empty() || arguments.iter().any(|argument| name.contains(argument.as_str())) {
            measure()?;
        }
    }
    Ok(())
}

/// A server with one tool.
fn serve() -> Outcome {
    let pause = std::env::var(PAUSE).ok().and_then(|pause| pause.parse().ok()).unwrap_or(0);
    for line in io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line?)?;
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => {
                thread::sleep(Duration::from_millis(pause));
                json!({
                    "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
                    "serverInfo": { "name": "bench", "version": "1" },
                })
            }
            "tools/list" => json!({ "tools": [
                { "name": "echo", "description": "Gives back.", "inputSchema": { "type": "object" } },
            ] }),
            "tools/call" => json!({ "content": [
                { "type": "text", "text": message["params"]["arguments"]["text"] },
            ] }),
            _ if message["id"].is_null() => continue,
            method => {
                let error = json!({ "code": -32601, "message": format!("no {method}") });
                send(&json!({ "jsonrpc": "2.0", "id": message["id"], "error": error }))?;
                continue;
            }
        };
        send(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }))?;
    }
    Ok(())
}

fn send(message: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{message}")?;
    out.flush()
}

/// A home with so many servers of the user's.
fn home(endpoint: &Endpoint, servers: usize, pause: Duration) -> Outcome<Home> {
    let home = Home::new(&endpoint.url(), Wire::Anthropic, Protocol::Native, json!({}))?;
    let program = std::env::current_exe()?;
    let entry = json!({
        "command": program, "args": [SERVE], "env": { PAUSE: pause.as_millis().to_string() },
    });
    let entries: serde_json::Map<String, Value> =
        (0..servers).map(|number| (format!("s{number}"), entry.clone())).collect();
    fs::write(home.settings().with_file_name("mcp.json"), json!({ "mcpServers": entries }).to_string())?;
    Ok(home)
}

/// Number of servers whose tool a request offers.
fn offered(request: &Request) -> usize {
    let body = String::from_utf8_lossy(&request.body);
    (0..SERVERS).filter(|number| body.contains(&format!("mcp__s{number}__echo"))).count()
}

fn answer(request: &Request, turn: usize, call: &Call<'_>) -> Outcome {
    request.answer(&response(Wire::Anthropic, Protocol::Native, turn, call, 24))?;
    Ok(())
}

/// The program is started for one task, and the servers with it. Their tools are known from the first round, which is not
/// counted.
fn start_of_a_run() -> Outcome {
    let endpoint = Endpoint::start()?;
    let homes = [home(&endpoint, 0, Duration::ZERO)?, home(&endpoint, SERVERS, Duration::ZERO)?];
    let mut times = [vec![], vec![]];
    let mut tools = vec![];
    for round in 0..ROUNDS {
        for (home, times) in homes.iter().zip(&mut times) {
            let started = Instant::now();
            let mut program = Running(home.program(&["run", "Say hello."]).spawn()?);
            let request = endpoint.request()?;
            if round > 0 {
                times.push(milliseconds(request.first_byte - started));
            }
            if home.work() == homes[1].work() && round > 0 {
                tools.push(offered(&request) as f64);
            }
            if round == 0 {
                // The servers start meanwhile, and what they offer is kept.
                thread::sleep(Duration::from_secs(3));
            }
            answer(&request, 0, &DONE)?;
            program.0.wait()?;
        }
    }
    let [without, with] = times;
    row(Row { what: "process start to first request, no servers", unit: "ms", target: "" }, without)?;
    row(Row { what: "the same, ten servers start with it", unit: "ms", target: "+ 5" }, with)?;
    Ok(row(Row { what: "  servers whose tools that request has", unit: "", target: "" }, tools)?)
}

/// Waits until the servers of a session are connected.
fn connected(client: &mut Client, servers: usize) -> Outcome {
    for _ in 0..3000 {
        let listed = client.request("roo/mcp/list", json!({}))?;
        let states = listed["servers"].as_array().into_iter().flatten();
        if states.filter(|server| server["state"] == "connected").count() == servers {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(10));
    }
    Err("the servers do not start".into())
}

fn start_task(client: &mut Client, endpoint: &Endpoint) -> Outcome<(Duration, Request)> {
    let started = Instant::now();
    client.request("roo/task/start", json!({ "prompt": "Say hello.", "mode": "code" }))?;
    let request = endpoint.request()?;
    Ok((request.first_byte - started, request))
}

/// Tasks begin in a session in which the servers run already, as in an editor.
fn start_in_a_session() -> Outcome {
    let endpoint = Endpoint::start()?;
    let homes = [home(&endpoint, 0, Duration::ZERO)?, home(&endpoint, SERVERS, Duration::ZERO)?];
    let mut clients = [Client::start(&homes[0])?, Client::start(&homes[1])?];
    for (client, servers) in clients.iter_mut().zip([0, SERVERS]) {
        client.notify("initialized", json!({}))?;
        connected(client, servers)?;
    }
    let mut times = [vec![], vec![]];
    for round in 0..ROUNDS {
        for (client, times) in clients.iter_mut().zip(&mut times) {
            let (time, request) = start_task(client, &endpoint)?;
            if round > 0 {
                times.push(milliseconds(time));
            }
            answer(&request, 0, &DONE)?;
        }
    }
    let [without, with] = times;
    row(Row { what: "start of a task to its first request, no servers", unit: "ms", target: "" }, without)?;
    Ok(row(Row { what: "the same, ten servers run", unit: "ms", target: "+ 5" }, with)?)
}

/// Servers that were never connected, and take a while to start.
fn late_tools() -> Outcome {
    let endpoint = Endpoint::start()?;
    let mut waits = vec![];
    let mut tools = [vec![], vec![]];
    for _ in 0..3 {
        let home = home(&endpoint, SERVERS, Duration::from_secs(4))?;
        let started = Instant::now();
        let mut program = Running(home.program(&["run", "Say hello."]).spawn()?);
        let request = endpoint.request()?;
        waits.push(milliseconds(request.first_byte - started));
        tools[0].push(offered(&request) as f64);
        thread::sleep(Duration::from_secs(6));
        answer(&request, 0, &LIST)?;
        let request = endpoint.request()?;
        tools[1].push(offered(&request) as f64);
        answer(&request, 1, &DONE)?;
        program.0.wait()?;
    }
    row(Row { what: "process start to first request, new servers of 4 s", unit: "ms", target: "" }, waits)?;
    let [first, next] = tools;
    row(Row { what: "  servers whose tools the first request has", unit: "", target: "" }, first)?;
    Ok(row(Row { what: "  servers whose tools the next one has", unit: "", target: "10" }, next)?)
}

/// A call over the hub and over a bare client, by turns; each has a server of its own.
fn calls() -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let program = std::env::current_exe()?;
        let mut child = tokio::process::Command::new(&program)
            .arg(SERVE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the server has no pipes".into());
        };
        let bare = ().serve((output, input)).await?;
        let hub = hub(&program)?;
        if !hub.settled(Duration::from_secs(10)).await {
            return Err("the server does not start".into());
        }
        let arguments = || json!({ "text": "hello" }).as_object().cloned().unwrap_or_default();
        let (options, mut times) = (CallOptions::default(), [vec![], vec![]]);
        for _ in 0..CALLS {
            let started = Instant::now();
            bare.call_tool(CallToolRequestParams::new("echo").with_arguments(arguments())).await?;
            times[0].push(milliseconds(started.elapsed()));
            let started = Instant::now();
            hub.call_tool("s", "echo", arguments(), &options).await?;
            times[1].push(milliseconds(started.elapsed()));
        }
        hub.shutdown().await;
        let [without, with] = times;
        row(Row { what: "call of a tool, bare client of rmcp", unit: "ms", target: "" }, without)?;
        row(Row { what: "the same over the hub", unit: "ms", target: "" }, with)?;
        Ok(())
    })
}

fn hub(program: &Path) -> Outcome<Hub> {
    let launcher = PlainLauncher::new(BTreeMap::new(), std::env::temp_dir());
    let identity = ClientIdentity { name: "bench".to_owned(), version: "1".to_owned() };
    let hub = Hub::new(HubServices::new(Arc::new(launcher), identity));
    let server = ResolvedServer {
        name: "s".to_owned(),
        transport: Transport::Stdio(ResolvedStdio {
            command: program.display().to_string(),
            args: vec![SERVE.to_owned()],
            env: BTreeMap::new(),
            directory: None,
            writable: vec![],
            watched: vec![],
        }),
        timeout: Duration::from_secs(60),
    };
    let state = DesiredState::Running {
        server: Box::new(server),
        policy: AddressPolicy::User,
        credentials: None,
        disabled_tools: ToolNames::default(),
        sampling: false,
        lazy: false,
        prefers_initialize: false,
        sandbox: Box::default(),
        files: 0,
    };
    hub.configure(vec![DesiredServer { name: "s".to_owned(), state }]);
    Ok(hub)
}

/// What a session and the processes between it and its servers hold with ten servers more than without any. They share the
/// pages of the program file, so that neither alone says much.
fn memory_of_servers() -> Outcome {
    let endpoint = Endpoint::start()?;
    let mut beside = vec![];
    for _ in 0..5 {
        let mut held = vec![];
        for servers in [0, SERVERS] {
            let home = home(&endpoint, servers, Duration::ZERO)?;
            let mut client = Client::start(&home)?;
            client.notify("initialized", json!({}))?;
            connected(&mut client, servers)?;
            let process = client.server.0.id();
            held.push(memory::of_process(process)? + of_helpers(process)?);
        }
        if let [without, with] = held[..] {
            beside.push((with - without) / SERVERS as f64);
        }
    }
    Ok(row(Row { what: "memory of a server beside its own process, PSS", unit: "MB", target: "" }, beside)?)
}

/// Memory of all below a process that are no servers, in MB.
fn of_helpers(process: u32) -> Outcome<f64> {
    let server = std::env::current_exe()?;
    let mut total = 0.0;
    let mut processes = children(process)?;
    while let Some(process) = processes.pop() {
        processes.extend(children(process)?);
        let program: PathBuf = fs::read_link(format!("/proc/{process}/exe"))?;
        if program != server {
            total += memory::of_process(process)?;
        }
    }
    Ok(total)
}

fn children(process: u32) -> Outcome<Vec<u32>> {
    let mut children = vec![];
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let listed = fs::read_to_string(thread?.path().join("children"))?;
        children.extend(listed.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
    }
    Ok(children)
}
