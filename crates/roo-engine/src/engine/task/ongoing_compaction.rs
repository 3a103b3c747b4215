//! A shortening of the conversation that is under way, and what comes of it.

use roo_protocol::context::ShorteningMethod;

/// A shortening that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// Way to shorten the conversation.
    pub method: ShorteningMethod,
    /// True if the user wants it.
    pub is_manual: bool,
    /// The place before which turns are replaced, as it was at the beginning: what is summarised is what is replaced. None
    /// where there is too little.
    pub cut: Option<usize>,
}

/// Result of a shortening's effect.
#[derive(Clone, Debug, PartialEq)]
pub enum CompactionOutcome {
    /// Nobody objects to placeholders or an outline.
    Agreed,
    /// The summary of a model.
    Summary(String),
    /// A hook keeps the conversation as it is.
    Refused(String),
    /// No summary came.
    Failed(String),
}
