//! View of a conversation for the model.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use roo_model::prompts::Place;
use roo_model::providers::Item;
use roo_protocol::ids::Digest;
use roo_protocol::task::ContextItem;
use roo_text::lines::LineRange;
use roo_text::render::exact_line;
use roo_workspace::{ActiveFile, FileProblems, Workspace, path_of};

/// A result longer than this is a stub once its item is reduced, in bytes.
const STUB_OVER: usize = 400;

/// The items to send: those before `reduced_before` with long tool results replaced by stubs.
pub fn view(items: &Arc<Vec<Item>>, reduced_before: usize) -> Arc<Vec<Item>> {
    if reduced_before == 0 {
        return Arc::clone(items);
    }
    let reduced = items.iter().enumerate().map(|(index, item)| match item {
        Item::Results { results } if index < reduced_before => {
            let results = results.iter().map(|result| {
                let mut result = result.clone();
                if result.text.len() > STUB_OVER {
                    result.text = format!(
                        "[Left out to save space: {} bytes. Make the call again if you need its result.]",
                        result.text.len()
                    );
                }
                result.images.clear();
                result
            });
            Item::Results { results: results.collect() }
        }
        item => item.clone(),
    });
    Arc::new(reduced.collect())
}

/// Files open in the editor, by the names that the model uses.
pub struct OpenFiles {
    /// All of it.
    pub all: Vec<String>,
    /// Files with unsaved changes.
    pub unsaved: Vec<String>,
}

/// Editor state in front of the user, as the editor reports it.
pub struct EditorContext {
    /// Open files.
    pub open: OpenFiles,
    /// File that has the user's attention.
    pub active: Option<ActiveFile>,
    /// Problems, by file.
    pub problems: Vec<FileProblems>,
    /// Open files that are no longer what a task has seen.
    pub changed: Vec<String>,
}

impl EditorContext {
    /// The context as it is now, for a task that has seen this. Looks at the disk.
    pub fn new(workspace: &Workspace, seen: &BTreeMap<String, Digest>) -> Self {
        Self {
            open: open_files(workspace),
            active: workspace.active_file(),
            problems: workspace.problems(),
            changed: workspace.changed_since(seen),
        }
    }
}

/// The documents that the editor has open, sorted.
fn open_files(workspace: &Workspace) -> OpenFiles {
    let mut documents = workspace.documents().with_files();
    documents.sort_by(|one, other| one.0.cmp(&other.0));
    let name = |path: &Path| name(workspace, path);
    OpenFiles {
        all: documents.iter().map(|(path, _)| name(path)).collect(),
        unsaved: documents
            .iter()
            .filter(|(_, document)| document.dirty)
            .map(|(path, _)| name(path))
            .collect(),
    }
}

/// The place that a user points at, as the model can name it in a call.
pub fn place(workspace: &Workspace, item: &ContextItem) -> Place {
    let path = path_of(&item.uri).map_or_else(|| exact_line(&item.uri), |path| name(workspace, &path));
    let line = |line: u32| usize::try_from(line).unwrap_or(usize::MAX).saturating_add(1);
    let lines = item.range.map(|range| {
        // A selection of whole lines ends at the begin of the next one.
        let last = if range.end.character == 0 { range.end.line.saturating_sub(1) } else { range.end.line };
        LineRange { start: line(range.start.line), end: line(last.max(range.start.line)) }
    });
    Place { path, lines }
}

/// Relative in the first root alone, as paths in calls are.
fn name(workspace: &Workspace, path: &Path) -> String {
    let inside = workspace.roots().paths().next().and_then(|root| path.strip_prefix(root).ok());
    exact_line(&inside.unwrap_or(path).to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;
    use roo_model::providers::ToolResult;
    use roo_protocol::event::ToolStatus;
    use roo_protocol::ids::ToolCallId;

    fn results(text: &str) -> Item {
        Item::Results {
            results: vec![ToolResult {
                call_id: ToolCallId::new("c"),
                name: "read_file".into(),
                subject: "a".into(),
                status: ToolStatus::Ok,
                text: text.into(),
                images: vec![],
            }],
        }
    }

    #[test]
    fn only_long_results_before_the_mark_become_stubs() {
        let long = "x".repeat(STUB_OVER + 1);
        let items = Arc::new(vec![results(&long), results("short"), results(&long)]);
        let view = view(&items, 2);
        let Item::Results { results: first } = &view[0] else { panic!() };
        assert!(first[0].text.starts_with("[Left out to save space: 401 bytes."), "{}", first[0].text);
        assert_eq!(view[1..], items[1..]);
    }

    #[test]
    fn a_conversation_that_fits_is_shared_and_not_copied() {
        let items = Arc::new(vec![results("a")]);
        assert!(Arc::ptr_eq(&view(&items, 0), &items));
    }
}
