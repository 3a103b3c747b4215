//! Events that follow from the state alone, and the effect that it calls for.

use super::batch::{Approval, Authorization, CurrentCall, Stage, ToolBatch};
use super::compaction;
use super::engine_question::ask_engine_question;
use super::guard::with_circles;
use super::results::{
    answered, finished, refused, switch_judged, turn_failed, void_approval, void_question, with_review,
};
use super::worktree::waits_for_commands;
use super::{Effect, OpenTask, Phase, RequestBudget, SAVE_ATTEMPTS, Spending, Task, may_mention};
use crate::engine::event::{EndState, Ending, Event};
use roo_catalog::{Effect as ToolEffect, ToolCall, ToolId, ToolName};
use roo_model::prompts::replies;
use roo_model::providers::Finish;
use roo_protocol::event::{QuestionKind, ToolStatus};
use roo_protocol::ids::MessageId;
use roo_protocol::message::{Message, MessageKind, Say};
use roo_protocol::task::{QueueItem, SendWhen, Usage};
use roo_text::render;

/// The longest name of what was refused, in characters.
const MAX_ACTION_CHARS: usize = 80;

/// Returns the events that follow from the state alone and from the spent budget: results, delivery of waiting
/// messages, limits, the next request, corrections, the end. Called until nothing follows.
pub fn settle(task: &Task, budget: &dyn Fn() -> RequestBudget) -> Vec<Event> {
    with_circles(task, what_follows(task, budget))
}

fn what_follows(task: &Task, budget: &dyn Fn() -> RequestBudget) -> Vec<Event> {
    let Some(OpenTask { phase, interrupted, ending, .. }) = task.as_open() else { return vec![] };
    if let Some(ending) = ending {
        return conclude(task, ending);
    }
    if *interrupted {
        return vec![];
    }
    match phase {
        Phase::RequestDue { .. } => before_request(task, budget),
        Phase::Unanswerable(finish) => {
            let text = match finish {
                Finish::Length => replies::answer_cut(),
                _ => replies::no_tool_used(task.settings.protocol),
            };
            vec![Event::Corrected { text, mistake: true }]
        }
        Phase::Tools(batch) => match batch.current() {
            Some(call) => settle_call(task, batch, call),
            None => vec![],
        },
        Phase::Compacting(_) | Phase::Requesting { .. } | Phase::Backoff { .. } | Phase::Question(_) => {
            vec![]
        }
    }
}

/// Gives every open call its result and voids what waits, then ends the task.
pub(super) fn conclude(task: &Task, ending: &Ending) -> Vec<Event> {
    let ran = match task.in_progress().map(|call| &call.stage) {
        // It comes to its own end first, without what a server asks meanwhile.
        Some(Stage::Run { .. }) if !task.is_interrupted() => {
            return task.void_server_question().into_iter().collect();
        }
        Some(Stage::Run { .. } | Stage::SettleWrite { .. }) => true,
        _ => false,
    };
    if let Some(result) = task.in_progress().and_then(|call| result_by_user(task, call)) {
        return vec![result];
    }
    let mut events: Vec<Event> = void_approval(task).into_iter().collect();
    events.extend(void_question(task));
    if let Some(Phase::Requesting { .. }) = task.phase() {
        events.push(turn_failed(task, "Cancelled by the user.", Usage::default()));
    }
    for (index, call) in task.batch().into_iter().flat_map(ToolBatch::open_calls).enumerate() {
        events.push(if ran && index == 0 {
            finished(call, ToolStatus::Interrupted, replies::interrupted(call.effect()), false)
        } else if task.is_stopping() {
            finished(call, ToolStatus::Skipped, replies::stopped(), false)
        } else if task.is_cancelling() {
            finished(call, ToolStatus::Skipped, replies::cancelled(), false)
        } else {
            finished(call, ToolStatus::Skipped, replies::skipped(), false)
        });
    }
    // Subtasks come to their own end or stop first, and commands in the background come to their end.
    let has_branches =
        if task.is_stopping() { task.has_working_branches() } else { task.has_open_branches() };
    let has_commands = task.ends_commands() && !task.commands.running().is_empty();
    // So does a work tree: what is in it may not be merged.
    let is_last = events.is_empty() && !has_branches && !has_commands;
    if is_last && task.is_stopping() && task.parent.is_some() && !task.closes_worktree() {
        events.push(Event::Stopped {
            state: ending.state,
            reason: ending.reason.clone(),
            usage: task.totals.usage,
            tool_usage: task.totals.tools.clone(),
        });
    } else if is_last && !task.closes_worktree() {
        let Ending { mut state, result, mut reason } = ending.clone();
        if let Some(text) = unknown_changes(task).filter(|_| state == EndState::Completed) {
            // Nobody is left to wait for.
            (state, reason) = (EndState::Failed, Some(text));
        }
        events.push(Event::Ended {
            state,
            result,
            reason,
            usage: task.totals.usage,
            tool_usage: task.totals.tools.clone(),
        });
        events.extend(answer_late_messages(task));
    }
    events
}

/// Lets a request go on after its end where its user has said something since that was decided on: nobody else would
/// answer.
fn answer_late_messages(task: &Task) -> Vec<Event> {
    let is_late = |item: &QueueItem| task.is_said_since_end(item);
    if task.is_interrupted() || task.parent.is_some() || !task.queue.iter().any(is_late) {
        return vec![];
    }
    let at_once = |item: &QueueItem| match is_late(item) {
        true => QueueItem { when: SendWhen::Now, ..item.clone() },
        false => item.clone(),
    };
    vec![Event::QueueChanged { items: task.queue.iter().map(at_once).collect() }, Event::Resumed]
}

/// Events that the stage of the current call leads to.
fn settle_call(task: &Task, batch: &ToolBatch, call: &CurrentCall) -> Vec<Event> {
    match &call.stage {
        Stage::Authorization(Authorization::Gate(Approval::NotAsked | Approval::Asked(_))) => {
            before_gate(task, batch, &call.call)
        }
        _ => result_by_user(task, call).into_iter().collect(),
    }
}

/// The result of a call that the user refused or answered.
fn result_by_user(task: &Task, CurrentCall { call, stage, .. }: &CurrentCall) -> Option<Event> {
    match stage {
        Stage::SwitchAuthorization(switch, Authorization::Refused { feedback, is_unattended, .. }) => {
            let note = replies::mode_kept(&task.settings.mode, &refusal(feedback.as_deref(), *is_unattended));
            Some(switch_judged(call, switch, &note))
        }
        Stage::Authorization(Authorization::Refused { feedback, review, is_unattended }) => {
            let review = review.as_ref().map(|review| &*review.hunks);
            let mut text = refusal(feedback.as_deref(), *is_unattended);
            if task.merges() {
                text.push('\n');
                text.push_str(&replies::merge_refused());
            }
            let text = with_review(text, ToolStatus::Denied, review);
            Some(refused(call, text, feedback.as_deref()))
        }
        Stage::Answered { text, images } => Some(answered(call, text, images, "")),
        _ => None,
    }
}

fn refusal(feedback: Option<&str>, is_unattended: bool) -> String {
    if is_unattended { replies::denied_unattended() } else { replies::denied(feedback) }
}

/// Results of calls that need no decision. An approval that waited for one when the server ended is void.
fn before_gate(task: &Task, batch: &ToolBatch, call: &ToolCall) -> Vec<Event> {
    if gave_up_saving(task) {
        return halt(task);
    }
    let result = result_without_gate(task, batch, call);
    let void = result.as_ref().and_then(|_| void_approval(task));
    void.into_iter().chain(result).collect()
}

fn result_without_gate(task: &Task, batch: &ToolBatch, call: &ToolCall) -> Option<Event> {
    let repetitions = task.guard.repetitions(call);
    let limit = task.limits.mistakes;
    let delegates = call.is_of(ToolName::NewTask);
    let (status, text, mistake) = if !task.unknown_changes.is_empty() {
        (ToolStatus::Skipped, replies::changes_unknown(), false)
    } else if batch.skips() {
        (ToolStatus::Skipped, replies::skipped(), false)
    } else if batch.has_delegated() && !delegates {
        (ToolStatus::Skipped, replies::after_delegation(), false)
    } else if waits_for_commands(task, call) {
        (ToolStatus::Failed, replies::commands_in_worktree(), true)
    } else if limit > 0 && repetitions >= limit {
        (ToolStatus::Failed, replies::repeated(&call.name, repetitions), true)
    } else {
        (ToolStatus::Failed, too_early(task, call)?, true)
    };
    Some(finished(call, status, text, mistake))
}

/// Returns whether a task could not save what others need.
fn gave_up_saving(task: &Task) -> bool {
    task.unsaved.as_ref().is_some_and(|unsaved| unsaved.attempts >= SAVE_ATTEMPTS)
}

/// Returns the reason why a call has to wait for context that is not read or not saved.
pub(super) fn too_early(task: &Task, call: &ToolCall) -> Option<String> {
    let tool = call.tool()?;
    let is = |name: ToolName| tool == ToolId::BuiltIn(name);
    let changes = matches!(tool.effect(), ToolEffect::Write | ToolEffect::Execute | ToolEffect::External);
    let goes_on = changes || is(ToolName::NewTask);
    if goes_on && !task.files.unread.is_empty() {
        return Some(replies::unread_context(&task.files.unread.iter().cloned().collect::<Vec<_>>()));
    }
    // Whether a write saves it after all is for the gate to say.
    let must_save =
        task.unsaved.is_some() && !is(ToolName::WriteToFile) && (goes_on || is(ToolName::AttemptCompletion));
    must_save.then(replies::save_first)
}

/// Ends a task that could not save what others need.
pub(super) fn halt(task: &Task) -> Vec<Event> {
    let why = task.unsaved.as_ref().map(|unsaved| unsaved.reason.as_str()).unwrap_or_default();
    let reason = replies::context_not_saved(0, why);
    let message = task.message(MessageKind::Say(Say::Error), reason.clone(), vec![]);
    vec![Event::Shown { message }, Event::Halted { reason }]
}

/// The one effect that the state calls for.
pub fn wanted(task: &Task) -> Option<Effect> {
    let OpenTask { phase, interrupted: false, ending, .. } = task.as_open()? else { return None };
    if task.closes_worktree() {
        return Some(Effect::CloseWorktree);
    }
    match phase {
        Phase::Requesting { restarts, .. } => {
            Some(Effect::CallModel { request: task.totals.requests, restarts: *restarts })
        }
        Phase::Compacting(compaction) if ending.is_none() => Some(Effect::Compact(*compaction)),
        Phase::RequestDue { .. } if ending.is_none() && task.needs_worktree() => Some(Effect::MakeWorktree),
        Phase::RequestDue { .. } if ending.is_none() && !task.gather.is_empty() => {
            Some(Effect::Gather(task.gather.clone()))
        }
        Phase::Backoff { due, .. } => Some(Effect::Wait { due: *due }),
        Phase::Tools(batch) => effect_of_call(task, batch.current()?),
        Phase::RequestDue { .. } | Phase::Compacting(_) | Phase::Unanswerable(_) | Phase::Question(_) => None,
    }
}

fn effect_of_call(task: &Task, current: &CurrentCall) -> Option<Effect> {
    let call_id = current.call.id.clone();
    match &current.stage {
        Stage::Authorization(Authorization::Gate(approval))
        | Stage::SwitchAuthorization(_, Authorization::Gate(approval)) => {
            let review = approval.review().cloned();
            Some(Effect::Gate {
                call_id,
                mode: task.settings.mode.clone(),
                approved: approval.digest(),
                review,
            })
        }
        Stage::Run { .. } => {
            Some(Effect::RunTool { call_id, mutating: current.call.effect() != ToolEffect::Read })
        }
        Stage::SettleWrite { write, .. } => Some(Effect::SettleWrite { call_id, write: write.clone() }),
        Stage::Authorization(_)
        | Stage::SwitchAuthorization(..)
        | Stage::Question(_)
        | Stage::Answered { .. } => None,
    }
}

/// Returns the question to the user where changes of commands are not known.
fn unknown_changes(task: &Task) -> Option<String> {
    let faults: Vec<String> = task.unknown_changes.iter().map(ToString::to_string).collect();
    (!faults.is_empty()).then(|| {
        format!(
            "{} Check the working tree, for example with `git status`, and undo what should not be there. Then let the task continue, or stop it.",
            faults.join(" ")
        )
    })
}

pub(super) fn before_request(task: &Task, budget: &dyn Fn() -> RequestBudget) -> Vec<Event> {
    if let Some(text) = unknown_changes(task) {
        return ask_engine_question(task, QuestionKind::ChangesUnknown, text, "Go on");
    }
    if gave_up_saving(task) {
        return halt(task);
    }
    if task.needs_worktree() {
        return vec![];
    }
    if task.queue.iter().any(|item| item.when == SendWhen::Now) {
        return deliver(task);
    }
    let mistakes = task.guard.mistakes();
    let limits = &task.limits;
    if limits.mistakes > 0 && mistakes >= limits.mistakes {
        let text = format!(
            "The model made {mistakes} mistakes in a row. Tell it how to continue, or stop the task."
        );
        return ask_engine_question(task, QuestionKind::MistakeLimitReached, text, "Try another way");
    }
    if let Some(text) = task.too_many_conflicts() {
        return ask_engine_question(task, QuestionKind::MistakeLimitReached, text, "Try another way");
    }
    if let Some((action, count)) = task.guard.refused_too_often() {
        let action = render::one_line(action, MAX_ACTION_CHARS);
        let text = format!(
            "You have refused {action} {count} times. Tell the model how to continue, or stop the task."
        );
        return ask_engine_question(task, QuestionKind::MistakeLimitReached, text, "Try another way");
    }
    let RequestBudget { spent: Spending { requests: spent, cost_usd: cost }, asked } = budget();
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
    let shortening = compaction::due(task);
    if !shortening.is_empty() {
        return shortening;
    }
    vec![Event::TurnStarted { request: task.totals.requests.saturating_add(1) }]
}

/// Puts messages that are to be delivered now into the conversation.
pub(super) fn deliver(task: &Task) -> Vec<Event> {
    let (now, rest): (Vec<QueueItem>, Vec<QueueItem>) =
        task.queue.iter().cloned().partition(|item| item.when == SendWhen::Now);
    let mut opening = task.title.rest();
    let said = now.into_iter().map(|item| Event::UserSaid {
        text: roo_model::prompts::user_message(&item.text) + opening.take().unwrap_or_default(),
        mentions: may_mention(&item.text),
        hooks: false,
        message: Message {
            id: MessageId::new(item.id),
            kind: MessageKind::Say(Say::UserFeedback),
            text: item.text,
            images: item.images,
        },
    });
    said.chain([Event::QueueChanged { items: rest }]).collect()
}
