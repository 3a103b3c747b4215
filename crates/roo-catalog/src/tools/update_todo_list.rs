//! `update_todo_list`: the list of what is to be done.

use super::prelude::*;
use crate::checklist::{Checklist, status_of};
use roo_protocol::task::TodoStatus;

/// Replaces the to-do list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateTodoList {
    /// The whole list; at least one entry.
    pub items: Vec<(String, TodoStatus)>,
    /// Lines that are no entries.
    pub left_out: Vec<String>,
}

impl Declaration for UpdateTodoList {
    const SPEC: ToolSpec = ToolSpec {
        description: "Replaces the to-do list that you and the user see. Use it for work of several steps, and \
                      keep it current.",
        parameters: &[required(
            "todos",
            Kind::Text,
            "The whole list, one entry a line: `[ ]` pending, `[-]` in progress, `[x]` completed.",
        )],
        example: "<update_todo_list>\n<todos>\n[x] Find the failing test\n[-] Fix the cause\n[ ] Run all tests\n</todos>\n</update_todo_list>",
        mistake: "Only the changed entries: what is left out is gone.",
        hook_names: &["TodoWrite"],
        ..ToolSpec::new(ToolName::UpdateTodoList, Group::Always, Effect::Control)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        let list = Checklist::parameter(reader, "todos")?.ok_or(reader.missing("todos"))?;
        Ok(Self { items: list.entries, left_out: list.left_out })
    }

    fn subject(&self) -> String {
        format!("{} entries", self.items.len())
    }

    fn shown(&self) -> Shown {
        Shown::Tool(json!({ "tool": "updateTodoList" }))
    }

    fn hook_inputs(&self, _view: &HookView<'_>) -> Vec<HookInput> {
        let item = |(content, status): &(String, TodoStatus)| json!({ "content": content, "status": word(*status), "activeForm": content });
        vec![object(json!({ "todos": self.items.iter().map(item).collect::<Vec<_>>() })).into()]
    }

    fn take_back(&self, change: &Rewrite<'_>, params: &mut Object) -> Result<(), RewriteError> {
        let items = change.after.get("todos").and_then(Value::as_array);
        let line = |item: &Value| {
            let content = item.get("content")?.as_str()?;
            let status = status_of(item.get("status")?.as_str()?)?;
            let content = content.replace('\n', " ");
            Some(format!("{} {content}\n", status.mark()))
        };
        let lines = items.map(|items| items.iter().map(line).collect::<Option<String>>());
        let lines = lines.flatten().ok_or_else(|| wrong("todos", "a list of entries"))?;
        params.insert("todos".to_owned(), lines.into());
        Ok(())
    }
}

/// The contract's word for a status.
fn word(status: TodoStatus) -> &'static str {
    match status {
        TodoStatus::Pending => "pending",
        TodoStatus::InProgress => "in_progress",
        TodoStatus::Completed => "completed",
    }
}
