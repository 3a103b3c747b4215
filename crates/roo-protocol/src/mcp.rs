//! The types of `roo/mcp/*`: the MCP servers of the workspace, their states and their tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `roo/mcp/list`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct McpListParams {}

/// Result of `roo/mcp/list`, and `roo/mcp/changed`, which a client gets for each change after it has listed the servers once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpListResult {
    /// The servers that are configured, by name.
    pub servers: Vec<McpServerItem>,
}

/// An MCP server that is configured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerItem {
    /// Its name.
    pub name: String,
    /// Owner of its entry.
    pub owner: McpOwner,
    /// The program with its arguments, or the address, as it is configured: references are not filled in.
    pub target: String,
    /// State.
    pub state: McpServerState,
    /// Reason why it can't be used, and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Number of seconds after which it is started again; none when that is left to the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
    /// Number of tools that models get.
    pub tools: u32,
    /// Number of resources and patterns of resources.
    pub resources: u32,
    /// Number of prompts.
    pub prompts: u32,
}

/// Owner of the entry of an MCP server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum McpOwner {
    /// The user: `mcp.json` of the configuration directory.
    User,
    /// The workspace: `.roo/mcp.json`.
    Workspace,
}

/// State of an MCP server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum McpServerState {
    /// It is switched off.
    Disabled,
    /// It is the workspace's, and the user has not approved it as it is now.
    WaitingForApproval,
    /// It is started at its first call.
    NotStarted,
    /// It is being started or connected to.
    Starting,
    /// It wants a login, which the user makes in a terminal: `reason` names the command.
    NeedsLogin,
    /// It can be used.
    Connected,
    /// It can't be used.
    Failed,
}

/// `roo/mcp/tools`, `roo/mcp/log` and `roo/mcp/restart`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerParams {
    /// Name of the server.
    pub server: String,
}

/// Result of `roo/mcp/tools`. What the server says of its tools is untrusted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpToolsResult {
    /// The tools that models get, in the server's order; none while it is not connected.
    pub tools: Vec<McpToolItem>,
    /// The tools that models don't get.
    pub left_out: Vec<McpLeftOutTool>,
}

/// A tool of an MCP server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpToolItem {
    /// Its name.
    pub name: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Description, in one line.
    pub description: String,
    /// True if `alwaysAllow` of the user's own `mcp.json` names it.
    pub always_allowed: bool,
}

/// A tool that models don't get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpLeftOutTool {
    /// Its name.
    pub name: String,
    /// Reason why not.
    pub reason: String,
}

/// Result of `roo/mcp/log`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpLogResult {
    /// The newest lines, the oldest of them first: of its standard error, of its log messages, and of what went wrong with
    /// it. Untrusted.
    pub lines: Vec<String>,
}

/// `roo/mcp/enable`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpEnableParams {
    /// Name of the server.
    pub server: String,
    /// False to switch it off: `disabled` of its entry is changed, and nothing else of the file.
    pub enabled: bool,
}
