//! `list_files`: what a directory holds.

use super::prelude::*;

/// Lists a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListFiles {
    /// As the model wrote it.
    pub path: String,
    /// True if it goes into directories.
    pub recursive: bool,
    /// Number of entries to skip.
    pub offset: usize,
}

impl Declaration for ListFiles {
    const SPEC: ToolSpec = ToolSpec {
        description: "Lists the files and directories in a directory. Ignored files are left out.",
        parameters: &[
            required("path", Kind::Text, "The directory, relative to the workspace; `.` for its top."),
            optional("recursive", Kind::Boolean, "Whether to go into directories; false when left out."),
            optional("offset", Kind::Integer, "How many entries to skip; 0 when left out."),
        ],
        example: "<list_files>\n<path>src</path>\n<recursive>true</recursive>\n</list_files>",
        mistake: "Listing to check that a write worked: the write's own result says so.",
        hook_names: &["LS", "Glob"],
        ..ToolSpec::new(ToolName::ListFiles, Group::Read, Effect::Read)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        Ok(Self {
            path: reader.path("path")?,
            recursive: reader.boolean("recursive")?.unwrap_or(false),
            offset: reader.integer("offset")?.unwrap_or_default(),
        })
    }

    fn subject(&self) -> String {
        self.path.clone()
    }

    fn shown(&self) -> Shown {
        Shown::Tool(json!({
            "tool": if self.recursive { "listFilesRecursive" } else { "listFilesTopLevel" },
            "path": self.path,
        }))
    }

    fn hook_inputs(&self, view: &HookView<'_>) -> Vec<HookInput> {
        let pattern = if self.recursive { "**/*" } else { "*" };
        vec![object(json!({ "path": view.path(&self.path), "pattern": pattern })).into()]
    }

    fn take_back(&self, change: &Rewrite<'_>, params: &mut Object) -> Result<(), RewriteError> {
        params.insert("path".to_owned(), change.path("path", &self.path)?.into());
        if change.differs("pattern") {
            let recursive = match change.text("pattern")?.as_str() {
                "*" => false,
                "**/*" | "**" => true,
                _ => {
                    return Err(RewriteError("a listing has no pattern that could be changed".to_owned()));
                }
            };
            params.insert("recursive".to_owned(), recursive.into());
        }
        Ok(())
    }
}
