//! The one result that every call has.

use super::batch::ModeSwitch;
use super::{Decider, SAVE_ATTEMPTS, Task};
use crate::engine::event::Event;
use roo_catalog::ToolCall;
use roo_model::prompts::replies;
use roo_model::providers::ToolResult;
use roo_protocol::event::ToolStatus;
use roo_protocol::review::{HunkDecision, ReviewedHunk};
use roo_protocol::task::Usage;

pub(super) fn void_approval(task: &Task) -> Option<Event> {
    task.approval().map(|approval| Event::ApprovalResolved {
        approval_id: approval.approval_id.clone(),
        by: Decider::Server,
        option_id: None,
        text: None,
        review: None,
    })
}

pub(super) fn void_question(task: &Task) -> Option<Event> {
    task.question().map(|question| Event::QuestionAnswered {
        question_id: question.question_id.clone(),
        by: Decider::Server,
        text: None,
        images: vec![],
        mode: None,
        words: None,
    })
}

pub(super) fn turn_failed(task: &Task, error: impl Into<String>, used: Usage) -> Event {
    let (error, total) = (error.into(), task.totals.including(used));
    let (request, cancelled) = (task.totals.requests, task.is_cancelling());
    Event::TurnFailed { request, error, cancelled, total, context: None }
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
        recorded: vec![],
        exit_code: None,
        circle: None,
    }
}

/// The result of a call that the user refused. Its summary has their words as they wrote them.
pub(super) fn refused(call: &ToolCall, text: String, feedback: Option<&str>) -> Event {
    let mut event = finished(call, ToolStatus::Denied, text, false);
    let words = feedback.map(str::trim).filter(|words| !words.is_empty());
    if let (Event::ToolFinished { summary, .. }, Some(words)) = (&mut event, words) {
        *summary = format!("The user refused this call: {words}");
    }
    event
}

/// Summarises a text for the model for people: its first sentence, as the rest says what to do next.
pub(super) fn summary(text: &str) -> String {
    let mut lines = text.lines();
    let mut sentence = || {
        let line = lines.next().unwrap_or_default();
        line.split_inclusive(". ").next().unwrap_or_default().trim_end().to_owned()
    };
    match sentence() {
        // The reason is in the next line.
        first if first == "Nothing was changed." => format!("{first} {}", sentence()).trim_end().to_owned(),
        first => first,
    }
}

/// Adds the user's decisions on the hunks of an edit, which are their words.
pub(super) fn with_review(text: String, status: ToolStatus, review: Option<&[ReviewedHunk]>) -> String {
    match review {
        None => text,
        Some(hunks) => format!("{text}\n{}", replies::reviewed(hunks, status == ToolStatus::Ok)),
    }
}

/// Adds to the summary of an edit how many of its hunks the user took.
pub(super) fn reviewed_summary(summary: &str, hunks: &[ReviewedHunk]) -> String {
    let count = |fits: fn(&HunkDecision) -> bool| hunks.iter().filter(|hunk| fits(&hunk.decision)).count();
    let counts = [
        (count(|decision| *decision == HunkDecision::Accept), "as proposed"),
        (count(|decision| matches!(decision, HunkDecision::Edit { .. })), "edited"),
        (count(|decision| matches!(decision, HunkDecision::Refuse { .. })), "refused"),
    ];
    let counts: Vec<String> = (counts.iter().filter(|(count, _)| *count > 0))
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    format!("{summary} ({} changes: {})", hunks.len(), counts.join(", "))
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
        recorded: vec![],
        exit_code: None,
        circle: None,
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
