//! `hover`.

use super::code_question::{self, About};
use crate::policy::{CheckedCall, Gate, Refusal, Tool, ToolCallContext};
use roo_catalog::Hover;
use roo_language_servers::Question;

impl Tool for Hover {
    async fn judge(self, gate: &Gate, call_context: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        let about = About::Symbol(self.symbol.clone());
        code_question::judge(gate, call_context, Question::Hover, (&self.symbol.path, about), 0)
    }
}
