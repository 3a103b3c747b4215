//! `search_files` in large workspaces, the whole program with its gate, and ripgrep beside it where it is installed; and tools that
//! read code beside `rg`, `rg --files` and `ctags` on a tree of 10,000 files and 100 MB.
//!
//! `cargo bench --bench search [-- 10000] [-- peers]`. What each figure means is told in `docs/src/performance.md`.

#[path = "support/code_tree.rs"]
mod code_tree;
#[path = "support/table.rs"]
mod table;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use roo_engine::mentions::{SymbolLimits, WantedSymbols, find_symbols};
use roo_text::position::Encoding;
use roo_workspace::{Setup, Workspace};
use table::{Row, milliseconds, row};
use tempfile::TempDir;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

const SIZES: &[usize] = &[1_000, 10_000, 100_000];
const ROUNDS: usize = 7;
/// Stands in one of 500 files.
const NEEDLE: &str = "needle_in_a_haystack";
const WORDS: &[&str] = &[
    "fn", "let", "pub", "struct", "impl", "self", "return", "match", "if", "else", "for", "use", "mod",
    "async", "await", "Result", "Option", "String", "config", "value", "parse", "error", "token", "stream",
    "buffer", "request",
];

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --all-targets` starts benches too, without this flag.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let chosen: Vec<usize> = arguments.iter().filter_map(|argument| argument.parse().ok()).collect();
    let peers = arguments.iter().any(|argument| argument == "peers");
    let all = chosen.is_empty() && !peers;
    table::head()?;
    if all || peers {
        beside_peers()?;
    }
    for &size in SIZES.iter().filter(|size| all || chosen.contains(size)) {
        let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR"))?;
        fill(&directory.path().join("work"), size)?;
        measure(directory.path(), size)?;
    }
    Ok(())
}

/// Writes files of 5 to 60 lines, 50 in a directory, the same each time.
fn fill(root: &Path, files: usize) -> Outcome {
    let mut seed = 7_u64;
    let mut below = |limit: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % limit
    };
    for number in 0..files {
        let (group, directory) = (number / 50 % 40, number / 50);
        let directory = root.join(format!("pkg{group:02}/src/m{directory:05}"));
        if number % 50 == 0 {
            fs::create_dir_all(&directory)?;
        }
        let mut text = String::new();
        for _ in 0..5 + below(56) {
            let words: Vec<&str> = (0..8).map(|_| WORDS[below(WORDS.len())]).collect();
            text.push_str(&words.join(" "));
            text.push('\n');
        }
        if number % 500 == 250 {
            text.push_str(NEEDLE);
            text.push('\n');
        }
        fs::write(directory.join(format!("f{:02}.rs", number % 50)), text)?;
    }
    fs::write(root.join(".gitignore"), "target/\n*.log\n")?;
    Ok(())
}

/// Times both in turns, after a first run of each that fills the page cache.
fn measure(place: &Path, files: usize) -> Outcome {
    let work = place.join("work");
    let ours = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_roo-lsp"));
        let parameters = format!(r#"{{"path":".","regex":"{NEEDLE}"}}"#);
        command.args(["tool", "search_files", "--params", &parameters]);
        command.env("XDG_CONFIG_HOME", place.join("config")).env("XDG_STATE_HOME", place.join("state"));
        command
    };
    let peer = || {
        let mut command = Command::new("rg");
        // In a stable order, with a line around each match, as the tool does it.
        command.args(["--no-config", "--sort", "path", "-n", "-C1", NEEDLE, "."]);
        command
    };
    let unordered = || {
        let mut command = Command::new("rg");
        command.args(["--no-config", "-n", "-C1", NEEDLE, "."]);
        command
    };
    let time = |mut command: Command| -> Outcome<f64> {
        command.current_dir(&work).stdin(Stdio::null()).stderr(Stdio::null());
        let begun = Instant::now();
        let output = command.output()?;
        let time = milliseconds(begun.elapsed());
        let found = String::from_utf8_lossy(&output.stdout).matches(NEEDLE).count();
        assert_eq!(found, files / 500, "every file that has it is found");
        Ok(time)
    };
    let has_peer = Command::new("rg").arg("--version").stdout(Stdio::null()).status().is_ok();
    let mut samples = [const { Vec::new() }; 3];
    for round in 0..=ROUNDS {
        let times = [
            time(ours())?,
            if has_peer { time(unordered())? } else { 0.0 },
            if has_peer { time(peer())? } else { 0.0 },
        ];
        if round > 0 {
            samples.iter_mut().zip(times).for_each(|(samples, time)| samples.push(time));
        }
    }
    let names = ["search_files, whole program", "rg", "rg --sort path"];
    for (name, samples) in names.into_iter().zip(samples).take(if has_peer { 3 } else { 1 }) {
        let what = format!("{files} files: {name}");
        row(Row { what: &what, unit: "ms", target: "1.2 × rg" }, samples)?;
    }
    Ok(())
}

/// Rounds of the tools that read code, by turns with their peers.
const PEER_ROUNDS: usize = 5;

/// Times what reads code in the tree of 10,000 files beside what others have for it.
fn beside_peers() -> Outcome {
    let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR"))?;
    let work = directory.path().join("work");
    let bytes = code_tree::fill(&work)?;
    let place = directory.path();
    let tool = |name: &str, parameters: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_roo-lsp"));
        command.args(["tool", name, "--params", parameters]);
        command.env("XDG_CONFIG_HOME", place.join("config")).env("XDG_STATE_HOME", place.join("state"));
        command
    };
    let other = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments);
        command
    };
    let run = |mut command: Command| -> Outcome<(f64, String)> {
        command.current_dir(&work).stdin(Stdio::null()).stderr(Stdio::null());
        let begun = Instant::now();
        let output = command.output()?;
        let time = milliseconds(begun.elapsed());
        Ok((time, String::from_utf8_lossy(&output.stdout).into_owned()))
    };
    let report = |what: &str, ours: Vec<f64>, peer: &str, theirs: Vec<f64>| -> Outcome {
        let ratios = ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect();
        let size = format!("{} files, {} MB", code_tree::FILES, bytes / 1_000_000);
        row(Row { what: &format!("{size}: {what}"), unit: "ms", target: "" }, ours)?;
        row(Row { what: &format!("{size}: {peer}"), unit: "ms", target: "" }, theirs)?;
        row(Row { what: "  the first by the second", unit: "", target: "1.2" }, ratios)?;
        Ok(())
    };
    let is_there = |program: &str| {
        Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    };
    if is_there("rg") {
        // The functions of one file, which are found by reading all of them.
        let pattern = "[a-z]4242\\(";
        let parameters = r#"{"path":".","regex":"[a-z]4242\\("}"#;
        let (mut ours, mut theirs) = (vec![], vec![]);
        for round in 0..=PEER_ROUNDS {
            let (our_time, found) = run(tool("search_files", parameters))?;
            let (their_time, expected) = run(other("rg", &["--no-config", "-n", "-C1", pattern, "."]))?;
            let count = |text: &str| text.matches("4242(").count();
            assert!(count(&found) > 0 && count(&found) == count(&expected), "both find the same");
            if round > 0 {
                ours.push(our_time);
                theirs.push(their_time);
            }
        }
        report("search_files, whole program", ours, "rg", theirs)?;

        let (mut ours, mut theirs) = (vec![], vec![]);
        for round in 0..=PEER_ROUNDS {
            let (our_time, found) = run(tool("list_files", r#"{"path":".","recursive":true}"#))?;
            let (their_time, expected) = run(other("rg", &["--no-config", "--files", "."]))?;
            assert!(found.lines().count() >= 200, "a whole page");
            assert_eq!(expected.lines().count(), code_tree::FILES);
            if round > 0 {
                ours.push(our_time);
                theirs.push(their_time);
            }
        }
        report("list_files, a page, whole program", ours, "rg --files", theirs)?;
    }
    if is_there("ctags") {
        let (mut ours, mut theirs) = (vec![], vec![]);
        for round in 0..=PEER_ROUNDS {
            let folder = "pkg00/m000";
            let parameters = format!(r#"{{"path":"{folder}"}}"#);
            let (our_time, found) = run(tool("list_code_definition_names", &parameters))?;
            let (their_time, expected) = run(other("ctags", &["-R", "-f", "-", folder]))?;
            assert!(found.contains("pub fn ") && expected.contains("pub fn "), "both find definitions");
            if round > 0 {
                ours.push(our_time);
                theirs.push(their_time);
            }
        }
        report("definitions of a folder of 50", ours, "ctags -R of it", theirs)?;

        let workspace = Workspace::open(Setup {
            folders: vec![work.clone()],
            state_directory: place.join("library"),
            documents: Arc::default(),
            editor: None,
            encoding: Encoding::Utf8,
        })?;
        let limits = SymbolLimits { time: Duration::from_secs(600), most: usize::MAX };
        let (begun, every) = (Instant::now(), WantedSymbols::Beginning(String::new()));
        let found = find_symbols(&workspace, None, &every, limits);
        let ours = milliseconds(begun.elapsed());
        assert!(found.is_complete);
        let (theirs, expected) = run(other("ctags", &["-R", "-f", "-", "."]))?;
        let tags = expected.lines().filter(|line| !line.starts_with('!')).count();
        assert!(found.symbols.len() >= code_tree::FILES && tags >= code_tree::FILES, "both find all");
        report("all definitions, by the library", vec![ours], "ctags -R", vec![theirs])?;
    }
    Ok(())
}
