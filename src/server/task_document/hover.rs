//! Hover in a task document: the whole of a command's output on the line of its call, else the details of the task in
//! whose section it is.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Value, json};
use tower_lsp::jsonrpc::Result;

use super::transcript::MarkKind;
use super::{DocumentPosition, symbols};
use crate::markdown;
use crate::server::session::Session;
use crate::view::TaskView;
use roo_protocol::message::{MessageKind, Say};

/// `textDocument/hover`.
pub(super) async fn hover(session: &Arc<Session>, place: &DocumentPosition) -> Result<Value> {
    let (Some(document), Some(rendering)) = (&place.document, place.rendering()) else {
        return Ok(Value::Null);
    };
    let offset = place.positions().offset(place.position);
    if offset >= rendering.text.len() {
        return Ok(Value::Null);
    }
    let call = rendering.marks.iter().find_map(|mark| match &mark.kind {
        MarkKind::Call(task, call) if mark.range.contains(&offset) => Some((task.clone(), call.clone())),
        _ => None,
    });
    if let Some((task, call)) = call
        && let Ok(snapshot) = session.services().await?.engine.get(&task).await
    {
        let is_output = |kind: MessageKind| kind == MessageKind::Say(Say::CommandOutput);
        let output = snapshot
            .messages
            .iter()
            .find(|message| message.id.as_str() == call.as_str() && is_output(message.kind));
        if let Some(output) = output {
            return Ok(told(session, &markdown::fenced("", &output.text)));
        }
    }
    let transcript = document.transcript();
    let task = symbols::task_at(&rendering, offset).and_then(|task| transcript.view().task(task));
    Ok(task.map_or(Value::Null, |task| told(session, &details(task))))
}

fn told(session: &Session, text: &str) -> Value {
    json!({ "contents": session.hover_contents(text) })
}

/// All that is known of a task beside what it said.
fn details(task: &TaskView) -> String {
    let mut text = format!("**{}**: {}", task.name(), task.state.as_str());
    if let Some(reason) = &task.reason {
        let _ = write!(text, " ({})", markdown::line(reason));
    }
    let usage = &task.usage;
    let _ =
        write!(text, "\n\n- task `{}`\n- {} tokens in, {} out", task.id, usage.tokens_in, usage.tokens_out);
    if usage.cache_reads + usage.cache_writes > 0 {
        let _ =
            write!(text, ", {} read from the cache, {} written to it", usage.cache_reads, usage.cache_writes);
    }
    if usage.cost_usd > 0.0 {
        let _ = write!(text, "; ${:.4}", usage.cost_usd);
    }
    for (tool, count) in &task.tool_usage.0 {
        let _ = write!(text, "\n- {tool}: {}", count.attempts);
        if count.failures > 0 {
            let _ = write!(text, ", {} failed", count.failures);
        }
    }
    if let Some(result) = &task.result {
        let _ = write!(text, "\n\n{}", markdown::prose(result));
    }
    text
}
