//! The types of `roo/checkpoint/*` and `roo/task/edit`: states of a request's files and conversation to go back to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ids::{Digest, MessageId, TaskId};

/// `roo/checkpoint/list`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointListParams {
    /// The task. Checkpoints of its branches are listed too.
    pub task_id: TaskId,
}

/// Result of `roo/checkpoint/list`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointListResult {
    /// The checkpoints, oldest first.
    pub checkpoints: Vec<Checkpoint>,
    /// What is missing in general, in words for the user: why commands that run without a sandbox have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
}

/// State of files right before a task changed them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// The number of the event that saved it. What changed files from there on is undone by a restore.
    pub seq: u64,
    /// The task that changed the files.
    pub task_id: TaskId,
    /// Time, in milliseconds since the Unix epoch.
    pub at: i64,
    /// The changed files.
    pub files: Vec<CheckpointFile>,
    /// What changed them, in one line.
    pub summary: String,
}

/// A file of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointFile {
    /// Relative to the first workspace folder; a full path elsewhere.
    pub path: String,
    /// What was done to it.
    pub change: FileChangeKind,
    /// Reason why its earlier content can't be restored; absent where it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

/// What a change does to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum FileChangeKind {
    /// It comes into being.
    Created,
    /// Its content changes.
    Changed,
    /// It is deleted.
    Deleted,
}

/// `roo/checkpoint/diff`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointDiffParams {
    /// The task. What its branches changed is compared too.
    pub task_id: TaskId,
    /// The earlier checkpoint.
    pub from: u64,
    /// The later checkpoint; absent for the files as they are now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
}

/// Result of `roo/checkpoint/diff`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointDiffResult {
    /// The files that differ, by path.
    pub files: Vec<FileDiff>,
    /// Files of which no content is kept.
    pub left_out: Vec<LeftOutFile>,
}

/// A file with its contents on both sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileDiff {
    /// Relative to the first workspace folder; a full path elsewhere.
    pub path: String,
    /// The file, as its editor spells it where it is open.
    pub uri: String,
    /// The earlier text, or words for what is no text; absent where there was no file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The later text, or words for what is no text; absent where there is no file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// A unified diff of the two; one line that names the file where one of them is no text.
    pub diff: String,
}

/// A file that is left as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeftOutFile {
    /// Relative to the first workspace folder; a full path elsewhere.
    pub path: String,
    /// Reason.
    pub reason: String,
}

/// What a restore brings back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RestoreWhat {
    /// The files; the conversation goes on as it is.
    Files,
    /// The conversation of the request; the files stay as they are.
    Conversation,
    /// Both.
    Both,
}

/// The tasks whose changes a restore undoes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RestoreScope {
    /// The task alone.
    Task,
    /// The task and its branches.
    #[default]
    Subtree,
    /// All tasks of the request.
    Request,
}

/// What becomes of a file that the user has changed in the same place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RestoreConflicts {
    /// The file stays as it is.
    #[default]
    Keep,
    /// Both versions are written into the file, between conflict markers.
    Mark,
}

/// `roo/checkpoint/restore`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointRestoreParams {
    /// The task.
    pub task_id: TaskId,
    /// The number of an event: what it and later ones did is undone. A checkpoint, a user's message, an earlier restore.
    pub seq: u64,
    /// What is restored.
    pub what: RestoreWhat,
    /// The tasks whose changes of files are undone.
    #[serde(default)]
    pub scope: RestoreScope,
    /// True to be told what would be done, and do nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub preview: bool,
    /// What becomes of files that the user has changed in the same place.
    #[serde(default)]
    pub conflicts: RestoreConflicts,
    /// The `digest` of the preview that the user has seen: nothing is restored where it would be something else by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
}

/// Result of `roo/checkpoint/restore`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointRestoreResult {
    /// The files that the restore changes, by path.
    pub files: Vec<FileDiff>,
    /// Files that the user has changed in the same place.
    pub conflicts: Vec<RestoreConflict>,
    /// Files that can't be restored.
    pub left_out: Vec<LeftOutFile>,
    /// The message of the user before which the conversation continues; absent where it stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<RestoredConversation>,
    /// Branches of a stopped request that don't go on after its conversation was restored; absent where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended_branches: Vec<EndedBranch>,
    /// Stands for files, conflicts and conversation in a restore.
    pub digest: Digest,
    /// The number of the restore's own event, by which it can be undone; absent in a preview.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored_as: Option<u64>,
}

/// A branch that ends with a restore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndedBranch {
    /// The branch.
    pub task_id: TaskId,
    /// Its name for people.
    pub title: String,
    /// The folder of its git worktree, which is kept if it has changes that are not merged. After the restore, only one that was
    /// kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<String>,
}

/// A file that the user has changed where a restore would change it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoreConflict {
    /// Relative to the first workspace folder; a full path elsewhere.
    pub path: String,
    /// Reason.
    pub reason: String,
    /// True if both versions are written into the file, between conflict markers.
    pub marked: bool,
}

/// Where a conversation continues after a restore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoredConversation {
    /// The number of the first event that the model no longer sees.
    pub before: u64,
    /// The number of messages and results that it no longer sees.
    pub dropped: u64,
}

/// `roo/task/edit`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskEditParams {
    /// The request.
    pub task_id: TaskId,
    /// The user's message that is replaced. The conversation goes on from there.
    pub message_id: MessageId,
    /// The new text.
    pub text: String,
    /// Images as data URLs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// True to restore the files as they were before the message, too.
    #[serde(default)]
    pub files: bool,
    /// True to be told what would be done, and do nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub preview: bool,
    /// What becomes of files that the user has changed in the same place.
    #[serde(default)]
    pub conflicts: RestoreConflicts,
    /// The `digest` of the preview that the user has seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
}
