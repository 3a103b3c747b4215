//! `view_diff`: what the request has changed.

use super::prelude::*;

/// Shows what the request has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewDiff {
    /// The file, as the model wrote it; none for all.
    pub path: Option<String>,
}

impl Declaration for ViewDiff {
    const SPEC: ToolSpec = ToolSpec {
        description: "Shows what this request and its branches have changed so far, as a unified diff against the files before, \
                      with or without git.",
        parameters: &[optional("path", Kind::Text, "The file, relative to the workspace; all when left out.")],
        example: "<view_diff>\n<path>src/main.rs</path>\n</view_diff>",
        mistake: "To see what the user changed before: use execute_command with git.",
        is_opt_in: true,
        ..ToolSpec::new(ToolName::ViewDiff, Group::Read, Effect::Read)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        Ok(Self { path: reader.optional_text("path")? })
    }

    fn subject(&self) -> String {
        self.path.clone().unwrap_or_else(|| ".".to_owned())
    }

    fn shown(&self) -> Shown {
        Shown::Tool(json!({ "tool": "viewDiff", "path": self.path }))
    }
}
