//! A hundred requests at once, each with five branches that run at the same time.
//!
//! `cargo bench --bench trees`. The scripted model costs next to nothing, so what is measured is the
//! engine: every event is appended to a real log, every call judged by the gate, every brief parsed.

#[path = "support/engine_fixture.rs"]
mod engine_fixture;
#[path = "support/memory.rs"]
#[allow(dead_code, reason = "other measurements use the rest of it")]
mod memory;
#[path = "support/table.rs"]
mod table;

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Instant;

use engine_fixture::read;
use roo_engine::engine::{Engine, Follower};
use roo_protocol::event::Event;
use roo_protocol::ids::QuestionId;
use roo_protocol::task::{QuestionAnswerParams, TaskStartParams};
use table::{Row, row};

const TREES: usize = 100;
const BRANCHES: usize = 5;
/// Milliseconds before each piece of an answer, of models that take their time.
const PACE: u32 = 40;

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
    let engine = engine_fixture::engine(&folder, "waiting", &waiting())?;
    std::fs::write(folder.join("work/lib.rs"), "let a = 1;\n".repeat(100))?;

    let before = memory::of_process(std::process::id())?;
    let mut feeds = start(&engine).await?;
    let mut questions = Vec::new();
    for feed in &mut feeds {
        questions.extend(until_all_ask(&engine, feed).await?);
    }
    let held = memory::of_process(std::process::id())? - before;
    let branches = (TREES * BRANCHES) as f64;
    writeln!(
        io::stdout(),
        "{branches} branches that wait for their user: {:.3} MB PSS each",
        held / branches
    )?;
    for question_id in questions {
        let answer = QuestionAnswerParams { question_id, text: "This.".into(), images: vec![] };
        engine.answer(answer, "bench").await?;
    }
    for feed in feeds {
        read(Arc::clone(&engine), feed).await?;
    }

    table::head()?;
    let what = "append to feed, models that answer at once";
    work(&engine_fixture::engine(&folder, "working", &working(0))?, what).await?;
    let what = "append to feed, models that take their time";
    work(&engine_fixture::engine(&folder, "pacing", &working(PACE))?, what).await
}

/// Lets all trees work to their end.
async fn work(engine: &Arc<Engine>, what: &str) -> Outcome {
    let begun = Instant::now();
    let feeds = start(engine).await?;
    let feeds: Vec<_> = feeds.into_iter().map(|feed| tokio::spawn(read(Arc::clone(engine), feed))).collect();
    let mut delays = Vec::new();
    for feed in feeds {
        delays.extend(feed.await??.into_iter().map(table::milliseconds));
    }
    let seconds = begun.elapsed().as_secs_f64();
    delays.sort_by(f64::total_cmp);
    let p99 = delays.get(delays.len() * 99 / 100).copied().unwrap_or_default();
    let events = delays.len();
    row(Row { what, unit: "ms", target: "" }, delays)?;
    Ok(writeln!(
        io::stdout(),
        "  {TREES} trees of {BRANCHES} branches in {seconds:.3} s, {events} events, p99 {p99:.3} ms"
    )?)
}

async fn start(engine: &Arc<Engine>) -> Outcome<Vec<Follower>> {
    let mut feeds = Vec::with_capacity(TREES);
    for _ in 0..TREES {
        let mode = Some("orchestrator".to_owned());
        let params = TaskStartParams { prompt: "Go.".into(), mode, ..TaskStartParams::default() };
        let task = engine.start(params)?.task_id;
        feeds.push(engine.follow(&task, 0).await?);
    }
    Ok(feeds)
}

async fn until_all_ask(engine: &Engine, follower: &mut Follower) -> Outcome<Vec<QuestionId>> {
    let mut questions = Vec::new();
    while questions.len() < BRANCHES {
        for params in follower.next(|| engine.now()).await? {
            if let Event::QuestionAsked { question } = &params.event {
                questions.push(question.question_id.clone());
            }
        }
    }
    Ok(questions)
}

fn delegation() -> String {
    let mut yaml = String::from("turns:\n  - mode: orchestrator\n    calls:\n");
    for branch in 1..=BRANCHES {
        let message = format!("💻 Do part {branch}\n\nURID: {{{{urid}}}}\n\nDo part {branch} of the work.\n");
        // Writing to a string can't fail.
        let _ =
            writeln!(yaml, "      - {{ tool: new_task, params: {{ mode: code, message: {message:?} }} }}");
    }
    yaml + "  - mode: orchestrator\n    calls: [{ tool: attempt_completion, params: { result: Done. } }]\n"
}

/// Branches that read, keep a list, and complete.
fn working(delay: u32) -> String {
    let turn =
        |calls: &str| format!("  - mode: code\n    delayMs: {delay}\n    chunk: 24\n    calls: [{calls}]\n");
    [
        delegation(),
        turn("{ tool: read_file, params: { files: [{ path: lib.rs }] } }"),
        turn("{ tool: update_todo_list, params: { todos: \"[x] Read\" } }"),
        turn("{ tool: attempt_completion, params: { result: Done. } }"),
    ]
    .concat()
}

/// Branches that have read a file and ask their user.
fn waiting() -> String {
    delegation()
        + "  - mode: code\n    calls: [{ tool: read_file, params: { files: [{ path: lib.rs }] } }]\n"
        + "  - mode: code\n    calls: [{ tool: ask_followup_question, params: { question: Which?, follow_up: [{ text: This. }, { text: That. }] } }]\n"
        + "  - mode: code\n    calls: [{ tool: attempt_completion, params: { result: Done. } }]\n"
}
