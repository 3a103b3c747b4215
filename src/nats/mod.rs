//! NATS: the connection of the bridge, of workers and of those who submit work, and what they keep in JetStream.
//!
//! The one module that names the NATS client. It knows subjects, streams and delivery, and nothing of what the messages say:
//! that is up to `bridge` and `worker`.

mod connection;
mod error;
mod names;
mod request_stream;
mod storage;
mod work_queue;

/// Filter of the client's log lines: those below are messages of servers.
pub(crate) const LOG_DIRECTIVE: &str = "async_nats=warn";

pub(crate) use self::connection::{Connection, IncomingMessage, Server, ServerAddress, Subscription};
pub(crate) use self::error::NatsError;
pub(crate) use self::names::{Prefix, QueueName};
pub(crate) use self::request_stream::{Appended, Claim, LogMessage, LogState, RequestEvent};
pub(crate) use self::storage::Storage;
pub(crate) use self::work_queue::WorkItem;
