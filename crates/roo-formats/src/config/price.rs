//! Prices of models, and amounts of money in settings.

use roo_protocol::task::Usage;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// US dollars for a million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Price {
    /// Input that the provider's cache does not know.
    #[serde(deserialize_with = "amount")]
    pub input: f64,
    /// Output.
    #[serde(deserialize_with = "amount")]
    pub output: f64,
    /// Input read from the provider's cache.
    #[serde(deserialize_with = "amount")]
    pub cache_read: f64,
    /// Input written to the provider's cache.
    #[serde(deserialize_with = "amount")]
    pub cache_write: f64,
}

impl Price {
    /// Returns the cost of these tokens, in US dollars.
    pub fn cost(&self, usage: &Usage) -> f64 {
        let of = |tokens: u64, price: f64| tokens as f64 * price;
        let millionths = of(usage.tokens_in, self.input)
            + of(usage.tokens_out, self.output)
            + of(usage.cache_reads, self.cache_read)
            + of(usage.cache_writes, self.cache_write);
        millionths / 1e6
    }
}

/// An amount of money: not negative, not infinite.
pub(super) fn amount<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let amount = f64::deserialize(deserializer)?;
    if amount.is_finite() && amount >= 0.0 {
        Ok(amount)
    } else {
        Err(D::Error::custom(format!("must be an amount of 0 or more, not {amount}")))
    }
}
