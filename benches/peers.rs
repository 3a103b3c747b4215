//! The program beside Codex in one run: the same endpoint, the same wire format (OpenAI Responses), the same
//! work by turns. Every command is allowed without a question in both; ours has its sandbox, Codex has none.
//!
//! `cargo bench --bench peers`. Codex is taken from `PATH`, or from `ROO_BENCH_CODEX` (the native program of
//! its package starts sooner than the script that npm installs). Without it there are our rows alone.

mod support;

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::json;
use tempfile::TempDir;

use support::Outcome;
use support::endpoint::{Endpoint, Request};
use support::memory;
use support::program::{Home, Running, processor_time_of_all};
use support::responses::{Item, response};
use support::table::{self, Row, milliseconds, row};

/// Rounds of each measurement, in which the programs take turns; the first one is not counted.
const ROUNDS: usize = 6;
/// Turns of a task: reads, edits and commands in turn.
const TURNS: usize = 21;
const KINDS: [&str; 3] = ["read", "edit", "command"];
/// Bytes of a delta of the large write.
const DELTA: usize = 16;
const LARGE: usize = 1024 * 1024;

/// One of the programs in a workspace of its own.
enum Program {
    Ours(Home),
    Codex { program: PathBuf, place: TempDir },
}

impl Program {
    fn ours(endpoint: &Endpoint) -> Outcome<Self> {
        let commands = json!({ "write": true, "execute": { "allow": [["true"]] } });
        Ok(Self::Ours(Home::with_responses(&endpoint.url(), commands)?))
    }

    fn codex(program: &Path, endpoint: &Endpoint) -> Outcome<Self> {
        // Codex refuses to use a home below the system's temporary directory.
        let place = TempDir::new_in(env!("CARGO_TARGET_TMPDIR"))?;
        fs::create_dir_all(place.path().join("work"))?;
        // A model for which it offers its own tool for patches.
        let settings = format!(
            "model = \"gpt-5.5\"\nmodel_provider = \"bench\"\n[model_providers.bench]\nname = \"bench\"\n\
             base_url = \"{}/v1\"\nwire_api = \"responses\"\n[analytics]\nenabled = false\n",
            endpoint.url()
        );
        fs::write(place.path().join("config.toml"), settings)?;
        Ok(Self::Codex { program: program.to_owned(), place })
    }

    fn work(&self) -> PathBuf {
        match self {
            Self::Ours(home) => home.work(),
            Self::Codex { place, .. } => place.path().join("work"),
        }
    }

    fn start(&self) -> Outcome<Running> {
        let mut command = match self {
            Self::Ours(home) => home.program(&["run", "Work."]),
            Self::Codex { program, place } => {
                let mut command = Command::new(program);
                command
                    .args(["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"])
                    .arg("Work.")
                    .env_clear()
                    .env("PATH", std::env::var_os("PATH").unwrap_or_default())
                    .env("HOME", place.path())
                    .env("CODEX_HOME", place.path())
                    .current_dir(self.work())
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null());
                command
            }
        };
        Ok(Running(command.spawn()?))
    }

    fn read(&self) -> Item {
        match self {
            Self::Ours(_) => Item::function("read_file", &json!({ "path": "lib.rs" })),
            Self::Codex { .. } => Item::function("exec_command", &json!({ "cmd": "cat lib.rs" })),
        }
    }

    fn edit(&self, turn: usize) -> Item {
        let (old, new) = (line(turn), line(turn).replace("value", "renamed"));
        match self {
            Self::Ours(_) => {
                let parameters = json!({ "path": "lib.rs", "search": old, "replace": new });
                Item::function("search_and_replace", &parameters)
            }
            Self::Codex { .. } => Item::custom(
                "apply_patch",
                format!("*** Begin Patch\n*** Update File: lib.rs\n@@\n-{old}\n+{new}\n*** End Patch"),
            ),
        }
    }

    fn command(&self) -> Item {
        match self {
            Self::Ours(_) => Item::function("execute_command", &json!({ "command": "true" })),
            Self::Codex { .. } => Item::function("exec_command", &json!({ "cmd": "true" })),
        }
    }

    fn write(&self, path: &str, content: &str) -> Item {
        match self {
            Self::Ours(_) => Item::function("write_to_file", &json!({ "path": path, "content": content })),
            Self::Codex { .. } => {
                let mut patch = format!("*** Begin Patch\n*** Add File: {path}\n");
                for line in content.lines() {
                    patch.extend(["+", line, "\n"]);
                }
                Item::custom("apply_patch", patch + "*** End Patch")
            }
        }
    }

    fn finish(&self, mut running: Running, request: &Request) -> Outcome {
        let item = match self {
            Self::Ours(_) => Item::function("attempt_completion", &json!({ "result": "Done." })),
            Self::Codex { .. } => Item::Message("Done."),
        };
        request.answer(&response(TURNS, &item, 4096))?;
        let status = running.0.wait()?;
        if status.success() { Ok(()) } else { Err(format!("the task failed: {status}").into()) }
    }
}

/// What one program took.
#[derive(Default)]
struct Samples {
    start: Vec<f64>,
    turns: [Vec<f64>; 3],
    processor: Vec<f64>,
    memory: Vec<f64>,
    write: Vec<f64>,
    write_processor: Vec<f64>,
}

fn main() -> Outcome {
    // `cargo test --all-targets` starts benches too, without this flag.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let codex = PathBuf::from(std::env::var_os("ROO_BENCH_CODEX").unwrap_or_else(|| "codex".into()));
    let version = Command::new(&codex).arg("--version").stdin(Stdio::null()).output();
    let version = version.ok().filter(|output| output.status.success());
    match &version {
        Some(output) => write!(io::stdout(), "beside {}", String::from_utf8_lossy(&output.stdout))?,
        None => writeln!(io::stdout(), "codex is not on PATH: our rows alone")?,
    }
    let mut samples = [Samples::default(), Samples::default()];
    for round in 0..=ROUNDS {
        for (which, samples) in samples.iter_mut().enumerate().take(if version.is_some() { 2 } else { 1 }) {
            let mut taken = Samples::default();
            let endpoint = Endpoint::start()?;
            let program =
                if which == 0 { Program::ours(&endpoint)? } else { Program::codex(&codex, &endpoint)? };
            twenty_one_turns(&program, &endpoint, &mut taken)?;
            large_write(&program, &endpoint, &mut taken)?;
            if round > 0 {
                samples.add(taken);
            }
        }
    }
    table::head()?;
    for (name, samples) in ["roo-lsp", "codex"].into_iter().zip(samples) {
        samples.print(name)?;
    }
    Ok(())
}

impl Samples {
    fn add(&mut self, other: Self) {
        self.start.extend(other.start);
        self.turns.iter_mut().zip(other.turns).for_each(|(all, new)| all.extend(new));
        self.processor.extend(other.processor);
        self.memory.extend(other.memory);
        self.write.extend(other.write);
        self.write_processor.extend(other.write_processor);
    }

    fn print(self, name: &str) -> io::Result<()> {
        let print = |what: &str, unit, samples| {
            row(Row { what: &format!("{name}: {what}"), unit, target: "" }, samples)
        };
        print("process start to first model request", "ms", self.start)?;
        print("last byte to next request", "ms", self.turns.concat())?;
        for (kind, samples) in KINDS.iter().zip(self.turns) {
            print(&format!("  after a {kind}"), "ms", samples)?;
        }
        print("processor time of a turn, with all that it starts", "ms", self.processor)?;
        print("most memory of the process at a time", "MB", self.memory)?;
        print("write of 1 MiB of Rust, first byte to next request", "ms", self.write)?;
        print("  processor time", "ms", self.write_processor)
    }
}

fn twenty_one_turns(program: &Program, endpoint: &Endpoint, samples: &mut Samples) -> Outcome {
    fs::write(program.work().join("lib.rs"), source(8 * 1024))?;
    let started = Instant::now();
    let running = program.start()?;
    let mut request = endpoint.request()?;
    samples.start.push(milliseconds(request.first_byte - started));
    let process = running.0.id();
    let before = processor_time_of_all(process)?;
    for turn in 0..TURNS {
        let item = match turn % 3 {
            0 => program.read(),
            1 => program.edit(turn),
            _ => program.command(),
        };
        let answered = request.answer(&response(turn, &item, 4096))?;
        request = endpoint.request()?;
        if let Some(samples) = samples.turns.get_mut(turn % 3) {
            samples.push(milliseconds(request.first_byte - answered));
        }
    }
    let used = processor_time_of_all(process)? - before;
    samples.processor.push(milliseconds(used) / TURNS as f64);
    samples.memory.push(memory::most_of_process(process)?);
    let text = fs::read_to_string(program.work().join("lib.rs"))?;
    assert_eq!(text.matches("renamed").count(), TURNS / 3, "every edit is in the file");
    program.finish(running, &request)
}

fn large_write(program: &Program, endpoint: &Endpoint, samples: &mut Samples) -> Outcome {
    let content = source(LARGE);
    let running = program.start()?;
    let request = endpoint.request()?;
    let before = processor_time_of_all(running.0.id())?;
    let answered = request.answer(&response(0, &program.write("large.rs", &content), DELTA))?;
    let next = endpoint.request()?;
    samples.write.push(milliseconds(next.first_byte - answered));
    samples.write_processor.push(milliseconds(processor_time_of_all(running.0.id())? - before));
    assert_eq!(fs::read_to_string(program.work().join("large.rs"))?.trim_end(), content.trim_end());
    fs::remove_file(program.work().join("large.rs"))?;
    program.finish(running, &next)
}

fn line(number: usize) -> String {
    format!("    let value_{number} = list[{number}] < limit && \"a\\tb\" != name; // kept")
}

/// A function of lines that are all different.
fn source(bytes: usize) -> String {
    let mut text = String::from("fn all(list: &[u32], limit: u32, name: &str) {\n");
    for number in 0.. {
        if text.len() >= bytes {
            break;
        }
        text += &line(number);
        text.push('\n');
    }
    text + "}\n"
}
