//! Which paths steer a git repository, hold its history, or are no more than its objects, by their names alone.

use std::ffi::OsStr;
use std::path::Path;

/// Entries of a git directory that hold its history and make git run nothing.
const GIT_HISTORY: &[&str] = &["HEAD", "index", "logs", "refs", "packed-refs", "ORIG_HEAD", "FETCH_HEAD"];
/// Entries that make a directory a repository, whatever its name.
pub(super) const REPOSITORY_PARTS: &[&str] = &["HEAD", "commondir", "objects", "refs"];
/// Further entries of such a directory that steer git, with all below them.
pub(super) const STEERING: &[&str] =
    &["config", "config.worktree", "gitdir", "hooks", "info", "rebase-merge", "sequencer"];

pub(super) fn is_one_of(name: &OsStr, known: &[&str]) -> bool {
    known.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Returns whether a path of a repository, whose `.git` is a part of it or not, may be that of a file whose earlier content is
/// needed at the end. What git keeps besides may be large, and is many.
pub(super) fn may_have_to_be_restored(path: &Path) -> bool {
    path.ends_with(".git")
        || path.file_name().is_some_and(|name| is_one_of(name, REPOSITORY_PARTS))
        || path.components().any(|name| is_one_of(name.as_os_str(), STEERING))
}

/// Returns whether a path has the name that git, or its extension for large files, gives an object or a pack of them. Such a file
/// steers nothing, wherever it is.
pub(super) fn is_git_object(path: &Path) -> bool {
    let mut names = path.components().rev().map(|name| name.as_os_str().as_encoded_bytes());
    let (Some(name), Some(directory)) = (names.next(), names.next()) else { return false };
    let is_hexadecimal = |text: &[u8]| text.iter().all(u8::is_ascii_hexdigit);
    let is_loose =
        name.len() >= 38 && is_hexadecimal(name) && directory.len() == 2 && is_hexadecimal(directory);
    is_loose || (directory == b"pack" && name.starts_with(b"pack-"))
}

/// Returns whether a path is that of a `.git`, or of something in it that may steer git: programs that it runs, and where
/// it takes contents and settings from.
pub(super) fn may_steer_dot_git(path: &Path) -> bool {
    let mut names = path.components().map(std::path::Component::as_os_str);
    if !names.by_ref().any(|name| name == ".git") || is_transient(path) {
        return path.ends_with(".git");
    }
    match (names.next(), names.next()) {
        (None, _) => true,
        (Some(name), inner) if name == "objects" => inner.is_none_or(|inner| inner == "info"),
        (Some(name), _) => !GIT_HISTORY.iter().any(|history| name == *history),
    }
}

/// Returns whether a name in a git directory is one that is left behind when git is interrupted.
pub(super) fn is_transient(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.ends_with(b".lock") || name.starts_with(b"tmp_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_git_are_known_by_their_names() {
        let object = "0123456789abcdef0123456789abcdef012345";
        let large = object.repeat(2);
        for path in [
            format!("/w/.git/modules/m/objects/ab/{object}"),
            format!("/w/.git/lfs/objects/ab/cd/{large}"),
            "/w/.git/modules/m/objects/pack/pack-ab.idx".to_owned(),
        ] {
            assert!(is_git_object(Path::new(&path)), "{path}");
        }
        for path in [
            format!("/w/.git/modules/m/objects/ab/{object}/config"),
            format!("/w/.git/modules/{object}"),
            "/w/.git/modules/m/objects/ab/HEAD".to_owned(),
            "/w/.git/modules/pack/config".to_owned(),
        ] {
            assert!(!is_git_object(Path::new(&path)), "{path}");
        }
    }
}
