//! The git directories of a workspace: of plain checkouts, linked work trees and submodules, also where they lie outside
//! of it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use roo_durable::read_regular;

/// The largest file of git's that is read here, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// The most submodules or linked work trees of a repository that are looked at.
const MAX_DIRECTORIES: usize = 500;

/// Entries of a git directory that make git run programs, or take contents and settings from elsewhere, but for its
/// configuration. Those that end with a slash are directories.
const GUARDED: &[&str] = &[
    "hooks/",
    "info/",
    "config.worktree",
    "commondir",
    "gitdir",
    "objects/info/alternates",
    "objects/info/http-alternates",
];

/// Returns whether commands can't change a path in or at a `.git`, or don't get it changed for long; none for another path.
pub(in super::super) fn is_guarded(path: &Path) -> Option<bool> {
    let git = path.ancestors().filter(|above| above.ends_with(".git")).last()?;
    let inner = path.strip_prefix(git).ok()?;
    let is_there = git.symlink_metadata().is_ok();
    if inner.as_os_str().is_empty() {
        return Some(is_there);
    }
    // The files in `info` of a new repository are judged by their effects.
    let is_free = !is_there && inner.starts_with("info") && inner != Path::new("info/attributes");
    Some(!is_free && GUARDED.iter().any(|name| inner.starts_with(name.trim_end_matches('/'))))
}

/// A git directory that commands write to. Paths are real.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct GitDirectory {
    /// Directory of one work tree.
    pub(in super::super) own: PathBuf,
    /// Directory that all its work trees share; for a plain checkout the same.
    pub(in super::super) common: PathBuf,
}

impl GitDirectory {
    /// Those of a workspace: of its folders, of what lies around them, and of the `.git` files and directories that
    /// were found in it.
    pub(in super::super) fn find<'a>(
        roots: impl IntoIterator<Item = &'a Path>,
        found: impl IntoIterator<Item = &'a Path>,
        home: Option<&Path>,
    ) -> Vec<Self> {
        let around = roots.into_iter().filter_map(|root| Self::around(root, home));
        let mut directories: Vec<Self> = Vec::new();
        for directory in found.into_iter().filter_map(Self::from_dot_git).chain(around) {
            if !directories.contains(&directory) {
                directories.push(directory);
            }
        }
        directories
    }

    /// The one in a directory above, as git looks for it.
    fn around(root: &Path, home: Option<&Path>) -> Option<Self> {
        Self::from_dot_git(&dot_git_around(root, home)?)
    }

    /// The top of the work tree that a directory lies in, with its git directory, where the repository is its own.
    pub(in super::super) fn with_top(directory: &Path, home: Option<&Path>) -> Option<(PathBuf, Self)> {
        let git = dot_git_around(directory, home)?;
        Some((git.parent()?.to_path_buf(), Self::from_dot_git(&git)?))
    }

    /// The top of the work tree that a workspace folder lies in, where the repository is its own. Git compares all of it with
    /// the index: what it doesn't see there, it takes for deleted.
    pub(in super::super) fn work_tree_around(root: &Path, home: Option<&Path>) -> Option<PathBuf> {
        Self::with_top(root, home).map(|(top, _)| top)
    }

    /// Returns the directories that a `.git` names, where that is its own: a directory is, and what a file names if it
    /// names the file in turn.
    fn from_dot_git(git: &Path) -> Option<Self> {
        let kind = git.symlink_metadata().ok()?;
        if kind.is_dir() {
            let own = git.canonicalize().ok()?;
            let is_plain = own.join("HEAD").is_file() && own.join("objects").is_dir();
            return (is_plain && !own.join("commondir").exists()).then(|| Self { common: own.clone(), own });
        }
        if !kind.is_file() {
            return None;
        }
        let text = read_regular(git, MAX_FILE_BYTES).ok()?;
        let named = text.strip_prefix("gitdir:")?.trim();
        let own = git.parent()?.join(named).canonicalize().ok().filter(|own| own.is_dir())?;
        if let Ok(text) = read_regular(&own.join("commondir"), MAX_FILE_BYTES) {
            let common = own.join(text.trim()).canonicalize().ok()?;
            let back = read_regular(&own.join("gitdir"), MAX_FILE_BYTES).ok()?;
            let points_back = own.join(back.trim()).canonicalize().ok()? == git.canonicalize().ok()?;
            return (points_back && own.parent() == Some(&common.join("worktrees")))
                .then_some(Self { own, common });
        }
        let work_tree = work_tree(&read_regular(&own.join("config"), MAX_FILE_BYTES).ok()?)?;
        let points_back = own.join(work_tree).canonicalize().ok()? == git.parent()?.canonicalize().ok()?;
        points_back.then(|| Self { common: own.clone(), own })
    }

    /// Returns the paths in it that commands may write.
    pub(in super::super) fn writable(&self) -> impl Iterator<Item = &Path> {
        let own = (self.own != self.common).then_some(self.own.as_path());
        own.into_iter().chain([self.common.as_path()])
    }

    /// Returns the paths that hold its history and can't be made again.
    pub(in super::super) fn history(&self) -> impl Iterator<Item = PathBuf> {
        let kept = |directory: &Path| {
            ["HEAD", "logs", "refs", "packed-refs", "objects"].map(|name| directory.join(name))
        };
        self.writable().flat_map(kept)
    }

    /// The configuration that all work trees share.
    pub(in super::super) fn configuration(&self) -> PathBuf {
        self.common.join("config")
    }

    /// Returns the paths that must stay as they are, there or not, but for the configuration.
    pub(super) fn guarded(&self) -> Vec<PathBuf> {
        let mut guarded = Vec::new();
        for directory in self.writable() {
            guarded.extend(GUARDED.iter().map(|name| directory.join(name.trim_end_matches('/'))));
        }
        guarded
    }

    /// Makes the directories whose names must not be made by a command; git makes them too.
    pub(super) fn make_guarded_directories(&self) {
        for name in GUARDED.iter().filter_map(|name| name.strip_suffix('/')) {
            // Where it can't be made, a command may make it, and is found out.
            let _ = fs::create_dir(self.common.join(name));
        }
    }

    /// Returns the paths that exist and that commands may not write: what is guarded, other work trees, and submodules
    /// but for `granted`.
    pub(in super::super) fn read_only(&self, granted: &[Self]) -> Vec<PathBuf> {
        let is_granted = |path: &PathBuf| granted.iter().any(|other| other.own == *path);
        let mut closed: Vec<PathBuf> =
            self.guarded().into_iter().filter(|path| path.symlink_metadata().is_ok()).collect();
        let others = self.work_trees().chain(self.modules());
        closed.extend(others.filter(|path| !is_granted(path)));
        closed
    }

    /// The directories of linked work trees.
    pub(super) fn work_trees(&self) -> impl Iterator<Item = PathBuf> + use<> {
        entries(&self.common.join("worktrees"))
    }

    /// The git directories of submodules, whose names may hold slashes. A linked work tree has its own.
    pub(super) fn modules(&self) -> impl Iterator<Item = PathBuf> + use<> {
        let mut found = Vec::new();
        let trees = self.work_trees().chain([self.common.clone()]);
        let mut open: Vec<PathBuf> = trees.map(|directory| directory.join("modules")).collect();
        while let Some(directory) = open.pop().filter(|_| found.len() < MAX_DIRECTORIES) {
            for entry in entries(&directory) {
                if entry.join("HEAD").is_file() {
                    open.push(entry.join("modules"));
                    found.push(entry);
                } else {
                    open.push(entry);
                }
            }
        }
        found.into_iter()
    }
}

/// The real directories in a directory.
fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().take(MAX_DIRECTORIES);
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path())
}

/// The work tree that a submodule's configuration names, as git writes it.
fn work_tree(configuration: &str) -> Option<PathBuf> {
    let mut section = "";
    for line in configuration.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        } else if section.eq_ignore_ascii_case("[core]")
            && let Some((key, value)) = line.split_once('=')
            && key.trim().eq_ignore_ascii_case("worktree")
        {
            let value = value.trim();
            let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
            return Some(OsStr::from_bytes(value.as_bytes()).into());
        }
    }
    None
}

/// The nearest `.git` in a directory or above it, among those of the user. A repository in the home directory is nobody's
/// project.
fn dot_git_around(root: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    for directory in root.ancestors() {
        if Some(directory) == home || directory.metadata().ok()?.uid() != user {
            return None;
        }
        let git = directory.join(".git");
        if git.symlink_metadata().is_ok() {
            return Some(git);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    struct Fixture {
        place: tempfile::TempDir,
    }

    impl Fixture {
        fn new() -> Self {
            Self { place: tempfile::tempdir().unwrap() }
        }

        fn at(&self, name: &str) -> PathBuf {
            self.place.path().canonicalize().unwrap().join(name)
        }

        fn git(&self, directory: &str, line: &str) {
            fs::create_dir_all(self.at(directory)).unwrap();
            let words = line.split(' ');
            let own = ["-c", "protocol.file.allow=always", "-c", "user.name=ada", "-c", "user.email=a@b"];
            let done =
                Command::new("git").args(own).args(words).current_dir(self.at(directory)).output().unwrap();
            assert!(done.status.success(), "{line}: {done:?}");
        }

        fn find(&self, root: &str, found: &[&str]) -> Vec<GitDirectory> {
            let found: Vec<PathBuf> = found.iter().map(|name| self.at(name)).collect();
            GitDirectory::find(
                [self.at(root).as_path()],
                found.iter().map(PathBuf::as_path),
                Some(&self.at("home")),
            )
        }
    }

    #[test]
    fn plain_checkouts_linked_work_trees_and_submodules_are_found_wherever_they_keep_their_data() {
        let fixture = Fixture::new();
        fixture.git("home/main", "init -q");
        fixture.git("home/main", "commit -q --allow-empty -m one");
        fixture.git("home/main", "worktree add -q ../linked");
        fixture.git("home/main", "worktree add -q ../other");
        fixture.git("home/main", "submodule -q add ../main sub/mod");
        fs::create_dir_all(fixture.at("home/main/deep/er")).unwrap();
        let at = |name: &str| fixture.at(name);
        let git = at("home/main/.git");
        let plain = GitDirectory { own: git.clone(), common: git.clone() };
        assert_eq!(fixture.find("home/main", &["home/main/.git"]), std::slice::from_ref(&plain));
        assert_eq!(fixture.find("home/main/deep/er", &[]), std::slice::from_ref(&plain));
        let around = |root: &str| GitDirectory::work_tree_around(&at(root), Some(&at("home")));
        assert_eq!(around("home/main/deep/er"), Some(at("home/main")));
        assert_eq!(around("home/linked"), Some(at("home/linked")));
        assert_eq!(around("home"), None);
        let linked = GitDirectory { own: git.join("worktrees/linked"), common: git.clone() };
        assert_eq!(fixture.find("home/linked", &["home/linked/.git"]), std::slice::from_ref(&linked));
        let module = git.join("modules/sub/mod");
        let module = GitDirectory { own: module.clone(), common: module };
        assert_eq!(
            fixture.find("home/main", &["home/main/.git", "home/main/sub/mod/.git"]),
            [plain.clone(), module.clone()]
        );

        let closed = plain.read_only(std::slice::from_ref(&plain));
        for name in ["hooks", "info", "worktrees/linked", "worktrees/other", "modules/sub/mod"] {
            assert!(closed.contains(&git.join(name)), "{name}: {closed:?}");
        }
        let closed = linked.read_only(&[linked.clone(), module.clone()]);
        for name in ["hooks", "worktrees/linked/gitdir", "worktrees/linked/commondir", "worktrees/other"] {
            assert!(closed.contains(&git.join(name)), "{name}: {closed:?}");
        }
        assert!(!closed.contains(&git.join("worktrees/linked")) && !closed.contains(&module.own));
    }

    #[test]
    fn nothing_that_only_claims_to_be_the_workspaces_is_found() {
        let fixture = Fixture::new();
        fixture.git("home/main", "init -q");
        fixture.git("home/theirs", "init -q");
        fixture.git("home", "init -q");
        fs::create_dir_all(fixture.at("home/fake")).unwrap();
        let claim = format!("gitdir: {}\n", fixture.at("home/theirs/.git").display());
        fs::write(fixture.at("home/fake/.git"), claim).unwrap();
        assert_eq!(fixture.find("home/fake", &["home/fake/.git"]), []);
        std::os::unix::fs::symlink("../theirs/.git", fixture.at("home/main/link")).unwrap();
        assert_eq!(GitDirectory::from_dot_git(&fixture.at("home/main/link")), None);
        fs::write(fixture.at("home/theirs/.git/commondir"), "../../main/.git").unwrap();
        assert_eq!(fixture.find("home/theirs", &["home/theirs/.git"]), []);
        fs::create_dir(fixture.at("home/plain")).unwrap();
        assert_eq!(fixture.find("home/plain", &[]), [], "the home directory's is nobody's project");
    }
}
