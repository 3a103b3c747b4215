//! The types of `roo/intent/*`: the declared goals of a workspace and what they own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ids::{Digest, TaskId};

/// `roo/intent/list`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IntentListParams {}

/// Result of `roo/intent/list`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IntentListResult {
    /// True if the workspace has a file of intents. Without one, everything in it may be asked for.
    pub governed: bool,
    /// The intents that can be used, in the order of the file.
    pub intents: Vec<IntentItem>,
    /// Problems with the file or with other intents of it. While the file can't be read, nothing may be changed.
    pub problems: Vec<String>,
}

/// An intent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IntentItem {
    /// Its id.
    pub intent_id: String,
    /// Display name.
    pub name: String,
    /// `PENDING`, `IN_PROGRESS`, `BLOCKED`, `COMPLETED` or `ABANDONED`.
    pub status: String,
    /// The globs of the files that may be changed; a leading `!` excludes.
    pub owned_scope: Vec<String>,
    /// Constraints.
    pub constraints: Vec<String>,
    /// Acceptance criteria.
    pub acceptance_criteria: Vec<String>,
    /// Of what governs.
    pub digest: Digest,
    /// True if a task may select it.
    pub selectable: bool,
    /// Permissions beyond those that the user has accepted; a task that selects it asks the user first.
    pub loosened: Vec<String>,
}

/// `roo/intent/select`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IntentSelectParams {
    /// The task that is bound; not a branch.
    pub task_id: TaskId,
    /// The intent's id.
    pub intent_id: String,
    /// Of what governs, as the user has seen it.
    pub digest: Digest,
}

/// `roo/intent/create`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IntentCreateParams {
    /// A letter, then letters, digits, `.`, `_` and `-`.
    pub intent_id: String,
    /// Display name.
    pub name: String,
    /// The globs of the files that may be changed.
    pub owned_scope: Vec<String>,
    /// Constraints.
    #[serde(default)]
    pub constraints: Vec<String>,
    /// Acceptance criteria.
    #[serde(default)]
    pub acceptance_criteria: Vec<String>,
}

/// `roo/intent/update`. What is left out stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IntentUpdateParams {
    /// The intent's id.
    pub intent_id: String,
    /// Its new name.
    #[serde(default)]
    pub name: Option<String>,
    /// New status.
    #[serde(default)]
    pub status: Option<String>,
    /// Patterns that no longer belong to its scope.
    #[serde(default)]
    pub remove_scope: Vec<String>,
    /// Additional constraints.
    #[serde(default)]
    pub add_constraints: Vec<String>,
    /// Constraints to remove.
    #[serde(default)]
    pub remove_constraints: Vec<String>,
    /// The `digest` of the answer that showed what this allows: the user's consent to just that.
    #[serde(default)]
    pub accept: Option<Digest>,
}

/// `roo/intent/expand`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IntentExpandParams {
    /// The intent's id.
    pub intent_id: String,
    /// The patterns that its scope gets.
    pub patterns: Vec<String>,
    /// The `digest` of the answer that showed what this allows: the user's consent to just that.
    #[serde(default)]
    pub accept: Option<Digest>,
}

/// Result of `roo/intent/update` and `roo/intent/expand`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IntentChangeResult {
    /// True if the file was changed.
    pub changed: bool,
    /// Permissions of the change beyond those that the user has accepted. Not empty means that nothing was changed:
    /// show it, and send the request again with `accept`.
    pub loosens: Vec<String>,
    /// Of what governs after the change.
    pub digest: Digest,
}
