//! `new_task`: a subtask for another mode.

use super::prelude::*;
use crate::checklist::Checklist;
use roo_protocol::task::TodoStatus;

/// Delegates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTask {
    /// The slug of the mode that does the subtask.
    pub mode: String,
    /// The brief, as the model wrote it.
    pub message: String,
    /// The subtask's first to-do list.
    pub todos: Vec<(String, TodoStatus)>,
}

impl Declaration for NewTask {
    const SPEC: ToolSpec = ToolSpec {
        description: "Delegates a subtask to another mode and waits for its result. The subtask starts with nothing \
                      but your message: say all that it needs. Several calls at the end of one answer run at the \
                      same time; their results come back together, in the order of the calls.",
        parameters: &[
            required("mode", Kind::Text, "The slug of the mode that does the subtask."),
            required("message", Kind::Verbatim, "The brief, in the structure that your instructions show."),
            optional("todos", Kind::Text, "The subtask's first to-do list, one entry a line: `[ ] entry`."),
        ],
        example: "<new_task>\n<mode>debug</mode>\n<message>\n🪲 Find why the login test fails\n\n\
                  URID: <the URID of your request>\n\nThe test login_rejects_old_token fails since the clock was made \
                  injectable. Find the cause and repair it.\n\nReturn the cause, the repair and the output of the \
                  test.\n</message>\n</new_task>",
        mistake: "\"Go on with what we discussed\": the subtask knows nothing of this conversation.",
        needs: Needs::DelegationTarget,
        hook_names: &["Agent", "Task"],
        ..ToolSpec::new(ToolName::NewTask, Group::Delegation, Effect::Control)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        Ok(Self {
            mode: reader.text("mode")?,
            message: reader.verbatim("message")?,
            todos: Checklist::parameter(reader, "todos")?.unwrap_or_default().entries,
        })
    }

    fn subject(&self) -> String {
        format!("{}: {}", self.mode, self.message.lines().next().unwrap_or_default().trim())
    }

    fn shown(&self) -> Shown {
        Shown::Tool(json!({ "tool": "newTask", "mode": self.mode, "content": self.message }))
    }

    fn hook_inputs(&self, _view: &HookView<'_>) -> Vec<HookInput> {
        let first = self.message.lines().find(|line| !line.trim().is_empty());
        let fields = json!({
            "prompt": self.message,
            "description": first.unwrap_or_default().trim(),
            "subagent_type": self.mode,
        });
        vec![object(fields).into()]
    }

    fn take_back(&self, change: &Rewrite<'_>, params: &mut Object) -> Result<(), RewriteError> {
        params.insert("message".to_owned(), change.text("prompt")?.into());
        params.insert("mode".to_owned(), change.text("subagent_type")?.into());
        Ok(())
    }
}
