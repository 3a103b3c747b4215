//! `find_references`.

use super::code_question::{self, About};
use crate::policy::{CheckedCall, Gate, Refusal, Tool, ToolCallContext};
use roo_catalog::FindReferences;
use roo_language_servers::Question;

impl Tool for FindReferences {
    async fn judge(self, gate: &Gate, call_context: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        let about = About::Symbol(self.symbol.clone());
        code_question::judge(
            gate,
            call_context,
            Question::References,
            (&self.symbol.path, about),
            self.offset,
        )
    }
}
