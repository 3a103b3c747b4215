//! The repository that git found, and whether it is the workspace's own. A `.git` file, a configured work tree,
//! links and alternates may name any other on the machine, whose contents nobody wanted to show.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};

use super::GitError;

/// The largest file of git's that is read here, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// The most object directories, by alternates of alternates.
const MAX_OBJECT_DIRECTORIES: usize = 16;

/// The most entries of an object directory.
const MAX_ENTRIES: usize = 10_000;

/// Questions for `git rev-parse`, in the order of [`Repository::parse`].
pub(super) const QUESTIONS: &[&str] =
    &["rev-parse", "--absolute-git-dir", "--git-common-dir", "--show-toplevel"];

/// A repository, by real paths.
pub(super) struct Repository {
    /// The workspace folder.
    root: PathBuf,
    /// Git directory of one work tree.
    directory: PathBuf,
    /// Git directory that all its work trees share.
    common: PathBuf,
    /// The top of the work tree.
    top: PathBuf,
}

impl Repository {
    /// From the answers to [`QUESTIONS`], asked in `root`. A work tree that isn't around `root` is elsewhere.
    pub(super) fn parse(root: &Path, answers: &str) -> Result<Self, GitError> {
        let mut lines = answers.lines();
        // A line break in a path makes more lines.
        let (Some(directory), Some(common), Some(top), None) =
            (lines.next(), lines.next(), lines.next(), lines.next())
        else {
            return Err(GitError::Elsewhere);
        };
        let real = |path: &str| root.join(path).canonicalize().map_err(|_| GitError::Elsewhere);
        let found = Self {
            root: root.to_owned(),
            directory: real(directory)?,
            common: real(common)?,
            top: real(top)?,
        };
        if root.starts_with(&found.top) { Ok(found) } else { Err(GitError::Elsewhere) }
    }

    /// Returns whether it is the workspace's own by its place, or by what it says of itself as a linked work tree.
    pub(super) fn is_own(&self) -> bool {
        let is_inside = self.directory.starts_with(&self.root) && self.common.starts_with(&self.root);
        let is_around = self.directory == self.common && self.directory == self.top.join(".git");
        is_inside || is_around || self.is_linked()
    }

    /// Returns whether the common directory holds this work tree's, and that points back: no workspace can write that
    /// for another repository.
    fn is_linked(&self) -> bool {
        let git_file = self.top.join(".git");
        self.directory.parent() == Some(&self.common.join("worktrees"))
            && read(&self.directory.join("gitdir"))
                .is_ok_and(|path| path.is_some_and(|path| self.is_at(&path, &git_file)))
    }

    /// Returns whether it is a submodule's whose configured work tree is where git found it.
    pub(super) fn is_submodule(&self, work_tree: &str) -> bool {
        self.directory == self.common && self.is_at(work_tree.as_bytes(), &self.top)
    }

    /// Its own configuration.
    pub(super) fn config(&self) -> PathBuf {
        self.directory.join("config")
    }

    /// Returns whether a path, as a file of git's names it, is that place.
    fn is_at(&self, path: &[u8], place: &Path) -> bool {
        let path = path.strip_suffix(b"\n").unwrap_or(path);
        let path = self.directory.join(OsStr::from_bytes(path));
        path.canonicalize().is_ok_and(|path| path == place)
    }

    /// Refuses contents that are not its own: by alternates, or by links.
    pub(super) fn check_contents(&self) -> Result<(), GitError> {
        self.check_link(&self.directory.join("index"))?;
        let mut directories = vec![self.common.join("objects")];
        let mut next = 0;
        while let Some(objects) = directories.get(next).cloned() {
            next += 1;
            self.check_link(&objects)?;
            self.check_links_in(&objects)?;
            self.check_links_in(&objects.join("pack"))?;
            let alternates = read(&objects.join("info/alternates")).map_err(|_| GitError::Borrows)?;
            for line in alternates.unwrap_or_default().split(|&byte| byte == b'\n') {
                if line.is_empty() || line.starts_with(b"#") {
                    continue;
                }
                let alternate = real_alternate(&objects, line).ok_or(GitError::Borrows)?;
                if !self.holds(&alternate) || directories.len() == MAX_OBJECT_DIRECTORIES {
                    return Err(GitError::Borrows);
                }
                directories.push(alternate);
            }
        }
        Ok(())
    }

    fn check_links_in(&self, directory: &Path) -> Result<(), GitError> {
        let entries = match fs::read_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(|_| GitError::Borrows)?,
        };
        for (count, entry) in entries.enumerate() {
            let entry = entry.map_err(|_| GitError::Borrows)?;
            if count == MAX_ENTRIES {
                return Err(GitError::Borrows);
            }
            self.check_link(&entry.path())?;
        }
        Ok(())
    }

    /// Refuses a link that leads to what isn't its own.
    fn check_link(&self, path: &Path) -> Result<(), GitError> {
        let is_link = path.symlink_metadata().is_ok_and(|found| found.is_symlink());
        // A link to nothing brings nothing.
        match path.canonicalize() {
            Ok(real) if is_link && !self.holds(&real) => Err(GitError::Borrows),
            _ => Ok(()),
        }
    }

    fn holds(&self, real: &Path) -> bool {
        [&self.root, &self.directory, &self.common].iter().any(|own| real.starts_with(own))
    }
}

/// Returns the directory that a line of `info/alternates` names; none where git may read it as another path. Git takes
/// `..` from the text, not from the disk, and quotes off.
fn real_alternate(objects: &Path, line: &[u8]) -> Option<PathBuf> {
    let path = Path::new(OsStr::from_bytes(line));
    let mut names = path.components().skip_while(|part| !matches!(part, Component::Normal(_)));
    if line.starts_with(b"\"") || names.any(|part| part == Component::ParentDir) {
        return None;
    }
    objects.canonicalize().ok()?.join(path).canonicalize().ok()
}

/// A small file; none when it isn't there. No link is followed and nothing special is read.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NOCTTY;
    let opened = match path.symlink_metadata() {
        Ok(found) if !found.is_file() => return Err(io::ErrorKind::InvalidInput.into()),
        Ok(_) => OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path),
        Err(error) => Err(error),
    };
    let file: File = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(Some(bytes))
}
