//! The requests of a workspace: lists of them, and the removal of one.

use std::sync::{Arc, PoisonError};

use super::actor_message::{Command, Reply};
use super::{Engine, EngineError, history, worktrees};
use roo_durable::{StoreError, WorkspaceDirectory};
use roo_protocol::ids::TaskId;
use roo_protocol::task::{HistoryItem, KeptWorktree, TaskListResult};

/// Number of requests a list holds.
const LIST_PAGE: usize = 100;

impl Engine {
    /// The requests of this workspace, newest first, at most 100 behind the cursor.
    ///
    /// # Errors
    /// [`EngineError::Store`] when the state directory can't be read.
    pub async fn list(&self, cursor: Option<String>) -> Result<TaskListResult, EngineError> {
        self.page(cursor, LIST_PAGE).await
    }

    /// The newest requests of this workspace, with a cursor where there are more.
    ///
    /// # Errors
    /// As [`Engine::list`].
    pub async fn list_newest(&self, limit: usize) -> Result<TaskListResult, EngineError> {
        self.page(None, limit).await
    }

    async fn page(&self, cursor: Option<String>, limit: usize) -> Result<TaskListResult, EngineError> {
        let mut items = self.items(cursor, limit.saturating_add(1)).await?;
        let is_last = items.len() <= limit;
        items.truncate(limit);
        let last = items.last().filter(|_| !is_last);
        let next_cursor = last.map(|item| item.task_id.to_string());
        Ok(TaskListResult { items, next_cursor })
    }

    /// As [`Engine::list`], while no request comes to life or leaves. So those that a process was killed with are interrupted, and
    /// none is still as its summary has it because somebody is just opening it.
    ///
    /// # Errors
    /// As [`Engine::list`].
    pub async fn list_settled(&self) -> Result<Vec<HistoryItem>, EngineError> {
        let _passing = self.registry.passing().await;
        self.items(None, LIST_PAGE).await
    }

    /// All requests of this workspace, newest first.
    ///
    /// # Errors
    /// [`EngineError::Store`] when the state directory can't be read.
    pub async fn list_all(&self) -> Result<Vec<HistoryItem>, EngineError> {
        self.items(None, usize::MAX).await
    }

    async fn items(&self, cursor: Option<String>, limit: usize) -> Result<Vec<HistoryItem>, EngineError> {
        let (directory, registry) = (self.directory.clone(), Arc::clone(&self.registry));
        let history = Arc::clone(&self.history);
        let list = roo_durable::spawn_blocking(move || {
            let mut history = history.lock().unwrap_or_else(PoisonError::into_inner);
            let living = |id: &TaskId| registry.summaries().get(id).cloned();
            Ok(history.items(&directory, cursor.as_deref(), limit, living)?)
        });
        list.await.unwrap_or(Err(EngineError::Ending))
    }

    /// The ids of all requests of this workspace, newest first, with their titles. Their logs are not read where they
    /// have a summary, so what else it says may be old.
    ///
    /// # Errors
    /// [`EngineError::Store`] when the state directory can't be read.
    pub async fn names(&self) -> Result<Vec<HistoryItem>, EngineError> {
        names_in(vec![self.directory.clone()]).await
    }

    /// As [`Engine::names`], of all workspaces of the user: forks may have folders of their own.
    ///
    /// # Errors
    /// As [`Engine::names`].
    pub async fn names_everywhere(&self) -> Result<Vec<HistoryItem>, EngineError> {
        names_in(self.directory.all()).await
    }

    /// Removes a request and all that is kept of it. Returns the work trees of its branches that are kept, as something in
    /// them is not merged.
    ///
    /// # Errors
    /// [`EngineError::WrongState`] while it isn't at its end, [`StoreError::Forked`] while it has forks, which share its events.
    pub async fn delete(&self, task: &TaskId) -> Result<Vec<KeptWorktree>, EngineError> {
        if !task.is_root() {
            let problem = "it is a branch; delete its request instead".to_owned();
            return Err(EngineError::WrongState { task: task.clone(), problem });
        }
        let directory = self.request(task)?;
        let forks = directory.forks()?;
        if !forks.is_empty() {
            return Err(StoreError::Forked { forks }.into());
        }
        let kept = match self.command(task, Command::Delete).await? {
            Reply::GivenUp(kept) => kept,
            _ => vec![],
        };
        let _passing = self.registry.passing().await;
        self.registry.live().remove(task);
        let summary = self.registry.summaries().remove(task);
        let (history, id) = (Arc::clone(&self.history), task.clone());
        let (branches, current) = (self.services.branches.clone(), self.current.newest());
        let removed = roo_durable::spawn_blocking(move || {
            if let Err(error) = worktrees::remove_stores(&branches, &id) {
                tracing::warn!(task = %id, %error, "snapshots of branches are left behind");
            }
            if let Some(summary) = summary.or_else(|| directory.summary()) {
                current.gate.forget_request(&summary.urid);
            }
            history.lock().unwrap_or_else(PoisonError::into_inner).forget(&id);
            directory.remove()
        })
        .await;
        removed.map_err(|_| EngineError::Ending)??;
        Ok(kept)
    }
}

async fn names_in(workspaces: Vec<WorkspaceDirectory>) -> Result<Vec<HistoryItem>, EngineError> {
    let names = roo_durable::spawn_blocking(move || {
        let mut names = Vec::new();
        for workspace in workspaces {
            let name = |id: TaskId| {
                let request = workspace.request(&id);
                request.summary().or_else(|| history::summary(&request, &id))
            };
            names.extend(workspace.requests()?.into_iter().filter_map(name));
        }
        Ok(names)
    });
    names.await.unwrap_or(Err(EngineError::Ending))
}
