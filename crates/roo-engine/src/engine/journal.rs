//! Journal of one request for clients: its published events, and text that is still being written.
//!
//! A journal never waits for a client. Each client has a [`Follower`]: a cursor that reads the newest
//! events from memory and older ones from the log on disk, and takes running text in one piece
//! however much of it has come since the last look.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::event::Event;
use super::shared_records::as_own;
use roo_durable::{Record, RequestDirectory, StoreError};
use roo_protocol::event::{DegradedUntil, Event as WireEvent, EventParams};
use roo_protocol::ids::{MessageId, TaskId, ToolCallId};
use roo_protocol::message::Say;
use roo_protocol::tree::TreeNode;

/// Number of events kept in memory; a client that is further behind reads the log.
const TAIL: usize = 256;
/// Number of records a follower reads from disk at once.
const PAGE: usize = 256;
/// Maximum length of kept running text, in bytes; the whole of it is in the closed block or the result.
const LIVE_LIMIT: usize = 256 * 1024;
/// Number of tools' final outputs kept for those who have not seen their end.
const CLOSED: usize = 16;
/// Number of events that are kept of a request that no longer lives here, once all who follow it have them.
const LEFT_TAIL: usize = 16;
/// Maximum length of each tool's output that is kept then, in bytes.
const LEFT_OUTPUT: usize = 16 * 1024;
/// Time for which running text is collected between two pieces of it: as often as an eye can follow, however fast a
/// model is.
const COLLECT: Duration = Duration::from_millis(30);

/// The visible side of one request.
pub struct Journal {
    root: TaskId,
    directory: RequestDirectory,
    /// The newest number when the request last came to live in this process.
    opened_at: AtomicU64,
    inner: Mutex<Inner>,
    /// There is a new event, tree or trouble.
    changed: watch::Sender<()>,
    /// There is more running text.
    grown: watch::Sender<()>,
}

struct Inner {
    tail: VecDeque<Arc<EventParams>>,
    /// The newest number that is in the log.
    appended: u64,
    /// Followers see events up to this number.
    published: u64,
    live: Vec<LiveText>,
    /// The calls whose commands run on in the background.
    background: HashSet<ToolCallId>,
    /// Followers were told that there is more running text, and none has taken it yet.
    told: bool,
    /// The invocation tree as it was last, and before that, each with the event that made it so.
    trees: VecDeque<(u64, Arc<EventParams>)>,
    /// First event for every follower, if any.
    warning: Option<Arc<EventParams>>,
    /// The newest notice about the disk: its current problem, or that this is over.
    trouble: Option<Arc<EventParams>>,
    /// Counts these notices, so that each follower passes one on once.
    troubles: u64,
    /// Counts what was published, so that it is known who has not looked since.
    publications: u64,
    followers: usize,
    /// Number of followers that have not handed out everything.
    behind: usize,
    /// True while the request doesn't live in this process.
    has_left: bool,
}

/// Names running text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum LiveId {
    /// Text of a message.
    Message(MessageId, Say),
    /// Output of a tool.
    Tool(ToolCallId),
}

impl LiveId {
    /// Returns whether an event tells the end of a tool's output.
    fn ends_by(&self, event: &WireEvent) -> bool {
        match (event, self) {
            (
                WireEvent::ToolFinished { tool_call_id, .. } | WireEvent::CommandEnded { tool_call_id, .. },
                Self::Tool(id),
            ) => tool_call_id == id,
            _ => false,
        }
    }
}

struct LiveText {
    task: TaskId,
    id: LiveId,
    /// The event that it comes after.
    behind: u64,
    /// Number of bytes dropped from the front.
    base: u64,
    text: String,
    /// Nothing more comes; it is handed out with the news of its end.
    closed: bool,
}

impl LiveText {
    /// Drops all but so many bytes of the end.
    fn cut_to(&mut self, length: usize) {
        let Some(cut) = self.text.len().checked_sub(length) else { return };
        let cut = self.text.ceil_char_boundary(cut);
        self.text.drain(..cut);
        self.base += cut as u64;
    }
}

impl Inner {
    /// Lets go of what nobody waits for any more.
    fn shrink(&mut self) {
        if !self.has_left || self.behind > 0 {
            return;
        }
        let excess = self.tail.len().saturating_sub(LEFT_TAIL);
        self.tail.drain(..excess);
        self.tail.shrink_to_fit();
        self.live
            .retain(|entry| !entry.closed || self.tail.iter().any(|params| entry.id.ends_by(&params.event)));
        for entry in self.live.iter_mut().filter(|entry| entry.closed) {
            entry.cut_to(LEFT_OUTPUT);
            entry.text.shrink_to_fit();
        }
    }
}

impl Journal {
    /// The journal of a request whose events up to `published` are on disk.
    pub fn new(root: TaskId, directory: RequestDirectory, published: u64) -> Arc<Self> {
        let inner = Inner {
            tail: VecDeque::new(),
            appended: published,
            published,
            live: vec![],
            background: HashSet::new(),
            told: false,
            trees: VecDeque::new(),
            warning: None,
            trouble: None,
            troubles: 0,
            publications: 0,
            followers: 0,
            behind: 0,
            has_left: false,
        };
        let (changed, grown) = (watch::Sender::new(()), watch::Sender::new(()));
        let opened_at = AtomicU64::new(published);
        Arc::new(Self { root, directory, opened_at, inner: Mutex::new(inner), changed, grown })
    }

    /// The directory of the request.
    pub(super) fn directory(&self) -> &RequestDirectory {
        &self.directory
    }

    /// The file that holds the request's events.
    pub(super) fn log(&self) -> std::path::PathBuf {
        self.directory.log()
    }

    /// The file in which hooks leave variables for the request's commands.
    pub(super) fn environment(&self) -> std::path::PathBuf {
        self.directory.environment()
    }

    /// The request.
    pub fn root(&self) -> &TaskId {
        &self.root
    }

    /// The newest number when the request last came to live in this process; 0 for a new one.
    pub fn opened_at(&self) -> u64 {
        self.opened_at.load(Ordering::Relaxed)
    }

    /// The request comes to live in this process, with this newest number. Those who followed it before have the same journal.
    pub(super) fn reopen(&self, newest: u64) {
        self.opened_at.store(newest, Ordering::Relaxed);
        self.lock().has_left = false;
        self.catch_up(newest);
    }

    /// The log has events up to `newest`, some of which another process may have written.
    pub(super) fn catch_up(&self, newest: u64) {
        let mut inner = self.lock();
        if newest <= inner.appended {
            return;
        }
        // What is missing in between is on disk alone.
        inner.tail.clear();
        inner.live.clear();
        inner.trees.clear();
        inner.appended = newest;
        self.make_public(inner, newest);
    }

    /// The request lives in this process no more. What its followers have seen is not kept for them.
    pub(super) fn leave(&self) {
        let mut inner = self.lock();
        inner.has_left = true;
        inner.shrink();
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
        inner.appended = records.last().map_or(inner.appended, |record| record.seq);
        inner.tail.extend(records.iter().map(|record| Arc::new(to_wire(&self.root, record))));
        let excess = inner.tail.len().saturating_sub(TAIL);
        inner.tail.drain(..excess);
    }

    /// Lets followers see the events up to `seq`.
    pub(super) fn publish(&self, seq: u64) {
        let inner = self.lock();
        if seq > inner.published {
            self.make_public(inner, seq);
        }
    }

    fn make_public(&self, mut inner: MutexGuard<'_, Inner>, seq: u64) {
        inner.published = seq;
        inner.publications += 1;
        inner.behind = inner.followers;
        drop(inner);
        self.changed.send_replace(());
    }

    /// More running text.
    pub(super) fn extend(&self, task: &TaskId, id: &LiveId, text: &str) {
        let mut inner = self.lock();
        let entry = match inner.live.iter_mut().find(|entry| entry.task == *task && entry.id == *id) {
            Some(entry) => entry,
            None => {
                let (task, id, behind) = (task.clone(), id.clone(), inner.appended);
                inner.live.push(LiveText { task, id, behind, base: 0, text: String::new(), closed: false });
                // It was pushed just now.
                let last = inner.live.len() - 1;
                &mut inner.live[last]
            }
        };
        entry.text.push_str(text);
        if entry.text.len() > 2 * LIVE_LIMIT {
            entry.cut_to(LIVE_LIMIT);
        }
        if !std::mem::replace(&mut inner.told, true) {
            drop(inner);
            self.grown.send_replace(());
        }
    }

    /// The message is closed, and its event has the whole text; or it is void.
    pub(super) fn close(&self, task: &TaskId, id: &LiveId) {
        self.lock().live.retain(|entry| entry.task != *task || entry.id != *id);
    }

    /// All running text of a task has ended. That of messages is void; that of tools stays for those who have
    /// not seen the end of it, as no event holds it.
    pub(super) fn close_all(&self, task: &TaskId) {
        let Inner { live, background, .. } = &mut *self.lock();
        live.retain(|entry| entry.task != *task || matches!(entry.id, LiveId::Tool(_)));
        let goes_on = |entry: &LiveText| matches!(&entry.id, LiveId::Tool(call) if background.contains(call));
        let ended = live.iter_mut().filter(|entry| entry.task == *task && !goes_on(entry));
        ended.for_each(|entry| entry.closed = true);
        let mut excess = live.iter().filter(|entry| entry.closed).count().saturating_sub(CLOSED);
        live.retain(|entry| {
            let drop = entry.closed && excess > 0;
            excess -= usize::from(drop);
            !drop
        });
    }

    /// The output of a call goes on after its result.
    pub(super) fn keep_open(&self, call: &ToolCallId) {
        self.lock().background.insert(call.clone());
    }

    /// The output of such a call has ended.
    pub(super) fn close_background(&self, call: &ToolCallId) {
        let inner = &mut *self.lock();
        inner.background.remove(call);
        let ended = inner.live.iter_mut();
        ended
            .filter(|entry| matches!(&entry.id, LiveId::Tool(id) if id == call))
            .for_each(|entry| entry.closed = true);
    }

    /// The invocation tree after the event `seq`, if that changed it. Followers get the newest one, not
    /// before the event that made it so.
    pub(super) fn set_tree(&self, seq: u64, at: i64, nodes: Vec<TreeNode>) {
        let mut inner = self.lock();
        let known = inner.trees.back().map(|(_, params)| &params.event);
        if matches!(known, Some(WireEvent::TreeChanged { nodes: known }) if *known == nodes) {
            return;
        }
        let params = self.unnumbered(at, WireEvent::TreeChanged { nodes });
        let published = inner.published;
        // Only the newest of those that may be seen is of use.
        while inner.trees.get(1).is_some_and(|(seq, _)| *seq <= published) {
            inner.trees.pop_front();
        }
        inner.trees.push_back((seq, params));
    }

    /// Tells every follower, also those to come, something about the request as a whole.
    pub(super) fn warn(&self, at: i64, event: WireEvent) {
        let params = self.unnumbered(at, event);
        self.lock().warning = Some(params);
        self.changed.send_replace(());
    }

    /// The disk refuses what is to be kept: tells every follower, also those to come until the disk works again.
    pub(super) fn degrade(&self, at: i64, reason: String) {
        let event = WireEvent::ServerDegraded { reason, until: Some(DegradedUntil::Recovered) };
        let mut inner = self.lock();
        if inner.trouble.as_ref().is_some_and(|trouble| trouble.event == event) {
            return;
        }
        tracing::info!(?event, "the disk refuses what is to be kept");
        inner.trouble = Some(self.unnumbered(at, event));
        inner.troubles += 1;
        drop(inner);
        self.changed.send_replace(());
    }

    /// The disk takes everything again: tells the followers that were told of the problem.
    pub(super) fn report_recovered(&self, at: i64) {
        let mut inner = self.lock();
        if inner.trouble.as_ref().is_none_or(|trouble| trouble.event == WireEvent::ServerRecovered) {
            return;
        }
        inner.trouble = Some(self.unnumbered(at, WireEvent::ServerRecovered));
        inner.troubles += 1;
        drop(inner);
        self.changed.send_replace(());
    }

    fn unnumbered(&self, at: i64, event: WireEvent) -> Arc<EventParams> {
        let root = self.root.clone();
        Arc::new(EventParams { root_id: root.clone(), task_id: root, seq: None, from: None, at, event })
    }

    /// A cursor after the event `after`.
    pub fn follow(self: &Arc<Self>, after: u64) -> Follower {
        let mut inner = self.lock();
        inner.followers += 1;
        inner.behind += 1;
        Follower {
            // None that was counted.
            seen: None,
            changed: self.changed.subscribe(),
            grown: self.grown.subscribe(),
            text_due: Instant::now(),
            journal: Arc::clone(self),
            after,
            disk_offset: 0,
            warned: false,
            troubles: 0,
            degraded: false,
            tree: 0,
            sent: HashMap::new(),
        }
    }
}

/// One client's cursor over a request.
pub struct Follower {
    journal: Arc<Journal>,
    changed: watch::Receiver<()>,
    grown: watch::Receiver<()>,
    /// From when on running text is handed out.
    text_due: Instant,
    after: u64,
    /// The publication up to which it has handed out everything.
    seen: Option<u64>,
    /// Offset at which to continue in the log when events are no longer in memory.
    disk_offset: u64,
    /// True if the request's warning was handed out.
    warned: bool,
    /// The newest notice about the disk that was looked at.
    troubles: u64,
    /// True if a problem with the disk was handed out, and its end was not.
    degraded: bool,
    /// The event that the newest handed-out tree came after.
    tree: u64,
    /// Length of each running text of each task that was sent.
    sent: HashMap<(TaskId, LiveId), u64>,
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

    /// Returns the problem that pauses the request; it continues by itself when that has passed.
    pub fn trouble(&self) -> Option<String> {
        match &self.journal.lock().trouble.as_ref()?.event {
            WireEvent::ServerDegraded { reason, .. } => Some(reason.clone()),
            _ => None,
        }
    }

    /// Waits until there is something new, and returns all of it up to a page: numbered events in
    /// order, then what came of running text, at most every 30 milliseconds.
    ///
    /// # Errors
    /// [`StoreError`] when older events can't be read from disk.
    pub async fn next(&mut self, now: impl Fn() -> i64) -> Result<Vec<Arc<EventParams>>, StoreError> {
        loop {
            self.changed.mark_unchanged();
            self.grown.mark_unchanged();
            let with_text = self.text_due <= Instant::now();
            let batch = self.take(now(), with_text).await?;
            if !batch.is_empty() {
                return Ok(batch);
            }
            // The journal holds the senders, and the follower the journal: neither wait can fail.
            if with_text {
                tokio::select! {
                    biased;
                    _ = self.changed.changed() => {}
                    _ = self.grown.changed() => {}
                }
            } else {
                let _ = tokio::time::timeout_at(self.text_due, self.changed.changed()).await;
            }
        }
    }

    /// Returns new events; may be empty.
    async fn take(&mut self, now: i64, with_text: bool) -> Result<Vec<Arc<EventParams>>, StoreError> {
        let journal = Arc::clone(&self.journal);
        let published = {
            let mut inner = journal.lock();
            let first_in_memory = inner.tail.front().and_then(|event| event.seq);
            let published = inner.published;
            if self.after >= published || self.after + 1 >= first_in_memory.unwrap_or(published + 1) {
                return Ok(self.take_from_memory(&mut inner, now, with_text));
            }
            published
        };
        self.take_from_disk(published).await
    }

    fn take_from_memory(&mut self, inner: &mut Inner, now: i64, with_text: bool) -> Vec<Arc<EventParams>> {
        let mut batch: Vec<Arc<EventParams>> = inner
            .tail
            .iter()
            .filter(|event| event.seq.is_some_and(|seq| seq > self.after && seq <= inner.published))
            .cloned()
            .collect();
        self.after = self.after.max(inner.published);
        if !self.warned
            && let Some(warning) = &inner.warning
        {
            self.warned = true;
            batch.push(Arc::clone(warning));
        }
        if self.troubles < inner.troubles {
            self.troubles = inner.troubles;
            let is_problem = |notice: &EventParams| notice.event != WireEvent::ServerRecovered;
            let was_degraded =
                std::mem::replace(&mut self.degraded, inner.trouble.as_deref().is_some_and(is_problem));
            batch.extend(inner.trouble.iter().filter(|notice| was_degraded || is_problem(notice)).cloned());
        }
        let tree = inner.trees.iter().rev().find(|(seq, _)| *seq <= inner.published);
        if let Some((seq, params)) = tree.filter(|(seq, _)| *seq > self.tree) {
            self.tree = *seq;
            batch.push(Arc::clone(params));
        }
        if with_text {
            inner.told = false;
        }
        self.sent
            .retain(|(task, id), _| inner.live.iter().any(|entry| entry.task == *task && entry.id == *id));
        for entry in &inner.live {
            // A tool's last words come just before the news of its end.
            let end_of_tool = batch.iter().position(|params| entry.id.ends_by(&params.event));
            // Nor does any text overtake the events that it comes after.
            if end_of_tool.is_none() && (entry.closed || !with_text || entry.behind > self.after) {
                continue;
            }
            let sent = self.sent.entry((entry.task.clone(), entry.id.clone())).or_insert(0);
            let offset = (*sent).max(entry.base);
            let end = entry.base + entry.text.len() as u64;
            if offset < end {
                *sent = end;
                self.text_due = Instant::now() + COLLECT;
                // The offset is within the text, which is in memory.
                let text = entry.text[(offset - entry.base) as usize..].to_owned();
                let event = match &entry.id {
                    LiveId::Message(id, say) => {
                        WireEvent::MessageDelta { id: id.clone(), say: *say, offset, text }
                    }
                    LiveId::Tool(id) => WireEvent::ToolOutput { tool_call_id: id.clone(), offset, text },
                };
                let params = EventParams {
                    root_id: self.journal.root.clone(),
                    task_id: entry.task.clone(),
                    seq: None,
                    from: None,
                    at: now,
                    event,
                };
                batch.insert(end_of_tool.unwrap_or(batch.len()), Arc::new(params));
            }
        }
        if self.seen.replace(inner.publications) != Some(inner.publications) {
            inner.behind = inner.behind.saturating_sub(1);
            inner.shrink();
        }
        batch
    }

    async fn take_from_disk(&mut self, published: u64) -> Result<Vec<Arc<EventParams>>, StoreError> {
        loop {
            let directory = self.journal.directory.clone();
            let offset = self.disk_offset;
            let root = self.journal.root.clone();
            let read = roo_durable::spawn_blocking(move || {
                let mut records = Vec::new();
                // What isn't published yet is read once it is: reading goes on after the last record.
                let next = roo_durable::read_while::<Event>(&directory, offset, |mut record| {
                    as_own(&root, &mut record);
                    let goes_on = record.seq < published && records.len() + 1 < PAGE;
                    records.push(record);
                    goes_on
                })?;
                Ok::<_, StoreError>((records, next))
            });
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

impl Drop for Follower {
    fn drop(&mut self) {
        let mut inner = self.journal.lock();
        inner.followers -= 1;
        if self.seen != Some(inner.publications) {
            inner.behind = inner.behind.saturating_sub(1);
            inner.shrink();
        }
    }
}

/// The newest events in a request's log, at most this many, oldest first.
pub(super) fn newest_events(
    directory: &RequestDirectory,
    root: &TaskId,
    most: usize,
) -> Result<Vec<EventParams>, StoreError> {
    let mut newest: VecDeque<Record<Event>> = VecDeque::new();
    roo_durable::read_while::<Event>(directory, 0, |record| {
        newest.push_back(record);
        if newest.len() > most {
            newest.pop_front();
        }
        true
    })?;
    newest.iter_mut().for_each(|record| as_own(root, record));
    Ok(newest.iter().map(|record| to_wire(root, record)).collect())
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use roo_durable::{RequestLog, WorkspaceDirectory};
    use roo_model::providers::ToolResult;
    use roo_protocol::event::ToolStatus;

    fn journal() -> Arc<Journal> {
        let root = TaskId::new("t");
        // Nothing here is older than what is in memory, so the disk is never read.
        let directory = WorkspaceDirectory::new(Path::new("/nonexistent"), Path::new("/work")).request(&root);
        Journal::new(root, directory, 0)
    }

    fn tool() -> LiveId {
        LiveId::Tool(ToolCallId::new("c1"))
    }

    fn finished(seq: u64) -> Record<Event> {
        let result = ToolResult {
            call_id: ToolCallId::new("c1"),
            name: "execute_command".into(),
            subject: "make".into(),
            status: ToolStatus::Ok,
            text: "done".into(),
            images: vec![],
        };
        let event = Event::ToolFinished {
            summary: "made".into(),
            result,
            seen: vec![],
            mistake: false,
            ends: None,
            saves: None,
            withheld: None,
            recorded: vec![],
            exit_code: None,
            circle: None,
        };
        Record { seq, at: 0, task_id: TaskId::new("t"), event }
    }

    async fn next(follower: &mut Follower) -> Vec<String> {
        let batch = follower.next(|| 0).await.unwrap();
        let tell = |params: &Arc<EventParams>| match &params.event {
            WireEvent::ToolOutput { offset, text, .. } => format!("{offset}: {text}"),
            WireEvent::ToolFinished { summary, .. } => summary.clone(),
            other => panic!("{other:?}"),
        };
        batch.iter().map(tell).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn running_text_comes_in_pieces_that_an_eye_can_follow() {
        let journal = journal();
        let mut follower = journal.follow(0);
        let write = |text| journal.extend(&TaskId::new("t"), &tool(), text);
        write("a");
        assert_eq!(next(&mut follower).await, ["0: a"]);
        write("b");
        write("c");
        let asked = Instant::now();
        assert_eq!(next(&mut follower).await, ["1: bc"]);
        assert_eq!(asked.elapsed(), COLLECT);
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_words_of_a_tool_come_at_once_before_the_news_of_its_end() {
        let journal = journal();
        let mut follower = journal.follow(0);
        journal.extend(&TaskId::new("t"), &tool(), "a");
        assert_eq!(next(&mut follower).await, ["0: a"]);
        journal.extend(&TaskId::new("t"), &tool(), "b");
        journal.close_all(&TaskId::new("t"));
        journal.append(&[finished(1)]);
        journal.publish(1);
        let asked = Instant::now();
        assert_eq!(next(&mut follower).await, ["1: b", "made"]);
        assert_eq!(asked.elapsed(), Duration::ZERO);
        let late = next(&mut journal.follow(0)).await;
        assert_eq!(late, ["0: ab", "made"]);
    }

    #[tokio::test(start_paused = true)]
    async fn no_text_overtakes_the_events_that_it_comes_after_or_drowns_the_last_words_before_them() {
        let journal = journal();
        let mut follower = journal.follow(0);
        journal.extend(&TaskId::new("t"), &tool(), "a");
        journal.close_all(&TaskId::new("t"));
        journal.append(&[finished(1)]);
        let second = LiveId::Tool(ToolCallId::new("c2"));
        journal.extend(&TaskId::new("t"), &second, "b");
        assert_eq!(follower.take(0, true).await.unwrap(), [], "the end of the first is not published");
        journal.publish(1);
        assert_eq!(next(&mut follower).await, ["0: a", "made", "0: b"]);
    }

    #[tokio::test(start_paused = true)]
    async fn of_a_request_that_has_left_the_end_is_kept_once_all_have_seen_it() {
        let journal = journal();
        let (mut one, mut other) = (journal.follow(0), journal.follow(0));
        journal.extend(&TaskId::new("t"), &tool(), &"a".repeat(3 * LEFT_OUTPUT));
        journal.close_all(&TaskId::new("t"));
        for seq in 1..=100 {
            journal.append(&[finished(seq)]);
            journal.publish(seq);
        }
        let kept = || {
            let inner = journal.lock();
            (inner.tail.len(), inner.live.iter().map(|it| it.text.len()).sum::<usize>())
        };
        assert_eq!(next(&mut one).await.len(), 101);
        journal.leave();
        assert_eq!(kept(), (100, 3 * LEFT_OUTPUT), "the other one has seen nothing yet");
        assert_eq!(next(&mut other).await.len(), 101);
        assert_eq!(kept(), (LEFT_TAIL, LEFT_OUTPUT));
        journal.reopen(100);
        journal.append(&[finished(101)]);
        drop((one, other));
        journal.publish(101);
        assert_eq!(kept().0, LEFT_TAIL + 1);
        let never_looks = journal.follow(101);
        journal.leave();
        assert_eq!(kept().0, LEFT_TAIL + 1);
        drop(never_looks);
        assert_eq!(kept().0, LEFT_TAIL);
    }

    #[tokio::test(start_paused = true)]
    async fn what_another_process_wrote_meanwhile_is_not_skipped() {
        let place = tempfile::tempdir().unwrap();
        let root = TaskId::new("t");
        let directory = WorkspaceDirectory::new(place.path(), Path::new("/work")).request(&root);
        let write = |from: u64, to: u64| {
            let mut log = match from {
                1 => RequestLog::create(directory.clone()).unwrap(),
                _ => RequestLog::open::<Event>(directory.clone()).unwrap().0,
            };
            log.append(&(from..=to).map(finished).collect::<Vec<_>>()).unwrap();
        };
        write(1, 2);
        let journal = Journal::new(root.clone(), directory.clone(), 0);
        journal.append(&[finished(1), finished(2)]);
        journal.publish(2);
        let mut follower = journal.follow(0);
        assert_eq!(next(&mut follower).await.len(), 2);
        write(3, 5);
        journal.reopen(5);
        journal.append(&[finished(6)]);
        journal.publish(6);
        let mut seen = Vec::new();
        while follower.position() < 5 {
            seen.extend(follower.next(|| 0).await.unwrap().iter().map(|params| params.seq));
        }
        assert_eq!(seen, [Some(3), Some(4), Some(5)]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_on_disk_before_it_was_published_is_not_skipped() {
        let place = tempfile::tempdir().unwrap();
        let root = TaskId::new("t");
        let directory = WorkspaceDirectory::new(place.path(), Path::new("/work")).request(&root);
        let mut log = RequestLog::create(directory.clone()).unwrap();
        let mut append = |from: u64, to: u64| {
            let records: Vec<_> = (from..=to).map(finished).collect();
            log.append(&records).unwrap();
            records
        };
        append(1, 2);
        let journal = Journal::new(root.clone(), directory.clone(), 2);
        let last = 5 + TAIL as u64;
        let unpublished = append(3, 4);
        let mut follower = journal.follow(0);
        assert_eq!(next(&mut follower).await.len(), 2);
        journal.append(&unpublished);
        journal.append(&append(5, last));
        journal.publish(last);
        let mut seen = Vec::new();
        while follower.position() < last {
            seen.extend(follower.next(|| 0).await.unwrap().iter().filter_map(|params| params.seq));
        }
        assert_eq!(seen, (3..=last).collect::<Vec<_>>());
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_problem_is_told_to_those_who_were_told_of_it_and_what_lasts_stays() {
        let journal = journal();
        let damaged = WireEvent::ServerDegraded { reason: "the log is damaged".into(), until: None };
        journal.warn(0, damaged.clone());
        let events = |batch: Vec<Arc<EventParams>>| -> Vec<WireEvent> {
            batch.iter().map(|params| params.event.clone()).collect()
        };
        let (mut told, mut slow) = (journal.follow(0), journal.follow(0));
        for follower in [&mut told, &mut slow] {
            assert_eq!(events(follower.next(|| 0).await.unwrap()), std::slice::from_ref(&damaged));
        }
        journal.degrade(0, "the disk is full".into());
        let full = WireEvent::ServerDegraded {
            reason: "the disk is full".into(),
            until: Some(DegradedUntil::Recovered),
        };
        assert_eq!(events(told.next(|| 0).await.unwrap()), [full]);
        assert_eq!(told.trouble().as_deref(), Some("the disk is full"));
        journal.report_recovered(0);
        assert_eq!(events(told.next(|| 0).await.unwrap()), [WireEvent::ServerRecovered]);
        assert_eq!(told.trouble(), None);
        journal.report_recovered(0);
        for follower in [&mut told, &mut slow] {
            assert_eq!(events(follower.take(0, true).await.unwrap()), []);
        }
        assert_eq!(events(journal.follow(0).take(0, true).await.unwrap()), [damaged]);
    }

    #[tokio::test(start_paused = true)]
    async fn every_follower_hears_of_text_that_another_one_took() {
        let journal = journal();
        let (mut one, mut other) = (journal.follow(0), journal.follow(0));
        for text in ["a", "b"] {
            journal.extend(&TaskId::new("t"), &tool(), text);
            assert_eq!(next(&mut one).await.len(), 1);
        }
        assert_eq!(next(&mut other).await, ["0: ab"]);
        let waits = tokio::spawn(async move { next(&mut other).await });
        tokio::time::sleep(COLLECT * 2).await;
        journal.extend(&TaskId::new("t"), &tool(), "c");
        assert_eq!(waits.await.unwrap(), ["2: c"]);
    }
}
