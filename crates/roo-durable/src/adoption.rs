//! Adoption: a workspace that was moved or renamed takes over what was kept of it under its earlier path.
//!
//! Each request is renamed into the new directory on its own, so that requests which were made there meanwhile stay. An
//! adoption that was cut off is completed by another one. What the user trusts is not taken over: it is said of a path.
//! Nothing else is removed but what can be computed again; what the new directory has of its own stays where it was.

use std::io;
use std::path::{Path, PathBuf};

use super::directory::ROOT;
use super::fork::FORK_LOCK;
use super::{DirectoryIdentity, StoreError, WorkspaceDirectory, is_temporary_name};

/// Name of the directory of the trace; see `roo-trace`.
const TRACE: &str = "trace";
/// The end of the names of multi-file edits in progress, which are of paths of the earlier folder; see `roo-workspace`.
const UNFINISHED_EDIT: &str = ".changes";
/// Contents that commands change, and below them what was withheld, for the user; see `roo-sandbox`.
const CHANGES: [&str; 2] = ["changes", "changes/moved"];
/// Directories whose entries are taken over one by one: of branches, and temporary ones of requests.
const MERGED: [&str; 2] = ["branches", "tmp"];
/// Standing rules. Whether one holds for another directory is not known here.
const RULES: &str = "rules.json";
/// What is computed again when it is missing, what a running command needs, and what is trusted.
const REMOVED: [&str; 14] = [
    ROOT,
    "requests.lock",
    "history",
    "trust.json",
    "cache",
    "cache-mcp",
    "captures",
    "index",
    "known-commits.json",
    "layers",
    "mcp-catalogs.json",
    "shadow",
    "signing",
    "staged",
];
/// The end of the names of locks.
const LOCK: &str = ".lock";

/// What an adoption has taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adoption {
    /// Number of requests.
    pub requests: usize,
    /// What became of the trace.
    pub trace: AdoptedTrace,
}

/// A folder with work that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VanishedFolder {
    pub path: PathBuf,
    /// The directory that it was; none where that is not known.
    pub identity: Option<DirectoryIdentity>,
}

/// What became of the trace of the earlier path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdoptedTrace {
    /// There was none.
    Missing,
    /// It goes on here.
    Moved,
    /// It stays in this directory, since the workspace has one of its own by now.
    Left(PathBuf),
}

impl WorkspaceDirectory {
    /// Returns whether anything is kept here that can be adopted.
    pub fn has_work(&self) -> bool {
        self.requests().is_ok_and(|requests| !requests.is_empty())
            || self.disk().exists(&self.path().join(TRACE)).unwrap_or_default()
    }

    /// The folders with work whose directories are gone, of all workspaces of the user, in order: perhaps they were
    /// moved. Those that no request has noted since that is done are not known.
    pub fn vanished_folders(&self) -> Vec<VanishedFolder> {
        let gone = |workspace: WorkspaceDirectory| {
            let (path, identity) = workspace.noted_folder()?;
            let is_gone = matches!(workspace.disk().exists(&path), Ok(false));
            (is_gone && workspace.has_work()).then_some(VanishedFolder { path, identity })
        };
        let mut folders: Vec<_> = self.all().into_iter().filter_map(gone).collect();
        folders.sort_by(|one, other| one.path.cmp(&other.path));
        folders
    }

    /// Takes over what is kept of the same workspace under an earlier path: requests, trace, and all else that can't be
    /// computed again. Standing rules stay for the caller to take over; then [`Self::remove_adopted`] removes the rest.
    ///
    /// # Errors
    /// [`StoreError::Held`] while a process runs one of the requests: nothing was changed. [`StoreError::Io`]: some may
    /// have been taken over, and another adoption completes it.
    pub fn adopt(&self, earlier: &WorkspaceDirectory) -> Result<Adoption, StoreError> {
        let requests = earlier.requests()?;
        let moves: Vec<_> = requests.iter().map(|id| (earlier.request(id), self.request(id))).collect();
        let locks: Vec<_> = moves.iter().map(|(from, _)| from.lock()).collect::<Result<_, _>>()?;
        self.create_requests()?;
        let path = self.path().with_file_name(FORK_LOCK);
        let forks = self.disk().lock(&path).map_err(StoreError::io("lock", &path))?;
        for (from, to) in &moves {
            from.announce_move(to)?;
        }
        for (from, to) in &moves {
            self.rename(from.path(), to.path())?;
        }
        self.sync(&earlier.path().join("requests"))?;
        self.sync(&self.path().join("requests"))?;
        let name = earlier.path().file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // All of them: those that an adoption moved which was cut off are among them.
        for id in self.requests()? {
            self.request(&id).follow_move(name)?;
        }
        drop((forks, locks));
        let trace = self.adopt_trace(earlier)?;
        self.adopt_rest(earlier)?;
        Ok(Adoption { requests: moves.len(), trace })
    }

    fn adopt_trace(&self, earlier: &WorkspaceDirectory) -> Result<AdoptedTrace, StoreError> {
        let [from, to] = [earlier, self].map(|workspace| workspace.path().join(TRACE));
        if !self.exists(&from)? {
            return Ok(AdoptedTrace::Missing);
        }
        if self.exists(&to)? {
            return Ok(AdoptedTrace::Left(from));
        }
        self.rename(&from, &to)?;
        self.sync(self.path())?;
        self.sync(earlier.path())?;
        Ok(AdoptedTrace::Moved)
    }

    /// Takes over what this workspace doesn't have.
    fn adopt_rest(&self, earlier: &WorkspaceDirectory) -> Result<(), StoreError> {
        let [from, to] = [earlier, self].map(|workspace| workspace.path().join(CHANGES[1]));
        self.merge(&from, &to)?;
        for name in MERGED {
            self.merge(&earlier.path().join(name), &self.path().join(name))?;
        }
        let is_taken = |name: &String| !is_removed(name) && !stays(name) && name != RULES;
        for name in self.names(earlier.path())?.into_iter().filter(is_taken) {
            let (from, to) = (earlier.path().join(&name), self.path().join(&name));
            if !self.exists(&to)? {
                self.rename(&from, &to)?;
            }
        }
        self.sync(self.path())?;
        self.sync(earlier.path())
    }

    /// Moves the entries of a directory that aren't in the other one.
    fn merge(&self, from: &Path, to: &Path) -> Result<(), StoreError> {
        let names = self.names(from)?;
        if names.is_empty() {
            return Ok(());
        }
        self.disk().create_directories(to).map_err(StoreError::io("create", to))?;
        for name in names {
            if !self.exists(&to.join(&name))? {
                self.rename(&from.join(&name), &to.join(&name))?;
            }
        }
        self.sync(to)?;
        self.sync(from)
    }

    /// Removes what nobody needs of a directory that was adopted. Returns the paths of what is left, in order; the
    /// directory is gone if there are none.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn remove_adopted(&self, earlier: &WorkspaceDirectory) -> Result<Vec<PathBuf>, StoreError> {
        let path = earlier.path();
        let mut left = Vec::new();
        for name in self.names(path)? {
            let entry = path.join(&name);
            if is_removed(&name) {
                continue;
            }
            // What is left of withheld files, beside contents that only a running command needs.
            let held = if name == CHANGES[0] { path.join(CHANGES[1]) } else { entry.clone() };
            let is_merged = name == CHANGES[0] || name == "requests" || MERGED.contains(&name.as_str());
            if !is_merged || !self.names(&held)?.is_empty() {
                left.push(entry);
            }
        }
        if left.is_empty() {
            match self.disk().remove_directory(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(StoreError::io("remove", path)(error));
                }
                _ => {}
            }
        }
        left.sort();
        Ok(left)
    }

    fn exists(&self, path: &Path) -> Result<bool, StoreError> {
        self.disk().exists(path).map_err(StoreError::io("look at", path))
    }

    /// The names in a directory; none where it is missing.
    fn names(&self, path: &Path) -> Result<Vec<String>, StoreError> {
        match self.disk().names(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(vec![]),
            names => names.map_err(StoreError::io("list", path)),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), StoreError> {
        self.disk().rename(from, to).map_err(StoreError::io("rename", from))
    }

    fn sync(&self, path: &Path) -> Result<(), StoreError> {
        match self.disk().sync(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            synced => synced.map_err(StoreError::io("sync", path)),
        }
    }
}

/// Returns whether an entry of a directory that was adopted is no longer needed.
fn is_removed(name: &str) -> bool {
    REMOVED.contains(&name)
        || name.ends_with(LOCK)
        || is_temporary_name(name.as_bytes())
        || name.ends_with(".new")
}

/// Returns whether an entry is taken over in parts or not at all.
fn stays(name: &str) -> bool {
    let is_apart = name == CHANGES[0] || name == TRACE || name == "requests" || MERGED.contains(&name);
    is_apart || name.ends_with(UNFINISHED_EDIT)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tempfile::TempDir;

    use super::*;
    use crate::{Loaded, Record, RequestDirectory, RequestLog};
    use roo_protocol::ids::TaskId;

    fn record(task: &str, seq: u64) -> Record<Value> {
        Record { seq, at: 0, task_id: TaskId::new(task), event: json!({ "n": seq }) }
    }

    /// Makes a request of three events, which a fork has taken over and gone on from by one.
    fn request(workspace: &WorkspaceDirectory, id: &str) -> RequestDirectory {
        let directory = workspace.request(&TaskId::new(id));
        let mut log = RequestLog::create(directory.clone()).unwrap();
        log.append(&[record(id, 1), record(id, 2), record(id, 3)]).unwrap();
        log.sync_handle()().unwrap();
        directory
    }

    fn fork(workspace: &WorkspaceDirectory, id: &str, parent: &RequestDirectory) -> RequestDirectory {
        let directory = workspace.request(&TaskId::new(id));
        directory.fork(parent, 2, &[record(id, 3)]).unwrap();
        directory
    }

    fn events(workspace: &WorkspaceDirectory, id: &str) -> usize {
        let (_log, Loaded { records, damage }) =
            RequestLog::open::<Value>(workspace.request(&TaskId::new(id))).unwrap();
        assert_eq!(damage, []);
        records.len()
    }

    /// The state directory, and those of the workspace's earlier path, its present one, and another workspace.
    fn workspaces() -> (TempDir, [WorkspaceDirectory; 3]) {
        let state = tempfile::tempdir().unwrap();
        let directories = ["/code/before", "/code/now", "/code/other"]
            .map(|folder| WorkspaceDirectory::new(state.path(), Path::new(folder)));
        (state, directories)
    }

    #[test]
    fn requests_go_on_under_the_new_path_beside_those_that_were_made_there() {
        let (_state, [before, now, _]) = workspaces();
        request(&before, "a");
        request(&now, "b");
        std::fs::create_dir(before.path().join(TRACE)).unwrap();
        std::fs::write(before.path().join("trust.json"), "{}").unwrap();
        let vanished: Vec<PathBuf> =
            before.vanished_folders().into_iter().map(|folder| folder.path).collect();
        assert_eq!(vanished, ["/code/before", "/code/now"].map(PathBuf::from));
        let adopted = now.adopt(&before).unwrap();
        assert_eq!(adopted, Adoption { requests: 1, trace: AdoptedTrace::Moved });
        assert_eq!((events(&now, "a"), events(&now, "b")), (3, 3));
        assert!(now.path().join(TRACE).exists());
        assert!(!now.path().join("trust.json").exists(), "what is trusted is said of a path");
        assert_eq!(now.remove_adopted(&before).unwrap(), Vec::<PathBuf>::new());
        assert!(!before.path().exists());
    }

    #[test]
    fn what_can_not_be_computed_again_is_moved_or_stays() {
        let (_state, [before, now, _]) = workspaces();
        let write = |workspace: &WorkspaceDirectory, name: &str| {
            let path = workspace.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, workspace.path().as_os_str().as_encoded_bytes()).unwrap();
        };
        let taken = [
            "changes/moved/1/a.txt",
            "tmp/2/a",
            "branches/b.2/index",
            "intents.json",
            "x.stopped-1",
            "unknown",
        ];
        for name in taken {
            write(&before, name);
        }
        let own = ["changes/moved/2/a.txt", "tmp/1/a", "branches/a.2/index"];
        for name in own {
            write(&now, name);
        }
        for name in ["cache/a", "layers/a/b", "changes/0a1b", "index", "a.lock", "trust.json"] {
            write(&before, name);
        }
        now.adopt(&before).unwrap();
        for name in taken.iter().chain(&own) {
            assert!(now.path().join(name).exists(), "{name}");
        }
        assert_eq!(now.remove_adopted(&before).unwrap(), Vec::<PathBuf>::new());
        assert!(!before.path().exists());

        // What is there twice, and what only the caller can take over.
        let twice = ["changes/moved/1/a.txt", "intents.json", "tmp/2/a"];
        let stays = ["rules.json", "y.changes"];
        for name in twice.iter().chain(&stays).chain(&["cache/a"]) {
            write(&before, name);
        }
        now.adopt(&before).unwrap();
        let left = ["changes", "intents.json", "rules.json", "tmp", "y.changes"]
            .map(|name| before.path().join(name));
        assert_eq!(now.remove_adopted(&before).unwrap(), left);
        for name in twice.iter().chain(&stays) {
            assert!(before.path().join(name).exists(), "{name}");
        }
    }

    #[test]
    fn a_vanished_folder_is_known_by_the_directory_that_it_was() {
        let place = tempfile::tempdir().unwrap();
        let [state, folder, moved] = ["state", "before", "now"].map(|name| place.path().join(name));
        std::fs::create_dir(&folder).unwrap();
        let workspace = WorkspaceDirectory::new(&state, &folder);
        request(&workspace, "a");
        std::fs::rename(&folder, &moved).unwrap();
        let [found] = workspace.vanished_folders().try_into().unwrap();
        assert!(found.identity.unwrap().is_same(DirectoryIdentity::read(&moved).unwrap()));
    }

    #[test]
    fn a_trace_stays_where_the_workspace_has_another() {
        let (_state, [before, now, _]) = workspaces();
        request(&before, "a");
        for workspace in [&before, &now] {
            std::fs::create_dir_all(workspace.path().join(TRACE)).unwrap();
        }
        let left = before.path().join(TRACE);
        assert_eq!(
            now.adopt(&before).unwrap(),
            Adoption { requests: 1, trace: AdoptedTrace::Left(left.clone()) }
        );
        assert!(left.exists());
    }

    #[test]
    fn forks_find_what_they_share_in_every_direction() {
        let (_state, [before, now, other]) = workspaces();
        let elsewhere = request(&other, "o");
        let a = request(&before, "a");
        fork(&before, "of-a", &a);
        fork(&before, "of-o", &elsewhere);
        fork(&other, "of-a-elsewhere", &a);
        now.adopt(&before).unwrap();
        assert_eq!((events(&now, "of-a"), events(&now, "of-o"), events(&other, "of-a-elsewhere")), (3, 3, 3));
        let forks = |workspace: &WorkspaceDirectory, id: &str| {
            let forks = workspace.request(&TaskId::new(id)).forks().unwrap();
            forks.iter().map(|fork| fork.as_str().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(forks(&now, "a"), ["of-a", "of-a-elsewhere"]);
        assert_eq!(forks(&other, "o"), ["of-o"]);
    }

    #[test]
    fn an_adoption_that_was_cut_off_is_completed_by_another() {
        let (_state, [before, now, other]) = workspaces();
        let a = request(&before, "a");
        request(&before, "b");
        fork(&other, "of-a", &a);
        // It ended when the first one had its new name.
        now.create_requests().unwrap();
        std::fs::rename(a.path(), now.request(&TaskId::new("a")).path()).unwrap();
        let adopted = now.adopt(&before).unwrap();
        assert_eq!(adopted, Adoption { requests: 1, trace: AdoptedTrace::Missing });
        assert_eq!((events(&now, "a"), events(&now, "b"), events(&other, "of-a")), (3, 3, 3));
    }

    #[test]
    fn nothing_is_taken_from_a_process_that_works_on_it() {
        let (_state, [before, now, _]) = workspaces();
        request(&before, "a");
        let held = RequestLog::open::<Value>(before.request(&TaskId::new("a"))).unwrap();
        assert!(matches!(now.adopt(&before), Err(StoreError::Held { .. })));
        drop(held);
        assert_eq!(events(&before, "a"), 3);
    }
}
