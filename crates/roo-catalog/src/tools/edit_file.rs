//! `edit_file`: a text replaced a known number of times, or a new file.

use super::prelude::*;
use roo_text::expected_edit::ExpectedReplacement;

/// Replaces a text, or creates a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditFile {
    /// As the model wrote it.
    pub path: String,
    /// Change of the file's text. A search for nothing creates the file.
    pub replacement: ExpectedReplacement,
}

impl Declaration for EditFile {
    const SPEC: ToolSpec = ToolSpec {
        description: "Replaces a text in a file, or creates a file where old_string is empty. White space of old_string may \
                      differ; it must fit in exactly as many places as you expect.",
        parameters: &[
            required("file_path", Kind::Text, "The file, relative to the workspace."),
            required("old_string", Kind::Verbatim, "The text to replace, with a few lines around it; empty to create a file."),
            required("new_string", Kind::Verbatim, "The text to put in its place."),
            optional("expected_replacements", Kind::Integer, "In how many places; 1 when left out."),
        ],
        legacy_parameters: &["path"],
        example: "<edit_file>\n<file_path>src/config.rs</file_path>\n<old_string>let limit = 10;</old_string>\n<new_string>let limit = 20;</new_string>\n</edit_file>",
        mistake: "An old_string that occurs in more places than expected_replacements says.",
        is_opt_in: true,
        hook_names: &["Edit", "MultiEdit"],
        ..ToolSpec::new(ToolName::EditFile, Group::Edit, Effect::Write)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        let path = reader.path(if reader.get("file_path").is_some() { "file_path" } else { "path" })?;
        let count = reader.integer("expected_replacements")?.unwrap_or(1);
        if count == 0 {
            return Err(reader.bad("expected_replacements", "at least one place is replaced"));
        }
        let (search, replace) = (reader.verbatim("old_string")?, reader.verbatim("new_string")?);
        if search == replace {
            return Err(reader.bad("new_string", "it is the same as old_string"));
        }
        Ok(Self { path, replacement: ExpectedReplacement { search, replace, count } })
    }

    fn subject(&self) -> String {
        self.path.clone()
    }

    fn shown(&self) -> Shown {
        Shown::Tool(json!({
            "tool": "searchAndReplace",
            "path": self.path,
            "search": self.replacement.search,
            "replace": self.replacement.replace,
        }))
    }

    fn edited_files(&self) -> Vec<&str> {
        vec![&self.path]
    }

    fn hook_inputs(&self, view: &HookView<'_>) -> Vec<HookInput> {
        let fields = json!({
            "file_path": view.path(&self.path),
            "old_string": self.replacement.search,
            "new_string": self.replacement.replace,
            "replace_all": self.replacement.count > 1,
        });
        vec![object(fields).into()]
    }

    fn take_back(&self, change: &Rewrite<'_>, params: &mut Object) -> Result<(), RewriteError> {
        params.remove("path");
        params.insert("file_path".to_owned(), change.path("file_path", &self.path)?.into());
        params.insert("old_string".to_owned(), change.text("old_string")?.into());
        params.insert("new_string".to_owned(), change.text("new_string")?.into());
        change.refuse(&["replace_all"])
    }

    fn hook_response(&self, view: &HookView<'_>, _text: &str, ok: bool) -> Value {
        json!({ "filePath": view.path(&self.path), "success": ok })
    }
}
