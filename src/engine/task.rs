//! One task as a pure machine: [`decide`] says what an input leads to, [`Task::apply`] folds events,
//! [`settle`] says what follows from the state alone, and [`wanted`] says which effect the state
//! calls for.
//!
//! No clock, no randomness, no I/O: times come in with inputs, and identifiers are counted. Effects
//! are derived from the state and not handed out with events, so that none can be lost, doubled or
//! different after a restart: the driver starts what is wanted and ends what is wanted no more.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::event::{Event, WriteAhead, ask_of, call_message, is_failure};
use crate::catalog::{Effect as ToolEffect, Invocation, ToolCall, ToolName};
use crate::config::Limits;
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
/// How often old results are shortened before the user is asked.
const MAX_REDUCTIONS: u32 = 3;
/// The answer that ends a task at one of the engine's own questions.
const STOP: &str = "Stop";
/// Option ids of an approval.
const ALLOW_ONCE: &str = "allow_once";
const REJECT_ONCE: &str = "reject_once";

/// The state of one task: what its events fold to.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// The request's id for people.
    pub urid: Urid,
    /// The slug of its mode.
    pub mode: String,
    /// The name of its model profile.
    pub profile: String,
    /// How its model calls tools.
    pub protocol: ToolProtocol,
    /// The first line of its prompt, shortened.
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
    /// The user cancelled while a tool ran.
    pub cancelling: bool,
    /// The conversation.
    pub items: Arc<Vec<Item>>,
    /// Results in items before this index are sent as stubs.
    pub reduced_before: usize,
    /// The blocks of the answer that comes in now.
    pub blocks: Vec<AssistantBlock>,
    /// The calls of the newest answer.
    pub calls: Vec<ToolCall>,
    /// Their results so far; the next call is at this index.
    pub results: Vec<ToolResult>,
    /// An earlier call of the answer was refused or failed, so the rest is not run.
    pub skip_rest: bool,
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
    /// An answer that came while the task was interrupted.
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
    option_id: String,
    text: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counters {
    /// Model requests, retries included.
    requests: u32,
    /// Requests before the budget began anew.
    requests_before: u32,
    /// Cost before the budget began anew.
    cost_before: f64,
    mistakes: u32,
    reductions: u32,
    blocks: u32,
    calls: u32,
    approvals: u32,
    questions: u32,
    messages: u32,
    queued: u32,
    /// The newest call with a result, and how often it came in a row.
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
    /// It asked the user a question.
    Question,
    /// It runs.
    Run {
        /// The digest of the action that the user allowed.
        approved: Option<Digest>,
        /// What it writes.
        write: Option<WriteAhead>,
    },
    /// It ran when the server ended; what came of its write is to be found out.
    SettleWrite {
        /// The digest of the action that the user allowed.
        approved: Option<Digest>,
        /// What it was to write.
        write: WriteAhead,
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
        /// Who answered.
        by: String,
    },
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

/// The gate's judgement of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Judgement {
    /// It may run.
    Allow {
        /// The rule that decided.
        rule: String,
        /// Why.
        reason: String,
        /// What it will write.
        write: Option<WriteAhead>,
    },
    /// The user decides.
    Ask {
        /// The rule that decided.
        rule: String,
        /// Why.
        reason: String,
        /// Binds the answer to the action.
        digest: Digest,
        /// What is asked, in a few words.
        title: String,
        /// What it works on; a diff, a command line.
        subject: String,
    },
    /// It may not run.
    Deny {
        /// The rule that decided.
        rule: String,
        /// Why, worded for the model.
        reason: String,
        /// Whether the call itself was wrong, so that it counts as a mistake.
        mistake: bool,
    },
}

/// What the state calls for.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Ask the model.
    CallModel {
        /// The request's number.
        request: u32,
    },
    /// Wait until a time.
    Wait {
        /// In milliseconds since the Unix epoch.
        due: i64,
    },
    /// Let the gate judge the current call.
    Gate {
        /// The call.
        call: ToolCall,
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
        write: WriteAhead,
    },
}

impl Task {
    /// Folds the first event of a task; none if it isn't [`Event::Created`].
    pub fn created(id: TaskId, event: &Event, seq: u64, at: i64) -> Option<Self> {
        let Event::Created { urid, mode, profile, protocol, title, limits, .. } = event else { return None };
        Some(Self {
            id,
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
            cancelling: false,
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

    /// How many requests were made since the budget began.
    pub fn requests_of_budget(&self) -> u32 {
        self.counters.requests - self.counters.requests_before
    }

    fn current_call(&self) -> Option<&ToolCall> {
        self.calls.get(self.results.len())
    }

    fn message(
        &self,
        kind: MessageKind,
        text: impl Into<String>,
        images: Vec<String>,
        offset: u32,
    ) -> Message {
        let id = MessageId::new(format!("m{}", self.counters.messages + 1 + offset));
        Message { id, kind, text: text.into(), images }
    }

    /// Folds one event.
    pub fn apply(&mut self, event: &Event, seq: u64, at: i64) {
        self.seq = seq;
        self.updated_at = at;
        match event {
            Event::Created { .. } => {}
            Event::UserSaid { message, text } => {
                self.counters.messages += 1;
                self.push(Item::User { text: text.clone(), images: message.images.clone() });
                if let Phase::Ended(_) = self.phase {
                    self.reopen();
                }
            }
            Event::Shown { .. } => self.counters.messages += 1,
            Event::TurnStarted { request } => {
                self.counters.requests = *request;
                self.counters.blocks = 0;
                self.blocks.clear();
                if let Phase::Model { started, .. } = &mut self.phase {
                    *started = true;
                }
            }
            Event::Spoke { message } => {
                self.counters.blocks += 1;
                self.blocks.push(AssistantBlock::Text { text: message.text.clone() });
            }
            Event::Thought { message, opaque, origin } => {
                self.counters.blocks += 1;
                self.blocks.push(AssistantBlock::Thinking {
                    text: message.text.clone(),
                    opaque: opaque.clone(),
                    origin: origin.clone(),
                });
            }
            Event::Called { call, .. } => {
                self.counters.blocks += 1;
                self.counters.calls += 1;
                self.blocks.push(AssistantBlock::Call { call: call.clone() });
            }
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
            Event::GateDecided { .. } | Event::EditApplied { .. } => {}
            Event::ApprovalRequested { approval } => {
                if self.approval.as_ref().is_none_or(|old| old.approval_id != approval.approval_id) {
                    self.counters.approvals += 1;
                }
                self.approval = Some(approval.clone());
                self.phase = Phase::Tools(Stage::Approval);
            }
            Event::AnswerHeld { by, option_id, text, .. } => {
                self.held =
                    Some(HeldAnswer { by: by.clone(), option_id: option_id.clone(), text: text.clone() });
            }
            Event::ApprovalResolved { approval_id, by, option_id, .. } => {
                let answered = Answered { by: by.clone(), answer: option_id.clone() };
                self.answered.insert(approval_id.to_string(), answered);
                self.held = None;
                let digest = self.approval.take().map(|approval| approval.digest);
                if option_id.as_deref() == Some(ALLOW_ONCE) {
                    self.phase = Phase::Tools(Stage::Gate { approved: digest });
                }
            }
            Event::QuestionAsked { question, call_id } => {
                self.counters.questions += 1;
                self.question = Some(question.clone());
                self.phase = match call_id {
                    Some(_) => Phase::Tools(Stage::Question),
                    None => Phase::Question,
                };
            }
            Event::QuestionAnswered { question_id, by, text } => {
                let answered = Answered { by: by.clone(), answer: text.clone() };
                self.answered.insert(question_id.to_string(), answered);
                let kind = self.question.take().map(|question| question.kind);
                if self.phase == Phase::Question {
                    self.phase = Phase::Model { attempt: 1, started: false };
                    if kind == Some(QuestionKind::MistakeLimitReached) {
                        self.counters.mistakes = 0;
                    }
                }
            }
            Event::ToolStarted { write, .. } => {
                if let Phase::Tools(Stage::Gate { approved }) = self.phase {
                    self.phase = Phase::Tools(Stage::Run { approved, write: write.clone() });
                }
            }
            Event::ToolRestarted { .. } => {
                let approved = match &self.phase {
                    Phase::Tools(Stage::Run { approved, .. } | Stage::SettleWrite { approved, .. }) => {
                        *approved
                    }
                    _ => None,
                };
                self.phase = Phase::Tools(Stage::Gate { approved });
            }
            Event::ToolFinished { result, seen, mistake, .. } => self.finish_call(result, seen, *mistake),
            Event::TodoChanged { items } => self.todo = items.clone(),
            Event::QueueChanged { items } => {
                if items.len() > self.queue.len() {
                    self.counters.queued += 1;
                }
                self.queue = items.clone();
            }
            Event::BudgetReset => {
                self.counters.requests_before = self.counters.requests;
                self.counters.cost_before = self.usage.cost_usd;
            }
            Event::CancelRequested => self.cancelling = true,
            Event::Interrupted => self.interrupted = true,
            Event::Resumed => {
                self.interrupted = false;
                match &self.phase {
                    Phase::Ended(_) => self.reopen(),
                    Phase::Tools(Stage::Approval) => {
                        self.phase = Phase::Tools(Stage::Gate { approved: None });
                    }
                    Phase::Tools(Stage::Run { approved, write: Some(write) }) => {
                        self.phase =
                            Phase::Tools(Stage::SettleWrite { approved: *approved, write: write.clone() });
                    }
                    _ => {}
                }
            }
            Event::Ended { state, result, reason, .. } => {
                self.cancelling = false;
                self.interrupted = false;
                self.result.clone_from(result);
                self.reason.clone_from(reason);
                self.phase = Phase::Ended(*state);
            }
        }
    }

    fn push(&mut self, item: Item) {
        Arc::make_mut(&mut self.items).push(item);
    }

    fn reopen(&mut self) {
        self.result = None;
        self.reason = None;
        self.counters.mistakes = 0;
        self.phase = Phase::Model { attempt: 1, started: false };
    }

    fn end_turn(&mut self, finish: Finish, total: Usage) {
        self.usage = total;
        let blocks = std::mem::take(&mut self.blocks);
        self.calls = blocks
            .iter()
            .filter_map(|block| match block {
                AssistantBlock::Call { call } => Some(call.clone()),
                _ => None,
            })
            .collect();
        self.results.clear();
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
        let failed = is_failure(result.status);
        if let Some(call) = self.current_call() {
            let identity = identity(call);
            if self.counters.last_call == Some(identity) {
                self.counters.repeats += 1;
            } else {
                self.counters.last_call = Some(identity);
                self.counters.repeats = 1;
            }
        }
        if result.status != ToolStatus::Skipped {
            let count = self.tool_usage.0.entry(result.name.clone()).or_default();
            count.attempts += 1;
            count.failures += u32::from(failed);
        }
        if mistake {
            self.counters.mistakes += 1;
        } else if !failed {
            self.counters.mistakes = 0;
        }
        for (path, digest) in seen {
            match digest {
                Some(digest) => self.seen.insert(path.clone(), *digest),
                None => self.seen.remove(path),
            };
        }
        // A failed look changes nothing for the calls after it; anything else may.
        let only_looks =
            ToolName::parse(&result.name).is_some_and(|tool| tool.spec().effect == ToolEffect::Read);
        if failed && !only_looks {
            self.skip_rest = true;
        }
        self.results.push(result.clone());
        if self.results.len() == self.calls.len() {
            self.calls.clear();
            let results = std::mem::take(&mut self.results);
            self.push(Item::Results { results });
            self.phase = Phase::Model { attempt: 1, started: false };
        } else {
            self.phase = Phase::Tools(Stage::Gate { approved: None });
        }
    }
}

/// The message id of a block of a model request: known before the block is closed, so that running
/// text and the closed message are one.
pub fn block_message_id(request: u32, block: u32) -> MessageId {
    MessageId::new(format!("r{request}.b{block}"))
}

/// What an input leads to. Inputs that don't fit the state lead to nothing: a late result of work
/// that was cancelled, or a second answer.
pub fn decide(task: &Task, input: Input, at: i64) -> Vec<Event> {
    match input {
        Input::Send { text, images, when } => send(task, text, images, when),
        Input::EditQueued { id, text } => {
            let mut items = task.queue.clone();
            items.iter_mut().filter(|item| item.id == id).for_each(|item| item.text.clone_from(&text));
            vec![Event::QueueChanged { items }]
        }
        Input::DeleteQueued { id } => {
            let items = task.queue.iter().filter(|item| item.id != id).cloned().collect();
            vec![Event::QueueChanged { items }]
        }
        Input::Cancel => cancel(task),
        Input::Resume => resume(task),
        Input::Respond { option_id, text, by } => respond(task, option_id, text, by),
        Input::Answer { text, images, by } => answer(task, text, images, by),
        Input::ModelBlock { block, origin } => model_block(task, block, origin),
        Input::ModelEnded { finish: Finish::Refused, used } => {
            let message = "The provider refused to go on with this conversation.".to_owned();
            model_failed(task, message, Remedy::Ask, used, at)
        }
        Input::ModelEnded { finish, used } => {
            let mut total = task.usage;
            total += used;
            match task.phase {
                Phase::Model { started: true, .. } => vec![Event::TurnEnded { finish, total }],
                _ => vec![],
            }
        }
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

/// What follows from the state alone: delivery of waiting messages, limits, the next request,
/// corrections. Called until nothing follows.
pub fn settle(task: &Task) -> Vec<Event> {
    if task.interrupted || task.cancelling {
        return vec![];
    }
    match &task.phase {
        Phase::Model { started: false, .. } => before_request(task),
        Phase::Unanswerable(finish) => {
            let text = match finish {
                Finish::Length => replies::answer_cut(),
                _ => replies::no_tool_used(task.protocol),
            };
            vec![Event::Corrected { text, mistake: true }]
        }
        Phase::Tools(Stage::Gate { approved: None }) => match task.current_call() {
            Some(call) if task.skip_rest => {
                vec![finished(call, ToolStatus::Skipped, replies::skipped(), false)]
            }
            Some(call)
                if task.limits.mistakes > 0
                    && task.counters.repeats >= task.limits.mistakes
                    && task.counters.last_call == Some(identity(call)) =>
            {
                let text = replies::repeated(&call.name, task.counters.repeats);
                vec![finished(call, ToolStatus::Failed, text, true)]
            }
            _ => vec![],
        },
        _ => vec![],
    }
}

/// The one effect that the state calls for.
pub fn wanted(task: &Task) -> Option<Effect> {
    if task.interrupted {
        return None;
    }
    match &task.phase {
        Phase::Model { started: true, .. } => Some(Effect::CallModel { request: task.counters.requests }),
        Phase::Backoff { due, .. } => Some(Effect::Wait { due: *due }),
        Phase::Tools(stage) => {
            let call = task.current_call()?;
            match stage {
                Stage::Gate { approved } => Some(Effect::Gate { call: call.clone(), approved: *approved }),
                Stage::Run { .. } => Some(Effect::RunTool {
                    call_id: call.id.clone(),
                    mutating: effect_of(call) != ToolEffect::Read,
                }),
                Stage::SettleWrite { write, .. } => {
                    Some(Effect::SettleWrite { call_id: call.id.clone(), write: write.clone() })
                }
                Stage::Approval | Stage::Question => None,
            }
        }
        _ => None,
    }
}

fn before_request(task: &Task) -> Vec<Event> {
    let now: Vec<&QueueItem> = task.queue.iter().filter(|item| item.when == SendWhen::Now).collect();
    if !now.is_empty() {
        let rest = task.queue.iter().filter(|item| item.when != SendWhen::Now).cloned().collect();
        return deliver(task, &now, rest);
    }
    let limits = &task.limits;
    if limits.mistakes > 0 && task.counters.mistakes >= limits.mistakes {
        let text = format!(
            "The model made {} mistakes in a row. Tell it how to go on, or stop the task.",
            task.counters.mistakes
        );
        return ask_engine_question(task, QuestionKind::MistakeLimitReached, text, "Try another way");
    }
    let cost = task.usage.cost_usd - task.counters.cost_before;
    let reached = if limits.requests > 0 && task.requests_of_budget() >= limits.requests {
        Some(format!("The task has made {} model requests, as many as its limit allows.", limits.requests))
    } else if limits.cost_usd > 0.0 && cost >= limits.cost_usd {
        Some(format!("The task has cost ${cost:.2}; its limit is ${:.2}.", limits.cost_usd))
    } else {
        None
    };
    if let Some(text) = reached {
        return ask_engine_question(task, QuestionKind::AutoApprovalMaxReqReached, text, "Go on");
    }
    vec![Event::TurnStarted { request: task.counters.requests + 1 }]
}

/// Puts waiting messages into the conversation.
fn deliver(task: &Task, items: &[&QueueItem], rest: Vec<QueueItem>) -> Vec<Event> {
    let mut events = vec![Event::QueueChanged { items: rest }];
    for (offset, item) in (0..).zip(items) {
        events.push(user_said(task, &item.text, item.images.clone(), offset));
    }
    events
}

fn user_said(task: &Task, text: &str, images: Vec<String>, offset: u32) -> Event {
    let message = task.message(MessageKind::Say(Say::UserFeedback), text, images, offset);
    Event::UserSaid { message, text: crate::prompts::user_message(text) }
}

fn ask_engine_question(task: &Task, kind: QuestionKind, text: String, go_on: &str) -> Vec<Event> {
    let suggestions = [go_on, STOP].map(|text| Suggestion { text: text.to_owned(), mode: None }).into();
    let shown = task.message(MessageKind::Ask(ask_of(kind)), text.clone(), vec![], 0);
    let question = PendingQuestion { question_id: next_question(task), kind, text, suggestions };
    vec![Event::Shown { message: shown }, Event::QuestionAsked { question, call_id: None }]
}

fn next_question(task: &Task) -> QuestionId {
    QuestionId::new(format!("{}.q{}", task.id, task.counters.questions + 1))
}

fn send(task: &Task, text: String, images: Vec<String>, when: SendWhen) -> Vec<Event> {
    if task.question.is_some() {
        // In a conversation, what one says next is the answer. Never so with an approval.
        return answer(task, text, images, "user".to_owned());
    }
    if let Phase::Ended(_) = task.phase {
        return vec![Event::Resumed, user_said(task, &text, images, 0)];
    }
    let mut events = if task.interrupted { resume(task) } else { vec![] };
    let mut items = task.queue.clone();
    items.push(QueueItem { id: format!("w{}", task.counters.queued + 1), text, images, when });
    events.push(Event::QueueChanged { items });
    events
}

fn resume(task: &Task) -> Vec<Event> {
    if let Phase::Ended(state) = task.phase {
        return match state {
            TaskState::Completed => vec![],
            _ => vec![Event::Resumed],
        };
    }
    if !task.interrupted {
        return vec![];
    }
    let mut events = vec![Event::Resumed];
    match &task.phase {
        Phase::Model { started: true, .. } => {
            let error = "The server ended during this request; it is made again.".to_owned();
            events.push(Event::TurnFailed { error, total: task.usage });
        }
        Phase::Tools(Stage::Run { write: None, .. }) => {
            if let Some(call) = task.current_call() {
                events.push(if effect_of(call) == ToolEffect::Read {
                    Event::ToolRestarted { call_id: call.id.clone() }
                } else {
                    finished(call, ToolStatus::Interrupted, replies::interrupted(effect_of(call)), false)
                });
            }
        }
        _ => {}
    }
    if task.cancelling {
        events.extend(cancel_tail(task));
    }
    events
}

fn cancel(task: &Task) -> Vec<Event> {
    match task.phase {
        Phase::Ended(_) => vec![],
        Phase::Tools(Stage::Run { .. }) if !task.interrupted => vec![Event::CancelRequested],
        _ => cancel_tail(task),
    }
}

/// Voids what waits, gives every open call its result and ends the task.
fn cancel_tail(task: &Task) -> Vec<Event> {
    let mut events = vec![];
    if let Some(approval) = &task.approval {
        events.push(Event::ApprovalResolved {
            approval_id: approval.approval_id.clone(),
            by: "server".into(),
            option_id: None,
            text: None,
        });
    }
    if let Some(question) = &task.question {
        events.push(Event::QuestionAnswered {
            question_id: question.question_id.clone(),
            by: "server".into(),
            text: None,
        });
    }
    if let Phase::Model { started: true, .. } = task.phase {
        events.push(Event::TurnFailed { error: "Cancelled by the user.".into(), total: task.usage });
    }
    let ran = matches!(task.phase, Phase::Tools(Stage::Run { .. } | Stage::SettleWrite { .. }));
    for (index, call) in task.calls.iter().enumerate().skip(task.results.len()) {
        events.push(if ran && index == task.results.len() {
            finished(call, ToolStatus::Interrupted, replies::interrupted(effect_of(call)), false)
        } else {
            finished(call, ToolStatus::Skipped, replies::cancelled(), false)
        });
    }
    events.push(ended(task, TaskState::Cancelled, None, Some("cancelled by the user".into())));
    events
}

fn ended(task: &Task, state: TaskState, result: Option<String>, reason: Option<String>) -> Event {
    Event::Ended { state, result, reason, usage: task.usage, tool_usage: task.tool_usage.clone() }
}

fn finished(call: &ToolCall, status: ToolStatus, text: String, mistake: bool) -> Event {
    let summary = text.lines().next().unwrap_or_default().to_owned();
    Event::ToolFinished { summary, result: result_of(call, status, text, vec![]), seen: vec![], mistake }
}

fn result_of(call: &ToolCall, status: ToolStatus, text: String, images: Vec<String>) -> ToolResult {
    let subject = crate::catalog::parse(call).map(|call| call.subject()).unwrap_or_default();
    ToolResult { call_id: call.id.clone(), name: call.name.clone(), subject, status, text, images }
}

fn model_block(task: &Task, block: Block, origin: String) -> Vec<Event> {
    if !matches!(task.phase, Phase::Model { started: true, .. }) {
        return vec![];
    }
    let id = block_message_id(task.counters.requests, task.counters.blocks);
    let say = |say, text| Message { id: id.clone(), kind: MessageKind::Say(say), text, images: vec![] };
    vec![match block {
        Block::Text(text) => Event::Spoke { message: say(Say::Text, text) },
        Block::Thinking { text, opaque } => {
            Event::Thought { message: say(Say::Reasoning, text), opaque, origin }
        }
        // Ids are our own: providers repeat theirs, and calls in text have none.
        Block::Call { name, params, problem, .. } => {
            let call_id = ToolCallId::new(format!("call_{}", task.counters.calls + 1));
            let call = ToolCall { id: call_id, name, params, problem };
            Event::Called { message: call_message(id, &call), call }
        }
    }]
}

fn model_failed(task: &Task, message: String, remedy: Remedy, used: Usage, at: i64) -> Vec<Event> {
    let Phase::Model { attempt, started: true } = task.phase else { return vec![] };
    let mut total = task.usage;
    total += used;
    let mut events = vec![Event::TurnFailed { error: message.clone(), total }];
    match remedy {
        Remedy::Retry { after, jitter } if attempt < MAX_ATTEMPTS => {
            let backoff = (250_i64 << attempt.min(16)).min(MAX_BACKOFF);
            // Half fixed, half spread; both are small positive numbers.
            let spread = (backoff as f64 / 2.0 * (1.0 + jitter.clamp(0.0, 1.0))) as i64;
            let due = at.saturating_add(after.unwrap_or(0).max(spread));
            events.push(Event::RetryScheduled { due, attempt: attempt + 1, reason: message });
        }
        Remedy::Shorten if task.counters.reductions < MAX_REDUCTIONS => {
            // Each time, half of what is still whole.
            let whole = task.items.len().saturating_sub(task.reduced_before);
            events.push(Event::ContextReduced { before: task.reduced_before + whole.div_ceil(2) });
        }
        _ => events.extend(ask_engine_question(task, QuestionKind::ApiReqFailed, message, "Try again")),
    }
    events
}

fn gated(task: &Task, judgement: Judgement) -> Vec<Event> {
    let Phase::Tools(Stage::Gate { .. }) = task.phase else { return vec![] };
    let Some(call) = task.current_call() else { return vec![] };
    let decided =
        |verdict, rule, reason| Event::GateDecided { call_id: call.id.clone(), verdict, rule, reason };
    // An approval that was pending when the server ended; void unless the same is asked again.
    let void = task.approval.as_ref().map(|approval| Event::ApprovalResolved {
        approval_id: approval.approval_id.clone(),
        by: "server".into(),
        option_id: None,
        text: None,
    });
    match judgement {
        Judgement::Deny { rule, reason, mistake } => {
            let status = if mistake { ToolStatus::Failed } else { ToolStatus::Denied };
            let mut events: Vec<Event> = void.into_iter().collect();
            events.push(decided(Verdict::Deny, rule, reason.clone()));
            events.push(finished(call, status, reason, mistake));
            events
        }
        Judgement::Allow { rule, reason, write } => {
            let mut events: Vec<Event> = void.into_iter().collect();
            events.push(decided(Verdict::Allow, rule, reason));
            match crate::catalog::parse(call) {
                Ok(invocation) if invocation.tool().spec().effect == ToolEffect::Control => {
                    events.extend(control(task, call, invocation));
                }
                invocation => {
                    let subject = invocation.map(|call| call.subject()).unwrap_or_default();
                    let name = call.name.clone();
                    events.push(Event::ToolStarted { call_id: call.id.clone(), name, subject, write });
                }
            }
            events
        }
        Judgement::Ask { rule, reason, digest, title, subject } => {
            let kept = task.approval.as_ref().filter(|approval| approval.digest == digest);
            let approval_id = match kept {
                Some(approval) => approval.approval_id.clone(),
                None => ApprovalId::new(format!("{}.a{}", task.id, task.counters.approvals + 1)),
            };
            let mut events: Vec<Event> = if kept.is_some() { vec![] } else { void.into_iter().collect() };
            events.push(decided(Verdict::Ask, rule, reason.clone()));
            let option =
                |id: &str, name: &str, kind| ApprovalOption { id: id.into(), name: name.into(), kind };
            events.push(Event::ApprovalRequested {
                approval: PendingApproval {
                    approval_id,
                    tool_call_id: call.id.clone(),
                    digest,
                    title,
                    subject,
                    reason,
                    options: vec![
                        option(REJECT_ONCE, "Deny", OptionKind::RejectOnce),
                        option(ALLOW_ONCE, "Allow", OptionKind::AllowOnce),
                    ],
                },
            });
            if let (Some(approval), Some(held)) = (kept, &task.held) {
                let (option, text) = (held.option_id.clone(), held.text.clone());
                events.extend(resolve(task, call, approval, option, text, held.by.clone()));
            }
            events
        }
    }
}

fn respond(task: &Task, option_id: String, text: Option<String>, by: String) -> Vec<Event> {
    let Some(approval) = &task.approval else { return vec![] };
    let approval_id = approval.approval_id.clone();
    if task.interrupted {
        return vec![Event::AnswerHeld { approval_id, by, option_id, text }];
    }
    match (&task.phase, task.current_call()) {
        (Phase::Tools(Stage::Approval), Some(call)) => resolve(task, call, approval, option_id, text, by),
        _ => vec![],
    }
}

fn resolve(
    task: &Task,
    call: &ToolCall,
    approval: &PendingApproval,
    option_id: String,
    text: Option<String>,
    by: String,
) -> Vec<Event> {
    let allowed = option_id == ALLOW_ONCE;
    let text = text.filter(|text| !text.trim().is_empty());
    let mut events = vec![Event::ApprovalResolved {
        approval_id: approval.approval_id.clone(),
        by,
        option_id: Some(option_id),
        text: text.clone(),
    }];
    if allowed {
        if let Some(text) = text {
            let mut items = task.queue.clone();
            let id = format!("w{}", task.counters.queued + 1);
            items.push(QueueItem { id, text, images: vec![], when: SendWhen::Now });
            events.push(Event::QueueChanged { items });
        }
    } else {
        events.push(finished(call, ToolStatus::Denied, replies::denied(text.as_deref()), false));
    }
    events
}

/// The tools that steer the conversation.
fn control(task: &Task, call: &ToolCall, invocation: Invocation) -> Vec<Event> {
    match invocation {
        Invocation::AskFollowupQuestion(ask) => {
            let question = PendingQuestion {
                question_id: next_question(task),
                kind: QuestionKind::Followup,
                text: ask.question,
                suggestions: ask.suggestions,
            };
            vec![Event::QuestionAsked { question, call_id: Some(call.id.clone()) }]
        }
        Invocation::UpdateTodoList(update) => {
            let items = todo_items(&task.todo, update.items);
            let done = items.iter().filter(|item| item.status == TodoStatus::Completed).count();
            let text = format!("The list has {} entries, {done} of them completed.", items.len());
            vec![Event::TodoChanged { items }, finished(call, ToolStatus::Ok, text, false)]
        }
        Invocation::AttemptCompletion(completion) => {
            if task.results.iter().any(|result| is_failure(result.status)) {
                let text = replies::completion_after_failure();
                return vec![finished(call, ToolStatus::Failed, text, true)];
            }
            if !task.queue.is_empty() {
                let text = replies::completion_with_queue();
                let mut events = vec![finished(call, ToolStatus::Ok, text, false)];
                events.extend(skip_after(task));
                let all: Vec<&QueueItem> = task.queue.iter().collect();
                events.extend(deliver(task, &all, vec![]));
                return events;
            }
            end_by_call(task, call, TaskState::Completed, completion.result)
        }
        Invocation::CompleteWithFailure(failure) => {
            end_by_call(task, call, TaskState::Failed, failure.reason)
        }
        // The other tools act on the world and are never asked of the machine.
        _ => vec![],
    }
}

fn end_by_call(task: &Task, call: &ToolCall, state: TaskState, text: String) -> Vec<Event> {
    let mut events = vec![finished(call, ToolStatus::Ok, replies::ended(), false)];
    events.extend(skip_after(task));
    let (say, result, reason) = match state {
        TaskState::Completed => (Say::CompletionResult, Some(text.clone()), None),
        _ => (Say::Error, None, Some(text.clone())),
    };
    events.push(Event::Shown { message: task.message(MessageKind::Say(say), text, vec![], 0) });
    let mut end = ended(task, state, result, reason);
    if let Event::Ended { tool_usage, .. } = &mut end {
        tool_usage.0.entry(call.name.clone()).or_default().attempts += 1;
    }
    events.push(end);
    events
}

/// Results for the calls after the current one, which is an end.
fn skip_after(task: &Task) -> impl Iterator<Item = Event> {
    let rest = task.calls.iter().skip(task.results.len() + 1);
    rest.map(|call| finished(call, ToolStatus::Skipped, replies::skipped(), false))
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

fn answer(task: &Task, text: String, images: Vec<String>, by: String) -> Vec<Event> {
    let Some(question) = &task.question else { return vec![] };
    let mut events = vec![Event::QuestionAnswered {
        question_id: question.question_id.clone(),
        by,
        text: Some(text.clone()),
    }];
    let feedback = || task.message(MessageKind::Say(Say::UserFeedback), text.clone(), images.clone(), 0);
    let suggested = question.suggestions.iter().any(|suggestion| suggestion.text == text);
    match question.kind {
        QuestionKind::Followup => {
            events.push(Event::Shown { message: feedback() });
            if let Some(call) = task.current_call() {
                let result = result_of(call, ToolStatus::Ok, crate::prompts::user_message(&text), images);
                let summary = text;
                events.push(Event::ToolFinished { summary, result, seen: vec![], mistake: false });
            }
        }
        _ if text == STOP => {
            events.push(ended(task, TaskState::Failed, None, Some(question.text.clone())));
        }
        kind => {
            if kind == QuestionKind::AutoApprovalMaxReqReached {
                events.push(Event::BudgetReset);
            }
            if kind == QuestionKind::MistakeLimitReached || !suggested {
                let message = feedback();
                events.push(Event::UserSaid { message, text: replies::guidance(&text) });
            }
        }
    }
    events
}

fn tool_done(task: &Task, outcome: Outcome) -> Vec<Event> {
    let Phase::Tools(Stage::Run { .. }) = task.phase else { return vec![] };
    let Some(call) = task.current_call() else { return vec![] };
    let mut events: Vec<Event> = outcome
        .edits
        .into_iter()
        .map(|edit| Event::EditApplied { uri: edit.uri, before: edit.before, after: edit.after })
        .collect();
    events.push(Event::ToolFinished {
        summary: outcome.summary,
        result: result_of(call, outcome.status, outcome.text, outcome.images),
        seen: outcome.seen,
        mistake: false,
    });
    if task.cancelling {
        for call in task.calls.iter().skip(task.results.len() + 1) {
            events.push(finished(call, ToolStatus::Skipped, replies::cancelled(), false));
        }
        events.push(ended(task, TaskState::Cancelled, None, Some("cancelled by the user".into())));
    }
    events
}

fn write_settled(task: &Task, found: Option<Digest>) -> Vec<Event> {
    let Phase::Tools(Stage::SettleWrite { write, .. }) = &task.phase else { return vec![] };
    let Some(call) = task.current_call() else { return vec![] };
    if found == Some(write.after) {
        let text = replies::write_was_done(&write.path);
        let summary = text.clone();
        let result = result_of(call, ToolStatus::Ok, text, vec![]);
        let seen = vec![(write.path.clone(), Some(write.after))];
        vec![Event::ToolFinished { summary, result, seen, mistake: false }]
    } else if found == write.before {
        vec![Event::ToolRestarted { call_id: call.id.clone() }]
    } else {
        let text = replies::write_unknown(&write.path);
        let summary = text.clone();
        let result = result_of(call, ToolStatus::Interrupted, text, vec![]);
        vec![Event::ToolFinished { summary, result, seen: vec![(write.path.clone(), None)], mistake: false }]
    }
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
