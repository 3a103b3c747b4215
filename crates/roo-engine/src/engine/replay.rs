//! Replay of a request's log: what came from outside is taken out of its events, given to the pure machine again, and
//! each event that the machine derives is compared with the recorded one.
//!
//! From outside come: the user's words and answers, the model's answers as blocks, verdicts of the gate, results of
//! tools, messages of hooks, times and ids. Everything else is derived: which event follows, its number, questions,
//! limits, corrections, summaries in their place, the beginning and the end of branches. A log has no inputs of its own;
//! `task::inputs_of` finds them in the events. Nothing is read but the records, and nothing is run.

use std::collections::HashSet;

use serde::Serialize;

use super::event::{AnswerWords, Event};
use super::shared_records::as_own;
use super::task::{self, Input, Task, TimedInput};
use super::tree::{Fact, Tree};
use roo_durable::Record;
use roo_model::prompts::replies;
use roo_protocol::ids::TaskId;

/// The most events that one input may have led to.
const MAX_APPENDED_EVENTS: usize = 1024;

/// How many events were replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Replayed {
    /// All events.
    pub events: u64,
    /// Those of them that were taken as they are, as they came from outside: the beginning of the request and of forks,
    /// restores of earlier states, what only earlier versions wrote, and what was imported.
    pub given: u64,
    /// Those of them that were made from another program's history, with the two that begin it: no replay says anything
    /// about them.
    #[serde(skip_serializing_if = "is_zero")]
    pub imported: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The first place where a log differs from what the machine derives.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayDifference {
    /// The number of the event.
    pub seq: u64,
    /// The recorded event; none where the log goes on without what the machine derives.
    pub expected: Option<ReplayedEvent>,
    /// The derived event; none where the machine derives nothing.
    pub got: Option<ReplayedEvent>,
}

/// An event of one of the request's tasks.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayedEvent {
    pub task_id: TaskId,
    pub event: Event,
}

/// Replays the records of a request, also those that it shares with the one that it was forked from.
///
/// # Errors
/// The first difference.
pub fn replay(root: &TaskId, records: &[Record<Event>]) -> Result<Replayed, Box<ReplayDifference>> {
    if records.iter().any(|record| record.task_id.root() != *root) {
        let mut own = records.to_vec();
        own.iter_mut().for_each(|record| as_own(root, record));
        return replay_own(root, &own);
    }
    replay_own(root, records)
}

/// Replays records under the request's own ids.
fn replay_own(root: &TaskId, records: &[Record<Event>]) -> Result<Replayed, Box<ReplayDifference>> {
    let goals = records.iter().filter_map(|record| match &record.event {
        Event::RestoreStarted { restore } => restore.cut.as_ref().map(|cut| cut.before),
        _ => None,
    });
    let goals: HashSet<u64> = goals.collect();
    let mut run = Run {
        tree: begin(root, records)?,
        records,
        goals: &goals,
        next: 0,
        settles: false,
        looks_ahead: true,
        given: 0,
    };
    let imported = imported_records(records);
    match imported {
        0 => run.begin_request(),
        count => run.begin_import(count),
    }
    while run.next < records.len() {
        run.step()?;
    }
    Ok(Replayed { events: records.len() as u64, given: run.given, imported: imported as u64 })
}

/// The number of the first records that are an import; 0 for any other request.
fn imported_records(records: &[Record<Event>]) -> usize {
    let Some(Event::Imported { events, .. }) = records.get(1).map(|record| &record.event) else { return 0 };
    let own = records.iter().position(|record| cuts_off(&record.event)).unwrap_or(records.len());
    usize::try_from(*events).map_or(own, |events| own.min(events.saturating_add(2)))
}

/// The state that the first record makes.
fn begin(root: &TaskId, records: &[Record<Event>]) -> Result<Option<Tree>, Box<ReplayDifference>> {
    let Some(first) = records.first() else { return Ok(None) };
    match Task::created(root.clone(), &first.event, first.seq, first.at) {
        Some(task) => Ok(Some(Tree::new(task))),
        None => {
            Err(Box::new(ReplayDifference { seq: first.seq, expected: Some(recorded(first)), got: None }))
        }
    }
}

fn recorded(record: &Record<Event>) -> ReplayedEvent {
    ReplayedEvent { task_id: record.task_id.clone(), event: record.event.clone() }
}

/// A replay on its way.
#[derive(Clone)]
struct Run<'a> {
    /// None for a log without records.
    tree: Option<Tree>,
    records: &'a [Record<Event>],
    /// Numbers of the events before which restores go back to.
    goals: &'a HashSet<u64>,
    /// Index of the next record.
    next: usize,
    /// False behind messages of hooks: what they belong to comes before anything follows from the state.
    settles: bool,
    /// False in a look at what would come next.
    looks_ahead: bool,
    given: u64,
}

/// How far facts agree with the records, from worse to better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Agreement {
    explanation: Explanation,
    /// Number of facts that were recorded.
    facts: usize,
}

/// Whether facts explain the records.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Explanation {
    /// They don't.
    No,
    /// If the others were lost: the server was killed before it had written them, and has left no trace of that, as
    /// the request was interrupted already.
    IfCutOff,
    /// All of them were recorded, or the others were lost with the server.
    Yes,
}

impl Run<'_> {
    /// Takes the first events of the request, which are one append.
    fn begin_request(&mut self) {
        let said = |record: &Record<Event>| matches!(record.event, Event::UserSaid { .. });
        let first = 1 + usize::from(self.records.get(1).is_some_and(said));
        self.take(first.min(self.records.len()));
        self.settles = true;
    }

    /// Takes the events of an import.
    fn begin_import(&mut self, count: usize) {
        self.take(count);
        self.settles = true;
    }

    /// Explains the next records: they are what follows from the state, or what an input leads to.
    fn step(&mut self) -> Result<(), Box<ReplayDifference>> {
        let (Some(tree), Some(record)) = (&self.tree, self.records.get(self.next)) else { return Ok(()) };
        match &record.event {
            Event::Interrupted => {
                let facts = tree.interrupt();
                self.follow(&facts)?;
                // Restores that the server could not finish are settled in the same append.
                while let Some(Event::RestoreFinished { .. }) = self.event() {
                    self.take(1);
                }
                self.settles = true;
                return Ok(());
            }
            Event::Forked { .. } => {
                self.take(1);
                self.settles = true;
                return Ok(());
            }
            // Earlier versions stopped a branch without a look at its work tree.
            Event::Stopped { .. } if tree.task(&record.task_id).is_some_and(Task::closes_worktree) => {
                self.take(1);
                return Ok(());
            }
            Event::RestoreStarted { .. } | Event::RestoreFinished { .. } | Event::ContextReduced { .. } => {
                self.take(1);
                return Ok(());
            }
            Event::QuestionAnswered { text: Some(text), .. }
                if tree.is_earlier_stop(&record.task_id, text) =>
            {
                self.take(1);
                if let Some(Event::Halted { .. }) = self.event() {
                    self.take(1);
                }
                return Ok(());
            }
            _ => {}
        }
        if let Some(count) = self.earlier_message(tree) {
            self.take(count);
            return Ok(());
        }
        let mut follows = tree.settle();
        if !follows.is_empty() && self.settles {
            self.forget_if_earlier(&mut follows);
            return self.follow(&follows);
        }
        let mut best: Option<(Agreement, Vec<Fact>, bool)> = None;
        for (task, (input, at)) in self.inputs(tree) {
            let is_of_hooks = matches!(input, Input::HookMessages(_));
            let facts = tree.decide(&task, input, at);
            let agreement = self.compare(&facts);
            if best.as_ref().is_none_or(|(known, ..)| agreement > *known) {
                best = Some((agreement, facts, is_of_hooks));
            }
        }
        match best {
            Some((agreement, facts, is_of_hooks))
                if follows.is_empty() || agreement.explanation > Explanation::No =>
            {
                match self.cut_within(agreement) {
                    Some(count) => self.replayed(count),
                    None => self.follow(&facts)?,
                }
                self.settles = !is_of_hooks;
                Ok(())
            }
            // What belonged to the messages of hooks led to nothing.
            _ if !follows.is_empty() => {
                self.settles = true;
                self.follow(&follows)
            }
            _ => Err(self.difference(0, &[])),
        }
    }

    /// The number of the next records by which earlier versions resumed a request that was stopped with several branches, and kept
    /// what its user said until all of them had ended; none for anything else.
    fn earlier_message(&self, tree: &Tree) -> Option<usize> {
        let rest = &self.records[self.next..];
        let resumed = rest.iter().take_while(|record| record.event == Event::Resumed).count();
        let id = &rest[..resumed].last()?.task_id;
        match rest.get(resumed..resumed + 2)? {
            [
                Record { event: Event::QueueChanged { .. }, task_id, .. },
                Record { event: Event::Shown { message }, .. },
            ] if task_id == id && message.id.as_str().ends_with(".waits") && tree.is_earlier_reader(id) => {
                Some(resumed + 2)
            }
            _ => None,
        }
    }

    /// Takes out of facts what follows from the end of a stopped request, where an earlier version has recorded less: it handed
    /// nothing to several branches, and did not look at what was said to a branch meanwhile.
    fn forget_if_earlier(&self, follows: &mut Vec<Fact>) {
        let Agreement { explanation, facts: recorded } = self.compare(follows);
        let is_earlier = match follows.split_at(recorded) {
            ([.., (_, Event::Ended { .. })], [(_, Event::Resumed), ..]) => true,
            // One branch is handed two events: its own queue and that of the root.
            ([.., (_, Event::Resumed)], handed) => handed.len() > 2,
            _ => false,
        };
        if explanation == Explanation::No && is_earlier {
            follows.truncate(recorded);
        }
    }

    /// Returns after how many of the recorded facts the server was killed, where nothing else explains what comes next.
    /// In a request that was interrupted already, such an end leaves no trace of its own.
    fn cut_within(&self, agreement: Agreement) -> Option<usize> {
        if !self.looks_ahead || agreement.explanation == Explanation::No || !self.is_interrupted() {
            return None;
        }
        let goes_on = |count: &usize| {
            let mut ahead = Self { looks_ahead: false, ..self.clone() };
            ahead.replayed(*count);
            ahead.step().is_ok()
        };
        if goes_on(&agreement.facts) {
            return None;
        }
        (1..agreement.facts).rev().find(goes_on)
    }

    fn is_interrupted(&self) -> bool {
        self.tree.as_ref().is_some_and(|tree| tree.tasks().iter().any(Task::is_interrupted))
    }

    /// The inputs that may have led to the next records, with the tasks that they were for.
    fn inputs(&self, tree: &Tree) -> Vec<(TaskId, TimedInput)> {
        let rest = &self.records[self.next..];
        let Some(first) = rest.first() else { return vec![] };
        let mut found = vec![];
        if let Some(task) = tree.task(&first.task_id) {
            let is_own = |record: &&Record<Event>| record.task_id == task.id && !cuts_off(&record.event);
            let own = rest.iter().take(MAX_APPENDED_EVENTS).take_while(is_own);
            let events: Vec<&Event> = own.map(|record| &record.event).collect();
            let inputs = || task::inputs_of(task, &events).into_iter();
            found.extend(inputs().map(|input| (task.id.clone(), input)));
            if let Event::QueueChanged { .. } = first.event {
                // What is said to a task that waits for this one is read by this one.
                for above in tree.above(task) {
                    let said = inputs().filter(|(input, _)| matches!(input, Input::Send { .. }));
                    found.extend(said.map(|input| (above.id.clone(), input)));
                }
            }
        }
        let is_first_of_wake = matches!(
            first.event,
            Event::TurnFailed { .. }
                | Event::ToolRestarted { .. }
                | Event::ToolFinished { .. }
                | Event::Resumed
        );
        if is_first_of_wake {
            // All tasks are woken together, whichever of them the input was for.
            for task in tree.tasks() {
                let own = rest.iter().take(MAX_APPENDED_EVENTS).filter(|record| record.task_id == task.id);
                let inputs = || task::wakes(own.clone().map(|record| &record.event)).into_iter();
                found.extend(inputs().map(|input| (task.id.clone(), (input, 0))));
                for above in tree.above(task) {
                    let said = inputs().filter(|input| matches!(input, Input::Send { .. }));
                    found.extend(said.map(|input| (above.id.clone(), (input, 0))));
                }
            }
        }
        found
    }

    /// Takes the records that these facts were recorded as.
    fn follow(&mut self, facts: &[Fact]) -> Result<(), Box<ReplayDifference>> {
        let agreement = self.compare(facts);
        if agreement.explanation == Explanation::No {
            return Err(self.difference(agreement.facts, facts));
        }
        self.replayed(agreement.facts);
        Ok(())
    }

    fn compare(&self, facts: &[Fact]) -> Agreement {
        let rest = &self.records[self.next..];
        let same = rest.iter().zip(facts).take_while(|(record, fact)| is_recorded_as(fact, record)).count();
        let is_end = || rest.get(same).is_none_or(|record| cuts_off(&record.event));
        let explanation = match same {
            0 => Explanation::No,
            _ if same == facts.len() || is_end() => Explanation::Yes,
            _ if self.is_interrupted() => Explanation::IfCutOff,
            _ => Explanation::No,
        };
        Agreement { explanation, facts: same }
    }

    fn difference(&self, agreed: usize, facts: &[Fact]) -> Box<ReplayDifference> {
        let record = self.records.get(self.next + agreed);
        let last = self.records.last().map_or(0, |record| record.seq);
        Box::new(ReplayDifference {
            seq: record.map_or(last + 1, |record| record.seq),
            expected: record.map(recorded),
            got: facts
                .get(agreed)
                .map(|(task_id, event)| ReplayedEvent { task_id: task_id.clone(), event: event.clone() }),
        })
    }

    fn event(&self) -> Option<&Event> {
        self.records.get(self.next).map(|record| &record.event)
    }

    /// Takes records as they are.
    fn take(&mut self, count: usize) {
        self.given += count as u64;
        self.replayed(count);
    }

    /// Folds the next records.
    fn replayed(&mut self, count: usize) {
        let Some(tree) = &mut self.tree else { return };
        for record in &self.records[self.next..self.next + count] {
            if self.goals.contains(&record.seq) {
                tree.mark(record.seq, tree.root().clone());
            }
            tree.apply(&record.task_id, &record.event, record.seq, record.at);
        }
        self.next += count;
    }
}

/// Returns whether an event may come before all that follows from the one before it: the server was killed there, or the
/// request was forked there.
fn cuts_off(event: &Event) -> bool {
    matches!(event, Event::Interrupted | Event::Forked { .. })
}

/// Returns whether a fact is what was recorded. Whether hooks are to be asked about a message is not the machine's to
/// say.
fn is_recorded_as((task, event): &Fact, record: &Record<Event>) -> bool {
    if *task != record.task_id {
        return false;
    }
    match (event, &record.event) {
        (
            Event::UserSaid { message, text, mentions, hooks: _ },
            Event::UserSaid { message: said, text: told, mentions: mentioned, hooks: _ },
        ) => (message, text, mentions) == (said, told, mentioned),
        (
            Event::QuestionAnswered { question_id, by, text, images, mode, words },
            Event::QuestionAnswered {
                question_id: asked,
                by: author,
                text: told,
                images: shown,
                mode: chosen,
                words: recorded,
            },
        ) => {
            // Earlier versions recorded none.
            let same = |recorded: &AnswerWords| {
                let words = words.as_ref().map(|words| (&words.message_id, words.mentions));
                words == Some((&recorded.message_id, recorded.mentions))
            };
            (question_id, by, text, images, mode) == (asked, author, told, shown, chosen)
                && recorded.as_ref().is_none_or(same)
        }
        // Earlier versions said of a request that was stopped that it was cancelled.
        (Event::ToolFinished { result, .. }, Event::ToolFinished { result: recorded, .. })
            if result.text == replies::stopped()
                && [replies::cancelled(), replies::skipped()].contains(&recorded.text) =>
        {
            (&result.call_id, result.status) == (&recorded.call_id, recorded.status)
        }
        // Earlier versions looked for no circles.
        (Event::ToolFinished { circle: Some(_), .. }, Event::ToolFinished { circle: None, .. }) => {
            let mut event = event.clone();
            if let Event::ToolFinished { circle, .. } = &mut event {
                *circle = None;
            }
            event == record.event
        }
        (event, recorded) => event == recorded,
    }
}
