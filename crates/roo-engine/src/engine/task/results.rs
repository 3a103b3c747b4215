//! The one result that every call has.

use super::batch::ModeSwitch;
use super::{SAVE_ATTEMPTS, SERVER, Task};
use crate::engine::event::Event;
use roo_catalog::ToolCall;
use roo_model::prompts::replies;
use roo_model::providers::ToolResult;
use roo_protocol::event::ToolStatus;
use roo_protocol::task::Usage;

pub(super) fn void_approval(task: &Task) -> Option<Event> {
    task.approval().map(|approval| Event::ApprovalResolved {
        approval_id: approval.approval_id.clone(),
        by: SERVER.into(),
        option_id: None,
        text: None,
    })
}

pub(super) fn turn_failed(task: &Task, error: impl Into<String>, used: Usage) -> Event {
    let (error, total) = (error.into(), task.totals.with(used));
    Event::TurnFailed { request: task.totals.requests, error, cancelled: task.is_cancelling(), total }
}

pub(super) fn finished(call: &ToolCall, status: ToolStatus, text: String, mistake: bool) -> Event {
    let summary = summary(&text);
    let result = result_of(call, status, text, vec![]);
    Event::ToolFinished {
        summary,
        result,
        seen: vec![],
        mistake,
        ends: None,
        saves: None,
        withheld: None,
        exit_code: None,
    }
}

/// Summarises a text for the model for people: its first sentence, as the rest says what to do next.
pub(super) fn summary(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.split_inclusive(". ").next().unwrap_or_default().trim_end().to_owned()
}

pub(super) fn result_of(
    call: &ToolCall,
    status: ToolStatus,
    text: String,
    images: Vec<String>,
) -> ToolResult {
    let subject = call.subject();
    let text = call.with_note(text);
    ToolResult { call_id: call.id.clone(), name: call.name.clone(), subject, status, text, images }
}

/// The result of a question: what the user answered, and what else the model has to know.
pub(super) fn answered(call: &ToolCall, text: &str, images: &[String], note: &str) -> Event {
    let told = roo_model::prompts::user_message(text) + note;
    Event::ToolFinished {
        summary: text.lines().next().unwrap_or_default().to_owned(),
        result: result_of(call, ToolStatus::Ok, told, images.to_vec()),
        seen: vec![],
        mistake: false,
        ends: None,
        saves: None,
        withheld: None,
        exit_code: None,
    }
}

/// The result of a question whose answer goes with another mode, when that is judged: the answer counts, whatever
/// came of the mode.
pub(super) fn switch_judged(call: &ToolCall, switch: &ModeSwitch, note: &str) -> Event {
    answered(call, &switch.text, &switch.images, &format!("\n{note}"))
}

/// The result of a call that saved context.
pub(super) fn saved(mut finished: Event) -> Event {
    if let Event::ToolFinished { saves, .. } = &mut finished {
        *saves = Some(true);
    }
    finished
}

/// The result of a call that did not save context, with how often it may still be tried.
pub(super) fn not_saved(task: &Task, mut finished: Event) -> Event {
    let attempts = task.unsaved.as_ref().map_or(0, |unsaved| unsaved.attempts) + 1;
    if let Event::ToolFinished { result, saves, .. } = &mut finished {
        let text = result.text.clone();
        result.text = replies::context_not_saved(SAVE_ATTEMPTS.saturating_sub(attempts), &text);
        *saves = Some(false);
    }
    finished
}
