//! The actor of one request: it owns the log and the state, takes inputs one after another, and
//! keeps exactly the effect running that the state wants.
//!
//! Append before apply: nothing is true before it is in the log. Followers are told of an event when
//! it is written, of a decision when it is durable; an effect that changes the world starts only
//! when all that led to it is durable. An effect that is wanted no more is ended, and what it still
//! reports is dropped.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::effects::{self, EngineServices};
use super::event::Event;
use super::hook_dispatch::{self, HookDispatch};
use super::journal::Journal;
use super::task::{self, Choice, Effect, Input, NewRule, Task};
use super::tree::{Fact, Tree};
use super::{EngineError, Passing, Registry};
use crate::hooks::EventName;
use crate::policy::{GateOutcome, HookMessages, Permit};
use crate::tools::{BackgroundCommands, Outcome, StopReason};
use roo_catalog::Effect as ToolEffect;
use roo_durable::{Record, RequestLog, StoreError, Synced, reserve};
use roo_model::prompts::replies;
use roo_protocol::event::Event as WireEvent;
use roo_protocol::event::OptionKind;
use roo_protocol::ids::{CommandId, Digest, QuestionId, TaskId};
use roo_protocol::task::{AnswerResult, PendingApproval, TaskState};

/// Time that a cancelled tool has to end before it counts as interrupted.
const CANCEL_GRACE: Duration = Duration::from_secs(2);
/// Time that a running effect has to end when the server shuts down: a command that is asked to end gets half a second
/// before it is killed.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);
/// The first and the longest wait between two tries to write to a log that refuses, or to sync it.
const STORE_RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// Message to an actor.
pub(super) enum ActorMessage {
    /// A client wants something of a task; the answer says whether that was possible.
    Command(TaskId, Command, oneshot::Sender<Result<Reply, EngineError>>),
    /// The running effect of a task reports. A report of an earlier generation is dropped.
    Report { task: TaskId, generation: u64, report: Box<Report> },
    /// A command in the background has ended.
    CommandEnded(CommandId, Box<Outcome>),
    /// The log is durable so far, or can't be made so.
    Synced(Result<Synced, StoreError>),
    /// The server ends: stop effects, leave the state as it is.
    Shutdown(oneshot::Sender<()>),
}

/// Command of a client.
pub(super) enum Command {
    /// An input that needs no check.
    Input(Box<Input>),
    /// An answer to an approval.
    Respond {
        approval_id: String,
        digest: Digest,
        option_id: String,
        opened: bool,
        text: Option<String>,
        by: String,
    },
    /// The request is to be removed; the actor gives it up.
    Delete,
    /// The command that the task runs, or one of its branches, goes to the background.
    Background,
    /// A command in the background is to end.
    Stop(CommandId),
    /// An answer to a question.
    Answer { question_id: QuestionId, text: String, images: Vec<String>, by: String },
}

/// Result of a command.
pub(super) enum Reply {
    Done,
    Answer(AnswerResult),
    /// An answer that makes a standing rule.
    Rule(AnswerResult, NewRule),
}

/// Result of a command, before it is carried out.
enum CommandOutcome {
    /// It leads to this, and is answered so.
    Input(Box<Input>, Reply),
    /// It leads to nothing.
    Settled(Reply),
}

/// Report of an effect.
pub(super) enum Report {
    /// Something came; the effect goes on.
    Progress(Input),
    /// The gate has judged.
    Judged(GateOutcome),
    /// A tool has run, and hooks have said this about it.
    Ran(HookMessages, Outcome),
    /// The effect is over.
    Last(Input),
}

struct RunningEffect {
    effect: Effect,
    generation: u64,
    cancel: CancellationToken,
    to_background: CancellationToken,
    handle: JoinHandle<()>,
}

/// Work of the actor for one task.
#[derive(Default)]
struct Driven {
    running: Option<RunningEffect>,
    permit: Option<Permit>,
    /// Deadline of a tool after its task was cancelled.
    grace: Option<Instant>,
}

/// Reasons why an actor ends.
enum ActorEnd {
    /// Its request has ended, and it is taken out.
    Left(Passing),
    /// The server ends, and somebody waits for that.
    Shutdown(oneshot::Sender<()>),
    /// Nobody can want anything any more.
    Alone,
}

/// The server ends while the disk refuses events: there is nothing more to do.
struct Halt(oneshot::Sender<()>);

/// One request's actor.
pub(super) struct Actor {
    setting: Arc<EngineServices>,
    log: RequestLog,
    tree: Tree,
    journal: Arc<Journal>,
    mailbox: mpsc::Receiver<ActorMessage>,
    sender: mpsc::WeakSender<ActorMessage>,
    registry: Arc<Registry>,
    /// Messages that arrived while the disk refused events.
    deferred: VecDeque<ActorMessage>,
    /// The effects that run, by task.
    driven: HashMap<TaskId, Driven>,
    /// The commands that run in the background.
    background: Arc<BackgroundCommands>,
    generation: u64,
    cancel: CancellationToken,
    synced: u64,
    syncing: bool,
    /// Time at which a failed sync is tried again.
    sync_again: Option<Instant>,
    /// Delay before the next sync after a failure.
    sync_wait: Duration,
    /// The first decision that is not durable yet.
    undurable: Option<u64>,
    /// The tasks whose decisions may not be durable yet.
    deciding: HashSet<TaskId>,
    last_decision: u64,
    /// Reason why the trace was behind when that was told.
    trace_problem: Option<String>,
}

impl Actor {
    /// The actor of a request whose log and state are at hand.
    pub(super) fn new(
        setting: Arc<EngineServices>,
        log: RequestLog,
        tree: Tree,
        journal: Arc<Journal>,
        (sender, mailbox): (&mpsc::Sender<ActorMessage>, mpsc::Receiver<ActorMessage>),
        registry: Arc<Registry>,
        cancel: CancellationToken,
    ) -> Self {
        Self {
            setting,
            log,
            tree,
            journal,
            mailbox,
            sender: sender.downgrade(),
            registry,
            deferred: VecDeque::new(),
            driven: HashMap::new(),
            background: Arc::default(),
            generation: 0,
            cancel,
            // Whoever wrote what is there may have ended before it was durable.
            synced: 0,
            syncing: false,
            sync_again: None,
            sync_wait: STORE_RETRY.0,
            undurable: None,
            deciding: HashSet::new(),
            last_decision: 0,
            trace_problem: None,
        }
    }

    /// Appends the first events, then works until the request has ended and nobody wants anything of it.
    /// `begun` is told when the first events are in the log.
    pub(super) async fn run(mut self, first: Vec<Fact>, begun: oneshot::Sender<()>) {
        let end = self.work(first, begun).await.unwrap_or_else(|Halt(done)| ActorEnd::Shutdown(done));
        let running: Vec<RunningEffect> =
            self.driven.drain().filter_map(|(_, driven)| driven.running).collect();
        running.iter().for_each(|running| running.cancel.cancel());
        // An actor that ends of itself has none, and a shutdown takes all along.
        let commands = self.background.all();
        commands.iter().for_each(|command| command.stop(StopReason::TaskEnded));
        // The mail of their ends is not read any more, and must keep nobody waiting.
        self.mailbox.close();
        let commands = futures_util::future::join_all(commands.iter().map(|command| command.ended()));
        let ends = futures_util::future::join_all(running.into_iter().map(|running| running.handle));
        // What takes longer is beyond reach; the process ends all the same.
        let _ = tokio::time::timeout(SHUTDOWN_GRACE, futures_util::future::join(ends, commands)).await;
        // With the actor go the locks of its log; only then may the next one come.
        drop(self);
        match end {
            ActorEnd::Left(passing) => drop(passing),
            // Nobody waits for the answer after all: then there is nobody to tell.
            ActorEnd::Shutdown(done) => drop(done.send(())),
            ActorEnd::Alone => {}
        }
    }

    async fn work(&mut self, first: Vec<Fact>, begun: oneshot::Sender<()>) -> Result<ActorEnd, Halt> {
        self.commit(first).await?;
        // Nobody may be waiting.
        let _ = begun.send(());
        self.proceed().await?;
        loop {
            if self.is_quiet()
                && let Some(passing) =
                    Arc::clone(&self.registry).leave(&self.tree.root().id, || self.mailbox.is_empty()).await
            {
                return Ok(ActorEnd::Left(passing));
            }
            let (grace, sync_again) = (self.first_grace(), self.sync_again);
            let mail = match self.deferred.pop_front() {
                Some(mail) => Some(mail),
                None => tokio::select! {
                    mail = self.mailbox.recv() => mail,
                    () = deadline(grace.as_ref().map(|(at, _)| *at)) => {
                        if let Some((_, task)) = grace {
                            self.give_up_tool(task).await?;
                        }
                        continue;
                    }
                    () = deadline(sync_again) => {
                        self.sync_again = None;
                        self.sync();
                        continue;
                    }
                },
            };
            match mail {
                None => return Ok(ActorEnd::Alone),
                Some(ActorMessage::Shutdown(done)) => return Ok(ActorEnd::Shutdown(done)),
                Some(ActorMessage::Command(_, Command::Delete, reply)) => {
                    let state = self.tree.root().state();
                    if state.is_final() || state == TaskState::Interrupted {
                        // A client that has gone needs no answer.
                        let _ = reply.send(Ok(Reply::Done));
                        return Ok(ActorEnd::Alone);
                    }
                    let problem = "it is running; cancel it first".to_owned();
                    let error = EngineError::WrongState { task: self.tree.root().id.clone(), problem };
                    let _ = reply.send(Err(error));
                }
                Some(mail) => self.handle(mail).await?,
            }
        }
    }

    /// Returns whether nothing happens any more unless somebody wants it.
    fn is_quiet(&self) -> bool {
        self.tree.root().state().is_final()
            && self.driven.values().all(|driven| driven.running.is_none())
            && self.undurable.is_none()
            && !self.syncing
            && self.deferred.is_empty()
    }

    async fn handle(&mut self, mail: ActorMessage) -> Result<(), Halt> {
        match mail {
            ActorMessage::Command(task, command, reply) => {
                let answer = self.command(task, command).await?;
                // A client that has gone needs no answer.
                let _ = reply.send(answer);
            }
            ActorMessage::Report { task, generation, report } => {
                let running = self.driven.get(&task).and_then(|driven| driven.running.as_ref());
                if running.is_some_and(|running| running.generation == generation) {
                    self.report(task, *report).await?;
                } else if let Report::Ran(_, Outcome { background: Some((id, _)), .. }) = &*report {
                    // Nobody knows of it.
                    self.background.stop(id, StopReason::Cancelled);
                }
            }
            ActorMessage::CommandEnded(id, outcome) => {
                let owner = self.tree.owner_of(&id).map(|task| task.id.clone());
                if let Some(owner) = owner {
                    self.close_command(&id);
                    self.input(&owner, Input::CommandEnded { id, outcome: *outcome }).await?;
                }
            }
            ActorMessage::Synced(outcome) => self.on_synced(outcome),
            ActorMessage::Shutdown(_) => {}
        }
        Ok(())
    }

    async fn report(&mut self, task: TaskId, report: Report) -> Result<(), Halt> {
        let driven = self.driven.entry(task.clone()).or_default();
        let (heard, input) = match report {
            Report::Progress(input) => (None, input),
            Report::Judged(decision) => {
                driven.running = None;
                driven.permit = decision.permit;
                (Some(decision.heard), Input::Gated(decision.decision))
            }
            Report::Ran(heard, outcome) => {
                let call = driven.running.take().and_then(|running| match running.effect {
                    Effect::RunTool { call_id, .. } => Some(call_id),
                    _ => None,
                });
                *driven = Driven::default();
                if let Some(call) = call.filter(|_| outcome.background.is_some()) {
                    self.journal.keep_open(&call);
                }
                self.journal.close_all(&task);
                (Some(heard), Input::ToolDone(outcome))
            }
            Report::Last(input) => {
                *driven = Driven::default();
                self.journal.close_all(&task);
                (None, input)
            }
        };
        if let Some(heard) = heard {
            // Nothing may follow before what it belongs to has come as well.
            let facts = self.tree.decide(&task, Input::HookMessages(heard), self.setting.clock.now());
            self.commit(facts).await?;
        }
        self.input(&task, input).await
    }

    async fn command(&mut self, task: TaskId, command: Command) -> Result<Result<Reply, EngineError>, Halt> {
        let (input, reply) = match self.judge(&task, command) {
            Ok(CommandOutcome::Input(input, reply)) => (*input, reply),
            Ok(CommandOutcome::Settled(reply)) => return Ok(Ok(reply)),
            Err(error) => return Ok(Err(error)),
        };
        self.input(&task, input).await?;
        Ok(Ok(reply))
    }

    /// Checks a command: its outcome, or the reason why it can't be done.
    fn judge(&self, id: &TaskId, command: Command) -> Result<CommandOutcome, EngineError> {
        let task =
            self.tree.task(id).ok_or_else(|| EngineError::NotFound { what: "task", id: id.to_string() })?;
        let interrupted = task.is_interrupted();
        let settled = |accepted, by: &str| {
            CommandOutcome::Settled(Reply::Answer(AnswerResult { accepted, by: by.to_owned(), interrupted }))
        };
        let accepted = |input, by| {
            let answer = AnswerResult { accepted: true, by, interrupted };
            CommandOutcome::Input(Box::new(input), Reply::Answer(answer))
        };
        match command {
            // Handled where the actor can end.
            Command::Delete => Ok(CommandOutcome::Settled(Reply::Done)),
            Command::Background => {
                let Some(running) = self.running_command(id) else {
                    let problem = "it has no command in the foreground".to_owned();
                    return Err(EngineError::WrongState { task: id.clone(), problem });
                };
                running.to_background.cancel();
                Ok(CommandOutcome::Settled(Reply::Done))
            }
            Command::Stop(command) => {
                let Some(running) = self.background.get(&command) else {
                    return Err(EngineError::NotFound { what: "running command", id: command.to_string() });
                };
                running.stop(StopReason::User);
                Ok(CommandOutcome::Settled(Reply::Done))
            }
            Command::Input(input) => {
                self.check(task, &input)?;
                Ok(CommandOutcome::Input(input, Reply::Done))
            }
            Command::Respond { approval_id, digest, option_id, opened, text, by } => {
                if let Some(answered) = task.answered.get(&approval_id) {
                    let again = answered.by == by && answered.answer.as_deref() == Some(&option_id);
                    return Ok(settled(again, &answered.by));
                }
                let pending = task.approval();
                let Some(approval) = pending.filter(|approval| approval.approval_id.as_str() == approval_id)
                else {
                    return Err(EngineError::NotFound { what: "approval", id: approval_id });
                };
                let choice = self.check_choice(approval, &option_id, digest, opened)?;
                if let Some(held) = task.held_answer() {
                    return Ok(settled(held.by == by && held.option_id == option_id, &held.by));
                }
                let rule = choice.and_then(|choice| NewRule::from_answer(approval, choice));
                let input = Input::Respond { option_id, text, by: by.clone() };
                Ok(match rule {
                    None => accepted(input, by),
                    Some(rule) => {
                        let answer = AnswerResult { accepted: true, by, interrupted };
                        CommandOutcome::Input(Box::new(input), Reply::Rule(answer, rule))
                    }
                })
            }
            Command::Answer { question_id, text, images, by } => {
                if let Some(answered) = task.answered.get(question_id.as_str()) {
                    let again = answered.by == by && answered.answer.as_deref() == Some(&text);
                    return Ok(settled(again, &answered.by));
                }
                if task.question().is_none_or(|question| question.question_id != question_id) {
                    return Err(EngineError::NotFound { what: "question", id: question_id.to_string() });
                }
                Ok(accepted(Input::Answer { text, images, by: by.clone() }, by))
            }
        }
    }

    /// Returns the chosen answer of an approval, or the reason why it can't be given.
    fn check_choice(
        &self,
        approval: &PendingApproval,
        option_id: &str,
        digest: Digest,
        opened: bool,
    ) -> Result<Option<Choice>, EngineError> {
        let mismatch = |problem: String| Err(EngineError::Mismatch { problem });
        if approval.digest != digest {
            return mismatch("the digest doesn't match the action that waits for approval".into());
        }
        let choice = Choice::parse(option_id);
        let reviews = choice == Some(Choice::ReviewOnce) && approval.reviewable;
        if reviews && !self.setting.workspace.can_review() {
            return mismatch("this editor has no preview that confirms edits".into());
        }
        let kind = match approval.options.iter().find(|option| option.id == option_id) {
            Some(option) => option.kind,
            None if reviews => OptionKind::AllowOnce,
            None => return mismatch(format!("the approval has no option '{option_id}'")),
        };
        if approval.must_open && !opened && kind.allows() {
            return mismatch(
                "it is too long to be approved from its summary: open the whole text first".into(),
            );
        }
        Ok(choice)
    }

    /// Refuses what can't be done in this state, in words.
    fn check(&self, task: &Task, input: &Input) -> Result<(), EngineError> {
        let wrong = |problem: &str| {
            Err(EngineError::WrongState { task: task.id.clone(), problem: problem.to_owned() })
        };
        if task.parent.is_some() && task.state().is_final() {
            return wrong("it is a subtask that has ended; send the message to the task that delegated it");
        }
        let queued = |id: &String| {
            if task.queue.iter().any(|item| item.id == *id) {
                Ok(())
            } else {
                Err(EngineError::NotFound { what: "waiting message", id: id.clone() })
            }
        };
        match input {
            Input::EditQueued { id, .. } | Input::DeleteQueued { id } => queued(id),
            Input::Resume if self.tree.decide(&task.id, Input::Resume, 0).is_empty() => {
                let state = task.state().as_str();
                wrong(&format!("it is {state}; only interrupted, cancelled or failed tasks can be resumed"))
            }
            _ => Ok(()),
        }
    }

    async fn input(&mut self, task: &TaskId, input: Input) -> Result<(), Halt> {
        let now = self.setting.clock.now();
        let facts = self.tree.decide(task, input, now);
        self.commit(facts).await?;
        self.proceed().await
    }

    /// Lets everything follow that follows from the state, then runs what it wants.
    async fn proceed(&mut self) -> Result<(), Halt> {
        loop {
            let mut facts = self.tree.settle();
            if facts.is_empty() {
                facts = self.forgo_tool();
            }
            if facts.is_empty() {
                break;
            }
            self.commit(facts).await?;
        }
        self.drive();
        self.sync_decisions();
        Ok(())
    }

    /// A tool that waits for the log to be durable when its task is cancelled does not begin at all.
    fn forgo_tool(&self) -> Vec<Fact> {
        let waits = |task: &&Task| {
            task.is_cancelling()
                && self.running(&task.id).is_none()
                && matches!(task::wanted(task), Some(Effect::RunTool { .. }))
        };
        let Some(task) = self.tree.tasks().iter().find(waits) else { return vec![] };
        let outcome = Outcome::interrupted(replies::cancelled());
        self.tree.decide(&task.id, Input::ToolDone(outcome), self.setting.clock.now())
    }

    fn running(&self, task: &TaskId) -> Option<&RunningEffect> {
        self.driven.get(task).and_then(|driven| driven.running.as_ref())
    }

    /// Finds the foreground command of a task, or else of a branch below it.
    fn running_command(&self, top: &TaskId) -> Option<&RunningEffect> {
        let runs =
            |task: &&Task| self.tree.is_within(&task.id, top) && task.current_effect() == ToolEffect::Execute;
        self.tree.tasks().iter().filter(runs).find_map(|task| {
            self.running(&task.id).filter(|running| matches!(running.effect, Effect::RunTool { .. }))
        })
    }

    /// The output of a command in the background has ended.
    fn close_command(&self, id: &CommandId) {
        let command = self.tree.tasks().iter().find_map(|task| task.commands.find(id));
        if let Some(command) = command {
            self.journal.close_background(&command.call_id);
        }
    }

    /// The cancelled tool whose time is up first.
    fn first_grace(&self) -> Option<(Instant, TaskId)> {
        let graces = self.driven.iter().filter_map(|(task, driven)| Some((driven.grace?, task)));
        graces.min_by_key(|(at, _)| *at).map(|(at, task)| (at, task.clone()))
    }

    /// Appends and folds. Returns only when the events are in the log: while the disk refuses them,
    /// the task stands still and clients are told.
    async fn commit(&mut self, mut facts: Vec<Fact>) -> Result<(), Halt> {
        if facts.is_empty() {
            return Ok(());
        }
        self.mark_prompts(&mut facts).await;
        let at = self.setting.clock.now();
        let first = self.log.last_seq() + 1;
        let records: Vec<Record<Event>> =
            (first..).zip(facts).map(|(seq, (task_id, event))| Record { seq, at, task_id, event }).collect();
        let mut wait = STORE_RETRY.0;
        while let Err(error) = self.log.append(&records) {
            if self.free_reserve(&error) {
                continue;
            }
            let reason = format!("{error}. The task is paused until this is fixed.");
            self.journal.degrade(at, reason);
            self.wait_for_disk(wait).await?;
            wait = (wait * 2).min(STORE_RETRY.1);
        }
        self.report_recovery();
        let state = self.tree.state();
        for record in &records {
            self.tree.apply(&record.task_id, &record.event, record.seq, record.at);
            if record.event.is_decision() {
                self.last_decision = record.seq;
                self.undurable.get_or_insert(record.seq);
                self.deciding.insert(record.task_id.clone());
            }
        }
        self.tell_end(&records);
        let problem = self.setting.recorder.problem().map(|error| error.to_string());
        if self.trace_problem != problem {
            if let Some(error) = &problem {
                let reason = format!("{error}. Nothing is changed or run until this is fixed.");
                self.journal.degrade(at, reason);
            }
            self.trace_problem = problem;
        }
        self.journal.append(&records);
        if records.iter().any(|record| record.event.changes_tree()) {
            self.journal.set_tree(self.log.last_seq(), at, self.tree.nodes());
        }
        self.publish();
        if state != self.tree.state() || first == 1 {
            self.summarise();
        }
        Ok(())
    }

    /// Says of what users said whether there are hooks that are asked about it: the machine can't know.
    async fn mark_prompts(&self, facts: &mut [Fact]) {
        let is_said = |(_, event): &Fact| matches!(event, Event::UserSaid { .. });
        if !facts.iter().any(is_said) {
            return;
        }
        let user_hooks = hook_dispatch::hooks_of(&self.setting).await;
        for (task, event) in facts {
            let begin = if task.is_root() { EventName::SessionStart } else { EventName::SubagentStart };
            if let Event::UserSaid { hooks, .. } = event {
                *hooks = user_hooks.has(EventName::UserPromptSubmit) || user_hooks.has(begin);
            }
        }
    }

    /// Tells hooks of the request's end. Nobody waits for that.
    fn tell_end(&self, records: &[Record<Event>]) {
        let root = self.tree.root();
        if records.iter().any(|it| it.task_id == root.id && matches!(it.event, Event::Ended { .. })) {
            let context = effects::EffectContext {
                setting: Arc::clone(&self.setting),
                journal: Arc::clone(&self.journal),
                cancel: self.cancel.clone(),
                background: Arc::clone(&self.background),
                to_background: CancellationToken::new(),
            };
            let asking = HookDispatch::new(root, &context);
            tokio::spawn(async move { asking.session_ended().await });
        }
    }

    /// Waits before the disk is tried again. Meanwhile commands are refused at once, reports wait, and
    /// the end of the server ends the wait.
    async fn wait_for_disk(&mut self, wait: Duration) -> Result<(), Halt> {
        let end = Instant::now() + wait;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(end) => return Ok(()),
                mail = self.mailbox.recv() => match mail {
                    // Nobody can want anything any more.
                    None => return Err(Halt(oneshot::channel().0)),
                    Some(ActorMessage::Shutdown(done)) => return Err(Halt(done)),
                    Some(ActorMessage::Command(task, command, reply)) => {
                        // What runs can be ended all the same: it may be what fills the disk. Other
                        // effects would end without a word, and be waited for.
                        if let Command::Input(input) = &command
                            && matches!(**input, Input::Cancel)
                        {
                            for (id, driven) in &self.driven {
                                if let Some(RunningEffect { effect: Effect::RunTool { .. }, cancel, .. }) =
                                    &driven.running
                                    && self.tree.is_within(id, &task)
                                {
                                    cancel.cancel();
                                }
                            }
                        }
                        // A client that has gone needs no answer.
                        let _ = reply.send(Err(EngineError::Refused));
                    }
                    Some(mail) => self.deferred.push_back(mail),
                },
            }
        }
    }

    fn summarise(&self) {
        let item = self.tree.history_item();
        if let Err(error) = self.log.directory().write_summary(&item) {
            // It is rebuilt from the log when it is missed.
            tracing::warn!(%error, "the summary can't be written");
        }
        self.registry.summarise(item);
    }

    fn publish(&self) {
        let last = self.log.last_seq();
        self.journal.publish(self.undurable.map_or(last, |seq| seq - 1));
    }

    /// Makes decisions durable. Not while the gate judges the calls of whoever decided: what it says
    /// follows at once and often has to be durable too, and one sync is half the wait of two.
    fn sync_decisions(&mut self) {
        let is_judged =
            |task: &TaskId| self.running(task).is_some_and(|now| matches!(now.effect, Effect::Gate { .. }));
        if self.undurable.is_some() && !self.deciding.iter().all(is_judged) {
            self.sync();
        }
    }

    /// Reports the server as working again after a write, unless a sync or the trace still fails.
    fn report_recovery(&self) {
        if self.sync_again.is_none() && self.trace_problem.is_none() {
            self.journal.mend();
        }
    }

    /// Returns whether the disk was full and the reserved space has been freed for it; clients are warned then.
    fn free_reserve(&self, error: &StoreError) -> bool {
        let freed = error.system().is_some_and(|error| self.setting.reserve.relieve(error));
        if freed {
            let mib = reserve::SIZE >> 20;
            let reason =
                format!("The disk is full: the {mib} MiB reserved for this are now in use. Free some space.");
            self.journal.warn(self.setting.clock.now(), WireEvent::ServerDegraded { reason });
        }
        freed
    }

    fn sync(&mut self) {
        let Some(sender) = self.sender.upgrade() else { return };
        if self.syncing || self.sync_again.is_some() || self.synced == self.log.last_seq() {
            return;
        }
        self.syncing = true;
        let sync = self.log.sync_handle();
        tokio::spawn(async move {
            let outcome = match tokio::task::spawn_blocking(sync).await {
                Ok(outcome) => outcome,
                // The runtime ends.
                Err(_) => return,
            };
            // The actor has ended.
            let _ = sender.send(ActorMessage::Synced(outcome)).await;
        });
    }

    fn on_synced(&mut self, outcome: Result<Synced, StoreError>) {
        self.syncing = false;
        let synced = match outcome {
            Ok(synced) => synced,
            Err(error) => {
                let reason = format!("{error}. Nothing is written or run until this is fixed.");
                self.log.sync_failed();
                if self.free_reserve(&error) {
                    self.sync_again = Some(Instant::now());
                    return;
                }
                self.journal.degrade(self.setting.clock.now(), reason);
                self.sync_again = Some(Instant::now() + self.sync_wait);
                self.sync_wait = (self.sync_wait * 2).min(STORE_RETRY.1);
                return;
            }
        };
        let seq = synced.seq();
        self.log.synced(&synced);
        self.sync_wait = STORE_RETRY.0;
        self.report_recovery();
        self.synced = seq;
        if self.undurable.is_some_and(|undurable| undurable <= seq) {
            self.undurable = (seq < self.last_decision).then_some(seq + 1);
        }
        if self.undurable.is_none() {
            self.deciding.clear();
        }
        self.publish();
        self.drive();
        self.sync_decisions();
    }

    /// Makes the running effect of each task the one that is wanted.
    fn drive(&mut self) {
        for command in self
            .tree
            .tasks()
            .iter()
            .filter(|task| task.ends_commands())
            .flat_map(|task| task.commands.running())
        {
            self.background.stop(&command.id, StopReason::TaskEnded);
        }
        let wanted: Vec<(TaskId, Option<Effect>)> =
            self.tree.tasks().iter().map(|task| (task.id.clone(), task::wanted(task))).collect();
        for (task, wanted) in wanted {
            if wanted.is_some() || self.driven.contains_key(&task) {
                self.drive_task(&task, wanted);
            }
        }
    }

    fn drive_task(&mut self, id: &TaskId, wanted: Option<Effect>) {
        let cancelling = self.tree.task(id).is_some_and(Task::is_cancelling);
        let driven = self.driven.entry(id.clone()).or_default();
        if let Some(running) = &driven.running {
            if wanted.as_ref() == Some(&running.effect) {
                if cancelling && driven.grace.is_none() {
                    running.cancel.cancel();
                    driven.grace = Some(Instant::now() + CANCEL_GRACE);
                }
                return;
            }
            self.stop_effect(id);
        }
        let Some(effect) = wanted else {
            self.driven.remove(id);
            return;
        };
        // What others do meanwhile need not be durable for that.
        let led_to_it = self.tree.task(id).map_or(0, |task| task.seq);
        if matches!(effect, Effect::RunTool { mutating: true, .. }) && self.synced < led_to_it {
            self.sync();
            return;
        }
        self.start(id, effect);
    }

    fn start(&mut self, id: &TaskId, effect: Effect) {
        let (Some(sender), Some(task)) = (self.sender.upgrade(), self.tree.task(id)) else { return };
        self.generation += 1;
        let cancel = self.cancel.child_token();
        let reporter = effects::Reporter::new(sender, id.clone(), self.generation);
        let to_background = CancellationToken::new();
        let context = effects::EffectContext {
            setting: Arc::clone(&self.setting),
            journal: Arc::clone(&self.journal),
            cancel: cancel.clone(),
            background: Arc::clone(&self.background),
            to_background: to_background.clone(),
        };
        let driven = self.driven.entry(id.clone()).or_default();
        let permit = driven.permit.take();
        let handle = effects::start(effect.clone(), task, &self.tree, permit, context, reporter);
        driven.running =
            Some(RunningEffect { effect, generation: self.generation, cancel, to_background, handle });
    }

    fn stop_effect(&mut self, id: &TaskId) {
        let running = self.driven.get_mut(id).and_then(|driven| {
            driven.grace = None;
            driven.running.take()
        });
        if let Some(running) = running {
            running.cancel.cancel();
            self.journal.close_all(id);
        }
    }

    /// A cancelled tool did not end in time.
    async fn give_up_tool(&mut self, id: TaskId) -> Result<(), Halt> {
        self.stop_effect(&id);
        let Some(task) = self.tree.task(&id) else { return Ok(()) };
        let outcome = Outcome::interrupted(replies::interrupted(task.current_effect()));
        self.input(&id, Input::ToolDone(outcome)).await
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.background.all().iter().for_each(|command| command.stop(StopReason::TaskEnded));
        for driven in self.driven.values() {
            if let Some(running) = &driven.running {
                running.cancel.cancel();
            }
        }
    }
}

async fn deadline(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
