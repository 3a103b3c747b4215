//! One message of a task, as Roo Code's `ClineMessage`.

use serde::Serialize;

use super::names::{Ask, Say};

/// `ask` or `say`, with its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(crate) enum MessageKind {
    Ask { ask: Ask },
    Say { say: Say },
}

impl From<Ask> for MessageKind {
    fn from(ask: Ask) -> Self {
        Self::Ask { ask }
    }
}

impl From<Say> for MessageKind {
    fn from(say: Say) -> Self {
        Self::Say { say }
    }
}

/// A message. Another one of the same task with the same `ts` replaces it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClineMessage {
    /// Time in milliseconds since the Unix epoch, by which the message is known within its task.
    pub(crate) ts: i64,
    #[serde(flatten)]
    pub(crate) kind: MessageKind,
    /// Text, or the JSON that Roo Code has for this kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
    /// Images as data URLs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) images: Vec<String>,
    /// True while the text is being written; absent where it never is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) partial: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) checkpoint: Option<Checkpoint>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) context_condense: Option<ContextCondense>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) context_truncation: Option<ContextTruncation>,
    /// True once a question has its answer.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_answered: bool,
}

impl ClineMessage {
    pub(super) fn new(ts: i64, kind: impl Into<MessageKind>, text: Option<String>) -> Self {
        Self {
            ts,
            kind: kind.into(),
            text,
            images: vec![],
            partial: None,
            checkpoint: None,
            context_condense: None,
            context_truncation: None,
            is_answered: false,
        }
    }
}

/// What a checkpoint is known by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Checkpoint {
    /// The digest of what is kept.
    pub(crate) to: String,
}

/// Earlier turns were replaced by a summary.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ContextCondense {
    /// In US dollars.
    pub(crate) cost: f64,
    pub(crate) prev_context_tokens: u64,
    pub(crate) new_context_tokens: u64,
    pub(crate) summary: String,
}

/// Parts of earlier turns were left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ContextTruncation {
    pub(crate) truncation_id: String,
    /// Number of results and arguments that were left out.
    pub(crate) messages_removed: usize,
    pub(crate) prev_context_tokens: u64,
    pub(crate) new_context_tokens: u64,
}
