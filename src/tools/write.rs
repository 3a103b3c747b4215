//! Writing one file: `write_to_file`, `apply_diff`, `search_and_replace` and `insert_content`.
//!
//! The new text was worked out by the gate, which showed it to the user; here it is committed if the
//! file still is what that text was made from.

use super::{AppliedEdit, Outcome, ToolContext};
use crate::hooks::Proposal;
use crate::protocol::event::ToolStatus;
use crate::protocol::ids::Digest;
use crate::text::diff;

/// Commits a proposal.
pub(super) async fn run(proposal: Proposal, context: &ToolContext) -> Outcome {
    let Proposal { path, before, after, notice } = proposal;
    let name = path.display();
    let expected = before.as_deref().map(Digest::of);
    let label = format!("Roo: {name}");
    let written = match context.workspace.write(&path, expected, &after, &label).await {
        Ok(written) => written,
        Err(error) => {
            // What the task believes of the file is no longer worth anything.
            return Outcome { seen: vec![(name, None)], ..Outcome::failed(error.to_string()) };
        }
    };
    let operation = if before.is_some() { "modified" } else { "created" };
    let notice = notice.map(|notice| format!("{notice}\n")).unwrap_or_default();
    let text = format!(
        "<file_write_result>\n<path>{}</path>\n<operation>{operation}</operation>\n<notice>\n{notice}The file now \
         holds exactly what you proposed; there is no need to read it again.\n</notice>\n</file_write_result>",
        quick_xml::escape::escape(&name),
    );
    let stat = diff::stat(before.as_deref().unwrap_or_default(), &after);
    Outcome {
        status: ToolStatus::Ok,
        text,
        images: vec![],
        summary: format!("{operation} {name} (+{} −{})", stat.added, stat.removed),
        seen: vec![(name, Some(written.after))],
        edits: vec![AppliedEdit { uri: written.uri, before: written.before, after: written.after }],
    }
}
