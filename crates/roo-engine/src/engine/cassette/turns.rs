//! Reads turns out of events: of a log when a request is recorded, and of what the machine derives when it is played.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{
    CassetteBlock, CassetteCall, CassetteRequest, CassetteTask, CassetteTurn, LookedUp, UserRefusal,
};
use crate::engine::event::{EndState, Event};
use crate::engine::task::Decider;
use crate::engine::tree::{Fold, Tree};
use crate::policy::RecordedVerdict;
use roo_catalog::ToolProtocol;
use roo_durable::Record;
use roo_model::providers::{Finish, Item};
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::{ApprovalId, TaskId, ToolCallId, Urid};

/// Number of a branch among those of its parent, after the numbers of those above it; empty for the root.
pub(super) type Branch = Vec<u32>;

/// Reads turns out of the events of one request, one after another.
pub(super) struct TurnRecorder {
    root: TaskId,
    fold: Fold,
    branches: HashMap<TaskId, Branch>,
    tasks: BTreeMap<Branch, TaskTurns>,
    calls: HashMap<ToolCallId, CallPlace>,
    /// The calls whose approvals wait.
    approvals: HashMap<ApprovalId, ToolCallId>,
    /// The id, the mode, the protocol and the profile of the root.
    begun: Option<(Urid, String, ToolProtocol, String)>,
    prompt: Option<String>,
    unsupported: Option<(u64, &'static str)>,
}

/// Place of a call: its task, its turn, and its block in the answer.
#[derive(Clone, Debug)]
pub(super) struct CallPlace {
    pub(super) branch: Branch,
    pub(super) turn: usize,
    pub(super) block: usize,
}

/// Turns of a task so far.
#[derive(Default)]
struct TaskTurns {
    /// The branches that it has opened.
    children: u32,
    /// The items of its conversation that were read.
    read: usize,
    turns: Vec<CassetteTurn>,
    /// The request that runs or will be made.
    next: CassetteTurn,
    /// What was looked up is in the conversation, and no message.
    looked_up: HashSet<usize>,
    is_told: bool,
    end: Option<EndState>,
}

impl TurnRecorder {
    pub(super) fn new(root: TaskId) -> Self {
        Self {
            fold: Fold::new(root.clone()),
            branches: HashMap::from([(root.clone(), vec![])]),
            root,
            tasks: BTreeMap::new(),
            calls: HashMap::new(),
            approvals: HashMap::new(),
            begun: None,
            prompt: None,
            unsupported: None,
        }
    }

    /// The state after the events so far; none before the first.
    pub(super) fn tree(&self) -> Option<&Tree> {
        self.fold.tree()
    }

    /// The branch that a task is.
    pub(super) fn branch_of(&self, task: &TaskId) -> Option<&Branch> {
        self.branches.get(task)
    }

    /// The number of requests of a branch that have their answers.
    pub(super) fn turns_of(&self, branch: &Branch) -> usize {
        self.tasks.get(branch).map_or(0, |task| task.turns.len())
    }

    /// The place of a call.
    pub(super) fn place_of(&self, call: &ToolCallId) -> Option<&CallPlace> {
        self.calls.get(call)
    }

    /// The first event that a cassette doesn't keep.
    pub(super) fn unsupported(&self) -> Option<(u64, &'static str)> {
        self.unsupported
    }

    /// The profile and the beginning of the request, without its choice of tools; none before it has begun.
    pub(super) fn request(&self) -> Option<(String, CassetteRequest)> {
        let (id, mode, protocol, profile) = self.begun.clone()?;
        let (prompt, none) = (self.prompt.clone()?, Vec::new);
        let request =
            CassetteRequest { prompt, mode, protocol, id, included_tools: none(), excluded_tools: none() };
        Some((profile, request))
    }

    /// The tasks, the root first.
    pub(super) fn finish(self) -> Vec<CassetteTask> {
        let task = |(branch, task): (Branch, TaskTurns)| CassetteTask {
            branch: branch_name(&branch),
            turns: task.turns,
            end: task.end,
        };
        self.tasks.into_iter().map(task).collect()
    }

    /// Reads the next event.
    pub(super) fn add(&mut self, record: &Record<Event>) {
        let mode = self.mode_of(&record.task_id);
        self.fold.add(record);
        let Some(branch) = self.branches.get(&record.task_id).cloned() else { return };
        if let Some(what) = self.unkept(&record.task_id, &branch, &record.event) {
            self.unsupported.get_or_insert((record.seq, what));
        }
        let task = self.tasks.entry(branch.clone()).or_default();
        match &record.event {
            Event::Created { urid, mode, protocol, profile, parent: None, .. } => {
                self.begun.get_or_insert((urid.clone(), mode.clone(), *protocol, profile.clone()));
            }
            Event::UserSaid { message, .. } => {
                task.is_told = true;
                self.prompt.get_or_insert_with(|| message.text.clone());
            }
            Event::Gathered { commands, text, images, .. } => {
                task.next.looked_up = LookedUp { commands: commands.clone(), text: text.clone() };
                let length = self.fold.tree().and_then(|tree| tree.task(&record.task_id));
                let length = length.map_or(0, |task| task.conversation.items().len());
                let has_text = !text.is_empty() || !images.is_empty();
                let added = usize::from(!commands.is_empty()) + usize::from(has_text);
                task.looked_up.extend(length.saturating_sub(added)..length);
            }
            Event::TurnStarted { .. } => {
                task.next.mode = mode.unwrap_or_default();
                task.next.answer.clear();
                if let Some(state) = self.fold.tree().and_then(|tree| tree.task(&record.task_id)) {
                    let items = state.conversation.items();
                    let new = items.iter().enumerate().skip(task.read);
                    let messages = new.filter_map(|(index, item)| match item {
                        Item::User { text, .. } if !task.looked_up.contains(&index) => Some(text.clone()),
                        _ => None,
                    });
                    task.next.messages.extend(messages);
                    task.read = items.len();
                }
            }
            Event::Spoke { message } => task.next.answer.push(CassetteBlock::Text(message.text.clone())),
            Event::Thought { message, .. } => {
                task.next.answer.push(CassetteBlock::Thinking(message.text.clone()));
            }
            Event::Called { call, .. } => {
                let (turn, block) = (task.turns.len(), task.next.answer.len());
                self.calls.insert(call.id.clone(), CallPlace { branch, turn, block });
                task.next.answer.push(CassetteBlock::Call(Box::new(CassetteCall {
                    tool: call.name.clone(),
                    params: call.params.clone(),
                    problem: call.problem.clone(),
                    ..CassetteCall::default()
                })));
            }
            Event::TurnEnded { finish, beginning, .. } => {
                if beginning.is_some() {
                    // It is of the workspace, like what is looked up, and stands before the answer.
                    let state = self.fold.tree().and_then(|tree| tree.task(&record.task_id));
                    let length = state.map_or(0, |task| task.conversation.items().len());
                    task.looked_up.extend(length.checked_sub(2));
                }
                let mut turn = std::mem::take(&mut task.next);
                turn.finish = Some(*finish).filter(|finish| *finish != Finish::Done);
                task.turns.push(turn);
            }
            Event::GateDecided { call_id, verdict: verdict @ RecordedVerdict::Deny(_), .. } => {
                self.of_call(call_id, |call| call.denied = Some(verdict.rule()));
            }
            Event::ApprovalRequested { approval } => {
                self.approvals.insert(approval.approval_id.clone(), approval.tool_call_id.clone());
            }
            Event::ApprovalResolved { approval_id, by, option_id: Some(choice), text, .. } => {
                if let Some(call) = self.approvals.remove(approval_id).filter(|_| !choice.allows()) {
                    let unattended = *by == Decider::Unattended;
                    let refused = UserRefusal { feedback: text.clone(), unattended };
                    self.of_call(&call, |call| call.refused = Some(refused));
                }
            }
            Event::QuestionAnswered { text: Some(text), .. } => {
                let asked = self.fold.tree().and_then(|tree| tree.task(&record.task_id));
                let call = asked.and_then(|task| task.current_call()).map(|call| call.id.clone());
                if let Some(call) = call {
                    self.of_call(&call, |call| call.answered = Some(text.clone()));
                }
            }
            Event::Delegated { child, .. } => {
                task.children += 1;
                let mut below = branch;
                below.push(task.children);
                self.branches.insert(child.clone(), below);
            }
            Event::ToolFinished { result, seen, .. } => {
                let known = seen.iter().filter(|(_, digest)| digest.is_some());
                let seen = known.map(|(path, _)| path.clone()).collect();
                self.of_call(&result.call_id, |call| {
                    if result.status != ToolStatus::Denied {
                        // What was refused is access that the call was offered. It ran without.
                        call.refused = None;
                    }
                    call.status = Some(result.status);
                    call.result = Some(result.text.clone());
                    call.seen = seen;
                });
            }
            Event::Ended { state, .. } => task.end = Some(*state),
            _ => {}
        }
    }

    /// The mode in which a task works before the next event.
    fn mode_of(&self, task: &TaskId) -> Option<String> {
        Some(self.fold.tree()?.task(task)?.settings.mode.clone())
    }

    fn of_call(&mut self, id: &ToolCallId, change: impl FnOnce(&mut CassetteCall)) {
        let Some(CallPlace { branch, turn, block }) = self.calls.get(id) else { return };
        let turn = self.tasks.get_mut(branch).and_then(|task| task.turns.get_mut(*turn));
        if let Some(CassetteBlock::Call(call)) = turn.and_then(|turn| turn.answer.get_mut(*block)) {
            change(call);
        }
    }

    /// Says what an event is of which nothing is kept, although more than this follows from it.
    fn unkept(&self, task: &TaskId, branch: &Branch, event: &Event) -> Option<&'static str> {
        Some(match event {
            Event::UserSaid { .. } if self.tasks.get(branch).is_some_and(|task| task.is_told) => {
                "a message of the user while the task worked"
            }
            Event::Imported { .. } => "a conversation of another program",
            Event::CancelRequested | Event::StopRequested { .. } if *task == self.root => {
                "the end of the request by its user"
            }
            Event::Interrupted | Event::Resumed => "an interruption of the request",
            Event::QueueChanged { .. } => "a message of the user that waited",
            Event::PromptRefused { .. } => "a message of the user that a hook blocked",
            Event::HookMessagesReceived { .. } => "what a hook made of a call",
            Event::ModeSwitched { call_id: None, .. } => "another mode or model, chosen by the user",
            Event::CommandBackgrounded { .. } => "a command in the background",
            Event::QuestionAsked { call_id: None, .. } => "a question of the server itself",
            Event::ShorteningStarted { .. } | Event::ContextReduced { .. } => {
                "a conversation that was shortened"
            }
            Event::RestoreStarted { .. } => "a restore of an earlier state",
            Event::Halted { .. } => "an end by the server",
            _ => return None,
        })
    }
}

/// The name of a branch in a cassette; none for the root.
pub(super) fn branch_name(branch: &[u32]) -> Option<String> {
    let numbers: Vec<String> = branch.iter().map(u32::to_string).collect();
    (!numbers.is_empty()).then(|| numbers.join("."))
}
