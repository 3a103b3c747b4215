//! Part of a model request about the editor.

use std::collections::BTreeMap;
use std::path::Path;

use roo_model::prompts::Place;
use roo_protocol::ids::Digest;
use roo_protocol::task::ContextItem;
use roo_text::lines::LineRange;
use roo_text::render::exact_line;
use roo_workspace::{ActiveFile, FileProblems, Workspace, path_of};

/// Files open in the editor, by the names that the model uses.
pub(super) struct OpenFiles {
    /// All of it.
    pub all: Vec<String>,
    /// Files with unsaved changes.
    pub unsaved: Vec<String>,
}

/// Editor state in front of the user, as the editor reports it.
pub(super) struct EditorContext {
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
    pub(super) fn new(workspace: &Workspace, seen: &BTreeMap<String, Digest>) -> Self {
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
pub(super) fn place(workspace: &Workspace, item: &ContextItem) -> Place {
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
