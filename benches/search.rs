//! `search_files` in large workspaces, the whole program with its gate, and ripgrep beside it where it is installed.
//!
//! `cargo bench --bench search [-- 10000]`. What each figure means is told in `docs/src/performance.md`.

#[path = "support/table.rs"]
mod table;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

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
    table::head()?;
    for &size in SIZES.iter().filter(|size| chosen.is_empty() || chosen.contains(size)) {
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
