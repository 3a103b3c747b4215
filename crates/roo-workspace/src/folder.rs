//! Directories of the workspace as commits change them: by names within an open directory, never by paths, and without
//! following links. Tests use directories on a simulated disk.

use std::io::{self, Write as _};
use std::path::Path;

use cap_std::fs::{Dir, File, OpenOptions, OpenOptionsExt as _};

use super::file::{EDIT_LIMIT, EntryError, read_entry};
use super::resolver::{Resolved, Roots};
use roo_protocol::ids::Digest;

/// A directory whose files are replaced atomically.
pub(super) trait Folder: Send + Sync {
    /// The digest of a regular file of at most [`EDIT_LIMIT`] bytes; none where nothing has this name.
    fn digest(&self, name: &str) -> Result<Option<Digest>, EntryError>;

    /// Returns whether anything has this name.
    fn has(&self, name: &str) -> bool;

    /// Creates a file whose bytes survive a loss of power, with the owner and mode of `like` if given.
    fn create(&self, name: &str, content: &[u8], like: Option<&Resolved>) -> io::Result<()>;

    /// Exchanges two files atomically.
    fn exchange(&self, one: &str, other: &str) -> io::Result<()>;

    /// Renames a file, replacing one that has the new name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Renames a file to a name that must not exist.
    fn rename_new(&self, from: &str, to: &str) -> io::Result<()>;

    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes the names survive a loss of power.
    fn sync(&self) -> io::Result<()>;
}

/// Finds the directory of a file that is to change.
pub(super) trait Folders: std::fmt::Debug + Send + Sync {
    /// Finds the place of a file of which the path was kept, as [`Roots::resolve_kept`] does.
    fn place(&self, roots: &Roots, path: &Path) -> io::Result<Option<Resolved>>;

    fn parent(&self, place: &Resolved) -> io::Result<Box<dyn Folder>>;

    /// Finds the directory as [`Folders::parent`] does, and creates missing ones so that they survive a loss of power.
    fn parent_created(&self, place: &Resolved) -> io::Result<Box<dyn Folder>>;
}

/// The directories of the workspace.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkspaceFolders;

impl Folders for WorkspaceFolders {
    fn place(&self, roots: &Roots, path: &Path) -> io::Result<Option<Resolved>> {
        roots.resolve_kept(path)
    }

    fn parent(&self, place: &Resolved) -> io::Result<Box<dyn Folder>> {
        Ok(Box::new(place.parent()?.0))
    }

    fn parent_created(&self, place: &Resolved) -> io::Result<Box<dyn Folder>> {
        let mut changed = Vec::new();
        let (directory, _) = place.parent_created_in(&mut changed)?;
        changed.iter().try_for_each(Folder::sync)?;
        Ok(Box::new(directory))
    }
}

impl Folder for Dir {
    fn digest(&self, name: &str) -> Result<Option<Digest>, EntryError> {
        match read_entry(self, name, EDIT_LIMIT) {
            Ok(bytes) => Ok(Some(Digest::of(bytes))),
            Err(EntryError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn has(&self, name: &str) -> bool {
        self.symlink_metadata(name).is_ok()
    }

    fn create(&self, name: &str, content: &[u8], like: Option<&Resolved>) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        if like.is_some() {
            // It must not be readable before it has the old file's mode.
            options.mode(0o600);
        }
        let mut file = self.open_with(name, &options)?;
        if let Some(like) = like {
            let (directory, name) = like.parent()?;
            take_owner_and_mode(&directory, name, &file)?;
        }
        file.write_all(content)?;
        // Before it gets its name: what survives a loss of power under that name is then the whole content.
        file.sync_all()
    }

    fn exchange(&self, one: &str, other: &str) -> io::Result<()> {
        #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
        return rename_with(self, one, other, rustix::fs::RenameFlags::EXCHANGE);
        #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
        {
            let _ = (one, other);
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Dir::rename(self, from, self, to)
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
        match rename_with(self, from, to, rustix::fs::RenameFlags::NOREPLACE) {
            Err(error) if is_unsupported(&error) => {}
            renamed => return renamed,
        }
        match self.hard_link(from, self, to) {
            Ok(()) => self.remove_file(from),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
            // The file system has no hard links.
            Err(_) if self.has(to) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(_) => Folder::rename(self, from, to),
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.remove_file(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.open(".")?.sync_all()
    }
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn rename_with(directory: &Dir, from: &str, to: &str, flags: rustix::fs::RenameFlags) -> io::Result<()> {
    Ok(rustix::fs::renameat_with(directory, from, directory, to, flags)?)
}

/// Returns whether the file system or the kernel lacks the operation.
pub(super) fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput)
}

/// Copies the mode, and as far as the system allows it the owner and extended attributes.
fn take_owner_and_mode(directory: &Dir, name: &str, file: &File) -> io::Result<()> {
    use cap_std::fs::{MetadataExt as _, PermissionsExt as _};
    let (old, new) = (directory.symlink_metadata(name)?, file.metadata()?);
    if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
        let owner = rustix::fs::Uid::from_raw(old.uid());
        let group = rustix::fs::Gid::from_raw(old.gid());
        let _ = rustix::fs::fchown(file, Some(owner), Some(group));
    }
    file.set_permissions(cap_std::fs::Permissions::from_mode(old.mode() & 0o777))?;
    // After the mode, as an access control list includes part of it.
    let _ = take_attributes(directory, name, file);
    Ok(())
}

/// Copies the user's attributes and the access control list. Attributes of the system, such as capabilities, belong
/// to the old content.
fn take_attributes(directory: &Dir, name: &str, file: &File) -> rustix::io::Result<()> {
    use rustix::fs::{
        Mode, OFlags, XattrFlags, fgetxattr, fgetxattr_query, flistxattr, flistxattr_query, fsetxattr, openat,
    };
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let old = openat(directory, name, flags, Mode::empty())?;
    let mut names = vec![0; flistxattr_query(&old)?];
    let length = flistxattr(&old, &mut names)?;
    for attribute in names.get(..length).unwrap_or_default().split(|byte| *byte == 0) {
        if !attribute.starts_with(b"user.") && attribute != b"system.posix_acl_access" {
            continue;
        }
        let mut value = vec![0; fgetxattr_query(&old, attribute)?];
        let length = fgetxattr(&old, attribute, &mut value)?;
        // If one is refused, the others are still copied.
        let _ = fsetxattr(file, attribute, value.get(..length).unwrap_or_default(), XattrFlags::empty());
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod simulated {
    //! Directories of a workspace on a simulated disk.

    use std::path::PathBuf;

    use roo_durable::disk::Disk as _;
    use roo_durable::simulated_disk::SimulatedDisk;

    use super::*;

    /// All directories, by their paths.
    #[derive(Clone, Debug)]
    pub(crate) struct SimulatedFolders(pub(crate) SimulatedDisk);

    pub(crate) struct SimulatedFolder {
        pub(crate) disk: SimulatedDisk,
        pub(crate) path: PathBuf,
    }

    impl Folders for SimulatedFolders {
        fn place(&self, roots: &Roots, path: &Path) -> io::Result<Option<Resolved>> {
            // Paths are resolved in a real directory, and fail with the simulated disk.
            self.0.exists(path)?;
            roots.resolve_kept(path)
        }

        fn parent(&self, place: &Resolved) -> io::Result<Box<dyn Folder>> {
            let path = place.absolute().parent().unwrap().to_owned();
            if !self.0.exists(&path)? {
                return Err(io::ErrorKind::NotFound.into());
            }
            Ok(Box::new(SimulatedFolder { disk: self.0.clone(), path }))
        }

        fn parent_created(&self, place: &Resolved) -> io::Result<Box<dyn Folder>> {
            self.0.create_directories_durably(place.absolute().parent().unwrap())?;
            self.parent(place)
        }
    }

    impl Folder for SimulatedFolder {
        fn digest(&self, name: &str) -> Result<Option<Digest>, EntryError> {
            Ok(self.disk.read_at_most(&self.path.join(name), EDIT_LIMIT)?.map(Digest::of))
        }

        fn has(&self, name: &str) -> bool {
            self.disk.exists(&self.path.join(name)).unwrap()
        }

        fn create(&self, name: &str, content: &[u8], _: Option<&Resolved>) -> io::Result<()> {
            let file = self.disk.open(&self.path.join(name), true)?;
            file.append_all(content)?;
            file.sync()
        }

        fn exchange(&self, one: &str, other: &str) -> io::Result<()> {
            self.disk.exchange(&self.path.join(one), &self.path.join(other))
        }

        fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            self.disk.rename(&self.path.join(from), &self.path.join(to))
        }

        fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
            self.disk.rename_new(&self.path.join(from), &self.path.join(to))
        }

        fn remove(&self, name: &str) -> io::Result<()> {
            self.disk.remove(&self.path.join(name))
        }

        fn sync(&self) -> io::Result<()> {
            self.disk.sync(&self.path)
        }
    }
}
