//! The types of `roo/mode/*`, `roo/command/*` and `roo/trust/*`: which modes and slash commands there are, and
//! what a workspace brings.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ids::{Digest, TaskId};

/// `roo/mode/list`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModeListParams {}

/// Result of `roo/mode/list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModeListResult {
    /// The modes that count now, the built-in ones first.
    pub modes: Vec<ModeItem>,
    /// The slug of the mode in which a request begins that names none, by the user's settings.
    pub default_mode: String,
    /// Problems with the files that define modes.
    pub problems: Vec<CustomizationProblem>,
}

/// A mode, for choosing one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModeItem {
    /// Names it in requests and settings.
    pub slug: String,
    /// For people.
    pub name: String,
    /// Marks it in lists and trees.
    pub emoji: String,
    /// Description, in a few words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Guidance on when to choose it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_to_use: Option<String>,
    /// Source: `built-in`, `global` or `project`.
    pub source: String,
    /// The slugs of the modes to which it may delegate.
    pub can_delegate_to: Vec<String>,
    /// The names of its tools.
    pub tools: Vec<String>,
    /// The pattern of the files that it may change; all that its tools reach when none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_regex: Option<String>,
}

/// `roo/mode/switch`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModeSwitchParams {
    /// The task; its next turn is made in that mode, with the model that the settings give it.
    pub task_id: TaskId,
    /// The slug of the mode.
    pub mode: String,
}

/// `roo/command/list`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandListParams {}

/// Result of `roo/command/list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandListResult {
    /// The slash commands that a message may use now, by name; then the prompts of MCP servers.
    pub commands: Vec<CommandItem>,
}

/// A slash command, for choosing one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandItem {
    /// Name after the `/`; `server:prompt` for a prompt of an MCP server.
    pub name: String,
    /// Description, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Hint about its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argument_hint: Option<String>,
    /// The slug of the mode that it switches to; may be unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Source: `built-in`, `global`, `project`, or `mcp`.
    pub source: String,
}

/// Problem with a file of a user or a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomizationProblem {
    /// The file's absolute path.
    pub path: String,
    /// From 1; none when the file as a whole is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// In characters, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// True if something does not count because of it.
    pub error: bool,
    /// Problem and remedy.
    pub message: String,
}

/// `roo/trust/get` and `roo/trust/revoke`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrustParams {}

/// `roo/trust/grant`: without fields the workspace as a whole, with both fields one file as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrustGrantParams {
    /// The file, as in `pendingApprovals`.
    #[serde(default)]
    pub path: Option<String>,
    /// Its digest, as in `pendingApprovals`: what the user has seen.
    #[serde(default)]
    pub digest: Option<Digest>,
    /// True for the answer no, which is kept, so that this isn't asked again. Only for what has the kind `delegation`; all
    /// else waits until it is granted.
    #[serde(default)]
    pub refuse: bool,
}

/// Trust in a workspace, and the files that it is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrustReport {
    /// True if what the workspace brings may steer agents.
    pub trusted: bool,
    /// Files by which the workspace steers agents, as paths relative to its first folder, with the built-in modes that
    /// are replaced: `.roomodes (replaces code)`. Without trust it has no effect.
    pub brings: Vec<String>,
    /// What a trusted workspace's files would give a mode beyond what it has, and waits for the user's approval.
    pub pending_approvals: Vec<PendingTrust>,
    /// The modes of a trusted workspace of which none has `canDelegateTo`; none where there is nothing to ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegation: Option<TeamDelegation>,
    /// The user's own modes of which none has `canDelegateTo`; none where there is nothing to ask. The answer counts in every
    /// workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_delegation: Option<TeamDelegation>,
}

/// Modes of a file that the user may let delegate to each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TeamDelegation {
    /// The file: the workspace's relative to its first folder, one of the user's own as a whole path.
    pub path: String,
    /// Their slugs.
    pub modes: Vec<String>,
    /// The user's answer; none where it is still pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<bool>,
}

/// Kinds of what waits for an approval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PendingKind {
    /// What the file would give has no effect before it is approved.
    #[default]
    File,
    /// A question: may the modes of the file delegate to each other? They count in any case, and the user may say no.
    Delegation,
}

/// Something of a file that waits for an approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingTrust {
    /// Relative to the workspace's first folder.
    pub path: String,
    /// Of the file as it is and what it widens. To be granted as it is here.
    pub digest: Digest,
    /// What is asked.
    #[serde(default)]
    pub kind: PendingKind,
    /// Additional permissions that it would give, one line a mode.
    pub widens: Vec<String>,
}
