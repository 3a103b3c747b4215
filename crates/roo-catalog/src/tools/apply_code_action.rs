//! `apply_code_action`: a fix or refactoring of a language server, made in all files that it changes.

use super::code_actions::line_of;
use super::prelude::*;

/// Makes the changes of a code action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyCodeAction {
    /// As the model wrote it.
    pub path: String,
    /// Line, from 1.
    pub line: usize,
    /// Title of the action.
    pub title: String,
}

impl Declaration for ApplyCodeAction {
    const SPEC: ToolSpec = ToolSpec {
        description: "Makes the changes of one action that code_actions lists, in all files together or in none.",
        parameters: &[
            required("path", Kind::Text, "The file, relative to the workspace."),
            required("line", Kind::Integer, "The line, from 1."),
            required("title", Kind::Text, "The action's title as code_actions lists it."),
        ],
        example: "<apply_code_action>\n<path>src/parse.rs</path>\n<line>12</line>\n<title>Import `std::fmt`</title>\n</apply_code_action>",
        mistake: "A title of your own: only what code_actions lists can be applied.",
        needs: Needs::LanguageServer,
        ..ToolSpec::new(ToolName::ApplyCodeAction, Group::Edit, Effect::Write)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        Ok(Self { path: reader.path("path")?, line: line_of(reader)?, title: reader.text("title")? })
    }

    fn subject(&self) -> String {
        format!("{} in {}:{}", self.title, self.path, self.line)
    }

    fn shown(&self) -> Shown {
        Shown::Tool(json!({
            "tool": "applyCodeAction", "path": self.path, "line": self.line, "title": self.title,
        }))
    }

    fn edited_files(&self) -> Vec<&str> {
        vec![&self.path]
    }
}
