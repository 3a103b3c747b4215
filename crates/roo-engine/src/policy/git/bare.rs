//! Repositories without a `.git`: wherever git is started in a directory with `HEAD`, `objects` and `refs`, it takes that for one
//! and runs what its configuration names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::build_output::ImagesBefore;
use super::guard::{GitGuard, GitOutcome, UNREADABLE};
use roo_durable::read_regular;
use roo_sandbox::changes::Store;
use roo_sandbox::exec::sandbox::Journal;

/// Entries that make a directory a repository.
const PARTS: &[&str] = &["HEAD", "commondir", "objects", "refs"];
/// Further entries that make git run programs, or take contents and settings from elsewhere, and where it keeps them.
const STEERING: &[&str] = &["config", "config.worktree", "hooks", "info", "rebase-merge", "sequencer"];
/// Settings of a new repository that is bare, or shared with others.
const OF_BARE: &[&str] = &["core.bare", "core.sharedrepository", "receive.denynonfastforwards"];
/// The largest file of git's that is read here, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// Returns the repository without a `.git` in a workspace folder that a path steers, where it is there or the path completes
/// it. Reads the disk.
pub(in super::super) fn bare_repository(root: &Path, path: &Path) -> Option<PathBuf> {
    if path.strip_prefix(root).ok()?.components().any(|name| name.as_os_str() == ".git") {
        return None;
    }
    let mut above = path.ancestors().skip(1).take_while(|above| above.starts_with(root));
    let is_steered = |directory: &&Path| {
        let first = path.strip_prefix(directory).ok().and_then(|below| below.components().next());
        let Some(first) = first.and_then(|first| first.as_os_str().to_str()) else { return false };
        let is = |name: &&str| first.eq_ignore_ascii_case(name);
        let has = |name| is(&name) || directory.join(name).symlink_metadata().is_ok();
        PARTS.iter().chain(STEERING).any(is)
            && has("HEAD")
            && (has("commondir") || (has("objects") && has("refs")))
    };
    above.find(is_steered).map(Path::to_path_buf)
}

impl GitGuard {
    /// Undoes what a command may not change of repositories without a `.git`. `changed` are the paths that it changed, each with
    /// whether something was there before. One that came up and may not be as it is loses its `HEAD`, so that it is none: what
    /// else is in the directory may be the user's. Runs git where there are any.
    pub(crate) fn settle_bare(
        &self,
        changed: &[(PathBuf, bool)],
        journal: &Journal,
        store: &Store,
    ) -> GitOutcome {
        let mut outcome = GitOutcome::default();
        let mut repositories: BTreeMap<PathBuf, Vec<&(PathBuf, bool)>> = BTreeMap::new();
        for change in changed {
            let root = self.roots.iter().find(|root| change.0.starts_with(root));
            if let Some(git) = root.and_then(|root| bare_repository(root, &change.0)) {
                repositories.entry(git).or_default().push(change);
            }
        }
        let before = ImagesBefore::new(journal);
        for (git, changed) in repositories {
            if changed.iter().any(|(path, was_there)| !was_there && makes_repository(&git, path)) {
                self.quarantine_if_objectionable(
                    &git.join("HEAD"),
                    self.objections_to_bare(&git),
                    store,
                    &mut outcome,
                );
                continue;
            }
            let paths: BTreeSet<PathBuf> = changed.iter().map(|(path, _)| path.clone()).collect();
            let config = git.join("config");
            if paths.contains(&config) && before.content(&config).is_none() {
                self.quarantine_if_objectionable(&config, self.objections_to_bare(&git), store, &mut outcome);
            }
            self.settle_files(&git, &paths, &before, store, &mut outcome);
        }
        outcome
    }

    /// Returns the reasons why a new repository without a `.git` may not stay.
    pub(super) fn objections_to_bare(&self, git: &Path) -> Vec<String> {
        if is_work_tree_of_bare(git) {
            let mut because = self.objections_to_work_tree(git);
            // Its repository, which names it in turn, is in the workspace like it.
            because.retain(|reason| reason != "gitdir");
            return because;
        }
        let mut because = self.objections_to_directory(git, false);
        let is_mirror = |key: &str| key.starts_with("remote.") && key.ends_with(".mirror");
        because.retain(|reason| !OF_BARE.contains(&reason.as_str()) && !is_mirror(reason));
        if git.join("config").symlink_metadata().is_err() {
            because.retain(|reason| !reason.starts_with(UNREADABLE));
        }
        because
    }
}

/// Returns whether a path is one of those that make a directory a repository.
pub(super) fn makes_repository(git: &Path, path: &Path) -> bool {
    PARTS.iter().any(|name| path == git.join(name))
}

/// Returns whether a path has the name of one of those.
pub(super) fn is_part(path: &Path) -> bool {
    path.file_name().is_some_and(|name| PARTS.iter().any(|part| name.eq_ignore_ascii_case(part)))
}

/// Returns whether a directory is that of a linked work tree, in the repository that it names.
fn is_work_tree_of_bare(git: &Path) -> bool {
    let common =
        || git.join(read_regular(&git.join("commondir"), MAX_FILE_BYTES).ok()?.trim()).canonicalize().ok();
    let above = git.parent().filter(|above| above.ends_with("worktrees")).and_then(Path::parent);
    above.and_then(|above| above.canonicalize().ok()).is_some_and(|above| common() == Some(above))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use roo_sandbox::changes::Limits;

    use super::super::guard::WithheldGitChange;
    use super::*;

    #[test]
    fn a_directory_is_a_repository_as_soon_as_it_has_its_parts() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        fs::create_dir_all(root.join("a/refs")).unwrap();
        fs::write(root.join("a/HEAD"), "").unwrap();
        let found = |path: &str| {
            let found = bare_repository(root, &root.join(path))?;
            Some(found.strip_prefix(root).unwrap().to_str().unwrap().to_owned())
        };
        assert_eq!(found("a/config"), None);
        assert_eq!(found("a/objects/x"), Some("a".to_owned()));
        assert_eq!(found("a/commondir"), Some("a".to_owned()));
        fs::create_dir(root.join("a/objects")).unwrap();
        for path in ["a/config", "a/Config", "a/hooks/post-commit", "a/info/attributes"] {
            assert_eq!(found(path), Some("a".to_owned()), "{path}");
        }
        for path in ["a/description", "a/b/config", "config", "a/.git/config"] {
            assert_eq!(found(path), None, "{path}");
        }
    }

    #[test]
    fn what_makes_git_run_something_in_a_bare_repository_does_not_stay() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap();
        let run = |line: &str| {
            let done = Command::new("sh").args(["-c", line]).current_dir(&top).output().unwrap();
            assert!(done.status.success(), "{line}: {done:?}");
        };
        let store = Store::open(top.join("kept"), Limits::default()).unwrap();
        fs::create_dir(top.join("w")).unwrap();
        let guard = GitGuard::begin(&[], &[top.join("w")], &[], None, false).unwrap();
        let settle = |changed: &[(&str, bool)]| {
            let changed: Vec<_> =
                changed.iter().map(|(path, was)| (top.join("w").join(path), *was)).collect();
            let outcome = guard.settle_bare(&changed, &Journal::default(), &store);
            assert_eq!(outcome.failed, []);
            let told = |change: WithheldGitChange| {
                let path = change.path.strip_prefix(top.join("w")).unwrap().display().to_string();
                format!("{path}: {}", change.because.join(", "))
            };
            outcome.withheld.into_iter().map(told).collect::<Vec<_>>()
        };
        run(
            "cd w && git init -q --bare --shared fine && git init -q --bare bad && git -C bad config core.fsmonitor evil && \
             git init -q x && git -C x -c user.name=a -c user.email=b commit -q --allow-empty -m one && \
             git clone -q --mirror x mirror && git -C mirror worktree add -q ../linked",
        );
        assert_eq!(settle(&[("fine/HEAD", false), ("fine/config", false)]), [""; 0]);
        assert_eq!(settle(&[("mirror/HEAD", false), ("mirror/worktrees/linked/HEAD", false)]), [""; 0]);
        assert_eq!(settle(&[("bad/HEAD", false), ("bad/config", false)]), ["bad/HEAD: core.fsmonitor"]);
        assert!(!top.join("w/bad/HEAD").exists() && top.join("w/bad/config").exists());
        run("cd w && echo evil >fine/hooks/post-commit && git -C fine config core.worktree wt");
        let changed =
            [("fine/config", true), ("fine/hooks/post-commit", false), ("fine/refs/heads/x", false)];
        assert_eq!(
            settle(&changed),
            ["fine/config: core.worktree, hooks/post-commit", "fine/hooks/post-commit: post-commit"]
        );
        // By another directory that holds what git takes from there.
        run(
            "cd w && mkdir -p other/objects other/refs led && echo '[core]' >other/config && echo ../other >led/commondir && \
             echo 'ref: refs/heads/x' >led/HEAD",
        );
        assert_eq!(settle(&[("led/commondir", false)]), ["led/HEAD: commondir"]);
    }
}
