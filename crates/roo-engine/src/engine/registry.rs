//! The requests that live in this process, by id: their mailboxes, journals and newest summaries. How they come to life
//! and leave is in `live_requests.rs`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::{mpsc, watch};

use super::actor_message::ActorMessage;
use super::journal::Journal;
use roo_durable::RequestDirectory;
use roo_protocol::ids::{TaskId, Urid};
use roo_protocol::task::HistoryItem;
use roo_protocol::tree::TreeNode;

/// A request that lives in this process.
#[derive(Clone)]
pub(super) struct Live {
    pub(super) sender: mpsc::Sender<ActorMessage>,
    pub(super) journal: Arc<Journal>,
    /// Whether the first events are in the log; closed when the actor ended before.
    pub(super) begun: watch::Receiver<bool>,
    /// Its id for people.
    pub(super) urid: Urid,
    /// Its invocation tree, as its newest events have made it.
    pub(super) nodes: watch::Receiver<Vec<TreeNode>>,
}

/// The requests that live in this process: those that are not at their end, and those that somebody
/// has just opened.
#[derive(Default)]
pub(super) struct Registry {
    live: Mutex<HashMap<TaskId, Live>>,
    /// The journals that somebody still follows, also of requests that no longer live.
    journals: Mutex<HashMap<TaskId, Weak<Journal>>>,
    /// The newest summaries of what lives here.
    summaries: Mutex<HashMap<TaskId, HistoryItem>>,
    /// Held while a request comes to life or leaves, so that its log's locks pass on in good order.
    passing: Arc<tokio::sync::Mutex<()>>,
    /// One has left.
    pub(super) left: watch::Sender<()>,
}

/// A request comes to life or leaves.
pub(super) type Passing = tokio::sync::OwnedMutexGuard<()>;

impl Registry {
    pub(super) fn live(&self) -> MutexGuard<'_, HashMap<TaskId, Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn summaries(&self) -> MutexGuard<'_, HashMap<TaskId, HistoryItem>> {
        self.summaries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn summarise(&self, item: HistoryItem) {
        self.summaries().insert(item.task_id.clone(), item);
    }

    pub(super) async fn passing(&self) -> Passing {
        Arc::clone(&self.passing).lock_owned().await
    }

    /// Takes a request out, unless somebody has sent it something. Messages are sent under the same lock.
    pub(super) async fn leave(&self, task: &TaskId, is_unwanted: impl Fn() -> bool) -> Option<Passing> {
        let passing = self.passing().await;
        let mut live = self.live();
        if !is_unwanted() {
            return None;
        }
        let left = live.remove(task);
        drop(live);
        if let Some(left) = left {
            left.journal.leave();
        }
        self.left.send_replace(());
        // Another process may go on with it. Its directory has the summary.
        self.summaries().remove(task);
        Some(passing)
    }

    /// The journal of a request, the same for all who follow it.
    pub(super) fn journal(
        &self,
        task: &TaskId,
        directory: &RequestDirectory,
        published: u64,
    ) -> Arc<Journal> {
        let mut journals = self.journals.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(journal) = journals.get(task).and_then(Weak::upgrade) {
            return journal;
        }
        journals.retain(|_, journal| journal.strong_count() > 0);
        let journal = Journal::new(task.clone(), directory.clone(), published);
        journals.insert(task.clone(), Arc::downgrade(&journal));
        journal
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roo_protocol::task::{TaskState, Usage};

    #[tokio::test]
    async fn of_a_request_that_has_left_the_registry_knows_nothing() {
        let registry = Arc::new(Registry::default());
        let task = TaskId::new("one");
        let item = HistoryItem {
            task_id: task.clone(),
            urid: Urid::new("20260102-03-04-abcdef01"),
            title: "Go.".to_owned(),
            mode: "code".to_owned(),
            state: TaskState::Completed,
            created_at: 1,
            updated_at: 2,
            usage: Usage::default(),
            seq: 3,
            forked_from: None,
            imported_from: None,
        };
        registry.summarise(item);
        assert!(registry.leave(&task, || false).await.is_none());
        assert!(registry.summaries().contains_key(&task));
        assert!(registry.leave(&task, || true).await.is_some());
        assert!(registry.summaries().is_empty());
    }
}
