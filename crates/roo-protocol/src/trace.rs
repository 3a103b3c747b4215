//! The types of `roo/trace/*`: what agents did.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `roo/trace/query`: which records are wanted; all of them where nothing is said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TraceQueryParams {
    /// Of this intent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intent_id: Option<String>,
    /// Of this task or its branches; the beginning of its id is enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Of this request; the beginning of its URID is enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub urid: Option<String>,
    /// In this mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// By this model, with its provider or without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// About this file, or files below this directory, relative to the first folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// That ended so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<TraceOutcome>,
    /// Not before this, in milliseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<i64>,
    /// Before this, in milliseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<i64>,
    /// Only the newest ones: 100 when left out, 1000 at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// Outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TraceOutcome {
    /// It did what it was called for.
    Ok,
    /// The gate or the user refused it.
    Denied,
    /// It was allowed and failed.
    Failed,
    /// A command changed what was out of its scope.
    ScopeViolation,
    /// It was cut off; what it did is not known.
    Interrupted,
}

/// Result of `roo/trace/query`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TraceQueryResult {
    /// Agent Trace records, oldest first, as they stand in the trace.
    pub records: Vec<Value>,
}
