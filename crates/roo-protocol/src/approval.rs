//! Answers that an approval can have.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One possible answer to an approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalOption {
    /// Answer with this.
    pub id: String,
    /// Label of the button.
    pub name: String,
    /// Meaning.
    pub kind: OptionKind,
    /// What the answer allows or refuses from now on, in full; absent for an answer that counts once. To be shown before
    /// the answer is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
}

/// Meaning of an option. The names are those of the Agent Client Protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OptionKind {
    /// Allow this one action.
    AllowOnce,
    /// Allow it, and make a rule.
    AllowAlways,
    /// Refuse this one action.
    RejectOnce,
    /// Refuse it, and make a rule.
    RejectAlways,
}

impl OptionKind {
    /// Returns whether choosing it lets the action happen.
    pub fn allows(self) -> bool {
        matches!(self, Self::AllowOnce | Self::AllowAlways)
    }
}
