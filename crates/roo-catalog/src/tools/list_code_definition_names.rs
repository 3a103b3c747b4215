//! `list_code_definition_names`: what source files define.

use super::prelude::*;

/// Lists the definitions of a file, or of the files of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListCodeDefinitionNames {
    /// As the model wrote it.
    pub path: String,
}

impl Declaration for ListCodeDefinitionNames {
    const SPEC: ToolSpec = ToolSpec {
        description: "Lists what a file, or each file directly in a directory, defines (functions, types, headings), \
                      with line numbers for read_file.",
        parameters: &[required("path", Kind::Text, "The file or directory, relative to the workspace.")],
        example: "<list_code_definition_names>\n<path>src</path>\n</list_code_definition_names>",
        mistake: "To find where a name is used: use search_files.",
        hook_names: &["Read"],
        ..ToolSpec::new(ToolName::ListCodeDefinitionNames, Group::Read, Effect::Read)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        Ok(Self { path: reader.path("path")? })
    }

    fn subject(&self) -> String {
        self.path.clone()
    }

    fn shown(&self) -> Shown {
        Shown::Tool(json!({ "tool": "listCodeDefinitionNames", "path": self.path }))
    }

    fn hook_inputs(&self, view: &HookView<'_>) -> Vec<HookInput> {
        file_hook_inputs(view, &self.path)
    }

    fn take_back(&self, change: &Rewrite<'_>, params: &mut Object) -> Result<(), RewriteError> {
        take_back_file(change, &self.path, params)
    }
}
