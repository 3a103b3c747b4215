//! `workspace_symbols`: definitions of the whole project by a part of their names.

use super::prelude::*;

/// Finds symbols of the project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceSymbols {
    /// A file of the language to search in, as the model wrote it.
    pub path: String,
    /// A part of the name.
    pub query: String,
    /// Number of lines of the result to skip.
    pub offset: usize,
}

impl Declaration for WorkspaceSymbols {
    const SPEC: ToolSpec = ToolSpec {
        description: "Finds functions, types and other symbols of the whole project by a part of their name, by the language server.",
        parameters: &[
            required("path", Kind::Text, "Any file of the project in the language to search."),
            required("query", Kind::Text, "A part of the name."),
            optional("offset", Kind::Integer, "How many results to skip; 0 when left out."),
        ],
        example: "<workspace_symbols>\n<path>src/main.rs</path>\n<query>parse_line</query>\n</workspace_symbols>",
        mistake: "A regular expression as query: use search_files for text.",
        hook_names: &["Read"],
        needs: Needs::CodeAnswers,
        ..ToolSpec::new(ToolName::WorkspaceSymbols, Group::Read, Effect::Read)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        let offset = reader.integer("offset")?.unwrap_or_default();
        Ok(Self { path: reader.path("path")?, query: reader.text("query")?, offset })
    }

    fn subject(&self) -> String {
        self.query.clone()
    }

    fn shown(&self) -> Shown {
        Shown::Tool(json!({ "tool": "workspaceSymbols", "path": self.path, "query": self.query }))
    }

    fn hook_inputs(&self, view: &HookView<'_>) -> Vec<HookInput> {
        file_hook_inputs(view, &self.path)
    }

    fn take_back(&self, change: &Rewrite<'_>, params: &mut Object) -> Result<(), RewriteError> {
        take_back_file(change, &self.path, params)
    }
}
