//! `find_references`.

use super::code_question;
use crate::policy::{CheckedCall, Gate, Refusal, Tool, ToolCallContext};
use roo_catalog::FindReferences;
use roo_language_servers::Question;

impl Tool for FindReferences {
    async fn judge(self, gate: &Gate, call_context: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        code_question::judge(gate, call_context, Question::References, self.symbol, self.offset)
    }
}
