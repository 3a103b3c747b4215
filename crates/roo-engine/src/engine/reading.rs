//! What is read of one request from its log: its state, its events, and other forms of it. Nothing of it is changed,
//! though one that is followed before its end comes to life.

use super::cassette::{Cassette, NotRecordable};
use super::event::Event;
use super::journal::{self, Follower};
use super::log_fold::read_tree;
use super::replay::{ReplayDifference, Replayed, replay};
use super::shared_records::as_own;
use super::transcript::Transcript;
use super::tree::Tree;
use super::{Engine, EngineError, exports};
use roo_durable::{RequestDirectory, StoreError};
use roo_formats::roo_code::tasks::PastTask;
use roo_protocol::context::ContextGetResult;
use roo_protocol::event::EventParams;
use roo_protocol::ids::TaskId;
use roo_protocol::task::{HistoryItem, TaskSnapshot};
use roo_protocol::tree::TreeGetResult;

impl Engine {
    /// A cursor over a request, behind the event `after`. A request that is not at its end comes to life.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or [`EngineError::Store`] when it can't be read or is driven elsewhere.
    pub async fn follow(&self, task: &TaskId, after: u64) -> Result<Follower, EngineError> {
        let task = &task.root();
        if let Some(live) = self.registry.live().get(task) {
            return Ok(live.journal.follow(after));
        }
        let directory = self.request(task)?;
        // What seems to be open is opened without a look at its log, which would be read twice.
        if directory.summary::<HistoryItem>().is_some_and(|item| !item.state.is_final()) {
            match self.open(task).await {
                Ok(_passing) => {
                    if let Some(live) = self.registry.live().get(task) {
                        return Ok(live.journal.follow(after));
                    }
                }
                Err(EngineError::Store(StoreError::Held { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        // What has ended needs no actor to be looked at, and no lock that another window may hold.
        let state = self.read(task).await?;
        if state.root().state().is_final() {
            let journal = self.registry.journal(task, &directory, state.last_seq());
            // Another process may have gone on with it.
            journal.catch_up(state.last_seq());
            return Ok(journal.follow(after));
        }
        let _passing = self.open(task).await?;
        let live = self.registry.live();
        live.get(task).map(|live| live.journal.follow(after)).ok_or(EngineError::Ending)
    }

    /// The newest events of a request as clients see them, at most this many, oldest first. Other than by
    /// [`Engine::follow`], it doesn't come to life by that.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or [`EngineError::Store`] when its log can't be read.
    pub async fn newest_events(&self, task: &TaskId, most: usize) -> Result<Vec<EventParams>, EngineError> {
        let root = task.root();
        let directory = self.readable(&root).await?;
        let read = roo_durable::spawn_blocking(move || journal::newest_events(&directory, &root, most));
        Ok(read.await.unwrap_or(Ok(vec![]))?)
    }

    /// A task as it is now.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or [`EngineError::Store`] when its log can't be read.
    pub async fn get(&self, task: &TaskId) -> Result<TaskSnapshot, EngineError> {
        let root = task.root();
        let (directory, request, own) = (self.readable(&root).await?, root.clone(), task.clone());
        let read = roo_durable::spawn_blocking(move || {
            read_tree(&directory, &request, |transcript: &mut Transcript, record| {
                if record.task_id == own {
                    transcript.add(&record.event);
                }
            })
        });
        let (tree, transcript) = read.await.unwrap_or(Err(EngineError::Ending))?;
        let tree = self.as_it_is(&root, tree)?;
        let state =
            tree.task(task).ok_or_else(|| EngineError::NotFound { what: "task", id: task.to_string() })?;
        let item = if task.is_root() { tree.history_item() } else { state.history_item() };
        Ok(transcript.snapshot(state, item))
    }

    /// The invocation tree of the request that a task belongs to; the drawing marks the task.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or [`EngineError::Store`] when its log can't be read.
    pub async fn tree(&self, task: &TaskId) -> Result<TreeGetResult, EngineError> {
        let tree = self.read_as_it_is(task).await?;
        if tree.task(task).is_none() {
            return Err(EngineError::NotFound { what: "task", id: task.to_string() });
        }
        Ok(TreeGetResult { nodes: tree.nodes(), text: tree.draw(task) })
    }

    /// The size of a task's next model request, and what was shortened.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or [`EngineError::Store`] when its log can't be read.
    pub async fn context(&self, task: &TaskId) -> Result<ContextGetResult, EngineError> {
        let tree = self.read_as_it_is(task).await?;
        let found = tree.task(task);
        let found = found.ok_or_else(|| EngineError::NotFound { what: "task", id: task.to_string() })?;
        Ok(ContextGetResult {
            context: found.context.meter(found.conversation.size()),
            shortenings: found.context.shortenings().to_vec(),
        })
    }

    /// Replays a request from its log, which stays as it is.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or [`EngineError::Store`] when its log can't be read.
    pub async fn replay(
        &self,
        task: &TaskId,
    ) -> Result<Result<Replayed, Box<ReplayDifference>>, EngineError> {
        let root = task.root();
        let directory = self.readable(&root).await?;
        let replayed = roo_durable::spawn_blocking(move || {
            let (records, _) = roo_durable::read_from::<Event>(&directory, 0, usize::MAX)?;
            Ok(replay(&root, &records))
        });
        replayed.await.unwrap_or(Err(EngineError::Ending))
    }

    /// The tasks of a request in the form of Roo Code's history: the request's own first, then its branches.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or [`EngineError::Store`] when its log can't be read.
    pub async fn past_tasks(&self, task: &TaskId) -> Result<Vec<PastTask>, EngineError> {
        let root = task.root();
        let directory = self.readable(&root).await?;
        let workspace = self.workspace().roots().paths().next().map(|root| root.display().to_string());
        let read = roo_durable::spawn_blocking(move || {
            let (mut records, _) = roo_durable::read_from::<Event>(&directory, 0, usize::MAX)?;
            records.iter_mut().for_each(|record| as_own(&root, record));
            Ok(exports::past_tasks(&root, &records, workspace.as_deref()))
        });
        read.await.unwrap_or(Err(EngineError::Ending))
    }

    /// Takes a request out of its log as a cassette, without the prompts of its modes.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or [`EngineError::Store`] when its log can't be read. Inside, the reason why it can't
    /// be kept.
    pub async fn cassette(&self, task: &TaskId) -> Result<Result<Cassette, NotRecordable>, EngineError> {
        let root = task.root();
        let directory = self.readable(&root).await?;
        let services = self.current.newest();
        let taken = roo_durable::spawn_blocking(move || {
            let (records, _) = roo_durable::read_from::<Event>(&directory, 0, usize::MAX)?;
            Ok(Cassette::from_log(&root, &records, |profile| services.tools_of(profile)))
        });
        taken.await.unwrap_or(Err(EngineError::Ending))
    }

    /// The state of a request, from its log.
    pub(super) async fn read(&self, root: &TaskId) -> Result<Tree, EngineError> {
        let (directory, root) = (self.readable(root).await?, root.clone());
        let read = roo_durable::spawn_blocking(move || read_tree(&directory, &root, |(), _| {}));
        read.await.unwrap_or(Err(EngineError::Ending)).map(|(tree, ())| tree)
    }

    /// As [`Engine::read`]; what no process drives any more is interrupted, whether its log says so or not.
    pub(super) async fn read_as_it_is(&self, task: &TaskId) -> Result<Tree, EngineError> {
        let root = task.root();
        let tree = self.read(&root).await?;
        self.as_it_is(&root, tree)
    }

    fn as_it_is(&self, root: &TaskId, mut tree: Tree) -> Result<Tree, EngineError> {
        let is_live = self.registry.live().contains_key(root);
        if !is_live && !tree.root().state().is_final() && !self.request(root)?.is_held() {
            tree.set_interrupted();
        }
        Ok(tree)
    }

    pub(super) fn request(&self, task: &TaskId) -> Result<RequestDirectory, EngineError> {
        let not_found = || EngineError::NotFound { what: "task", id: task.to_string() };
        // An id comes from clients and names a directory.
        let root = task.root();
        uuid::Uuid::try_parse(root.as_str()).map_err(|_| not_found())?;
        let directory = self.directory.request(&root);
        if directory.exists() { Ok(directory) } else { Err(not_found()) }
    }

    /// The directory of a request of whatever workspace.
    pub(super) fn request_anywhere(&self, task: &TaskId) -> Result<RequestDirectory, EngineError> {
        let not_found = || EngineError::NotFound { what: "task", id: task.to_string() };
        let root = task.root();
        uuid::Uuid::try_parse(root.as_str()).map_err(|_| not_found())?;
        self.directory.request_anywhere(&root).ok_or_else(not_found)
    }

    /// The directory of a request whose log can be read.
    pub(super) async fn readable(&self, root: &TaskId) -> Result<RequestDirectory, EngineError> {
        let directory = self.request(root)?;
        self.begun(root).await;
        Ok(directory)
    }
}
