//! How many events a second reach three feeds of one task, and how long each is on its way.
//!
//! `cargo bench --bench feeds`. The scripted model answers with many calls at once; every event is
//! appended to a real log, and a decision is handed on only when it is durable.

#[path = "support/engine_fixture.rs"]
mod engine_fixture;
#[path = "support/table.rs"]
mod table;

use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Instant;

use engine_fixture::read;
use roo_protocol::task::TaskStartParams;
use table::{Row, row};

const FEEDS: usize = 3;
const TURNS: usize = 20;
const CALLS: usize = 50;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

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
    let engine = engine_fixture::engine(&folder, "state", &script())?;

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
        delays.extend(feed.await??.into_iter().map(table::milliseconds));
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
