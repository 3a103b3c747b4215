//! Permissions of one command, as a value.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::network::PrivateNetwork;

/// Paths and network that one command may write, read and reach. Everything that is not named can be read and not
/// written.
///
/// Paths are absolute and real: without links and `..`. Where they lie in each other the inner one
/// counts, and of two lists with the same path the stricter one. Reading is bounded to keep secrets;
/// it is no list of what a command needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Confinement {
    /// Directories with all below, and files. Those that don't exist grant nothing.
    pub writable: Vec<PathBuf>,
    /// Folders whose writes are staged: neither what is in `writable` there nor anything else of them is
    /// written, but directories of the server's own.
    pub staged: Vec<Staged>,
    /// Paths that are written directly although they are in such a folder: build output, and what the user opens.
    pub direct: Vec<PathBuf>,
    /// Paths that can't be written although they are in a grant: protected names that exist.
    pub read_only: Vec<PathBuf>,
    /// Directories, and files, that are seen, unchanged and read-only, even where they lie below `/tmp` or another place
    /// that is private or empty: workspace folders, the home directory.
    pub visible: Vec<PathBuf>,
    /// Paths that can't be read: ignored and secret files, state, credentials.
    pub hidden: Vec<PathBuf>,
    /// A private directory that takes the place of `/tmp` and `/var/tmp`. Without it they are empty
    /// at the start and lost at the end.
    pub temp: Option<PathBuf>,
    /// A private directory for what build tools keep, where the user's own can't be written.
    pub cache: Option<PathBuf>,
    /// Variables in place of those of the environment, such as those that lead build tools there.
    pub variables: Vec<(&'static str, OsString)>,
    /// Network access.
    pub network: Network,
    /// Network whose loopback the command shares where it has no network; one of its own when none.
    #[serde(skip)]
    pub loopback: Option<PrivateNetwork>,
    /// Resource limits.
    pub limits: Limits,
    /// Files that show another content than they have.
    pub substitutes: Vec<Substitute>,
    /// Capture of files before the command changes them, if any.
    pub capture: Option<Capture>,
    /// Private directories with what the server serves the command, such as sockets of its own. Read-only.
    pub services: Vec<PathBuf>,
    /// Sockets of other programs that the command may connect to, by their real paths.
    pub sockets: Vec<PathBuf>,
    /// Files and directories with the history of repositories: only git itself removes what is in there.
    pub git_history: Vec<PathBuf>,
    /// Paths in grants that only git itself writes, with all below them. Held by the supervisor, in place of `read_only`.
    pub for_git: Vec<PathBuf>,
    /// Paths, be they missing, that are neither made nor removed nor replaced, with what leads to them. Files with content
    /// belong into `read_only` or `hidden` as well.
    pub fixed: Vec<PathBuf>,
    /// Paths that keep their place: no directory that leads to one is renamed, as the path would mean something else then. Held by
    /// the supervisor.
    pub in_place: Vec<PathBuf>,
}

/// A file that a command sees in place of another, such as one without the secrets in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Substitute<P = PathBuf> {
    /// The place where the command looks for it; where nothing is, nothing is shown.
    pub place: P,
    /// The private file that it finds there.
    pub source: P,
    /// True if it may write that file. Then it may also replace it by name, as git does with its configuration.
    pub is_writable: bool,
}

/// Directory for the content of files before a command first changed them; see [`super::Journal`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capture<P = PathBuf> {
    /// A private, empty directory.
    pub directory: P,
    /// Files below these are kept,
    pub roots: Vec<P>,
    /// but not those below these, such as build output.
    pub except: Vec<P>,
    /// Among those, directories in which what steers a git directory is kept all the same.
    pub repositories: Vec<P>,
}

/// A folder that a command sees through an overlay, and where its writes go. The private directories lie in
/// one file system, and outside of the folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Staged {
    /// The folder, which stays as it is.
    pub root: PathBuf,
    /// Directory of the command's changes.
    pub upper: PathBuf,
    /// The kernel's own, for the time of the command.
    pub work: PathBuf,
}

/// Network access of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Network {
    /// None but a loopback of its own. An empty list of hosts means this too.
    #[default]
    Off,
    /// The machine's.
    On,
}

/// Resource limits of a command. There are never core dumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Processes and threads at once, about.
    pub processes: u32,
    /// Memory of each process, in bytes: what it may write, not what it maps.
    pub memory: Option<u64>,
    /// The largest file it may write, in bytes.
    pub file_size: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { processes: 4096, memory: None, file_size: None }
    }
}

/// Reasons why a confinement can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfinementError {
    /// Relative, or with `..`.
    #[error("the sandbox accepts only canonical, absolute paths; {} is not one", .0.display())]
    NotReal(PathBuf),
    /// Writing everywhere is no confinement.
    #[error("the sandbox can't make the whole file system writable; name directories of the workspace")]
    Everything,
}

/// Access to a path and everything below it; the stricter, the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Access {
    Write,
    /// Writes are redirected.
    Staged,
    Read,
    None,
}

impl Confinement {
    /// The places with what may be done there, outer ones first.
    pub(super) fn places(&self) -> Result<Vec<(PathBuf, Access)>, ConfinementError> {
        let is_staged = |path: &PathBuf| {
            self.staged.iter().any(|staged| path.starts_with(&staged.root))
                && !self.direct.iter().any(|direct| path.starts_with(direct))
        };
        let writable = self.writable.iter().chain(&self.cache);
        let writable =
            writable.map(|path| (path, if is_staged(path) { Access::Staged } else { Access::Write }));
        let direct = self.direct.iter().map(|path| (path, Access::Write));
        let staged = self.staged.iter().map(|staged| (&staged.root, Access::Staged));
        let writable = writable.chain(direct).chain(staged);
        let read_only = self.read_only.iter().chain(&self.services).map(|path| (path, Access::Read));
        let hidden = self.hidden.iter().map(|path| (path, Access::None));
        let mut places = BTreeMap::new();
        for (path, access) in writable.chain(read_only).chain(hidden) {
            check(path)?;
            if access <= Access::Staged && path == Path::new("/") {
                return Err(ConfinementError::Everything);
            }
            // Names are compared without a trailing slash.
            let stricter = places.entry(path.components().collect::<PathBuf>()).or_insert(access);
            *stricter = access.max(*stricter);
        }
        let private = self.staged.iter().flat_map(|staged| [&staged.upper, &staged.work]);
        let substitutes = self.substitutes.iter().flat_map(|it| [&it.place, &it.source]);
        let capture = self.capture.iter().flat_map(|it| it.roots.iter().chain([&it.directory]));
        for path in self
            .temp
            .iter()
            .chain(private)
            .chain(substitutes)
            .chain(capture)
            .chain(&self.git_history)
            .chain(&self.for_git)
            .chain(&self.fixed)
            .chain(&self.in_place)
            .chain(&self.sockets)
            .chain(&self.visible)
        {
            check(path)?;
        }
        let mut places: Vec<_> = places.into_iter().collect();
        places.sort_by_key(|(path, _)| path.components().count());
        Ok(places)
    }
}

fn check(path: &Path) -> Result<(), ConfinementError> {
    let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if path.is_absolute() && plain { Ok(()) } else { Err(ConfinementError::NotReal(path.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(confinement: &Confinement) -> Vec<(String, Access)> {
        let places = confinement.places().unwrap().into_iter();
        places.map(|(path, access)| (path.display().to_string(), access)).collect()
    }

    #[test]
    fn the_stricter_list_counts_and_outer_places_come_first() {
        let confinement = Confinement {
            writable: vec!["/w/a/b".into(), "/w/".into()],
            read_only: vec!["/w/a/b".into(), "/w/.git".into()],
            hidden: vec!["/w/.env".into(), "/w/.git".into()],
            cache: Some("/c".into()),
            ..Confinement::default()
        };
        assert_eq!(
            places(&confinement),
            [
                ("/c".to_owned(), Access::Write),
                ("/w".to_owned(), Access::Write),
                ("/w/.env".to_owned(), Access::None),
                ("/w/.git".to_owned(), Access::None),
                ("/w/a/b".to_owned(), Access::Read),
            ]
        );
    }

    #[test]
    fn in_a_staged_folder_only_what_is_direct_is_written_at_once() {
        let staged = Staged { root: "/w".into(), upper: "/s/upper".into(), work: "/s/work".into() };
        let confinement = Confinement {
            writable: vec!["/w/src".into(), "/w/target/debug".into(), "/opt".into()],
            read_only: vec!["/w/.git".into()],
            staged: vec![staged],
            direct: vec!["/w/target".into()],
            ..Confinement::default()
        };
        assert_eq!(
            places(&confinement),
            [
                ("/opt".to_owned(), Access::Write),
                ("/w".to_owned(), Access::Staged),
                ("/w/.git".to_owned(), Access::Read),
                ("/w/src".to_owned(), Access::Staged),
                ("/w/target".to_owned(), Access::Write),
                ("/w/target/debug".to_owned(), Access::Write),
            ]
        );
    }

    #[test]
    fn a_path_that_is_not_real_and_a_grant_of_everything_are_refused() {
        for path in ["w", "", "/w/../x", "./w"] {
            let confinement = Confinement { writable: vec![path.into()], ..Confinement::default() };
            assert!(matches!(confinement.places(), Err(ConfinementError::NotReal(_))), "{path}");
        }
        for path in ["/", "//"] {
            let confinement = Confinement { writable: vec![path.into()], ..Confinement::default() };
            assert!(matches!(confinement.places(), Err(ConfinementError::Everything)), "{path}");
        }
    }
}
