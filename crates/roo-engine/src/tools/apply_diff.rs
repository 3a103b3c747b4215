//! `apply_diff`: SEARCH/REPLACE blocks in one file. Written by `edit.rs`.

use std::collections::BTreeMap;

use crate::policy::{
    CheckedCall, Edit, FileBefore, Gate, Preview, Refusal, RefusalRule, Tool, ToolCallContext, of_masked,
};
use roo_catalog::{ApplyDiff, ToolName};
use roo_protocol::ids::Digest;
use roo_text::blocks;

impl Tool for ApplyDiff {
    async fn judge(self, gate: &Gate, call_context: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        gate.edit(call_context, &self).await.map(CheckedCall::from)
    }

    async fn preview(self, gate: &Gate, seen: &BTreeMap<String, Digest>) -> Option<Vec<Preview>> {
        gate.preview_edit(&self, seen).await
    }
}

impl Edit for ApplyDiff {
    const TOOL: ToolName = ToolName::ApplyDiff;
    const CHANGES_EXISTING: bool = true;
    const MAY_OMIT: bool = true;

    fn path(&self) -> &str {
        &self.path
    }

    fn apply(&self, _gate: &Gate, file: &FileBefore<'_>) -> Result<(String, Option<String>), Refusal> {
        let text = file.existing()?;
        let parsed =
            blocks::parse(&self.diff).map_err(|error| Refusal::mistake(RefusalRule::Content, error))?;
        let applied = blocks::apply(text, &parsed, blocks::Threshold::default())
            .map_err(|error| of_masked(&self.diff, Refusal::mistake(RefusalRule::Content, error)))?;
        let notice = block_notice(&applied);
        Ok((applied.text, notice))
    }
}

/// Returns a note to the model on blocks that did not fit exactly, or not at all.
fn block_notice(applied: &blocks::Applied) -> Option<String> {
    let mut lines: Vec<String> = applied.applied.iter().filter_map(blocks::AppliedBlock::notice).collect();
    if !applied.failed.is_empty() {
        lines.push(format!("{} blocks were NOT applied; the others were:", applied.failed.len()));
        lines.extend(applied.failed.iter().map(ToString::to_string));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}
