//! Git's ignore files, for walks: `.ignore`, `.gitignore` and `.git/info/exclude` of every directory above a
//! name. Any program that writes to the workspace can put other things there, so only regular files are read.
//!
//! The user's global git ignore file doesn't count, as it isn't part of the workspace. `.rooignore`,
//! which protects, is in [`super::ignore`].

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ::ignore::gitignore::{Gitignore, GitignoreBuilder};

use roo_durable::read_regular;

/// The largest ignore file that counts, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// The longest text of a file that points to a repository elsewhere, in bytes.
const POINTER: u64 = 4 << 10;

/// The ignore files of a walk, each read once.
#[derive(Default)]
pub(super) struct GitIgnores(Mutex<Known>);

/// What was read. Levels are none where neither the directory nor one above it has any files.
#[derive(Default)]
struct Known {
    levels: HashMap<PathBuf, Option<Arc<Level>>>,
    /// The directory of the last name: a walk asks for siblings one after another.
    last: Option<(PathBuf, Option<Arc<Level>>)>,
}

impl Known {
    fn level(&mut self, directory: &Path) -> Option<Arc<Level>> {
        match &self.last {
            // Bytes compare faster than components.
            Some((known, level)) if known.as_os_str() == directory.as_os_str() => level.clone(),
            _ => {
                let level = Level::from_directory(directory, &mut self.levels);
                self.last = Some((directory.to_owned(), level.clone()));
                level
            }
        }
    }
}

/// The ignore files of one directory.
pub(super) struct Level {
    /// The next directory above that has some.
    above: Option<Arc<Level>>,
    /// By rank, the first counts most.
    files: [Option<Gitignore>; 3],
}

impl GitIgnores {
    /// Returns whether a name is ignored, when nothing above it is. Of files of one rank the innermost one that says
    /// something decides.
    pub(super) fn ignore(&self, path: &Path, is_directory: bool) -> bool {
        let Some(directory) = path.parent() else { return false };
        let level = self.0.lock().unwrap_or_else(PoisonError::into_inner).level(directory);
        level.is_some_and(|level| level.ignore(path, is_directory))
    }
}

impl Level {
    /// As [`GitIgnores::ignore`], for a name in this directory or below it where none of those between has any files.
    pub(super) fn ignore(&self, path: &Path, is_directory: bool) -> bool {
        let levels = || std::iter::successors(Some(self), |level| level.above.as_deref());
        (0..3)
            .find_map(|rank| {
                levels()
                    .filter_map(|level| level.files[rank].as_ref())
                    .map(|rules| rules.matched(path, is_directory))
                    .find(|matched| !matched.is_none())
            })
            .is_some_and(|matched| matched.is_ignore())
    }

    /// The level of the directories above one.
    pub(super) fn above(directory: &Path) -> Option<Arc<Self>> {
        directory.parent().and_then(|above| Self::from_directory(above, &mut HashMap::new()))
    }

    /// The level of a directory, of which it is known what names it has.
    pub(super) fn of_listed(
        above: Option<Arc<Self>>,
        directory: &Path,
        has: impl Fn(&str) -> bool,
    ) -> Option<Arc<Self>> {
        let read = |name: &str| has(name).then(|| rules(directory, &directory.join(name))).flatten();
        let exclude = || rules(directory, &repository(directory)?.join("info/exclude"));
        Self::with_files(above, [read(".ignore"), read(".gitignore"), has(".git").then(exclude).flatten()])
    }

    fn with_files(above: Option<Arc<Self>>, files: [Option<Gitignore>; 3]) -> Option<Arc<Self>> {
        match files.iter().all(Option::is_none) {
            true => above,
            false => Some(Arc::new(Self { above, files })),
        }
    }

    fn from_directory(
        directory: &Path,
        known: &mut HashMap<PathBuf, Option<Arc<Self>>>,
    ) -> Option<Arc<Self>> {
        if let Some(level) = known.get(directory) {
            return level.clone();
        }
        let above = directory.parent().and_then(|above| Self::from_directory(above, known));
        let files = [
            rules(directory, &directory.join(".ignore")),
            rules(directory, &directory.join(".gitignore")),
            repository(directory).and_then(|git| rules(directory, &git.join("info/exclude"))),
        ];
        let level = Self::with_files(above, files);
        known.insert(directory.to_owned(), level.clone());
        level
    }
}

/// The patterns of a file. Invalid lines are ignored, and so is anything but a regular file.
fn rules(directory: &Path, file: &Path) -> Option<Gitignore> {
    let text = read_regular(file, MAX_FILE_BYTES).ok()?;
    let mut builder = GitignoreBuilder::new(directory);
    for line in text.trim_start_matches('\u{feff}').lines() {
        let _ = builder.add_line(None, line);
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}

/// Finds the directory that all work trees of a directory's repository share.
fn repository(directory: &Path) -> Option<PathBuf> {
    let git = directory.join(".git");
    if fs::metadata(&git).ok()?.is_dir() {
        return Some(git);
    }
    let text = read_regular(&git, POINTER).ok()?;
    let own = directory.join(text.lines().next()?.strip_prefix("gitdir: ")?);
    match read_regular(&own.join("commondir"), POINTER) {
        Ok(text) => Some(own.join(text.lines().next()?)),
        Err(_) => Some(own),
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    struct Fixture(tempfile::TempDir);

    impl Fixture {
        fn new(files: &[(&str, &str)]) -> Self {
            let directory = tempfile::tempdir().unwrap();
            for (name, text) in files {
                let path = directory.path().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Self(directory)
        }

        #[track_caller]
        fn check(&self, ignored: &[&str], seen: &[&str]) {
            let git = GitIgnores::default();
            let ignores = |name: &&&str| {
                git.ignore(&self.0.path().join(name.trim_end_matches('/')), name.ends_with('/'))
            };
            assert_eq!(ignored.iter().find(|name| !ignores(name)), None);
            assert_eq!(seen.iter().find(ignores), None);
        }
    }

    #[test]
    fn the_innermost_file_decides() {
        let fixture = Fixture::new(&[
            (".gitignore", "*.log\n/build/\n"),
            ("sub/.gitignore", "!keep.log\n/own\n"),
            ("sub/deep/.gitignore", "own\n"),
        ]);
        fixture.check(
            &["a.log", "sub/a.log", "build/", "sub/own", "sub/deep/own", "sub/deep/more/own"],
            &["sub/keep.log", "sub/deep/keep.log", "keep.txt", "build", "sub/build/", "own"],
        );
    }

    #[test]
    fn other_ignore_files_count_as_for_git() {
        let fixture = Fixture::new(&[
            (".git/info/exclude", "excluded\n"),
            (".gitignore", "log\n!excluded\n"),
            (".ignore", "!log\nplain\n"),
            ("tree/.git", "gitdir: ../.git/worktrees/tree\n"),
            (".git/worktrees/tree/commondir", "../..\n"),
        ]);
        fixture.check(&["plain", "tree/plain"], &["log", "excluded", "tree/x"]);
        fs::write(fixture.0.path().join(".gitignore"), "").unwrap();
        fixture.check(&["excluded", "tree/excluded"], &["log"]);
    }

    #[test]
    fn anything_but_a_file_is_skipped_without_blocking() {
        let fixture = Fixture::new(&[("sub/x", ""), (".git/info/x", ""), ("tree/x", "")]);
        for name in [".gitignore", ".ignore", ".git/info/exclude", "sub/.gitignore", "tree/.git"] {
            mknodat(CWD, fixture.0.path().join(name), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        }
        fixture.check(&[], &["sub/x", "tree/x", "x"]);
    }
}
