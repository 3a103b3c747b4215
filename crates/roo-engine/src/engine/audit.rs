//! Audit record of a tool call for the hooks that follow it: who did what, for which intent, and by whose leave.

use std::sync::Arc;

use super::effects::EngineServices;
use super::task::{Decided, GivenApproval, Task};
use super::tree::Tree;
use crate::policy::post::{self, AuditRecord};
use crate::policy::{PlannedEdit, RefusalRule};
use crate::tools::Outcome;
use roo_catalog::Effect;
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::Digest;
use roo_trace::record::{Author, Decision, Entry, FileChange, Outcome as TraceOutcome, PromptRef, Side};

/// Begins the audit record of the current call; none for one that leaves no trace: looks, and steps of the
/// conversation.
pub(super) fn begin(task: &Task, tree: &Tree, setting: &EngineServices) -> Option<AuditRecord> {
    let call = task.current_call()?;
    if !matches!(call.effect(), Effect::Write | Effect::Execute | Effect::External) {
        return None;
    }
    let profile = setting.settings.profiles.get(&task.settings.profile);
    let model = profile.map(|profile| {
        let name = profile.model.as_deref().unwrap_or("default");
        format!("{}/{name}", profile.provider.as_str())
    });
    let decision = match task.decided() {
        Some(Decided { rule, approval: Some(GivenApproval { id, by, digest }) }) => Decision {
            by: "user".to_owned(),
            rule: Some(format!("{rule} ({by})")),
            ask: Some(id.clone()),
            digest: Some(*digest),
        },
        Some(Decided { rule, approval: None }) => {
            Decision { by: "rule".to_owned(), rule: Some(rule.to_owned()), ask: None, digest: None }
        }
        None => Decision { by: "rule".to_owned(), ..Decision::default() },
    };
    let root = tree.root();
    let entry = Entry {
        at: setting.clock.now(),
        outcome: TraceOutcome::Ok,
        tool_call: call.name.clone(),
        tool_call_id: call.id.clone(),
        task: task.id.clone(),
        parent_task: task.parent.clone(),
        urid: task.urid.clone(),
        mode: task.settings.mode.clone(),
        model,
        intent: None,
        decision,
        sandbox: None,
        files: vec![],
        prompt: root.prompt.clone().map(|id| PromptRef { id, title: root.title().to_owned() }),
        command: None,
        commit: None,
        violations: vec![],
        server_call: None,
        claimed: None,
    };
    Some(AuditRecord { entry, intent: task.intents.bound.clone() })
}

/// An edit is about to replace and to write these texts. What the trace tells of them is found meanwhile.
pub(super) fn look_ahead(texts: Vec<(String, String)>, setting: &Arc<EngineServices>) {
    if !texts.is_empty() {
        let recorder = Arc::clone(&setting.recorder);
        // Whoever puts the edit down waits for what is still being found.
        tokio::task::spawn_blocking(move || recorder.look_ahead(&texts));
    }
}

/// The gate refused the call.
pub(super) async fn refused(
    mut audit_record: AuditRecord,
    rule: RefusalRule,
    mistake: bool,
    setting: &Arc<EngineServices>,
) {
    if mistake && !rule.traces_mistakes() {
        return;
    }
    audit_record.entry.outcome = TraceOutcome::Denied;
    audit_record.entry.decision =
        Decision { by: "rule".to_owned(), rule: Some(rule.to_string()), ask: None, digest: None };
    tell(audit_record, setting).await;
}

/// The call has run. What only the hooks need is taken out of its outcome.
pub(super) async fn done(
    audit_record: Option<AuditRecord>,
    outcome: &mut Outcome,
    setting: &Arc<EngineServices>,
) {
    let changes = std::mem::take(&mut outcome.changes);
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
    // A write that changed nothing is none.
    let is_nothing = changes.is_empty()
        && audit_record.entry.command.is_none()
        && audit_record.entry.server_call.is_none();
    if is_nothing && audit_record.entry.outcome == TraceOutcome::Ok {
        return;
    }
    audit_record.entry.violations = violations;
    if audit_record.entry.command.is_none() {
        audit_record.entry.files = changes;
        return tell(audit_record, setting).await;
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
    tell(audit_record, setting).await;
    if !changes.is_empty() {
        let entry = Entry { files: changes, ..further.entry.clone() };
        tell(AuditRecord { entry, ..further.clone() }, setting).await;
    }
    for commit in commits {
        let entry = Entry { commit: Some(commit), ..further.entry.clone() };
        tell(AuditRecord { entry, ..further.clone() }, setting).await;
    }
}

/// An edit that the server's end interrupted turned out to have been made.
pub(super) async fn settled(
    audit_record: Option<AuditRecord>,
    edit: &PlannedEdit,
    found: &[Option<Digest>],
    setting: &Arc<EngineServices>,
) {
    let happened = edit.places().iter().map(|(_, _, after)| *after).eq(found.iter().copied());
    let Some(mut audit_record) = audit_record.filter(|_| happened) else { return };
    let recorder = Arc::clone(&setting.recorder);
    let (task, call) = (audit_record.entry.task.to_string(), audit_record.entry.tool_call_id.to_string());
    // It may have been put down before the end.
    let known = tokio::task::spawn_blocking(move || recorder.has(&task, &call)).await;
    if known.unwrap_or(true) {
        return;
    }
    let side = |digest: Option<Digest>| match digest.map(|digest| (digest, setting.workspace.recall(digest)))
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
        author: Author::Ai,
    };
    audit_record.entry.files = match edit {
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
    };
    tell(audit_record, setting).await;
}

async fn tell(audit_record: AuditRecord, setting: &Arc<EngineServices>) {
    let recorder = Arc::clone(&setting.recorder);
    // Only a runtime that is ending runs nothing more.
    let _ = tokio::task::spawn_blocking(move || post::after(&recorder, &audit_record)).await;
}
