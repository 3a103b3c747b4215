//! The price of a model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// US dollars for a million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelPrice {
    /// Input that the provider's cache does not know.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Input read from the provider's cache.
    pub cache_read: f64,
    /// Input written to the provider's cache.
    pub cache_write: f64,
}
