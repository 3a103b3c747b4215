//! Messages of a task, in Roo's vocabulary of `ask` and `say`, so that clients of Roo's own
//! interfaces can be served from the same log. Source of the names: Roo Code,
//! `packages/types/src/message.ts`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ids::MessageId;

/// Question of a task to its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// A question of the model, by `ask_followup_question`.
    Followup,
    /// May this command run?
    Command,
    /// May this tool run? The text is Roo's `ClineSayTool` payload as JSON.
    Tool,
    /// May this server be asked? The text is Roo's `ClineAskUseMcpServer` payload as JSON.
    UseMcpServer,
    /// The result of a root task, for the user to accept or to answer.
    CompletionResult,
    /// The model kept making mistakes; the user may guide it.
    MistakeLimitReached,
    /// A cap on requests or cost is used up; the user may raise it.
    AutoApprovalMaxReqReached,
    /// The model could not be reached; retry?
    ApiReqFailed,
    /// The task was interrupted; go on?
    ResumeTask,
}

/// Message of a task to its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Say {
    /// The prompt, and plain text of the model.
    Text,
    /// The model's visible thinking.
    Reasoning,
    /// A model request began; the text is JSON with `request`, then usage and cost.
    ApiReqStarted,
    /// Message of the user in between.
    UserFeedback,
    /// A tool was called; the text is Roo's `ClineSayTool` payload as JSON.
    Tool,
    /// A command ran; the text is what the model got: directory, exit code, output.
    CommandOutput,
    /// A server is asked; the text is Roo's `McpExecutionStatus` as JSON.
    McpServerRequestStarted,
    /// Its answer, as the model got it; the text is Roo's `McpExecutionStatus` as JSON.
    McpServerResponse,
    /// Code was searched by its index; the text is Roo's `CodebaseSearchResult` as JSON.
    CodebaseSearchResult,
    /// Something failed; the text says what.
    Error,
    /// The task's result.
    CompletionResult,
    /// Files are about to be recorded as changed, and can be restored; the text is the digest of what is kept.
    CheckpointSaved,
}

/// Kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum MessageKind {
    /// A question to the user.
    Ask(Ask),
    /// Something to show.
    Say(Say),
}

/// One message of a task. A later message with the same id replaces this one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Stable over the message's versions.
    pub id: MessageId,
    /// `ask` or `say`.
    #[serde(flatten)]
    pub kind: MessageKind,
    /// Text, or the JSON payload that Roo defines for this kind.
    pub text: String,
    /// Images as data URLs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_its_kind_as_roo_does() {
        let message = Message {
            id: MessageId::new("m1"),
            kind: MessageKind::Say(Say::CompletionResult),
            text: "done".into(),
            images: vec![],
        };
        let json = serde_json::to_string(&message).unwrap();
        assert_eq!(json, r#"{"id":"m1","say":"completion_result","text":"done"}"#);
        assert_eq!(serde_json::from_str::<Message>(&json).unwrap(), message);
    }
}
