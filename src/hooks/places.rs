//! The places within a workspace that a command may not see, or not write.

use std::collections::{HashSet, VecDeque};
use std::fs::{self, DirEntry, FileType};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::changes::ScratchRules;
use crate::config::read_regular;
use crate::workspace::{
    FileId, Location, ProtectedNames, Protection, Purpose, ReadAccess, Rules, Workspace, several_names,
};

/// The most names that are looked at for what must be read-only or hidden.
const NAMES: usize = 200_000;
/// The most names in build output and dependencies that git ignores, where no `.rooignore` can mean them.
const SCRATCH_NAMES: usize = 10_000;
/// The largest ignore file of git that counts, in bytes.
const LARGEST_RULES: u64 = 1 << 20;
/// Directories of dependencies and build results that may be written beside what an intent owns.
pub(super) const SCRATCH: &[&str] =
    &["target", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".gradle", ".next", "dist", "build"];

/// What may not be written or not be seen within the workspace.
pub(super) struct Places {
    pub(super) read_only: Vec<PathBuf>,
    pub(super) hidden: Vec<PathBuf>,
    /// Whether all that had to be looked at was. Where not, a command may see what should be hidden.
    pub(super) complete: bool,
    /// How many names may still be looked at.
    left: usize,
    /// How many of them in scratch that no `.rooignore` can mean.
    left_in_scratch: usize,
    /// What the user's settings open for commands.
    opened: Vec<PathBuf>,
    /// What they protect besides what always is.
    protected: Vec<String>,
}

/// A walk below one root.
struct Look<'a> {
    root: &'a Path,
    urid: &'a str,
    rules: &'a Rules,
    protected: ProtectedNames,
    /// What git ignores.
    git: ScratchRules,
    open: Vec<PathBuf>,
    /// Build output and dependencies that git ignores: last, and what is near the top first.
    scratch: VecDeque<PathBuf>,
    free: Vec<PathBuf>,
    /// Hidden files that have other names as well.
    linked: HashSet<FileId>,
}

/// Too many names.
struct Spent;

impl Places {
    /// Nothing yet.
    pub(super) fn new(opened: Vec<PathBuf>, protected: Vec<String>) -> Self {
        let (left, left_in_scratch) = (NAMES, SCRATCH_NAMES);
        Self { read_only: vec![], hidden: vec![], complete: true, left, left_in_scratch, opened, protected }
    }

    /// Looks at every name below a root, as long as they are not too many.
    pub(super) fn look(&mut self, workspace: &Workspace, root: &Path, urid: &str) {
        let place = root.to_str().and_then(|text| workspace.resolve(text, Purpose::Directory).ok());
        let rules = place.as_ref().and_then(|place| Some((workspace.rules(place)?, place.location())));
        let Some((rules, Location::Inside { root: index })) = rules else {
            self.complete = false;
            return;
        };
        let mut look = Look {
            root,
            urid,
            rules: &rules,
            protected: workspace.protected(index, &self.protected),
            git: ScratchRules::default(),
            open: vec![root.to_path_buf()],
            scratch: VecDeque::new(),
            free: vec![],
            linked: HashSet::new(),
        };
        look.read_rules(root, ".git/info/exclude");
        if let Err(Spent) = self.walk(&mut look) {
            self.complete = false;
        }
        // Hidden by any of its names is hidden by all.
        if !look.linked.is_empty() {
            let is_hidden = |path: &PathBuf| linked_file(path).is_some_and(|id| look.linked.contains(&id));
            self.hidden.extend(look.free.into_iter().filter(is_hidden));
        }
    }

    fn walk(&mut self, look: &mut Look<'_>) -> Result<(), Spent> {
        while let Some(directory) = look.open.pop() {
            look.read_rules(&directory, ".gitignore");
            for entry in self.entries(directory) {
                self.count()?;
                self.judge(look, &entry)?;
            }
        }
        while let Some(directory) = look.scratch.pop_front() {
            for entry in self.entries(directory) {
                // It is no secret that was put there by hand, and there may be millions of names.
                if look.rules.is_empty() {
                    match self.left_in_scratch.checked_sub(1) {
                        Some(left) => self.left_in_scratch = left,
                        None => return Ok(()),
                    }
                }
                self.count()?;
                self.judge_scratch(look, &entry)?;
            }
        }
        Ok(())
    }

    fn judge(&mut self, look: &mut Look<'_>, entry: &DirEntry) -> Result<(), Spent> {
        let path = entry.path();
        let Ok(kind) = entry.file_type() else { return Ok(()) };
        // A name that is no text is judged by what can be read of it.
        let relative = look.relative(&path);
        if look.rules.access(&relative, kind.is_dir()) != ReadAccess::Free {
            return self.hide(look, path, kind);
        }
        let is_protected = matches!(
            look.protected.protection(&relative, Some(look.urid)),
            Protection::Tier1 { .. } | Protection::Denied
        );
        if is_protected && !kind.is_symlink() && !self.opened.contains(&path) {
            // Only the request's own directory may be written below.
            self.read_only.push(path);
        } else if kind.is_file() {
            look.free.push(path);
        } else if kind.is_dir() && look.git.is_scratch(relative.as_bytes()) {
            look.scratch.push_back(path);
        } else if kind.is_dir() {
            look.open.push(path);
        }
        Ok(())
    }

    fn judge_scratch(&mut self, look: &mut Look<'_>, entry: &DirEntry) -> Result<(), Spent> {
        let path = entry.path();
        let Ok(kind) = entry.file_type() else { return Ok(()) };
        match look.rules.access(&look.relative(&path), kind.is_dir()) {
            ReadAccess::Free => {}
            ReadAccess::Secret if kind.is_dir() || is_output(entry.file_name().as_bytes()) => {}
            _ => return self.hide(look, path, kind),
        }
        if kind.is_dir() {
            look.scratch.push_back(path);
        } else if kind.is_file() {
            look.free.push(path);
        }
        Ok(())
    }

    fn hide(&mut self, look: &mut Look<'_>, path: PathBuf, kind: FileType) -> Result<(), Spent> {
        // What a link leads to is hidden where it is.
        if kind.is_symlink() {
            return Ok(());
        }
        self.hidden.push(path.clone());
        self.collect_linked(&path, kind, &mut look.linked)
    }

    /// What a directory holds. One that is there and can't be looked into is hidden: the command could open it.
    fn entries(&mut self, directory: PathBuf) -> impl Iterator<Item = DirEntry> + use<> {
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => Some(entries),
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    self.hidden.push(directory);
                }
                None
            }
        };
        entries.into_iter().flatten().flatten()
    }

    fn count(&mut self) -> Result<(), Spent> {
        self.left = self.left.checked_sub(1).ok_or(Spent)?;
        Ok(())
    }

    /// Adds the files at and below a hidden place that have other names as well.
    fn collect_linked(
        &mut self,
        path: &Path,
        kind: FileType,
        linked: &mut HashSet<FileId>,
    ) -> Result<(), Spent> {
        if kind.is_file() {
            linked.extend(linked_file(path));
        }
        let mut open = if kind.is_dir() { vec![path.to_path_buf()] } else { vec![] };
        while let Some(directory) = open.pop() {
            for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
                self.count()?;
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => open.push(entry.path()),
                    Ok(kind) if kind.is_file() => linked.extend(linked_file(&entry.path())),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

impl Look<'_> {
    fn relative(&self, path: &Path) -> String {
        path.strip_prefix(self.root).unwrap_or(path).to_string_lossy().into_owned()
    }

    /// Adds an ignore file of git, if there is one: without it, more is looked at.
    fn read_rules(&mut self, directory: &Path, name: &str) {
        if let Ok(text) = read_regular(&directory.join(name), LARGEST_RULES) {
            self.git.add(self.relative(directory).as_bytes(), &text);
        }
    }
}

/// Whether a name that is likely a secret's is one of the usual ones of build output: certificates that a
/// package brings for everybody, and a program whose name begins with `id_`. Builds need them.
fn is_output(name: &[u8]) -> bool {
    let is_key =
        [&b"id_rsa"[..], b"id_dsa", b"id_ecdsa", b"id_ed25519"].iter().any(|key| name.starts_with(key));
    name == b"cacert.pem" || (name.starts_with(b"id_") && !name.contains(&b'.') && !is_key)
}

fn linked_file(path: &Path) -> Option<FileId> {
    several_names(&fs::symlink_metadata(path).ok()?).map(|file| file.id)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::sync::Arc;

    use super::*;
    use crate::text::position::Encoding;
    use crate::workspace::Setup;

    struct Fixture {
        _directory: tempfile::TempDir,
        root: PathBuf,
        workspace: Workspace,
    }

    impl Fixture {
        fn new(files: &[(&str, &str)]) -> Self {
            let directory = tempfile::tempdir().unwrap();
            let root = directory.path().canonicalize().unwrap().join("w");
            fs::create_dir(&root).unwrap();
            for (name, text) in files {
                let path = root.join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            let workspace = Workspace::open(Setup {
                folders: vec![root.clone()],
                state_directory: directory.path().join("state"),
                documents: Arc::default(),
                editor: None,
                encoding: Encoding::Utf16,
            });
            Self { _directory: directory, root, workspace: workspace.unwrap() }
        }

        /// What is hidden, and whether everything was looked at.
        fn look(&self, left: usize) -> (Vec<PathBuf>, bool) {
            let mut places = Places { left, left_in_scratch: left / 4, ..Places::new(vec![], vec![]) };
            places.look(&self.workspace, &self.root, "20260102-03-04-abcdef01");
            let below = |path: &PathBuf| path.strip_prefix(&self.root).unwrap().to_path_buf();
            let mut hidden: Vec<PathBuf> = places.hidden.iter().map(below).collect();
            hidden.sort();
            (hidden, places.complete)
        }
    }

    fn paths(paths: &[&str]) -> Vec<PathBuf> {
        paths.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn a_secret_in_a_directory_with_the_name_of_build_output_is_hidden() {
        let files = [
            (".rooignore", "private.txt\n"),
            ("build/.env", ""),
            ("build/private.txt", ""),
            ("build/deep/x.key", ""),
            ("build/free.txt", ""),
        ];
        let hidden = paths(&[".rooignore", "build/.env", "build/deep/x.key", "build/private.txt"]);
        assert_eq!(Fixture::new(&files).look(100), (hidden.clone(), true));
        // Whether git ignores the directory or not.
        let ignored = Fixture::new(&[&files[..], &[(".gitignore", "/build\n")]].concat());
        assert_eq!(ignored.look(100), (hidden, true));
    }

    #[test]
    fn what_builds_and_packages_need_is_not_hidden_where_git_ignores_it() {
        let files = [
            ("venv/lib/certifi/cacert.pem", ""),
            ("venv/lib/certifi/server.pem", ""),
            ("target/debug/id_server", ""),
            ("target/debug/id_rsa", ""),
            ("target/debug/id_server.d/x", ""),
        ];
        let ignored = Fixture::new(&[&files[..], &[(".gitignore", "venv\ntarget\n")]].concat());
        assert_eq!(ignored.look(100).0, paths(&["target/debug/id_rsa", "venv/lib/certifi/server.pem"]));
        assert!(Fixture::new(&files).look(100).0.contains(&"target/debug/id_server".into()));
    }

    #[test]
    fn a_secret_below_a_name_that_is_no_text_is_hidden() {
        let fixture = Fixture::new(&[]);
        let odd = fixture.root.join(OsStr::from_bytes(b"d\xff"));
        fs::create_dir(&odd).unwrap();
        fs::write(odd.join(".env"), "").unwrap();
        fs::write(odd.join("free"), "").unwrap();
        assert_eq!(fixture.look(100), (vec![Path::new(OsStr::from_bytes(b"d\xff")).join(".env")], true));
    }

    #[test]
    fn what_can_not_be_looked_at_is_known() {
        let names: Vec<String> = (0..50).map(|number| format!("d{number}/x")).collect();
        let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        assert!(Fixture::new(&files).look(100).1);
        assert!(!Fixture::new(&files).look(99).1);
    }

    #[test]
    fn of_build_output_so_much_is_looked_at_as_there_is_time_for() {
        let names: Vec<String> = (0..50).map(|number| format!("target/d{number}/x")).collect();
        let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        let files = [&files[..], &[(".gitignore", "target\n"), ("target/.env", "")]].concat();
        let fixture = Fixture::new(&files);
        assert_eq!(fixture.look(400), (paths(&["target/.env"]), true));
        assert!(fixture.look(90).1, "there is no `.rooignore`");
        fs::write(fixture.root.join(".rooignore"), "private.txt\n").unwrap();
        assert!(fixture.look(200).1);
        assert!(!fixture.look(90).1, "a file that it names may be anywhere");
    }

    #[test]
    fn a_directory_that_can_not_be_looked_into_is_hidden() {
        let fixture = Fixture::new(&[("not a directory any more", "")]);
        let mut places = Places::new(vec![], vec![]);
        let (swapped, gone) = (fixture.root.join("not a directory any more"), fixture.root.join("gone"));
        assert_eq!(places.entries(swapped.clone()).count() + places.entries(gone).count(), 0);
        assert_eq!(places.hidden, [swapped]);
    }
}
