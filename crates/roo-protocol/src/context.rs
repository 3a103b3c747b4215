//! The context of a task: how much of its model's window the next request takes, and what was shortened to fit.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ids::TaskId;

/// Size of a model request by its parts, in tokens. The parts are estimates that add up to `used`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ContextMeter {
    /// Number of tokens that a request and its answer may have together, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// Number of tokens above which the conversation is shortened, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Tokens of the whole request.
    pub used: u64,
    /// The system prompt, and the environment details at the end.
    pub system: u64,
    /// Definitions of tools.
    pub tools: u64,
    /// Messages of the user and the delegated task, which are never shortened.
    pub pinned: u64,
    /// Contents of files that were read.
    pub files: u64,
    /// The rest of the conversation.
    pub conversation: u64,
}

/// Ways to shorten a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ShorteningMethod {
    /// Old results of tools and old arguments of calls become short placeholders.
    Placeholders,
    /// Earlier turns are replaced by a summary that a model wrote.
    Summary,
    /// Earlier turns are replaced by a list of their calls, without asking a model.
    Outline,
}

/// One shortening of a task's conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Shortening {
    /// The `seq` of its event, by which it is undone.
    pub seq: u64,
    /// Time, in milliseconds since the Unix epoch.
    pub at: i64,
    /// How it was shortened.
    pub method: ShorteningMethod,
    /// Estimated tokens of the request before.
    pub tokens_before: u64,
    /// Estimated tokens of the request after.
    pub tokens_after: u64,
    /// True if it was undone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restored: bool,
}

/// Result of `roo/context/get`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContextGetResult {
    /// The size of the next model request; none before the first one has its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextMeter>,
    /// What was shortened, oldest first.
    pub shortenings: Vec<Shortening>,
}

/// `roo/context/restore`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextRestoreParams {
    /// The task.
    pub task_id: TaskId,
    /// The `seq` of the shortening to undo.
    pub seq: u64,
}
