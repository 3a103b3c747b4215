//! The types of `roo/profile/*`: which models there are to choose from.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ids::TaskId;

/// `roo/profile/list`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileListParams {}

/// Result of `roo/profile/list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfileListResult {
    /// The profiles, by name.
    pub profiles: Vec<ProfileItem>,
}

/// A profile, for choosing one. Where it leads and with which key is nobody's business.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfileItem {
    /// Names it in requests and settings.
    pub name: String,
    /// True if modes without a profile of their own work with it.
    pub is_default: bool,
    /// Who serves it, such as `anthropic`.
    pub provider: String,
    /// The model's name at its endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// `roo/profile/select`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfileSelectParams {
    /// The task; its next turn is made with that model.
    pub task_id: TaskId,
    /// The name of the profile.
    pub profile: String,
}
