//! The types of `roo/changes/*`: what a request changed, and undoing parts of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ids::{ChangeId, TaskId, ToolCallId};
use super::review::HunkKind;

/// `roo/changes/list`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangesListParams {
    /// The task. What its branches changed is listed too.
    pub task_id: TaskId,
}

/// Result of `roo/changes/list`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangesListResult {
    /// The changed files, by path.
    pub files: Vec<ChangedFile>,
}

/// A file that a task changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedFile {
    /// The file, as its editor spells it where it is open.
    pub uri: String,
    /// The same, relative to its workspace folder.
    pub path: String,
    /// Its changes, oldest first.
    pub changes: Vec<RecordedChange>,
}

/// One change of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedChange {
    /// Names it in `roo/changes/undo`.
    pub change_id: ChangeId,
    /// The task that made it.
    pub task_id: TaskId,
    /// The call that made it.
    pub tool_call_id: ToolCallId,
    /// The tool.
    pub tool: String,
    /// Time, in milliseconds since the Unix epoch.
    pub at: i64,
    /// What it did.
    #[serde(default)]
    pub kind: HunkKind,
    /// True for lines that the user put in the place of proposed ones.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_user: bool,
    /// The lines before.
    pub old_text: String,
    /// The lines after.
    pub new_text: String,
    /// The line, counted from 1, where the file holds it now; absent where it holds something else by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// `roo/changes/undo`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangesUndoParams {
    /// The task of `roo/changes/list`.
    pub task_id: TaskId,
    /// The changes to undo.
    #[serde(default)]
    pub change_ids: Vec<ChangeId>,
    /// A file, as `path` of the list, of which all changes are undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// Result of `roo/changes/undo`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangesUndoResult {
    /// The changes that were undone.
    pub undone: Vec<ChangeId>,
    /// Those that were not.
    pub conflicts: Vec<UndoConflict>,
}

/// A change that was not undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UndoConflict {
    /// The change.
    pub change_id: ChangeId,
    /// Reason.
    pub reason: String,
}
