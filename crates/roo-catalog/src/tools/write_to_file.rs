//! `write_to_file`: the whole text of one file.

use super::prelude::*;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteToFile {
    /// As the model wrote it.
    pub path: String,
    /// The whole text.
    pub content: String,
}

impl Declaration for WriteToFile {
    const SPEC: ToolSpec = ToolSpec {
        description: "Writes a whole file: creates it, with the directories it needs, or replaces all of its \
                      text. An existing file must have been read before.",
        parameters: &[
            required("path", Kind::Text, "The file, relative to the workspace."),
            required(
                "content",
                Kind::WholeFile,
                "The complete text of the file. Nothing may be left out or abbreviated.",
            ),
        ],
        legacy_parameters: &["line_count"],
        example: "<write_to_file>\n<path>src/greeting.txt</path>\n<content>\nHello.\nGood morning.\n</content>\n</write_to_file>",
        mistake: "Content with a placeholder such as \"rest of the file unchanged\": the file would hold just that.",
        aliases: &["write_file"],
        is_in_every_mode: true,
        hook_names: &["Write"],
        ..ToolSpec::new(ToolName::WriteToFile, Group::Edit, Effect::Write)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        let content = reader.verbatim("content")?;
        Ok(Self { path: reader.path("path")?, content: unwrap_code_fence(content) })
    }

    fn subject(&self) -> String {
        self.path.clone()
    }

    fn shown(&self) -> Shown {
        Shown::Tool(json!({ "tool": "editedExistingFile", "path": self.path }))
    }

    fn edited_files(&self) -> Vec<&str> {
        vec![&self.path]
    }

    fn hook_inputs(&self, view: &HookView<'_>) -> Vec<HookInput> {
        vec![object(json!({ "file_path": view.path(&self.path), "content": self.content })).into()]
    }

    fn take_back(&self, change: &Rewrite<'_>, params: &mut Object) -> Result<(), RewriteError> {
        params.insert("path".to_owned(), change.path("file_path", &self.path)?.into());
        params.insert("content".to_owned(), change.text("content")?.into());
        Ok(())
    }

    fn hook_response(&self, view: &HookView<'_>, _text: &str, ok: bool) -> Value {
        json!({ "filePath": view.path(&self.path), "success": ok })
    }
}

/// Drops a code fence around the whole text, which some models put there.
fn unwrap_code_fence(content: String) -> String {
    let inner = content.strip_prefix("```").and_then(|rest| {
        let (_, body) = rest.split_once('\n')?;
        let body = body.strip_suffix("```").or_else(|| body.strip_suffix("```\n"))?;
        // A file that merely begins with a fence has more of them inside.
        (!body.contains("\n```") && (body.is_empty() || body.ends_with('\n'))).then(|| body.to_owned())
    });
    inner.unwrap_or(content)
}
