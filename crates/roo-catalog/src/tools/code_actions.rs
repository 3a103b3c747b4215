//! `code_actions`: fixes and refactorings that a language server offers for a line.

use super::prelude::*;

/// Lists what a language server offers to do about a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeActions {
    /// As the model wrote it.
    pub path: String,
    /// Line, from 1.
    pub line: usize,
}

/// Reads the parameter that names a line.
pub(super) fn line_of(reader: &Reader<'_>) -> Result<usize, InvalidCall> {
    match reader.integer("line")?.ok_or(reader.missing("line"))? {
        0 => Err(reader.bad("line", "lines are numbered from 1")),
        line => Ok(line),
    }
}

impl Declaration for CodeActions {
    const SPEC: ToolSpec = ToolSpec {
        description: "Lists the fixes and refactorings that the language server offers for a line; apply_code_action makes one.",
        parameters: &[
            required("path", Kind::Text, "The file, relative to the workspace."),
            required("line", Kind::Integer, "The line, from 1."),
        ],
        example: "<code_actions>\n<path>src/parse.rs</path>\n<line>12</line>\n</code_actions>",
        mistake: "A line without a problem, to have one fixed: diagnostics tells the lines.",
        hook_names: &["Read"],
        needs: Needs::LanguageServer,
        ..ToolSpec::new(ToolName::CodeActions, Group::Read, Effect::Read)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        Ok(Self { path: reader.path("path")?, line: line_of(reader)? })
    }

    fn subject(&self) -> String {
        format!("{}:{}", self.path, self.line)
    }

    fn shown(&self) -> Shown {
        Shown::Tool(json!({ "tool": "codeActions", "path": self.path, "line": self.line }))
    }

    fn hook_inputs(&self, view: &HookView<'_>) -> Vec<HookInput> {
        file_hook_inputs(view, &self.path)
    }

    fn take_back(&self, change: &Rewrite<'_>, params: &mut Object) -> Result<(), RewriteError> {
        take_back_file(change, &self.path, params)
    }
}
