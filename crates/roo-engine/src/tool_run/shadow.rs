//! Shadow repositories: what a command that nothing supervises changes, found by comparing the workspace before it and
//! after it.
//!
//! Each workspace folder has one, in the state directory. Git keeps the contents there and sees by its index which files may
//! have changed, so a later snapshot reads only those. Nothing of the user's own repository takes part: neither its
//! directory, index, configuration and hooks nor the filters of its attributes. The files are those that agents may
//! see: not what ignore files or `.rooignore` leave out, not nested repositories, and nothing that holds a secret.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use super::binary_contents::BinaryContents;
use roo_durable::MAX_CONTENT_BYTES;
use roo_process::{ProcessOutput, run_for_output};
use roo_protocol::ids::Digest;
use roo_sandbox::exec::redaction::TextMask;
use roo_sandbox::exec::{Environment, EnvironmentRules, find_program};
use roo_trace::record::{Author, FileChange, Side};
use roo_workspace::{FoundKind, Purpose, ReadAccess, Resolved, Walk, Workspace, WriteMark};

/// Time limit for a snapshot of all folders. A command doesn't begin before it is taken.
const DEADLINE: Duration = Duration::from_secs(60);
/// Time limit for packing what snapshots have piled up.
const TIDYING: Duration = Duration::from_secs(600);
/// The most files of a folder. A larger one has no snapshots.
const MAX_FILES: usize = 100_000;
/// The most that one snapshot of a folder adds of files that are no text, in bytes. What is beyond is left out until it changes.
const BINARIES: u64 = 64 << 20;
/// The most that is read of what git prints: the contents of all files that one command changed, in bytes.
const OUTPUT: u64 = 256 << 20;
/// The object name of a file that isn't there.
const NO_OBJECT: &[u8] = b"0000000000000000000000000000000000000000";
/// Settings of all calls.
const ALWAYS: &[&str] = &[
    "--no-pager",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.autocrlf=false",
    "-c",
    "core.attributesFile=/dev/null",
    "-c",
    "core.looseCompression=1",
    "-c",
    "gc.autoDetach=false",
];
/// Files are kept byte by byte, whatever the workspace's attributes say: these come before them.
const ATTRIBUTES: &str = "* -text -eol -filter -ident -working-tree-encoding\n";
/// Directories of the program's own, below the first folder.
const OWN: &[&str] = &[".roo/tasks/", ".orchestration/"];

/// Reasons why there is no snapshot.
#[derive(Debug, thiserror::Error)]
pub enum ShadowError {
    /// There is no git.
    #[error("git is not installed")]
    NoGit,
    /// Git refused.
    #[error("git can't take a snapshot of the workspace: {0}")]
    Refused(String),
    /// Something can't be read or written.
    #[error("no snapshot of the workspace can be taken: {0}")]
    Io(#[from] io::Error),
    /// The folder is too large.
    #[error("{} has more than {MAX_FILES} files", .0.display())]
    TooManyFiles(PathBuf),
    /// It took too long.
    #[error("a snapshot of the workspace takes longer than {} s", DEADLINE.as_secs())]
    TimedOut,
}

/// The shadow repositories of a workspace.
#[derive(Debug)]
pub struct ShadowRepositories {
    directory: PathBuf,
    /// Files that the last snapshot of each folder does not keep, as they were when that was found.
    left_out: Mutex<HashMap<PathBuf, LeftOut>>,
    /// Reason why there was no snapshot, or no comparison of two, the last time.
    problem: Mutex<Option<String>>,
}

/// What snapshots are taken of, and how.
#[derive(Clone)]
pub(crate) struct Sources {
    pub(crate) workspace: Arc<Workspace>,
    /// In which git is looked for.
    pub(crate) environment: EnvironmentRules,
    /// Makes the mask that finds secrets. Reads the disk.
    pub(crate) mask: Arc<dyn Fn() -> TextMask + Send + Sync>,
}

/// By which a file is known to be unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    inode: u64,
}

/// Files of a folder that are not kept, by their paths in it.
type LeftOut = HashMap<String, Stamp>;

impl Stamp {
    fn new(found: &fs::Metadata) -> Self {
        Self {
            length: found.len(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
            inode: found.ino(),
        }
    }
}

/// The workspace folders at one time.
pub(crate) struct Snapshot {
    folders: Vec<FolderSnapshot>,
    /// From when on others' writes are not in it.
    since: WriteMark,
}

struct FolderSnapshot {
    /// The object name of the tree.
    tree: String,
    /// Files that are not kept.
    left_out: HashSet<String>,
}

/// The repository of one folder.
#[derive(Clone)]
struct Repository {
    git: PathBuf,
    directory: PathBuf,
    folder: Resolved,
}

/// The repository of one folder, while nobody else uses it.
struct Shadow {
    repository: Repository,
    /// Held against other processes and tasks.
    _lock: File,
}

impl ShadowRepositories {
    /// Repositories in this directory, which are made when they are first needed.
    pub fn new(directory: PathBuf) -> Self {
        Self { directory, left_out: Mutex::default(), problem: Mutex::default() }
    }

    /// Returns the reason why there was no snapshot, or no comparison of two, the last time; none where there was one, or where
    /// none was wanted yet.
    pub fn problem(&self) -> Option<String> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn left_out(&self) -> MutexGuard<'_, HashMap<PathBuf, LeftOut>> {
        self.left_out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a snapshot; none where that fails, which is told by [`Self::problem`].
    pub(crate) async fn snapshot(&self, sources: &Sources) -> Option<Snapshot> {
        let taken = timeout(DEADLINE, self.take(sources)).await.unwrap_or(Err(ShadowError::TimedOut));
        self.note(taken)
    }

    /// Takes note of whether the checkpoint of a command fails.
    fn note<T>(&self, result: Result<T, ShadowError>) -> Option<T> {
        let problem = result.as_ref().err().map(ToString::to_string);
        if let Some(problem) = &problem {
            tracing::warn!(%problem, "a command without a sandbox has no checkpoint");
        }
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
        result.ok()
    }

    async fn take(&self, sources: &Sources) -> Result<Snapshot, ShadowError> {
        let git = find_git(sources)?;
        let since = sources.workspace.mark();
        let mut folders = Vec::new();
        for folder in folders_of(&sources.workspace) {
            let shadow = self.open(&git, folder).await?;
            folders.push(shadow.snapshot(self, sources).await?);
        }
        Ok(Snapshot { folders, since })
    }

    /// What has changed since a snapshot, but for what others are known to have written: of a file that they and the command
    /// wrote, the content before is only known by its digest. Names that an ignore file began to
    /// admit meanwhile are no new files.
    pub(crate) async fn changes(
        &self,
        before: Snapshot,
        sources: &Sources,
    ) -> (Vec<FileChange>, BinaryContents) {
        let Some(after) = self.snapshot(sources).await else { return Default::default() };
        let compared = timeout(DEADLINE, self.compare(&before, &after, sources)).await;
        self.note(compared.unwrap_or(Err(ShadowError::TimedOut))).unwrap_or_default()
    }

    async fn compare(
        &self,
        before: &Snapshot,
        after: &Snapshot,
        sources: &Sources,
    ) -> Result<(Vec<FileChange>, BinaryContents), ShadowError> {
        let git = find_git(sources)?;
        let written = sources.workspace.written_since(&before.since);
        let (mut changes, mut binaries) = (Vec::new(), BinaryContents::default());
        let folders = folders_of(&sources.workspace).into_iter();
        for (number, (folder, (before, after))) in
            folders.zip(before.folders.iter().zip(&after.folders)).enumerate()
        {
            if before.tree == after.tree {
                continue;
            }
            let shadow = self.open(&git, folder).await?;
            let found = shadow.compare(before, &after.tree, &mut binaries).await?;
            let top = shadow.repository.folder.absolute();
            changes.extend(found.into_iter().filter_map(|mut change| {
                let absolute = top.join(&change.path);
                if number > 0 {
                    change.path = absolute.to_str()?.to_owned();
                }
                if let Some(last) = written.last(&absolute)
                    && last != digest(&change.before)
                {
                    // The command began with what others wrote meanwhile, and that is kept nowhere.
                    change.before = last.map_or(Side::Absent, Side::Opaque);
                }
                (!written.left(&absolute, digest(&change.after))).then_some(change)
            }));
            shadow.repository.tidy();
        }
        Ok((changes, binaries))
    }

    async fn open(&self, git: &Path, folder: Resolved) -> Result<Shadow, ShadowError> {
        let (directory, lock) = (self.directory.clone(), self.lock_of(folder.absolute()));
        let locked = roo_durable::spawn_blocking(move || {
            DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
            let file = File::options().create(true).append(true).open(lock)?;
            file.lock()?;
            Ok::<_, io::Error>(file)
        });
        let lock = locked.await.map_err(io::Error::other)??;
        let directory = self.place_of(folder.absolute(), "git");
        let repository = Repository { git: git.to_owned(), directory, folder };
        let shadow = Shadow { repository, _lock: lock };
        shadow.make().await?;
        Ok(shadow)
    }

    /// The file whose lock is held while the repository of a folder is used.
    pub(crate) fn lock_of(&self, folder: &Path) -> PathBuf {
        self.place_of(folder, "lock")
    }

    fn place_of(&self, folder: &Path, extension: &str) -> PathBuf {
        let name = Digest::of(folder.as_os_str().as_encoded_bytes()).hex();
        self.directory.join(format!("{name}.{extension}"))
    }
}

impl Repository {
    /// Packs what has piled up, without anybody's waiting: git needs no lock of ours for that. What fails is tried again
    /// after the next command.
    fn tidy(&self) {
        let repository = self.clone();
        tokio::spawn(async move {
            let tidied = timeout(TIDYING, repository.git(&["gc", "--auto", "--quiet"], None)).await;
            if let Err(error) = tidied.unwrap_or(Err(ShadowError::TimedOut)) {
                tracing::warn!(%error, "snapshots of the workspace take more room than they have to");
            }
        });
    }

    /// Runs git to its end, and returns what it prints. It is killed when the future is dropped.
    async fn git(&self, arguments: &[&str], input: Option<&[u8]>) -> Result<Vec<u8>, ShadowError> {
        let stdin = match input {
            None => Stdio::null(),
            Some(bytes) => {
                let path = self.directory.join("input");
                fs::write(&path, bytes)?;
                File::open(path)?.into()
            }
        };
        let mut command = Command::new(&self.git);
        command
            .args(ALWAYS)
            .args(arguments)
            .current_dir(self.folder.absolute())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("LC_ALL", "C")
            .env("GIT_DIR", &self.directory)
            .env("GIT_WORK_TREE", self.folder.absolute())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let output: ProcessOutput = run_for_output(command, OUTPUT).await?;
        if output.is_success() {
            return Ok(output.stdout);
        }
        let problem = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(ShadowError::Refused(format!("{problem} ({})", arguments.first().unwrap_or(&""))))
    }
}

impl Shadow {
    async fn make(&self) -> Result<(), ShadowError> {
        let directory = &self.repository.directory;
        if !directory.join("info/attributes").exists() {
            self.git(&["init", "--quiet", "--template="], None).await?;
            fs::create_dir_all(directory.join("info"))?;
            // The last step.
            fs::write(directory.join("info/attributes"), ATTRIBUTES)?;
        }
        // A git that was killed has left it: nobody else is here.
        match fs::remove_file(directory.join("index.lock")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    async fn git(&self, arguments: &[&str], input: Option<&[u8]>) -> Result<Vec<u8>, ShadowError> {
        self.repository.git(arguments, input).await
    }

    async fn names(&self, arguments: &[&str]) -> Result<HashSet<String>, ShadowError> {
        let printed = self.git(arguments, None).await?;
        let names = printed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        Ok(names.filter_map(|name| String::from_utf8(name.to_vec()).ok()).collect())
    }

    async fn snapshot(
        &self,
        shadows: &ShadowRepositories,
        sources: &Sources,
    ) -> Result<FolderSnapshot, ShadowError> {
        let known = self.names(&["ls-files", "-z"]).await?;
        let changed = self.names(&["diff-files", "--name-only", "-z", "--ignore-submodules=all"]).await?;
        let (workspace, folder) = (Arc::clone(&sources.workspace), self.repository.folder.clone());
        let listed = roo_durable::spawn_blocking(move || list(&workspace, &folder));
        let files = listed.await.map_err(io::Error::other)??;
        let doubtful: Vec<String> =
            files.iter().filter(|file| !known.contains(*file) || changed.contains(*file)).cloned().collect();
        let top = self.repository.folder.absolute().to_owned();
        let before = shadows.left_out().get(&top).cloned().unwrap_or_default();
        let (below, sources) = (top.clone(), sources.clone());
        let sorted = roo_durable::spawn_blocking(move || sort(&below, doubtful, &before, &sources));
        let Sorted { keep, left_out } = sorted.await.map_err(io::Error::other)?;
        // Before the others: where a file was there may be a directory, and the index can't hold both.
        let is_gone = |name: &&String| !files.contains(*name) || left_out.contains_key(*name);
        let gone: Vec<&String> = known.iter().filter(is_gone).collect();
        if !gone.is_empty() {
            self.git(&["update-index", "--force-remove", "-z", "--stdin"], Some(&joined(&gone))).await?;
        }
        if !keep.is_empty() {
            self.git(&["update-index", "--add", "--remove", "-z", "--stdin"], Some(&joined(&keep))).await?;
        }
        let tree = self.git(&["write-tree"], None).await?;
        let tree = String::from_utf8_lossy(&tree).trim().to_owned();
        let names = left_out.keys().cloned().collect();
        shadows.left_out().insert(top, left_out);
        Ok(FolderSnapshot { tree, left_out: names })
    }

    /// What differs between a snapshot and a later tree, by paths in the folder.
    async fn compare(
        &self,
        before: &FolderSnapshot,
        after: &str,
        binaries: &mut BinaryContents,
    ) -> Result<Vec<FileChange>, ShadowError> {
        let arguments = ["diff-tree", "-r", "-z", "--raw", "--no-renames", &before.tree, after];
        let printed = self.git(&arguments, None).await?;
        let mut fields = printed.split(|byte| *byte == 0);
        let mut entries = Vec::new();
        while let (Some(head), Some(path)) = (fields.next(), fields.next()) {
            let objects: Vec<&[u8]> = head.split(|byte| *byte == b' ').collect();
            if let (&[_, _, old, new, _], Ok(path)) = (&objects[..], String::from_utf8(path.to_vec()))
                && old != new
            {
                entries.push((path, old.to_vec(), new.to_vec()));
            }
        }
        let wanted: Vec<&Vec<u8>> =
            entries.iter().flat_map(|(_, old, new)| [old, new]).filter(|name| **name != NO_OBJECT).collect();
        let sides = self.sides(&wanted, binaries).await?;
        let is_ignore_file = |path: &str| {
            matches!(Path::new(path).file_name().and_then(OsStr::to_str), Some(".gitignore" | ".rooignore"))
        };
        let ignores_changed = entries.iter().any(|(path, ..)| is_ignore_file(path));
        let mut changes = Vec::new();
        for (path, old, new) in entries {
            let was_there = old != NO_OBJECT;
            if !was_there && (before.left_out.contains(&path) || ignores_changed && !is_ignore_file(&path)) {
                // It may have been there before.
                continue;
            }
            let side = |name: &Vec<u8>| sides.get(name).cloned();
            let (before, after) = match (was_there, new != NO_OBJECT) {
                (true, true) => (side(&old), side(&new)),
                (false, _) => (Some(Side::Absent), side(&new)),
                (true, false) => {
                    (side(&old), left_there(&self.repository.folder.absolute().join(&path), binaries))
                }
            };
            let (Some(before), Some(after)) = (before, after) else { continue };
            if before != after {
                changes.push(FileChange { path, old_path: None, before, after, author: Author::Ai });
            }
        }
        Ok(changes)
    }

    /// Files with the contents of these objects. Those that are no text are added.
    async fn sides(
        &self,
        objects: &[&Vec<u8>],
        binaries: &mut BinaryContents,
    ) -> Result<HashMap<Vec<u8>, Side>, ShadowError> {
        let mut sides = HashMap::new();
        if objects.is_empty() {
            return Ok(sides);
        }
        let mut input = Vec::new();
        for object in objects {
            input.extend_from_slice(object);
            input.push(b'\n');
        }
        let printed = self.git(&["cat-file", "--batch", "--buffer"], Some(&input)).await?;
        let mut rest = printed.as_slice();
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (head, behind) = (&rest[..end], &rest[end + 1..]);
            let mut fields = head.split(|byte| *byte == b' ');
            let (name, size) = (fields.next().unwrap_or_default(), fields.nth(1).unwrap_or_default());
            let size = std::str::from_utf8(size).ok().and_then(|size| size.parse::<usize>().ok());
            let Some((content, next)) = size.and_then(|size| behind.split_at_checked(size)) else { break };
            sides.insert(name.to_vec(), binaries.side(content.to_vec()));
            rest = next.strip_prefix(b"\n").unwrap_or(next);
        }
        Ok(sides)
    }
}

fn find_git(sources: &Sources) -> Result<PathBuf, ShadowError> {
    let roots: Vec<PathBuf> = sources.workspace.roots().paths().map(Path::to_path_buf).collect();
    let environment = Environment::inherited_by(&sources.environment);
    find_program(&environment, "git", &roots).ok_or(ShadowError::NoGit)
}

fn folders_of(workspace: &Workspace) -> Vec<Resolved> {
    let paths = workspace.roots().paths().filter_map(Path::to_str);
    paths.filter_map(|path| workspace.resolve(path, Purpose::Directory).ok()).collect()
}

fn joined(names: &[impl AsRef<str>]) -> Vec<u8> {
    names.iter().flat_map(|name| name.as_ref().bytes().chain([0])).collect()
}

/// The regular files of a folder that agents may see, without those of nested repositories.
fn list(workspace: &Workspace, folder: &Resolved) -> Result<HashSet<String>, ShadowError> {
    let walk = Walk { recursive: true, leave_out: |name| matches!(name, ".git" | ".hg" | ".svn") };
    let mut files = HashSet::new();
    let mut nested: Option<String> = None;
    for found in walk.below(folder, workspace.rules(folder)) {
        if nested.as_ref().is_some_and(|nested| found.path.starts_with(nested.as_str())) {
            continue;
        }
        match found.kind {
            FoundKind::Directory if folder.absolute().join(&found.path).join(".git").exists() => {
                nested = Some(format!("{}/", found.path));
            }
            FoundKind::File
                if found.access == ReadAccess::Free && !OWN.iter().any(|own| found.path.starts_with(own)) =>
            {
                files.insert(found.path);
                if files.len() > MAX_FILES {
                    return Err(ShadowError::TooManyFiles(folder.absolute().to_owned()));
                }
            }
            FoundKind::File | FoundKind::Directory | FoundKind::Other => {}
        }
    }
    Ok(files)
}

/// Files that are new or may have changed.
struct Sorted {
    keep: Vec<String>,
    left_out: LeftOut,
}

/// Tells contents without secrets from what is not kept. Reads the files.
fn sort(folder: &Path, doubtful: Vec<String>, known: &LeftOut, sources: &Sources) -> Sorted {
    let mut sorted = Sorted { keep: Vec::new(), left_out: LeftOut::new() };
    let (mut mask, mut left) = (None, BINARIES);
    for name in doubtful {
        let path = folder.join(&name);
        let Some(found) = fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file) else { continue };
        let stamp = Stamp::new(&found);
        let is_kept = known.get(&name) != Some(&stamp)
            && found.len() <= MAX_CONTENT_BYTES
            && may_be_kept(&path, mask.get_or_insert_with(|| (sources.mask)()), &mut left);
        match is_kept {
            true => sorted.keep.push(name),
            false => drop(sorted.left_out.insert(name, stamp)),
        }
    }
    sorted
}

/// Returns whether a file holds no secret and, where it is no text, is among so many bytes, of which it is taken.
fn may_be_kept(path: &Path, mask: &TextMask, left: &mut u64) -> bool {
    match fs::read(path).map(String::from_utf8) {
        Ok(Ok(text)) => mask.masked(&text).is_none(),
        Ok(Err(no_text)) => {
            let bytes = no_text.as_bytes();
            let Some(rest) = left.checked_sub(bytes.len() as u64) else { return false };
            *left = rest;
            !mask.finds_in(bytes)
        }
        Err(_) => false,
    }
}

fn digest(side: &Side) -> Option<Digest> {
    match side {
        Side::Absent => None,
        Side::Text { digest, .. } | Side::Opaque(digest) => Some(*digest),
    }
}

/// What is in the place of a file that is no longer in the snapshot; none where that can't be told.
fn left_there(path: &Path, binaries: &mut BinaryContents) -> Option<Side> {
    match fs::symlink_metadata(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Some(Side::Absent)
        }
        Ok(found) if found.is_dir() => Some(Side::Absent),
        Ok(found) if found.is_file() && found.len() <= MAX_CONTENT_BYTES => {
            fs::read(path).ok().map(|bytes| binaries.side(bytes))
        }
        Ok(_) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roo_sandbox::exec::redaction::ExactValues;
    use roo_text::position::Encoding;
    use roo_workspace::{Setup, file_uri};

    /// A workspace folder with its shadow repository.
    struct Fixture {
        directory: tempfile::TempDir,
        shadow: ShadowRepositories,
        sources: Sources,
    }

    impl Fixture {
        fn new(files: &[(&str, &str)]) -> Self {
            let directory = tempfile::tempdir().unwrap();
            let root = directory.path().join("w");
            fs::create_dir(&root).unwrap();
            let setup = Setup {
                folders: vec![root],
                state_directory: directory.path().join("state"),
                documents: Arc::default(),
                editor: None,
                encoding: Encoding::Utf16,
            };
            let sources = Sources {
                workspace: Arc::new(Workspace::open(setup).unwrap()),
                environment: EnvironmentRules::default(),
                mask: Arc::new(|| TextMask::new(true, ExactValues::default)),
            };
            let shadow = ShadowRepositories::new(directory.path().join("shadow"));
            let fixture = Self { directory, shadow, sources };
            files.iter().for_each(|(name, text)| fixture.put(name, text));
            fixture
        }

        fn path(&self, name: &str) -> PathBuf {
            self.directory.path().join("w").join(name)
        }

        fn put(&self, name: &str, text: &str) {
            fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
            fs::write(self.path(name), text).unwrap();
        }

        async fn snapshot(&self) -> Snapshot {
            let snapshot = self.shadow.snapshot(&self.sources).await;
            snapshot.unwrap_or_else(|| panic!("{:?}", self.shadow.problem()))
        }

        /// What has changed since a snapshot, by paths.
        async fn changes(&self, before: Snapshot) -> Vec<(String, Side, Side)> {
            let (changes, _) = self.shadow.changes(before, &self.sources).await;
            assert_eq!(self.shadow.problem(), None);
            changes.into_iter().map(|change| (change.path, change.before, change.after)).collect()
        }
    }

    #[tokio::test]
    async fn what_a_user_saved_meanwhile_is_no_change_of_the_command() {
        let fixture = Fixture::new(&[("both", "a\n"), ("saved", "a\n"), ("command", "a\n")]);
        let before = fixture.snapshot().await;
        for name in ["both", "saved"] {
            let (documents, uri) = (fixture.sources.workspace.documents(), file_uri(&fixture.path(name)));
            documents.open(&uri, 1, "mine\n");
            fixture.put(name, "mine\n");
            documents.save(&uri).unwrap();
        }
        fixture.put("both", "mine\nb\n");
        fixture.put("command", "b\n");
        let mine = Side::Opaque(Digest::of("mine\n"));
        let expected = [
            ("both".to_owned(), mine, Side::text("mine\nb\n")),
            ("command".to_owned(), Side::text("a\n"), Side::text("b\n")),
        ];
        assert_eq!(fixture.changes(before).await, expected);
    }

    #[tokio::test]
    async fn a_comparison_that_fails_is_told() {
        let fixture = Fixture::new(&[("a", "a\n")]);
        let mut before = fixture.snapshot().await;
        before.folders[0].tree = "0123456789".repeat(4);
        assert_eq!(fixture.shadow.changes(before, &fixture.sources).await.0, []);
        let problem = fixture.shadow.problem().unwrap();
        assert!(problem.contains("(diff-tree)"), "{problem}");
    }

    #[tokio::test]
    async fn what_is_no_text_is_kept_by_its_bytes_unless_it_holds_a_secret() {
        let fixture = Fixture::new(&[]);
        let secret = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9".repeat(2));
        let wide: Vec<u8> = secret.bytes().flat_map(|byte| [byte, 0]).collect();
        for (name, bytes) in [("plain", vec![0xff, 0]), ("wide", [vec![0xff, 0xd8], wide].concat())] {
            fs::write(fixture.path(name), bytes).unwrap();
        }
        let before = fixture.snapshot().await;
        fs::write(fixture.path("plain"), [0xff, 1]).unwrap();
        fs::remove_file(fixture.path("wide")).unwrap();
        let (changes, binaries) = fixture.shadow.changes(before, &fixture.sources).await;
        let [change] = changes.as_slice() else { panic!("{changes:?}") };
        let of = |side: &Side| binaries.of(digest(side).unwrap()).map(<[u8]>::to_vec);
        assert_eq!((change.path.as_str(), of(&change.before)), ("plain", Some(vec![0xff, 0])));
        assert_eq!(of(&change.after), Some(vec![0xff, 1]));
    }

    #[tokio::test]
    async fn files_that_are_left_out_are_forgotten_when_they_are_gone() {
        let fixture = Fixture::new(&[]);
        for number in 0..3 {
            let name = format!("{number}.bin");
            let secret = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9".repeat(2));
            fs::write(fixture.path(&name), [b"\xff", secret.as_bytes()].concat()).unwrap();
            fixture.snapshot().await;
            let left_out: Vec<String> =
                fixture.shadow.left_out().values().flat_map(HashMap::keys).cloned().collect();
            assert_eq!(left_out, [name.as_str()]);
            fs::remove_file(fixture.path(&name)).unwrap();
        }
    }

    #[tokio::test]
    async fn a_file_may_become_a_directory_and_the_reverse() {
        let fixture = Fixture::new(&[("file", "a\n"), ("directory/file", "b\n")]);
        let before = fixture.snapshot().await;
        fs::remove_file(fixture.path("file")).unwrap();
        fs::remove_dir_all(fixture.path("directory")).unwrap();
        fixture.put("file/inner", "a\n");
        fixture.put("directory", "b\n");
        let text = |text: &str| Side::text(text);
        let expected = [
            ("directory", Side::Absent, text("b\n")),
            ("directory/file", text("b\n"), Side::Absent),
            ("file", text("a\n"), Side::Absent),
            ("file/inner", Side::Absent, text("a\n")),
        ];
        let expected = expected.map(|(path, before, after)| (path.to_owned(), before, after));
        assert_eq!(fixture.changes(before).await, expected);
    }
}
