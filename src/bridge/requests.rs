//! The requests that are started, steered and followed over the bridge.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use roo_engine::customization::Customization;
use roo_engine::engine::{Engine, EngineError, Follower};
use roo_protocol::event::{Event, EventParams, OptionKind};
use roo_protocol::ids::TaskId;
use roo_protocol::task::{
    ApprovalRespondParams, HistoryItem, QuestionAnswerParams, SendWhen, TaskSendParams, TaskStartParams,
    TaskState,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::command::{InstanceCommand, InvalidCommand, NewTask, TaskCommand, TaskReference, Verdict, Words};
use super::instance;
use crate::masking::Mask;
use crate::nats::{Connection, NatsError};
use crate::roo_api::RooEvent;
use crate::roo_follower::{self, Followed, FollowedRequests, RooFollower};

/// Author of what comes over the bridge, in events.
const CLIENT: &str = "bridge";
/// Names of the events that are told on a task's channel; all others are told on the instance's.
const TASK_EVENTS: &[&str] = &["message", "taskModeSwitched", "taskInteractive"];

/// Parts that the requests need.
pub(crate) struct Setup {
    pub(crate) engine: Arc<Engine>,
    pub(crate) customization: Arc<Customization>,
    /// The workspace folder.
    pub(crate) folder: PathBuf,
    /// Name of the instance in subjects.
    pub(crate) instance: String,
    /// True if what comes over the bridge may allow actions.
    pub(crate) takes_approvals: bool,
    /// Time between two signs of life.
    pub(crate) heartbeat: Duration,
}

/// The requests of an instance.
pub(super) struct Requests {
    setup: Setup,
    connection: Connection,
    end: CancellationToken,
    work: TaskTracker,
    /// Requests whose task channels are joined.
    joined: FollowedRequests,
    /// The task that was started, resumed or spoken to last.
    current: Mutex<Option<TaskId>>,
}

/// Reasons why a command was not carried out.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommandError {
    #[error(transparent)]
    Invalid(#[from] InvalidCommand),
    #[error("this bridge takes no approvals; it was started without `--remote-approvals`")]
    NoApprovals,
    #[error("no such approval waits")]
    NotWaiting,
    #[error("this approval can't be answered so")]
    NoOption,
    #[error("it was answered by {0} before")]
    Late(String),
    #[error("the question is for the user of this machine: {0}")]
    ForUser(String),
    #[error("the bridge is ending")]
    Ending,
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Nats(#[from] NatsError),
}

impl Requests {
    /// No requests yet. `end`: cancelled when the bridge ends.
    pub(super) fn new(setup: Setup, connection: Connection, end: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            setup,
            connection,
            end,
            work: TaskTracker::new(),
            joined: FollowedRequests::default(),
            current: Mutex::default(),
        })
    }

    /// Stops all requests, leaving them to be resumed, and ends the servers that were started.
    pub(super) async fn shut_down(&self) {
        self.work.close();
        self.work.wait().await;
        self.setup.engine.shutdown().await;
        self.setup.engine.end_servers().await;
    }

    fn current(&self) -> Option<TaskId> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_current(&self, task: &TaskId) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(task.clone());
    }

    /// Carries out what is said to the instance. Returns the id of the task that it is about.
    pub(super) async fn instance_command(
        self: &Arc<Self>,
        command: InstanceCommand,
    ) -> Result<Value, CommandError> {
        let task = match command {
            InstanceCommand::Start(new) => self.start(new).await?,
            InstanceCommand::Stop(TaskReference { task_id }) => {
                let task = TaskId::new(task_id).root();
                self.ensure_joined(&task).await?;
                self.setup.engine.cancel(&task).await?;
                task
            }
            InstanceCommand::Resume(TaskReference { task_id }) => {
                let task = TaskId::new(task_id).root();
                self.resume(&task).await?;
                task
            }
        };
        Ok(json!({ "taskId": task }))
    }

    async fn start(self: &Arc<Self>, new: NewTask) -> Result<TaskId, CommandError> {
        let NewTask { text, images, mode, provider_profile } = new;
        let params =
            TaskStartParams { prompt: text, mode, profile: provider_profile, images, context: vec![] };
        let own = Arc::clone(self);
        let started = tokio::task::spawn_blocking(move || own.setup.engine.start(params)).await;
        let task = started.map_err(|_| CommandError::Ending)??.task_id;
        self.set_current(&task);
        let follower = self.setup.engine.follow(&task, 0).await?;
        self.join(&task, follower, 0).await?;
        Ok(task)
    }

    async fn resume(self: &Arc<Self>, task: &TaskId) -> Result<(), CommandError> {
        let state = self.setup.engine.get(task).await?.item.state;
        self.ensure_joined(task).await?;
        self.set_current(task);
        // A completed task goes on with what is said to it next.
        if state != TaskState::Completed {
            match self.setup.engine.resume_and_read(task).await?.1 {
                // It was not interrupted.
                Ok(()) | Err(EngineError::WrongState { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Carries out what is said to a task.
    pub(super) async fn task_command(
        self: &Arc<Self>,
        task: &TaskId,
        command: TaskCommand,
    ) -> Result<Value, CommandError> {
        self.ensure_joined(&task.root()).await?;
        self.set_current(&task.root());
        match command {
            TaskCommand::Message(words) => self.say(task, words).await?,
            TaskCommand::ApproveAsk(verdict) => {
                if !self.setup.takes_approvals {
                    return Err(CommandError::NoApprovals);
                }
                self.answer_approval(task, verdict, OptionKind::AllowOnce).await?;
            }
            TaskCommand::DenyAsk(verdict) => {
                self.answer_approval(task, verdict, OptionKind::RejectOnce).await?;
            }
        }
        Ok(json!({ "taskId": task }))
    }

    async fn say(&self, task: &TaskId, Words { text, images }: Words) -> Result<(), CommandError> {
        let engine = &self.setup.engine;
        let waiting = engine.resumable(task).await?.questions;
        let asked = waiting.into_iter().find(|(asking, _)| asking == task).map(|(_, question)| question);
        let Some(question) = asked else {
            // Never at once: what is asked meanwhile must not take it for its answer.
            let (task_id, when) = (task.clone(), SendWhen::AfterTurn);
            engine.send(TaskSendParams { task_id, text, images, when }).await?;
            return Ok(());
        };
        if question.kind.is_for_user_alone() && !self.setup.takes_approvals {
            return Err(CommandError::ForUser(question.text));
        }
        let answer = QuestionAnswerParams { question_id: question.question_id, text, images };
        let answered = engine.answer(answer, CLIENT).await?;
        if answered.accepted { Ok(()) } else { Err(CommandError::Late(answered.by)) }
    }

    async fn answer_approval(
        &self,
        task: &TaskId,
        verdict: Verdict,
        kind: OptionKind,
    ) -> Result<(), CommandError> {
        let engine = &self.setup.engine;
        let waiting = engine.resumable(task).await?.approvals;
        let asked = waiting.into_iter().find(|(_, approval)| approval.approval_id == verdict.approval_id);
        let (_, approval) = asked.ok_or(CommandError::NotWaiting)?;
        let option = approval.options.iter().find(|option| option.kind == kind);
        let option = option.ok_or(CommandError::NoOption)?;
        let answer = ApprovalRespondParams {
            approval_id: verdict.approval_id,
            digest: verdict.digest,
            option_id: option.id.clone(),
            opened: true,
            text: verdict.text,
            hunks: vec![],
        };
        let answered = engine.respond(answer, CLIENT).await?;
        if answered.accepted { Ok(()) } else { Err(CommandError::Late(answered.by)) }
    }

    /// Tells what has become of a task so far, and from now on on its channel.
    pub(super) async fn join_task(self: &Arc<Self>, task: &TaskId) -> Result<Value, CommandError> {
        let root = task.root();
        self.ensure_joined(&root).await?;
        let snapshot = self.setup.engine.get(task).await?;
        let waiting = self.setup.engine.resumable(task).await?;
        let mut state = json!({
            "taskId": task,
            "seq": waiting.seq,
            "state": snapshot.item.state,
            "mode": snapshot.item.mode,
            "messages": snapshot.messages,
            "waiting": instance::questions(&waiting),
        });
        self.mask().await.apply_to_texts(&mut state);
        // The newest ones tell most.
        while state.to_string().len() + 1024 > self.connection.largest_message() {
            let Some(messages) = state["messages"].as_array_mut().filter(|messages| !messages.is_empty())
            else {
                break;
            };
            messages.drain(..messages.len().div_ceil(2));
            state["isCut"] = true.into();
        }
        Ok(state)
    }

    /// Tells no more of a task. It goes on.
    pub(super) async fn leave_task(&self, task: &TaskId) -> Result<Value, CommandError> {
        let root = task.root();
        if self.joined.end(&root) {
            self.publish(&format!("task.{root}.left"), &json!({ "taskId": root })).await?;
        }
        Ok(json!({ "taskId": root }))
    }

    /// The record of this instance.
    pub(super) async fn record(self: &Arc<Self>) -> Result<Value, CommandError> {
        let engine = &self.setup.engine;
        let settings = engine.settings().await;
        let own = Arc::clone(self);
        let choices =
            tokio::task::spawn_blocking(move || instance::choices(&own.setup.customization, &settings)).await;
        let choices = choices.map_err(|_| CommandError::Ending)?;
        let tasks = engine.list(None).await?.items;
        let current = self.current().and_then(|id| tasks.iter().find(|task| task.task_id == id));
        let waiting = match current {
            Some(HistoryItem { task_id, .. }) => Some(engine.resumable(task_id).await?),
            None => None,
        };
        let current = current.zip(waiting.as_ref());
        let Setup { instance, folder, .. } = &self.setup;
        let mut record = instance::record(instance, folder, engine.now(), &choices, &tasks, current);
        self.mask().await.apply_to_texts(&mut record);
        Ok(record)
    }

    /// Sends a message on a channel of this instance.
    pub(super) async fn publish(&self, rest: &str, message: &Value) -> Result<(), NatsError> {
        let subject = self.connection.prefix().bridge(&self.setup.instance, rest);
        self.connection.publish(subject, message.to_string().into_bytes()).await
    }

    async fn mask(&self) -> Mask {
        roo_follower::mask(&self.setup.engine, &self.setup.folder).await
    }

    async fn ensure_joined(self: &Arc<Self>, task: &TaskId) -> Result<(), CommandError> {
        if self.joined.contains(task) {
            return Ok(());
        }
        let known = self.setup.engine.resumable(task).await?.seq;
        let follower = self.setup.engine.follow(task, 0).await?;
        self.join(task, follower, known).await
    }

    /// Tells what happens in a request. Events up to the number `known` are not told.
    async fn join(
        self: &Arc<Self>,
        task: &TaskId,
        follower: Follower,
        known: u64,
    ) -> Result<(), CommandError> {
        // Another command may have joined it meanwhile: its events are told once.
        let Some(over) = self.joined.begin(task, &self.end) else { return Ok(()) };
        if let Err(error) = self.publish(&format!("task.{task}.joined"), &json!({ "taskId": task })).await {
            self.joined.ended(task);
            return Err(error.into());
        }
        let engine = Arc::clone(&self.setup.engine);
        let mask = self.mask().await;
        let vocabulary = roo_follower::vocabulary(&engine, mask.clone()).await;
        let followed = RooFollower::new(engine, follower, vocabulary, known);
        let (own, task) = (Arc::clone(self), task.clone());
        self.work.spawn(async move {
            over.run_until_cancelled(own.tell_events(&task, followed, mask)).await;
        });
        Ok(())
    }

    async fn tell_events(&self, task: &TaskId, mut followed: RooFollower, mask: Mask) {
        loop {
            match followed.next().await {
                Ok(Followed::Due(told)) => self.tell(told, None, &mask).await,
                Ok(Followed::Events(batch)) => {
                    for params in &batch {
                        if let Some(told) = followed.translate(params).await {
                            self.tell(told, Some(params), &mask).await;
                        }
                    }
                }
                Err(error) => {
                    tracing::warn!("the task {task} can't be followed any more: {error}");
                    self.joined.ended(task);
                    return;
                }
            }
        }
    }

    /// Tells events on the channels that they belong to. `params`: what they come of.
    async fn tell(&self, events: Vec<RooEvent>, params: Option<&EventParams>, mask: &Mask) {
        for event in events {
            let (name, payload) = (event.name(), event.payload());
            let mut message =
                json!({ "type": name, "payload": payload, "timestamp": self.setup.engine.now() });
            let rest = match params.filter(|_| TASK_EVENTS.contains(&name)) {
                Some(params) => {
                    message["taskId"] = json!(params.task_id);
                    if name == "taskInteractive" {
                        add_question(&mut message, &params.event, mask);
                    }
                    format!("task.{}.event", params.task_id.root())
                }
                None if name == "message" => match payload[0]["taskId"].as_str() {
                    Some(task) => format!("task.{}.event", TaskId::new(task).root()),
                    None => "event".to_owned(),
                },
                None => "event".to_owned(),
            };
            if let Err(error) = self.publish(&rest, &message).await {
                tracing::warn!("an event was not told: {error}");
            }
        }
    }
}

/// Adds what an answer has to name.
fn add_question(message: &mut Value, event: &Event, mask: &Mask) {
    let (key, mut asked) = match event {
        Event::ApprovalRequested { approval } => ("approval", json!(approval)),
        Event::QuestionAsked { question } => ("question", json!(question)),
        _ => return,
    };
    mask.apply_to_texts(&mut asked);
    message[key] = asked;
}

#[cfg(test)]
mod tests;
