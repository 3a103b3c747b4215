//! Changes of files as the call of `apply_patch` that makes them: how user hooks see merges and refactorings, which no model wrote
//! as a patch.

use serde_json::Map;

use roo_catalog::{ToolCall, ToolName};
use roo_protocol::ids::ToolCallId;
use roo_text::diff;
use roo_workspace::FileEdit;

/// Returns the call of `apply_patch` that makes these edits, as which user hooks see them; none for no edits.
pub(super) fn patch_call(id: &str, edits: &[FileEdit]) -> Option<ToolCall> {
    if edits.is_empty() {
        return None;
    }
    let mut params = Map::new();
    params.insert("patch".to_owned(), as_patch(edits).into());
    let name = ToolName::ApplyPatch.as_str().to_owned();
    Some(ToolCall { id: ToolCallId::new(id), name, params, problem: None, note: None })
}

/// Writes changes of files as a patch, as models write them.
fn as_patch(edits: &[FileEdit]) -> String {
    let mut patch = "*** Begin Patch\n".to_owned();
    for edit in edits {
        let name = edit.file().display();
        match (edit.before(), edit.after()) {
            (None, Some(text)) => {
                patch.push_str(&format!("*** Add File: {name}\n"));
                text.lines().for_each(|line| patch.push_str(&format!("+{line}\n")));
            }
            (Some(before), Some(after)) => {
                patch.push_str(&format!("*** Update File: {name}\n"));
                // Without the names above the hunks.
                for line in
                    diff::unified(before, after, &name).lines().skip_while(|line| !line.starts_with("@@"))
                {
                    match line.as_bytes().first() {
                        Some(b'@') => patch.push_str("@@\n"),
                        Some(b' ' | b'+' | b'-') => patch.push_str(&format!("{line}\n")),
                        _ => {}
                    }
                }
            }
            _ => patch.push_str(&format!("*** Delete File: {name}\n")),
        }
    }
    patch.push_str("*** End Patch");
    patch
}
