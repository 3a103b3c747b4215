//! `go_to_definition`.

use super::code_question::{self, About};
use crate::policy::{CheckedCall, Gate, Refusal, Tool, ToolCallContext};
use roo_catalog::GoToDefinition;
use roo_language_servers::Question;

impl Tool for GoToDefinition {
    async fn judge(self, gate: &Gate, call_context: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        let about = About::Symbol(self.symbol.clone());
        code_question::judge(gate, call_context, Question::Definition, (&self.symbol.path, about), 0)
    }
}
