//! Kinds of questions to the user, and suggested answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Reasons why a question stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuestionKind {
    /// The model asked.
    Followup,
    /// The model kept making mistakes.
    MistakeLimitReached,
    /// A cap on requests or cost is used up.
    AutoApprovalMaxReqReached,
    /// The model can't be reached.
    ApiReqFailed,
    /// The changes of a command are not known.
    ChangesUnknown,
    /// An MCP server asked while it answers a call. The answer goes to the server, and the model is not told.
    McpElicitation,
}

impl QuestionKind {
    /// Returns whether only the user may answer: permission to go on or to spend more, and what an MCP server is told. Programs
    /// and remote clients may answer the others.
    pub fn is_for_user_alone(self) -> bool {
        match self {
            Self::Followup | Self::MistakeLimitReached | Self::ApiReqFailed => false,
            Self::AutoApprovalMaxReqReached | Self::ChangesUnknown | Self::McpElicitation => true,
        }
    }
}

/// A suggested answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Suggestion {
    /// The answer's text.
    pub text: String,
    /// The mode to switch to with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

impl Suggestion {
    /// Returns the label for people: the text, and the mode that comes with it.
    pub fn label(&self) -> String {
        match &self.mode {
            Some(mode) => format!("{} (goes on in the mode {mode})", self.text),
            None => self.text.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leave_to_go_on_to_spend_and_to_tell_a_server_something_is_the_users_to_give() {
        for (kind, is_the_users) in [
            (QuestionKind::Followup, false),
            (QuestionKind::MistakeLimitReached, false),
            (QuestionKind::ApiReqFailed, false),
            (QuestionKind::AutoApprovalMaxReqReached, true),
            (QuestionKind::ChangesUnknown, true),
            (QuestionKind::McpElicitation, true),
        ] {
            assert_eq!(kind.is_for_user_alone(), is_the_users, "{kind:?}");
        }
    }
}
