//! What clients can see of one request: its published events, and text that is still being written.
//!
//! A journal never waits for a client. Each client has a [`Follower`]: a cursor that reads the newest
//! events from memory and older ones from the log on disk, and takes running text in one piece
//! however much of it has come since the last look.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::event::Event;
use crate::protocol::event::{Event as WireEvent, EventParams};
use crate::protocol::ids::{MessageId, TaskId, ToolCallId};
use crate::protocol::message::Say;
use crate::store::{self, Record, RequestDirectory, StoreError};

/// How many events stay in memory; a client that is further behind reads the log.
const TAIL: usize = 256;
/// How many records a follower reads from disk at once.
const PAGE: usize = 256;
/// How much running text is kept, in bytes; the whole of it is in the closed block or the result.
const LIVE_LIMIT: usize = 256 * 1024;

/// The visible side of one request.
pub struct Journal {
    root: TaskId,
    directory: RequestDirectory,
    /// The newest number when the request came to live in this process.
    opened_at: u64,
    inner: Mutex<Inner>,
    changed: watch::Sender<()>,
}

struct Inner {
    tail: VecDeque<Arc<EventParams>>,
    /// Followers see events up to this number.
    published: u64,
    live: Vec<LiveText>,
    /// Counts the notices, so that each follower passes one on once.
    notices: u64,
    notice: Option<Arc<EventParams>>,
}

/// Names running text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LiveId {
    /// Text of a message.
    Message(MessageId, Say),
    /// Output of a tool.
    Tool(ToolCallId),
}

struct LiveText {
    task: TaskId,
    id: LiveId,
    /// How many bytes were dropped from the front.
    base: u64,
    text: String,
}

impl Journal {
    /// The journal of a request whose events up to `published` are on disk.
    pub fn new(root: TaskId, directory: RequestDirectory, published: u64) -> Arc<Self> {
        let inner = Inner { tail: VecDeque::new(), published, live: vec![], notices: 0, notice: None };
        let changed = watch::Sender::new(());
        Arc::new(Self { root, directory, opened_at: published, inner: Mutex::new(inner), changed })
    }

    /// The request.
    pub fn root(&self) -> &TaskId {
        &self.root
    }

    /// The newest number when the request came to live in this process; 0 for a new one.
    pub fn opened_at(&self) -> u64 {
        self.opened_at
    }

    /// The newest published number.
    pub fn published(&self) -> u64 {
        self.lock().published
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No code panics while it holds the lock, and the data would still be whole.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes records that are in the log; followers see them once they are published.
    pub(super) fn append(&self, records: &[Record<Event>]) {
        let mut inner = self.lock();
        inner.tail.extend(records.iter().map(|record| Arc::new(to_wire(&self.root, record))));
        let excess = inner.tail.len().saturating_sub(TAIL);
        inner.tail.drain(..excess);
    }

    /// Lets followers see the events up to `seq`.
    pub(super) fn publish(&self, seq: u64) {
        let mut inner = self.lock();
        if seq > inner.published {
            inner.published = seq;
            drop(inner);
            self.changed.send_replace(());
        }
    }

    /// More running text.
    pub(super) fn extend(&self, task: &TaskId, id: &LiveId, text: &str) {
        let mut inner = self.lock();
        let entry = match inner.live.iter_mut().find(|entry| entry.id == *id) {
            Some(entry) => entry,
            None => {
                let entry = LiveText { task: task.clone(), id: id.clone(), base: 0, text: String::new() };
                inner.live.push(entry);
                // It was pushed just now.
                let last = inner.live.len() - 1;
                &mut inner.live[last]
            }
        };
        entry.text.push_str(text);
        if entry.text.len() > 2 * LIVE_LIMIT {
            let mut cut = entry.text.len() - LIVE_LIMIT;
            while !entry.text.is_char_boundary(cut) {
                cut += 1;
            }
            entry.text.drain(..cut);
            entry.base += cut as u64;
        }
        drop(inner);
        self.changed.send_replace(());
    }

    /// The text is closed, or void.
    pub(super) fn close(&self, id: &LiveId) {
        self.lock().live.retain(|entry| entry.id != *id);
    }

    /// All running text is void.
    pub(super) fn close_all(&self) {
        self.lock().live.clear();
    }

    /// Tells followers something that is not part of the log.
    pub(super) fn notice(&self, at: i64, event: WireEvent) {
        let params = EventParams {
            root_id: self.root.clone(),
            task_id: self.root.clone(),
            seq: None,
            from: None,
            at,
            event,
        };
        let mut inner = self.lock();
        inner.notices += 1;
        inner.notice = Some(Arc::new(params));
        drop(inner);
        self.changed.send_replace(());
    }

    /// A cursor behind the event `after`.
    pub fn follow(self: &Arc<Self>, after: u64) -> Follower {
        let notices = self.lock().notices;
        Follower {
            changed: self.changed.subscribe(),
            journal: Arc::clone(self),
            after,
            disk_offset: 0,
            notices,
            sent: HashMap::new(),
        }
    }
}

/// One client's cursor over a request.
pub struct Follower {
    journal: Arc<Journal>,
    changed: watch::Receiver<()>,
    after: u64,
    /// Where to go on in the log when events are no longer in memory.
    disk_offset: u64,
    notices: u64,
    /// How far each running text was handed out.
    sent: HashMap<LiveId, u64>,
}

impl Follower {
    /// The request.
    pub fn root(&self) -> &TaskId {
        &self.journal.root
    }

    /// The number of the newest event handed out.
    pub fn position(&self) -> u64 {
        self.after
    }

    /// The number of the newest event that there is.
    pub fn published(&self) -> u64 {
        self.journal.published()
    }

    /// Waits until there is something new, and returns all of it up to a page: numbered events in
    /// order, then what came of running text.
    ///
    /// # Errors
    /// [`StoreError`] when older events can't be read from disk.
    pub async fn next(&mut self, now: impl Fn() -> i64) -> Result<Vec<Arc<EventParams>>, StoreError> {
        loop {
            self.changed.mark_unchanged();
            let batch = self.take(now()).await?;
            if !batch.is_empty() {
                return Ok(batch);
            }
            // The journal holds the sender, and the follower the journal.
            let _ = self.changed.changed().await;
        }
    }

    /// What is new now; may be empty.
    ///
    /// # Errors
    /// As [`Follower::next`].
    pub async fn take(&mut self, now: i64) -> Result<Vec<Arc<EventParams>>, StoreError> {
        let (first_in_memory, published) = {
            let inner = self.journal.lock();
            let first = inner.tail.front().and_then(|event| event.seq).unwrap_or(inner.published + 1);
            (first, inner.published)
        };
        if self.after < published && self.after + 1 < first_in_memory {
            return self.take_from_disk(published).await;
        }
        let inner = self.journal.lock();
        let mut batch: Vec<Arc<EventParams>> = inner
            .tail
            .iter()
            .filter(|event| event.seq.is_some_and(|seq| seq > self.after && seq <= inner.published))
            .cloned()
            .collect();
        self.after = self.after.max(inner.published);
        if self.notices < inner.notices {
            self.notices = inner.notices;
            batch.extend(inner.notice.clone());
        }
        self.sent.retain(|id, _| inner.live.iter().any(|entry| entry.id == *id));
        for entry in &inner.live {
            let sent = self.sent.entry(entry.id.clone()).or_insert(0);
            let offset = (*sent).max(entry.base);
            let end = entry.base + entry.text.len() as u64;
            if offset < end {
                *sent = end;
                // The offset is within the text, which is in memory.
                let text = entry.text[(offset - entry.base) as usize..].to_owned();
                let event = match &entry.id {
                    LiveId::Message(id, say) => {
                        WireEvent::MessageDelta { id: id.clone(), say: *say, offset, text }
                    }
                    LiveId::Tool(id) => WireEvent::ToolOutput { tool_call_id: id.clone(), offset, text },
                };
                batch.push(Arc::new(EventParams {
                    root_id: self.journal.root.clone(),
                    task_id: entry.task.clone(),
                    seq: None,
                    from: None,
                    at: now,
                    event,
                }));
            }
        }
        Ok(batch)
    }

    async fn take_from_disk(&mut self, published: u64) -> Result<Vec<Arc<EventParams>>, StoreError> {
        loop {
            let directory = self.journal.directory.clone();
            let offset = self.disk_offset;
            let read =
                tokio::task::spawn_blocking(move || store::read_from::<Event>(&directory, offset, PAGE));
            // The task can't panic, and nobody aborts it.
            let Ok(read) = read.await else { return Ok(vec![]) };
            let (records, next) = read?;
            if records.is_empty() {
                // What is missing from a damaged log can't be waited for.
                self.after = published;
                return Ok(vec![]);
            }
            self.disk_offset = next;
            let batch: Vec<_> = records
                .iter()
                .filter(|record| record.seq > self.after && record.seq <= published)
                .map(|record| Arc::new(to_wire(&self.journal.root, record)))
                .collect();
            if let Some(last) = batch.last() {
                self.after = last.seq.unwrap_or(self.after);
                return Ok(batch);
            }
        }
    }
}

fn to_wire(root: &TaskId, record: &Record<Event>) -> EventParams {
    EventParams {
        root_id: root.clone(),
        task_id: record.task_id.clone(),
        seq: Some(record.seq),
        from: None,
        at: record.at,
        event: record.event.to_wire(),
    }
}
