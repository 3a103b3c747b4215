//! `select_active_intent`: the intent that a task works for.

use super::prelude::*;

/// Binds an intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectActiveIntent {
    /// As the model wrote it.
    pub intent_id: String,
}

impl Declaration for SelectActiveIntent {
    const SPEC: ToolSpec = ToolSpec {
        description: "Binds this task to one of the workspace's intents, and returns its scope, constraints and \
                      acceptance criteria. Until you have done so, nothing can be changed or run here; after it, \
                      only what the scope covers.",
        parameters: &[required("intent_id", Kind::Text, "The intent's id.")],
        example: "<select_active_intent>\n<intent_id>INT-001</intent_id>\n</select_active_intent>",
        mistake: "An id that you made up: cite one of those that you were told.",
        precedes_intent: true,
        ..ToolSpec::new(ToolName::SelectActiveIntent, Group::Intents, Effect::Intent)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        Ok(Self { intent_id: reader.text("intent_id")? })
    }

    fn subject(&self) -> String {
        self.intent_id.clone()
    }

    fn shown(&self) -> Shown {
        Shown::Tool(json!({ "tool": "selectActiveIntent", "intentId": self.intent_id }))
    }

    fn hook_inputs(&self, _view: &HookView<'_>) -> Vec<HookInput> {
        vec![object(json!({ "intent_id": self.intent_id })).into()]
    }

    fn take_back(&self, change: &Rewrite<'_>, _params: &mut Object) -> Result<(), RewriteError> {
        // What binds a task is its own word.
        change.refuse(&["intent_id"])
    }
}
