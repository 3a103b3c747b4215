//! `search_files`: a regular expression in a file, or in those below a directory.

use super::prelude::*;

/// Searches files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchFiles {
    /// As the model wrote it.
    pub path: String,
    /// Rust regex syntax.
    pub regex: String,
    /// Globs on file names.
    pub file_pattern: Option<String>,
    /// Number of matches to skip.
    pub offset: usize,
}

impl Declaration for SearchFiles {
    const SPEC: ToolSpec = ToolSpec {
        description: "Searches a file, or the files below a directory, for a regular expression (Rust syntax) and returns \
                      the matches with one line of context.",
        parameters: &[
            required("path", Kind::Text, "The file or directory, relative to the workspace."),
            required("regex", Kind::Text, "The regular expression."),
            optional(
                "file_pattern",
                Kind::Text,
                "Globs that file names must match, such as `*.rs` or `*.ts,*.tsx`; `!*.md` leaves files out.",
            ),
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
            regex: regex(reader)?,
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

/// The expression as it was sent, whose blanks count. Line breaks around it are no part of it, as it is for single lines.
fn regex(reader: &Reader<'_>) -> Result<String, InvalidCall> {
    let regex = reader.verbatim("regex")?;
    match regex.trim_matches(['\n', '\r']) {
        "" => Err(reader.missing("regex")),
        regex => Ok(regex.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_of_an_expression_count() {
        let regex = |regex: &str| {
            let params = json!({ "path": ".", "regex": regex });
            let params = params.as_object().unwrap();
            SearchFiles::parse(&Reader { tool: ToolName::SearchFiles, params }).map(|call| call.regex)
        };
        assert_eq!(regex("\n return 2 \n"), Ok(" return 2 ".to_owned()));
        assert_eq!(regex(" "), Ok(" ".to_owned()));
        assert!(regex("").is_err() && regex("\n").is_err());
    }
}
