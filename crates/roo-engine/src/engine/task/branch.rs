//! Communication between a task and its branches, and between a task and its modes.

use std::sync::Arc;

use super::results::finished;
use super::{Branch, Task, todo_items};
use crate::engine::event::{EndState, Event};
use crate::policy::{ModeChange, PlannedBranch};
use roo_catalog::ToolCall;
use roo_formats::modes;
use roo_model::prompts::replies;
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::{MessageId, TaskId, ToolCallId};
use roo_protocol::message::{Message, MessageKind, Say};

/// Maximum number of failures of a subtask with one mode and title.
const SAME_SUBTASK: u32 = 3;

/// The most images of the user that a branch gets, and their length as data URLs: the log has them again for each branch.
const IMAGES: usize = 4;
const IMAGES_BYTES: usize = 8 << 20;

/// The call that opens a branch.
pub(super) fn delegate(task: &Task, call: &ToolCall, plan: PlannedBranch) -> Vec<Event> {
    let failures = task.guard.failures_of(&plan);
    if failures >= SAME_SUBTASK {
        let text = replies::tried_too_often(&plan.mode, &plan.delegation.title, failures);
        return vec![finished(call, ToolStatus::Failed, text, true)];
    }
    let child = TaskId::new(format!("{}.{}", task.id.root(), task.number()));
    vec![Event::Delegated { call_id: call.id.clone(), child, plan: Arc::new(plan) }]
}

/// The switch that a call asked for, and what the model is told of it.
pub(super) fn mode_switch(task: &Task, change: ModeChange, call: &ToolCall) -> (Event, String) {
    let new = change.mode.as_ref().map_or(task.settings.mode.as_str(), |(slug, _)| slug);
    let text = replies::mode_switched(&task.settings.mode, new);
    (mode_switched(task, change, Some(call.id.clone())), text)
}

/// A new mode brings its own profile, but never in place of one that the user chose.
pub(super) fn mode_switched(task: &Task, change: ModeChange, call_id: Option<ToolCallId>) -> Event {
    let keeps = task.settings.pinned && change.mode.is_some();
    let change = if keeps { ModeChange { profile: None, ..change } } else { change };
    Event::ModeSwitched { change, call_id }
}

/// The result of the call that opened a branch, from how the branch ended.
pub(in crate::engine) fn branch_result(
    task: &Task,
    child: &TaskId,
    state: EndState,
    text: Option<&str>,
    worktree: Option<String>,
) -> Option<Event> {
    let Branch { call, plan, .. } = task.open_branches().find(|branch| branch.child == *child)?;
    let title = plan.delegation.title.as_str();
    let text = text.unwrap_or_default();
    let (status, mut text) = match state {
        EndState::Completed => (ToolStatus::Ok, replies::subtask_completed(title, text)),
        EndState::Cancelled => (ToolStatus::Interrupted, replies::subtask_cancelled(title)),
        EndState::Failed => (ToolStatus::Failed, replies::subtask_failed(title, text)),
    };
    if let Some(note) = worktree {
        text.push_str("\n\n");
        text.push_str(&note);
    }
    Some(finished(call, status, text, false))
}

/// The first events of a branch.
pub(in crate::engine) fn first_events(parent: &Task, plan: &PlannedBranch, tree: &str) -> Vec<Event> {
    let message = modes::delegation::render(&plan.delegation, &plan.emoji, &parent.urid, tree);
    let images = parent.conversation.newest_images(IMAGES, IMAGES_BYTES);
    let text = roo_model::prompts::delegated_brief(&roo_model::prompts::DelegatedBrief {
        message: &message,
        urid: &parent.urid,
        task_directory: plan.task_directory.as_deref(),
        context_files: &plan.delegation.context_files,
        images: images.len(),
    });
    let mut events = vec![Event::Created {
        parent: Some(parent.id.clone()),
        urid: parent.urid.clone(),
        mode: plan.mode.clone(),
        emoji: plan.emoji.clone(),
        profile: plan.profile.clone(),
        protocol: plan.protocol,
        title: plan.delegation.title.clone(),
        limits: parent.limits,
        gather: false,
        unread: plan.delegation.context_files.clone(),
        pinned: parent.settings.pinned,
        intent: parent.intents.bound.clone(),
        within: parent.intents.inherited_by_branches(),
        worktree: plan.worktree,
    }];
    if !plan.todos.is_empty() {
        events.push(Event::TodoChanged { items: todo_items(&[], plan.todos.clone()) });
    }
    let message =
        Message { id: MessageId::new("brief"), kind: MessageKind::Say(Say::Text), text: message, images };
    events.push(Event::UserSaid { message, text, mentions: false, hooks: false });
    events
}
