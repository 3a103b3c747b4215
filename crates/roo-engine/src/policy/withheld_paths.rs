//! The places within a workspace that a command may not see, or not write.

use std::collections::HashSet;
use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::git::CommittedFiles;
use roo_sandbox::changes::{ChangesError, FileIndex, IndexedRoot, Kind, Mark, MarkedPlaces, Marker};
use roo_workspace::{
    FileId, ProtectedNames, Protection, Purpose, ReadAccess, Rules, Workspace, several_names,
};

/// The most names in build output and dependencies that git ignores, where no `.rooignore` can mean them.
const SCRATCH_NAMES: usize = 10_000;
/// A directory of a workspace folder that no rule names.
const ELSEWHERE: &str = ".roo-lsp-elsewhere";
/// Directories of dependencies and build results that may be written beside what an intent owns.
pub(super) const SCRATCH: &[&str] =
    &["target", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".gradle", ".next", "dist", "build"];

/// Paths of the workspace that may not be written or not be seen. Absolute, outermost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WithheldPaths {
    pub(super) protected: Vec<PathBuf>,
    pub(super) hidden: Vec<PathBuf>,
    /// Files that have names of secrets and are shown to commands as they were committed.
    pub(super) committed: Vec<PathBuf>,
    pub(super) scratch: Vec<PathBuf>,
    /// Paths that their place makes protected or hidden: under another one they would be free.
    pub(super) in_place: Vec<PathBuf>,
}

/// Finds these places for the commands of a workspace, at the cost of what has changed since the one before.
pub(super) struct PlaceFinder {
    index: Arc<FileIndex>,
    home: Option<PathBuf>,
    known: Mutex<FinderState>,
}

#[derive(Default)]
struct FinderState {
    markers: Vec<(PathBuf, Arc<NameMarker>)>,
    /// Files that are other names of hidden ones.
    other_names: Vec<PathBuf>,
    scratch: Option<ScratchLook>,
    committed: CommittedFiles,
}

/// Meanings of names of the workspace.
struct NameMarker {
    rules: Arc<Rules>,
    protected: ProtectedNames,
}

impl NameMarker {
    fn is_protected(&self, name: &str) -> bool {
        matches!(self.protected.protection(name, None), Protection::Tier1 { .. } | Protection::Denied)
    }
}

impl Marker for NameMarker {
    fn mark(&self, path: &Path, kind: Kind) -> Mark {
        // A name that is no text is judged by what can be read of it.
        let relative = path.to_string_lossy();
        if self.rules.access(&relative, kind == Kind::Directory) != ReadAccess::Free {
            Mark::Hidden
        } else if path.ends_with(".git") {
            Mark::Opaque
        } else if self.is_protected(&relative) {
            Mark::Protected
        } else {
            Mark::None
        }
    }
}

impl PlaceFinder {
    /// With `supervised`, no command can write a file by a second name that nobody watches. A repository in the home
    /// directory is nobody's project.
    pub(super) fn new(supervised: bool, home: Option<PathBuf>) -> Self {
        let index = if supervised { FileIndex::default() } else { FileIndex::walking() };
        Self { index: Arc::new(index), home, known: Mutex::default() }
    }

    /// The index that all commands of the workspace share.
    pub(super) fn index(&self) -> &Arc<FileIndex> {
        &self.index
    }

    /// The roots of a workspace as they are to be indexed. A root whose rules can't be had is not indexed. `protected`
    /// are the patterns of the user's settings.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] where the rules of a root can't be had.
    pub(super) fn roots(&self, workspace: &Workspace, protected: &[String]) -> io::Result<Vec<IndexedRoot>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut roots = Vec::new();
        for (index, root) in workspace.roots().paths().enumerate() {
            let place = root.to_str().and_then(|text| workspace.resolve(text, Purpose::Directory).ok());
            let rules = place.and_then(|place| workspace.rules(&place));
            let rules = rules.ok_or_else(|| {
                io::Error::new(io::ErrorKind::NotFound, format!("{} can't be read", root.display()))
            })?;
            let marker = known.marker(root, rules, workspace.protected(index, protected));
            roots.push(IndexedRoot { path: root.to_owned(), marker });
        }
        Ok(roots)
    }

    /// Looks at every name of the workspace that has changed. Reads the disk, so not for a thread of the runtime.
    ///
    /// # Errors
    /// When a root can't be read.
    pub(super) fn look(
        &self,
        workspace: &Workspace,
        protected: &[String],
    ) -> Result<WithheldPaths, ChangesError> {
        let first = || workspace.roots().paths().next().map(Path::to_path_buf).unwrap_or_default();
        let roots = self.roots(workspace, protected).map_err(|source| ChangesError::Io {
            what: "looked at",
            path: first(),
            source,
        })?;
        let MarkedPlaces { mut hidden, mut protected, scratch, unreadable, links_changed } =
            self.index.places(&roots)?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if links_changed {
            known.other_names = other_names(&hidden, &self.index);
        }
        let looked = known.scratch.take().filter(|looked| looked.is_current(&scratch, &roots));
        let looked =
            looked.unwrap_or_else(|| ScratchLook::new(&scratch, &roots, &known.markers, SCRATCH_NAMES));
        // What is hidden may be shown after all, and is still protected then.
        protected.extend(hidden.iter().filter(|path| known.is_protected(path)).cloned());
        let in_place = protected.iter().chain(hidden.iter().filter(|path| known.is_ignored_there(path)));
        let in_place = in_place.cloned().collect();
        let secrets = known.secrets(&hidden);
        let folders: Vec<PathBuf> = workspace.roots().paths().map(Path::to_path_buf).collect();
        let mut committed_files = std::mem::take(&mut known.committed);
        // Nobody waits here for git, who may wait for a file system.
        drop(known);
        let committed = committed_files.unchanged(&secrets, &folders, self.home.as_deref());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.committed = committed_files;
        let shown: HashSet<&PathBuf> = committed.iter().collect();
        hidden.retain(|path| !shown.contains(path));
        hidden.extend(looked.hidden.iter().cloned());
        known.scratch = Some(looked);
        hidden.extend(known.other_names.iter().cloned());
        // What is there and can't be looked into is hidden: the command could open it.
        hidden.extend(unreadable);
        Ok(WithheldPaths { protected, hidden, committed, scratch, in_place })
    }

    /// Returns the names of these files in the workspace as it was looked at last. Reads the disk.
    pub(super) fn names_of(&self, files: &[FileId]) -> Vec<PathBuf> {
        names_of(&files.iter().copied().collect(), &self.index).collect()
    }
}

impl FinderState {
    /// Returns whether a name is protected in any folder that it is in.
    fn is_protected(&self, path: &Path) -> bool {
        let mut names =
            self.markers.iter().filter_map(|(root, marker)| Some((path.strip_prefix(root).ok()?, marker)));
        names.any(|(name, marker)| marker.is_protected(&name.to_string_lossy()))
    }

    /// Returns those of the hidden paths that are hidden by the names of secrets alone, and not by the rules of any folder.
    fn secrets(&self, hidden: &[PathBuf]) -> Vec<PathBuf> {
        let is_ignored = |path: &PathBuf| {
            let below = |(root, marker): &(PathBuf, Arc<NameMarker>)| {
                Some((path.strip_prefix(root).ok()?.to_string_lossy().into_owned(), Arc::clone(marker)))
            };
            let mut names = self.markers.iter().filter_map(below);
            names.any(|(name, marker)| marker.rules.access(&name, false) == ReadAccess::Ignored)
        };
        hidden.iter().filter(|path| !is_ignored(path)).cloned().collect()
    }

    /// Returns whether a folder's rules ignore a path because of the directory that it is in, and not by its name alone.
    fn is_ignored_there(&self, path: &Path) -> bool {
        let mut names = self.markers.iter().filter_map(|(root, marker)| {
            let name = path.strip_prefix(root).ok()?;
            let elsewhere = format!("{ELSEWHERE}/{}", name.file_name()?.to_string_lossy());
            Some((name.to_string_lossy().into_owned(), elsewhere, marker))
        });
        names.any(|(name, elsewhere, marker)| {
            // What it is need not be looked up for each of many.
            let is_ignored = |name: &str| {
                [false, true]
                    .iter()
                    .any(|&is_directory| marker.rules.access(name, is_directory) == ReadAccess::Ignored)
            };
            is_ignored(&name) && !is_ignored(&elsewhere)
        })
    }

    fn marker(&mut self, root: &Path, rules: Arc<Rules>, protected: ProtectedNames) -> Arc<NameMarker> {
        if let Some((_, marker)) = self.markers.iter().find(|(path, _)| path == root)
            && Arc::ptr_eq(&marker.rules, &rules)
            && marker.protected.is_same(&protected)
        {
            return Arc::clone(marker);
        }
        let marker = Arc::new(NameMarker { rules, protected });
        self.markers.retain(|(path, _)| path != root);
        self.markers.push((root.to_owned(), Arc::clone(&marker)));
        marker
    }
}

/// The files that are other names of hidden ones: hidden by any of its names is hidden by all.
fn other_names(hidden: &[PathBuf], index: &FileIndex) -> Vec<PathBuf> {
    let mut linked: HashSet<FileId> = HashSet::new();
    let mut open: Vec<PathBuf> = Vec::new();
    let mut look = |path: PathBuf, open: &mut Vec<PathBuf>| match path.symlink_metadata() {
        Ok(found) if found.is_dir() => open.push(path),
        Ok(found) => linked.extend(several_names(&found).map(|file| file.id)),
        Err(_) => {}
    };
    hidden.iter().for_each(|path| look(path.clone(), &mut open));
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            look(entry.path(), &mut open);
        }
    }
    names_of(&linked, index).filter(|path| !hidden.contains(path)).collect()
}

/// The indexed names of files that have several.
fn names_of(linked: &HashSet<FileId>, index: &FileIndex) -> impl Iterator<Item = PathBuf> {
    let names = if linked.is_empty() { vec![] } else { index.files() };
    names.into_iter().filter(|path| {
        let found = path.symlink_metadata().ok();
        found.as_ref().and_then(several_names).is_some_and(|file| linked.contains(&file.id))
    })
}

/// Paths that were found in build output and dependencies that git ignores: what is near the top first. A directory in
/// which no name came or went since need not be listed again.
struct ScratchLook {
    begun: Vec<PathBuf>,
    markers: Vec<Arc<dyn Marker>>,
    directories: Vec<(PathBuf, Stamp)>,
    hidden: Vec<PathBuf>,
}

/// Stamp that tells a directory from itself at another time: number and times, which nobody can set all.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp(u64, i64, i64, i64, i64);

impl Stamp {
    fn from_directory(directory: &Path) -> Option<Self> {
        let found = directory.symlink_metadata().ok().filter(fs::Metadata::is_dir)?;
        Some(Self(found.ino(), found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()))
    }
}

impl ScratchLook {
    fn new(
        scratch: &[PathBuf],
        roots: &[IndexedRoot],
        markers: &[(PathBuf, Arc<NameMarker>)],
        limit: usize,
    ) -> Self {
        let mut look = Self {
            begun: scratch.to_vec(),
            markers: roots.iter().map(|root| Arc::clone(&root.marker)).collect(),
            directories: vec![],
            hidden: vec![],
        };
        let mut left = limit;
        let mut level: Vec<PathBuf> = scratch.to_vec();
        while !level.is_empty() {
            let mut next = Vec::new();
            for directory in level {
                let Some((root, marker)) = markers.iter().find(|(root, _)| directory.starts_with(root))
                else {
                    continue;
                };
                // It is no secret that was put there by hand, and there may be millions of names.
                if marker.rules.is_empty() && left == 0 {
                    continue;
                }
                let Some(stamp) = Stamp::from_directory(&directory) else { continue };
                let entries = match fs::read_dir(&directory) {
                    Ok(entries) => entries,
                    Err(_) => {
                        look.hidden.push(directory);
                        continue;
                    }
                };
                look.directories.push((directory, stamp));
                for entry in entries.flatten() {
                    left = left.saturating_sub(1);
                    look.judge(root, &marker.rules, &entry, &mut next);
                }
            }
            level = next;
        }
        look
    }

    fn judge(&mut self, root: &Path, rules: &Rules, entry: &DirEntry, next: &mut Vec<PathBuf>) {
        let path = entry.path();
        let Ok(kind) = entry.file_type() else { return };
        let relative = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        match rules.access(&relative, kind.is_dir()) {
            ReadAccess::Free => {}
            ReadAccess::Secret if kind.is_dir() || is_output(entry.file_name().as_bytes()) => {}
            // What a link leads to is hidden where it is.
            _ if kind.is_symlink() => return,
            _ => return self.hidden.push(path),
        }
        if kind.is_dir() {
            next.push(path);
        }
    }

    fn is_current(&self, scratch: &[PathBuf], roots: &[IndexedRoot]) -> bool {
        let is_same = |(one, other): (&Arc<dyn Marker>, &IndexedRoot)| Arc::ptr_eq(one, &other.marker);
        self.begun == scratch
            && self.markers.len() == roots.len()
            && self.markers.iter().zip(roots).all(is_same)
            && self
                .directories
                .iter()
                .all(|(directory, stamp)| Stamp::from_directory(directory) == Some(*stamp))
    }
}

/// Returns whether a name that is likely a secret's is one of the usual ones of build output: certificates that a
/// package brings for everybody, and a program whose name begins with `id_`. Builds need them.
fn is_output(name: &[u8]) -> bool {
    let is_key =
        [&b"id_rsa"[..], b"id_dsa", b"id_ecdsa", b"id_ed25519"].iter().any(|key| name.starts_with(key));
    name == b"cacert.pem" || (name.starts_with(b"id_") && !name.contains(&b'.') && !is_key)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;
    use roo_text::position::Encoding;
    use roo_workspace::Setup;

    struct Fixture {
        _directory: tempfile::TempDir,
        root: PathBuf,
        workspace: Workspace,
        finder: PlaceFinder,
    }

    impl Fixture {
        fn new(files: &[(&str, &str)]) -> Self {
            let directory = tempfile::tempdir().unwrap();
            let root = directory.path().canonicalize().unwrap().join("w");
            fs::create_dir(&root).unwrap();
            let workspace = Workspace::open(Setup {
                folders: vec![root.clone()],
                state_directory: directory.path().join("state"),
                documents: Arc::default(),
                editor: None,
                encoding: Encoding::Utf16,
            });
            let workspace = workspace.unwrap();
            let fixture =
                Self { _directory: directory, root, workspace, finder: PlaceFinder::new(true, None) };
            files.iter().for_each(|(name, text)| fixture.put(name, text));
            fixture
        }

        fn put(&self, name: &str, text: &str) {
            let path = self.root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        /// Returns the hidden paths.
        fn hidden(&self) -> Vec<PathBuf> {
            let below = |path: &PathBuf| path.strip_prefix(&self.root).unwrap().to_path_buf();
            let mut hidden: Vec<PathBuf> =
                self.finder.look(&self.workspace, &[]).unwrap().hidden.iter().map(below).collect();
            hidden.sort();
            hidden
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
        assert_eq!(Fixture::new(&files).hidden(), hidden);
        // Whether git ignores the directory or not.
        let ignored = Fixture::new(&[&files[..], &[(".gitignore", "/build\n")]].concat());
        assert_eq!(ignored.hidden(), hidden);
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
        assert_eq!(ignored.hidden(), paths(&["target/debug/id_rsa", "venv/lib/certifi/server.pem"]));
        assert!(Fixture::new(&files).hidden().contains(&"target/debug/id_server".into()));
    }

    #[test]
    fn a_secret_that_was_committed_is_shown_while_it_is_as_it_was_committed() {
        let files = [
            (".rooignore", "private/\n"),
            (".env", "SECRET=1\n"),
            (".env.test", "PORT=1\n"),
            ("private/.env.test", "PORT=2\n"),
        ];
        let fixture = Fixture::new(&files);
        let git = |line: &str| {
            let own = ["-c", "user.name=ada", "-c", "user.email=a@b"];
            let mut git = std::process::Command::new("git");
            assert!(
                git.args(own).args(line.split(' ')).current_dir(&fixture.root).status().unwrap().success()
            );
        };
        git("init -q");
        git("add .env.test private");
        let hidden = paths(&[".env", ".env.test", ".rooignore", "private"]);
        assert_eq!(fixture.hidden(), hidden);
        git("commit -qm one");
        assert_eq!(fixture.hidden(), paths(&[".env", ".rooignore", "private"]));
        fixture.put(".env.test", "SECRET=2\n");
        assert_eq!(fixture.hidden(), hidden);
    }

    #[test]
    fn what_its_place_alone_protects_or_hides_keeps_it() {
        let files = [
            (".rooignore", "/config/keys.txt\nprivate/\n/data/raw/\n*.log\n"),
            ("config/keys.txt", ""),
            ("config/app.log", ""),
            ("a/private/x", ""),
            ("data/raw/x", ""),
            ("b/AGENTS.md", ""),
            ("b/.env", ""),
        ];
        let fixture = Fixture::new(&files);
        let found = fixture.finder.look(&fixture.workspace, &[]).unwrap().in_place;
        let mut found: Vec<_> = found.iter().map(|path| path.strip_prefix(&fixture.root).unwrap()).collect();
        found.sort();
        found.dedup();
        assert_eq!(found, paths(&[".rooignore", "b/AGENTS.md", "config/keys.txt", "data/raw"]));
    }

    #[test]
    fn a_secret_below_a_name_that_is_no_text_is_hidden() {
        let fixture = Fixture::new(&[]);
        let odd = fixture.root.join(OsStr::from_bytes(b"d\xff"));
        fs::create_dir(&odd).unwrap();
        fs::write(odd.join(".env"), "").unwrap();
        fs::write(odd.join("free"), "").unwrap();
        assert_eq!(fixture.hidden(), [Path::new(OsStr::from_bytes(b"d\xff")).join(".env")]);
    }

    #[test]
    fn what_comes_up_is_hidden_by_the_next_look() {
        let fixture = Fixture::new(&[(".gitignore", "target\n"), ("target/a/x", ""), ("src/lib.rs", "")]);
        assert_eq!(fixture.hidden(), paths(&[]));
        fixture.put("src/deep/.env", "");
        fixture.put("target/a/b/.env", "");
        assert_eq!(fixture.hidden(), paths(&["src/deep/.env", "target/a/b/.env"]));
        fs::hard_link(fixture.root.join("src/deep/.env"), fixture.root.join("src/copy.txt")).unwrap();
        assert!(fixture.hidden().contains(&"src/copy.txt".into()));
        fs::remove_file(fixture.root.join("src/deep/.env")).unwrap();
        fs::rename(fixture.root.join("target"), fixture.root.join("elsewhere")).unwrap();
        assert_eq!(fixture.hidden(), paths(&["elsewhere/a/b/.env", "src/copy.txt"]));
        fixture.put(".rooignore", "src/lib.rs\n");
        let hidden = fixture.hidden();
        assert!(hidden.contains(&"src/lib.rs".into()), "{hidden:?}");
        assert!(!hidden.contains(&"src/copy.txt".into()), "it has no other name any more: {hidden:?}");
    }

    #[test]
    fn what_patterns_of_the_settings_and_of_the_folder_name_is_protected_by_the_next_look() {
        let fixture = Fixture::new(&[("infra/main.tf", ""), ("deploy/run", ""), ("src/lib.rs", "")]);
        let protected = |patterns: &[&str]| {
            let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
            let found = fixture.finder.look(&fixture.workspace, &patterns).unwrap().protected;
            found
                .iter()
                .map(|path| path.strip_prefix(&fixture.root).unwrap().to_path_buf())
                .collect::<Vec<_>>()
        };
        assert_eq!(protected(&[]), paths(&[]));
        assert_eq!(protected(&["infra/"]), paths(&["infra"]));
        // Whether it is hidden as well or not.
        fixture.put(".rooignore", "private\n");
        fixture.put(".env.test", "");
        assert_eq!(protected(&[".env*"]), paths(&[".env.test", ".rooignore"]));
        fs::remove_file(fixture.root.join(".rooignore")).unwrap();
        fs::remove_file(fixture.root.join(".env.test")).unwrap();
        fixture.put(".rooprotected", "deploy/\n");
        let mut both = protected(&["infra/"]);
        both.sort();
        assert_eq!(both, paths(&[".rooprotected", "deploy", "infra"]));
        assert!(!protected(&[]).contains(&"infra".into()));
    }

    #[test]
    fn of_build_output_so_much_is_looked_at_as_there_is_time_for() {
        let names: Vec<String> = (0..50).map(|number| format!("target/d{number}/x")).collect();
        let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        let files = [&files[..], &[("target/.env", ""), ("target/d7/.env", "")]].concat();
        let fixture = Fixture::new(&files);
        let found = |limit: usize| {
            let roots = fixture.finder.roots(&fixture.workspace, &[]).unwrap();
            let markers = fixture.finder.known.lock().unwrap().markers.clone();
            ScratchLook::new(&[fixture.root.join("target")], &roots, &markers, limit).hidden.len()
        };
        assert_eq!((found(1000), found(20)), (2, 1));
        // A file that it names may be anywhere.
        fixture.put(".rooignore", "private.txt\n");
        assert_eq!(found(20), 2);
    }

    #[test]
    fn a_directory_that_can_not_be_looked_into_is_hidden() {
        use std::os::unix::fs::PermissionsExt as _;

        let fixture = Fixture::new(&[("closed/x", ""), (".gitignore", "dist\n"), ("dist/closed/x", "")]);
        if rustix::process::geteuid().is_root() {
            // Nothing is closed to root.
            return;
        }
        for closed in ["closed", "dist/closed"] {
            fs::set_permissions(fixture.root.join(closed), fs::Permissions::from_mode(0o0)).unwrap();
        }
        assert_eq!(fixture.hidden(), paths(&["closed", "dist/closed"]));
    }
}
