//! `code_actions`.

use super::code_question::{self, About};
use crate::policy::{CheckedCall, Gate, Refusal, Tool, ToolCallContext};
use roo_catalog::CodeActions;
use roo_language_servers::Question;

impl Tool for CodeActions {
    async fn judge(self, gate: &Gate, call_context: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        code_question::judge(gate, call_context, Question::Actions, (&self.path, About::Line(self.line)), 0)
    }
}
