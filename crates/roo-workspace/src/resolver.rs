//! The path resolver: from a path that a model wrote to a location on disk.
//!
//! The real location counts, after links and `..`, never the text of the path. The result
//! is a [`Resolved`]: a directory handle and plain names below it. All later I/O walks from
//! that handle without following a link, so that a directory which is swapped for a link after the
//! decision makes the operation fail instead of leading it elsewhere.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use cap_fs_ext::DirExt as _;
use cap_std::ambient_authority;
use cap_std::fs::Dir;

use super::protected::{Protection, is_disguised, protection};
use super::uri::file_uri;
use roo_text::names::fold;
use roo_text::render::{exact_line, is_invisible};

/// The longest path that is resolved, in bytes.
const MAX_PATH_BYTES: usize = 4096;

/// Purpose of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Reading a file. The file may be missing on disk: an editor may have it open.
    Read,
    /// Writing a file, which may be missing, as may directories above it.
    Write,
    /// Listing or searching a directory.
    List,
    /// Running something in a directory.
    Directory,
}

/// Position of a path: inside the workspace or outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// Below a root.
    Inside {
        /// The root's index.
        root: usize,
    },
    /// Below no root.
    Outside,
}

/// Reasons why a path can't be used. The texts are for the model.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// The path is empty.
    #[error("The path is empty: name a file or directory relative to the workspace.")]
    Empty,
    /// Longer than any real path.
    #[error("The path has {length} bytes; at most {MAX_PATH_BYTES} are allowed.")]
    TooLong {
        /// In bytes.
        length: usize,
    },
    /// A control character.
    #[error("The path {path} contains a control character.")]
    ControlCharacter {
        /// As written, made visible.
        path: String,
    },
    /// A URI.
    #[error("{path} is a URI: give the path of a file instead.")]
    Uri {
        /// As written.
        path: String,
    },
    /// A Windows share or drive.
    #[error("{path} names a network share or a drive, not a file of the workspace.")]
    NotPlain {
        /// As written.
        path: String,
    },
    /// A protected name, spelled so that it doesn't look like one.
    #[error("{path} is an unusual spelling of a protected name: write the name plainly.")]
    Disguised {
        /// As written, made visible.
        path: String,
    },
    /// A relative path, and no workspace folder is open.
    #[error(
        "No workspace folder is open, so the relative path {path} can't be resolved: give an absolute path."
    )]
    NoRoot {
        /// As written.
        path: String,
    },
    /// `..` leads out of the workspace.
    #[error("{path} points outside the workspace: give a path inside it.")]
    Escapes {
        /// As written.
        path: String,
    },
    /// Symbolic links that lead to each other.
    #[error("{path} goes through a loop of symlinks.")]
    LinkLoop {
        /// As written.
        path: String,
    },
    /// A link of the kernel's, which means another place for each process.
    #[error(
        "{path} goes through a symlink that has another target in each process, like /proc/self/cwd: give the real path."
    )]
    ProcessLink {
        /// As written.
        path: String,
    },
    /// A symbolic link to something missing.
    #[error("{path} goes through a symlink whose target does not exist.")]
    DanglingLink {
        /// As written.
        path: String,
    },
    /// A directory is wanted, or is needed on the way.
    #[error("{path} is not a directory, or one of the directories above it is a file.")]
    NotADirectory {
        /// As written.
        path: String,
    },
    /// A file is wanted.
    #[error("{path} is a directory: use list_files to see what it holds.")]
    IsADirectory {
        /// As written.
        path: String,
    },
    /// A device, pipe or socket.
    #[error("{path} is neither a file nor a directory.")]
    Special {
        /// As written.
        path: String,
    },
    /// It doesn't exist.
    #[error("{path} does not exist.")]
    NotFound {
        /// As written.
        path: String,
    },
    /// The real path has bytes that are not UTF-8.
    #[error("{path} leads to a file whose name is not valid UTF-8.")]
    NotUnicode {
        /// As written.
        path: String,
    },
    /// The system returned an error.
    #[error("{path} can't be resolved: {source}")]
    Io {
        /// As written.
        path: String,
        /// Reason.
        source: io::Error,
    },
}

/// Reason why a workspace folder can't be used.
#[derive(Debug, thiserror::Error)]
#[error("workspace folder {path} can't be opened: {source}")]
pub struct RootError {
    /// The folder.
    pub path: String,
    /// Reason.
    pub source: io::Error,
}

/// The workspace folders, each opened once.
#[derive(Debug, Default)]
pub struct Roots {
    roots: Vec<Root>,
}

#[derive(Debug)]
struct Root {
    handle: Arc<Dir>,
    /// Real path.
    real: PathBuf,
}

impl Roots {
    /// Opens the workspace folders. Relative paths are relative to the first.
    pub fn open(folders: &[PathBuf]) -> Result<Self, RootError> {
        let open = |folder: &PathBuf| {
            let real = folder.canonicalize()?;
            let handle = Arc::new(Dir::open_ambient_dir(&real, ambient_authority())?);
            Ok(Root { handle, real })
        };
        let roots = folders
            .iter()
            .map(|folder| {
                open(folder).map_err(|source| RootError { path: folder.display().to_string(), source })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { roots })
    }

    /// The real paths of the roots.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().map(|root| root.real.as_path())
    }

    /// The handle of a root.
    pub(super) fn handle(&self, root: usize) -> Option<&Dir> {
        self.roots.get(root).map(|root| &*root.handle)
    }

    /// Returns [`Resolved::display`] of a file at a real path, without accessing it.
    pub(super) fn name(&self, real: &Path) -> String {
        let owner = self.owner(real).filter(|(index, _)| *index == 0);
        let below = owner.and_then(|(_, root)| real.strip_prefix(&root.real).ok());
        exact_line(&below.unwrap_or(real).to_string_lossy())
    }

    /// The root that a real path is in. Where roots nest, the inner one owns the file.
    fn owner(&self, real: &Path) -> Option<(usize, &Root)> {
        let around = self.roots.iter().enumerate().filter(|(_, root)| real.starts_with(&root.real));
        around.max_by_key(|(_, root)| root.real.components().count())
    }

    /// Finds out where a path leads that was kept on disk, to change the file there; none where it can lead nowhere any
    /// more.
    ///
    /// # Errors
    /// Those of the system: they don't say what is there.
    pub(super) fn resolve_kept(&self, path: &Path) -> io::Result<Option<Resolved>> {
        match self.resolve(&path.to_string_lossy(), Purpose::Write) {
            Ok(place) => Ok(Some(place)),
            Err(PathError::Io { path, source }) => {
                Err(io::Error::new(source.kind(), PathError::Io { path, source }))
            }
            Err(_) => Ok(None),
        }
    }

    /// The place of a path as it is written, without a look at the disk; none for one that isn't plainly below a root.
    pub(super) fn literal(&self, text: &str) -> Option<Resolved> {
        let absolute = self.roots.first()?.real.join(text);
        let (index, root) = self.owner(&absolute)?;
        let rest = absolute.strip_prefix(&root.real).ok()?;
        let below = slashed(rest).filter(|below| !below.is_empty() && check_text(text).is_ok())?;
        let is_plain = rest.components().all(|part| matches!(part, Component::Normal(_)));
        is_plain.then(|| Resolved {
            base: Arc::clone(&root.handle),
            location: Location::Inside { root: index },
            relative: below.clone(),
            below,
            absolute,
            kind: FileKind::Missing,
            backslash: false,
            invisible: false,
        })
    }

    /// Finds out where a path leads. Nothing in it is expanded: `~`, `$` and `%` are plain characters.
    ///
    /// Relative text that climbs out of the workspace by `..` is an error. Absolute text and symbolic
    /// links that lead outside resolve to [`Location::Outside`], for the gate to decide.
    pub fn resolve(&self, text: &str, purpose: Purpose) -> Result<Resolved, PathError> {
        check_text(text)?;
        let named = || exact_line(text);
        let given = Path::new(text);
        let start = match (given.is_absolute(), self.roots.first()) {
            (true, _) => given.to_path_buf(),
            (false, Some(first)) => first.real.join(given),
            (false, None) => return Err(PathError::NoRoot { path: named() }),
        };

        let real = RealPath::find(&start).map_err(|error| error.on(named()))?;
        let root = self.owner(&real.path);
        if root.is_none() && climbs(given) {
            return Err(PathError::Escapes { path: named() });
        }
        let io = |source| PathError::Io { path: named(), source };
        let kind = match real.exists {
            false => FileKind::Missing,
            true => FileKind::from_path(&real.path).map_err(io)?,
        };
        check_purpose(purpose, kind, text)?;

        let (location, base, below_of) = match root {
            Some((index, root)) => {
                (Location::Inside { root: index }, Arc::clone(&root.handle), root.real.as_path())
            }
            None => {
                let top = real.path.ancestors().last().unwrap_or(&real.path);
                let handle = Dir::open_ambient_dir(top, ambient_authority()).map_err(io)?;
                (Location::Outside, Arc::new(handle), top)
            }
        };
        let not_unicode = || PathError::NotUnicode { path: named() };
        let below =
            slashed(real.path.strip_prefix(below_of).map_err(|_| not_unicode())?).ok_or_else(not_unicode)?;
        let absolute_text = real.path.to_str().ok_or_else(not_unicode)?;

        let names = || text.split(['/', '\\']).filter(|name| !matches!(*name, "." | ".."));
        if names().any(is_disguised)
            && [text, &below]
                .iter()
                .any(|path| matches!(protection(path, None), Protection::Tier1 { .. } | Protection::Denied))
        {
            return Err(PathError::Disguised { path: named() });
        }

        Ok(Resolved {
            base,
            location,
            relative: match location {
                Location::Inside { .. } => below.clone(),
                Location::Outside => absolute_text.to_owned(),
            },
            below,
            kind,
            backslash: text.contains('\\'),
            invisible: text.chars().any(is_invisible),
            absolute: real.path,
        })
    }
}

/// A resolved path, without links.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The root's handle, or the top of the file system for a place outside.
    base: Arc<Dir>,
    /// Names below `base`, `/` between them; empty for `base` itself.
    below: String,
    location: Location,
    relative: String,
    absolute: PathBuf,
    kind: FileKind,
    backslash: bool,
    invisible: bool,
}

impl Resolved {
    /// Inside which root, or outside.
    pub fn location(&self) -> Location {
        self.location
    }

    /// The real path relative to its root, `/` between names, empty for the root itself; the whole
    /// path for a place outside.
    pub fn relative(&self) -> &str {
        &self.relative
    }

    /// The real, absolute path. For display, comparison and other programs; I/O goes by handles.
    pub fn absolute(&self) -> &Path {
        &self.absolute
    }

    /// The path as it may be shown to people and models: relative in the first root, else absolute,
    /// with invisible characters spelled out.
    pub fn display(&self) -> String {
        match self.location {
            Location::Inside { root: 0 } if self.below.is_empty() => ".".to_owned(),
            Location::Inside { root: 0 } => exact_line(&self.below),
            _ => exact_line(&self.absolute.to_string_lossy()),
        }
    }

    /// Returns whether it was a directory when the path was resolved.
    pub fn is_directory(&self) -> bool {
        self.kind == FileKind::Directory
    }

    /// Returns whether it was a plain file when the path was resolved.
    pub fn is_file(&self) -> bool {
        self.kind == FileKind::File
    }

    /// Returns whether the text had a backslash, which is a plain character here and a separator elsewhere.
    pub fn backslash(&self) -> bool {
        self.backslash
    }

    /// Returns whether the text had characters that can't be seen or that turn the direction of text.
    pub fn invisible(&self) -> bool {
        self.invisible
    }

    /// The `file:` URI of the real path.
    pub fn uri(&self) -> String {
        file_uri(&self.absolute)
    }

    /// Something below this directory, without a look at it.
    pub fn below(&self, path: &str) -> Self {
        let join = |start: &str| match start {
            "" => path.to_owned(),
            start => format!("{start}/{path}"),
        };
        Self {
            base: Arc::clone(&self.base),
            below: join(&self.below),
            location: self.location,
            relative: join(&self.relative),
            absolute: self.absolute.join(path),
            kind: FileKind::File,
            backslash: false,
            invisible: false,
        }
    }

    /// The root that it is below, as a handle.
    pub(super) fn base(&self) -> &Dir {
        &self.base
    }

    /// The names below [`Self::base`], `/` between them; empty for that directory itself.
    pub(super) fn path_below_base(&self) -> &str {
        &self.below
    }

    /// The directory that holds it, and its name there.
    pub(super) fn parent(&self) -> io::Result<(Dir, &str)> {
        self.walk_to_parent(None)
    }

    /// As [`Self::parent`], with missing directories created.
    pub(super) fn parent_created(&self) -> io::Result<(Dir, &str)> {
        self.parent_created_in(&mut Vec::new())
    }

    /// As [`Self::parent_created`]; `changed` gets the directories that hold a new name.
    pub(super) fn parent_created_in(&self, changed: &mut Vec<Dir>) -> io::Result<(Dir, &str)> {
        self.walk_to_parent(Some(changed))
    }

    /// The directories below [`Self::base`] with `/` between them, and the last name.
    pub(super) fn names_below(&self) -> (&str, &str) {
        self.below.rsplit_once('/').unwrap_or(("", &self.below))
    }

    fn walk_to_parent(&self, mut created_in: Option<&mut Vec<Dir>>) -> io::Result<(Dir, &str)> {
        let (directories, leaf) = self.names_below();
        if leaf.is_empty() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let mut directory = self.base.try_clone()?;
        for name in directories.split('/').filter(|name| !name.is_empty()) {
            let inner = match (directory.open_dir_nofollow(name), &mut created_in) {
                (Err(error), Some(created_in)) if error.kind() == io::ErrorKind::NotFound => {
                    match directory.create_dir(name) {
                        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                        _ => created_in.push(directory.try_clone()?),
                    }
                    directory.open_dir_nofollow(name)?
                }
                (opened, _) => opened?,
            };
            directory = inner;
        }
        Ok((directory, leaf))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileKind {
    Missing,
    File,
    Directory,
    Special,
}

impl FileKind {
    fn from_path(path: &Path) -> io::Result<Self> {
        let kind = path.symlink_metadata()?.file_type();
        Ok(match (kind.is_file(), kind.is_dir()) {
            (true, _) => Self::File,
            (_, true) => Self::Directory,
            _ => Self::Special,
        })
    }
}

/// A path without links, `.` and `..`.
struct RealPath {
    path: PathBuf,
    exists: bool,
}

enum RealError {
    Dangling,
    /// A missing directory with `..` after it.
    Missing,
    NotADirectory,
    Loop,
    ProcessLink,
    Io(io::Error),
}

impl RealError {
    fn on(self, path: String) -> PathError {
        match self {
            Self::Dangling => PathError::DanglingLink { path },
            Self::Missing => PathError::NotFound { path },
            Self::NotADirectory => PathError::NotADirectory { path },
            Self::Loop => PathError::LinkLoop { path },
            Self::ProcessLink => PathError::ProcessLink { path },
            Self::Io(source) => PathError::Io { path, source },
        }
    }
}

impl RealPath {
    /// Resolves the deepest part that exists; what is missing must be plain names.
    fn find(start: &Path) -> Result<Self, RealError> {
        // Without `.` and trailing slashes, after which a link is followed before it is looked at.
        let mut existing: PathBuf = start.components().collect();
        let mut missing = Vec::new();
        loop {
            match existing.canonicalize() {
                // Where it leads this process it need not lead the one that is to use it.
                Ok(_) if goes_through_process_link(&existing) => return Err(RealError::ProcessLink),
                Ok(mut path) => {
                    let exists = missing.is_empty();
                    path.extend(missing.iter().rev());
                    return Ok(Self { path, exists });
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    if existing.symlink_metadata().is_ok_and(|found| found.is_symlink()) {
                        return Err(RealError::Dangling);
                    }
                    match existing.components().next_back() {
                        Some(Component::Normal(name)) => missing.push(name.to_owned()),
                        _ => return Err(RealError::Missing),
                    }
                    existing.pop();
                }
                Err(error) => {
                    return Err(match error.kind() {
                        io::ErrorKind::NotADirectory => RealError::NotADirectory,
                        _ if is_loop(&error) => RealError::Loop,
                        _ => RealError::Io(error),
                    });
                }
            }
        }
    }
}

/// The real path as far as it can be known; the path itself where it can't.
pub(super) fn real_path(path: &Path) -> PathBuf {
    RealPath::find(path).map_or_else(|_| path.to_path_buf(), |real| real.path)
}

/// Returns whether a path that exists goes through a link such as `/proc/self/root` or `/dev/stdin`.
#[cfg(target_os = "linux")]
fn goes_through_process_link(path: &Path) -> bool {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let opened =
        rustix::io::retry_on_intr(|| openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS));
    opened.err() == Some(rustix::io::Errno::LOOP)
}

#[cfg(not(target_os = "linux"))]
fn goes_through_process_link(_: &Path) -> bool {
    false
}

fn is_loop(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

fn check_text(text: &str) -> Result<(), PathError> {
    if text.is_empty() {
        return Err(PathError::Empty);
    }
    if text.len() > MAX_PATH_BYTES {
        return Err(PathError::TooLong { length: text.len() });
    }
    if text.chars().any(char::is_control) {
        return Err(PathError::ControlCharacter { path: exact_line(text) });
    }
    let path = || exact_line(text);
    if let Some((scheme, rest)) = text.split_once(':')
        && scheme.len() > 1
        && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
        && (rest.starts_with("//")
            || matches!(fold(scheme).as_str(), "file" | "data" | "untitled" | "vscode-remote"))
    {
        return Err(PathError::Uri { path: path() });
    }
    let drive = matches!(text.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
    let share = matches!(text.as_bytes(), [b'/' | b'\\', b'/' | b'\\', ..]);
    if share || drive {
        return Err(PathError::NotPlain { path: path() });
    }
    Ok(())
}

fn check_purpose(purpose: Purpose, kind: FileKind, text: &str) -> Result<(), PathError> {
    let path = exact_line(text);
    match (purpose, kind) {
        (_, FileKind::Special) => Err(PathError::Special { path }),
        (Purpose::Read | Purpose::Write, FileKind::Directory) => Err(PathError::IsADirectory { path }),
        (Purpose::Write, FileKind::Missing) if text.ends_with('/') => Err(PathError::IsADirectory { path }),
        (Purpose::List | Purpose::Directory, FileKind::Missing) => Err(PathError::NotFound { path }),
        (Purpose::List | Purpose::Directory, FileKind::File) => Err(PathError::NotADirectory { path }),
        _ => Ok(()),
    }
}

/// Returns whether relative text names something above where it starts.
fn climbs(given: &Path) -> bool {
    let mut depth = 0_usize;
    for component in given.components() {
        match component {
            Component::ParentDir if depth == 0 => return true,
            Component::ParentDir => depth -= 1,
            Component::Normal(_) => depth += 1,
            // An absolute path doesn't start anywhere.
            Component::RootDir | Component::Prefix(_) => return false,
            Component::CurDir => {}
        }
    }
    false
}

fn slashed(path: &Path) -> Option<String> {
    let names: Option<Vec<&str>> = path.components().map(|name| name.as_os_str().to_str()).collect();
    Some(names?.join("/"))
}

#[cfg(test)]
mod tests;
