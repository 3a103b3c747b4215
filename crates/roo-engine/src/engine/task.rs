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

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod batch;
mod branch;
mod choice;
mod commands;
mod compaction;
mod context;
mod conversation;
mod decide;
mod decider;
mod engine_question;
mod fold;
mod guard;
mod input;
mod lifecycle;
mod offers;
mod ongoing_compaction;
mod quotation;
mod recorded_input;
mod results;
mod sampling;
mod settings;
mod settle;
mod shortening;
mod summary_excerpts;
mod transcript;
mod worktree;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::event::{EndState, Ending, Event, Restore};
use crate::policy::{PlannedBranch, PlannedEdit};
use crate::tool_run::ChangesUnknown;
use roo_catalog::{Effect as ToolEffect, ToolCall, ToolName};
use roo_formats::config::Limits;

use roo_protocol::ids::{Digest, MessageId, QuestionId, TaskId, Urid};
use roo_protocol::message::{Message, MessageKind, Say};
use roo_protocol::task::{
    ForkOrigin, HistoryItem, ImportOrigin, PendingApproval, PendingQuestion, QueueItem, SendWhen, Settled,
    TaskState, TodoItem, TodoStatus, ToolUsage, Usage,
};

use self::batch::{AskedApproval, Authorization, Branch, CurrentCall, Stage, ToolBatch};
pub use self::batch::{Decided, GivenApproval, HeldAnswer};
pub(super) use self::branch::{branch_result, first_events};
pub use self::choice::Choice;
pub use self::commands::CommandsInBackground;
pub(crate) use self::compaction::why_not_restored;
pub(super) use self::compaction::{left_out_by, longest_summary, spoken_before};
pub(crate) use self::context::Excess;
pub use self::context::{ContextState, ConversationSize, FrameShare, MeasuredRequest, RequestFrame};
pub use self::conversation::{Conversation, FileContext, LeftOut};
pub use self::decide::decide;
pub(super) use self::decide::queue_for;
pub use self::decider::{Decider, TERMINAL};
pub use self::guard::LoopGuard;
pub(in crate::engine) use self::input::PromptPlace;
pub use self::input::{Begins, Effect, Gather, Gathered, Input, Prompt, Remedy};
pub use self::lifecycle::{Lifecycle, OpenTask, Phase, StoppedTask};
pub(super) use self::offers::NewRule;
pub use self::offers::OfferMemory;
pub use self::ongoing_compaction::{Compaction, CompactionOutcome};
pub(super) use self::recorded_input::{TimedInput, inputs_of, wakes};
pub(super) use self::sampling::SAMPLING_REQUESTS;
pub use self::sampling::SamplingTally;
pub use self::settings::{AgentSettings, IntentScope};
pub use self::settle::{settle, wanted};
pub use self::shortening::Placeholders;
pub(super) use self::transcript::turns;
use self::worktree::Worktree;
pub(super) use self::worktree::{OpenWorktree, WorktreeClosing};

/// Maximum number of attempts to save context for others.
const SAVE_ATTEMPTS: u32 = 3;
/// The answer that ends a task at one of the engine's own questions.
const STOP: &str = "Stop";
/// The answer that makes a failed model request again.
const TRY_AGAIN: &str = "Try again";
/// Reason of a model request whose provider gave no answer on purpose.
pub const PROVIDER_REFUSED: &str = "The provider refused to continue this conversation.";
/// The longest title, in characters.
pub(super) const TITLE: usize = 80;
/// The title of a request until there is a prompt to take it from.
const REFUSED: &str = "A prompt that a hook blocked";

/// The state of one task: what its events fold to.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    pub id: TaskId,
    /// The task that delegated it; none for a root.
    pub parent: Option<TaskId>,
    /// The request's id for people.
    pub urid: Urid,
    title: Title,
    pub limits: Limits,
    /// Creation time.
    pub created_at: i64,
    /// Time of the newest event.
    pub updated_at: i64,
    /// The number of its newest event.
    pub seq: u64,
    /// Mode and model.
    pub settings: AgentSettings,
    /// The intents that it works for.
    pub intents: IntentScope,
    /// Its phase, or its end.
    lifecycle: Lifecycle,
    /// The conversation with its model.
    pub conversation: Conversation,
    /// The size of its requests, and what was shortened.
    pub context: ContextState,
    /// The files that its model knows or must get to know.
    pub files: FileContext,
    /// Lookups before the next model request.
    pub gather: Gather,
    /// No request was made since it began, or began again after its end.
    fresh: bool,
    /// The number of the event by which its user chose its mode; none where the mode is of its beginning, or its model chose it.
    mode_chosen_at: Option<u64>,
    /// The newest message of its user.
    pub prompt: Option<MessageId>,
    /// Messages that wait.
    pub queue: Vec<QueueItem>,
    /// Authors of the answers that counted, by the id of the approval or question.
    pub answered: BTreeMap<String, Answered>,
    /// The to-do list.
    pub todo: Vec<TodoItem>,
    /// Requests and usage.
    pub totals: Totals,
    /// What servers have had its model asked.
    pub sampling: SamplingTally,
    /// Counts that show that it gets nowhere.
    pub guard: LoopGuard,
    /// State of offers to its user.
    pub(super) offers: OfferMemory,
    /// The commands in the background that it looks after.
    pub commands: CommandsInBackground,
    /// Unknown changes of commands since the user last said how to continue.
    pub unknown_changes: Vec<ChangesUnknown>,
    /// Context that could not be saved, since it was last saved.
    pub unsaved: Option<Unsaved>,
    /// What the model is told with its next request.
    notices: Vec<String>,
    /// A restore that has started and not finished, with the number of its event.
    pub(in crate::engine) restore: Option<(u64, Arc<Restore>)>,
    /// Where the request begins, if it is a fork.
    pub forked_from: Option<ForkOrigin>,
    /// The other program's task that it was imported from.
    pub(in crate::engine) imported: Option<Import>,
    /// The git worktree of a branch that works beside others; none where it works in the folder of its parent.
    worktree: Option<Worktree>,
}

/// Name of a task for people.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Title {
    /// Its prompt on one line, shortened.
    Named(String),
    /// The first prompt was blocked by a hook; the next one names it and gets the rest of the first message.
    Unnamed { rest: String },
}

impl Title {
    fn as_str(&self) -> &str {
        match self {
            Self::Named(title) => title,
            Self::Unnamed { .. } => REFUSED,
        }
    }

    /// The rest of the first message that the prompt gets which names the task.
    fn rest(&self) -> Option<&str> {
        match self {
            Self::Named(_) => None,
            Self::Unnamed { rest } => Some(rest),
        }
    }
}

/// Origin of an imported task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Import {
    pub(in crate::engine) origin: ImportOrigin,
    /// The number of the last event that was made from the other program's history.
    pub(in crate::engine) until: u64,
}

/// Requests of a task and what they used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// Model requests, retries included.
    pub requests: u32,
    /// Usage of the model.
    pub usage: Usage,
    /// Tries and failures by tool.
    pub tools: ToolUsage,
}

impl Totals {
    /// Returns the usage including this request.
    fn including(&self, used: Usage) -> Usage {
        let mut total = self.usage;
        // The provider's own word may be nonsense; nothing is ever paid back.
        total += Usage { cost_usd: used.cost_usd.max(0.0), ..used };
        total
    }

    fn count_tool(&mut self, name: &str, failed: bool) {
        let count = self.tools.0.entry(name.to_owned()).or_default();
        count.attempts += 1;
        count.failures += u32::from(failed);
    }
}

/// Context that could not be saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsaved {
    /// Number of attempts.
    pub attempts: u32,
    /// Reason why it failed the last time.
    pub reason: String,
}

/// Author of an answer that counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Author of the answer.
    pub by: Decider,
    /// The option or text; none when the question became void.
    pub answer: Option<String>,
}

impl Answered {
    /// Returns what a later answer is told.
    pub(super) fn settled(&self) -> Settled {
        match (&self.answer, self.by.rule_id()) {
            (Some(answer), _) => Settled::Answered { answer: answer.clone() },
            (None, Some(rule_id)) => Settled::Rule { rule_id: rule_id.to_owned() },
            (None, None) => Settled::Void,
        }
    }
}

impl Task {
    /// Returns whether the user answered the current call's approval by choosing in their editor.
    pub(crate) fn is_reviewed(&self) -> bool {
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
            worktree,
        } = event
        else {
            return None;
        };
        Some(Self {
            id,
            parent: parent.clone(),
            urid: urid.clone(),
            title: Title::Named(title.clone()),
            limits: *limits,
            created_at: at,
            updated_at: at,
            seq,
            settings: AgentSettings {
                mode: mode.clone(),
                emoji: emoji.clone(),
                profile: profile.clone(),
                pinned: *pinned,
                protocol: *protocol,
            },
            intents: IntentScope { bound: intent.clone(), within: within.clone() },
            lifecycle: Lifecycle::open(),
            conversation: Conversation::default(),
            context: ContextState::default(),
            files: FileContext { unread: unread.iter().cloned().collect(), ..FileContext::default() },
            gather: Gather { system: *gather, ..Gather::default() },
            fresh: true,
            mode_chosen_at: None,
            prompt: None,
            queue: vec![],
            answered: BTreeMap::new(),
            todo: vec![],
            totals: Totals::default(),
            sampling: SamplingTally::default(),
            guard: LoopGuard::default(),
            offers: OfferMemory::default(),
            commands: CommandsInBackground::default(),
            unknown_changes: vec![],
            unsaved: None,
            notices: vec![],
            restore: None,
            forked_from: None,
            imported: None,
            worktree: worktree.then_some(Worktree::Due),
        })
    }

    /// Its prompt on one line, shortened.
    pub fn title(&self) -> &str {
        self.title.as_str()
    }

    /// The state as clients name it.
    pub fn state(&self) -> TaskState {
        self.lifecycle.state()
    }

    /// Its phase; none when it has ended.
    pub(in crate::engine) fn phase(&self) -> Option<&Phase> {
        self.as_open().map(|open| &open.phase)
    }

    fn as_open(&self) -> Option<&OpenTask> {
        match &self.lifecycle {
            Lifecycle::Open(open) => Some(open),
            Lifecycle::Stopped(_) | Lifecycle::Ended(_) => None,
        }
    }

    /// Returns whether it has stopped with its request: it goes on where it was when that is resumed.
    pub fn is_stopped(&self) -> bool {
        matches!(self.lifecycle, Lifecycle::Stopped(_))
    }

    /// Returns whether it is about to stop with its request.
    pub(in crate::engine) fn is_stopping(&self) -> bool {
        self.as_open().is_some_and(|open| open.stops)
    }

    /// Returns whether the server that drove it has ended; nothing goes on before it is resumed.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.as_open().is_some_and(|open| open.interrupted)
    }

    /// Marks it as interrupted, unless it has ended.
    pub(in crate::engine) fn set_interrupted(&mut self) {
        if let Lifecycle::Open(open) = &mut self.lifecycle {
            open.interrupted = true;
        }
    }

    /// Returns whether it has ended or its next request is to be made: what its model knows is whole then.
    pub(in crate::engine) fn is_between_requests(&self) -> bool {
        matches!(
            &self.lifecycle,
            Lifecycle::Ended(_) | Lifecycle::Open(OpenTask { phase: Phase::RequestDue { .. }, .. })
        )
    }

    /// Its pending end.
    fn ending(&self) -> Option<&Ending> {
        self.as_open()?.ending.as_ref()
    }

    /// The result of a completed task.
    pub fn result(&self) -> Option<&str> {
        self.ended()?.result.as_deref()
    }

    /// Reason why it ended or stopped as it did, where that isn't obvious.
    pub fn reason(&self) -> Option<&str> {
        match &self.lifecycle {
            Lifecycle::Open(_) => None,
            Lifecycle::Stopped(StoppedTask { ending, .. }) | Lifecycle::Ended(ending) => {
                ending.reason.as_deref()
            }
        }
    }

    /// The state in which it ended; none while it goes on.
    pub(in crate::engine) fn end_state(&self) -> Option<EndState> {
        Some(self.ended()?.state)
    }

    fn ended(&self) -> Option<&Ending> {
        match &self.lifecycle {
            Lifecycle::Ended(ending) => Some(ending),
            Lifecycle::Open(_) | Lifecycle::Stopped(_) => None,
        }
    }

    /// The question that waits for its user: of the engine, or of the current call.
    pub fn question(&self) -> Option<&PendingQuestion> {
        self.phase()?.question()
    }

    /// The question of the engine that waits for its user.
    pub(super) fn engine_question(&self) -> Option<&PendingQuestion> {
        match self.phase()? {
            Phase::Question(question) => Some(question),
            _ => None,
        }
    }

    /// The approval that waits, or waited when the server ended.
    pub fn approval(&self) -> Option<&PendingApproval> {
        self.asked().map(|asked| &asked.request)
    }

    /// An answer to the approval that came while the task was interrupted, or while the action is judged again.
    pub(crate) fn held_answer(&self) -> Option<&HeldAnswer> {
        self.asked().and_then(|asked| asked.held.as_ref())
    }

    fn asked(&self) -> Option<&AskedApproval> {
        self.in_progress().and_then(CurrentCall::asked)
    }

    /// Returns whether the user has refused the current call, and it hasn't got its result yet.
    pub(super) fn is_refused_by_user(&self) -> bool {
        let is_refused = |current: &CurrentCall| {
            matches!(current.stage, Stage::Authorization(Authorization::Refused { .. }))
        };
        self.in_progress().is_some_and(is_refused)
    }

    /// Reason why the current call may run; none before it is judged.
    pub fn decided(&self) -> Option<Decided<'_>> {
        self.in_progress().and_then(CurrentCall::decided)
    }

    /// The edit that the current call makes.
    pub(crate) fn edit_in_progress(&self) -> Option<&PlannedEdit> {
        match &self.in_progress()?.stage {
            Stage::Run { write, .. } => write.as_ref(),
            _ => None,
        }
    }

    /// Returns whether the current call is an edit of several files that a server has left when it ended, and of which it isn't
    /// known yet what became.
    pub(crate) fn has_unsettled_patch(&self) -> bool {
        match self.in_progress().map(|current| &current.stage) {
            Some(Stage::Run { write: Some(PlannedEdit::Patch(_)), .. }) => self.is_interrupted(),
            Some(Stage::SettleWrite { write: PlannedEdit::Patch(_), .. }) => true,
            _ => false,
        }
    }

    /// Returns whether the current call has started before, and was restarted.
    pub(crate) fn is_restarted(&self) -> bool {
        self.in_progress().is_some_and(|current| current.is_restarted)
    }

    fn batch(&self) -> Option<&ToolBatch> {
        match &self.lifecycle {
            Lifecycle::Open(open) => open.phase.batch(),
            Lifecycle::Stopped(stopped) => stopped.batch.as_deref(),
            Lifecycle::Ended(_) => None,
        }
    }

    /// The call that is worked on, with its stage.
    fn in_progress(&self) -> Option<&CurrentCall> {
        self.batch().and_then(ToolBatch::current)
    }

    /// The task in short.
    pub(crate) fn history_item(&self) -> HistoryItem {
        HistoryItem {
            task_id: self.id.clone(),
            urid: self.urid.clone(),
            title: self.title().to_owned(),
            mode: self.settings.mode.clone(),
            state: self.state(),
            created_at: self.created_at,
            updated_at: self.updated_at,
            usage: self.totals.usage,
            seq: self.seq,
            forked_from: self.forked_from.clone(),
            imported_from: self.imported.as_ref().map(|import| import.origin.clone()),
        }
    }

    /// Returns whether the model has answered in what it is sent.
    pub(crate) fn has_answers(&self) -> bool {
        self.conversation.has_answers()
    }

    /// The number of the newest model request.
    pub(crate) fn request_number(&self) -> u32 {
        self.totals.requests
    }

    /// Returns whether the user wants it to end while a tool still runs.
    pub(crate) fn is_cancelling(&self) -> bool {
        self.ending().is_some_and(|ending| ending.state == EndState::Cancelled)
    }

    /// Returns whether its next request is to be made.
    pub(crate) fn is_before_request(&self) -> bool {
        matches!(self.phase(), Some(Phase::RequestDue { .. })) && self.ending().is_none()
    }

    /// Returns whether it is about to end, in whatever way.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending().is_some()
    }

    /// Returns the effect class of the current call.
    pub(crate) fn current_effect(&self) -> ToolEffect {
        self.current_call().map_or(ToolEffect::Read, ToolCall::effect)
    }

    /// The call that is worked on, as it runs: hooks may have changed its parameters.
    pub(crate) fn call_as_it_runs(&self) -> Option<Cow<'_, ToolCall>> {
        self.in_progress().map(CurrentCall::as_it_runs)
    }

    /// The call that is worked on, before hooks: that of the model, or the switch of modes that goes with the
    /// answer to its question.
    pub(in crate::engine) fn call_to_judge(&self) -> Option<Cow<'_, ToolCall>> {
        self.in_progress().map(CurrentCall::to_judge)
    }

    /// Returns whether the current call would complete the task, as far as the state tells.
    pub(crate) fn would_complete(&self) -> bool {
        let completes = |call: &ToolCall| call.is_of(ToolName::AttemptCompletion);
        self.current_call().is_some_and(completes)
            && self.queue.is_empty()
            && !self.batch().is_some_and(ToolBatch::has_failed)
    }

    /// The call that is worked on, as the model made it.
    pub(crate) fn current_call(&self) -> Option<&ToolCall> {
        self.in_progress().map(|current| &current.call)
    }

    /// Returns whether the current call runs, but for a write, whose outcome can be found out.
    pub(crate) fn runs_command_or_server(&self) -> bool {
        let runs = |current: &CurrentCall| {
            matches!(current.stage, Stage::Run { write: None, .. })
                && matches!(current.call.effect(), ToolEffect::Execute | ToolEffect::External)
        };
        self.in_progress().is_some_and(runs)
    }

    /// Returns whether the current call would open a branch.
    pub(crate) fn is_delegating(&self) -> bool {
        self.current_call().is_some_and(|call| call.is_of(ToolName::NewTask))
    }

    /// The calls that wait for subtasks.
    fn open_branches(&self) -> impl Iterator<Item = &Branch> {
        self.batch().into_iter().flat_map(ToolBatch::open_branches)
    }

    /// The subtasks that it waits for, and how each is to begin.
    pub(crate) fn open_subtasks(&self) -> impl Iterator<Item = (&TaskId, &PlannedBranch)> {
        self.open_branches().map(|branch| (&branch.child, &*branch.plan))
    }

    /// Returns whether it waits for a subtask.
    pub(crate) fn has_open_branches(&self) -> bool {
        self.open_branches().next().is_some()
    }

    /// Returns whether it waits for a subtask that has not stopped.
    fn has_working_branches(&self) -> bool {
        self.batch().is_some_and(ToolBatch::has_working_branches)
    }

    /// Takes note of whether a subtask has stopped with its request.
    pub(super) fn note_stopped(&mut self, child: &TaskId, is_stopped: bool) {
        if let Some(batch) = self.lifecycle.batch_mut() {
            batch.note_stopped(child, is_stopped);
        }
    }

    /// Numbers what the next events bring into being. An event belongs to one task, and each batch of
    /// events brings at most one thing of a kind, so the number is unique for its kind in the request.
    fn number(&self) -> u64 {
        self.seq.saturating_add(1)
    }

    fn message(&self, kind: MessageKind, text: impl Into<String>, images: Vec<String>) -> Message {
        Message { id: MessageId::new(format!("m{}", self.number())), kind, text: text.into(), images }
    }

    /// A notice for its user that the model doesn't get.
    pub(in crate::engine) fn notice(&self, text: String) -> Message {
        self.message(MessageKind::Say(Say::Error), text, vec![])
    }

    /// The queue with one more message, which will have the item's id when it is delivered.
    fn queue_with(&self, text: String, images: Vec<String>, when: SendWhen) -> Event {
        let mut items = self.queue.clone();
        items.push(self.queue_item(text, images, when));
        Event::QueueChanged { items }
    }

    /// A new message to it.
    pub(super) fn queue_item(&self, text: String, images: Vec<String>, when: SendWhen) -> QueueItem {
        QueueItem { id: format!("m{}", self.number()), text, images, when }
    }

    /// Returns whether it does nothing but wait for subtasks.
    pub(super) fn awaits_subtasks(&self) -> bool {
        self.batch().is_some_and(|batch| batch.current().is_none()) && self.has_open_branches()
    }

    /// Tells its user that the message sent next waits for its subtasks.
    pub(super) fn waits_for_subtasks(&self) -> Message {
        let text = "Several subtasks work at the same time, so your message waits for all of them. Send it to one of them to \
                    have it read sooner.";
        let id = MessageId::new(format!("m{}.waits", self.number()));
        Message { id, kind: MessageKind::Say(Say::Error), text: text.to_owned(), images: vec![] }
    }

    /// The queue with what a subtask has left unread; none where there is nothing new.
    pub(super) fn with_returned(&self, unread: &[QueueItem]) -> Option<Event> {
        let is_new = |item: &&QueueItem| self.queue.iter().all(|known| known.id != item.id);
        let new: Vec<QueueItem> = unread.iter().filter(is_new).cloned().collect();
        let all = || self.queue.iter().cloned().chain(new.iter().cloned()).collect();
        (!new.is_empty()).then(|| Event::QueueChanged { items: all() })
    }

    /// The queue without anything; none where it is empty.
    pub(super) fn without_queue(&self) -> Option<Event> {
        (!self.queue.is_empty()).then(|| Event::QueueChanged { items: vec![] })
    }

    /// Returns whether a message has come since its end was decided on.
    pub(super) fn is_said_since_end(&self, item: &QueueItem) -> bool {
        self.as_open().is_some_and(|open| !open.waited_before_end.contains(&item.id))
    }

    /// Takes note of messages below it that waited when its end was decided on.
    pub(super) fn note_waiting(&mut self, ids: Vec<String>) {
        if let Lifecycle::Open(open) = &mut self.lifecycle {
            open.waited_before_end.extend(ids);
        }
    }

    /// Returns whether its commands in the background are ended before it ends. Those of a branch that has done its
    /// work are handed to its parent.
    pub(crate) fn ends_commands(&self) -> bool {
        self.ending().is_some_and(|ending| self.parent.is_none() || ending.state != EndState::Completed)
    }
}

/// Requests and cost since the budget started over.
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
pub(crate) fn block_message_id(request: u32, block: u32) -> MessageId {
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

/// Returns the identity by which two calls are the same: name and parameters, whatever their order. It takes as long as
/// the parameters are large.
fn identity(call: &ToolCall) -> Digest {
    let sorted: BTreeMap<_, _> = call.params.iter().collect();
    let mut text = format!("{} ", call.name).into_bytes();
    // Writing JSON values to memory can't fail.
    let _ = serde_json::to_writer(&mut text, &sorted);
    Digest::of(text)
}

/// Entries keep their id as long as their text stays, so that clients can follow them.
pub(super) fn todo_items(old: &[TodoItem], new: Vec<(String, TodoStatus)>) -> Vec<TodoItem> {
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
