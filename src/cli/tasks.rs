//! `roo-lsp tasks`: what was done in this workspace.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;

use super::arguments::{Common, Tasks, TasksCommand, View};
use super::cancel;
use super::checkpoints;
use super::notices::Notices;
use super::run::{SCRIPT_PROFILE, Viewer, Watch, WatchOutcome, conclude, flags};
use super::session::{SessionContext, check_profile};
use super::signals::Signals;
use super::terminal;
use super::{CliError, Ending};
use crate::view::{CallEnding, MessageOrigin, context_line, draw_tree, shortened_line, state_with_number};
use roo_engine::engine::{Engine, EngineError, Resumable, as_diff};
use roo_formats::config::Layer;
use roo_protocol::event::{Event, EventParams, QuestionKind, ToolStatus};
use roo_protocol::ids::TaskId;
use roo_protocol::message::{Ask, Message, MessageKind, Say};
use roo_protocol::task::{CallOutcome, HistoryItem, PendingQuestion, TaskSnapshot, TaskState};
use roo_protocol::tree::TreeNode;
use roo_text::render;

/// The longest title in a list, in characters.
const TITLE: usize = 60;
/// Number of tasks listed when a name fits several.
const CANDIDATES: usize = 10;

/// Runs one of the subcommands of `tasks`.
pub(super) async fn tasks(common: Common, tasks: Tasks, notices: &Notices) -> Result<Ending, CliError> {
    let context = SessionContext::find(&common)?;
    if let TasksCommand::Resume { task, view } = &tasks.command {
        return resume(&context, task, view, notices).await;
    }
    let engine = context.engine(Arc::new(Arc::new(context.settings_to_look())))?;
    let text = match tasks.command {
        TasksCommand::List { json } => {
            let items = engine.list_all().await?;
            if json { lines_of_json(&items)? } else { table(&engine, &items).await? }
        }
        TasksCommand::Show { task, json } => {
            let task = find(&engine, &task).await?;
            if json {
                format!("{}\n", to_json(&engine.get(&task).await?)?)
            } else {
                document(&engine, &task).await?
            }
        }
        TasksCommand::Tree { task, json } => {
            let task = find(&engine, &task).await?;
            let nodes = engine.tree(&task).await?.nodes;
            if json { lines_of_json(&nodes)? } else { format!("{}\n", drawn(&nodes, &task)) }
        }
        TasksCommand::Diff { task, json } => {
            let changes = engine.changes(&find(&engine, &task).await?).await?;
            if json { lines_of_json(&changes.files)? } else { as_diff(&changes) }
        }
        TasksCommand::Checkpoints { task, json } => {
            let list = engine.checkpoints(&find(&engine, &task).await?).await?;
            if json { lines_of_json(&list.checkpoints)? } else { checkpoints::table(&list) }
        }
        TasksCommand::Restore(given) => {
            let (task, name) = (find(&engine, &given.task).await?, given.task.clone());
            let restored = checkpoints::restore(&engine, task, given).await;
            engine.shutdown().await;
            restored.map_err(|error| cancel::in_terms_of(&name, error))?
        }
        TasksCommand::Cancel { task: name } => {
            let task = find(&engine, &name).await?;
            let cancelled = cancel::cancel(&engine, &task).await;
            engine.shutdown().await;
            let state = cancelled.map_err(|error| cancel::in_terms_of(&name, error))?;
            let name = render::exact_line(&name);
            match state {
                None => format!("{name} is cancelled.\n"),
                Some(state) => format!("{name} has ended already: {}.\n", state.as_str()),
            }
        }
        // Done above: it shows the task while it runs.
        TasksCommand::Resume { .. } => String::new(),
        TasksCommand::Export { task, output } => {
            let text = document(&engine, &find(&engine, &task).await?).await?;
            match output {
                None => text,
                Some(path) => {
                    std::fs::write(&path, text).map_err(|error| {
                        CliError::Other(format!("can't write {}: {error}", path.display()))
                    })?;
                    String::new()
                }
            }
        }
    };
    terminal::stdout().write_all(text.as_bytes())?;
    Ok(Ending::Done)
}

async fn resume(
    context: &SessionContext,
    name: &str,
    view: &View,
    notices: &Notices,
) -> Result<Ending, CliError> {
    let settings = context.live_settings(Layer::from_command_line(flags(view)))?;
    if let Some(profile) =
        settings.newest().settings.profiles.get(SCRIPT_PROFILE).filter(|_| view.script.is_some())
    {
        check_profile(profile).map_err(|error| CliError::Other(error.to_string()))?;
    }
    context.customization_at_work()?;
    let engine = context.engine(settings)?;
    // A branch goes on with its request.
    let task = find(&engine, name).await?.root();
    let known = engine.resumable(&task).await?;
    let urid = known.urid.clone();
    let signals = Signals::listen()?;
    let viewer = Viewer::new(view, true, notices);
    let outcome = go_on(&engine, task, known, viewer, signals).await;
    engine.shutdown().await;
    engine.end_servers().await;
    conclude(&urid, outcome?)
}

/// Lets a request go on, and follows it.
pub(super) async fn go_on(
    engine: &Engine,
    task: TaskId,
    known: Resumable,
    viewer: Viewer,
    signals: Signals,
) -> Result<WatchOutcome, CliError> {
    let Resumable { seq: seen, questions, .. } = known;
    let pending = pending(engine, &task, questions);
    let follower = engine.follow(&task, seen).await?;
    match engine.resume(&task).await {
        // All that was missing was the record of its end, and bringing it back has made that up.
        Err(EngineError::WrongState { .. }) if engine.get(&task).await?.item.seq > seen => {}
        outcome => outcome?,
    }
    Watch::new(engine, task, viewer, signals).follow(follower, pending).await
}

/// The questions that wait in any branch. The engine asks for permission again by itself; a question it
/// leaves as it stands, but for the one whether to try again, which the resuming answers.
fn pending(engine: &Engine, task: &TaskId, questions: Vec<(TaskId, PendingQuestion)>) -> Vec<EventParams> {
    let asked = questions.into_iter().filter(|(_, question)| question.kind != QuestionKind::ApiReqFailed);
    let event = |(task_id, question)| EventParams {
        root_id: task.clone(),
        task_id,
        seq: None,
        from: None,
        at: engine.now(),
        event: Event::QuestionAsked { question },
    };
    asked.map(event).collect()
}

/// The task of this name: a request's id or URID or the beginning of one, with the number of a branch
/// behind a dot.
async fn find(engine: &Engine, name: &str) -> Result<TaskId, CliError> {
    let Some((request, number)) = name.split_once('.') else { return find_request(engine, name).await };
    let root = find_request(engine, request).await?;
    let branch = TaskId::new(format!("{root}.{number}"));
    let nodes = engine.tree(&root).await?.nodes;
    if nodes.iter().any(|node| node.id == branch) {
        return Ok(branch);
    }
    let tree = drawn(&nodes, &root);
    Err(CliError::Other(format!("{request} has no branch '.{number}'; its branches are:\n{tree}")))
}

async fn find_request(engine: &Engine, name: &str) -> Result<TaskId, CliError> {
    let items = engine.names().await?;
    if let Some(item) = items.iter().find(|item| item.urid.as_str() == name || item.task_id.as_str() == name)
    {
        return Ok(item.task_id.clone());
    }
    let begins =
        |item: &&HistoryItem| item.urid.as_str().starts_with(name) || item.task_id.as_str().starts_with(name);
    let matching: Vec<&HistoryItem> = items.iter().filter(begins).collect();
    match matching.as_slice() {
        [item] => Ok(item.task_id.clone()),
        [] => Err(CliError::Other(format!(
            "no task of this workspace is named '{name}'; see roo-lsp tasks list"
        ))),
        _ => {
            let mut text = format!("'{name}' is the start of several task names; give more of it:");
            for HistoryItem { urid, task_id, title, .. } in matching.iter().take(CANDIDATES) {
                let _ = write!(text, "\n  {urid}  {task_id}  {}", render::one_line(title, TITLE));
            }
            if let Some(more) = matching.len().checked_sub(CANDIDATES).filter(|more| *more > 0) {
                let _ = write!(text, "\n  and {more} more");
            }
            Err(CliError::Other(text))
        }
    }
}

fn to_json<T: serde::Serialize>(value: &T) -> Result<String, CliError> {
    serde_json::to_string(value).map_err(|error| CliError::Other(error.to_string()))
}

fn lines_of_json<T: serde::Serialize>(items: &[T]) -> Result<String, CliError> {
    items.iter().map(|item| Ok(to_json(item)? + "\n")).collect()
}

/// The tree with states and numbers; a branch that is looked at is marked.
fn drawn(nodes: &[TreeNode], task: &TaskId) -> String {
    draw_tree(nodes, Some(task).filter(|task| !task.is_root()), state_with_number)
}

/// The state in words, with what a task waits for.
fn state_of(task: &TaskSnapshot) -> String {
    let name = task.item.state.as_str();
    match task {
        TaskSnapshot { item, .. } if item.state != TaskState::Interrupted => name.to_owned(),
        TaskSnapshot { approval: Some(_), .. } => format!("{name}, waits for permission"),
        TaskSnapshot { question: Some(_), .. } => format!("{name}, waits for an answer"),
        _ => name.to_owned(),
    }
}

/// The state of an interrupted request in words, with what it or the first of its branches waits for.
async fn state_of_request(engine: &Engine, task: &TaskId) -> Result<String, CliError> {
    let mut state = TaskState::Interrupted.as_str().to_owned();
    for node in engine.tree(task).await?.nodes {
        if node.state == TaskState::Interrupted {
            let of_branch = state_of(&engine.get(&node.id).await?);
            if of_branch.len() > state.len() {
                state = of_branch;
                break;
            }
        }
    }
    Ok(state)
}

async fn table(engine: &Engine, items: &[HistoryItem]) -> Result<String, CliError> {
    if items.is_empty() {
        return Ok("No tasks in this workspace yet.\n".to_owned());
    }
    let mut states = Vec::new();
    for item in items {
        states.push(match item.state {
            // A summary doesn't know what it waits for.
            TaskState::Interrupted => state_of_request(engine, &item.task_id).await?,
            state => state.as_str().to_owned(),
        });
    }
    let width = states.iter().map(String::len).max().unwrap_or_default();
    Ok(items.iter().zip(&states).fold(String::new(), |mut text, (item, state)| {
        let title = render::one_line(&item.title, TITLE);
        let _ = writeln!(text, "{}  {state:<width$}  {:<12}  {title}", item.urid, item.mode);
        text
    }))
}

/// A task as a document, with the tree of its request.
async fn document(engine: &Engine, task: &TaskId) -> Result<String, CliError> {
    let snapshot = engine.get(task).await?;
    let nodes = engine.tree(task).await?.nodes;
    let state = match snapshot.item.state {
        TaskState::Interrupted if task.is_root() => state_of_request(engine, task).await?,
        _ => state_of(&snapshot),
    };
    let tree = if nodes.len() > 1 { fenced(&drawn(&nodes, task)) } else { String::new() };
    Ok(markdown(&snapshot, &state, &tree))
}

fn markdown(task: &TaskSnapshot, state: &str, tree: &str) -> String {
    let item = &task.item;
    let mut text = format!("# {}\n\n", render::one_line(&item.title, 200));
    let _ = writeln!(text, "- URID: {}\n- Task: {}", item.urid, item.task_id);
    let _ = writeln!(text, "- Mode: {}\n- State: {state}", item.mode);
    let usage = item.usage;
    let _ = writeln!(
        text,
        "- Tokens: {} in, {} out, {} from cache{}",
        usage.tokens_in,
        usage.tokens_out,
        usage.cache_reads,
        // Without a known price there is no cost.
        if usage.cost_usd > 0.0 { format!("; ${:.4}", usage.cost_usd) } else { String::new() }
    );
    if let Some(context) = task.context {
        let _ = writeln!(text, "- {}", context_line(&context));
    }
    for one in &task.shortenings {
        let line = shortened_line(one.method, one.tokens_before, one.tokens_after, 0.0);
        let _ = writeln!(text, "- {line}{}", if one.restored { " (undone)" } else { "" });
    }
    if !tree.is_empty() {
        let _ = write!(text, "\n## Branches\n\n{tree}\n");
    }
    for message in &task.messages {
        let outcome = task.calls.iter().find(|call| call.message_id == message.id);
        text.push_str(&section(message, outcome));
    }
    if let Some(approval) = &task.approval {
        let _ =
            write!(text, "\n## Waits for permission: {}\n\n{}\n", approval.title, fenced(&approval.subject));
    }
    if let Some(question) = &task.question {
        let _ = write!(text, "\n## Waits for an answer\n\n{}\n", question.text);
    }
    text
}

fn section(message: &Message, outcome: Option<&CallOutcome>) -> String {
    let text = render::visible(&message.text);
    let origin = MessageOrigin::from_id(&message.id);
    match message.kind {
        MessageKind::Say(Say::Text) if origin == MessageOrigin::Prompt => format!("\n## Prompt\n\n{text}\n"),
        MessageKind::Say(Say::Text) if origin == MessageOrigin::Brief => {
            // The tree of a brief is drawn with spaces, and the characters of its emojis are all meant.
            format!("\n## Brief\n\n{}\n", fenced(&render::visible(&message.text.replace('\u{fe0f}', ""))))
        }
        MessageKind::Say(Say::Text) => format!("\n{text}\n"),
        MessageKind::Say(Say::Reasoning) => {
            format!("\n<details><summary>Thinking</summary>\n\n{text}\n\n</details>\n")
        }
        MessageKind::Say(Say::UserFeedback) => format!("\n## User\n\n{text}\n"),
        MessageKind::Say(Say::CompletionResult) => format!("\n## Result\n\n{text}\n"),
        MessageKind::Say(Say::Error) => format!("\n## Failure\n\n{text}\n"),
        MessageKind::Say(Say::Tool) => tool(&message.text, outcome),
        MessageKind::Ask(Ask::Command) => {
            let ended = outcome.map(|outcome| format!("\n{}\n", ended(outcome))).unwrap_or_default();
            format!("\n{}\n{ended}", fenced(&format!("$ {text}")))
        }
        MessageKind::Ask(_) => format!("\n> {}\n", text.replace('\n', "\n> ")),
        MessageKind::Say(_) => String::new(),
    }
}

/// A call in words, what it was to write, and what came of it.
fn tool(payload: &str, outcome: Option<&CallOutcome>) -> String {
    let payload: serde_json::Value = serde_json::from_str(payload).unwrap_or_default();
    let field = |name: &str| payload[name].as_str();
    // What a task came to is told at its end.
    if field("tool") == Some("finishTask") && outcome.is_none_or(|outcome| outcome.status == ToolStatus::Ok) {
        return String::new();
    }
    let (name, subject) = match outcome {
        Some(outcome) => (outcome.name.as_str(), outcome.subject.as_str()),
        None => (field("tool").unwrap_or("call"), field("path").unwrap_or_default()),
    };
    let call = [name, subject].join(" ");
    let mut text = format!("\n**{}**\n", render::one_line(call.trim(), 200));
    if let Some(body) = ["diff", "content", "error"].iter().find_map(|name| field(name)) {
        let _ = write!(text, "\n{}\n", fenced(&render::visible(body)));
    }
    if let Some(outcome) = outcome {
        let _ = write!(text, "\n{}\n", ended(outcome));
    }
    text
}

/// Describes the outcome of a call, in a line.
fn ended(outcome: &CallOutcome) -> String {
    let mark = CallEnding::new(outcome.status, outcome.exit_code).mark();
    let why = match outcome.status {
        ToolStatus::Ok | ToolStatus::Failed => "",
        ToolStatus::Denied => " not allowed:",
        ToolStatus::Skipped => " not run:",
        ToolStatus::Interrupted => " interrupted:",
    };
    format!("{mark}{why} {}", render::one_line(&outcome.summary, 400))
}

/// A code block whose fence is longer than any in the text.
fn fenced(text: &str) -> String {
    let longest = text.lines().map(|line| line.chars().take_while(|&c| c == '`').count()).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{}\n{fence}", text.trim_end_matches('\n'))
}
