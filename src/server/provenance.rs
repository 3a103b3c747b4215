//! Origin of the lines that agents wrote: which intent, task, mode, model and prompt each came from.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use roo_text::render::{exact_line, one_line};
use roo_trace::blame::{Attribution, Index};
use roo_trace::record::Author;

/// The longest title that is shown, in characters.
const TITLE: usize = 120;

/// Authors of lines, as far as the trace has been read. It is read further whenever somebody asks.
#[derive(Default)]
pub(super) struct Provenance(Mutex<Option<Index>>);

impl Provenance {
    /// Finds the author of a line of a text, which counts from 0, in the trace of a workspace. Waits for the disk.
    pub(super) fn line(
        &self,
        state_directory: &Path,
        path: &str,
        text: &str,
        line: usize,
    ) -> Option<Arc<Attribution>> {
        let mut index = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let index = index.get_or_insert_with(|| Index::new(state_directory));
        if let Err(error) = index.refresh() {
            tracing::warn!(%error, "the trace can't be read");
        }
        index.line(path, text, line + 1)
    }
}

/// Describes where a line came from, for people.
pub(super) fn describe(line: &Attribution) -> String {
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
