//! A hundred requests at once, each with five branches that run at the same time.
//!
//! `cargo bench --bench trees`. The scripted model costs next to nothing, so what is measured is the
//! engine: every event is appended to a real log, every call judged by the gate, every brief parsed.

#[path = "support/memory.rs"]
mod memory;
#[path = "support/table.rs"]
mod table;

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Zoned;
use roo_lsp::config::{Directories, Settings};
use roo_lsp::customization::{Customization, Setup as CustomizationSetup};
use roo_lsp::engine::clock::{Clock, SystemClock};
use roo_lsp::engine::{Engine, Follower};
use roo_lsp::protocol::event::Event;
use roo_lsp::protocol::ids::QuestionId;
use roo_lsp::protocol::task::{QuestionAnswerParams, TaskStartParams};
use roo_lsp::store::WorkspaceDirectory;
use roo_lsp::text::position::Encoding;
use roo_lsp::workspace::{Documents, Setup, Workspace};
use serde_json::json;
use table::{Row, row};
use uuid::Uuid;

const TREES: usize = 100;
const BRANCHES: usize = 5;
/// Milliseconds before each piece of an answer, of models that take their time.
const PACE: u32 = 40;

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
    std::fs::create_dir(folder.join("work"))?;
    std::fs::write(folder.join("work/lib.rs"), "let a = 1;\n".repeat(100))?;

    let engine = engine(&folder, "waiting", &waiting())?;
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
    work(&self::engine(&folder, "working", &working(0))?, what).await?;
    let what = "append to feed, models that take their time";
    work(&self::engine(&folder, "pacing", &working(PACE))?, what).await
}

/// Lets all trees work to their end.
async fn work(engine: &Arc<Engine>, what: &str) -> Outcome {
    let begun = Instant::now();
    let feeds = start(engine).await?;
    let feeds: Vec<_> = feeds.into_iter().map(|feed| tokio::spawn(read(Arc::clone(engine), feed))).collect();
    let mut delays = Vec::new();
    for feed in feeds {
        delays.extend(feed.await??);
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

fn engine(folder: &Path, name: &str, script: &str) -> Outcome<Arc<Engine>> {
    let path = folder.join(format!("{name}.yaml"));
    std::fs::write(&path, script)?;
    let settings: Settings = serde_json::from_value(json!({
        "profiles": { "default": { "provider": "scripted", "script": path } },
    }))?;
    let work = folder.join("work");
    let state = WorkspaceDirectory::new(&folder.join(name), &work);
    let workspace = Workspace::open(Setup {
        folders: vec![work.clone()],
        state_directory: state.path().to_owned(),
        documents: Arc::new(Documents::default()),
        editor: None,
        encoding: Encoding::Utf8,
    })?;
    let customization = Customization::open(CustomizationSetup {
        folders: vec![work],
        directories: Directories { config: folder.join("config"), state: folder.join(name), home: None },
        state_directory: state.path().to_owned(),
    })?;
    let (workspace, customization) = (Arc::new(workspace), Arc::new(customization));
    let clock = Arc::new(Microseconds(Instant::now()));
    Ok(Arc::new(Engine::new(Arc::new(settings), workspace, customization, state, clock)))
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

/// Reads a request to its end. Returns how many milliseconds each numbered event was on its way.
async fn read(engine: Arc<Engine>, mut follower: Follower) -> Result<Vec<f64>, String> {
    let mut delays = Vec::new();
    loop {
        let batch = follower.next(|| engine.now()).await.map_err(|error| error.to_string())?;
        let now = engine.now();
        for params in batch.iter().filter(|params| params.seq.is_some()) {
            let delay = Duration::from_micros(u64::try_from(now - params.at).unwrap_or(0));
            delays.push(table::milliseconds(delay));
            if params.task_id.is_root()
                && matches!(&params.event, Event::TaskState { state, .. } if state.is_final())
            {
                return Ok(delays);
            }
        }
    }
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
