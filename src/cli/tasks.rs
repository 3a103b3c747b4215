//! `roo-lsp tasks`: what was done in this workspace.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use super::adopt;
use super::arguments::{Common, Fork, TaskFormat, Tasks, TasksCommand, View};
use super::checkpoints;
use super::compare;
use super::dialogue::Dialogue;
use super::export_tasks::export_tasks;
use super::notices::Notices;
use super::resume_command;
use super::run::{SCRIPT_PROFILE, Viewer, Watch, WatchOutcome, conclude, flags};
use super::session::{SessionContext, check_profile};
use super::signals::Signals;
use super::{CliError, Ending, task_page, terminal, watch};
use crate::shell_word::shell_word;
use crate::view::RequestView;
use roo_durable::StoreError;
use roo_engine::engine::{Engine, EngineError, Resumable, as_diff};
use roo_formats::config::Layer;
use roo_protocol::event::{Event, EventParams, QuestionKind};
use roo_protocol::ids::{TaskId, Urid};
use roo_protocol::task::{
    ForkOrigin, HistoryItem, ImportOrigin, KeptWorktree, PendingQuestion, SendWhen, TaskForkParams,
    TaskForkResult, TaskListResult, TaskSendParams, TaskSnapshot, TaskState,
};
use roo_text::render;

/// The longest title in a list, in characters.
const TITLE: usize = 60;
/// The directory that exported tasks of Roo Code's format go to.
const EXPORTED: &str = "roo-code-tasks";
/// Number of tasks listed when a name fits several.
const CANDIDATES: usize = 10;

/// Runs one of the subcommands of `tasks`.
pub(super) async fn tasks(common: Common, tasks: Tasks, notices: &Notices) -> Result<Ending, CliError> {
    let context = SessionContext::find(&common)?;
    let text = match tasks.command {
        TasksCommand::List { limit, all, json } => {
            list(&context, if all { usize::MAX } else { limit.get() }, json).await?;
            String::new()
        }
        TasksCommand::Show { task, json } => {
            let engine = engine_to_look(&context)?;
            let task = find(&engine, &task).await?;
            if json {
                format!("{}\n", to_json(&engine.get(&task).await?)?)
            } else {
                document(&engine, &task).await?
            }
        }
        TasksCommand::Tree { task, json } => {
            let engine = engine_to_look(&context)?;
            let task = find(&engine, &task).await?;
            let nodes = engine.tree(&task).await?.nodes;
            if json { lines_of_json(&nodes)? } else { format!("{}\n", task_page::tree(&nodes, &task)) }
        }
        TasksCommand::Diff { task, json } => {
            let engine = engine_to_look(&context)?;
            let changes = engine.changes(&find(&engine, &task).await?).await?;
            if json { lines_of_json(&changes.files)? } else { as_diff(&changes) }
        }
        TasksCommand::Checkpoints { task, json } => {
            let engine = engine_to_look(&context)?;
            let list = engine.checkpoints(&find(&engine, &task).await?).await?;
            if json { lines_of_json(&list.checkpoints)? } else { checkpoints::table(&list) }
        }
        TasksCommand::Restore(given) => {
            let engine = engine_to_look(&context)?;
            let (task, name) = (find(&engine, &given.task).await?, given.task.clone());
            let restored = checkpoints::restore(&engine, task, given).await;
            engine.shutdown().await;
            restored.map_err(|error| in_terms_of(&name, error))?
        }
        TasksCommand::Cancel { task } => cancel(&engine_to_look(&context)?, &task).await?,
        TasksCommand::Delete { tasks, yes } => {
            let engine = engine_to_look(&context)?;
            let deleted = delete(&engine, &tasks, yes).await;
            engine.shutdown().await;
            deleted?
        }
        TasksCommand::Fork(fork) => match fork.prompt.clone() {
            Some(prompt) => return fork_and_follow(context, &fork, &prompt, notices).await,
            None => fork_only(&engine_to_look(&context)?, &fork).await?,
        },
        TasksCommand::Compare { one, other } => {
            let engine = engine_to_look(&context)?;
            let all = engine.names_everywhere().await?;
            compare::render(&engine.compare(&named(&all, &one)?, &named(&all, &other)?).await?)
        }
        TasksCommand::Resume { task, prompt, view } => {
            return resume(&context, &task, prompt.as_deref(), &view, notices).await;
        }
        TasksCommand::Watch { all } => return watch::watch(&context, all).await,
        TasksCommand::Adopt { directory, yes } => adopt::adopt(&context, directory.as_deref(), yes)?,
        TasksCommand::Export { task, format, output } => {
            export(&engine_to_look(&context)?, &task, format, output).await?
        }
    };
    terminal::stdout().write_all(text.as_bytes())?;
    Ok(Ending::Done)
}

/// An engine that shows and changes what is recorded, and lets no agent work.
fn engine_to_look(context: &SessionContext) -> Result<Engine, CliError> {
    Ok(context.engine(Arc::new(Arc::new(context.settings_to_look())))?)
}

/// Prints the newest requests.
async fn list(context: &SessionContext, limit: usize, json: bool) -> Result<(), CliError> {
    let engine = engine_to_look(context)?;
    let TaskListResult { items, next_cursor } = engine.list_newest(limit).await?;
    let text = if json { lines_of_json(&items)? } else { table(&engine, &items).await? };
    terminal::stdout().write_all(text.as_bytes())?;
    if items.is_empty()
        && let Some(suggestion) = adopt::suggestion(context)
    {
        write!(terminal::stderr(), "{suggestion}")?;
    }
    if next_cursor.is_some() {
        writeln!(terminal::stderr(), "Older tasks are left out; --all lists them.")?;
    }
    Ok(())
}

/// Cancels a request, and says how it ended.
async fn cancel(engine: &Engine, name: &str) -> Result<String, CliError> {
    let task = find(engine, name).await?;
    let cancelled = engine.cancel_and_wait(&task).await;
    engine.shutdown().await;
    let state = cancelled.map_err(|error| in_terms_of(name, error.into()))?;
    let name = render::exact_line(name);
    Ok(match state {
        None => format!("{name} is cancelled.\n"),
        Some(state) => format!("{name} has ended already: {}.\n", state.as_str()),
    })
}

/// Forks a request that nobody follows, and says how it goes on.
async fn fork_only(
    engine: &Engine,
    Fork { task: name, at, worktree, .. }: &Fork,
) -> Result<String, CliError> {
    let task_id = find(engine, name).await?;
    let params = TaskForkParams { task_id, seq: *at, prompt: None, worktree: *worktree };
    let forked = match engine.fork(params.clone()).await {
        Ok(forked) => Ok(forked),
        Err(error) => Err(not_forked(engine, name, &params, error).await),
    };
    engine.shutdown().await;
    let forked = forked?;
    let names = engine.names_everywhere().await?;
    let item = names.iter().find(|item| item.task_id == forked.task_id);
    Ok(told_of(&forked, item.is_none_or(|item| item.state != TaskState::Completed)))
}

/// Writes a task to a file or directory. Returns what is to be printed.
async fn export(
    engine: &Engine,
    name: &str,
    format: TaskFormat,
    output: Option<PathBuf>,
) -> Result<String, CliError> {
    let task = find(engine, name).await?;
    match (format, output) {
        (TaskFormat::Roo, output) => {
            let past = engine.past_tasks(&task).await?;
            export_tasks(&past, &output.unwrap_or_else(|| PathBuf::from(EXPORTED)))
        }
        (TaskFormat::Markdown, None) => document(engine, &task).await,
        (TaskFormat::Markdown, Some(path)) => {
            let text = document(engine, &task).await?;
            std::fs::write(&path, text)
                .map_err(|error| CliError::Other(format!("can't write {}: {error}", path.display())))?;
            Ok(String::new())
        }
    }
}

/// Removes requests, after a question, and says which ones. Returns what else is to be printed.
async fn delete(engine: &Engine, names: &[String], is_sure: bool) -> Result<String, CliError> {
    let mut found = Vec::new();
    for name in names {
        let task = find(engine, name).await?;
        if !task.is_root() {
            let problem = format!("{} is a branch: delete its task instead", render::exact_line(name));
            return Err(CliError::Other(problem));
        }
        if !found.iter().any(|(_, known)| *known == task) {
            found.push((name, task));
        }
    }
    if !is_sure {
        let dialogue = Dialogue::new();
        for (_, task) in &found {
            let HistoryItem { urid, title, .. } = engine.get(task).await?.item;
            dialogue.tell(format!("{urid}  {}", render::one_line(&title, TITLE)))?;
        }
        let what = if found.len() == 1 { "this task" } else { "these tasks" };
        let answer = dialogue.ask(&format!("Delete {what} for good? [y/N]"))?;
        if !["y", "yes"].contains(&answer.to_lowercase().as_str()) {
            return Ok("Nothing was deleted.\n".to_owned());
        }
    }
    for (name, task) in found {
        let told = |error: EngineError| in_terms_of(name, error.into());
        // Nobody works on one that is still open: else its log would be held elsewhere.
        engine.cancel_and_wait(&task).await.map_err(told)?;
        let kept = engine.delete(&task).await.map_err(told)?;
        // At once: the next one may fail, and this one is gone.
        writeln!(terminal::stdout(), "{} is deleted.", render::exact_line(name))?;
        for KeptWorktree { path, reason } in kept {
            writeln!(
                terminal::stdout(),
                "A worktree of it is kept: {} ({reason}).",
                render::exact_line(&path)
            )?;
        }
    }
    Ok(String::new())
}

async fn resume(
    context: &SessionContext,
    name: &str,
    prompt: Option<&str>,
    view: &View,
    notices: &Notices,
) -> Result<Ending, CliError> {
    let engine = engine_at_work(context, view)?;
    // A branch goes on with its request.
    let task = find(&engine, name).await?.root();
    let HistoryItem { urid, state, .. } = engine.get(&task).await?.item;
    let resumed = match prompt {
        Some(prompt) => say_at_work(context, engine, task, prompt, view, notices).await,
        None if state == TaskState::Completed => Err(CliError::Other(format!(
            "{urid} is completed; it goes on with what you say to it: roo-lsp tasks resume {urid} \"…\""
        ))),
        None => resume_at_work(context, engine, task, view, notices).await,
    };
    resumed.map_err(|error| in_terms_of(name, error))
}

/// Says something to a request that is open nowhere else, and follows it.
async fn say_at_work(
    context: &SessionContext,
    engine: Engine,
    task: TaskId,
    prompt: &str,
    view: &View,
    notices: &Notices,
) -> Result<Ending, CliError> {
    let signals = Signals::listen()?;
    let viewer = Viewer::new(view, true, notices);
    let outcome = async {
        let HistoryItem { urid, seq, .. } = engine.get(&task).await?.item;
        let (text, when) = (prompt.to_owned(), SendWhen::Now);
        engine.send(TaskSendParams { task_id: task.clone(), text, images: vec![], when }).await?;
        let follower = engine.follow(&task, seq).await?;
        let outcome = Watch::new(&engine, task, viewer, signals).follow(follower, vec![]).await?;
        Ok::<_, CliError>((urid, outcome))
    };
    let outcome = outcome.await;
    engine.shutdown().await;
    engine.end_servers().await;
    let (urid, outcome) = outcome?;
    conclude(&urid, &resume_command::in_context(urid.as_str(), context, view), outcome)
}

async fn resume_at_work(
    context: &SessionContext,
    engine: Engine,
    task: TaskId,
    view: &View,
    notices: &Notices,
) -> Result<Ending, CliError> {
    let signals = Signals::listen()?;
    let viewer = Viewer::new(view, true, notices);
    let outcome = resume_and_follow(&engine, task, viewer, signals).await;
    engine.shutdown().await;
    engine.end_servers().await;
    let (urid, outcome) = outcome?;
    conclude(&urid, &resume_command::in_context(urid.as_str(), context, view), outcome)
}

/// Forks a request at an event, and lets the fork go on as the request was about to.
pub(super) async fn resume_in_fork(
    context: &SessionContext,
    task_id: TaskId,
    seq: u64,
    view: &View,
    notices: &Notices,
) -> Result<Ending, CliError> {
    let engine = engine_at_work(context, view)?;
    let params = TaskForkParams { task_id, seq: Some(seq), prompt: None, worktree: false };
    let forked = engine.begin_fork(&params).await?;
    if engine.get(&forked.task_id).await?.item.state == TaskState::Completed {
        write!(terminal::stderr(), "{}", told_of(&forked, false))?;
        engine.shutdown().await;
        return Ok(Ending::Done);
    }
    writeln!(terminal::stderr(), "{} is forked at event {seq} and goes on.", forked.urid)?;
    resume_at_work(context, engine, forked.task_id, view, notices).await
}

/// Forks a request, says the prompt to the fork, and follows it.
async fn fork_and_follow(
    mut context: SessionContext,
    Fork { task: name, at, view, worktree, .. }: &Fork,
    prompt: &str,
    notices: &Notices,
) -> Result<Ending, CliError> {
    let mut engine = engine_at_work(&context, view)?;
    let task_id = find(&engine, name).await?;
    let params = TaskForkParams { task_id, seq: *at, prompt: Some(prompt.to_owned()), worktree: *worktree };
    let forked = match engine.begin_fork(&params).await {
        Ok(forked) => forked,
        Err(error) => return Err(not_forked(&engine, name, &params, error).await),
    };
    if let Some(folder) = &forked.folder {
        writeln!(terminal::stderr(), "{}", told_of(&forked, true).trim_end())?;
        engine.shutdown().await;
        engine.end_servers().await;
        context.folder = PathBuf::from(folder);
        engine = engine_at_work(&context, view)?;
    }
    say_at_work(&context, engine, forked.task_id, prompt, view, notices).await
}

/// Why a request was not forked, with the events that it has where it lacks the one that was named.
async fn not_forked(engine: &Engine, name: &str, params: &TaskForkParams, error: EngineError) -> CliError {
    let (EngineError::NotFound { what: "event", id }, Ok(found)) =
        (&error, engine.get(&params.task_id).await)
    else {
        return error.into();
    };
    let name = shell_word(name);
    // Its first event has no prompt yet.
    CliError::Usage(format!(
        "there is no event '{id}' to fork at: the numbers are 2 to {}. Those of changes are listed by: roo-lsp tasks checkpoints \
         {name}",
        found.item.seq
    ))
}

/// Says what was forked, and how it goes on: what was completed has nothing left to do.
fn told_of(TaskForkResult { urid, seq, folder, left_out, .. }: &TaskForkResult, can_resume: bool) -> String {
    let next = |place: &str| match can_resume {
        true => format!("To go on: roo-lsp {place}tasks resume {urid}\n"),
        false => {
            format!("It was completed there. To say more to it: roo-lsp {place}tasks resume {urid} \"…\"\n")
        }
    };
    let Some(folder) = folder else {
        return format!("{urid} is forked at event {seq}. {}", next(""));
    };
    let place = shell_word(folder);
    let mut text = format!("{urid} is forked at event {seq}, with files of its own in {place}.\n");
    for file in left_out {
        let (path, reason) = (render::exact_line(&file.path), &file.reason);
        let _ = writeln!(text, "Not as it was then: {path} ({reason})");
    }
    text + &next(&format!("--workspace {place} "))
}

/// An engine that lets agents work, with the flags of the command line.
fn engine_at_work(context: &SessionContext, view: &View) -> Result<Engine, CliError> {
    let settings = context.live_settings(Layer::from_command_line(flags(view)))?;
    if let Some(profile) =
        settings.newest().settings.profiles.get(SCRIPT_PROFILE).filter(|_| view.script.is_some())
    {
        check_profile(profile).map_err(|error| CliError::Other(error.to_string()))?;
    }
    context.customization_at_work()?;
    Ok(context.engine(settings)?)
}

/// Lets a request go on, and follows it.
pub(super) async fn resume_and_follow(
    engine: &Engine,
    task: TaskId,
    viewer: Viewer,
    signals: Signals,
) -> Result<(Urid, WatchOutcome), CliError> {
    let (Resumable { urid, seq: seen, questions, .. }, resumed) = engine.resume_and_read(&task).await?;
    let pending = pending(engine, &task, questions);
    let follower = engine.follow(&task, seen).await?;
    match resumed {
        // All that was missing was the record of its end, and bringing it back has made that up.
        Err(EngineError::WrongState { .. }) if engine.get(&task).await?.item.seq > seen => {}
        outcome => outcome?,
    }
    Ok((urid, Watch::new(engine, task, viewer, signals).follow(follower, pending).await?))
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
/// after a dot.
pub(super) async fn find(engine: &Engine, name: &str) -> Result<TaskId, CliError> {
    let Some((request, number)) = name.split_once('.') else { return find_request(engine, name).await };
    let root = find_request(engine, request).await?;
    let branch = TaskId::new(format!("{root}.{number}"));
    let nodes = engine.tree(&root).await?.nodes;
    if nodes.iter().any(|node| node.id == branch) {
        return Ok(branch);
    }
    let tree = task_page::tree(&nodes, &root);
    Err(CliError::Other(format!("{request} has no branch '.{number}'; its branches are:\n{tree}")))
}

async fn find_request(engine: &Engine, name: &str) -> Result<TaskId, CliError> {
    named(&engine.names().await?, name)
}

/// The request of this name among these.
fn named(items: &[HistoryItem], name: &str) -> Result<TaskId, CliError> {
    if let Some(item) = items.iter().find(|item| item.urid.as_str() == name || item.task_id.as_str() == name)
    {
        return Ok(item.task_id.clone());
    }
    let begins =
        |item: &&HistoryItem| item.urid.as_str().starts_with(name) || item.task_id.as_str().starts_with(name);
    // All begin with nothing, and none is meant by it.
    let matching: Vec<&HistoryItem> = items.iter().filter(begins).filter(|_| !name.is_empty()).collect();
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

/// A task in the tree of its request. With an interrupted request comes the first of its branches that waits for its user.
async fn view_of(engine: &Engine, task: &TaskSnapshot) -> Result<RequestView, CliError> {
    let HistoryItem { task_id, state, .. } = &task.item;
    let mut view = RequestView::default();
    view.set_tree(&engine.tree(task_id).await?.nodes);
    view.add_task(task);
    if task_id.is_root() && *state == TaskState::Interrupted {
        for node in view.tree().nodes().to_vec() {
            if view.prompts().next().is_some() {
                break;
            }
            if node.state == TaskState::Interrupted && node.id != *task_id {
                view.add_task(&engine.get(&node.id).await?);
            }
        }
    }
    Ok(view)
}

async fn table(engine: &Engine, items: &[HistoryItem]) -> Result<String, CliError> {
    if items.is_empty() {
        return Ok("No tasks in this workspace yet.\n".to_owned());
    }
    let mut states = Vec::new();
    for item in items {
        states.push(match item.state {
            // A summary doesn't know what it waits for.
            TaskState::Interrupted => {
                let task = engine.get(&item.task_id).await?;
                task_page::state_label(&view_of(engine, &task).await?, item.state)
            }
            state => state.as_str().to_owned(),
        });
    }
    let width = states.iter().map(String::len).max().unwrap_or_default();
    Ok(items.iter().zip(&states).fold(String::new(), |mut text, (item, state)| {
        let title = render::one_line(&item.title, TITLE);
        let _ = write!(text, "{}  {state:<width$}  {:<12}  {title}", item.urid, item.mode);
        if let Some(ForkOrigin { urid, .. }) = &item.forked_from {
            let _ = write!(text, " (fork of {urid})");
        }
        if let Some(ImportOrigin { program, .. }) = &item.imported_from {
            let _ = write!(text, " (from {})", render::one_line(program, TITLE));
        }
        text.push('\n');
        text
    }))
}

/// A task as a Markdown document.
pub(super) async fn document(engine: &Engine, task: &TaskId) -> Result<String, CliError> {
    let task = engine.get(task).await?;
    Ok(task_page::render(&view_of(engine, &task).await?, &task))
}

/// Says what can't be done with a task, by the name that the user has given.
fn in_terms_of(name: &str, error: CliError) -> CliError {
    let name = render::exact_line(name);
    match error {
        CliError::Engine(EngineError::WrongState { problem, .. }) => {
            CliError::Other(format!("that can't be done with {name} now: {problem}"))
        }
        CliError::Engine(EngineError::Store(StoreError::Held { .. })) => CliError::Other(format!(
            "{name} is open in another roo-lsp. In the daemon, roo-lsp attach {name} steers it, and /cancel there cancels it; \
             in a terminal, Ctrl-C there ends it; in an editor, cancel or restore it there, or close that window"
        )),
        error => error,
    }
}
