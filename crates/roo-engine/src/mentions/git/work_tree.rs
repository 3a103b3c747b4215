//! A new work tree of the workspace's repository, at its last commit and with what is not committed.
//!
//! Git makes it without a branch, a hook or a filter of the repository's own. Neither the index, the stash, hooks nor
//! configuration of the user's are written; what is not committed is copied, file by file.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{Git, GitError, refused};
use roo_formats::intents::{IGNORED_INTENTS, INTENTS_FILE};

/// Time limit for git to make it.
const DEADLINE: Duration = Duration::from_secs(300);

/// What a work tree is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkTreePurpose {
    /// A fork, which keeps it.
    Fork,
    /// A branch, until its changes are merged.
    Branch,
}

/// A work tree that was just made.
#[derive(Debug)]
pub(crate) struct NewWorkTree {
    pub(crate) top: PathBuf,
    /// The folder in it that stands for the workspace's.
    pub(crate) folder: PathBuf,
    /// Uncommitted paths that it doesn't have.
    pub(crate) left_out: Vec<String>,
}

/// What there is of a work tree that is being made.
#[derive(Default)]
struct BegunWorkTree {
    /// Its top, once it may be there.
    top: Option<PathBuf>,
    /// The copying of uncommitted files, while it goes on.
    copying: Option<JoinHandle<io::Result<Vec<String>>>>,
    /// Ends the copying.
    stop: CancellationToken,
}

impl Git<'_> {
    /// Makes a work tree beside the repository, in a directory of this name. Where that fails or is cancelled, nothing is left of
    /// it.
    pub(crate) async fn add_work_tree(
        &self,
        purpose: WorkTreePurpose,
        name: &str,
        cancel: &CancellationToken,
    ) -> Result<NewWorkTree, GitError> {
        let mut begun = BegunWorkTree::default();
        let making = timeout(DEADLINE, self.make_work_tree(purpose, name, &mut begun));
        let made = match cancel.run_until_cancelled(making).await {
            Some(made) => made.unwrap_or(Err(GitError::TimedOut(DEADLINE))),
            None => Err(GitError::Cancelled),
        };
        let (Err(_), BegunWorkTree { top: Some(top), copying, stop }) = (&made, begun) else { return made };
        stop.cancel();
        if let Some(copying) = copying {
            // It would write into what is removed.
            let _ = copying.await;
        }
        match purpose {
            WorkTreePurpose::Fork => self.remove_work_tree(&top).await,
            WorkTreePurpose::Branch => self.remove_merged_work_tree(&top).await,
        };
        made
    }

    /// Removes what an attempt to make a work tree for a branch has left.
    pub(crate) async fn discard_work_tree(&self, name: &str) {
        let Ok(top) = self.line(&["rev-parse", "--show-toplevel"]).await else { return };
        let place = beside(Path::new(&top), WorkTreePurpose::Branch, name);
        self.remove_merged_work_tree(&place).await;
    }

    /// Removes the work tree of a branch of which nothing is needed any more, also what is left of one whose removal was cut off,
    /// and the directory around it if that is empty then. Returns whether it is gone.
    pub(crate) async fn remove_merged_work_tree(&self, top: &Path) -> bool {
        let _lock = self.lock_work_trees().await;
        self.remove_whole_work_tree(top).await
    }

    /// The same for callers that hold the lock.
    async fn remove_whole_work_tree(&self, top: &Path) -> bool {
        if top.symlink_metadata().is_ok() && !self.remove_known_work_tree(top).await {
            let place = top.to_owned();
            let removed = roo_durable::spawn_blocking(move || remove(&place)).await;
            if let Ok(Err(error)) = removed {
                tracing::warn!(%error, place = %top.display(), "what is left of a git worktree can't be removed");
            }
            // Git may know the place still.
            self.remove_known_work_tree(top).await;
        }
        // It holds those of others too.
        let _ = top.parent().map(fs::remove_dir);
        top.symlink_metadata().is_err()
    }

    /// Removes a work tree. What git leaves of it is logged. Returns whether it is gone.
    pub(crate) async fn remove_work_tree(&self, top: &Path) -> bool {
        let _lock = self.lock_work_trees().await;
        self.remove_known_work_tree(top).await
    }

    /// The same for callers that hold the lock.
    async fn remove_known_work_tree(&self, top: &Path) -> bool {
        let remove = ["worktree", "remove", "--force"].map(OsStr::new);
        let removed = timeout(DEADLINE, self.run(&[&remove[..], &[top.as_os_str()]].concat())).await;
        let is_gone = matches!(&removed, Ok(Ok(output)) if output.is_success());
        if !is_gone {
            tracing::warn!(place = %top.display(), "a git worktree can't be removed");
        }
        is_gone
    }

    /// Waits until no other task and no other server adds or removes a work tree of this repository, and keeps them waiting until
    /// the returned file is dropped. Git itself doesn't: `git worktree add` fails over the half-written entry of another one, and
    /// over a parent directory that another one's removal has just taken away.
    ///
    /// None where the file system has no locks.
    async fn lock_work_trees(&self) -> Option<File> {
        let folder = self.workspace.roots().paths().next()?;
        let repository = folder.join(self.line(&["rev-parse", "--git-common-dir"]).await.ok()?);
        let locking = roo_durable::spawn_blocking(move || {
            let directory = File::open(repository)?;
            directory.lock().map(|()| directory)
        });
        match locking.await.map_err(io::Error::other).flatten() {
            Ok(lock) => Some(lock),
            Err(error) => {
                tracing::warn!(%error, "the git repository can't be locked while its worktrees change");
                None
            }
        }
    }

    async fn make_work_tree(
        &self,
        purpose: WorkTreePurpose,
        name: &str,
        begun: &mut BegunWorkTree,
    ) -> Result<NewWorkTree, GitError> {
        if !self.run(&["rev-parse", "--git-dir"]).await?.is_success() {
            return Err(GitError::NoRepository);
        }
        self.check_repository().await?;
        self.check_filters().await?;
        if !self.run(&["rev-parse", "--verify", "--quiet", "HEAD"]).await?.is_success() {
            return Err(GitError::Unborn);
        }
        let top = PathBuf::from(self.line(&["rev-parse", "--show-toplevel"]).await?);
        let prefix = self.line(&["rev-parse", "--show-prefix"]).await?;
        let status = ["status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames"];
        let entries = self.names(&[&status[..], &["--ignore-submodules=all"]].concat()).await?;

        let place = beside(&top, purpose, name);
        let lock = self.lock_work_trees().await;
        let mut add = ["worktree", "add", "--quiet", "--detach", "--no-checkout"].map(OsStr::new).to_vec();
        if purpose == WorkTreePurpose::Branch {
            if place.symlink_metadata().is_ok() {
                // Of a server that was killed while it made this one.
                self.remove_whole_work_tree(&place).await;
            }
            // Git may know the place still.
            add.push(OsStr::new("--force"));
        }
        fs::create_dir_all(place.parent().unwrap_or(&top)).map_err(GitError::Files)?;
        begun.top = Some(place.clone());
        let made = self.run(&[&add[..], &[place.as_os_str(), OsStr::new("HEAD")]].concat()).await?;
        drop(lock);
        if !made.is_success() {
            return Err(refused(&made));
        }
        // Configuration can be for one work tree alone, so filters are looked for in this one before it gets files.
        self.check_filters_in(&place).await?;
        let filled = self.run_in(&place, &["reset", "--hard", "--quiet", "--no-recurse-submodules"]).await?;
        if !filled.is_success() {
            return Err(refused(&filled));
        }
        let (folder, new) = (place.join(&prefix), place.clone());
        let stop = begun.stop.clone();
        let copying = begun.copying.insert(roo_durable::spawn_blocking(move || {
            fs::create_dir_all(place.join(&prefix))?;
            let left_out = copy(&top, &place, &entries, &stop)?;
            // A branch goes by those of the workspace.
            if purpose == WorkTreePurpose::Fork {
                copy_intents(&top.join(&prefix), &place.join(&prefix))?;
            }
            Ok(left_out)
        }));
        let copied = copying.await;
        begun.copying = None;
        let left_out = copied.map_err(io::Error::other).flatten().map_err(GitError::Files)?;
        Ok(NewWorkTree { top: new, folder, left_out })
    }
}

/// The place of a work tree in a directory beside that of a repository.
fn beside(top: &Path, purpose: WorkTreePurpose, name: &str) -> PathBuf {
    let mut directory = top.file_name().unwrap_or(OsStr::new("root")).to_owned();
    directory.push(match purpose {
        WorkTreePurpose::Fork => "-forks",
        WorkTreePurpose::Branch => "-branches",
    });
    top.with_file_name(directory).join(name)
}

/// Copies the files of a directory to the same place below another top. Links and what can't be made there are left out.
pub(crate) fn copy_directory(from: &Path, to: &Path, directory: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(from.join(directory)) {
        Err(error) if is_missing(&error) => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let path = directory.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_directory(from, to, &path)?;
        } else if kind.is_file() && make_parents(to, &path)? {
            remove(&to.join(&path))?;
            fs::copy(from.join(&path), to.join(&path))?;
        }
    }
    Ok(())
}

/// Copies the intents that bind the tasks of a folder to another one, also where git ignores them.
fn copy_intents(from: &Path, to: &Path) -> io::Result<()> {
    let from = from.canonicalize()?;
    for name in [INTENTS_FILE, IGNORED_INTENTS].map(Path::new) {
        let Ok(source) = from.join(name).canonicalize() else { continue };
        let is_missing = to.join(name).symlink_metadata().is_err();
        if is_missing && source.is_file() && source.starts_with(&from) && make_parents(to, name)? {
            fs::copy(&source, to.join(name))?;
        }
    }
    Ok(())
}

/// Makes paths of a work tree in another one what they are in this. `entries` are those of `git status`. Returns those that
/// can't be made so.
///
/// # Errors
/// [`io::ErrorKind::Interrupted`] once `stop` is cancelled.
fn copy(from: &Path, to: &Path, entries: &[Vec<u8>], stop: &CancellationToken) -> io::Result<Vec<String>> {
    let check_stop = || match stop.is_cancelled() {
        true => Err(io::Error::from(io::ErrorKind::Interrupted)),
        false => Ok(()),
    };
    let (mut left_out, mut there) = (vec![], vec![]);
    for entry in entries {
        check_stop()?;
        let (Some(state), Some(path)) = (entry.get(..2), entry.get(3..)) else { continue };
        let path = Path::new(OsStr::from_bytes(path));
        // What a write that is under way has there for a moment is no part of the other tree.
        if path.file_name().is_some_and(|name| roo_durable::is_temporary_name(name.as_bytes())) {
            continue;
        }
        match from.join(path).symlink_metadata() {
            Ok(found) if found.is_file() || found.is_symlink() => there.push((path, found.is_symlink())),
            // A file or a link that is a directory now: what is in it has entries of its own.
            Ok(_) if state.contains(&b'D') => remove_below(to, path)?,
            Ok(_) => left_out.push(path.display().to_string()),
            Err(error) if is_missing(&error) => remove_below(to, path)?,
            Err(error) => return Err(error),
        }
    }
    // Behind what is gone: where a directory was there may be a file now, or the other way round.
    for (path, is_link) in there {
        check_stop()?;
        if !make_parents(to, path)? {
            left_out.push(path.display().to_string());
            continue;
        }
        let (source, target) = (from.join(path), to.join(path));
        remove(&target)?;
        let copied = match is_link {
            true => fs::read_link(&source).and_then(|link| symlink(link, &target)),
            false => fs::copy(&source, &target).map(drop),
        };
        match copied {
            // Somebody has just removed it.
            Err(error) if is_missing(&error) => {}
            copied => copied?,
        }
    }
    Ok(left_out)
}

/// Makes the directories above a path below another one. Returns whether all of them are real directories: what a
/// repository checks out may be a link that leads anywhere.
pub(crate) fn make_parents(top: &Path, path: &Path) -> io::Result<bool> {
    let mut directory = top.to_owned();
    for part in path.parent().into_iter().flat_map(Path::components) {
        let Component::Normal(name) = part else { return Ok(false) };
        directory.push(name);
        match directory.symlink_metadata() {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => fs::create_dir(&directory)?,
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Removes what is at a path below a directory; nothing where a link is above it.
fn remove_below(top: &Path, path: &Path) -> io::Result<()> {
    let mut directory = top.to_owned();
    for part in path.parent().into_iter().flat_map(Path::components) {
        directory.push(part);
        if !directory.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            return Ok(());
        }
    }
    remove(&top.join(path))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str) -> Vec<u8> {
        text.as_bytes().to_vec()
    }

    #[test]
    fn nothing_is_written_or_removed_through_a_link_that_was_checked_out() {
        let directory = tempfile::tempdir().unwrap();
        let [from, to, elsewhere] = ["from", "to", "elsewhere"].map(|name| directory.path().join(name));
        for place in [&from, &to, &elsewhere] {
            fs::create_dir(place).unwrap();
        }
        for name in ["x", "y"] {
            fs::write(elsewhere.join(name), "theirs").unwrap();
        }
        // The last commit has links; in the work tree one is a directory now, the other is as it was.
        symlink(&elsewhere, to.join("d")).unwrap();
        symlink(&elsewhere, to.join("kept")).unwrap();
        fs::create_dir(from.join("d")).unwrap();
        fs::write(from.join("d/x"), "mine").unwrap();
        fs::create_dir(from.join("kept")).unwrap();
        fs::write(from.join("kept/x"), "mine").unwrap();
        let entries = [" D d", "?? d/x", "?? kept/x", " D kept/y"].map(entry);
        assert_eq!(copy(&from, &to, &entries, &CancellationToken::new()).unwrap(), ["kept/x"]);
        assert_eq!(fs::read_to_string(to.join("d/x")).unwrap(), "mine");
        assert!(!to.join("d").is_symlink());
        for name in ["x", "y"] {
            assert_eq!(fs::read_to_string(elsewhere.join(name)).unwrap(), "theirs");
        }
        assert!(!make_parents(&to, Path::new("../up/a")).unwrap());
    }

    #[test]
    fn intents_are_copied_where_they_are_missing() {
        let directory = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| directory.path().join(name));
        fs::create_dir_all(from.join(".orchestration")).unwrap();
        fs::create_dir(&to).unwrap();
        fs::write(from.join(INTENTS_FILE), "mine").unwrap();
        symlink("/etc/hostname", from.join(IGNORED_INTENTS)).unwrap();
        copy_intents(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(to.join(INTENTS_FILE)).unwrap(), "mine");
        assert!(!to.join(IGNORED_INTENTS).exists(), "it leads elsewhere");
        fs::write(to.join(INTENTS_FILE), "committed").unwrap();
        copy_intents(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(to.join(INTENTS_FILE)).unwrap(), "committed");
    }

    #[test]
    fn nothing_is_copied_after_a_cancellation() {
        let directory = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| directory.path().join(name));
        for place in [&from, &to] {
            fs::create_dir(place).unwrap();
        }
        fs::write(from.join("a"), "mine").unwrap();
        let stop = CancellationToken::new();
        stop.cancel();
        let problem = copy(&from, &to, &[entry("?? a")], &stop).unwrap_err();
        assert_eq!(problem.kind(), io::ErrorKind::Interrupted);
        assert!(!to.join("a").exists());
    }

    #[test]
    fn a_file_can_be_a_directory_now_and_the_other_way_round() {
        let directory = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| directory.path().join(name));
        fs::create_dir_all(from.join("a")).unwrap();
        fs::write(from.join("a/b"), "in").unwrap();
        fs::write(from.join("c"), "out").unwrap();
        fs::create_dir_all(to.join("c")).unwrap();
        fs::write(to.join("c/d"), "was").unwrap();
        fs::write(to.join("a"), "was").unwrap();
        let entries = [" D a", " D c/d", "?? a/b", "?? c"].map(entry);
        assert_eq!(copy(&from, &to, &entries, &CancellationToken::new()).unwrap(), Vec::<String>::new());
        assert_eq!(fs::read_to_string(to.join("a/b")).unwrap(), "in");
        assert_eq!(fs::read_to_string(to.join("c")).unwrap(), "out");
    }
}
