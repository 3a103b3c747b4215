//! The types of `roo/model/*`: which models an endpoint offers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::model_price::ModelPrice;
use super::profile::ProfileDraft;

/// `roo/model/list`
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelListParams {
    /// The profile whose endpoint is asked; the default one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// A provider whose own endpoint is asked instead, as for a profile that is still to be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// A profile that a form is making: its endpoint is asked, with its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft: Option<ProfileDraft>,
}

/// Result of `roo/model/list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelListResult {
    /// The models, in the endpoint's order.
    pub models: Vec<ModelItem>,
}

/// A model: what the endpoint says of it, and what the catalogue knows besides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelItem {
    /// Its name in settings.
    pub id: String,
    /// Number of tokens that a request and its answer may have together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// Number of tokens that an answer may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Prices, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_per_million: Option<ModelPrice>,
    /// True if it sees images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<bool>,
    /// True if it can think before it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<bool>,
    /// True if it calls tools natively.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_tools: Option<bool>,
}
