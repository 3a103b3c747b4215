//! One task as a pure machine: [`decide`] says what an input leads to, [`Task::apply`] folds events,
//! [`settle`] says what follows from the state alone, and [`wanted`] says which effect the state
//! calls for.
//!
//! No clock, no randomness, no I/O: times come in with inputs, and identifiers are numbered by the
//! log. Effects are derived from the state and not handed out with events, so that none can be lost,
//! doubled or different after a restart: the driver starts what is wanted and ends what is wanted no
//! more.
//!
//! A log may end after any event, also in the middle of what one input led to. So [`decide`] puts
//! down little more than what happened, the event that closes a wait last, and consequences are
//! [`settle`]d from the state: whatever the last event is, the task goes on from there.

mod batch;
mod branch;
mod decide;
mod fold;
mod offers;
mod results;
mod settle;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::event::{BackgroundCommand, Ending, Event};
use crate::intent_store::Binding;
use crate::policy::{HookMessages, ModeChange, PlannedBranch, PlannedEdit, PolicyDecision};
use crate::tools::{ChangesUnknown, Outcome};
use roo_catalog::{Effect as ToolEffect, ToolCall, ToolName, ToolProtocol};
use roo_formats::config::Limits;
use roo_model::parser::Block;
use roo_model::providers::{AssistantBlock, Finish, Item};
use roo_protocol::ids::{CommandId, Digest, MessageId, QuestionId, TaskId, ToolCallId, Urid};
use roo_protocol::message::{Message, MessageKind};
use roo_protocol::task::{
    HistoryItem, PendingApproval, PendingQuestion, QueueItem, SendWhen, TaskState, TodoItem, TodoStatus,
    ToolUsage, Usage,
};

use self::batch::{AskedApproval, Branch, CurrentCall, Stage, ToolBatch};
pub use self::batch::{Decided, GivenApproval, HeldAnswer};
pub(super) use self::branch::{branch_result, first_events};
pub use self::decide::decide;
pub use self::offers::OfferMemory;
pub(super) use self::offers::{Choice, NewRule};
pub use self::settle::{settle, wanted};

/// Maximum number of times in a row that old results are shortened before the user is asked.
const MAX_REDUCTIONS: u32 = 3;
/// Number of equal refusals after which the task stops asking and asks what to do.
const REFUSALS: u32 = 3;
/// Maximum number of attempts to save context for others.
const SAVE_ATTEMPTS: u32 = 3;
/// The answer that ends a task at one of the engine's own questions.
const STOP: &str = "Stop";
/// The answer that makes a failed model request again.
const TRY_AGAIN: &str = "Try again";
/// Who answers what has become void.
const SERVER: &str = "server";
/// The longest title, in characters.
pub(super) const TITLE: usize = 80;
/// The title of a request until there is a prompt to take it from.
const REFUSED: &str = "A prompt that a hook blocked";

/// The state of one task: what its events fold to.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// The task that delegated it; none for a root.
    pub parent: Option<TaskId>,
    /// The request's id for people.
    pub urid: Urid,
    /// The slug of its mode.
    pub mode: String,
    /// Emoji of its mode in trees.
    pub emoji: String,
    /// The name of its model profile.
    pub profile: String,
    /// The user chose the profile, for whatever mode, and for its branches too.
    pub pinned: bool,
    /// The intent that it has bound.
    pub intent: Option<Binding>,
    /// Bindings of the tasks above it when they delegated.
    pub within: Vec<Binding>,
    /// Tool protocol of its model.
    pub protocol: ToolProtocol,
    /// Its prompt on one line, shortened.
    pub title: String,
    /// Limits.
    pub limits: Limits,
    /// Creation time.
    pub created_at: i64,
    /// Time of the newest event.
    pub updated_at: i64,
    /// The number of its newest event.
    pub seq: u64,
    /// Phase.
    pub phase: Phase,
    /// The server that drove it ended; nothing goes on before it is resumed.
    pub interrupted: bool,
    /// Pending end; open calls get their results first.
    ending: Option<Ending>,
    /// The conversation.
    pub items: Arc<Vec<Item>>,
    /// Results in items before this index are sent as stubs.
    pub reduced_before: usize,
    /// Lookups before the next model request.
    pub gather: Gather,
    /// Files that the task must read before it changes, runs or delegates anything.
    pub unread: BTreeSet<String>,
    /// Unknown changes of commands since the user last said how to continue.
    pub unknown_changes: Vec<ChangesUnknown>,
    /// Context that could not be saved, since it was last saved.
    pub unsaved: Option<Unsaved>,
    /// Number of delegations since its user last said something.
    pub delegations: u32,
    /// Number of failed subtasks, by mode and title.
    failed_subtasks: BTreeMap<(String, String), u32>,
    /// Messages that wait.
    pub queue: Vec<QueueItem>,
    /// The to-do list.
    pub todo: Vec<TodoItem>,
    /// The whole-file digests that it has seen, by path.
    pub seen: BTreeMap<String, Digest>,
    /// Usage.
    pub usage: Usage,
    /// Tries and failures by tool.
    pub tool_usage: ToolUsage,
    /// Number of times that hooks kept it from ending since its user last said something.
    pub continuations: u32,
    /// No request was made since it began, or began again after its end.
    fresh: bool,
    /// Name of the request from a first prompt that a hook blocked.
    names_request: Option<String>,
    /// The newest message of its user.
    pub prompt: Option<MessageId>,
    /// Whose answers counted, by the id of the approval or question.
    pub answered: BTreeMap<String, Answered>,
    /// The commands in the background that it looks after.
    pub background: Vec<BackgroundCommand>,
    /// Commands in the background that have ended, and that its model isn't told of yet.
    ended_commands: Vec<String>,
    counters: Counters,
    /// Number of refusals of each action since the user last said something: by what it does to which thing, whatever
    /// its other words.
    refusals: BTreeMap<String, u32>,
    /// State of offers to its user.
    pub(super) offers: OfferMemory,
}

/// Facts that the server looks up for the model before it is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gather {
    /// Facts about the system.
    pub system: bool,
    /// Messages of the user that may mention something.
    pub messages: Vec<String>,
    /// Messages of the user that user hooks are asked about.
    pub prompts: Vec<Prompt>,
    /// The task begins, and hooks are asked about that.
    pub begins: Option<Begins>,
    /// All calls of an answer have their results, and hooks are asked about them together.
    pub batch: bool,
}

/// A message that user hooks are asked about before the model reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The message.
    pub id: MessageId,
    /// As the user wrote it.
    pub text: String,
    /// Its place in the conversation.
    item: usize,
}

/// Beginning of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// For the first time.
    Anew,
    /// Resumption after an end.
    Again,
}

impl Gather {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Result of the lookups.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gathered {
    /// Text for the model; may be empty.
    pub text: String,
    /// Images as data URLs.
    pub images: Vec<String>,
    /// Whole-file digests that the task has now seen.
    pub seen: Vec<(String, Option<Digest>)>,
    /// The mode that a command of the user asks for.
    pub mode: Option<ModeChange>,
    /// Messages that user hooks refused, and why.
    pub refused: Vec<(MessageId, String)>,
    /// Warnings of hooks for the user.
    pub warnings: Vec<String>,
    /// A hook ends the task, for this reason.
    pub stop: Option<String>,
}

/// Context that could not be saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsaved {
    /// Number of attempts.
    pub attempts: u32,
    /// Reason why it failed the last time.
    pub reason: String,
}

/// Whose answer counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Who answered.
    pub by: String,
    /// The option or text; none when the question became void.
    pub answer: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counters {
    /// Model requests, retries included.
    requests: u32,
    /// Mistakes in a row.
    mistakes: u32,
    /// Reductions since the model last answered.
    reductions: u32,
    /// The newest call that was answered, and how often it came in a row.
    last_call: Option<Digest>,
    repeats: u32,
}

/// Phase of a task.
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    /// A model request is to be made.
    RequestDue {
        /// From 1.
        attempt: u32,
    },
    /// A model request is under way.
    Requesting {
        /// From 1.
        attempt: u32,
        /// The complete blocks of its answer so far.
        blocks: Vec<AssistantBlock>,
    },
    /// A failed request waits for its next attempt.
    Backoff {
        /// The attempt that comes next.
        attempt: u32,
        /// Due time, in milliseconds since the Unix epoch.
        due: i64,
    },
    /// An answer came without a call, or was cut by the output limit.
    Unanswerable(Finish),
    /// The calls of an answer are worked off, one after another.
    Tools(Box<ToolBatch>),
    /// The engine asks its user something.
    Question(PendingQuestion),
    /// Completed, failed or cancelled.
    Ended(Ending),
}

/// Returns whether this option of an approval allows the action.
pub(super) fn allows(option: &str) -> bool {
    Choice::parse(option).is_some_and(|choice| choice.kind().allows())
}

/// Input of a task.
#[derive(Debug)]
pub enum Input {
    /// The user says something.
    Send {
        /// Text.
        text: String,
        /// Images as data URLs.
        images: Vec<String>,
        /// Time of delivery to the model.
        when: SendWhen,
    },
    /// The user changes a waiting message.
    EditQueued {
        /// Which.
        id: String,
        /// Its new text.
        text: String,
    },
    /// The user takes a waiting message back.
    DeleteQueued {
        /// Which.
        id: String,
    },
    /// The user ends the task.
    Cancel,
    /// The user lets it go on.
    Resume,
    /// The user answers the approval that waits.
    Respond {
        /// The chosen option.
        option_id: String,
        /// Text added by the user.
        text: Option<String>,
        /// Who answered.
        by: String,
    },
    /// The user answers the question that waits.
    Answer {
        /// Text.
        text: String,
        /// Images as data URLs.
        images: Vec<String>,
        /// Who answered.
        by: String,
    },
    /// The user puts the task into another mode, or gives it another model.
    Change(ModeChange),
    /// The user binds the task to an intent.
    BindIntent {
        /// As it is now.
        intent: Binding,
        /// Name.
        name: String,
    },
    /// Results of the lookups for the model.
    Gathered(Gathered),
    /// A block of the model's answer is complete.
    ModelBlock {
        /// The block.
        block: Block,
        /// Provider and model.
        origin: String,
    },
    /// The model's answer is complete.
    ModelEnded {
        /// Reason why it ended.
        finish: Finish,
        /// Usage of the request.
        used: Usage,
    },
    /// The model request failed.
    ModelFailed {
        /// Error: what failed, on what, and what to do.
        message: String,
        /// Remedy.
        remedy: Remedy,
        /// Usage of the request in spite of the failure.
        used: Usage,
    },
    /// The time to try again has come.
    RetryDue,
    /// User hooks were asked about the current call. What it leads to comes right behind it.
    HookMessages(HookMessages),
    /// The gate has judged the current call.
    Gated(PolicyDecision),
    /// The current call's tool is done.
    ToolDone(Outcome),
    /// State of an interrupted write: the digests of its files, none of those that aren't there.
    WriteSettled(Vec<Option<Digest>>),
    /// A command in the background has ended.
    CommandEnded {
        /// The command.
        id: CommandId,
        /// Outcome.
        outcome: Outcome,
    },
}

impl Input {
    /// Returns whether it tells what came of an effect.
    fn is_report(&self) -> bool {
        matches!(
            self,
            Self::ModelBlock { .. }
                | Self::ModelEnded { .. }
                | Self::ModelFailed { .. }
                | Self::RetryDue
                | Self::HookMessages(_)
                | Self::Gated(_)
                | Self::ToolDone(_)
                | Self::WriteSettled(_)
                | Self::Gathered(_)
                | Self::CommandEnded { .. }
        )
    }
}

/// Remedy for a failed model request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Remedy {
    /// Make it again.
    Retry {
        /// Delay requested by the endpoint, in milliseconds.
        after: Option<i64>,
        /// From 0 to 1: spreads the attempts of many tasks.
        jitter: f64,
    },
    /// Send less.
    Shorten,
    /// Ask the user.
    Ask,
}

/// Effect that the state calls for.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Ask the model.
    CallModel {
        /// The request's number.
        request: u32,
    },
    /// Look up what the model is to know before it is asked.
    Gather(Gather),
    /// Wait until a time.
    Wait {
        /// In milliseconds since the Unix epoch.
        due: i64,
    },
    /// Let the gate judge the current call.
    Gate {
        /// The call.
        call_id: ToolCallId,
        /// The slug of the mode by whose rights it is judged.
        mode: String,
        /// The digest of the action that the user allowed.
        approved: Option<Digest>,
    },
    /// Run the current call's tool.
    RunTool {
        /// The call.
        call_id: ToolCallId,
        /// True if the log must be durable first.
        mutating: bool,
    },
    /// Find out what an interrupted write left.
    SettleWrite {
        /// The call.
        call_id: ToolCallId,
        /// Interrupted write.
        write: PlannedEdit,
    },
}

impl Task {
    /// Returns whether the user answered the current call's approval by choosing in their editor.
    pub fn is_reviewed(&self) -> bool {
        let approval = self.decided().and_then(|decided| decided.approval);
        approval
            .and_then(|given| self.answered.get(given.id.as_str()))
            .is_some_and(|answered| answered.answer.as_deref() == Some(Choice::ReviewOnce.id()))
    }

    /// Folds the first event of a task; none if it isn't [`Event::Created`].
    pub fn created(id: TaskId, event: &Event, seq: u64, at: i64) -> Option<Self> {
        let Event::Created {
            parent,
            urid,
            mode,
            emoji,
            profile,
            protocol,
            title,
            limits,
            gather,
            unread,
            pinned,
            intent,
            within,
        } = event
        else {
            return None;
        };
        Some(Self {
            id,
            parent: parent.clone(),
            emoji: emoji.clone(),
            gather: Gather { system: *gather, ..Gather::default() },
            unread: unread.iter().cloned().collect(),
            pinned: *pinned,
            intent: intent.clone(),
            within: within.clone(),
            unknown_changes: Vec::new(),
            unsaved: None,
            delegations: 0,
            failed_subtasks: BTreeMap::new(),
            urid: urid.clone(),
            mode: mode.clone(),
            profile: profile.clone(),
            protocol: *protocol,
            title: title.clone(),
            limits: *limits,
            created_at: at,
            updated_at: at,
            seq,
            phase: Phase::RequestDue { attempt: 1 },
            interrupted: false,
            ending: None,
            items: Arc::default(),
            reduced_before: 0,
            queue: vec![],
            todo: vec![],
            seen: BTreeMap::new(),
            usage: Usage::default(),
            tool_usage: ToolUsage::default(),
            continuations: 0,
            fresh: true,
            names_request: None,
            prompt: None,
            answered: BTreeMap::new(),
            background: vec![],
            ended_commands: vec![],
            counters: Counters::default(),
            refusals: BTreeMap::new(),
            offers: OfferMemory::default(),
        })
    }

    /// The state as clients name it.
    pub fn state(&self) -> TaskState {
        match &self.phase {
            Phase::Ended(ending) => ending.state,
            _ if self.interrupted => TaskState::Interrupted,
            Phase::Question(_) => TaskState::Waiting,
            Phase::Tools(batch) => match batch.current() {
                None => TaskState::Paused,
                Some(call) if call.awaits_user() => TaskState::Waiting,
                Some(_) => TaskState::Running,
            },
            Phase::RequestDue { .. }
            | Phase::Requesting { .. }
            | Phase::Backoff { .. }
            | Phase::Unanswerable(_) => TaskState::Running,
        }
    }

    /// The result of a completed task.
    pub fn result(&self) -> Option<&str> {
        self.ended()?.result.as_deref()
    }

    /// Reason why it ended as it did, where that isn't obvious.
    pub fn reason(&self) -> Option<&str> {
        self.ended()?.reason.as_deref()
    }

    fn ended(&self) -> Option<&Ending> {
        match &self.phase {
            Phase::Ended(ending) => Some(ending),
            _ => None,
        }
    }

    /// The question that waits for its user: of the engine, or of the current call.
    pub fn question(&self) -> Option<&PendingQuestion> {
        match (&self.phase, self.in_progress()) {
            (Phase::Question(question), _)
            | (_, Some(CurrentCall { stage: Stage::Question(question), .. })) => Some(question),
            _ => None,
        }
    }

    /// The approval that waits, or waited when the server ended.
    pub fn approval(&self) -> Option<&PendingApproval> {
        self.asked().map(|asked| &asked.request)
    }

    /// An answer to the approval that came while the task was interrupted, or while the action is judged again.
    pub fn held_answer(&self) -> Option<&HeldAnswer> {
        self.asked().and_then(|asked| asked.held.as_ref())
    }

    fn asked(&self) -> Option<&AskedApproval> {
        self.in_progress().and_then(CurrentCall::asked)
    }

    /// Reason why the current call may run; none before it is judged.
    pub fn decided(&self) -> Option<Decided<'_>> {
        self.in_progress().and_then(CurrentCall::decided)
    }

    fn batch(&self) -> Option<&ToolBatch> {
        match &self.phase {
            Phase::Tools(batch) => Some(batch),
            _ => None,
        }
    }

    /// The call that is worked on, with its stage.
    fn in_progress(&self) -> Option<&CurrentCall> {
        self.batch().and_then(ToolBatch::current)
    }

    fn in_progress_mut(&mut self) -> Option<&mut CurrentCall> {
        match &mut self.phase {
            Phase::Tools(batch) => batch.current_mut(),
            _ => None,
        }
    }

    /// The task in short.
    pub fn history_item(&self) -> HistoryItem {
        HistoryItem {
            task_id: self.id.clone(),
            urid: self.urid.clone(),
            title: self.title.clone(),
            mode: self.mode.clone(),
            state: self.state(),
            created_at: self.created_at,
            updated_at: self.updated_at,
            usage: self.usage,
            seq: self.seq,
        }
    }

    /// The number of the newest model request.
    pub fn request_number(&self) -> u32 {
        self.counters.requests
    }

    /// Returns whether the user wants it to end while a tool still runs.
    pub fn is_cancelling(&self) -> bool {
        self.ending.as_ref().is_some_and(|ending| ending.state == TaskState::Cancelled)
    }

    /// Returns whether its next request is to be made.
    pub fn is_before_request(&self) -> bool {
        matches!(self.phase, Phase::RequestDue { .. }) && self.ending.is_none()
    }

    /// Returns whether it is about to end, in whatever way.
    pub fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// Returns the effect class of the current call.
    pub fn current_effect(&self) -> ToolEffect {
        self.current_call().map_or(ToolEffect::Read, ToolCall::effect)
    }

    /// The call that is worked on, as it runs: hooks may have changed its parameters.
    pub fn call_as_it_runs(&self) -> Option<Cow<'_, ToolCall>> {
        self.in_progress().map(CurrentCall::as_it_runs)
    }

    /// The call that is worked on, before hooks: that of the model, or the switch of modes that goes with the
    /// answer to its question.
    pub(in crate::engine) fn call_to_judge(&self) -> Option<Cow<'_, ToolCall>> {
        self.in_progress().map(CurrentCall::to_judge)
    }

    /// Returns whether the current call would complete the task, as far as the state tells.
    pub fn would_complete(&self) -> bool {
        let completes = |call: &ToolCall| call.is_of(ToolName::AttemptCompletion);
        self.current_call().is_some_and(completes)
            && self.queue.is_empty()
            && !self.batch().is_some_and(ToolBatch::has_failed)
    }

    /// The call that is worked on, as the model made it.
    pub fn current_call(&self) -> Option<&ToolCall> {
        self.in_progress().map(|current| &current.call)
    }

    /// The calls of the newest answer that made any and has their results, each with the text of its own.
    pub fn newest_batch(&self) -> Vec<(ToolCall, String)> {
        let answered = self.items.windows(2).rev().find_map(|pair| match pair {
            [Item::Assistant { blocks }, Item::Results { results }] => Some((blocks, results)),
            _ => None,
        });
        let Some((blocks, results)) = answered else { return vec![] };
        let calls = blocks.iter().filter_map(|block| match block {
            AssistantBlock::Call { call } => Some(call.clone()),
            AssistantBlock::Text { .. } | AssistantBlock::Thinking { .. } => None,
        });
        calls.zip(results).map(|(call, result)| (call, result.text.clone())).collect()
    }

    /// Returns whether a request that is too long can be made shorter, by stubs in place of earlier results.
    pub fn can_be_shortened(&self) -> bool {
        self.items.len() > self.reduced_before && self.counters.reductions < MAX_REDUCTIONS
    }

    /// Returns whether the current call would open a branch.
    pub fn is_delegating(&self) -> bool {
        self.current_call().is_some_and(|call| call.is_of(ToolName::NewTask))
    }

    /// The calls that wait for subtasks.
    fn open_branches(&self) -> impl Iterator<Item = &Branch> {
        self.batch().into_iter().flat_map(ToolBatch::open_branches)
    }

    /// The subtasks that it waits for, and how each is to begin.
    pub fn open_subtasks(&self) -> impl Iterator<Item = (&TaskId, &PlannedBranch)> {
        self.open_branches().map(|branch| (&branch.child, &*branch.plan))
    }

    /// Returns whether it waits for a subtask.
    pub fn has_open_branches(&self) -> bool {
        self.open_branches().next().is_some()
    }

    /// Numbers what the next events bring into being. An event belongs to one task, and each batch of
    /// events brings at most one thing of a kind, so the number is unique for its kind in the request.
    fn number(&self) -> u64 {
        self.seq.saturating_add(1)
    }

    fn message(&self, kind: MessageKind, text: impl Into<String>, images: Vec<String>) -> Message {
        Message { id: MessageId::new(format!("m{}", self.number())), kind, text: text.into(), images }
    }

    /// The queue with one more message, which will have the item's id when it is delivered.
    fn queue_with(&self, text: String, images: Vec<String>, when: SendWhen) -> Event {
        let mut items = self.queue.clone();
        items.push(QueueItem { id: format!("m{}", self.number()), text, images, when });
        Event::QueueChanged { items }
    }

    /// Returns its usage including this request.
    fn total_with(&self, used: Usage) -> Usage {
        let mut total = self.usage;
        // The provider's own word may be nonsense; nothing is ever paid back.
        total += Usage { cost_usd: used.cost_usd.max(0.0), ..used };
        total
    }

    /// Returns whether its commands in the background are ended before it ends. Those of a branch that has done its
    /// work are handed to its parent.
    pub fn ends_commands(&self) -> bool {
        self.ending
            .as_ref()
            .is_some_and(|ending| self.parent.is_none() || ending.state != TaskState::Completed)
    }
}

/// Requests and cost since the budget began anew.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spending {
    /// Model requests, retries included.
    pub requests: u32,
    /// US dollars.
    pub cost_usd: f64,
}

/// Returns whether a budget is used up.
pub(super) fn is_spent(limits: &Limits, spent: Spending) -> bool {
    (limits.requests > 0 && spent.requests >= limits.requests)
        || (limits.cost_usd > 0.0 && spent.cost_usd >= limits.cost_usd)
}

/// Budget of a request, shared by its tasks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequestBudget {
    /// Spending of the whole request.
    pub spent: Spending,
    /// True if another task asks its user about the budget.
    pub asked: bool,
}

/// The message id of a block of a model request: known before the block is closed, so that running
/// text and the closed message are one.
pub fn block_message_id(request: u32, block: u32) -> MessageId {
    MessageId::new(format!("r{request}.b{block}"))
}

fn next_question(task: &Task) -> QuestionId {
    QuestionId::new(format!("{}.q{}", task.id, task.number()))
}

/// Returns whether this answer to one of the engine's questions ends the task.
pub(super) fn is_stop(text: &str) -> bool {
    text.trim().eq_ignore_ascii_case(STOP)
}

/// Returns whether a message may mention a file, a command or the like.
pub(super) fn may_mention(text: &str) -> bool {
    text.contains(['@', '/'])
}

/// Returns the identity by which two calls are the same: name and parameters, whatever their order.
fn identity(call: &ToolCall) -> Digest {
    let sorted: BTreeMap<_, _> = call.params.iter().collect();
    Digest::of(format!("{} {}", call.name, serde_json::json!(sorted)))
}

/// Describes a call and its subject for people: the same for calls that differ in their other words alone, so that a
/// user who refuses one is not worn down by its like.
fn describe_call(call: &ToolCall) -> String {
    let parameter = |name: &str| call.params.get(name).and_then(serde_json::Value::as_str);
    if let Some(line) = parameter("command") {
        return format!("to run {}", programs(line).join(", "));
    }
    let Some(path) = parameter("path") else { return format!("{} calls", call.name) };
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let path = parts.join("/");
    if call.effect() == ToolEffect::Write {
        format!("to change {path}")
    } else {
        format!("{} of {path}", call.name)
    }
}

/// The programs of a line, each once and in a fixed order; those that do nothing only where there is no
/// other. The line itself where it names none that can be read.
fn programs(line: &str) -> Vec<String> {
    let script = roo_shell::read(line);
    let names = script.commands.iter().filter_map(|command| command.words.first()?.literal());
    let names: BTreeSet<&str> = names.map(|name| name.rsplit('/').next().unwrap_or(name)).collect();
    let (idle, busy): (Vec<&str>, Vec<&str>) =
        names.into_iter().partition(|name| matches!(*name, ":" | "cd" | "echo" | "true"));
    let found = if busy.is_empty() { idle } else { busy };
    if found.is_empty() {
        vec![line.trim().to_owned()]
    } else {
        found.into_iter().map(str::to_owned).collect()
    }
}

/// Entries keep their id as long as their text stays, so that clients can follow them.
fn todo_items(old: &[TodoItem], new: Vec<(String, TodoStatus)>) -> Vec<TodoItem> {
    let mut free: Vec<&TodoItem> = old.iter().collect();
    let mut next = old.iter().filter_map(|item| item.id.parse::<u32>().ok()).max().unwrap_or(0);
    new.into_iter()
        .map(|(content, status)| {
            let id = match free.iter().position(|item| item.content == content) {
                Some(index) => free.remove(index).id.clone(),
                None => {
                    next += 1;
                    next.to_string()
                }
            };
            TodoItem { id, content, status }
        })
        .collect()
}

#[cfg(test)]
mod tests;
