//! Files of configuration that this program changes: read whole, and replaced at once unless somebody else has changed them in
//! the meantime. What is written into them is decided by the caller.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use roo_durable::disk::{Access, RealDisk};
use roo_durable::replace_checked;
use roo_workspace::{PathError, Purpose, ReadError, Resolved, Roots, read_disk};

/// A file that the user names, wherever it is.
///
/// # Errors
/// When there can't be one, in words for people.
pub(crate) fn file_at(path: &Path) -> Result<Resolved, Box<dyn Error>> {
    let path = std::path::absolute(path)?;
    let path = path.to_str().ok_or("its path is not valid UTF-8")?;
    match Roots::open(&[])?.resolve(path, Purpose::Read) {
        // Its own text tells a model what to call.
        Err(PathError::IsADirectory { .. }) => Err("it is a directory; give a file".into()),
        resolved => Ok(resolved?),
    }
}

/// The text of a file, wherever it is; none when it isn't there. No pipe is waited for.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Option<String>, Box<dyn Error>> {
    match read_disk(&file_at(path)?, limit) {
        Ok(bytes) => Ok(Some(String::from_utf8(bytes)?)),
        Err(ReadError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A file as it was read, to be replaced.
pub(crate) struct ConfigurationFile {
    path: PathBuf,
    limit: u64,
    before: String,
}

impl ConfigurationFile {
    /// Reads a file of at most `limit` bytes. One that is missing is empty.
    pub(crate) fn open(path: PathBuf, limit: u64) -> Result<Self, Box<dyn Error>> {
        let before = read(&path, limit)?.unwrap_or_default();
        Ok(Self { path, limit, before })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The text that was read.
    pub(crate) fn text(&self) -> &str {
        &self.before
    }

    /// Puts a text in the place of what was read. Only its user can read a file outside of the workspace folder.
    pub(crate) fn replace(&self, workspace: &Path, text: &str) -> Result<(), Box<dyn Error>> {
        let directory = self.path.parent().ok_or("it has no directory")?;
        std::fs::create_dir_all(directory)?;
        let is_inside = self.path.starts_with(workspace);
        let is_link = self.path.is_symlink();
        if is_inside && is_link {
            return Err("it is a symlink; change the file that it points to".into());
        }
        if is_inside && !directory.canonicalize()?.starts_with(workspace) {
            return Err("its directory is a symlink that points outside the workspace".into());
        }
        // A link of the user's, as to a repository of dotfiles, stays one.
        let target = if is_link { self.path.canonicalize()? } else { self.path.clone() };
        let check = || match read(&self.path, self.limit) {
            Ok(now) if now.as_deref().unwrap_or_default() == self.before => Ok(()),
            Ok(_) => Err(io::Error::other("it has changed in the meantime; try again")),
            Err(error) => Err(io::Error::other(error.to_string())),
        };
        let access = if is_inside { Access::Shared } else { Access::Private };
        Ok(replace_checked(&RealDisk, &target, text.as_bytes(), access, check)?)
    }
}
