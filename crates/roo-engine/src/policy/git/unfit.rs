//! What a command that runs on has made of repositories and may not stay: judged before its end, which may be hours away.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::bare::{bare_repository, makes_repository};
use super::build_output::touched_by;
use super::guard::GitGuard;
use roo_sandbox::exec::sandbox::Journal;

impl GitGuard {
    /// Returns the git directories that came up by a command which still runs and may not stay as they are now. Nothing is
    /// changed: what is at a path may be something else the next moment. Runs git where any came up.
    pub(crate) fn unfit(&self, journal: &Journal) -> BTreeSet<PathBuf> {
        let is_known = |git: &Path| self.directories().any(|known| git.starts_with(known));
        let made = touched_by(&self.roots, journal)
            .into_iter()
            .filter(|(git, paths)| paths.contains(git) && !is_known(git) && git.symlink_metadata().is_ok());
        let judged = self.judge_new(made.map(|(git, _)| ((), git)).collect());
        let unfit = judged.into_iter().filter(|(_, _, because)| !because.is_empty());
        let mut found: BTreeSet<PathBuf> = unfit.map(|((), git, _)| git).collect();
        let is_touched = |git: &PathBuf| !journal.has_left_git_alone(git);
        let modules = self.new_modules().into_iter().filter(is_touched);
        found.extend(modules.filter(|git| !self.objections_to_module(git).is_empty()));
        let work_trees = self.new_work_trees().into_iter().filter(is_touched);
        found.extend(work_trees.filter(|git| !self.objections_to_work_tree(git).is_empty()));
        let bare = self.bare_repositories(journal).into_iter();
        found.extend(bare.filter(|git| !self.objections_to_bare(git).is_empty()));
        found
    }

    /// Those without a `.git` that came up.
    fn bare_repositories(&self, journal: &Journal) -> BTreeSet<PathBuf> {
        let was_there: BTreeSet<&Path> = journal.images.iter().map(|image| image.path.as_path()).collect();
        let made = journal.touched().filter_map(|(path, all)| {
            let root = self.roots.iter().find(|root| path.starts_with(root))?;
            // Of a directory that was moved there, what is in it is not told.
            let head = path.join("HEAD");
            let path = if all && head.is_file() { head.as_path() } else { path };
            let is_new = !was_there.contains(path) && path.symlink_metadata().is_ok();
            bare_repository(root, path).filter(|git| is_new && makes_repository(git, path))
        });
        made.collect()
    }
}
