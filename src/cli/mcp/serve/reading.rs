//! What calling agents can read: the requests of the workspace, their documents and events, and the trace. All of it bounded,
//! with masks in place of secrets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::RequestError;
use super::requests::Requests;
use crate::cli::arguments::{moment, outcome};
use crate::cli::{tasks, trace};
use roo_protocol::ids::TaskId;
use roo_text::render::{exact_line, one_line};
use roo_trace::blame::{Attribution, Index};
use roo_trace::query::{Filter, query};
use roo_trace::record::Author;
use roo_trace::verify::verify;
use roo_workspace::{Purpose, ReadAccess};

/// The most requests of a list.
const LISTED: usize = 100;
/// The length of a page of a document, in bytes.
const PAGE: usize = 32 << 10;
/// The longest document or list of events as a resource, in bytes.
const RESOURCE: usize = 256 << 10;
/// The most events of a resource.
const EVENTS: usize = 500;
/// The most records, or runs of lines, of an answer about the trace.
const RECORDS: usize = 500;
/// The largest file whose lines are told, in bytes.
const MAX_FILE_BYTES: u64 = 20 << 20;
/// The longest name in an error, in characters.
const NAME: usize = 200;

/// A request in a list.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct ListedTask {
    /// Names the task in all tools.
    id: String,
    title: String,
    mode: String,
    /// State: running, waiting, paused, interrupted, completed, failed or cancelled.
    state: &'static str,
    /// Time of its last event, RFC 3339 in UTC.
    updated_at: String,
    /// Cost so far, in US dollars; 0 where no price is known.
    cost_usd: f64,
}

/// The requests of the workspace, newest first.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct TaskList {
    tasks: Vec<ListedTask>,
    /// Number of older tasks that are left out.
    older: usize,
}

impl TaskList {
    /// The ids and titles.
    pub(super) fn names(self) -> impl Iterator<Item = (String, String)> {
        self.tasks.into_iter().map(|task| (task.id, task.title))
    }
}

/// What of the trace is wanted.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TraceParams {
    /// Tell which agent, intent and task wrote which lines of this file of the workspace. Without it, the records of what
    /// agents did are searched by the other parameters.
    blame: Option<String>,
    /// Records of the intent with this id.
    intent: Option<String>,
    /// Records of the task with this id.
    task: Option<String>,
    /// Records in this mode.
    mode: Option<String>,
    /// Records by this model, with or without its provider.
    model: Option<String>,
    /// Records about this file, or files below this directory, as seen from the workspace folder.
    path: Option<String>,
    /// Records that ended so: ok, denied, failed, scope_violation or interrupted.
    outcome: Option<String>,
    /// Not before this day or moment (UTC), such as 2026-11-20 or 2026-11-20T12:00:00Z.
    since: Option<String>,
    /// Before this day or moment.
    until: Option<String>,
    /// Only the newest ones, 100 where it is left out, 500 at most.
    limit: Option<usize>,
}

/// Lists the newest requests.
pub(super) async fn list(requests: &Requests, limit: usize) -> Result<TaskList, RequestError> {
    let mask = requests.mask().await?;
    let items = requests.engine.list_all().await?;
    let older = items.len().saturating_sub(limit.min(LISTED));
    let tasks = items.into_iter().take(limit.min(LISTED)).map(|item| ListedTask {
        id: item.urid.to_string(),
        title: mask.masked(item.title),
        mode: item.mode,
        state: item.state.as_str(),
        updated_at: jiff::Timestamp::from_millisecond(item.updated_at).unwrap_or_default().to_string(),
        cost_usd: item.usage.cost_usd,
    });
    Ok(TaskList { tasks: tasks.collect(), older })
}

/// A page of a task's document: from a byte on, with the way to the next page.
pub(super) async fn page(requests: &Requests, task: &TaskId, from: usize) -> Result<String, RequestError> {
    let text = whole_document(requests, task).await?;
    let start = text.floor_char_boundary(from);
    let end = text.floor_char_boundary(start.saturating_add(PAGE));
    let page = &text[start..end];
    Ok(match text.len().saturating_sub(end) {
        0 => page.to_owned(),
        rest => format!("{page}\n\n({rest} more bytes: call read_task again with offset {end})"),
    })
}

/// A task's document, cut where it is very long.
pub(super) async fn document(requests: &Requests, task: &TaskId) -> Result<String, RequestError> {
    let text = whole_document(requests, task).await?;
    let end = text.floor_char_boundary(RESOURCE);
    Ok(match text.len() - end {
        0 => text,
        rest => format!("{}\n\n({rest} more bytes: read_task has them)", &text[..end]),
    })
}

async fn whole_document(requests: &Requests, task: &TaskId) -> Result<String, RequestError> {
    let document = tasks::document(&requests.engine, task).await;
    let document = document.map_err(|error| RequestError::Invalid(error.to_string()))?;
    Ok(requests.mask().await?.masked(document))
}

/// The newest events of a request as lines of JSON, as many as fit.
pub(super) async fn events(requests: &Requests, task: &TaskId) -> Result<String, RequestError> {
    let events = requests.engine.newest_events(task, EVENTS).await?;
    let mask = requests.mask().await?;
    let mut lines: Vec<String> = Vec::new();
    let mut length = 0;
    for event in events.iter().rev() {
        let mut event =
            serde_json::to_value(event).map_err(|error| RequestError::Invalid(error.to_string()))?;
        mask.apply_to_texts(&mut event);
        let line = event.to_string();
        length += line.len() + 1;
        if length > RESOURCE {
            break;
        }
        lines.push(line);
    }
    lines.reverse();
    Ok(lines.iter().map(|line| format!("{line}\n")).collect())
}

/// Answers a question about the trace, as lines of text.
pub(super) async fn trace(requests: &Requests, params: TraceParams) -> Result<String, RequestError> {
    let state = requests.context.state().path().to_owned();
    let blamed = match &params.blame {
        Some(file) => Some(read(requests, file).await?),
        None => None,
    };
    let filter = filter(params)?;
    let looked_up = tokio::task::spawn_blocking(move || {
        let failed = |error: std::io::Error| RequestError::Invalid(format!("can't read the trace: {error}"));
        let mut text = match blamed {
            Some((path, text)) => {
                let mut index = Index::new(&state);
                index.refresh().map_err(failed)?;
                attributed(&path, &index.lines(&path, &text))
            }
            None => {
                let records = query(&state, &filter).map_err(failed)?;
                records.iter().map(trace::line_of).collect()
            }
        };
        if text.is_empty() {
            text.push_str("The trace has no such records.\n");
        }
        // Both pass what they can't read, and believe what they can.
        if let Some(finding) = verify(&state, None).ok().and_then(|report| report.original.finding) {
            text.push_str(&format!("Warning: the trace is not intact, so this may be wrong: {finding}\n"));
        }
        Ok::<_, RequestError>(text)
    });
    let text = looked_up.await.map_err(|_| RequestError::Ending)??;
    Ok(requests.mask().await?.masked(text))
}

fn filter(params: TraceParams) -> Result<Filter, RequestError> {
    let TraceParams { blame: _, intent, task, mode, model, path, outcome: ended, since, until, limit } =
        params;
    let time = |text: Option<String>| text.as_deref().map(moment).transpose();
    let invalid = |what: &str, problem: &str| RequestError::Invalid(format!("{what}: {problem}"));
    // Tools name requests by their URID; a branch and an id of the protocol are tasks.
    let (urid, task) = match task {
        Some(task) if task.contains('.') => (None, Some(task)),
        task => (task, None),
    };
    Ok(Filter {
        intent,
        task,
        urid,
        mode,
        model,
        path: path.map(|path| path.trim_start_matches("./").to_owned()),
        outcome: ended.as_deref().map(outcome).transpose().map_err(|problem| invalid("outcome", &problem))?,
        since: time(since).map_err(|problem| invalid("since", problem))?,
        until: time(until).map_err(|problem| invalid("until", problem))?,
        limit: Some(limit.unwrap_or(RECORDS / 5).min(RECORDS)),
    })
}

/// The name of a file as the trace has it, and its text, if agents may read it unasked.
async fn read(requests: &Requests, file: &str) -> Result<(String, String), RequestError> {
    let workspace = requests.engine.workspace();
    let failed = |problem: String| RequestError::File(one_line(file, NAME), problem);
    let place = workspace.resolve(file, Purpose::Read).map_err(|error| failed(error.to_string()))?;
    if workspace.read_access(&place) != ReadAccess::Free {
        return Err(failed("agents may not read it unasked".to_owned()));
    }
    let path = place.absolute().to_owned();
    let read = tokio::task::spawn_blocking(move || {
        let found = path.metadata()?;
        match found.is_file() && found.len() <= MAX_FILE_BYTES {
            true => std::fs::read_to_string(&path),
            false => Err(std::io::Error::other("it is not a regular file of at most 20 MiB")),
        }
    });
    let text = read.await.map_err(|_| RequestError::Ending)?.map_err(|error| failed(error.to_string()))?;
    Ok((place.relative().to_owned(), text))
}

/// Runs of lines with who wrote them. The lines themselves are not told: whoever wants them reads the file.
fn attributed(path: &str, lines: &[Option<std::sync::Arc<Attribution>>]) -> String {
    let mut runs: Vec<(usize, usize, &Attribution)> = Vec::new();
    for (number, found) in (1..).zip(lines) {
        let Some(found) = found.as_deref() else { continue };
        match runs.last_mut() {
            Some((_, last, same)) if *last + 1 == number && *same == found => *last = number,
            _ => runs.push((number, number, found)),
        }
    }
    let line = |(first, last, found): &(usize, usize, &Attribution)| {
        let place = match first == last {
            true => format!("line {first}"),
            false => format!("lines {first} to {last}"),
        };
        let intent = match (&found.intent, &found.intent_name) {
            (Some(id), Some(name)) => format!("intent {id} ({name})"),
            (Some(id), None) => format!("intent {id}"),
            (None, _) => "no intent".to_owned(),
        };
        let who = match found.author {
            Author::Human => "its user".to_owned(),
            _ => found.model.clone().unwrap_or_else(|| "an agent".to_owned()),
        };
        let (mode, task, at) = (&found.mode, &found.urid, &found.at);
        exact_line(&format!("{place}: {who} in the mode {mode}, {intent}, task {task}, {at}")) + "\n"
    };
    let mut text: String = runs.iter().take(RECORDS).map(line).collect();
    if runs.is_empty() {
        text = format!("No line of {} was written by an agent.\n", exact_line(path));
    }
    if let Some(more) = runs.len().checked_sub(RECORDS).filter(|more| *more > 0) {
        text.push_str(&format!("and {more} more runs of lines\n"));
    }
    text
}
