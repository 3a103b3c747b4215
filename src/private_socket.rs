//! Whether a socket and its folder are the user's alone, so that nobody else can listen or connect in their place.
//!
//! What a socket is for, and what is done where it isn't private, is for those to say who listen there.

use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

/// Reason why a file or folder is not the user's alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotPrivate {
    #[error("it is no socket")]
    NoSocket,
    #[error("it is no folder")]
    NoFolder,
    #[error("it belongs to another user")]
    OtherOwner,
    #[error("other users may use it")]
    OpenToOthers,
}

/// The user whose process this is.
pub(crate) fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Checks that a file, not what a link leads to, is a socket of the user's, whoever may use it.
pub(crate) fn check_own_socket(found: &Metadata) -> Result<(), NotPrivate> {
    match found.file_type().is_socket() {
        true => check_owner(found),
        false => Err(NotPrivate::NoSocket),
    }
}

/// Checks that a file, not what a link leads to, is a socket that only the user may use.
pub(crate) fn check_socket(found: &Metadata) -> Result<(), NotPrivate> {
    check_own_socket(found).and_then(|()| check_mode(found))
}

/// Checks that a folder is one that only the user may enter.
pub(crate) fn check_folder(found: &Metadata) -> Result<(), NotPrivate> {
    match found.is_dir() {
        true => check_owner(found).and_then(|()| check_mode(found)),
        false => Err(NotPrivate::NoFolder),
    }
}

fn check_owner(found: &Metadata) -> Result<(), NotPrivate> {
    if found.uid() == own_user() { Ok(()) } else { Err(NotPrivate::OtherOwner) }
}

fn check_mode(found: &Metadata) -> Result<(), NotPrivate> {
    if found.mode() & 0o077 == 0 { Ok(()) } else { Err(NotPrivate::OpenToOthers) }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_socket_and_a_folder_are_private_by_kind_and_mode() {
        let directory = tempfile::tempdir().unwrap();
        let (folder, socket) = (directory.path().join("folder"), directory.path().join("sock"));
        fs::create_dir(&folder).unwrap();
        let _listener = UnixListener::bind(&socket).unwrap();
        let found = |path: &std::path::Path, mode: u32| {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
            fs::symlink_metadata(path).unwrap()
        };
        assert_eq!(check_folder(&found(&folder, 0o700)), Ok(()));
        assert_eq!(check_folder(&found(&folder, 0o710)), Err(NotPrivate::OpenToOthers));
        assert_eq!(check_socket(&found(&socket, 0o600)), Ok(()));
        let open = found(&socket, 0o666);
        assert_eq!((check_socket(&open), check_own_socket(&open)), (Err(NotPrivate::OpenToOthers), Ok(())));
        assert_eq!(check_folder(&open), Err(NotPrivate::NoFolder));
        assert_eq!(check_socket(&found(&folder, 0o700)), Err(NotPrivate::NoSocket));
    }

    #[test]
    fn a_link_is_neither() {
        let directory = tempfile::tempdir().unwrap();
        let (socket, link) = (directory.path().join("sock"), directory.path().join("link"));
        let _listener = UnixListener::bind(&socket).unwrap();
        std::os::unix::fs::symlink(&socket, &link).unwrap();
        let found = fs::symlink_metadata(&link).unwrap();
        assert_eq!(check_own_socket(&found), Err(NotPrivate::NoSocket));
        assert_eq!(check_folder(&found), Err(NotPrivate::NoFolder));
    }
}
