//! `diagnostics`: what a language server finds wrong in a file.

use super::prelude::*;

/// Tells the problems of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostics {
    /// As the model wrote it.
    pub path: String,
    /// Number of lines of the result to skip.
    pub offset: usize,
}

impl Declaration for Diagnostics {
    const SPEC: ToolSpec = ToolSpec {
        description: "Returns the errors and warnings of a file by its language server, unsaved text included. New ones come \
                      with the result of each edit, so ask only about files that you have not changed.",
        parameters: &[
            required("path", Kind::Text, "The file, relative to the workspace."),
            optional("offset", Kind::Integer, "How many results to skip; 0 when left out."),
        ],
        example: "<diagnostics>\n<path>src/parse.rs</path>\n</diagnostics>",
        mistake: "To build or test the project: use execute_command.",
        hook_names: &["Read"],
        needs: Needs::CodeAnswers,
        repetition: Repetition::New,
        ..ToolSpec::new(ToolName::Diagnostics, Group::Read, Effect::Read)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        let offset = reader.integer("offset")?.unwrap_or_default();
        Ok(Self { path: reader.path("path")?, offset })
    }

    fn subject(&self) -> String {
        self.path.clone()
    }

    fn shown(&self) -> Shown {
        Shown::Tool(json!({ "tool": "diagnostics", "path": self.path }))
    }

    fn hook_inputs(&self, view: &HookView<'_>) -> Vec<HookInput> {
        file_hook_inputs(view, &self.path)
    }

    fn take_back(&self, change: &Rewrite<'_>, params: &mut Object) -> Result<(), RewriteError> {
        take_back_file(change, &self.path, params)
    }
}
