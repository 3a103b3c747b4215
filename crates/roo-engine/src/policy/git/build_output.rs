//! Repositories in build output that git ignores. Nobody indexes it, so what a command made or changed of them is known by
//! what its supervisor put down, and where that is not all, by the times of files.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::directories::GitDirectory;
use super::guard::{Configuration, GitGuard, GitOutcome, Guarded};
use super::sequencer::{self, Programs};
use roo_sandbox::changes::Store;
use roo_sandbox::exec::sandbox::{BeforeImage, Journal};

/// The most names that are looked at where it is not known which were touched.
const MAX_NAMES: usize = 200_000;
/// The same in directories that were moved.
const MAX_MOVED_NAMES: usize = 1_000_000;
/// How much older than the command a file may seem that it wrote: the kernel's clock for files ticks.
const TICK: Duration = Duration::from_millis(20);
/// Files of a git directory that make git run programs, or take contents and settings from elsewhere, but for its
/// configuration and hooks.
const STEERING: &[&str] = &[
    "commondir",
    "config.worktree",
    "gitdir",
    "info/attributes",
    "objects/info/alternates",
    "objects/info/http-alternates",
];

/// What was touched in build output: by the `.git`, the paths in it; that itself where it came up.
type TouchedGit = BTreeMap<PathBuf, BTreeSet<PathBuf>>;

impl GitGuard {
    /// Puts away what a command that began then has made of repositories in these directories and may not stay, and puts back
    /// what it may not change. All processes of the command are dead. Runs git where anything was touched.
    pub(crate) fn settle_build_output(
        &self,
        directories: &[PathBuf],
        begun: SystemTime,
        journal: &Journal,
        store: &Store,
    ) -> GitOutcome {
        let mut outcome = GitOutcome::default();
        let before = ImagesBefore::new(journal);
        let mut made = Vec::new();
        let (brought, unsearched) = FoundRepositories::brought(directories, begun, journal);
        let because = "it holds too many files to look for git repositories in all of it".to_owned();
        outcome.failed.extend(unsearched.map(|directory| (directory, because)));
        let mut touched = touched(directories, journal);
        for git in brought.dot_git {
            touched.entry(git.clone()).or_default().insert(git);
        }
        for (git, paths) in touched {
            if paths.contains(&git) {
                made.extend(git.symlink_metadata().is_ok().then_some(((), git)));
            } else {
                self.settle_touched(&git, &paths, &before, store, &mut outcome);
            }
        }
        for ((), git, because) in self.judge_new(made) {
            self.quarantine_if_objectionable(&git, because, store, &mut outcome);
        }
        let mut touched = touched_bare(directories, journal);
        touched.extend(brought.bare.into_iter().map(|git| (git.join("HEAD"), false)));
        outcome.and(self.settle_bare(&touched, journal, store))
    }

    /// Settles a repository that was there before.
    fn settle_touched(
        &self,
        git: &Path,
        paths: &BTreeSet<PathBuf>,
        before: &ImagesBefore<'_>,
        store: &Store,
        outcome: &mut GitOutcome,
    ) {
        let whole = GitDirectory { own: git.to_owned(), common: git.to_owned() };
        let is_touched = |place: &Path| paths.iter().any(|path| path.starts_with(place));
        let mut inner: Vec<PathBuf> = Vec::new();
        for module in whole.modules().filter(|module| is_touched(module)) {
            match before.content(&module.join("config")) {
                None if is_touched(&module.join("config")) => {
                    self.quarantine_if_objectionable(
                        &module,
                        self.objections_to_module(&module),
                        store,
                        outcome,
                    );
                }
                _ => inner.push(module),
            }
        }
        for tree in whole.work_trees().filter(|tree| is_touched(tree)) {
            match before.content(&tree.join("gitdir")) {
                None if is_touched(&tree.join("gitdir")) => {
                    self.quarantine_if_objectionable(
                        &tree,
                        self.objections_to_work_tree(&tree),
                        store,
                        outcome,
                    );
                }
                _ => inner.push(tree),
            }
        }
        for git in inner.iter().map(PathBuf::as_path).chain([git]) {
            self.settle_files(git, paths, before, store, outcome);
        }
    }

    pub(super) fn settle_files(
        &self,
        git: &Path,
        paths: &BTreeSet<PathBuf>,
        before: &ImagesBefore<'_>,
        store: &Store,
        outcome: &mut GitOutcome,
    ) {
        let config = git.join("config");
        if paths.contains(&config)
            && let Some((text, mode)) = before.content(&config)
        {
            let configuration = Configuration { file: config.clone(), text, mode, copy: None };
            match configuration.settle(store, &self.roots) {
                Ok(withheld) => outcome.withheld.extend(withheld),
                Err(error) => outcome.failed.push((config, error.to_string())),
            }
        }
        let hooks = git.join("hooks");
        let is_hook =
            |path: &&PathBuf| path.starts_with(&hooks) && path.extension() != Some(OsStr::new("sample"));
        let steering = STEERING.iter().map(|name| git.join(name)).filter(|path| paths.contains(path));
        for path in steering.chain(paths.iter().filter(is_hook).cloned()) {
            let guarded = match before.content(&path) {
                Some((text, mode)) => Guarded::File { text, mode },
                // A directory of hooks that git makes holds nothing but samples.
                None if path.is_dir() && holds_only_samples(&path) => continue,
                None => Guarded::Missing,
            };
            match guarded.settle(&path, store) {
                Ok(withheld) => outcome.withheld.extend(withheld),
                Err(error) => outcome.failed.push((path, error.to_string())),
            }
        }
        let is_under_way = |path: &PathBuf| {
            path.starts_with(git.join("rebase-merge")) || path.starts_with(git.join("sequencer"))
        };
        if paths.iter().any(is_under_way) {
            let steps = before.content(&git.join(sequencer::STEPS)).unwrap_or_default().0;
            let programs = Programs::from_steps(&String::from_utf8_lossy(&steps));
            match programs.settle(git, store, &self.roots) {
                Ok(removed) => outcome.withheld.extend(removed.into_iter().map(Into::into)),
                Err(error) => outcome.failed.push((git.to_owned(), error.to_string())),
            }
        }
    }
}

/// The contents that a supervisor kept.
pub(super) struct ImagesBefore<'a> {
    journal: &'a Journal,
    images: HashMap<&'a Path, &'a BeforeImage>,
}

impl<'a> ImagesBefore<'a> {
    pub(super) fn new(journal: &'a Journal) -> Self {
        let mut images = HashMap::new();
        for image in journal.images.iter().filter(|image| image.content.is_some()) {
            images.entry(image.path.as_path()).or_insert(image);
        }
        Self { journal, images }
    }

    /// What a file held before the command, with its mode.
    pub(super) fn content(&self, path: &Path) -> Option<(Vec<u8>, u32)> {
        let image = self.images.get(path)?;
        Some((self.journal.content(image)?, image.mode))
    }
}

fn holds_only_samples(hooks: &Path) -> bool {
    let mut names = fs::read_dir(hooks).into_iter().flatten().flatten().map(|entry| entry.path());
    names.all(|path| path.extension() == Some(OsStr::new("sample")))
}

/// What a journal tells of repositories with a `.git` in these directories.
fn touched(directories: &[PathBuf], journal: &Journal) -> TouchedGit {
    let mut found = TouchedGit::new();
    for (path, _) in journal.touched().filter(|(path, _)| is_in(path, directories)) {
        if let Some(git) = dot_git(path) {
            found.entry(git.to_owned()).or_default().insert(path.to_owned());
        }
    }
    found
}

/// The same of those without, each path with whether something was there before.
fn touched_bare(directories: &[PathBuf], journal: &Journal) -> Vec<(PathBuf, bool)> {
    let was_there: HashSet<&Path> = journal.images.iter().map(|image| image.path.as_path()).collect();
    let touched = journal.touched().filter(|(path, _)| is_in(path, directories));
    let touched = touched.map(|(path, _)| (path.to_owned(), was_there.contains(path)));
    touched.filter(|(path, was_there)| *was_there || path.symlink_metadata().is_ok()).collect()
}

fn is_in(path: &Path, directories: &[PathBuf]) -> bool {
    directories.iter().any(|directory| path.starts_with(directory))
}

/// The outermost `.git` that a path is or is in.
pub(super) fn dot_git(path: &Path) -> Option<&Path> {
    path.ancestors().filter(|above| above.ends_with(".git")).last()
}

/// Repositories that were found in directories, whoever made them.
#[derive(Default)]
pub(super) struct FoundRepositories {
    /// Each `.git`.
    pub(super) dot_git: Vec<PathBuf>,
    /// The directories of those without.
    pub(super) bare: Vec<PathBuf>,
}

impl FoundRepositories {
    /// Those that came into these directories with a directory that was moved; and where the journal is not complete, all that are
    /// newer than the command. Gives besides a directory that holds too many names to look at them all.
    fn brought(directories: &[PathBuf], begun: SystemTime, journal: &Journal) -> (Self, Option<PathBuf>) {
        let (mut found, mut unsearched) = (Self::default(), None);
        let mut left = MAX_MOVED_NAMES;
        let moved = journal.touched().filter(|(path, all)| *all && is_in(path, directories));
        for (moved, _) in moved.filter(|(path, _)| dot_git(path).is_none()) {
            found.add_below(moved, &mut left);
            if left == 0 {
                unsearched = Some(moved.to_owned());
                break;
            }
        }
        if !journal.is_complete() {
            let mut all = Self::default();
            let mut left = MAX_NAMES;
            directories.iter().for_each(|directory| all.add_below(directory, &mut left));
            let since = begun.checked_sub(TICK).unwrap_or(UNIX_EPOCH);
            found.dot_git.extend(all.dot_git.into_iter().filter(|git| is_newer(git, since)));
            found.bare.extend(all.bare.into_iter().filter(|git| is_newer(git, since)));
        }
        (found, unsearched)
    }

    /// Adds those in a directory or below it, as far as `left` more names go.
    pub(super) fn add_below(&mut self, directory: &Path, left: &mut usize) {
        walk(directory, left, |directory, names| {
            let has = |name: &str| names.contains(OsStr::new(name));
            self.dot_git.extend(has(".git").then(|| directory.join(".git")));
            let is_bare = has("HEAD") && (has("commondir") || (has("objects") && has("refs")));
            self.bare.extend(is_bare.then(|| directory.to_owned()));
        });
    }
}

/// Visits a directory and those below it with the names in each, but for what is in a `.git`, as far as `left` more names go.
fn walk(directory: &Path, left: &mut usize, mut visit: impl FnMut(&Path, &HashSet<OsString>)) {
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop().filter(|_| *left > 0) {
        let mut names = HashSet::new();
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten().take(*left) {
            if entry.file_name() != ".git" && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(entry.path());
            }
            names.insert(entry.file_name());
        }
        *left -= names.len();
        visit(&directory, &names);
    }
}

/// Returns whether what steers a git directory may have been written since.
fn is_newer(git: &Path, since: SystemTime) -> bool {
    use std::os::unix::fs::MetadataExt as _;

    let since = since.duration_since(UNIX_EPOCH).unwrap_or_default();
    let changed = |path: &Path| {
        let found = path.symlink_metadata().ok();
        let at = found.and_then(|found| {
            let seconds = Duration::from_secs(found.ctime().try_into().ok()?);
            Some(seconds + Duration::from_nanos(found.ctime_nsec().try_into().ok()?))
        });
        at.is_some_and(|at| at >= since)
    };
    if !git.is_dir() {
        return changed(git);
    }
    let whole = GitDirectory { own: git.to_owned(), common: git.to_owned() };
    let is_changed = |git: &Path| {
        let hooks = git.join("hooks");
        let mut names = fs::read_dir(&hooks).into_iter().flatten().flatten().map(|entry| entry.path());
        STEERING.iter().any(|name| changed(&git.join(name)))
            || [&git.join("config"), &hooks].into_iter().any(|path| changed(path))
            || names.any(|path| changed(&path))
    };
    whole.modules().chain(whole.work_trees()).chain([git.to_owned()]).any(|git| is_changed(&git))
}
