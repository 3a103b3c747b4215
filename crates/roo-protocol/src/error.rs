//! The `data` of a failed `roo/*` request.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ids::TaskId;

/// Kind of failure that a `-32803` answer reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ErrorKind {
    /// Too much work is waiting; try again.
    Overloaded,
    /// No task, approval, question or profile of that id.
    NotFound,
    /// The task is driven by another server process on this machine.
    HeldElsewhere,
    /// The request can't be done in the task's present state.
    WrongState,
    /// The answer does not fit what was asked: another digest, an unknown option.
    Mismatch,
    /// The settings of the profile are incomplete: no key, no model, no endpoint.
    Configuration,
    /// The state directory can't be read or written.
    Storage,
    /// The daemon ended before it answered. Whether it has done what was asked is not known.
    Disconnected,
}

/// The `data` of a failed request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorData {
    /// Kind of failure.
    pub kind: ErrorKind,
    /// The task concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// Remedy for the user.
    pub hint: String,
}
