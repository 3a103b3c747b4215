//! A task as a Markdown document for a terminal or a file: its head, the tree of its request, its conversation and what it
//! waits for. Pure.

use std::fmt::Write as _;

use super::transcript::plain;
use crate::markdown::fenced_whole;
use crate::view::{
    CallResult, CallTarget, MessageRole, Passage, PastCall, Prompt, RequestView, context_line, conversation,
    draw_tree, shortened_line, state_with_number,
};
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::TaskId;
use roo_protocol::task::{ForkOrigin, ImportOrigin, TaskSnapshot, TaskState, Usage};
use roo_protocol::tree::TreeNode;
use roo_text::render::{one_line, visible};

/// The longest title, or name of a call, in characters.
const TITLE: usize = 200;
/// The longest outcome of a call, in characters.
const OUTCOME: usize = 400;

/// Formats a task. `view` has what the task waits for.
pub(super) fn render(view: &RequestView, task: &TaskSnapshot) -> String {
    let mut text = head(view, task);
    let nodes = view.tree().nodes();
    if nodes.len() > 1 {
        let _ = write!(text, "\n## Branches\n\n{}\n", fenced(&tree(nodes, &task.item.task_id)));
    }
    text.extend(conversation(task).map(|passage| section(&passage)));
    for (_, prompt) in view.prompts().filter(|(owner, _)| **owner == task.item.task_id) {
        let _ = match prompt {
            Prompt::Approval(approval) => {
                let (title, subject) = (one_line(&approval.title, TITLE), fenced(&approval.subject));
                write!(text, "\n## Waits for permission: {title}\n\n{subject}\n")
            }
            Prompt::Question(question) => {
                write!(text, "\n## Waits for an answer\n\n{}\n", visible(&question.text))
            }
        };
    }
    text
}

/// Formats a state, for an interrupted task with what it or one of its branches waits for.
pub(super) fn state_label(view: &RequestView, state: TaskState) -> String {
    let name = state.as_str();
    match view.prompts().next().filter(|_| state == TaskState::Interrupted) {
        Some((_, Prompt::Approval(_))) => format!("{name}, waits for permission"),
        Some((_, Prompt::Question(_))) => format!("{name}, waits for an answer"),
        None => name.to_owned(),
    }
}

/// Draws a tree with states and numbers; a branch that is looked at is marked.
pub(super) fn tree(nodes: &[TreeNode], task: &TaskId) -> String {
    draw_tree(nodes, Some(task).filter(|task| !task.is_root()), state_with_number)
}

fn head(view: &RequestView, task: &TaskSnapshot) -> String {
    let item = &task.item;
    let mut text = format!("# {}\n\n", one_line(&item.title, TITLE));
    let _ = writeln!(text, "- URID: {}\n- Task: {}", item.urid, item.task_id);
    let _ = writeln!(text, "- Mode: {}\n- State: {}", item.mode, state_label(view, item.state));
    let _ = writeln!(text, "- Tokens: {}", used(item.usage));
    if let Some(ForkOrigin { urid, seq, usage, .. }) = &item.forked_from {
        let _ = writeln!(text, "- Forked from: {urid} at event {seq}, which had used {}", used(*usage));
    }
    if let Some(ImportOrigin { program, task_id, parent_task_id, child_task_ids, .. }) = &item.imported_from {
        let _ = writeln!(
            text,
            "- Imported from: {}, task {}",
            one_line(program, TITLE),
            one_line(task_id, TITLE)
        );
        if let Some(parent) = parent_task_id {
            let _ = writeln!(text, "- Delegated there by: task {}", one_line(parent, TITLE));
        }
        for child in child_task_ids {
            let _ = writeln!(text, "- Delegated there to: task {}", one_line(child, TITLE));
        }
    }
    if let Some(context) = task.context {
        let _ = writeln!(text, "- {}", context_line(&context));
    }
    for one in &task.shortenings {
        let line = shortened_line(one.method, one.tokens_before, one.tokens_after, 0.0);
        let _ = writeln!(text, "- {line}{}", if one.restored { " (undone)" } else { "" });
    }
    text
}

/// Formats what was used in a line. Without a known price there is no cost.
fn used(usage: Usage) -> String {
    let Usage { tokens_in, tokens_out, cache_reads, cost_usd, .. } = usage;
    let cost = if cost_usd > 0.0 { format!("; ${cost_usd:.4}") } else { String::new() };
    format!("{tokens_in} in, {tokens_out} out, {cache_reads} from cache{cost}")
}

fn section(passage: &Passage<'_>) -> String {
    let message = &passage.message.text;
    let text = visible(message);
    match (passage.role, &passage.call) {
        (MessageRole::Prompt, _) => format!("\n## Prompt\n\n{text}\n"),
        // The tree in it is drawn with spaces.
        (MessageRole::Brief, _) => format!("\n## Brief\n\n{}\n", fenced(&plain(message))),
        (MessageRole::Answer, _) => format!("\n{text}\n"),
        (MessageRole::Reasoning, _) => {
            format!("\n<details><summary>Thinking</summary>\n\n{text}\n\n</details>\n")
        }
        (MessageRole::Feedback, _) => format!("\n## User\n\n{text}\n"),
        (MessageRole::Result, _) => format!("\n## Result\n\n{text}\n"),
        (MessageRole::Note, _) => format!("\n> ! {}\n", text.trim().replace('\n', "\n> ")),
        (MessageRole::FinalError, _) => format!("\n## Failure\n\n{text}\n"),
        (MessageRole::Call | MessageRole::Command, Some(call)) => called(call),
        (MessageRole::Question, _) => format!("\n> {}\n", text.replace('\n', "\n> ")),
        (MessageRole::Call | MessageRole::Command | MessageRole::Internal, _) => String::new(),
    }
}

/// Formats a call, what it gave its tool, and what came of it.
fn called(PastCall { target, body, result, ends_task }: &PastCall<'_>) -> String {
    if *ends_task {
        return String::new();
    }
    let CallTarget { name, subject, .. } = target;
    let mut text = if target.is_command() {
        format!("\n{}\n", fenced(&format!("$ {subject}")))
    } else {
        format!("\n**{}**\n", one_line(format!("{name} {subject}").trim(), TITLE))
    };
    if let Some(body) = body {
        let _ = write!(text, "\n{}\n", fenced(body));
    }
    if let Some(result) = result {
        let _ = write!(text, "\n{}\n", outcome(*result));
    }
    text
}

/// Formats the outcome of a call in a line.
fn outcome(result: CallResult<'_>) -> String {
    let why = match result.status {
        ToolStatus::Ok | ToolStatus::Failed => "",
        ToolStatus::Denied => " not allowed:",
        ToolStatus::Skipped => " not run:",
        ToolStatus::Interrupted => " interrupted:",
    };
    format!("{}{why} {}", result.ending().mark(), one_line(result.summary, OUTCOME))
}

fn fenced(text: &str) -> String {
    fenced_whole("", text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_task_is_written_with_all_that_was_said_and_done() {
        let tool = |payload: serde_json::Value| payload.to_string();
        let task = TaskId::new("t");
        let messages = json!([
            { "id": "m1", "say": "text", "text": "Fix it." },
            { "id": "r1", "say": "api_req_started", "text": "{\"request\":1}" },
            { "id": "r1.b0", "say": "reasoning", "text": "Hm." },
            { "id": "r1.b1", "say": "text", "text": "I look." },
            { "id": "r1.b2", "say": "tool", "text": tool(json!({ "tool": "appliedDiff", "path": "a", "diff": "-x\n+```\n" })) },
            { "id": "r1.b3", "say": "tool", "text": tool(json!({ "tool": "editedExistingFile", "path": "../b" })) },
            { "id": "r1.b4", "ask": "command", "text": "exit 3" },
            { "id": "c4", "say": "command_output", "text": "not shown" },
            { "id": "m9", "say": "user_feedback", "text": "Go on." },
            { "id": "hooks.9", "say": "error", "text": "A hook failed." },
            { "id": "r2.b0", "say": "tool", "text": tool(json!({ "tool": "readFile", "path": "c" })) },
            { "id": "r2.b1", "ask": "followup", "text": "One?\nOr two?" },
            { "id": "r2.b2", "say": "tool", "text": tool(json!({ "tool": "finishTask" })) },
        ]);
        let call = |message: &str, name: &str, subject: &str, status: &str, summary: &str| json!({ "messageId": message, "name": name, "subject": subject, "status": status, "summary": summary });
        let mut failed = call("r1.b4", "execute_command", "exit 3", "ok", "exit code 3");
        failed["exitCode"] = json!(3);
        let snapshot: TaskSnapshot = serde_json::from_value(json!({
            "taskId": task, "urid": "20260102-03-04-0a0b0c0d", "title": "Fix it.", "mode": "code",
            "state": "interrupted", "createdAt": 0, "updatedAt": 0, "seq": 9, "rootId": task, "todo": [], "queue": [],
            "toolUsage": {},
            "usage": { "tokensIn": 10, "tokensOut": 2, "cacheReads": 0, "cacheWrites": 0, "costUsd": 0.5 },
            "messages": messages,
            "calls": [
                call("r1.b2", "apply_diff", "a", "ok", "1 change"),
                call("r1.b3", "write_to_file", "../b", "denied", "outside"),
                failed,
                call("r2.b2", "attempt_completion", "", "skipped", "a message waits"),
            ],
            "question": { "questionId": "t.q9", "kind": "followup", "text": "One?\nOr two?", "suggestions": [] },
        }))
        .unwrap();
        let mut view = RequestView::default();
        view.add_task(&snapshot);
        insta::assert_snapshot!(render(&view, &snapshot));
    }
}
