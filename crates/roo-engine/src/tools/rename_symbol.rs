//! `rename_symbol`.

use std::collections::BTreeMap;

use super::code_edit::CodeEdit;
use super::code_question::About;
use crate::policy::{CheckedCall, Gate, Preview, Refusal, Tool, ToolCallContext};
use roo_catalog::{RenameSymbol, ToolName};
use roo_language_servers::Question;
use roo_protocol::ids::Digest;

fn edit(call: &RenameSymbol) -> CodeEdit<'_> {
    CodeEdit {
        tool: ToolName::RenameSymbol,
        question: Question::Rename(call.new_name.clone()),
        path: &call.symbol.path,
        about: About::Symbol(call.symbol.clone()),
    }
}

impl Tool for RenameSymbol {
    async fn judge(self, gate: &Gate, call_context: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        edit(&self).judge(gate, call_context).await
    }

    async fn preview(self, gate: &Gate, _: &BTreeMap<String, Digest>) -> Option<Vec<Preview>> {
        edit(&self).preview(gate).await
    }
}
