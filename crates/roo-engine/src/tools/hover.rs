//! `hover`.

use super::code_question;
use crate::policy::{CheckedCall, Gate, Refusal, Tool, ToolCallContext};
use roo_catalog::Hover;
use roo_language_servers::Question;

impl Tool for Hover {
    async fn judge(self, gate: &Gate, call_context: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        code_question::judge(gate, call_context, Question::Hover, self.symbol, 0)
    }
}
