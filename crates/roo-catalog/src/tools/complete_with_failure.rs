//! `complete_with_failure`: the end of a task without its goal.

use super::prelude::*;

/// Gives the task up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompleteWithFailure {
    /// Obstacle that the task could not overcome.
    pub reason: String,
}

impl Declaration for CompleteWithFailure {
    const SPEC: ToolSpec = ToolSpec {
        description: "Ends the task without its goal, when it can't be reached or three attempts have failed.",
        parameters: &[required(
            "reason",
            Kind::Text,
            "What was tried, what stands in the way, and what is left as it was.",
        )],
        legacy_parameters: &["result"],
        example: "<complete_with_failure>\n<reason>\nThe test needs a network service that is not reachable; nothing was changed.\n\
                  </reason>\n</complete_with_failure>",
        mistake: "After the first small error: try another way first.",
        precedes_intent: true,
        ..ToolSpec::new(ToolName::CompleteWithFailure, Group::Always, Effect::Control)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        Ok(Self { reason: reader.first_text(&["reason", "result"])? })
    }

    fn subject(&self) -> String {
        // It works on nothing: what it says is its result.
        String::new()
    }

    fn shown(&self) -> Shown {
        Shown::Tool(json!({ "tool": "finishTask" }))
    }
}
