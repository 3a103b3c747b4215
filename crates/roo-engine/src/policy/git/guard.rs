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
use roo_durable::read_regular;
use roo_sandbox::changes::Store;
use roo_sandbox::exec::sandbox::Substitute;
use roo_trace::record::CommitMade;

/// The largest configuration or guarded file that is kept, in bytes.
const LARGEST: u64 = 1 << 20;
/// The most guarded files of one directory that are kept.
const MOST: usize = 1000;
/// The most that is read of what a command added to a log of references, in bytes.
const LOG: u64 = 1 << 20;

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
    roots: Vec<PathBuf>,
    /// Submodules' directories, and those of linked work trees.
    inner: BTreeSet<PathBuf>,
}

#[derive(Debug)]
struct Configuration {
    file: PathBuf,
    text: Vec<u8>,
    mode: u32,
    /// File that the command writes in its place; none where it writes the file itself.
    copy: Option<PathBuf>,
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
enum Guarded {
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

impl GitGuard {
    /// Looks at the git directories of a workspace with these folders before a command, and at the directories of `hooks` that
    /// tools generate. `private` is a directory for copies of configurations and of these, where the sandbox can show them;
    /// `holds` says whether it keeps what is guarded from being written.
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
                let state = Guarded::from_path(&path, holds)?;
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
        guard.inner = guard.inner_now();
        Ok(guard)
    }

    fn inner_now(&self) -> BTreeSet<PathBuf> {
        self.directories.iter().flat_map(GitDirectory::modules).collect()
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

    /// Brings back what may stay of the configurations, and undoes what may not stay of the rest. All processes of the
    /// command are dead. Runs git where a configuration changed.
    pub fn settle(&self, store: &Store) -> GitOutcome {
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
        for path in self.inner_now().difference(&self.inner) {
            let because = objections_to_directory(path, &self.directories, &self.roots);
            if !because.is_empty() {
                match store.put_away(path) {
                    Ok(kept) => {
                        outcome.withheld.push(WithheldGitChange { path: path.clone(), because, kept })
                    }
                    Err(error) => outcome.failed.push((path.clone(), error.to_string())),
                }
            }
        }
        outcome.tagged = self.tags.iter().any(|(tags, before)| has_newer(tags, *before));
        outcome.commits = self.logs.iter().flat_map(|(log, length)| commits(log, *length)).collect();
        outcome
    }

    /// Returns the reasons why a new `.git` of the workspace may not stay; nothing where it is one as git makes it.
    pub(crate) fn objections(&self, git: &Path) -> Vec<String> {
        match git.symlink_metadata() {
            Ok(found) if found.is_dir() => objections_to_directory(git, &self.directories, &self.roots),
            Ok(found) if found.is_file() => match GitDirectory::find([], [git], None).as_slice() {
                [found] if self.directories.iter().any(|known| found.common.starts_with(&known.common)) => {
                    vec![]
                }
                _ => vec!["it names a directory that is not the workspace's own".to_owned()],
            },
            _ => vec!["it is no git directory".to_owned()],
        }
    }
}

/// Returns the reasons why a new git directory may not stay.
fn objections_to_directory(git: &Path, known: &[GitDirectory], roots: &[PathBuf]) -> Vec<String> {
    let mut because = Vec::new();
    match config::read(&git.join("config"), roots) {
        Ok(values) => because.extend(config::objections(None, &values)),
        Err(error) => because.push(format!("its configuration can't be read: {error}")),
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
    if let Ok(text) = read_regular(&git.join("objects/info/alternates"), LARGEST) {
        let is_known = |line: &str| known.iter().any(|known| Path::new(line).starts_with(&known.common));
        if !text.lines().all(is_known) {
            because.push("objects/info/alternates".to_owned());
        }
    }
    because
}

impl Configuration {
    fn settle(&self, store: &Store, roots: &[PathBuf]) -> io::Result<Option<WithheldGitChange>> {
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
                let kept = store.put_away(written)?;
                Ok(Some(WithheldGitChange { path: self.file.clone(), because, kept }))
            }
            (true, Some(_)) => replace(&self.file, &now, self.mode).map(|()| None),
            (true, None) => Ok(None),
            (false, copy) => {
                let kept = store.put_away(written)?;
                if copy.is_none() {
                    replace(&self.file, &self.text, self.mode)?;
                }
                Ok(Some(WithheldGitChange { path: self.file.clone(), because, kept }))
            }
        }
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
        Ok(Some(WithheldGitChange { path, because, kept: store.put_away(&self.copy)? }))
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

    fn settle(&self, path: &Path, store: &Store) -> io::Result<Option<WithheldGitChange>> {
        let because = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let withheld = |path: &Path, kept| {
            let because = vec![because.clone()];
            Some(WithheldGitChange { path: path.to_owned(), because, kept })
        };
        match self {
            Self::Held => Ok(None),
            Self::Missing if path.symlink_metadata().is_err() => Ok(None),
            Self::Missing => Ok(withheld(path, store.put_away(path)?)),
            Self::File { text, mode } => {
                if path.symlink_metadata().is_ok_and(|found| found.is_file() && found.mode() == *mode)
                    && read_bytes(path)? == *text
                {
                    return Ok(None);
                }
                let kept = store.put_away(path)?;
                replace(path, text, *mode)?;
                Ok(withheld(path, kept))
            }
            Self::Directory(before) => {
                let is_directory = path.symlink_metadata().is_ok_and(|found| found.is_dir());
                if is_directory && files_below(path).is_ok_and(|now| now == *before) {
                    return Ok(None);
                }
                let kept = store.put_away(path)?;
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
            if files.len() > MOST {
                let text = format!("{} holds more than {MOST} files", directory.display());
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
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::other(format!("{} is larger than {LARGEST} bytes", path.display())));
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

/// Puts a text in place of a file, or where one was, in one step.
pub(super) fn replace(file: &Path, text: &[u8], mode: u32) -> io::Result<()> {
    let pending = file.with_file_name(format!(".roo-lsp-{}", uuid::Uuid::new_v4()));
    let written = (|| {
        let mut new = File::options().write(true).create_new(true).mode(0o600).open(&pending)?;
        new.write_all(text)?;
        new.set_permissions(fs::Permissions::from_mode(mode & 0o7777))?;
        new.sync_all()?;
        fs::rename(&pending, file)
    })();
    if written.is_err() {
        // It is in nobody's way.
        let _ = fs::remove_file(&pending);
    }
    written
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
        assert_eq!(withheld(&guard.settle(&fixture.store)), [""; 0]);
        assert!(fixture.text("w/.git/config").contains("[branch \"new\"]"));

        fs::remove_file(&substitute.source).unwrap();
        let guard = fixture.begin(true);
        fixture.run(&set("core.fsmonitor evil"));
        let outcome = guard.settle(&fixture.store);
        assert_eq!(withheld(&outcome), ["config: core.fsmonitor"]);
        assert!(fs::read_to_string(outcome.withheld[0].kept.as_ref().unwrap()).unwrap().contains("evil"));
        assert!(!fixture.text("w/.git/config").contains("evil"));

        let guard = fixture.begin(true);
        fixture.run(&set("branch.other.remote origin"));
        fixture.run("cd w && git config alias.mine status");
        assert_eq!(withheld(&guard.settle(&fixture.store)), ["config: somebody else changed it meanwhile"]);
        assert!(
            fixture.text("w/.git/config").contains("mine")
                && !fixture.text("w/.git/config").contains("other")
        );
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
        let outcome = guard.settle(&fixture.store);
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
        assert_eq!(withheld(&guard.settle(&fixture.store)), [""; 0]);
    }

    #[test]
    fn a_new_repository_stays_if_it_is_as_git_makes_it() {
        let fixture = Fixture::new();
        let guard = fixture.begin(true);
        fixture.run("cd w && git init -q new && git clone -q . copy && git worktree add -q linked && git init -q bad && \
                     git -C bad config core.editor evil && echo x >bad/.git/hooks/post-checkout");
        let objections =
            |name: &str| guard.objections(&fixture.place.path().canonicalize().unwrap().join(name));
        assert_eq!(objections("w/new/.git"), [""; 0]);
        assert_eq!(objections("w/copy/.git"), [""; 0]);
        assert_eq!(objections("w/linked/.git"), [""; 0]);
        assert_eq!(objections("w/bad/.git"), ["core.editor", "hooks/post-checkout"]);
        fs::write(fixture.place.path().join("w/bad/file"), "gitdir: /elsewhere/.git\n").unwrap();
        assert_eq!(objections("w/bad/file"), ["it names a directory that is not the workspace's own"]);
    }

    #[test]
    fn the_commits_of_a_command_are_told() {
        let fixture = Fixture::new();
        let guard = fixture.begin(true);
        fixture.run("cd w && git commit -q --allow-empty -m two && git checkout -q -b side && \
                     git commit -q --allow-empty -m three && git commit -q --amend --allow-empty -m 'four: x' && \
                     git checkout -q main && git merge -q side && git reset -q --hard HEAD~1");
        let commits = guard.settle(&fixture.store).commits;
        let actions: Vec<&str> = commits.iter().map(|commit| commit.action.as_str()).collect();
        assert_eq!(actions, ["commit", "commit", "commit (amend)"]);
        assert!(commits.iter().all(|commit| commit.id.len() == 40));
    }
}
