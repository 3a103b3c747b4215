//! Models: one trait, one file per wire format, and the scripted model that needs neither key nor
//! network. Which providers there are is a table in `roo_formats::config`.
//!
//! A provider turns a neutral [`ModelRequest`] into bytes and a response's bytes into
//! [`StreamEvent`]s. It knows nothing of tasks, and it never retries: whether a failed request is
//! made again is the engine's decision, from [`ModelError`].

mod account;
mod anthropic;
mod claude;
mod connect;
mod conversation;
mod embeddings;
mod event_fields;
mod fault;
mod gemini;
mod http;
mod http_format;
mod http_model;
mod image_generation;
mod key;
mod key_store;
mod listed;
mod offered;
mod openai;
mod probe;
mod rendering;
mod repeated_event;
mod responses;
mod scripted;
mod secret;
mod source;

pub use account::AccountId;
pub use connect::{KeyState, check_key, connect, key_state, list_models};
pub use embeddings::Embeddings;
pub use image_generation::{ImageModel, ImageRequest};
pub use key_store::{KeyStore, StoreKeyError};
pub use listed::ListedModel;
pub use offered::{known_models, offered_models};
pub use probe::{Probe, probe};
pub use rendering::Rendered;
pub use scripted::{Script, Scripted};
pub use secret::is_usable as is_usable_key;
pub use source::{ConfiguredModels, ModelSource};

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

/// One item of a conversation, independent of wire format and tool protocol. An item doesn't change
/// once it is there, until its results become stubs, so that the requests of a task share their beginnings
/// byte for byte and a provider's prompt cache works.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum Item {
    /// Message of the user, or of the server on the user's side.
    User {
        text: String,
        /// Images as data URLs.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<String>,
    },
    /// One answer of the model.
    Assistant {
        /// Its blocks in order.
        blocks: Vec<AssistantBlock>,
        /// The tail of the request that it answers, where it stays in the conversation; see [`Model::keeps_tails`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tail: Option<Box<str>>,
    },
    /// The results of the calls of the answer before, in call order.
    Results {
        /// Exactly one for each call.
        results: Vec<ToolResult>,
    },
    /// A message of the server in place of earlier turns.
    Summary {
        /// The whole message.
        text: String,
        /// What was made of the turns: a summary of a model, or a list of the calls.
        summary: String,
        /// What is kept of them word for word, each with where it is from.
        kept: Vec<String>,
        /// Images in the user's answers among them, as data URLs.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<String>,
        /// Number of the model's answers that it stands for.
        answers: usize,
    },
}

/// The items of a conversation, oldest first, shared between its task and its requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Items(Arc<Vec<Arc<Item>>>);

impl Items {
    /// The items in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Item> + ExactSizeIterator + Clone {
        self.0.iter().map(|item| &**item)
    }

    /// The items in order, shared.
    pub fn shared(&self) -> &[Arc<Item>] {
        &self.0
    }

    /// One of the items.
    pub fn get(&self, index: usize) -> Option<&Item> {
        self.0.get(index).map(|item| &**item)
    }

    /// The newest item.
    pub fn last(&self) -> Option<&Item> {
        self.0.last().map(|item| &**item)
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends an item.
    pub fn push(&mut self, item: Item) {
        Arc::make_mut(&mut self.0).push(Arc::new(item));
    }

    /// Removes an item; none where there is none.
    pub fn remove(&mut self, index: usize) -> Option<Arc<Item>> {
        (index < self.0.len()).then(|| Arc::make_mut(&mut self.0).remove(index))
    }

    /// Puts items in place of the first ones, up to this index.
    pub fn replace_first(&mut self, count: usize, items: Vec<Arc<Item>>) {
        let count = count.min(self.0.len());
        Arc::make_mut(&mut self.0).splice(..count, items);
    }

    /// Puts another item in place of one. Nothing happens where there is none.
    pub fn replace(&mut self, index: usize, item: Item) {
        if let Some(place) = Arc::make_mut(&mut self.0).get_mut(index) {
            *place = Arc::new(item);
        }
    }
}

impl From<Vec<Item>> for Items {
    fn from(items: Vec<Item>) -> Self {
        Self(Arc::new(items.into_iter().map(Arc::new).collect()))
    }
}

/// One block of a model's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum AssistantBlock {
    /// Visible text.
    Text { text: String },
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
    Call { call: ToolCall },
}

/// The one result of a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
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
    pub items: Items,
    /// The part that was rendered for earlier requests.
    pub rendered: Rendered,
    /// A last part that changes with every request (environment details). Not part of the
    /// conversation: it is sent as the last text of the last user message and forgotten, except by models that keep it.
    pub tail: Option<String>,
    /// The tools of the mode, in the order of the table, then those of servers. Sent only in the native protocol.
    pub tools: Arc<[OfferedTool]>,
    /// Protocol in which tools are called.
    pub protocol: ToolProtocol,
    /// The mode, for the scripted model.
    pub mode: String,
    /// The most tokens of the answer, where that is less than the profile's limit.
    pub max_tokens: Option<u64>,
    /// True if the model takes no images: a note stands in place of each.
    pub leaves_out_images: bool,
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
    /// Kind of failure.
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
    /// Nothing listens at this address of this machine: its user has to start a server, so waiting for long is of no use.
    NotRunning,
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

    /// Returns whether the endpoint refused a request with words about its images. Perhaps it would take others.
    pub fn speaks_of_images(&self) -> bool {
        self.refuses_all_images()
            || self.kind == ModelErrorKind::Invalid && http::speaks_of_images(&self.message)
    }

    /// Returns whether the endpoint refused a request as its model takes no images at all.
    pub fn refuses_all_images(&self) -> bool {
        match self.kind {
            ModelErrorKind::Invalid => http::refuses_all_images(&self.message),
            // llama.cpp says so with status 500.
            ModelErrorKind::Unavailable(_) => http::has_no_image_input(&self.message),
            _ => false,
        }
    }

    /// Returns the window of the model, in tokens, where the endpoint names it as it refuses a conversation as too long.
    pub fn stated_window(&self) -> Option<u64> {
        (self.kind == ModelErrorKind::ContextWindow).then(|| http::stated_window(&self.message)).flatten()
    }
}

impl ModelErrorKind {
    /// Returns whether making the same request again may help.
    pub fn is_retryable(self) -> bool {
        !matches!(self, Self::Configuration | Self::Unauthorized | Self::Invalid | Self::ContextWindow)
    }

    /// Returns whether the endpoint is down, busy or out of reach. That can take minutes.
    pub fn is_outage(self) -> bool {
        matches!(self, Self::RateLimited(_) | Self::Unavailable(_) | Self::Unreachable)
    }

    /// Returns the time that the endpoint asked to wait.
    pub fn retry_after(self) -> Option<Duration> {
        match self {
            Self::RateLimited(wait) | Self::Unavailable(wait) => wait,
            _ => None,
        }
    }
}

/// The mode of a request for a summary, for the scripted model: only turns that name it are played.
pub const SUMMARY_MODE: &str = "condense";

/// The mode of a request of an MCP server, likewise.
pub const SAMPLING_MODE: &str = "sampling";

/// A model that can be asked.
pub trait Model: Send + Sync {
    /// Provider and model, such as `anthropic/claude-sonnet-4-5`: what thinking blocks are bound to.
    fn origin(&self) -> &str;

    /// The account whose limits its requests share with those of other models.
    fn account(&self) -> AccountId;

    /// Returns whether the tail of a request stays where it was sent in the requests that follow. The model gets it again
    /// and again then, but finds the conversation unchanged.
    fn keeps_tails(&self) -> bool {
        false
    }

    /// Makes one request. The stream ends after [`Output::Finished`] or an error; dropping it closes
    /// the connection at once.
    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<Output, ModelError>>;
}
