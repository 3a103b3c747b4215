//! What clients have a task do while it runs or waits: messages, ends, other modes, models and intents. All of it goes to
//! the request's actor, which brings the request to life where it doesn't live yet. Answers are in `answers.rs`.

use std::sync::Arc;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::oneshot;

use super::actor_message::{ActorMessage, Command, Reply};
use super::error::unknown_profile;
use super::event::Event;
use super::registry::Live;
use super::shared_records::as_own;
use super::task::{self, Input};
use super::tree::Fold;
use super::{Engine, EngineError};
use crate::customization::CONDENSE;
use crate::intent_store::Binding;
use crate::policy::ModeChange;
use roo_durable::Record;
use roo_protocol::context::ContextRestoreParams;
use roo_protocol::event::{Event as WireEvent, EventParams};
use roo_protocol::ids::{CommandId, Digest, TaskId};
use roo_protocol::task::{QueueDeleteParams, QueueEditParams, TaskSendParams, TaskSnapshot, TaskState};

impl Engine {
    /// Says something to a task.
    ///
    /// # Errors
    /// [`EngineError`].
    pub async fn send(&self, params: TaskSendParams) -> Result<(), EngineError> {
        let TaskSendParams { task_id, text, images, when } = params;
        if self.is_condense(&text, &images).await {
            return self.condense(&task_id).await;
        }
        self.input(&task_id, Input::Send { text, images, when }).await
    }

    /// Has earlier turns of a task summarised before its next model request.
    ///
    /// # Errors
    /// [`EngineError`].
    pub async fn condense(&self, task: &TaskId) -> Result<(), EngineError> {
        self.input(task, Input::Condense).await
    }

    /// Returns whether what the user says is our `/condense`. A command file of that name counts instead.
    pub(super) async fn is_condense(&self, text: &str, images: &[String]) -> bool {
        if text.trim().strip_prefix('/') != Some(CONDENSE) || !images.is_empty() {
            return false;
        }
        let customization = Arc::clone(&self.services.customization);
        let read = roo_durable::spawn_blocking(move || customization.commands());
        read.await.is_ok_and(|commands| commands.iter().all(|command| command.name != CONDENSE))
    }

    /// Undoes a shortening of a task's conversation.
    ///
    /// # Errors
    /// [`EngineError::WrongState`] where it can't be undone, or [`EngineError::Store`] when the log can't be read.
    pub async fn restore_context(&self, params: ContextRestoreParams) -> Result<(), EngineError> {
        let ContextRestoreParams { task_id, seq } = params;
        let root = task_id.root();
        let (directory, own) = (self.readable(&root).await?, task_id.clone());
        let read = roo_durable::spawn_blocking(move || {
            let mut fold = Fold::new(root.clone());
            let mut left_out = None;
            roo_durable::read_while(&directory, 0, |mut record: Record<Event>| {
                as_own(&root, &mut record);
                if record.seq < seq {
                    fold.add(&record);
                } else if record.seq == seq && record.task_id == own {
                    let before = fold.tree().and_then(|tree| tree.task(&own));
                    left_out = before.and_then(|task| task::left_out_by(&record.event, &task.conversation));
                }
                record.seq < seq
            })?;
            Ok(left_out)
        });
        let left_out = read.await.unwrap_or(Err(EngineError::Ending))?;
        let left_out = left_out.ok_or_else(|| EngineError::WrongState {
            task: task_id.clone(),
            problem: "it has no shortening with this number".to_owned(),
        })?;
        self.input(&task_id, Input::RestoreContext { seq, left_out: Box::new(left_out) }).await
    }

    /// Changes a waiting message.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] when it isn't waiting.
    pub async fn edit_queued(&self, params: QueueEditParams) -> Result<(), EngineError> {
        self.input(&params.task_id, Input::EditQueued { id: params.item_id, text: params.text }).await
    }

    /// Takes a waiting message back.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] when it isn't waiting.
    pub async fn delete_queued(&self, params: QueueDeleteParams) -> Result<(), EngineError> {
        self.input(&params.task_id, Input::DeleteQueued { id: params.item_id }).await
    }

    /// Puts a task into another mode, with the model that the settings give it. Its next turn is in
    /// that mode.
    ///
    /// # Errors
    /// [`EngineError::Configuration`] for an unknown mode.
    pub async fn switch_mode(&self, task: &TaskId, slug: &str) -> Result<(), EngineError> {
        let change = self
            .current
            .read()
            .await
            .mode_change(slug)
            .map_err(|error| EngineError::Configuration(error.to_string()))?;
        self.input(task, Input::Change(change)).await
    }

    /// Gives a task another model. Its next turn is made with that.
    ///
    /// # Errors
    /// [`EngineError::Configuration`] for an unknown profile.
    pub async fn select_profile(&self, task: &TaskId, name: &str) -> Result<(), EngineError> {
        let settings = self.settings().await;
        let profile = settings.find_profile(name).map_err(unknown_profile)?;
        let change = ModeChange { mode: None, profile: Some((name.to_owned(), profile.tool_protocol())) };
        self.input(task, Input::Change(change)).await
    }

    /// Binds a request's own task to an intent, as its user wants it. A branch keeps what it was given.
    ///
    /// # Errors
    /// [`EngineError::Mismatch`] when the intent can't be selected or is no longer what the user has seen.
    pub async fn select_intent(&self, task: &TaskId, id: &str, digest: Digest) -> Result<(), EngineError> {
        if !task.is_root() {
            let problem = "a branch is bound by whoever delegated it".to_owned();
            return Err(EngineError::WrongState { task: task.clone(), problem });
        }
        let orchestration = Arc::clone(&self.services.orchestration);
        let wanted = id.to_owned();
        let accepted = roo_durable::spawn_blocking(move || {
            let file = orchestration.selectable(&wanted).map_err(|refusal| refusal.to_string())?;
            let intent = file.get(&wanted).filter(|intent| intent.digest() == digest);
            let intent = intent.ok_or("the intent has changed; review it again")?;
            orchestration.accept(intent).map_err(|error| error.to_string())?;
            Ok::<_, String>(intent.name.clone())
        });
        let name = accepted
            .await
            .map_err(|_| EngineError::Ending)?
            .map_err(|problem| EngineError::Mismatch { problem })?;
        if let Err(error) = self.services.orchestration.begin(id).await {
            tracing::warn!(intent = %id, %error, "an intent's status was not changed");
        }
        self.input(task, Input::BindIntent { intent: Binding { id: id.to_owned(), digest }, name }).await
    }

    /// Sends the command that a task runs, or one of its branches, to the background.
    ///
    /// # Errors
    /// [`EngineError::WrongState`] when it runs none.
    pub async fn background_command(&self, task: &TaskId) -> Result<(), EngineError> {
        self.command(task, Command::Background).await.map(|_| ())
    }

    /// Ends the command that a task runs in the foreground, or one of its branches; the task goes on with what it printed. Returns
    /// before it has ended.
    ///
    /// # Errors
    /// [`EngineError::WrongState`] when it runs none.
    pub async fn stop_foreground_command(&self, task: &TaskId) -> Result<(), EngineError> {
        self.command(task, Command::StopForeground).await.map(|_| ())
    }

    /// Ends a command in the background. Returns before it has ended.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] when it doesn't run.
    pub async fn stop_command(&self, task: &TaskId, command: CommandId) -> Result<(), EngineError> {
        self.command(task, Command::Stop(command)).await.map(|_| ())
    }

    /// Stops a request, or ends a branch with those below it. What runs is ended, what waits is void. The branches of a
    /// request that was stopped go on where they were when it is resumed.
    ///
    /// # Errors
    /// [`EngineError`].
    pub async fn cancel(&self, task: &TaskId) -> Result<(), EngineError> {
        self.input(task, if task.is_root() { Input::Stop } else { Input::Cancel }).await
    }

    /// Stops a request with all its branches, and waits until it has ended. Returns its state where it had ended before.
    ///
    /// # Errors
    /// [`EngineError`]; one that another process runs is held there.
    pub async fn cancel_and_wait(&self, task: &TaskId) -> Result<Option<TaskState>, EngineError> {
        let TaskSnapshot { item, .. } = self.get(task).await?;
        if item.state.is_final() {
            return Ok(Some(item.state));
        }
        self.end_and_wait(task, item.seq, Input::Stop).await?;
        Ok(None)
    }

    /// Ends a request by this input, and waits until it has ended. `after` is the number of its newest event.
    pub(super) async fn end_and_wait(
        &self,
        task: &TaskId,
        after: u64,
        input: Input,
    ) -> Result<(), EngineError> {
        let mut follower = self.follow(task, after).await?;
        self.input(task, input).await?;
        let is_end = |params: &Arc<EventParams>| {
            let state = match &params.event {
                WireEvent::TaskState { state, .. } => Some(*state),
                _ => None,
            };
            params.task_id.is_root() && state.is_some_and(TaskState::is_final)
        };
        let mut left = self.left();
        while !self.get(task).await?.item.state.is_final() {
            // Released meanwhile: its end may never come.
            if !self.registry.live().contains_key(&task.root()) {
                return Err(EngineError::Ending);
            }
            tokio::select! {
                biased;
                // It may go on behind its end, as its user has said something in the meantime.
                batch = follower.next(|| self.now()) => if batch?.iter().any(is_end) { break },
                // The engine has the sender.
                _ = left.changed() => {}
            }
        }
        Ok(())
    }

    pub(super) async fn input(&self, task: &TaskId, input: Input) -> Result<(), EngineError> {
        self.command(task, Command::Input(Box::new(input))).await.map(|_| ())
    }

    pub(super) async fn command(&self, task: &TaskId, command: Command) -> Result<Reply, EngineError> {
        let (sender, answer) = oneshot::channel();
        let root = task.root();
        let message = ActorMessage::Command(task.clone(), Box::new(command), sender);
        // Opening one request must not hold up what is said to others.
        if let Err(message) = self.post(&root, message)? {
            let _passing = self.open(&root).await?;
            self.post(&root, message)?.map_err(|_| EngineError::Ending)?;
        }
        answer.await.unwrap_or(Err(EngineError::Ending))
    }

    /// Gives a message to a request that lives here, or back. It is sent under the lock under which a request
    /// leaves: an actor that leaves has no messages.
    pub(super) fn post(
        &self,
        task: &TaskId,
        message: ActorMessage,
    ) -> Result<Result<(), ActorMessage>, EngineError> {
        let live = self.registry.live();
        let Some(Live { sender, .. }) = live.get(task) else { return Ok(Err(message)) };
        match sender.try_send(message) {
            Ok(()) => Ok(Ok(())),
            Err(TrySendError::Full(_)) => Err(EngineError::Overloaded),
            Err(TrySendError::Closed(_)) => Err(EngineError::Ending),
        }
    }
}
