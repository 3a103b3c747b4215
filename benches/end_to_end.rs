//! The program as it is used: the release binary against a model endpoint on loopback, with its log
//! durable and every call gated.
//!
//! `cargo bench --bench end_to_end [-- words of the measurements]`. What each figure means is told in
//! `docs/src/performance.md`.

mod support;

use std::fs;
use std::io::{self, Write as _};
use std::time::Instant;

use serde_json::{Value, json};

use support::Outcome;
use support::answer::{Call, Protocol, Wire, response};
use support::endpoint::{Endpoint, Request};
use support::memory;
use support::program::{Client, Home, Running, processor_time};
use support::table::{self, Row, milliseconds, row};

const KIB: usize = 1024;
const TURNS: usize = 20;
/// Bytes of a delta where nothing else is said.
const DELTA: usize = 24;

/// A name to choose it by, and what it does.
type Measurement = (&'static str, fn() -> Outcome);

const MEASUREMENTS: &[Measurement] = &[
    ("start", start_to_request),
    ("initialize", start_to_initialize),
    ("turns", turns),
    ("write", large_writes),
    ("memory", memory_of_tasks),
    ("command", processes_of_a_command),
];

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

fn approve_all() -> Value {
    json!({ "write": true, "execute": { "allow": [["true"]] } })
}

const DONE: Call<'_> = Call { name: "attempt_completion", parameters: &[("result", "Done.")] };

fn start_to_request() -> Outcome {
    let endpoint = Endpoint::start()?;
    let home = Home::new(&endpoint.url(), Wire::Anthropic, Protocol::Native, approve_all())?;
    let mut times = Vec::new();
    for _ in 0..50 {
        let started = Instant::now();
        let mut program = Running(home.program(&["run", "Say hello."]).spawn()?);
        let request = endpoint.request()?;
        times.push(milliseconds(request.first_byte - started));
        request.answer(&response(Wire::Anthropic, Protocol::Native, 0, &DONE, DELTA))?;
        program.0.wait()?;
    }
    Ok(row(Row { what: "process start to first model request", unit: "ms", target: "25" }, times)?)
}

fn start_to_initialize() -> Outcome {
    let home = Home::new("http://127.0.0.1:9", Wire::Anthropic, Protocol::Native, approve_all())?;
    let mut times = Vec::new();
    for _ in 0..50 {
        let started = Instant::now();
        let _client = Client::start(&home)?;
        times.push(milliseconds(started.elapsed()));
    }
    Ok(row(Row { what: "process start to `initialize` answer", unit: "ms", target: "10" }, times)?)
}

/// The three kinds of turns, in order.
const KINDS: [&str; 3] = ["read", "edit", "command"];

fn turns() -> Outcome {
    for (wire, protocol) in [(Wire::Anthropic, Protocol::Native), (Wire::OpenAi, Protocol::Xml)] {
        let mut taken = Taken::default();
        for _ in 0..15 {
            one_task(wire, protocol, &mut taken)?;
        }
        let Taken { latencies, processor, shared, connections } = taken;
        let format = format!("{wire:?}, {protocol:?}");
        let all = latencies.iter().flatten().copied().collect();
        let what = format!("last byte to next request, {format}");
        row(Row { what: &what, unit: "ms", target: "3, p95 8" }, all)?;
        for (kind, latencies) in KINDS.iter().zip(latencies) {
            row(Row { what: &format!("  after a {kind}"), unit: "ms", target: "" }, latencies)?;
        }
        let what = format!("processor time of a turn, {format}");
        row(Row { what: &what, unit: "ms", target: "3" }, processor)?;
        let what = format!("connections of a task, {format}");
        row(Row { what: &what, unit: "", target: "1" }, connections)?;
        let what = format!("bytes shared by consecutive requests, {format}");
        row(Row { what: &what, unit: "%", target: "" }, shared)?;
    }
    Ok(())
}

#[derive(Default)]
struct Taken {
    latencies: [Vec<f64>; 3],
    processor: Vec<f64>,
    shared: Vec<f64>,
    connections: Vec<f64>,
}

/// Twenty turns of read, edit and command.
fn one_task(wire: Wire, protocol: Protocol, taken: &mut Taken) -> Outcome {
    let endpoint = Endpoint::start()?;
    let home = Home::new(&endpoint.url(), wire, protocol, approve_all())?;
    fs::write(home.work().join("lib.rs"), source(8 * KIB))?;
    let program = Running(home.program(&["run", "Work on lib.rs."]).spawn()?);
    let process = program.0.id();
    let mut request = endpoint.request()?;
    let before = processor_time(process)?;
    for turn in 0..TURNS {
        let (old, new) = (format!("value_{turn} "), format!("value_{turn}_new "));
        let call = match turn % 3 {
            0 => Call { name: "read_file", parameters: &[("path", "lib.rs")] },
            1 => Call {
                name: "search_and_replace",
                parameters: &[("path", "lib.rs"), ("search", &old), ("replace", &new)],
            },
            _ => Call { name: "execute_command", parameters: &[("command", "true")] },
        };
        let (next, latency) = exchange(&endpoint, &request, &response(wire, protocol, turn, &call, DELTA))?;
        taken.latencies[turn % 3].push(latency);
        taken.shared.push(shared(&request.body, &next.body));
        request = next;
    }
    let used = processor_time(process)? - before;
    taken.processor.push(milliseconds(used) / TURNS as f64);
    taken.connections.push(request.connection as f64 + 1.0);
    finish(program, &request, wire, protocol)
}

/// Answers a request and waits for the next one. Returns the time between.
fn exchange(endpoint: &Endpoint, request: &Request, response: &[u8]) -> Outcome<(Request, f64)> {
    let answered = request.answer(response)?;
    let next = endpoint.request()?;
    let latency = milliseconds(next.first_byte - answered);
    Ok((next, latency))
}

/// Ends a task: its calls must all have succeeded.
fn finish(mut program: Running, request: &Request, wire: Wire, protocol: Protocol) -> Outcome {
    request.answer(&response(wire, protocol, TURNS, &DONE, DELTA))?;
    let status = program.0.wait()?;
    if status.success() { Ok(()) } else { Err(format!("the task failed: {status}").into()) }
}

/// How much of the shorter text both begin with, in percent.
fn shared(one: &[u8], other: &[u8]) -> f64 {
    let shorter = one.len().min(other.len());
    let equal = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    equal as f64 / shorter as f64 * 100.0
}

/// Lines as code has them, all different.
fn source(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 80);
    for n in 0.. {
        if text.len() >= bytes {
            break;
        }
        text += &format!("    let value_{n} = list[{n}] < limit && \"a\\tb\" != name; // </content>\n");
    }
    text
}

fn large_writes() -> Outcome {
    for (wire, protocol) in [
        (Wire::Anthropic, Protocol::Native),
        (Wire::Anthropic, Protocol::Xml),
        (Wire::OpenAi, Protocol::Native),
        (Wire::OpenAi, Protocol::Xml),
    ] {
        for (size, target) in [(256 * KIB, ""), (1024 * KIB, "80"), (4096 * KIB, "linear")] {
            let endpoint = Endpoint::start()?;
            let home = Home::new(&endpoint.url(), wire, protocol, approve_all())?;
            let content = source(size);
            let program = Running(home.program(&["run", "Write."]).spawn()?);
            let mut request = endpoint.request()?;
            let (mut times, mut processor) = (Vec::new(), Vec::new());
            for n in 0..6 {
                let before = processor_time(program.0.id())?;
                let path = format!("file_{n}");
                let call =
                    Call { name: "write_to_file", parameters: &[("path", &path), ("content", &content)] };
                let (next, time) = exchange(&endpoint, &request, &response(wire, protocol, n, &call, 16))?;
                let written = fs::read_to_string(home.work().join(&path))?;
                if written.trim_end() != content.trim_end() {
                    return Err("the file is not what was written".into());
                }
                times.push(time);
                processor.push(milliseconds(processor_time(program.0.id())? - before));
                request = next;
            }
            let what = format!("write of {} KiB, {wire:?}, {protocol:?}", size / KIB);
            row(Row { what: &what, unit: "ms", target }, times)?;
            row(Row { what: "  processor time", unit: "ms", target: "" }, processor)?;
            finish(program, &request, wire, protocol)?;
        }
    }
    Ok(())
}

fn memory_of_tasks() -> Outcome {
    const WAITING: usize = 20;
    let (mut idle, mut first, mut waiting) = (vec![], vec![], vec![]);
    for _ in 0..5 {
        let endpoint = Endpoint::start()?;
        let home = Home::new(&endpoint.url(), Wire::Anthropic, Protocol::Native, json!({}))?;
        let mut client = Client::start(&home)?;
        client.notify("initialized", json!({}))?;
        // Its answer comes after all that `initialized` starts.
        client.request("roo/task/list", json!({}))?;
        let process = client.server.0.id();
        let before = memory::of_process(process)?;
        idle.push(before);
        wait_for_approval(&mut client, &endpoint)?;
        let one = memory::of_process(process)?;
        first.push(one - before);
        for _ in 0..WAITING {
            wait_for_approval(&mut client, &endpoint)?;
        }
        waiting.push((memory::of_process(process)? - one) / WAITING as f64);
    }
    row(Row { what: "memory of an idle server", unit: "MB PSS", target: "10" }, idle)?;
    row(Row { what: "memory of the first task, with the HTTP client", unit: "MB PSS", target: "" }, first)?;
    Ok(row(Row { what: "memory of a further waiting task", unit: "MB PSS", target: "0.2" }, waiting)?)
}

/// Starts a task that waits for permission to write.
fn wait_for_approval(client: &mut Client, endpoint: &Endpoint) -> Outcome {
    client.request("roo/task/start", json!({ "prompt": "Write a file." }))?;
    let content = source(2 * KIB);
    let call = Call { name: "write_to_file", parameters: &[("path", "new.rs"), ("content", &content)] };
    endpoint.request()?.answer(&response(Wire::Anthropic, Protocol::Native, 0, &call, DELTA))?;
    client.event("approval.requested").map(drop)
}

/// Lets a command tell what stands between the server and itself.
fn processes_of_a_command() -> Outcome {
    let endpoint = Endpoint::start()?;
    let home = Home::new(&endpoint.url(), Wire::OpenAi, Protocol::Native, json!({}))?;
    let program = Running(home.program(&["run", "--on-ask", "allow", "Run it."]).spawn()?);
    let line = "echo parent=$PPID self=$$ children=$(cat /proc/$PPID/task/*/children); tr '\\000' ' ' </proc/$$/cmdline";
    let call = Call { name: "execute_command", parameters: &[("command", line)] };
    let request = endpoint.request()?;
    let (next, _) =
        exchange(&endpoint, &request, &response(Wire::OpenAi, Protocol::Native, 0, &call, DELTA))?;
    let body: Value = serde_json::from_slice(&next.body)?;
    let messages = body["messages"].as_array().ok_or("a request without messages")?;
    let result = messages.iter().rfind(|message| message["role"] == "tool").ok_or("no result")?;
    writeln!(io::stdout(), "a command, started by process {}, sees: {}", program.0.id(), result["content"])?;
    finish(program, &next, Wire::OpenAi, Protocol::Native)
}
