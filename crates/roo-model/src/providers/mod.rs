//! Models: one trait, one file per wire format, and the scripted model that needs neither key nor
//! network. Which providers there are is a table in `roo_formats::config`.
//!
//! A provider turns a neutral [`ModelRequest`] into bytes and a response's bytes into
//! [`StreamEvent`]s. It knows nothing of tasks, and it never retries: whether a failed request is
//! made again is the engine's decision, from [`ModelError`].

mod anthropic;
mod connect;
mod conversation;
mod gemini;
mod http;
mod http_format;
mod key;
mod key_store;
mod listed;
mod openai;
mod probe;
mod responses;
mod scripted;

pub use connect::{check_key, connect, has_key, list_models};
pub use key_store::{KeyStore, StoreKeyError};
pub use listed::{ListedModel, known_models, offered_models};
pub use probe::{Probe, probe};
pub use scripted::{Script, Scripted};

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::parser::StreamEvent;
use roo_catalog::{OfferedTool, ToolCall, ToolProtocol};
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::ToolCallId;
use roo_protocol::task::Usage;

/// One item of a conversation, independent of wire format and tool protocol. An item never changes
/// once it is there, so that the requests of a task share their beginnings byte for byte and a
/// provider's prompt cache works.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum Item {
    /// Message of the user, or of the server on the user's side.
    User {
        /// Text.
        text: String,
        /// Images as data URLs.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<String>,
    },
    /// One answer of the model.
    Assistant {
        /// Its blocks in order.
        blocks: Vec<AssistantBlock>,
    },
    /// The results of the calls of the answer before, in call order.
    Results {
        /// Exactly one for each call.
        results: Vec<ToolResult>,
    },
}

/// One block of a model's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum AssistantBlock {
    /// Visible text.
    Text {
        /// The text.
        text: String,
    },
    /// Thinking, to be sent back unchanged to the provider that made it.
    Thinking {
        /// Text that may be shown.
        text: String,
        /// The provider's own block.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opaque: Option<Value>,
        /// The profile's provider and model that made it; another one can't read it.
        origin: String,
    },
    /// A tool call.
    Call {
        /// The call.
        call: ToolCall,
    },
}

/// The one result of a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// The call.
    pub call_id: ToolCallId,
    /// Its name as sent, for wire formats and the XML protocol's header.
    pub name: String,
    /// Object of the call, for the XML protocol's header.
    pub subject: String,
    /// Status at its end.
    pub status: ToolStatus,
    /// For the model.
    pub text: String,
    /// Images as data URLs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
}

/// One request to a model.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// The system prompt.
    pub system: Arc<str>,
    /// The conversation.
    pub items: Arc<Vec<Item>>,
    /// A last part that changes with every request (environment details). Not part of the
    /// conversation: it is sent as the last text of the last user message and forgotten.
    pub tail: Option<String>,
    /// The tools of the mode, in the order of the table, then those of servers. Sent only in the native protocol.
    pub tools: Arc<[OfferedTool]>,
    /// Protocol in which tools are called.
    pub protocol: ToolProtocol,
    /// The mode, for the scripted model.
    pub mode: String,
}

/// Items of a model's stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// A piece of the answer.
    Event(StreamEvent),
    /// Usage: the newest figures of this request, replacing earlier ones.
    Usage(Usage),
    /// The answer is complete. A stream that ends without it was cut.
    Finished(Finish),
}

/// Reasons why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Finish {
    /// The model was done, or made its calls.
    Done,
    /// The output limit was reached; the last block is incomplete.
    Length,
    /// The provider refused to go on.
    Refused,
}

/// Reasons why a request failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// Which kind of failure.
    pub kind: ModelErrorKind,
    /// Description of what failed, on what endpoint, and what to do.
    pub message: String,
}

/// Kinds of failure, by what can be done about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelErrorKind {
    /// The settings lack something: a key, a model, a base URL. Never retried.
    Configuration,
    /// The key is refused. Never retried.
    Unauthorized,
    /// The endpoint refuses this request. Never retried.
    Invalid,
    /// The conversation is too long for the model.
    ContextWindow,
    /// Too many requests; the endpoint may say how long to wait.
    RateLimited(Option<Duration>),
    /// The endpoint is overloaded or broken; it may say how long to wait.
    Unavailable(Option<Duration>),
    /// No connection.
    Unreachable,
    /// No first byte, or none for too long.
    TimedOut,
    /// The stream ended before the answer did.
    Cut,
    /// The stream can't be understood.
    Malformed,
}

impl ModelError {
    pub(crate) fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

impl ModelErrorKind {
    /// Returns whether making the same request again may help.
    pub fn is_retryable(self) -> bool {
        !matches!(self, Self::Configuration | Self::Unauthorized | Self::Invalid | Self::ContextWindow)
    }

    /// Returns the time that the endpoint asked to wait.
    pub fn retry_after(self) -> Option<Duration> {
        match self {
            Self::RateLimited(wait) | Self::Unavailable(wait) => wait,
            _ => None,
        }
    }
}

/// A model that can be asked.
pub trait Model: Send + Sync {
    /// Provider and model, such as `anthropic/claude-sonnet-4-5`: what thinking blocks are bound to.
    fn origin(&self) -> &str;

    /// Makes one request. The stream ends after [`Output::Finished`] or an error; dropping it closes
    /// the connection at once.
    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<Output, ModelError>>;
}
