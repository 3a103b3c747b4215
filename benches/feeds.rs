//! How many events a second reach three feeds of one task, and how long each is on its way.
//!
//! `cargo bench --bench feeds`. The scripted model answers with many calls at once; every event is
//! appended to a real log, and a decision is handed on only when it is durable.

#[path = "support/table.rs"]
mod table;

use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Zoned;
use roo_lsp::config::{Directories, Settings};
use roo_lsp::customization::{Customization, Setup as CustomizationSetup};
use roo_lsp::engine::clock::{Clock, SystemClock};
use roo_lsp::engine::{Engine, Follower};
use roo_lsp::protocol::event::Event;
use roo_lsp::protocol::task::TaskStartParams;
use roo_lsp::store::WorkspaceDirectory;
use roo_lsp::text::position::Encoding;
use roo_lsp::workspace::{Documents, Setup, Workspace};
use serde_json::json;
use table::{Row, row};
use uuid::Uuid;

const FEEDS: usize = 3;
const TURNS: usize = 20;
const CALLS: usize = 50;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Counts microseconds where the engine thinks of milliseconds, so that an event's time tells to the
/// microsecond when it was made.
struct Microseconds(Instant);

impl Clock for Microseconds {
    fn now(&self) -> i64 {
        i64::try_from(self.0.elapsed().as_micros()).unwrap_or(i64::MAX)
    }

    fn zoned(&self) -> Zoned {
        SystemClock.zoned()
    }

    fn random(&self) -> Uuid {
        SystemClock.random()
    }

    fn ordered(&self) -> Uuid {
        SystemClock.ordered()
    }
}

fn main() -> Outcome {
    // `cargo test --all-targets` starts benches too, without this flag.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(measure())
}

async fn measure() -> Outcome {
    let directory = tempfile::tempdir()?;
    let folder = directory.path().canonicalize()?;
    let script = folder.join("script.yaml");
    std::fs::write(&script, self::script())?;
    let settings: Settings = serde_json::from_value(json!({
        "profiles": { "default": { "provider": "scripted", "script": script } },
    }))?;
    let state = WorkspaceDirectory::new(&folder.join("state"), &folder);
    let workspace = Workspace::open(Setup {
        folders: vec![folder.clone()],
        state_directory: state.path().to_owned(),
        documents: Arc::new(Documents::default()),
        editor: None,
        encoding: Encoding::Utf8,
    })?;
    let clock = Arc::new(Microseconds(Instant::now()));
    let customization = Customization::open(CustomizationSetup {
        folders: vec![folder.clone()],
        directories: Directories { config: folder.join("config"), state: folder.join("state"), home: None },
        state_directory: state.path().to_owned(),
    })?;
    let (workspace, customization) = (Arc::new(workspace), Arc::new(customization));
    let engine = Arc::new(Engine::new(Arc::new(settings), workspace, customization, state, clock));

    let begun = Instant::now();
    let params =
        TaskStartParams { prompt: "Go.".into(), mode: Some("code".into()), ..TaskStartParams::default() };
    let task = engine.start(params)?.task_id;
    let mut feeds = Vec::new();
    for _ in 0..FEEDS {
        let follower = engine.follow(&task, 0).await?;
        feeds.push(tokio::spawn(read(Arc::clone(&engine), follower)));
    }
    let mut delays = Vec::new();
    for feed in feeds {
        delays.extend(feed.await??);
    }
    let seconds = begun.elapsed().as_secs_f64();
    let events = delays.len() / FEEDS;
    writeln!(
        io::stdout(),
        "{events} events to {FEEDS} feeds in {seconds:.3} s: {:.0} events a second",
        events as f64 / seconds
    )?;
    delays.sort_by(f64::total_cmp);
    let p99 = delays.get(delays.len() * 99 / 100).copied().unwrap_or_default();
    table::head()?;
    row(Row { what: "append to feed, decisions with their sync", unit: "ms", target: "" }, delays)?;
    Ok(writeln!(io::stdout(), "p99: {p99:.3} ms")?)
}

/// Reads a task to its end. Returns how many milliseconds each numbered event was on its way.
async fn read(engine: Arc<Engine>, mut follower: Follower) -> Result<Vec<f64>, String> {
    let mut delays = Vec::new();
    loop {
        let batch = follower.next(|| engine.now()).await.map_err(|error| error.to_string())?;
        let now = engine.now();
        for params in batch.iter().filter(|params| params.seq.is_some()) {
            let delay = Duration::from_micros(u64::try_from(now - params.at).unwrap_or(0));
            delays.push(table::milliseconds(delay));
            if matches!(&params.event, Event::TaskState { state, .. } if state.is_final()) {
                return Ok(delays);
            }
        }
    }
}

/// Turns of many calls that only touch the to-do list.
fn script() -> String {
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
