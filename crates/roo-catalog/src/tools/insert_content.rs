//! `insert_content`: further lines in one file.

use super::prelude::*;

/// Inserts lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InsertContent {
    /// As the model wrote it.
    pub path: String,
    /// Before which 1-based line; 0 appends.
    pub line: usize,
    /// The lines.
    pub content: String,
}

impl Declaration for InsertContent {
    const SPEC: ToolSpec = ToolSpec {
        description: "Inserts lines into a file without changing any that are there.",
        parameters: &[
            required("path", Kind::Text, "The file, relative to the workspace."),
            required(
                "line",
                Kind::Integer,
                "The lines go in before this 1-based line; 0 appends at the end.",
            ),
            required("content", Kind::Verbatim, "The lines to insert."),
        ],
        example: "<insert_content>\n<path>src/main.rs</path>\n<line>1</line>\n<content>\nuse std::fmt;\n</content>\n</insert_content>",
        mistake: "To change existing lines: use apply_diff.",
        hook_names: &["Edit", "MultiEdit"],
        ..ToolSpec::new(ToolName::InsertContent, Group::Edit, Effect::Write)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        Ok(Self {
            path: reader.path("path")?,
            line: reader.integer("line")?.ok_or(reader.missing("line"))?,
            content: reader.verbatim("content")?,
        })
    }

    fn subject(&self) -> String {
        self.path.clone()
    }

    fn shown(&self) -> Shown {
        Shown::Tool(json!({
            "tool": "insertContent",
            "path": self.path,
            "lineNumber": self.line,
            "content": self.content,
        }))
    }

    fn edited_files(&self) -> Vec<&str> {
        vec![&self.path]
    }

    fn hook_inputs(&self, view: &HookView<'_>) -> Vec<HookInput> {
        let path = view.path(&self.path);
        vec![object(json!({ "file_path": path, "old_string": "", "new_string": self.content })).into()]
    }

    fn take_back(&self, change: &Rewrite<'_>, params: &mut Object) -> Result<(), RewriteError> {
        params.insert("path".to_owned(), change.path("file_path", &self.path)?.into());
        params.insert("content".to_owned(), change.text("new_string")?.into());
        change.refuse(&["old_string"])
    }

    fn hook_response(&self, view: &HookView<'_>, _text: &str, ok: bool) -> Value {
        json!({ "filePath": view.path(&self.path), "success": ok })
    }
}
