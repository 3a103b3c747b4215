//! Part of a model request about the editor.

use std::collections::BTreeMap;
use std::path::Path;

use roo_model::prompts::Place;
use roo_protocol::editor::Severity;
use roo_protocol::ids::Digest;
use roo_protocol::task::ContextItem;
use roo_sandbox::exec::redaction::TextMask;
use roo_text::lines::LineRange;
use roo_text::render::{exact_line, one_line};
use roo_workspace::{ActiveFile, Diagnostic, FileProblems, Workspace, path_of};

/// The most errors that are told in words.
const ERRORS: usize = 10;
/// The longest of them, in characters.
const ERROR: usize = 300;

/// Files open in the editor, by the names that the model uses.
pub(super) struct OpenFiles {
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
    /// Problems, by file, with the first errors of those that the task has seen.
    pub problems: Vec<(FileProblems, Vec<String>)>,
    /// Open files that are no longer what a task has seen.
    pub changed: Vec<String>,
}

impl EditorContext {
    /// The context as it is now, for a task that has seen this. Looks at the disk. `mask` reads it too, so it is called
    /// only where there is something to be masked.
    pub(super) fn new(
        workspace: &Workspace,
        seen: &BTreeMap<String, Digest>,
        mask: impl FnOnce() -> TextMask,
    ) -> Self {
        Self {
            open: open_files(workspace),
            active: workspace.active_file(),
            problems: problems(workspace, seen, mask),
            changed: workspace.changed_since(seen),
        }
    }
}

/// The problems of all files; the first errors in words where they are about what the task works on.
fn problems(
    workspace: &Workspace,
    seen: &BTreeMap<String, Digest>,
    mask: impl FnOnce() -> TextMask,
) -> Vec<(FileProblems, Vec<String>)> {
    let files = workspace.problems();
    // Before every request, so nothing more is read where there is nothing to tell.
    if !files.iter().any(|file| file.errors > 0 && seen.contains_key(&file.path)) {
        return files.into_iter().map(|file| (file, vec![])).collect();
    }
    let mut errors = workspace.diagnostics().unwrap_or_default();
    errors.retain(|found| found.severity == Severity::Error && seen.contains_key(&found.path));
    errors.truncate(ERRORS);
    let mask = mask();
    let message = |error: &Diagnostic| {
        let text = one_line(&error.message, ERROR);
        let text = mask.masked(&text).unwrap_or(text);
        format!("{}:{} {text}", error.line, error.column)
    };
    let with_errors = |file: FileProblems| {
        let of_file = errors.iter().filter(|error| error.path == file.path);
        let messages = of_file.map(message).collect();
        (file, messages)
    };
    files.into_iter().map(with_errors).collect()
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
        // A selection of whole lines ends at the beginning of the next one.
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
    use std::fs;
    use std::sync::Arc;

    use roo_protocol::editor::{EditorDiagnostic, EditorDiagnosticsParams};
    use roo_protocol::task::{Position, Range};
    use roo_text::position::Encoding;
    use roo_workspace::{Setup, file_uri};

    use super::*;

    #[test]
    fn errors_are_told_in_words_where_the_task_has_looked_and_without_secrets() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("w");
        fs::create_dir(&root).unwrap();
        for name in ["seen.rs", "other.rs"] {
            fs::write(root.join(name), "").unwrap();
        }
        let workspace = Workspace::open(Setup {
            folders: vec![root.clone()],
            state_directory: directory.path().join("state"),
            documents: Arc::default(),
            editor: None,
            encoding: Encoding::Utf16,
        });
        let workspace = workspace.unwrap();
        let seen = BTreeMap::from([("seen.rs".to_owned(), Digest::of(""))]);
        let key = format!("AKIA{}", "Q3EGR4WSTX5Z7UVB");
        let told = |mask: fn() -> TextMask| problems(&workspace, &seen, mask);
        assert_eq!(told(|| unreachable!("there is nothing to be masked")), []);

        let start = Position { line: 2, character: 4 };
        let wrong = |severity, message: &str| EditorDiagnostic {
            range: Range { start, end: start },
            severity,
            source: None,
            message: message.to_owned(),
        };
        for name in ["seen.rs", "other.rs"] {
            let diagnostics = vec![
                wrong(Severity::Error, &format!("no such\nname: {key}")),
                wrong(Severity::Warning, "unused"),
            ];
            let params = EditorDiagnosticsParams { uri: file_uri(&root.join(name)), diagnostics };
            workspace.documents().set_diagnostics(params, Encoding::Utf16);
        }
        let counted = |path: &str| FileProblems { path: path.to_owned(), errors: 1, warnings: 1 };
        let expected = [
            (counted("other.rs"), vec![]),
            (counted("seen.rs"), vec!["3:5 no such ⏎ name: [masked: AWS access key]".to_owned()]),
        ];
        assert_eq!(told(|| TextMask::new(true, Default::default)), expected);
    }
}
