//! Messages of a task: what each is to its reader, and its text while it is being written.

use roo_protocol::ids::{MessageId, ToolCallId};
use roo_protocol::message::{Ask, Message, MessageKind, Say};

/// Role of a message, by its kind and the source that its id names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageRole {
    /// The prompt of the request.
    Prompt,
    /// The task that a branch was given by its parent.
    Brief,
    /// Text of the model.
    Answer,
    /// Reasoning of the model.
    Reasoning,
    /// A message of the user on the way.
    Feedback,
    /// The result of a task, which its state tells too.
    Result,
    /// The error that a task ends with, which its state tells too.
    FinalError,
    /// What the user should know of the way: what a message does not come with, what a hook warns of.
    Note,
    /// A call, in Roo Code's JSON.
    Call,
    /// The command line of a call.
    Command,
    /// A question to the user.
    Question,
    /// Nothing to read: the bounds of a model request, a digest, or output that was shown as it came.
    Internal,
}

impl MessageRole {
    /// Role of a message.
    pub(crate) fn new(message: &Message) -> Self {
        let id = message.id.as_str();
        match message.kind {
            MessageKind::Say(Say::Text) if id == "m1" => Self::Prompt,
            MessageKind::Say(Say::Text) if id == "brief" => Self::Brief,
            MessageKind::Say(Say::Text) => Self::Answer,
            MessageKind::Say(Say::Reasoning) => Self::Reasoning,
            MessageKind::Say(Say::UserFeedback) => Self::Feedback,
            MessageKind::Say(Say::CompletionResult) => Self::Result,
            MessageKind::Say(Say::Error) if id.ends_with(".end") => Self::FinalError,
            MessageKind::Say(Say::Error) => Self::Note,
            MessageKind::Say(Say::Tool) | MessageKind::Ask(Ask::UseMcpServer) => Self::Call,
            MessageKind::Say(
                Say::ApiReqStarted
                | Say::CommandOutput
                | Say::McpServerRequestStarted
                | Say::McpServerResponse
                | Say::CodebaseSearchResult
                | Say::CheckpointSaved,
            ) => Self::Internal,
            MessageKind::Ask(Ask::Command) => Self::Command,
            MessageKind::Ask(_) => Self::Question,
        }
    }
}

/// The call whose changes a message saves, by its id.
pub(super) fn checkpoint_of(message: &Message) -> Option<ToolCallId> {
    let is_checkpoint = message.kind == MessageKind::Say(Say::CheckpointSaved);
    let call = message.id.as_str().strip_suffix(".checkpoint").filter(|_| is_checkpoint)?;
    Some(ToolCallId::new(call))
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
