//! Directories of requests.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::StoreError;
use super::disk::{Disk, RealDisk};
use super::replace::replace_unsynced;
use roo_protocol::ids::{Digest, TaskId};

/// The part of the state directory that belongs to one workspace.
#[derive(Clone, Debug)]
pub struct WorkspaceDirectory {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    /// The directories from where the state directory is down to where requests are.
    above: Arc<Above>,
}

/// Directories that this process has to sync once, as whoever made them may have ended before.
#[derive(Debug)]
struct Above {
    paths: Vec<PathBuf>,
    is_synced: AtomicBool,
}

impl WorkspaceDirectory {
    /// The directory for the workspace whose first root is `root` (canonical), below the user's
    /// state directory.
    pub fn new(state: &Path, root: &Path) -> Self {
        Self::on(Arc::new(RealDisk), state, root)
    }

    /// As [`WorkspaceDirectory::new`], on this disk.
    pub fn on(disk: Arc<dyn Disk>, state: &Path, root: &Path) -> Self {
        let digest = Digest::of(root.as_os_str().as_encoded_bytes()).hex();
        let workspaces = state.join("workspaces");
        let path = workspaces.join(&digest[..16]);
        let mut paths = vec![path.clone(), workspaces, state.to_owned()];
        // It has the name of the state directory, which may be new too.
        paths.extend(state.parent().map(Path::to_owned));
        Self { path, disk, above: Arc::new(Above { paths, is_synced: AtomicBool::new(false) }) }
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory of one request.
    pub fn request(&self, root_task: &TaskId) -> RequestDirectory {
        let path = self.path.join("requests").join(root_task.as_str());
        RequestDirectory { path, disk: Arc::clone(&self.disk), above: Arc::clone(&self.above) }
    }

    /// All requests, newest first: their ids are ordered by time.
    ///
    /// # Errors
    /// [`StoreError::Io`]; a directory that isn't there yet holds no requests.
    pub fn requests(&self) -> Result<Vec<TaskId>, StoreError> {
        let path = self.path.join("requests");
        let mut ids = match self.disk.names(&path) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
            Err(error) => return Err(StoreError::io("list", &path)(error)),
        };
        ids.sort_unstable_by(|a, b| b.cmp(a));
        Ok(ids.into_iter().map(TaskId::new).collect())
    }
}

/// The directory of one request.
#[derive(Clone, Debug)]
pub struct RequestDirectory {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    above: Arc<Above>,
}

impl RequestDirectory {
    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The events.
    pub fn log(&self) -> PathBuf {
        self.path.join("log.jsonl")
    }

    /// Returns the file in which the user's hooks leave variables for the request's commands.
    pub fn environment(&self) -> PathBuf {
        self.path.join("environment")
    }

    pub(super) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    pub(super) fn lock(&self) -> PathBuf {
        self.path.join("log.lock")
    }

    pub(super) fn sign(&self) -> PathBuf {
        self.path.join("log.driven")
    }

    pub(super) fn blobs(&self) -> PathBuf {
        self.path.join("blobs")
    }

    pub(super) fn blob(&self, digest: Digest) -> PathBuf {
        self.blobs().join(digest.hex())
    }

    /// Returns whether there is such a request.
    pub fn exists(&self) -> bool {
        self.disk.exists(&self.log()).unwrap_or_default()
    }

    /// Returns whether a process drives the request at this moment.
    pub fn is_held(&self) -> bool {
        self.disk.is_locked(&self.sign())
    }

    /// Creates it with those above it. Their names survive power loss by [`RequestDirectory::sync`].
    pub(super) fn create(&self) -> Result<(), StoreError> {
        self.disk.create_directories(&self.path).map(drop).map_err(StoreError::io("create", &self.path))
    }

    /// Creates the directory of payloads; whether it is new.
    pub(super) fn create_blobs(&self) -> Result<bool, StoreError> {
        let path = self.blobs();
        let created = self.disk.create_directories(&path).map_err(StoreError::io("create", &path))?;
        Ok(!created.is_empty())
    }

    /// Makes the names in this directory, and all that lead to it, survive power loss.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        let sync = |path: &Path| self.disk.sync(path).map_err(StoreError::io("sync", path));
        sync(&self.path)?;
        self.path.parent().map_or(Ok(()), sync)?;
        if !self.above.is_synced.load(Ordering::Acquire) {
            self.above.paths.iter().try_for_each(|path| sync(path))?;
            self.above.is_synced.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// The request's summary, if there is a readable one.
    pub fn summary<S: DeserializeOwned>(&self) -> Option<S> {
        let mut bytes = Vec::new();
        self.disk.read(&self.path.join("summary.json"), 0).ok()?.read_to_end(&mut bytes).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Replaces the summary. It is rebuilt from the log when it is lost, so it needs no sync.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn write_summary<S: Serialize>(&self, summary: &S) -> Result<(), StoreError> {
        let path = self.path.join("summary.json");
        let temporary = self.path.join(".summary.json.new");
        replace_unsynced(self.disk.as_ref(), &temporary, &path, &serde_json::to_vec(summary)?)
            .map_err(StoreError::io("write", &path))
    }

    /// Removes the request with all that belongs to it.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn remove(&self) -> Result<(), StoreError> {
        self.disk.remove_directory(&self.path).map_err(StoreError::io("remove", &self.path))
    }
}
