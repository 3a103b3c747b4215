//! A file of patterns at the top of a workspace folder: its text, and whether it has changed.

use std::io::{self, Read as _};
use std::time::SystemTime;

use cap_std::fs::Dir;

/// The largest one, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Modification time, size and identity of the file; none when missing.
pub(super) type Stamp = Option<(Option<SystemTime>, u64, Identity)>;

/// The file's inode number and the time of its last status change, which programs can't set: seconds and nanoseconds.
type Identity = (u64, i64, i64);

/// Returns the current stamp of a file.
pub(super) fn stamp(root: &Dir, name: &str) -> Stamp {
    match root.metadata(name) {
        Ok(found) => Some((found.modified().ok().map(|time| time.into_std()), found.len(), identity(&found))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        // Opening it reports the error.
        Err(_) => Some((None, u64::MAX, (0, 0, 0))),
    }
}

#[cfg(unix)]
fn identity(found: &cap_std::fs::Metadata) -> Identity {
    use cap_std::fs::MetadataExt as _;
    (found.ino(), found.ctime(), found.ctime_nsec())
}

#[cfg(not(unix))]
fn identity(_: &cap_std::fs::Metadata) -> Identity {
    (0, 0, 0)
}

/// A file's text; none where it is missing.
pub(super) fn read(root: &Dir, name: &str) -> io::Result<Option<String>> {
    let found = match root.metadata(name) {
        // A dangling link is not a missing file: rules were intended.
        Err(error) if error.kind() == io::ErrorKind::NotFound && root.symlink_metadata(name).is_err() => {
            return Ok(None);
        }
        found => found?,
    };
    if !found.is_file() || found.len() > MAX_FILE_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a regular file of at most 1 MiB"));
    }
    let mut text = String::new();
    root.open(name)?.take(MAX_FILE_BYTES).read_to_string(&mut text)?;
    Ok(Some(text))
}
