//! Snapshots of a work tree that was made for a branch: which files it has changed since it began, and the texts of both
//! states.
//!
//! Their index and their objects are in a private directory of the server, so that nothing is added to the user's repository,
//! and no command can change what a merge starts from. What git ignores is in no snapshot, but for the request's own directory.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::timeout;

use super::{Git, GitError, is_cut, refused, start_with};
use roo_process::ProcessOutput;

/// Time limit for a snapshot of all files.
const DEADLINE: Duration = Duration::from_secs(120);

/// The largest file whose text is read, in bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// The most that a list of changed files may take, in bytes.
const MAX_LIST_BYTES: u64 = 4 << 20;

/// Mode of a symbolic link.
const LINK: &[u8] = b"120000";
/// Mode of a submodule.
const SUBMODULE: &[u8] = b"160000";
/// Mode of a file that may be executed.
const EXECUTABLE: &[u8] = b"100755";
/// Mode of a file that isn't there.
const ABSENT: &[u8] = b"000000";

/// Snapshots of one work tree.
pub(crate) struct Snapshots<'a> {
    /// Git in the work tree.
    git: Git<'a>,
    /// Private directory for their index and objects.
    store: &'a Path,
    /// The objects of the repository.
    repository: PathBuf,
    /// The folder's path from the top of the work tree, with a slash at its end.
    prefix: String,
}

/// A path that two snapshots have in different states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChangedPath {
    /// Relative to the folder.
    pub(crate) path: String,
    /// True if it was there.
    pub(crate) was_there: bool,
    /// True if it is there now.
    pub(crate) is_there: bool,
    /// True if its permission to be executed has changed, or it is a new file that has it.
    pub(crate) changes_permission: bool,
    /// Reason why its text can't be merged.
    pub(crate) unmergeable: Option<&'static str>,
}

impl<'a> Snapshots<'a> {
    /// Opens those of the work tree in which git is.
    pub(crate) async fn open(git: Git<'a>, store: &'a Path) -> Result<Self, GitError> {
        git.check_repository().await?;
        let folder = git.workspace.roots().paths().next().ok_or(GitError::NoRoot)?;
        let repository = folder.join(git.line(&["rev-parse", "--git-common-dir"]).await?).join("objects");
        let prefix = git.line(&["rev-parse", "--show-prefix"]).await?;
        Ok(Self { git, store, repository, prefix })
    }

    /// Takes a snapshot of the files as they are, and returns its id. `own` is the request's own directory, which git may ignore.
    pub(crate) async fn take(&self, own: Option<&str>) -> Result<String, GitError> {
        timeout(DEADLINE, self.take_now(own)).await.unwrap_or(Err(GitError::TimedOut(DEADLINE)))
    }

    async fn take_now(&self, own: Option<&str>) -> Result<String, GitError> {
        self.git.check_filters().await?;
        let index = self.index();
        if !index.exists() {
            fs::create_dir_all(self.objects()).map_err(GitError::Files)?;
            let known = Path::new(&self.git.line(&["rev-parse", "--absolute-git-dir"]).await?).join("index");
            // With it, git need not read what has not changed.
            if let Err(error) = fs::copy(&known, &index)
                && error.kind() != io::ErrorKind::NotFound
            {
                return Err(GitError::Files(error));
            }
        }
        self.add(&[], ".").await?;
        let has_own = own.is_some_and(|own| self.folder().is_some_and(|folder| folder.join(own).is_dir()));
        if let Some(own) = own.filter(|_| has_own) {
            let own = format!(":(literal){own}");
            self.add(&["--force"], &own).await?;
        }
        let tree = self.done(&["write-tree"]).await?;
        Ok(String::from_utf8_lossy(&tree.stdout).trim().to_owned())
    }

    /// Adds the files below a path as they are. A nested repository without a commit, which git can't add, becomes one with a
    /// commit that there isn't.
    async fn add(&self, options: &[&str], path: &str) -> Result<(), GitError> {
        let is_sparse = self.git.line(&["config", "--type=bool", "--get", "core.sparseCheckout"]).await;
        let mut add = vec!["add", "--all"];
        if is_sparse.is_ok_and(|is_sparse| is_sparse == "true") {
            // Else git refuses files that the user has chosen not to check out.
            add.push("--sparse");
        }
        add.extend(options);
        add.extend(["--", path]);
        let Err(error) = self.done(&add).await else { return Ok(()) };
        let unborn = self.unborn_repositories().await?;
        if unborn.is_empty() {
            return Err(error);
        }
        let none = self.done(&["hash-object", "-t", "tree", "--", "/dev/null"]).await?;
        let none = String::from_utf8_lossy(&none.stdout).trim().to_owned();
        for repository in unborn {
            let mut entry = OsString::from(format!("160000,{none},{}", self.prefix));
            entry.push(repository);
            let add = ["update-index", "--add", "--cacheinfo"].map(OsString::from);
            self.done(&[&add[..], &[entry]].concat()).await?;
        }
        self.done(&add).await.map(drop)
    }

    /// The nested repositories that have no commit, as paths below the folder.
    async fn unborn_repositories(&self) -> Result<Vec<OsString>, GitError> {
        let others = ["ls-files", "-z", "--others", "--exclude-standard", "--", "."];
        let output = self.run(&others, MAX_LIST_BYTES).await?;
        if output.stdout.len() as u64 >= MAX_LIST_BYTES {
            return Err(GitError::TooManyFiles);
        }
        let folder = self.folder().ok_or(GitError::NoRoot)?;
        let mut unborn = Vec::new();
        // Of untracked directories, git names those alone that are repositories.
        for name in output.stdout.split(|&byte| byte == 0).filter_map(|name| name.strip_suffix(b"/")) {
            let name = OsStr::from_bytes(name);
            let place = folder.join(name);
            let head = self.git.run_in(&place, &["rev-parse", "--verify", "--quiet", "HEAD"]).await?;
            if !head.is_success() {
                unborn.push(name.to_owned());
            }
        }
        Ok(unborn)
    }

    /// The paths below the folder in which two snapshots differ.
    pub(crate) async fn changed(&self, from: &str, to: &str) -> Result<Vec<ChangedPath>, GitError> {
        let arguments = ["diff-tree", "-r", "-z", "--no-renames", "--relative", from, to];
        let output = self.run(&arguments, MAX_LIST_BYTES).await?;
        if output.stdout.len() as u64 >= MAX_LIST_BYTES {
            return Err(GitError::TooManyFiles);
        }
        if !output.is_success() {
            return Err(refused(&output));
        }
        let mut parts = output.stdout.split(|&byte| byte == 0);
        let mut changed = Vec::new();
        while let (Some(head), Some(path)) = (parts.next(), parts.next()) {
            changed.extend(changed_path(head, path));
        }
        Ok(changed)
    }

    /// Returns whether a snapshot has something at a path.
    pub(crate) async fn has(&self, snapshot: &str, path: &str) -> Result<bool, GitError> {
        let object = format!("{snapshot}:{}{path}", self.prefix);
        Ok(self.run(&["cat-file", "-e", &object], super::OUTPUT).await?.is_success())
    }

    /// The text of a file in a snapshot, as it is in the work tree; none where that is no text.
    pub(crate) async fn text(&self, snapshot: &str, path: &str) -> Result<Option<String>, GitError> {
        let object = format!("{snapshot}:{}{path}", self.prefix);
        self.content(&["cat-file", "--filters", &object]).await
    }

    /// Keeps a text, and returns its id.
    pub(crate) async fn keep(&self, text: &str) -> Result<String, GitError> {
        let file = self.store.join("text");
        fs::write(&file, text).map_err(GitError::Files)?;
        let arguments = ["hash-object", "-w", "--no-filters", "--"].map(OsStr::new);
        let kept = self.done(&[&arguments[..], &[file.as_os_str()]].concat()).await?;
        Ok(String::from_utf8_lossy(&kept.stdout).trim().to_owned())
    }

    /// A text that was kept.
    pub(crate) async fn kept(&self, id: &str) -> Result<Option<String>, GitError> {
        self.content(&["cat-file", "blob", id]).await
    }

    async fn content(&self, arguments: &[&str]) -> Result<Option<String>, GitError> {
        let output = self.run(arguments, MAX_FILE_BYTES).await?;
        if output.stdout.len() as u64 >= MAX_FILE_BYTES {
            return Ok(None);
        }
        if !output.is_success() {
            return Err(refused(&output));
        }
        // What git takes for binary may be valid UTF-8 all the same.
        let is_text = !output.stdout.contains(&0);
        Ok(String::from_utf8(output.stdout).ok().filter(|_| is_text))
    }

    fn folder(&self) -> Option<&Path> {
        self.git.workspace.roots().paths().next()
    }

    fn index(&self) -> PathBuf {
        self.store.join("index")
    }

    fn objects(&self) -> PathBuf {
        self.store.join("objects")
    }

    /// Runs git to success.
    async fn done(&self, arguments: &[impl AsRef<OsStr>]) -> Result<ProcessOutput, GitError> {
        let output = self.run(arguments, super::OUTPUT).await?;
        if output.is_success() && !is_cut(&output) { Ok(output) } else { Err(refused(&output)) }
    }

    async fn run(&self, arguments: &[impl AsRef<OsStr>], limit: u64) -> Result<ProcessOutput, GitError> {
        let folder = self.folder().ok_or(GitError::NoRoot)?;
        let variables: [(&str, OsString); 3] = [
            ("GIT_INDEX_FILE", self.index().into()),
            ("GIT_OBJECT_DIRECTORY", self.objects().into()),
            ("GIT_ALTERNATE_OBJECT_DIRECTORIES", alternates(&self.repository)),
        ];
        let roots: Vec<PathBuf> = self.git.workspace.roots().paths().map(Path::to_path_buf).collect();
        start_with(folder, &roots, self.git.environment, arguments, &variables, limit)
            .await
            .map_err(GitError::Start)
    }
}

/// One directory as a list of them: quoted, as its name may hold a colon.
fn alternates(directory: &Path) -> OsString {
    let mut quoted = b"\"".to_vec();
    for &byte in directory.as_os_str().as_bytes() {
        if matches!(byte, b'"' | b'\\') {
            quoted.push(b'\\');
        }
        quoted.push(byte);
    }
    quoted.push(b'"');
    OsStr::from_bytes(&quoted).to_owned()
}

/// Reads an entry of `git diff-tree -z`: `:100644 100644 <id> <id> M` and the path.
fn changed_path(head: &[u8], path: &[u8]) -> Option<ChangedPath> {
    let mut fields = head.strip_prefix(b":")?.split(|&byte| byte == b' ');
    let (before, after) = (fields.next()?, fields.next()?);
    let (old, new) = (fields.next()?, fields.next()?);
    let (was_there, is_there) = (before != ABSENT, after != ABSENT);
    let name = std::str::from_utf8(path);
    let is_executable = |mode: &[u8]| mode == EXECUTABLE;
    let unmergeable = if name.is_err() {
        Some("its name is no text")
    } else if [before, after].contains(&SUBMODULE) {
        Some("it is a repository of its own")
    } else if [before, after].contains(&LINK) {
        Some("it is a symbolic link")
    } else if was_there && is_there && old == new {
        Some("only its permissions have changed")
    } else {
        None
    };
    Some(ChangedPath {
        path: String::from_utf8_lossy(path).into_owned(),
        was_there,
        is_there,
        changes_permission: is_there && is_executable(before) != is_executable(after),
        unmergeable,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_say_what_has_become_of_a_path() {
        let read = |head: &str| {
            let changed = changed_path(head.as_bytes(), b"a").unwrap();
            (changed.was_there, changed.is_there, changed.unmergeable)
        };
        let changes_permission = |head: &str| changed_path(head.as_bytes(), b"a").unwrap().changes_permission;
        assert_eq!(read(":100644 100644 a1 b2 M"), (true, true, None));
        assert_eq!(read(":000000 100644 00 b2 A"), (false, true, None));
        assert_eq!(read(":100644 000000 a1 00 D"), (true, false, None));
        assert_eq!(read(":100644 100755 a1 a1 M").2, Some("only its permissions have changed"));
        assert_eq!(read(":000000 120000 00 b2 A").2, Some("it is a symbolic link"));
        assert!(changes_permission(":000000 100755 00 b2 A"));
        assert!(changes_permission(":100644 100755 a1 b2 M"));
        assert!(changes_permission(":100755 100644 a1 b2 M"));
        assert!(!changes_permission(":100755 100755 a1 b2 M"));
        assert!(!changes_permission(":100755 000000 a1 00 D"));
        assert_eq!(read(":160000 160000 a1 b2 M").2, Some("it is a repository of its own"));
    }
}
