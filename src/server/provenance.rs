//! Hover on a line that an agent wrote: which intent, task, mode, model and prompt it came from.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tower_lsp::jsonrpc::Error;

use super::session::{Session, WorkspaceServices};
use roo_protocol::task::Position;
use roo_text::render::{exact_line, one_line};
use roo_trace::blame::{Attribution, Index};
use roo_trace::record::Author;
use roo_workspace::{Purpose, path_of};

/// The longest title that is shown, in characters.
const TITLE: usize = 120;

/// Authors of lines, as far as the trace has been read. It is read further whenever somebody asks.
#[derive(Default)]
pub(super) struct Provenance(Mutex<Option<Index>>);

impl Provenance {
    /// Finds the author of a line of a text, which counts from 0. Waits for the disk.
    fn line(
        &self,
        services: &WorkspaceServices,
        path: &str,
        text: &str,
        line: usize,
    ) -> Option<Arc<Attribution>> {
        let mut index = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let index = index.get_or_insert_with(|| Index::new(services.directory.path()));
        if let Err(error) = index.refresh() {
            tracing::warn!(%error, "the trace can't be read");
        }
        index.line(path, text, line + 1)
    }
}

/// Builds the hover of a line; null for one that no agent wrote.
pub(super) async fn hovered(
    session: &Arc<Session>,
    uri: String,
    text: Arc<str>,
    position: Position,
) -> Result<Value, Error> {
    let services = Arc::clone(session.services().await?);
    let markdown = session.negotiated().is_some_and(|negotiated| negotiated.hover_markdown);
    let found = tokio::task::spawn_blocking(move || {
        let path = path_of(&uri)?;
        let place = services.engine.workspace().resolve(path.to_str()?, Purpose::Read).ok()?;
        services.provenance.line(&services, &place.display(), &text, position.line as usize)
    });
    let found = found.await.map_err(|_| Error::internal_error())?;
    Ok(found.map_or(Value::Null, |attribution| {
        let kind = if markdown { "markdown" } else { "plaintext" };
        json!({ "contents": { "kind": kind, "value": told(&attribution) } })
    }))
}

fn told(line: &Attribution) -> String {
    let mut parts = Vec::new();
    let intent = line.intent.as_ref().map(|id| {
        let name = line.intent_name.as_deref().unwrap_or_default();
        format!("Intent {}: {}", exact_line(id), one_line(name, TITLE))
    });
    parts.push(intent.unwrap_or_else(|| "No intent".to_owned()));
    if let Some(prompt) = &line.prompt {
        parts.push(format!("Prompt: {}", one_line(&prompt.title, TITLE)));
    }
    let mode = exact_line(&line.mode);
    parts.push(match (line.author, line.model.as_deref()) {
        (Author::Human, _) => format!("Written by you, in an edit of mode {mode}"),
        (_, Some(model)) => format!("Mode {mode}, model {}", one_line(model, TITLE)),
        (_, None) => format!("Mode {mode}, an unknown model"),
    });
    parts.push(format!("Task {} of request {}", exact_line(&line.task), exact_line(&line.urid)));
    parts.push(format!(
        "{}, by {} (trace record {})",
        exact_line(&line.at),
        exact_line(&line.tool),
        line.seq
    ));
    parts.join("\n\n")
}
