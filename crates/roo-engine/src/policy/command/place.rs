//! Context that a command line doesn't tell: the directory where it would run, and the files that its names mean there.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::repository::{Repositories, Repository};
use crate::policy::links::follow;

/// The most names below a directory that are looked at.
const BELOW: usize = 20_000;
/// The most names that are looked at for one pattern.
const NAMES: usize = 20_000;
/// The most names that a pattern may stand for.
const MATCHES: usize = 2000;

/// Directory in which a command line would run.
pub trait Place {
    /// Its absolute path; empty where that is no text.
    fn directory(&self) -> &str;
    /// Checks that a path leads into the workspace, whether or not anything is there.
    fn inside(&self, path: &str) -> Result<(), String>;
    /// Checks that a command may change to a directory without asking; else the reason why not. It need not be there
    /// yet.
    fn enterable(&self, path: &str) -> Result<(), String>;
    /// Returns whether two paths lead to one place, as far as that is known.
    fn is_same(&self, one: &str, other: &str) -> bool;
    /// Lists what lies below a directory and may not be shown without asking, by its path from there.
    ///
    /// # Errors
    /// Why it isn't known.
    fn unreadable_below(&self, directory: &str) -> Result<Vec<String>, String>;
    /// All that lies below a directory, by its path from there. Links are not followed.
    ///
    /// # Errors
    /// Why it isn't known.
    fn below(&self, directory: &str) -> Result<Vec<Entry>, String>;
    /// The git repository that a directory is in.
    fn repository(&self, directory: &str) -> Repository;
    /// Returns the reason why a path leads to what `.rooignore` hides, if it does, worded for the model.
    fn ignored(&self, path: &str) -> Option<String>;
    /// Checks that a redirection may write to a path without asking; else the reason why not, to follow "asks because".
    fn writable(&self, path: &str) -> Result<(), String>;
    /// Checks that a command may be given the file or directory that a path leads to without asking; else the reason
    /// why not. The path need not be there.
    fn readable(&self, path: &str) -> Result<(), String>;
    /// Checks that what a path leads to, if anything is there, is in the workspace.
    fn within(&self, path: &str) -> Result<(), String>;
    /// Checks that a command that shows no text may be given what a path leads to, if anything is there; else the
    /// reason why not.
    fn reachable(&self, path: &str) -> Result<(), String>;
    /// Checks that a file that was committed may be shown, by its name in the repository of a directory: it need not be
    /// there any more.
    fn recorded(&self, directory: &str, path: &str) -> Result<(), String>;
    /// Returns whether anything is there, a link to nothing included.
    fn is_there(&self, path: &str) -> bool;
    /// Returns whether a path leads to a directory.
    fn is_directory(&self, path: &str) -> bool;
    /// The names that the shell may put in place of a pattern whose first `literal` bytes are no pattern; perhaps
    /// more.
    ///
    /// # Errors
    /// Why they are not known.
    fn matching(&self, pattern: &str, literal: usize) -> Result<Vec<String>, String>;
    /// Finds the program that a name leads to: a bare name by the search path, one with a slash from the directory.
    fn program(&self, name: &str) -> Program;
    /// The file of the workspace that a path leads to, relative to its root, where there is one.
    fn script(&self, path: &str) -> Option<String>;
}

/// Entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its path from there.
    pub path: String,
    /// True if it is a directory, and no link to one.
    pub is_directory: bool,
}

/// Programs that a name can lead to.
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
    repositories: Arc<Repositories>,
}

impl Directory {
    /// A directory of a workspace with these roots, and the search path of its commands.
    pub fn new(directory: PathBuf, roots: impl IntoIterator<Item = PathBuf>, search: OsString) -> Self {
        // What can't be resolved holds no file either.
        let roots = roots.into_iter().filter_map(|root| root.canonicalize().ok()).collect();
        Self { directory, roots, search, repositories: Arc::default() }
    }

    /// With what is known of repositories already.
    pub(in crate::policy) fn with(self, repositories: Arc<Repositories>) -> Self {
        Self { repositories, ..self }
    }

    /// The deepest directory or file on the way to a path that is there, and whether that is all of it.
    fn existing(&self, path: &str) -> Option<(PathBuf, bool)> {
        let mut existing = self.directory.join(path);
        if meets_processes(&existing) {
            return None;
        }
        let mut is_all = true;
        loop {
            match existing.canonicalize() {
                Ok(found) => return Some((found, is_all)),
                Err(_) if existing.symlink_metadata().is_ok() => return None,
                // What is missing must be plain names.
                Err(_) => match existing.components().next_back() {
                    Some(Component::Normal(_)) => existing.pop(),
                    _ => return None,
                },
            };
            is_all = false;
        }
    }

    fn below_roots(&self, file: &Path) -> Option<String> {
        let below = self.roots.iter().find_map(|root| file.strip_prefix(root).ok())?;
        Some(below.to_string_lossy().into_owned())
    }
}

/// Returns whether a path goes through what is another place for every process, such as `/proc/self/cwd`: the server
/// can't tell where it leads a command.
pub(in crate::policy) fn meets_processes(path: &Path) -> bool {
    let followed = follow(path, |name, _| match name.starts_with("/proc") || name.starts_with("/dev/fd") {
        true => Err(io::ErrorKind::Unsupported.into()),
        false => Ok(()),
    });
    // Where it has too many links, nothing is known of it.
    followed.is_err()
}

impl Place for Directory {
    fn directory(&self) -> &str {
        self.directory.to_str().unwrap_or_default()
    }

    fn inside(&self, path: &str) -> Result<(), String> {
        match self.existing(path) {
            Some((found, _)) if self.below_roots(&found).is_some() => Ok(()),
            _ => Err(format!("`{path}` may lead out of the workspace")),
        }
    }

    fn enterable(&self, path: &str) -> Result<(), String> {
        self.inside(path)?;
        match self.existing(path) {
            Some((found, true)) if !found.is_dir() => Err(format!("`{path}` is not a directory")),
            _ => Ok(()),
        }
    }

    fn is_same(&self, one: &str, other: &str) -> bool {
        let found = |path: &str| self.directory.join(path).canonicalize().ok();
        found(one).is_some_and(|one| Some(one) == found(other))
    }

    fn unreadable_below(&self, _: &str) -> Result<Vec<String>, String> {
        Ok(vec![])
    }

    fn below(&self, directory: &str) -> Result<Vec<Entry>, String> {
        let mut found: Vec<Entry> = Vec::new();
        let mut open = vec![String::new()];
        while let Some(path) = open.pop() {
            let full = self.directory.join(directory).join(&path);
            for entry in fs::read_dir(full).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let name =
                    name.to_str().ok_or_else(|| format!("`{directory}` holds a name that is no text"))?;
                let path = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
                let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if is_directory {
                    open.push(path.clone());
                }
                if found.len() >= BELOW {
                    return Err(format!("`{directory}` holds too many names to look at each"));
                }
                found.push(Entry { path, is_directory });
            }
        }
        Ok(found)
    }

    fn repository(&self, directory: &str) -> Repository {
        let directory = self.directory.join(directory);
        match self.program("git") {
            Program::Installed(git) => {
                self.repositories.find(&directory.canonicalize().unwrap_or(directory), &git)
            }
            // Then none runs.
            Program::Workspace(_) | Program::Missing => Repository::default(),
        }
    }

    fn ignored(&self, _: &str) -> Option<String> {
        None
    }

    fn writable(&self, path: &str) -> Result<(), String> {
        Err(format!("it writes to `{path}`"))
    }

    fn readable(&self, path: &str) -> Result<(), String> {
        self.within(path)
    }

    fn within(&self, path: &str) -> Result<(), String> {
        let full = self.directory.join(path);
        if meets_processes(&full) {
            return Err(format!("`{path}` leads to a different place for each process"));
        }
        match full.canonicalize() {
            Ok(found) if self.below_roots(&found).is_none() => {
                Err(format!("`{path}` is outside of the workspace"))
            }
            _ => Ok(()),
        }
    }

    fn reachable(&self, path: &str) -> Result<(), String> {
        self.within(path)
    }

    fn recorded(&self, _: &str, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn is_there(&self, path: &str) -> bool {
        self.directory.join(path).symlink_metadata().is_ok()
    }

    fn is_directory(&self, path: &str) -> bool {
        self.directory.join(path).is_dir()
    }

    fn matching(&self, pattern: &str, literal: usize) -> Result<Vec<String>, String> {
        let (mut found, mut begin, mut left) = (vec![String::new()], 0, NAMES);
        for component in pattern.split_inclusive('/') {
            let literal = literal.saturating_sub(begin);
            begin += component.len();
            let name = component.trim_end_matches('/');
            if literal >= name.len() {
                found.iter_mut().for_each(|path| path.push_str(component));
                continue;
            }
            let mut longer = Vec::new();
            for above in found {
                for entry in fs::read_dir(self.directory.join(&above)).into_iter().flatten().flatten() {
                    left = left
                        .checked_sub(1)
                        .ok_or_else(|| format!("`{pattern}` may stand for too many names"))?;
                    let entry = entry.file_name();
                    if !fits(entry.to_string_lossy().as_ref(), name, literal) {
                        continue;
                    }
                    let entry = entry
                        .to_str()
                        .ok_or_else(|| format!("`{pattern}` stands for a name that is no text"))?;
                    longer.push(format!("{above}{entry}{}", &component[name.len()..]));
                }
            }
            found = longer;
        }
        match found.len() <= MATCHES {
            true => Ok(found),
            false => Err(format!("`{pattern}` stands for too many names")),
        }
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
        match self.below_roots(&resolved).or_else(|| self.below_roots(&named)) {
            Some(path) => Program::Workspace(path),
            None => Program::Installed(resolved),
        }
    }

    fn script(&self, path: &str) -> Option<String> {
        let file = self.directory.join(path).canonicalize().ok().filter(|file| file.is_file())?;
        self.below_roots(&file)
    }
}

/// Returns whether a name may be one that a shell's pattern stands for. From a bracket on anything may.
fn fits(name: &str, pattern: &str, literal: usize) -> bool {
    let Some((exact, pattern)) = pattern.split_at_checked(literal) else { return true };
    if name.starts_with('.') && !exact.starts_with('.') {
        return false;
    }
    name.strip_prefix(exact).is_some_and(|name| may_match(name, pattern))
}

/// Returns whether a pattern of `*`, `?` and brackets may match a text. From a bracket on it always may.
pub(super) fn may_match(name: &str, pattern: &str) -> bool {
    let (pattern, is_open) = match pattern.split_once('[') {
        Some((before, _)) => (before, true),
        None => (pattern, false),
    };
    let (name, mut pattern): (Vec<char>, Vec<char>) = (name.chars().collect(), pattern.chars().collect());
    if is_open {
        pattern.push('*');
    }
    // As every matcher with one wildcard for any text: back to the last one when it goes no further.
    let (mut at, mut next, mut last) = (0, 0, None);
    while at < name.len() {
        match pattern.get(next) {
            Some('*') => {
                last = Some((next, at));
                next += 1;
            }
            Some(c) if *c == '?' || *c == name[at] => (at, next) = (at + 1, next + 1),
            _ => match last {
                Some((star, from)) => {
                    last = Some((star, from + 1));
                    (at, next) = (from + 1, star + 1);
                }
                None => return false,
            },
        }
    }
    pattern[next..].iter().all(|c| *c == '*')
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
    fn a_pattern_stands_for_the_names_that_the_shell_would_find() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("a/deep")).unwrap();
        for name in ["a/private.txt", "a/public.rs", "a/.env", "a/deep/x.rs", "a/p*x"] {
            fs::write(root.path().join(name), "").unwrap();
        }
        let directory = Directory::new(root.path().into(), [root.path().to_owned()], "/bin".into());
        let matching = |pattern: &str, literal| {
            let mut found = directory.matching(pattern, literal).unwrap();
            found.sort();
            found
        };
        assert_eq!(matching("a/p*t", 3), ["a/private.txt"]);
        assert_eq!(matching("a/p*", 3), ["a/p*x", "a/private.txt", "a/public.rs"]);
        assert_eq!(matching("a/p?b*.rs", 3), ["a/public.rs"]);
        assert_eq!(matching("a/pr[i]vate.txt", 4), ["a/private.txt"]);
        assert_eq!(matching("./*/*.rs", 2), ["./a/public.rs"]);
        assert_eq!(matching("./*/*/x.rs", 2), ["./a/deep/x.rs"]);
        assert_eq!(matching("a/p**", 4), ["a/p*x"], "the first star is quoted");
        assert!(matching("a/z*", 3).is_empty());
    }

    #[test]
    fn a_pattern_for_too_many_names_is_told() {
        let root = tempfile::tempdir().unwrap();
        for number in 0..=MATCHES {
            fs::write(root.path().join(format!("f{number}")), "").unwrap();
        }
        let directory = Directory::new(root.path().into(), [root.path().to_owned()], "/bin".into());
        assert!(directory.matching("./f*", 3).is_err());
        assert!(directory.matching("./f1*", 4).is_ok());
    }

    #[test]
    fn a_link_out_of_the_workspace_is_not_reached() {
        let (root, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(out.path().join("x"), "").unwrap();
        symlink(out.path(), root.path().join("lnk")).unwrap();
        let directory = Directory::new(root.path().into(), [root.path().to_owned()], "/bin".into());
        assert!(directory.reachable("lnk/x").is_err());
        assert!(directory.reachable("lnk/missing").is_ok());
        assert!(directory.reachable(".").is_ok());
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
