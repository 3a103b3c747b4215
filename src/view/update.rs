//! Content of an event, with all that it refers to.

use roo_protocol::checkpoint::RestoreWhat;
use roo_protocol::context::ShorteningMethod;
use roo_protocol::ids::{CommandId, MessageId, ToolCallId, Urid};
use roo_protocol::message::{Message, Say};
use roo_protocol::task::{ForkOrigin, ImportOrigin, PendingApproval, PendingQuestion, TaskState, TodoItem};
use serde_json::Value;

use super::{CallResult, CallTarget, MessageRole};

/// Says that reduced function is over, to those who were told of it.
pub(crate) const RECOVERED: &str = "The server works with full function again.";

/// Content of an event about its task. The view that returns it has taken it in already.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Update<'e> {
    /// Something changed that is shown by the view alone, if at all.
    Silent,
    /// The tree changed.
    Tree,
    /// A task came to be.
    Created { urid: &'e Urid, mode: &'e str, title: &'e str },
    /// The request is a fork, and all before is of another request. It has this id for people.
    Forked { urid: &'e Urid, from: &'e ForkOrigin },
    /// The request was imported, and what follows up to its first end is another program's.
    Imported { from: &'e ImportOrigin },
    /// A task is in this state now.
    State { state: TaskState, result: Option<&'e str>, reason: Option<&'e str> },
    /// A piece of a message that is still being written. Its offset is in bytes.
    MessageGrows { id: &'e MessageId, say: Say, offset: u64, text: &'e str },
    /// A message is complete.
    Message { message: &'e Message, role: MessageRole },
    /// A request to the model begins or has ended.
    ModelAsked,
    /// A request to the model failed, and what came of it is void.
    AnswerVoid { request: &'e MessageId, reason: Option<String> },
    /// A call begins.
    CallStarted { call: &'e ToolCallId, target: CallTarget },
    /// A running call prints.
    CallOutput { call: &'e ToolCallId, text: &'e str },
    /// The policy refuses a call.
    CallRefused { rule: &'e str },
    /// A call has its result. A call that only steers the conversation has never begun, so it has no target.
    CallFinished { call: &'e ToolCallId, target: Option<CallTarget>, result: CallResult<'e> },
    /// What a call changed in files can be restored by the number of this event.
    CheckpointSaved { call: ToolCallId, seq: u64 },
    /// The command of a call runs on in the background.
    CommandBackgrounded { command: &'e CommandId, line: &'e str },
    /// A command in the background has ended.
    CommandEnded { command: &'e CommandId, result: CallResult<'e> },
    /// The user is asked for permission.
    ApprovalRequested(&'e PendingApproval),
    /// An approval, if it waited, has this answer, or was decided by the standing rule of this id; neither where it became void.
    ApprovalResolved {
        approval: Option<PendingApproval>,
        by: &'e str,
        option_id: Option<&'e str>,
        rule: Option<&'e str>,
    },
    /// A task asks its user something.
    QuestionAsked(&'e PendingQuestion),
    /// A question, if it waited, has this answer; none where it became void.
    QuestionAnswered { question: Option<PendingQuestion>, by: &'e str, text: Option<&'e str> },
    /// A file was changed.
    Edited { uri: &'e str },
    /// The task goes on in another mode, or with another model.
    Switched { mode: Option<&'e str>, profile: Option<&'e str> },
    /// The task works on this intent.
    IntentSelected { id: &'e str, name: &'e str },
    /// The to-do list changed.
    Todo(&'e [TodoItem]),
    /// The user restores what was before an event.
    RestoreStarted { seq: u64, what: RestoreWhat, files: usize },
    /// Nothing was restored.
    RestoreFailed { reason: &'e str },
    /// The conversation is being shortened.
    ContextShortening { method: ShorteningMethod },
    /// The conversation was shortened: estimated tokens of the next request before and after.
    ContextShortened { method: ShorteningMethod, tokens_before: u64, tokens_after: u64, cost_usd: f64 },
    /// The conversation was not shortened.
    ContextKept { reason: &'e str },
    /// A shortening was undone: estimated tokens of the next request before and after.
    ContextRestored { tokens_before: u64, tokens_after: u64 },
    /// A model request will be made again at this time, in milliseconds since the Unix epoch.
    RetryScheduled { at: i64, attempt: u32, reason: &'e str },
    /// The server works with reduced function.
    Warning { reason: &'e str },
    /// It works with full function again, but for what lasts.
    Recovered,
}

impl<'e> Update<'e> {
    /// Reads the message of a model request: it begins or has ended, or what came of it is void.
    pub(super) fn from_model_request(message: &'e Message) -> Self {
        let payload: Value = serde_json::from_str(&message.text).unwrap_or_default();
        if payload.get("cancelReason").is_none() {
            return Self::ModelAsked;
        }
        let reason = payload.get("streamingFailedMessage").and_then(Value::as_str);
        let reason = reason.filter(|reason| !reason.is_empty()).map(str::to_owned);
        Self::AnswerVoid { request: &message.id, reason }
    }
}
