//! What a command that runs on has made of repositories and may not stay: judged before its end, which may be hours away.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use super::bare::{bare_repository, is_part, makes_repository};
use super::build_output::{FoundRepositories, dot_git};
use super::guard::GitGuard;
use roo_sandbox::exec::sandbox::{Journal, JournalReader};

/// The most names that one look goes through in directories that were moved.
const MAX_NAMES: usize = 200_000;

/// Repositories that a command may have made, as its journal tells of them.
#[derive(Debug)]
pub struct MadeRepositories {
    reader: JournalReader,
    /// What it touched so far.
    journal: Journal,
    /// The `.git` that came up.
    dot_git: BTreeSet<PathBuf>,
    /// Paths that would make a directory a repository without a `.git`.
    parts: BTreeSet<PathBuf>,
    /// Those of them that were there before.
    earlier_parts: BTreeSet<PathBuf>,
    /// Directories that were moved and are still to be looked into.
    moved: Vec<PathBuf>,
}

impl MadeRepositories {
    /// With the directory of a capture, whose journal is read as it grows.
    pub(crate) fn new(capture: PathBuf) -> Self {
        Self {
            reader: JournalReader::new(capture),
            journal: Journal::default(),
            dot_git: BTreeSet::new(),
            parts: BTreeSet::new(),
            earlier_parts: BTreeSet::new(),
            moved: vec![],
        }
    }

    fn read_on(&mut self, roots: &[PathBuf]) -> io::Result<()> {
        let new = self.reader.read_on()?;
        let parts = new.images.iter().map(|image| &image.path).filter(|path| is_part(path));
        self.earlier_parts.extend(parts.cloned());
        let mut moved = std::mem::take(&mut self.moved);
        let is_inside = |path: &Path| roots.iter().any(|root| path.starts_with(root));
        for (path, all) in new.touched().filter(|(path, _)| is_inside(path)) {
            match dot_git(path) {
                Some(git) if git == path => _ = self.dot_git.insert(path.to_owned()),
                Some(_) => {}
                None if is_part(path) => _ = self.parts.insert(path.to_owned()),
                None => {}
            }
            if all {
                moved.push(path.to_owned());
                // It is put down before it is moved, so the next look counts too.
                self.moved.push(path.to_owned());
            }
        }
        self.journal.add_touched(new);
        let (mut found, mut left) = (FoundRepositories::default(), MAX_NAMES);
        for directory in moved {
            if left == 0 {
                self.moved.push(directory);
                continue;
            }
            found.add_below(&directory, &mut left);
            if left == 0 {
                let directory = directory.display();
                tracing::warn!(%directory, "it holds too many files to look for git repositories in all of it");
            }
        }
        self.dot_git.extend(found.dot_git);
        self.parts.extend(found.bare.iter().map(|git| git.join("HEAD")));
        Ok(())
    }
}

impl GitGuard {
    /// Returns the git directories that came up by a command which still runs and may not stay as they are now. Nothing is
    /// changed: what is at a path may be something else the next moment. Runs git where any came up.
    pub(crate) fn disallowed_repositories(&self, made: &mut MadeRepositories) -> BTreeSet<PathBuf> {
        if made.read_on(&self.roots).is_err() {
            return BTreeSet::new();
        }
        let is_known = |git: &Path| self.directories().any(|known| git.starts_with(known));
        let new = made.dot_git.iter().filter(|git| !is_known(git) && git.symlink_metadata().is_ok());
        let judged = self.judge_new(new.map(|git| ((), git.clone())).collect());
        let disallowed = judged.into_iter().filter(|(_, _, because)| !because.is_empty());
        let mut found: BTreeSet<PathBuf> = disallowed.map(|((), git, _)| git).collect();
        let is_touched = |git: &PathBuf| !made.journal.has_left_git_alone(git);
        let modules = self.new_modules().into_iter().filter(is_touched);
        found.extend(modules.filter(|git| !self.objections_to_module(git).is_empty()));
        let work_trees = self.new_work_trees().into_iter().filter(is_touched);
        found.extend(work_trees.filter(|git| !self.objections_to_work_tree(git).is_empty()));
        let bare = self.bare_repositories(made).into_iter();
        found.extend(bare.filter(|git| !self.objections_to_bare(git).is_empty()));
        found
    }

    /// Those without a `.git` that came up.
    fn bare_repositories(&self, made: &MadeRepositories) -> BTreeSet<PathBuf> {
        let new = made.parts.difference(&made.earlier_parts);
        let repositories = new.filter(|path| path.symlink_metadata().is_ok()).filter_map(|path| {
            let root = self.roots.iter().find(|root| path.starts_with(root))?;
            bare_repository(root, path).filter(|git| makes_repository(git, path))
        });
        repositories.collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use serde_json::json;

    use super::*;

    #[test]
    fn repositories_are_found_as_the_journal_grows() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap();
        let (root, capture) = (top.join("w"), top.join("capture"));
        fs::create_dir(&capture).unwrap();
        let make = |path: PathBuf| {
            fs::create_dir_all(path.join("objects")).unwrap();
            fs::create_dir_all(path.join("refs")).unwrap();
            fs::write(path.join("HEAD"), "ref: refs/heads/main\n").unwrap();
            fs::write(path.join("config"), "[core]\nfsmonitor = evil\n").unwrap();
        };
        let mut journal = fs::File::create(capture.join("journal")).unwrap();
        let mut touch = |path: PathBuf, all: bool| {
            let touched = json!({ "touched": { "path": path, "all": all, "file": null } });
            writeln!(journal, "{touched}").unwrap();
        };
        let guard = GitGuard::begin(&[], std::slice::from_ref(&root), &[], None, false).unwrap();
        let mut made = MadeRepositories::new(capture);
        let mut disallowed = || guard.disallowed_repositories(&mut made).into_iter().collect::<Vec<_>>();
        fs::create_dir(&root).unwrap();
        assert_eq!(disallowed(), [""; 0].map(PathBuf::from));
        // Each is put down before it is there.
        touch(root.join("a/.git"), false);
        touch(root.join("bare/refs"), false);
        touch(root.join("moved"), true);
        assert_eq!(disallowed(), [""; 0].map(PathBuf::from));
        make(root.join("a/.git"));
        make(root.join("bare"));
        make(root.join("moved/in/.git"));
        let expected = ["a/.git", "bare", "moved/in/.git"].map(|name| root.join(name));
        for _ in 0..3 {
            assert_eq!(disallowed(), expected);
        }
        fs::write(root.join("bare/config"), "").unwrap();
        fs::remove_dir_all(root.join("moved")).unwrap();
        assert_eq!(disallowed(), [root.join("a/.git")]);
    }
}
