//! `search_files`: a regular expression below a directory.

use super::prelude::*;

/// Searches files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchFiles {
    /// As the model wrote it.
    pub path: String,
    /// Rust regex syntax.
    pub regex: String,
    /// A glob on file names.
    pub file_pattern: Option<String>,
    /// Number of matches to skip.
    pub offset: usize,
}

impl Declaration for SearchFiles {
    const SPEC: ToolSpec = ToolSpec {
        description: "Searches the files below a directory for a regular expression (Rust syntax) and returns \
                      the matches with one line of context.",
        parameters: &[
            required("path", Kind::Text, "The directory, relative to the workspace."),
            required("regex", Kind::Text, "The regular expression."),
            optional("file_pattern", Kind::Text, "A glob that file names must match, such as `*.rs`."),
            optional("offset", Kind::Integer, "How many matches to skip; 0 when left out."),
        ],
        example: "<search_files>\n<path>src</path>\n<regex>fn \\w+_handler</regex>\n<file_pattern>*.rs</file_pattern>\n</search_files>",
        mistake: "A glob as regex: `*.rs` is a file_pattern.",
        hook_names: &["Grep"],
        ..ToolSpec::new(ToolName::SearchFiles, Group::Read, Effect::Read)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        Ok(Self {
            path: reader.path("path")?,
            regex: reader.text("regex")?,
            file_pattern: reader.optional_text("file_pattern")?,
            offset: reader.integer("offset")?.unwrap_or_default(),
        })
    }

    fn subject(&self) -> String {
        match &self.file_pattern {
            Some(pattern) => format!("{} in {}/{pattern}", self.regex, self.path),
            None => format!("{} in {}", self.regex, self.path),
        }
    }

    fn shown(&self) -> Shown {
        Shown::Tool(json!({
            "tool": "searchFiles",
            "path": self.path,
            "regex": self.regex,
            "filePattern": self.file_pattern,
        }))
    }

    fn hook_inputs(&self, view: &HookView<'_>) -> Vec<HookInput> {
        let mut fields = json!({
            "pattern": self.regex,
            "path": view.path(&self.path),
            "output_mode": "content",
        });
        if let Some(glob) = &self.file_pattern {
            fields["glob"] = glob.as_str().into();
        }
        vec![object(fields).into()]
    }

    fn take_back(&self, change: &Rewrite<'_>, params: &mut Object) -> Result<(), RewriteError> {
        params.insert("regex".to_owned(), change.text("pattern")?.into());
        let path = match change.after.get("path") {
            Some(_) => change.path("path", &self.path)?,
            None => ".".to_owned(),
        };
        params.insert("path".to_owned(), path.into());
        match change.after.get("glob") {
            Some(_) => params.insert("file_pattern".to_owned(), change.text("glob")?.into()),
            None => params.remove("file_pattern"),
        };
        Ok(())
    }
}
