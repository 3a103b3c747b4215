//! The calls of one answer of the model: which have their results, which wait for subtasks, and how far the current one
//! has come. What is asked, approved, refused or planned for a call belongs to its stage and ends with it.

use std::borrow::Cow;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Choice, Decider};
use crate::engine::event::is_failure;
use crate::policy::{PlannedBranch, PlannedEdit, RecordedVerdict, Review};
use roo_catalog::{Effect as ToolEffect, ToolCall, ToolId, ToolName};
use roo_model::providers::ToolResult;
use roo_protocol::ids::{ApprovalId, Digest, TaskId, ToolCallId};
use roo_protocol::task::{PendingApproval, PendingQuestion};

/// The calls of one answer, worked off one after another. Never empty.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolBatch {
    /// The first calls: they have their results, or wait for subtasks.
    handled: Vec<HandledCall>,
    /// The other calls; none when only subtasks are waited for.
    open: Option<OpenCalls>,
    /// Hooks are to be asked about all results together.
    pub(super) hooks_review: bool,
}

/// A call that is not worked on any more.
#[derive(Clone, Debug, PartialEq)]
enum HandledCall {
    Finished(ToolResult),
    Delegated(Box<Branch>),
}

/// The call that is worked on, and those behind it.
#[derive(Clone, Debug, PartialEq)]
struct OpenCalls {
    current: CurrentCall,
    rest: VecDeque<ToolCall>,
    /// An earlier call was refused or failed, so these are not run.
    skip: bool,
}

/// A call whose result is that of a subtask.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Branch {
    pub(super) call: ToolCall,
    pub(super) child: TaskId,
    /// Mode and task of the planned subtask.
    pub(super) plan: Arc<PlannedBranch>,
    /// Addition of user hooks to its result.
    addition: Option<String>,
    /// The call's result, once the subtask has ended.
    result: Option<ToolResult>,
    /// The subtask has stopped with its request.
    is_stopped: bool,
}

/// The call that is worked on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CurrentCall {
    /// As the model made it.
    pub(super) call: ToolCall,
    /// Changes that user hooks made to it.
    pub(super) hooks: HookChanges,
    /// The gate's newest verdict.
    pub(super) verdict: Option<RecordedVerdict>,
    /// Progress of the call.
    pub(super) stage: Stage,
    /// Whether it has started before, and was restarted because nothing was found of its effect.
    pub(super) is_restarted: bool,
}

/// Changes of user hooks to a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct HookChanges {
    /// Its parameters as it runs; none where they stay.
    pub(super) params: Option<Map<String, Value>>,
    /// Addition to its result for the model.
    pub(super) addition: Option<String>,
}

/// Stage of the current call.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Stage {
    /// It is to be authorized.
    Authorization(Authorization),
    /// The user answered its question, and the mode that goes with the answer is to be authorized.
    SwitchAuthorization(ModeSwitch, Authorization),
    /// It asked the user a question.
    Question(PendingQuestion),
    /// The user answered its question.
    Answered {
        text: String,
        /// Images as data URLs.
        images: Vec<String>,
    },
    Run {
        approval: Option<GivenApproval>,
        write: Option<PlannedEdit>,
        /// The question of the server that is called, while it waits for the user.
        asked: Option<PendingQuestion>,
    },
    /// It ran when the server ended; what came of its write is to be found out.
    SettleWrite { approval: Option<GivenApproval>, write: PlannedEdit },
}

/// Authority that decides whether an action may run.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Authorization {
    /// The gate is to judge it.
    Gate(Approval),
    /// The user is asked for permission.
    User(Box<AskedApproval>),
    /// The user refused it. In a run that asks nobody, a flag did.
    Refused { feedback: Option<String>, review: Option<Arc<Review>>, is_unattended: bool },
}

/// State of the user's approval when the gate judges an action.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Approval {
    /// The user was not asked.
    NotAsked,
    /// The user allowed it.
    Given(GivenApproval),
    /// The user was asked when the server ended. It is judged again before an answer counts.
    Asked(Box<AskedApproval>),
}

/// An approval that waits for an answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AskedApproval {
    pub(super) request: PendingApproval,
    /// An answer that came while the task was interrupted, or while the action is judged again.
    pub(super) held: Option<HeldAnswer>,
}

/// An answer to an approval that waits for its task to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldAnswer {
    /// Author of the answer.
    pub by: Decider,
    /// The chosen option.
    pub option_id: Choice,
    pub(super) text: Option<String>,
    /// The decisions on the hunks of an edit.
    pub(super) review: Option<Arc<Review>>,
}

/// An approval that the user gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenApproval {
    /// The approval.
    pub id: ApprovalId,
    /// Author of the answer.
    pub by: Decider,
    /// The digest of the action that was allowed.
    pub digest: Digest,
    /// The decisions on the hunks of the edit; none where it was allowed as a whole.
    pub review: Option<Arc<Review>>,
}

/// Reason why a call may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decided<'a> {
    /// The gate's verdict.
    pub verdict: &'a RecordedVerdict,
    /// The user's approval; none where the rule alone decided.
    pub approval: Option<&'a GivenApproval>,
}

/// An answer that goes with another mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ModeSwitch {
    /// The answer.
    pub(super) text: String,
    /// Images as data URLs.
    pub(super) images: Vec<String>,
    /// The slug of the mode.
    pub(super) mode: String,
}

/// Call or command that a result has finished.
pub(super) enum FinishedCall {
    /// The current call.
    Current(ToolCall),
    /// A call that waited for a subtask of this plan.
    Delegated(ToolCall, Arc<PlannedBranch>),
}

impl ToolBatch {
    /// Returns the calls of an answer, the first one before the gate; none for an answer without calls.
    pub(super) fn new(calls: impl IntoIterator<Item = ToolCall>) -> Option<Self> {
        let open = OpenCalls::new(calls.into_iter().collect(), false)?;
        Some(Self { handled: vec![], open: Some(open), hooks_review: false })
    }

    pub(super) fn current(&self) -> Option<&CurrentCall> {
        self.open.as_ref().map(|open| &open.current)
    }

    pub(super) fn current_mut(&mut self) -> Option<&mut CurrentCall> {
        self.open.as_mut().map(|open| &mut open.current)
    }

    /// The current call and those behind it.
    pub(super) fn open_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.open.iter().flat_map(|open| std::iter::once(&open.current.call).chain(&open.rest))
    }

    /// The ids of all calls of the answer.
    #[cfg(test)]
    pub(super) fn call_ids(&self) -> Vec<ToolCallId> {
        let handled = self.handled.iter().map(|call| match call {
            HandledCall::Finished(result) => &result.call_id,
            HandledCall::Delegated(branch) => &branch.call.id,
        });
        handled.chain(self.open_calls().map(|call| &call.id)).cloned().collect()
    }

    /// Returns whether the open calls are not run, because of an earlier one.
    pub(super) fn skips(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.skip)
    }

    /// Returns whether a call of the answer was refused or failed, subtasks aside.
    pub(super) fn has_failed(&self) -> bool {
        self.handled
            .iter()
            .any(|call| matches!(call, HandledCall::Finished(result) if is_failure(result.status)))
    }

    /// Returns whether a call of the answer has opened a subtask.
    pub(super) fn has_delegated(&self) -> bool {
        self.handled.iter().any(|call| matches!(call, HandledCall::Delegated(_)))
    }

    /// Number of calls that have opened a subtask or may still do so.
    pub(super) fn delegations(&self) -> usize {
        let opened = self.handled.iter().filter(|call| matches!(call, HandledCall::Delegated(_))).count();
        opened + self.open_calls().filter(|call| call.is_of(ToolName::NewTask)).count()
    }

    /// The calls that wait for subtasks.
    pub(super) fn open_branches(&self) -> impl Iterator<Item = &Branch> {
        self.handled.iter().filter_map(|call| match call {
            HandledCall::Delegated(branch) if branch.result.is_none() => Some(&**branch),
            HandledCall::Delegated(_) | HandledCall::Finished(_) => None,
        })
    }

    /// Returns whether a call waits for a subtask that has not stopped.
    pub(super) fn has_working_branches(&self) -> bool {
        self.open_branches().any(|branch| !branch.is_stopped)
    }

    /// Takes note of whether a subtask has stopped with its request.
    pub(super) fn note_stopped(&mut self, child: &TaskId, is_stopped: bool) {
        for call in &mut self.handled {
            if let HandledCall::Delegated(branch) = call
                && branch.child == *child
            {
                branch.is_stopped = is_stopped;
            }
        }
    }

    /// Lets the current call wait for a subtask, and goes to the next one.
    pub(super) fn delegate(&mut self, child: TaskId, plan: Arc<PlannedBranch>) {
        let Some(OpenCalls { current, rest, skip }) = self.open.take() else { return };
        let CurrentCall { call, hooks: HookChanges { addition, .. }, .. } = current;
        let branch = Branch { call, child, plan, addition, result: None, is_stopped: false };
        self.handled.push(HandledCall::Delegated(Box::new(branch)));
        self.open = OpenCalls::new(rest, skip);
    }

    /// Gives a call its result: the current one, then goes to the next, or one that waits for a subtask. Returns none for
    /// any other call.
    pub(super) fn finish(&mut self, result: &ToolResult) -> Option<FinishedCall> {
        let with = |addition: Option<&String>| {
            let mut result = result.clone();
            if let Some(addition) = addition {
                result.text.push_str("\n\n");
                result.text.push_str(addition);
            }
            result
        };
        let waits = |handled: &&mut HandledCall| match handled {
            HandledCall::Delegated(branch) => branch.call.id == result.call_id,
            HandledCall::Finished(_) => false,
        };
        if let Some(HandledCall::Delegated(branch)) = self.handled.iter_mut().find(waits) {
            branch.result = Some(with(branch.addition.as_ref()));
            return Some(FinishedCall::Delegated(branch.call.clone(), Arc::clone(&branch.plan)));
        }
        let has_delegated = self.has_delegated();
        let OpenCalls { current, rest, skip } =
            self.open.take_if(|open| open.current.call.id == result.call_id)?;
        // A failed look changes nothing for the calls after it; anything else may, and so may what a
        // user who refuses has in mind. What stands behind a delegation says nothing against further ones.
        let only_looks = ToolId::of_call(&result.name).is_some_and(|tool| tool.effect() == ToolEffect::Read);
        let refused = matches!(current.authorization(), Some(Authorization::Refused { .. }));
        let skip = skip || is_failure(result.status) && !has_delegated && (refused || !only_looks);
        self.handled.push(HandledCall::Finished(with(current.hooks.addition.as_ref())));
        self.open = OpenCalls::new(rest, skip);
        Some(FinishedCall::Current(current.call))
    }

    /// The files that this call creates, and whose whole text its parameters have. What moves or removes files counts as
    /// creating none, since text may come from those.
    pub(super) fn created_files(&self, id: &ToolCallId) -> HashSet<String> {
        let current = self.open.as_ref().map(|open| &open.current).filter(|current| current.call.id == *id);
        let write = match current.map(|current| &current.stage) {
            Some(Stage::Run { write: Some(write), .. } | Stage::SettleWrite { write, .. }) => write,
            _ => return HashSet::new(),
        };
        let places = write.places();
        if places.iter().any(|(_, _, after)| after.is_none()) {
            return HashSet::new();
        }
        let created = places.iter().filter(|(_, before, _)| before.is_none());
        created.map(|(path, ..)| (*path).to_owned()).collect()
    }

    /// The call of this id, if it has no result yet and is worked on or waits for a subtask.
    pub(super) fn unfinished(&self, id: &ToolCallId) -> Option<&ToolCall> {
        let current = self.open.as_ref().map(|open| &open.current.call);
        let waiting = self.open_branches().map(|branch| &branch.call);
        current.into_iter().chain(waiting).find(|call| call.id == *id)
    }

    /// All results with this one, if it is the last that is missing.
    pub(super) fn results_with<'a>(&'a self, last: &'a ToolResult) -> Option<Vec<&'a ToolResult>> {
        let is_last = |open: &OpenCalls| open.rest.is_empty() && open.current.call.id == last.call_id;
        let open = match &self.open {
            Some(open) if !is_last(open) => return None,
            Some(_) => Some(Some(last)),
            None => None,
        };
        let result = |call: &'a HandledCall| match call {
            HandledCall::Finished(result) => Some(result),
            HandledCall::Delegated(branch) if branch.call.id == last.call_id => Some(last),
            HandledCall::Delegated(branch) => branch.result.as_ref(),
        };
        self.handled.iter().map(result).chain(open).collect()
    }

    /// Takes the results in the order of their calls, when all have theirs.
    pub(super) fn take_results(&mut self) -> Option<Vec<ToolResult>> {
        if self.open.is_some() || self.open_branches().next().is_some() {
            return None;
        }
        let results = self.handled.drain(..).filter_map(|call| match call {
            HandledCall::Finished(result) => Some(result),
            HandledCall::Delegated(branch) => branch.result,
        });
        Some(results.collect())
    }
}

impl OpenCalls {
    fn new(mut calls: VecDeque<ToolCall>, skip: bool) -> Option<Self> {
        let current = CurrentCall::new(calls.pop_front()?);
        Some(Self { current, rest: calls, skip })
    }
}

impl CurrentCall {
    fn new(call: ToolCall) -> Self {
        let stage = Stage::Authorization(Authorization::NEW);
        Self { call, hooks: HookChanges::default(), verdict: None, stage, is_restarted: false }
    }

    /// The call before hooks: that of the model, or the switch of modes that goes with the answer to its question.
    pub(super) fn to_judge(&self) -> Cow<'_, ToolCall> {
        match self.switch() {
            Some(switch) => Cow::Owned(switch.call(self.call.id.clone())),
            None => Cow::Borrowed(&self.call),
        }
    }

    /// The call as it runs: hooks may have changed its parameters.
    pub(super) fn as_it_runs(&self) -> Cow<'_, ToolCall> {
        let call = self.to_judge();
        match &self.hooks.params {
            Some(params) => Cow::Owned(ToolCall { params: params.clone(), ..call.into_owned() }),
            None => call,
        }
    }

    /// The answer whose mode is to be authorized.
    pub(super) fn switch(&self) -> Option<&ModeSwitch> {
        match &self.stage {
            Stage::SwitchAuthorization(switch, _) => Some(switch),
            _ => None,
        }
    }

    pub(super) fn authorization(&self) -> Option<&Authorization> {
        match &self.stage {
            Stage::Authorization(authorization) | Stage::SwitchAuthorization(_, authorization) => {
                Some(authorization)
            }
            _ => None,
        }
    }

    pub(super) fn authorization_mut(&mut self) -> Option<&mut Authorization> {
        match &mut self.stage {
            Stage::Authorization(authorization) | Stage::SwitchAuthorization(_, authorization) => {
                Some(authorization)
            }
            _ => None,
        }
    }

    /// Returns whether it waits for an answer of the user.
    pub(super) fn awaits_user(&self) -> bool {
        matches!(self.authorization(), Some(Authorization::User(_)))
            || matches!(self.stage, Stage::Question(_) | Stage::Run { asked: Some(_), .. })
    }

    /// The approval that waits for an answer.
    pub(super) fn asked(&self) -> Option<&AskedApproval> {
        match self.authorization()? {
            Authorization::User(asked) | Authorization::Gate(Approval::Asked(asked)) => Some(asked),
            Authorization::Gate(_) | Authorization::Refused { .. } => None,
        }
    }

    /// The approval that the user gave to the call.
    fn given(&self) -> Option<&GivenApproval> {
        match &self.stage {
            Stage::Authorization(Authorization::Gate(Approval::Given(given)))
            | Stage::SwitchAuthorization(_, Authorization::Gate(Approval::Given(given))) => Some(given),
            Stage::Run { approval, .. } | Stage::SettleWrite { approval, .. } => approval.as_ref(),
            _ => None,
        }
    }

    /// The user's decisions on the hunks of the edit that the call makes.
    pub(super) fn review(&self) -> Option<&Arc<Review>> {
        self.given().and_then(|given| given.review.as_ref())
    }

    /// Reason why the call may run; none before it is judged.
    pub(super) fn decided(&self) -> Option<Decided<'_>> {
        Some(Decided { verdict: self.verdict.as_ref()?, approval: self.given() })
    }

    /// Waits for the user's approval.
    pub(super) fn ask(&mut self, request: PendingApproval) {
        if let Some(authorization) = self.authorization_mut() {
            *authorization = Authorization::User(Box::new(AskedApproval { request, held: None }));
        }
    }

    /// Holds an answer until the action has been judged again.
    pub(super) fn hold(&mut self, answer: HeldAnswer) {
        if let Some(Authorization::User(asked) | Authorization::Gate(Approval::Asked(asked))) =
            self.authorization_mut()
        {
            asked.held = Some(answer);
        }
    }

    /// Begins to run.
    pub(super) fn start(&mut self, write: Option<PlannedEdit>) {
        if let Stage::Authorization(Authorization::Gate(approval)) = &self.stage {
            let approval = match approval {
                Approval::Given(given) => Some(given.clone()),
                Approval::NotAsked | Approval::Asked(_) => None,
            };
            self.stage = Stage::Run { approval, write, asked: None };
        }
    }

    /// Goes back to the gate after an interruption before its effect. The user's approval still holds.
    pub(super) fn restart(&mut self) {
        self.is_restarted = true;
        if let Stage::Run { approval, .. } | Stage::SettleWrite { approval, .. } = &mut self.stage {
            let approval = approval.take().map_or(Approval::NotAsked, Approval::Given);
            self.stage = Stage::Authorization(Authorization::Gate(approval));
        }
    }

    /// Has the gate judge again an action that the user is asked about.
    pub(super) fn judge_again(&mut self) {
        if let Some(authorization) = self.authorization_mut() {
            authorization.judge_again();
        }
    }

    /// Goes on after the server that drove it has ended.
    pub(super) fn resume(&mut self) {
        self.judge_again();
        if let Stage::Run { approval, write: Some(write), .. } = &self.stage {
            self.stage = Stage::SettleWrite { approval: approval.clone(), write: write.clone() };
        }
    }

    /// Waits for the user's answer to a question: its own, or one of the server that it calls, which goes on then.
    pub(super) fn question(&mut self, question: PendingQuestion) {
        match &mut self.stage {
            Stage::Run { asked, .. } => *asked = Some(question),
            stage => *stage = Stage::Question(question),
        }
    }

    /// Takes the user's answer to its question, which may go with another mode. A question without answer is void, as the
    /// task ends. What a server asked is answered by whoever runs the call.
    pub(super) fn answer(&mut self, text: Option<&str>, images: &[String], mode: Option<&str>) {
        if let Stage::Run { asked, .. } = &mut self.stage {
            *asked = None;
        }
        if !matches!(self.stage, Stage::Question(_)) {
            return;
        }
        let images = images.to_vec();
        self.stage = match (text.map(str::to_owned), mode) {
            (None, _) => Stage::Authorization(Authorization::NEW),
            (Some(text), None) => Stage::Answered { text, images },
            (Some(text), Some(mode)) => {
                // What hooks made of the question is no switch.
                self.hooks.params = None;
                let switch = ModeSwitch { text, images, mode: mode.to_owned() };
                Stage::SwitchAuthorization(switch, Authorization::NEW)
            }
        };
    }
}

impl Approval {
    /// The approval that waits for an answer.
    pub(super) fn asked(&self) -> Option<&AskedApproval> {
        match self {
            Self::Asked(asked) => Some(asked),
            Self::NotAsked | Self::Given(_) => None,
        }
    }

    /// The decisions on the hunks of the edit that the user allowed.
    pub(super) fn review(&self) -> Option<&Arc<Review>> {
        match self {
            Self::Given(given) => given.review.as_ref(),
            Self::NotAsked | Self::Asked(_) => None,
        }
    }

    /// The digest of the action that the user allowed.
    pub(super) fn digest(&self) -> Option<Digest> {
        match self {
            Self::Given(given) => Some(given.digest),
            Self::NotAsked | Self::Asked(_) => None,
        }
    }
}

impl Authorization {
    /// The gate is to judge an action that the user knows nothing of.
    const NEW: Self = Self::Gate(Approval::NotAsked);

    /// Takes the approval of this id, whatever its answer: the action is to be judged again.
    pub(super) fn take_asked(&mut self, id: &ApprovalId) -> Option<AskedApproval> {
        match self {
            Self::User(asked) | Self::Gate(Approval::Asked(asked)) if asked.request.approval_id == *id => {
                match std::mem::replace(self, Self::NEW) {
                    Self::User(asked) | Self::Gate(Approval::Asked(asked)) => Some(*asked),
                    Self::Gate(_) | Self::Refused { .. } => None,
                }
            }
            _ => None,
        }
    }

    /// Has the gate judge again an action that the user is asked about.
    fn judge_again(&mut self) {
        if let Self::User(asked) = self {
            *self = Self::Gate(Approval::Asked(asked.clone()));
        }
    }
}

impl ModeSwitch {
    /// The same wish as a call of the model's, for whoever judges it.
    fn call(&self, id: ToolCallId) -> ToolCall {
        let params = [("mode_slug", &self.mode), ("reason", &self.text)];
        let params =
            params.map(|(name, value)| (name.to_owned(), value.as_str().into())).into_iter().collect();
        ToolCall { id, name: ToolName::SwitchMode.as_str().into(), params, problem: None, note: None }
    }
}
