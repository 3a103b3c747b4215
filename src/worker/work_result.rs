//! What comes back: how the request ended, and what it has changed, as a patch among the files in NATS.

use roo_protocol::ids::{Digest, TaskId};
use roo_protocol::task::{TaskState, Usage};
use serde::{Deserialize, Serialize};

use super::submission::CommitId;

/// The largest patch, in bytes.
pub(crate) const MAX_PATCH_BYTES: u64 = 64 << 20;

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkResult {
    pub(crate) request: TaskId,
    pub(crate) outcome: WorkOutcome,
    /// What the agent says of it, or why it has not come to its end.
    pub(crate) text: String,
    /// The commit that the patch is for; none where the work could not begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) commit: Option<CommitId>,
    /// What was changed; none for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) patch: Option<PatchFile>,
    pub(crate) usage: Usage,
    /// Name of the worker that ended it.
    pub(crate) worker: String,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum WorkOutcome {
    Completed,
    Failed,
    Cancelled,
    /// It asked something that nobody answered.
    Unanswered,
    /// It was not begun.
    Refused,
}

impl From<TaskState> for WorkOutcome {
    fn from(state: TaskState) -> Self {
        match state {
            TaskState::Completed => Self::Completed,
            TaskState::Cancelled => Self::Cancelled,
            TaskState::Failed => Self::Failed,
            TaskState::Running | TaskState::Waiting | TaskState::Paused | TaskState::Interrupted => {
                Self::Unanswered
            }
        }
    }
}

/// A patch among the files in NATS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PatchFile {
    pub(crate) file: String,
    /// In bytes.
    pub(crate) size: u64,
    pub(crate) digest: Digest,
}

impl WorkResult {
    /// The result of work that did not begin.
    pub(crate) fn not_begun(request: TaskId, outcome: WorkOutcome, text: String, worker: &str) -> Self {
        let usage = Usage::default();
        Self { request, outcome, text, commit: None, patch: None, usage, worker: worker.to_owned() }
    }
}
