//! The two ways in which models call tools.

use serde::{Deserialize, Serialize};

/// Ways in which a model is asked to call tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolProtocol {
    /// By the provider's own function calling.
    #[default]
    Native,
    /// By XML-like tags in its text.
    Xml,
}
