//! Where requests are kept.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::StoreError;
use crate::protocol::ids::{Digest, TaskId};

/// The part of the state directory that belongs to one workspace.
#[derive(Clone, Debug)]
pub struct WorkspaceDirectory(PathBuf);

impl WorkspaceDirectory {
    /// The directory for the workspace whose first root is `root` (canonical), below the user's
    /// state directory.
    pub fn new(state: &Path, root: &Path) -> Self {
        let digest = Digest::of(root.as_os_str().as_encoded_bytes()).hex();
        Self(state.join("workspaces").join(&digest[..16]))
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The directory of one request.
    pub fn request(&self, root_task: &TaskId) -> RequestDirectory {
        RequestDirectory(self.0.join("requests").join(root_task.as_str()))
    }

    /// All requests, newest first: their ids are ordered by time.
    ///
    /// # Errors
    /// [`StoreError::Io`]; a directory that isn't there yet holds no requests.
    pub fn requests(&self) -> Result<Vec<TaskId>, StoreError> {
        let path = self.0.join("requests");
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(vec![]),
            Err(error) => return Err(StoreError::io("list", &path)(error)),
        };
        let mut ids: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        ids.sort_unstable_by(|a, b| b.cmp(a));
        Ok(ids.into_iter().map(TaskId::new).collect())
    }
}

/// The directory of one request.
#[derive(Clone, Debug)]
pub struct RequestDirectory(PathBuf);

impl RequestDirectory {
    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The events.
    pub fn log(&self) -> PathBuf {
        self.0.join("log.jsonl")
    }

    pub(super) fn lock(&self) -> PathBuf {
        self.0.join("log.lock")
    }

    pub(super) fn sign(&self) -> PathBuf {
        self.0.join("log.driven")
    }

    pub(super) fn blobs(&self) -> PathBuf {
        self.0.join("blobs")
    }

    /// Whether there is such a request.
    pub fn exists(&self) -> bool {
        self.log().exists()
    }

    /// Whether a process drives the request at this moment.
    pub fn is_held(&self) -> bool {
        let sign = File::open(self.sign());
        sign.is_ok_and(|sign| matches!(sign.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    pub(super) fn create(&self) -> Result<(), StoreError> {
        create_private(&self.0)
    }

    pub(super) fn sync(&self) -> Result<(), StoreError> {
        File::open(&self.0)
            .and_then(|directory| directory.sync_all())
            .map_err(StoreError::io("sync", &self.0))
    }

    /// The request's summary, if there is a readable one.
    pub fn summary<S: DeserializeOwned>(&self) -> Option<S> {
        serde_json::from_slice(&fs::read(self.0.join("summary.json")).ok()?).ok()
    }

    /// Replaces the summary. It is rebuilt from the log when it is lost, so it needs no sync.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn write_summary<S: Serialize>(&self, summary: &S) -> Result<(), StoreError> {
        let path = self.0.join("summary.json");
        let temporary = self.0.join(".summary.json.new");
        super::log::write_private(&temporary, &serde_json::to_vec(summary)?)
            .map_err(StoreError::io("write", &temporary))?;
        fs::rename(&temporary, &path).map_err(StoreError::io("rename", &temporary))
    }

    /// Removes the request with all that belongs to it.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn remove(&self) -> Result<(), StoreError> {
        fs::remove_dir_all(&self.0).map_err(StoreError::io("remove", &self.0))
    }
}

/// Creates a directory, and those above it, for the user alone.
pub(super) fn create_private(path: &Path) -> Result<(), StoreError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(StoreError::io("create", path))
}
