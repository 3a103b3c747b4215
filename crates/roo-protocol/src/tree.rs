//! The invocation tree: all branches of a request.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ids::TaskId;
use super::task::TaskState;

/// One branch of the invocation tree: one mode at work on one task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TreeNode {
    /// The task.
    pub id: TaskId,
    /// The task that delegated it; none for the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<TaskId>,
    /// The slug of its mode.
    pub mode: String,
    /// Emoji of the mode.
    pub emoji: String,
    /// Title, in a few words.
    pub title: String,
    /// State.
    pub state: TaskState,
    /// Start time, in milliseconds since the Unix epoch.
    pub started_at: i64,
    /// End time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<i64>,
    /// Input and output tokens, cached ones included.
    pub tokens: u64,
    /// Cost in US dollars.
    pub cost_usd: f64,
}

/// `roo/tree/get`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TreeGetParams {
    /// Any task of the request; the drawing marks it.
    pub task_id: TaskId,
}

/// Result of `roo/tree/get`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TreeGetResult {
    /// All branches, parents before children.
    pub nodes: Vec<TreeNode>,
    /// The tree as prompts show it.
    pub text: String,
}
