//! Completion in the prompt of a task document.

use std::sync::Arc;

use serde_json::{Value, json};
use tower_lsp::jsonrpc::Result;

use super::DocumentPosition;
use crate::server::prompt_completion;
use crate::server::session::Session;
use roo_protocol::prompt::{PromptItem, PromptItemKind};
use roo_text::position::Range;

/// LSP's kinds of items.
const FILE: u32 = 17;
const FOLDER: u32 = 19;
const KEYWORD: u32 = 14;
const MODE: u32 = 20;
const COMMAND: u32 = 3;
const SYMBOL: u32 = 18;

/// `textDocument/completion`.
pub(super) async fn complete(session: &Arc<Session>, place: &DocumentPosition) -> Result<Value> {
    let positions = place.positions();
    let offset = positions.offset(place.position);
    let Some(prompt) = place.text.get(place.prompt_start()..offset) else { return Ok(Value::Null) };
    let services = session.services().await?;
    let Some(completion) = prompt_completion::complete(session, services, prompt).await? else {
        return Ok(Value::Null);
    };
    let range = DocumentPosition::range_of(&positions, &(offset - completion.replaced.len()..offset));
    let items = completion.items.iter().enumerate().map(|(index, item)| wire_item(index, item, range));
    // The client filters by its own rules; if there are more, it has to ask again.
    Ok(json!({ "isIncomplete": completion.is_incomplete, "items": items.collect::<Vec<_>>() }))
}

fn wire_item(index: usize, item: &PromptItem, range: Range) -> Value {
    let kind = match item.kind {
        PromptItemKind::File | PromptItemKind::Image => FILE,
        PromptItemKind::Folder => FOLDER,
        PromptItemKind::Keyword => KEYWORD,
        PromptItemKind::Mode => MODE,
        PromptItemKind::Command => COMMAND,
        PromptItemKind::Symbol => SYMBOL,
    };
    let mut wire = json!({
        "label": item.text,
        "kind": kind,
        "filterText": item.text,
        "sortText": format!("{index:04}"),
        "textEdit": { "range": range, "newText": item.text },
    });
    if let Some(detail) = &item.detail {
        wire["detail"] = detail.as_str().into();
    }
    wire
}
