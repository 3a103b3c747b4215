//! Requests that are followed in Roo Code's vocabulary, by whoever carries it: IPC and the bridge.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use roo_durable::StoreError;
use roo_engine::engine::{Engine, Follower};
use roo_protocol::event::EventParams;
use roo_protocol::ids::TaskId;
use roo_protocol::message::Message;
use tokio_util::sync::CancellationToken;

use crate::masking::Mask;
use crate::roo_api::{RooEvent, Vocabulary};

/// The requests that are followed, each with what is cancelled when it no longer is.
#[derive(Default)]
pub(crate) struct FollowedRequests(Mutex<HashMap<TaskId, CancellationToken>>);

impl FollowedRequests {
    /// Returns whether a request is followed.
    pub(crate) fn contains(&self, request: &TaskId) -> bool {
        self.lock().contains_key(request)
    }

    /// A request is followed from now on, until what is returned or `end` is cancelled. None where it is already: of several that
    /// want to follow it at a time, one does.
    pub(crate) fn begin(&self, request: &TaskId, end: &CancellationToken) -> Option<CancellationToken> {
        let mut requests = self.lock();
        if requests.contains_key(request) {
            return None;
        }
        let over = end.child_token();
        requests.insert(request.clone(), over.clone());
        Some(over)
    }

    /// A request is no longer followed. Returns whether it was.
    pub(crate) fn end(&self, request: &TaskId) -> bool {
        let over = self.lock().remove(request);
        over.inspect(CancellationToken::cancel).is_some()
    }

    /// The follower of a request has come to its end by itself.
    pub(crate) fn ended(&self, request: &TaskId) {
        self.lock().remove(request);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TaskId, CancellationToken>> {
        // Every change under the lock is complete or not begun.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The mask of secrets of a workspace folder, as the settings want it now. Reads the disk.
pub(crate) async fn mask(engine: &Engine, folder: &Path) -> Mask {
    let (enabled, folder) = (engine.settings().await.redact_secrets, folder.to_owned());
    let read = move || Mask::new(enabled, std::iter::once(&*folder));
    // While the process ends nothing more is told.
    tokio::task::spawn_blocking(read).await.unwrap_or_default()
}

/// The vocabulary for a request, by the settings as they are now.
pub(crate) async fn vocabulary(engine: &Engine, mask: Mask) -> Vocabulary {
    let settings = engine.settings().await;
    let profiles = settings.profiles.iter();
    let providers: BTreeMap<String, String> =
        profiles.map(|(name, profile)| (name.clone(), profile.provider.as_str().to_owned())).collect();
    Vocabulary::new(mask, providers)
}

/// The events of one request, as Roo Code's.
pub(crate) struct RooFollower {
    engine: Arc<Engine>,
    follower: Follower,
    vocabulary: Vocabulary,
    /// Events up to this number are not told.
    known: u64,
}

/// Something that has come of a request.
pub(crate) enum Followed {
    /// Events, to be translated one after the other.
    Events(Vec<Arc<EventParams>>),
    /// What was put off until now.
    Due(Vec<RooEvent>),
}

impl RooFollower {
    /// Follows from the beginning, and tells what comes after the number `known`.
    pub(crate) fn new(engine: Arc<Engine>, follower: Follower, vocabulary: Vocabulary, known: u64) -> Self {
        Self { engine, follower, vocabulary, known }
    }

    /// Waits for what comes next. Nothing is lost where this isn't waited for to its end.
    ///
    /// # Errors
    /// [`StoreError`] when older events can't be read from disk.
    pub(crate) async fn next(&mut self) -> Result<Followed, StoreError> {
        let now = || self.engine.now();
        let wait =
            self.vocabulary.due().map(|due| u64::try_from(due.saturating_sub(now())).unwrap_or_default());
        let due = async {
            match wait {
                Some(wait) => tokio::time::sleep(Duration::from_millis(wait)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            batch = self.follower.next(now) => batch.map(Followed::Events),
            () = due => Ok(Followed::Due(self.vocabulary.flush(now()))),
        }
    }

    /// What an event means to clients; none where it isn't told. Reads the request's log for a result that the event doesn't
    /// have whole.
    pub(crate) async fn translate(&mut self, params: &EventParams) -> Option<Vec<RooEvent>> {
        let is_told = params.seq.is_none_or(|seq| seq > self.known);
        let result = if is_told { self.result_of(params).await } else { None };
        let told = self.vocabulary.apply(params, result.as_ref());
        is_told.then_some(told)
    }

    /// Returns whether something is put off.
    pub(crate) fn has_more(&self) -> bool {
        self.vocabulary.due().is_some()
    }

    /// Returns whether all that has happened so far has come.
    pub(crate) fn is_up_to_date(&self) -> bool {
        self.follower.position() >= self.follower.published()
    }

    /// Returns the number of the newest event that has come.
    pub(crate) fn position(&self) -> u64 {
        self.follower.position()
    }

    async fn result_of(&self, params: &EventParams) -> Option<Message> {
        let id = self.vocabulary.wanted_result(params)?;
        let snapshot = self.engine.get(&params.task_id).await.ok()?;
        snapshot.messages.into_iter().find(|message| message.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_that_follow_a_request_at_a_time_one_does() {
        let (followed, end) = (FollowedRequests::default(), CancellationToken::new());
        let task = TaskId::new("t");
        let over = followed.begin(&task, &end).unwrap();
        assert!(followed.begin(&task, &end).is_none());
        assert!(followed.end(&task) && over.is_cancelled());
        assert!(!followed.end(&task));
        let again = followed.begin(&task, &end).unwrap();
        followed.ended(&task);
        assert!(!again.is_cancelled() && !followed.contains(&task));
        end.cancel();
        assert!(again.is_cancelled());
    }
}
