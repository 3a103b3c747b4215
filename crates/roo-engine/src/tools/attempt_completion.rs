//! What a branch's `attempt_completion` does with a work tree of its own: its changes are merged, or conflicts are put into the
//! work tree to be resolved there.

use futures_util::future::BoxFuture;
use roo_text::diff;
use serde_json::Map;

use super::apply_patch;
use crate::mentions::git::{Git, GitError, Snapshots};
use crate::policy::{Action, ConflictingFile, MergeConflict, Permitted, ProposedMerge, shown_patch};
use crate::tool_run::{Outcome, ToolContext};
use roo_catalog::{ToolCall, ToolName};
use roo_model::prompts::replies;
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::{Digest, ToolCallId};
use roo_sandbox::exec::Environment;
use roo_workspace::{FileEdit, Purpose};

impl Action for ProposedMerge {
    fn run<'a>(self: Box<Self>, _: Permitted, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(merge(*self, context))
    }

    fn shown(&self) -> Option<String> {
        Some(shown_patch(&self.patch))
    }

    fn for_hooks(&self) -> Option<ToolCall> {
        patch_call("merge", &self.patch.edits)
    }
}

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

impl Action for MergeConflict {
    fn run<'a>(self: Box<Self>, _: Permitted, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            match resolve_in_worktree(&self, context).await {
                Ok(outcome) => outcome,
                Err(problem) => Outcome::failed(format!(
                    "Others have changed the same lines as you, and both versions can't be put into your worktree: \
                     {problem}. Nothing was merged."
                )),
            }
        })
    }
}

/// Changes the files of the folder, all or none.
async fn merge(proposed: ProposedMerge, context: &ToolContext) -> Outcome {
    let ProposedMerge { patch, merge } = proposed;
    let files: Vec<String> = patch.edits.iter().map(|edit| edit.file().display()).collect();
    if files.is_empty() {
        let text = replies::merge_done(&files, &merge.left_out);
        return Outcome::new(ToolStatus::Ok, text.clone(), text);
    }
    let mut outcome = apply_patch::run(patch, context).await;
    // It is of the folder, and the branch knows the files of its work tree.
    outcome.seen.clear();
    if outcome.status == ToolStatus::Ok && !outcome.is_partial {
        outcome.text = replies::merge_done(&files, &merge.left_out);
        outcome.summary = format!("Merged: {}", outcome.summary);
    }
    outcome
}

/// Puts both versions of the files into the work tree, and keeps the texts with which the next merge begins. The work tree comes
/// first: where it has no marks, the next merge must find the conflict again.
async fn resolve_in_worktree(conflict: &MergeConflict, context: &ToolContext) -> Result<Outcome, String> {
    let environment = Environment::inherited_by(&context.environment);
    let workspace = context.workspace.beside(&conflict.folder);
    let git = Git { workspace: &workspace, environment: &environment };
    let reason = |error: GitError| error.to_string();
    let snapshots = Snapshots::open(git, &conflict.store).await.map_err(reason)?;
    let mut conflicts = Vec::new();
    for ConflictingFile { path, ours, .. } in &conflict.files {
        let kept = match ours {
            Some(text) => Some(snapshots.keep(text).await.map_err(reason)?),
            None => None,
        };
        conflicts.push((path.clone(), kept));
    }
    for ConflictingFile { path, theirs, resolving, .. } in &conflict.files {
        let Some(text) = resolving else { continue };
        let place = workspace.resolve(path, Purpose::Write).map_err(|error| error.to_string())?;
        let before = theirs.as_ref().map(Digest::of);
        let label = "roo-lsp: conflict of a branch";
        workspace.write(&place, before, text, label).await.map_err(|error| error.to_string())?;
    }
    let descriptions: Vec<String> = conflict.files.iter().map(|file| file.description.clone()).collect();
    let names: Vec<&str> = conflict.files.iter().map(|file| file.path.as_str()).collect();
    let summary = format!("Others have changed the same lines: {}", names.join(", "));
    let mut outcome = Outcome::new(ToolStatus::Failed, replies::merge_conflicted(&descriptions), summary);
    // The work tree has other texts now.
    outcome.seen = names.iter().map(|name| ((*name).to_owned(), None)).collect();
    outcome.conflicts = conflicts;
    Ok(outcome)
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
