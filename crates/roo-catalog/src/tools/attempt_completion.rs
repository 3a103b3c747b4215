//! `attempt_completion`: the end of a task, with its result.

use super::prelude::*;

/// Ends the task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptCompletion {
    /// Result for the user.
    pub result: String,
}

impl Declaration for AttemptCompletion {
    const SPEC: ToolSpec = ToolSpec {
        description: "Ends the task with its result. Only when every earlier call of it has succeeded and its \
                      effect is confirmed.",
        parameters: &[required(
            "result",
            Kind::Text,
            "What was achieved, final and without a question at the end.",
        )],
        legacy_parameters: &["command"],
        example: "<attempt_completion>\n<result>\nThe off-by-one in the page counter is fixed; all 14 tests pass.\n</result>\n</attempt_completion>",
        mistake: "Together with a call whose outcome is not known yet.",
        precedes_intent: true,
        ..ToolSpec::new(ToolName::AttemptCompletion, Group::Always, Effect::Control)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        Ok(Self { result: reader.text("result")? })
    }

    fn subject(&self) -> String {
        // It works on nothing: what it says is its result.
        String::new()
    }

    fn shown(&self) -> Shown {
        Shown::Tool(json!({ "tool": "finishTask" }))
    }
}
