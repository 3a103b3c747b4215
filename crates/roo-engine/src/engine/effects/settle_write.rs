//! Edits that the end of the server cuts off: what is kept before each edit, and what the files hold after it when
//! nobody reported its end.

use std::sync::Arc;

use crate::engine::services::EngineServices;
use crate::policy::PlannedEdit;
use crate::tool_run::{BinaryContents, SavedFile};
use roo_protocol::ids::{Digest, TaskId};
use roo_trace::record::{Author, FileChange, Side};
use roo_workspace::{Purpose, Workspace};

/// Keeps what an edit is about to replace: should the server be killed before the call has ended, nobody else knows it.
pub(super) async fn keep_replaced(task: &TaskId, edit: &PlannedEdit, services: &Arc<EngineServices>) {
    let mut texts = Vec::new();
    for (path, before, after) in edit.places() {
        if let Some(before) = before.filter(|_| before != after)
            && let Some(text) = text_of(&services.workspace, path).await
            && Digest::of(&text) == before
        {
            texts.push(text);
        }
    }
    if !texts.is_empty() {
        let (services, task) = (Arc::clone(services), task.clone());
        let keep = move || services.checkpoints.keep(&task, &texts, &services.gate.mask());
        // Only a runtime that is ending runs nothing more.
        let _ = roo_durable::spawn_blocking(keep).await;
    }
}

/// Returns the current content of the files of an interrupted edit, as far as it can be told.
pub(super) async fn found_after(workspace: &Workspace, edit: &PlannedEdit) -> Vec<Option<Digest>> {
    // A change of several files is brought to one side first.
    if let PlannedEdit::Patch(_) = edit {
        workspace.settle().await;
    }
    let mut all = Vec::new();
    for (path, before, after) in edit.places() {
        let found = async {
            let path = workspace.resolve(path, Purpose::Read).ok()?;
            let file = workspace.read_for_edit(&path).await.ok()?;
            // A byte order mark is kept by writes, and is not part of the text that they were planned with.
            let of_text = Some(Digest::of(&file.text));
            Some(if of_text == after || of_text == before { of_text } else { Some(file.digest) })
        };
        all.push(found.await.flatten());
    }
    all
}

/// Saves for a checkpoint what a settled edit has changed, with what was kept when it began.
pub(super) async fn save_settled(
    task: &TaskId,
    edit: &PlannedEdit,
    found: &[Option<Digest>],
    services: &Arc<EngineServices>,
) -> Vec<SavedFile> {
    let mut changes = Vec::new();
    for ((path, before, after), now) in edit.places().into_iter().zip(found) {
        if before == after || *now != after {
            continue;
        }
        let after = match after {
            None => Side::Absent,
            Some(digest) => {
                let text = text_of(&services.workspace, path).await.filter(|text| Digest::of(text) == digest);
                text.map_or(Side::Opaque(digest), Side::text)
            }
        };
        changes.push((path.to_owned(), before, after));
    }
    let (services, task, details) = (Arc::clone(services), task.clone(), edit.removed_encodings());
    let save = move || {
        let change = |(path, before, after): (String, Option<Digest>, Side)| FileChange {
            path,
            old_path: None,
            before: services.checkpoints.side(&task, before),
            after,
            author: Author::Ai,
        };
        let changes: Vec<FileChange> = changes.into_iter().map(change).collect();
        services.checkpoints.save(
            &task,
            &changes,
            &details,
            &BinaryContents::default(),
            &services.gate.mask(),
        )
    };
    // Only a runtime that is ending runs nothing more.
    roo_durable::spawn_blocking(save).await.unwrap_or_default()
}

/// The text of a file that an edit names.
async fn text_of(workspace: &Workspace, path: &str) -> Option<String> {
    let path = workspace.resolve(path, Purpose::Read).ok()?;
    workspace.read_for_edit(&path).await.ok().map(|file| file.text)
}
