//! Adoption: a workspace that was moved or renamed takes over what was kept of it under its earlier path.
//!
//! Each request is renamed into the new directory on its own, so that requests which were made there meanwhile stay. An
//! adoption that was cut off is completed by another one. What the user trusts is not taken over: it is said of a path.

use std::io;
use std::path::{Path, PathBuf};

use super::fork::FORK_LOCK;
use super::{StoreError, WorkspaceDirectory};

/// Name of the directory of the trace; see `roo-trace`.
const TRACE: &str = "trace";
/// The end of the names of multi-file edits in progress; see `roo-workspace`.
const UNFINISHED_EDIT: &str = ".changes";

/// What an adoption has taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adoption {
    /// Number of requests.
    pub requests: usize,
    /// What became of the trace.
    pub trace: AdoptedTrace,
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
    pub fn vanished_folders(&self) -> Vec<PathBuf> {
        let gone = |workspace: WorkspaceDirectory| {
            let folder = workspace.noted_folder()?;
            let is_gone = matches!(workspace.disk().exists(&folder), Ok(false));
            (is_gone && workspace.has_work()).then_some(folder)
        };
        let mut folders: Vec<_> = self.all().into_iter().filter_map(gone).collect();
        folders.sort();
        folders
    }

    /// Takes over the requests and the trace that are kept of the same workspace under an earlier path.
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
        self.remove_rest(earlier)?;
        Ok(Adoption { requests: moves.len(), trace })
    }

    fn adopt_trace(&self, earlier: &WorkspaceDirectory) -> Result<AdoptedTrace, StoreError> {
        let [from, to] = [earlier, self].map(|workspace| workspace.path().join(TRACE));
        let exists = |path: &Path| self.disk().exists(path).map_err(StoreError::io("look at", path));
        if !exists(&from)? {
            return Ok(AdoptedTrace::Missing);
        }
        if exists(&to)? {
            return Ok(AdoptedTrace::Left(from));
        }
        self.rename(&from, &to)?;
        self.sync(self.path())?;
        self.sync(earlier.path())?;
        Ok(AdoptedTrace::Moved)
    }

    /// Removes what nobody needs of a directory that was adopted: locks, what can be computed again, and what was trusted.
    fn remove_rest(&self, earlier: &WorkspaceDirectory) -> Result<(), StoreError> {
        let path = earlier.path();
        let names = match self.disk().names(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            names => names.map_err(StoreError::io("list", path))?,
        };
        if names.iter().any(|name| name == TRACE || name.ends_with(UNFINISHED_EDIT)) {
            return Ok(());
        }
        self.disk().remove_directory(path).map_err(StoreError::io("remove", path))
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
        assert_eq!(before.vanished_folders(), ["/code/before", "/code/now"].map(PathBuf::from));
        let adopted = now.adopt(&before).unwrap();
        assert_eq!(adopted, Adoption { requests: 1, trace: AdoptedTrace::Moved });
        assert_eq!((events(&now, "a"), events(&now, "b")), (3, 3));
        assert!(now.path().join(TRACE).exists());
        assert!(!now.path().join("trust.json").exists(), "what is trusted is said of a path");
        assert!(!before.path().exists());
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
