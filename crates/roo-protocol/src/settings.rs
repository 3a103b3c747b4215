//! The settings that count for a client: `roo/autoApprove/get`, `roo/options/didChange`, `roo/settings/changed`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `roo/autoApprove/get`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AutoApproveGetParams {}

/// Result of `roo/autoApprove/get`. What the user has allowed permanently comes on top: `roo/rule/list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutoApproveGetResult {
    /// The settings below `autoApprove`, as they count now.
    pub settings: Vec<AutoApproveItem>,
}

/// A setting below `autoApprove`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutoApproveItem {
    /// Its key below `autoApprove`, such as `write` or `execute.mode`.
    pub key: String,
    /// Its value as it counts.
    pub value: Value,
    /// How much of what it is about runs without a question; absent for lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unasked: Option<Unasked>,
    /// The layer that it comes from: a file with its line, `initializationOptions`, or `workspace/configuration`, which
    /// only takes away. Absent for the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
}

/// How much runs without a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Unasked {
    /// Nothing.
    None,
    /// What rules and the sandbox cover.
    Some,
    /// Everything but what asks whatever the settings say, such as protected files.
    All,
}

/// `roo/options/didChange`: the client's `initializationOptions` are others now. They count from the next turn on, but
/// for `protocolVersion`, `documentSave` and `codeAsk`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OptionsDidChangeParams {
    /// All of them, in place of those before. As at the start only the user's own settings belong in there.
    pub options: Value,
}

/// `roo/settings/changed`: other settings count from the next turn on, or other problems with them are known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SettingsChangedParams {
    /// What is wrong with them now, a line each. The user was told already.
    pub problems: Vec<String>,
}
