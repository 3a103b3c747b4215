//! What must hold of every request, whatever fails.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::Path;

use roo_durable::Record;
use roo_engine::engine::event::Event;
use roo_engine::engine::replay;
use roo_engine::engine::task::Task;
use roo_engine::engine::tree::Tree;
use roo_protocol::event::Verdict;
use roo_protocol::ids::TaskId;
use roo_trace::query::{Filter, query};
use serde_json::Value;

use super::editor::PlannedEditor;
use super::world::Seen;

/// After a loss of power the log is the beginning of what it was, with all that was acknowledged. Records of an append that
/// failed may be back, but only until its remainder is removed for good: as long as `is_torn`, nothing has followed them.
pub fn survives(
    before: &[Record<Event>],
    is_torn: bool,
    after: &[Record<Event>],
    promised: u64,
) -> Result<(), String> {
    if after.len() > before.len() && !is_torn {
        return Err(format!("the loss of power has brought back events: {:?}", &after[before.len()..]));
    }
    if let Some((one, other)) = before.iter().zip(after).find(|(one, other)| one != other) {
        return Err(format!("the loss of power has changed an event: {one:?} is {other:?}"));
    }
    let last = |records: &[Record<Event>]| records.last().map_or(0, |record| record.seq);
    match last(after) >= promised.min(last(before)) {
        true => Ok(()),
        false => Err(format!(
            "events up to {promised} were acknowledged, and those up to {} have survived the loss of power",
            last(after)
        )),
    }
}

/// Checks that what is written for a change stands beside its files only until the change is over.
///
/// # Errors
/// The name of what is left in the folder. `state` is the state directory of the workspace.
pub fn leaves_nothing(folder: &Path, state: &Path) -> Result<(), String> {
    no_leftovers(&files(folder)?, state)
}

fn no_leftovers(files: &Files, state: &Path) -> Result<(), String> {
    let mut temporary = files.keys().filter(|name| is_temporary(name)).peekable();
    if temporary.peek().is_none() {
        return Ok(());
    }
    let kept = kept_for_the_user(state);
    let is_kept = |name: &str| kept.contains(name.rsplit('/').next().unwrap_or_default());
    match temporary.find(|name| !is_kept(name)) {
        Some(name) => Err(format!("a temporary file is left: {name}")),
        None => Ok(()),
    }
}

fn is_temporary(name: &str) -> bool {
    name.contains(".roo-lsp-")
}

/// The journals of changes that could be neither completed nor undone, as somebody else has written to the same files. The
/// user is told of them, and what they name stays.
fn kept_for_the_user(state: &Path) -> String {
    let files = fs::read_dir(state).into_iter().flatten().flatten().map(|entry| entry.path());
    let journals = files.filter(|path| {
        path.extension().is_some_and(|extension| extension.to_string_lossy().starts_with("stopped-"))
    });
    journals.map(|path| fs::read_to_string(path).unwrap()).collect()
}

/// The files of the workspace, but for the server's own.
fn files(folder: &Path) -> Result<Files, String> {
    let (mut files, mut open) = (Files::new(), vec![folder.to_owned()]);
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
            match path.is_dir() {
                true if name == ".roo" || name == ".orchestration" => {}
                true => open.push(path),
                false => {
                    let text = fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))?;
                    files.insert(name, text);
                }
            }
        }
    }
    Ok(files)
}

/// All that is left of a world when its request has ended.
pub struct Evidence<'a> {
    pub root: &'a TaskId,
    pub records: &'a [Record<Event>],
    pub seen: &'a Seen,
    pub editor: Option<&'a PlannedEditor>,
    pub folder: &'a Path,
    /// The state directory of the workspace.
    pub state: &'a Path,
}

/// What the log says of one call.
#[derive(Debug, Default)]
struct CallRecord {
    tool: String,
    /// The lines in its parameters.
    lines: BTreeSet<String>,
    verdict: Option<Verdict>,
    asked: bool,
    allowed: bool,
    started: u32,
    finished: u32,
    /// The number of files that it was to write, over all its starts.
    planned: u32,
    edits: u32,
}

type Files = BTreeMap<String, String>;

impl Evidence<'_> {
    /// Checks everything. Returns the files of the workspace.
    ///
    /// # Errors
    /// The first promise that is broken.
    pub fn check(&self) -> Result<Files, String> {
        if let Some(broken) = self.seen.broken.first() {
            return Err(broken.clone());
        }
        let files = files(self.folder)?;
        no_leftovers(&files, self.state)?;
        self.check_user_edits(&files)?;
        self.check_ends()?;
        self.check_log()?;
        let calls = self.calls()?;
        self.check_branches(&calls)?;
        self.check_commands(&calls)?;
        self.check_files(&files, &calls)?;
        self.check_trace(&calls)?;
        Ok(files)
    }

    /// The log folds to a request that has ended, with all of its tasks, and no command was run twice.
    fn check_ends(&self) -> Result<(), String> {
        let tree = Tree::fold(self.root, self.records).ok_or("the log does not fold")?;
        let mut open = tree.tasks().iter().filter(|task| !task.state().is_final());
        if let Some(task) = open.next() {
            return Err(format!("the request has ended, and its task {} is {:?}", task.id, task.state()));
        }
        match self.seen.executed.iter().find(|(_, count)| **count > 1) {
            Some((line, count)) => Err(format!("the command '{line}' was run {count} times")),
            None => Ok(()),
        }
    }

    /// The log is whole, and replays.
    fn check_log(&self) -> Result<(), String> {
        if let Some((seq, record)) = (1..).zip(self.records).find(|(seq, record)| record.seq != *seq) {
            return Err(format!("event {} is where {seq} should be", record.seq));
        }
        replay(self.root, self.records).map_err(|difference| format!("a replay differs: {difference:#?}"))?;
        Ok(())
    }

    /// What the log says of every call: nothing has started without permission, and each has at most one result.
    fn calls(&self) -> Result<HashMap<String, CallRecord>, String> {
        let mut calls: HashMap<String, CallRecord> = HashMap::new();
        let mut approvals: HashMap<String, String> = HashMap::new();
        let mut current: HashMap<&TaskId, String> = HashMap::new();
        for record in self.records {
            match &record.event {
                Event::Called { call, .. } => {
                    let mut lines = BTreeSet::new();
                    lines_of(&Value::Object(call.params.clone()), &mut lines);
                    let known = CallRecord { tool: call.name.clone(), lines, ..CallRecord::default() };
                    if calls.insert(call.id.to_string(), known).is_some() {
                        return Err(format!("two calls have the id {}", call.id));
                    }
                }
                Event::GateDecided { call_id, verdict, .. } => {
                    let call = calls.entry(call_id.to_string()).or_default();
                    call.verdict = Some(verdict.verdict());
                }
                Event::ApprovalRequested { approval } => {
                    let id = approval.tool_call_id.to_string();
                    approvals.insert(approval.approval_id.to_string(), id.clone());
                    let call = calls.entry(id).or_default();
                    (call.asked, call.allowed) = (true, false);
                }
                Event::ApprovalResolved { approval_id, option_id, .. } => {
                    let choice = serde_json::to_value(option_id).unwrap();
                    let allows = choice.as_str().is_some_and(|choice| choice.starts_with("allow"));
                    if let Some(call) = approvals.get(approval_id.as_str()).and_then(|id| calls.get_mut(id)) {
                        call.allowed = allows;
                    }
                }
                Event::ToolStarted { call_id, write, .. } => {
                    let call = calls.entry(call_id.to_string()).or_default();
                    call.started += 1;
                    call.planned += write.as_ref().map_or(0, |write| write.places().len() as u32);
                    let permitted = call.verdict == Some(Verdict::Allow) && (!call.asked || call.allowed);
                    if !permitted {
                        return Err(format!("{call_id} has started without permission: {call:?}"));
                    }
                    current.insert(&record.task_id, call_id.to_string());
                }
                Event::EditApplied { .. } => {
                    let call = current.get(&record.task_id).and_then(|id| calls.get_mut(id));
                    match call {
                        Some(call) => call.edits += 1,
                        None => return Err(format!("event {} is an edit of no call", record.seq)),
                    }
                }
                Event::ToolFinished { result, .. } => {
                    let call = calls.entry(result.call_id.to_string()).or_default();
                    call.finished += 1;
                    if call.finished > 1 {
                        return Err(format!("{} has two results", result.call_id));
                    }
                }
                _ => {}
            }
        }
        if let Some((id, call)) = calls.iter().find(|(_, call)| call.started > 0 && call.finished == 0) {
            return Err(format!("{id} has started and has no result: {call:?}"));
        }
        Ok(calls)
    }

    /// Each branch begins once and ends once, and its parent has one result of it. One that has stopped with its request has
    /// begun alone: its parent waits for it.
    fn check_branches(&self, calls: &HashMap<String, CallRecord>) -> Result<(), String> {
        let tree = Tree::fold(self.root, self.records).ok_or("the log does not fold")?;
        for record in self.records {
            let Event::Delegated { call_id, child, .. } = &record.event else { continue };
            let of_child = || self.records.iter().filter(|record| record.task_id == *child);
            let begins = of_child().filter(|record| matches!(record.event, Event::Created { .. })).count();
            let ends = of_child().filter(|record| matches!(record.event, Event::Ended { .. })).count();
            let results = calls.get(call_id.as_str()).map_or(0, |call| call.finished);
            let is_right = match tree.task(child).is_some_and(Task::is_stopped) {
                true => (begins, ends, results) == (1, 0, 0),
                // One whose parent ends before it begins is reported all the same.
                false => begins <= 1 && ends == begins && results == 1,
            };
            if !is_right {
                return Err(format!(
                    "the branch {child} has begun {begins} times, ended {ends} times and reported {results} times"
                ));
            }
        }
        Ok(())
    }

    /// Each command has run only with the user's permission, which the log has.
    fn check_commands(&self, calls: &HashMap<String, CallRecord>) -> Result<(), String> {
        for line in self.seen.executed.keys() {
            let found =
                calls.iter().find(|(_, call)| call.tool == "execute_command" && call.lines.contains(line));
            let Some((id, call)) = found.filter(|(_, call)| call.started > 0) else {
                return Err(format!("the command '{line}' was run, and the log does not say so"));
            };
            if self.seen.refused.contains(id) || !self.seen.allowed.contains(id) {
                return Err(format!("the command '{line}' was run without the user's permission: {call:?}"));
            }
        }
        Ok(())
    }

    /// Every file consists of whole lines that somebody wrote, each once, and what the model wrote was permitted.
    fn check_files(&self, files: &Files, calls: &HashMap<String, CallRecord>) -> Result<(), String> {
        for (name, text) in files.iter().filter(|(name, _)| !is_temporary(name)) {
            if !text.ends_with('\n') {
                return Err(format!("{name} ends in the middle of a line: {text:?}"));
            }
            let mut lines = HashSet::new();
            for line in text.lines() {
                let by_model = self.seen.by_model.contains(line);
                let is_known = by_model
                    || matches!(line, "begin" | "end")
                    || line.starts_with("user ")
                    || self.seen.executed.contains_key(line);
                if !is_known {
                    return Err(format!("nobody wrote '{line}' into {name}: {text:?}"));
                }
                if !lines.insert(line) && line != "begin" && line != "end" {
                    return Err(format!("'{line}' is in {name} twice: {text:?}"));
                }
                if by_model {
                    // One that was refused may name a line that another one wrote.
                    let mut named = calls.values().filter(|call| call.lines.contains(line));
                    if !named.any(|call| call.started > 0) {
                        return Err(format!("'{line}' is in {name}, and the log has no call that wrote it"));
                    }
                }
            }
        }
        Ok(())
    }

    /// What the user wrote is in the editor where the file is open, else on disk.
    fn check_user_edits(&self, files: &Files) -> Result<(), String> {
        for (name, lines) in &self.seen.by_user {
            let open = self.editor.and_then(|editor| editor.text(name));
            let text = open.as_ref().or_else(|| files.get(name)).ok_or_else(|| format!("{name} is gone"))?;
            if let Some(line) = lines.iter().find(|line| !text.lines().any(|kept| kept == **line)) {
                return Err(format!("the user's '{line}' is lost from {name}: {text:?}"));
            }
        }
        Ok(())
    }

    /// The trace has each edit once, and nothing that the log doesn't have.
    fn check_trace(&self, calls: &HashMap<String, CallRecord>) -> Result<(), String> {
        let records = query(self.state, &Filter::default()).map_err(|error| error.to_string())?;
        let mut traced: HashMap<&str, u32> = HashMap::new();
        let mut changes = HashSet::new();
        for record in &records {
            let Some(own) = record.own() else { continue };
            let id = own.tool_call_id.as_str();
            if !record.files.is_empty() {
                *traced.entry(id).or_default() += 1;
            }
            for file in &record.files {
                let change = format!("{id}: {} from {:?} to {:?}", file.path, own.before, own.after);
                if let Some(twice) = changes.replace(change) {
                    return Err(format!("the trace has one change twice, {twice}"));
                }
            }
        }
        for (id, call) in calls.iter().filter(|(_, call)| call.edits > 0) {
            let count = traced.get(id.as_str()).copied().unwrap_or(0);
            if count == 0 {
                return Err(format!("the trace lacks the edit by {id}: {call:?}"));
            }
            // It is written before the log, which may have lost the last files of a patch with the power. So may the editor or the
            // disk, and the call has then made another edit of what the user has written meanwhile.
            if count > call.edits.max(call.planned) {
                return Err(format!("the trace has {count} edits by {id}, and the log {}", call.edits));
            }
        }
        Ok(())
    }
}

/// The lines of all texts in a value.
pub fn lines_of(value: &Value, lines: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            let plain = |line: &str| line.strip_prefix('+').unwrap_or(line).to_owned();
            lines.extend(text.lines().map(plain));
        }
        Value::Array(values) => values.iter().for_each(|value| lines_of(value, lines)),
        Value::Object(fields) => fields.values().for_each(|value| lines_of(value, lines)),
        _ => {}
    }
}
