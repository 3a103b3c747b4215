//! `search_and_replace`: every occurrence of a text in one file.

use super::prelude::*;
use roo_text::edit::{Occurrences, Replacement};

/// Replaces a text; also Roo's later `edit` and `search_replace`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchAndReplace {
    /// As the model wrote it.
    pub path: String,
    /// Change of the file's text.
    pub replacement: Replacement,
}

impl Declaration for SearchAndReplace {
    const SPEC: ToolSpec = ToolSpec {
        description: "Replaces every occurrence of a text, or of a regular expression, in one file, optionally \
                      within a range of lines.",
        parameters: &[
            required("path", Kind::Text, "The file, relative to the workspace."),
            required(
                "search",
                Kind::Verbatim,
                "The text to find, or the regular expression when use_regex is true.",
            ),
            required(
                "replace",
                Kind::Verbatim,
                "The text to put in its place. With use_regex, $1 or ${name} stand for groups.",
            ),
            optional("start_line", Kind::Integer, "First line to look at, 1-based."),
            optional("end_line", Kind::Integer, "Last line to look at, included."),
            optional(
                "use_regex",
                Kind::Boolean,
                "Whether search is a regular expression; false when left out.",
            ),
            optional(
                "ignore_case",
                Kind::Boolean,
                "Whether upper and lower case are the same; false when left out.",
            ),
        ],
        legacy_parameters: &["file_path", "old_string", "new_string", "replace_all"],
        example: "<search_and_replace>\n<path>src/config.rs</path>\n<search>old_name</search>\n<replace>new_name</replace>\n</search_and_replace>",
        mistake: "A regular expression without use_regex: it is then looked for as plain text.",
        aliases: &["edit", "search_replace"],
        legacy_verbatim: &["old_string", "new_string"],
        hook_names: &["Edit", "MultiEdit"],
        ..ToolSpec::new(ToolName::SearchAndReplace, Group::Edit, Effect::Write)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        // Roo's later tools of this kind name their parameters otherwise and want one occurrence.
        let (path, search, replace, occurrences) = if reader.get("old_string").is_some() {
            let all = reader.boolean("replace_all")?.unwrap_or(false);
            (
                reader.path(if reader.get("file_path").is_some() { "file_path" } else { "path" })?,
                reader.verbatim("old_string")?,
                reader.verbatim("new_string")?,
                if all { Occurrences::All } else { Occurrences::One },
            )
        } else {
            (reader.path("path")?, reader.verbatim("search")?, reader.verbatim("replace")?, Occurrences::All)
        };
        if search.is_empty() {
            return Err(reader.bad("search", "it is empty"));
        }
        Ok(Self {
            path,
            replacement: Replacement {
                search,
                replace,
                range: reader.range("start_line", reader.integer("start_line")?, reader.integer("end_line")?)?,
                use_regex: reader.boolean("use_regex")?.unwrap_or(false),
                ignore_case: reader.boolean("ignore_case")?.unwrap_or(false),
                occurrences,
            },
        })
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
            "replace_all": self.replacement.occurrences == Occurrences::All,
        });
        vec![object(fields).into()]
    }

    fn take_back(&self, change: &Rewrite<'_>, params: &mut Object) -> Result<(), RewriteError> {
        let (old, new) = match params.contains_key("old_string") {
            true => ("old_string", "new_string"),
            false => ("search", "replace"),
        };
        let path = match params.contains_key("file_path") {
            true => "file_path",
            false => "path",
        };
        params.insert(path.to_owned(), change.path("file_path", &self.path)?.into());
        params.insert(old.to_owned(), change.text("old_string")?.into());
        params.insert(new.to_owned(), change.text("new_string")?.into());
        change.refuse(&["replace_all"])
    }

    fn hook_response(&self, view: &HookView<'_>, _text: &str, ok: bool) -> Value {
        json!({ "filePath": view.path(&self.path), "success": ok })
    }
}
