//! Guard of git directories: what must be after a command as it was before, and what a command may change of a
//! configuration.
//!
//! Where the sandbox can show a private copy in place of a file, a command writes its own copy of each configuration,
//! and what may stay of it is brought back when the command has ended: at no time does a git outside of the sandbox
//! read what a command wrote there.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::config;
use super::directories::GitDirectory;
use super::replace::replace;
use super::sequencer::{Programs, Removed};
use roo_durable::read_regular;
use roo_sandbox::changes::Store;
use roo_sandbox::exec::sandbox::{Journal, Substitute};
use roo_trace::record::CommitMade;

/// The largest configuration or guarded file that is kept, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// The most guarded files of one directory that are kept.
const MAX_FILES: usize = 1000;
/// The most that is read of what a command added to a log of references, in bytes.
const LOG: u64 = 1 << 20;

/// Reason against a configuration, before the error.
pub(super) const UNREADABLE: &str = "its configuration can't be read";

/// Commands of git that make commits, as logs of references name them.
const MAKING_COMMITS: &[&str] = &["am", "cherry-pick", "commit", "merge", "pull", "rebase", "revert"];

/// State that is compared after a command.
#[derive(Debug, Default)]
pub struct GitGuard {
    configurations: Vec<Configuration>,
    guarded: Vec<(PathBuf, Guarded)>,
    generated: Vec<GeneratedHooks>,
    logs: Vec<(PathBuf, u64)>,
    /// Directories of tags, and when each was changed.
    tags: Vec<(PathBuf, Option<SystemTime>)>,
    directories: Vec<GitDirectory>,
    /// The workspace folders.
    pub(super) roots: Vec<PathBuf>,
    /// The directories of submodules.
    modules: BTreeSet<PathBuf>,
    /// Those of linked work trees.
    work_trees: BTreeSet<PathBuf>,
    /// What operations that are under way would run, by the git directory.
    under_way: BTreeMap<PathBuf, Programs>,
}

#[derive(Debug)]
pub(super) struct Configuration {
    pub(super) file: PathBuf,
    pub(super) text: Vec<u8>,
    pub(super) mode: u32,
    /// File that the command writes in its place; none where it writes the file itself.
    pub(super) copy: Option<PathBuf>,
}

/// A directory of hooks that a tool generates, and the copy in its place that the command may write.
#[derive(Debug)]
struct GeneratedHooks {
    directory: PathBuf,
    files: BTreeMap<PathBuf, (Vec<u8>, u32)>,
    copy: PathBuf,
}

/// State of a guarded path before the command.
#[derive(Debug)]
pub(super) enum Guarded {
    Missing,
    /// It is there and can't be written.
    Held,
    File {
        text: Vec<u8>,
        mode: u32,
    },
    Directory(BTreeMap<PathBuf, (Vec<u8>, u32)>),
}

/// A change of a git directory that does not stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WithheldGitChange {
    /// Changed path.
    pub path: PathBuf,
    /// The keys of a configuration, or what else is wrong with it; to follow "because of".
    pub because: Vec<String>,
    /// File that holds what the command wrote, if it was kept.
    pub kept: Option<PathBuf>,
}

/// Changes of a command to git directories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GitOutcome {
    /// Changes that do not stay.
    pub withheld: Vec<WithheldGitChange>,
    /// Paths that could not be restored, with the reason.
    pub failed: Vec<(PathBuf, String)>,
    /// The commits that came to be.
    pub commits: Vec<CommitMade>,
    /// True if a tag came to be.
    pub tagged: bool,
}

impl GitOutcome {
    /// Adds what another look found.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.withheld.extend(other.withheld);
        self.failed.extend(other.failed);
        self.commits.extend(other.commits);
        self.tagged |= other.tagged;
        self
    }
}

impl GitGuard {
    /// Looks at the git directories of a workspace with these folders before a command, and at the directories of `hooks` that
    /// tools generate. `private` is a directory for copies of configurations and of these, where the sandbox can show them;
    /// `holds` says whether it keeps what is guarded from being written: as long as others leave it where it is, and with a
    /// supervisor, which is there where there are copies, whatever they do.
    ///
    /// # Errors
    /// When something can't be read or copied: then a command must not run.
    pub(in super::super) fn begin(
        directories: &[GitDirectory],
        roots: &[PathBuf],
        hooks: &[PathBuf],
        private: Option<&Path>,
        holds: bool,
    ) -> io::Result<Self> {
        let mut guard = Self { directories: directories.to_vec(), roots: roots.to_vec(), ..Self::default() };
        let mut seen = BTreeSet::new();
        for directory in directories {
            directory.make_guarded_directories();
            for path in directory.guarded().into_iter().filter(|path| seen.insert(path.clone())) {
                let state = Guarded::from_path(&path, holds && private.is_some())?;
                guard.guarded.push((path, state));
            }
            let file = directory.configuration();
            if seen.insert(file.clone()) && file.symlink_metadata().is_ok_and(|found| found.is_file()) {
                let mode = fs::metadata(&file)?.mode();
                let text = read_bytes(&file)?;
                let copy = match private {
                    None => None,
                    Some(private) => {
                        let copy = private.join(format!("git-config-{}", guard.configurations.len()));
                        write_private(&copy, &text)?;
                        Some(copy)
                    }
                };
                guard.configurations.push(Configuration { file, text, mode, copy });
            }
            let log = directory.own.join("logs/HEAD");
            let length = fs::metadata(&log).map(|found| found.len()).unwrap_or_default();
            guard.logs.push((log, length));
            let tags = directory.common.join("refs/tags");
            let changed = modified(&tags);
            guard.tags.push((tags, changed));
        }
        for (index, directory) in hooks.iter().enumerate() {
            // What can't be copied as a whole can't be written.
            if let (Some(private), Ok(files)) = (private, files_below(directory)) {
                let copy = private.join(format!("git-hooks-{index}"));
                copy_files(&files, &copy)?;
                guard.generated.push(GeneratedHooks { directory: directory.clone(), files, copy });
            }
        }
        guard.modules = guard.modules_now();
        guard.work_trees = guard.work_trees_now();
        for git in guard.all_directories() {
            let programs = Programs::read(&git, roots);
            if !programs.is_empty() {
                guard.under_way.insert(git, programs);
            }
        }
        Ok(guard)
    }

    fn modules_now(&self) -> BTreeSet<PathBuf> {
        self.directories.iter().flat_map(GitDirectory::modules).collect()
    }

    fn work_trees_now(&self) -> BTreeSet<PathBuf> {
        self.directories.iter().flat_map(GitDirectory::work_trees).collect()
    }

    /// The directories of submodules that came up.
    pub(super) fn new_modules(&self) -> BTreeSet<PathBuf> {
        self.modules_now().difference(&self.modules).cloned().collect()
    }

    /// Those of linked work trees that came up.
    pub(super) fn new_work_trees(&self) -> BTreeSet<PathBuf> {
        self.work_trees_now().difference(&self.work_trees).cloned().collect()
    }

    /// The git directories that were there.
    pub(super) fn directories(&self) -> impl Iterator<Item = &Path> {
        self.directories.iter().flat_map(GitDirectory::writable)
    }

    /// All git directories in which something may be under way.
    fn all_directories(&self) -> BTreeSet<PathBuf> {
        let own = self.directories.iter().map(|directory| directory.own.clone());
        own.chain(self.modules_now()).chain(self.work_trees_now()).collect()
    }

    /// The copies that are shown in place of configurations and generated hooks.
    pub fn substitutes(&self) -> Vec<Substitute> {
        let copies = self.configurations.iter().filter_map(|configuration| {
            let (place, source) = (configuration.file.clone(), configuration.copy.clone()?);
            Some(Substitute { place, source, is_writable: true })
        });
        let hooks = self.generated.iter().map(|hooks| Substitute {
            place: hooks.directory.clone(),
            source: hooks.copy.clone(),
            is_writable: true,
        });
        copies.chain(hooks).collect()
    }

    /// Undoes what may not stay of the configurations themselves, where a command that was shown copies may have written them
    /// all the same. To be called before [`Self::settle`]. Runs git where a configuration changed.
    pub(crate) fn settle_exposed(&self, store: &Store) -> GitOutcome {
        let mut outcome = GitOutcome::default();
        for configuration in self.configurations.iter().filter(|configuration| configuration.copy.is_some()) {
            match configuration.itself().settle(store, &self.roots) {
                Ok(withheld) => outcome.withheld.extend(withheld),
                Err(error) => outcome.failed.push((configuration.file.clone(), error.to_string())),
            }
        }
        outcome
    }

    /// Brings back what may stay of the configurations, and undoes what may not stay of the rest. What the command left alone
    /// by its journal is somebody else's. All processes of the command are dead. Runs git where a configuration changed.
    pub fn settle(&self, store: &Store, journal: &Journal) -> GitOutcome {
        let mut outcome = GitOutcome::default();
        for configuration in &self.configurations {
            match configuration.settle(store, &self.roots) {
                Ok(withheld) => outcome.withheld.extend(withheld),
                Err(error) => outcome.failed.push((configuration.file.clone(), error.to_string())),
            }
        }
        for (path, before) in &self.guarded {
            match before.settle(path, store) {
                Ok(withheld) => outcome.withheld.extend(withheld),
                Err(error) => outcome.failed.push((path.clone(), error.to_string())),
            }
        }
        for hooks in &self.generated {
            match hooks.settle(store) {
                Ok(withheld) => outcome.withheld.extend(withheld),
                Err(error) => outcome.failed.push((hooks.directory.clone(), error.to_string())),
            }
        }
        let is_touched = |path: &&PathBuf| !journal.has_left_git_alone(path);
        for path in self.new_modules().iter().filter(is_touched) {
            self.quarantine_if_objectionable(path, self.objections_to_module(path), store, &mut outcome);
        }
        for path in self.new_work_trees().iter().filter(is_touched) {
            self.quarantine_if_objectionable(path, self.objections_to_work_tree(path), store, &mut outcome);
        }
        let nothing = Programs::default();
        let is_operating =
            |git: &PathBuf| Programs::places(git).iter().any(|place| !journal.has_left_git_alone(place));
        for git in self.all_directories().into_iter().filter(is_operating) {
            match self.under_way.get(&git).unwrap_or(&nothing).settle(&git, store, &self.roots) {
                Ok(removed) => outcome.withheld.extend(removed.into_iter().map(WithheldGitChange::from)),
                Err(error) => outcome.failed.push((git, error.to_string())),
            }
        }
        outcome.tagged = self.tags.iter().any(|(tags, before)| has_newer(tags, *before));
        outcome.commits = self.logs.iter().flat_map(|(log, length)| commits(log, *length)).collect();
        outcome
    }

    /// Puts a directory away where there are reasons against it.
    pub(super) fn quarantine_if_objectionable(
        &self,
        path: &Path,
        because: Vec<String>,
        store: &Store,
        outcome: &mut GitOutcome,
    ) {
        if because.is_empty() {
            return;
        }
        match store.quarantine(path) {
            Ok(kept) => outcome.withheld.push(WithheldGitChange { path: path.to_owned(), because, kept }),
            Err(error) => outcome.failed.push((path.to_owned(), error.to_string())),
        }
    }

    /// Judges git directories and files that came up, each with its key. Gives those that may stay, and for the others why not.
    pub(crate) fn judge_new<K>(&self, found: Vec<(K, PathBuf)>) -> Vec<(K, PathBuf, Vec<String>)> {
        let (directories, files): (Vec<_>, Vec<_>) = found.into_iter().partition(|(_, git)| git.is_dir());
        let mut judged = Vec::new();
        // That of a submodule names a directory in that of its new repository.
        let mut accepted: Vec<PathBuf> = Vec::new();
        for (key, git) in directories {
            let because = self.objections(&git, &[]);
            if because.is_empty() {
                accepted.extend(git.canonicalize().ok());
            }
            judged.push((key, git, because));
        }
        for (key, git) in files {
            let because = self.objections(&git, &accepted);
            judged.push((key, git, because));
        }
        judged
    }

    /// Returns the reasons why a new `.git` of the workspace may not stay; nothing where it is one as git makes it, or names
    /// what is in an `accepted` one.
    fn objections(&self, git: &Path, accepted: &[PathBuf]) -> Vec<String> {
        match git.symlink_metadata() {
            Ok(found) if found.is_dir() => self.objections_to_directory(git, false),
            Ok(found) if found.is_file() => match GitDirectory::find([], [git], None).as_slice() {
                [found]
                    if self.directories.iter().any(|known| found.common.starts_with(&known.common))
                        || accepted.iter().any(|accepted| found.common.starts_with(accepted)) =>
                {
                    vec![]
                }
                _ => vec!["it names a directory that is not the workspace's own".to_owned()],
            },
            _ => vec!["it is no git directory".to_owned()],
        }
    }

    /// Returns the reasons why the git directory of a new submodule may not stay.
    pub(super) fn objections_to_module(&self, git: &Path) -> Vec<String> {
        self.objections_to_directory(git, true)
    }

    /// Returns the reasons why a new git directory may not stay. Only that of a submodule names its work tree, and no other
    /// than its own: git would write what is checked out there.
    pub(super) fn objections_to_directory(&self, git: &Path, is_module: bool) -> Vec<String> {
        let mut because = Vec::new();
        match config::read(&git.join("config"), &self.roots) {
            Ok(values) => {
                because.extend(config::objections(None, &values));
                if is_module
                    && let Some([work_tree]) = values.get("core.worktree").map(Vec::as_slice)
                    && self.is_work_tree_of(&git.join(work_tree), git)
                {
                    because.retain(|key| key != "core.worktree");
                }
            }
            Err(error) => because.push(format!("{UNREADABLE}: {error}")),
        }
        for name in ["commondir", "config.worktree", "info/attributes"] {
            if git.join(name).symlink_metadata().is_ok() {
                because.push(name.to_owned());
            }
        }
        for entry in fs::read_dir(git.join("hooks")).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if Path::new(&name).extension().is_none_or(|extension| extension != "sample") {
                because.push(format!("hooks/{}", name.to_string_lossy()));
            }
        }
        if git.join("hooks").symlink_metadata().is_ok_and(|found| found.is_symlink()) {
            because.push("hooks".to_owned());
        }
        if let Ok(text) = read_regular(&git.join("objects/info/alternates"), MAX_FILE_BYTES) {
            let is_known =
                |line: &str| self.directories.iter().any(|known| Path::new(line).starts_with(&known.common));
            if !text.lines().all(is_known) {
                because.push("objects/info/alternates".to_owned());
            }
        }
        if !Programs::read(git, &self.roots).is_empty() {
            because.push("an operation under way that runs a program".to_owned());
        }
        if !is_module {
            // What a `.git` file of a later command could name is judged now.
            let own = GitDirectory { own: git.to_owned(), common: git.to_owned() };
            for module in own.modules() {
                let objections = self.objections_to_module(&module);
                let name = module.strip_prefix(git).unwrap_or(&module).display().to_string();
                because.extend(objections.into_iter().map(|objection| format!("{name}: {objection}")));
            }
        }
        because
    }

    /// Returns whether a directory is in the workspace and its `.git` names this git directory.
    fn is_work_tree_of(&self, work_tree: &Path, git: &Path) -> bool {
        let (Ok(work_tree), Ok(git)) = (work_tree.canonicalize(), git.canonicalize()) else { return false };
        self.roots.iter().any(|root| work_tree.starts_with(root) && work_tree != *root)
            && named_by(&work_tree.join(".git")) == Some(git)
    }

    /// Returns the reasons why the directory of a new linked work tree may not stay.
    pub(super) fn objections_to_work_tree(&self, git: &Path) -> Vec<String> {
        let mut because = Vec::new();
        let own = git.join("config.worktree");
        if own.symlink_metadata().is_ok() {
            let others = self.directories.iter().flat_map(|directory| [&directory.own, &directory.common]);
            let others: Vec<config::Values> = others
                .filter_map(|other| config::read(&other.join("config.worktree"), &self.roots).ok())
                .collect();
            match config::read(&own, &self.roots) {
                Ok(values) => because.extend(config::objections_to_work_tree(&others, &values)),
                Err(error) => because.push(format!("{UNREADABLE}: {error}")),
            }
        }
        let names = |name: &str| {
            let text = read_regular(&git.join(name), MAX_FILE_BYTES).ok()?;
            Some(git.join(text.trim()))
        };
        let common = git.parent().and_then(Path::parent).and_then(|common| common.canonicalize().ok());
        if names("commondir").and_then(|named| named.canonicalize().ok()) != common || common.is_none() {
            because.push("commondir".to_owned());
        }
        // The work tree may be gone again.
        let is_own = names("gitdir").is_some_and(|named| {
            let place = named.parent().and_then(|place| place.canonicalize().ok());
            match place {
                None => self.roots.iter().any(|root| is_plainly_below(&named, root)),
                Some(place) => {
                    let is_inside = self.roots.iter().any(|root| place.starts_with(root));
                    let back = named_by(&place.join(".git"));
                    // Whoever made one elsewhere could write there: it is the user's or the server's.
                    let is_named_back =
                        back.map_or(is_inside, |back| git.canonicalize().is_ok_and(|git| git == back));
                    is_named_back && named.ends_with(".git")
                }
            }
        });
        if !is_own {
            because.push("gitdir".to_owned());
        }
        because
    }
}

/// The git directory that a `.git` file names, where both are there.
fn named_by(file: &Path) -> Option<PathBuf> {
    let text = read_regular(file, MAX_FILE_BYTES).ok()?;
    file.parent()?.join(text.strip_prefix("gitdir:")?.trim()).canonicalize().ok()
}

/// Returns whether a path is below a directory, with no way back in it.
fn is_plainly_below(path: &Path, directory: &Path) -> bool {
    let is_plain = !path.components().any(|part| part == std::path::Component::ParentDir);
    is_plain && path.starts_with(directory)
}

impl From<Removed> for WithheldGitChange {
    fn from(Removed { path, because, kept }: Removed) -> Self {
        Self { path, because, kept }
    }
}

impl Configuration {
    pub(super) fn settle(&self, store: &Store, roots: &[PathBuf]) -> io::Result<Option<WithheldGitChange>> {
        let written = self.copy.as_deref().unwrap_or(&self.file);
        let now = read_bytes(written)?;
        if now == self.text {
            return Ok(None);
        }
        let because = match (self.values(store, roots), config::read(written, roots)) {
            (Ok(before), Ok(after)) => config::objections(Some(&before), &after),
            (_, Err(error)) | (Err(error), _) => vec![error.to_string()],
        };
        let is_changed_by_others = self.copy.is_some() && read_bytes(&self.file)? != self.text;
        match (because.is_empty(), &self.copy) {
            (true, _) if is_changed_by_others => {
                let because = vec!["somebody else changed it meanwhile".to_owned()];
                let kept = store.quarantine(written)?;
                Ok(Some(WithheldGitChange { path: self.file.clone(), because, kept }))
            }
            (true, Some(_)) => replace(&self.file, &now, self.mode).map(|()| None),
            (true, None) => Ok(None),
            (false, copy) => {
                let kept = store.quarantine(written)?;
                if copy.is_none() {
                    replace(&self.file, &self.text, self.mode)?;
                }
                Ok(Some(WithheldGitChange { path: self.file.clone(), because, kept }))
            }
        }
    }

    /// The file without its copy.
    fn itself(&self) -> Self {
        Self { file: self.file.clone(), text: self.text.clone(), mode: self.mode, copy: None }
    }

    /// Returns its values before the command.
    fn values(&self, store: &Store, roots: &[PathBuf]) -> io::Result<config::Values> {
        config::read(store.private_file(&self.text)?.path(), roots)
    }
}

impl GeneratedHooks {
    /// A tool that generates the same again has changed nothing; anything else stays in the copy.
    fn settle(&self, store: &Store) -> io::Result<Option<WithheldGitChange>> {
        if files_below(&self.copy).is_ok_and(|now| now == self.files) {
            return Ok(None);
        }
        let (path, because) = (self.directory.clone(), vec!["hooks".to_owned()]);
        Ok(Some(WithheldGitChange { path, because, kept: store.quarantine(&self.copy)? }))
    }
}

impl Guarded {
    fn from_path(path: &Path, holds: bool) -> io::Result<Self> {
        let Ok(found) = path.symlink_metadata() else { return Ok(Self::Missing) };
        if holds {
            return Ok(Self::Held);
        }
        if found.is_dir() {
            return Ok(Self::Directory(files_below(path)?));
        }
        Ok(Self::File { text: read_bytes(path)?, mode: found.mode() })
    }

    pub(super) fn settle(&self, path: &Path, store: &Store) -> io::Result<Option<WithheldGitChange>> {
        let because = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let withheld = |path: &Path, kept| {
            let because = vec![because.clone()];
            Some(WithheldGitChange { path: path.to_owned(), because, kept })
        };
        match self {
            Self::Held => Ok(None),
            Self::Missing if path.symlink_metadata().is_err() => Ok(None),
            Self::Missing => Ok(withheld(path, store.quarantine(path)?)),
            Self::File { text, mode } => {
                if path.symlink_metadata().is_ok_and(|found| found.is_file() && found.mode() == *mode)
                    && read_bytes(path)? == *text
                {
                    return Ok(None);
                }
                let kept = store.quarantine(path)?;
                replace(path, text, *mode)?;
                Ok(withheld(path, kept))
            }
            Self::Directory(before) => {
                let is_directory = path.symlink_metadata().is_ok_and(|found| found.is_dir());
                if is_directory && files_below(path).is_ok_and(|now| now == *before) {
                    return Ok(None);
                }
                let kept = store.quarantine(path)?;
                for (relative, (text, mode)) in before {
                    let file = path.join(relative);
                    fs::create_dir_all(file.parent().unwrap_or(path))?;
                    replace(&file, text, *mode)?;
                }
                fs::create_dir_all(path)?;
                Ok(withheld(path, kept))
            }
        }
    }
}

/// The files below a directory with their modes; an error where there are too many, or what is no file.
fn files_below(directory: &Path) -> io::Result<BTreeMap<PathBuf, (Vec<u8>, u32)>> {
    let mut files = BTreeMap::new();
    let mut open = vec![directory.to_owned()];
    while let Some(inner) = open.pop() {
        for entry in fs::read_dir(&inner)? {
            let path = entry?.path();
            let found = path.symlink_metadata()?;
            if found.is_dir() {
                open.push(path);
                continue;
            }
            let relative = path.strip_prefix(directory).unwrap_or(&path).to_owned();
            let text = match found.is_symlink() {
                true => fs::read_link(&path)?.into_os_string().into_encoded_bytes(),
                false => read_bytes(&path)?,
            };
            files.insert(relative, (text, found.mode()));
            if files.len() > MAX_FILES {
                let text = format!("{} holds more than {MAX_FILES} files", directory.display());
                return Err(io::Error::other(text));
            }
        }
    }
    Ok(files)
}

/// Writes files below a directory that isn't there yet.
fn copy_files(files: &BTreeMap<PathBuf, (Vec<u8>, u32)>, directory: &Path) -> io::Result<()> {
    fs::create_dir(directory)?;
    for (relative, (text, mode)) in files {
        let file = directory.join(relative);
        fs::create_dir_all(file.parent().unwrap_or(directory))?;
        match rustix::fs::FileType::from_raw_mode(*mode) {
            rustix::fs::FileType::Symlink => {
                std::os::unix::fs::symlink(OsStr::from_bytes(text), &file)?;
            }
            _ => {
                write_private(&file, text)?;
                fs::set_permissions(&file, fs::Permissions::from_mode(mode & 0o7777))?;
            }
        }
    }
    Ok(())
}

fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(io::Error::other(format!("{} is larger than {MAX_FILE_BYTES} bytes", path.display())));
    }
    Ok(bytes)
}

fn write_private(path: &Path, text: &[u8]) -> io::Result<()> {
    File::options().write(true).create_new(true).mode(0o600).open(path)?.write_all(text)
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.symlink_metadata().and_then(|found| found.modified()).ok()
}

/// Returns whether something came into a directory since it was as it was: removals change it too.
fn has_newer(directory: &Path, before: Option<SystemTime>) -> bool {
    let entries = || fs::read_dir(directory).into_iter().flatten().flatten();
    modified(directory) != before && entries().any(|entry| modified(&entry.path()) > before)
}

/// The commits that a log of references tells of behind a place.
fn commits(log: &Path, begin: u64) -> Vec<CommitMade> {
    let mut text = String::new();
    let read = File::open(log).and_then(|mut log| {
        log.seek(SeekFrom::Start(begin))?;
        log.take(LOG).read_to_string(&mut text)
    });
    if read.is_err() {
        return vec![];
    }
    text.lines().filter_map(commit).collect()
}

/// The commit of a line: `<old> <new> <who> <time>\t<what>: <subject>`.
fn commit(line: &str) -> Option<CommitMade> {
    let (ids, message) = line.split_once('\t')?;
    let mut ids = ids.split(' ');
    let (old, new) = (ids.next()?, ids.next()?);
    let action = message.split(':').next().unwrap_or(message);
    let is_id = matches!(new.len(), 40 | 64) && new.bytes().all(|byte| byte.is_ascii_hexdigit());
    let makes = MAKING_COMMITS.contains(&action.split([' ', '(']).next()?);
    let only_moves = ["(start)", "(finish)", "(abort)"].iter().any(|step| action.contains(step))
        || message.contains("Fast-forward")
        || message.contains("fast-forward");
    (is_id && makes && !only_moves && old != new)
        .then(|| CommitMade { id: new.to_owned(), action: action.chars().take(40).collect() })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use roo_sandbox::changes::Limits;

    struct Fixture {
        place: tempfile::TempDir,
        store: Store,
        git: GitDirectory,
    }

    impl Fixture {
        fn new() -> Self {
            let place = tempfile::tempdir().unwrap();
            let top = place.path().canonicalize().unwrap();
            let store = Store::open(top.join("kept"), Limits::default()).unwrap();
            let own = top.join("w/.git");
            let fixture = Self { place, store, git: GitDirectory { own: own.clone(), common: own } };
            fs::create_dir(top.join("private")).unwrap();
            fixture.run(
                "git init -q -b main w && cd w && git config user.name a && git config user.email a@b && \
                         git config remote.origin.url https://host/x && git commit -q --allow-empty -m one",
            );
            fixture
        }

        fn run(&self, line: &str) {
            let done = Command::new("sh").args(["-c", line]).current_dir(self.place.path()).output().unwrap();
            assert!(done.status.success(), "{line}: {done:?}");
        }

        fn begin(&self, is_private: bool) -> GitGuard {
            let private = self.place.path().join("private");
            let directories = [self.git.clone()];
            GitGuard::begin(&directories, &[], &[], is_private.then_some(private.as_path()), false).unwrap()
        }

        fn text(&self, name: &str) -> String {
            fs::read_to_string(self.place.path().join(name)).unwrap_or_else(|error| error.kind().to_string())
        }
    }

    fn withheld(outcome: &GitOutcome) -> Vec<String> {
        assert_eq!(outcome.failed, []);
        let told = |change: &WithheldGitChange| {
            let name = change.path.file_name().unwrap().to_string_lossy().into_owned();
            format!("{name}: {}", change.because.join(", "))
        };
        outcome.withheld.iter().map(told).collect()
    }

    #[test]
    fn of_a_private_copy_what_may_stay_is_brought_back() {
        let fixture = Fixture::new();
        let guard = fixture.begin(true);
        let [substitute] = guard.substitutes().try_into().unwrap();
        let set = |key: &str| format!("git config --file {} {key}", substitute.source.display());
        fixture.run(&set("branch.new.remote origin"));
        assert!(!fixture.text("w/.git/config").contains("new"));
        assert_eq!(withheld(&guard.settle(&fixture.store, &Journal::default())), [""; 0]);
        assert!(fixture.text("w/.git/config").contains("[branch \"new\"]"));

        fs::remove_file(&substitute.source).unwrap();
        let guard = fixture.begin(true);
        fixture.run(&set("core.fsmonitor evil"));
        let outcome = guard.settle(&fixture.store, &Journal::default());
        assert_eq!(withheld(&outcome), ["config: core.fsmonitor"]);
        assert!(fs::read_to_string(outcome.withheld[0].kept.as_ref().unwrap()).unwrap().contains("evil"));
        assert!(!fixture.text("w/.git/config").contains("evil"));

        let guard = fixture.begin(true);
        fixture.run(&set("branch.other.remote origin"));
        fixture.run("cd w && git config alias.mine status");
        assert_eq!(
            withheld(&guard.settle(&fixture.store, &Journal::default())),
            ["config: somebody else changed it meanwhile"]
        );
        assert!(
            fixture.text("w/.git/config").contains("mine")
                && !fixture.text("w/.git/config").contains("other")
        );
    }

    #[test]
    fn what_was_written_beside_a_private_copy_does_not_stay() {
        let fixture = Fixture::new();
        let guard = fixture.begin(true);
        fixture.run("cd w && git config branch.new.remote origin");
        assert_eq!(withheld(&guard.settle_exposed(&fixture.store)), [""; 0]);
        fixture.run("cd w && git config core.fsmonitor evil");
        assert_eq!(withheld(&guard.settle_exposed(&fixture.store)), ["config: core.fsmonitor"]);
        assert!(!fixture.text("w/.git/config").contains("evil"));
        assert_eq!(withheld(&guard.settle(&fixture.store, &Journal::default())), [""; 0]);
    }

    #[test]
    fn what_nothing_holds_is_put_back() {
        let fixture = Fixture::new();
        fixture.run(
            "cd w/.git && echo echo >hooks/pre-push && chmod 755 hooks/pre-push && echo x >info/attributes",
        );
        let before = fixture.text("w/.git/config");
        let guard = fixture.begin(false);
        fixture.run(
            "cd w && git config core.hooksPath x && cd .git && echo evil >hooks/pre-commit && chmod 644 hooks/pre-push && \
             rm -r info && echo ../evil >commondir && echo /evil >objects/info/alternates",
        );
        let outcome = guard.settle(&fixture.store, &Journal::default());
        let mut found = withheld(&outcome);
        found.sort();
        assert_eq!(
            found,
            [
                "alternates: alternates",
                "commondir: commondir",
                "config: core.hookspath",
                "hooks: hooks",
                "info: info"
            ]
        );
        assert_eq!(fixture.text("w/.git/config"), before);
        assert_eq!(fixture.text("w/.git/info/attributes"), "x\n");
        let mode = fs::metadata(fixture.place.path().join("w/.git/hooks/pre-push")).unwrap().mode();
        assert_eq!(mode & 0o777, 0o755);
        for gone in ["commondir", "hooks/pre-commit", "objects/info/alternates"] {
            assert_eq!(fixture.text(&format!("w/.git/{gone}")), "entity not found", "{gone}");
        }
        assert_eq!(withheld(&guard.settle(&fixture.store, &Journal::default())), [""; 0]);
    }

    #[test]
    fn a_new_repository_stays_if_it_is_as_git_makes_it() {
        let fixture = Fixture::new();
        let guard = fixture.begin(true);
        fixture.run("cd w && git init -q new && git clone -q . copy && git worktree add -q linked && git init -q bad && \
                     git -C bad config core.editor evil && echo x >bad/.git/hooks/post-checkout");
        let objections =
            |name: &str| guard.objections(&fixture.place.path().canonicalize().unwrap().join(name), &[]);
        assert_eq!(objections("w/new/.git"), [""; 0]);
        assert_eq!(objections("w/copy/.git"), [""; 0]);
        assert_eq!(objections("w/linked/.git"), [""; 0]);
        assert_eq!(objections("w/bad/.git"), ["core.editor", "hooks/post-checkout"]);
        fs::write(fixture.place.path().join("w/bad/file"), "gitdir: /elsewhere/.git\n").unwrap();
        assert_eq!(objections("w/bad/file"), ["it names a directory that is not the workspace's own"]);
    }

    #[test]
    fn only_a_submodule_names_its_work_tree() {
        let fixture = Fixture::new();
        let top = fixture.place.path().canonicalize().unwrap();
        let directories = [fixture.git.clone()];
        let guard = GitGuard::begin(&directories, &[top.join("w")], &[], None, false).unwrap();
        fixture.run(
            "cd w && git -c protocol.file.allow=always submodule -q add \"$PWD\" mod && git init -q sub && \
             git -C sub config core.worktree /home/you",
        );
        assert_eq!(guard.objections(&top.join("w/mod/.git"), &[]), [""; 0]);
        assert_eq!(guard.objections(&top.join("w/sub/.git"), &[]), ["core.worktree"]);
        let module = top.join("w/.git/modules/mod");
        assert_eq!(guard.objections_to_module(&module), [""; 0]);
        fixture.run("cd w && git config --file .git/modules/mod/config core.worktree /home/you");
        assert_eq!(guard.objections_to_module(&module), ["core.worktree"]);
        fixture.run("cd w && git config --file .git/modules/mod/config core.worktree ../../../sub");
        assert_eq!(guard.objections_to_module(&module), ["core.worktree"], "its `.git` is another one's");
        // What a later command could name is judged with the repository that holds it.
        fixture.run("cp -r w/.git w/sub/copy && rm -rf w/sub/.git && mv w/sub/copy w/sub/.git");
        let found = guard.objections(&top.join("w/sub/.git"), &[]);
        assert!(found.contains(&"modules/mod: core.worktree".to_owned()), "{found:?}");
    }

    #[test]
    fn a_new_work_tree_has_no_configuration_and_no_repository_of_its_own() {
        let fixture = Fixture::new();
        let top = fixture.place.path().canonicalize().unwrap();
        fixture.run(
            "cd w && git config extensions.worktreeConfig true && git config --worktree core.pager mine",
        );
        let directories = [fixture.git.clone()];
        let begin = || GitGuard::begin(&directories, &[top.join("w")], &[], None, false).unwrap();
        let guard = begin();
        fixture.run("cd w && git worktree add -q a && git worktree add -q b && git -C b config --worktree core.fsmonitor evil");
        assert_eq!(withheld(&guard.settle(&fixture.store, &Journal::default())), ["b: core.fsmonitor"]);
        assert!(top.join("w/.git/worktrees/a").is_dir());
        let guard = begin();
        fixture.run(
            "cd w && git worktree add -q c && git worktree add -q d && \
             echo /elsewhere/.git >.git/worktrees/c/commondir && echo /elsewhere/.git >.git/worktrees/d/gitdir",
        );
        assert_eq!(
            withheld(&guard.settle(&fixture.store, &Journal::default())),
            ["c: commondir", "d: gitdir"]
        );
    }

    #[test]
    fn a_work_tree_elsewhere_that_names_the_repository_back_is_somebody_elses() {
        let fixture = Fixture::new();
        let top = fixture.place.path().canonicalize().unwrap();
        let directories = [fixture.git.clone()];
        let guard = GitGuard::begin(&directories, &[top.join("w")], &[], None, false).unwrap();
        fixture
            .run("cd w && git worktree add -q ../theirs && git worktree add -q ../mine && rm ../mine/.git");
        assert_eq!(withheld(&guard.settle(&fixture.store, &Journal::default())), ["mine: gitdir"]);
        fixture.run("git -C theirs status");
    }

    #[test]
    fn the_commits_of_a_command_are_told() {
        let fixture = Fixture::new();
        let guard = fixture.begin(true);
        fixture.run("cd w && git commit -q --allow-empty -m two && git checkout -q -b side && \
                     git commit -q --allow-empty -m three && git commit -q --amend --allow-empty -m 'four: x' && \
                     git checkout -q main && git merge -q side && git reset -q --hard HEAD~1");
        let commits = guard.settle(&fixture.store, &Journal::default()).commits;
        let actions: Vec<&str> = commits.iter().map(|commit| commit.action.as_str()).collect();
        assert_eq!(actions, ["commit", "commit", "commit (amend)"]);
        assert!(commits.iter().all(|commit| commit.id.len() == 40));
    }
}
