//! The types of `roo/profile/*`: which models there are to choose from, and setting one up.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ids::TaskId;
use super::model_price::ModelPrice;

/// `roo/profile/list`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileListParams {}

/// Result of `roo/profile/list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfileListResult {
    /// The profiles, by name.
    pub profiles: Vec<ProfileItem>,
}

/// A profile, for choosing one. Where it leads and with which key is nobody's business.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfileItem {
    /// Names it in requests and settings.
    pub name: String,
    /// True if modes without a profile of their own work with it.
    pub is_default: bool,
    /// Provider that serves it, such as `anthropic`.
    pub provider: String,
    /// The model's name at its endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Number of tokens that a request and its answer may have together, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// Number of tokens that an answer may have, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Prices, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_per_million: Option<ModelPrice>,
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

/// A profile as a form has it. A field that is absent stays as it is in the profile that is there already, and `null`
/// removes it. Where the provider or the address is another one, nothing of that profile stays, headers and key included:
/// what it sent to one endpoint is not for another.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfileDraft {
    /// Provider that serves the model, such as `anthropic`.
    pub provider: String,
    /// The model's name at the endpoint.
    #[serde(default, skip_serializing_if = "DraftField::is_kept")]
    pub model: DraftField<String>,
    /// The endpoint, where it is not the provider's own.
    #[serde(default, skip_serializing_if = "DraftField::is_kept")]
    pub base_url: DraftField<String>,
    /// Format of requests, where it is not what the provider usually speaks.
    #[serde(default, skip_serializing_if = "DraftField::is_kept")]
    pub wire_format: DraftField<String>,
    /// Source of the key; `null` for the provider's usual one, or for none.
    #[serde(default, skip_serializing_if = "DraftField::is_kept")]
    pub key: DraftField<KeySource>,
    /// `native` or `xml`.
    #[serde(default, skip_serializing_if = "DraftField::is_kept")]
    pub tool_protocol: DraftField<String>,
    /// Amount of thinking before the model answers, as in the settings.
    #[serde(default, skip_serializing_if = "DraftField::is_kept")]
    pub reasoning: DraftField<String>,
    /// Number of tokens that a request and its answer may have together, in place of the catalogue's figure.
    #[serde(default, skip_serializing_if = "DraftField::is_kept")]
    pub context_window: DraftField<u64>,
    /// Number of tokens that an answer may have.
    #[serde(default, skip_serializing_if = "DraftField::is_kept")]
    pub max_tokens: DraftField<u64>,
    /// Prices, in place of the catalogue's.
    #[serde(default, skip_serializing_if = "DraftField::is_kept")]
    pub price_per_million: DraftField<ModelPrice>,
}

/// What a form makes of one field of a profile: absent, `null` or a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DraftField<T> {
    /// It stays as it is.
    #[default]
    Kept,
    /// It is removed.
    Removed,
    /// It gets this value.
    Set(T),
}

impl<T> DraftField<T> {
    /// Returns whether the field is absent from the form.
    pub fn is_kept(&self) -> bool {
        matches!(self, Self::Kept)
    }
}

impl<T> From<Option<T>> for DraftField<T> {
    /// Keeps the field where there is no value.
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Kept, Self::Set)
    }
}

impl<T: Serialize> Serialize for DraftField<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Kept | Self::Removed => serializer.serialize_none(),
            Self::Set(value) => serializer.serialize_some(value),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for DraftField<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(Self::Removed, Self::Set))
    }
}

impl<T: JsonSchema> JsonSchema for DraftField<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        Option::<T>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Option::<T>::json_schema(generator)
    }
}

/// Source of a profile's key. The settings file never holds the key itself.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "from")]
pub enum KeySource {
    /// An environment variable of the server.
    Environment {
        /// Its name.
        variable: String,
    },
    /// A command that prints the key.
    Command {
        /// The program and its arguments; no shell.
        command: Vec<String>,
    },
    /// The system's keyring, by `secret-tool`. The key is stored there when the profile is saved.
    Keyring {
        /// The key.
        key: String,
    },
    /// A file in the state directory that only the user can read, not encrypted. The key is stored there when the profile
    /// is saved.
    File {
        /// The key.
        key: String,
    },
}

/// Keys are not shown.
impl std::fmt::Debug for KeySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Environment { variable } => write!(f, "Environment({variable})"),
            // Its arguments may be secret.
            Self::Command { command } => write!(f, "Command({:?} …)", command.first()),
            Self::Keyring { .. } => f.write_str("Keyring(…)"),
            Self::File { .. } => f.write_str("File(…)"),
        }
    }
}

/// `roo/profile/test`: one short request.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfileTestParams {
    /// The name of a profile; the default one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// What a form makes of it, or of a profile that is not there yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft: Option<ProfileDraft>,
}

/// Result of a short request to a profile's model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfileTestResult {
    /// True if the model answered.
    pub works: bool,
    /// A sentence for the user: the time and the price of the answer, or what is wrong and what to do.
    pub message: String,
    /// Milliseconds from the request to the end of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// Price of the request in US dollars, where prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// `roo/profile/save`: writes a profile to the user's settings file, with all comments kept, once its model has answered.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfileSaveParams {
    /// The name of the profile.
    pub profile: String,
    /// What it is to be.
    pub draft: ProfileDraft,
    /// Modes without a profile of their own are to work with it.
    #[serde(default)]
    pub is_default: bool,
    /// Write it even if its model does not answer.
    #[serde(default)]
    pub untested: bool,
}

/// Result of `roo/profile/save`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfileSaveResult {
    /// True if it was written; it counts from the next turn on.
    pub saved: bool,
    /// A sentence for the user: what was written where, or why nothing was.
    pub message: String,
    /// What the model answered.
    pub test: ProfileTestResult,
    /// What the user should know besides, such as that another layer of the settings takes precedence.
    pub warnings: Vec<String>,
}

/// `roo/profile/delete`: takes a profile out of the user's settings file. A key that was stored for it stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfileDeleteParams {
    /// The name of the profile.
    pub profile: String,
}

/// Result of `roo/profile/delete`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfileDeleteResult {
    /// What the user should know, such as which profile counts now.
    pub warnings: Vec<String>,
}
