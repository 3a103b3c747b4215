//! The command that says what is at work and what waits.

use serde_json::json;
use tower_lsp::jsonrpc::Result;

use super::super::session::MESSAGE;
use super::call::{CommandCall, CommandOutcome};
use super::lookup::{WaitingTask, list, waiting};
use crate::view::outline;
use roo_protocol::task::{TaskSnapshot, TaskState};
use roo_text::render::one_line;

pub(super) async fn status(call: CommandCall<'_>) -> Result<CommandOutcome> {
    let CommandCall { session, services, .. } = call;
    let items = list(services).await?;
    let count = |state| items.iter().filter(|item| item.state == state).count();
    let at_work = [TaskState::Running, TaskState::Paused, TaskState::Interrupted];
    let mut parts: Vec<String> = at_work
        .into_iter()
        .map(|state| (count(state), state.as_str()))
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    let asks = |task: &TaskSnapshot| task.approval.is_some() || task.question.is_some();
    if let Some(WaitingTask { task, branch }) = waiting(services, asks).await? {
        let asks = match (&task.approval, &task.question) {
            (Some(approval), _) => {
                session.shown_approvals.note(approval);
                let what = one_line(&approval.title, MESSAGE);
                format!("{what} (roo.approve, roo.deny, roo.showDiff)")
            }
            (None, Some(question)) => format!("{} (roo.answer)", question.text),
            (None, None) => String::new(),
        };
        let who = branch.map(|branch| format!("{branch}: ")).unwrap_or_default();
        parts.push(format!("{} waiting: {who}{asks}", count(TaskState::Waiting).max(1)));
    }
    let mut text = if parts.is_empty() { "nothing is running".to_owned() } else { parts.join(", ") };
    let live = [TaskState::Running, TaskState::Waiting, TaskState::Paused];
    for item in items.iter().filter(|item| live.contains(&item.state)) {
        // Deleted in between, or one task alone: there is nothing to add.
        if let Ok(tree) = services.engine.tree(&item.task_id).await
            && tree.nodes.len() > 1
        {
            text = format!("{text}\n{}", outline(&tree.nodes));
        }
    }
    Ok(CommandOutcome::told(json!({ "text": text, "items": items }), text.clone()))
}
