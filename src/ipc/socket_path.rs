//! Where the socket is: the variable by which Roo Code and its clients name it, or else the user's setting.

use std::path::PathBuf;

use roo_formats::config::Settings;

use super::socket::SocketError;

/// The variable that names the socket.
pub(crate) const VARIABLE: &str = "ROO_CODE_IPC_SOCKET_PATH";

/// The path that the environment names, or else the user's settings; none where neither does.
///
/// # Errors
/// [`SocketError::Relative`] for a setting: which directory it would be below is not the user's to know.
pub(crate) fn socket_path(settings: &Settings) -> Result<Option<PathBuf>, SocketError> {
    if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        return Ok(Some(PathBuf::from(path)));
    }
    match &settings.ipc_socket {
        Some(path) if path.is_relative() => Err(SocketError::Relative(path.clone())),
        path => Ok(path.clone()),
    }
}

/// The folders in which commands of agents may put a socket of their own: those of the workspace, and what the settings let them
/// write. Reads the disk.
pub(crate) fn reachable(folders: &[PathBuf], settings: &Settings) -> Vec<PathBuf> {
    // Commands may write where these lead.
    let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
    folders.iter().chain(&settings.sandbox.writable).map(real).collect()
}
