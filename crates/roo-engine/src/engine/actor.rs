//! The actor of one request: it owns the log and the state, takes inputs one after another, and
//! keeps exactly the effect running that the state wants.
//!
//! Append before apply: nothing is true before it is in the log. Followers are told of an event when
//! it is written, of a decision when it is durable; an effect that changes the world starts only
//! when all that led to it is durable. An effect that is no longer wanted is ended, and what it still
//! reports is dropped.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::EngineError;
use super::actor_message::{ActorMessage, Command, Reply, Report, RestoreFailure, RestoreOrder};
use super::audit;
use super::checkpoints;
use super::defect;
use super::descriptors::DescriptorPermit;
use super::effect_context::EffectContext;
use super::effects;
use super::event::Event;
use super::hook_dispatch::{self, HookDispatch};
use super::journal::Journal;
use super::registry::{Passing, Registry};
use super::reporter::Reporter;
use super::services::{CurrentServices, EngineServices};
use super::task::{self, Answered, Choice, Decider, Effect, Input, NewRule, Task};
use super::tree::{Fact, Tree};
use super::worktrees;

use crate::hooks::EventName;
use crate::policy::Permit;
use crate::tool_run::{BackgroundCommands, ForegroundControl, Outcome, StopReason, TaskBrowser};
use roo_catalog::Effect as ToolEffect;
use roo_durable::{Record, RequestLog, StoreError, Synced, reserve};
use roo_model::prompts::replies;
use roo_model::providers::Rendered;
use roo_protocol::event::Event as WireEvent;
use roo_protocol::event::{OptionKind, QuestionKind};
use roo_protocol::ids::{ApprovalId, CommandId, Digest, TaskId};
use roo_protocol::task::{AnswerResult, PendingApproval, TaskState};
use roo_protocol::tree::TreeNode;
use roo_sandbox::exec::redaction::holds_secret;
use roo_text::render::one_line;

/// Time that a cancelled tool has to end before it counts as interrupted.
const CANCEL_GRACE: Duration = Duration::from_secs(2);
/// Time that a running effect has to end when the server shuts down: a command that is asked to end gets half a second
/// before it is killed.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);
/// The first and the longest wait between two tries to write to a log that refuses, or to sync it.
const STORE_RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// What stands in the log for an answer that may be a secret.
const NOT_KEPT: &str = "(not kept: it may be a secret)";

/// A restore that has started.
struct RunningRestore {
    task: TaskId,
    started: u64,
    order: RestoreOrder,
    /// False until the log is durable so far.
    writes: bool,
}

/// Result of a command, before it is carried out.
enum CommandOutcome {
    /// It leads to this, and is answered so.
    Input(Box<Input>, Reply),
    /// It leads to nothing.
    Settled(Reply),
}

struct RunningEffect {
    effect: Effect,
    generation: u64,
    cancel: CancellationToken,
    foreground: ForegroundControl,
    handle: JoinHandle<()>,
}

/// Work of the actor for one task.
#[derive(Default)]
struct TaskWork {
    running: Option<RunningEffect>,
    permit: Option<Permit>,
    /// Deadline of a tool after its task was cancelled.
    grace: Option<Instant>,
    /// Receives the user's answer to what a server asks.
    answer: Option<oneshot::Sender<String>>,
    /// The conversation as it was sent. Given up while the task wants nothing, as it may wait for its user for long.
    rendered: Rendered,
}

impl TaskWork {
    /// The effect is over.
    fn finish(&mut self) {
        *self = Self { rendered: std::mem::take(&mut self.rendered), ..Self::default() };
    }
}

/// Reasons why an actor ends.
enum ActorEnd {
    /// Its request has ended, and it is taken out.
    Left(Passing),
    /// The server ends, and somebody waits for that.
    Shutdown(oneshot::Sender<()>),
    /// No message can arrive any more.
    Alone,
}

/// The server ends while the disk refuses events: there is nothing more to do.
struct Halt(oneshot::Sender<()>);

/// One request's actor.
pub(super) struct Actor {
    current: Arc<CurrentServices>,
    /// As they were when the last effect began.
    services: Arc<EngineServices>,
    log: RequestLog,
    /// The right to have the log open.
    log_descriptor: Option<DescriptorPermit>,
    tree: Tree,
    /// Tells who asks what the tree has become.
    tell_nodes: watch::Sender<Vec<TreeNode>>,
    journal: Arc<Journal>,
    mailbox: mpsc::Receiver<ActorMessage>,
    sender: mpsc::WeakSender<ActorMessage>,
    registry: Arc<Registry>,
    /// Messages that arrived while the disk refused events.
    deferred: VecDeque<ActorMessage>,
    /// The effects that run, by task: in order, so that what is due at once comes in the same order each time.
    driven: BTreeMap<TaskId, TaskWork>,
    /// The restore that is under way. Nothing else is done meanwhile.
    restoring: Option<RunningRestore>,
    /// The commands that run in the background.
    background: Arc<BackgroundCommands>,
    /// The browsers of the tasks that may have one.
    browsers: HashMap<TaskId, Arc<TaskBrowser>>,
    /// Browsers that are ending.
    closing: JoinSet<bool>,
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
        current: Arc<CurrentServices>,
        log: RequestLog,
        (tree, tell_nodes): (Tree, watch::Sender<Vec<TreeNode>>),
        journal: Arc<Journal>,
        (sender, mailbox): (&mpsc::Sender<ActorMessage>, mpsc::Receiver<ActorMessage>),
        registry: Arc<Registry>,
        cancel: CancellationToken,
    ) -> Self {
        Self {
            services: current.newest(),
            current,
            log,
            log_descriptor: None,
            tree,
            tell_nodes,
            journal,
            mailbox,
            sender: sender.downgrade(),
            registry,
            deferred: VecDeque::new(),
            driven: BTreeMap::new(),
            restoring: None,
            background: Arc::default(),
            browsers: HashMap::new(),
            closing: JoinSet::new(),
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
    pub(super) async fn run(mut self, first: Vec<Fact>, begun: watch::Sender<bool>) {
        let end = self.work(first, begun).await.unwrap_or_else(|Halt(done)| ActorEnd::Shutdown(done));
        let running: Vec<RunningEffect> =
            std::mem::take(&mut self.driven).into_values().filter_map(|driven| driven.running).collect();
        running.iter().for_each(|running| running.cancel.cancel());
        // An actor that ends by itself has none, and a shutdown ends all of them.
        let commands = self.background.all();
        commands.iter().for_each(|command| command.stop(StopReason::TaskEnded));
        // The messages of their ends are not read any more, and must keep nobody waiting.
        self.mailbox.close();
        let commands = futures_util::future::join_all(commands.iter().map(|command| command.ended()));
        for (_, browser) in self.browsers.drain() {
            self.closing.spawn(async move { browser.close().await });
        }
        let browsers = std::mem::take(&mut self.closing).join_all();
        let ends = futures_util::future::join_all(running.into_iter().map(|running| running.handle));
        // What takes longer is beyond reach; the process ends all the same.
        let _ =
            tokio::time::timeout(SHUTDOWN_GRACE, futures_util::future::join3(ends, commands, browsers)).await;
        // With the actor go the locks of its log; only then may the next one come.
        let mailbox = std::mem::replace(&mut self.mailbox, mpsc::channel(1).1);
        drop(self);
        drop_late(mailbox).await;
        match end {
            ActorEnd::Left(passing) => drop(passing),
            // Nobody waits for the answer after all: then there is nobody to tell.
            ActorEnd::Shutdown(done) => drop(done.send(())),
            ActorEnd::Alone => {}
        }
    }

    async fn work(&mut self, first: Vec<Fact>, begun: watch::Sender<bool>) -> Result<ActorEnd, Halt> {
        self.commit(first).await?;
        // Nobody may be waiting.
        let _ = begun.send(true);
        self.proceed().await?;
        let services = Arc::clone(&self.services);
        loop {
            if self.is_quiet()
                && let Some(passing) =
                    Arc::clone(&self.registry).leave(&self.tree.root().id, || self.mailbox.is_empty()).await
            {
                return Ok(ActorEnd::Left(passing));
            }
            // Before the look at whether logs are scarce.
            let log_wanted = services.descriptors.log_wanted();
            self.rest();
            let (grace, sync_again) = (self.first_grace(), self.sync_again);
            let holds_log = self.log.is_open();
            let message = match self.deferred.pop_front() {
                Some(message) => Some(message),
                None => tokio::select! {
                    biased;
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
                    message = self.mailbox.recv() => message,
                    () = log_wanted, if holds_log => continue,
                },
            };
            match message {
                None => return Ok(ActorEnd::Alone),
                Some(ActorMessage::Shutdown(done)) => return Ok(ActorEnd::Shutdown(done)),
                Some(ActorMessage::Command(_, command, reply)) if matches!(*command, Command::Delete) => {
                    let state = self.tree.root().state();
                    let is_at_rest = state.is_final() || state == TaskState::Interrupted;
                    if is_at_rest && self.restoring.is_none() {
                        let kept = worktrees::close_all(&self.tree, &self.current.read().await).await;
                        // A client that has gone needs no answer.
                        let _ = reply.send(Ok(Reply::GivenUp(kept)));
                        return Ok(ActorEnd::Alone);
                    }
                    let problem = "it is running; cancel it first".to_owned();
                    let error = EngineError::WrongState { task: self.tree.root().id.clone(), problem };
                    let _ = reply.send(Err(error));
                }
                Some(message) => self.handle(message).await?,
            }
        }
    }

    /// Gives the descriptor of the log back when nothing runs, or when another request waits for one.
    fn rest(&mut self) {
        let works = self.restoring.is_some() || self.driven.values().any(|driven| driven.running.is_some());
        if works && !self.services.descriptors.are_logs_scarce() {
            return;
        }
        self.log.close();
        match self.log.is_open() {
            true => self.sync(),
            false => self.log_descriptor = None,
        }
    }

    /// Returns whether nothing happens any more unless somebody wants it.
    fn is_quiet(&self) -> bool {
        self.tree.root().state().is_final()
            && self.restoring.is_none()
            && self.driven.values().all(|driven| driven.running.is_none())
            && self.undurable.is_none()
            && !self.syncing
            && self.deferred.is_empty()
    }

    async fn handle(&mut self, message: ActorMessage) -> Result<(), Halt> {
        match message {
            ActorMessage::Command(task, command, reply) => {
                let answer = self.command(task, *command).await?;
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
                    self.input(&owner, Input::CommandEnded { id: id.clone(), outcome: *outcome }).await?;
                }
                self.background.remove(&id);
            }
            ActorMessage::Restored(outcome) => self.finish_restore(outcome).await?,
            ActorMessage::Synced(outcome) => self.on_synced(outcome).await,
            ActorMessage::Shutdown(_) => {}
        }
        Ok(())
    }

    async fn report(&mut self, task: TaskId, report: Report) -> Result<(), Halt> {
        let driven = self.driven.entry(task.clone()).or_default();
        let (hook_messages, input) = match report {
            Report::Progress(input) => (None, input),
            Report::ServerAsked(question, answer) => {
                driven.answer = Some(answer);
                (None, Input::ServerAsked(question))
            }
            Report::Gated(decision) => {
                driven.running = None;
                driven.permit = decision.permit;
                (Some(decision.hook_messages), Input::Gated(decision.decision))
            }
            Report::Ran(messages, outcome) => {
                let call = driven.running.take().and_then(|running| match running.effect {
                    Effect::RunTool { call_id, .. } => Some(call_id),
                    _ => None,
                });
                driven.finish();
                if let Some(call) = call.filter(|_| outcome.background.is_some()) {
                    self.journal.keep_open(&call);
                }
                self.journal.close_all(&task);
                (Some(messages), Input::ToolDone(outcome))
            }
            Report::Last(input) => {
                driven.finish();
                self.journal.close_all(&task);
                (None, input)
            }
            Report::Panicked(problem) => {
                let (Some(running), Some(about)) = (driven.running.take(), self.tree.task(&task)) else {
                    return Ok(());
                };
                driven.finish();
                self.journal.close_all(&task);
                (None, defect::input_for(&running.effect, about, problem))
            }
        };
        if let Some(messages) = hook_messages {
            // Nothing may follow before what it belongs to has come as well.
            let facts = self.tree.decide(&task, Input::HookMessages(messages), self.services.clock.now());
            self.commit(facts).await?;
        }
        self.input(&task, input).await?;
        // What is not asked, or not any more, is not answered.
        if self.tree.task(&task).is_some_and(|task| task.question().is_none())
            && let Some(driven) = self.driven.get_mut(&task)
        {
            driven.answer = None;
        }
        Ok(())
    }

    async fn command(&mut self, task: TaskId, command: Command) -> Result<Result<Reply, EngineError>, Halt> {
        if let Command::Reconsider(subject) = &command {
            let covered = |task: &&Task| {
                let rule = task.approval().and_then(|approval| approval.rule.as_ref());
                rule.is_some_and(|asked| subject.may_decide(asked))
            };
            let tasks: Vec<TaskId> =
                self.tree.tasks().iter().filter(covered).map(|task| task.id.clone()).collect();
            for task in tasks {
                self.input(&task, Input::Reconsider).await?;
            }
            return Ok(Ok(Reply::Done));
        }
        if self.restoring.is_some() {
            let problem = "an earlier state is being restored; try again in a moment".to_owned();
            return Ok(Err(EngineError::WrongState { task, problem }));
        }
        if let Command::CheckRestore(last_seq) = command {
            return Ok(self.check_restore(&task, last_seq).map(|()| Reply::Done));
        }
        if let Command::Restore(order) = command {
            return self.begin_restore(task, *order).await;
        }
        let (input, mut reply) = match self.judge(&task, command) {
            Ok(CommandOutcome::Input(input, reply)) => (*input, reply),
            Ok(CommandOutcome::Settled(reply)) => return Ok(Ok(reply)),
            Err(error) => return Ok(Err(error)),
        };
        self.input(&task, input).await?;
        if let Reply::Answer(answer) | Reply::Rule(answer, _) = &mut reply {
            // An answer may have ended it, and what has ended is not to go on.
            answer.interrupted = self.tree.task(&task).is_some_and(Task::is_interrupted);
        }
        Ok(Ok(reply))
    }

    /// Puts down that a restore begins. Its files are written when that is durable.
    async fn begin_restore(
        &mut self,
        task: TaskId,
        order: RestoreOrder,
    ) -> Result<Result<Reply, EngineError>, Halt> {
        if let Err(error) = self.check_restore(&task, order.last_seq) {
            return Ok(Err(error));
        }
        self.commit(vec![(task.clone(), Event::RestoreStarted { restore: Arc::clone(&order.restore) })])
            .await?;
        let started = self.log.last_seq();
        self.restoring = Some(RunningRestore { task, started, order, writes: false });
        self.proceed().await?;
        Ok(Ok(Reply::Done))
    }

    /// Refuses a restore while something runs, and where the log is not as it was when that was decided on.
    fn check_restore(&self, task: &TaskId, last_seq: u64) -> Result<(), EngineError> {
        let works = self.driven.values().any(|driven| driven.running.is_some());
        let problem = if !works && !self.background.all().is_empty() {
            "a command in the background is still ending; try again in a moment"
        } else if works || self.log.last_seq() != last_seq {
            "it has gone on meanwhile; cancel it and look at the preview again"
        } else {
            return Ok(());
        };
        Err(EngineError::WrongState { task: task.clone(), problem: problem.to_owned() })
    }

    /// Writes the files of the restore that is under way.
    fn drive_restore(&mut self) {
        let (Some(sender), Some(restoring)) = (self.sender.upgrade(), &mut self.restoring) else { return };
        if restoring.writes || self.synced < restoring.started {
            return;
        }
        restoring.writes = true;
        let (services, edits) = (Arc::clone(&self.services), restoring.order.edits.clone());
        let restore = Arc::clone(&restoring.order.restore);
        let label = format!("roo-lsp: restore files to before {}", restore.seq);
        tokio::spawn(async move {
            let written = match services.gate.restore_for_user(&edits, &label).await {
                Ok(()) => Ok(()),
                Err(reason) => {
                    let not_restored = checkpoints::not_restored(&services.workspace, &restore).await;
                    Err(RestoreFailure { reason, not_restored })
                }
            };
            // The actor has ended.
            let _ = sender.send(ActorMessage::Restored(written)).await;
        });
    }

    async fn finish_restore(&mut self, outcome: Result<(), RestoreFailure>) -> Result<(), Halt> {
        let Some(RunningRestore { task, started, order, .. }) = self.restoring.take() else { return Ok(()) };
        let RestoreOrder { restore, mut changes, then, done, .. } = order;
        let is_whole = outcome.is_ok();
        let (reason, unchanged) = match outcome {
            Ok(()) => (None, vec![]),
            Err(RestoreFailure { reason, not_restored }) => (Some(reason), not_restored),
        };
        // What could neither be written whole nor put back whole counts by files.
        let is_done = is_whole || unchanged.len() < restore.digests.len();
        changes.retain(|change| !unchanged.contains(&change.path));
        if let Some(state) = self.tree.task(&task).filter(|_| is_done && !changes.is_empty()) {
            // Before the log tells of the end: whoever finds that no longer looks whether the trace has it.
            let call = checkpoints::restored_call(started);
            audit::undone(state, &self.tree, call, &restore.by, changes, &self.services).await;
        }
        let cut = restore.cut.as_ref().filter(|_| is_done);
        if let (Some(cut), Some(then)) = (cut, then) {
            self.tree.mark(cut.before, then);
        }
        let (reason, unchanged) = match reason {
            Some(reason) if is_done => {
                let files = one_line(&unchanged.join(", "), 200);
                (Some(format!("{reason}; not restored: {files}")), unchanged)
            }
            reason => (reason, vec![]),
        };
        let conversation_before = cut.map(|cut| cut.before);
        let event = Event::RestoreFinished {
            started,
            done: is_done,
            reason: reason.clone(),
            unchanged,
            conversation_before,
        };
        let mut facts = vec![(task.clone(), event)];
        if let Some(say) = restore.say.as_ref().filter(|_| is_whole) {
            // In the same append: a kill leaves no restored conversation without the message.
            facts = self.tree.saying(facts, say, self.services.clock.now());
        }
        self.commit(facts).await?;
        self.tree.clear_marks();
        self.proceed().await?;
        // A client that has gone needs no answer.
        let _ = done.send(match reason {
            None => Ok(started),
            Some(problem) => {
                let what = if is_done { "not all was restored" } else { "nothing was restored" };
                Err(EngineError::WrongState { task, problem: format!("{what}: {problem}") })
            }
        });
        Ok(())
    }

    /// Checks a command: its outcome, or the reason why it can't be done.
    fn judge(&self, id: &TaskId, command: Command) -> Result<CommandOutcome, EngineError> {
        let task =
            self.tree.task(id).ok_or_else(|| EngineError::NotFound { what: "task", id: id.to_string() })?;
        let interrupted = task.is_interrupted();
        let settled = |accepted, by: &Decider| {
            let answer =
                AnswerResult { accepted, by: by.to_string(), interrupted, waits: false, settled: None };
            CommandOutcome::Settled(Reply::Answer(answer))
        };
        let answered_before = |again: bool, answered: &Answered| {
            let settled = (!again).then(|| answered.settled());
            let answer = AnswerResult {
                accepted: again,
                by: answered.by.to_string(),
                interrupted,
                waits: false,
                settled,
            };
            Ok(CommandOutcome::Settled(Reply::Answer(answer)))
        };
        // Whether it is interrupted then, is known when the input is applied.
        let counts = |by: Decider, waits| AnswerResult {
            accepted: true,
            by: by.to_string(),
            interrupted: false,
            waits,
            settled: None,
        };
        let accepted = |input, by| CommandOutcome::Input(Box::new(input), Reply::Answer(counts(by, false)));
        match command {
            // Handled where the actor can end.
            Command::Delete | Command::Reconsider(_) | Command::CheckRestore(_) | Command::Restore(_) => {
                Ok(CommandOutcome::Settled(Reply::Done))
            }
            Command::Background => {
                self.foreground_command(id)?.to_background.cancel();
                Ok(CommandOutcome::Settled(Reply::Done))
            }
            Command::StopForeground => {
                self.foreground_command(id)?.stop.cancel();
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
            Command::ResumeInterrupted if !interrupted => {
                let problem = format!("it is {}; it was not interrupted", task.state().as_str());
                Err(EngineError::WrongState { task: task.id.clone(), problem })
            }
            Command::ResumeInterrupted => Ok(CommandOutcome::Input(Box::new(Input::Resume), Reply::Done)),
            Command::Respond { approval_id, digest, option_id, opened, text, review, by } => {
                if let Some(answered) = task.answered.get(&approval_id) {
                    let again = answered.by == by && answered.answer.as_deref() == Some(&option_id);
                    return answered_before(again, answered);
                }
                let pending = task.approval();
                let Some(approval) = pending.filter(|approval| approval.approval_id.as_str() == approval_id)
                else {
                    return Err(EngineError::NotFound { what: "approval", id: approval_id });
                };
                let option_id = self.check_choice(approval, &option_id, digest, opened)?;
                if let Some(held) = task.held_answer() {
                    return Ok(settled(held.by == by && held.option_id == option_id, &held.by));
                }
                let rule = NewRule::from_answer(approval, option_id);
                let input = Input::Respond { option_id, text, review, by: by.clone() };
                Ok(match rule {
                    None => accepted(input, by),
                    Some(rule) => {
                        CommandOutcome::Input(Box::new(input), Reply::Rule(counts(by, false), rule))
                    }
                })
            }
            Command::Answer { question_id, text, images, condense, by } => {
                if let Some(answered) = task.answered.get(question_id.as_str()) {
                    let again = answered.by == by && answered.answer.as_deref() == Some(&text);
                    return answered_before(again, answered);
                }
                if task.question().is_none_or(|question| question.question_id != question_id) {
                    return Err(EngineError::NotFound { what: "question", id: question_id.to_string() });
                }
                if condense && !task.is_asked_by_server() {
                    let reply = Reply::Answer(counts(by, true));
                    return Ok(CommandOutcome::Input(Box::new(Input::Condense), reply));
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
    ) -> Result<Choice, EngineError> {
        let mismatch = |problem: String| Err(EngineError::Mismatch { problem });
        if approval.digest != digest {
            return mismatch("the digest doesn't match the action that waits for approval".into());
        }
        let no_option =
            || EngineError::Mismatch { problem: format!("the approval has no option '{option_id}'") };
        let choice = Choice::parse(option_id).ok_or_else(no_option)?;
        let reviews = choice == Choice::ReviewOnce && approval.reviewable;
        if reviews && !self.services.workspace.can_review() {
            return mismatch("this editor has no preview that confirms edits".into());
        }
        let kind = match approval.options.iter().find(|option| option.id == option_id) {
            Some(option) => option.kind,
            None if reviews => OptionKind::AllowOnce,
            None => return Err(no_option()),
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
        if task.parent.is_some() && task.state().is_final() && !task.is_stopped() {
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
            Input::Condense | Input::RestoreContext { .. } if task.state().is_final() => {
                wrong("it has ended; let it go on first")
            }
            Input::RestoreContext { seq, .. } => match task::why_not_restored(task, *seq) {
                Some(problem) => wrong(problem),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    async fn input(&mut self, task: &TaskId, mut input: Input) -> Result<(), Halt> {
        let now = self.services.clock.now();
        let answer = self.answer_for_server(task, &mut input);
        let facts = self.tree.decide(task, input, now);
        self.commit(facts).await?;
        if let Some((sender, text)) = answer {
            // A server that has ended needs no answer.
            let _ = sender.send(text);
        }
        self.proceed().await
    }

    /// Takes the answer that a server waits for. What may be a secret is left out of the input, and so of the log.
    fn answer_for_server(
        &mut self,
        task: &TaskId,
        input: &mut Input,
    ) -> Option<(oneshot::Sender<String>, String)> {
        let Input::Answer { text, .. } = input else { return None };
        let question = self.tree.task(task)?.question()?;
        if question.kind != QuestionKind::McpElicitation {
            return None;
        }
        let is_offered = question.suggestions.iter().any(|suggestion| suggestion.text == *text);
        let answer = text.clone();
        if !is_offered && (question.secret || holds_secret(text)) {
            text.clear();
            text.push_str(NOT_KEPT);
        }
        self.driven.get_mut(task)?.answer.take().map(|sender| (sender, answer))
    }

    /// Lets everything follow that follows from the state, then runs what it wants.
    async fn proceed(&mut self) -> Result<(), Halt> {
        loop {
            let mut facts = self.tree.settle();
            if facts.is_empty() {
                facts = self.forgo_tool();
            }
            if facts.is_empty() {
                self.read_settings().await;
                facts = self.follow_settings();
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
        let reply = if task.is_stopping() { replies::stopped() } else { replies::cancelled() };
        let outcome = Outcome::interrupted(reply);
        self.tree.decide(&task.id, Input::ToolDone(outcome), self.services.clock.now())
    }

    /// Takes the services by the settings as they are now, if an effect is about to start.
    async fn read_settings(&mut self) {
        let starts = |task: &Task| {
            let running = self.running(&task.id).map(|running| &running.effect);
            task::wanted(task).is_some_and(|wanted| running != Some(&wanted))
        };
        if self.tree.tasks().iter().any(starts) {
            self.services = self.current.read().await;
        }
    }

    /// Gives a task that is about to ask its model the profile that the settings have for it now.
    fn follow_settings(&self) -> Vec<Fact> {
        let asks = |task: &&Task| {
            self.running(&task.id).is_none() && matches!(task::wanted(task), Some(Effect::CallModel { .. }))
        };
        let asking: Vec<&Task> = self.tree.tasks().iter().filter(asks).collect();
        if asking.is_empty() {
            return vec![];
        }
        let change =
            asking.iter().find_map(|task| Some((&task.id, self.services.profile_change(&task.settings)?)));
        let facts = change
            .map(|(task, change)| self.tree.decide(task, Input::Change(change), self.services.clock.now()));
        facts.unwrap_or_default()
    }

    fn running(&self, task: &TaskId) -> Option<&RunningEffect> {
        self.driven.get(task).and_then(|driven| driven.running.as_ref())
    }

    /// Finds the foreground command of a task, or else of a branch below it.
    fn foreground_command(&self, top: &TaskId) -> Result<&ForegroundControl, EngineError> {
        let runs =
            |task: &&Task| self.tree.is_within(&task.id, top) && task.current_effect() == ToolEffect::Execute;
        let found = self.tree.tasks().iter().filter(runs).find_map(|task| {
            self.running(&task.id).filter(|running| matches!(running.effect, Effect::RunTool { .. }))
        });
        found.map(|running| &running.foreground).ok_or_else(|| {
            let problem = "it has no command in the foreground".to_owned();
            EngineError::WrongState { task: top.clone(), problem }
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
    /// the task is paused and clients are notified.
    async fn commit(&mut self, mut facts: Vec<Fact>) -> Result<(), Halt> {
        if facts.is_empty() {
            return Ok(());
        }
        self.mark_prompts(&mut facts).await;
        if facts.iter().any(|(_, event)| matches!(event, Event::Ended { .. })) {
            // A task that has ended is not opened again, so nothing would recover its last record.
            audit::settle(&self.services).await;
        }
        self.wait_for_descriptor().await;
        let at = self.services.clock.now();
        let first = self.log.last_seq() + 1;
        let records: Vec<Record<Event>> =
            (first..).zip(facts).map(|(seq, (task_id, event))| Record { seq, at, task_id, event }).collect();
        let mut wait = STORE_RETRY.0;
        while let Err(error) = self.log.append(&records) {
            if self.free_reserve(&error) {
                continue;
            }
            let reason = format!("{error}. The task can't go on until this is fixed.");
            self.journal.degrade(at, reason);
            self.wait_for_disk(wait).await?;
            wait = (wait * 2).min(STORE_RETRY.1);
        }
        self.report_recovery();
        self.settle_patches(&records);
        let state = self.tree.state();
        for record in &records {
            let answered = self.answered_approval(record);
            self.tree.apply(&record.task_id, &record.event, record.seq, record.at);
            if let (Some(answered), Some(task)) = (answered, self.tree.task(&record.task_id))
                && task.is_refused_by_user()
            {
                let services = self.services.for_task(&self.tree, task);
                audit::refused_by_user(task, &self.tree, answered, &services);
            }
            if record.event.is_decision() {
                self.last_decision = record.seq;
                self.undurable.get_or_insert(record.seq);
                self.deciding.insert(record.task_id.clone());
            }
        }
        self.tell_end(&records);
        self.report_trace_problem();
        self.journal.append(&records);
        if records.iter().any(|record| record.event.changes_tree()) {
            let nodes = self.tree.nodes();
            self.tell_nodes.send_replace(nodes.clone());
            self.journal.set_tree(self.log.last_seq(), at, nodes);
        }
        self.publish();
        if state != self.tree.state() || first == 1 {
            self.summarise();
        }
        Ok(())
    }

    /// The approval that a record answers, of which action it was, and who answered.
    fn answered_approval<'a>(&self, record: &'a Record<Event>) -> Option<(ApprovalId, Digest, &'a Decider)> {
        let Event::ApprovalResolved { approval_id, by, .. } = &record.event else { return None };
        let asked = self.tree.task(&record.task_id)?.approval()?;
        (asked.approval_id == *approval_id).then(|| (approval_id.clone(), asked.digest, by))
    }

    /// Completes or undoes edits of several files that an earlier server has left: when their calls end here, since a call that is
    /// cancelled isn't looked into, and when the request is resumed. They must neither leave contents beside their files nor
    /// come true with a later edit. By then the editor has reported its documents, which show what became of an edit there.
    fn settle_patches(&self, records: &[Record<Event>]) {
        for Record { task_id, event, .. } in records {
            let task = self.tree.task(task_id).filter(|task| match event {
                Event::ToolFinished { .. } => task.has_unsettled_patch(),
                // A server that was killed may have ended the call, and not yet what it began.
                Event::Resumed => task.id.is_root(),
                _ => false,
            });
            if let Some(task) = task {
                let services = self.services.for_task(&self.tree, task);
                // Another edit may hold the lock for long.
                tokio::spawn(async move { services.workspace.settle().await });
            }
        }
    }

    /// Warns clients while the trace can't be kept.
    fn report_trace_problem(&mut self) {
        let problem = self.services.recorder.problem().map(|error| error.to_string());
        if self.trace_problem != problem {
            if let Some(error) = &problem {
                let reason = format!("{error}. Nothing is changed or run until this is fixed.");
                self.journal.degrade(self.services.clock.now(), reason);
            }
            self.trace_problem = problem;
        }
    }

    /// Waits for the right to open the log. What arrives meanwhile comes after; a server that ends waits for nothing.
    async fn wait_for_descriptor(&mut self) {
        let is_ending = matches!(self.deferred.front(), Some(ActorMessage::Shutdown(_)));
        if self.log_descriptor.is_some() || is_ending {
            return;
        }
        let services = Arc::clone(&self.services);
        let turn = services.descriptors.log();
        tokio::pin!(turn);
        loop {
            tokio::select! {
                biased;
                permit = &mut turn => {
                    self.log_descriptor = permit;
                    return;
                }
                message = self.mailbox.recv() => match message {
                    None => return,
                    Some(message @ ActorMessage::Shutdown(_)) => {
                        self.deferred.push_front(message);
                        return;
                    }
                    Some(message) => self.deferred.push_back(message),
                },
            }
        }
    }

    /// Says of what users said whether there are hooks that are asked about it: the machine can't know.
    async fn mark_prompts(&self, facts: &mut [Fact]) {
        let is_said = |(_, event): &Fact| {
            matches!(event, Event::UserSaid { .. } | Event::QuestionAnswered { words: Some(_), .. })
        };
        if !facts.iter().any(is_said) {
            return;
        }
        let user_hooks = hook_dispatch::hooks_of(&self.services).await;
        for (task, event) in facts {
            let begin = if task.is_root() { EventName::SessionStart } else { EventName::SubagentStart };
            match event {
                Event::UserSaid { hooks, .. } => {
                    *hooks = user_hooks.has(EventName::UserPromptSubmit) || user_hooks.has(begin);
                }
                Event::QuestionAnswered { words: Some(words), .. } => {
                    words.hooks = user_hooks.has(EventName::UserPromptSubmit);
                }
                _ => {}
            }
        }
    }

    /// Tells hooks of the request's end. No task waits for that.
    fn tell_end(&self, records: &[Record<Event>]) {
        let root = self.tree.root();
        if records.iter().any(|it| it.task_id == root.id && matches!(it.event, Event::Ended { .. })) {
            let context = EffectContext {
                services: Arc::clone(&self.services),
                journal: Arc::clone(&self.journal),
                cancel: self.cancel.clone(),
                background: Arc::clone(&self.background),
                browser: Arc::default(),
                foreground: ForegroundControl::default(),
            };
            let asking = HookDispatch::new(root, &context);
            let unwaited = self.services.unwaited_hooks.of_ends.clone();
            unwaited.spawn(async move { asking.session_ended().await });
        }
    }

    /// Waits before the disk is tried again. Meanwhile commands are refused at once, reports wait, and
    /// the end of the server ends the wait.
    async fn wait_for_disk(&mut self, wait: Duration) -> Result<(), Halt> {
        for message in std::mem::take(&mut self.deferred) {
            self.defer(message)?;
        }
        let end = Instant::now() + wait;
        loop {
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(end) => return Ok(()),
                message = self.mailbox.recv() => match message {
                    // No message can arrive any more.
                    None => return Err(Halt(oneshot::channel().0)),
                    Some(message) => self.defer(message)?,
                },
            }
        }
    }

    /// Refuses a command because the disk refuses events, and keeps a report for later.
    fn defer(&mut self, message: ActorMessage) -> Result<(), Halt> {
        match message {
            ActorMessage::Shutdown(done) => return Err(Halt(done)),
            ActorMessage::Command(task, command, reply) => {
                // What runs can be ended all the same: it may be what fills the disk. Other
                // effects would end without a word, and be waited for.
                if let Command::Input(input) = &*command
                    && matches!(**input, Input::Cancel | Input::Stop)
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
            message => self.deferred.push_back(message),
        }
        Ok(())
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
            self.journal.report_recovered(self.services.clock.now());
        }
    }

    /// Returns whether the disk was full and the reserved space has been freed for it; clients are warned then.
    fn free_reserve(&self, error: &StoreError) -> bool {
        let freed = error.system().is_some_and(|error| self.services.reserve.release_if_full(error));
        if freed {
            let mib = reserve::SIZE >> 20;
            let reason =
                format!("The disk is full: the {mib} MiB reserved for this are now in use. Free some space.");
            self.journal.warn(self.services.clock.now(), WireEvent::ServerDegraded { reason, until: None });
        }
        freed
    }

    /// Makes the log durable, behind the trace and the names of the files that it tells of. A write or a command that follows
    /// starts when that is done: after a loss of power the log has every one that may have happened, and none whose file is
    /// still the old one.
    fn sync(&mut self) {
        let Some(sender) = self.sender.upgrade() else { return };
        if self.syncing || self.sync_again.is_some() || self.synced == self.log.last_seq() {
            return;
        }
        self.syncing = true;
        let request = self.tree.root().id.clone();
        let log = self.journal.log();
        let sync = audit::traced(self.log.sync_handle(), request, &self.services);
        tokio::spawn(async move {
            let outcome = match roo_durable::spawn_blocking(sync).await.map_err(JoinError::try_into_panic) {
                Ok(outcome) => outcome,
                Err(Ok(panic)) => {
                    let source = io::Error::other(defect::words_of(panic.as_ref()));
                    Err(StoreError::Io { doing: "sync", path: log, source })
                }
                // The runtime ends.
                Err(Err(_)) => return,
            };
            // The actor has ended.
            let _ = sender.send(ActorMessage::Synced(outcome)).await;
        });
    }

    async fn on_synced(&mut self, outcome: Result<Synced, StoreError>) {
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
                self.journal.degrade(self.services.clock.now(), reason);
                self.sync_again = Some(Instant::now() + self.sync_wait);
                self.sync_wait = (self.sync_wait * 2).min(STORE_RETRY.1);
                return;
            }
        };
        let seq = synced.seq();
        self.log.synced(&synced);
        self.sync_wait = STORE_RETRY.0;
        self.report_trace_problem();
        self.report_recovery();
        self.synced = seq;
        if self.undurable.is_some_and(|undurable| undurable <= seq) {
            self.undurable = (seq < self.last_decision).then_some(seq + 1);
        }
        if self.undurable.is_none() {
            self.deciding.clear();
        }
        self.publish();
        self.read_settings().await;
        self.drive();
        self.sync_decisions();
    }

    /// Makes the running effect of each task the one that is wanted. What runs goes on with the settings that it had.
    fn drive(&mut self) {
        self.drive_restore();
        for command in self
            .tree
            .tasks()
            .iter()
            .filter(|task| task.ends_commands())
            .flat_map(|task| task.commands.running())
        {
            self.background.stop(&command.id, StopReason::TaskEnded);
        }
        self.close_browsers();
        let wanted: Vec<(TaskId, Option<Effect>)> =
            self.tree.tasks().iter().map(|task| (task.id.clone(), task::wanted(task))).collect();
        for (task, wanted) in wanted {
            if wanted.is_some() || self.driven.contains_key(&task) {
                self.drive_task(&task, wanted);
            }
        }
    }

    /// Ends the browsers of tasks that have ended. Whoever waits for the end of the request waits for that.
    fn close_browsers(&mut self) {
        let tree = &self.tree;
        let has_ended =
            |id: &TaskId, _: &mut Arc<TaskBrowser>| tree.task(id).is_none_or(|task| task.state().is_final());
        for (_, browser) in self.browsers.extract_if(has_ended) {
            self.closing.spawn(async move { browser.close().await });
        }
        while self.closing.try_join_next().is_some() {}
    }

    fn drive_task(&mut self, id: &TaskId, wanted: Option<Effect>) {
        let cancelling = self.tree.task(id).is_some_and(Task::is_cancelling);
        let driven = self.driven.entry(id.clone()).or_default();
        if let Some(running) = &driven.running {
            if wanted.as_ref() == Some(&running.effect) {
                // Nothing else runs in a task that is cancelled but what closes its work tree, which is to be done once.
                let is_tool = matches!(running.effect, Effect::RunTool { .. });
                if cancelling && is_tool && driven.grace.is_none() {
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
        // A work tree goes only when it is known for good that its changes are merged.
        let is_last_word = matches!(effect, Effect::RunTool { mutating: true, .. } | Effect::CloseWorktree);
        if is_last_word && self.synced < led_to_it {
            self.sync();
            return;
        }
        self.start(id, effect);
    }

    fn start(&mut self, id: &TaskId, effect: Effect) {
        let (Some(sender), Some(task)) = (self.sender.upgrade(), self.tree.task(id)) else { return };
        self.generation += 1;
        let cancel = self.cancel.child_token();
        let reporter = Reporter::new(sender, id.clone(), self.generation);
        let foreground = ForegroundControl::default();
        let context = EffectContext {
            services: self.services.for_task(&self.tree, task),
            journal: Arc::clone(&self.journal),
            cancel: cancel.clone(),
            background: Arc::clone(&self.background),
            browser: Arc::clone(self.browsers.entry(id.clone()).or_default()),
            foreground: foreground.clone(),
        };
        let driven = self.driven.entry(id.clone()).or_default();
        let permit = driven.permit.take();
        let rendered = driven.rendered.clone();
        let handle = effects::start(effect.clone(), task, &self.tree, permit, rendered, context, reporter);
        driven.running =
            Some(RunningEffect { effect, generation: self.generation, cancel, foreground, handle });
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

/// Drops what comes into a closed mailbox from those who were sending when it was closed. Left in it, a message would keep
/// its sender waiting for an answer that nobody gives.
async fn drop_late(mut mailbox: mpsc::Receiver<ActorMessage>) {
    while mailbox.recv().await.is_some() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_to_an_actor_is_small() {
        assert!(size_of::<ActorMessage>() <= 72, "{}", size_of::<ActorMessage>());
    }

    #[tokio::test]
    async fn who_sends_while_an_actor_ends_is_not_kept_waiting() {
        let (sender, mut mailbox) = mpsc::channel(1);
        let permit = sender.clone().reserve_owned().await.unwrap();
        mailbox.close();
        let ended = tokio::spawn(drop_late(mailbox));
        tokio::task::yield_now().await;
        let (done, told) = oneshot::channel();
        let kept = permit.send(ActorMessage::Shutdown(done));
        assert!(told.await.is_err());
        ended.await.unwrap();
        assert!(kept.is_closed() && sender.is_closed());
    }
}
