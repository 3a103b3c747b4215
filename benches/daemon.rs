//! What the daemon costs: the time that the relay adds to a request, the memory of a client that does nothing, and how many events
//! a second reach many clients.
//!
//! `cargo bench --bench daemon [-- latency|memory|events]`. What each figure means is told in `docs/src/performance.md`.

mod support;

use std::fs;
use std::io::{self, Write as _};
use std::process::Stdio;
use std::time::Instant;

use serde_json::{Value, json};

use support::Outcome;
use support::answer::{Protocol, Wire};
use support::memory;
use support::program::{Client, Home};
use support::table::{self, Row, milliseconds, row};

/// Number of requests whose answers are timed, after those that warm up.
const REQUESTS: usize = 5000;
const WARM_UP: usize = 200;
/// Number of clients that do nothing, and of those that get events.
const CLIENTS: usize = 50;
/// Size of the request whose events they get.
const TURNS: usize = 20;
const CALLS: usize = 50;

/// A name to choose it by, and what it does.
type Measurement = (&'static str, fn() -> Outcome);

const MEASUREMENTS: &[Measurement] =
    &[("latency", latency), ("memory", memory_of_clients), ("events", events_to_many)];

fn main() -> Outcome {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
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

/// A user with a daemon, which ends with this.
struct DaemonHome(Home);

impl DaemonHome {
    fn new() -> Outcome<Self> {
        Ok(Self(Home::new("http://127.0.0.1:9", Wire::Anthropic, Protocol::Native, json!({}))?))
    }

    /// A client that the daemon serves.
    fn client(&self) -> Outcome<Client> {
        let mut client = Client::start_by(&self.0, &["serve", "--daemon"])?;
        client.notify("initialized", json!({}))?;
        // Its engine is there once it has answered.
        client.request("roo/task/list", json!({}))?;
        Ok(client)
    }

    /// The process of the daemon.
    fn process(&self) -> Outcome<u32> {
        let output = self
            .0
            .program(&["daemon", "status", "--json"])
            .stdout(Stdio::piped())
            .spawn()?
            .wait_with_output()?;
        let status: Value = serde_json::from_slice(&output.stdout)?;
        Ok(u32::try_from(status["process"].as_u64().ok_or("no daemon runs")?)?)
    }
}

impl Drop for DaemonHome {
    fn drop(&mut self) {
        // It ends by itself after a while otherwise.
        let _ = self.0.program(&["daemon", "stop"]).status();
    }
}

/// The time to the answer of a small request, by the relay and without it. Both are asked by turns, so that they have the same
/// load beside them.
fn latency() -> Outcome {
    let home = DaemonHome::new()?;
    let mut relayed = home.client()?;
    let alone = Home::new("http://127.0.0.1:9", Wire::Anthropic, Protocol::Native, json!({}))?;
    let mut direct = Client::start(&alone)?;
    direct.notify("initialized", json!({}))?;
    direct.request("roo/task/list", json!({}))?;
    let mut times = [Vec::new(), Vec::new()];
    for number in 0..WARM_UP + REQUESTS {
        for (client, times) in [&mut relayed, &mut direct].into_iter().zip(&mut times) {
            let asked = Instant::now();
            client.request("roo/autoApprove/get", json!({}))?;
            if number >= WARM_UP {
                times.push(milliseconds(asked.elapsed()));
            }
        }
    }
    let [by_relay, direct] = times;
    let p99 = |times: &[f64]| {
        let mut times = times.to_vec();
        times.sort_by(f64::total_cmp);
        times.get(times.len() * 99 / 100).copied().unwrap_or_default()
    };
    let (slow, slow_direct) = (p99(&by_relay), p99(&direct));
    row(Row { what: "request by the relay", unit: "ms", target: "" }, by_relay)?;
    row(Row { what: "request without a daemon", unit: "ms", target: "" }, direct)?;
    let added = slow - slow_direct;
    Ok(writeln!(
        io::stdout(),
        "p99: {slow:.3} ms by the relay, {slow_direct:.3} ms without: {added:.3} ms added (target 1)"
    )?)
}

/// What the daemon holds for each client, and what the client's own process holds.
fn memory_of_clients() -> Outcome {
    let home = DaemonHome::new()?;
    let mut clients = vec![home.client()?];
    let process = home.process()?;
    let one = memory::of_process(process)?;
    while clients.len() <= CLIENTS {
        clients.push(home.client()?);
    }
    let many = memory::of_process(process)?;
    let of_relays: Result<Vec<f64>, _> =
        clients.iter().map(|client| memory::of_process(client.server.0.id())).collect();
    let each = (many - one) * 1e3 / CLIENTS as f64;
    row(Row { what: "memory of a relay", unit: "MB", target: "" }, of_relays?)?;
    Ok(writeln!(
        io::stdout(),
        "the daemon: {one:.1} MB with 1 client, {many:.1} MB with {}: {each:.0} kB for each idle client",
        CLIENTS + 1
    )?)
}

/// How many events a second reach clients that all follow one request.
fn events_to_many() -> Outcome {
    let home = DaemonHome::new()?;
    let script = home.0.settings().with_file_name("script.yaml");
    fs::write(&script, script_of_many_calls())?;
    let profile = json!({ "provider": "scripted", "script": script });
    // JSON is YAML.
    fs::write(home.0.settings(), json!({ "mode": "code", "profiles": { "default": profile } }).to_string())?;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let mut client = home.client()?;
        client.request("roo/task/attach", json!({ "taskId": "*" }))?;
        clients.push(client);
    }
    let begun = Instant::now();
    let Some(first) = clients.first_mut() else { return Ok(()) };
    first.request("roo/task/start", json!({ "prompt": "Go.", "mode": "code" }))?;
    let readers: Vec<_> = clients
        .into_iter()
        .map(|mut client| {
            std::thread::spawn(move || -> Result<u64, String> {
                loop {
                    let params = client.event_params().map_err(|error| error.to_string())?;
                    let event = &params["event"];
                    if event["type"] == "task.state" && event["state"] == "completed" {
                        return params["seq"].as_u64().ok_or_else(|| "an end has no number".to_owned());
                    }
                }
            })
        })
        .collect();
    let mut events = 0;
    for reader in readers {
        events += reader.join().map_err(|_| "a client failed")??;
    }
    let seconds = begun.elapsed().as_secs_f64();
    Ok(writeln!(
        io::stdout(),
        "{events} events to {CLIENTS} clients in {seconds:.2} s: {:.0} a second",
        events as f64 / seconds
    )?)
}

/// Turns of many calls that only touch the to-do list.
fn script_of_many_calls() -> String {
    let mut yaml = String::from("turns:\n");
    for turn in 0..TURNS {
        yaml += "  - calls:\n";
        for call in 0..CALLS {
            yaml += &format!(
                "      - {{ tool: update_todo_list, params: {{ todos: \"[ ] {turn}.{call}\" }} }}\n"
            );
        }
    }
    yaml + "  - calls: [{ tool: attempt_completion, params: { result: Done. } }]\n"
}
