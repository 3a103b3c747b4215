//! Letting requests go on that were interrupted, cancelled or failed, and what has to be known of one before.

use tokio::sync::oneshot;

use super::actor_message::{ActorMessage, Command};
use super::start::check_faults;
use super::task::Input;
use super::tree::Tree;
use super::{Engine, EngineError};
use roo_protocol::ids::{TaskId, Urid};
use roo_protocol::task::{PendingApproval, PendingQuestion};
use roo_protocol::tree::TreeNode;

/// State of a request at one of its events: what has to be known before it resumes, and to tell whether it waits.
pub struct Resumable {
    /// Its id for people.
    pub urid: Urid,
    /// The number of its newest event. A follower that has not handed it out yet knows less than the rest tells.
    pub seq: u64,
    /// Its invocation tree.
    pub nodes: Vec<TreeNode>,
    /// The approvals that wait in tasks that are not at their end.
    pub approvals: Vec<(TaskId, PendingApproval)>,
    /// The questions that wait in tasks that are not at their end.
    pub questions: Vec<(TaskId, PendingQuestion)>,
}

impl Resumable {
    pub(super) fn new(tree: &Tree) -> Self {
        let open = || tree.tasks().iter().filter(|task| !task.state().is_final());
        let approvals = open().filter_map(|task| Some((task.id.clone(), task.approval()?.clone())));
        let questions = open().filter_map(|task| Some((task.id.clone(), task.question()?.clone())));
        Self {
            urid: tree.root().urid.clone(),
            seq: tree.last_seq(),
            nodes: tree.nodes(),
            approvals: approvals.collect(),
            questions: questions.collect(),
        }
    }
}

impl Engine {
    /// Lets an interrupted, cancelled or failed task go on, with the whole request that it belongs to.
    ///
    /// # Errors
    /// [`EngineError::WrongState`] for any other task, [`EngineError::Configuration`] for settings or a hooks file that can't be
    /// used.
    pub async fn resume(&self, task: &TaskId) -> Result<(), EngineError> {
        let services = self.current.read().await;
        check_faults(&services)?;
        self.input(task, Input::Resume).await
    }

    /// Lets a request go on that was interrupted, which nobody has asked for. One that has ended stays as it is: to cancel it is
    /// to want nothing more of it.
    ///
    /// # Errors
    /// [`EngineError::WrongState`] for one that is not interrupted, and as [`Engine::resume`].
    pub async fn resume_interrupted(&self, request: &TaskId) -> Result<(), EngineError> {
        let services = self.current.read().await;
        check_faults(&services)?;
        self.command(request, Command::ResumeInterrupted).await.map(|_| ())
    }

    /// Lets a request go on, as [`Engine::resume`] does, and tells how it was before. The log of one that doesn't live here is
    /// read once for both.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or [`EngineError::Store`] when its log can't be read; within, those of [`Engine::resume`].
    pub async fn resume_and_read(
        &self,
        task: &TaskId,
    ) -> Result<(Resumable, Result<(), EngineError>), EngineError> {
        let root = task.root();
        let services = self.current.read().await;
        if let Err(fault) = check_faults(&services) {
            return Ok((self.resumable(&root).await?, Err(fault)));
        }
        let (passing, known) = self.open_and_tell(&root).await?;
        let Some(known) = known else {
            drop(passing);
            return Ok((self.resumable(&root).await?, self.resume(&root).await));
        };
        let (sender, answer) = oneshot::channel();
        let command = Command::Input(Box::new(Input::Resume));
        let message = ActorMessage::Command(root.clone(), Box::new(command), sender);
        self.post(&root, message)?.map_err(|_| EngineError::Ending)?;
        drop(passing);
        let resumed = answer.await.unwrap_or(Err(EngineError::Ending));
        Ok((known, resumed.map(|_| ())))
    }

    /// State of a request that has to be known before it resumes.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or [`EngineError::Store`] when its log can't be read.
    pub async fn resumable(&self, task: &TaskId) -> Result<Resumable, EngineError> {
        Ok(Resumable::new(&self.read_as_it_is(&task.root()).await?))
    }
}
