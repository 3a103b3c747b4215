//! `edit_file`: a text replaced a known number of times, or a new file. Written by `edit.rs`.

use std::collections::BTreeMap;

use crate::policy::{
    CheckedCall, Edit, FileBefore, Gate, Preview, Refusal, RefusalRule, Tool, ToolCallContext, of_masked,
};
use roo_catalog::{EditFile, ToolName};
use roo_protocol::ids::Digest;
use roo_text::expected_edit::replace_expected;

impl Tool for EditFile {
    async fn judge(self, gate: &Gate, call_context: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        gate.edit(call_context, &self).await.map(CheckedCall::from)
    }

    async fn preview(self, gate: &Gate, seen: &BTreeMap<String, Digest>) -> Option<Vec<Preview>> {
        gate.preview_edit(&self, seen).await
    }
}

impl Edit for EditFile {
    const TOOL: ToolName = ToolName::EditFile;

    fn path(&self) -> &str {
        &self.path
    }

    fn apply(&self, _gate: &Gate, file: &FileBefore<'_>) -> Result<(String, Option<String>), Refusal> {
        if self.replacement.search.is_empty() {
            return match file.text() {
                None => Ok((self.replacement.replace.clone(), None)),
                Some(_) => {
                    let text = format!(
                        "{} exists already, and an empty old_string creates a file. Name the text to replace.",
                        file.name
                    );
                    Err(Refusal::mistake(RefusalRule::Content, text))
                }
            };
        }
        let replaced = replace_expected(file.existing()?, &self.replacement).map_err(|error| {
            of_masked(&self.replacement.search, Refusal::mistake(RefusalRule::Content, error))
        })?;
        let notice = replaced.notice();
        Ok((replaced.text, notice))
    }
}
