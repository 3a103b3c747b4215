//! `request_scope_expansion`: more files for the bound intent.

use super::prelude::*;

/// Asks for more scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestScopeExpansion {
    /// As the model wrote them; not empty.
    pub patterns: Vec<String>,
    /// For the user.
    pub reason: String,
}

impl Declaration for RequestScopeExpansion {
    const SPEC: ToolSpec = ToolSpec {
        description: "Asks the user to let your intent cover more files. Only when the goal can't be reached within \
                      its scope; the user decides.",
        parameters: &[
            required(
                "patterns",
                Kind::Text,
                "The files that are needed besides, one glob a line, relative to the workspace.",
            ),
            required("reason", Kind::Text, "Why the goal can't be reached without them, for the user."),
        ],
        example: "<request_scope_expansion>\n<patterns>tests/auth/**</patterns>\n<reason>The tests of the changed \
                  module are there.</reason>\n</request_scope_expansion>",
        mistake: "`**` because it is simpler: ask for what you need.",
        ..ToolSpec::new(ToolName::RequestScopeExpansion, Group::Intents, Effect::Intent)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        let lines = reader.text("patterns")?;
        let patterns = lines.lines().map(str::trim).filter(|line| !line.is_empty());
        Ok(Self { patterns: patterns.map(str::to_owned).collect(), reason: reader.text("reason")? })
    }

    fn subject(&self) -> String {
        self.patterns.join(", ")
    }

    fn shown(&self) -> Shown {
        Shown::Tool(json!({
            "tool": "requestScopeExpansion",
            "patterns": self.patterns,
            "reason": self.reason,
        }))
    }

    fn hook_inputs(&self, _view: &HookView<'_>) -> Vec<HookInput> {
        vec![object(json!({ "patterns": self.patterns, "reason": self.reason })).into()]
    }

    fn take_back(&self, change: &Rewrite<'_>, _params: &mut Object) -> Result<(), RewriteError> {
        // What binds a task is its own word.
        change.refuse(&["patterns", "reason"])
    }
}
