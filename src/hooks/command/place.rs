//! What a command line can't say: where it would run, and what its names lead to there.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where a command line would run.
pub trait Place {
    /// Whether a redirection may write to a path without asking; else why not, to follow "asks because".
    fn writable(&self, path: &str) -> Result<(), String>;
    /// Whether a command may be given what a path leads to, a file or a directory, without asking; else why
    /// not. The path need not be there.
    fn readable(&self, path: &str) -> Result<(), String>;
    /// What a program's name leads to: a bare name by the search path, one with a slash from the directory.
    fn program(&self, name: &str) -> Program;
    /// The file of the workspace that a path leads to, relative to its root, where there is one.
    fn script(&self, path: &str) -> Option<String>;
}

/// What a program's name leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// A file outside of the workspace.
    Installed(PathBuf),
    /// A file of the workspace, relative to its root.
    Workspace(String),
    /// Nothing.
    Missing,
}

/// A directory on disk. Nothing is written there without asking; everything within the roots may be read.
#[derive(Clone, Debug)]
pub struct Directory {
    directory: PathBuf,
    roots: Vec<PathBuf>,
    search: OsString,
}

impl Directory {
    /// A directory of a workspace with these roots, and the search path of its commands.
    pub fn new(directory: PathBuf, roots: impl IntoIterator<Item = PathBuf>, search: OsString) -> Self {
        // What can't be resolved holds no file either.
        let roots = roots.into_iter().filter_map(|root| root.canonicalize().ok()).collect();
        Self { directory, roots, search }
    }

    fn within(&self, file: &Path) -> Option<String> {
        let below = self.roots.iter().find_map(|root| file.strip_prefix(root).ok())?;
        Some(below.to_string_lossy().into_owned())
    }
}

impl Place for Directory {
    fn writable(&self, path: &str) -> Result<(), String> {
        Err(format!("it writes to `{path}`"))
    }

    fn readable(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn program(&self, name: &str) -> Program {
        let found = if name.contains('/') {
            Some(self.directory.join(name)).filter(|file| file.is_file())
        } else {
            // What the search path leaves empty is the directory itself.
            std::env::split_paths(&self.search)
                .map(|entry| self.directory.join(entry).join(name))
                .find(|file| is_executable(file))
        };
        let Some(file) = found else { return Program::Missing };
        // A link may stand in the workspace and lead out of it, or the other way round.
        let resolved = file.canonicalize().unwrap_or_else(|_| file.clone());
        let folder = file.parent().and_then(|parent| parent.canonicalize().ok()).unwrap_or_default();
        let named = folder.join(file.file_name().unwrap_or_default());
        match self.within(&resolved).or_else(|| self.within(&named)) {
            Some(path) => Program::Workspace(path),
            None => Program::Installed(resolved),
        }
    }

    fn script(&self, path: &str) -> Option<String> {
        let file = self.directory.join(path).canonicalize().ok().filter(|file| file.is_file())?;
        self.within(&file)
    }
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn programs_of_the_workspace_are_told_from_installed_ones() {
        let place = tempfile::tempdir().unwrap();
        let (root, bin) = (place.path().join("ws"), place.path().join("bin"));
        fs::create_dir_all(root.join("tools")).unwrap();
        fs::create_dir(&bin).unwrap();
        let program = |path: PathBuf| {
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        program(root.join("tools/own"));
        program(bin.join("installed"));
        fs::write(bin.join("text"), "").unwrap();
        symlink(root.join("tools/own"), bin.join("lent")).unwrap();
        symlink(bin.join("installed"), root.join("tools/borrowed")).unwrap();
        let search = std::env::join_paths([bin.clone(), root.join("tools")]).unwrap();
        let directory = Directory::new(root.clone(), [root], search);
        let installed = bin.join("installed").canonicalize().unwrap();
        assert_eq!(directory.program("installed"), Program::Installed(installed));
        for (name, path) in [
            ("own", "tools/own"),
            ("lent", "tools/own"),
            ("borrowed", "tools/borrowed"),
            ("./tools/own", "tools/own"),
            ("tools/../tools/own", "tools/own"),
        ] {
            assert_eq!(directory.program(name), Program::Workspace(path.to_owned()), "{name}");
        }
        for name in ["none", "text", "./none", "tools"] {
            assert_eq!(directory.program(name), Program::Missing, "{name}");
        }
        assert_eq!(directory.script("tools/own"), Some("tools/own".to_owned()));
        assert_eq!(directory.script("../bin/installed"), None);
    }

    #[test]
    fn an_empty_entry_of_the_search_path_is_the_directory() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("own"), "").unwrap();
        fs::set_permissions(root.path().join("own"), fs::Permissions::from_mode(0o755)).unwrap();
        let directory = Directory::new(root.path().into(), [root.path().to_owned()], "/bin::".into());
        assert_eq!(directory.program("own"), Program::Workspace("own".to_owned()));
    }
}
