//! Counts that show that a task gets nowhere: mistakes, repeated calls, refusals, failed subtasks. Its limits are
//! measured by them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Task, identity};
use crate::engine::event::{Circle, Event, is_failure};
use crate::policy::PlannedBranch;
use roo_catalog::{Effect as ToolEffect, Repetition, ToolCall, ToolId, ToolName};
use roo_model::providers::ToolResult;
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::Digest;

/// Number of equal refusals after which the task asks what to do.
const REFUSALS: u32 = 3;
/// Number of looks whose results are remembered.
const LOOKS: usize = 20;
/// Number of times that a look may bring the same before its model is told; each further time is a mistake.
pub(super) const SAME_LOOKS: u32 = 3;
/// Number of answers in a row with nothing but failed looks before the model is told; each further one is a mistake.
pub(super) const VAIN_ANSWERS: u32 = 5;

/// Counts since the user last said something.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoopGuard {
    /// Mistakes in a row.
    mistakes: u32,
    /// The newest call that was answered.
    newest: Option<RepeatedCall>,
    /// Refusals of each action: by what it does to which thing, whatever its other words.
    refusals: BTreeMap<String, u32>,
    /// Number of delegations.
    delegations: u32,
    /// Number of failed subtasks, by mode and title.
    failed_subtasks: BTreeMap<(String, String), u32>,
    /// Number of times that hooks kept the task from ending.
    continuations: u32,
    /// Hooks keep the task from ending with the current call.
    is_sent_on: bool,
    /// The newest looks since anything may have changed.
    looks: VecDeque<Look>,
    /// Number of answers in a row with nothing but failed looks.
    vain_answers: u32,
}

/// A look at files or the like, and what it brought.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Look {
    identity: Digest,
    result: Digest,
    /// Number of times that it brought this.
    count: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct RepeatedCall {
    identity: Digest,
    /// Total length of its texts: calls of other lengths are others, without a look at their texts.
    length: usize,
    /// Number of times that it was made in a row.
    count: u32,
}

impl LoopGuard {
    /// Begins again where a task goes on after its end.
    pub(super) fn reopen(&mut self) {
        self.mistakes = 0;
        self.delegations = 0;
        self.failed_subtasks.clear();
        self.vain_answers = 0;
    }

    /// Mistakes in a row.
    pub(super) fn mistakes(&self) -> u32 {
        self.mistakes
    }

    pub(super) fn count_mistake(&mut self) {
        self.mistakes += 1;
    }

    /// Returns the signs of a circle that the result of a call brings. `answer` are all results of its answer, if it is the
    /// last of them.
    fn circle(&self, call: &ToolCall, result: &ToolResult, answer: Option<&[&ToolResult]>) -> Option<Circle> {
        let mut circle = Circle::default();
        if self.may_be_circle(call, result.status) {
            let times = self.times_looked(identity(call), Digest::of(&result.text)) + 1;
            circle.same_looks = if times < SAME_LOOKS { 0 } else { times };
        }
        if answer.is_some_and(is_in_vain) {
            let times = self.vain_answers + 1;
            circle.vain_answers = if times < VAIN_ANSWERS { 0 } else { times };
        }
        (circle != Circle::default()).then_some(circle)
    }

    /// Returns whether a call is a look that shows a circle where it brings the same again. One that is repeated at once is
    /// counted otherwise.
    fn may_be_circle(&self, call: &ToolCall, status: ToolStatus) -> bool {
        status != ToolStatus::Skipped
            && call.effect() == ToolEffect::Read
            && call.repetition() == Repetition::Same
            && self.newest.is_none_or(|newest| newest.identity != identity(call))
    }

    /// Counts the result of a call. One that was refused as a mistake was not made, and that hooks send a task on is no
    /// mistake of its model.
    pub(super) fn count_result(
        &mut self,
        call: &ToolCall,
        result: &ToolResult,
        mistake: bool,
        Circle { same_looks, .. }: Circle,
    ) {
        let status = result.status;
        let may_be_circle = self.may_be_circle(call, status);
        let is_sent_on = std::mem::take(&mut self.is_sent_on);
        if status != ToolStatus::Skipped {
            let (identity, length) = (identity(call), length(call));
            let before = self.newest.filter(|newest| newest.identity == identity);
            let count = before.map_or(0, |newest| newest.count) + u32::from(!mistake && !is_sent_on);
            self.newest = Some(RepeatedCall { identity, length, count });
            match call.effect() {
                ToolEffect::Read if may_be_circle => {
                    self.count_look(identity, Digest::of(&result.text), same_looks);
                }
                ToolEffect::Read | ToolEffect::Intent => {}
                ToolEffect::Control if !call.is_of(ToolName::NewTask) => {}
                ToolEffect::Write | ToolEffect::Execute | ToolEffect::External | ToolEffect::Control => {
                    self.forget_looks();
                }
            }
        }
        if mistake || same_looks > SAME_LOOKS {
            self.mistakes += 1;
        } else if !is_failure(status) && same_looks < SAME_LOOKS {
            self.mistakes = 0;
        }
    }

    fn times_looked(&self, identity: Digest, result: Digest) -> u32 {
        let look = self.looks.iter().find(|look| look.identity == identity && look.result == result);
        look.map_or(0, |look| look.count)
    }

    /// `told` is the count that is recorded of it. Where none is, the model was not told, so that the next time is the one to
    /// tell it.
    fn count_look(&mut self, identity: Digest, result: Digest, told: u32) {
        let count = self.times_looked(identity, result) + 1;
        let count = if told == 0 { count.min(SAME_LOOKS - 1) } else { told };
        self.looks.retain(|look| look.identity != identity || look.result != result);
        self.looks.push_back(Look { identity, result, count });
        if self.looks.len() > LOOKS {
            self.looks.pop_front();
        }
    }

    /// Forgets what looks have brought: something may have changed, or their results are not in the conversation any more.
    pub(super) fn forget_looks(&mut self) {
        self.looks.clear();
    }

    /// Counts the results of an answer.
    pub(super) fn count_answer(&mut self, results: &[ToolResult], Circle { vain_answers, .. }: Circle) {
        if results.iter().any(|result| result.status == ToolStatus::Ok) {
            self.vain_answers = 0;
        }
        if is_in_vain(&results.iter().collect::<Vec<_>>()) {
            let count = self.vain_answers + 1;
            // As of looks that bring the same.
            self.vain_answers = if vain_answers == 0 { count.min(VAIN_ANSWERS - 1) } else { vain_answers };
        }
        if vain_answers > VAIN_ANSWERS {
            self.mistakes += 1;
        }
    }

    /// Counts how often in a row this call was made before, if it brings the same each time.
    pub(super) fn repetitions(&self, call: &ToolCall) -> u32 {
        if call.repetition() != Repetition::Same {
            return 0;
        }
        let is_same =
            |newest: &RepeatedCall| newest.length == length(call) && newest.identity == identity(call);
        self.newest.filter(is_same).map_or(0, |newest| newest.count)
    }

    /// Forgets refusals of an action that the user allows.
    pub(super) fn allow(&mut self, call: &ToolCall) {
        self.refusals.remove(&describe_call(call));
    }

    pub(super) fn refuse(&mut self, call: &ToolCall) {
        *self.refusals.entry(describe_call(call)).or_default() += 1;
    }

    /// An action that the user refuses again and again, and how often.
    pub(super) fn refused_too_often(&self) -> Option<(&str, u32)> {
        let refused = self.refusals.iter().find(|(_, count)| **count >= REFUSALS);
        refused.map(|(action, count)| (action.as_str(), *count))
    }

    /// Number of delegations since the user last said something.
    pub fn delegations(&self) -> u32 {
        self.delegations
    }

    pub(super) fn count_delegation(&mut self) {
        self.delegations += 1;
    }

    /// Number of times that a subtask of this mode and title has failed.
    pub(super) fn failures_of(&self, plan: &PlannedBranch) -> u32 {
        let key = (plan.mode.clone(), plan.delegation.title.clone());
        self.failed_subtasks.get(&key).copied().unwrap_or(0)
    }

    /// The subtasks that have failed, by mode and title.
    pub(super) fn failed_subtasks(&self) -> impl Iterator<Item = (&str, &str)> {
        self.failed_subtasks.keys().map(|(mode, title)| (mode.as_str(), title.as_str()))
    }

    pub(super) fn count_failure(&mut self, plan: &PlannedBranch) {
        let key = (plan.mode.clone(), plan.delegation.title.clone());
        *self.failed_subtasks.entry(key).or_default() += 1;
    }

    /// Number of times that hooks kept the task from ending since the user last said something.
    pub(crate) fn continuations(&self) -> u32 {
        self.continuations
    }

    pub(super) fn count_continuation(&mut self) {
        self.continuations += 1;
        self.is_sent_on = true;
    }
}

/// Records in the results of calls the signs of a circle that they bring. So a log folds to what its models were told, by
/// whatever version that was.
pub(super) fn with_circles(task: &Task, mut events: Vec<Event>) -> Vec<Event> {
    for event in &mut events {
        if let Event::ToolFinished { result, circle, .. } = event
            && let Some(batch) = task.batch()
            && let Some(call) = batch.unfinished(&result.call_id)
        {
            let answer = batch.results_with(result);
            *circle = task.guard.circle(call, result, answer.as_deref());
        }
    }
    events
}

/// Returns whether the results of an answer are all of looks that failed.
fn is_in_vain(results: &[&ToolResult]) -> bool {
    let is_look = |result: &ToolResult| {
        ToolId::of_call(&result.name).is_some_and(|tool| tool.effect() == ToolEffect::Read)
    };
    results.iter().all(|result| result.status == ToolStatus::Failed && is_look(result))
}

/// Returns the total length of the call's name and of its parameters that are text.
fn length(call: &ToolCall) -> usize {
    let texts = call.params.values().filter_map(serde_json::Value::as_str);
    call.name.len() + texts.map(str::len).sum::<usize>()
}

/// Describes a call and its subject for people: the same for calls that differ in their other words alone, so that a
/// user who refuses one is not asked similar ones again and again.
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
