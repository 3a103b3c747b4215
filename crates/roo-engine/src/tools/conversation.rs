//! The tools that are steps of the conversation: a question, the to-do list, the end. The task machine takes them, so
//! nothing runs and there is nothing that could need somebody's leave.

use crate::policy::{CheckedCall, Gate, NamedAllowRule, Refusal, Tool, ToolCallContext};
use roo_catalog::{AskFollowupQuestion, AttemptCompletion, CompleteWithFailure, UpdateTodoList};

const STEP: CheckedCall = CheckedCall::Free {
    rule: NamedAllowRule::Conversation,
    reason: "it only steers the conversation",
    action: None,
};

impl Tool for AskFollowupQuestion {
    async fn judge(self, _: &Gate, _: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        Ok(STEP)
    }
}

impl Tool for UpdateTodoList {
    async fn judge(self, _: &Gate, _: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        Ok(STEP)
    }
}

impl Tool for AttemptCompletion {
    /// What a branch changed in a work tree of its own is merged first.
    async fn judge(self, gate: &Gate, call_context: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        match call_context.merge {
            Some(source) => gate.merge(call_context, source, STEP).await,
            None => Ok(STEP),
        }
    }
}

impl Tool for CompleteWithFailure {
    async fn judge(self, _: &Gate, _: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        Ok(STEP)
    }
}
