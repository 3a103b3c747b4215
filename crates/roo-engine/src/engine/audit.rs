//! Audit record of a tool call for the hooks that follow it: who did what, for which intent, and by whose leave.

use std::collections::HashMap;
use std::sync::Arc;

use super::event::Event;
use super::services::EngineServices;
use super::task::{Decided, Decider, GivenApproval, Task};
use super::tree::Tree;
use crate::policy::{AuditRecord, PlannedEdit, RefusalRule, Review, post};
use crate::tool_run::Outcome;
use roo_catalog::{Effect, Invocation, ToolCall, ToolName};
use roo_durable::Record;
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::{ApprovalId, Digest, TaskId, ToolCallId};
use roo_trace::record::{
    Author, CommandRun, Decision, Entry, FileChange, Outcome as TraceOutcome, PromptRef, Requested, Side,
};
use roo_workspace::Purpose;

/// The most files of one command that the trace tells of.
const COMMAND_FILES: usize = 256;
/// The largest text of a file changed by a command that the trace looks into, in bytes.
const COMMAND_TEXT: usize = 1 << 20;

/// Begins the audit record of the current call; none for one that leaves no trace: looks, and steps of the
/// conversation.
pub(super) fn begin(task: &Task, tree: &Tree, services: &EngineServices) -> Option<AuditRecord> {
    let call = task.current_call()?;
    let leaves_trace = matches!(call.effect(), Effect::Write | Effect::Execute | Effect::External)
        || call.is_of(ToolName::RequestScopeExpansion);
    if !leaves_trace && !task.merges() {
        return None;
    }
    begin_refusal(task, tree, services)
}

/// Begins the audit record of the current call, should it be refused.
pub(super) fn begin_refusal(task: &Task, tree: &Tree, services: &EngineServices) -> Option<AuditRecord> {
    let call = task.current_call()?;
    let profile = services.settings.profiles.get(&task.settings.profile);
    let model = profile.map(|profile| {
        let name = profile.model.as_deref().unwrap_or("default");
        format!("{}/{name}", profile.provider.as_str())
    });
    let decision = match task.decided() {
        Some(Decided { verdict, approval: Some(GivenApproval { id, by, digest, .. }) }) => Decision {
            by: "user".to_owned(),
            rule: Some(format!("{} ({by})", verdict.rule())),
            ask: Some(id.clone()),
            digest: Some(*digest),
        },
        Some(Decided { verdict, approval: None }) => {
            Decision { by: "rule".to_owned(), rule: Some(verdict.rule()), ask: None, digest: None }
        }
        None => Decision { by: "rule".to_owned(), ..Decision::default() },
    };
    let entry =
        Entry { model, ..entry(task, tree, (call.name.clone(), call.id.clone()), decision, services) };
    Some(AuditRecord { entry, intent: task.intents.bound.clone() })
}

/// Returns an entry about a call of a task that has changed nothing yet.
fn entry(
    task: &Task,
    tree: &Tree,
    (tool_call, tool_call_id): (String, ToolCallId),
    decision: Decision,
    services: &EngineServices,
) -> Entry {
    let root = tree.root();
    Entry {
        at: services.clock.now(),
        outcome: TraceOutcome::Ok,
        tool_call,
        tool_call_id,
        task: task.id.clone(),
        parent_task: task.parent.clone(),
        urid: task.urid.clone(),
        mode: task.settings.mode.clone(),
        model: None,
        intent: None,
        decision,
        sandbox: None,
        files: vec![],
        prompt: root.prompt.clone().map(|id| PromptRef { id, title: root.title().to_owned() }),
        command: None,
        commit: None,
        violations: vec![],
        server_call: None,
        requested: None,
        claimed: None,
    }
}

/// The gate refused the call.
pub(super) async fn refused(
    mut audit_record: AuditRecord,
    call: &ToolCall,
    (rule, mistake): (RefusalRule, bool),
    services: &Arc<EngineServices>,
) {
    // That a task goes on is no refusal of what it wanted to do.
    if mistake && !rule.traces_mistakes() || rule == RefusalRule::HookContinue {
        return;
    }
    audit_record.entry.outcome = TraceOutcome::Denied;
    audit_record.entry.decision =
        Decision { by: "rule".to_owned(), rule: Some(rule.to_string()), ask: None, digest: None };
    audit_record.entry.requested = requested(call, services);
    write(audit_record, services).await;
}

/// The user refused the current call of a task, when they were asked about this action.
pub(super) fn refused_by_user(
    task: &Task,
    tree: &Tree,
    (ask, digest, by): (ApprovalId, Digest, &Decider),
    services: &Arc<EngineServices>,
) {
    let Some((mut audit_record, call)) = begin_refusal(task, tree, services).zip(task.current_call()) else {
        return;
    };
    let entry = &mut audit_record.entry;
    entry.outcome = TraceOutcome::Denied;
    let rule = entry.decision.rule.take().map_or_else(|| by.to_string(), |rule| format!("{rule} ({by})"));
    entry.decision =
        Decision { by: "user".to_owned(), rule: Some(rule), ask: Some(ask), digest: Some(digest) };
    entry.requested = requested(call, services);
    write_beside(&audit_record, services);
}

/// Returns the paths or the command that a call names.
fn requested(call: &ToolCall, services: &EngineServices) -> Option<Requested> {
    let invocation = roo_catalog::parse(call);
    let mut command = None;
    let named: Vec<String> = match &invocation {
        Ok(Invocation::ExecuteCommand(execute)) => {
            command = Some(Digest::of(&execute.command));
            vec![]
        }
        // What it would own are patterns, and may be there as files or not.
        Ok(Invocation::RequestScopeExpansion(expansion)) => {
            return Some(Requested { paths: expansion.patterns.clone(), command });
        }
        Ok(Invocation::ReadFile(read)) => read.files.iter().map(|file| file.path.clone()).collect(),
        Ok(edit) if !edit.edited_files().is_empty() => {
            edit.edited_files().into_iter().map(str::to_owned).collect()
        }
        _ => {
            let path = ["path", "file_path"].into_iter().find_map(|name| call.params.get(name)?.as_str());
            path.map(str::to_owned).into_iter().collect()
        }
    };
    let resolved = |path: String| {
        let purposes = [Purpose::Read, Purpose::Write, Purpose::Directory];
        let place = purposes.into_iter().find_map(|purpose| services.workspace.resolve(&path, purpose).ok());
        place.map_or(path, |place| place.display())
    };
    let paths: Vec<String> = named.into_iter().map(resolved).collect();
    (!paths.is_empty() || command.is_some()).then_some(Requested { paths, command })
}

/// The call has run, for the second time if it `is_restarted`. What only the hooks need is taken out of its outcome.
pub(super) async fn done(
    audit_record: Option<AuditRecord>,
    call: Option<&ToolCall>,
    outcome: &mut Outcome,
    is_restarted: bool,
    services: &Arc<EngineServices>,
) {
    let mut changes = std::mem::take(&mut outcome.changes);
    if !services.traces_edits() {
        changes.clear();
    }
    let violations = std::mem::take(&mut outcome.violations);
    let commits = std::mem::take(&mut outcome.commits);
    let Some(mut audit_record) = audit_record else { return };
    audit_record.entry.command = outcome.command.take();
    audit_record.entry.sandbox = outcome.sandbox.take();
    audit_record.entry.server_call = outcome.server_call.take();
    audit_record.entry.outcome = match outcome.status {
        _ if !violations.is_empty() => TraceOutcome::ScopeViolation,
        ToolStatus::Ok => TraceOutcome::Ok,
        ToolStatus::Interrupted => TraceOutcome::Interrupted,
        // The user took nothing of what they were shown.
        ToolStatus::Denied => TraceOutcome::Denied,
        ToolStatus::Failed | ToolStatus::Skipped => TraceOutcome::Failed,
    };
    let changes_scope = audit_record.entry.tool_call == ToolName::RequestScopeExpansion.as_str();
    if changes_scope || audit_record.entry.outcome == TraceOutcome::Denied {
        audit_record.entry.requested = call.and_then(|call| requested(call, services));
    }
    // A write that changed nothing is none.
    let is_nothing = changes.is_empty()
        && !changes_scope
        && audit_record.entry.command.is_none()
        && audit_record.entry.server_call.is_none();
    if is_nothing && audit_record.entry.outcome == TraceOutcome::Ok {
        return;
    }
    audit_record.entry.violations = violations;
    if audit_record.entry.command.is_none() {
        audit_record.entry.files = changes;
        if audit_record.entry.server_call.is_none() {
            if is_restarted && !leave_out_recorded(&mut audit_record, services).await {
                return;
            }
            return write_beside(&audit_record, services);
        }
        return write(audit_record, services).await;
    }
    // One record for the run, one for each file that it changed and each commit that it made. These are there,
    // whatever became of other files; where the run was cut off, nobody knows whether they are whole.
    let outcome = match audit_record.entry.outcome {
        TraceOutcome::Interrupted => TraceOutcome::Interrupted,
        _ => TraceOutcome::Ok,
    };
    let further = AuditRecord {
        entry: Entry { command: None, violations: vec![], outcome, ..audit_record.entry.clone() },
        ..audit_record.clone()
    };
    write(audit_record, services).await;
    if !changes.is_empty() {
        let files = changes.into_iter().take(COMMAND_FILES).map(without_large_texts).collect();
        let entry = Entry { files, ..further.entry.clone() };
        write(AuditRecord { entry, ..further.clone() }, services).await;
    }
    for commit in commits {
        let entry = Entry { commit: Some(commit), ..further.entry.clone() };
        write(AuditRecord { entry, ..further.clone() }, services).await;
    }
}

/// Hooks changed files that the call has just written.
pub(super) fn changed_by_hooks(
    audit_record: AuditRecord,
    files: Vec<FileChange>,
    services: &Arc<EngineServices>,
) {
    let entry = Entry {
        tool_call: "hook".to_owned(),
        decision: Decision { by: "hook".to_owned(), ..Decision::default() },
        files: files.into_iter().take(COMMAND_FILES).map(without_large_texts).collect(),
        ..audit_record.entry
    };
    write_beside(&AuditRecord { entry, ..audit_record }, services);
}

/// A change of a file, with the digests alone where its texts are too large to be compared.
fn without_large_texts(mut change: FileChange) -> FileChange {
    let is_large = |side: &Side| matches!(side, Side::Text { text, .. } if text.len() > COMMAND_TEXT);
    if is_large(&change.before) || is_large(&change.after) {
        for side in [&mut change.before, &mut change.after] {
            if let Side::Text { digest, .. } = side {
                *side = Side::Opaque(*digest);
            }
        }
    }
    change
}

/// An edit that the server's end interrupted turned out to have been made.
pub(super) async fn settled(
    (audit_record, author): (Option<AuditRecord>, Author),
    edit: &PlannedEdit,
    found: &[Option<Digest>],
    services: &Arc<EngineServices>,
) {
    let happened = edit.places().iter().map(|(_, _, after)| *after).eq(found.iter().copied());
    let Some(mut audit_record) = audit_record.filter(|_| happened && services.traces_edits()) else { return };
    audit_record.entry.files = changes_of(edit, author, services);
    write_if_missing(audit_record, services).await;
}

/// The last edit of each task, where the server may have been killed before its record was in the trace: any edit before
/// waited for that.
#[derive(Default)]
pub(super) struct LastEdits(HashMap<TaskId, AuditRecord>);

impl LastEdits {
    /// Looks at the next record of a log, and the state that it is about to change.
    pub(super) fn see(&mut self, tree: Option<&Tree>, record: &Record<Event>, services: &EngineServices) {
        if let Event::Forked { .. } = &record.event {
            // They are the other request's, which records them itself.
            self.0.clear();
        }
        let Event::ToolFinished { result, .. } = &record.event else { return };
        let Some(tree) = tree.filter(|_| result.status == ToolStatus::Ok) else { return };
        let reaches_workspace = |task: &&Task| tree.folder_of(task).is_none();
        let task = tree.task(&record.task_id).filter(reaches_workspace);
        let edit = task.and_then(|task| Some((task, task.edit_in_progress()?)));
        if let Some((task, edit)) = edit
            // A write that changed nothing is none.
            && edit.places().iter().any(|(_, before, after)| before != after)
            && let Some(mut audit_record) = begin(task, tree, services)
        {
            audit_record.entry.at = record.at;
            audit_record.entry.files = changes_of(edit, author_of(task), services);
            self.0.insert(record.task_id.clone(), audit_record);
        }
    }
}

/// Puts the edits into the trace that it does not have yet. Returns at once.
pub(super) fn recover(LastEdits(edits): LastEdits, services: &Arc<EngineServices>) {
    let services = Arc::clone(services);
    tokio::spawn(async move {
        for edit in edits.into_values() {
            write_if_missing(edit, &services).await;
        }
    });
}

/// Puts the commands and the calls of servers into the trace that ran when the server ended. What they did until then is
/// not known, so their records name no files. Returns at once.
pub(super) fn recover_interrupted(tree: &Tree, services: &Arc<EngineServices>) {
    let mut cut_off = Vec::new();
    for task in tree.tasks() {
        if task.runs_command_or_server()
            && let Some(mut audit_record) = begin(task, tree, services)
        {
            let line = match task.current_call().map(roo_catalog::parse) {
                Some(Ok(Invocation::ExecuteCommand(command))) => Some(command.command),
                _ => None,
            };
            audit_record.entry.command = line.map(|line| cut_off_run(&line));
            cut_off.push(audit_record);
        }
        for command in task.commands.running() {
            let call = (ToolName::ExecuteCommand.as_str().to_owned(), command.call_id.clone());
            let decision = Decision { by: "rule".to_owned(), ..Decision::default() };
            let run = Some(cut_off_run(&command.line));
            let entry = Entry { command: run, ..entry(task, tree, call, decision, services) };
            cut_off.push(AuditRecord { entry, intent: task.intents.bound.clone() });
        }
    }
    if cut_off.is_empty() {
        return;
    }
    let services = Arc::clone(services);
    tokio::spawn(async move {
        for mut audit_record in cut_off {
            audit_record.entry.outcome = TraceOutcome::Interrupted;
            write_if_missing(audit_record, &services).await;
        }
    });
}

/// A run of which nobody saw the end.
fn cut_off_run(line: &str) -> CommandRun {
    CommandRun { digest: Digest::of(line), exit_code: None }
}

/// Leaves changes out that the trace has. It is written before the log, so it may have an edit that the loss of power undid
/// in the log and in the file, or in the buffer of an editor, and that its call has made again. Returns whether any is left.
async fn leave_out_recorded(audit_record: &mut AuditRecord, services: &Arc<EngineServices>) -> bool {
    let (recorder, entry) = (Arc::clone(&services.recorder), &mut audit_record.entry);
    if entry.files.is_empty() {
        return true;
    }
    let (task, call) = (entry.task.to_string(), entry.tool_call_id.to_string());
    let changes = entry.files.clone();
    let missing = roo_durable::spawn_blocking(move || recorder.missing(&task, &call, changes)).await;
    if let Ok(missing) = missing {
        entry.files = missing;
    }
    !entry.files.is_empty()
}

async fn write_if_missing(audit_record: AuditRecord, services: &Arc<EngineServices>) {
    let recorder = Arc::clone(&services.recorder);
    let (task, call) = (audit_record.entry.task.to_string(), audit_record.entry.tool_call_id.to_string());
    let known = roo_durable::spawn_blocking(move || recorder.has(&task, &call)).await;
    if known.is_ok_and(|known| !known) {
        write(audit_record, services).await;
    }
}

/// Records that the user undid changes of a task, or restored files.
pub(super) async fn undone(
    task: &Task,
    tree: &Tree,
    call: (&str, ToolCallId),
    by: &str,
    files: Vec<FileChange>,
    services: &Arc<EngineServices>,
) {
    write(by_user(task, tree, call, by, files, services), services).await;
}

/// As [`undone`], unless the trace has that already.
pub(super) async fn undone_if_missing(
    task: &Task,
    tree: &Tree,
    call: (&str, ToolCallId),
    by: &str,
    files: Vec<FileChange>,
    services: &Arc<EngineServices>,
) {
    write_if_missing(by_user(task, tree, call, by, files, services), services).await;
}

fn by_user(
    task: &Task,
    tree: &Tree,
    (action, call): (&str, ToolCallId),
    by: &str,
    files: Vec<FileChange>,
    services: &EngineServices,
) -> AuditRecord {
    let rule = Some(format!("{action} ({by})"));
    let decision = Decision { by: "user".to_owned(), rule, ..Decision::default() };
    let entry = Entry { files, ..entry(task, tree, (action.to_owned(), call), decision, services) };
    AuditRecord { entry, intent: task.intents.bound.clone() }
}

/// Returns the author of what the current call writes, as far as its state tells: which lines are the user's is not known
/// any more.
pub(super) fn author_of(task: &Task) -> Author {
    let review =
        task.decided().and_then(|decided| decided.approval).and_then(|given| given.review.as_deref());
    if review.is_some_and(Review::has_edits) { Author::Mixed } else { Author::Ai }
}

/// Returns the changes of an edit, with the texts that are at hand.
fn changes_of(edit: &PlannedEdit, author: Author, services: &EngineServices) -> Vec<FileChange> {
    let side = |digest: Option<Digest>| match digest.map(|digest| (digest, services.workspace.recall(digest)))
    {
        None => Side::Absent,
        Some((digest, Some(text))) => Side::Text { text, digest },
        Some((digest, None)) => Side::Opaque(digest),
    };
    let change = |path: &str, old_path: Option<&str>, before, after| FileChange {
        path: path.to_owned(),
        old_path: old_path.map(str::to_owned),
        before: side(before),
        after: side(after),
        author,
    };
    match edit {
        PlannedEdit::File(write) => vec![change(&write.path, None, write.before, Some(write.after))],
        PlannedEdit::Patch(patch) => {
            let is_moved =
                |path: &str| patch.files.iter().any(|file| file.moved_from.as_deref() == Some(path));
            let before_of =
                |path: &str| patch.files.iter().find(|file| file.path == path).and_then(|file| file.before);
            let told = patch.files.iter().filter(|file| !is_moved(&file.path));
            told.map(|file| match file.moved_from.as_deref() {
                Some(from) => change(&file.path, Some(from), before_of(from), file.after),
                None => change(&file.path, None, file.before, file.after),
            })
            .collect()
        }
    }
}

/// Puts a record into the trace, and waits until it is durable.
async fn write(audit_record: AuditRecord, services: &Arc<EngineServices>) {
    post::after(&services.recorder, &audit_record);
    settle(services).await;
}

/// Puts the record of an edit into the trace while the task goes on, and makes the file's name durable. The request log
/// is only made durable after the trace ([`traced`]), nothing else is changed meanwhile (the gate waits), and [`recover`]
/// finds in the log what a killed server has left out.
fn write_beside(audit_record: &AuditRecord, services: &Arc<EngineServices>) {
    post::after(&services.recorder, audit_record);
    let services = Arc::clone(services);
    tokio::spawn(async move { settle(&services).await });
}

/// Has a sync of a request's log wait for the trace of what the log tells, and for the contents of its checkpoints.
pub(super) fn traced<T, F: FnOnce() -> T>(
    sync: F,
    request: TaskId,
    services: &Arc<EngineServices>,
) -> impl FnOnce() -> T + use<T, F> {
    let services = Arc::clone(services);
    move || {
        services.checkpoints.settle(&request);
        // What can't be written is told of by the gate, which allows nothing more.
        let _ = services.recorder.settle();
        sync()
    }
}

/// Waits until the trace holds all that happened.
pub(super) async fn settle(services: &EngineServices) {
    let recorder = Arc::clone(&services.recorder);
    // Only a runtime that is ending runs nothing more.
    let settled = roo_durable::spawn_blocking(move || recorder.settle()).await;
    if let Ok(Err(error)) = settled {
        tracing::error!(%error, "the trace is behind");
    }
}
