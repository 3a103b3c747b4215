//! The work queue: each piece of work is given to one worker, and to another one if that one neither finishes it nor says in time
//! that it is still at it.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::pull::Config;
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer};
use async_nats::jetstream::{AckKind, Message};
use futures_util::StreamExt as _;
use roo_protocol::ids::TaskId;

use super::error::NatsError;
use super::names::QueueName;
use super::storage::{Storage, text};

/// Time for which one question for work is open.
const OPEN: Duration = Duration::from_secs(30);
/// Header with the id of the request that the work is.
const MESSAGE_ID: &str = "Nats-Msg-Id";

/// A queue, for a worker.
pub(crate) struct WorkQueue {
    storage: Storage,
    consumer: PullConsumer,
}

/// Work that this worker has for now.
pub(crate) struct WorkItem(Message);

impl Storage {
    /// Puts work into a queue, once, whatever the server answers.
    ///
    /// # Errors
    /// [`NatsError::TooLarge`].
    pub(crate) async fn submit(
        &self,
        queue: &QueueName,
        request: &TaskId,
        submission: &[u8],
    ) -> Result<(), NatsError> {
        let subject = self.prefix().work(queue);
        self.publish_behind(&subject, None, request.as_str(), &HeaderMap::new(), submission).await.map(drop)
    }

    /// Opens a queue. `patience`: time after which work of which nothing is heard is given to another worker.
    ///
    /// # Errors
    /// [`NatsError::Failed`].
    pub(crate) async fn work_queue(
        &self,
        queue: &QueueName,
        patience: Duration,
    ) -> Result<WorkQueue, NatsError> {
        let config = Config {
            durable_name: Some(format!("workers-{queue}")),
            ack_policy: AckPolicy::Explicit,
            ack_wait: patience,
            filter_subject: self.prefix().work(queue),
            ..Config::default()
        };
        let consumer = self.work_stream().create_consumer(config).await;
        let consumer = consumer.map_err(NatsError::failed("open the work queue"))?;
        Ok(WorkQueue { storage: self.clone(), consumer })
    }
}

impl WorkQueue {
    /// Waits for work. While the server is away, it waits for the server.
    pub(crate) async fn next(&self) -> WorkItem {
        let mut attempt = 0;
        loop {
            let asked = tokio::select! {
                asked = self.ask() => asked,
                // The question is lost with it.
                () = self.storage.connection().lost() => Ok(None),
            };
            match asked {
                Ok(Some(item)) => return item,
                Ok(None) => {
                    attempt = 0;
                    self.storage.connection().pause(attempt).await;
                }
                Err(error) => self.storage.try_again("ask for work", &error, &mut attempt).await,
            }
        }
    }

    /// Asks once; none where there was no work.
    async fn ask(&self) -> Result<Option<WorkItem>, async_nats::Error> {
        let mut messages = self.consumer.batch().max_messages(1).expires(OPEN).messages().await?;
        messages.next().await.transpose().map(|message| message.map(WorkItem))
    }
}

impl WorkItem {
    /// What was submitted.
    pub(crate) fn submission(&self) -> &[u8] {
        &self.0.payload
    }

    /// Id of the request, as whoever submitted it said.
    pub(crate) fn request(&self) -> Option<TaskId> {
        let id = text(self.0.headers.as_ref()?, MESSAGE_ID)?;
        uuid::Uuid::try_parse(id).ok().map(|id| TaskId::new(id.to_string()))
    }

    /// Number of times that it was given to a worker, this one included.
    pub(crate) fn deliveries(&self) -> u64 {
        self.0.info().map_or(1, |info| u64::try_from(info.delivered).unwrap_or(1))
    }

    /// Says that this worker is still at it.
    pub(crate) async fn keep(&self) {
        self.acknowledge(AckKind::Progress).await;
    }

    /// Lets another worker have it, at once or later.
    pub(crate) async fn give_back(&self, later: Option<Duration>) {
        self.acknowledge(AckKind::Nak(later)).await;
    }

    /// It is done, and its result is kept.
    pub(crate) async fn finish(&self) {
        // If this is lost it comes once more, to a worker that finds the result.
        if let Err(error) = self.0.double_ack().await {
            tracing::warn!("NATS can't take finished work from the queue: {error}");
        }
    }

    async fn acknowledge(&self, kind: AckKind) {
        if let Err(error) = self.0.ack_with(kind).await {
            tracing::warn!("NATS can't be told about work: {error}");
        }
    }
}
