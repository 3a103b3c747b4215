//! Events for a typed client: a feed for each request that it is attached to.
//!
//! A feed is a cursor with one message on the way. While the client is slow, the feed waits and the
//! journal collects; what comes next is then one larger piece.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower_lsp::Client;
use tower_lsp::ls_types::notification::Notification;

use super::services::WorkspaceServices;
use roo_engine::engine::clock::Clock;
use roo_engine::engine::{Engine, Follower, Journal};
use roo_protocol::event::{DegradedUntil, Event, EventParams};
use roo_protocol::ids::TaskId;

/// Stands for every request.
pub(super) const EVERYTHING: &str = "*";

pub(super) enum RooEvent {}

impl Notification for RooEvent {
    type Params = Arc<EventParams>;
    const METHOD: &'static str = "roo/event";
}

/// A client, as far as events are concerned.
#[derive(Clone)]
pub(super) struct Recipient {
    pub(super) client: Client,
    pub(super) clock: Arc<dyn Clock>,
    /// The connection is over.
    pub(super) ended: CancellationToken,
}

/// The subscriptions of one client, by request.
#[derive(Default)]
pub(super) struct Subscriptions {
    running: Mutex<HashMap<TaskId, RunningSubscription>>,
    /// Held from the end of one feed to the beginning of the next: of two for one request the client would get events in turns.
    changing: tokio::sync::Mutex<()>,
    /// Those that the subscription to every request has begun with.
    known: KnownRequests,
}

struct RunningSubscription {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Subscriptions {
    /// Sends this request's events once `after` is cancelled, in place of an earlier cursor.
    pub(super) async fn attach(&self, recipient: Recipient, follower: Follower, after: CancellationToken) {
        let _turn = self.changing.lock().await;
        self.stop(follower.root()).await;
        self.begin(recipient, follower, after);
    }

    /// Sends this request's events once `after` is cancelled, unless they are being sent already.
    pub(super) fn begin(&self, recipient: Recipient, follower: Follower, after: CancellationToken) {
        let mut running = self.lock();
        if running.get(follower.root()).is_some_and(|running| !running.task.is_finished()) {
            return;
        }
        let root = follower.root().clone();
        let stop = recipient.ended.child_token();
        let feed = Subscription { recipient, follower, known: self.known.clone() };
        let task = tokio::spawn(feed.run(stop.clone(), after));
        running.insert(root, RunningSubscription { stop, task });
    }

    /// Sends the events of every request from now on. Cursors that are there stay.
    pub(super) async fn attach_everything(
        self: &Arc<Self>,
        recipient: Recipient,
        services: &Arc<WorkspaceServices>,
        after: CancellationToken,
    ) {
        let _turn = self.changing.lock().await;
        let everything = TaskId::new(EVERYTHING);
        self.stop(&everything).await;
        let stop = recipient.ended.child_token();
        let (this, services) = (Arc::clone(self), Arc::clone(services));
        let follow = async move {
            after.cancelled().await;
            let mut requests = Requests::begin_anew(&services.engine, this.known.clone());
            while let Some(follower) = requests.next(&services.engine).await {
                let _turn = this.changing.lock().await;
                this.begin(recipient.clone(), follower, after.clone());
            }
        };
        let task = tokio::spawn({
            let stop = stop.clone();
            async move {
                stop.run_until_cancelled(follow).await;
            }
        });
        self.lock().insert(everything, RunningSubscription { stop, task });
    }

    /// Sends nothing more of the request that this task belongs to, or of any.
    pub(super) async fn detach(&self, task: &TaskId) {
        let _turn = self.changing.lock().await;
        self.stop(&task.root()).await;
        if task.as_str() == EVERYTHING {
            let all: Vec<TaskId> = self.lock().keys().cloned().collect();
            for root in all {
                self.stop(&root).await;
            }
        }
    }

    /// Ends a feed. Its last event is on its way when this returns.
    async fn stop(&self, root: &TaskId) {
        let running = self.lock().remove(root);
        if let Some(running) = running {
            running.stop.cancel();
            // It can't panic, and nobody aborts it.
            let _ = running.task.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TaskId, RunningSubscription>> {
        // Every change under the lock is one call.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Requests that are followed. One whose events couldn't be read is forgotten, so that it is followed again when it next comes
/// to life.
#[derive(Clone, Default)]
pub(super) struct KnownRequests(Arc<Mutex<HashSet<TaskId>>>);

impl KnownRequests {
    /// Nobody follows this request any more, as its events couldn't be read.
    pub(super) fn forget(&self, root: &TaskId) {
        self.lock().remove(root);
    }

    /// Returns whether the request was not known.
    fn add(&self, root: &TaskId) -> bool {
        self.lock().insert(root.clone())
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<TaskId>> {
        // Every change under the lock is one call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The requests that live in this process, now and later, each once, with a cursor at what is new.
pub(super) struct Requests {
    opened: Receiver<Arc<Journal>>,
    known: KnownRequests,
    next: Vec<Follower>,
}

impl Requests {
    /// Begins with those that live now.
    pub(super) fn new(engine: &Engine) -> Self {
        Self::begin_anew(engine, KnownRequests::default())
    }

    /// Begins with those that live now, whatever was known before.
    fn begin_anew(engine: &Engine, known: KnownRequests) -> Self {
        // Before the look, so that none is missed.
        let opened = engine.opened();
        known.lock().clear();
        let mut next = Vec::new();
        for journal in engine.journals() {
            known.add(journal.root());
            next.push(journal.follow(journal.published()));
        }
        Self { opened, known, next }
    }

    /// The requests that were returned, for those who follow them.
    pub(super) fn known(&self) -> KnownRequests {
        self.known.clone()
    }

    /// The next one; none when the engine has ended.
    pub(super) async fn next(&mut self, engine: &Engine) -> Option<Follower> {
        loop {
            if let Some(follower) = self.next.pop() {
                return Some(follower);
            }
            let journals = match self.opened.recv().await {
                Ok(journal) => vec![journal],
                Err(RecvError::Lagged(_)) => engine.journals(),
                Err(RecvError::Closed) => return None,
            };
            for journal in journals {
                if self.known.add(journal.root()) {
                    self.next.push(journal.follow(journal.opened_at()));
                }
            }
        }
    }
}

struct Subscription {
    recipient: Recipient,
    follower: Follower,
    known: KnownRequests,
}

impl Subscription {
    async fn run(mut self, stop: CancellationToken, after: CancellationToken) {
        let clock = Arc::clone(&self.recipient.clock);
        let now = || clock.now();
        tokio::select! {
            () = stop.cancelled() => return,
            () = after.cancelled() => {}
        }
        // Between two events only, so that a client sees each of them whole.
        while !stop.is_cancelled() {
            tokio::select! {
                () = stop.cancelled() => {}
                batch = self.follower.next(now) => match batch {
                    Ok(batch) => {
                        for event in merged(batch) {
                            self.send(event).await;
                        }
                    }
                    Err(error) => {
                        let reason = format!("{error}. What follows is not shown until this is fixed.");
                        self.known.forget(self.follower.root());
                        self.send(notice(self.follower.root(), now(), reason)).await;
                        return;
                    }
                },
            }
        }
    }

    async fn send(&self, event: Arc<EventParams>) {
        tokio::select! {
            // The client may never read again.
            () = self.recipient.ended.cancelled() => {}
            () = self.recipient.client.send_notification::<RooEvent>(event) => {}
        }
    }
}

/// Says that no more events come until the client attaches again.
fn notice(root: &TaskId, at: i64, reason: String) -> Arc<EventParams> {
    Arc::new(EventParams {
        root_id: root.clone(),
        task_id: root.clone(),
        seq: None,
        from: None,
        at,
        event: Event::ServerDegraded { reason, until: Some(DegradedUntil::Attached) },
    })
}

/// Leaves out versions of a message that the next event replaces. The messages of two tasks may have one id.
fn merged(events: Vec<Arc<EventParams>>) -> Vec<Arc<EventParams>> {
    let mut merged: Vec<Arc<EventParams>> = Vec::with_capacity(events.len());
    for mut event in events {
        if let Some(last) = merged.last()
            && let (Event::Message { message: old }, Event::Message { message: new }) =
                (&last.event, &event.event)
            && old.id == new.id
            && last.task_id == event.task_id
        {
            let from = last.from.or(last.seq);
            Arc::make_mut(&mut event).from = from;
            merged.pop();
        }
        merged.push(event);
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use roo_protocol::ids::MessageId;
    use roo_protocol::message::{Message, MessageKind, Say};

    fn message(seq: u64, id: &str) -> Arc<EventParams> {
        message_of("t", seq, id)
    }

    fn message_of(task: &str, seq: u64, id: &str) -> Arc<EventParams> {
        let message = Message {
            id: MessageId::new(id),
            kind: MessageKind::Say(Say::Text),
            text: format!("version {seq}"),
            images: vec![],
        };
        let task_id = TaskId::new(task);
        let event = Event::Message { message };
        Arc::new(EventParams { root_id: task_id.root(), task_id, seq: Some(seq), from: None, at: 0, event })
    }

    #[test]
    fn versions_of_a_message_in_a_row_become_the_last_one() {
        let merged =
            merged(vec![message(1, "a"), message(2, "b"), message(3, "b"), message(4, "b"), message(5, "a")]);
        let numbers: Vec<_> = merged.iter().map(|event| (event.from, event.seq)).collect();
        assert_eq!(numbers, [(None, Some(1)), (Some(2), Some(4)), (None, Some(5))]);
    }

    #[test]
    fn messages_of_two_tasks_are_two_whatever_their_ids() {
        let events = vec![message_of("t.1", 1, "a"), message_of("t.2", 2, "a"), message_of("t.2", 3, "a")];
        let numbers: Vec<_> =
            merged(events).iter().map(|event| (event.task_id.to_string(), event.from, event.seq)).collect();
        assert_eq!(numbers, [("t.1".into(), None, Some(1)), ("t.2".into(), Some(2), Some(3))]);
    }
}
