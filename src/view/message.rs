//! Messages of a task: where one comes from, and its text while it is being written.

use roo_protocol::ids::MessageId;
use roo_protocol::message::Say;

/// Source of a message, as its id says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageOrigin {
    /// The prompt of the request.
    Prompt,
    /// The task that a branch was given by its parent.
    Brief,
    /// An answer of the model.
    Model,
    /// The end of a task, which its state tells too.
    End,
    /// A message of the user on the way, or a word of the server.
    Other,
}

impl MessageOrigin {
    /// Source of the message with this id.
    pub(crate) fn from_id(id: &MessageId) -> Self {
        match id.as_str() {
            "m1" => Self::Prompt,
            "brief" => Self::Brief,
            id if id.ends_with(".end") => Self::End,
            id if id.starts_with('r') => Self::Model,
            _ => Self::Other,
        }
    }
}

/// A message that is still being written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StreamingMessage {
    pub(crate) id: MessageId,
    pub(crate) say: Say,
    /// The text so far. That of a call is the tool's name, a newline and the arguments so far.
    pub(crate) text: String,
}

impl StreamingMessage {
    /// Appends a piece. One that doesn't follow on is left out: the whole message comes later.
    pub(super) fn grow(&mut self, offset: u64, more: &str) {
        if usize::try_from(offset) == Ok(self.text.len()) {
            self.text.push_str(more);
        }
    }
}
