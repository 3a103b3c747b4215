//! Small files of the user's alone that are replaced as a whole: a reader sees the old one or the new one.
//! Who changes what such a file says holds its [`lock`] from the reading to the replacing.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Holds off all others, of this process and of every other one, that change the same file by its lock.
/// The system takes it back from who dies.
#[must_use = "the lock is held as long as this value lives"]
pub struct Lock(#[expect(dead_code, reason = "held, never read")] File);

/// Waits for the right to read `file`, change what it says and replace it. What is kept beside the file as its
/// lock stays, so that all lock the same one.
///
/// # Errors
/// What the disk says.
pub fn lock(file: &Path) -> io::Result<Lock> {
    create_directory(file)?;
    let mut path = file.as_os_str().to_owned();
    path.push(".lock");
    let held = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    loop {
        match held.lock() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            locked => return locked.map(|()| Lock(held)),
        }
    }
}

/// Puts `bytes` in the place of what `file` holds. Survives a loss of power.
///
/// # Errors
/// What the disk says; the file is then as it was.
pub fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = create_directory(file)?;
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

/// Makes the directory of a file, for its user alone.
fn create_directory(file: &Path) -> io::Result<&Path> {
    let directory = file.parent().unwrap_or(Path::new("/"));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    Ok(directory)
}

/// Reads `file` if it is a plain file of at most `limit` bytes; none when there is none.
///
/// # Errors
/// What the disk says; [`io::ErrorKind::InvalidData`] for anything but such a file.
pub fn read(file: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    match fs::symlink_metadata(file) {
        Ok(found) if found.is_file() && found.len() <= limit => fs::read(file).map(Some),
        Ok(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "it was not created by roo-lsp")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
