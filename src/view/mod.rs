//! A request as front ends show it: its events folded into tasks, the tree of branches, what is open and what waits for
//! the user. Pure, and the same for the same events, however they come in.
//!
//! The view holds what is so now. What happened is handed out once, as an [`Update`] with all that it refers to (the
//! approval that was answered, the call that has ended), and is not kept: a front end appends it to a page or prints it.
//! How anything looks is no business of this module; it names neither Markdown nor colours.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod approval_end;
mod context;
mod conversation;
mod message;
mod retry;
mod task;
mod tool;
mod tree;
mod update;

#[cfg(test)]
pub(crate) mod recorded_tests;

pub(crate) use self::approval_end::{ApprovalEnd, VOID_LINE, approval_end, ruled_line};
pub(crate) use self::context::{context_line, kept_line, restored_line, shortened_line, shortening_line};
pub(crate) use self::conversation::{Passage, PastCall, conversation};
pub(crate) use self::message::{MessageRole, StreamingMessage};
pub(crate) use self::retry::retry_line;
pub(crate) use self::task::{BackgroundCommand, Prompt, TaskView};
pub(crate) use self::tool::{CallEnding, CallResult, CallTarget, RunningCall};
pub(crate) use self::tree::{
    BranchTree, branch_name, draw_tree, newest_tree, outline, state_label, state_with_number, waits_for_user,
};
pub(crate) use self::update::{RECOVERED, Update};

use std::collections::HashMap;

use self::message::checkpoint_of;
use roo_protocol::event::{DegradedUntil, Event, EventParams, Verdict};
use roo_protocol::ids::{MessageId, TaskId, ToolCallId};
use roo_protocol::message::{Message, MessageKind, Say};
use roo_protocol::task::{TaskSnapshot, TaskState};
use roo_protocol::tree::TreeNode;

/// Something that is not over.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OpenItem {
    /// A message that is still being written.
    Message(StreamingMessage),
    /// A call that runs.
    Call(RunningCall),
    /// Something that waits for the user.
    Prompt(Prompt),
}

/// The state of one request.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestView {
    tasks: Vec<TaskView>,
    tree: BranchTree,
    /// In the order in which they began.
    open: Vec<(TaskId, OpenItem)>,
    /// Targets of the calls without a result, also those of a task that has stopped: their results come when it goes on.
    calls: HashMap<(TaskId, ToolCallId), CallTarget>,
    commands: Vec<BackgroundCommand>,
    warnings: Vec<Warning>,
}

/// A state of reduced function that is not over.
#[derive(Clone, Debug, PartialEq)]
struct Warning {
    reason: String,
    until: Option<DegradedUntil>,
}

impl RequestView {
    /// Adds a task as the engine returns it at once, with what it waits for.
    pub(crate) fn add_task(&mut self, task: &TaskSnapshot) {
        let id = &task.item.task_id;
        let node = self.tree.nodes().iter().find(|node| node.id == *id);
        self.tasks.push(TaskView::of_snapshot(task, node));
        let approval = task.approval.clone().map(Prompt::Approval);
        let question = task.question.clone().map(Prompt::Question);
        let prompts = approval.into_iter().chain(question);
        self.open.extend(prompts.map(|prompt| (id.clone(), OpenItem::Prompt(prompt))));
    }

    /// All tasks whose beginning was seen, parents before children.
    pub(crate) fn tasks(&self) -> &[TaskView] {
        &self.tasks
    }

    /// The task of this id.
    pub(crate) fn task(&self, id: &TaskId) -> Option<&TaskView> {
        self.tasks.iter().find(|task| task.id == *id)
    }

    /// The request's own task.
    pub(crate) fn root(&self) -> Option<&TaskView> {
        self.tasks.first()
    }

    /// The branches as the server draws them.
    pub(crate) fn tree(&self) -> &BranchTree {
        &self.tree
    }

    /// Takes in a tree, also one that came another way than by an event.
    pub(crate) fn set_tree(&mut self, nodes: &[TreeNode]) {
        self.tree.set(nodes);
        for node in nodes {
            // Events tell how a task came to its state; the tree is the server's word on what that is.
            if self.task(&node.id).is_some_and(|task| task.state != node.state) {
                self.set_state(&node.id, node.state, None);
            }
        }
    }

    /// Returns everything that is not over, in the order in which it began.
    pub(crate) fn open(&self) -> impl Iterator<Item = (&TaskId, &OpenItem)> {
        self.open.iter().map(|(task, item)| (task, item))
    }

    /// Returns the prompts that wait for the user, oldest first.
    pub(crate) fn prompts(&self) -> impl Iterator<Item = (&TaskId, &Prompt)> {
        self.open.iter().filter_map(|(task, item)| match item {
            OpenItem::Prompt(prompt) => Some((task, prompt)),
            _ => None,
        })
    }

    /// The commands in the background.
    pub(crate) fn commands(&self) -> &[BackgroundCommand] {
        &self.commands
    }

    /// Returns whether a call without a result runs a command.
    pub(crate) fn is_command(&self, task: &TaskId, call: &ToolCallId) -> bool {
        self.calls.get(&(task.clone(), call.clone())).is_some_and(CallTarget::is_command)
    }

    /// The task that runs a command in the foreground.
    pub(crate) fn runs_command(&self) -> Option<&TaskId> {
        self.open.iter().find_map(|(task, item)| match item {
            OpenItem::Call(call) if call.target.is_command() => Some(task),
            _ => None,
        })
    }

    /// The warnings of the server about the request that are not over, oldest first.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = &str> {
        self.warnings.iter().map(|warning| warning.reason.as_str())
    }

    /// Applies an event, and returns what it says; nothing for an event that only a newer server knows.
    pub(crate) fn apply<'e>(&mut self, params: &'e EventParams) -> Option<Update<'e>> {
        let task = &params.task_id;
        Some(match &params.event {
            Event::TaskCreated { parent_id, urid, mode, title, emoji } => {
                self.tasks.push(TaskView::new(task, parent_id.as_ref(), mode, title, emoji));
                Update::Created { urid, mode, title }
            }
            Event::TaskForked { urid, title, from } => {
                self.tasks.iter_mut().for_each(TaskView::begin_fork);
                self.commands.clear();
                if let Some(view) = self.task_mut(task) {
                    view.title.clone_from(title);
                }
                Update::Forked { urid, from }
            }
            Event::TaskImported { from } => Update::Imported { from },
            Event::TaskState { state, result, reason, usage, tool_usage } => {
                self.set_state(task, *state, reason.as_deref());
                if let Some(view) = self.task_mut(task) {
                    view.end(result.as_deref(), *usage, tool_usage);
                }
                self.stop(task, *state);
                Update::State { state: *state, result: result.as_deref(), reason: reason.as_deref() }
            }
            Event::Message { message } => self.message(task, message, params.seq),
            Event::MessageDelta { id, say, offset, text } => {
                self.grow(task, id, *say, *offset, text);
                Update::MessageGrows { id, say: *say, offset: *offset, text }
            }
            Event::ToolOutput { tool_call_id, text, .. } => {
                if let Some(call) = self.running_mut(task, tool_call_id) {
                    call.add_output(text);
                }
                Update::CallOutput { call: tool_call_id, text }
            }
            Event::ToolStarted { tool_call_id, name, subject } => {
                let target = CallTarget::new(name, subject);
                self.start_call(task, tool_call_id, target.clone());
                Update::CallStarted { call: tool_call_id, target }
            }
            Event::ToolFinished { tool_call_id, status, summary, exit_code, .. } => {
                let target = self.finish_call(task, tool_call_id);
                let result = CallResult { status: *status, summary, exit_code: *exit_code };
                Update::CallFinished { call: tool_call_id, target, result }
            }
            Event::CommandBackgrounded { command_id, command, .. } => {
                self.commands.push(BackgroundCommand { id: command_id.clone(), line: command.clone() });
                Update::CommandBackgrounded { command: command_id, line: command }
            }
            Event::CommandEnded { command_id, status, summary, exit_code, .. } => {
                self.commands.retain(|command| command.id != *command_id);
                let result = CallResult { status: *status, summary, exit_code: *exit_code };
                Update::CommandEnded { command: command_id, result }
            }
            Event::GateDecided { verdict: Verdict::Deny, rule, .. } => Update::CallRefused { rule },
            Event::GateDecided { .. } => Update::Silent,
            Event::ApprovalRequested { approval } => {
                self.ask(task, Prompt::Approval(approval.clone()));
                Update::ApprovalRequested(approval)
            }
            Event::ApprovalResolved { approval_id, by, rule_id, option_id, .. } => {
                let approval = self.take_prompt(approval_id.as_str()).and_then(Prompt::approval);
                let (option_id, rule) = (option_id.as_deref(), rule_id.as_deref());
                Update::ApprovalResolved { approval, by, option_id, rule }
            }
            Event::QuestionAsked { question } => {
                self.ask(task, Prompt::Question(question.clone()));
                Update::QuestionAsked(question)
            }
            Event::QuestionAnswered { question_id, by, text } => {
                let question = self.take_prompt(question_id.as_str()).and_then(Prompt::question);
                Update::QuestionAnswered { question, by, text: text.as_deref() }
            }
            Event::EditApplied { uri, .. } => Update::Edited { uri },
            Event::ModeSwitched { mode, profile } => {
                if let Some(view) = self.task_mut(task) {
                    view.switch(mode.as_deref(), profile.as_deref());
                }
                Update::Switched { mode: mode.as_deref(), profile: profile.as_deref() }
            }
            Event::IntentSelected { intent_id, name, .. } => Update::IntentSelected { id: intent_id, name },
            Event::TodoChanged { items } => {
                if let Some(view) = self.task_mut(task) {
                    view.todo.clone_from(items);
                }
                Update::Todo(items)
            }
            Event::QueueChanged { items } => {
                if let Some(view) = self.task_mut(task) {
                    view.queue.clone_from(items);
                }
                Update::Silent
            }
            Event::Usage { total, context } => {
                if let Some(view) = self.task_mut(task) {
                    view.usage = *total;
                    view.context = context.or(view.context);
                }
                Update::Silent
            }
            Event::RestoreStarted { seq, what, files, by: _ } => {
                Update::RestoreStarted { seq: *seq, what: *what, files: files.len() }
            }
            Event::RestoreFinished { done: false, reason, .. } => {
                Update::RestoreFailed { reason: reason.as_deref().unwrap_or_default() }
            }
            Event::RestoreFinished { .. } => Update::Silent,
            Event::ContextShortening { method } => Update::ContextShortening { method: *method },
            Event::ContextShortened { method, tokens_before, tokens_after, cost_usd, .. } => {
                Update::ContextShortened {
                    method: *method,
                    tokens_before: *tokens_before,
                    tokens_after: *tokens_after,
                    cost_usd: *cost_usd,
                }
            }
            Event::ContextKept { reason } => Update::ContextKept { reason },
            Event::ContextRestored { tokens_before, tokens_after, .. } => {
                Update::ContextRestored { tokens_before: *tokens_before, tokens_after: *tokens_after }
            }
            Event::RetryScheduled { at, attempt, reason } => {
                Update::RetryScheduled { at: *at, attempt: *attempt, reason }
            }
            Event::ServerDegraded { reason, until } => {
                self.warn(Warning { reason: reason.clone(), until: *until });
                Update::Warning { reason }
            }
            Event::ServerRecovered => {
                self.warnings.retain(|warning| warning.until.is_none());
                Update::Recovered
            }
            Event::TreeChanged { nodes } => {
                self.set_tree(nodes);
                Update::Tree
            }
            Event::Unknown => return None,
        })
    }

    /// Adds a warning in place of the one that ends with it, or that says the same.
    fn warn(&mut self, warning: Warning) {
        self.warnings.retain(|known| {
            known.until != warning.until || (known.until.is_none() && known.reason != warning.reason)
        });
        self.warnings.push(warning);
    }

    fn task_mut(&mut self, id: &TaskId) -> Option<&mut TaskView> {
        self.tasks.iter_mut().find(|task| task.id == *id)
    }

    fn set_state(&mut self, task: &TaskId, state: TaskState, reason: Option<&str>) {
        if let Some(view) = self.task_mut(task) {
            view.state = state;
            view.reason = reason.map(str::to_owned);
        }
    }

    /// Nothing runs in a task that has ended or was interrupted.
    fn stop(&mut self, task: &TaskId, state: TaskState) {
        let ends = state.is_final();
        if ends || state == TaskState::Interrupted {
            // An approval that waits still waits once the task is resumed.
            self.open.retain(|(owner, item)| owner != task || (!ends && matches!(item, OpenItem::Prompt(_))));
        }
        if state == TaskState::Interrupted {
            // They ended with the server that ran them.
            self.commands.clear();
        }
    }

    fn message<'e>(&mut self, task: &TaskId, message: &'e Message, seq: Option<u64>) -> Update<'e> {
        let id = message.id.as_str();
        if message.kind == MessageKind::Say(Say::ApiReqStarted) {
            let update = Update::from_model_request(message);
            if matches!(update, Update::AnswerVoid { .. }) {
                let prefix = format!("{id}.");
                self.open.retain(|(owner, item)| {
                    owner != task
                        || !matches!(item, OpenItem::Message(open) if open.id.as_str().starts_with(&prefix))
                });
            }
            return update;
        }
        if message.kind == MessageKind::Say(Say::CheckpointSaved) {
            let saved = checkpoint_of(message).zip(seq);
            return saved.map_or(Update::Silent, |(call, seq)| Update::CheckpointSaved { call, seq });
        }
        self.open.retain(|(owner, item)| {
            owner != task || !matches!(item, OpenItem::Message(open) if open.id == message.id)
        });
        Update::Message { message, role: MessageRole::new(message) }
    }

    fn grow(&mut self, task: &TaskId, id: &MessageId, say: Say, offset: u64, more: &str) {
        let known = self.open.iter_mut().find_map(|(owner, item)| match item {
            OpenItem::Message(open) if owner == task && open.id == *id => Some(open),
            _ => None,
        });
        match known {
            Some(message) => message.grow(offset, more),
            None if offset == 0 => {
                let message = StreamingMessage { id: id.clone(), say, text: more.to_owned() };
                self.open.push((task.clone(), OpenItem::Message(message)));
            }
            // What is missing comes with the whole message.
            None => {}
        }
    }

    fn start_call(&mut self, task: &TaskId, call: &ToolCallId, target: CallTarget) {
        self.calls.insert((task.clone(), call.clone()), target.clone());
        if target.is_delegation() {
            self.set_state(task, TaskState::Paused, None);
        }
        self.open.push((task.clone(), OpenItem::Call(RunningCall::new(call, target))));
    }

    fn finish_call(&mut self, task: &TaskId, call: &ToolCallId) -> Option<CallTarget> {
        self.open.retain(|(owner, item)| {
            owner != task || !matches!(item, OpenItem::Call(open) if open.id == *call)
        });
        let target = self.calls.remove(&(task.clone(), call.clone()))?;
        if target.is_delegation() {
            self.set_state(task, TaskState::Running, None);
        }
        Some(target)
    }

    fn running_mut(&mut self, task: &TaskId, call: &ToolCallId) -> Option<&mut RunningCall> {
        self.open.iter_mut().find_map(|(owner, item)| match item {
            OpenItem::Call(open) if owner == task && open.id == *call => Some(open),
            _ => None,
        })
    }

    fn ask(&mut self, task: &TaskId, prompt: Prompt) {
        self.set_state(task, TaskState::Waiting, None);
        // One thing at a time: what is asked again after an interruption takes the place of what was.
        self.open.retain(|(owner, item)| owner != task || !matches!(item, OpenItem::Prompt(_)));
        self.open.push((task.clone(), OpenItem::Prompt(prompt)));
    }

    /// Takes what was asked out of what waits.
    fn take_prompt(&mut self, id: &str) -> Option<Prompt> {
        let is_it =
            |(_, item): &(TaskId, OpenItem)| matches!(item, OpenItem::Prompt(prompt) if prompt.id() == id);
        let (task, item) = self.open.remove(self.open.iter().position(is_it)?);
        self.set_state(&task, TaskState::Running, None);
        match item {
            OpenItem::Prompt(prompt) => Some(prompt),
            OpenItem::Message(_) | OpenItem::Call(_) => None,
        }
    }
}
