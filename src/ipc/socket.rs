//! The socket at which clients connect: private to its user, and out of the reach of commands in the sandbox, which may connect to no
//! socket but their own, and could otherwise put one of theirs in its place.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use roo_text::render::exact_line;
use tokio::net::{UnixListener, UnixStream};

use crate::private_socket::{check_folder, check_own_socket, own_user};

/// Pause when no connection can be accepted, as when there are too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// Reasons why no socket can be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SocketError {
    #[error("the socket's path {} names no file in a folder", shown(.0))]
    NoName(PathBuf),
    #[error("the setting ipcSocket is {}, which is no absolute path; write the whole path", shown(.0))]
    Relative(PathBuf),
    #[error(
        "the socket {} would be in {}, which commands of agents may write; name another folder",
        shown(path),
        shown(within)
    )]
    Reachable { path: PathBuf, within: PathBuf },
    #[error(
        "the folder {} of the socket is open to others; name a folder of your own that only you can enter",
        shown(.0)
    )]
    NotPrivate(PathBuf),
    #[error("another program listens at {}; end it, or name another socket", shown(.0))]
    InUse(PathBuf),
    #[error("{} is there and is no socket of yours; remove it, or name another socket", shown(.0))]
    Occupied(PathBuf),
    #[error("the socket {} can't be made: {source}", shown(path))]
    Io { path: PathBuf, source: io::Error },
}

fn shown(path: &Path) -> String {
    exact_line(&path.to_string_lossy())
}

/// A socket that is listened at. Its file is removed with it.
#[derive(Debug)]
pub(crate) struct IpcSocket {
    listener: UnixListener,
    path: PathBuf,
    /// Device and number of the file.
    identity: (u64, u64),
}

impl IpcSocket {
    /// Listens at a path. The folder is made if it is missing. A socket that nobody listens at any more is replaced.
    /// `reachable`: folders that commands of agents may write. To be called within a runtime; writes the disk.
    ///
    /// # Errors
    /// [`SocketError`].
    pub(crate) fn bind(path: &Path, reachable: &[PathBuf]) -> Result<Self, SocketError> {
        let failed = |source| SocketError::Io { path: path.to_owned(), source };
        let absolute = std::path::absolute(path).map_err(failed)?;
        let (Some(folder), Some(name)) = (absolute.parent(), absolute.file_name()) else {
            return Err(SocketError::NoName(path.to_owned()));
        };
        // Before a folder is made where none may be.
        check_reach(&absolute, reachable)?;
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        let folder = folder.canonicalize().map_err(failed)?;
        let path = folder.join(name);
        check_reach(&path, reachable)?;
        let found = folder.metadata().map_err(failed)?;
        if check_folder(&found).is_err() {
            return Err(SocketError::NotPrivate(folder));
        }
        remove_stale(&path)?;
        // Nobody else can enter the folder meanwhile.
        let bound = StdListener::bind(&path).and_then(|listener| {
            fs::set_permissions(&path, Permissions::from_mode(0o600))?;
            listener.set_nonblocking(true)?;
            let found = fs::symlink_metadata(&path)?;
            Ok((UnixListener::from_std(listener)?, (found.dev(), found.ino())))
        });
        let (listener, identity) = bound.map_err(failed)?;
        Ok(Self { listener, path, identity })
    }

    /// Its real path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The next connection of a program of the same user.
    pub(super) async fn accept(&self) -> UnixStream {
        loop {
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                // The client has gone, or too many files are open.
                Err(error) => {
                    tracing::warn!("an IPC client can't be accepted: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            match stream.peer_cred() {
                Ok(peer) if peer.uid() == own_user() => return stream,
                Ok(peer) => tracing::warn!("an IPC client of another user ({}) was refused", peer.uid()),
                Err(error) => tracing::warn!("an IPC client was refused, as its user is not known: {error}"),
            }
        }
    }
}

impl Drop for IpcSocket {
    fn drop(&mut self) {
        // Another process may have replaced it.
        let found = fs::symlink_metadata(&self.path).map(|found| (found.dev(), found.ino()));
        if found.is_ok_and(|found| found == self.identity)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!("the socket {} can't be removed: {error}", shown(&self.path));
        }
    }
}

fn check_reach(path: &Path, reachable: &[PathBuf]) -> Result<(), SocketError> {
    match reachable.iter().find(|within| path.starts_with(within)) {
        Some(within) => Err(SocketError::Reachable { path: path.to_owned(), within: within.clone() }),
        None => Ok(()),
    }
}

/// Removes the socket of a process that has ended without doing so.
fn remove_stale(path: &Path) -> Result<(), SocketError> {
    let failed = |source| SocketError::Io { path: path.to_owned(), source };
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    if check_own_socket(&found).is_err() {
        return Err(SocketError::Occupied(path.to_owned()));
    }
    match StdStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(failed)
        }
        Ok(_) | Err(_) => Err(SocketError::InUse(path.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn private_folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
        folder
    }

    fn bind(path: &Path) -> Result<IpcSocket, SocketError> {
        IpcSocket::bind(path, &[])
    }

    #[tokio::test]
    async fn a_socket_is_private_and_is_removed_with_its_listener() {
        let folder = private_folder();
        let path = folder.path().join("new/roo.sock");
        let socket = bind(&path).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert!(matches!(bind(&path), Err(SocketError::InUse(_))));
        drop(socket);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_socket_whose_listener_is_gone_is_replaced_and_nothing_else_is() {
        let folder = private_folder();
        let path = folder.path().join("roo.sock");
        drop(StdListener::bind(&path).unwrap());
        assert!(path.exists(), "it is stale");
        let socket = bind(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let other = StdListener::bind(&path).unwrap();
        drop(socket);
        assert!(path.exists(), "it is another's now");
        drop(other);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "mine").unwrap();
        let link = folder.path().join("link.sock");
        std::os::unix::fs::symlink(folder.path().join("elsewhere.sock"), &link).unwrap();
        for occupied in [&path, &link] {
            assert!(matches!(bind(occupied), Err(SocketError::Occupied(_))));
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    }

    #[tokio::test]
    async fn no_socket_is_where_others_or_commands_can_put_theirs() {
        let folder = private_folder();
        let open = folder.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o750)).unwrap();
        let refused = bind(&open.join("roo.sock")).unwrap_err();
        assert!(matches!(refused, SocketError::NotPrivate(_)), "{refused}");

        let workspace = folder.path().canonicalize().unwrap().join("work");
        fs::create_dir(&workspace).unwrap();
        std::os::unix::fs::symlink(&workspace, folder.path().join("link")).unwrap();
        for path in [workspace.join("new/roo.sock"), folder.path().join("link/roo.sock")] {
            let refused = IpcSocket::bind(&path, std::slice::from_ref(&workspace)).unwrap_err();
            assert!(matches!(refused, SocketError::Reachable { .. }), "{refused}");
        }
        assert!(!workspace.join("new").exists());
    }
}
