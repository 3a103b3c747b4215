//! Git worktrees of branches: making one before a branch begins, and removing it when all that the branch changed is merged.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::event::BranchWorktree;
use super::services::EngineServices;
use super::task::{OpenWorktree, Task, WorktreeClosing};
use super::tree::Tree;
use crate::mentions::git::{Git, GitError, NewWorkTree, Snapshots, WorkTreePurpose, copy_directory};
use crate::policy::{MergeSource, Preview};
use roo_formats::modes;
use roo_protocol::ids::TaskId;
use roo_protocol::task::KeptWorktree;
use roo_sandbox::exec::Environment;

/// Reason why a work tree is kept of which the last merge left something behind.
const LEFT_OUT: &str = "it has files that could not be merged";

/// A work tree that is to be made.
pub(super) struct WantedWorktree {
    /// Its name beside the repository.
    name: String,
    /// The request's directory, which git may ignore.
    directory: String,
    store: PathBuf,
}

/// A work tree that is to be removed, or looked at for that.
pub(super) struct ClosingWorktree {
    last: OpenWorktree,
    purpose: WorktreeClosing,
    directory: String,
    store: PathBuf,
}

/// Private directory for the snapshots of a branch's work tree.
pub(super) fn store(task: &TaskId, services: &EngineServices) -> PathBuf {
    services.branches.join(task.as_str())
}

/// What a merge starts from.
pub(super) fn source<'a>(worktree: &'a OpenWorktree, store: &'a Path) -> MergeSource<'a> {
    let OpenWorktree { folder, base, conflict_bases, .. } = worktree;
    MergeSource { folder, base, conflict_bases, store }
}

/// Returns the files that the merge which waits for its user changes; none where it can't be told any more.
pub(super) async fn preview_merge(task: &Task, services: &EngineServices) -> Option<Vec<Preview>> {
    let worktree = task.open_worktree()?;
    services.gate.preview_merge(&task.urid, source(worktree, &store(&task.id, services))).await
}

/// Removes the work trees that the branches of a request still have, those of branches below others first. Returns those that
/// are kept, also from before.
pub(super) async fn close_all(tree: &Tree, services: &Arc<EngineServices>) -> Vec<KeptWorktree> {
    let mut kept = vec![];
    for task in tree.tasks().iter().rev() {
        let reason = match ClosingWorktree::new(task, services) {
            Some(closing) => {
                let parent = tree.above(task).next();
                let services =
                    parent.map_or_else(|| Arc::clone(services), |above| services.for_task(tree, above));
                closing.close(&services).await
            }
            None => task.why_worktree_is_kept().map(str::to_owned),
        };
        let left = task.left_worktree().filter(|folder| folder.is_dir());
        if let (Some(reason), Some(folder)) = (reason, left) {
            kept.push(KeptWorktree { path: folder.display().to_string(), reason });
        }
    }
    kept
}

/// Removes the private directories of all branches of a request.
///
/// # Errors
/// Those of reading and removing directories.
pub(super) fn remove_stores(branches: &Path, root: &TaskId) -> io::Result<()> {
    let entries = match fs::read_dir(branches) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(|name| TaskId::new(name).root() == *root) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

impl WantedWorktree {
    /// The work tree of a branch.
    pub(super) fn new(task: &Task, services: &EngineServices) -> Self {
        let number = task.id.as_str().rsplit('.').next().unwrap_or_default();
        Self {
            name: format!("{}-{number}", task.urid),
            directory: modes::task_directory(&task.urid),
            store: store(&task.id, services),
        }
    }

    /// Makes it from the folder of these services, as that is now. What a server left that was killed meanwhile is replaced.
    ///
    /// # Errors
    /// The reason why there can't be one, for people.
    pub(super) async fn make(
        &self,
        services: &EngineServices,
        cancel: &CancellationToken,
    ) -> Result<BranchWorktree, String> {
        let workspace = &services.workspace;
        if workspace.roots().paths().count() != 1 {
            return Err("the workspace is not one folder".to_owned());
        }
        let environment = services.gate.environment();
        let git = Git { workspace, environment: &environment };
        let NewWorkTree { top, folder, left_out } = git
            .add_work_tree(WorkTreePurpose::Branch, &self.name, cancel)
            .await
            .map_err(|error| error.to_string())?;
        let taking = cancel.run_until_cancelled(self.take_base(&folder, services, &environment)).await;
        match taking.unwrap_or(Err(GitError::Cancelled)) {
            Ok((folder, base)) => Ok(BranchWorktree { top, folder, base, left_out }),
            Err(error) => {
                git.remove_merged_work_tree(&top).await;
                Err(error.to_string())
            }
        }
    }

    /// The real path of the folder, and the snapshot with which its merge begins.
    async fn take_base(
        &self,
        folder: &Path,
        services: &EngineServices,
        environment: &Environment,
    ) -> Result<(PathBuf, String), GitError> {
        let folder = folder.canonicalize().map_err(GitError::Files)?;
        if let Some(root) = services.workspace.roots().paths().next()
            && services.workspace.has_place_for(&self.directory)
        {
            copy_directory(root, &folder, Path::new(&self.directory)).map_err(GitError::Files)?;
        }
        match fs::remove_dir_all(&self.store) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(GitError::Files(error)),
            _ => fs::create_dir_all(&self.store).map_err(GitError::Files)?,
        }
        let workspace = services.workspace.beside(&folder);
        let git = Git { workspace: &workspace, environment };
        let base = Snapshots::open(git, &self.store).await?.take(Some(&self.directory)).await?;
        Ok((folder, base))
    }

    /// Removes what there is of it.
    pub(super) async fn discard(&self, services: &EngineServices) {
        let environment = services.gate.environment();
        let git = Git { workspace: &services.workspace, environment: &environment };
        git.discard_work_tree(&self.name).await;
        // What is left says nothing to anybody.
        let _ = fs::remove_dir_all(&self.store);
    }
}

impl ClosingWorktree {
    /// The work tree of a branch that ends; none where it has none.
    pub(super) fn new(task: &Task, services: &EngineServices) -> Option<Self> {
        let (last, purpose) = task.worktree_closing()?;
        let directory = modes::task_directory(&task.urid);
        Some(Self { last: last.clone(), purpose, directory, store: store(&task.id, services) })
    }

    /// Removes it, unless something in it is not merged. Returns the reason why it was kept; none where it is gone, or where
    /// nothing in it is missed if only that was to be found out.
    pub(super) async fn close(&self, services: &EngineServices) -> Option<String> {
        let kept_because = match self.purpose {
            WorktreeClosing::Look => return self.unmerged(services).await,
            WorktreeClosing::Remove => self.remove(services).await,
            WorktreeClosing::End => self.remove_merged(services).await,
        };
        // Nothing is merged from here on.
        let _ = fs::remove_dir_all(&self.store);
        kept_because
    }

    async fn remove_merged(&self, services: &EngineServices) -> Option<String> {
        let OpenWorktree { top, base, left_out, .. } = &self.last;
        if !left_out.is_empty() {
            return Some(LEFT_OUT.to_owned());
        }
        // Written when nothing is left to merge: a removal that was cut off leaves nothing to look at.
        let checked = self.store.join("merged");
        let is_checked = fs::read_to_string(&checked).is_ok_and(|merged| merged == *base);
        if !is_checked && top.symlink_metadata().is_ok() {
            if let Some(reason) = self.unmerged(services).await {
                return Some(reason);
            }
            if let Err(error) = fs::write(&checked, base) {
                return Some(format!("{} can't be written: {error}", checked.display()));
            }
        }
        self.remove(services).await
    }

    /// The reason why it is missed if it is removed; none where all in it is merged.
    async fn unmerged(&self, services: &EngineServices) -> Option<String> {
        let OpenWorktree { folder, base, left_out, .. } = &self.last;
        if !left_out.is_empty() {
            return Some(LEFT_OUT.to_owned());
        }
        let environment = services.gate.environment();
        let workspace = services.workspace.beside(folder);
        let git = Git { workspace: &workspace, environment: &environment };
        let now = match Snapshots::open(git, &self.store).await {
            Ok(snapshots) => snapshots.take(Some(&self.directory)).await,
            Err(error) => Err(error),
        };
        match now {
            Ok(now) if now == *base => None,
            Ok(_) => Some("it has changes that are not merged".to_owned()),
            Err(error) => Some(error.to_string()),
        }
    }

    async fn remove(&self, services: &EngineServices) -> Option<String> {
        let environment = services.gate.environment();
        let git = Git { workspace: &services.workspace, environment: &environment };
        let is_removed = git.remove_merged_work_tree(&self.last.top).await;
        (!is_removed).then(|| "it can't be removed".to_owned())
    }
}
