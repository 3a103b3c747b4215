//! `roo-lsp demo`: a whole request on a sample project, from mode to mode, with an interruption in the
//! middle; the real engine, gate and tools, and the embedded model. No key, no network.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;

use super::arguments::{Demo, Format, OnAsk};
use super::notices::Notices;
use super::run::{Answerer, Viewer, Watch, scripted_profile};
use super::session::SessionContext;
use super::signals::Signals;
use super::tasks::resume_and_follow;
use super::terminal;
use super::{CliError, Ending};
use crate::view::{Prompt, draw_tree, state_label};
use roo_durable::{Record, RequestLog};
use roo_engine::engine::Engine;
use roo_engine::engine::event::{EndState, Event};
use roo_formats::config::{Directories, Layer, load};
use roo_formats::intents::INTENTS_FILE;
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::TaskId;
use roo_protocol::task::{PendingApproval, TaskStartParams, TaskStartResult, TaskState};
use roo_protocol::tree::TreeNode;
use roo_trace::query::{Filter, query};
use roo_trace::record::{Outcome, Own};
use roo_trace::verify::{Copy, verify};

/// The sample project: a boundary error in a small library, a test that shows it, and what agents may change.
const PROJECT: [(&str, &str); 3] = [
    (INTENTS_FILE, include_str!("demo/project/.orchestration/active_intents.yaml")),
    ("lib/pages.sh", include_str!("demo/project/lib/pages.sh")),
    ("test.sh", include_str!("demo/project/test.sh")),
];
const SCRIPT: &str = include_str!("demo/script.yaml");
const PROMPT: &str = "A test of this project fails. Find out why, fix it, and describe the library.";
const MODE: &str = "new-task";
/// Task, Orchestrator, Architect, Code, Debug.
const BRANCHES: usize = 5;

/// File that Code tries to write although its intent does not cover it.
const OUT_OF_SCOPE: &str = "README.md";

const INTRODUCTION: &str = "\
A sample project with a failing test, and the embedded model. Nothing leaves this machine.
Reading and delegating are allowed by the settings. Commands and edits need approval: the demo
allows commands at once, and leaves edits waiting until there are two. The project's intents say
what may be changed at all: INT-001 covers the library and its test, INT-002 covers docs.
";
const INTERRUPTION: &str = "
Two branches wait at the same time. The engine ends here; its whole state is in the log.
A second engine opens it.
";

/// Plays the demo. It fails when anything in it does not really work.
pub(super) async fn demo(demo: Demo, notices: &Notices) -> Result<Ending, CliError> {
    let place = DemoDirectory::new(demo.keep)?;
    let ending = play(&place.path, notices).await;
    let removed = place.finish();
    let ending = ending?;
    removed?;
    Ok(ending)
}

/// Directory and services of the demo.
struct DemoDirectory {
    path: PathBuf,
    keep: bool,
}

impl DemoDirectory {
    fn new(keep: Option<PathBuf>) -> Result<Self, CliError> {
        let kept = keep.is_some();
        let path = match keep {
            Some(path) => {
                fs::create_dir_all(&path).map_err(|error| cannot("create", &path, &error))?;
                if fs::read_dir(&path).map_err(|error| cannot("look into", &path, &error))?.next().is_some() {
                    let text = format!("{} is not empty; name a new or an empty directory", path.display());
                    return Err(CliError::Other(text));
                }
                path
            }
            None => {
                let name = format!("roo-lsp-demo-{}", uuid::Uuid::new_v4().simple());
                let path = std::env::temp_dir().join(name);
                // A place for temporary files that isn't there is a mistake, not a wish.
                fs::create_dir(&path).map_err(|error| cannot("create", &path, &error))?;
                path
            }
        };
        let path = path.canonicalize().map_err(|error| cannot("find", &path, &error))?;
        Ok(Self { path, keep: kept })
    }

    fn finish(self) -> Result<(), CliError> {
        if self.keep {
            writeln!(terminal::stderr(), "The project and its log are in {}.", self.path.display())?;
            return Ok(());
        }
        fs::remove_dir_all(&self.path).map_err(|error| cannot("remove", &self.path, &error))
    }
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> CliError {
    CliError::Other(format!("can't {what} {}: {error}", path.display()))
}

async fn play(place: &Path, notices: &Notices) -> Result<Ending, CliError> {
    let project = place.join("project");
    for (name, text) in PROJECT {
        write(&project.join(name), text)?;
    }
    let script = place.join("script.yaml");
    write(&script, SCRIPT)?;

    let context = SessionContext {
        directories: Directories {
            config: place.join("config"),
            state: place.join("state"),
            home: None,
            settings_file: None,
        },
        folder: project.clone(),
    };
    let mut keys = serde_json::Map::new();
    keys.insert("profiles".into(), json!({ "default": scripted_profile(&script) }));
    // Each command is asked about as it is.
    keys.insert("autoApprove".into(), json!({ "execute": { "mode": "rules" } }));
    let loaded = load([Layer::from_command_line(keys)]).map_err(super::SessionError::from)?;
    let settings = Arc::new(loaded.settings);

    say(INTRODUCTION)?;
    let engine = context.engine(Arc::new(Arc::clone(&settings)))?;
    let begun = begin(&engine, notices).await;
    engine.shutdown().await;
    drop(engine);
    let begun = match begun? {
        Begun::Interrupted(begun) => begun,
        Begun::Ended(ending) => return Ok(ending),
    };

    say(INTERRUPTION)?;
    let engine = context.engine(Arc::new(settings))?;
    let ended = go_on_with(&engine, &begun, notices).await;
    engine.shutdown().await;
    drop(engine);
    let ending = ended?;
    if ending != Ending::Done {
        return Ok(ending);
    }

    let loaded = RequestLog::open::<Event>(context.state().request(&begun.task))?.1;
    if let Some(damage) = loaded.damage.first() {
        return Err(CliError::Other(format!("the log of the demo is damaged: {damage}")));
    }
    let account = Account { records: &loaded.records, project: &project };
    say("")?;
    for (what, holds) in account.checks() {
        if !holds {
            return Err(went_wrong(&format!("expected, but not so: {what}")));
        }
        say(&format!("✓ {what}"))?;
    }
    say(&format!("✓ the log holds {} events; numbers and checksums are right", loaded.records.len()))?;
    check_trace(&context, place)?;
    Ok(Ending::Done)
}

/// Verifies the trace of what was done, then a copy of it in which the refused write was done.
fn check_trace(context: &SessionContext, place: &Path) -> Result<(), CliError> {
    let state = context.state();
    let unreadable = |error: io::Error| went_wrong(&format!("the trace can't be read: {error}"));
    let wrong = |what: &str| Err(went_wrong(&format!("expected, but not so: {what}")));

    let records = query(state.path(), &Filter::default()).map_err(unreadable)?;
    let own: Vec<&Own> = records.iter().filter_map(|record| record.own()).collect();
    let commands: Vec<&str> = own.iter().filter_map(|own| own.sandbox.as_deref()).collect();
    match commands.as_slice() {
        [] => return wrong("commands are in the trace"),
        all if all.contains(&"L0") => say("· this machine has no sandbox: the commands ran without one")?,
        all => say(&format!(
            "✓ all {} commands ran in the sandbox of this machine, level {}",
            all.len(),
            all[0]
        ))?,
    }
    let is_refusal = |own: &&&Own| own.outcome == Outcome::Denied && own.tool_call == "write_to_file";
    let Some(refused) = own.iter().find(is_refusal).filter(|own| own.intent_id.as_deref() == Some("INT-001"))
    else {
        return wrong("the refused write is in the trace");
    };
    let mended = |own: &&Own| own.mode == "debug" && own.intent_id.as_deref() == Some("INT-001");
    if !own.iter().any(mended) {
        return wrong("what Debug did is in the trace under the intent of the task that it works for");
    }

    let report = verify(state.path(), Some(Copy::OfFolder(&context.folder))).map_err(unreadable)?;
    let Some(copy) = report.copy.as_ref().filter(|copy| report.is_whole() && copy.records > 0) else {
        return wrong("the trace is intact");
    };
    say(&format!("✓ trace verify: all {} records are intact", report.original.records))?;

    let text = fs::read_to_string(&copy.path).map_err(|error| cannot("read", &copy.path, &error))?;
    let forged = place.join("forged.jsonl");
    write(&forged, &text.replacen(r#""denied""#, r#""ok""#, 1))?;
    let report = verify(state.path(), Some(Copy::File(&forged))).map_err(unreadable)?;
    match report.copy.and_then(|copy| copy.finding) {
        Some(finding) if finding.seq == refused.seq => {
            say("✓ trace verify on a copy that claims the refused write was done:")?;
            say(&format!("  not intact: {finding}"))
        }
        _ => wrong("a forged copy of the trace is detected"),
    }
}

/// Progress of the first engine.
enum Begun {
    /// To where it was to end.
    Interrupted(Interrupted),
    /// A signal ended the demo, or the task ended too early.
    Ended(Ending),
}

/// State that must be the same for the second engine.
struct Interrupted {
    task: TaskId,
    nodes: Vec<TreeNode>,
    /// The approvals that wait, with the tasks that ask.
    approvals: Vec<(TaskId, PendingApproval)>,
}

/// Starts the request, and follows it until two branches wait for permission to edit.
async fn begin(engine: &Engine, notices: &Notices) -> Result<Begun, CliError> {
    let mode = Some(MODE.to_owned());
    let params = TaskStartParams { prompt: PROMPT.into(), mode, ..TaskStartParams::default() };
    let TaskStartResult { task_id: task, .. } = engine.start(params)?;
    let follower = engine.follow(&task, 0).await?;
    // Which action an approval is for stands in its title.
    let leaves = |approval: &PendingApproval| !approval.title.starts_with("Run ");
    let watch = Watch::new(engine, task.clone(), viewer(leaves, notices), Signals::listen()?);
    let outcome = watch.follow(follower, vec![]).await?;
    if outcome.ending == Ending::Done {
        return Err(went_wrong("the task ended without asking for its edits"));
    }
    if outcome.ending != Ending::Waiting {
        return Ok(Begun::Ended(outcome.ending));
    }
    let nodes = engine.tree(&task).await?.nodes;
    let mut approvals = Vec::new();
    for waiting in outcome.waiting {
        match waiting.asked {
            Prompt::Approval(approval) => approvals.push((waiting.task, approval)),
            Prompt::Question(_) => {
                return Err(went_wrong("a branch asks a question that the demo can't answer"));
            }
        }
    }
    let mut asking: Vec<&str> = approvals
        .iter()
        .filter_map(|(task, _)| nodes.iter().find(|node| node.id == *task))
        .map(|node| node.mode.as_str())
        .collect();
    asking.sort_unstable();
    if asking != ["architect", "debug"] {
        return Err(went_wrong(&format!("architect and debug should wait, but there wait {asking:?}")));
    }
    Ok(Begun::Interrupted(Interrupted { task, nodes, approvals }))
}

/// Resumes the request on another engine, and follows it to its end.
async fn go_on_with(engine: &Engine, begun: &Interrupted, notices: &Notices) -> Result<Ending, CliError> {
    let nodes = engine.tree(&begun.task).await?.nodes;
    say(&draw_tree(&nodes, None, state_label))?;
    let as_it_was = |node: &TreeNode, before: &TreeNode| {
        let same = (&node.id, &node.parent_id, &node.mode, &node.title)
            == (&before.id, &before.parent_id, &before.mode, &before.title);
        same && node.state == if before.state.is_final() { before.state } else { TaskState::Interrupted }
    };
    let same = nodes.len() == begun.nodes.len()
        && nodes.iter().zip(&begun.nodes).all(|(node, before)| as_it_was(node, before));
    if !same {
        return Err(went_wrong("the second engine sees another tree"));
    }
    for (task, approval) in &begun.approvals {
        let kept = engine.get(task).await?.approval;
        if kept.as_ref() != Some(approval) {
            return Err(went_wrong("the second engine does not wait for the same approval"));
        }
    }
    say(
        "The tree is the same, and the same approvals wait. It continues; the demo allows everything from here on.\n",
    )?;
    let viewer = viewer(|_| false, notices);
    let (_, outcome) = resume_and_follow(engine, begun.task.clone(), viewer, Signals::listen()?).await?;
    if outcome.ending == Ending::Waiting {
        return Err(went_wrong("its question can't be answered"));
    }
    Ok(outcome.ending)
}

fn viewer(leaves: fn(&PendingApproval) -> bool, notices: &Notices) -> Viewer {
    let answerer = Answerer { by: "the demo".into(), on_ask: OnAsk::Allow, leaves };
    Viewer::answered_by(Format::Text, answerer, false, notices)
}

/// Account of the demo, by the log.
struct Account<'a> {
    records: &'a [Record<Event>],
    project: &'a Path,
}

impl Account<'_> {
    /// Returns the claims of the demo, and whether each holds.
    fn checks(&self) -> Vec<(String, bool)> {
        let read = |mode, file| self.calls(mode, "read_file", ToolStatus::Ok).any(|text| text.contains(file));
        let tested =
            |mode, sign| self.calls(mode, "execute_command", ToolStatus::Ok).any(|text| text.contains(sign));
        let refused = self
            .calls("code", "apply_diff", ToolStatus::Failed)
            .any(|text| text.contains("context files that you have not read"));
        let out_of_scope = !self.project.join(OUT_OF_SCOPE).exists()
            && self.calls("code", "write_to_file", ToolStatus::Failed).any(|text| text == refusal());
        let gathered = |event: &Event| matches!(event, Event::Gathered { text, .. } if text.contains("lib"));
        let told = format!("a write outside of the intent was refused, and not done:\n  {}", refusal());
        let checks: [(&str, bool); 9] = [
            ("the system context was gathered without running a command", self.any(MODE, gathered)),
            (
                "the branches read the context that was saved for them",
                read("orchestrator", "prints no") && read("architect", "# Plan") && read("code", "# Plan"),
            ),
            ("a write before that was refused", refused),
            ("Architect and Code worked at the same time", self.overlap("architect", "code")),
            (
                "Code and Architect bound an intent each",
                self.bound("code", "INT-001") && self.bound("architect", "INT-002"),
            ),
            (&told, out_of_scope),
            ("the test failed before the edit", tested("code", "not ok 3")),
            ("and passes after it, for Debug and for Code", self.passes("debug") && self.passes("code")),
            ("every branch was completed", self.all_completed()),
        ];
        checks.map(|(what, holds)| (what.to_owned(), holds)).into()
    }

    /// The tasks of a mode.
    fn tasks(&self, mode: &str) -> Vec<&TaskId> {
        let of_mode = |record: &&Record<Event>| matches!(&record.event, Event::Created { mode: own, .. } if own == mode);
        self.records.iter().filter(of_mode).map(|record| &record.task_id).collect()
    }

    /// Returns whether a task of the mode bound the intent.
    fn bound(&self, mode: &str, id: &str) -> bool {
        self.any(mode, |event| matches!(event, Event::IntentSelected { intent, .. } if intent.id == id))
    }

    fn records_of_mode(&self, mode: &str) -> impl Iterator<Item = &Record<Event>> {
        let tasks = self.tasks(mode);
        self.records.iter().filter(move |record| tasks.contains(&&record.task_id))
    }

    fn any(&self, mode: &str, holds: impl Fn(&Event) -> bool) -> bool {
        self.records_of_mode(mode).any(|record| holds(&record.event))
    }

    /// Returns the outcomes of a tool's calls with this status.
    fn calls(&self, mode: &str, tool: &str, status: ToolStatus) -> impl Iterator<Item = &str> {
        self.records_of_mode(mode).filter_map(move |record| match &record.event {
            Event::ToolFinished { result, .. } if result.name == tool && result.status == status => {
                Some(result.text.as_str())
            }
            _ => None,
        })
    }

    fn passes(&self, mode: &str) -> bool {
        self.calls(mode, "execute_command", ToolStatus::Ok)
            .last()
            .is_some_and(|text| text.contains("ok 5 - ") && !text.contains("not ok"))
    }

    /// Returns whether each of two modes was asked something before the other one had ended.
    fn overlap(&self, one: &str, other: &str) -> bool {
        let first_turn = |mode| {
            self.records_of_mode(mode)
                .find(|record| matches!(record.event, Event::TurnStarted { .. }))
                .map(|record| record.seq)
        };
        let end = |mode| {
            self.records_of_mode(mode)
                .find(|record| matches!(record.event, Event::Ended { .. }))
                .map(|record| record.seq)
        };
        let before = |start: Option<u64>, end: Option<u64>| matches!((start, end), (Some(start), Some(end)) if start < end);
        before(first_turn(one), end(other)) && before(first_turn(other), end(one))
    }

    fn all_completed(&self) -> bool {
        let completed =
            |record: &&Record<Event>| matches!(record.event, Event::Ended { state: EndState::Completed, .. });
        let created = |record: &&Record<Event>| matches!(record.event, Event::Created { .. });
        let begun = self.records.iter().filter(created).count();
        begun == BRANCHES && self.records.iter().filter(completed).count() == begun
    }
}

/// Returns the exact refusal that Code gets.
fn refusal() -> String {
    format!("Scope Violation: INT-001 is not authorized to edit {OUT_OF_SCOPE}. Request scope expansion.")
}

fn say(text: &str) -> Result<(), CliError> {
    Ok(writeln!(terminal::stderr(), "{text}")?)
}

fn went_wrong(how: &str) -> CliError {
    CliError::Other(format!("the demo did not go as expected: {how}"))
}

fn write(path: &Path, text: &str) -> Result<(), CliError> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(|error| cannot("create", parent, &error))?;
    }
    fs::write(path, text).map_err(|error| cannot("write", path, &error))
}
