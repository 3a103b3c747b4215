//! `search_and_replace`: every occurrence of a text in one file. Written by `edit.rs`.

use std::collections::BTreeMap;

use crate::policy::{
    CheckedCall, Edit, FileBefore, Gate, Preview, Refusal, RefusalRule, Tool, ToolCallContext, of_masked,
};
use roo_catalog::{SearchAndReplace, ToolName};
use roo_protocol::ids::Digest;
use roo_text::edit;

impl Tool for SearchAndReplace {
    async fn judge(self, gate: &Gate, call_context: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        gate.edit(call_context, &self).await.map(CheckedCall::from)
    }

    async fn preview(self, gate: &Gate, seen: &BTreeMap<String, Digest>) -> Option<Vec<Preview>> {
        gate.preview_edit(&self, seen).await
    }
}

impl Edit for SearchAndReplace {
    const TOOL: ToolName = ToolName::SearchAndReplace;
    const CHANGES_EXISTING: bool = true;

    fn path(&self) -> &str {
        &self.path
    }

    fn apply(&self, _gate: &Gate, file: &FileBefore<'_>) -> Result<(String, Option<String>), Refusal> {
        let mut text = file.existing()?.to_owned();
        let mut notices: Vec<String> = Vec::new();
        let count = self.replacements.len();
        for (index, replacement) in self.replacements.iter().enumerate() {
            let replaced = edit::replace(&text, replacement).map_err(|error| {
                let text = match count {
                    1 => error.to_string(),
                    _ => {
                        format!("Nothing was changed, because of operation {} of {count}. {error}", index + 1)
                    }
                };
                of_masked(&replacement.search, Refusal::mistake(RefusalRule::Content, text))
            })?;
            notices.extend(replaced.occurrences().map(|occurrences| match count {
                1 => occurrences,
                _ => format!("Operation {}: {occurrences}", index + 1),
            }));
            notices.extend(replaced.notice().filter(|notice| !notices.contains(notice)));
            text = replaced.text;
        }
        Ok((text, (!notices.is_empty()).then(|| notices.join("\n"))))
    }
}
