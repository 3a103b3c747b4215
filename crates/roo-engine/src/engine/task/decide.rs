//! Events that an input leads to.

use serde_json::{Map, Value};

use super::batch::{Approval, AskedApproval, Authorization, CurrentCall, HookChanges, Stage, ToolBatch};
use super::branch::{delegate, mode_switch, mode_switched};
use super::compaction;
use super::engine_question::ask_engine_question;
use super::guard::with_circles;
use super::quotation::quoted;
use super::results::{
    finished, not_saved, result_of, reviewed_summary, saved, summary, switch_judged, turn_failed,
    void_approval, void_question, with_review,
};
use super::{
    Decider, Gathered, HeldAnswer, Input, MeasuredRequest, PROVIDER_REFUSED, Phase, Remedy, RequestFrame,
    TRY_AGAIN, Task, block_message_id, is_stop, may_mention, next_question, offers, todo_items,
};
use crate::engine::event::{
    AnswerWords, BackgroundCommand, ConflictBase, EndState, Ending, Event, call_message,
};
use crate::policy::{
    AllowRule, HookMessages, ModeChange, Plan, PlannedEdit, PlannedWrite, PolicyDecision, RecordedVerdict,
    decode_command,
};
use crate::server_tools::ServerQuestion;
use crate::tool_run::{Outcome, SavedFile};
use roo_catalog::{Effect as ToolEffect, Invocation, ToolCall, ToolProtocol};
use roo_model::parser::{Block, unknown_call};
use roo_model::prompts::{condense, replies};
use roo_model::providers::{AssistantBlock, Finish};
use roo_protocol::event::{QuestionKind, Suggestion, ToolStatus};
use roo_protocol::ids::{ApprovalId, CommandId, Digest, MessageId, ToolCallId};
use roo_protocol::message::{Message, MessageKind, Say};
use roo_protocol::review::{HunkDecision, ReviewedHunk};
use roo_protocol::rule::RuleSubject;
use roo_protocol::task::{
    PendingApproval, PendingQuestion, QueueItem, SendWhen, TaskState, TodoStatus, Usage,
};
use roo_text::render::one_line;

/// Maximum number of attempts of a model request before the user is asked, or a fallback takes over.
const MAX_ATTEMPTS: u32 = 5;
/// The same where the endpoint is down, busy or out of reach and no fallback takes over.
const MAX_PATIENT_ATTEMPTS: u32 = 10;
/// Half of the longest wait after a first attempt, in milliseconds. It doubles with each attempt.
const BACKOFF: i64 = 250;
/// The same where the endpoint is down, busy or out of reach, and doesn't say how long to wait.
const PATIENT_BACKOFF: i64 = 2_000;
/// The longest wait between two attempts, in milliseconds.
const MAX_BACKOFF_MS: i64 = 60_000;

/// The longest name of a call at a checkpoint, in characters.
const SUMMARY: usize = 120;

/// The longest command line, with what is told of it, that can be allowed without being opened, in bytes.
const AT_A_GLANCE: usize = 4 << 10;

/// Decides the events of an input. Inputs that don't fit the state lead to nothing: a late result of work that was
/// cancelled, or a second answer.
pub fn decide(task: &Task, input: Input, at: i64) -> Vec<Event> {
    with_circles(task, events_of(task, input, at))
}

fn events_of(task: &Task, input: Input, at: i64) -> Vec<Event> {
    if task.is_interrupted() && input.is_report() {
        return vec![];
    }
    match input {
        Input::Send { text, images, when } => send(task, text, images, when),
        Input::EditQueued { id, text } => edit_queue(task, |items| {
            items.iter_mut().filter(|item| item.id == id).for_each(|item| item.text.clone_from(&text));
        }),
        Input::DeleteQueued { id } => edit_queue(task, |items| items.retain(|item| item.id != id)),
        // A branch that stops or has stopped with its request ends for good.
        Input::Cancel if task.is_stopped() || task.is_stopping() && task.parent.is_some() => {
            vec![Event::CancelRequested]
        }
        Input::Cancel | Input::Stop if task.state().is_final() || task.is_ending() => vec![],
        Input::Cancel => vec![Event::CancelRequested],
        Input::Stop => vec![Event::StopRequested { reason: None }],
        Input::Resume => match task.state() {
            TaskState::Completed => vec![],
            _ => {
                let mut events = resume(task);
                if !events.is_empty() {
                    events.extend(try_again(task));
                }
                events
            }
        },
        Input::Respond { option_id, text, review, by } => {
            respond(task, HeldAnswer { by, option_id, text, review })
        }
        Input::Reconsider => match (task.approval(), task.is_interrupted()) {
            (Some(approval), false) if task.held_answer().is_none() => {
                vec![Event::ApprovalReconsidered { approval_id: approval.approval_id.clone() }]
            }
            _ => vec![],
        },
        Input::Answer { text, images, by } => {
            let mode = task.question().and_then(|question| suggested_mode(&question.suggestions, &text));
            answer(task, text, images, mode, by)
        }
        Input::Change(change) => changed(task, change),
        Input::BindIntent { intent, name } => vec![Event::IntentSelected { intent, name }],
        Input::Gathered(found) => match task.phase() {
            Some(Phase::RequestDue { .. }) if !task.gather.is_empty() => gathered(task, found),
            _ => vec![],
        },
        Input::ModelBlock { block, origin } => model_block(task, block, origin),
        Input::ModelEnded { finish: Finish::Refused, used, .. } => {
            model_failed(task, PROVIDER_REFUSED.to_owned(), Remedy::Ask, (used, None), at)
        }
        Input::ModelEnded { finish, used, frame, tail, beginning } => match task.phase() {
            Some(Phase::Requesting { blocks, .. }) => {
                let mut events: Vec<Event> = call_of_unknown_tool(task, blocks, finish).into_iter().collect();
                events.push(Event::TurnEnded {
                    finish,
                    total: task.totals.including(used),
                    context: frame.and_then(|frame| measured(task, frame, used)),
                    tail,
                    beginning,
                });
                events
            }
            _ => vec![],
        },
        Input::ModelFailed { message, remedy, used, frame } => {
            model_failed(task, message, remedy, (used, frame), at)
        }
        // What has ended makes no request before it goes on.
        Input::Condense | Input::RestoreContext { .. } if task.state().is_final() => vec![],
        Input::Condense if task.context.is_requested() => vec![],
        Input::Condense => vec![Event::SummaryRequested { state: task.state() }],
        Input::RestoreContext { seq, left_out } => compaction::restored(task, seq, *left_out),
        Input::Compacted { outcome, used } => compaction::shortened(task, outcome, used),
        Input::RetryDue => match task.phase() {
            Some(Phase::Backoff { .. }) => vec![Event::RetryDue],
            _ => vec![],
        },
        Input::RequestDelayed { due, reason } => match task.phase() {
            Some(&Phase::Requesting { attempt, .. }) => vec![Event::RequestDelayed { due, attempt, reason }],
            _ => vec![],
        },
        Input::DelayEnded => match task.phase() {
            Some(Phase::Requesting { .. }) => vec![Event::DelayEnded { request: task.request_number() }],
            _ => vec![],
        },
        Input::HookMessages(messages) => hook_messages_received(task, messages),
        Input::WorktreeMade(made) if task.needs_worktree() => vec![match made {
            Ok(worktree) => Event::WorktreeMade { worktree },
            Err(reason) => Event::WorktreeUnavailable { reason },
        }],
        Input::WorktreeClosed { kept } if task.closes_worktree() => vec![task.worktree_closed(kept)],
        Input::WorktreeMade(_) | Input::WorktreeClosed { .. } => vec![],
        Input::Gated(decision) => gated(task, decision),
        Input::ToolDone(outcome) => tool_done(task, outcome),
        Input::ServerAsked(question) => server_asked(task, question),
        Input::ServerQuestionOver => task.void_server_question().into_iter().collect(),
        Input::SamplingStarted { server, asked, tokens, allow_all } => match running_call(task) {
            Some(call) => {
                vec![Event::SamplingStarted { call_id: call.id.clone(), server, asked, tokens, allow_all }]
            }
            None => vec![],
        },
        Input::SamplingEnded { server, taken, outcome, used } => match running_call(task) {
            Some(call) => {
                let (call_id, total) = (call.id.clone(), task.totals.including(used));
                vec![Event::SamplingEnded { call_id, server, taken, outcome, total }]
            }
            None => vec![],
        },
        Input::WriteSettled(found, saved) => write_settled(task, &found, saved),
        Input::CommandEnded { id, outcome } => command_ended(task, &id, outcome),
    }
}

/// Records another mode or model. A request that waits for its turn is made to the other model instead.
fn changed(task: &Task, change: ModeChange) -> Vec<Event> {
    let switched = mode_switched(task, change, None);
    let is_other_model = match &switched {
        Event::ModeSwitched { change, .. } => task.settings.changes_model(change),
        _ => false,
    };
    let is_delayed = matches!(task.phase(), Some(Phase::Requesting { is_delayed: true, .. }));
    let delay_ended = Event::DelayEnded { request: task.request_number() };
    [switched].into_iter().chain((is_other_model && is_delayed).then_some(delay_ended)).collect()
}

pub(super) fn send(task: &Task, text: String, images: Vec<String>, when: SendWhen) -> Vec<Event> {
    let mut events = resume(task);
    let asks = task.question().is_some() && server_question(task).is_none();
    if asks && when == SendWhen::Now {
        // In a conversation, what one says next is the answer. Never so with an approval, nor with what goes to others.
        events.extend(answer(task, text, images, None, "user".into()));
    } else {
        // A task that has ended does nothing that could be waited for.
        let when = if task.state().is_final() { SendWhen::Now } else { when };
        events.push(task.queue_with(text, images, when));
    }
    events
}

/// Puts down what the user says to a task above this one, which waits for it: it is read with the next request, and answers
/// no question.
pub(in crate::engine) fn queue_for(task: &Task, text: String, images: Vec<String>) -> Vec<Event> {
    let mut events = resume(task);
    events.push(task.queue_with(text, images, SendWhen::Now));
    events
}

pub(super) fn edit_queue(task: &Task, edit: impl FnOnce(&mut Vec<QueueItem>)) -> Vec<Event> {
    let mut items = task.queue.clone();
    edit(&mut items);
    if items == task.queue { vec![] } else { vec![Event::QueueChanged { items }] }
}

/// Lets a task go on that was interrupted or has ended; nothing for any other.
pub(super) fn resume(task: &Task) -> Vec<Event> {
    if !task.is_interrupted() && !task.state().is_final() {
        return vec![];
    }
    let mut events = vec![];
    if let Some(Phase::Requesting { .. }) = task.phase() {
        let error = "The server ended during this request; it is sent again.";
        events.push(turn_failed(task, error, Usage::default()));
    }
    if let Some(CurrentCall { call, stage: Stage::Run { write: None, .. }, .. }) = task.in_progress() {
        events.push(match call.effect() {
            ToolEffect::Read | ToolEffect::Intent => Event::ToolRestarted { call_id: call.id.clone() },
            effect => finished(call, ToolStatus::Interrupted, replies::interrupted(effect), false),
        });
    }
    events.push(Event::Resumed);
    events
}

/// Whoever lets a task go on whose model could not be reached, and says no more, wants just that.
pub(super) fn try_again(task: &Task) -> Option<Event> {
    let question = task.question().filter(|asked| asked.kind == QuestionKind::ApiReqFailed)?;
    Some(Event::QuestionAnswered {
        question_id: question.question_id.clone(),
        by: Decider::Server,
        text: Some(TRY_AGAIN.into()),
        images: vec![],
        mode: None,
        words: None,
    })
}

pub(super) fn model_block(task: &Task, block: Block, origin: String) -> Vec<Event> {
    let Some(Phase::Requesting { blocks, .. }) = task.phase() else { return vec![] };
    let index = u32::try_from(blocks.len()).unwrap_or(u32::MAX);
    let id = block_message_id(task.totals.requests, index);
    let say = |say, text| Message { id: id.clone(), kind: MessageKind::Say(say), text, images: vec![] };
    vec![match block {
        Block::Text(text) => Event::Spoke { message: say(Say::Text, text) },
        Block::Thinking { text, opaque } => {
            Event::Thought { message: say(Say::Reasoning, text), opaque, origin }
        }
        // Ids are our own: providers repeat theirs, and calls in text have none.
        Block::Call { id: theirs, name, params, fenced, problem } => {
            let quoted = || match theirs {
                None => quoted(task.conversation.given_texts(), &name, &params, fenced),
                Some(_) => None,
            };
            let problem = problem.or_else(|| repeated_placeholder(&params)).or_else(quoted);
            let call_id = ToolCallId::new(format!("call_{}", task.number()));
            let mut call = ToolCall { id: call_id, name, params, problem, note: None };
            decode_command(&mut call);
            Event::Called { message: call_message(id, &call), call }
        }
    }]
}

/// Returns the problem of parameters that repeat a placeholder for what was left out.
fn repeated_placeholder(params: &Map<String, Value>) -> Option<String> {
    let repeats = |(_, value): &(&String, &Value)| value.as_str().is_some_and(condense::is_placeholder);
    params.iter().find(repeats).map(|(name, _)| condense::repeated_placeholder(name))
}

/// The call of a tool that doesn't exist, in an answer with no other: it is refused as a native one is, with the tools
/// that there are.
fn call_of_unknown_tool(task: &Task, blocks: &[AssistantBlock], finish: Finish) -> Option<Event> {
    if task.settings.protocol != ToolProtocol::Xml || finish == Finish::Length {
        return None;
    }
    let mut found = None;
    for block in blocks {
        match block {
            AssistantBlock::Call { .. } => return None,
            AssistantBlock::Text { text } => found = found.or_else(|| unknown_call(text)),
            AssistantBlock::Thinking { .. } => {}
        }
    }
    let block = Block::Call { id: None, name: found?, params: Map::new(), fenced: false, problem: None };
    model_block(task, block, String::new()).pop()
}

/// The request that was made last, with the tokens that its endpoint told; none where that says nothing of the next one.
fn measured(task: &Task, frame: RequestFrame, used: Usage) -> Option<Box<MeasuredRequest>> {
    let told = used.tokens_in.saturating_add(used.cache_reads).saturating_add(used.cache_writes);
    let sent = task.context.sent()?;
    Some(Box::new(task.context.measured(frame, sent, told)))
}

impl Task {
    /// Returns whether the model request that runs is the last attempt before a fallback takes over.
    pub(in crate::engine) fn makes_last_attempt(&self) -> bool {
        matches!(self.phase(), Some(Phase::Requesting { attempt, .. }) if *attempt >= MAX_ATTEMPTS)
    }

    /// Returns whether the question that waits is one of the server that answers the current call.
    pub(in crate::engine) fn is_asked_by_server(&self) -> bool {
        server_question(self).is_some()
    }

    /// The end of a question of the server that answers the current call.
    pub(in crate::engine) fn void_server_question(&self) -> Option<Event> {
        server_question(self).and_then(|_| void_question(self))
    }
}

pub(super) fn model_failed(
    task: &Task,
    message: String,
    remedy: Remedy,
    (used, frame): (Usage, Option<RequestFrame>),
    at: i64,
) -> Vec<Event> {
    let Some(&Phase::Requesting { attempt, .. }) = task.phase() else { return vec![] };
    let context = frame.and_then(|frame| measured(task, frame, Usage::default()));
    let mut events = vec![match turn_failed(task, message.clone(), used) {
        Event::TurnFailed { request, error, cancelled, total, .. } => {
            Event::TurnFailed { request, error, cancelled, total, context: context.clone() }
        }
        failed => failed,
    }];
    match remedy {
        Remedy::Retry { after, jitter, is_patient } if attempt < most_attempts(is_patient) => {
            let first = if is_patient && after.is_none() { PATIENT_BACKOFF } else { BACKOFF };
            let backoff = (first << attempt.min(16)).min(MAX_BACKOFF_MS);
            // Half fixed, half spread; both are small positive numbers.
            let spread = (backoff as f64 / 2.0 * (1.0 + jitter.clamp(0.0, 1.0))) as i64;
            let due = at.saturating_add(after.unwrap_or(0).max(spread));
            events.push(Event::RetryScheduled { due, attempt: attempt + 1, reason: message });
        }
        Remedy::RetryAnew => {
            let profile = &task.settings.profile;
            let reason = format!("{message} From now on the profile {profile} is used.");
            events.push(Event::RetryScheduled { due: at, attempt: 1, reason });
        }
        Remedy::WithoutImages if !task.context.refuses_images() => {
            let told = format!(
                "The model is sent no images in this task from now on, as its endpoint refused a request with images: {message}"
            );
            events.push(Event::ImagesRefused);
            events.extend(warning(task, "images", &[told]));
        }
        Remedy::WithoutNewestImages if !task.context.leaves_out_newest_images() => {
            let told = format!(
                "The newest images are left out of the conversation, as the endpoint refused a request with them: {message}"
            );
            events.push(Event::NewestImagesRefused);
            events.extend(warning(task, "images", &[told]));
        }
        Remedy::Shorten { refused: false } => events.extend(compaction::not_sent(task, context.as_deref())),
        Remedy::Shorten { refused: true } => match compaction::limit_of_refused(task, context.as_deref()) {
            Some(tokens) => events.push(Event::ContextLimited { tokens }),
            None => events.extend(ask_engine_question(task, QuestionKind::ApiReqFailed, message, TRY_AGAIN)),
        },
        _ => events.extend(ask_engine_question(task, QuestionKind::ApiReqFailed, message, TRY_AGAIN)),
    }
    events
}

fn most_attempts(is_patient: bool) -> u32 {
    if is_patient { MAX_PATIENT_ATTEMPTS } else { MAX_ATTEMPTS }
}

/// Records the results of lookups. What hooks refused is taken out first; a task that was to begin with that alone
/// ends.
fn gathered(task: &Task, found: Gathered) -> Vec<Event> {
    let Gathered { commands, text, images, seen, mode, refused, warnings, stop } = found;
    let all = refused.len() == task.gather.prompts.len();
    let mut events: Vec<Event> = warning(task, "hooks", &warnings).into_iter().collect();
    for (index, (id, reason)) in refused.iter().enumerate() {
        let text = match reason.as_str() {
            "" => "A hook blocked your message; it was not sent to the model.".to_owned(),
            reason => format!("A hook blocked your message; it was not sent to the model. {reason}"),
        };
        let shown = MessageId::new(format!("{id}.refused"));
        let message = Message { id: shown, kind: MessageKind::Say(Say::Error), text, images: vec![] };
        // The last one: what stands behind it in a log may be lost, and it must not.
        let ends = task.fresh && all && index + 1 == refused.len();
        events.push(Event::PromptRefused { message_id: id.clone(), message, ends });
    }
    events.extend(mode.map(|change| mode_switched(task, change, None)));
    events.push(Event::Gathered { commands, text, images, seen });
    events.extend(stop.map(|reason| Event::Halted { reason }));
    events
}

/// Records warnings for the user.
fn warning(task: &Task, about: &str, warnings: &[String]) -> Option<Event> {
    if warnings.is_empty() {
        return None;
    }
    let id = MessageId::new(format!("{about}.{}", task.number()));
    let text = warnings.join("\n");
    let message = Message { id, kind: MessageKind::Say(Say::Error), text, images: vec![] };
    Some(Event::Shown { message })
}

/// Records the messages of hooks about the current call: at the gate all that counts, behind the tool what is added.
fn hook_messages_received(task: &Task, messages: HookMessages) -> Vec<Event> {
    let (Some(batch), Some(current)) = (task.batch(), task.in_progress()) else { return vec![] };
    let call = &*current.to_judge();
    let before = &current.hooks;
    let now = match (&current.stage, current.authorization()) {
        (_, Some(Authorization::Gate(_))) => {
            HookChanges { params: messages.params, addition: messages.addition }
        }
        (Stage::Run { .. }, _) => {
            let mut both = HookMessages { addition: before.addition.clone(), ..HookMessages::default() };
            both.add(messages.addition);
            HookChanges { params: before.params.clone(), addition: both.addition }
        }
        _ => return vec![],
    };
    let mut events: Vec<Event> = warning(task, call.id.as_str(), &messages.warnings).into_iter().collect();
    if let Some(params) = now.params.as_ref().filter(|params| before.params.as_ref() != Some(params)) {
        // The user sees what runs.
        let rewritten = ToolCall { params: params.clone(), ..call.clone() };
        let message = call_message(MessageId::new(format!("{}.rewritten", call.id)), &rewritten);
        events.push(Event::Shown { message });
    }
    // One review covers all calls of an answer.
    let batch = messages.batch && !batch.hooks_review;
    if now != *before || messages.goes_on || batch {
        let HookChanges { params, addition } = now;
        let call_id = call.id.clone();
        events.push(Event::HookMessagesReceived {
            call_id,
            params,
            addition,
            goes_on: messages.goes_on,
            batch,
        });
    }
    if let Some(reason) = messages.stop.filter(|_| !task.is_ending()) {
        let id = MessageId::new(format!("{}.stopped", call.id));
        let kind = MessageKind::Say(Say::Error);
        let message = Message { id, kind, text: reason.clone(), images: vec![] };
        events.extend([Event::Shown { message }, Event::Halted { reason }]);
    }
    events
}

/// Records the gate's verdict on the current call and what it leads to.
fn gated(task: &Task, decision: PolicyDecision) -> Vec<Event> {
    let Some(current) = task.in_progress() else { return vec![] };
    let Some(Authorization::Gate(approval)) = current.authorization() else { return vec![] };
    let judged = JudgedCall { task, current, call: &current.as_it_runs(), asked: approval.asked() };
    match decision {
        PolicyDecision::Deny { rule, reason, mistake, saves, detail } => {
            let result = judged.refuse(&reason, mistake, saves);
            let rule_id = detail.as_ref().and_then(|detail| detail["ruleId"].as_str()).map(str::to_owned);
            let decided = judged.decided(rule, reason, detail);
            judged.void_by(rule_id.as_deref()).into_iter().chain([decided, result]).collect()
        }
        PolicyDecision::Allow {
            plan: Plan::Write(PlannedWrite { shared: false, .. }) | Plan::WriteAll(_),
            ..
        }
        | PolicyDecision::Ask { .. }
            if task.unsaved.is_some() && current.switch().is_none() =>
        {
            let result = finished(judged.call, ToolStatus::Failed, replies::save_first(), true);
            judged.void().into_iter().chain([result]).collect()
        }
        PolicyDecision::Allow { rule, reason, plan } => {
            let rule_id = match &rule {
                AllowRule::Standing(id) => Some(id.clone()),
                _ => None,
            };
            let decided = judged.decided(rule, reason, None);
            // What the settings allow by now, the user may have refused all the same.
            match judged.asked.and_then(|asked| Some((&asked.request, asked.held.as_ref()?))) {
                Some((approval, held)) if !held.option_id.allows() || held.review.is_some() => {
                    [decided].into_iter().chain(resolve(task, approval, held.clone())).collect()
                }
                _ => {
                    let void = judged.void_by(rule_id.as_deref());
                    void.into_iter().chain([decided]).chain(judged.run(plan)).collect()
                }
            }
        }
        PolicyDecision::Ask { rule, reason, digest, title, subject, rule_subject, alternative } => {
            let decided = judged.decided(rule, reason.clone(), None);
            let action = AskedAction { digest, title, subject, reason, rule: rule_subject, alternative };
            judged.ask(decided, action)
        }
    }
}

/// A call that the gate has judged.
struct JudgedCall<'a> {
    task: &'a Task,
    current: &'a CurrentCall,
    /// As it runs.
    call: &'a ToolCall,
    /// An approval that was pending when the server ended, and its answer if one has come since.
    asked: Option<&'a AskedApproval>,
}

/// An action that the user is to be asked about.
struct AskedAction {
    digest: Digest,
    title: String,
    subject: String,
    reason: String,
    rule: Option<RuleSubject>,
    alternative: Option<RuleSubject>,
}

impl JudgedCall<'_> {
    fn decided(&self, rule: impl Into<RecordedVerdict>, reason: String, detail: Option<Value>) -> Event {
        Event::GateDecided { call_id: self.call.id.clone(), verdict: rule.into(), reason, detail }
    }

    /// The end of an approval for another action.
    fn void(&self) -> Option<Event> {
        self.asked.and_then(|_| void_approval(self.task))
    }

    /// The same where a standing rule has decided, if that is known.
    fn void_by(&self, rule_id: Option<&str>) -> Option<Event> {
        self.void().map(|void| match void {
            Event::ApprovalResolved { approval_id, option_id, text, review, by } => {
                let by = rule_id.map_or(by, |id| Decider::Rule(id.to_owned()));
                Event::ApprovalResolved { approval_id, option_id, text, review, by }
            }
            void => void,
        })
    }

    /// The result of a call that the gate denies.
    fn refuse(&self, reason: &str, mistake: bool, saves: bool) -> Event {
        // It may quote a file.
        let text = roo_model::prompts::untrusted(reason).into_owned();
        if let Some(switch) = self.current.switch() {
            let note = replies::mode_kept(&self.task.settings.mode, &text);
            return switch_judged(&self.current.call, switch, &note);
        }
        let status = if mistake { ToolStatus::Failed } else { ToolStatus::Denied };
        let result = finished(self.call, status, text, mistake);
        if saves { not_saved(self.task, result) } else { result }
    }

    /// Asks the user, unless they have answered for the same action already.
    fn ask(&self, decided: Event, action: AskedAction) -> Vec<Event> {
        let same = self.asked.filter(|asked| asked.request.digest == action.digest);
        if let Some(AskedApproval { request, held: Some(held) }) = same {
            return [decided].into_iter().chain(resolve(self.task, request, held.clone())).collect();
        }
        let (id, void) = match same {
            Some(asked) => (asked.request.approval_id.clone(), None),
            None => (ApprovalId::new(format!("{}.a{}", self.task.id, self.task.number())), self.void()),
        };
        let approval = self.request(id, action);
        void.into_iter().chain([decided, Event::ApprovalRequested { approval }]).collect()
    }

    fn request(&self, approval_id: ApprovalId, action: AskedAction) -> PendingApproval {
        let AskedAction { digest, title, subject, reason, rule, alternative } = action;
        let runs = matches!(self.call.effect(), ToolEffect::Execute | ToolEffect::External);
        PendingApproval {
            approval_id,
            tool_call_id: self.call.id.clone(),
            digest,
            title,
            must_open: runs && subject.len() > AT_A_GLANCE,
            subject,
            reason,
            options: offers::options(rule.as_ref(), alternative.as_ref()),
            rule,
            alternative: alternative.map(Box::new),
            reviewable: match roo_catalog::parse(self.call) {
                Ok(Invocation::ApplyPatch(patch)) => patch.named_files().count() > 1,
                Ok(Invocation::RenameSymbol(_) | Invocation::ApplyCodeAction(_)) => true,
                _ => self.task.merges(),
            },
        }
    }

    /// Records the run of an allowed call, or the switch of modes that goes with an answer.
    fn run(&self, plan: Plan) -> Vec<Event> {
        let Some(switch) = self.current.switch() else { return run(self.task, self.call, plan) };
        let (switched, note) = match plan {
            Plan::Mode(change) => mode_switch(self.task, change, self.call),
            // What the gate allowed is no switch.
            Plan::Nothing | Plan::Write(_) | Plan::WriteAll(_) | Plan::Conflict | Plan::Branch(_) => {
                return vec![self.refuse("No mode was chosen.", false, false)];
            }
        };
        vec![switched, switch_judged(&self.current.call, switch, &note)]
    }
}

fn respond(task: &Task, answer: HeldAnswer) -> Vec<Event> {
    let Some(authorization) = task.in_progress().and_then(CurrentCall::authorization) else { return vec![] };
    let (Authorization::User(asked) | Authorization::Gate(Approval::Asked(asked))) = authorization else {
        return vec![];
    };
    let AskedApproval { request: approval, held: None } = &**asked else { return vec![] };
    if matches!(authorization, Authorization::User(_)) && !task.is_interrupted() {
        return resolve(task, approval, answer);
    }
    let approval_id = approval.approval_id.clone();
    let HeldAnswer { by, option_id, text, review } = answer;
    vec![Event::AnswerHeld { approval_id, by, option_id, text, review, state: task.state() }]
}

pub(super) fn resolve(task: &Task, approval: &PendingApproval, answer: HeldAnswer) -> Vec<Event> {
    let HeldAnswer { by, option_id, text, review } = answer;
    let text = text.filter(|text| !text.trim().is_empty());
    let mut events = vec![];
    let is_declined = |offer: &RuleSubject| offer.is_declined_by(option_id.kind());
    let goes_on = option_id.allows() || approval.rule.as_ref().is_some_and(is_declined);
    // What comes with a refusal is in the call's result.
    if let Some(text) = text.clone().filter(|_| goes_on) {
        events.push(task.queue_with(text, vec![], SendWhen::Now));
    }
    let approval_id = approval.approval_id.clone();
    events.push(Event::ApprovalResolved { approval_id, by, option_id: Some(option_id), text, review });
    events
}

/// Records the run of an allowed call: tools that steer the conversation are steps of the machine, the others act on
/// the world.
pub(super) fn run(task: &Task, call: &ToolCall, plan: Plan) -> Vec<Event> {
    let write = match plan {
        Plan::Branch(branch) => return delegate(task, call, *branch),
        Plan::Mode(change) => {
            let (switched, text) = mode_switch(task, change, call);
            return vec![switched, finished(call, ToolStatus::Ok, text, false)];
        }
        Plan::Write(write) => Some(PlannedEdit::File(write)),
        Plan::WriteAll(patch) => Some(PlannedEdit::Patch(patch)),
        Plan::Conflict => return vec![started(call, None)],
        Plan::Nothing => None,
    };
    match roo_catalog::parse(call) {
        Ok(Invocation::AskFollowupQuestion(ask)) => {
            let question = PendingQuestion {
                question_id: next_question(task),
                kind: QuestionKind::Followup,
                text: ask.question,
                suggestions: suggestions(task, ask.suggestions),
                secret: false,
            };
            vec![Event::QuestionAsked { question, call_id: Some(call.id.clone()) }]
        }
        Ok(Invocation::UpdateTodoList(update)) => {
            let items = todo_items(&task.todo, update.items);
            let done = items.iter().filter(|item| item.status == TodoStatus::Completed).count();
            let mut text = format!("The list has {} entries, {done} of them completed.", items.len());
            if !update.left_out.is_empty() {
                text.push('\n');
                text.push_str(&replies::left_out_of_list(&update.left_out));
            }
            vec![Event::TodoChanged { items }, finished(call, ToolStatus::Ok, text, false)]
        }
        Ok(Invocation::AttemptCompletion(completion)) => {
            if task.batch().is_some_and(ToolBatch::has_failed) {
                return vec![finished(call, ToolStatus::Failed, replies::completion_after_failure(), true)];
            }
            match write {
                None => end(task, call, EndState::Completed, completion.result),
                Some(merge) => why_not_ended(task, call, completion.result.len())
                    .unwrap_or_else(|| vec![started(call, Some(merge))]),
            }
        }
        Ok(Invocation::CompleteWithFailure(failure)) => end(task, call, EndState::Failed, failure.reason),
        _ => vec![started(call, write)],
    }
}

fn started(call: &ToolCall, write: Option<PlannedEdit>) -> Event {
    let subject = call.subject();
    Event::ToolStarted { call_id: call.id.clone(), name: call.name.clone(), subject, write }
}

/// The question of the server that answers the current call.
fn server_question(task: &Task) -> Option<&PendingQuestion> {
    task.question().filter(|question| question.kind == QuestionKind::McpElicitation)
}

/// The call whose tool runs.
fn running_call(task: &Task) -> Option<&ToolCall> {
    match task.in_progress()? {
        CurrentCall { call, stage: Stage::Run { .. }, .. } => Some(call),
        CurrentCall { .. } => None,
    }
}

/// Asks the user what a server wants to know, unless its call is not waited for any more.
fn server_asked(task: &Task, question: ServerQuestion) -> Vec<Event> {
    let Some(CurrentCall { call, stage: Stage::Run { asked: None, .. }, .. }) = task.in_progress() else {
        return vec![];
    };
    if task.is_ending() {
        return vec![];
    }
    let suggestions = question.suggestions.into_iter();
    let question = PendingQuestion {
        question_id: next_question(task),
        kind: QuestionKind::McpElicitation,
        text: question.text,
        suggestions: suggestions.map(|text| Suggestion { text, mode: None }).collect(),
        secret: question.secret,
    };
    vec![Event::QuestionAsked { question, call_id: Some(call.id.clone()) }]
}

/// Filters the suggestions that a task may make. Whoever delegated one chose what it may do: an answer gives it no
/// other mode.
fn suggestions(task: &Task, suggestions: Vec<Suggestion>) -> Vec<Suggestion> {
    let of_branch = |suggestion| Suggestion { mode: None, ..suggestion };
    match task.parent {
        Some(_) => suggestions.into_iter().map(of_branch).collect(),
        None => suggestions,
    }
}

/// The call that ends the task, unless the user has said something that it doesn't know yet.
pub(super) fn end(task: &Task, call: &ToolCall, state: EndState, text: String) -> Vec<Event> {
    if let Some(events) = why_not_ended(task, call, text.len()) {
        return events;
    }
    let (say, result, reason) = match state {
        EndState::Completed => (Say::CompletionResult, Some(text.clone()), None),
        EndState::Failed | EndState::Cancelled => (Say::Error, None, Some(text.clone())),
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
            withheld: None,
            recorded: vec![],
            exit_code: None,
            circle: None,
        },
    ]
}

/// The events of a call that would end the task and does not: its result is too long, or the user has said something.
fn why_not_ended(task: &Task, call: &ToolCall, length: usize) -> Option<Vec<Event>> {
    if task.parent.is_some() && length > replies::RESULT_LIMIT {
        return Some(vec![finished(call, ToolStatus::Failed, replies::result_too_long(length), true)]);
    }
    if task.queue.is_empty() {
        return None;
    }
    let text = replies::completion_with_queue();
    Some(vec![deliver_queue(task), finished(call, ToolStatus::Skipped, text, false)])
}

/// Has all messages that wait delivered before the next request.
fn deliver_queue(task: &Task) -> Event {
    let now = |item: &QueueItem| QueueItem { when: SendWhen::Now, ..item.clone() };
    Event::QueueChanged { items: task.queue.iter().map(now).collect() }
}

/// Returns whether a user has not taken all of a proposal as it was.
fn changes_proposal(hunks: &[ReviewedHunk]) -> bool {
    hunks.iter().any(|hunk| hunk.decision != HunkDecision::Accept)
}

/// The result of a call that has merged the work tree of a branch: the branch ends with it, unless the user has said
/// something meanwhile, or has not taken all of it, of which its result knows nothing.
fn merged(task: &Task, call: &ToolCall, mut finished: Event, is_partial: bool) -> Vec<Event> {
    let Ok(Invocation::AttemptCompletion(completion)) = roo_catalog::parse(call) else {
        return vec![finished];
    };
    let Event::ToolFinished { result, ends, .. } = &mut finished else { return vec![finished] };
    if !task.queue.is_empty() {
        result.text.push('\n');
        result.text.push_str(&replies::completion_with_queue());
        return vec![finished, deliver_queue(task)];
    }
    if is_partial {
        result.text.push('\n');
        result.text.push_str(&replies::merged_in_part());
        return vec![finished];
    }
    let text = completion.result;
    *ends = Some(Ending { state: EndState::Completed, result: Some(text.clone()), reason: None });
    let id = MessageId::new(format!("{}.end", call.id));
    let message = Message { id, kind: MessageKind::Say(Say::CompletionResult), text, images: vec![] };
    vec![Event::Shown { message }, finished]
}

pub(super) fn answer(
    task: &Task,
    text: String,
    images: Vec<String>,
    mode: Option<String>,
    by: Decider,
) -> Vec<Event> {
    let Some(question) = task.question() else { return vec![] };
    let message = || task.message(MessageKind::Say(Say::UserFeedback), text.clone(), images.clone());
    let suggested = question.suggestions.iter().any(|suggestion| suggestion.text == text);
    let mut events = vec![];
    let mut words = None;
    match question.kind {
        QuestionKind::Followup => {
            let message = message();
            // What the model suggested is not the user's wish to look something up.
            words = (!suggested).then(|| AnswerWords {
                message_id: message.id.clone(),
                mentions: may_mention(&text),
                hooks: false,
            });
            events.push(Event::Shown { message });
        }
        // It is not for the model.
        QuestionKind::McpElicitation => {}
        _ if is_stop(&text) => {}
        kind => {
            if kind == QuestionKind::AutoApprovalMaxReqReached {
                events.push(Event::BudgetReset);
            }
            if kind == QuestionKind::MistakeLimitReached {
                let text = replies::guidance(if suggested { "" } else { &text });
                events.push(Event::UserSaid { message: message(), text, mentions: false, hooks: false });
            } else if !suggested {
                let mentions = may_mention(&text);
                let text = roo_model::prompts::user_message(&text);
                events.push(Event::UserSaid { message: message(), text, mentions, hooks: false });
            }
        }
    }
    let question_id = question.question_id.clone();
    events.push(Event::QuestionAnswered { question_id, by, text: Some(text), images, mode, words });
    events
}

/// The mode that goes with an answer. Of suggestions with one text and different modes nobody can tell which was
/// chosen, so none goes with it.
fn suggested_mode(suggestions: &[Suggestion], text: &str) -> Option<String> {
    let mut modes = suggestions.iter().filter(|one| one.text == text).map(|one| one.mode.as_deref());
    let first = modes.next().flatten()?;
    modes.all(|mode| mode == Some(first)).then(|| first.to_owned())
}

pub(super) fn tool_done(task: &Task, outcome: Outcome) -> Vec<Event> {
    let Some(current) = task.in_progress() else { return vec![] };
    let Stage::Run { write, .. } = &current.stage else { return vec![] };
    let call = &*current.as_it_runs();
    if outcome.is_stale && task.merge_in_progress().is_some() && !task.is_ending() {
        // Another branch was merged meanwhile: the merge starts over, with the files as they are now.
        return vec![Event::ToolRestarted { call_id: call.id.clone() }];
    }
    let review = current.review().map(|review| &*review.hunks);
    let is_partial = outcome.is_partial || review.is_some_and(changes_proposal);
    let edits = outcome.edits.into_iter();
    let mut events: Vec<Event> = void_question(task).into_iter().collect();
    events.extend(edits.map(|edit| Event::EditApplied {
        uri: edit.uri,
        before: edit.before,
        after: edit.after,
    }));
    events.extend(outcome.intent.map(|(intent, name)| Event::IntentSelected { intent, name }));
    events.extend(outcome.background.map(|(id, line)| Event::CommandBackgrounded {
        command: BackgroundCommand { id, call_id: call.id.clone(), line },
    }));
    events.extend(outcome.fault.map(|fault| Event::ChangesUnknown { fault }));
    if !outcome.conflicts.is_empty() {
        let files = outcome.conflicts.into_iter().map(|(path, text)| ConflictBase { path, text });
        events.push(Event::MergeConflicted { files: files.collect() });
    }
    let summary = checkpoint_summary(call);
    events.extend(checkpoint(call.id.clone(), summary, outcome.saved));
    let status = outcome.status;
    let finished = Event::ToolFinished {
        summary: match review {
            Some(hunks) if status == ToolStatus::Ok => reviewed_summary(&outcome.summary, hunks),
            _ => outcome.summary,
        },
        // What a tool found is nobody's word.
        result: result_of(
            call,
            outcome.status,
            with_review(roo_model::prompts::untrusted(&outcome.text).into_owned(), status, review),
            outcome.images,
        ),
        seen: outcome.seen,
        mistake: false,
        ends: None,
        saves: None,
        withheld: Some(outcome.withheld).filter(|withheld| !withheld.is_empty()),
        recorded: outcome.recorded,
        exit_code: outcome.exit_code,
        circle: None,
    };
    if status == ToolStatus::Ok && task.merge_in_progress().is_some() {
        events.extend(merged(task, call, finished, is_partial));
        return events;
    }
    events.push(match (write.as_ref().is_some_and(PlannedEdit::shared), status) {
        (true, ToolStatus::Failed | ToolStatus::Denied) => not_saved(task, finished),
        (true, ToolStatus::Ok) => saved(finished),
        _ => finished,
    });
    events
}

/// A checkpoint of the files that a call changed; none where it changed none.
fn checkpoint(call_id: ToolCallId, summary: String, files: Vec<SavedFile>) -> Option<Event> {
    (!files.is_empty()).then_some(Event::CheckpointSaved { call_id, summary, files })
}

/// Names a call in one line.
fn checkpoint_summary(call: &ToolCall) -> String {
    one_line(format!("{} {}", call.name, call.subject()).trim(), SUMMARY)
}

/// A command that the task looks after has ended.
fn command_ended(task: &Task, id: &CommandId, outcome: Outcome) -> Vec<Event> {
    let Some(command) = task.commands.find(id) else { return vec![] };
    let ended = Event::CommandEnded {
        command_id: id.clone(),
        call_id: command.call_id.clone(),
        status: outcome.status,
        summary: outcome.summary,
        text: outcome.text,
        exit_code: outcome.exit_code,
    };
    let saved = checkpoint(command.call_id.clone(), one_line(&command.line, SUMMARY), outcome.saved);
    saved
        .into_iter()
        .chain([ended])
        .chain(outcome.fault.map(|fault| Event::ChangesUnknown { fault }))
        .collect()
}

pub(super) fn write_settled(task: &Task, found: &[Option<Digest>], saved: Vec<SavedFile>) -> Vec<Event> {
    let Some(current) = task.in_progress() else { return vec![] };
    let CurrentCall { call, stage: Stage::SettleWrite { write, .. }, .. } = current else {
        return vec![];
    };
    let review = current.review().map(|review| &*review.hunks);
    let places = write.places();
    let found = |index: usize| found.get(index).copied().flatten();
    let all = |wanted: fn(&EditedFile<'_>) -> Option<Digest>| {
        places.iter().enumerate().all(|(index, place)| found(index) == wanted(place))
    };
    let seen = |done: bool| {
        let found =
            places.iter().enumerate().map(|(index, (path, ..))| (*path, found(index).filter(|_| done)));
        // As for an edit that wasn't interrupted, see `leave_out_unseen`.
        let told = found.filter(|(path, now)| now.is_none() || has_seen_before(task, write, path));
        told.map(|(path, now)| (path.to_owned(), now)).collect()
    };
    let (status, text) = if all(|(_, _, after)| *after) {
        let text = match write {
            PlannedEdit::File(write) => replies::write_was_done(&write.path),
            PlannedEdit::Patch(_) => replies::patch_was_done(),
        };
        (ToolStatus::Ok, text)
    } else if all(|(_, before, _)| *before) {
        return vec![Event::ToolRestarted { call_id: call.id.clone() }];
    } else {
        let text = match write {
            PlannedEdit::File(write) => replies::write_unknown(&write.path),
            PlannedEdit::Patch(_) => {
                let (mut changed, mut unchanged, mut other) = (vec![], vec![], vec![]);
                for (index, (path, before, after)) in places.iter().enumerate() {
                    match found(index) {
                        now if now == *after => changed.push(*path),
                        now if now == *before => unchanged.push(*path),
                        _ => other.push(*path),
                    }
                }
                replies::patch_unknown(&changed, &unchanged, &other)
            }
        };
        (ToolStatus::Interrupted, text)
    };
    let summary = summary(&text);
    let result = result_of(call, status, with_review(text, status, review), vec![]);
    let saves = (write.shared() && status == ToolStatus::Ok).then_some(true);
    // What a merge has changed is in the folder of the parent, and the task knows files of its work tree.
    let merges = write.merge().is_some();
    let seen = if merges { vec![] } else { seen(status == ToolStatus::Ok) };
    let mut events: Vec<Event> =
        checkpoint(call.id.clone(), checkpoint_summary(call), saved).into_iter().collect();
    let finished = Event::ToolFinished {
        summary,
        result,
        seen,
        mistake: false,
        ends: None,
        saves,
        withheld: None,
        recorded: vec![],
        exit_code: None,
        circle: None,
    };
    match merges && status == ToolStatus::Ok {
        true => events.extend(merged(task, call, finished, review.is_some_and(changes_proposal))),
        false => events.push(finished),
    }
    events
}

/// Returns whether the task has seen the text that an edit changed in a file. If not, the rest of it may be the user's.
fn has_seen_before(task: &Task, edit: &PlannedEdit, path: &str) -> bool {
    let moved_from = match edit {
        PlannedEdit::File(_) => None,
        PlannedEdit::Patch(patch) => patch.files.iter().find(|file| file.path == path),
    };
    let origin = moved_from.and_then(|file| file.moved_from.as_deref()).unwrap_or(path);
    let before =
        edit.places().into_iter().find(|(name, ..)| *name == origin).and_then(|(_, before, _)| before);
    before.is_none_or(|before| task.files.seen_by_next_request().get(origin) == Some(&before))
}

/// A place that an edit changes, with its digests before and after.
type EditedFile<'a> = (&'a str, Option<Digest>, Option<Digest>);
