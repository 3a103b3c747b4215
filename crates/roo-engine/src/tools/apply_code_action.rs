//! `apply_code_action`.

use std::collections::BTreeMap;

use super::code_edit::CodeEdit;
use super::code_question::About;
use crate::policy::{CheckedCall, Gate, Preview, Refusal, Tool, ToolCallContext};
use roo_catalog::{ApplyCodeAction, ToolName};
use roo_language_servers::Question;
use roo_protocol::ids::Digest;

fn edit(call: &ApplyCodeAction) -> CodeEdit<'_> {
    CodeEdit {
        tool: ToolName::ApplyCodeAction,
        question: Question::Action(call.title.clone()),
        path: &call.path,
        about: About::Line(call.line),
    }
}

impl Tool for ApplyCodeAction {
    async fn judge(self, gate: &Gate, call_context: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        edit(&self).judge(gate, call_context).await
    }

    async fn preview(self, gate: &Gate, _: &BTreeMap<String, Digest>) -> Option<Vec<Preview>> {
        edit(&self).preview(gate).await
    }
}
