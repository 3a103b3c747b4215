//! The list of a workspace's requests, from what their logs came to.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use super::log_fold::read_tree;
use roo_durable::disk::FileStamp;
use roo_durable::{History, RequestDirectory, StoreError, WorkspaceDirectory};
use roo_protocol::ids::{TaskId, Urid};
use roo_protocol::task::{HistoryItem, TaskState};

/// Time after which a further change of a log is sure to change its time, in any file system.
const CLOCK: Duration = Duration::from_secs(2);

/// The requests of a workspace, with the index that spares reading their logs.
pub(super) struct RequestHistory {
    index: History,
}

/// Summary of a request that doesn't live here.
struct Found {
    item: HistoryItem,
    /// True if the log comes to this, whoever looks, until it is changed.
    is_lasting: bool,
}

impl RequestHistory {
    pub(super) fn new(directory: &WorkspaceDirectory) -> Self {
        Self { index: directory.history() }
    }

    /// Requests after the cursor, newest first. `living` knows those that live here.
    pub(super) fn items(
        &mut self,
        directory: &WorkspaceDirectory,
        cursor: Option<&str>,
        limit: usize,
        living: impl Fn(&TaskId) -> Option<HistoryItem>,
    ) -> Result<Vec<HistoryItem>, StoreError> {
        let ids = directory.requests()?;
        self.index.refresh();
        let stamp_of = directory.log_stamps();
        let (mut items, mut new) = (Vec::new(), Vec::new());
        for id in ids.iter().filter(|id| cursor.is_none_or(|cursor| id.as_str() < cursor)) {
            if items.len() == limit {
                break;
            }
            if let Some(item) = living(id) {
                items.push(item);
                continue;
            }
            let stamp = stamp_of(id);
            let known = stamp.and_then(|stamp| self.index.get::<HistoryItem>(id, stamp));
            if let Some(item) = known.filter(|item| item.state.is_final() || !directory.request(id).is_held())
            {
                items.push(item);
                continue;
            }
            let request = directory.request(id);
            let Some(Found { item, is_lasting }) = find(&request, id, stamp, self.index.knows(id)) else {
                continue;
            };
            // What was read may be older or newer than the stamp while somebody writes.
            let stamp = stamp
                .filter(|stamp| is_lasting && is_settled(*stamp) && request.stamp().ok() == Some(*stamp));
            new.extend(stamp.map(|stamp| (id.clone(), stamp, item.clone())));
            items.push(item);
        }
        let there: HashSet<&str> = ids.iter().map(TaskId::as_str).collect();
        if let Err(error) = self.index.add(&new, |id| there.contains(id)) {
            tracing::info!(%error, "the index of requests can't be written");
        }
        Ok(items)
    }

    /// Removes what is known of a request that is to be deleted.
    pub(super) fn forget(&mut self, request: &TaskId) {
        if let Err(error) = self.index.forget(request) {
            tracing::warn!(%error, "the title of a deleted request remains in the index of requests");
        }
    }
}

/// The requests of a workspace that go on, or have ended within a given time; none where they can't be listed.
pub(super) fn in_use(directory: &WorkspaceDirectory, age: Duration) -> Option<HashSet<Urid>> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let oldest = i64::try_from(now.saturating_sub(age).as_millis()).ok()?;
    let items = RequestHistory::new(directory).items(directory, None, usize::MAX, |_| None);
    let is_in_use = |item: &HistoryItem| !item.state.is_final() || item.updated_at > oldest;
    Some(items.ok()?.into_iter().filter(is_in_use).map(|item| item.urid).collect())
}

/// Returns whether a change from now on changes the stamp.
fn is_settled(stamp: FileStamp) -> bool {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_nanos(stamp.modified)) > CLOCK
}

/// The summary of a request that doesn't live here, from its log.
pub(super) fn summary(directory: &RequestDirectory, id: &TaskId) -> Option<HistoryItem> {
    find(directory, id, None, true).map(|found| found.item)
}

/// The summary of a request that doesn't live here, from its own file or else from its log.
fn find(
    directory: &RequestDirectory,
    id: &TaskId,
    log: Option<FileStamp>,
    has_changed: bool,
) -> Option<Found> {
    let kept = directory.summary::<HistoryItem>();
    let is_newest = || {
        // It is written behind what it tells of.
        let written = directory.summary_stamp().map(|stamp| stamp.modified);
        !has_changed && log.is_some_and(|log| written.is_some_and(|written| written >= log.modified))
    };
    if let Some(item) = &kept {
        let is_lasting = item.state.is_final() && is_newest();
        if is_lasting || directory.is_held() {
            return Some(Found { item: item.clone(), is_lasting });
        }
    }
    // It was lost, or its process ended before it was brought up to date: the log knows. One that is gone
    // or can't be read is damaged too.
    let Ok((mut tree, ())) = read_tree(directory, id, |(), _| {}) else {
        // What can't be read any more must not look as if it had never been.
        let item = kept?;
        let title = format!("[damaged log] {}", item.title);
        return Some(Found {
            item: HistoryItem { title, state: TaskState::Failed, ..item },
            is_lasting: false,
        });
    };
    tree.set_interrupted();
    let item = tree.history_item();
    if item.state.is_final()
        && let Err(error) = directory.write_summary(&item)
    {
        tracing::warn!(%error, "the summary can't be written");
    }
    Some(Found { item, is_lasting: true })
}
