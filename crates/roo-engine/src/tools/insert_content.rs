//! `insert_content`: further lines in one file. Written by `edit.rs`.

use std::collections::BTreeMap;

use crate::policy::{
    CheckedCall, Edit, FileBefore, Gate, Preview, Refusal, RefusalRule, Tool, ToolCallContext,
};
use roo_catalog::{InsertContent, ToolName};
use roo_protocol::ids::Digest;
use roo_text::edit;

impl Tool for InsertContent {
    async fn judge(self, gate: &Gate, call_context: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        gate.edit(call_context, &self).await.map(CheckedCall::from)
    }

    async fn preview(self, gate: &Gate, seen: &BTreeMap<String, Digest>) -> Option<Vec<Preview>> {
        gate.preview_edit(&self, seen).await
    }
}

impl Edit for InsertContent {
    const TOOL: ToolName = ToolName::InsertContent;

    fn path(&self) -> &str {
        &self.path
    }

    fn apply(&self, _gate: &Gate, file: &FileBefore<'_>) -> Result<(String, Option<String>), Refusal> {
        let after = edit::insert(file.text(), self.line, &self.content)
            .map_err(|error| Refusal::mistake(RefusalRule::Content, error))?;
        Ok((after, None))
    }
}
