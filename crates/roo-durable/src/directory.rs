//! Directories of requests.

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::StoreError;
use super::contents::Contents;
use super::directory_identity::DirectoryIdentity;
use super::disk::{Disk, FileStamp, RealDisk};
use super::history::History;
use super::replace::replace_unsynced;
use super::request_locks::{RequestLock, RequestLocks};
use roo_protocol::ids::{Digest, TaskId};

/// Name of the file of a request's events.
const LOG: &str = "log.jsonl";
/// Name of the directory of the contents of files.
const CONTENTS: &str = "contents";
/// Name of the file that says which folder a directory is of: its path, and behind a zero byte which directory was there.
pub(super) const ROOT: &str = "root";
/// The largest such file, in bytes.
const MAX_ROOT_NOTE_BYTES: u64 = 1 << 16;

/// The part of the state directory that belongs to one workspace.
#[derive(Clone, Debug)]
pub struct WorkspaceDirectory {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    /// The directories above those of requests.
    ancestors: Arc<Ancestors>,
    locks: Arc<RequestLocks>,
}

/// Directories that this process has to sync once. It can't know which of their names are new: the process that created
/// them may have ended before it synced them, and so may an attempt of this one.
#[derive(Debug)]
struct Ancestors {
    /// From the directory of the workspace up to the parent of the state directory.
    own: Vec<PathBuf>,
    /// From there up to the root.
    above: Vec<PathBuf>,
    /// The workspace's folder, where it is known by more than its digest.
    folder: Option<PathBuf>,
    is_synced: AtomicBool,
}

impl Ancestors {
    /// Those of the directory of a workspace in this state directory.
    fn new(workspace: &Path, state: &Path, folder: Option<PathBuf>) -> Self {
        // Its parent holds the name of the state directory, which may be new too.
        let top = state.parent().unwrap_or(state);
        let (own, above) = workspace.ancestors().map(Path::to_owned).partition(|path| path.starts_with(top));
        Self { own, above, folder, is_synced: AtomicBool::new(false) }
    }

    /// Writes down which folder the workspace's directory is of: its name doesn't tell once that folder is elsewhere. A note
    /// that is lost costs a suggestion, so it needs no sync, and no request fails for its sake.
    fn note_folder(&self, disk: &dyn Disk) {
        let Some((folder, directory)) = self.folder.as_deref().zip(self.own.first()) else { return };
        let mut note = folder.as_os_str().as_encoded_bytes().to_vec();
        if let Some(Ok(identity)) =
            DirectoryIdentity::read(folder).ok().map(|found| serde_json::to_vec(&found))
        {
            note.push(0);
            note.extend(identity);
        }
        let path = directory.join(ROOT);
        if !matches!(disk.read_at_most(&path, MAX_ROOT_NOTE_BYTES), Ok(Some(noted)) if noted == note) {
            let _ = replace_unsynced(disk, &directory.join(".root.new"), &path, &note);
        }
    }

    /// Makes the names in them survive power loss, if that was not yet done.
    fn sync(&self, disk: &dyn Disk) -> Result<(), StoreError> {
        if self.is_synced.load(Ordering::Acquire) {
            return Ok(());
        }
        self.note_folder(disk);
        let sync = |path: &PathBuf| disk.sync(path).map_err(StoreError::io("sync", path));
        self.own.iter().try_for_each(sync)?;
        for path in &self.above {
            match disk.sync(path) {
                // The user can't read it, so it is somebody else's; or its file system is not for new names or has no
                // such sync. The state directory would not have been created there just now.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::PermissionDenied
                            | io::ErrorKind::ReadOnlyFilesystem
                            | io::ErrorKind::InvalidInput
                            | io::ErrorKind::Unsupported
                    ) => {}
                synced => synced.map_err(StoreError::io("sync", path))?,
            }
        }
        self.is_synced.store(true, Ordering::Release);
        Ok(())
    }
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
        Self::named(disk, state, &digest[..16], Some(root.to_owned()))
    }

    /// The directory of this name, of this folder if that is known.
    fn named(disk: Arc<dyn Disk>, state: &Path, name: &str, folder: Option<PathBuf>) -> Self {
        let path = state.join("workspaces").join(name);
        let ancestors = Arc::new(Ancestors::new(&path, state, folder));
        let locks = Arc::new(RequestLocks::new(Arc::clone(&disk), path.join("requests.lock")));
        Self { path, disk, ancestors, locks }
    }

    /// The user's state directory.
    fn state(&self) -> &Path {
        self.path.ancestors().nth(2).unwrap_or(Path::new("/"))
    }

    /// The directory for another workspace of the same user.
    pub fn for_workspace(&self, root: &Path) -> Self {
        Self::on(Arc::clone(&self.disk), self.state(), root)
    }

    /// The directories of all workspaces of the user.
    pub fn all(&self) -> Vec<Self> {
        let names = self.disk.names(&self.state().join("workspaces")).unwrap_or_default();
        let is_workspace =
            |name: &&String| name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        let named = |name: &String| Self::named(Arc::clone(&self.disk), self.state(), name, None);
        names.iter().filter(is_workspace).map(named).collect()
    }

    /// The request of this id in any workspace of the user; none where there is none.
    pub fn request_anywhere(&self, root_task: &TaskId) -> Option<RequestDirectory> {
        let own = std::iter::once(self.request(root_task)).find(RequestDirectory::exists);
        own.or_else(|| self.all().iter().map(|other| other.request(root_task)).find(RequestDirectory::exists))
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn disk(&self) -> &dyn Disk {
        self.disk.as_ref()
    }

    /// Creates the directory of requests, so that it survives a loss of power.
    pub(super) fn create_requests(&self) -> Result<(), StoreError> {
        let path = self.path.join("requests");
        self.disk.create_directories(&path).map_err(StoreError::io("create", &path))?;
        self.disk.sync(&path).map_err(StoreError::io("sync", &path))?;
        self.ancestors.sync(self.disk.as_ref())
    }

    /// The folder that the directory is of, and which directory that was, where that is known. None unless a request has
    /// noted it there.
    pub fn noted_folder(&self) -> Option<(PathBuf, Option<DirectoryIdentity>)> {
        let mut bytes = self.disk.read_at_most(&self.path.join(ROOT), MAX_ROOT_NOTE_BYTES).ok()??;
        let identity = bytes.iter().position(|byte| *byte == 0).and_then(|end| {
            let identity = serde_json::from_slice(&bytes[end + 1..]).ok();
            bytes.truncate(end);
            identity
        });
        let folder = PathBuf::from(OsString::from_vec(bytes));
        // After a loss of power it may be empty.
        folder.is_absolute().then_some((folder, identity))
    }

    /// The directory of one request.
    pub fn request(&self, root_task: &TaskId) -> RequestDirectory {
        let path = self.path.join("requests").join(root_task.as_str());
        let (disk, ancestors, locks) =
            (Arc::clone(&self.disk), Arc::clone(&self.ancestors), Arc::clone(&self.locks));
        RequestDirectory { path, name: root_task.as_str().to_owned(), disk, ancestors, locks }
    }

    /// The index of the requests' summaries. Nothing is read yet.
    pub fn history(&self) -> History {
        History::new(Arc::clone(&self.disk), self.path.join("history"))
    }

    /// Gives the state of requests' logs by their ids, for many of them.
    pub fn log_stamps(&self) -> impl Fn(&TaskId) -> Option<FileStamp> {
        let stamps = self.disk.stamps_below(&self.path.join("requests"));
        move |request| stamps(&format!("{}/{LOG}", request.as_str())).ok()
    }

    /// All requests, newest first: their ids are ordered by time.
    ///
    /// # Errors
    /// [`StoreError::Io`]. A missing directory is an empty list.
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
    name: String,
    disk: Arc<dyn Disk>,
    ancestors: Arc<Ancestors>,
    locks: Arc<RequestLocks>,
}

impl RequestDirectory {
    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file of the events.
    pub fn log(&self) -> PathBuf {
        self.path.join(LOG)
    }

    /// Returns the file in which the user's hooks set variables for the request's commands.
    pub fn environment(&self) -> PathBuf {
        self.path.join("environment")
    }

    /// The directory of another request of the same state directory.
    pub(super) fn at(&self, path: PathBuf, name: &str) -> Self {
        Self { path, name: name.to_owned(), ..self.clone() }
    }

    /// The request's id.
    pub(super) fn request_id(&self) -> TaskId {
        TaskId::new(self.name.clone())
    }

    pub(super) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Takes the right to drive the request. It is given up when what is returned is dropped.
    pub(super) fn lock(&self) -> Result<RequestLock, StoreError> {
        let locked = self.locks.try_lock(&self.name).map_err(StoreError::io("lock", self.locks.path()))?;
        let locked = locked.filter(|_| !self.is_held_by_earlier_version());
        locked.ok_or_else(|| StoreError::Held { path: self.path.clone() })
    }

    /// Servers of earlier versions lock a file of each request.
    fn is_held_by_earlier_version(&self) -> bool {
        self.disk.is_locked(&self.path.join("log.driven"))
    }

    /// The contents of files that the request has changed. A fork reads those of the requests whose records it shares, too.
    pub fn contents(&self) -> Contents {
        let shared = self.shared().unwrap_or_default();
        let earlier = shared.iter().map(|other| other.path.join(CONTENTS)).collect();
        Contents::new(Arc::clone(&self.disk), self.path.join(CONTENTS), earlier)
    }

    pub(super) fn blobs(&self) -> PathBuf {
        self.path.join("blobs")
    }

    pub(super) fn blob(&self, digest: Digest) -> PathBuf {
        self.blobs().join(digest.hex())
    }

    /// The state of the log.
    ///
    /// # Errors
    /// [`StoreError::Io`] when there is none, or it can't be looked at.
    pub fn stamp(&self) -> Result<FileStamp, StoreError> {
        let path = self.log();
        self.disk.stamp(&path).map_err(StoreError::io("look at", &path))
    }

    /// The state of the summary, if there is one.
    pub fn summary_stamp(&self) -> Option<FileStamp> {
        self.disk.stamp(&self.path.join("summary.json")).ok()
    }

    /// Returns whether the request exists.
    pub fn exists(&self) -> bool {
        self.disk.exists(&self.log()).unwrap_or_default()
    }

    /// Returns whether a process runs the request at this moment.
    pub fn is_held(&self) -> bool {
        self.locks.is_locked(&self.name) || self.is_held_by_earlier_version()
    }

    /// Creates the directory and its ancestors. [`RequestDirectory::sync`] makes their names survive power loss.
    pub(super) fn create(&self) -> Result<(), StoreError> {
        self.disk.create_directories(&self.path).map(drop).map_err(StoreError::io("create", &self.path))
    }

    /// Creates the directory of payloads. Returns whether it is new.
    pub(super) fn create_blobs(&self) -> Result<bool, StoreError> {
        let path = self.blobs();
        let created = self.disk.create_directories(&path).map_err(StoreError::io("create", &path))?;
        Ok(!created.is_empty())
    }

    /// Makes the names in this directory and its ancestors survive power loss.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        let sync = |path: &Path| self.disk.sync(path).map_err(StoreError::io("sync", path));
        sync(&self.path)?;
        self.path.parent().map_or(Ok(()), sync)?;
        self.ancestors.sync(self.disk.as_ref())
    }

    /// The request's summary, if there is a readable one.
    pub fn summary<S: DeserializeOwned>(&self) -> Option<S> {
        let mut bytes = Vec::new();
        self.disk.read(&self.path.join("summary.json"), 0).ok()?.read_to_end(&mut bytes).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Replaces the summary. A lost one is rebuilt from the log, so it needs no sync.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn write_summary<S: Serialize>(&self, summary: &S) -> Result<(), StoreError> {
        let path = self.path.join("summary.json");
        let temporary = self.path.join(".summary.json.new");
        replace_unsynced(self.disk.as_ref(), &temporary, &path, &serde_json::to_vec(summary)?)
            .map_err(StoreError::io("write", &path))
    }
}
