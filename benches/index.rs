//! The code index: its speed on a generated tree, and how well it finds what developers ask for in three public
//! repositories, beside ripgrep for the words of the questions.
//!
//! `cargo bench --bench index` measures the speed; `cargo bench --bench index -- quality` fetches the repositories by pip,
//! cargo and npm into `target/` and asks the questions of `benches/index/questions.toml`. With `ROO_EMBEDDINGS`, the base URL
//! of an OpenAI-compatible endpoint such as `benches/index/embeddings.py`, vectors are measured too.
//! What each figure means is told in `docs/src/performance.md`.

#[path = "support/memory.rs"]
#[allow(dead_code)]
mod memory;
#[path = "index/quality.rs"]
mod quality;
#[path = "support/table.rs"]
mod table;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use roo_index::{CodeIndex, EmbedderSource, Mask, Question};
use roo_text::position::Encoding;
use roo_workspace::{Setup, Workspace};
use table::{Row, milliseconds, row};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Files of the tree, and lines of each: 100 MB together.
const FILES: usize = 10_000;
const LINES: usize = 250;

/// Searches and updates that are timed.
const ROUNDS: usize = 30;

/// Words of which the names in the tree are made.
const WORDS: &[&str] = &[
    "account", "batch", "buffer", "cache", "channel", "client", "config", "cursor", "delay", "digest",
    "encoder", "event", "filter", "frame", "grant", "header", "index", "invoice", "journal", "kernel",
    "label", "ledger", "lock", "marker", "metric", "node", "offset", "order", "packet", "parser", "policy",
    "queue", "record", "render", "retry", "route", "schema", "session", "signal", "socket", "stream",
    "table", "ticket", "token", "trace", "user", "vector", "widget", "window", "writer",
];

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --all-targets` starts benches too, without this flag.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    match arguments.iter().any(|argument| argument == "quality") {
        true => runtime.block_on(quality::measure()),
        false => runtime.block_on(speed()),
    }
}

/// A workspace, and its index in a directory.
struct Indexed {
    root: PathBuf,
    index: CodeIndex,
}

impl Indexed {
    fn new(root: &Path, state: &Path, embedders: EmbedderSource) -> Outcome<Self> {
        let workspace = Workspace::open(Setup {
            folders: vec![root.to_owned()],
            state_directory: state.to_owned(),
            documents: Arc::default(),
            editor: None,
            encoding: Encoding::Utf8,
        })?;
        let index = CodeIndex::new(Arc::new(workspace), state.join("index"), embedders);
        Ok(Self { root: root.canonicalize()?, index })
    }

    async fn build(&self) -> Outcome<Option<String>> {
        Ok(self.index.build(no_mask(), &CancellationToken::new(), &|_, _| ()).await?)
    }

    /// The files of the results, the best first.
    async fn ask(&self, text: &str, limit: usize) -> Outcome<Vec<String>> {
        let question = Question { text: text.to_owned(), place: None, limit };
        let found = self.index.search(question, no_mask(), &CancellationToken::new(), &|_, _| ()).await?;
        if let Some(note) = found.notes.first() {
            return Err(format!("the search is not complete: {note}").into());
        }
        let path = |file: &Path| file.strip_prefix(&self.root).unwrap_or(file).to_string_lossy().into_owned();
        Ok(found.chunks.iter().map(|chunk| path(chunk.file.absolute())).collect())
    }
}

fn no_mask() -> Mask {
    Arc::new(|_| None)
}

/// Measures building, updating and searching.
async fn speed() -> Outcome {
    let place = TempDir::new_in(env!("CARGO_TARGET_TMPDIR"))?;
    let (work, state) = (place.path().join("work"), place.path().join("state"));
    let bytes = fill(&work)?;
    table::head()?;
    let indexed = Indexed::new(&work, &state, Arc::new(|| None))?;
    let report = |what: &str, unit: &str, target: &str, samples: Vec<f64>| {
        let what = format!("{FILES} files, {} MB: {what}", bytes / 1_000_000);
        row(Row { what: &what, unit, target }, samples)
    };
    let before = memory::most_of_process(std::process::id())?;
    let begun = Instant::now();
    indexed.build().await?;
    report("build", "s", "", vec![begun.elapsed().as_secs_f64()])?;
    let status = indexed.index.status()?.ok_or("there is no index")?;
    assert_eq!(status.files, FILES as u64);
    report("size on disk", "MB", "", vec![status.bytes as f64 / 1e6])?;
    report("chunks", "", "", vec![status.chunks as f64])?;
    let after = memory::most_of_process(std::process::id())?;
    report("memory added at most", "MB", "", vec![after - before])?;

    let (mut unchanged, mut updates, mut whole) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let begun = Instant::now();
        indexed.build().await?;
        unchanged.push(milliseconds(begun.elapsed()));
        let file = work.join(format!("pkg{:02}/m{:03}/f{:02}.rs", round % 20, round, round % 50));
        let text = fs::read_to_string(&file)? + &format!("fn edit_marker{round}() {{}}\n");
        fs::write(&file, text)?;
        let begun = Instant::now();
        indexed.build().await?;
        updates.push(milliseconds(begun.elapsed()));
        let question =
            format!("where is {} {} {} handled", WORDS[round], WORDS[round + 7], WORDS[round + 13]);
        let begun = Instant::now();
        indexed.ask(&question, 15).await?;
        whole.push(milliseconds(begun.elapsed()));
        assert_eq!(indexed.ask(&format!("edit marker{round}"), 1).await?.len(), 1);
    }
    let looks: Vec<f64> =
        updates.iter().zip(&unchanged).map(|(update, unchanged)| update - unchanged).collect();
    let queries: Vec<f64> =
        whole.iter().zip(&unchanged).map(|(whole, unchanged)| whole - unchanged).collect();
    report("compare all files, nothing changed", "ms", "", unchanged)?;
    report("update after an edit, beyond that", "ms", "50", looks)?;
    report("update after an edit, all in all", "ms", "", updates)?;
    report("query, beyond the comparison", "ms", "30", queries)?;
    report("search, all in all", "ms", "", whole)?;
    Ok(())
}

/// Writes files of functions with names of the list, the same each time. Returns their size.
fn fill(root: &Path) -> Outcome<usize> {
    let mut seed = 7_u64;
    let mut word = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        WORDS[(seed >> 33) as usize % WORDS.len()]
    };
    let mut bytes = 0;
    for number in 0..FILES {
        let directory = root.join(format!("pkg{:02}/m{:03}", number / 50 % 20, number / 50));
        if number % 50 == 0 {
            fs::create_dir_all(&directory)?;
        }
        let mut text = String::new();
        while text.lines().count() < LINES {
            let (one, two, three) = (word(), word(), word());
            writeln!(text, "/// Returns the {one} of a {two}, unless the {three} is closed.")?;
            writeln!(text, "pub fn {one}_{two}{number}({three}: &{}) -> Option<u64> {{", word())?;
            for _ in 0..8 {
                writeln!(
                    text,
                    "    let {} = {}.{}({}::{}_{});",
                    word(),
                    word(),
                    word(),
                    word(),
                    word(),
                    word()
                )?;
            }
            text.push_str("    Some(1)\n}\n\n");
        }
        bytes += text.len();
        fs::write(directory.join(format!("f{:02}.rs", number % 50)), text)?;
    }
    Ok(bytes)
}
