//! The rules of a tree, one by one, and held over random lives: whatever models, gates, users and
//! branches do in whatever order, and wherever the server is killed.

use std::collections::HashMap;

use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::RngSeed;
use serde_json::json;

use super::*;
use crate::engine::event::BranchWorktree;
use crate::engine::replay::{Replayed, replay};
use crate::engine::shared_records::as_own;
use crate::engine::task::{Choice, CompactionOutcome, Effect, Gathered, Remedy, SamplingTally, wanted};
use crate::policy::{
    AskRule, ModeChange, NamedAllowRule, Plan, PlannedBranch, PlannedFile, PlannedMerge, PlannedPatch,
    PlannedWrite, PolicyDecision, RefusalRule,
};
use crate::tool_run::Outcome;
use roo_catalog::{ToolCall, ToolProtocol};
use roo_formats::config::Limits;
use roo_formats::modes::delegation::Delegation;
use roo_model::parser::Block;
use roo_model::providers::{Finish, Item};
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::{Digest, MessageId, ToolCallId, Urid};
use roo_protocol::message::{Message, MessageKind, Say};
use roo_protocol::task::{ForkOrigin, SendWhen};

const NOW: i64 = 1_000_000;
const LIMITS: Limits = Limits {
    requests: 40,
    cost_usd: 0.0,
    mistakes: 3,
    depth: 4,
    branches: 12,
    command_timeout_sec: None,
    background_after_sec: 30,
};

/// A tree with its driver: folds what it decides and settles, as the actor does.
#[derive(Clone)]
struct Sim {
    tree: Tree,
    log: Vec<Record<Event>>,
    /// Length of the log that is known to be on disk.
    durable: usize,
}

impl Sim {
    fn new(limits: Limits) -> Self {
        let id = TaskId::new("root");
        let created = Event::Created {
            parent: None,
            urid: Urid::new("20250101-10-00-00000000"),
            mode: "orchestrator".into(),
            profile: "default".into(),
            protocol: ToolProtocol::Native,
            title: "Do it".into(),
            limits,
            emoji: "🪃".into(),
            gather: false,
            unread: vec![],
            pinned: false,
            intent: None,
            within: vec![],
            worktree: false,
        };
        let said = Event::UserSaid {
            message: Message {
                id: MessageId::new("m1"),
                kind: MessageKind::Say(Say::Text),
                text: "Do it.".into(),
                images: vec![],
            },
            text: "Do it.".into(),
            mentions: false,
            hooks: false,
        };
        let task = Task::created(id.clone(), &created, 1, NOW).unwrap();
        let mut sim = Self { tree: Tree::new(task), log: vec![], durable: 0 };
        sim.commit(vec![(id.clone(), created), (id, said)]);
        sim.durable = sim.log.len();
        sim.settle();
        sim
    }

    fn commit(&mut self, facts: Vec<Fact>) {
        for (task_id, event) in facts {
            let record = Record { seq: self.log.len() as u64 + 1, at: NOW, task_id, event };
            self.tree.apply(&record.task_id, &record.event, record.seq, record.at);
            self.log.push(record);
        }
    }

    fn settle(&mut self) {
        for _ in 0..400 {
            let facts = self.tree.settle();
            if facts.is_empty() {
                return;
            }
            self.commit(facts);
        }
        panic!("never settled: {:#?}", self.log.last());
    }

    fn input(&mut self, task: &TaskId, input: Input) -> usize {
        let facts = self.tree.decide(task, input, NOW);
        let count = facts.len();
        self.commit(facts);
        self.settle();
        count
    }

    /// The server is killed with this much of the log on disk, and another one opens it.
    fn killed_at(&mut self, length: usize) {
        self.log.truncate(length);
        self.tree = Tree::fold(&TaskId::new("root"), &self.log).unwrap();
        self.commit(self.tree.interrupt());
        self.settle();
        self.durable = self.log.len();
    }

    fn ids(&self) -> Vec<TaskId> {
        self.tree.tasks().iter().map(|task| task.id.clone()).collect()
    }

    fn task(&self, id: &TaskId) -> &Task {
        self.tree.task(id).unwrap()
    }

    /// The model of a task answers with these calls.
    fn says(&mut self, id: &TaskId, calls: &[ModelAnswer]) {
        for (index, said) in calls.iter().enumerate() {
            let block = said.block(self.log.len() + index);
            self.input(id, Input::ModelBlock { block, origin: "a/b".into() });
        }
        self.input(
            id,
            Input::ModelEnded {
                finish: Finish::Done,
                used: Usage { tokens_out: 1, ..Usage::default() },
                frame: None,
                tail: None,
                beginning: None,
            },
        );
    }

    /// The gate allows the current call of a task.
    fn allows(&mut self, id: &TaskId) {
        let Some(Effect::Gate { .. }) = wanted(self.task(id)) else { panic!("nothing to judge") };
        let decision = allow(&self.task(id).call_as_it_runs().unwrap());
        self.input(id, Input::Gated(decision));
    }

    /// The model of a task delegates, and the gate allows it. The branches.
    fn delegates(&mut self, id: &TaskId, titles: &[&'static str]) -> Vec<TaskId> {
        let before = self.tree.tasks().len();
        self.says(id, &titles.iter().map(|title| ModelAnswer::Delegate(title)).collect::<Vec<_>>());
        for _ in titles {
            self.allows(id);
        }
        self.ids().split_off(before)
    }

    fn completes(&mut self, id: &TaskId, result: &'static str) {
        self.says(id, &[ModelAnswer::Complete(result)]);
        self.allows(id);
    }

    /// The results in a task's conversation, newest answer last.
    fn results(&self, id: &TaskId) -> Vec<(ToolStatus, String)> {
        let items = self.task(id).conversation.items().iter();
        let results = items.filter_map(|item| match item {
            Item::Results { results } => Some(results),
            _ => None,
        });
        results.flatten().map(|result| (result.status, result.text.clone())).collect()
    }
}

#[derive(Clone, Copy, Debug)]
enum ModelAnswer {
    Delegate(&'static str),
    Read,
    Command,
    Question,
    Complete(&'static str),
    GiveUp,
    Save,
}

impl ModelAnswer {
    fn block(self, number: usize) -> Block {
        let (name, params) = match self {
            Self::Delegate(title) => ("new_task", json!({ "mode": "code", "message": title })),
            Self::Read => ("read_file", json!({ "path": format!("{number}") })),
            Self::Command => ("execute_command", json!({ "command": format!("make {number}") })),
            Self::Question => {
                let suggestions = json!([{ "text": "This.", "mode": "ask" }, { "text": "That." }]);
                ("ask_followup_question", json!({ "question": "Which?", "follow_up": suggestions }))
            }
            Self::Complete(result) => ("attempt_completion", json!({ "result": result })),
            Self::GiveUp => ("complete_with_failure", json!({ "reason": "It can't be done." })),
            Self::Save => ("write_to_file", json!({ "path": "notes.md", "content": format!("{number}") })),
        };
        let params = params.as_object().unwrap().clone();
        Block::Call { id: None, name: name.into(), params, fenced: false, problem: None }
    }
}

fn allow(call: &ToolCall) -> PolicyDecision {
    let plan = match call.params.get("message").and_then(|message| message.as_str()) {
        Some(title) if call.name == "new_task" => Plan::Branch(Box::new(PlannedBranch {
            mode: "code".into(),
            emoji: "💻".into(),
            profile: "default".into(),
            protocol: ToolProtocol::Native,
            delegation: Delegation {
                title: title.into(),
                before: "Do it.".into(),
                context_files: vec![],
                next_step: String::new(),
            },
            task_directory: Some(".roo/tasks/20250101-10-00-00000000".into()),
            todos: vec![],
            worktree: title.starts_with("Apart"),
        })),
        _ if call.name == "write_to_file" => Plan::Write(PlannedWrite {
            path: ".roo/tasks/20250101-10-00-00000000/notes.md".into(),
            before: None,
            after: Digest::of("a"),
            shared: true,
        }),
        _ if call.name == "switch_mode" => {
            Plan::Mode(ModeChange { mode: Some(("ask".into(), "❓".into())), profile: None })
        }
        _ => Plan::Nothing,
    };
    PolicyDecision::Allow { rule: NamedAllowRule::Delegate.into(), reason: "so".into(), plan }
}

fn root() -> TaskId {
    TaskId::new("root")
}

#[test]
fn a_branch_begins_with_its_brief_and_its_place_in_the_tree() {
    let mut sim = Sim::new(LIMITS);
    let branches = sim.delegates(&root(), &["Mend it"]);
    let branch = sim.task(&branches[0]);
    assert_eq!((branch.parent.as_ref(), branch.title()), (Some(&root()), "Mend it"));
    let Some(Item::User { text, .. }) = branch.conversation.items().get(0) else { panic!() };
    insta::assert_snapshot!(text, @r"
    <delegated_task>
    💻 Mend it

    URID: 20250101-10-00-00000000

    Do it.

    🪃 Do it
    └── 💻 Mend it
        ^ we are here
    </delegated_task>

    URID: 20250101-10-00-00000000
    Task directory: .roo/tasks/20250101-10-00-00000000/
    ");
    assert_eq!(sim.tree.root().state(), TaskState::Paused);
}

#[test]
fn a_log_of_a_version_that_looked_for_no_circles_replays() {
    let mut sim = Sim::new(LIMITS);
    for path in ["a", "b"].into_iter().cycle().take(8) {
        let params = json!({ "path": path }).as_object().unwrap().clone();
        let block = Block::Call { id: None, name: "read_file".into(), params, fenced: false, problem: None };
        sim.input(&root(), Input::ModelBlock { block, origin: "a/b".into() });
        sim.says(&root(), &[]);
        sim.allows(&root());
        sim.input(&root(), Input::ToolDone(done()));
    }
    let mut log = sim.log.clone();
    for record in &mut log {
        if let Event::ToolFinished { circle, .. } = &mut record.event {
            *circle = None;
        }
    }
    assert_ne!(log, sim.log);
    replay(&root(), &sim.log).unwrap();
    replay(&root(), &log).unwrap();
}

#[test]
fn results_come_back_in_the_order_of_the_calls() {
    let mut sim = Sim::new(LIMITS);
    let branches = sim.delegates(&root(), &["A", "B", "C"]);
    for (at, result) in [(1, "b"), (2, "c"), (0, "a")] {
        assert_eq!(sim.tree.root().state(), TaskState::Paused);
        sim.completes(&branches[at], result);
    }
    let results = sim.results(&root());
    assert!(results.iter().all(|(status, _)| *status == ToolStatus::Ok));
    let order: Vec<bool> = ["a", "b", "c"]
        .iter()
        .zip(&results)
        .map(|(result, (_, text))| text.contains(&format!(">\n{result}\n<")))
        .collect();
    assert_eq!(order, [true; 3], "{results:#?}");
}

#[test]
fn calls_behind_a_delegation_are_not_run_and_keep_their_place() {
    let mut sim = Sim::new(LIMITS);
    sim.says(&root(), &[ModelAnswer::Delegate("A"), ModelAnswer::Command, ModelAnswer::Delegate("B")]);
    sim.allows(&root());
    sim.allows(&root());
    let ids = sim.ids();
    sim.completes(&ids[2], "b");
    sim.completes(&ids[1], "a");
    let statuses: Vec<ToolStatus> = sim.results(&root()).into_iter().map(|(status, _)| status).collect();
    assert_eq!(statuses, [ToolStatus::Ok, ToolStatus::Skipped, ToolStatus::Ok]);
}

#[test]
fn a_branch_that_fails_or_is_cancelled_is_a_failed_result() {
    let mut sim = Sim::new(LIMITS);
    let branches = sim.delegates(&root(), &["A", "B"]);
    sim.says(&branches[0], &[ModelAnswer::GiveUp]);
    sim.allows(&branches[0]);
    sim.input(&branches[1], Input::Cancel);
    let results = sim.results(&root());
    assert_eq!(results[0].0, ToolStatus::Failed);
    assert!(results[0].1.contains("It can't be done."), "{}", results[0].1);
    assert_eq!(results[1].0, ToolStatus::Interrupted);
    assert!(matches!(wanted(sim.tree.root()), Some(Effect::CallModel { .. })), "the parent goes on");
}

#[test]
fn a_cancelled_task_takes_its_branches_along_and_ends_after_them() {
    let mut sim = Sim::new(LIMITS);
    let branches = sim.delegates(&root(), &["A"]);
    let below = sim.delegates(&branches[0], &["B"]);
    sim.input(&root(), Input::Cancel);
    assert!(sim.tree.tasks().iter().all(|task| task.state() == TaskState::Cancelled));
    let ends = sim.log.iter().filter(|record| matches!(record.event, Event::Ended { .. }));
    let order: Vec<&TaskId> = ends.map(|record| &record.task_id).collect();
    assert_eq!(order, [&below[0], &branches[0], &root()]);
}

/// A branch that has done its work leaves its server to its parent; one that is cancelled ends it.
#[test]
fn the_commands_of_a_branch_are_its_parents_when_it_has_completed() {
    for completes in [true, false] {
        let mut sim = Sim::new(LIMITS);
        let branch = sim.delegates(&root(), &["A"]).remove(0);
        sim.says(&branch, &[ModelAnswer::Read]);
        sim.allows(&branch);
        let id = CommandId::new("cmd-9");
        let background = Some((id.clone(), "serve".to_owned()));
        sim.input(&branch, Input::ToolDone(Outcome { background, ..done() }));
        if completes {
            sim.says(&branch, &[ModelAnswer::Complete("Done.")]);
            sim.allows(&branch);
            assert!(sim.task(&branch).state().is_final());
            assert_eq!(sim.tree.owner_of(&id).map(|task| &task.id), Some(&root()));
        } else {
            sim.input(&branch, Input::Cancel);
            assert!(sim.task(&branch).ends_commands() && !sim.task(&branch).state().is_final());
            sim.input(&branch, Input::CommandEnded { id: id.clone(), outcome: done() });
            assert!(sim.task(&branch).state().is_final());
            assert_eq!(sim.tree.owner_of(&id), None);
        }
        let folded = Tree::fold(&root(), &sim.log).unwrap();
        assert_eq!(folded, sim.tree);
    }
}

#[test]
fn the_same_subtask_is_not_begun_a_fourth_time() {
    // Without a limit of mistakes, nothing else ends the row.
    let mut sim = Sim::new(Limits { branches: 64, mistakes: 0, ..LIMITS });
    let fail = |sim: &mut Sim| {
        let branches = sim.delegates(&root(), &["A"]);
        sim.says(&branches[0], &[ModelAnswer::GiveUp]);
        sim.allows(&branches[0]);
    };
    (0..3).for_each(|_| fail(&mut sim));
    assert_eq!(sim.delegates(&root(), &["A"]), []);
    let (status, text) = sim.results(&root()).pop().unwrap();
    assert_eq!(status, ToolStatus::Failed);
    assert!(text.contains("3 attempts"), "{text}");
    sim.input(
        &root(),
        Input::Send { text: "The key is mended.".into(), images: vec![], when: SendWhen::Now },
    );
    sim.says(&root(), &[ModelAnswer::Read]);
    sim.allows(&root());
    sim.input(&root(), Input::ToolDone(done()));
    assert_eq!(sim.delegates(&root(), &["A"]).len(), 1, "the user's word makes up for it");
    replay(&root(), &sim.log).unwrap();
}

#[test]
fn depth_and_number_of_branches_have_their_limits() {
    let mut sim = Sim::new(Limits { depth: 2, branches: 3, ..LIMITS });
    let one = sim.delegates(&root(), &["A"]);
    let two = sim.delegates(&one[0], &["B"]);
    sim.says(&two[0], &[ModelAnswer::Delegate("C")]);
    sim.allows(&two[0]);
    let (status, text) = sim.results(&two[0]).pop().unwrap();
    assert_eq!(status, ToolStatus::Failed);
    assert!(text.contains("at most 2 deep"), "{text}");
    sim.completes(&two[0], "b");
    sim.delegates(&one[0], &["D"]);
    let last = sim.ids().pop().unwrap();
    sim.completes(&last, "d");
    sim.says(&one[0], &[ModelAnswer::Delegate("E")]);
    sim.allows(&one[0]);
    let (status, text) = sim.results(&one[0]).pop().unwrap();
    assert_eq!(status, ToolStatus::Failed);
    assert!(text.contains("3 branches"), "{text}");
}

#[test]
fn branches_are_counted_anew_after_a_message_of_the_user() {
    let mut sim = Sim::new(Limits { branches: 2, ..LIMITS });
    for _ in 0..3 {
        for title in ["A", "B"] {
            let branch = sim.delegates(&root(), &[title]).remove(0);
            sim.completes(&branch, "Done.");
        }
        sim.says(&root(), &[ModelAnswer::Delegate("C")]);
        sim.allows(&root());
        let (_, text) = sim.results(&root()).pop().unwrap();
        assert!(text.contains("2 branches have been begun since the user last said something"), "{text}");
        sim.input(&root(), said("Go on."));
        sim.says(&root(), &[ModelAnswer::Read]);
        sim.allows(&root());
        sim.input(&root(), Input::ToolDone(done()));
    }
    let open = sim.delegates(&root(), &["A"]);
    sim.input(&open[0], said("Go on."));
    sim.says(&open[0], &[ModelAnswer::Read]);
    sim.allows(&open[0]);
    sim.input(&open[0], Input::ToolDone(done()));
    sim.delegates(&open[0], &["B"]);
    let innermost = sim.ids().pop().unwrap();
    sim.says(&innermost, &[ModelAnswer::Delegate("C")]);
    sim.allows(&innermost);
    let (status, _) = sim.results(&innermost).pop().unwrap();
    assert_eq!(status, ToolStatus::Failed, "those that still work count");
    replay(&root(), &sim.log).unwrap();
}

#[test]
fn all_branches_share_one_budget_and_one_answer_about_it() {
    let mut sim = Sim::new(Limits { requests: 3, ..LIMITS });
    let branches = sim.delegates(&root(), &["A", "B"]);
    sim.says(&branches[0], &[ModelAnswer::Command]);
    sim.allows(&branches[0]);
    sim.input(&branches[0], Input::ToolDone(done()));
    assert_eq!(sim.task(&branches[0]).state(), TaskState::Waiting);
    sim.says(&branches[1], &[ModelAnswer::Command]);
    sim.allows(&branches[1]);
    sim.input(&branches[1], Input::ToolDone(done()));
    assert_eq!(sim.task(&branches[1]).question(), None, "the user is asked once");
    assert_eq!(sim.tree.state_of(sim.task(&branches[1])), TaskState::Waiting, "nothing goes on without it");
    let answer = Input::Answer { text: "Go on".into(), images: vec![], by: "anna".into() };
    sim.input(&branches[0], answer);
    for branch in &branches {
        assert!(matches!(wanted(sim.task(branch)), Some(Effect::CallModel { .. })), "{branch}");
    }
}

#[test]
fn whoever_wants_no_more_is_not_asked_again() {
    let mut sim = Sim::new(Limits { requests: 3, ..LIMITS });
    let branches = sim.delegates(&root(), &["A", "B"]);
    sim.says(&branches[0], &[ModelAnswer::Command]);
    sim.allows(&branches[0]);
    sim.input(&branches[0], Input::ToolDone(done()));
    let answer = Input::Answer { text: "Stop".into(), images: vec![], by: "anna".into() };
    sim.input(&branches[0], answer);
    assert!(sim.tree.tasks().iter().all(|task| task.state().is_final()), "{:#?}", sim.tree.nodes());
    assert_eq!(sim.tree.root().state(), TaskState::Failed);
}

/// How a request that was stopped goes on.
#[derive(Clone, Copy, Debug)]
enum GoOn {
    Resume,
    ResumeBranch,
    Say,
}

#[test]
fn a_request_that_was_stopped_goes_on_where_its_branches_were() {
    for how in [GoOn::Resume, GoOn::ResumeBranch, GoOn::Say] {
        for is_killed in [false, true] {
            let mut sim = Sim::new(LIMITS);
            let outer = sim.delegates(&root(), &["A"]).remove(0);
            let inner = sim.delegates(&outer, &["B"]).remove(0);
            sim.says(&inner, &[ModelAnswer::Read]);
            sim.allows(&inner);
            sim.input(&inner, Input::ToolDone(done()));
            let known = sim.task(&inner).conversation.items().len();

            sim.input(&root(), Input::Stop);
            for task in sim.tree.tasks() {
                assert_eq!((task.state(), wanted(task)), (TaskState::Cancelled, None), "{}", task.id);
            }
            assert_eq!((sim.results(&root()), sim.results(&outer)), (vec![], vec![]));
            if is_killed {
                sim.killed_at(sim.log.len());
            }
            match how {
                GoOn::Resume => sim.input(&root(), Input::Resume),
                GoOn::ResumeBranch => sim.input(&inner, Input::Resume),
                GoOn::Say => sim.input(&root(), said("Go on where you were.")),
            };
            sim.check();
            assert!(sim.tree.tasks().iter().all(|task| !task.state().is_final()), "{how:?}");
            assert!(matches!(wanted(sim.task(&inner)), Some(Effect::CallModel { .. })), "{how:?}");
            let now = sim.task(&inner).conversation.items().len();
            assert_eq!(now, known + usize::from(matches!(how, GoOn::Say)));
            if let GoOn::Say = how {
                assert_eq!(sim.newest_words(&inner), words("Go on where you were."));
            }
            sim.completes(&inner, "b");
            sim.completes(&outer, "a");
            let results = sim.results(&root());
            assert!(results[0].0 == ToolStatus::Ok && results[0].1.contains("\na\n"), "{results:?}");
            sim.completes(&root(), "All.");
            sim.check_log();
        }
    }
}

#[test]
fn what_runs_and_waits_when_a_request_is_stopped_comes_to_an_end() {
    let mut sim = Sim::new(LIMITS);
    let branches = sim.delegates(&root(), &["A", "B", "Apart"]);
    sim.says(&branches[0], &[ModelAnswer::Command]);
    sim.allows(&branches[0]);
    sim.says(&branches[1], &[ModelAnswer::Question]);
    sim.allows(&branches[1]);
    sim.input(&branches[2], made("/w/1"));
    sim.input(&root(), Input::Stop);
    assert!(!sim.tree.root().state().is_final(), "a command comes to its own end");
    assert!(sim.task(&branches[1]).question().is_none(), "nobody is asked any more");
    sim.input(&branches[0], Input::ToolDone(done()));
    assert!(!sim.tree.root().state().is_final(), "it is found out what is in a worktree");
    assert_eq!(wanted(sim.task(&branches[2])), Some(Effect::CloseWorktree));
    sim.input(&branches[2], Input::WorktreeClosed { kept: Some("it has changes".into()) });
    assert_eq!(sim.tree.root().state(), TaskState::Cancelled);
    let statuses =
        |sim: &Sim, id: &TaskId| sim.results(id).iter().map(|(status, _)| *status).collect::<Vec<_>>();
    assert_eq!(statuses(&sim, &branches[0]), [ToolStatus::Ok]);
    assert_eq!(statuses(&sim, &branches[1]), [ToolStatus::Skipped]);
    assert!(sim.task(&branches[2]).open_worktree().is_some(), "what is in its worktree is not lost");

    sim.input(&root(), said("Only the tests."));
    assert!(sim.queue(&root()).is_empty());
    for (branch, result) in branches.iter().zip(["a", "b", "c"]) {
        assert_eq!(sim.newest_words(branch), words("Only the tests."));
        assert!(matches!(wanted(sim.task(branch)), Some(Effect::CallModel { .. })), "{branch}");
        sim.says(branch, &[ModelAnswer::Complete(result)]);
        let decision = if *branch == branches[2] { merge_allowed("next") } else { judged(&sim, branch) };
        sim.input(branch, Input::Gated(decision));
    }
    sim.input(&branches[2], Input::ToolDone(done()));
    sim.input(&branches[2], Input::WorktreeClosed { kept: None });
    assert_eq!(statuses(&sim, &root()), [ToolStatus::Ok; 3]);
    replay(&root(), &sim.log).unwrap();
}

/// What a model reads where the user says this.
fn words(text: &str) -> String {
    format!("<user_message>\n{text}\n</user_message>")
}

#[test]
fn what_is_said_to_a_request_that_was_stopped_is_read_by_all_branches_before_they_go_on() {
    for is_killed in [false, true] {
        let mut sim = Sim::new(LIMITS);
        let branches = sim.delegates(&root(), &["A", "B"]);
        let below = sim.delegates(&branches[0], &["C", "D"]);
        sim.input(&root(), Input::Stop);
        if is_killed {
            sim.killed_at(sim.log.len());
        }
        let stopped = sim.clone();
        sim.input(&root(), said("Touch nothing."));
        let readers = [&branches[1], &below[0], &below[1]];
        for task in sim.tree.tasks() {
            let reads = readers.contains(&&task.id);
            assert_eq!(sim.newest_words(&task.id) == words("Touch nothing."), reads, "{}", task.id);
            assert!(task.queue.is_empty() && !task.state().is_final(), "{}", task.id);
        }
        sim.check();
        // Killed within what follows, nobody goes on who has not read it.
        for length in stopped.log.len() + 4..=sim.log.len() {
            let mut killed = sim.clone();
            killed.killed_at(length);
            killed.input(&root(), Input::Resume);
            for reader in readers {
                assert_eq!(killed.newest_words(reader), words("Touch nothing."));
            }
            killed.finish();
            killed.check_log();
        }
    }
}

#[test]
fn what_is_said_while_a_request_stops_is_read_by_all_branches_that_go_on() {
    let mut sim = Sim::new(LIMITS);
    let branches = sim.delegates(&root(), &["A", "B"]);
    sim.says(&branches[0], &[ModelAnswer::Command]);
    sim.allows(&branches[0]);
    sim.input(&root(), Input::Stop);
    sim.input(&root(), said("Touch nothing."));
    let before = sim.clone();
    sim.input(&branches[0], Input::ToolDone(done()));
    assert!(sim.queue(&root()).is_empty());
    for branch in &branches {
        assert_eq!(sim.newest_words(branch), words("Touch nothing."));
        assert!(matches!(wanted(sim.task(branch)), Some(Effect::CallModel { .. })));
    }
    replay(&root(), &sim.log).unwrap();

    // Earlier versions left it to the request's own task.
    let mut earlier = before;
    earlier.input_in_earlier_version(&branches[0], Input::ToolDone(done()));
    assert_eq!(earlier.queue(&root()), ["Touch nothing."]);
    replay(&root(), &earlier.log).unwrap();
}

#[test]
fn what_is_said_to_a_branch_while_its_request_stops_lets_that_go_on() {
    for is_first in [false, true] {
        let mut sim = Sim::new(LIMITS);
        let branches = sim.delegates(&root(), &["A", "B"]);
        sim.says(&branches[0], &[ModelAnswer::Command]);
        sim.allows(&branches[0]);
        sim.input(&branches[0], said("Be quick."));
        sim.input(&root(), Input::Stop);
        let told = &branches[usize::from(!is_first)];
        sim.input(told, said("Only the tests."));
        let before = sim.clone();
        sim.input(&branches[0], Input::ToolDone(done()));
        assert_eq!(sim.tree.root().state(), TaskState::Paused);
        assert_eq!(sim.newest_words(told), words("Only the tests."));
        for branch in &branches {
            assert!(matches!(wanted(sim.task(branch)), Some(Effect::CallModel { .. })));
        }
        replay(&root(), &sim.log).unwrap();

        // Earlier versions let it wait until somebody resumed the request.
        let mut earlier = before;
        earlier.input_in_earlier_version(&branches[0], Input::ToolDone(done()));
        assert!(earlier.tree.root().is_stopped());
        earlier.input(&root(), Input::Cancel);
        replay(&root(), &earlier.log).unwrap();
    }
    let mut sim = Sim::new(LIMITS);
    let branch = sim.delegates(&root(), &["A"]).remove(0);
    sim.says(&branch, &[ModelAnswer::Command]);
    sim.allows(&branch);
    sim.input(&branch, said("Be quick."));
    sim.input(&root(), Input::Stop);
    sim.input(&branch, Input::ToolDone(done()));
    assert!(sim.tree.root().is_stopped(), "what was said before does not let it go on");
    assert_eq!(sim.queue(&branch), ["Be quick."]);
}

impl Sim {
    /// As [`Sim::input`] in an earlier version: what was said while the request stopped was not handed to several branches, and
    /// what was said to a branch then was not looked at.
    fn input_in_earlier_version(&mut self, task: &TaskId, input: Input) {
        self.commit(self.tree.decide(task, input, NOW));
        loop {
            let mut facts = self.tree.settle();
            if facts.is_empty() {
                return;
            }
            let resumed = facts.iter().position(|(_, event)| *event == Event::Resumed);
            if let Some(resumed) = resumed.filter(|_| facts.len() > 1) {
                let is_behind_end = matches!(facts[resumed - 1], (_, Event::Ended { .. }));
                facts.truncate(if is_behind_end { resumed } else { resumed + 1 });
            }
            self.commit(facts);
        }
    }
}

#[test]
fn a_message_that_an_earlier_version_kept_from_stopped_branches_replays() {
    let mut sim = Sim::new(LIMITS);
    sim.delegates(&root(), &["A", "B"]);
    sim.input(&root(), Input::Stop);
    let item = sim.tree.root().queue_item("Touch nothing.".into(), vec![], SendWhen::Now);
    let events = [
        Event::Resumed,
        Event::QueueChanged { items: vec![item] },
        Event::Shown { message: sim.tree.root().waits_for_subtasks() },
    ];
    sim.commit(events.map(|event| (root(), event)).into());
    sim.settle();
    let replayed = replay(&root(), &sim.log).unwrap();
    assert_eq!(replayed, Replayed { events: sim.log.len() as u64, given: 5, imported: 0 });
}

#[test]
fn calls_that_are_not_run_as_a_request_stops_may_be_made_when_it_goes_on() {
    let mut sim = Sim::new(LIMITS);
    let branch = sim.delegates(&root(), &["A"]).remove(0);
    sim.says(&branch, &[ModelAnswer::Question]);
    sim.allows(&branch);
    sim.input(&root(), Input::Stop);
    sim.input(&root(), Input::Resume);
    let results = sim.results(&branch);
    assert_eq!(results, [(ToolStatus::Skipped, replies::stopped())]);
    replay(&root(), &sim.log).unwrap();

    // Earlier versions told the model that the task was cancelled.
    for record in &mut sim.log {
        if let Event::ToolFinished { result, summary, .. } = &mut record.event {
            result.text = replies::cancelled();
            summary.clone_from(&result.text);
        }
    }
    replay(&root(), &sim.log).unwrap();

    let mut sim = Sim::new(LIMITS);
    let branch = sim.delegates(&root(), &["A"]).remove(0);
    sim.says(&branch, &[ModelAnswer::Question]);
    sim.allows(&branch);
    sim.input(&root(), Input::Cancel);
    let told = sim.log.iter().any(|record| {
        matches!(&record.event, Event::ToolFinished { result, .. } if result.text == replies::cancelled())
    });
    assert!(told, "what has ended for good does not go on");
}

#[test]
fn a_branch_that_stops_gives_up_a_worktree_in_which_nothing_is_missed_and_gets_another_one() {
    let mut sim = Sim::new(LIMITS);
    let branches = sim.delegates(&root(), &["Apart", "Apart too"]);
    sim.input(&branches[0], made("/w/1"));
    sim.input(&branches[1], made("/w/2"));
    sim.input(&root(), Input::Stop);
    for branch in &branches {
        assert_eq!(wanted(sim.task(branch)), Some(Effect::CloseWorktree));
        sim.input(branch, Input::WorktreeClosed { kept: None });
        assert_eq!(
            wanted(sim.task(branch)),
            Some(Effect::CloseWorktree),
            "it is recorded before it is removed"
        );
    }
    sim.input(&branches[0], Input::WorktreeClosed { kept: None });
    // The other one is not removed any more.
    let length = sim.log.len();
    sim.killed_at(length);
    assert_eq!(sim.tree.root().state(), TaskState::Cancelled);
    replay(&root(), &sim.log).unwrap();
    let is_of_now =
        |record: &Record<Event>| matches!(record.event, Event::WorktreeUnused | Event::WorktreeClosed { .. });
    let stop = sim.log.iter().position(is_of_now).unwrap();
    let mut old = sim.log[..stop].to_vec();
    old.extend(sim.log.iter().filter(|record| matches!(record.event, Event::Stopped { .. })).cloned());
    replay(&root(), &old).unwrap();

    sim.input(&root(), Input::Resume);
    for branch in &branches {
        assert_eq!(wanted(sim.task(branch)), Some(Effect::MakeWorktree));
        sim.input(branch, made("/w/3"));
        assert!(matches!(wanted(sim.task(branch)), Some(Effect::CallModel { .. })));
    }
    replay(&root(), &sim.log).unwrap();
}

fn judged(sim: &Sim, id: &TaskId) -> PolicyDecision {
    allow(&sim.task(id).call_as_it_runs().unwrap())
}

#[test]
fn what_is_said_while_a_request_stops_is_read_by_the_branch_that_goes_on() {
    let mut sim = Sim::new(LIMITS);
    let branch = sim.delegates(&root(), &["A"]).remove(0);
    sim.says(&branch, &[ModelAnswer::Command]);
    sim.allows(&branch);
    sim.input(&root(), Input::Stop);
    sim.input(&root(), said("Only the tests."));
    sim.input(&branch, Input::ToolDone(done()));
    assert_eq!(sim.tree.root().state(), TaskState::Paused);
    assert_eq!((sim.queue(&root()), sim.queue(&branch)), (vec![], vec![]));
    assert_eq!(sim.newest_words(&branch), "<user_message>\nOnly the tests.\n</user_message>");
    assert!(matches!(wanted(sim.task(&branch)), Some(Effect::CallModel { .. })));
    replay(&root(), &sim.log).unwrap();
}

#[test]
fn a_request_that_was_stopped_can_be_ended_for_good() {
    let mut sim = Sim::new(LIMITS);
    let outer = sim.delegates(&root(), &["A"]).remove(0);
    let inner = sim.delegates(&outer, &["B"]).remove(0);
    sim.input(&root(), Input::Stop);
    assert!(sim.tree.tasks().iter().all(Task::is_stopped));
    sim.input(&root(), Input::Cancel);
    assert!(sim.tree.tasks().iter().all(|task| task.state().is_final() && !task.is_stopped()));
    assert_eq!(sim.results(&root())[0].0, ToolStatus::Interrupted);
    for branch in [&outer, &inner] {
        assert_eq!(sim.input(branch, Input::Resume), 0);
    }
    sim.check_log();
}

#[test]
fn a_branch_that_has_stopped_can_be_ended_by_itself() {
    for is_killed in [false, true] {
        let mut sim = Sim::new(LIMITS);
        let branches = sim.delegates(&root(), &["A", "B"]);
        let below = sim.delegates(&branches[0], &["C"]).remove(0);
        sim.input(&root(), Input::Stop);
        assert!(sim.input(&branches[0], Input::Cancel) > 0);
        sim.check();
        if is_killed {
            sim.killed_at(sim.log.len());
        }
        for ended in [&branches[0], &below] {
            assert!(sim.task(ended).state().is_final() && !sim.task(ended).is_stopped());
            assert_eq!(sim.input(ended, Input::Resume), 0);
        }
        assert!(sim.tree.root().is_stopped() && sim.task(&branches[1]).is_stopped(), "the others wait");
        sim.input(&root(), said("Only the tests."));
        assert_eq!(sim.newest_words(&branches[1]), words("Only the tests."), "it is the only one left");
        sim.completes(&branches[1], "b");
        let statuses: Vec<ToolStatus> = sim.results(&root()).iter().map(|(status, _)| *status).collect();
        assert_eq!(statuses, [ToolStatus::Interrupted, ToolStatus::Ok]);
        sim.completes(&root(), "All.");
        sim.check_log();
    }
}

#[test]
fn a_request_whose_stopped_branches_have_all_been_ended_goes_on_with_their_results() {
    let mut sim = Sim::new(LIMITS);
    let branches = sim.delegates(&root(), &["A", "Apart"]);
    sim.input(&branches[1], made("/w/1"));
    sim.input(&root(), Input::Stop);
    for branch in &branches {
        sim.input(branch, Input::Cancel);
    }
    assert_eq!(wanted(sim.task(&branches[1])), Some(Effect::CloseWorktree));
    sim.check();
    sim.input(&branches[1], Input::WorktreeClosed { kept: None });
    assert_eq!(sim.tree.root().state(), TaskState::Cancelled);
    assert_eq!(wanted(sim.tree.root()), None);
    sim.input(&root(), Input::Resume);
    assert_eq!(sim.results(&root()).len(), 2);
    assert!(matches!(wanted(sim.tree.root()), Some(Effect::CallModel { .. })));
    sim.completes(&root(), "All.");
    sim.check_log();
}

#[test]
fn a_branch_that_is_about_to_stop_can_be_ended_by_itself() {
    let mut sim = Sim::new(LIMITS);
    let branches = sim.delegates(&root(), &["A", "B"]);
    sim.says(&branches[0], &[ModelAnswer::Command]);
    sim.allows(&branches[0]);
    sim.input(&root(), Input::Stop);
    sim.input(&branches[0], Input::Cancel);
    sim.input(&branches[0], Input::ToolDone(done()));
    assert!(sim.tree.root().is_stopped() && !sim.task(&branches[0]).is_stopped());
    sim.input(&root(), Input::Resume);
    sim.completes(&branches[1], "b");
    assert_eq!(sim.results(&root())[0].0, ToolStatus::Interrupted);
    sim.completes(&root(), "All.");
    sim.check_log();
}

/// The user answers a question of the engine about a branch.
fn answers(sim: &mut Sim, branch: &TaskId, text: &str) {
    sim.input(branch, Input::Answer { text: text.into(), images: vec![], by: "anna".into() });
}

fn refused_by_endpoint() -> Input {
    let message = "401 Unauthorized".to_owned();
    Input::ModelFailed { message, remedy: Remedy::Ask, used: Usage::default(), frame: None }
}

#[test]
fn stop_answered_about_a_branch_stops_the_request_until_it_is_resumed() {
    let mut sim = Sim::new(LIMITS);
    let branches = sim.delegates(&root(), &["A", "B"]);
    let below = sim.delegates(&branches[0], &["C"]).remove(0);
    sim.input(&below, refused_by_endpoint());
    let requests =
        |sim: &Sim| sim.log.iter().filter(|record| matches!(record.event, Event::TurnStarted { .. })).count();
    let before = requests(&sim);
    answers(&mut sim, &below, "Stop");
    assert!(sim.tree.tasks().iter().all(Task::is_stopped));
    assert_eq!(requests(&sim), before, "nothing goes on");
    let told = (sim.tree.root().state(), sim.tree.root().reason());
    assert_eq!(told, (TaskState::Failed, Some("401 Unauthorized")));
    sim.input(&root(), Input::Resume);
    for branch in [&below, &branches[1]] {
        assert!(matches!(wanted(sim.task(branch)), Some(Effect::CallModel { .. })), "{branch}");
    }
    replay(&root(), &sim.log).unwrap();

    // Killed within the answer, the request is stopped or still asks.
    let asked = sim.log.iter().position(|record| matches!(record.event, Event::QuestionAsked { .. }));
    let answered = sim.log.iter().position(|record| matches!(record.event, Event::QuestionAnswered { .. }));
    for length in asked.unwrap() + 1..=answered.unwrap() + 3 {
        let mut killed = sim.clone();
        killed.killed_at(length);
        killed.input(&root(), Input::Resume);
        killed.finish();
        killed.check_log();
    }
}

#[test]
fn a_log_in_which_an_earlier_version_ended_a_branch_at_its_question_replays() {
    let mut sim = Sim::new(LIMITS);
    let branch = sim.delegates(&root(), &["A"]).remove(0);
    sim.input(&branch, refused_by_endpoint());
    let question_id = sim.task(&branch).question().unwrap().question_id.clone();
    let answered = Event::QuestionAnswered {
        question_id,
        by: "anna".into(),
        text: Some("Stop".into()),
        images: vec![],
        mode: None,
        words: None,
    };
    sim.commit(vec![(branch.clone(), answered)]);
    sim.settle();
    assert_eq!(
        (sim.task(&branch).state(), sim.results(&root())[0].0),
        (TaskState::Failed, ToolStatus::Failed)
    );
    assert!(!sim.task(&branch).is_stopped());
    replay(&root(), &sim.log).unwrap();
}

fn said(text: &str) -> Input {
    Input::Send { text: text.into(), images: vec![], when: SendWhen::Now }
}

impl Sim {
    fn queue(&self, id: &TaskId) -> Vec<&str> {
        self.task(id).queue.iter().map(|item| item.text.as_str()).collect()
    }

    /// The newest message of the user in a task's conversation.
    fn newest_words(&self, id: &TaskId) -> String {
        let items: Vec<&Item> = self.task(id).conversation.items().iter().collect();
        let text = items.iter().rev().find_map(|item| match item {
            Item::User { text, .. } => Some(text.clone()),
            _ => None,
        });
        text.unwrap_or_default()
    }
}

#[test]
fn what_is_said_to_a_task_that_waits_is_read_by_the_branch_that_works() {
    let mut sim = Sim::new(LIMITS);
    let outer = sim.delegates(&root(), &["A"]).remove(0);
    let inner = sim.delegates(&outer, &["B"]).remove(0);
    sim.input(&root(), said("Only the tests."));
    assert_eq!((sim.queue(&root()), sim.queue(&inner)), (vec![], vec!["Only the tests."]));
    sim.completes(&inner, "Too early.");
    assert!(!sim.task(&inner).state().is_final());
    assert_eq!(sim.newest_words(&inner), "<user_message>\nOnly the tests.\n</user_message>");
    sim.completes(&inner, "Tested.");
    sim.completes(&outer, "Done.");
    sim.input(&root(), said("And now?"));
    assert_eq!(sim.queue(&root()), ["And now?"], "it waits for no branch any more");
    replay(&root(), &sim.log).unwrap();
}

#[test]
fn what_is_said_to_a_task_that_waits_answers_no_question_of_its_branch() {
    for is_killed in [false, true] {
        let mut sim = Sim::new(LIMITS);
        let branch = sim.delegates(&root(), &["A"]).remove(0);
        sim.says(&branch, &[ModelAnswer::Question]);
        sim.allows(&branch);
        if is_killed {
            sim.killed_at(sim.log.len());
        }
        sim.input(&root(), said("Only the tests."));
        assert!(sim.tree.tasks().iter().all(|task| !task.is_interrupted()));
        assert!(sim.task(&branch).question().is_some());
        assert_eq!(sim.queue(&branch), ["Only the tests."]);
        replay(&root(), &sim.log).unwrap();
    }
}

#[test]
fn what_is_said_while_several_branches_work_waits_and_its_user_is_told_so() {
    let mut sim = Sim::new(LIMITS);
    let branches = sim.delegates(&root(), &["A", "B"]);
    sim.input(&root(), said("Only the tests."));
    assert_eq!(sim.queue(&root()), ["Only the tests."]);
    let Some(Record { event: Event::Shown { message }, .. }) = sim.log.last() else { panic!() };
    assert!(message.text.contains("your message waits for all of them"), "{}", message.text);
    sim.completes(&branches[0], "Done.");
    sim.input(&root(), said("Be quick."));
    assert_eq!(sim.queue(&branches[1]), ["Be quick."], "one is left");
    replay(&root(), &sim.log).unwrap();
}

#[test]
fn what_a_branch_has_not_read_when_it_ends_is_read_by_its_parent() {
    let mut sim = Sim::new(LIMITS);
    let branch = sim.delegates(&root(), &["A"]).remove(0);
    sim.input(&root(), said("Only the tests."));
    sim.input(&branch, Input::Cancel);
    assert_eq!((sim.queue(&root()), sim.queue(&branch)), (vec![], vec![]));
    assert_eq!(sim.newest_words(&root()), "<user_message>\nOnly the tests.\n</user_message>");
    replay(&root(), &sim.log).unwrap();
}

#[test]
fn what_was_said_before_a_request_is_cancelled_does_not_let_it_go_on() {
    let mut sim = Sim::new(LIMITS);
    let branch = sim.delegates(&root(), &["A"]).remove(0);
    sim.says(&branch, &[ModelAnswer::Command]);
    sim.allows(&branch);
    sim.input(&root(), said("Only the tests."));
    sim.input(&root(), Input::Cancel);
    sim.input(&branch, Input::ToolDone(done()));
    assert_eq!(
        (sim.tree.root().state(), sim.queue(&root())),
        (TaskState::Cancelled, vec!["Only the tests."])
    );
    let mut late = Sim::new(LIMITS);
    let branch = late.delegates(&root(), &["A"]).remove(0);
    late.says(&branch, &[ModelAnswer::Command]);
    late.allows(&branch);
    late.input(&root(), Input::Cancel);
    late.input(&root(), said("Only the tests."));
    late.input(&branch, Input::ToolDone(done()));
    assert_eq!(late.tree.root().state(), TaskState::Running);
    for sim in [sim, late] {
        replay(&root(), &sim.log).unwrap();
    }
}

#[test]
fn a_result_that_is_too_long_is_not_cut_but_sent_back() {
    let mut sim = Sim::new(LIMITS);
    let branches = sim.delegates(&root(), &["A"]);
    let long: &'static str = "x".repeat(70_000).leak();
    sim.completes(&branches[0], long);
    let (status, text) = sim.results(&branches[0]).pop().unwrap();
    assert_eq!(status, ToolStatus::Failed);
    assert!(text.contains("names the file"), "{text}");
}

#[test]
fn context_files_are_read_before_anything_is_changed_run_or_delegated() {
    let mut sim = Sim::new(LIMITS);
    sim.says(&root(), &[ModelAnswer::Delegate("A")]);
    let call = sim.tree.root().current_call().unwrap();
    let PolicyDecision::Allow { rule, reason, plan: Plan::Branch(mut plan) } = allow(call) else { panic!() };
    plan.delegation.context_files = vec![".roo/tasks/20250101-10-00-00000000/a.md".into()];
    sim.input(&root(), Input::Gated(PolicyDecision::Allow { rule, reason, plan: Plan::Branch(plan) }));
    let branch = sim.ids().pop().unwrap();
    for early in [ModelAnswer::Command, ModelAnswer::Delegate("B")] {
        sim.says(&branch, &[early]);
        let (status, text) = sim.results(&branch).pop().unwrap();
        assert_eq!(status, ToolStatus::Failed);
        assert!(text.contains("a.md"), "{text}");
    }
    sim.says(&branch, &[ModelAnswer::Read]);
    sim.allows(&branch);
    let seen = vec![(".roo/tasks/20250101-10-00-00000000/a.md".to_owned(), Some(Digest::of("a")))];
    sim.input(&branch, Input::ToolDone(Outcome { seen, ..done() }));
    sim.says(&branch, &[ModelAnswer::Command]);
    assert!(matches!(wanted(sim.task(&branch)), Some(Effect::Gate { .. })));
}

#[test]
fn context_that_can_not_be_saved_ends_the_branch_after_three_attempts() {
    let mut sim = Sim::new(Limits { mistakes: 0, ..LIMITS });
    let fail = |sim: &mut Sim| {
        sim.says(&root(), &[ModelAnswer::Save]);
        let reason = "The disk is full.".to_owned();
        let deny = PolicyDecision::Deny {
            rule: RefusalRule::Protected,
            reason,
            mistake: false,
            saves: true,
            detail: None,
        };
        sim.input(&root(), Input::Gated(deny));
    };
    fail(&mut sim);
    assert!(sim.results(&root()).pop().unwrap().1.ends_with("Attempts left: 2."));
    for other in [ModelAnswer::Delegate("A"), ModelAnswer::Command, ModelAnswer::Complete("Done.")] {
        sim.says(&root(), &[other]);
        assert_eq!(sim.results(&root()).pop().unwrap().0, ToolStatus::Failed, "first it has to be saved");
    }
    sim.says(&root(), &[ModelAnswer::Save]);
    sim.allows(&root());
    sim.input(&root(), Input::ToolDone(done()));
    assert_eq!(sim.tree.root().unsaved, None, "that makes up for it");
    for _ in 0..3 {
        assert_eq!(sim.tree.root().state(), TaskState::Running);
        fail(&mut sim);
    }
    assert_eq!(sim.tree.root().state(), TaskState::Failed);
    assert!(sim.tree.root().reason().unwrap().contains("The disk is full."));
    sim.input(&root(), Input::Send { text: "Try again.".into(), images: vec![], when: SendWhen::Now });
    assert!(matches!(wanted(sim.tree.root()), Some(Effect::CallModel { .. })), "its user may know better");
}

#[test]
fn a_branch_that_has_ended_never_goes_on() {
    let mut sim = Sim::new(LIMITS);
    let branches = sim.delegates(&root(), &["A"]);
    sim.completes(&branches[0], "a");
    let send = || Input::Send { text: "More.".into(), images: vec![], when: SendWhen::Now };
    for input in [send(), Input::Resume, Input::Cancel] {
        assert_eq!(sim.input(&branches[0], input), 0);
    }
    sim.completes(&root(), "All.");
    assert!(sim.input(&root(), send()) > 0, "a request does");
}

#[test]
fn a_request_goes_on_as_a_whole() {
    let mut sim = Sim::new(LIMITS);
    let branches = sim.delegates(&root(), &["A", "B"]);
    sim.killed_at(sim.log.len());
    assert!(sim.tree.tasks().iter().all(|task| task.state() == TaskState::Interrupted));
    sim.input(&branches[1], Input::Resume);
    assert_eq!(sim.tree.root().state(), TaskState::Paused);
    assert!(sim.tree.tasks().iter().all(|task| !task.is_interrupted()));
}

fn done() -> Outcome {
    Outcome::new(ToolStatus::Ok, "done", "done")
}

/// Next step, and its task.
#[derive(Clone, Debug)]
enum ScheduleStep {
    /// The wanted effect of a task ends in this way.
    Fitting(Index, Fate),
    /// Something is reported that nobody may have asked for.
    Late(Index, Fate),
    Send(Index),
    Cancel(Index),
    Stop,
    Resume(Index),
    Mode(Index),
    Profile(Index),
    /// The server is killed; how much of what was not durable is lost.
    Kill(Index),
}

#[derive(Clone, Debug)]
struct Fate {
    said: Vec<ModelAnswer>,
    verdict: u8,
    fails: bool,
    stops: bool,
}

fn fate() -> impl Strategy<Value = Fate> {
    let said = prop_oneof![
        3 => prop::collection::vec(select(vec!["A", "B", "Apart"]).prop_map(ModelAnswer::Delegate), 1..4),
        3 => select(vec![ModelAnswer::Read, ModelAnswer::Command, ModelAnswer::Question, ModelAnswer::Save]).prop_map(|said| vec![said]),
        3 => select(vec![ModelAnswer::Complete("Done."), ModelAnswer::GiveUp]).prop_map(|said| vec![said]),
        1 => Just(vec![ModelAnswer::Read, ModelAnswer::Delegate("D"), ModelAnswer::Command, ModelAnswer::Delegate("E")]),
        1 => Just(vec![]),
    ];
    (said, 0..8_u8, prop::bool::weighted(0.1), prop::bool::weighted(0.2))
        .prop_map(|(said, verdict, fails, stops)| Fate { said, verdict, fails, stops })
}

fn step() -> impl Strategy<Value = ScheduleStep> {
    let index = any::<Index>;
    prop_oneof![
        40 => (index(), fate()).prop_map(|(task, fate)| ScheduleStep::Fitting(task, fate)),
        2 => (index(), fate()).prop_map(|(task, fate)| ScheduleStep::Late(task, fate)),
        1 => index().prop_map(ScheduleStep::Send),
        1 => index().prop_map(ScheduleStep::Cancel),
        1 => Just(ScheduleStep::Stop),
        2 => index().prop_map(ScheduleStep::Resume),
        1 => index().prop_map(ScheduleStep::Mode),
        1 => index().prop_map(ScheduleStep::Profile),
        2 => index().prop_map(ScheduleStep::Kill),
    ]
}

impl Sim {
    fn step(&mut self, step: ScheduleStep) {
        let ids = self.ids();
        match step {
            ScheduleStep::Fitting(task, fate) => {
                let open: Vec<TaskId> =
                    ids.into_iter().filter(|id| !self.task(id).state().is_final()).collect();
                if open.is_empty() {
                    let send = Input::Send { text: "More.".into(), images: vec![], when: SendWhen::Now };
                    self.input(&root(), send);
                } else {
                    self.fitting(task.get(&open), fate);
                }
            }
            ScheduleStep::Late(task, fate) => {
                let id = task.get(&ids);
                let fits = wanted(self.task(id));
                if !matches!(fits, Some(Effect::RunTool { .. })) {
                    assert_eq!(self.input(id, Input::ToolDone(done())), 0, "nobody waits for it");
                }
                if !matches!(fits, Some(Effect::CallModel { .. })) {
                    let block = fate.said.first().copied().unwrap_or(ModelAnswer::Read).block(0);
                    assert_eq!(self.input(id, Input::ModelBlock { block, origin: "a/b".into() }), 0);
                }
            }
            ScheduleStep::Send(task) => {
                let id = task.get(&ids).clone();
                let send = Input::Send { text: "Listen.".into(), images: vec![], when: SendWhen::Now };
                self.input(&id, send);
            }
            ScheduleStep::Cancel(task) => drop(self.input(&task.get(&ids).clone(), Input::Cancel)),
            ScheduleStep::Stop => drop(self.input(&root(), Input::Stop)),
            ScheduleStep::Resume(task) => drop(self.input(&task.get(&ids).clone(), Input::Resume)),
            ScheduleStep::Mode(task) => {
                let mode = Some(("debug".to_owned(), "🪲".to_owned()));
                self.input(&task.get(&ids).clone(), Input::Change(ModeChange { mode, profile: None }));
            }
            ScheduleStep::Profile(task) => {
                let profile = Some(("other".to_owned(), ToolProtocol::Xml));
                self.input(&task.get(&ids).clone(), Input::Change(ModeChange { mode: None, profile }));
            }
            ScheduleStep::Kill(which) => {
                let lost = which.index(self.log.len() - self.durable + 1);
                self.killed_at(self.log.len() - lost);
            }
        }
        self.check();
    }

    /// Ends the effect that the task waits for.
    fn fitting(&mut self, id: &TaskId, fate: Fate) {
        let task = self.task(id);
        if task.is_interrupted() {
            self.input(id, Input::Resume);
        } else if let Some(approval) = task.approval().cloned().filter(|_| task.state() == TaskState::Waiting)
        {
            let option_id = if fate.stops { Choice::RejectOnce } else { Choice::AllowOnce };
            assert!(approval.options.iter().any(|option| option.id == option_id.id()));
            self.input(id, Input::Respond { option_id, text: None, review: None, by: "anna".into() });
        } else if let Some(question) = task.question().cloned() {
            let which = usize::from(fate.stops).min(question.suggestions.len() - 1);
            let text = question.suggestions[which].text.clone();
            self.input(id, Input::Answer { text, images: vec![], by: "anna".into() });
        } else {
            match wanted(task) {
                Some(Effect::CallModel { .. }) if fate.fails => {
                    let remedy = Remedy::Retry { after: None, jitter: 0.0, is_patient: false };
                    let message = "No route.".to_owned();
                    self.input(
                        id,
                        Input::ModelFailed { message, remedy, used: Usage::default(), frame: None },
                    );
                }
                Some(Effect::CallModel { .. }) => self.says(id, &fate.said),
                Some(Effect::Compact(_)) => {
                    let (outcome, used) = (CompactionOutcome::Agreed, Usage::default());
                    self.input(id, Input::Compacted { outcome, used });
                }
                Some(Effect::Gate { approved, .. }) => {
                    let call = task.call_as_it_runs().unwrap().into_owned();
                    let decision = match fate.verdict {
                        0 => PolicyDecision::Deny {
                            rule: RefusalRule::Outside,
                            reason: "No.".into(),
                            mistake: true,
                            saves: fate.stops,
                            detail: None,
                        },
                        1 if approved.is_none() => PolicyDecision::Ask {
                            rule: AskRule::Policy,
                            reason: "So.".into(),
                            digest: Digest::of(call.id.as_str()),
                            title: "May it?".into(),
                            subject: String::new(),
                            rule_subject: None,
                            alternative: None,
                        },
                        _ if task.merges() && fate.fails => conflict_found(),
                        _ if task.merges() && fate.stops => merge_allowed("next"),
                        _ => allow(&call),
                    };
                    self.input(id, Input::Gated(decision));
                }
                Some(Effect::RunTool { .. }) => {
                    self.durable = self.log.len();
                    let task = self.task(id);
                    if task.merges() && task.edit_in_progress().is_none() {
                        self.input(id, Input::ToolDone(in_conflict()));
                        return;
                    }
                    let status = if fate.fails { ToolStatus::Failed } else { ToolStatus::Ok };
                    let is_stale = fate.fails && fate.stops;
                    self.input(id, Input::ToolDone(Outcome { status, is_stale, ..done() }));
                }
                Some(Effect::Wait { .. }) => drop(self.input(id, Input::RetryDue)),
                Some(Effect::Gather(_)) => drop(self.input(id, Input::Gathered(Gathered::default()))),
                Some(Effect::MakeWorktree) if fate.fails => {
                    self.input(id, Input::WorktreeMade(Err("no git".into())));
                }
                Some(Effect::MakeWorktree) => drop(self.input(id, made("/w"))),
                Some(Effect::CloseWorktree) => {
                    let kept = fate.fails.then(|| "it has changes".to_owned());
                    self.input(id, Input::WorktreeClosed { kept });
                }
                Some(Effect::SettleWrite { write, .. }) => {
                    let found = write.places().iter().map(|(_, _, after)| *after).collect();
                    self.input(id, Input::WriteSettled(found, vec![]));
                }
                // It waits for its branches, or for an answer that another task is asked for.
                None => {}
            }
        }
    }

    /// Checks the invariants of every moment.
    fn check(&self) {
        let tasks = self.tree.tasks();
        let begun = tasks.len().saturating_sub(self.tree.tasks_before.max(1));
        let working = tasks.iter().filter(|task| task.parent.is_some() && !task.state().is_final()).count();
        assert!(begun.max(working) <= LIMITS.branches as usize, "too many branches");
        for task in tasks {
            assert!(self.tree.depth(task) <= LIMITS.depth as usize, "too deep");
            if let Some(parent) = self.tree.parent(task).filter(|_| task.state().is_final()) {
                let is_awaited = parent.open_subtasks().any(|(child, _)| *child == task.id);
                assert_eq!(is_awaited, task.is_stopped(), "its result is missing, or nobody waits for it");
            }
            for (child, _) in task.open_subtasks() {
                let there = self.tree.task(child);
                let stops = task.is_stopped() || task.is_stopping();
                let is_there = there.is_some_and(|child| match child.is_stopped() {
                    true => stops,
                    // One that was ended by itself may still have its work tree to close.
                    false => !child.state().is_final() && (!task.is_stopped() || child.is_ending()),
                });
                assert!(is_there || task.is_interrupted());
            }
            if task.state().is_final() && !task.is_stopped() {
                assert!(!task.has_open_branches(), "a task ends after its branches");
            }
        }
    }

    /// Checks the whole log.
    fn check_log(&self) {
        let mut ends: HashMap<&TaskId, u32> = HashMap::new();
        let mut results: HashMap<&ToolCallId, u32> = HashMap::new();
        let mut delegated: HashMap<&TaskId, &ToolCallId> = HashMap::new();
        for record in &self.log {
            match &record.event {
                Event::Ended { .. } => *ends.entry(&record.task_id).or_default() += 1,
                Event::ToolFinished { result, .. } => *results.entry(&result.call_id).or_default() += 1,
                Event::Delegated { call_id, child, .. } => {
                    assert!(delegated.insert(child, call_id).is_none(), "one call, one branch");
                }
                _ => {}
            }
        }
        assert!(results.values().all(|count| *count == 1), "a call has one result");
        for (child, call_id) in delegated {
            assert_eq!(results.get(call_id), Some(&1), "the branch {child} has no result");
            // One that never began is cancelled with its parent.
            if self.tree.task(child).is_some() {
                assert_eq!(ends.get(child), Some(&1), "the branch {child} ends once");
            }
        }
        assert_eq!(Tree::fold(&root(), &self.log).as_ref(), Some(&self.tree), "fold(log) = state");
        let replayed = replay(&root(), &self.log).unwrap_or_else(|difference| panic!("{difference:#?}"));
        let forks = self.log.iter().filter(|record| matches!(record.event, Event::Forked { .. }));
        let given = 2 + forks.count() as u64;
        assert_eq!(replayed, Replayed { events: self.log.len() as u64, given, imported: 0 });
    }

    /// Leads every task to its end.
    fn finish(&mut self) {
        let fate =
            Fate { said: vec![ModelAnswer::Complete("Done.")], verdict: 7, fails: false, stops: false };
        for _ in 0..600 {
            if self.tree.root().is_stopped() {
                self.input(&root(), Input::Resume);
            }
            let open = |task: &&Task| !task.state().is_final();
            let Some(_) = self.tree.tasks().iter().find(open) else { return };
            for id in self.ids() {
                if !self.task(&id).state().is_final() {
                    // What could not be saved comes first, or nothing else is accepted.
                    let said = match self.task(&id).unsaved {
                        Some(_) => vec![ModelAnswer::Save],
                        None => fate.said.clone(),
                    };
                    self.fitting(&id, Fate { said, ..fate.clone() });
                }
            }
            self.check();
        }
        let places: Vec<_> = self.tree.tasks().iter().map(|task| (&task.id, task.phase())).collect();
        let last = self.log.iter().rev().take(12).map(|record| (&record.task_id, &record.event));
        panic!("somebody waits for ever: {places:#?}\n{:#?}", last.collect::<Vec<_>>());
    }
}

fn forked(seq: u64, usage: Usage) -> Event {
    let from =
        ForkOrigin { task_id: TaskId::new("root"), urid: Urid::new("20250101-10-00-00000000"), seq, usage };
    Event::Forked { urid: Urid::new("20250101-11-00-00000001"), title: "Again".into(), from, directory: None }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        rng_seed: RngSeed::Fixed(11),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_happens_every_branch_ends_once_and_every_parent_hears_of_it(
        steps in prop::collection::vec(step(), 1..160)
    ) {
        let mut sim = Sim::new(LIMITS);
        for step in steps {
            sim.step(step);
        }
        sim.finish();
        sim.check_log();
    }

    #[test]
    fn a_fork_at_any_event_has_what_was_known_then_and_nothing_that_runs(
        steps in prop::collection::vec(step(), 1..60),
        cut in any::<Index>()
    ) {
        let mut sim = Sim::new(LIMITS);
        for step in steps {
            sim.step(step);
        }
        let length = 2 + cut.index(sim.log.len() - 1);
        sim.log.truncate(length);
        let (root, own) = (TaskId::new("root"), TaskId::new("fork"));
        let then = Tree::fold(&root, &sim.log).unwrap();

        let mut shared = sim.log.clone();
        shared.iter_mut().for_each(|record| as_own(&own, record));
        let fork = Tree::fold(&own, &shared).unwrap();
        let but_for_ids = format!("{:?}", fork.tasks()).replace("\"fork", "\"root");
        prop_assert_eq!(but_for_ids, format!("{:?}", then.tasks()));

        sim.tree = then.clone();
        let facts = then.clone().fork(forked(sim.log.len() as u64, then.usage()), NOW);
        sim.commit(facts);
        sim.durable = sim.log.len();
        prop_assert_eq!(&Tree::fold(&root, &sim.log).unwrap(), &sim.tree);
        prop_assert_eq!(sim.tree.settle(), vec![]);
        prop_assert_eq!(sim.tree.usage(), Usage::default());
        for task in sim.tree.tasks() {
            prop_assert!(task.state().is_final(), "{} is {:?}", task.id, task.state());
            prop_assert!(!task.is_stopped(), "what was open is the other request's");
            prop_assert_eq!(wanted(task), None);
            prop_assert!(task.commands.running().is_empty());
        }
        let known = then.root().conversation.items().shared();
        prop_assert_eq!(&sim.tree.root().conversation.items().shared()[..known.len()], known);

        let said = Input::Send { text: "Another way.".into(), images: vec![], when: SendWhen::Now };
        prop_assert!(sim.input(&root, said) > 0);
        prop_assert!(!sim.tree.root().state().is_final());
        sim.finish();
        sim.check_log();
    }

    #[test]
    fn a_log_that_is_cut_anywhere_goes_on_to_the_end(
        steps in prop::collection::vec(step(), 1..60),
        cut in any::<Index>()
    ) {
        let mut sim = Sim::new(LIMITS);
        for step in steps {
            sim.step(step);
        }
        let length = 2 + cut.index(sim.log.len() - 1);
        sim.killed_at(length.min(sim.log.len()));
        sim.finish();
        sim.check_log();
    }
}

/// A work tree that was made for a branch.
fn made(folder: &str) -> Input {
    Input::WorktreeMade(Ok(BranchWorktree {
        top: folder.into(),
        folder: folder.into(),
        base: "base".into(),
        left_out: vec![],
    }))
}

/// The gate allows the merge of a branch's work tree.
fn merge_allowed(snapshot: &str) -> PolicyDecision {
    let file = PlannedFile {
        path: "a".into(),
        before: None,
        after: Some(Digest::of("a")),
        moved_from: None,
        encoding: None,
    };
    let merge = Some(PlannedMerge { snapshot: snapshot.into(), left_out: vec![] });
    let plan = Plan::WriteAll(PlannedPatch { files: vec![file], merge });
    PolicyDecision::Allow { rule: NamedAllowRule::Write.into(), reason: "So.".into(), plan }
}

/// The gate finds that a merge conflicts.
fn conflict_found() -> PolicyDecision {
    let rule = NamedAllowRule::Worktree.into();
    PolicyDecision::Allow { rule, reason: "So.".into(), plan: Plan::Conflict }
}

/// Both versions are in the work tree.
fn in_conflict() -> Outcome {
    let conflicts = vec![("a".to_owned(), Some("id".to_owned()))];
    let outcome = Outcome::failed("Others have changed the same lines. Resolve them.");
    Outcome { conflicts, ..outcome }
}

#[test]
fn a_branch_works_in_its_work_tree_until_that_is_merged_and_removed() {
    let mut sim = Sim::new(LIMITS);
    let branch = sim.delegates(&root(), &["Apart"]).remove(0);
    assert_eq!(wanted(sim.task(&branch)), Some(Effect::MakeWorktree));
    sim.input(&branch, made("/w/1"));
    assert!(matches!(wanted(sim.task(&branch)), Some(Effect::CallModel { .. })));
    assert_eq!(sim.tree.folder_of(sim.task(&branch)), Some(std::path::Path::new("/w/1")));
    assert_eq!(sim.tree.folder_of(sim.tree.root()), None);

    sim.says(&branch, &[ModelAnswer::Complete("Done.")]);
    assert_eq!(sim.tree.folder_of(sim.task(&branch)), None, "a merge is judged in the folder of the parent");
    sim.input(&branch, Input::Gated(merge_allowed("next")));
    // Another branch was merged between the judgement and the write.
    sim.input(&branch, Input::ToolDone(Outcome { is_stale: true, ..Outcome::failed("It has changed.") }));
    assert!(matches!(wanted(sim.task(&branch)), Some(Effect::Gate { .. })), "so it is judged again");
    sim.input(&branch, Input::Gated(merge_allowed("next")));
    sim.input(&branch, Input::ToolDone(done()));
    assert_eq!(wanted(sim.task(&branch)), Some(Effect::CloseWorktree));
    assert_eq!(sim.task(&branch).open_worktree().unwrap().base, "next", "it is merged for good");
    assert!(!sim.task(&branch).state().is_final());
    sim.input(&branch, Input::WorktreeClosed { kept: None });
    assert_eq!(sim.task(&branch).state(), TaskState::Completed);
    let (status, text) = sim.results(&root()).remove(0);
    assert!(status == ToolStatus::Ok && text.contains("\nDone.\n") && !text.contains("/w/1"), "{text}");
    replay(&root(), &sim.log).unwrap();
}

#[test]
fn a_merge_that_is_cut_off_is_settled_by_what_the_files_hold() {
    for (after, merged) in [("a", true), ("", false)] {
        let mut sim = Sim::new(LIMITS);
        let branch = sim.delegates(&root(), &["Apart"]).remove(0);
        sim.input(&branch, made("/w/1"));
        sim.says(&branch, &[ModelAnswer::Complete("Done.")]);
        sim.input(&branch, Input::Gated(merge_allowed("next")));
        sim.killed_at(sim.log.len());
        sim.input(&root(), Input::Resume);
        assert!(matches!(wanted(sim.task(&branch)), Some(Effect::SettleWrite { .. })));
        let found = merged.then(|| Digest::of(after));
        sim.input(&branch, Input::WriteSettled(vec![found], vec![]));
        let next = wanted(sim.task(&branch));
        assert_eq!(next == Some(Effect::CloseWorktree), merged, "{next:?}");
        assert_eq!(matches!(next, Some(Effect::Gate { .. })), !merged, "{next:?}");
        replay(&root(), &sim.log).unwrap();
    }
}

#[test]
fn a_branch_that_ends_without_a_merge_names_its_work_tree_and_why() {
    let mut sim = Sim::new(LIMITS);
    let branch = sim.delegates(&root(), &["Apart"]).remove(0);
    sim.input(&branch, made("/w/1"));
    for result in ["Done.", "Done again.", "Done at last."] {
        sim.says(&branch, &[ModelAnswer::Complete(result)]);
        sim.input(&branch, Input::Gated(conflict_found()));
        sim.input(&branch, Input::ToolDone(in_conflict()));
    }
    let question = sim.task(&branch).question().unwrap();
    assert!(question.text.contains("3 conflicts") && question.text.contains("/w/1"), "{}", question.text);
    assert_eq!(sim.task(&branch).open_worktree().unwrap().conflict_bases.len(), 1);
    sim.input(&branch, Input::Cancel);
    assert_eq!(wanted(sim.task(&branch)), Some(Effect::CloseWorktree));
    sim.input(&branch, Input::WorktreeClosed { kept: Some("it has changes".into()) });
    let (_, text) = sim.results(&root()).remove(0);
    let note = "Nothing of what it changed was merged. Others have changed the same lines. Its worktree is kept: /w/1";
    assert!(text.contains(note), "{text}");
    replay(&root(), &sim.log).unwrap();
}

#[test]
fn that_there_are_no_work_trees_is_told_once() {
    let mut sim = Sim::new(LIMITS);
    for branch in sim.delegates(&root(), &["Apart", "Apart too"]) {
        sim.input(&branch, Input::WorktreeMade(Err("the workspace is in no git repository".into())));
        assert!(matches!(wanted(sim.task(&branch)), Some(Effect::CallModel { .. })), "it works all the same");
    }
    let told = sim.log.iter().filter(|record| {
        matches!(&record.event, Event::Shown { message } if message.text.contains("in no git repository"))
    });
    assert_eq!(told.map(|record| record.task_id.clone()).collect::<Vec<_>>(), [root()]);
    replay(&root(), &sim.log).unwrap();
}

#[test]
fn what_servers_may_have_the_model_write_is_each_tasks_own_and_no_forks() {
    let mut sim = Sim::new(LIMITS);
    let branches = sim.delegates(&root(), &["One", "Two"]);
    let sampled = Event::SamplingStarted {
        call_id: ToolCallId::new("call"),
        server: "desk".into(),
        asked: "A poem.".into(),
        tokens: 30_000,
        allow_all: true,
    };
    sim.commit(vec![(branches[0].clone(), sampled)]);
    let of = |sim: &Sim, id: &TaskId| sim.task(id).sampling.clone();
    let used = of(&sim, &branches[0]);
    assert!(used.allows("desk") && used.requests() == 1 && used.refusal(20_000).is_some());
    for other in [&root(), &branches[1]] {
        assert_eq!(of(&sim, other), SamplingTally::default(), "{other}");
    }

    let facts = sim.tree.clone().fork(forked(sim.log.len() as u64, sim.tree.usage()), NOW);
    sim.commit(facts);
    assert_eq!(
        of(&sim, &branches[0]),
        SamplingTally::default(),
        "what was allowed was allowed the other request"
    );
}
