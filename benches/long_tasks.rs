//! A task of two thousand turns whose requests stay below a limit of the endpoint, and its resumption after a kill.
//!
//! `cargo bench --bench long_tasks [-- words of the measurements]`. What each figure means is told in
//! `docs/src/performance.md`.

mod support;

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use serde_json::Value;

use support::Outcome;
use support::answer::{Protocol, Wire};
use support::long_conversation::LongConversation;
use support::memory;
use support::program::{Running, processor_time};
use support::table::{self, Row, milliseconds, row};

const TURNS: usize = 2_000;
/// Numbers of turns before the program is killed, each with the most milliseconds of its resumption: some 18 and 50 MB of log.
const TURNS_BEFORE_KILL: [(usize, &str); 2] = [(600, "150"), (1_700, "200")];
/// The turns before which figures are taken, each with the number of turns over which they are averaged.
const AT: [(usize, usize); 5] = [(20, 10), (100, 50), (500, 100), (1_000, 100), (2_000, 100)];
/// The window of a model that the settings know, in tokens.
const WINDOW: u64 = 200_000;
/// Bytes of a file: its result is kept in the log and not beside it.
const FILE: usize = 24 * 1024;

/// A name to choose it by, a wire format and a tool protocol.
const FORMATS: &[(&str, Wire, Protocol)] = &[
    ("anthropic-native", Wire::Anthropic, Protocol::Native),
    ("openai-native", Wire::OpenAi, Protocol::Native),
    ("openai-xml", Wire::OpenAi, Protocol::Xml),
];

fn main() -> Outcome {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --all-targets` starts benches too, without this flag.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return Ok(());
    }
    arguments.retain(|argument| !argument.starts_with('-'));
    table::head()?;
    let is_chosen = |name: &str| arguments.is_empty() || arguments.iter().any(|word| name.contains(&**word));
    for &(name, wire, protocol) in FORMATS {
        if is_chosen(&format!("turns-{name}")) {
            turns(name, LongConversation::new(wire, protocol, FILE)?)?;
        }
    }
    for &(name, wire, protocol) in FORMATS {
        let name = format!("{name} in a known window");
        if is_chosen(&format!("window-{name}")) {
            turns(&name, LongConversation::in_window(wire, protocol, FILE, WINDOW)?)?;
        }
    }
    for &(name, wire, protocol) in FORMATS {
        for (turns, target) in TURNS_BEFORE_KILL {
            if is_chosen(&format!("resume-{turns}-{name}")) {
                resume(name, wire, protocol, turns, target)?;
            }
        }
    }
    Ok(())
}

fn turns(name: &str, mut conversation: LongConversation) -> Outcome {
    let program = Running(conversation.home.program(&["run", "Read all of it."]).spawn()?);
    let process = program.0.id();
    let mut request = conversation.request()?;
    let (mut gaps, mut before) = (Vec::new(), processor_time(process)?);
    for turn in 0..TURNS {
        let answered = conversation.answer(&request, turn)?;
        request = conversation.request()?;
        gaps.push(milliseconds(request.first_byte - answered));
        let done = turn + 1;
        if let Some((_, averaged)) = AT.iter().find(|(turn, _)| *turn == done) {
            let used = milliseconds(processor_time(process)? - before) / *averaged as f64;
            let what = format!("processor time of a turn, at turn {done}, {name}");
            row(Row { what: &what, unit: "ms", target: "6" }, vec![used])?;
            row(
                Row { what: "  last byte to next request", unit: "ms", target: "" },
                std::mem::take(&mut gaps),
            )?;
            let what = "  memory, now and at most";
            row(
                Row { what, unit: "MB", target: "" },
                vec![memory::of_process(process)?, peak_memory(process)?],
            )?;
        }
        if AT.iter().any(|(turn, averaged)| done + averaged == *turn) {
            gaps.clear();
            before = processor_time(process)?;
        }
    }
    let (refused, longest) = (conversation.refused as f64, conversation.longest as f64 / 1e3);
    row(Row { what: "  requests refused as too long", unit: "", target: "" }, vec![refused])?;
    let summaries = conversation.summaries as f64;
    row(Row { what: "  summaries", unit: "", target: "" }, vec![summaries])?;
    row(Row { what: "  longest body", unit: "kB", target: "" }, vec![longest])?;
    conversation.finish(program, &request)
}

fn resume(name: &str, wire: Wire, protocol: Protocol, turns: usize, target: &str) -> Outcome {
    let mut conversation = LongConversation::new(wire, protocol, FILE)?;
    let program = Running(conversation.home.program(&["run", "Read all of it."]).spawn()?);
    let mut request = conversation.request()?;
    for turn in 0..turns {
        conversation.answer(&request, turn)?;
        request = conversation.request()?;
    }
    drop(program);
    let list =
        conversation.home.program(&["tasks", "list", "--json"]).stdout(Stdio::piped()).output()?.stdout;
    let item: Value = serde_json::from_slice(&list)?;
    let task = item["taskId"].as_str().ok_or("no task is listed")?.to_owned();
    let (mut times, mut processor, mut now, mut peak) = (vec![], vec![], vec![], vec![]);
    for _ in 0..5 {
        let started = Instant::now();
        let program = Running(conversation.home.program(&["tasks", "resume", &task]).spawn()?);
        let request = conversation.request()?;
        times.push(milliseconds(request.first_byte - started));
        processor.push(milliseconds(processor_time(program.0.id())?));
        now.push(memory::of_process(program.0.id())?);
        peak.push(peak_memory(program.0.id())?);
    }
    let what = format!("resume at turn {turns}, start to request, {name}");
    row(Row { what: &what, unit: "ms", target }, times)?;
    row(Row { what: "  processor time", unit: "ms", target }, processor)?;
    row(Row { what: "  memory", unit: "MB PSS", target: "" }, now)?;
    row(Row { what: "  memory at most", unit: "MB RSS", target: "" }, peak)?;
    let log = size_of_logs(&conversation.home.work().with_file_name("state"))? as f64 / 1e6;
    Ok(row(Row { what: "  log", unit: "MB", target: "" }, vec![log])?)
}

/// The most that a process had resident, in MB.
fn peak_memory(process: u32) -> Outcome<f64> {
    let figures = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = figures.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("status has no VmHWM")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024.0 / 1e6)
}

/// The bytes of all logs below a directory.
fn size_of_logs(directory: &Path) -> Outcome<u64> {
    let mut size = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            size += size_of_logs(&entry.path())?;
        } else if entry.file_name() == "log.jsonl" {
            size += entry.metadata()?.len();
        }
    }
    Ok(size)
}
