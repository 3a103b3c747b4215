//! Where the files of a daemon are, and whether they may be trusted.
//!
//! The socket is in a folder that is the user's alone: `roo-lsp` in the runtime directory, else `daemon` in the state
//! directory. For each environment there is one daemon, whose files have the same beginning.
//!
//! Commands in a sandbox see neither folder. Where a kernel can't keep them from connecting all the same, they lack the key
//! that clients show: it is in the state directory, which they can't read whatever bounds them.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::environment::SessionEnvironment;
use super::log_file::LogFile;
use crate::private_socket::{self, NotPrivate, check_own_socket, check_socket};
use roo_formats::config::Directories;

/// The variable that names the directory of the user's sockets.
const RUNTIME: &str = "XDG_RUNTIME_DIR";
/// Number of digits of the digest of the environment in the names of files: a socket's path has to be short.
const DIGITS: usize = 16;
const SOCKET: &str = "sock";

/// Reasons why there can be no daemon at a place.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlaceError {
    /// The system returned an error.
    #[error("{} can't be used: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Reason why not.
        source: io::Error,
    },
    /// Somebody else might be behind it.
    #[error("{} can't be trusted: {problem}. Remove it, or correct its owner and mode", path.display())]
    NotPrivate {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong.
        problem: NotPrivate,
    },
    /// Paths of sockets are limited.
    #[error("the path {} is too long for a socket; set {RUNTIME} to a shorter one", path.display())]
    TooLong {
        /// The socket.
        path: PathBuf,
    },
}

/// The files of one daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DaemonPlace {
    /// Folder of the socket and its locks.
    folder: PathBuf,
    /// Folder of the log and the key.
    log_folder: PathBuf,
    /// Names the environment.
    name: String,
}

impl DaemonPlace {
    /// The place of the daemon of an environment.
    pub(crate) fn new(directories: &Directories, environment: &SessionEnvironment) -> Self {
        let mut name = environment.digest();
        name.truncate(DIGITS);
        Self { folder: socket_folder(directories), log_folder: log_folder(directories), name }
    }

    /// The places at which there is a socket, also of daemons that have ended.
    ///
    /// # Errors
    /// When the folder can't be read, or isn't the user's alone.
    pub(crate) fn all(directories: &Directories) -> Result<Vec<Self>, PlaceError> {
        let folder = socket_folder(directories);
        let failed = |source| PlaceError::Io { path: folder.clone(), source };
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
            Err(error) => return Err(failed(error)),
        };
        check_folder(&folder)?;
        let mut names = Vec::new();
        for entry in entries {
            let path = PathBuf::from(entry.map_err(failed)?.file_name());
            if path.extension().is_some_and(|extension| extension == SOCKET)
                && let Some(name) = path.file_stem().and_then(|name| name.to_str())
            {
                names.push(name.to_owned());
            }
        }
        names.sort();
        let log_folder = log_folder(directories);
        let place = |name| Self { folder: folder.clone(), log_folder: log_folder.clone(), name };
        Ok(names.into_iter().map(place).collect())
    }

    /// The socket at which the daemon listens.
    pub(super) fn socket(&self) -> PathBuf {
        self.file(SOCKET)
    }

    /// Locked by the daemon for as long as it lives.
    pub(super) fn lock(&self) -> PathBuf {
        self.file("lock")
    }

    /// Locked by a client while it starts a daemon.
    pub(super) fn start_lock(&self) -> PathBuf {
        self.file("start")
    }

    /// Keeps the key of a daemon, which its clients have to show.
    ///
    /// # Errors
    /// When it can't be written.
    pub(super) fn write_key(&self, key: &str) -> Result<(), PlaceError> {
        let path = self.key();
        let write = || {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path)?;
            file.write_all(key.as_bytes())
        };
        write().map_err(|source| PlaceError::Io { path: path.clone(), source })
    }

    /// Returns whether clients find a key.
    pub(super) fn has_key(&self) -> bool {
        self.key().exists()
    }

    /// The key of the daemon.
    ///
    /// # Errors
    /// When it can't be read.
    pub(super) fn read_key(&self) -> Result<String, PlaceError> {
        let path = self.key();
        fs::read_to_string(&path).map_err(|source| PlaceError::Io { path, source })
    }

    fn key(&self) -> PathBuf {
        self.log_folder.join(format!("{}.key", self.name))
    }

    /// What the daemon writes of itself.
    pub(crate) fn log(&self) -> PathBuf {
        self.log_folder.join(format!("{}.log", self.name))
    }

    /// Folder of the marks of requests that are under way in the daemon.
    pub(super) fn marks(&self) -> PathBuf {
        self.log_folder.join(format!("{}.requests", self.name))
    }

    /// Opens the log for writing. Makes its folder.
    ///
    /// # Errors
    /// [`PlaceError`].
    pub(crate) fn open_log(&self) -> Result<LogFile, PlaceError> {
        make_private(&self.log_folder)?;
        let path = self.log();
        LogFile::open(&path).map_err(|source| PlaceError::Io { path, source })
    }

    fn file(&self, extension: &str) -> PathBuf {
        self.folder.join(format!("{}.{extension}", self.name))
    }

    /// Makes the folders, and checks that nobody else can reach what is in them.
    ///
    /// # Errors
    /// [`PlaceError`].
    pub(super) fn prepare(&self) -> Result<(), PlaceError> {
        make_private(&self.folder)?;
        make_private(&self.log_folder)?;
        let path = self.socket();
        SocketAddr::from_pathname(&path).map(drop).map_err(|_| PlaceError::TooLong { path })
    }

    /// Returns whether there is a socket. It is the user's own then, so that something may be said to whoever listens there.
    ///
    /// # Errors
    /// [`PlaceError`], also for a socket that others may use.
    pub(super) fn has_socket(&self) -> Result<bool, PlaceError> {
        let path = self.socket();
        match fs::symlink_metadata(&path) {
            Ok(found) => trusted(&path, check_socket(&found)).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(PlaceError::Io { path, source }),
        }
    }

    /// Listens at the socket, in place of one that was left. Only for the holder of the daemon's lock. It gets its name with
    /// its mode, so that no client finds it otherwise.
    ///
    /// # Errors
    /// [`PlaceError`], also where there is something else than a socket of the user's.
    pub(super) fn listen(&self) -> Result<UnixListener, PlaceError> {
        let (socket, new) = (self.socket(), self.file("new"));
        let failed = |source| PlaceError::Io { path: socket.clone(), source };
        match fs::symlink_metadata(&socket) {
            Ok(found) => trusted(&socket, check_own_socket(&found))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let listener = UnixListener::bind(&new).map_err(failed)?;
        fs::set_permissions(&new, Permissions::from_mode(0o600)).map_err(failed)?;
        fs::rename(&new, &socket).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(listener)
    }

    /// Removes the socket. Only for the holder of the daemon's lock.
    ///
    /// # Errors
    /// [`PlaceError`], also for what is no socket of the user's.
    pub(super) fn remove_socket(&self) -> Result<(), PlaceError> {
        if self.has_socket()? {
            let path = self.socket();
            fs::remove_file(&path).map_err(|source| PlaceError::Io { path, source })?;
        }
        Ok(())
    }
}

/// Opens a file to be locked, and makes it where it isn't there.
///
/// # Errors
/// When it can't be opened.
fn open_lock(path: &Path) -> Result<File, PlaceError> {
    let opened = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path);
    opened.map_err(|source| PlaceError::Io { path: path.to_owned(), source })
}

/// Returns whether a lock is that on the file which has this path now.
pub(super) fn is_lock_at(lock: &File, path: &Path) -> bool {
    let identity = |found: fs::Metadata| (found.dev(), found.ino());
    let ours = lock.metadata().map(identity);
    fs::symlink_metadata(path).is_ok_and(|there| ours.is_ok_and(|ours| identity(there) == ours))
}

/// Locks a file once nobody else has it locked. None when that takes longer than this.
///
/// # Errors
/// When it can't be opened or locked.
pub(super) async fn lock_within(path: PathBuf, limit: Duration) -> Result<Option<File>, PlaceError> {
    let file = open_lock(&path)?;
    let locked = tokio::task::spawn_blocking(move || file.lock().map(|()| file));
    match tokio::time::timeout(limit, locked).await {
        Ok(Ok(Ok(file))) => Ok(Some(file)),
        Ok(Ok(Err(source))) => Err(PlaceError::Io { path, source }),
        // Only while the process ends is the thread gone.
        Ok(Err(_)) | Err(_) => Ok(None),
    }
}

fn socket_folder(directories: &Directories) -> PathBuf {
    let runtime = std::env::var_os(RUNTIME).map(PathBuf::from);
    match runtime.filter(|path| path.is_absolute() && path.is_dir()) {
        Some(runtime) => runtime.join("roo-lsp"),
        None => log_folder(directories),
    }
}

fn log_folder(directories: &Directories) -> PathBuf {
    directories.state.join("daemon")
}

fn make_private(folder: &Path) -> Result<(), PlaceError> {
    let failed = |source| PlaceError::Io { path: folder.to_owned(), source };
    if let Some(parent) = folder.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(failed)?;
    }
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(failed(error)),
        _ => check_folder(folder),
    }
}

fn check_folder(path: &Path) -> Result<(), PlaceError> {
    let found =
        fs::symlink_metadata(path).map_err(|source| PlaceError::Io { path: path.to_owned(), source })?;
    trusted(path, private_socket::check_folder(&found))
}

fn trusted(path: &Path, checked: Result<(), NotPrivate>) -> Result<(), PlaceError> {
    checked.map_err(|problem| PlaceError::NotPrivate { path: path.to_owned(), problem })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(state: &Path) -> DaemonPlace {
        DaemonPlace { folder: state.join("sockets"), log_folder: state.join("logs"), name: "a".to_owned() }
    }

    #[test]
    fn what_others_may_use_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let place = place(directory.path());
        place.prepare().unwrap();
        assert_eq!(fs::metadata(&place.folder).unwrap().mode() & 0o777, 0o700);
        assert!(!place.has_socket().unwrap());
        let _listener = place.listen().unwrap();
        assert!(place.has_socket().unwrap());
        fs::set_permissions(place.socket(), Permissions::from_mode(0o666)).unwrap();
        assert!(matches!(place.has_socket(), Err(PlaceError::NotPrivate { .. })));
        let _next = place.listen().unwrap();
        assert!(place.has_socket().unwrap(), "one that was left is replaced");
        fs::set_permissions(&place.folder, Permissions::from_mode(0o755)).unwrap();
        assert!(matches!(place.prepare(), Err(PlaceError::NotPrivate { .. })));
    }

    #[test]
    fn what_is_no_socket_is_neither_used_nor_removed() {
        let directory = tempfile::tempdir().unwrap();
        let place = place(directory.path());
        place.prepare().unwrap();
        fs::write(place.socket(), "text").unwrap();
        assert!(matches!(place.remove_socket(), Err(PlaceError::NotPrivate { .. })));
        assert!(matches!(place.listen(), Err(PlaceError::NotPrivate { .. })));
        assert_eq!(fs::read_to_string(place.socket()).unwrap(), "text");
    }

    #[test]
    fn a_link_in_place_of_the_folder_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let place = place(directory.path());
        fs::create_dir(directory.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(directory.path().join("elsewhere"), &place.folder).unwrap();
        assert!(matches!(place.prepare(), Err(PlaceError::NotPrivate { .. })));
    }

    #[test]
    fn a_key_is_kept_for_the_user_alone() {
        let directory = tempfile::tempdir().unwrap();
        let place = place(directory.path());
        place.prepare().unwrap();
        assert!(place.read_key().is_err());
        for key in ["first", "second"] {
            place.write_key(key).unwrap();
            assert_eq!(place.read_key().unwrap(), key);
        }
        assert_eq!(fs::metadata(place.key()).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_path_that_is_too_long_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let place = place(&directory.path().join("x".repeat(120)));
        assert!(matches!(place.prepare(), Err(PlaceError::TooLong { .. })));
    }
}
