//! `diagnostics`.

use super::code_question::{self, About};
use crate::policy::{CheckedCall, Gate, Refusal, Tool, ToolCallContext};
use roo_catalog::Diagnostics;
use roo_language_servers::Question;

impl Tool for Diagnostics {
    async fn judge(self, gate: &Gate, call_context: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        let question = Question::CheckedProblems;
        code_question::judge(gate, call_context, question, (&self.path, About::File), self.offset)
    }
}
