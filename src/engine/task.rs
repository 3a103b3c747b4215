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

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::event::{Ending, Event, ask_of, call_message, is_failure};
use crate::catalog::{Effect as ToolEffect, Invocation, ToolCall, ToolName};
use crate::config::Limits;
use crate::hooks::{Judgement, ModeChange, Plan, PlannedBranch, PlannedWrite};
use crate::modes;
use crate::parser::{Block, ToolProtocol};
use crate::prompts::replies;
use crate::protocol::event::{ApprovalOption, OptionKind, QuestionKind, Suggestion, ToolStatus, Verdict};
use crate::protocol::ids::{ApprovalId, Digest, MessageId, QuestionId, TaskId, ToolCallId, Urid};
use crate::protocol::message::{Message, MessageKind, Say};
use crate::protocol::task::{
    HistoryItem, PendingApproval, PendingQuestion, QueueItem, SendWhen, TaskState, TodoItem, TodoStatus,
    ToolUsage, Usage,
};
use crate::providers::{AssistantBlock, Finish, Item, ToolResult};
use crate::tools::Outcome;

/// How often a model request is made before the user is asked.
const MAX_ATTEMPTS: u32 = 5;
/// The longest wait between two attempts, in milliseconds.
const MAX_BACKOFF: i64 = 60_000;
/// How often in a row old results are shortened before the user is asked.
const MAX_REDUCTIONS: u32 = 3;
/// How often a task may try to save context for others before it ends.
const SAVE_ATTEMPTS: u32 = 3;
/// How often a subtask of one mode and title may fail before it is not begun again.
const SAME_SUBTASK: u32 = 3;
/// The answer that ends a task at one of the engine's own questions.
const STOP: &str = "Stop";
/// The answer that makes a failed model request again.
const TRY_AGAIN: &str = "Try again";
/// Option ids of an approval.
const ALLOW_ONCE: &str = "allow_once";
const REJECT_ONCE: &str = "reject_once";
/// Who answers what has become void.
const SERVER: &str = "server";

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
    /// What marks its mode in trees.
    pub emoji: String,
    /// The name of its model profile.
    pub profile: String,
    /// The user chose the profile, for whatever mode, and for its branches too.
    pub pinned: bool,
    /// How its model calls tools.
    pub protocol: ToolProtocol,
    /// Its prompt on one line, shortened.
    pub title: String,
    /// What bounds it.
    pub limits: Limits,
    /// When it began.
    pub created_at: i64,
    /// When its newest event happened.
    pub updated_at: i64,
    /// The number of its newest event.
    pub seq: u64,
    /// Where it stands.
    pub phase: Phase,
    /// The server that drove it ended; nothing goes on before it is resumed.
    pub interrupted: bool,
    /// How it is about to end; what is open gets its results first.
    ending: Option<Ending>,
    /// The conversation.
    pub items: Arc<Vec<Item>>,
    /// Results in items before this index are sent as stubs.
    pub reduced_before: usize,
    /// The blocks of the answer that comes in now.
    pub blocks: Vec<AssistantBlock>,
    /// The calls of the newest answer.
    pub calls: Vec<ToolCall>,
    /// Their results so far, up to the first call that waits for a subtask.
    pub results: Vec<ToolResult>,
    /// What the calls behind those results wait for. The next call comes after both.
    pub branches: Vec<Branch>,
    /// An earlier call of the answer was refused or failed, so the rest is not run.
    skip_rest: bool,
    /// What the server has to look up before the next model request.
    pub gather: Gather,
    /// Files that the task must read before it changes, runs or delegates anything.
    pub unread: BTreeSet<String>,
    /// Context that could not be saved, since it was last saved.
    pub unsaved: Option<Unsaved>,
    /// How often it has delegated since its user last said something.
    pub delegations: u32,
    /// How often subtasks failed, by mode and title.
    failed_subtasks: BTreeMap<(String, String), u32>,
    /// Messages that wait.
    pub queue: Vec<QueueItem>,
    /// The to-do list.
    pub todo: Vec<TodoItem>,
    /// The whole-file digests that it has seen, by path.
    pub seen: BTreeMap<String, Digest>,
    /// What it has used.
    pub usage: Usage,
    /// Tries and failures by tool.
    pub tool_usage: ToolUsage,
    /// The approval that waits, or waited when the server ended.
    pub approval: Option<PendingApproval>,
    /// An answer to it that came while the task was interrupted, or while it is judged again.
    pub held: Option<HeldAnswer>,
    /// The question that waits.
    pub question: Option<PendingQuestion>,
    /// Whose answers counted, by the id of the approval or question.
    pub answered: BTreeMap<String, Answered>,
    /// The result of a completed task.
    pub result: Option<String>,
    /// Why it is in its state.
    pub reason: Option<String>,
    counters: Counters,
}

/// A call that waits for a subtask, or one behind it whose result waits for its turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Branch {
    /// The call.
    pub call_id: ToolCallId,
    /// The subtask, and how it is to begin; none for a call that opened none.
    pub child: Option<(TaskId, Arc<PlannedBranch>)>,
    /// The call's result, once there is one.
    pub result: Option<ToolResult>,
}

impl Branch {
    /// The subtask that is waited for.
    pub fn open_child(&self) -> Option<(&TaskId, &PlannedBranch)> {
        self.child.as_ref().filter(|_| self.result.is_none()).map(|(child, plan)| (child, &**plan))
    }
}

/// What the server looks up for the model before it is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gather {
    /// Facts about the system.
    pub system: bool,
    /// Messages of the user that may mention something.
    pub messages: Vec<String>,
}

impl Gather {
    fn is_empty(&self) -> bool {
        !self.system && self.messages.is_empty()
    }
}

/// What came of looking things up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gathered {
    /// What the model gets; may be empty.
    pub text: String,
    /// Images as data URLs.
    pub images: Vec<String>,
    /// Whole-file digests that the task has now seen.
    pub seen: Vec<(String, Option<Digest>)>,
    /// The mode that a command of the user asks for.
    pub mode: Option<ModeChange>,
}

/// Context that could not be saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsaved {
    /// How often it was tried.
    pub attempts: u32,
    /// Why it failed the last time.
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

/// An answer to an approval that waits for its task to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldAnswer {
    /// Who answered.
    pub by: String,
    /// The chosen option.
    pub option_id: String,
    text: Option<String>,
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

/// Where a task stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    /// A model request is to be made, or under way when `started`.
    Model {
        /// From 1.
        attempt: u32,
        /// Whether its number is drawn.
        started: bool,
    },
    /// A failed request waits for its next attempt.
    Backoff {
        /// The attempt that comes next.
        attempt: u32,
        /// When, in milliseconds since the Unix epoch.
        due: i64,
    },
    /// An answer came without a call, or was cut by the output limit.
    Unanswerable(Finish),
    /// The calls of an answer are worked off, one after another.
    Tools(Stage),
    /// The engine asks its user something.
    Question,
    /// Completed, failed or cancelled.
    Ended(TaskState),
}

/// Where the current call stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// The gate is to judge it.
    Gate {
        /// The digest of the action that the user allowed.
        approved: Option<Digest>,
    },
    /// The user is asked for permission.
    Approval,
    /// The user refused it.
    Refused {
        /// What the user said to that.
        feedback: Option<String>,
    },
    /// It asked the user a question.
    Question,
    /// The user answered its question.
    Answered {
        /// The answer.
        text: String,
        /// Images as data URLs.
        images: Vec<String>,
    },
    /// It runs.
    Run {
        /// The digest of the action that the user allowed.
        approved: Option<Digest>,
        /// What it writes.
        write: Option<PlannedWrite>,
    },
    /// All calls are worked off but those that wait for subtasks.
    Branches,
    /// It ran when the server ended; what came of its write is to be found out.
    SettleWrite {
        /// The digest of the action that the user allowed.
        approved: Option<Digest>,
        /// What it was to write.
        write: PlannedWrite,
    },
}

/// What happens to a task.
#[derive(Debug)]
pub enum Input {
    /// The user says something.
    Send {
        /// What.
        text: String,
        /// Images as data URLs.
        images: Vec<String>,
        /// When it reaches the model.
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
        /// What the user adds.
        text: Option<String>,
        /// Who answered.
        by: String,
    },
    /// The user answers the question that waits.
    Answer {
        /// What.
        text: String,
        /// Images as data URLs.
        images: Vec<String>,
        /// The mode that goes with the suggestion which was chosen.
        mode: Option<ModeChange>,
        /// Who answered.
        by: String,
    },
    /// The user puts the task into another mode, or gives it another model.
    Change(ModeChange),
    /// What was to be looked up for the model.
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
        /// Why it ended.
        finish: Finish,
        /// What the request used.
        used: Usage,
    },
    /// The model request failed.
    ModelFailed {
        /// What failed, on what, and what to do.
        message: String,
        /// What can be done about it.
        remedy: Remedy,
        /// What the request used all the same.
        used: Usage,
    },
    /// The time to try again has come.
    RetryDue,
    /// The gate has judged the current call.
    Gated(Judgement),
    /// The current call's tool is done.
    ToolDone(Outcome),
    /// What an interrupted write left: the digest of the file, none when it isn't there.
    WriteSettled(Option<Digest>),
}

impl Input {
    /// Whether it tells what came of an effect.
    fn is_report(&self) -> bool {
        matches!(
            self,
            Self::ModelBlock { .. }
                | Self::ModelEnded { .. }
                | Self::ModelFailed { .. }
                | Self::RetryDue
                | Self::Gated(_)
                | Self::ToolDone(_)
                | Self::WriteSettled(_)
                | Self::Gathered(_)
        )
    }
}

/// What can be done about a failed model request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Remedy {
    /// Make it again.
    Retry {
        /// How long the endpoint asked to wait, in milliseconds.
        after: Option<i64>,
        /// From 0 to 1: spreads the attempts of many tasks.
        jitter: f64,
    },
    /// Send less.
    Shorten,
    /// Ask the user.
    Ask,
}

/// What the state calls for.
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
        /// Whether the log must be durable first.
        mutating: bool,
    },
    /// Find out what an interrupted write left.
    SettleWrite {
        /// The call.
        call_id: ToolCallId,
        /// What it was to write.
        write: PlannedWrite,
    },
}

impl Task {
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
        } = event
        else {
            return None;
        };
        Some(Self {
            id,
            parent: parent.clone(),
            emoji: emoji.clone(),
            branches: vec![],
            gather: Gather { system: *gather, messages: vec![] },
            unread: unread.iter().cloned().collect(),
            pinned: *pinned,
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
            phase: Phase::Model { attempt: 1, started: false },
            interrupted: false,
            ending: None,
            items: Arc::default(),
            reduced_before: 0,
            blocks: vec![],
            calls: vec![],
            results: vec![],
            skip_rest: false,
            queue: vec![],
            todo: vec![],
            seen: BTreeMap::new(),
            usage: Usage::default(),
            tool_usage: ToolUsage::default(),
            approval: None,
            held: None,
            question: None,
            answered: BTreeMap::new(),
            result: None,
            reason: None,
            counters: Counters::default(),
        })
    }

    /// The state as clients name it.
    pub fn state(&self) -> TaskState {
        match &self.phase {
            Phase::Ended(state) => *state,
            _ if self.interrupted => TaskState::Interrupted,
            Phase::Question | Phase::Tools(Stage::Approval | Stage::Question) => TaskState::Waiting,
            Phase::Tools(Stage::Branches) => TaskState::Paused,
            _ => TaskState::Running,
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

    /// Whether the user wants it to end while a tool still runs.
    pub fn is_cancelling(&self) -> bool {
        self.ending.as_ref().is_some_and(|ending| ending.state == TaskState::Cancelled)
    }

    /// Whether it is about to end, in whatever way.
    pub fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// What the current call can do to the world.
    pub fn current_effect(&self) -> ToolEffect {
        self.current_call().map_or(ToolEffect::Read, effect_of)
    }

    /// How many calls of the newest answer have a result or wait for one.
    fn handled(&self) -> usize {
        self.results.len() + self.branches.len()
    }

    /// The call that is worked on.
    pub fn current_call(&self) -> Option<&ToolCall> {
        self.calls.get(self.handled())
    }

    /// Whether the current call would open a branch.
    pub fn is_delegating(&self) -> bool {
        self.current_call().is_some_and(|call| ToolName::parse(&call.name) == Some(ToolName::NewTask))
    }

    /// Whether it waits for a subtask.
    pub fn has_open_branches(&self) -> bool {
        self.branches.iter().any(|branch| branch.open_child().is_some())
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

    /// What it has used with this request.
    fn total_with(&self, used: Usage) -> Usage {
        let mut total = self.usage;
        // The provider's own word may be nonsense; nothing is ever paid back.
        total += Usage { cost_usd: used.cost_usd.max(0.0), ..used };
        total
    }

    /// Folds one event.
    pub fn apply(&mut self, event: &Event, seq: u64, at: i64) {
        self.seq = seq;
        self.updated_at = at;
        match event {
            Event::Created { .. } => self.created_at = at,
            Event::UserSaid { message, text, mentions } => {
                self.queue.retain(|item| item.id != message.id.as_str());
                self.push(Item::User { text: text.clone(), images: message.images.clone() });
                if *mentions {
                    self.gather.messages.push(message.text.clone());
                }
                self.begin_delegating_anew();
                // What the user says may make a call right that was wrong or useless before.
                self.counters.mistakes = 0;
                self.counters.last_call = None;
                self.counters.repeats = 0;
            }
            Event::Shown { .. } | Event::GateDecided { .. } | Event::EditApplied { .. } => {}
            Event::Gathered { text, images, seen } => {
                if !text.is_empty() || !images.is_empty() {
                    self.push(Item::User { text: text.clone(), images: images.clone() });
                }
                self.see(seen);
                self.gather = Gather::default();
            }
            Event::ModeSwitched { change, .. } => {
                if let Some((slug, emoji)) = &change.mode {
                    self.mode.clone_from(slug);
                    self.emoji.clone_from(emoji);
                }
                if let Some((profile, protocol)) = &change.profile {
                    // Whoever changes the profile alone means it for all modes.
                    self.pinned |= change.mode.is_none();
                    self.profile.clone_from(profile);
                    self.protocol = *protocol;
                }
            }
            Event::Delegated { call_id, child, plan } => {
                let child = Some((child.clone(), Arc::clone(plan)));
                self.branches.push(Branch { call_id: call_id.clone(), child, result: None });
                self.delegations += 1;
                self.next_call();
            }
            Event::Halted { reason } => {
                let reason = Some(reason.clone());
                self.ending = Some(Ending { state: TaskState::Failed, result: None, reason });
            }
            Event::TurnStarted { request } => {
                self.counters.requests = *request;
                self.blocks.clear();
                if let Phase::Model { started, .. } = &mut self.phase {
                    *started = true;
                }
            }
            Event::Spoke { message } => self.blocks.push(AssistantBlock::Text { text: message.text.clone() }),
            Event::Thought { message, opaque, origin } => self.blocks.push(AssistantBlock::Thinking {
                text: message.text.clone(),
                opaque: opaque.clone(),
                origin: origin.clone(),
            }),
            Event::Called { call, .. } => self.blocks.push(AssistantBlock::Call { call: call.clone() }),
            Event::TurnEnded { finish, total } => self.end_turn(*finish, *total),
            Event::TurnFailed { total, .. } => {
                self.usage = *total;
                self.blocks.clear();
                if let Phase::Model { started, .. } = &mut self.phase {
                    *started = false;
                }
            }
            Event::RetryScheduled { due, attempt, .. } => {
                self.phase = Phase::Backoff { attempt: *attempt, due: *due };
            }
            Event::RetryDue => {
                if let Phase::Backoff { attempt, .. } = self.phase {
                    self.phase = Phase::Model { attempt, started: false };
                }
            }
            Event::Corrected { text, mistake } => {
                self.push(Item::User { text: text.clone(), images: vec![] });
                self.counters.mistakes += u32::from(*mistake);
                self.phase = Phase::Model { attempt: 1, started: false };
            }
            Event::ContextReduced { before } => {
                self.reduced_before = *before;
                self.counters.reductions += 1;
            }
            Event::ApprovalRequested { approval } => {
                self.approval = Some(approval.clone());
                self.phase = Phase::Tools(Stage::Approval);
            }
            Event::AnswerHeld { by, option_id, text, .. } => {
                self.held =
                    Some(HeldAnswer { by: by.clone(), option_id: option_id.clone(), text: text.clone() });
            }
            Event::ApprovalResolved { approval_id, by, option_id, text } => {
                let answered = Answered { by: by.clone(), answer: option_id.clone() };
                self.answered.insert(approval_id.to_string(), answered);
                self.held = None;
                let approved = self.approval.take().map(|approval| approval.digest);
                match option_id.as_deref() {
                    None => {}
                    Some(ALLOW_ONCE) => self.phase = Phase::Tools(Stage::Gate { approved }),
                    Some(_) => self.phase = Phase::Tools(Stage::Refused { feedback: text.clone() }),
                }
            }
            Event::QuestionAsked { question, call_id } => {
                self.question = Some(question.clone());
                self.phase = match call_id {
                    Some(_) => Phase::Tools(Stage::Question),
                    None => Phase::Question,
                };
            }
            Event::QuestionAnswered { question_id, by, text, images } => {
                let answered = Answered { by: by.clone(), answer: text.clone() };
                self.answered.insert(question_id.to_string(), answered);
                let question = self.question.take();
                if self.phase == Phase::Question {
                    self.phase = Phase::Model { attempt: 1, started: false };
                    if text.as_deref().is_some_and(is_stop) {
                        let reason = question.map(|question| question.text);
                        self.ending = Some(Ending { state: TaskState::Failed, result: None, reason });
                    }
                } else if let Some(text) = text {
                    self.phase = Phase::Tools(Stage::Answered { text: text.clone(), images: images.clone() });
                }
            }
            Event::ToolStarted { write, .. } => {
                if let Phase::Tools(Stage::Gate { approved }) = self.phase {
                    self.phase = Phase::Tools(Stage::Run { approved, write: write.clone() });
                }
            }
            Event::ToolRestarted { .. } => {
                if let Phase::Tools(Stage::Run { approved, .. } | Stage::SettleWrite { approved, .. }) =
                    self.phase
                {
                    self.phase = Phase::Tools(Stage::Gate { approved });
                }
            }
            Event::ToolFinished { result, seen, mistake, ends, saves, .. } => {
                self.finish_call(result, seen, *mistake);
                match saves {
                    None => {}
                    Some(true) => self.unsaved = None,
                    Some(false) => {
                        let attempts = self.unsaved.as_ref().map_or(0, |unsaved| unsaved.attempts) + 1;
                        self.unsaved = Some(Unsaved { attempts, reason: summary(&result.text) });
                    }
                }
                if ends.is_some() {
                    self.ending.clone_from(ends);
                }
            }
            Event::TodoChanged { items } => self.todo = items.clone(),
            Event::QueueChanged { items } => self.queue = items.clone(),
            // The budget is the request's.
            Event::BudgetReset => {}
            Event::CancelRequested => {
                let reason = Some("cancelled by the user".to_owned());
                self.ending = Some(Ending { state: TaskState::Cancelled, result: None, reason });
            }
            Event::Interrupted => self.interrupted = true,
            Event::Resumed => self.go_on(),
            Event::Ended { state, result, reason, .. } => {
                self.ending = None;
                self.interrupted = false;
                self.result.clone_from(result);
                self.reason.clone_from(reason);
                self.phase = Phase::Ended(*state);
                if self.parent.is_some() {
                    // A subtask never goes on, so nobody needs its conversation but in the log.
                    self.items = Arc::default();
                    self.seen = BTreeMap::new();
                }
            }
        }
    }

    /// What the user says, or wants to be tried again, makes up for what was delegated before.
    fn begin_delegating_anew(&mut self) {
        self.delegations = 0;
        self.failed_subtasks.clear();
    }

    fn push(&mut self, item: Item) {
        Arc::make_mut(&mut self.items).push(item);
    }

    fn go_on(&mut self) {
        self.interrupted = false;
        match &self.phase {
            Phase::Ended(_) => {
                self.result = None;
                self.reason = None;
                self.counters.mistakes = 0;
                self.unsaved = None;
                self.begin_delegating_anew();
                self.phase = Phase::Model { attempt: 1, started: false };
            }
            Phase::Tools(Stage::Approval) => self.phase = Phase::Tools(Stage::Gate { approved: None }),
            Phase::Tools(Stage::Run { approved, write: Some(write) }) => {
                self.phase = Phase::Tools(Stage::SettleWrite { approved: *approved, write: write.clone() });
            }
            _ => {}
        }
    }

    fn end_turn(&mut self, finish: Finish, total: Usage) {
        self.usage = total;
        self.counters.reductions = 0;
        let blocks = std::mem::take(&mut self.blocks);
        self.calls = blocks
            .iter()
            .filter_map(|block| match block {
                AssistantBlock::Call { call } => Some(call.clone()),
                _ => None,
            })
            .collect();
        self.results.clear();
        self.branches.clear();
        self.skip_rest = false;
        // Endpoints refuse an answer without content.
        if blocks.iter().any(|block| !matches!(block, AssistantBlock::Thinking { .. })) {
            self.push(Item::Assistant { blocks });
        }
        self.phase = if self.calls.is_empty() {
            Phase::Unanswerable(finish)
        } else {
            Phase::Tools(Stage::Gate { approved: None })
        };
    }

    fn finish_call(&mut self, result: &ToolResult, seen: &[(String, Option<Digest>)], mistake: bool) {
        let waiting = self.branches.iter().position(|branch| branch.call_id == result.call_id);
        let call = match waiting {
            Some(_) => self.calls.iter().find(|call| call.id == result.call_id),
            None => self.current_call().filter(|call| call.id == result.call_id),
        };
        let Some(call) = call else { return };
        let failed = is_failure(result.status);
        let identity = identity(call);
        if result.status != ToolStatus::Skipped {
            let again = self.counters.last_call == Some(identity);
            self.counters.repeats = if again { self.counters.repeats + 1 } else { 1 };
            self.counters.last_call = Some(identity);
            let count = self.tool_usage.0.entry(result.name.clone()).or_default();
            count.attempts += 1;
            count.failures += u32::from(failed);
        }
        if mistake {
            self.counters.mistakes += 1;
        } else if !failed {
            self.counters.mistakes = 0;
        }
        self.see(seen);
        // A failed look changes nothing for the calls after it; anything else may, and so may what a
        // user who refuses has in mind.
        let only_looks =
            ToolName::parse(&result.name).is_some_and(|tool| tool.spec().effect == ToolEffect::Read);
        let refused = matches!(self.phase, Phase::Tools(Stage::Refused { .. }));
        // What a branch came to, or what stands behind a delegation, says nothing against further ones.
        let counts = waiting.is_none() && self.branches.is_empty();
        self.skip_rest |= failed && counts && (refused || !only_looks);
        match waiting {
            Some(index) => self.finish_branch(index, result),
            None if self.branches.is_empty() => self.results.push(result.clone()),
            // Results keep the order of their calls.
            None => {
                let call_id = result.call_id.clone();
                self.branches.push(Branch { call_id, child: None, result: Some(result.clone()) });
            }
        }
        // A subtask's end leaves the call alone that is being worked on.
        if waiting.is_none() || matches!(self.phase, Phase::Tools(Stage::Branches)) {
            self.next_call();
        }
    }

    fn see(&mut self, seen: &[(String, Option<Digest>)]) {
        for (path, digest) in seen {
            match digest {
                Some(digest) => {
                    self.unread.remove(path);
                    self.seen.insert(path.clone(), *digest);
                }
                None => {
                    self.seen.remove(path);
                }
            }
        }
    }

    fn finish_branch(&mut self, index: usize, result: &ToolResult) {
        let branch = &mut self.branches[index];
        branch.result = Some(result.clone());
        // One that was cancelled has not failed at its work.
        if let Some((_, plan)) = &branch.child
            && result.status == ToolStatus::Failed
        {
            let key = (plan.mode.clone(), plan.delegation.title.clone());
            *self.failed_subtasks.entry(key).or_default() += 1;
        }
    }

    /// Goes to the next call, to the wait for subtasks, or back to the model.
    fn next_call(&mut self) {
        if self.handled() < self.calls.len() {
            self.phase = Phase::Tools(Stage::Gate { approved: None });
        } else if self.has_open_branches() {
            self.phase = Phase::Tools(Stage::Branches);
        } else {
            self.calls.clear();
            let mut results = std::mem::take(&mut self.results);
            results.extend(self.branches.drain(..).filter_map(|branch| branch.result));
            self.push(Item::Results { results });
            self.phase = Phase::Model { attempt: 1, started: false };
        }
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

/// What a task has to know of the others of its request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kin {
    /// What the whole request has spent.
    pub spent: Spending,
    /// Whether another task asks its user about the budget.
    pub asked: bool,
}

/// The message id of a block of a model request: known before the block is closed, so that running
/// text and the closed message are one.
pub fn block_message_id(request: u32, block: u32) -> MessageId {
    MessageId::new(format!("r{request}.b{block}"))
}

/// What an input leads to. Inputs that don't fit the state lead to nothing: a late result of work
/// that was cancelled, or a second answer.
pub fn decide(task: &Task, input: Input, at: i64) -> Vec<Event> {
    if task.interrupted && input.is_report() {
        return vec![];
    }
    match input {
        Input::Send { text, images, when } => send(task, text, images, when),
        Input::EditQueued { id, text } => edit_queue(task, |items| {
            items.iter_mut().filter(|item| item.id == id).for_each(|item| item.text.clone_from(&text));
        }),
        Input::DeleteQueued { id } => edit_queue(task, |items| items.retain(|item| item.id != id)),
        Input::Cancel => match task.phase {
            Phase::Ended(_) => vec![],
            _ if task.ending.is_some() => vec![],
            _ => vec![Event::CancelRequested],
        },
        Input::Resume => match task.phase {
            Phase::Ended(TaskState::Completed) => vec![],
            _ => {
                let mut events = resume(task);
                if !events.is_empty() {
                    events.extend(try_again(task));
                }
                events
            }
        },
        Input::Respond { option_id, text, by } => respond(task, option_id, text, by),
        Input::Answer { text, images, mode, by } => answer(task, text, images, mode, by),
        Input::Change(change) => vec![mode_switched(task, change, None)],
        Input::Gathered(Gathered { text, images, seen, mode }) => match task.phase {
            Phase::Model { started: false, .. } if !task.gather.is_empty() => {
                let switched = mode.map(|change| mode_switched(task, change, None));
                switched.into_iter().chain([Event::Gathered { text, images, seen }]).collect()
            }
            _ => vec![],
        },
        Input::ModelBlock { block, origin } => model_block(task, block, origin),
        Input::ModelEnded { finish: Finish::Refused, used } => {
            let message = "The provider refused to go on with this conversation.".to_owned();
            model_failed(task, message, Remedy::Ask, used, at)
        }
        Input::ModelEnded { finish, used } => match task.phase {
            Phase::Model { started: true, .. } => {
                vec![Event::TurnEnded { finish, total: task.total_with(used) }]
            }
            _ => vec![],
        },
        Input::ModelFailed { message, remedy, used } => model_failed(task, message, remedy, used, at),
        Input::RetryDue => match task.phase {
            Phase::Backoff { .. } => vec![Event::RetryDue],
            _ => vec![],
        },
        Input::Gated(judgement) => gated(task, judgement),
        Input::ToolDone(outcome) => tool_done(task, outcome),
        Input::WriteSettled(found) => write_settled(task, found),
    }
}

/// What follows from the state alone, and from what the task's kin has spent: results, delivery of waiting messages, limits, the next
/// request, corrections, the end. Called until nothing follows.
pub fn settle(task: &Task, kin: &dyn Fn() -> Kin) -> Vec<Event> {
    if let Some(ending) = &task.ending {
        return conclude(task, ending);
    }
    if task.interrupted {
        return vec![];
    }
    match &task.phase {
        Phase::Model { started: false, .. } => before_request(task, kin),
        Phase::Unanswerable(finish) => {
            let text = match finish {
                Finish::Length => replies::answer_cut(),
                _ => replies::no_tool_used(task.protocol),
            };
            vec![Event::Corrected { text, mistake: true }]
        }
        Phase::Tools(Stage::Gate { approved: None }) => before_gate(task),
        _ => result_by_user(task).into_iter().collect(),
    }
}

/// Gives every open call its result and voids what waits, then ends the task.
fn conclude(task: &Task, ending: &Ending) -> Vec<Event> {
    let ran = match task.phase {
        // It comes to its own end first.
        Phase::Tools(Stage::Run { .. }) if !task.interrupted => return vec![],
        Phase::Tools(Stage::Run { .. } | Stage::SettleWrite { .. }) => true,
        _ => false,
    };
    if let Some(result) = result_by_user(task) {
        return vec![result];
    }
    let mut events: Vec<Event> = void_approval(task).into_iter().collect();
    events.extend(task.question.as_ref().map(|question| Event::QuestionAnswered {
        question_id: question.question_id.clone(),
        by: SERVER.into(),
        text: None,
        images: vec![],
    }));
    if let Phase::Model { started: true, .. } = task.phase {
        events.push(turn_failed(task, "Cancelled by the user.", Usage::default()));
    }
    for (index, call) in task.calls.iter().enumerate().skip(task.handled()) {
        events.push(if ran && index == task.handled() {
            finished(call, ToolStatus::Interrupted, replies::interrupted(effect_of(call)), false)
        } else if task.is_cancelling() {
            finished(call, ToolStatus::Skipped, replies::cancelled(), false)
        } else {
            finished(call, ToolStatus::Skipped, replies::skipped(), false)
        });
    }
    // Subtasks come to their own end first.
    if events.is_empty() && !task.has_open_branches() {
        let Ending { state, result, reason } = ending.clone();
        events.push(Event::Ended {
            state,
            result,
            reason,
            usage: task.usage,
            tool_usage: task.tool_usage.clone(),
        });
    }
    events
}

/// The result of a call that the user refused or answered.
fn result_by_user(task: &Task) -> Option<Event> {
    let call = task.current_call()?;
    match &task.phase {
        Phase::Tools(Stage::Refused { feedback }) => {
            Some(finished(call, ToolStatus::Denied, replies::denied(feedback.as_deref()), false))
        }
        Phase::Tools(Stage::Answered { text, images }) => {
            let result = result_of(call, ToolStatus::Ok, crate::prompts::user_message(text), images.clone());
            Some(Event::ToolFinished {
                summary: text.lines().next().unwrap_or_default().to_owned(),
                result,
                seen: vec![],
                mistake: false,
                ends: None,
                saves: None,
            })
        }
        _ => None,
    }
}

/// Calls that need no judgement.
fn before_gate(task: &Task) -> Vec<Event> {
    if task.unsaved.as_ref().is_some_and(|unsaved| unsaved.attempts >= SAVE_ATTEMPTS) {
        return halt(task);
    }
    let Some(call) = task.current_call() else { return vec![] };
    let Counters { repeats, last_call, .. } = task.counters;
    let limit = task.limits.mistakes;
    let delegates = ToolName::parse(&call.name) == Some(ToolName::NewTask);
    if task.skip_rest {
        vec![finished(call, ToolStatus::Skipped, replies::skipped(), false)]
    } else if !task.branches.is_empty() && !delegates {
        vec![finished(call, ToolStatus::Skipped, replies::after_delegation(), false)]
    } else if limit > 0 && repeats >= limit && last_call == Some(identity(call)) {
        vec![finished(call, ToolStatus::Failed, replies::repeated(&call.name, repeats), true)]
    } else if let Some(refusal) = too_early(task, call) {
        vec![finished(call, ToolStatus::Failed, refusal, true)]
    } else {
        vec![]
    }
}

/// Why a call has to wait for context that is not read or not saved.
fn too_early(task: &Task, call: &ToolCall) -> Option<String> {
    let tool = ToolName::parse(&call.name)?;
    let goes_on =
        tool == ToolName::NewTask || matches!(tool.spec().effect, ToolEffect::Write | ToolEffect::Execute);
    if goes_on && !task.unread.is_empty() {
        return Some(replies::unread_context(&task.unread.iter().cloned().collect::<Vec<_>>()));
    }
    // Whether a write saves it after all is for the gate to say.
    let must_save = task.unsaved.is_some()
        && tool != ToolName::WriteToFile
        && (goes_on || tool == ToolName::AttemptCompletion);
    must_save.then(replies::save_first)
}

/// Ends a task that could not save what others need.
fn halt(task: &Task) -> Vec<Event> {
    let why = task.unsaved.as_ref().map(|unsaved| unsaved.reason.as_str()).unwrap_or_default();
    let reason = replies::context_not_saved(0, why);
    let message = task.message(MessageKind::Say(Say::Error), reason.clone(), vec![]);
    vec![Event::Shown { message }, Event::Halted { reason }]
}

/// The one effect that the state calls for.
pub fn wanted(task: &Task) -> Option<Effect> {
    if task.interrupted {
        return None;
    }
    match &task.phase {
        Phase::Model { started: true, .. } => Some(Effect::CallModel { request: task.counters.requests }),
        Phase::Model { started: false, .. } if task.ending.is_none() && !task.gather.is_empty() => {
            Some(Effect::Gather(task.gather.clone()))
        }
        Phase::Backoff { due, .. } => Some(Effect::Wait { due: *due }),
        Phase::Tools(stage) => {
            let call = task.current_call()?;
            match stage {
                Stage::Gate { approved } => Some(Effect::Gate {
                    call_id: call.id.clone(),
                    mode: task.mode.clone(),
                    approved: *approved,
                }),
                Stage::Run { .. } => Some(Effect::RunTool {
                    call_id: call.id.clone(),
                    mutating: effect_of(call) != ToolEffect::Read,
                }),
                Stage::SettleWrite { write, .. } => {
                    Some(Effect::SettleWrite { call_id: call.id.clone(), write: write.clone() })
                }
                Stage::Approval
                | Stage::Refused { .. }
                | Stage::Question
                | Stage::Answered { .. }
                | Stage::Branches => None,
            }
        }
        _ => None,
    }
}

fn before_request(task: &Task, kin: &dyn Fn() -> Kin) -> Vec<Event> {
    if task.unsaved.as_ref().is_some_and(|unsaved| unsaved.attempts >= SAVE_ATTEMPTS) {
        return halt(task);
    }
    if task.queue.iter().any(|item| item.when == SendWhen::Now) {
        return deliver(task);
    }
    let Counters { requests, mistakes, .. } = task.counters;
    let limits = &task.limits;
    if limits.mistakes > 0 && mistakes >= limits.mistakes {
        let text =
            format!("The model made {mistakes} mistakes in a row. Tell it how to go on, or stop the task.");
        return ask_engine_question(task, QuestionKind::MistakeLimitReached, text, "Try another way");
    }
    let Kin { spent: Spending { requests: spent, cost_usd: cost }, asked } = kin();
    let reached = if limits.requests > 0 && spent >= limits.requests {
        Some(format!("The request has made {spent} model requests; its limit is {}.", limits.requests))
    } else if limits.cost_usd > 0.0 && cost >= limits.cost_usd {
        Some(format!("The request has cost ${cost:.2}; its limit is ${:.2}.", limits.cost_usd))
    } else {
        None
    };
    match reached {
        // One answer counts for all tasks of the request.
        Some(_) if asked => return vec![],
        Some(text) => {
            return ask_engine_question(task, QuestionKind::AutoApprovalMaxReqReached, text, "Go on");
        }
        None => {}
    }
    if !task.gather.is_empty() {
        return vec![];
    }
    vec![Event::TurnStarted { request: requests.saturating_add(1) }]
}

/// Puts messages that shall be heard now into the conversation.
fn deliver(task: &Task) -> Vec<Event> {
    let (now, rest): (Vec<QueueItem>, Vec<QueueItem>) =
        task.queue.iter().cloned().partition(|item| item.when == SendWhen::Now);
    let said = now.into_iter().map(|item| Event::UserSaid {
        text: crate::prompts::user_message(&item.text),
        mentions: may_mention(&item.text),
        message: Message {
            id: MessageId::new(item.id),
            kind: MessageKind::Say(Say::UserFeedback),
            text: item.text,
            images: item.images,
        },
    });
    said.chain([Event::QueueChanged { items: rest }]).collect()
}

fn ask_engine_question(task: &Task, kind: QuestionKind, text: String, go_on: &str) -> Vec<Event> {
    let suggestions = [go_on, STOP].map(|text| Suggestion { text: text.to_owned(), mode: None }).into();
    let shown = task.message(MessageKind::Ask(ask_of(kind)), text.clone(), vec![]);
    let question = PendingQuestion { question_id: next_question(task), kind, text, suggestions };
    vec![Event::Shown { message: shown }, Event::QuestionAsked { question, call_id: None }]
}

fn next_question(task: &Task) -> QuestionId {
    QuestionId::new(format!("{}.q{}", task.id, task.number()))
}

/// Whether this answer to one of the engine's questions ends the task.
pub(super) fn is_stop(text: &str) -> bool {
    text.trim().eq_ignore_ascii_case(STOP)
}

fn send(task: &Task, text: String, images: Vec<String>, when: SendWhen) -> Vec<Event> {
    let mut events = resume(task);
    if task.question.is_some() && when == SendWhen::Now {
        // In a conversation, what one says next is the answer. Never so with an approval.
        events.extend(answer(task, text, images, None, "user".to_owned()));
    } else {
        // A task that has ended does nothing that could be waited for.
        let when = if matches!(task.phase, Phase::Ended(_)) { SendWhen::Now } else { when };
        events.push(task.queue_with(text, images, when));
    }
    events
}

fn edit_queue(task: &Task, edit: impl FnOnce(&mut Vec<QueueItem>)) -> Vec<Event> {
    let mut items = task.queue.clone();
    edit(&mut items);
    if items == task.queue { vec![] } else { vec![Event::QueueChanged { items }] }
}

/// Lets a task go on that was interrupted or has ended; nothing for any other.
fn resume(task: &Task) -> Vec<Event> {
    if !task.interrupted && !matches!(task.phase, Phase::Ended(_)) {
        return vec![];
    }
    let mut events = vec![];
    match &task.phase {
        Phase::Model { started: true, .. } => {
            let error = "The server ended during this request; it is made again.";
            events.push(turn_failed(task, error, Usage::default()));
        }
        Phase::Tools(Stage::Run { write: None, .. }) => {
            events.extend(task.current_call().map(|call| match effect_of(call) {
                ToolEffect::Read => Event::ToolRestarted { call_id: call.id.clone() },
                effect => finished(call, ToolStatus::Interrupted, replies::interrupted(effect), false),
            }));
        }
        _ => {}
    }
    events.push(Event::Resumed);
    events
}

/// Whoever lets a task go on whose model could not be reached, and says no more, wants just that.
fn try_again(task: &Task) -> Option<Event> {
    let question = task.question.as_ref().filter(|asked| asked.kind == QuestionKind::ApiReqFailed)?;
    Some(Event::QuestionAnswered {
        question_id: question.question_id.clone(),
        by: SERVER.into(),
        text: Some(TRY_AGAIN.into()),
        images: vec![],
    })
}

fn void_approval(task: &Task) -> Option<Event> {
    task.approval.as_ref().map(|approval| Event::ApprovalResolved {
        approval_id: approval.approval_id.clone(),
        by: SERVER.into(),
        option_id: None,
        text: None,
    })
}

fn turn_failed(task: &Task, error: impl Into<String>, used: Usage) -> Event {
    let (error, total) = (error.into(), task.total_with(used));
    Event::TurnFailed { request: task.counters.requests, error, cancelled: task.is_cancelling(), total }
}

fn finished(call: &ToolCall, status: ToolStatus, text: String, mistake: bool) -> Event {
    let summary = summary(&text);
    let result = result_of(call, status, text, vec![]);
    Event::ToolFinished { summary, result, seen: vec![], mistake, ends: None, saves: None }
}

/// What people are told of a text for the model: its first sentence, as the rest says what to do next.
fn summary(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.split_inclusive(". ").next().unwrap_or_default().trim_end().to_owned()
}

fn result_of(call: &ToolCall, status: ToolStatus, text: String, images: Vec<String>) -> ToolResult {
    let subject = crate::catalog::parse(call).map(|call| call.subject()).unwrap_or_default();
    ToolResult { call_id: call.id.clone(), name: call.name.clone(), subject, status, text, images }
}

fn model_block(task: &Task, block: Block, origin: String) -> Vec<Event> {
    if !matches!(task.phase, Phase::Model { started: true, .. }) {
        return vec![];
    }
    let index = u32::try_from(task.blocks.len()).unwrap_or(u32::MAX);
    let id = block_message_id(task.counters.requests, index);
    let say = |say, text| Message { id: id.clone(), kind: MessageKind::Say(say), text, images: vec![] };
    vec![match block {
        Block::Text(text) => Event::Spoke { message: say(Say::Text, text) },
        Block::Thinking { text, opaque } => {
            Event::Thought { message: say(Say::Reasoning, text), opaque, origin }
        }
        // Ids are our own: providers repeat theirs, and calls in text have none.
        Block::Call { name, params, problem, .. } => {
            let call_id = ToolCallId::new(format!("call_{}", task.number()));
            let call = ToolCall { id: call_id, name, params, problem };
            Event::Called { message: call_message(id, &call), call }
        }
    }]
}

fn model_failed(task: &Task, message: String, remedy: Remedy, used: Usage, at: i64) -> Vec<Event> {
    let Phase::Model { attempt, started: true } = task.phase else { return vec![] };
    let mut events = vec![turn_failed(task, message.clone(), used)];
    // How many items are still whole.
    let whole = task.items.len().saturating_sub(task.reduced_before);
    match remedy {
        Remedy::Retry { after, jitter } if attempt < MAX_ATTEMPTS => {
            let backoff = (250_i64 << attempt.min(16)).min(MAX_BACKOFF);
            // Half fixed, half spread; both are small positive numbers.
            let spread = (backoff as f64 / 2.0 * (1.0 + jitter.clamp(0.0, 1.0))) as i64;
            let due = at.saturating_add(after.unwrap_or(0).max(spread));
            events.push(Event::RetryScheduled { due, attempt: attempt + 1, reason: message });
        }
        Remedy::Shorten if whole > 0 && task.counters.reductions < MAX_REDUCTIONS => {
            // Each time, half of them.
            events.push(Event::ContextReduced { before: task.reduced_before + whole.div_ceil(2) });
        }
        _ => events.extend(ask_engine_question(task, QuestionKind::ApiReqFailed, message, TRY_AGAIN)),
    }
    events
}

fn gated(task: &Task, judgement: Judgement) -> Vec<Event> {
    let Phase::Tools(Stage::Gate { .. }) = task.phase else { return vec![] };
    let Some(call) = task.current_call() else { return vec![] };
    let decided =
        |verdict, rule, reason| Event::GateDecided { call_id: call.id.clone(), verdict, rule, reason };
    // An approval that was pending when the server ended, and its answer if one has come since.
    let (pending, held) = (task.approval.as_ref(), task.held.as_ref());
    let void = void_approval(task);
    match judgement {
        Judgement::Deny { rule, reason, mistake, saves } => {
            let status = if mistake { ToolStatus::Failed } else { ToolStatus::Denied };
            let mut events: Vec<Event> = void.into_iter().collect();
            events.push(decided(Verdict::Deny, rule, reason.clone()));
            // It may quote a file.
            let text = crate::prompts::untrusted(&reason).into_owned();
            events.push(if saves {
                not_saved(task, finished(call, status, text, mistake))
            } else {
                finished(call, status, text, mistake)
            });
            events
        }
        Judgement::Allow { plan: Plan::Write(PlannedWrite { shared: false, .. }), .. }
        | Judgement::Ask { .. }
            if task.unsaved.is_some() =>
        {
            vec![finished(call, ToolStatus::Failed, replies::save_first(), true)]
        }
        Judgement::Allow { rule, reason, plan } => {
            let decided = decided(Verdict::Allow, rule, reason);
            if let Some((approval, held)) = pending.zip(held).filter(|(_, held)| held.option_id != ALLOW_ONCE)
            {
                // What the settings allow by now, the user has refused all the same.
                return [decided].into_iter().chain(resolve(task, approval, held.clone())).collect();
            }
            let mut events: Vec<Event> = void.into_iter().collect();
            events.push(decided);
            events.extend(run(task, call, plan));
            events
        }
        Judgement::Ask { rule, reason, digest, title, subject } => {
            let kept = pending.filter(|approval| approval.digest == digest);
            let decided = decided(Verdict::Ask, rule, reason.clone());
            if let Some((approval, held)) = kept.zip(held) {
                return [decided].into_iter().chain(resolve(task, approval, held.clone())).collect();
            }
            let (approval_id, void) = match kept {
                Some(approval) => (approval.approval_id.clone(), None),
                None => (ApprovalId::new(format!("{}.a{}", task.id, task.number())), void),
            };
            let mut events: Vec<Event> = void.into_iter().collect();
            let option =
                |id: &str, name: &str, kind| ApprovalOption { id: id.into(), name: name.into(), kind };
            let options = vec![
                option(REJECT_ONCE, "Deny", OptionKind::RejectOnce),
                option(ALLOW_ONCE, "Allow", OptionKind::AllowOnce),
            ];
            let tool_call_id = call.id.clone();
            let approval =
                PendingApproval { approval_id, tool_call_id, digest, title, subject, reason, options };
            events.extend([decided, Event::ApprovalRequested { approval }]);
            events
        }
    }
}

/// The result of a call that saved context.
fn saved(mut finished: Event) -> Event {
    if let Event::ToolFinished { saves, .. } = &mut finished {
        *saves = Some(true);
    }
    finished
}

/// The result of a call that did not save context, with how often it may still be tried.
fn not_saved(task: &Task, mut finished: Event) -> Event {
    let attempts = task.unsaved.as_ref().map_or(0, |unsaved| unsaved.attempts) + 1;
    if let Event::ToolFinished { result, saves, .. } = &mut finished {
        let text = result.text.clone();
        result.text = replies::context_not_saved(SAVE_ATTEMPTS.saturating_sub(attempts), &text);
        *saves = Some(false);
    }
    finished
}

fn respond(task: &Task, option_id: String, text: Option<String>, by: String) -> Vec<Event> {
    let Some(approval) = task.approval.as_ref().filter(|_| task.held.is_none()) else { return vec![] };
    if task.phase == Phase::Tools(Stage::Approval) && !task.interrupted {
        return resolve(task, approval, HeldAnswer { by, option_id, text });
    }
    let approval_id = approval.approval_id.clone();
    vec![Event::AnswerHeld { approval_id, by, option_id, text, state: task.state() }]
}

fn resolve(task: &Task, approval: &PendingApproval, answer: HeldAnswer) -> Vec<Event> {
    let HeldAnswer { by, option_id, text } = answer;
    let text = text.filter(|text| !text.trim().is_empty());
    let mut events = vec![];
    // What comes with a refusal is in the call's result.
    if let Some(text) = text.clone().filter(|_| option_id == ALLOW_ONCE) {
        events.push(task.queue_with(text, vec![], SendWhen::Now));
    }
    let approval_id = approval.approval_id.clone();
    events.push(Event::ApprovalResolved { approval_id, by, option_id: Some(option_id), text });
    events
}

/// What an allowed call does: tools that steer the conversation are steps of the machine, the others
/// act on the world.
fn run(task: &Task, call: &ToolCall, plan: Plan) -> Vec<Event> {
    let write = match plan {
        Plan::Branch(branch) => return delegate(task, call, *branch),
        Plan::Mode(change) => return switch_mode(task, call, change),
        Plan::Write(write) => Some(write),
        Plan::Nothing => None,
    };
    match crate::catalog::parse(call) {
        Ok(Invocation::AskFollowupQuestion(ask)) => {
            let question = PendingQuestion {
                question_id: next_question(task),
                kind: QuestionKind::Followup,
                text: ask.question,
                suggestions: ask.suggestions,
            };
            vec![Event::QuestionAsked { question, call_id: Some(call.id.clone()) }]
        }
        Ok(Invocation::UpdateTodoList(update)) => {
            let items = todo_items(&task.todo, update.items);
            let done = items.iter().filter(|item| item.status == TodoStatus::Completed).count();
            let text = format!("The list has {} entries, {done} of them completed.", items.len());
            vec![Event::TodoChanged { items }, finished(call, ToolStatus::Ok, text, false)]
        }
        Ok(Invocation::AttemptCompletion(completion)) => {
            if task.results.iter().any(|result| is_failure(result.status)) {
                return vec![finished(call, ToolStatus::Failed, replies::completion_after_failure(), true)];
            }
            end(task, call, TaskState::Completed, completion.result)
        }
        Ok(Invocation::CompleteWithFailure(failure)) => end(task, call, TaskState::Failed, failure.reason),
        invocation => {
            let subject = invocation.map(|call| call.subject()).unwrap_or_default();
            vec![Event::ToolStarted { call_id: call.id.clone(), name: call.name.clone(), subject, write }]
        }
    }
}

/// The call that opens a branch.
fn delegate(task: &Task, call: &ToolCall, plan: PlannedBranch) -> Vec<Event> {
    let key = (plan.mode.clone(), plan.delegation.title.clone());
    let failures = task.failed_subtasks.get(&key).copied().unwrap_or(0);
    if failures >= SAME_SUBTASK {
        let text = replies::tried_too_often(&plan.mode, &plan.delegation.title, failures);
        return vec![finished(call, ToolStatus::Failed, text, true)];
    }
    let child = TaskId::new(format!("{}.{}", task.id.root(), task.number()));
    vec![Event::Delegated { call_id: call.id.clone(), child, plan: Arc::new(plan) }]
}

fn switch_mode(task: &Task, call: &ToolCall, change: ModeChange) -> Vec<Event> {
    let new = change.mode.as_ref().map_or(task.mode.as_str(), |(slug, _)| slug);
    let text = replies::mode_switched(&task.mode, new);
    vec![mode_switched(task, change, Some(call.id.clone())), finished(call, ToolStatus::Ok, text, false)]
}

/// A new mode brings its own profile, but never in place of one that the user chose.
fn mode_switched(task: &Task, change: ModeChange, call_id: Option<ToolCallId>) -> Event {
    let keeps = task.pinned && change.mode.is_some();
    let change = if keeps { ModeChange { profile: None, ..change } } else { change };
    Event::ModeSwitched { change, call_id }
}

/// The result of the call that opened a branch, from how the branch ended.
pub(super) fn branch_result(
    task: &Task,
    child: &TaskId,
    state: TaskState,
    text: Option<&str>,
) -> Option<Event> {
    let branch =
        task.branches.iter().find(|branch| branch.open_child().is_some_and(|(id, _)| id == child))?;
    let (_, plan) = branch.open_child()?;
    let call = task.calls.iter().find(|call| call.id == branch.call_id)?;
    let title = plan.delegation.title.as_str();
    let text = text.unwrap_or_default();
    let (status, text) = match state {
        TaskState::Completed => (ToolStatus::Ok, replies::subtask_completed(title, text)),
        TaskState::Cancelled => (ToolStatus::Interrupted, replies::subtask_cancelled(title)),
        _ => (ToolStatus::Failed, replies::subtask_failed(title, text)),
    };
    Some(finished(call, status, text, false))
}

/// The first events of a branch.
pub(super) fn first_events(parent: &Task, plan: &PlannedBranch, tree: &str) -> Vec<Event> {
    let message = modes::delegation::render(&plan.delegation, &plan.emoji, &parent.urid, tree);
    let text = crate::prompts::delegated_brief(&crate::prompts::DelegatedBrief {
        message: &message,
        urid: &parent.urid,
        task_directory: plan.task_directory.as_deref(),
        context_files: &plan.delegation.context_files,
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
        pinned: parent.pinned,
    }];
    if !plan.todos.is_empty() {
        events.push(Event::TodoChanged { items: todo_items(&[], plan.todos.clone()) });
    }
    let message = Message {
        id: MessageId::new("brief"),
        kind: MessageKind::Say(Say::Text),
        text: message,
        images: vec![],
    };
    events.push(Event::UserSaid { message, text, mentions: false });
    events
}

/// Whether a message may mention a file, a command or the like.
pub(super) fn may_mention(text: &str) -> bool {
    text.contains(['@', '/'])
}

/// The call that ends the task, unless the user has said something that it doesn't know yet.
fn end(task: &Task, call: &ToolCall, state: TaskState, text: String) -> Vec<Event> {
    if task.parent.is_some() && text.len() > replies::RESULT_LIMIT {
        return vec![finished(call, ToolStatus::Failed, replies::result_too_long(text.len()), true)];
    }
    if !task.queue.is_empty() {
        let now = |item: &QueueItem| QueueItem { when: SendWhen::Now, ..item.clone() };
        let items = task.queue.iter().map(now).collect();
        let text = replies::completion_with_queue();
        return vec![Event::QueueChanged { items }, finished(call, ToolStatus::Skipped, text, false)];
    }
    let (say, result, reason) = match state {
        TaskState::Completed => (Say::CompletionResult, Some(text.clone()), None),
        _ => (Say::Error, None, Some(text.clone())),
    };
    let id = MessageId::new(format!("{}.end", call.id));
    let message = Message { id, kind: MessageKind::Say(say), text, images: vec![] };
    let text = replies::ended();
    vec![
        Event::Shown { message },
        Event::ToolFinished {
            summary: text.clone(),
            result: result_of(call, ToolStatus::Ok, text, vec![]),
            seen: vec![],
            mistake: false,
            ends: Some(Ending { state, result, reason }),
            saves: None,
        },
    ]
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

fn answer(
    task: &Task,
    text: String,
    images: Vec<String>,
    mode: Option<ModeChange>,
    by: String,
) -> Vec<Event> {
    let Some(question) = &task.question else { return vec![] };
    let message = || task.message(MessageKind::Say(Say::UserFeedback), text.clone(), images.clone());
    let suggested = question.suggestions.iter().any(|suggestion| suggestion.text == text);
    let mut events: Vec<Event> = mode.map(|change| mode_switched(task, change, None)).into_iter().collect();
    match question.kind {
        QuestionKind::Followup => events.push(Event::Shown { message: message() }),
        _ if is_stop(&text) => {}
        kind => {
            if kind == QuestionKind::AutoApprovalMaxReqReached {
                events.push(Event::BudgetReset);
            }
            if kind == QuestionKind::MistakeLimitReached {
                let text = replies::guidance(if suggested { "" } else { &text });
                events.push(Event::UserSaid { message: message(), text, mentions: false });
            } else if !suggested {
                let mentions = may_mention(&text);
                let text = crate::prompts::user_message(&text);
                events.push(Event::UserSaid { message: message(), text, mentions });
            }
        }
    }
    let question_id = question.question_id.clone();
    events.push(Event::QuestionAnswered { question_id, by, text: Some(text), images });
    events
}

fn tool_done(task: &Task, outcome: Outcome) -> Vec<Event> {
    let Phase::Tools(Stage::Run { write, .. }) = &task.phase else { return vec![] };
    let Some(call) = task.current_call() else { return vec![] };
    let edits = outcome.edits.into_iter();
    let mut events: Vec<Event> = edits
        .map(|edit| Event::EditApplied { uri: edit.uri, before: edit.before, after: edit.after })
        .collect();
    let status = outcome.status;
    let finished = Event::ToolFinished {
        summary: outcome.summary,
        // What a tool found is nobody's word.
        result: result_of(
            call,
            outcome.status,
            crate::prompts::untrusted(&outcome.text).into_owned(),
            outcome.images,
        ),
        seen: outcome.seen,
        mistake: false,
        ends: None,
        saves: None,
    };
    events.push(match (write.as_ref().is_some_and(|write| write.shared), status) {
        (true, ToolStatus::Failed | ToolStatus::Denied) => not_saved(task, finished),
        (true, ToolStatus::Ok) => saved(finished),
        _ => finished,
    });
    events
}

fn write_settled(task: &Task, found: Option<Digest>) -> Vec<Event> {
    let Phase::Tools(Stage::SettleWrite { write, .. }) = &task.phase else { return vec![] };
    let Some(call) = task.current_call() else { return vec![] };
    let (status, text, digest) = if found == Some(write.after) {
        (ToolStatus::Ok, replies::write_was_done(&write.path), found)
    } else if found == write.before {
        return vec![Event::ToolRestarted { call_id: call.id.clone() }];
    } else {
        (ToolStatus::Interrupted, replies::write_unknown(&write.path), None)
    };
    let summary = summary(&text);
    let result = result_of(call, status, text, vec![]);
    let seen = vec![(write.path.clone(), digest)];
    let saves = (write.shared && status == ToolStatus::Ok).then_some(true);
    vec![Event::ToolFinished { summary, result, seen, mistake: false, ends: None, saves }]
}

/// What a call can do to the world; an unknown tool is taken for the worst.
fn effect_of(call: &ToolCall) -> ToolEffect {
    ToolName::parse(&call.name).map_or(ToolEffect::Execute, |tool| tool.spec().effect)
}

/// What makes two calls the same: name and parameters, whatever their order.
fn identity(call: &ToolCall) -> Digest {
    let sorted: BTreeMap<_, _> = call.params.iter().collect();
    Digest::of(format!("{} {}", call.name, serde_json::json!(sorted)))
}

#[cfg(test)]
mod tests;
