//! Tool calls as the protocol shows them: kind, title, place, content.

use std::path::{Path, PathBuf};

use agent_client_protocol::v1::schema::{
    Content, ContentBlock, Diff, Meta, TextContent, ToolCallContent, ToolCallLocation, ToolKind,
};
use roo_catalog::{Effect, Group, ToolName};
use roo_protocol::checkpoint::FileDiff;
use roo_protocol::task::FilePreview;
use roo_text::render::one_line;
use roo_workspace::path_of;
use serde_json::{Value, json};

use crate::markdown;

/// The longest title, in characters.
const TITLE: usize = 200;

/// Returns whether a call is told by what it does: a plan, a question, the end of a task. It is shown as a call only where it
/// fails.
pub(super) fn is_quiet(name: &str) -> bool {
    use ToolName::{AskFollowupQuestion, AttemptCompletion, CompleteWithFailure, UpdateTodoList};
    let quiet = [AskFollowupQuestion, AttemptCompletion, CompleteWithFailure, UpdateTodoList];
    ToolName::parse(name).is_some_and(|tool| quiet.contains(&tool))
}

/// The name of the tool of a call by Roo Code's description of it.
pub(super) fn name_of(described: &str) -> String {
    let known = match described {
        "appliedDiff" => ToolName::ApplyDiff,
        "editedExistingFile" => ToolName::WriteToFile,
        "finishTask" => ToolName::AttemptCompletion,
        "listFilesTopLevel" | "listFilesRecursive" => ToolName::ListFiles,
        _ => {
            let mut name = String::with_capacity(described.len() + 4);
            for c in described.chars() {
                if c.is_ascii_uppercase() {
                    name.push('_');
                }
                name.push(c.to_ascii_lowercase());
            }
            return name;
        }
    };
    known.as_str().to_owned()
}

/// Kind of a call.
pub(super) fn kind(name: &str) -> ToolKind {
    let Some(tool) = ToolName::parse(name) else { return ToolKind::Other };
    match (tool, tool.spec().effect, tool.spec().group) {
        (ToolName::UpdateTodoList, ..) | (_, Effect::Intent, _) => ToolKind::Think,
        (ToolName::SwitchMode, ..) => ToolKind::SwitchMode,
        (ToolName::AccessMcpResource | ToolName::BrowserAction, ..) => ToolKind::Fetch,
        (ToolName::ReadFile, ..) => ToolKind::Read,
        (ToolName::GenerateImage, ..) | (_, Effect::Write, _) => ToolKind::Edit,
        (_, _, Group::Command) => ToolKind::Execute,
        (_, Effect::Read, Group::Read | Group::Mcp) => ToolKind::Search,
        (_, Effect::Read, _) => ToolKind::Read,
        _ => ToolKind::Other,
    }
}

/// What a tool does, as the beginning of a title.
fn verb(tool: ToolName) -> String {
    let verb = match tool {
        ToolName::ReadFile => "Read",
        ToolName::WriteToFile => "Write",
        ToolName::ApplyDiff
        | ToolName::SearchAndReplace
        | ToolName::EditFile
        | ToolName::InsertContent
        | ToolName::ApplyPatch => "Edit",
        ToolName::ListFiles => "List",
        ToolName::SearchFiles | ToolName::CodebaseSearch => "Search",
        ToolName::ExecuteCommand => "Run",
        ToolName::BrowserAction => "Browse",
        ToolName::NewTask => "Delegate",
        ToolName::AskFollowupQuestion => "Ask",
        ToolName::AttemptCompletion | ToolName::CompleteWithFailure => "End the task",
        ToolName::UseMcpTool | ToolName::AccessMcpResource => tool.as_str(),
        // The names of the others say it: `find_references`.
        _ => {
            let mut words = tool.as_str().replace('_', " ");
            words[..1].make_ascii_uppercase();
            return words;
        }
    };
    verb.to_owned()
}

/// Title of a call. `branch` is the name of the branch that makes it.
pub(super) fn title(name: &str, subject: &str, branch: Option<&str>) -> String {
    let verb = ToolName::parse(name).map_or_else(|| name.to_owned(), verb);
    let title = match subject.trim() {
        "" => verb,
        subject => format!("{verb}: {subject}"),
    };
    let title = match branch {
        Some(branch) => format!("{branch} › {title}"),
        None => title,
    };
    markdown::without_images(&one_line(&title, TITLE))
}

/// What the protocol has no field for.
pub(super) fn meta(fields: Value) -> Meta {
    let mut meta = Meta::new();
    meta.insert("roo".to_owned(), fields);
    meta
}

/// A text as content of a call, which clients show as Markdown.
pub(super) fn text(text: &str) -> ToolCallContent {
    let text = markdown::inert(text);
    ToolCallContent::Content(Content::new(ContentBlock::Text(TextContent::new(text))))
}

/// The end of what a command has printed, and what came of it.
pub(super) fn output(lines: &[String], summary: Option<&str>) -> Vec<ToolCallContent> {
    let mut content = Vec::new();
    if !lines.is_empty() {
        content.push(text(&markdown::fenced("", &lines.join("\n"))));
    }
    content.extend(summary.filter(|summary| !summary.is_empty()).map(text));
    content
}

/// A place in the workspace folder, or elsewhere.
pub(super) fn location(folder: &Path, path: &str) -> ToolCallLocation {
    ToolCallLocation::new(folder.join(path))
}

/// The files of an edit that waits for permission.
pub(super) fn previews(files: Vec<FilePreview>) -> Vec<ToolCallContent> {
    let preview = |file: FilePreview| {
        let path = path_of(&file.uri).unwrap_or_else(|| PathBuf::from(&file.uri));
        let moved_to = file.moved_to.as_deref();
        diff(Diff::new(path, file.after).old_text(file.before), file.deleted, moved_to)
    };
    files.into_iter().map(preview).collect()
}

/// The files that a call has changed.
pub(super) fn diffs(files: Vec<FileDiff>) -> Vec<ToolCallContent> {
    let changed = |file: FileDiff| {
        let path = path_of(&file.uri).unwrap_or_else(|| PathBuf::from(&file.path));
        let deleted = file.after.is_none();
        diff(Diff::new(path, file.after.unwrap_or_default()).old_text(file.before), deleted, None)
    };
    files.into_iter().map(changed).collect()
}

/// A change of a file, and what a diff can't say of it.
fn diff(diff: Diff, deleted: bool, moved_to: Option<&str>) -> ToolCallContent {
    let mut fields = json!({});
    if deleted {
        fields["deleted"] = true.into();
    }
    if let Some(to) = moved_to {
        fields["movedTo"] = to.into();
    }
    let is_plain = fields.as_object().is_none_or(|fields| fields.is_empty());
    ToolCallContent::Diff(if is_plain { diff } else { diff.meta(meta(fields)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_says_what_is_done_and_by_which_branch() {
        assert_eq!(title("read_file", "src/a.rs", None), "Read: src/a.rs");
        assert_eq!(
            title("execute_command", "cargo\ntest", Some("🪲 Find it")),
            "🪲 Find it › Run: cargo ⏎ test"
        );
        assert_eq!(title("db/query", "", None), "db/query");
    }

    #[test]
    fn a_tool_is_known_by_its_description() {
        for (described, name) in [
            ("finishTask", "attempt_completion"),
            ("askFollowupQuestion", "ask_followup_question"),
            ("updateTodoList", "update_todo_list"),
            ("newTask", "new_task"),
            ("listFilesRecursive", "list_files"),
            ("db/query", "db/query"),
        ] {
            assert_eq!(name_of(described), name);
        }
    }

    #[test]
    fn a_tool_of_a_server_is_of_no_kind_that_is_known() {
        assert_eq!((kind("db/query"), kind("apply_patch")), (ToolKind::Other, ToolKind::Edit));
        assert!(is_quiet("attempt_completion") && !is_quiet("new_task") && !is_quiet("db/query"));
    }
}
