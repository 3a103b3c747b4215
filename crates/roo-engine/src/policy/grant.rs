//! Grant of a task's intents: the paths that the task may change, and no more.

use std::path::{Path, PathBuf};

use super::withheld_paths::SCRATCH;
use roo_formats::intents::{Enforced, Intent};
use roo_workspace::{Location, Purpose, Workspace};

/// Paths that a task may change: what all of these cover. The first is the one that it has bound itself.
pub(super) struct Grant {
    pub(super) intents: Vec<Intent>,
}

impl Grant {
    /// Returns the intent that forbids something, if one does.
    pub(super) fn enforces(&self, enforced: Enforced) -> Option<&Intent> {
        self.intents.iter().find(|intent| intent.enforce.contains(&enforced))
    }

    /// Returns the paths that all intents cover, as far as they exist, and the scratch directories beside them.
    pub(super) fn writable_paths(&self, workspace: &Workspace) -> Vec<PathBuf> {
        let Some((own, above)) = self.intents.split_first() else { return vec![] };
        let mut granted = Vec::new();
        for prefix in own.scope.prefixes() {
            // Of two that lie in each other the inner one is what both cover.
            let mut narrowed = vec![prefix.path];
            for intent in above {
                let theirs = intent.scope.prefixes();
                narrowed = narrowed
                    .iter()
                    .flat_map(|path| theirs.iter().filter_map(|other| inner(path, &other.path)))
                    .collect();
            }
            granted.extend(narrowed);
        }
        let root = workspace.roots().paths().next().map(Path::to_path_buf);
        let scratch = root.into_iter().flat_map(|root| SCRATCH.iter().map(move |name| root.join(name)));
        let scratch = scratch.filter(|path| path.symlink_metadata().is_ok_and(|found| found.is_dir()));
        granted.iter().filter_map(|path| existing_path(workspace, path)).chain(scratch).collect()
    }
}

/// The inner one of two paths, where one lies in the other.
fn inner(one: &str, other: &str) -> Option<String> {
    let within = |inner: &str, outer: &str| {
        outer.is_empty()
            || inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if within(one, other) { Some(one.to_owned()) } else { within(other, one).then(|| other.to_owned()) }
}

/// Returns the real path of a path below the first root, if it is in the workspace.
pub(super) fn existing_path(workspace: &Workspace, path: &str) -> Option<PathBuf> {
    let path = if path.is_empty() { "." } else { path };
    let place =
        workspace.resolve(path, Purpose::Directory).or_else(|_| workspace.resolve(path, Purpose::Read));
    let place = place.ok().filter(|place| place.is_directory() || place.is_file())?;
    matches!(place.location(), Location::Inside { .. }).then(|| place.absolute().to_path_buf())
}
