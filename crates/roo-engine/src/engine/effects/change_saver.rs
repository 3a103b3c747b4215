//! What follows a call's changes of files: they are saved for its checkpoint and the log, with those that hooks make, and
//! language servers hear of them.

use std::sync::Arc;

use crate::engine::audit;
use crate::engine::hook_changes::{FilesBeforeHooks, HookChanges};
use crate::engine::services::EngineServices;
use crate::policy::AuditRecord;
use crate::tool_run::{BinaryContents, FileDetails, Outcome, ToolContext, recorded};
use roo_language_servers::{ChangedFile, DiskChange};
use roo_protocol::ids::TaskId;
use roo_trace::record::{FileChange, Side};

/// Saves the changes of a call for its checkpoint and the log.
pub(super) struct ChangeSaver {
    task: TaskId,
    context: Arc<ToolContext>,
    services: Arc<EngineServices>,
    details: Arc<FileDetails>,
    binaries: Arc<BinaryContents>,
}

impl ChangeSaver {
    /// For the changes of this outcome, from which it takes what nobody else needs.
    pub(super) fn new(
        task: &TaskId,
        outcome: &mut Outcome,
        context: &Arc<ToolContext>,
        services: &Arc<EngineServices>,
    ) -> Self {
        Self {
            task: task.clone(),
            context: Arc::clone(context),
            services: Arc::clone(services),
            details: Arc::new(std::mem::take(&mut outcome.details)),
            binaries: Arc::new(std::mem::take(&mut outcome.binaries)),
        }
    }

    pub(super) async fn save(&self, changes: Vec<FileChange>, outcome: &mut Outcome) {
        let (context, services, task) =
            (Arc::clone(&self.context), Arc::clone(&self.services), self.task.clone());
        let (details, binaries) = (Arc::clone(&self.details), Arc::clone(&self.binaries));
        let record = move || {
            let mask = context.mask();
            let recorded = recorded(&changes, &details, &mask);
            (recorded, services.checkpoints.save(&task, &changes, &details, &binaries, &mask))
        };
        // Only a runtime that is ending runs nothing more.
        (outcome.recorded, outcome.saved) = roo_durable::spawn_blocking(record).await.unwrap_or_default();
    }

    /// Looks at the files before hooks hear of the call.
    pub(super) async fn before_hooks(&self, outcome: &Outcome) -> Option<FilesBeforeHooks> {
        let (changes, services) = (outcome.changes.clone(), Arc::clone(&self.services));
        let look = move || FilesBeforeHooks::new(changes, &services.workspace);
        roo_durable::spawn_blocking(look).await.ok()
    }

    /// Takes what hooks have changed since for a part of the call's change, as a formatter's work is, and records it.
    pub(super) async fn save_changes_of_hooks(
        &self,
        before: FilesBeforeHooks,
        audit_record: AuditRecord,
        outcome: &mut Outcome,
    ) {
        let services = Arc::clone(&self.services);
        let compare = move || before.compare(&services.workspace);
        let found = roo_durable::spawn_blocking(compare).await.ok().flatten();
        if let Some(HookChanges { together, by_hooks }) = found {
            tell_language_servers(&by_hooks, &self.services);
            self.save(together, outcome).await;
            audit::changed_by_hooks(audit_record, by_hooks, &self.services);
        }
    }
}

/// Has the language servers know of files that a call has changed on disk, before they are asked the next time.
pub(super) fn tell_language_servers(changes: &[FileChange], services: &EngineServices) {
    let changed = changes.iter().flat_map(|FileChange { path, old_path, before, after, .. }| {
        let was_there = !matches!(before, Side::Absent) && old_path.is_none();
        let change = match (was_there, after) {
            (_, Side::Absent) => DiskChange::Deleted,
            (true, _) => DiskChange::Changed,
            (false, _) => DiskChange::Created,
        };
        let old = old_path.as_ref().map(|old| (old, DiskChange::Deleted));
        old.into_iter().chain([(path, change)])
    });
    let Some(folder) = services.workspace.roots().paths().next() else { return };
    // What is outside of the first folder has its full path, which counts alone.
    let changed = changed.map(|(path, change)| ChangedFile { path: folder.join(path), change });
    services.gate.language_servers().changed(&changed.collect::<Vec<_>>());
}
