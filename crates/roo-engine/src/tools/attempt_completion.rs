//! What a branch's `attempt_completion` does with a work tree of its own: its changes are merged, or conflicts are put into the
//! work tree to be resolved there.

use futures_util::future::BoxFuture;

use super::apply_patch;
use super::patch_call::patch_call;
use crate::mentions::git::{Git, GitError, Snapshots};
use crate::policy::{Action, ConflictingFile, MergeConflict, Permitted, ProposedMerge, shown_patch};
use crate::tool_run::{Outcome, ToolContext};
use roo_catalog::ToolCall;
use roo_model::prompts::replies;
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::Digest;
use roo_sandbox::exec::Environment;
use roo_workspace::Purpose;

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
