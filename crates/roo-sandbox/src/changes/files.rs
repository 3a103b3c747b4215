//! Files below a handle, reached through no link.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

#[cfg(not(target_os = "linux"))]
use rustix::fs::fchmod;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, renameat, statat, unlinkat,
};

use super::record::{Fingerprint, Kind};

/// Opens a root, wherever its path leads.
pub(super) fn open_root(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags, Mode::empty())?)
}

/// Opens a directory by its name.
pub(super) fn open_directory(parent: impl AsFd, name: &[u8]) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(parent, name, flags, Mode::empty())?)
}

/// The directory that holds a path, and its name there.
pub(super) fn parent<'a>(root: BorrowedFd<'_>, path: &'a [u8]) -> io::Result<(OwnedFd, &'a [u8])> {
    let mut directory = root.try_clone_to_owned()?;
    let mut names = path.split(|&byte| byte == b'/').peekable();
    while let Some(name) = names.next() {
        if names.peek().is_none() {
            return Ok((directory, name));
        }
        directory = open_directory(&directory, name)?;
    }
    Err(io::ErrorKind::InvalidInput.into())
}

/// Returns the fingerprint of the file there; none when nothing is.
pub(super) fn look(directory: impl AsFd, name: &[u8]) -> io::Result<Option<Fingerprint>> {
    match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(Some(fingerprint(&found))),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the numbers of the device and of the file there, also of a directory; none when nothing is.
pub(super) fn identity(directory: impl AsFd, name: &[u8]) -> Option<(u64, u64)> {
    let found = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some((unsigned(found.st_dev), unsigned(found.st_ino)))
}

/// The fields of a `stat` have other types on other systems.
fn number<T: TryInto<i64>>(value: T) -> i64 {
    value.try_into().unwrap_or(i64::MAX)
}

pub(super) fn unsigned<T: TryInto<u64>>(value: T) -> u64 {
    value.try_into().unwrap_or(u64::MAX)
}

pub(super) fn fingerprint(found: &Stat) -> Fingerprint {
    let kind = kind_of(FileType::from_raw_mode(found.st_mode));
    let mode = u32::try_from(unsigned(found.st_mode) & 0o7777).unwrap_or_default();
    if kind == Kind::Directory {
        // The rest follows from what it holds.
        return Fingerprint { kind, mode, size: 0, modified: (0, 0), changed: (0, 0), inode: 0, device: 0 };
    }
    Fingerprint {
        kind,
        mode,
        size: unsigned(found.st_size),
        modified: (number(found.st_mtime), number(found.st_mtime_nsec)),
        changed: (number(found.st_ctime), number(found.st_ctime_nsec)),
        inode: unsigned(found.st_ino),
        device: unsigned(found.st_dev),
    }
}

/// Opens a regular file for reading, without waiting for what only looks like one.
pub(super) fn open_file(directory: impl AsFd, name: &[u8]) -> io::Result<(File, Fingerprint)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(directory, name, flags, Mode::empty())?;
    let found = fingerprint(&fstat(&file)?);
    if found.kind == Kind::File { Ok((file.into(), found)) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// Reads at most so many bytes; none when there are more.
pub(super) fn read_at_most(file: impl io::Read, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    Ok((u64::try_from(bytes.len()).unwrap_or(u64::MAX) <= limit).then_some(bytes))
}

/// Returns the target of a link.
pub(super) fn target(directory: impl AsFd, name: &[u8]) -> io::Result<Vec<u8>> {
    Ok(readlinkat(directory, name, Vec::new())?.into_bytes())
}

/// A path of this system.
pub(super) fn path(bytes: &[u8]) -> PathBuf {
    OsStr::from_bytes(bytes).into()
}

/// Opens a directory below a root by its path, through no link; the root itself for an empty one.
pub(super) fn open_below(root: BorrowedFd<'_>, path: &[u8]) -> io::Result<OwnedFd> {
    if path.is_empty() {
        return open_directory(root, b".");
    }
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{ResolveFlags, openat2};

        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        Ok(rustix::io::retry_on_intr(|| openat2(root, path, flags, Mode::empty(), resolve))?)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let (above, name) = parent(root, path)?;
        open_directory(above, name)
    }
}

/// The names in a directory with what each is, where the file system tells.
pub(super) fn entries(directory: &OwnedFd) -> rustix::io::Result<Vec<(Vec<u8>, Option<Kind>)>> {
    let mut entries = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            let kind = match entry.file_type() {
                FileType::Unknown => None,
                kind => Some(kind_of(kind)),
            };
            entries.push((name.to_vec(), kind));
        }
    }
    Ok(entries)
}

pub(super) fn kind_of(kind: FileType) -> Kind {
    match kind {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Link,
        _ => Kind::Special,
    }
}

/// The names in a directory.
pub(super) fn names(directory: &OwnedFd) -> rustix::io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(name.to_vec());
        }
    }
    Ok(names)
}

/// A path below another.
pub(super) fn join(prefix: &[u8], name: &[u8]) -> Vec<u8> {
    if prefix.is_empty() { name.to_vec() } else { [prefix, b"/", name].concat() }
}

/// A name for what is to be moved to its own.
pub(super) fn pending() -> Vec<u8> {
    format!(".roo-lsp-{}", uuid::Uuid::new_v4()).into_bytes()
}

/// Returns whether what was moved is what was expected. A move changes the time that nobody can set.
pub(super) fn is_same_file(moved: &Fingerprint, expected: &Fingerprint) -> bool {
    Fingerprint { changed: expected.changed, ..*moved } == *expected
}

/// Sets permissions, of no link's target and also where they forbid to open it.
pub(super) fn set_mode(directory: &OwnedFd, name: &[u8], mode: u32) -> io::Result<()> {
    let mode = Mode::from_raw_mode(mode);
    #[cfg(target_os = "linux")]
    {
        let handle =
            openat(directory, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        if fingerprint(&rustix::fs::fstat(&handle)?).kind == Kind::Link {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // A handle of this kind takes no other way.
        let place = format!("/proc/self/fd/{}", handle.as_raw_fd());
        Ok(rustix::fs::chmod(place, mode)?)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(fchmod(openat(directory, name, flags, Mode::empty())?, mode)?)
    }
}

/// Removes a directory with all below, however deep and whatever its permissions, through no link.
///
/// # Errors
/// Those of the system.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let parent = open_root(path.parent().unwrap_or(path))?;
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    match look(&parent, name)? {
        None => return Ok(()),
        Some(found) if found.kind != Kind::Directory => {
            return Ok(unlinkat(&parent, name, AtFlags::empty())?);
        }
        Some(_) => {}
    }
    set_mode(&parent, name, 0o700)?;
    let top = open_directory(&parent, name)?;
    loop {
        let names = names(&top)?;
        if names.is_empty() {
            return Ok(unlinkat(&parent, name, AtFlags::REMOVEDIR)?);
        }
        for name in names {
            match look(&top, &name)? {
                Some(found) if found.kind == Kind::Directory => raise(&top, &name)?,
                Some(_) => unlinkat(&top, &*name, AtFlags::empty())?,
                None => {}
            }
        }
    }
}

/// Removes a directory, the directories in which come up beside it: so no depth needs more than two handles.
fn raise(top: &OwnedFd, name: &[u8]) -> io::Result<()> {
    set_mode(top, name, 0o700)?;
    let directory = open_directory(top, name)?;
    for inner in names(&directory)? {
        match look(&directory, &inner)? {
            Some(found) if found.kind == Kind::Directory => {
                // To be moved it has to be writable itself.
                set_mode(&directory, &inner, 0o700)?;
                renameat(&directory, &*inner, top, &*pending())?;
            }
            Some(_) => unlinkat(&directory, &*inner, AtFlags::empty())?,
            None => {}
        }
    }
    Ok(unlinkat(top, name, AtFlags::REMOVEDIR)?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn any_tree_can_be_removed() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().join("top");
        fs::create_dir(&top).unwrap();
        // Far deeper than a path can say, or handles can be held.
        let mut directory = open_root(&top).unwrap();
        for _ in 0..5_000 {
            rustix::fs::mkdirat(&directory, "deep", rustix::fs::Mode::RWXU).unwrap();
            directory = open_directory(&directory, b"deep").unwrap();
        }
        fs::create_dir_all(top.join("closed/inner")).unwrap();
        fs::write(top.join("closed/inner/file"), "x").unwrap();
        std::os::unix::fs::symlink("/", top.join("closed/link")).unwrap();
        for closed in ["closed/inner", "closed"] {
            fs::set_permissions(top.join(closed), fs::Permissions::from_mode(0o0)).unwrap();
        }
        remove_tree(&top).unwrap();
        assert!(!top.exists());
        remove_tree(&top).unwrap();
    }
}
