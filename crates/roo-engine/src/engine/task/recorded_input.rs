//! The inputs that a log tells of: what came from outside, taken out of the events that it led to.
//!
//! A log has events alone. Each input is recorded within them: an answer as blocks, a result with its text, a decision
//! with its reason. What the machine added (numbers, questions, wording, sums) is left behind here, so that a replay
//! derives it again. Where several inputs may have led to the same events, all of them are returned, the likelier ones
//! first; the replay finds out which one did.

use std::sync::Arc;

use super::batch::{Authorization, CurrentCall, Stage};
use super::{
    Choice, CompactionOutcome, Decider, Gathered, Input, MeasuredRequest, Remedy, STOP, Task, decide,
};
use crate::engine::event::Event;
use crate::policy::{
    AskRule, HookMessages, Plan, PlannedBranch, PlannedEdit, PolicyDecision, RecordedRule, RecordedVerdict,
    Review,
};
use crate::server_tools::ServerQuestion;
use crate::tool_run::{AppliedEdit, Outcome};
use roo_catalog::{ToolCall, ToolName, ToolProtocol};
use roo_formats::modes::delegation::Delegation;
use roo_model::parser::Block;
use roo_model::prompts::replies;
use roo_model::providers::{Finish, Item};
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::Digest;
use roo_protocol::question::QuestionKind;
use roo_protocol::task::{PendingApproval, QueueItem, SendWhen, Usage};

/// Stands for an outcome's text while it is found out what the machine puts around it.
const MARK: &str = "\u{e000}text\u{e000}";

/// The time of inputs whose time makes no difference.
const NO_TIME: i64 = 0;

/// An input that may have led to recorded events, and its time.
pub(in crate::engine) type TimedInput = (Input, i64);

/// Returns the inputs that may have led to these events of a task, which follow one another in a log. What a task that
/// was interrupted or has ended was woken by is not among them; see [`wakes`].
pub(in crate::engine) fn inputs_of(task: &Task, events: &[&Event]) -> Vec<TimedInput> {
    let Some(first) = events.first() else { return vec![] };
    let now = |input: Input| vec![(input, NO_TIME)];
    match first {
        Event::CancelRequested => now(Input::Cancel),
        Event::StopRequested { reason: None } => now(Input::Stop),
        Event::StopRequested { reason: Some(_) } => timeless(stops(task, &events[1..])),
        Event::QueueChanged { items } => {
            let mut found = answers_to_approval(&events[1..]);
            found.extend(changed_queue(task, items));
            timeless(found)
        }
        Event::AnswerHeld { by, option_id, text, review, .. } => {
            now(respond(by, *option_id, text.as_ref(), review.as_ref()))
        }
        Event::ApprovalReconsidered { .. } => now(Input::Reconsider),
        Event::ApprovalResolved { option_id: Some(_), .. } => timeless(answers_to_approval(events)),
        Event::ApprovalResolved { option_id: None, .. } | Event::GateDecided { .. } => {
            timeless(gated(task, events))
        }
        Event::Shown { .. } => {
            let mut found = answers_to_question(task, events);
            found.push(Input::HookMessages(hook_messages(task, events)));
            found.push(Input::Gathered(gathered(events)));
            found.extend(ran(task, events));
            found.extend(settled(task, events));
            timeless(found)
        }
        Event::QuestionAsked { question, .. } if question.kind == QuestionKind::McpElicitation => {
            let suggestions = question.suggestions.iter().map(|suggestion| suggestion.text.clone());
            now(Input::ServerAsked(ServerQuestion {
                text: question.text.clone(),
                suggestions: suggestions.collect(),
                secret: question.secret,
            }))
        }
        Event::QuestionAnswered { text: None, .. } => now(Input::ServerQuestionOver),
        Event::BudgetReset | Event::UserSaid { .. } | Event::QuestionAnswered { .. } => {
            timeless(answers_to_question(task, events))
        }
        Event::ModeSwitched { change, call_id: None } => {
            timeless(vec![Input::Change(change.clone()), Input::Gathered(gathered(events))])
        }
        Event::Gathered { .. } | Event::PromptRefused { .. } => now(Input::Gathered(gathered(events))),
        Event::IntentSelected { intent, name } => {
            let bound = Input::BindIntent { intent: intent.clone(), name: name.clone() };
            timeless([vec![bound], ran(task, events)].into_iter().flatten())
        }
        Event::Spoke { message } => now(block(Block::Text(message.text.clone()), "")),
        Event::Thought { message, opaque, origin } => {
            let thought = Block::Thinking { text: message.text.clone(), opaque: opaque.clone() };
            now(block(thought, origin))
        }
        Event::Called { call, .. } => {
            let mut found = called(call);
            found.extend(model_ended(task, events.get(1).copied()));
            timeless(found)
        }
        Event::TurnEnded { .. } => timeless(model_ended(task, Some(first))),
        Event::TurnFailed { .. } => model_failed(task, first, events.get(1).copied()),
        Event::RetryDue => now(Input::RetryDue),
        Event::RequestDelayed { due, reason, .. } => {
            now(Input::RequestDelayed { due: *due, reason: reason.clone() })
        }
        Event::DelayEnded { .. } => now(Input::DelayEnded),
        Event::HookMessagesReceived { .. } => now(Input::HookMessages(hook_messages(task, events))),
        Event::EditApplied { .. }
        | Event::CommandBackgrounded { .. }
        | Event::ChangesUnknown { .. }
        | Event::MergeConflicted { .. } => timeless(ran(task, events)),
        Event::WorktreeMade { worktree } => now(Input::WorktreeMade(Ok(worktree.clone()))),
        Event::WorktreeUnavailable { reason } => now(Input::WorktreeMade(Err(reason.clone()))),
        Event::WorktreeUnused => now(Input::WorktreeClosed { kept: None }),
        Event::WorktreeClosed { kept } => now(Input::WorktreeClosed { kept: kept.clone() }),
        Event::ToolFinished { .. } | Event::ToolRestarted { .. } | Event::CheckpointSaved { .. } => {
            let all = [ran(task, events), settled(task, events), command_ended(events), refused_unsaved()];
            timeless(all.into_iter().flatten())
        }
        Event::SamplingStarted { server, asked, tokens, allow_all, .. } => now(Input::SamplingStarted {
            server: server.clone(),
            asked: asked.clone(),
            tokens: *tokens,
            allow_all: *allow_all,
        }),
        Event::SamplingEnded { server, taken, outcome, total, .. } => now(Input::SamplingEnded {
            server: server.clone(),
            taken: *taken,
            outcome: outcome.clone(),
            used: used(task, total),
        }),
        Event::CommandEnded { .. } => timeless(command_ended(events)),
        Event::SummaryRequested { .. } => now(Input::Condense),
        Event::ContextShortened { .. } | Event::ContextCondensed { .. } | Event::ContextKept { .. } => {
            timeless(compacted(task, first))
        }
        Event::ContextRestored { seq, left_out, .. } => {
            now(Input::RestoreContext { seq: *seq, left_out: left_out.clone() })
        }
        // Facts that no input leads to, and what follows from the state alone.
        Event::Created { .. }
        | Event::Forked { .. }
        | Event::Imported { .. }
        | Event::Delegated { .. }
        | Event::Halted { .. }
        | Event::TurnStarted { .. }
        | Event::RetryScheduled { .. }
        | Event::Corrected { .. }
        | Event::ApprovalRequested { .. }
        | Event::QuestionAsked { .. }
        | Event::ToolStarted { .. }
        | Event::RestoreStarted { .. }
        | Event::RestoreFinished { .. }
        | Event::ContextReduced { .. }
        | Event::ContextLimited { .. }
        | Event::ImagesRefused
        | Event::NewestImagesRefused
        | Event::ShorteningStarted { .. }
        | Event::ModeSwitched { call_id: Some(_), .. }
        | Event::TodoChanged { .. }
        | Event::Interrupted
        | Event::Resumed
        | Event::Stopped { .. }
        | Event::Ended { .. } => vec![],
    }
}

/// Returns the inputs by which a task that was interrupted or has ended may have been woken, given its events from then
/// on.
pub(in crate::engine) fn wakes<'a>(events: impl Iterator<Item = &'a Event>) -> Vec<Input> {
    // Where the server was killed before it had written the message, it is what is shown of it.
    let mut told = Input::Send { text: String::new(), images: vec![], when: SendWhen::Now };
    for event in events {
        match event {
            Event::QueueChanged { items } => {
                told = items.last().map_or(told, sent);
                break;
            }
            Event::QuestionAnswered { text: Some(text), images, .. } => {
                told = Input::Send { text: text.clone(), images: images.clone(), when: SendWhen::Now };
                break;
            }
            Event::Shown { message } | Event::UserSaid { message, .. } => {
                let (text, images) = (message.text.clone(), message.images.clone());
                told = Input::Send { text, images, when: SendWhen::Now };
            }
            Event::TurnFailed { .. }
            | Event::ToolRestarted { .. }
            | Event::ToolFinished { .. }
            | Event::Resumed
            | Event::StopRequested { .. }
            | Event::BudgetReset => {}
            _ => break,
        }
    }
    vec![told, Input::Resume]
}

/// Gives inputs a time that makes no difference.
fn timeless(inputs: impl IntoIterator<Item = Input>) -> Vec<TimedInput> {
    inputs.into_iter().map(|input| (input, NO_TIME)).collect()
}

fn block(block: Block, origin: &str) -> Input {
    Input::ModelBlock { block, origin: origin.to_owned() }
}

fn respond(by: &Decider, option_id: Choice, text: Option<&String>, review: Option<&Arc<Review>>) -> Input {
    Input::Respond { option_id, text: text.cloned(), review: review.cloned(), by: by.clone() }
}

/// The author of an answer whose event was not written.
fn nobody() -> Decider {
    Decider::Client(String::new())
}

fn answers_to_approval(events: &[&Event]) -> Vec<Input> {
    match events.first() {
        Some(Event::ApprovalResolved { by, option_id: Some(option_id), text, review, .. }) => {
            vec![respond(by, *option_id, text.as_ref(), review.as_ref())]
        }
        _ => vec![],
    }
}

/// The answers to a question that may have led to these events. Where the server was killed before it had written the
/// answer itself, it is what is shown of it, or else one of the suggestions.
fn answers_to_question(task: &Task, events: &[&Event]) -> Vec<Input> {
    let mut given = None;
    for event in events {
        match event {
            Event::BudgetReset => {}
            Event::Shown { message } | Event::UserSaid { message, .. } if given.is_none() => {
                given = Some((nobody(), message.text.clone(), message.images.clone()));
            }
            Event::QuestionAnswered { by, text: Some(text), images, .. } => {
                given = Some((by.clone(), text.clone(), images.clone()));
                break;
            }
            _ => break,
        }
    }
    let suggested = || Some((nobody(), task.question()?.suggestions.first()?.text.clone(), vec![]));
    let Some((by, text, images)) = given.or_else(suggested) else { return vec![] };
    vec![
        Input::Answer { text: text.clone(), images: images.clone(), by },
        Input::Send { text, images, when: SendWhen::Now },
    ]
}

/// The answers to a question of the engine that may have stopped the request.
fn stops(task: &Task, events: &[&Event]) -> Vec<Input> {
    let mut found = answers_to_question(task, events);
    // The server was killed before it had written the answer.
    found.push(Input::Answer { text: STOP.to_owned(), images: vec![], by: nobody() });
    found
}

fn sent(item: &QueueItem) -> Input {
    Input::Send { text: item.text.clone(), images: item.images.clone(), when: item.when }
}

/// A message that is new in the queue, changed or removed.
fn changed_queue(task: &Task, items: &[QueueItem]) -> Vec<Input> {
    let is_new = |item: &&QueueItem| task.queue.iter().all(|known| known.id != item.id);
    let is_gone = |item: &&QueueItem| items.iter().all(|left| left.id != item.id);
    let edited = items
        .iter()
        .filter(|item| task.queue.iter().any(|known| known.id == item.id && known.text != item.text));
    let edited = edited.map(|item| Input::EditQueued { id: item.id.clone(), text: item.text.clone() });
    let deleted = task.queue.iter().filter(is_gone).map(|item| Input::DeleteQueued { id: item.id.clone() });
    items.iter().filter(is_new).map(sent).chain(edited).chain(deleted).collect()
}

/// The blocks that may have been recorded as this call. In text, a call may have been taken for a quotation.
fn called(call: &ToolCall) -> Vec<Input> {
    let made = |id: Option<String>, fenced: bool, problem: Option<String>| {
        let mut params = call.params.clone();
        if call.note.is_some()
            && let Some(command) = params.get_mut("command")
            && let Some(line) = command.as_str()
        {
            // It came escaped, and was decoded.
            *command = line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").into();
        }
        block(Block::Call { id, name: call.name.clone(), params, fenced, problem }, "")
    };
    let native = Some(String::new());
    vec![
        made(None, false, None),
        made(None, true, None),
        made(native.clone(), false, None),
        made(native, false, call.problem.clone()),
    ]
}

/// What a request used, by the totals after it and before it.
fn used(task: &Task, total: &Usage) -> Usage {
    let before = &task.totals.usage;
    Usage {
        tokens_in: total.tokens_in.saturating_sub(before.tokens_in),
        tokens_out: total.tokens_out.saturating_sub(before.tokens_out),
        cache_reads: total.cache_reads.saturating_sub(before.cache_reads),
        cache_writes: total.cache_writes.saturating_sub(before.cache_writes),
        cost_usd: addend(before.cost_usd, total.cost_usd),
    }
}

/// The number that has this sum with another one, where there is one: a difference is rounded, so the next numbers are
/// tried too.
fn addend(before: f64, sum: f64) -> f64 {
    let difference = sum - before;
    let (mut above, mut below) = (difference, difference);
    for _ in 0..4 {
        if let Some(exact) = [above, below].into_iter().find(|added| before + added == sum) {
            return exact;
        }
        (above, below) = (above.next_up(), below.next_down());
    }
    difference
}

fn model_ended(task: &Task, event: Option<&Event>) -> Option<Input> {
    let Some(Event::TurnEnded { finish, total, context, tail, beginning }) = event else { return None };
    let frame = context.as_deref().map(|request: &MeasuredRequest| request.frame);
    let (tail, beginning) = (tail.clone(), beginning.clone());
    Some(Input::ModelEnded { finish: *finish, used: used(task, total), frame, tail, beginning })
}

fn model_failed(task: &Task, failed: &Event, next: Option<&Event>) -> Vec<TimedInput> {
    let Event::TurnFailed { error, total, context, .. } = failed else { return vec![] };
    let frame = context.as_deref().map(|request| request.frame);
    let with = |remedy, at| {
        (Input::ModelFailed { message: error.clone(), remedy, used: used(task, total), frame }, at)
    };
    let mut found = vec![];
    if let Some(Event::RetryScheduled { due, .. }) = next {
        // The wait is partly random, so it is what the log says. Any attempt may follow a patient one.
        found.push(with(Remedy::Retry { after: Some(*due), jitter: 0.0, is_patient: true }, NO_TIME));
        found.push(with(Remedy::RetryAnew, *due));
    }
    let ended = Input::ModelEnded {
        finish: Finish::Refused,
        used: used(task, total),
        frame,
        tail: None,
        beginning: None,
    };
    let others = [
        Remedy::Shorten { refused: false },
        Remedy::Shorten { refused: true },
        Remedy::WithoutImages,
        Remedy::WithoutNewestImages,
        Remedy::Ask,
    ];
    found.extend(others.map(|remedy| with(remedy, NO_TIME)));
    found.push((ended, NO_TIME));
    found
}

/// What hooks said at the gate or behind the tool.
fn hook_messages(task: &Task, events: &[&Event]) -> HookMessages {
    let Some(current) = task.in_progress() else { return HookMessages::default() };
    let before = &current.hooks;
    let at_gate = matches!(current.authorization(), Some(Authorization::Gate(_)));
    // Where nothing is recorded, nothing is new.
    let mut messages = HookMessages {
        params: before.params.clone(),
        addition: before.addition.clone().filter(|_| at_gate),
        ..HookMessages::default()
    };
    for event in events {
        match event {
            Event::Shown { message } => {
                let id = message.id.as_str();
                let added = |what: &str| id == format!("{}.{what}", current.call.id);
                if !added("rewritten") && !added("stopped") {
                    messages.warnings = vec![message.text.clone()];
                }
            }
            Event::HookMessagesReceived { params, addition, goes_on, batch, .. } => {
                let known = before.addition.as_ref().filter(|_| !at_gate);
                messages.addition = match (addition, known) {
                    (Some(all), Some(known)) => all
                        .strip_prefix(known.as_str())
                        .and_then(|new| new.strip_prefix('\n'))
                        .map(str::to_owned),
                    (all, _) => all.clone(),
                };
                messages.params.clone_from(params);
                (messages.goes_on, messages.batch) = (*goes_on, *batch);
            }
            Event::Halted { reason } => {
                messages.stop = Some(reason.clone());
                break;
            }
            _ => break,
        }
    }
    messages
}

/// What was looked up, and what hooks said of the user's messages.
fn gathered(events: &[&Event]) -> Gathered {
    let mut found = Gathered::default();
    let mut rest = events.iter();
    for event in rest.by_ref() {
        match event {
            Event::Shown { message } => found.warnings = vec![message.text.clone()],
            Event::PromptRefused { message_id, message, .. } => {
                let told = "A hook blocked your message; it was not sent to the model.";
                let reason = message.text.strip_prefix(told).unwrap_or_default().trim_start();
                found.refused.push((message_id.clone(), reason.to_owned()));
            }
            Event::ModeSwitched { change, call_id: None } => found.mode = Some(change.clone()),
            Event::Gathered { commands, text, images, seen } => {
                found.commands.clone_from(commands);
                found.text.clone_from(text);
                found.images.clone_from(images);
                found.seen.clone_from(seen);
                break;
            }
            _ => return found,
        }
    }
    if let Some(Event::Halted { reason }) = rest.next() {
        found.stop = Some(reason.clone());
    }
    found
}

/// The gate's decisions that may have led to these events.
fn gated(task: &Task, events: &[&Event]) -> Vec<Input> {
    let Some(place) = events.iter().take(2).position(|event| matches!(event, Event::GateDecided { .. }))
    else {
        return refused_unsaved();
    };
    let Some((Event::GateDecided { verdict, reason, detail, .. }, rest)) = events[place..].split_first()
    else {
        return vec![];
    };
    let reason = reason.clone();
    let decision = match verdict {
        RecordedVerdict::Deny(RecordedRule::Known(rule)) => {
            let (mistake, saves) = match rest.first() {
                Some(Event::ToolFinished { mistake, saves, .. }) => (*mistake, *saves == Some(false)),
                _ => (false, false),
            };
            PolicyDecision::Deny { rule: *rule, reason, mistake, saves, detail: detail.clone() }
        }
        RecordedVerdict::Allow(RecordedRule::Known(rule)) => {
            let plans = plans_of(task, rest.first().copied());
            let allowed = |plan| PolicyDecision::Allow { rule: rule.clone(), reason: reason.clone(), plan };
            return plans.into_iter().map(|plan| Input::Gated(allowed(plan))).collect();
        }
        RecordedVerdict::Ask(RecordedRule::Known(rule)) => {
            let asked = match rest.first() {
                Some(Event::ApprovalRequested { approval }) => Some(approval),
                // A held answer counts where the action is still the one that was asked about; its approval is void
                // where it isn't.
                _ => task.approval().filter(|_| place == 0),
            };
            ask(*rule, reason, asked)
        }
        // A rule of another version.
        RecordedVerdict::Deny(_) | RecordedVerdict::Allow(_) | RecordedVerdict::Ask(_) => return vec![],
    };
    vec![Input::Gated(decision)]
}

/// The decision that the user is asked, with what is known of the action.
fn ask(rule: AskRule, reason: String, asked: Option<&PendingApproval>) -> PolicyDecision {
    PolicyDecision::Ask {
        rule,
        reason,
        digest: asked.map_or_else(|| Digest::of(""), |asked| asked.digest),
        title: asked.map(|asked| asked.title.clone()).unwrap_or_default(),
        subject: asked.map(|asked| asked.subject.clone()).unwrap_or_default(),
        rule_subject: asked.and_then(|asked| asked.rule.clone()),
        alternative: asked.and_then(|asked| asked.alternative.as_deref().cloned()),
    }
}

/// The plans that an allowed call may have had, by the event that its run begins with.
fn plans_of(task: &Task, event: Option<&Event>) -> Vec<Plan> {
    let plan = match event {
        Some(Event::Delegated { plan, .. }) => Plan::Branch(Box::new((**plan).clone())),
        Some(Event::ModeSwitched { change, .. }) => Plan::Mode(change.clone()),
        Some(Event::ToolStarted { write: Some(PlannedEdit::File(write)), .. }) => Plan::Write(write.clone()),
        Some(Event::ToolStarted { write: Some(PlannedEdit::Patch(patch)), .. }) => {
            Plan::WriteAll(patch.clone())
        }
        // Of the steps of the conversation, only a conflict runs.
        Some(Event::ToolStarted { write: None, name, .. })
            if *name == ToolName::AttemptCompletion.as_str() =>
        {
            Plan::Conflict
        }
        // The plan of a branch is recorded where the branch is opened. One that is not, as it has failed too often, is one of
        // those that have failed.
        Some(Event::ToolFinished { result, .. }) if result.name == ToolName::NewTask.as_str() => {
            let failed = task.guard.failed_subtasks().map(|(mode, title)| failed_branch(mode, title));
            return failed.chain([Plan::Nothing]).collect();
        }
        _ => Plan::Nothing,
    };
    vec![plan]
}

/// The plan of a branch of which no more is known than its mode and title.
fn failed_branch(mode: &str, title: &str) -> Plan {
    let (before, next_step) = (String::new(), String::new());
    Plan::Branch(Box::new(PlannedBranch {
        mode: mode.to_owned(),
        emoji: String::new(),
        profile: String::new(),
        protocol: ToolProtocol::Native,
        delegation: Delegation { title: title.to_owned(), before, context_files: vec![], next_step },
        task_directory: None,
        todos: vec![],
        worktree: false,
    }))
}

/// A question to the user that the machine answers itself, as context is to be saved first.
fn refused_unsaved() -> Vec<Input> {
    vec![Input::Gated(ask(AskRule::Policy, String::new(), None))]
}

/// The outcome of the current call's tool.
fn ran(task: &Task, events: &[&Event]) -> Vec<Input> {
    if !task.in_progress().is_some_and(|current| matches!(current.stage, Stage::Run { .. })) {
        return vec![];
    }
    let mut outcome = Outcome::new(ToolStatus::Interrupted, "", "");
    for event in events {
        match event {
            Event::EditApplied { uri, before, after } => {
                outcome.edits.push(AppliedEdit { uri: uri.clone(), before: *before, after: *after });
            }
            Event::IntentSelected { intent, name } => outcome.intent = Some((intent.clone(), name.clone())),
            Event::CommandBackgrounded { command } => {
                outcome.background = Some((command.id.clone(), command.line.clone()));
            }
            Event::ChangesUnknown { fault } => outcome.fault = Some(fault.clone()),
            Event::CheckpointSaved { files, .. } => outcome.saved.clone_from(files),
            Event::MergeConflicted { files } => {
                let found = files.iter().map(|file| (file.path.clone(), file.text.clone()));
                outcome.conflicts = found.collect();
            }
            Event::ToolRestarted { .. } => {
                outcome.is_stale = true;
                break;
            }
            // The result of a branch whose changes were merged; where the server was killed then, it is all that is known.
            Event::Shown { .. } => outcome.status = ToolStatus::Ok,
            Event::ToolFinished { summary, result, seen, withheld, recorded, exit_code, .. } => {
                outcome.status = result.status;
                outcome.images.clone_from(&result.images);
                outcome.seen.clone_from(seen);
                outcome.withheld = withheld.clone().unwrap_or_default();
                outcome.recorded.clone_from(recorded);
                outcome.exit_code = *exit_code;
                let marked = texts_of(&decide::tool_done(task, Outcome::new(result.status, MARK, MARK)));
                outcome.text = within(&result.text, &marked.0);
                outcome.summary = within(summary, &marked.1);
                break;
            }
            _ => break,
        }
    }
    vec![Input::ToolDone(outcome)]
}

/// The text and the summary of the result among these events.
fn texts_of(events: &[Event]) -> (String, String) {
    let found = events.iter().find_map(|event| match event {
        Event::ToolFinished { summary, result, .. } => Some((result.text.clone(), summary.clone())),
        _ => None,
    });
    found.unwrap_or_default()
}

/// The part of a text that stands where another one has the mark; all of it where the rest differs.
fn within(text: &str, marked: &str) -> String {
    let inner =
        marked.split_once(MARK).and_then(|(before, after)| text.strip_prefix(before)?.strip_suffix(after));
    inner.unwrap_or(text).to_owned()
}

/// What was found of an interrupted write.
fn settled(task: &Task, events: &[&Event]) -> Vec<Input> {
    let Some(CurrentCall { stage: Stage::SettleWrite { write, .. }, .. }) = task.in_progress() else {
        return vec![];
    };
    let (mut saved, mut is_merged) = (vec![], false);
    for event in events {
        match event {
            Event::CheckpointSaved { files, .. } => saved.clone_from(files),
            // Of a branch whose changes were merged.
            Event::Shown { .. } => is_merged = true,
            Event::ToolRestarted { .. } => {
                let found = write.places().iter().map(|(_, before, _)| *before).collect();
                return vec![Input::WriteSettled(found, saved)];
            }
            Event::ToolFinished { result, .. } => {
                let done = result.status == ToolStatus::Ok;
                let found = write.places().into_iter().map(|(path, before, after)| {
                    let is_told = |what: String| done || names(&result.text, &what, path);
                    if is_told(replies::patch_unknown(&[""], &[], &[])) {
                        after
                    } else if is_told(replies::patch_unknown(&[], &[""], &[])) {
                        before
                    } else {
                        // Some other text.
                        Some(Digest::of(MARK))
                    }
                });
                return vec![Input::WriteSettled(found.collect(), saved)];
            }
            _ => break,
        }
    }
    if is_merged {
        let found = write.places().iter().map(|(_, _, after)| *after).collect();
        return vec![Input::WriteSettled(found, saved)];
    }
    vec![]
}

/// Returns whether a text has the second line of another one, with this file in the list that is empty there.
fn names(text: &str, other: &str, path: &str) -> bool {
    let says = other.lines().nth(1).and_then(|line| line.strip_prefix("- ")).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.strip_prefix("- ")?.strip_suffix(says));
    lines.flat_map(|files| files.split(", ")).any(|file| file == path)
}

/// The end of a command in the background.
fn command_ended(events: &[&Event]) -> Vec<Input> {
    let mut outcome = Outcome::new(ToolStatus::Interrupted, "", "");
    let mut ended = None;
    for event in events {
        match event {
            Event::CheckpointSaved { files, .. } if ended.is_none() => outcome.saved.clone_from(files),
            Event::CommandEnded { command_id, status, summary, text, exit_code, .. } if ended.is_none() => {
                ended = Some(command_id.clone());
                outcome.status = *status;
                outcome.summary.clone_from(summary);
                outcome.text.clone_from(text);
                outcome.exit_code = *exit_code;
            }
            Event::ChangesUnknown { fault } if ended.is_some() => {
                outcome.fault = Some(fault.clone());
                break;
            }
            _ => break,
        }
    }
    ended.map(|id| Input::CommandEnded { id, outcome }).into_iter().collect()
}

/// The result of a shortening.
fn compacted(task: &Task, event: &Event) -> Vec<Input> {
    let with = |outcome, used| Input::Compacted { outcome, used };
    match event {
        Event::ContextCondensed { message, by_model, total, cost_usd, .. } => {
            let outcome = match message {
                Item::Summary { summary, .. } if *by_model => CompactionOutcome::Summary(summary.clone()),
                _ => CompactionOutcome::Agreed,
            };
            vec![with(outcome, Usage { cost_usd: *cost_usd, ..used(task, total) })]
        }
        Event::ContextKept { reason, total } => {
            let outcomes = [
                CompactionOutcome::Agreed,
                CompactionOutcome::Refused(reason.clone()),
                CompactionOutcome::Failed(reason.clone()),
            ];
            outcomes.into_iter().map(|outcome| with(outcome, used(task, total))).collect()
        }
        _ => vec![with(CompactionOutcome::Agreed, Usage::default())],
    }
}
