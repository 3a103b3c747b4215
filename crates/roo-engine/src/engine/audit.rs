//! Audit record of a tool call for the hooks that follow it: who did what, for which intent, and by whose leave.

use std::sync::Arc;

use super::effects::EngineServices;
use super::task::{Decided, Task};
use super::tree::Tree;
use crate::policy::post::{self, Deed};
use crate::policy::{PlannedEdit, RefusalRule};
use crate::tools::Outcome;
use roo_catalog::Effect;
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::Digest;
use roo_trace::record::{Author, Decision, Entry, FileChange, Outcome as TraceOutcome, PromptRef, Side};

/// Begins the audit record of the current call; none for one that leaves no trace: looks, and steps of the
/// conversation.
pub(super) fn begin(task: &Task, tree: &Tree, setting: &EngineServices) -> Option<Deed> {
    let call = task.current_call()?;
    if !matches!(call.effect(), Effect::Write | Effect::Execute | Effect::External) {
        return None;
    }
    let profile = setting.settings.profiles.get(&task.profile);
    let model = profile.map(|profile| {
        let name = profile.model.as_deref().unwrap_or("default");
        format!("{}/{name}", profile.provider.as_str())
    });
    let decision = match &task.decided {
        Some(Decided { rule, approval: Some((ask, by, digest)) }) => Decision {
            by: "user".to_owned(),
            rule: Some(format!("{rule} ({by})")),
            ask: Some(ask.clone()),
            digest: Some(*digest),
        },
        Some(Decided { rule, approval: None }) => {
            Decision { by: "rule".to_owned(), rule: Some(rule.clone()), ask: None, digest: None }
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
        mode: task.mode.clone(),
        model,
        intent: None,
        decision,
        sandbox: None,
        files: vec![],
        prompt: root.prompt.clone().map(|id| PromptRef { id, title: root.title.clone() }),
        command: None,
        commit: None,
        violations: vec![],
        server_call: None,
        claimed: None,
    };
    Some(Deed { entry, intent: task.intent.clone() })
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
pub(super) async fn refused(mut deed: Deed, rule: RefusalRule, mistake: bool, setting: &Arc<EngineServices>) {
    if mistake && !rule.traces_mistakes() {
        return;
    }
    deed.entry.outcome = TraceOutcome::Denied;
    deed.entry.decision =
        Decision { by: "rule".to_owned(), rule: Some(rule.to_string()), ask: None, digest: None };
    tell(deed, setting).await;
}

/// The call has run. What only the hooks need is taken out of its outcome.
pub(super) async fn done(deed: Option<Deed>, outcome: &mut Outcome, setting: &Arc<EngineServices>) {
    let changes = std::mem::take(&mut outcome.changes);
    let violations = std::mem::take(&mut outcome.violations);
    let commits = std::mem::take(&mut outcome.commits);
    let Some(mut deed) = deed else { return };
    deed.entry.command = outcome.command.take();
    deed.entry.sandbox = outcome.sandbox.take();
    deed.entry.server_call = outcome.server_call.take();
    deed.entry.outcome = match outcome.status {
        _ if !violations.is_empty() => TraceOutcome::ScopeViolation,
        ToolStatus::Ok => TraceOutcome::Ok,
        ToolStatus::Interrupted => TraceOutcome::Interrupted,
        // The user took nothing of what they were shown.
        ToolStatus::Denied => TraceOutcome::Denied,
        ToolStatus::Failed | ToolStatus::Skipped => TraceOutcome::Failed,
    };
    // A write that changed nothing is none.
    let is_nothing = changes.is_empty() && deed.entry.command.is_none() && deed.entry.server_call.is_none();
    if is_nothing && deed.entry.outcome == TraceOutcome::Ok {
        return;
    }
    deed.entry.violations = violations;
    if deed.entry.command.is_none() {
        deed.entry.files = changes;
        return tell(deed, setting).await;
    }
    // One record for the run, one for each file that it changed and each commit that it made. These are there,
    // whatever became of other files; where the run was cut off, nobody knows whether they are whole.
    let outcome = match deed.entry.outcome {
        TraceOutcome::Interrupted => TraceOutcome::Interrupted,
        _ => TraceOutcome::Ok,
    };
    let further = Deed {
        entry: Entry { command: None, violations: vec![], outcome, ..deed.entry.clone() },
        ..deed.clone()
    };
    tell(deed, setting).await;
    if !changes.is_empty() {
        let entry = Entry { files: changes, ..further.entry.clone() };
        tell(Deed { entry, ..further.clone() }, setting).await;
    }
    for commit in commits {
        let entry = Entry { commit: Some(commit), ..further.entry.clone() };
        tell(Deed { entry, ..further.clone() }, setting).await;
    }
}

/// An edit that the server's end interrupted turned out to have been made.
pub(super) async fn settled(
    deed: Option<Deed>,
    edit: &PlannedEdit,
    found: &[Option<Digest>],
    setting: &Arc<EngineServices>,
) {
    let happened = edit.places().iter().map(|(_, _, after)| *after).eq(found.iter().copied());
    let Some(mut deed) = deed.filter(|_| happened) else { return };
    let recorder = Arc::clone(&setting.recorder);
    let (task, call) = (deed.entry.task.to_string(), deed.entry.tool_call_id.to_string());
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
    deed.entry.files = match edit {
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
    tell(deed, setting).await;
}

async fn tell(deed: Deed, setting: &Arc<EngineServices>) {
    let recorder = Arc::clone(&setting.recorder);
    // Only a runtime that is ending runs nothing more.
    let _ = tokio::task::spawn_blocking(move || post::after(&recorder, &deed)).await;
}
