//! The actor of one request: it owns the log and the state, takes inputs one after another, and
//! keeps exactly the effect running that the state wants.
//!
//! Append before apply: nothing is true before it is in the log. Followers are told of an event when
//! it is written, of a decision when it is durable; an effect that changes the world starts only
//! when all that led to it is durable. An effect that is wanted no more is ended, and what it still
//! reports is dropped.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::effects::{self, Setting};
use super::event::Event;
use super::journal::Journal;
use super::task::{self, Effect, Input, Task};
use super::{EngineError, Summaries};
use crate::catalog::Effect as ToolEffect;
use crate::hooks::{Decision, Permit};
use crate::prompts::replies;
use crate::protocol::event::Event as WireEvent;
use crate::protocol::ids::{Digest, QuestionId};
use crate::protocol::task::AnswerResult;
use crate::store::{Record, RequestLog, StoreError};
use crate::tools::Outcome;

/// How long a cancelled tool has to come to its end before it counts as interrupted.
const CANCEL_GRACE: Duration = Duration::from_secs(2);
/// The first and the longest wait between two tries to write to a log that refuses.
const STORE_RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// What an actor is told.
pub(super) enum Mail {
    /// A client wants something; the answer says whether that was possible.
    Command(Command, oneshot::Sender<Result<Reply, EngineError>>),
    /// The running effect reports. A report of an earlier generation is dropped.
    Report { generation: u64, report: Report },
    /// The log is durable up to this number, or can't be made so.
    Synced(u64, Result<(), StoreError>),
    /// The server ends: stop effects, leave the state as it is.
    Shutdown(oneshot::Sender<()>),
}

/// What a client wants.
pub(super) enum Command {
    /// An input that needs no check.
    Input(Input),
    /// An answer to an approval.
    Respond { approval_id: String, digest: Digest, option_id: String, text: Option<String>, by: String },
    /// An answer to a question.
    Answer { question_id: QuestionId, text: String, images: Vec<String>, by: String },
}

/// What a command came to.
pub(super) enum Reply {
    Done,
    Answer(AnswerResult),
}

/// What an effect reports.
pub(super) enum Report {
    /// Something came; the effect goes on.
    Progress(Input),
    /// The gate has judged.
    Judged(Decision),
    /// The effect is over.
    Last(Input),
}

struct Running {
    effect: Effect,
    generation: u64,
    cancel: CancellationToken,
}

/// One request's actor.
pub(super) struct Actor {
    setting: Arc<Setting>,
    log: RequestLog,
    task: Task,
    journal: Arc<Journal>,
    mailbox: mpsc::Receiver<Mail>,
    sender: mpsc::WeakSender<Mail>,
    summaries: Arc<Summaries>,
    running: Option<Running>,
    generation: u64,
    permit: Option<Permit>,
    /// What a tool still has after its task was cancelled.
    grace: Option<tokio::time::Instant>,
    cancel: CancellationToken,
    synced: u64,
    syncing: bool,
    /// The first decision that is not durable yet.
    undurable: Option<u64>,
}

impl Actor {
    /// The actor of a request whose log and state are at hand.
    pub(super) fn new(
        setting: Arc<Setting>,
        log: RequestLog,
        task: Task,
        journal: Arc<Journal>,
        (sender, mailbox): (&mpsc::Sender<Mail>, mpsc::Receiver<Mail>),
        summaries: Arc<Summaries>,
        cancel: CancellationToken,
    ) -> Self {
        let synced = log.last_seq();
        Self {
            setting,
            log,
            task,
            journal,
            mailbox,
            sender: sender.downgrade(),
            summaries,
            running: None,
            generation: 0,
            permit: None,
            grace: None,
            cancel,
            synced,
            syncing: false,
            undurable: None,
        }
    }

    /// Appends the first events, then works until nobody can send any more.
    pub(super) async fn run(mut self, first: Vec<Event>) {
        self.commit(first).await;
        self.proceed().await;
        loop {
            let grace = self.grace;
            let mail = tokio::select! {
                mail = self.mailbox.recv() => mail,
                () = deadline(grace) => {
                    self.grace = None;
                    self.give_up_tool().await;
                    continue;
                }
            };
            match mail {
                None => break,
                Some(Mail::Shutdown(done)) => {
                    // With the actor go its effect and the locks of its log.
                    drop(self);
                    // Nobody waits for the answer after all: then there is nobody to tell.
                    let _ = done.send(());
                    return;
                }
                Some(mail) => self.handle(mail).await,
            }
        }
    }

    async fn handle(&mut self, mail: Mail) {
        match mail {
            Mail::Command(command, reply) => {
                let answer = self.command(command).await;
                // A client that has gone needs no answer.
                let _ = reply.send(answer);
            }
            Mail::Report { generation, report } => {
                if self.running.as_ref().is_some_and(|running| running.generation == generation) {
                    self.report(report).await;
                }
            }
            Mail::Synced(seq, outcome) => self.on_synced(seq, outcome).await,
            Mail::Shutdown(_) => {}
        }
    }

    async fn report(&mut self, report: Report) {
        let input = match report {
            Report::Progress(input) => input,
            Report::Judged(decision) => {
                self.running = None;
                self.permit = decision.permit;
                Input::Gated(decision.judgement)
            }
            Report::Last(input) => {
                self.running = None;
                self.grace = None;
                self.journal.close_all();
                input
            }
        };
        self.input(input).await;
    }

    async fn command(&mut self, command: Command) -> Result<Reply, EngineError> {
        match command {
            Command::Input(input) => {
                self.check(&input)?;
                self.input(input).await;
                Ok(Reply::Done)
            }
            Command::Respond { approval_id, digest, option_id, text, by } => {
                if let Some(answered) = self.task.answered.get(&approval_id) {
                    let accepted = answered.by == by && answered.answer.as_deref() == Some(&option_id);
                    return Ok(Reply::Answer(AnswerResult { accepted, by: answered.by.clone() }));
                }
                let Some(approval) = self
                    .task
                    .approval
                    .as_ref()
                    .filter(|approval| approval.approval_id.as_str() == approval_id)
                else {
                    return Err(EngineError::NotFound { what: "approval", id: approval_id });
                };
                if approval.digest != digest {
                    return Err(EngineError::Mismatch {
                        problem: "the digest is not that of the action that is asked about".into(),
                    });
                }
                if !approval.options.iter().any(|option| option.id == option_id) {
                    let problem = format!("the approval has no option '{option_id}'");
                    return Err(EngineError::Mismatch { problem });
                }
                if let Some(held) = self.task.held.as_ref() {
                    let accepted = held.by == by && held.option_id == option_id;
                    return Ok(Reply::Answer(AnswerResult { accepted, by: held.by.clone() }));
                }
                self.input(Input::Respond { option_id, text, by: by.clone() }).await;
                Ok(Reply::Answer(AnswerResult { accepted: true, by }))
            }
            Command::Answer { question_id, text, images, by } => {
                if let Some(answered) = self.task.answered.get(question_id.as_str()) {
                    let accepted = answered.by == by && answered.answer.as_deref() == Some(&text);
                    return Ok(Reply::Answer(AnswerResult { accepted, by: answered.by.clone() }));
                }
                if self.task.question.as_ref().is_none_or(|question| question.question_id != question_id) {
                    return Err(EngineError::NotFound { what: "question", id: question_id.to_string() });
                }
                self.input(Input::Answer { text, images, by: by.clone() }).await;
                Ok(Reply::Answer(AnswerResult { accepted: true, by }))
            }
        }
    }

    /// Refuses what can't be done in this state, in words.
    fn check(&self, input: &Input) -> Result<(), EngineError> {
        let queued = |id: &String| {
            if self.task.queue.iter().any(|item| item.id == *id) {
                Ok(())
            } else {
                Err(EngineError::NotFound { what: "waiting message", id: id.clone() })
            }
        };
        match input {
            Input::EditQueued { id, .. } | Input::DeleteQueued { id } => queued(id),
            Input::Resume if task::decide(&self.task, Input::Resume, 0).is_empty() => {
                Err(EngineError::WrongState {
                    task: self.task.id.clone(),
                    problem: "it is not interrupted, cancelled or failed".into(),
                })
            }
            _ => Ok(()),
        }
    }

    async fn input(&mut self, input: Input) {
        let now = self.setting.clock.now();
        let events = task::decide(&self.task, input, now);
        self.commit(events).await;
        self.proceed().await;
    }

    /// Lets everything follow that follows from the state, then runs what it wants.
    async fn proceed(&mut self) {
        loop {
            let mut events = task::settle(&self.task);
            if events.is_empty() {
                events = self.forgo_tool();
            }
            if events.is_empty() {
                break;
            }
            self.commit(events).await;
        }
        self.drive();
    }

    /// A tool that waits for the log to be durable when its task is cancelled does not begin at all.
    fn forgo_tool(&self) -> Vec<Event> {
        let waits =
            self.running.is_none() && matches!(task::wanted(&self.task), Some(Effect::RunTool { .. }));
        if !waits || !self.task.is_cancelling() {
            return vec![];
        }
        let outcome = Outcome::interrupted(replies::cancelled());
        task::decide(&self.task, Input::ToolDone(outcome), self.setting.clock.now())
    }

    /// Appends and folds. Returns only when the events are in the log: while the disk refuses them,
    /// the task stands still and clients are told.
    async fn commit(&mut self, events: Vec<Event>) {
        if events.is_empty() {
            return;
        }
        let at = self.setting.clock.now();
        let first = self.log.last_seq() + 1;
        let records: Vec<Record<Event>> = (first..)
            .zip(events)
            .map(|(seq, event)| Record { seq, at, task_id: self.task.id.clone(), event })
            .collect();
        let mut wait = STORE_RETRY.0;
        while let Err(error) = self.log.append(&records) {
            tracing::error!(%error, "the log refuses events");
            let reason = format!("{error}. The task stands still until that is mended.");
            self.journal.notice(at, WireEvent::ServerDegraded { reason });
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(STORE_RETRY.1);
        }
        let state = self.task.state();
        for record in &records {
            self.task.apply(&record.event, record.seq, record.at);
            if self.undurable.is_none() && record.event.is_decision() {
                self.undurable = Some(record.seq);
            }
        }
        self.journal.append(&records);
        self.publish();
        if self.undurable.is_some() {
            self.sync();
        }
        if state != self.task.state() || first == 1 {
            self.summarise();
        }
    }

    fn summarise(&self) {
        let item = self.task.history_item();
        if let Err(error) = self.log.directory().write_summary(&item) {
            // It is rebuilt from the log when it is missed.
            tracing::warn!(%error, "the summary can't be written");
        }
        self.summaries.set(item);
    }

    fn publish(&self) {
        let last = self.log.last_seq();
        self.journal.publish(self.undurable.map_or(last, |seq| seq - 1));
    }

    fn sync(&mut self) {
        let Some(sender) = self.sender.upgrade() else { return };
        if self.syncing || self.synced == self.log.last_seq() {
            return;
        }
        self.syncing = true;
        let seq = self.log.last_seq();
        let sync = self.log.sync_handle();
        tokio::spawn(async move {
            let outcome = match tokio::task::spawn_blocking(sync).await {
                Ok(outcome) => outcome,
                // The runtime ends.
                Err(_) => return,
            };
            // The actor has ended.
            let _ = sender.send(Mail::Synced(seq, outcome)).await;
        });
    }

    async fn on_synced(&mut self, seq: u64, outcome: Result<(), StoreError>) {
        self.syncing = false;
        if let Err(error) = outcome {
            tracing::error!(%error, "the log can't be made durable");
            let reason = format!("{error}. Nothing is written or run until that is mended.");
            self.journal.notice(self.setting.clock.now(), WireEvent::ServerDegraded { reason });
            tokio::time::sleep(STORE_RETRY.1).await;
        } else {
            self.synced = seq;
            if self.undurable.is_some_and(|undurable| undurable <= seq) {
                // What came since may hold decisions too.
                self.undurable = (seq < self.log.last_seq()).then_some(seq + 1);
            }
            self.publish();
        }
        if self.undurable.is_some() {
            self.sync();
        }
        self.drive();
    }

    /// Makes the running effect the one that is wanted.
    fn drive(&mut self) {
        let wanted = task::wanted(&self.task);
        if let Some(running) = &self.running {
            if wanted.as_ref() == Some(&running.effect) {
                if self.task.is_cancelling() && self.grace.is_none() {
                    running.cancel.cancel();
                    self.grace = Some(tokio::time::Instant::now() + CANCEL_GRACE);
                }
                return;
            }
            self.stop_effect();
        }
        let Some(effect) = wanted else { return };
        if matches!(effect, Effect::RunTool { mutating: true, .. }) && self.synced < self.log.last_seq() {
            self.sync();
            return;
        }
        self.start(effect);
    }

    fn start(&mut self, effect: Effect) {
        let Some(sender) = self.sender.upgrade() else { return };
        self.generation += 1;
        let cancel = self.cancel.child_token();
        let reporter = effects::Reporter::new(sender, self.generation);
        let surroundings = effects::Surroundings {
            setting: Arc::clone(&self.setting),
            journal: Arc::clone(&self.journal),
            cancel: cancel.clone(),
        };
        let permit = self.permit.take();
        effects::start(effect.clone(), &self.task, permit, surroundings, reporter);
        self.running = Some(Running { effect, generation: self.generation, cancel });
    }

    fn stop_effect(&mut self) {
        self.grace = None;
        if let Some(running) = self.running.take() {
            running.cancel.cancel();
            self.journal.close_all();
        }
    }

    /// A cancelled tool did not end in time.
    async fn give_up_tool(&mut self) {
        self.running = None;
        let outcome = Outcome::interrupted(replies::interrupted(ToolEffect::Execute));
        self.input(Input::ToolDone(outcome)).await;
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.stop_effect();
    }
}

async fn deadline(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
