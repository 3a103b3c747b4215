//! From a model's stream to closed blocks: text, thinking and tool calls.
//!
//! Everything here is pure, incremental and linear: each byte is looked at a constant number of
//! times, any chunking of the same bytes gives the same blocks, and nothing ever fails. A call that
//! can't be read becomes a [`Block::Call`] with a problem. Whether a call makes sense is decided by
//! [`roo_catalog::parse`]; what bytes a provider sends is decoded in [`crate::providers`].

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod growing;
mod json_call;
mod lexer;
mod native;
mod sse;
mod stream;
mod tags;
#[cfg(test)]
mod tests;
mod unknown_call;

use std::sync::Arc;

use serde_json::{Map, Value};

pub use json_call::json_calls;
pub use sse::{Oversized, SseEvent, SseReader};
pub use stream::StreamParser;
pub use unknown_call::unknown_call;

/// One piece of a model's stream, whatever the wire format was.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    /// Visible text.
    Text(String),
    /// Thinking that may be shown.
    Thinking(String),
    /// The end of a thinking block, with the provider's own block to be sent back unchanged
    /// (signed or encrypted thinking).
    ThinkingEnd(Option<Value>),
    /// A native tool call begins. `index` names it in what follows.
    CallStart {
        /// The provider's index of the call.
        index: u32,
        /// The provider's id of the call.
        id: String,
        /// The tool's name as sent.
        name: String,
    },
    /// More of a native call's JSON arguments.
    CallArguments {
        /// The provider's index of the call.
        index: u32,
        /// A piece of JSON text.
        text: String,
    },
    /// A native call is complete.
    CallEnd {
        /// The provider's index of the call.
        index: u32,
    },
}

/// A closed piece of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// Visible text, without surrounding white space; never empty.
    Text(String),
    /// Thinking, with the provider's block to be sent back.
    Thinking {
        /// Text that may be shown; may be empty.
        text: String,
        /// The provider's own block.
        opaque: Option<Value>,
    },
    /// A complete tool call.
    Call {
        /// The provider's id; none for a call made in text.
        id: Option<String>,
        /// The tool's name as sent.
        name: String,
        /// The parameters; strings only for a call made in tags.
        params: Map<String, Value>,
        /// True if it was made in text, within a code block, by a fence or by indentation: some models put calls there,
        /// and all put there what they only quote.
        fenced: bool,
        /// Problem with the call. Such a call is answered with an error and never run.
        problem: Option<String>,
    },
}

/// Update from one piece of the stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// More text of the block that is open, to be shown at once.
    TextDelta(String),
    /// More thinking of the block that is open.
    ThinkingDelta(String),
    /// A call has begun; its name is known.
    CallBegun {
        /// The tool's name as sent.
        name: String,
    },
    /// More of a parameter of the call that is open, decoded, to be shown while it streams.
    ParameterDelta {
        /// The parameter's name.
        parameter: Arc<str>,
        /// More of its value.
        text: String,
    },
    /// A block is complete.
    Closed(Block),
}

impl Update {
    /// Adds visible text. Neighbouring deltas become one.
    fn text(text: &str, out: &mut Vec<Self>) {
        match out.last_mut() {
            _ if text.is_empty() => {}
            Some(Self::TextDelta(last)) => last.push_str(text),
            _ => out.push(Self::TextDelta(text.to_owned())),
        }
    }

    /// Adds thinking.
    fn thinking(text: &str, out: &mut Vec<Self>) {
        match out.last_mut() {
            _ if text.is_empty() => {}
            Some(Self::ThinkingDelta(last)) => last.push_str(text),
            _ => out.push(Self::ThinkingDelta(text.to_owned())),
        }
    }

    /// Adds more of a parameter.
    fn parameter(name: &Arc<str>, text: &str, out: &mut Vec<Self>) {
        match out.last_mut() {
            _ if text.is_empty() => {}
            Some(Self::ParameterDelta { parameter, text: last }) if parameter == name => last.push_str(text),
            _ => out.push(Self::ParameterDelta { parameter: Arc::clone(name), text: text.to_owned() }),
        }
    }
}
