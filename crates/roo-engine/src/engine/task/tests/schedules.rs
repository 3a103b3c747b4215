//! Random lives: whatever a model, a gate, tools and users do in whatever order, and wherever the
//! server is killed, a task keeps these invariants and can be led to its end.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::RngSeed;

use super::*;
use crate::engine::replay::replay;
use roo_durable::Record;

/// Next step. Most of it happens whether it fits or not.
#[derive(Clone, Debug)]
enum ScheduleStep {
    /// Whoever is waited for does something that fits.
    Fitting(Fate),
    /// An effect reports, though it may not be wanted.
    Report(ReportKind),
    Send(SendWhen),
    EditQueued(Index),
    DeleteQueued(Index),
    Cancel,
    Resume,
    Condense,
    /// The newest shortening is undone.
    Restore,
    /// An answer to any approval that there ever was.
    Respond(Index, bool),
    /// An answer to any question that there ever was.
    Answer(Index, Word),
    /// A command in the background ends.
    EndCommand(Index),
    /// The server is killed; how much of what was not durable is lost.
    Kill(Index),
}

/// Draws for whatever is to be decided.
#[derive(Clone, Debug)]
struct Fate {
    block: Option<Spoken>,
    finish: Finish,
    verdict: Verdict,
    flag: bool,
    /// Which of a few digests.
    digest: u8,
    status: ToolStatus,
    word: Word,
    report: ReportKind,
}

#[derive(Clone, Copy, Debug)]
enum Spoken {
    Text,
    Thinking,
    Read(u8),
    Write,
    Command(u8),
    Question,
    Todo,
    Complete,
    GiveUp,
    Unknown,
}

#[derive(Clone, Copy, Debug)]
enum Word {
    Stop,
    Suggested,
    Other,
}

/// The kinds of reports, by the effect that sends them.
#[derive(Clone, Copy, Debug)]
enum ReportKind {
    Block(Spoken),
    Ended(Finish),
    Failed(ModelFailure),
    /// The request waits for its turn, or begins after that.
    Delayed(bool),
    RetryDue,
    /// One of a few outcomes.
    Compacted(u8),
    Gated(Verdict, u8, bool),
    Tool(ToolStatus),
    /// The command of a tool runs on in the background.
    Background,
    Settled(u8),
    Gathered,
    /// The server that is called asks the user, or takes its question back.
    Asked(bool),
}

#[derive(Clone, Copy, Debug)]
enum ModelFailure {
    Retry,
    Shorten,
    Ask,
}

fn spoken() -> impl Strategy<Value = Spoken> {
    use Spoken::*;
    prop_oneof![
        6 => (0..3_u8).prop_map(Read),
        3 => Just(Write),
        4 => (0..2_u8).prop_map(Command),
        6 => select(vec![Text, Thinking, Question, Todo, Complete, GiveUp, Unknown]),
    ]
}

fn finish_reason() -> impl Strategy<Value = Finish> {
    prop_oneof![8 => Just(Finish::Done), 1 => Just(Finish::Length), 1 => Just(Finish::Refused)]
}

fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![3 => Just(Verdict::Allow), 3 => Just(Verdict::Ask), 1 => Just(Verdict::Deny)]
}

fn status() -> impl Strategy<Value = ToolStatus> {
    prop_oneof![4 => Just(ToolStatus::Ok), 1 => Just(ToolStatus::Failed), 1 => Just(ToolStatus::Interrupted)]
}

fn word() -> impl Strategy<Value = Word> {
    prop_oneof![1 => Just(Word::Stop), 4 => Just(Word::Suggested), 2 => Just(Word::Other)]
}

fn report() -> impl Strategy<Value = ReportKind> {
    prop_oneof![
        spoken().prop_map(ReportKind::Block),
        finish_reason().prop_map(ReportKind::Ended),
        select(vec![ModelFailure::Retry, ModelFailure::Shorten, ModelFailure::Ask])
            .prop_map(ReportKind::Failed),
        any::<bool>().prop_map(ReportKind::Delayed),
        Just(ReportKind::RetryDue),
        (0..4_u8).prop_map(ReportKind::Compacted),
        (verdict(), 0..3_u8, any::<bool>()).prop_map(|(v, d, f)| ReportKind::Gated(v, d, f)),
        status().prop_map(ReportKind::Tool),
        Just(ReportKind::Background),
        (0..4_u8).prop_map(ReportKind::Settled),
        Just(ReportKind::Gathered),
        any::<bool>().prop_map(ReportKind::Asked),
    ]
}

fn fate() -> impl Strategy<Value = Fate> {
    let block = prop::option::weighted(0.6, spoken());
    (block, finish_reason(), verdict(), any::<bool>(), 0..3_u8, status(), word(), report()).prop_map(
        |(block, finish, verdict, flag, digest, status, word, report)| Fate {
            block,
            finish,
            verdict,
            flag,
            digest,
            status,
            word,
            report,
        },
    )
}

fn step() -> impl Strategy<Value = ScheduleStep> {
    let when = select(vec![SendWhen::Now, SendWhen::AfterTurn]);
    prop_oneof![
        24 => fate().prop_map(ScheduleStep::Fitting),
        2 => report().prop_map(ScheduleStep::Report),
        2 => when.prop_map(ScheduleStep::Send),
        1 => any::<Index>().prop_map(ScheduleStep::EditQueued),
        1 => any::<Index>().prop_map(ScheduleStep::DeleteQueued),
        1 => Just(ScheduleStep::Cancel),
        1 => Just(ScheduleStep::Resume),
        1 => Just(ScheduleStep::Condense),
        1 => Just(ScheduleStep::Restore),
        2 => (any::<Index>(), any::<bool>()).prop_map(|(which, allow)| ScheduleStep::Respond(which, allow)),
        1 => (any::<Index>(), word()).prop_map(|(which, word)| ScheduleStep::Answer(which, word)),
        1 => any::<Index>().prop_map(ScheduleStep::EndCommand),
        2 => any::<Index>().prop_map(ScheduleStep::Kill),
    ]
}

/// A task under a schedule, with what its environment remembers over all kills.
struct World {
    sim: Sim,
    /// Length of the log that is known to be on disk.
    durable: usize,
    running: Option<Effect>,
    /// The mutating calls that were really started, and how often.
    started: HashMap<ToolCallId, u32>,
    /// The waiting messages that the user took back.
    deleted: HashSet<String>,
}

impl World {
    fn new(limits: Limits) -> Self {
        let sim = Sim::with(limits);
        let mut world =
            Self { durable: 2, running: None, started: HashMap::new(), deleted: HashSet::new(), sim };
        world.drive();
        world
    }

    fn step(&mut self, step: ScheduleStep) {
        match step {
            ScheduleStep::Fitting(fate) => self.fitting(fate),
            ScheduleStep::Report(report) => self.report(report),
            ScheduleStep::Send(when) => {
                let text = format!("message @{}", self.sim.log.len());
                let events = self.sim.input(Input::Send { text, images: vec![], when });
                assert!(!events.is_empty(), "a message is never dropped");
            }
            ScheduleStep::EditQueued(which) => {
                if let Some(id) = self.queued(which) {
                    let text = format!("edited {}", self.sim.log.len());
                    self.sim.input(Input::EditQueued { id, text });
                }
            }
            ScheduleStep::DeleteQueued(which) => {
                if let Some(id) = self.queued(which) {
                    self.deleted.insert(id.clone());
                    self.sim.input(Input::DeleteQueued { id });
                }
            }
            ScheduleStep::Condense => drop(self.sim.input(Input::Condense)),
            ScheduleStep::Restore => self.sim.restore_newest(),
            ScheduleStep::Cancel => {
                let ran = matches!(self.sim.wanted(), Some(Effect::RunTool { .. }))
                    || !self.sim.task.commands.running().is_empty();
                self.sim.input(Input::Cancel);
                // One that has completed may wait for its commands already.
                assert_eq!(self.sim.task.is_ending(), ran, "tools and commands come to their end first");
                assert_eq!(self.sim.task.state().is_final(), !ran, "nothing else is waited for");
            }
            ScheduleStep::Resume => drop(self.sim.input(Input::Resume)),
            ScheduleStep::Respond(which, allow) => {
                let asked = self.approvals();
                if !asked.is_empty() {
                    self.respond(which.get(&asked).clone(), allow);
                }
            }
            ScheduleStep::Answer(which, word) => {
                let asked = self.questions();
                if !asked.is_empty() {
                    self.answer(which.get(&asked).clone(), word);
                }
            }
            ScheduleStep::EndCommand(which) => {
                if !self.sim.task.commands.running().is_empty() {
                    self.end_command(which.get(self.sim.task.commands.running()).id.clone());
                }
            }
            ScheduleStep::Kill(which) => {
                let lost = which.index(self.sim.log.len() - self.durable + 1);
                let length = self.sim.log.len() - lost;
                self.sim.log = reread(&self.sim.log);
                self.sim.killed_at(length);
                self.running = None;
            }
        }
        self.drive();
        check_state(&self.sim.task);
    }

    fn queued(&self, which: Index) -> Option<String> {
        let queue = &self.sim.task.queue;
        (!queue.is_empty()).then(|| which.get(queue).id.clone())
    }

    /// Starts what is wanted as the actor does.
    fn drive(&mut self) {
        let wanted = self.sim.wanted();
        if wanted == self.running {
            return;
        }
        if let Some(Effect::RunTool { call_id, mutating: true }) = &wanted {
            assert_permitted(&self.sim.log, call_id);
            self.durable = self.sim.log.len();
            *self.started.entry(call_id.clone()).or_default() += 1;
            let call = self.sim.task.current_call().unwrap();
            if call.effect() == ToolEffect::Execute {
                assert_eq!(self.started[call_id], 1, "a command never runs twice");
            }
        }
        if let Some(Effect::CallModel { .. }) = &wanted {
            let newest = |kind: fn(&Event) -> bool| self.sim.log.iter().rposition(kind);
            let begun = newest(|event| matches!(event, Event::TurnStarted { .. }));
            assert!(begun > newest(|event| *event == Event::Interrupted), "a request is made again");
        }
        if let Some(Effect::Gate { call_id, approved: Some(digest), .. }) = &wanted {
            assert_approved(&self.sim.log, call_id, *digest);
        }
        self.running = wanted;
    }

    fn end_command(&mut self, id: CommandId) {
        let outcome = outcome(ToolStatus::Ok, "It ended.");
        let events = self.sim.input(Input::CommandEnded { id, outcome });
        assert!(matches!(events[..], [Event::CommandEnded { .. }, ..]), "an end is never dropped");
    }

    fn fitting(&mut self, fate: Fate) {
        if let Some(approval) = self.sim.task.approval()
            && (self.sim.task.state() == TaskState::Waiting || fate.block.is_none())
        {
            return self.respond(approval.approval_id.clone(), fate.flag);
        }
        if let Some(question) = self.sim.task.question()
            && (self.sim.task.state() == TaskState::Waiting || fate.block.is_none())
        {
            return self.answer(question.clone(), fate.word);
        }
        let report = match self.sim.wanted() {
            Some(Effect::CallModel { .. }) => match (fate.block, fate.report) {
                (Some(block), _) => ReportKind::Block(block),
                (None, ReportKind::Failed(failure)) => ReportKind::Failed(failure),
                (None, _) => ReportKind::Ended(fate.finish),
            },
            Some(Effect::Wait { .. }) => ReportKind::RetryDue,
            Some(Effect::Compact(_)) => ReportKind::Compacted(fate.digest),
            Some(Effect::Gather(_)) => ReportKind::Gathered,
            Some(Effect::Gate { approved: Some(_), .. }) if fate.flag => {
                ReportKind::Gated(Verdict::Allow, 0, true)
            }
            Some(Effect::Gate { .. }) => ReportKind::Gated(fate.verdict, fate.digest, fate.flag),
            Some(Effect::RunTool { .. }) if matches!(fate.report, ReportKind::Asked(_)) => {
                ReportKind::Asked(true)
            }
            Some(Effect::RunTool { mutating: true, .. }) if fate.flag => ReportKind::Background,
            Some(Effect::RunTool { .. }) => ReportKind::Tool(fate.status),
            Some(Effect::SettleWrite { .. }) => ReportKind::Settled(fate.digest),
            Some(Effect::MakeWorktree | Effect::CloseWorktree) => unreachable!("it is no branch"),
            None if self.sim.task.state() == TaskState::Interrupted => {
                return drop(self.sim.input(Input::Resume));
            }
            None if self.sim.task.ends_commands() && !self.sim.task.commands.running().is_empty() => {
                return self.end_command(self.sim.task.commands.running()[0].id.clone());
            }
            None => return drop(self.sim.send("And now?")),
        };
        self.report(report);
    }

    fn report(&mut self, report: ReportKind) {
        let wanted = self.sim.wanted();
        let fits = match report {
            ReportKind::Block(_) | ReportKind::Ended(_) | ReportKind::Failed(_) | ReportKind::Delayed(_) => {
                matches!(wanted, Some(Effect::CallModel { .. }))
            }
            ReportKind::RetryDue => matches!(wanted, Some(Effect::Wait { .. })),
            ReportKind::Compacted(_) => matches!(wanted, Some(Effect::Compact(_))),
            ReportKind::Gated(..) => matches!(wanted, Some(Effect::Gate { .. })),
            ReportKind::Tool(_) | ReportKind::Background => matches!(wanted, Some(Effect::RunTool { .. })),
            ReportKind::Settled(_) => matches!(wanted, Some(Effect::SettleWrite { .. })),
            ReportKind::Gathered => matches!(wanted, Some(Effect::Gather(_))),
            ReportKind::Asked(true) => {
                let task = &self.sim.task;
                let runs = matches!(wanted, Some(Effect::RunTool { .. }));
                runs && !task.is_asked_by_server() && !task.is_ending()
            }
            ReportKind::Asked(false) => self.sim.task.is_asked_by_server(),
        };
        let events = self.sim.input(self.to_input(report));
        assert_eq!(!events.is_empty(), fits, "only what an effect that is wanted reports counts");
        let goes_on = matches!(report, ReportKind::Block(_) | ReportKind::Delayed(_) | ReportKind::Asked(_));
        if fits && !goes_on {
            self.running = None;
        }
    }

    fn to_input(&self, report: ReportKind) -> Input {
        match report {
            ReportKind::Block(spoken) => {
                Input::ModelBlock { block: self.block(spoken), origin: "a/b".into() }
            }
            ReportKind::Ended(finish) => Input::ModelEnded {
                finish,
                used: used(3, 0.1),
                frame: Some(small_window()),
                tail: None,
                beginning: None,
            },
            ReportKind::Failed(failure) => {
                let remedy = match failure {
                    ModelFailure::Retry => RETRY,
                    ModelFailure::Shorten => TOO_LONG,
                    ModelFailure::Ask => Remedy::Ask,
                };
                Input::ModelFailed { message: "It failed.".into(), remedy, used: used(1, 0.05), frame: None }
            }
            ReportKind::Delayed(true) => Input::RequestDelayed { due: NOW + 1000, reason: "too soon".into() },
            ReportKind::Delayed(false) => Input::DelayEnded,
            ReportKind::RetryDue => Input::RetryDue,
            ReportKind::Compacted(kind) => Input::Compacted { outcome: compacted(kind), used: used(1, 0.02) },
            ReportKind::Gathered => {
                Input::Gathered(Gathered { text: "Looked up.".into(), ..Gathered::default() })
            }
            ReportKind::Gated(Verdict::Allow, _, plans) => {
                let writes = self.sim.task.current_call().map(ToolCall::effect) == Some(ToolEffect::Write);
                Input::Gated(allow((writes && plans).then(planned_write)))
            }
            ReportKind::Gated(Verdict::Ask, digest, _) => Input::Gated(ask(&format!("action {digest}"))),
            ReportKind::Gated(Verdict::Deny, _, mistake) => {
                let (rule, reason) = (RefusalRule::Outside, "No.".into());
                Input::Gated(PolicyDecision::Deny { rule, reason, mistake, saves: false, detail: None })
            }
            ReportKind::Asked(true) => Input::ServerAsked(server_question("Who?")),
            ReportKind::Asked(false) => Input::ServerQuestionOver,
            // Long enough for placeholders in the small window.
            ReportKind::Tool(status) => Input::ToolDone(outcome(status, &"It ran. ".repeat(120))),
            ReportKind::Background => {
                let call = self.sim.task.current_call().map(|call| CommandId::of_call(&call.id));
                let id = call.unwrap_or_else(|| CommandId::new("cmd-0"));
                let background = Some((id, "serve".to_owned()));
                Input::ToolDone(Outcome { background, ..outcome(ToolStatus::Ok, "It runs on.") })
            }
            ReportKind::Settled(found) => Input::WriteSettled(
                vec![match found {
                    0 => Some(Digest::of("old")),
                    1 => Some(Digest::of("new")),
                    2 => Some(Digest::of("else")),
                    _ => None,
                }],
                vec![],
            ),
        }
    }

    fn block(&self, spoken: Spoken) -> Block {
        match spoken {
            Spoken::Text => text("Text."),
            Spoken::Thinking => thinking(),
            Spoken::Read(file) => read(&file.to_string()),
            Spoken::Write => write("a.rs"),
            Spoken::Command(number) => command(&format!("make {number}")),
            Spoken::Question => question("Tabs?"),
            Spoken::Todo => todo(&format!("[ ] {}", self.sim.log.len())),
            Spoken::Complete => complete("Done."),
            Spoken::GiveUp => give_up("No way."),
            Spoken::Unknown => call("fly", json!({})),
        }
    }

    /// At its end the task has delivered every message but those that were taken back.
    fn check_messages(&self) {
        let (mut waited, mut delivered) = (HashSet::new(), HashSet::new());
        for event in &self.sim.log {
            match event {
                Event::QueueChanged { items } => waited.extend(items.iter().map(|item| item.id.as_str())),
                Event::UserSaid { message, .. } => drop(delivered.insert(message.id.as_str())),
                _ => {}
            }
        }
        let lost: Vec<_> = waited.difference(&delivered).filter(|id| !self.deleted.contains(**id)).collect();
        assert!(lost.is_empty(), "never delivered: {lost:?}");
    }

    fn approvals(&self) -> Vec<ApprovalId> {
        let asked = self.sim.log.iter().filter_map(|event| match event {
            Event::ApprovalRequested { approval } => Some(approval.approval_id.clone()),
            _ => None,
        });
        asked.collect()
    }

    fn questions(&self) -> Vec<PendingQuestion> {
        let asked = self.sim.log.iter().filter_map(|event| match event {
            Event::QuestionAsked { question, .. } => Some(question.clone()),
            _ => None,
        });
        asked.collect()
    }

    /// Answers an approval by its id, with the checks that the actor makes.
    fn respond(&mut self, id: ApprovalId, allow: bool) {
        let task = &self.sim.task;
        let waits = task.approval().is_some_and(|approval| approval.approval_id == id);
        assert_eq!(waits, !task.answered.contains_key(id.as_str()), "what was asked waits or is answered");
        if !waits {
            return;
        }
        let counts = task.held_answer().is_none();
        let events = self.sim.respond(if allow { ALLOW_ONCE } else { REJECT_ONCE }, Some("why"));
        let recorded = events.iter().any(|event| match event {
            Event::ApprovalResolved { approval_id, option_id: Some(_), .. }
            | Event::AnswerHeld { approval_id, .. } => *approval_id == id,
            _ => false,
        });
        assert_eq!(recorded, counts, "an answer that counts is in the log, and no other");
    }

    /// Answers a question by its id, with the checks that the actor makes.
    fn answer(&mut self, question: PendingQuestion, word: Word) {
        let task = &self.sim.task;
        let waits = task.question() == Some(&question);
        let id = question.question_id;
        assert_eq!(waits, !task.answered.contains_key(id.as_str()), "what was asked waits or is answered");
        if !waits {
            return;
        }
        let events = match word {
            Word::Stop => self.sim.answer(STOP),
            Word::Suggested => self.sim.answer(&question.suggestions[0].text),
            Word::Other => self.sim.answer("Do it in another way."),
        };
        let recorded = events.iter().any(|event| match event {
            Event::QuestionAnswered { question_id, text: Some(_), .. } => *question_id == id,
            _ => false,
        });
        assert!(recorded, "an answer that counts is in the log");
    }
}

/// A window that is full after a few results.
fn small_window() -> RequestFrame {
    let window = Some(2_000);
    RequestFrame { window, answer: Some(100), threshold: 100, condense: true, ..RequestFrame::default() }
}

fn compacted(kind: u8) -> CompactionOutcome {
    match kind {
        0 => CompactionOutcome::Agreed,
        1 => CompactionOutcome::Summary("They read and wrote.".to_owned()),
        2 => CompactionOutcome::Refused("Keep it.".to_owned()),
        _ => CompactionOutcome::Failed("No route.".to_owned()),
    }
}

/// Reads the log as another server would.
fn reread(log: &[Event]) -> Vec<Event> {
    let lines = log.iter().map(|event| serde_json::to_string(event).unwrap());
    lines.map(|line| serde_json::from_str(&line).unwrap()).collect()
}

/// The gate must have allowed this call, as its newest word on it, since the task last went on.
fn assert_permitted(log: &[Event], call: &ToolCallId) {
    let life = log.iter().rposition(|event| *event == Event::Interrupted).unwrap_or(0);
    let newest = log[life..].iter().rev().find_map(|event| match event {
        Event::GateDecided { call_id, verdict, .. } if call_id == call => Some(verdict.verdict()),
        _ => None,
    });
    assert_eq!(newest, Some(Verdict::Allow), "{call} runs without the gate's permission");
}

/// The user must have allowed an action of this digest for this call.
fn assert_approved(log: &[Event], call: &ToolCallId, digest: Digest) {
    let allowed: HashSet<&ApprovalId> = log
        .iter()
        .filter_map(|event| match event {
            Event::ApprovalResolved { approval_id, option_id: Some(Choice::AllowOnce), .. } => {
                Some(approval_id)
            }
            _ => None,
        })
        .collect();
    let asked = log.iter().any(|event| match event {
        Event::ApprovalRequested { approval } => {
            approval.tool_call_id == *call
                && approval.digest == digest
                && allowed.contains(&approval.approval_id)
        }
        _ => false,
    });
    assert!(asked, "nobody allowed {digest} for {call}");
}

/// Checks every state in which nothing more follows.
pub(super) fn check_state(task: &Task) {
    let wanted = wanted(task);
    let awaits_commands = task.ends_commands() && !task.commands.running().is_empty();
    // A call goes on while its server asks the user.
    let works = wanted.is_some() && !task.is_asked_by_server();
    assert_eq!(
        works || awaits_commands,
        task.state() == TaskState::Running,
        "a task runs, waits or has ended: {task:#?}"
    );
    assert_eq!(task.is_interrupted(), task.state() == TaskState::Interrupted);

    // What waits and the phase agree.
    if let Some(approval) = task.approval() {
        assert_eq!(Some(&approval.tool_call_id), task.current_call().map(|call| &call.id));
    }
    if task.held_answer().is_some() && !task.is_interrupted() {
        let authorization = task.in_progress().and_then(CurrentCall::authorization);
        assert!(matches!(authorization, Some(Authorization::Gate(Approval::Asked(_)))), "{task:#?}");
    }
    let running_tool = matches!(wanted, Some(Effect::RunTool { .. }));
    assert!(!task.is_ending() || (task.is_cancelling() && running_tool) || awaits_commands, "{task:#?}");
    assert!(task.commands.running().is_empty() || !task.state().is_final(), "{task:#?}");

    // Calls and results.
    if let Some(batch) = task.batch() {
        assert!(batch.open_calls().next().is_some() || task.has_open_branches(), "{task:#?}");
    }
    let mut open: Vec<&ToolCallId> = vec![];
    for item in task.conversation.items().iter() {
        match item {
            Item::User { .. } | Item::Summary { .. } => {
                assert!(open.is_empty(), "calls without results: {open:?}")
            }
            Item::Assistant { blocks, .. } => {
                assert!(open.is_empty(), "calls without results: {open:?}");
                assert!(blocks.iter().any(|block| !matches!(block, AssistantBlock::Thinking { .. })));
                let calls = blocks.iter().filter_map(|block| match block {
                    AssistantBlock::Call { call } => Some(&call.id),
                    _ => None,
                });
                open = calls.collect();
            }
            Item::Results { results } => {
                let given: Vec<_> = results.iter().map(|result| &result.call_id).collect();
                assert!(!given.is_empty());
                assert_eq!(given, std::mem::take(&mut open), "results right behind their calls, in order");
            }
        }
    }
    let calls = task.batch().map(ToolBatch::call_ids).unwrap_or_default();
    assert_eq!(open, calls.iter().collect::<Vec<_>>());
}

/// Checks a whole log.
pub(super) fn check_log(log: &[Event]) {
    let mut named = HashSet::new();
    let mut results = HashSet::new();
    let mut commands = HashMap::new();
    let (mut asked, mut waiting) = (HashMap::new(), HashSet::new());
    let mut queue: Vec<String> = vec![];
    let mut requests = 0;
    let mut usage = Usage::default();
    let (mut ended, mut interrupted) = (false, false);
    for (index, event) in log.iter().enumerate() {
        let place = || format!("event {}: {event:#?}", index + 1);
        if ended {
            let opens = matches!(event, Event::Resumed | Event::QueueChanged { .. });
            assert!(opens, "after the end, {}", place());
        }
        match event {
            Event::TurnStarted { request } => {
                requests += 1;
                assert_eq!(*request, requests, "{}", place());
            }
            Event::TurnEnded { total, .. }
            | Event::TurnFailed { total, .. }
            | Event::ContextCondensed { total, .. }
            | Event::ContextKept { total, .. } => {
                assert!(
                    total.tokens_in >= usage.tokens_in && total.cost_usd >= usage.cost_usd,
                    "{}",
                    place()
                );
                usage = *total;
            }
            Event::Called { call, message } => {
                assert!(named.insert(call.id.to_string()), "{}", place());
                assert!(named.insert(message.id.to_string()), "{}", place());
                commands.insert(&call.id, (call.effect() == ToolEffect::Execute, false));
            }
            Event::Spoke { message } | Event::Thought { message, .. } => {
                assert!(named.insert(message.id.to_string()), "{}", place());
            }
            Event::Shown { message } => {
                // A log that was cut behind it has it once more.
                let new = named.insert(message.id.to_string());
                assert!(new || message.id.as_str().ends_with(".end"), "{}", place());
            }
            Event::UserSaid { message, .. } => {
                let waited = queue.iter().position(|id| id == message.id.as_str());
                match waited {
                    Some(place) => drop(queue.remove(place)),
                    None => assert!(named.insert(message.id.to_string()), "{}", place()),
                }
            }
            Event::QueueChanged { items } => {
                for item in items.iter().filter(|item| !queue.contains(&item.id)) {
                    assert!(named.insert(item.id.clone()), "{}", place());
                }
                queue = items.iter().map(|item| item.id.clone()).collect();
            }
            Event::ApprovalRequested { approval } => {
                // An id is new, or waits for the same action since before a kill.
                let action = (&approval.tool_call_id, approval.digest);
                let id = approval.approval_id.as_str();
                if waiting.insert(id) {
                    assert!(asked.insert(id, action).is_none(), "{}", place());
                }
                assert_eq!((asked[id], waiting.len()), (action, 1), "{}", place());
            }
            Event::ApprovalResolved { approval_id, .. } => {
                assert!(waiting.remove(approval_id.as_str()), "{}", place());
            }
            Event::QuestionAsked { question, .. } => {
                assert!(named.insert(question.question_id.to_string()), "{}", place());
                assert!(waiting.insert(question.question_id.as_str()), "{}", place());
                assert_eq!(waiting.len(), 1, "{}", place());
            }
            Event::QuestionAnswered { question_id, .. } => {
                assert!(waiting.remove(question_id.as_str()), "{}", place());
            }
            Event::ToolStarted { call_id, .. } => {
                let (is_command, began) = commands.get_mut(call_id).unwrap();
                assert!(!*is_command || !*began, "a command begins once: {}", place());
                *began = true;
            }
            Event::ToolFinished { result, .. } => {
                assert!(results.insert(&result.call_id), "a second result: {}", place());
            }
            Event::Interrupted => assert!(!std::mem::replace(&mut interrupted, true), "{}", place()),
            Event::Resumed => {
                assert!(std::mem::take(&mut ended) | std::mem::take(&mut interrupted), "{}", place());
            }
            Event::Ended { usage: total, .. } => {
                assert_eq!(*total, usage, "{}", place());
                assert!(waiting.is_empty(), "{}", place());
                (ended, interrupted) = (true, false);
            }
            _ => {}
        }
    }
    let task = fold(&reread(log));
    assert_eq!(task.request_number(), requests);
    assert_eq!(task, fold(log), "a log reads as it was written");
    let record = |(seq, event): (u64, &Event)| Record {
        seq,
        at: NOW,
        task_id: TaskId::new("t"),
        event: event.clone(),
    };
    let records: Vec<_> = (1..).zip(log).map(record).collect();
    let replayed = replay(&TaskId::new("t"), &records).unwrap_or_else(|difference| {
        let before = records.iter().filter(|record| record.seq <= difference.seq).rev().take(8);
        let before: Vec<_> = before.map(|record| (record.seq, &record.event)).collect();
        panic!("{difference:#?}\nbehind, the newest first, {before:#?}")
    });
    assert_eq!(replayed.events, log.len() as u64);
}

/// Leads a task to its completion, whatever its state, in few steps.
pub(super) fn finish(sim: &mut Sim) {
    for round in 0..60 {
        match sim.wanted() {
            Some(Effect::CallModel { .. }) => {
                sim.says([complete(&format!("Done, round {round}."))]);
            }
            Some(Effect::Wait { .. }) => drop(sim.input(Input::RetryDue)),
            Some(Effect::Compact(_)) => {
                let (outcome, used) = (CompactionOutcome::Agreed, Usage::default());
                drop(sim.input(Input::Compacted { outcome, used }));
            }
            Some(Effect::Gather(_)) => drop(sim.input(Input::Gathered(Gathered::default()))),
            Some(Effect::Gate { .. }) => drop(sim.allow()),
            Some(Effect::RunTool { .. }) => drop(sim.done(&format!("round {round}"))),
            Some(Effect::MakeWorktree | Effect::CloseWorktree) => unreachable!("it is no branch"),
            Some(Effect::SettleWrite { write, .. }) => {
                let found = write.places().iter().map(|(_, _, after)| *after).collect();
                sim.input(Input::WriteSettled(found, vec![]));
            }
            None if sim.task.ends_commands() && !sim.task.commands.running().is_empty() => {
                let id = sim.task.commands.running()[0].id.clone();
                sim.input(Input::CommandEnded { id, outcome: outcome(ToolStatus::Ok, "It ended.") });
            }
            None => match sim.task.state() {
                TaskState::Completed => return,
                TaskState::Waiting if sim.task.approval().is_some() => drop(sim.respond(REJECT_ONCE, None)),
                TaskState::Waiting => {
                    let answer = sim.task.question().unwrap().suggestions[0].text.clone();
                    sim.answer(&answer);
                }
                _ => drop(sim.input(Input::Resume)),
            },
        }
        check_state(&sim.task);
    }
    panic!("never completed: {:#?}", sim.task);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        rng_seed: RngSeed::Fixed(7),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_life_keeps_the_invariants_and_can_be_led_to_its_end(
        steps in prop::collection::vec(step(), 0..300),
        capped in any::<bool>(),
    ) {
        let limits = if capped {
            Limits { requests: 4, cost_usd: 0.5, mistakes: 2, ..Limits::default() }
        } else {
            Limits { requests: 0, cost_usd: 0.0, mistakes: 3, ..Limits::default() }
        };
        let mut world = World::new(limits);
        for step in steps {
            world.step(step);
        }
        finish(&mut world.sim);
        check_log(&world.sim.log);
        world.check_messages();
    }
}
