//! A new work tree of the workspace's repository, at its last commit and with what is not committed.
//!
//! Git makes it without a branch, a hook or a filter of the repository's own. Neither the index, the stash, hooks nor
//! configuration of the user's are written; what is not committed is copied, file by file.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::timeout;

use super::{Git, GitError, refused};

/// Time limit for git to make it.
const DEADLINE: Duration = Duration::from_secs(300);

/// A work tree that was just made.
#[derive(Debug)]
pub(crate) struct NewWorkTree {
    /// The folder in it that stands for the workspace's.
    pub(crate) folder: PathBuf,
    /// Uncommitted paths that it doesn't have.
    pub(crate) left_out: Vec<String>,
}

impl Git<'_> {
    /// Makes a work tree beside the repository, in a directory of this name.
    pub(crate) async fn add_work_tree(&self, name: &str) -> Result<NewWorkTree, GitError> {
        timeout(DEADLINE, self.make_work_tree(name)).await.unwrap_or(Err(GitError::TimedOut))
    }

    async fn make_work_tree(&self, name: &str) -> Result<NewWorkTree, GitError> {
        if !self.run(&["rev-parse", "--git-dir"]).await?.is_success() {
            return Err(GitError::NoRepository);
        }
        self.check_repository().await?;
        self.check_filters().await?;
        if !self.run(&["rev-parse", "--verify", "--quiet", "HEAD"]).await?.is_success() {
            return Err(GitError::Unborn);
        }
        let one_line = |text: String| text.strip_suffix('\n').map(str::to_owned).unwrap_or(text);
        let top = PathBuf::from(one_line(self.text(&["rev-parse", "--show-toplevel"]).await?));
        let prefix = one_line(self.text(&["rev-parse", "--show-prefix"]).await?);
        let status = ["status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames"];
        let entries = self.names(&[&status[..], &["--ignore-submodules=all"]].concat()).await?;

        let place = beside(&top, name);
        fs::create_dir_all(place.parent().unwrap_or(&top)).map_err(GitError::Files)?;
        let add = ["worktree", "add", "--quiet", "--detach"].map(OsStr::new);
        let made = self.run(&[&add[..], &[place.as_os_str(), OsStr::new("HEAD")]].concat()).await?;
        if !made.is_success() {
            return Err(refused(&made));
        }
        let folder = place.join(&prefix);
        let copied = tokio::task::spawn_blocking(move || {
            fs::create_dir_all(place.join(prefix))?;
            copy(&top, &place, &entries)
        });
        let left_out = copied.await.map_err(io::Error::other).flatten().map_err(GitError::Files)?;
        Ok(NewWorkTree { folder, left_out })
    }
}

/// The directory of forks beside that of a repository.
fn beside(top: &Path, name: &str) -> PathBuf {
    let mut directory = top.file_name().unwrap_or(OsStr::new("root")).to_owned();
    directory.push("-forks");
    top.with_file_name(directory).join(name)
}

/// Makes paths of a work tree in another one what they are in this. `entries` are those of `git status`. Returns those that
/// are neither files nor links.
fn copy(from: &Path, to: &Path, entries: &[Vec<u8>]) -> io::Result<Vec<String>> {
    let (mut left_out, mut there) = (vec![], vec![]);
    for path in entries.iter().filter_map(|entry| entry.get(3..)) {
        let path = Path::new(OsStr::from_bytes(path));
        match from.join(path).symlink_metadata() {
            Ok(found) if found.is_file() || found.is_symlink() => there.push((path, found.is_symlink())),
            Ok(_) => left_out.push(path.display().to_string()),
            Err(error) if is_missing(&error) => remove(&to.join(path))?,
            Err(error) => return Err(error),
        }
    }
    // Behind what is gone: where a directory was there may be a file now, or the other way round.
    for (path, is_link) in there {
        let (source, target) = (from.join(path), to.join(path));
        remove(&target)?;
        fs::create_dir_all(target.parent().unwrap_or(to))?;
        match is_link {
            true => symlink(fs::read_link(&source)?, &target)?,
            false => fs::copy(&source, &target).map(drop)?,
        }
    }
    Ok(left_out)
}

fn remove(path: &Path) -> io::Result<()> {
    let removed = match path.symlink_metadata() {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    removed.or_else(|error| if is_missing(&error) { Ok(()) } else { Err(error) })
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
