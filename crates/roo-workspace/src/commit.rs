//! Writing a closed file: the whole new content or nothing, and no byte of anybody else is lost.
//!
//! The new content is written beside the file and exchanged with it in one step. Only then is what
//! was displaced compared with what was expected: between a check and a rename somebody could write,
//! between an exchange and a check nothing can get lost. On a mismatch the two are exchanged back.

use std::io::{self, Write as _};

use cap_std::fs::{Dir, OpenOptions};

use super::file::{BOM, Contents, EDIT_LIMIT, FileText, ReadError, read_disk, read_entry};
use super::lock::{LockError, Pending, WorkspaceLock};
use super::resolver::{Purpose, Resolved, Roots};
use roo_protocol::ids::Digest;

/// Maximum number of attempts to restore a file that others write all the time.
const ROUNDS: usize = 64;

/// Reasons why a write did not happen. The texts are for the model; nothing was written unless they say so.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// Somebody changed or deleted the file.
    #[error("{path} {} since it was read, so nothing was written. Read it again and redo the change on its current text.",
        if actual.is_some() { "has been changed" } else { "has been deleted" })]
    Stale {
        /// The file.
        path: String,
        /// Digest of the text that the change was made from.
        expected: Digest,
        /// Current digest; none when the file is missing or unreadable.
        actual: Option<Digest>,
    },
    /// A new file was to be created.
    #[error("{path} exists already, so nothing was written. Read it first, then change it.")]
    Exists {
        /// The file.
        path: String,
    },
    /// The editor did not apply the edit, though the text was the expected one.
    #[error("{path} is open in an editor, which refused the edit ({reason}). Nothing was written.")]
    Refused {
        /// The file.
        path: String,
        /// In the editor's words.
        reason: String,
    },
    /// The editor took the edit, but never showed the text that should have come of it.
    #[error(
        "{path} is open in an editor, and its text is not the result of the edit. Read it again before you continue: part of the change may have been made."
    )]
    Unconfirmed {
        /// The file.
        path: String,
        /// Current digest; none when it is closed.
        actual: Option<Digest>,
    },
    /// Unsaved text, and nobody to edit it.
    #[error(
        "{path} has unsaved changes in an editor that takes no edits from here. Ask the user to save it, then read it again."
    )]
    Unsaved {
        /// The file.
        path: String,
    },
    /// The new text is larger than what can be edited.
    #[error("The new text of {path} has {size} bytes; at most {EDIT_LIMIT} are written.")]
    TooLarge {
        /// The file.
        path: String,
        /// In bytes.
        size: u64,
    },
    /// The old content can't be read as text.
    #[error("{0} Nothing was written.")]
    Unreadable(#[from] ReadError),
    /// The workspace lock can't be had.
    #[error("Nothing was written: {0}.")]
    Lock(#[from] LockError),
    /// Files of one change, some of which could not be brought back.
    #[error(
        "Several files were to be changed together. One was changed by another program in the meantime, and {} could not be restored. Tell the user; read the files before you continue.",
        files.join(", ")
    )]
    Unsettled {
        /// Those that hold the new text, or neither.
        files: Vec<String>,
    },
    /// The system refused.
    #[error("{path} can't be written: {source}")]
    Io {
        /// The file.
        path: String,
        /// Reason.
        source: io::Error,
    },
}

impl WriteError {
    /// Returns the reason, in a few words for people who know which file is meant.
    pub fn reason(&self) -> String {
        match self {
            Self::Stale { actual: Some(_), .. } => "it has been changed since it was read".to_owned(),
            Self::Stale { actual: None, .. } => "it has been deleted since it was read".to_owned(),
            Self::Exists { .. } => "it exists already".to_owned(),
            Self::Refused { reason, .. } => format!("the editor refused the edit ({reason})"),
            Self::Unconfirmed { .. } => "the text in the editor is not the result of the edit".to_owned(),
            Self::Unsaved { .. } => "it has unsaved changes in an editor that takes no edits".to_owned(),
            Self::TooLarge { size, .. } => format!("the new text has {size} bytes, more than {EDIT_LIMIT}"),
            Self::Unreadable(error) => error.to_string().trim_end_matches('.').to_owned(),
            Self::Lock(error) => error.to_string(),
            Self::Unsettled { files } => format!("these could not be restored: {}", files.join(", ")),
            Self::Io { source, .. } => source.to_string(),
        }
    }
}

/// A content beside its file, ready to take its place. Dropping it removes the content.
#[derive(Debug)]
struct Staged<'a> {
    target: &'a Resolved,
    directory: Dir,
    name: &'a str,
    pending: Pending,
    /// The exact digest of the file that is replaced; none for a new file.
    before: Option<Digest>,
    /// True if the temporary file holds somebody else's bytes and must stay.
    keep: bool,
}

/// Writes a file. Returns the exact digests before and after.
pub(super) fn commit(
    lock: &mut WorkspaceLock,
    target: &Resolved,
    expected: Option<Digest>,
    after: &str,
) -> Result<(Option<Digest>, Digest), WriteError> {
    let old = match read_disk(target, EDIT_LIMIT) {
        Ok(bytes) => Some(bytes),
        Err(ReadError::NotFound { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let path = || target.display();
    let old = match (old.map(Contents::from_bytes), expected) {
        (None, None) => None,
        (Some(_), None) => return Err(WriteError::Exists { path: path() }),
        (None, Some(expected)) => {
            return Err(WriteError::Stale { path: path(), expected, actual: None });
        }
        (Some(Contents::Text(old)), Some(_)) if !old.lossy => Some(old),
        (Some(_), Some(_)) => return Err(ReadError::NotText { path: path() }.into()),
    };
    if let (Some(old), Some(expected)) = (&old, expected)
        && !is_expected(old, expected)
    {
        return Err(WriteError::Stale { path: path(), expected, actual: Some(old.digest) });
    }

    let content = match &old {
        Some(old) if old.byte_order_mark && !after.starts_with(BOM) => format!("{BOM}{after}"),
        _ => after.to_owned(),
    };
    let before = old.map(|old| old.digest);
    let digest = Digest::of(&content);
    if before == Some(digest) {
        return Ok((before, digest));
    }
    let committed = Staged::new(lock, target, before, content.as_bytes(), digest)
        .map_err(|source| WriteError::Io { path: path(), source })
        .and_then(|staged| staged.commit(lock));
    // Whatever happened, nothing is under way now; a record that stays is settled by the next holder.
    let _ = lock.record(None);
    committed.map(|()| (before, digest))
}

/// The digest may be of the exact bytes, or of the text that a byte order mark was taken from.
pub(super) fn is_expected(old: &FileText, expected: Digest) -> bool {
    old.digest == expected || (old.byte_order_mark && Digest::of(&old.text) == expected)
}

impl<'a> Staged<'a> {
    fn new(
        lock: &mut WorkspaceLock,
        target: &'a Resolved,
        before: Option<Digest>,
        content: &[u8],
        after: Digest,
    ) -> io::Result<Self> {
        let (directory, name) = if before.is_some() { target.parent()? } else { target.parent_created()? };
        let temporary = format!(".roo-lsp-{}.tmp", uuid::Uuid::new_v4().simple());
        let pending = Pending { target: target.absolute().to_path_buf(), temporary, after, exchanging: None };
        lock.record(Some(&pending))?;

        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        if before.is_some() {
            use cap_std::fs::OpenOptionsExt as _;
            // Nobody may read it before it has the old file's mode.
            options.mode(0o600);
        }
        let mut file = directory.open_with(&pending.temporary, &options)?;
        let staged = Self { target, directory, name, pending, before, keep: false };
        if staged.before.is_some() {
            take_owner_and_mode(&staged.directory, staged.name, &file)?;
        }
        file.write_all(content)?;
        file.sync_all()?;
        Ok(staged)
    }

    fn commit(mut self, lock: &mut WorkspaceLock) -> Result<(), WriteError> {
        let path = self.target.display();
        match self.before {
            Some(before) => {
                self.pending.exchanging = Some(before);
                lock.record(Some(&self.pending))
                    .map_err(|source| WriteError::Io { path: path.clone(), source })?;
                self.replace(before)?;
            }
            None => {
                rename_new(&self.directory, &self.pending.temporary, self.name).map_err(
                    |source| match source.kind() {
                        io::ErrorKind::AlreadyExists => WriteError::Exists { path },
                        _ => WriteError::Io { path, source },
                    },
                )?
            }
        }
        // The content is safe; at worst a power loss brings the old name back.
        let _ = self.directory.open(".").and_then(|directory| directory.sync_all());
        Ok(())
    }

    fn replace(&mut self, before: Digest) -> Result<(), WriteError> {
        let temporary = self.pending.temporary.clone();
        let stale = |actual| WriteError::Stale { path: self.target.display(), expected: before, actual };
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => stale(None),
            _ => WriteError::Io { path: self.target.display(), source },
        };
        match exchange(&self.directory, &temporary, self.name) {
            Ok(()) => {}
            Err(error) if is_unsupported(&error) => {
                // The next best: the time between check and rename is as short as it can be.
                let actual = digest_of(&self.directory, self.name);
                if actual != Some(before) {
                    return Err(stale(actual));
                }
                return self.directory.rename(&temporary, &self.directory, self.name).map_err(failed);
            }
            Err(error) => return Err(failed(error)),
        }
        let displaced = digest_of(&self.directory, &temporary);
        if displaced == Some(before) {
            return Ok(());
        }
        let error = stale(displaced);
        self.keep = !put_back(&self.directory, &temporary, self.name, self.pending.after);
        Err(error)
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        if !self.keep {
            // It is gone already when it took its place.
            let _ = self.directory.remove_file(&self.pending.temporary);
        }
    }
}

/// Gives a displaced file its name back, unless somebody has saved yet another version over ours: the
/// newest stays, as it would have without us. Returns whether the temporary name may be removed.
pub(super) fn put_back(directory: &Dir, temporary: &str, name: &str, ours: Digest) -> bool {
    let mut spent = Some(ours);
    // Each round but the first needs somebody who writes at that very moment.
    for _ in 0..ROUNDS {
        let displaced = digest_of(directory, temporary);
        match exchange(directory, temporary, name) {
            Ok(()) if digest_of(directory, temporary) == spent => return true,
            // What came out is newer than what went in, and goes in again.
            Ok(()) => spent = displaced,
            // Deleted; the displaced file takes the free name.
            Err(_) if rename_new(directory, temporary, name).is_ok() => return true,
            Err(_) => {}
        }
    }
    tracing::warn!(file = name, kept = temporary, "another version of a file was saved beside it");
    false
}

/// The digest of a regular file that is not too large.
fn digest_of(directory: &Dir, name: &str) -> Option<Digest> {
    read_entry(directory, name, EDIT_LIMIT).ok().map(Digest::of)
}

/// Ends a commit whose writer died, so that it either happened or did not.
pub(super) fn settle(roots: &Roots, lock: &mut WorkspaceLock) -> io::Result<()> {
    let Some(pending) = lock.pending()? else { return Ok(()) };
    let text = pending.target.to_string_lossy();
    // A place that is no more has nothing to settle.
    if let Ok(target) = roots.resolve(&text, Purpose::Write)
        && let Ok((directory, name)) = target.parent()
    {
        let temporary = pending.temporary.as_str();
        let found = digest_of(&directory, temporary);
        let spent = match pending.exchanging {
            None => true,
            Some(before) if found == Some(before) || found == Some(pending.after) => true,
            // Exchanged, and somebody had written just before.
            Some(_) => {
                directory.symlink_metadata(temporary).is_err()
                    || put_back(&directory, temporary, name, pending.after)
            }
        };
        if spent {
            let _ = directory.remove_file(temporary);
        }
    }
    lock.record(None)
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn rename_with(directory: &Dir, from: &str, to: &str, flags: rustix::fs::RenameFlags) -> io::Result<()> {
    Ok(rustix::fs::renameat_with(directory, from, directory, to, flags)?)
}

/// Exchanges two entries in one step.
pub(super) fn exchange(directory: &Dir, one: &str, other: &str) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    return rename_with(directory, one, other, rustix::fs::RenameFlags::EXCHANGE);
    #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
    {
        let _ = (directory, one, other);
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Renames to a name that must be free.
pub(super) fn rename_new(directory: &Dir, from: &str, to: &str) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    match rename_with(directory, from, to, rustix::fs::RenameFlags::NOREPLACE) {
        Err(error) if is_unsupported(&error) => {}
        renamed => return renamed,
    }
    match directory.hard_link(from, directory, to) {
        Ok(()) => directory.remove_file(from),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // A file system without hard links.
        Err(_) if directory.symlink_metadata(to).is_ok() => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => directory.rename(from, directory, to),
    }
}

/// Returns whether the file system or the kernel lacks the operation.
fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput)
}

/// The owner and extended attributes only as far as the system allows it, the mode in any case.
pub(super) fn take_owner_and_mode(directory: &Dir, name: &str, file: &cap_std::fs::File) -> io::Result<()> {
    use cap_std::fs::{MetadataExt as _, PermissionsExt as _};
    let (old, new) = (directory.symlink_metadata(name)?, file.metadata()?);
    if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
        let owner = rustix::fs::Uid::from_raw(old.uid());
        let group = rustix::fs::Gid::from_raw(old.gid());
        let _ = rustix::fs::fchown(file, Some(owner), Some(group));
    }
    file.set_permissions(cap_std::fs::Permissions::from_mode(old.mode() & 0o777))?;
    // After the mode, for an access control list has a part of it.
    let _ = take_attributes(directory, name, file);
    Ok(())
}

/// The user's attributes and the access control list. What the system keeps of a file, such as its
/// capabilities, is of the old content.
fn take_attributes(directory: &Dir, name: &str, file: &cap_std::fs::File) -> rustix::io::Result<()> {
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
        // One that is refused leaves the others.
        let _ = fsetxattr(file, attribute, value.get(..length).unwrap_or_default(), XattrFlags::empty());
    }
    Ok(())
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
