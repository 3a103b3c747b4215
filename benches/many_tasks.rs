//! Many requests in one server: what each costs while it waits for its user, and what a list of finished ones costs.
//!
//! `cargo bench --bench many_tasks [-- waiting|history] [count]`. What each figure means is told in
//! `docs/src/performance.md`.

mod support;

use std::fs;
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use serde_json::json;

use support::Outcome;
use support::answer::{Call, Protocol, Wire, response};
use support::endpoint::Endpoint;
use support::memory;
use support::program::{Client, Home, processor_time};

/// Bytes of a delta.
const DELTA: usize = 24;
/// Number of lists whose processor time is measured: the system counts it in hundredths of a second.
const LISTS: u32 = 20;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --all-targets` starts benches too, without this flag.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let wants = |name: &str| {
        !["waiting", "history"].iter().any(|known| arguments.iter().any(|it| it == known))
            || arguments.iter().any(|argument| argument == name)
    };
    let count = arguments.iter().find_map(|argument| argument.parse().ok());
    if wants("waiting") {
        waiting(count.unwrap_or(1000))?;
    }
    if wants("history") {
        history(count.unwrap_or(5000))?;
    }
    Ok(())
}

/// Starts requests that wait for permission to write a file of 2 KiB, one after another.
fn waiting(count: usize) -> Outcome {
    let endpoint = Endpoint::start()?;
    let home = Home::new(&endpoint.url(), Wire::Anthropic, Protocol::Native, json!({}))?;
    let mut client = Client::start(&home)?;
    client.notify("initialized", json!({}))?;
    client.request("roo/task/list", json!({}))?;
    let process = client.server.0.id();
    let content = "a line of text that is 32 bytes\n".repeat(64);
    let call = Call { name: "write_to_file", parameters: &[("path", "new.txt"), ("content", &content)] };
    let answer = response(Wire::Anthropic, Protocol::Native, 0, &call, DELTA);
    let mut out = io::stdout();
    writeln!(
        out,
        "{:>8} {:>12} {:>8} {:>10} {:>10} {:>14}",
        "waiting", "descriptors", "threads", "PSS MB", "seconds", "CPU ms each"
    )?;
    let started = Instant::now();
    for waits in 0..=count {
        if [0, 1, count / 10, count].contains(&waits) {
            let (descriptors, threads) = (entries(process, "fd")?, entries(process, "task")?);
            let (memory, seconds) = (memory::of_process(process)?, started.elapsed().as_secs_f64());
            let each = processor_time(process)?.as_secs_f64() * 1e3 / waits.max(1) as f64;
            writeln!(
                out,
                "{waits:>8} {descriptors:>12} {threads:>8} {memory:>10.1} {seconds:>10.1} {each:>14.2}"
            )?;
        }
        if waits < count {
            client.request("roo/task/start", json!({ "prompt": "Write a file." }))?;
            endpoint.request()?.answer(&answer)?;
            client.event("approval.requested")?;
        }
    }
    // Threads that have nothing to do end after ten seconds.
    std::thread::sleep(Duration::from_secs(12));
    let (descriptors, threads) = (entries(process, "fd")?, entries(process, "task")?);
    writeln!(
        out,
        "{count:>8} {descriptors:>12} {threads:>8} {:>10.1}   12 s later",
        memory::of_process(process)?
    )?;
    Ok(())
}

/// Finishes requests one after another, then lists them.
fn history(count: usize) -> Outcome {
    let endpoint = Endpoint::start()?;
    let home = Home::new(&endpoint.url(), Wire::Anthropic, Protocol::Native, json!({}))?;
    let done = Call { name: "attempt_completion", parameters: &[("result", "Done.")] };
    let answer = response(Wire::Anthropic, Protocol::Native, 0, &done, DELTA);
    let mut client = Client::start(&home)?;
    client.notify("initialized", json!({}))?;
    for _ in 0..count {
        client.request("roo/task/start", json!({ "prompt": "Say that you are done." }))?;
        endpoint.request()?.answer(&answer)?;
        while client.event("task.state")?["state"] != "completed" {}
    }
    let mut out = io::stdout();
    let process = client.server.0.id();
    let before = processor_time(process)?;
    for _ in 0..LISTS {
        client.request("roo/task/list", json!({}))?;
    }
    let page = (processor_time(process)? - before).as_secs_f64() * 1e3 / f64::from(LISTS);
    writeln!(out, "a page of `roo/task/list` of {count} finished requests, CPU: {page:.2} ms")?;
    drop(client);
    let list = |more: &[&str]| -> Outcome {
        match home.program(&[&["tasks", "list"], more].concat()).status()?.success() {
            true => Ok(()),
            false => Err("the list failed".into()),
        }
    };
    let first = time_of_children(&|| list(&["--all"]), 1)?;
    let all = time_of_children(&|| list(&["--all"]), LISTS)?;
    let newest = time_of_children(&|| list(&[]), LISTS)?;
    let nothing =
        time_of_children(&|| home.program(&["--version"]).status().map(|_| ()).map_err(Into::into), LISTS)?;
    writeln!(
        out,
        "`roo-lsp tasks list --all` of {count} finished requests, CPU: the first {first:.0} ms, each further {all:.1} ms"
    )?;
    writeln!(
        out,
        "`roo-lsp tasks list` of the newest 100 of {count} finished requests, CPU: {newest:.1} ms"
    )?;
    writeln!(out, "`roo-lsp --version`, CPU: {nothing:.1} ms")?;
    Ok(())
}

/// The processor time of the children that this starts, in milliseconds each.
fn time_of_children(start: &dyn Fn() -> Outcome, count: u32) -> Outcome<f64> {
    let before = of_children()?;
    for _ in 0..count {
        start()?;
    }
    Ok((of_children()? - before) / f64::from(count))
}

/// The processor time of all children that were waited for, in milliseconds.
fn of_children() -> Outcome<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The name, which may hold anything, is in parentheses.
    let fields: Vec<&str> = stat.rsplit_once(')').ok_or("no name")?.1.split_whitespace().collect();
    let ticks = |field: usize| -> Outcome<f64> { Ok(fields.get(field).ok_or("too short")?.parse()?) };
    // `cutime` and `cstime`, in hundredths of a second.
    Ok((ticks(13)? + ticks(14)?) * 10.0)
}

/// How many entries a directory of the process in `/proc` has.
fn entries(process: u32, directory: &str) -> Outcome<usize> {
    Ok(fs::read_dir(format!("/proc/{process}/{directory}"))?.count())
}
