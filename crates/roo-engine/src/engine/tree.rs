//! All tasks of one request as a pure machine: the invocation tree.
//!
//! Each branch is a [`Task`] of its own; the tree carries what passes between them. A branch begins
//! with what its parent's call says, its end is the result of that call, a cancelled task takes its
//! branches along, and all share one budget. As with a single task, consequences are settled from the
//! state, so the log may end after any event.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use super::event::{EndState, Event, NewMessage};
use super::task::{self, Input, RequestBudget, Spending, Task};
use crate::policy::{PolicyDecision, RefusalRule};
use roo_durable::Record;
use roo_formats::modes::delegation;
use roo_model::prompts::replies;
use roo_protocol::event::QuestionKind;
use roo_protocol::ids::{CommandId, TaskId};
use roo_protocol::task::{HistoryItem, QueueItem, SendWhen, TaskState, Usage};
use roo_protocol::tree::TreeNode;

/// An event and the task that it belongs to.
pub type Fact = (TaskId, Event);

/// The tasks of one request, parents before children. Never empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    tasks: Vec<Task>,
    places: HashMap<TaskId, usize>,
    /// Spending at the last reset of the budget.
    spent_before: Spending,
    /// Number of tasks when the user last said something, or the budget was reset.
    tasks_before: usize,
    /// The root task as it was before the events of these numbers, for restores of its conversation.
    marks: BTreeMap<u64, Task>,
    /// Numbers of which there was no such state when it was wanted.
    missing_marks: Vec<u64>,
}

/// The records of a request on their way to its state, one after another.
pub struct Fold {
    root: TaskId,
    tree: Option<Tree>,
    /// Numbers of the events before which the state of the root task is kept.
    wanted_marks: Vec<u64>,
    /// The first record doesn't make a task.
    failed: bool,
}

impl Fold {
    /// Begins with no record.
    pub fn new(root: TaskId) -> Self {
        Self { root, tree: None, wanted_marks: vec![], failed: false }
    }

    /// Begins with no record, and folds those again of which [`Fold::missing_marks`] says that the state in between was
    /// missed.
    pub(crate) fn with_marks(root: TaskId, wanted_marks: Vec<u64>) -> Self {
        Self { wanted_marks, ..Self::new(root) }
    }

    /// The numbers of events before which conversations were restored to: the records are to be folded once more.
    pub(crate) fn missing_marks(&self) -> Vec<u64> {
        self.tree.as_ref().map(|tree| tree.missing_marks.clone()).unwrap_or_default()
    }

    /// Folds the next record.
    pub fn add(&mut self, record: &Record<Event>) {
        let Record { seq, at, task_id, event } = record;
        if let Some(tree) = &mut self.tree
            && self.wanted_marks.iter().any(|mark| mark <= seq)
        {
            for mark in self.wanted_marks.extract_if(.., |mark| *mark <= *seq) {
                tree.mark(mark, tree.root().clone());
            }
        }
        match &mut self.tree {
            Some(tree) => tree.apply(task_id, event, *seq, *at),
            None if self.failed => {}
            None => {
                self.tree = Task::created(self.root.clone(), event, *seq, *at).map(Tree::new);
                self.failed = self.tree.is_none();
            }
        }
    }

    /// The state after the records so far; none before the first.
    pub fn tree(&self) -> Option<&Tree> {
        self.tree.as_ref()
    }

    /// The state; none when the first record doesn't make a task.
    pub fn finish(mut self) -> Option<Tree> {
        self.tree.iter_mut().for_each(Tree::clear_marks);
        self.tree
    }
}

/// Remaining budget of a request; none for no limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetLeft {
    /// Model requests.
    pub requests: Option<u32>,
    /// US dollars.
    pub cost_usd: Option<f64>,
}

impl Tree {
    /// A request that begins with this task.
    pub fn new(root: Task) -> Self {
        let places = HashMap::from([(root.id.clone(), 0)]);
        Self {
            tasks: vec![root],
            places,
            spent_before: Spending::default(),
            tasks_before: 0,
            marks: BTreeMap::new(),
            missing_marks: vec![],
        }
    }

    /// The state that these records fold to; none when the first doesn't make a task.
    pub fn fold(root: &TaskId, records: &[Record<Event>]) -> Option<Self> {
        let mut fold = Fold::new(root.clone());
        records.iter().for_each(|record| fold.add(record));
        let missing = fold.missing_marks();
        if !missing.is_empty() {
            fold = Fold::with_marks(root.clone(), missing);
            records.iter().for_each(|record| fold.add(record));
        }
        fold.finish()
    }

    /// Keeps the state of the root task before the event of this number, which a restore goes back to.
    pub(crate) fn mark(&mut self, before: u64, state: Task) {
        self.marks.insert(before, state);
    }

    /// Drops such states, as nothing goes back to them any more.
    pub(crate) fn clear_marks(&mut self) {
        self.marks.clear();
    }

    /// Folds one event.
    pub fn apply(&mut self, id: &TaskId, event: &Event, seq: u64, at: i64) {
        match event {
            Event::RestoreFinished { started, done: true, .. } => self.go_back(*started),
            Event::Forked { urid, from, .. } => {
                self.tasks.iter_mut().for_each(|task| task.begin_fork(urid, from));
                self.spent_before = self.spent();
            }
            _ => {}
        }
        // What a branch begins with is its parent's word.
        let is_brief = |task: &Task| task.parent.is_some() && task.prompt.is_none();
        let is_said =
            matches!(event, Event::UserSaid { .. }) && self.task(id).is_some_and(|task| !is_brief(task));
        if is_said || *event == Event::BudgetReset {
            self.tasks_before = self.tasks.len();
        }
        let was_ending = self.task(id).is_some_and(Task::is_ending);
        match self.places.get(id) {
            Some(&place) => self.tasks[place].apply(event, seq, at),
            None => {
                if let Some(task) = Task::created(id.clone(), event, seq, at) {
                    self.places.insert(id.clone(), self.tasks.len());
                    self.tasks.push(task);
                }
            }
        }
        if !was_ending && self.task(id).is_some_and(Task::is_ending) {
            // What waits below comes back to it, and has waited all the same.
            let below = self.tasks.iter().filter(|task| task.id != *id && self.is_within(&task.id, id));
            let waiting = below.flat_map(|task| &task.queue).map(|item| item.id.clone()).collect();
            if let Some(&place) = self.places.get(id) {
                self.tasks[place].note_waiting(waiting);
            }
        }
        if let Event::Stopped { .. } | Event::Resumed = event {
            self.note_stopped(id, matches!(event, Event::Stopped { .. }));
        }
        if let Event::Ended { .. } = event {
            self.hand_over_commands(id);
            if self.root().imported.as_ref().is_some_and(|import| import.until == seq) {
                // It was spent elsewhere.
                self.spent_before = self.spent();
            }
        }
        if *event == Event::BudgetReset {
            self.spent_before = self.spent();
        }
    }

    /// These facts, and behind them what it leads to that the user says something then to the root task.
    pub(crate) fn saying(&self, mut facts: Vec<Fact>, say: &NewMessage, at: i64) -> Vec<Fact> {
        let then = self.after(&facts, at);
        let NewMessage { text, images } = say.clone();
        facts.extend(then.decide(&self.root().id, Input::Send { text, images, when: SendWhen::Now }, at));
        facts
    }

    /// The tree as it will be when these facts are in the log.
    pub(crate) fn after(&self, facts: &[Fact], at: i64) -> Self {
        let mut then = self.clone();
        for (seq, (task, event)) in (self.last_seq() + 1..).zip(facts) {
            then.apply(task, event, seq, at);
        }
        then
    }

    /// Makes the conversation of the root what it was where a restore cuts it.
    fn go_back(&mut self, started: u64) {
        let root = &mut self.tasks[0];
        let Some((_, restore)) = root.restore.clone().filter(|(seq, _)| *seq == started) else { return };
        let Some(cut) = &restore.cut else { return };
        match self.marks.get(&cut.before) {
            Some(then) => root.go_back(then.clone(), cut, restore.say.is_some()),
            None => self.missing_marks.push(cut.before),
        }
    }

    /// Tells the parent of a branch whether that has stopped with the request.
    fn note_stopped(&mut self, branch: &TaskId, is_stopped: bool) {
        let parent = self.task(branch).and_then(|task| self.places.get(task.parent.as_ref()?).copied());
        if let Some(parent) = parent {
            self.tasks[parent].note_stopped(branch, is_stopped);
        }
    }

    /// Hands the commands that a branch left in the background to its parent.
    fn hand_over_commands(&mut self, branch: &TaskId) {
        let Some(&place) = self.places.get(branch) else { return };
        let parent = self.tasks[place].parent.as_ref().and_then(|parent| self.places.get(parent));
        if let Some(&parent) = parent
            && let Ok([parent, branch]) = self.tasks.get_disjoint_mut([parent, place])
        {
            parent.commands.adopt(&mut branch.commands);
        }
    }

    /// The task that looks after a command in the background.
    pub(crate) fn owner_of(&self, command: &CommandId) -> Option<&Task> {
        self.tasks.iter().find(|task| task.commands.find(command).is_some())
    }

    /// The request's own task.
    pub fn root(&self) -> &Task {
        &self.tasks[0]
    }

    /// All tasks, parents before children.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// One of the tasks.
    pub fn task(&self, id: &TaskId) -> Option<&Task> {
        self.places.get(id).map(|&place| &self.tasks[place])
    }

    fn parent(&self, task: &Task) -> Option<&Task> {
        task.parent.as_ref().and_then(|parent| self.task(parent))
    }

    /// Returns the state of the whole request: as its root, but waiting for its user when any branch does.
    pub fn state(&self) -> TaskState {
        let state = self.root().state();
        let waits = self.tasks.iter().any(|task| self.state_of(task) == TaskState::Waiting);
        if state == TaskState::Paused && waits { TaskState::Waiting } else { state }
    }

    /// Returns the state of a task. One that may make no further request before its user has said more about the budget
    /// waits, whichever task asks for all of them.
    pub(crate) fn state_of(&self, task: &Task) -> TaskState {
        let state = task.state();
        let held = state == TaskState::Running && task.is_before_request() && {
            let budget = self.budget(task);
            budget.asked && task::is_spent(&task.limits, budget.spent)
        };
        if held { TaskState::Waiting } else { state }
    }

    /// The number of the newest event.
    pub fn last_seq(&self) -> u64 {
        self.tasks.iter().map(|task| task.seq).max().unwrap_or(0)
    }

    /// The request in short.
    pub(crate) fn history_item(&self) -> HistoryItem {
        HistoryItem {
            state: self.state(),
            updated_at: self.tasks.iter().map(|task| task.updated_at).max().unwrap_or_default(),
            usage: self.usage(),
            seq: self.last_seq(),
            ..self.root().history_item()
        }
    }

    /// Marks every task that isn't at its end as interrupted, without an event.
    pub(crate) fn set_interrupted(&mut self) {
        self.tasks.iter_mut().for_each(Task::set_interrupted);
    }

    /// Returns the usage of all tasks.
    pub fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        self.tasks.iter().for_each(|task| usage += task.totals.usage);
        usage
    }

    fn spent(&self) -> Spending {
        Spending {
            requests: self.tasks.iter().fold(0, |sum, task| {
                sum.saturating_add(task.request_number()).saturating_add(task.sampling.requests())
            }),
            cost_usd: self.tasks.iter().map(|task| task.totals.usage.cost_usd).sum(),
        }
    }

    /// Returns the remaining budget before the user is asked.
    pub(crate) fn budget_left(&self, task: &Task) -> BudgetLeft {
        let Spending { requests, cost_usd } = self.spent_of_budget();
        let limits = &task.limits;
        BudgetLeft {
            requests: (limits.requests > 0).then(|| limits.requests.saturating_sub(requests)),
            cost_usd: (limits.cost_usd > 0.0).then(|| (limits.cost_usd - cost_usd).max(0.0)),
        }
    }

    fn spent_of_budget(&self) -> Spending {
        let spent = self.spent();
        Spending {
            requests: spent.requests.saturating_sub(self.spent_before.requests),
            cost_usd: spent.cost_usd - self.spent_before.cost_usd,
        }
    }

    /// Returns the budget that a task has to know.
    fn budget(&self, task: &Task) -> RequestBudget {
        let asks = |other: &Task| {
            let kind = other.question().map(|question| question.kind);
            other.id != task.id && kind == Some(QuestionKind::AutoApprovalMaxReqReached)
        };
        RequestBudget { spent: self.spent_of_budget(), asked: self.tasks.iter().any(asks) }
    }

    /// The tasks above this one, the nearest first.
    pub(super) fn above(&self, task: &Task) -> impl Iterator<Item = &Task> {
        std::iter::successors(self.parent(task), |above| self.parent(above))
    }

    /// Number of tasks above this one.
    fn depth(&self, task: &Task) -> usize {
        self.above(task).count()
    }

    /// Returns the reason why a task may not open another branch. Asked when the gate has judged: while it did, other
    /// tasks may have opened some.
    fn beyond_limits(&self, task: &Task) -> Option<PolicyDecision> {
        let (depth, branches) = (task.limits.depth, task.limits.branches);
        // The root is none. Those that still work count, whenever they began.
        let counts = |(place, task): &(usize, &Task)| {
            task.parent.is_some() && (*place >= self.tasks_before || !task.state().is_final())
        };
        let begun = self.tasks.iter().enumerate().filter(counts).count();
        let reason = if self.depth(task) >= depth as usize {
            replies::too_deep(depth)
        } else if begun >= branches as usize {
            replies::too_many_branches(branches)
        } else {
            return None;
        };
        Some(PolicyDecision::Deny {
            rule: RefusalRule::Limits,
            reason,
            mistake: true,
            saves: false,
            detail: None,
        })
    }

    /// Decides the events of an input to one task. What doesn't fit the state leads to nothing.
    pub fn decide(&self, id: &TaskId, input: Input, at: i64) -> Vec<Fact> {
        let Some(task) = self.task(id) else { return vec![] };
        let is_over = task.parent.is_some() && task.state().is_final() && !task.is_stopped();
        if is_over {
            // A subtask that has ended is part of its parent's conversation by now.
            return vec![];
        }
        let input = match input {
            Input::Gated(decision @ (PolicyDecision::Allow { .. } | PolicyDecision::Ask { .. }))
                if task.is_delegating() =>
            {
                Input::Gated(self.beyond_limits(task).unwrap_or(decision))
            }
            input => input,
        };
        let wakes = matches!(input, Input::Resume | Input::Send { .. });
        let reader = match &input {
            Input::Send { when, .. } if *when == SendWhen::Now || task.is_stopped() => self.reader_of(task),
            _ => Reader::Itself,
        };
        match (&reader, &input) {
            (Reader::Branch(branch), Input::Send { text, images, .. }) => {
                let mut facts = self.wake_others(&branch.id, at);
                facts.extend(facts_of(branch, task::queue_for(branch, text.clone(), images.clone())));
                return facts;
            }
            // While the task still stops, it is handed to them when all have.
            (Reader::Several(branches), Input::Send { text, images, .. })
                if have_stopped(branches) && !task.is_stopping() =>
            {
                let item = task.queue_item(text.clone(), images.clone(), SendWhen::Now);
                let mut facts = self.wake_others(id, at);
                facts.extend(facts_of(task, task::decide(task, Input::Resume, at)));
                facts.extend(hand_to(branches, &[item]));
                return facts;
            }
            _ => {}
        }
        let mut facts = if wakes { self.wake_others(id, at) } else { vec![] };
        let stops = self.stops_request(task, &input);
        let told = match &input {
            Input::WorktreeMade(Err(reason)) => self.tell_unavailable(task, reason),
            _ => None,
        };
        if let Some(reason) = &stops {
            facts.push((task.id.clone(), Event::StopRequested { reason: Some(reason.clone()) }));
        }
        facts.extend(facts_of(task, task::decide(task, input, at)));
        facts.extend(told.filter(|_| !facts.is_empty()));
        if let Reader::Several(_) = reader {
            facts.push((task.id.clone(), Event::Shown { message: task.waits_for_subtasks() }));
        }
        if let Some(reason) = stops {
            facts.push((self.root().id.clone(), Event::StopRequested { reason: Some(reason) }));
        }
        facts
    }

    /// Lets all other tasks go on that are interrupted. A request goes on as a whole: a branch alone could end, and nobody would
    /// take its result. Of those that have stopped, the ones above the task go on, and the others follow them.
    fn wake_others(&self, id: &TaskId, at: i64) -> Vec<Fact> {
        let is_asleep =
            |other: &&Task| other.is_interrupted() || other.is_stopped() && self.is_within(id, &other.id);
        let others = self.tasks.iter().filter(|other| other.id != *id).filter(is_asleep);
        others.flat_map(|other| facts_of(other, task::decide(other, Input::Resume, at))).collect()
    }

    /// Who reads what the user says to this task now: while it waits for one subtask alone, that one or the one below it that
    /// works.
    fn reader_of(&self, task: &Task) -> Reader<'_> {
        if !task.awaits_subtasks() {
            return Reader::Itself;
        }
        let mut open = task.open_subtasks();
        let (Some((child, _)), None) = (open.next(), open.next()) else {
            return Reader::Several(self.working_below(task));
        };
        let Some(child) = self.task(child).filter(|child| goes_on(child)) else { return Reader::Itself };
        match self.reader_of(child) {
            Reader::Itself => Reader::Branch(child),
            below => below,
        }
    }

    /// The branches below a task that work or have stopped, without those that only wait for others of them.
    fn working_below(&self, task: &Task) -> Vec<&Task> {
        let open = task.open_subtasks().filter_map(|(child, _)| self.task(child));
        open.filter(|child| goes_on(child))
            .flat_map(|child| match self.reader_of(child) {
                Reader::Branch(below) => vec![below],
                Reader::Several(below) if !below.is_empty() => below,
                Reader::Itself | Reader::Several(_) => vec![child],
            })
            .collect()
    }

    /// Returns whether a message to a task that has stopped waited for all of its branches in earlier versions.
    pub(super) fn is_earlier_reader(&self, id: &TaskId) -> bool {
        let reader = self.task(id).filter(|task| task.is_stopped()).map(|task| self.reader_of(task));
        matches!(reader, Some(Reader::Several(branches)) if have_stopped(&branches))
    }

    /// Tells the user once for all branches of a task that they get no work trees.
    fn tell_unavailable(&self, branch: &Task, reason: &str) -> Option<Fact> {
        let parent = self.parent(branch)?;
        let is_told =
            |task: &Task| task.parent == branch.parent && task.worktree_unavailable() == Some(reason);
        if self.tasks.iter().any(is_told) {
            return None;
        }
        let text = replies::worktrees_unavailable(reason);
        Some((parent.id.clone(), Event::Shown { message: parent.notice(text) }))
    }

    /// The folder in which the current effect of a task works, if that is in a work tree: its own, or that of a task above
    /// it. A merge works in the folder of the parent, as does what follows it.
    pub(crate) fn folder_of(&self, task: &Task) -> Option<&Path> {
        let is_done = task.merges() || task.closes_worktree();
        let first = if is_done { self.parent(task) } else { self.task(&task.id) };
        std::iter::successors(first, |task| self.parent(task)).find_map(Task::own_folder)
    }

    /// Returns the reason why the whole request stops with this answer: the engine has asked about a branch how to go on, and
    /// its user doesn't want to. Without that, the other branches and the parent would go on, and ask again.
    fn stops_request(&self, task: &Task, input: &Input) -> Option<String> {
        let asked = task.engine_question()?;
        let (Input::Answer { text, .. } | Input::Send { text, when: SendWhen::Now, .. }) = input else {
            return None;
        };
        (task.parent.is_some() && task::is_stop(text)).then(|| asked.text.clone())
    }

    /// Returns whether this is an answer by which earlier versions ended the branch that had asked, and did not stop the
    /// request.
    pub(super) fn is_earlier_stop(&self, id: &TaskId, answer: &str) -> bool {
        let asks =
            |task: &Task| task.parent.is_some() && task.engine_question().is_some() && !task.is_stopping();
        task::is_stop(answer) && self.task(id).is_some_and(asks)
    }

    /// Returns whether a task is this one or a branch below it.
    pub fn is_within(&self, id: &TaskId, top: &TaskId) -> bool {
        std::iter::successors(self.task(id), |task| self.parent(task)).any(|task| task.id == *top)
    }

    /// The events that a fork of this request begins with: what is open here ends there.
    pub(crate) fn fork(mut self, event: Event, at: i64) -> Vec<Fact> {
        let mut all: Vec<Fact> = vec![];
        let mut facts = vec![(self.root().id.clone(), event)];
        while !facts.is_empty() {
            for (id, event) in &facts {
                self.apply(id, event, self.last_seq() + 1, at);
            }
            all.append(&mut facts);
            facts = self.settle();
        }
        all
    }

    /// Every task that isn't at its end is interrupted. A server that asked something has ended with its call.
    pub fn interrupt(&self) -> Vec<Fact> {
        let open = self.tasks.iter().filter(|task| !task.state().is_final() && !task.is_interrupted());
        open.flat_map(|task| {
            let void = task.void_server_question().into_iter();
            void.chain([Event::Interrupted]).map(|event| (task.id.clone(), event))
        })
        .collect()
    }

    /// Returns the events that follow from the state alone, for the first task that has any. Called until nothing
    /// follows.
    pub fn settle(&self) -> Vec<Fact> {
        self.tasks
            .iter()
            .map(|task| self.settle_task(task))
            .find(|facts| !facts.is_empty())
            .unwrap_or_default()
    }

    fn settle_task(&self, task: &Task) -> Vec<Fact> {
        if let Some(facts) = self.begin_branch(task) {
            return facts;
        }
        if let Some(facts) = self.follow_parent(task) {
            return facts;
        }
        let parent_ends = self.parent(task).is_some_and(Task::is_ending);
        if task.closes_worktree_when_resumed() && !parent_ends {
            return vec![];
        }
        let events = task::settle(task, &|| self.budget(task));
        let mut facts = facts_of(task, events);
        if let Some((_, Event::Ended { .. })) = facts.last()
            && self.has_told_branches_since_stop(task)
        {
            facts.push((task.id.clone(), Event::Resumed));
        }
        if let Some((_, Event::Resumed)) = facts.last() {
            facts.extend(self.hand_down(&facts));
        }
        // The end of a branch and the result of its parent's call are one append.
        if let Some((_, Event::Ended { state, result, reason, .. })) = facts.last()
            && let Some(parent) = self.parent(task)
        {
            let returned = facts_of_return(parent, task);
            let text = result.as_deref().or(reason.as_deref());
            let note = task.worktree_note(*state == EndState::Completed);
            let event = task::branch_result(parent, &task.id, *state, text, note);
            facts.extend(event.map(|event| (parent.id.clone(), event)));
            facts.splice(..0, returned);
        }
        facts
    }

    /// Returns whether the user has said something to a branch since a request began to stop: nobody else would answer.
    fn has_told_branches_since_stop(&self, root: &Task) -> bool {
        let stops = root.parent.is_none() && root.is_stopping() && !root.is_interrupted();
        let mut stopped = self.tasks.iter().filter(|task| task.is_stopped());
        stops && stopped.any(|branch| branch.queue.iter().any(|item| root.is_said_since_end(item)))
    }

    /// Hands what was said while a request stopped, and lets it go on, to the branches that go on with it.
    fn hand_down(&self, facts: &[Fact]) -> Vec<Fact> {
        let then = self.after(facts, 0);
        let root = then.root();
        let branches = match then.reader_of(root) {
            Reader::Itself => return vec![],
            Reader::Branch(branch) => vec![branch],
            Reader::Several(branches) => branches,
        };
        let (now, rest): (Vec<_>, Vec<_>) =
            root.queue.iter().cloned().partition(|item| item.when == SendWhen::Now);
        let mut handed = hand_to(&branches, &now);
        if !handed.is_empty() {
            // Behind them: what is in the log twice is read twice, and not lost.
            handed.push((root.id.clone(), Event::QueueChanged { items: rest }));
        }
        handed
    }

    /// A branch that its parent has decided on but that isn't there yet, or hasn't its brief yet.
    fn begin_branch(&self, parent: &Task) -> Option<Vec<Fact>> {
        for (child, plan) in parent.open_subtasks() {
            let there = self.task(child);
            if there.is_some_and(|child| !child.conversation.items().is_empty() || child.state().is_final()) {
                continue;
            }
            let stops = parent.is_stopping();
            if there.is_none() && parent.is_ending() && !stops {
                let event = task::branch_result(parent, child, EndState::Cancelled, None, None)?;
                return Some(vec![(parent.id.clone(), event)]);
            }
            if there.is_none() && (parent.is_stopped() || parent.is_interrupted() && !stops) {
                continue;
            }
            let tree = self.draw_with(parent, (&plan.emoji, &plan.delegation.title));
            let events = task::first_events(parent, plan, &tree).into_iter();
            let rest = events.filter(|event| there.is_none() || !matches!(event, Event::Created { .. }));
            return Some(rest.map(|event| (child.clone(), event)).collect());
        }
        None
    }

    /// A task is cancelled with the end of its parent, however that comes, and stops and goes on with it. And should the log
    /// end between the end of a branch and the result of its parent's call, the result follows.
    fn follow_parent(&self, task: &Task) -> Option<Vec<Fact>> {
        let parent = self.parent(task)?;
        if let Some(state) = task.end_state() {
            let text = task.result().or(task.reason());
            let note = task.worktree_note(state == EndState::Completed);
            let event = task::branch_result(parent, &task.id, state, text, note)?;
            return Some(vec![(parent.id.clone(), event)]);
        }
        let event = if parent.is_stopping() {
            let follows = !task.is_ending() && !task.is_stopped();
            follows.then_some(Event::StopRequested { reason: None })
        } else if parent.is_ending() {
            (!task.is_ending()).then_some(Event::CancelRequested)
        } else {
            let goes_on = task.is_stopped() && !parent.state().is_final() && !parent.is_interrupted();
            goes_on.then_some(Event::Resumed)
        };
        event.map(|event| vec![(task.id.clone(), event)])
    }

    /// The branches as clients see them.
    pub fn nodes(&self) -> Vec<TreeNode> {
        let node = |task: &Task| {
            let Usage { tokens_in, tokens_out, cache_reads, cache_writes, cost_usd } = task.totals.usage;
            let state = self.state_of(task);
            TreeNode {
                id: task.id.clone(),
                parent_id: task.parent.clone(),
                mode: task.settings.mode.clone(),
                emoji: task.settings.emoji.clone(),
                title: task.title().to_owned(),
                state,
                started_at: task.created_at,
                ended_at: state.is_final().then_some(task.updated_at),
                tokens: [tokens_in, tokens_out, cache_reads, cache_writes].iter().sum(),
                cost_usd,
            }
        };
        self.tasks.iter().map(node).collect()
    }

    /// The tree as prompts show it, with a mark at this task.
    pub fn draw(&self, here: &TaskId) -> String {
        delegation::draw(&self.branches(), self.places.get(here).copied())
    }

    /// The tree with one branch more, marked.
    fn draw_with(&self, parent: &Task, (emoji, title): (&str, &str)) -> String {
        let mut branches = self.branches();
        let parent = self.places.get(&parent.id).copied();
        branches.push(delegation::Branch { parent, emoji, title });
        let here = branches.len() - 1;
        delegation::draw(&branches, Some(here))
    }

    fn branches(&self) -> Vec<delegation::Branch<'_>> {
        let place = |id: &TaskId| self.places.get(id).copied();
        self.tasks
            .iter()
            .map(|task| delegation::Branch {
                parent: task.parent.as_ref().and_then(place),
                emoji: &task.settings.emoji,
                title: task.title(),
            })
            .collect()
    }
}

/// Who reads what the user says to a task.
enum Reader<'a> {
    /// The task itself.
    Itself,
    /// The branch for which it waits.
    Branch(&'a Task),
    /// One of several branches for which it waits: nobody can say which. Where they have stopped, each of them reads it before
    /// it goes on.
    Several(Vec<&'a Task>),
}

/// Returns whether a branch works, or has stopped and goes on with its request.
fn goes_on(branch: &Task) -> bool {
    branch.is_stopped() || !branch.state().is_final() && !branch.is_ending()
}

/// Returns whether there are such branches, and all of them have stopped.
fn have_stopped(branches: &[&Task]) -> bool {
    !branches.is_empty() && branches.iter().all(|branch| branch.is_stopped())
}

/// Puts messages into the queue of each of these branches.
fn hand_to(branches: &[&Task], items: &[QueueItem]) -> Vec<Fact> {
    let handed = |branch: &&Task| Some((branch.id.clone(), branch.with_returned(items)?));
    branches.iter().filter_map(handed).collect()
}

/// Gives the messages that a branch leaves unread when it ends to its parent, before it ends: they must not be lost.
fn facts_of_return(parent: &Task, branch: &Task) -> Vec<Fact> {
    let facts = [(parent, parent.with_returned(&branch.queue)), (branch, branch.without_queue())];
    facts.into_iter().filter_map(|(task, event)| Some((task.id.clone(), event?))).collect()
}

fn facts_of(task: &Task, events: Vec<Event>) -> Vec<Fact> {
    events.into_iter().map(|event| (task.id.clone(), event)).collect()
}

#[cfg(test)]
mod tests;
