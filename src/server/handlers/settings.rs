//! The settings that count: `roo/autoApprove/get`, and `roo/options/didChange`.

use serde_json::Value;
use tower_lsp::jsonrpc::Result;

use super::editor::{listening, read};
use super::{Params, Server};
use crate::live_settings::Configured;
use roo_formats::config::{ExecuteMode, Settings};
use roo_protocol::settings::{
    AutoApproveGetParams, AutoApproveGetResult, AutoApproveItem, OptionsDidChangeParams, Unasked,
};

/// The settings of `autoApprove`, in the order in which they are shown.
const KEYS: [&str; 8] =
    ["read", "write", "mcp", "delegate", "execute.mode", "execute.allow", "execute.presets", "execute.deny"];

pub(super) async fn auto_approve(
    server: &Server,
    Params(AutoApproveGetParams {}): Params<AutoApproveGetParams>,
) -> Result<AutoApproveGetResult> {
    let configured = server.session.typed().await?.settings.read().await;
    Ok(AutoApproveGetResult { settings: KEYS.map(|key| item(&configured, key)).into() })
}

fn item(configured: &Configured, key: &str) -> AutoApproveItem {
    let (value, origin) = configured.find(&format!("autoApprove.{key}"));
    AutoApproveItem {
        key: key.to_owned(),
        unasked: unasked(&configured.settings, key, &value),
        value,
        origin,
    }
}

/// Returns how much of what a setting is about runs without a question.
fn unasked(settings: &Settings, key: &str, value: &Value) -> Option<Unasked> {
    let execute = &settings.auto_approve.execute;
    Some(match (key, value) {
        ("execute.mode", _) => match execute.mode {
            Some(ExecuteMode::Ask) => Unasked::None,
            Some(ExecuteMode::Confined) => Unasked::Some,
            Some(ExecuteMode::Rules) | None if execute.allow.is_empty() && execute.presets.is_empty() => {
                Unasked::None
            }
            Some(ExecuteMode::Rules) | None => Unasked::Some,
        },
        (_, Value::Bool(true)) => Unasked::All,
        (_, Value::Bool(false)) => Unasked::None,
        // Lists say which, and the mode how many.
        _ => return None,
    })
}

/// The client's options have changed: they replace those of `initialize`, and count as the user's own as those did.
pub(super) async fn options_did_change(server: &Server, params: Value) {
    if listening(server).is_some()
        && let Some(OptionsDidChangeParams { options }) = read("roo/options/didChange", params)
    {
        server.session.options_changed(options).await;
    }
}
