//! Writing a closed file: the whole new content or nothing, and no byte of anybody else is lost.
//!
//! The new content is written beside the file and exchanged with it in one step. Only then is what
//! was displaced compared with what was expected: between a check and a rename somebody could write,
//! between an exchange and a check nothing can get lost. On a mismatch the two are exchanged back.

use std::io;

use super::file::{BOM, Contents, EDIT_LIMIT, FileText, ReadError, read_disk};
use super::folder::{Folder, is_unsupported};
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
struct Staged<'a> {
    target: &'a Resolved,
    directory: Box<dyn Folder>,
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
        Self::within(Box::new(directory), name, lock, target, before, content, after)
    }

    fn within(
        directory: Box<dyn Folder>,
        name: &'a str,
        lock: &mut WorkspaceLock,
        target: &'a Resolved,
        before: Option<Digest>,
        content: &[u8],
        after: Digest,
    ) -> io::Result<Self> {
        let temporary = format!(".roo-lsp-{}.tmp", uuid::Uuid::new_v4().simple());
        let pending = Pending { target: target.absolute().to_path_buf(), temporary, after, exchanging: None };
        lock.record(Some(&pending))?;

        let staged = Self { target, directory, name, pending, before, keep: false };
        staged.directory.create(&staged.pending.temporary, content, before.map(|_| target))?;
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
                self.directory.rename_new(&self.pending.temporary, self.name).map_err(
                    |source| match source.kind() {
                        io::ErrorKind::AlreadyExists => WriteError::Exists { path },
                        _ => WriteError::Io { path, source },
                    },
                )?
            }
        }
        // The content is safe; at worst a power loss brings the old name back.
        let _ = self.directory.sync();
        Ok(())
    }

    fn replace(&mut self, before: Digest) -> Result<(), WriteError> {
        let temporary = self.pending.temporary.clone();
        let stale = |actual| WriteError::Stale { path: self.target.display(), expected: before, actual };
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => stale(None),
            _ => WriteError::Io { path: self.target.display(), source },
        };
        match self.directory.exchange(&temporary, self.name) {
            Ok(()) => {}
            Err(error) if is_unsupported(&error) => {
                // The next best: the time between check and rename is as short as it can be.
                let actual = digest_of(self.directory.as_ref(), self.name);
                if actual != Some(before) {
                    return Err(stale(actual));
                }
                return self.directory.rename(&temporary, self.name).map_err(failed);
            }
            Err(error) => return Err(failed(error)),
        }
        let displaced = digest_of(self.directory.as_ref(), &temporary);
        if displaced == Some(before) {
            return Ok(());
        }
        let error = stale(displaced);
        self.keep = !put_back(self.directory.as_ref(), &temporary, self.name, self.pending.after);
        Err(error)
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        if !self.keep {
            // It is gone already when it took its place.
            let _ = self.directory.remove(&self.pending.temporary);
        }
    }
}

/// Gives a displaced file its name back, unless somebody has saved yet another version over ours: the
/// newest stays, as it would have without us. Returns whether the temporary name may be removed.
pub(super) fn put_back(directory: &dyn Folder, temporary: &str, name: &str, ours: Digest) -> bool {
    let mut spent = Some(ours);
    // Each round but the first needs somebody who writes at that very moment.
    for _ in 0..ROUNDS {
        let displaced = digest_of(directory, temporary);
        match directory.exchange(temporary, name) {
            Ok(()) if digest_of(directory, temporary) == spent => return true,
            // What came out is newer than what went in, and goes in again.
            Ok(()) => spent = displaced,
            // Deleted; the displaced file takes the free name.
            Err(_) if directory.rename_new(temporary, name).is_ok() => return true,
            Err(_) => {}
        }
    }
    tracing::warn!(file = name, kept = temporary, "another version of a file was saved beside it");
    false
}

/// The digest of a regular file that is not too large.
fn digest_of(directory: &dyn Folder, name: &str) -> Option<Digest> {
    directory.digest(name).ok().flatten()
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
            Some(_) => !directory.has(temporary) || put_back(&directory, temporary, name, pending.after),
        };
        if spent {
            let _ = directory.remove(temporary);
        }
    }
    lock.record(None)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
