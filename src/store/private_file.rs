//! Small files of the user's alone that are replaced as a whole: a reader sees the old one or the new one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Puts `bytes` in the place of what `file` holds. Survives a loss of power.
///
/// # Errors
/// What the disk says; the file is then as it was.
pub fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("/"));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    // Two servers may write at once; each has a name of its own.
    let temporary = file.with_extension(format!("{}.new", uuid::Uuid::new_v4().simple()));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&temporary, file));
    if written.is_err() {
        // What failed is told; that the leftover stays is not worth a second message.
        let _ = fs::remove_file(&temporary);
    }
    written.and_then(|()| File::open(directory)?.sync_all())
}

/// What `file` holds, if it is a plain file of at most `limit` bytes; none when there is none.
///
/// # Errors
/// What the disk says; [`io::ErrorKind::InvalidData`] for anything but such a file.
pub fn read(file: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    match fs::symlink_metadata(file) {
        Ok(found) if found.is_file() && found.len() <= limit => fs::read(file).map(Some),
        Ok(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "it is no file of ours")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
