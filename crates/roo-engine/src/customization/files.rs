//! Reading what may be hostile: bounded, no special files, and for a workspace's own files no link to what
//! may not be read.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Scope;
use super::access::{self, Withheld};
use roo_protocol::ids::Digest;
use roo_workspace::{Contents, Ignores, PathError, Purpose, ReadError, RootError, Roots};

/// Number of links to directories followed one below the other.
const LINK_DEPTH: usize = 5;
/// Lists of patterns at the top of a workspace folder, which are in force whether it is trusted or not.
pub(super) const PATTERN_FILES: [&str; 2] = [".rooignore", ".rooprotected"];
/// Maximum depth of directories.
const DEPTH: usize = 16;
/// Maximum number of files that a walk finds.
const FILES: usize = 1000;

/// Reads files of users and workspaces.
pub(super) struct Files {
    roots: Roots,
    ignores: Ignores,
}

/// The text of a file.
pub(super) struct Text {
    pub(super) text: String,
    /// Of the exact bytes.
    pub(super) digest: Digest,
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

/// What a walk finds below a directory.
#[derive(Default)]
pub(super) struct Below {
    pub(super) files: Vec<PathBuf>,
    /// Links, of which the directory itself may be one, that lead out of the workspace.
    pub(super) refused: Vec<PathBuf>,
}

/// Reasons why a file can't be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    #[error(transparent)]
    Path(#[from] PathError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the name of the file is not valid UTF-8")]
    NotUnicode,
    #[error(transparent)]
    Withheld(#[from] Withheld),
    #[error("the file is not UTF-8 text")]
    NotText,
    #[error("the file has {size} bytes, and at most {limit} are read")]
    TooLarge { size: u64, limit: u64 },
}

impl Files {
    pub(super) fn open(folders: &[PathBuf]) -> Result<Self, RootError> {
        Ok(Self { roots: Roots::open(folders)?, ignores: Ignores::new(folders.len()) })
    }

    /// The real path of the first workspace folder.
    pub(super) fn first_root(&self) -> Option<&Path> {
        self.roots().next()
    }

    /// The real paths of the workspace folders.
    pub(super) fn roots(&self) -> impl Iterator<Item = &Path> {
        self.roots.paths()
    }

    /// The text of a file; none when it isn't there. `limit` is in bytes. Of a workspace's files only what
    /// may be read without asking, wherever links lead; and lists of patterns, asked for as themselves.
    pub(super) fn text(&self, path: &Path, scope: Scope, limit: u64) -> Result<Option<Text>, FileError> {
        let file = match self.roots.resolve(path.to_str().ok_or(FileError::NotUnicode)?, Purpose::Read) {
            Ok(file) => file,
            // A file where a directory was expected.
            Err(PathError::NotADirectory { .. } | PathError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let by_links = file.absolute() != path;
        let is_pattern_file = PATTERN_FILES.contains(&file.relative()) && !by_links;
        if scope == Scope::Project && !is_pattern_file {
            access::check(&self.ignores, &file, by_links)?;
        }
        match Contents::of_file(&file, limit) {
            Ok(Contents::Text(text)) if text.encoding.is_utf8() && !text.lossy => {
                Ok(Some(Text { text: text.text, digest: text.digest }))
            }
            Ok(_) => Err(FileError::NotText),
            Err(ReadError::NotFound { .. }) => Ok(None),
            Err(ReadError::TooLarge { size, limit, .. }) => Err(FileError::TooLarge { size, limit }),
            Err(error) => Err(error.into()),
        }
    }

    /// The regular files below a directory, in no order. Links are followed, a few deep; those that lead out of a workspace are
    /// told.
    pub(super) fn below(&self, directory: &Path, scope: Scope) -> Below {
        let mut walk = DirectoryWalk { files: self, scope, found: Below::default(), seen: HashSet::new() };
        walk.directory(directory, 0, 0);
        walk.found
    }

    /// The names in a directory that a test picks, sorted.
    pub(super) fn names(&self, directory: &Path, scope: Scope, wanted: impl Fn(&str) -> bool) -> Vec<String> {
        let Some(real) = self.real(directory, scope) else { return vec![] };
        let entries = fs::read_dir(real).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|name| wanted(name)).take(FILES).collect();
        names.sort_unstable();
        names
    }

    /// Resolves a path; none when nothing is there or it may not be looked at.
    fn real(&self, path: &Path, scope: Scope) -> Option<PathBuf> {
        self.found(path, scope)?.ok()
    }

    /// Resolves a path, if it may be looked at; none when nothing is there.
    fn found(&self, path: &Path, scope: Scope) -> Option<Result<PathBuf, Withheld>> {
        let real = path.canonicalize().ok()?;
        let is_inside = self.roots.paths().any(|root| real.starts_with(root));
        Some(if scope == Scope::Global || is_inside { Ok(real) } else { Err(Withheld::Outside) })
    }
}

/// A walk. It shows names at most: who reads a file looks again where it leads.
struct DirectoryWalk<'a> {
    files: &'a Files,
    scope: Scope,
    found: Below,
    /// The real directories that were walked: links may lead in circles.
    seen: HashSet<PathBuf>,
}

impl DirectoryWalk<'_> {
    fn directory(&mut self, path: &Path, depth: usize, links: usize) {
        let Some(real) = self.real(path).filter(|_| depth < DEPTH) else { return };
        let Ok(entries) = fs::read_dir(&real) else { return };
        if !self.seen.insert(real) {
            return;
        }
        for entry in entries.flatten() {
            if self.found.files.len() + self.found.refused.len() >= FILES {
                return;
            }
            let name = entry.file_name();
            // A rule that is being written is there under its own name in a moment.
            if roo_durable::is_temporary_name(name.as_encoded_bytes()) {
                continue;
            }
            // By the name that leads here, which people know.
            let path = path.join(name);
            match entry.file_type() {
                Ok(kind) if kind.is_symlink() && links < LINK_DEPTH => {
                    match self.real(&path).and_then(|real| kind_of(&real).ok()) {
                        Some(kind) if kind.is_dir() => self.directory(&path, depth + 1, links + 1),
                        Some(kind) if kind.is_file() => self.found.files.push(path),
                        _ => {}
                    }
                }
                Ok(kind) if kind.is_dir() => self.directory(&path, depth + 1, links),
                Ok(kind) if kind.is_file() => self.found.files.push(path),
                _ => {}
            }
        }
    }

    /// Resolves a path; none when nothing is there, or it leads out of the workspace, which is kept.
    fn real(&mut self, path: &Path) -> Option<PathBuf> {
        let real = self.files.found(path, self.scope)?;
        real.inspect_err(|_| self.found.refused.push(path.to_owned())).ok()
    }
}

fn kind_of(path: &Path) -> io::Result<fs::FileType> {
    Ok(path.symlink_metadata()?.file_type())
}
