//! Finds the task, approval or question that a command means.

use tower_lsp::jsonrpc::{Error, Result};

use super::super::session::WorkspaceServices;
use super::super::{engine_failure, failure};
use super::call::Fields;
use crate::view::branch_name;
use roo_engine::engine::EngineError;
use roo_protocol::error::ErrorKind;
use roo_protocol::ids::TaskId;
use roo_protocol::task::{HistoryItem, PendingApproval, TaskSnapshot, TaskState};
use roo_protocol::tree::TreeNode;

pub(super) async fn list(services: &WorkspaceServices) -> Result<Vec<HistoryItem>> {
    let list = services.engine.list(None).await.map_err(|error| engine_failure(&error, None))?;
    Ok(list.items)
}

/// The newest request that fits.
pub(super) async fn newest(
    services: &WorkspaceServices,
    what: &str,
    fits: impl Fn(&HistoryItem) -> bool,
) -> Result<HistoryItem> {
    let items = list(services).await?;
    items.into_iter().find(|item| fits(item)).ok_or_else(|| nothing(&format!("there is no task {what}")))
}

/// The task that is named, or else the newest request that fits.
pub(super) async fn named_or_newest(
    services: &WorkspaceServices,
    named: Option<TaskId>,
    what: &str,
    fits: impl Fn(&HistoryItem) -> bool,
) -> Result<TaskId> {
    match named {
        Some(task) => Ok(task),
        None => Ok(newest(services, what, fits).await?.task_id),
    }
}

/// A task that waits for its user.
pub(super) struct WaitingTask {
    pub(super) task: TaskSnapshot,
    /// The name of the branch; none for the request's own task.
    pub(super) branch: Option<String>,
}

/// The newest task that waits and fits, whichever branch it is: those that run before those that are
/// interrupted.
pub(super) async fn waiting(
    services: &WorkspaceServices,
    fits: impl Fn(&TaskSnapshot) -> bool,
) -> Result<Option<WaitingTask>> {
    Ok(all_waiting(services, fits, 1).await?.into_iter().next())
}

/// The tasks that wait and fit, newest first and at most so many. Those that are interrupted only where none runs.
async fn all_waiting(
    services: &WorkspaceServices,
    fits: impl Fn(&TaskSnapshot) -> bool,
    most: usize,
) -> Result<Vec<WaitingTask>> {
    let items = list(services).await?;
    let mut found = Vec::new();
    for state in [TaskState::Waiting, TaskState::Interrupted] {
        if !found.is_empty() {
            break;
        }
        for item in items.iter().filter(|item| item.state == state) {
            for node in nodes_in(services, item, state).await {
                match services.engine.get(&node.id).await {
                    Ok(task) if fits(&task) => {
                        let branch = node.parent_id.is_some().then(|| branch_name(&node));
                        found.push(WaitingTask { task, branch });
                        if found.len() == most {
                            return Ok(found);
                        }
                    }
                    // Deleted in between, perhaps by another server.
                    Ok(_) | Err(EngineError::NotFound { .. }) => {}
                    Err(error) => tracing::warn!(task = %node.id, %error, "a task can't be read"),
                }
            }
        }
    }
    Ok(found)
}

/// The tasks of a request that are in a state, parents before children.
pub(super) async fn nodes_in(
    services: &WorkspaceServices,
    request: &HistoryItem,
    state: TaskState,
) -> Vec<TreeNode> {
    match services.engine.tree(&request.task_id).await {
        Ok(tree) => tree.nodes.into_iter().filter(|node| node.state == state).collect(),
        Err(EngineError::NotFound { .. }) => vec![],
        Err(error) => {
            tracing::warn!(task = %request.task_id, %error, "a tree can't be read");
            vec![]
        }
    }
}

pub(super) async fn pending_approval(
    services: &WorkspaceServices,
    fields: &Fields,
) -> Result<(TaskId, PendingApproval)> {
    pending_approvals(services, fields).await?.into_iter().next().ok_or_else(no_approval)
}

/// The approvals that may be meant, the newest first.
pub(super) async fn pending_approvals(
    services: &WorkspaceServices,
    fields: &Fields,
) -> Result<Vec<(TaskId, PendingApproval)>> {
    let fits = |task: &TaskSnapshot| {
        task.approval
            .as_ref()
            .is_some_and(|approval| fields.approval_id.as_ref().is_none_or(|id| *id == approval.approval_id))
            && fields.means(task)
    };
    let found = all_waiting(services, fits, usize::MAX).await?.into_iter().map(|waiting| waiting.task);
    Ok(found.filter_map(|task| Some((task.root_id, task.approval?))).collect())
}

pub(super) fn no_approval() -> Error {
    nothing("no approval waits for an answer")
}

pub(super) fn nothing(message: &str) -> Error {
    failure(ErrorKind::NotFound, message.to_owned(), None, "roo.status lists them.")
}
