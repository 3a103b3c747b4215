//! What is at the path of a file, seen without following links: a directory, a link, or something else in place of a
//! directory above it. A restore makes room there.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_fs_ext::DirExt as _;
use cap_std::fs::Dir;

use super::Workspace;
use super::folder::Folder;
use super::resolver::Resolved;
use roo_protocol::ids::Digest;

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathEntry {
    /// A file or nothing, below real or missing directories.
    Plain,
    Directory,
    /// A symbolic link to this.
    Link(Vec<u8>),
    /// In place of a directory above it, at this path, is something else.
    Below(PathBuf),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileOrLink {
    /// A file with these bytes.
    File(Arc<[u8]>),
    /// A symbolic link to this.
    Link(Arc<[u8]>),
}

impl Workspace {
    /// Looks at a path as it is written; none where it leads into no workspace folder. Reads the disk.
    ///
    /// # Errors
    /// Those of the system.
    pub fn path_entry(&self, path: &str) -> io::Result<Option<(Resolved, PathEntry)>> {
        let Some(place) = self.roots().literal(path) else { return Ok(None) };
        let entry = look(&place)?;
        Ok(Some((place, entry)))
    }

    /// Removes what is at a place, if it still is that: a link, or a directory without files. Writes the disk.
    ///
    /// # Errors
    /// Those of the system; [`io::ErrorKind::DirectoryNotEmpty`] for a directory with files, and
    /// [`io::ErrorKind::AlreadyExists`] where something else is there.
    pub fn make_room(&self, place: &Resolved, entry: &PathEntry) -> io::Result<()> {
        let (directory, name) = match place.parent() {
            Err(error) if is_missing(&error) => return Ok(()),
            parent => parent?,
        };
        match entry {
            PathEntry::Plain | PathEntry::Below(_) => return Ok(()),
            PathEntry::Directory => match remove_empty(&directory, name) {
                Err(error) if is_missing(&error) => return Ok(()),
                removed => removed?,
            },
            PathEntry::Link(target) => match target_of(&directory, name) {
                Ok(now) if now == *target => directory.remove_file(name)?,
                Ok(_) => return Err(io::ErrorKind::AlreadyExists.into()),
                Err(error) => return Err(error),
            },
        }
        Folder::sync(&directory)
    }

    /// Has a file or a link take the place of another one at once, if that still is what is there. Writes the disk.
    ///
    /// # Errors
    /// Those of the system; [`io::ErrorKind::AlreadyExists`] where something else is there.
    pub fn swap(&self, place: &Resolved, from: &FileOrLink, to: &FileOrLink) -> io::Result<()> {
        let (directory, name) = place.parent()?;
        let is_there = match from {
            FileOrLink::Link(target) => target_of(&directory, name)? == **target,
            FileOrLink::File(bytes) => {
                matches!(Folder::digest(&directory, name), Ok(Some(digest)) if digest == Digest::of(bytes))
            }
        };
        if !is_there {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let temporary = roo_durable::temporary_name();
        match to {
            FileOrLink::Link(target) => rustix::fs::symlinkat(&**target, &directory, &temporary)?,
            FileOrLink::File(bytes) => Folder::create(&directory, &temporary, bytes, None)?,
        }
        if let Err(error) = Folder::rename(&directory, &temporary, name) {
            let _ = directory.remove_file(&temporary);
            return Err(error);
        }
        Folder::sync(&directory)
    }

    /// Makes a symbolic link where nothing is, with the directories above it. Writes the disk.
    ///
    /// # Errors
    /// Those of the system.
    pub fn make_link(&self, place: &Resolved, target: &[u8]) -> io::Result<()> {
        let (directory, name) = place.parent_created()?;
        rustix::fs::symlinkat(target, &directory, name)?;
        Folder::sync(&directory)
    }
}

/// Finds a file below a directory that is none of those that go. Reads the disk.
///
/// # Errors
/// Those of the system.
pub fn file_that_stays(directory: &Path, gone: &BTreeSet<PathBuf>) -> io::Result<Option<PathBuf>> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let path = entry.path();
        let found = match entry.file_type()?.is_dir() {
            true => file_that_stays(&path, gone)?,
            false => (!gone.contains(&path)).then_some(path),
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

fn look(place: &Resolved) -> io::Result<PathEntry> {
    let (directories, name) = place.names_below();
    let mut directory = place.base().try_clone()?;
    let parts: Vec<&str> = directories.split('/').filter(|part| !part.is_empty()).collect();
    for (number, part) in parts.iter().enumerate() {
        match directory.symlink_metadata(part) {
            Err(error) if is_missing(&error) => return Ok(PathEntry::Plain),
            Ok(found) if !found.is_dir() => {
                let above = place.absolute().ancestors().nth(parts.len() - number);
                return Ok(PathEntry::Below(above.unwrap_or(place.absolute()).to_owned()));
            }
            found => {
                found?;
            }
        }
        directory = directory.open_dir_nofollow(part)?;
    }
    match directory.symlink_metadata(name) {
        Err(error) if is_missing(&error) => Ok(PathEntry::Plain),
        Ok(found) if found.is_dir() => Ok(PathEntry::Directory),
        Ok(found) if found.is_symlink() => target_of(&directory, name).map(PathEntry::Link),
        found => found.map(|_| PathEntry::Plain),
    }
}

fn target_of(directory: &Dir, name: &str) -> io::Result<Vec<u8>> {
    Ok(rustix::fs::readlinkat(directory, name, Vec::new())?.into_bytes())
}

/// Removes a directory in which there are only directories.
fn remove_empty(parent: &Dir, name: &str) -> io::Result<()> {
    let directory = parent.open_dir_nofollow(name)?;
    for entry in directory.entries()? {
        let entry = entry?;
        let inner = entry.file_name();
        match inner.to_str() {
            Some(inner) if entry.file_type()?.is_dir() => remove_empty(&directory, inner)?,
            _ => return Err(io::ErrorKind::DirectoryNotEmpty.into()),
        }
    }
    parent.remove_dir(name)
}

fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}
