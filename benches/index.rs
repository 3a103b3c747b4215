//! The code index: its speed on a generated tree, and how well it finds what developers ask for in three public
//! repositories, beside ripgrep for the words of the questions.
//!
//! `cargo bench --bench index` measures the speed; `cargo bench --bench index -- quality [tokio]` fetches the repositories, or the
//! one that is named, by pip, cargo and npm into `target/` and asks the questions of `benches/index/questions.toml`. With
//! `quality vectors` they are asked with vectors too: of a small model from PyPI that `benches/index/embeddings.py` serves on
//! loopback, or of the OpenAI-compatible endpoint whose base URL is in `ROO_EMBEDDINGS`.
//! What each figure means is told in `docs/src/performance.md`.

#[path = "support/code_tree.rs"]
mod code_tree;
#[path = "support/memory.rs"]
#[allow(dead_code)]
mod memory;
#[path = "index/quality.rs"]
mod quality;
#[path = "support/table.rs"]
mod table;
#[path = "index/vectors.rs"]
mod vectors;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use code_tree::{FILES, WORDS, fill};
use roo_index::{CodeIndex, EmbedderSource, Mask, Question};
use roo_text::position::Encoding;
use roo_workspace::{Setup, Workspace};
use table::{Row, milliseconds, row};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Searches and updates that are timed.
const ROUNDS: usize = 30;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --all-targets` starts benches too, without this flag.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    match arguments.iter().any(|argument| argument == "quality") {
        true => runtime.block_on(quality::measure(&arguments)),
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
        // All files of the generated tree have the same few words, so that only a part of it is ever compared.
        if let Some(note) = found.notes.iter().find(|note| !note.contains("only a part was compared")) {
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
    report("update after an edit, beyond that", "ms", "", looks)?;
    report("update after an edit, all in all", "ms", "50", updates)?;
    report("query, beyond the comparison", "ms", "30", queries)?;
    report("search, all in all", "ms", "", whole)?;
    Ok(())
}
