//! The JSON texts of messages: `ClineApiReqInfo`, `FollowupQuestionData`, `McpExecutionStatus`, `ClineSayBrowserAction` and
//! `BrowserActionResult` of Roo Code. `ClineSayTool` and `ClineAskUseMcpServer` are in the log as they are.

use roo_protocol::event::Suggestion;
use roo_protocol::ids::ToolCallId;
use roo_protocol::review::{HunkDecision, ReviewedHunk};
use roo_protocol::task::Usage;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// A model request, `ClineApiReqInfo`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiRequest {
    pub(super) request: String,
    #[serde(flatten)]
    pub(super) usage: Option<ApiRequestUsage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cancel_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) streaming_failed_message: Option<String>,
}

/// Tokens and money of one model request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiRequestUsage {
    /// With those that were read from and written to the provider's cache.
    tokens_in: u64,
    tokens_out: u64,
    cache_writes: u64,
    cache_reads: u64,
    /// In US dollars.
    cost: f64,
}

impl ApiRequestUsage {
    /// What came between two totals of a task.
    pub(super) fn between(before: &Usage, after: &Usage) -> Self {
        let cache_writes = after.cache_writes.saturating_sub(before.cache_writes);
        let cache_reads = after.cache_reads.saturating_sub(before.cache_reads);
        let tokens_in = after.tokens_in.saturating_sub(before.tokens_in);
        Self {
            tokens_in: tokens_in.saturating_add(cache_writes).saturating_add(cache_reads),
            tokens_out: after.tokens_out.saturating_sub(before.tokens_out),
            cache_writes,
            cache_reads,
            cost: (after.cost_usd - before.cost_usd).max(0.0),
        }
    }

    /// Number of tokens of the request with its answer.
    pub(super) fn tokens(&self) -> u64 {
        self.tokens_in.saturating_add(self.tokens_out)
    }
}

impl ApiRequest {
    /// Reads the text of our message for a model request.
    pub(super) fn parse(text: &str) -> Self {
        let known: Value = serde_json::from_str(text).unwrap_or_default();
        let text = |key: &str| known[key].as_str().map(str::to_owned);
        Self {
            request: format!("Model request {}", known["request"].as_u64().unwrap_or_default()),
            usage: None,
            cancel_reason: text("cancelReason"),
            streaming_failed_message: text("streamingFailedMessage"),
        }
    }

    pub(super) fn text(&self) -> String {
        json!(self).to_string()
    }
}

/// `FollowupQuestionData`.
pub(super) fn followup(question: &str, suggestions: &[Suggestion]) -> String {
    let suggest = suggestions.iter().map(|suggestion| match &suggestion.mode {
        Some(mode) => json!({ "answer": suggestion.text, "mode": mode }),
        None => json!({ "answer": suggestion.text }),
    });
    json!({ "question": question, "suggest": suggest.collect::<Vec<_>>() }).to_string()
}

/// `McpExecutionStatus` at the beginning of a call. `asked`: its `ClineAskUseMcpServer`.
pub(super) fn mcp_started(call: &ToolCallId, asked: &Value) -> String {
    let mut status = json!({ "executionId": call, "status": "started" });
    for key in ["serverName", "toolName"] {
        if let Some(name) = asked.get(key) {
            status[key] = name.clone();
        }
    }
    status.to_string()
}

/// `McpExecutionStatus` at the end of a call.
pub(super) fn mcp_ended(call: &ToolCallId, is_success: bool, text: &str) -> String {
    match is_success {
        true => json!({ "executionId": call, "status": "completed", "response": text }),
        false => json!({ "executionId": call, "status": "error", "error": text }),
    }
    .to_string()
}

/// `ClineSayBrowserAction`. `shown`: the step as our log has it.
pub(super) fn browser_action(shown: &Value) -> String {
    let mut action = Map::new();
    for key in ["action", "coordinate", "text", "size"] {
        if let Some(value) = shown.get(key) {
            action.insert(key.to_owned(), value.clone());
        }
    }
    // An element by its ref, or the address of a page.
    if let Some(target) = shown.get("ref").or_else(|| shown.get("url"))
        && !action.contains_key("text")
    {
        action.insert("text".to_owned(), target.clone());
    }
    Value::Object(action).to_string()
}

/// `BrowserActionResult`.
pub(super) fn browser_result(summary: &str, images: &[String]) -> String {
    let mut result = json!({ "logs": summary });
    if let Some(screenshot) = images.first() {
        result["screenshot"] = screenshot.as_str().into();
    }
    result.to_string()
}

/// `ClineSayTool` with what the user changed in a proposed edit; none where all of it was taken.
pub(super) fn changed_by_user(hunks: &[ReviewedHunk]) -> Option<String> {
    let changed = hunks.iter().filter(|hunk| hunk.decision != HunkDecision::Accept);
    let changed: Vec<&ReviewedHunk> = changed.collect();
    let first = changed.first()?;
    let diff: String = changed.iter().map(|hunk| changed_hunk(hunk)).collect();
    Some(json!({ "tool": "editedExistingFile", "path": first.path, "diff": diff }).to_string())
}

/// A hunk as lines that were proposed, and those that the user wants in their place.
fn changed_hunk(hunk: &ReviewedHunk) -> String {
    let wanted = match &hunk.decision {
        HunkDecision::Accept => &hunk.new_text,
        HunkDecision::Refuse { .. } => &hunk.old_text,
        HunkDecision::Edit { text } => text,
    };
    let lines =
        |text: &str, mark: char| -> String { text.lines().map(|line| format!("{mark}{line}\n")).collect() };
    format!(
        "--- {path}\n+++ {path}\n@@ line {} @@\n{}{}",
        hunk.line,
        lines(&hunk.new_text, '-'),
        lines(wanted, '+'),
        path = hunk.path
    )
}
