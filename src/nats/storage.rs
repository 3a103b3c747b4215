//! What is kept in JetStream: the stream of work, the stream of requests, and a bucket of files. Where they are missing they are
//! made; an administrator who wants other limits or several replicas makes them before.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::context::{Context, PublishErrorKind};
use async_nats::jetstream::message::{PublishMessage, StreamMessage};
use async_nats::jetstream::object_store::{Config as BucketConfig, ObjectStore};
use async_nats::jetstream::stream::{Config, LastRawMessageErrorKind, RetentionPolicy, Stream};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};

use super::connection::Connection;
use super::error::NatsError;
use super::names::Prefix;

/// Time for which requests and files are kept.
const KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Header by which the server tells a message from its repetition.
const MESSAGE_ID: &str = "Nats-Msg-Id";

/// Streams and files. Clones share them.
#[derive(Clone)]
pub(crate) struct Storage {
    connection: Connection,
    context: Context,
    work: Stream,
    requests: Stream,
    files: ObjectStore,
}

/// What became of a message that had to follow another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Published {
    /// It is kept under this number, now or since an earlier attempt.
    At(u64),
    /// Somebody else's message is there.
    Refused,
}

impl Storage {
    /// Opens the storage below the connection's prefix.
    ///
    /// # Errors
    /// [`NatsError::Failed`], also for a server without JetStream.
    pub(crate) async fn open(connection: &Connection) -> Result<Self, NatsError> {
        let context = async_nats::jetstream::new(connection.client().clone());
        let prefix = connection.prefix();
        let (name, subjects) = prefix.work_stream();
        let work = Config { name, subjects, retention: RetentionPolicy::WorkQueue, ..Config::default() };
        let work = context.get_or_create_stream(work).await;
        let work = work.map_err(NatsError::failed("open the stream of work (is JetStream on?)"))?;
        let (name, subjects) = prefix.request_stream();
        let requests = Config { name, subjects, max_age: KEPT, ..Config::default() };
        let requests = context.get_or_create_stream(requests).await;
        let requests = requests.map_err(NatsError::failed("open the stream of requests"))?;
        let bucket = prefix.bucket();
        let files = match context.get_object_store(&bucket).await {
            Ok(files) => files,
            Err(_) => {
                let config = BucketConfig { bucket, max_age: KEPT, ..BucketConfig::default() };
                let made = context.create_object_store(config).await;
                made.map_err(NatsError::failed("open the bucket of files"))?
            }
        };
        Ok(Self { connection: connection.clone(), context, work, requests, files })
    }

    /// The connection that it is reached by.
    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(super) fn prefix(&self) -> &Prefix {
        self.connection.prefix()
    }

    pub(super) fn work_stream(&self) -> &Stream {
        &self.work
    }

    pub(super) fn request_stream(&self) -> &Stream {
        &self.requests
    }

    /// The newest message of a subject of requests.
    pub(super) async fn newest(&self, subject: &str) -> Option<StreamMessage> {
        let mut attempt = 0;
        loop {
            match self.requests.get_last_raw_message_by_subject(subject).await {
                Ok(message) => return Some(message),
                Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => return None,
                Err(error) => self.try_again("read a stream", &error, &mut attempt).await,
            }
        }
    }

    /// Publishes a message behind the one that is the newest of its subject; 0 for the first one. Where the server doesn't
    /// answer, it is sent again until it does, and kept once. `id`: tells it from all others of the subject.
    ///
    /// # Errors
    /// [`NatsError::TooLarge`].
    pub(super) async fn publish_behind(
        &self,
        subject: &str,
        last: Option<u64>,
        id: &str,
        headers: &HeaderMap,
        payload: &[u8],
    ) -> Result<Published, NatsError> {
        let mut attempt = 0;
        loop {
            let mut message = PublishMessage::build().headers(headers.clone()).message_id(id);
            if let Some(last) = last {
                message = message.expected_last_subject_sequence(last);
            }
            let message = message.payload(payload.to_vec().into());
            let sent = async { self.context.send_publish(subject.to_owned(), message).await?.await };
            let error = match sent.await {
                Ok(ack) => return Ok(Published::At(ack.sequence)),
                Err(error) => error,
            };
            match error.kind() {
                PublishErrorKind::WrongLastSequence => {
                    // It may be there since an attempt whose answer was lost.
                    let newest = self.newest(subject).await;
                    let own = newest.filter(|newest| text(&newest.headers, MESSAGE_ID) == Some(id));
                    return Ok(own.map_or(Published::Refused, |own| Published::At(own.sequence)));
                }
                PublishErrorKind::MaxPayloadExceeded => {
                    let limit = self.connection.largest_message() as u64;
                    let size = payload.len() as u64;
                    return Err(NatsError::TooLarge { what: "a message of this NATS server", size, limit });
                }
                _ => self.try_again("keep a message", &error, &mut attempt).await,
            }
        }
    }

    /// Keeps a file under a name, in place of an earlier one.
    ///
    /// # Errors
    /// [`NatsError::Failed`].
    pub(crate) async fn put(&self, name: &str, mut content: impl AsyncRead + Unpin) -> Result<(), NatsError> {
        let put = self.files.put(name, &mut content).await;
        put.map(drop).map_err(NatsError::failed("keep a file"))
    }

    /// The same for bytes; tried until it is done.
    pub(crate) async fn keep(&self, name: &str, bytes: &[u8]) {
        let mut attempt = 0;
        loop {
            match self.files.put(name, &mut &*bytes).await {
                Ok(_) => return,
                Err(error) => self.try_again("keep a file", &error, &mut attempt).await,
            }
        }
    }

    /// The bytes of a file of at most `limit` bytes.
    ///
    /// # Errors
    /// [`NatsError::TooLarge`], or [`NatsError::Failed`], also where there is none.
    pub(crate) async fn file(&self, name: &str, limit: u64) -> Result<Vec<u8>, NatsError> {
        let mut bytes = Vec::new();
        self.copy_file(name, limit, &mut bytes).await?;
        Ok(bytes)
    }

    /// Copies a file of at most `limit` bytes.
    ///
    /// # Errors
    /// [`NatsError::TooLarge`], or [`NatsError::Failed`], also where there is none or it can't be written.
    pub(crate) async fn copy_file(
        &self,
        name: &str,
        limit: u64,
        to: &mut (impl AsyncWrite + Unpin),
    ) -> Result<(), NatsError> {
        let file = self.files.get(name).await.map_err(NatsError::failed("get a file"))?;
        let size = file.info().size as u64;
        if size > limit {
            return Err(NatsError::TooLarge { what: "a file", size, limit });
        }
        // What is told of it need not be true.
        let copied = tokio::io::copy(&mut file.take(limit), to).await;
        let copied = copied.map_err(NatsError::failed("get a file"))?;
        if copied != size {
            let reason = format!("{copied} of its {size} bytes came");
            return Err(NatsError::Failed { doing: "get a file", reason });
        }
        Ok(())
    }

    /// Removes a file that nobody needs any more.
    pub(crate) async fn forget(&self, name: &str) {
        // It is removed by its age otherwise.
        if let Err(error) = self.files.delete(name).await {
            tracing::debug!("a file was not removed from NATS: {error}");
        }
    }

    /// Tells why something failed, and waits until it can be tried again.
    pub(super) async fn try_again(
        &self,
        doing: &'static str,
        error: &impl std::fmt::Display,
        attempt: &mut usize,
    ) {
        tracing::warn!("NATS can't {doing}: {error}; it is tried again");
        self.connection.pause(*attempt).await;
        *attempt += 1;
    }
}

/// The text of a header.
pub(super) fn text<'h>(headers: &'h HeaderMap, name: &'static str) -> Option<&'h str> {
    headers.get(name).map(|value| value.as_str())
}
