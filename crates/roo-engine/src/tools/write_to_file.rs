//! `write_to_file`: the whole text of one file. Written by `edit.rs`.

use std::collections::BTreeMap;

use crate::policy::{
    CheckedCall, Edit, FileBefore, Gate, Preview, Refusal, RefusalRule, Tool, ToolCallContext,
};
use roo_catalog::{ToolName, WriteToFile};
use roo_protocol::ids::Digest;
use roo_text::edit;

impl Tool for WriteToFile {
    async fn judge(self, gate: &Gate, call_context: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        gate.edit(call_context, &self).await.map(CheckedCall::from)
    }

    async fn preview(self, gate: &Gate, seen: &BTreeMap<String, Digest>) -> Option<Vec<Preview>> {
        gate.preview_edit(&self, seen).await
    }

    fn saves_to(&self) -> Option<&str> {
        Some(&self.path)
    }
}

impl Edit for WriteToFile {
    const TOOL: ToolName = ToolName::WriteToFile;
    const MAY_OMIT: bool = true;

    fn path(&self) -> &str {
        &self.path
    }

    fn apply(&self, gate: &Gate, file: &FileBefore<'_>) -> Result<(String, Option<String>), Refusal> {
        let name = file.name;
        if let Some(current) = file.current {
            match file.seen {
                Some(digest) if digest == current.digest => {}
                Some(known) => {
                    let changes = gate.changes_since(known, &current.text, name);
                    let text = format!(
                        "{name} has changed since you read it. Read it again, and write it with these changes \
                         kept.{changes}"
                    );
                    return Err(Refusal::mistake(RefusalRule::Content, text));
                }
                None => {
                    let text = format!(
                        "{name} exists, and you have not read it, or no longer have its text. Read it in an answer before \
                         the one that replaces its text."
                    );
                    return Err(Refusal::mistake(RefusalRule::Content, text));
                }
            }
        }
        let after = edit::whole(file.text(), &self.content)
            .map_err(|error| Refusal::mistake(RefusalRule::Content, error))?;
        Ok((after, None))
    }
}
