//! The stream of requests: for each its log, as the worker wrote it; its events, for those who follow it; and its result.
//!
//! A worker claims a request by a message in its log, and each message of the log has to follow the one that the worker knows
//! as the newest. So a worker that was taken for dead can add nothing once another one has claimed the request, and what a new
//! worker reads is all that there will be of the earlier one. A result is the first message of its subject or none.

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::pull::{Ordered, OrderedConfig};
use futures_util::StreamExt as _;
use roo_protocol::ids::{Digest, TaskId};
use uuid::Uuid;

use super::error::NatsError;
use super::storage::{Published, Storage, text};

/// Offset of the bytes of a message within the log.
const OFFSET: &str = "Roo-Offset";
/// The number of the newest record in it, or of an event.
const SEQ: &str = "Roo-Seq";
/// The file that holds what the request has changed by then.
const TREE: &str = "Roo-Tree";
/// Payloads beside the log that came with the records, by their digests.
const PAYLOADS: &str = "Roo-Payloads";
/// The worker that claims the request.
const CLAIM: &str = "Roo-Claim";

/// Part of a request's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogMessage {
    /// Offset of the bytes within the log. What is there already from there on is replaced.
    pub(crate) offset: u64,
    pub(crate) bytes: Vec<u8>,
    /// The state behind them; none where the next message goes on with the same records.
    pub(crate) state: Option<LogState>,
}

/// State of a request behind a part of its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogState {
    /// The number of the newest record.
    pub(crate) seq: u64,
    /// Name of the file with what the request has changed in its checkout by then; none for nothing.
    pub(crate) tree: Option<String>,
    /// Payloads that are new with this part.
    pub(crate) payloads: Vec<Digest>,
}

/// The right to go on with a request, until another worker claims it.
pub(crate) struct Claim {
    storage: Storage,
    subject: String,
    id: String,
    /// The newest message of the log.
    last: u64,
    /// Number of messages under this claim.
    count: u64,
}

/// What became of a part of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Appended {
    Kept,
    /// Another worker has claimed the request.
    Lost,
}

/// What those who follow a request are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestEvent {
    /// An event, as JSON.
    Event(Vec<u8>),
    /// Its result, as JSON. Nothing follows.
    Result(Vec<u8>),
}

/// The events and the result of a request, from the first on.
pub(crate) struct RequestFeed {
    storage: Storage,
    subject: String,
    results: String,
    messages: Option<Ordered>,
    /// The newest message that was read.
    last: u64,
    /// Number of messages that the server had behind it.
    pending: u64,
}

impl Storage {
    /// Claims a request for a worker, and returns what is known of its log.
    ///
    /// # Errors
    /// [`NatsError`].
    pub(crate) async fn claim(
        &self,
        request: &TaskId,
        worker: &str,
    ) -> Result<(Claim, Vec<LogMessage>), NatsError> {
        let subject = self.prefix().log(request);
        let id = Uuid::new_v4().simple().to_string();
        let mut headers = HeaderMap::new();
        headers.insert(CLAIM, worker);
        let last = loop {
            let last = self.newest(&subject).await.map_or(0, |newest| newest.sequence);
            // Another worker may add something between the two.
            if let Published::At(own) = self.publish_behind(&subject, Some(last), &id, &headers, &[]).await? {
                break own;
            }
        };
        let log = self.read_log(&subject, last).await;
        Ok((Claim { storage: self.clone(), subject, id, last, count: 0 }, log))
    }

    /// The log up to a message that is there.
    async fn read_log(&self, subject: &str, last: u64) -> Vec<LogMessage> {
        let mut feed = RequestFeed::new(self, subject.to_owned(), String::new());
        let mut log = Vec::new();
        while feed.last < last {
            let message = feed.message().await;
            let number = |name| text(&message.headers, name).and_then(|text| text.parse().ok());
            let Some(offset) = number(OFFSET) else { continue };
            let state = number(SEQ).map(|seq| LogState {
                seq,
                tree: text(&message.headers, TREE).map(str::to_owned),
                payloads: text(&message.headers, PAYLOADS)
                    .map_or(vec![], |all| all.split(',').filter_map(Digest::parse).collect()),
            });
            log.push(LogMessage { offset, bytes: message.payload, state });
        }
        log
    }

    /// Has those who follow a request told. An event that is told twice within two minutes is kept once.
    ///
    /// # Errors
    /// [`NatsError::TooLarge`].
    pub(crate) async fn publish_event(
        &self,
        request: &TaskId,
        seq: u64,
        event: &[u8],
    ) -> Result<(), NatsError> {
        let mut headers = HeaderMap::new();
        headers.insert(SEQ, seq.to_string());
        let (subject, id) = (self.prefix().events(request), format!("{request}.{seq}"));
        self.publish_behind(&subject, None, &id, &headers, event).await.map(drop)
    }

    /// The number of the newest event that was told; 0 before the first.
    pub(crate) async fn newest_event(&self, request: &TaskId) -> u64 {
        let newest = self.newest(&self.prefix().events(request)).await;
        newest.and_then(|newest| text(&newest.headers, SEQ)?.parse().ok()).unwrap_or_default()
    }

    /// Keeps the result of a request, unless it has one.
    ///
    /// # Errors
    /// [`NatsError::TooLarge`].
    pub(crate) async fn publish_result(&self, request: &TaskId, result: &[u8]) -> Result<(), NatsError> {
        let (subject, id) = (self.prefix().result(request), format!("{request}.result"));
        self.publish_behind(&subject, Some(0), &id, &HeaderMap::new(), result).await.map(drop)
    }

    /// Returns whether a request has its result.
    pub(crate) async fn has_result(&self, request: &TaskId) -> bool {
        self.newest(&self.prefix().result(request)).await.is_some()
    }

    /// Follows a request from its first event on, whether it has begun or not.
    pub(crate) fn follow(&self, request: &TaskId) -> RequestFeed {
        RequestFeed::new(self, self.prefix().request(request), self.prefix().result(request))
    }
}

impl Claim {
    /// Adds to the log. Returns when it is kept, or when the request is another worker's.
    ///
    /// # Errors
    /// [`NatsError::TooLarge`].
    pub(crate) async fn append(&mut self, message: &LogMessage) -> Result<Appended, NatsError> {
        let mut headers = HeaderMap::new();
        headers.insert(OFFSET, message.offset.to_string());
        if let Some(LogState { seq, tree, payloads }) = &message.state {
            headers.insert(SEQ, seq.to_string());
            if let Some(tree) = tree {
                headers.insert(TREE, tree.as_str());
            }
            let payloads: Vec<String> = payloads.iter().map(Digest::hex).collect();
            if !payloads.is_empty() {
                headers.insert(PAYLOADS, payloads.join(","));
            }
        }
        self.count += 1;
        let id = format!("{}.{}", self.id, self.count);
        let published = self
            .storage
            .publish_behind(&self.subject, Some(self.last), &id, &headers, &message.bytes)
            .await?;
        match published {
            Published::At(sequence) => {
                self.last = sequence;
                Ok(Appended::Kept)
            }
            Published::Refused => Ok(Appended::Lost),
        }
    }
}

/// A message of the stream.
struct StoredMessage {
    subject: String,
    headers: HeaderMap,
    payload: Vec<u8>,
}

impl RequestFeed {
    fn new(storage: &Storage, subject: String, results: String) -> Self {
        Self { storage: storage.clone(), subject, results, messages: None, last: 0, pending: 0 }
    }

    /// Waits for what comes next. While the server is away, it waits for the server.
    pub(crate) async fn next(&mut self) -> RequestEvent {
        let message = self.message().await;
        match message.subject == self.results {
            true => RequestEvent::Result(message.payload),
            false => RequestEvent::Event(message.payload),
        }
    }

    /// Returns whether nothing more was there when the newest one was sent.
    pub(crate) fn is_caught_up(&self) -> bool {
        self.pending == 0
    }

    async fn message(&mut self) -> StoredMessage {
        let mut attempt = 0;
        loop {
            let connection = self.storage.connection().clone();
            let read = tokio::select! {
                read = self.read() => read,
                // The consumer may be lost with it, and is noticed late.
                () = connection.lost() => Err("the connection is lost".to_owned()),
            };
            let error = match read {
                Ok(message) => return message,
                Err(error) => error,
            };
            self.messages = None;
            self.storage.try_again("read a stream", &error, &mut attempt).await;
        }
    }

    async fn read(&mut self) -> Result<StoredMessage, String> {
        loop {
            let messages = match &mut self.messages {
                Some(messages) => messages,
                none => {
                    let config = OrderedConfig {
                        filter_subject: self.subject.clone(),
                        deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: self.last + 1 },
                        ..OrderedConfig::default()
                    };
                    let consumer = self.storage.request_stream().create_consumer(config).await;
                    let consumer = consumer.map_err(|error| error.to_string())?;
                    none.insert(consumer.messages().await.map_err(|error| error.to_string())?)
                }
            };
            let message = messages.next().await.ok_or("it has ended")?.map_err(|error| error.to_string())?;
            let info = message.info().map_err(|error| error.to_string())?;
            // What was read before a connection was lost may come again.
            if info.stream_sequence <= self.last {
                continue;
            }
            (self.last, self.pending) = (info.stream_sequence, info.pending);
            return Ok(StoredMessage {
                subject: message.subject.to_string(),
                headers: message.headers.clone().unwrap_or_default(),
                payload: message.payload.to_vec(),
            });
        }
    }
}
