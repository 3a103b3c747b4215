//! Atomic writes of closed files, without losing what another program writes at the same time.
//!
//! The new content is written beside the file and exchanged with it atomically. Only then is the displaced content
//! compared with the expected one: another program could write between a check and a rename, but after an exchange
//! its content is still there. On a mismatch the two are exchanged back.

use std::io;
use std::sync::Arc;

use super::encoding::{TextEncoding, UnencodableCharacter};
use super::file::{Contents, EDIT_LIMIT, FileText, ReadError, read_disk};
use super::folder::{Folder, Folders, WorkspaceFolders, is_unsupported};
use super::lock::{LockError, PendingCommit, WorkspaceLock};
use super::resolver::{Resolved, Roots};
use super::unsynced_names::UnsyncedNames;
use roo_protocol::ids::Digest;

/// Maximum number of attempts to restore a file that others write all the time.
const ROUNDS: usize = 64;

/// A write failed. The texts are for the model; nothing was written unless they say so.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// Another program changed or deleted the file.
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
    /// A file to be created exists already.
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
    /// The editor accepted the edit, but its document never had the expected text.
    #[error(
        "{path} is open in an editor, and its text is not the result of the edit. Read it again before you continue: part of the change may have been made."
    )]
    Unconfirmed {
        /// The file.
        path: String,
        /// Current digest; none when it is closed.
        actual: Option<Digest>,
    },
    /// The file has unsaved text in an editor that accepts no edits.
    #[error(
        "{path} has unsaved changes in an editor that takes no edits from here. Ask the user to save it, then read it again."
    )]
    Unsaved {
        /// The file.
        path: String,
    },
    /// The new text is larger than [`EDIT_LIMIT`].
    #[error("The new text of {path} has {size} bytes; at most {EDIT_LIMIT} are written.")]
    TooLarge {
        /// The file.
        path: String,
        /// In bytes.
        size: u64,
    },
    /// The file's encoding lacks a character of the new text.
    #[error(
        "{path} is encoded in {encoding}, which has no {character:?}, so nothing was written. Write the change without that \
             character, or ask the user whether the file may be converted to UTF-8."
    )]
    Unencodable {
        /// The file.
        path: String,
        /// Name of its encoding.
        encoding: &'static str,
        /// The first such character.
        character: char,
    },
    /// The old content can't be read as text.
    #[error("{0} Nothing was written.")]
    Unreadable(#[from] ReadError),
    /// The workspace lock could not be taken.
    #[error("Nothing was written: {0}.")]
    Lock(#[from] LockError),
    /// A multi-file edit failed, and some files could not be restored.
    #[error(
        "Several files were to be changed together. One was changed by another program in the meantime, and {} could not be restored. Tell the user; read the files before you continue.",
        files.join(", ")
    )]
    Unsettled {
        /// Files that don't hold their old text.
        files: Vec<String>,
    },
    /// The system returned an error.
    #[error("{path} can't be written: {source}")]
    Io {
        /// The file.
        path: String,
        /// Reason.
        source: io::Error,
    },
}

impl WriteError {
    /// Returns the reason in a few words, without the path.
    pub fn reason(&self) -> String {
        match self {
            Self::Stale { actual: Some(_), .. } => "it has been changed since it was read".to_owned(),
            Self::Stale { actual: None, .. } => "it has been deleted since it was read".to_owned(),
            Self::Exists { .. } => "it exists already".to_owned(),
            Self::Refused { reason, .. } => format!("the editor refused the edit ({reason})"),
            Self::Unconfirmed { .. } => "the text in the editor is not the result of the edit".to_owned(),
            Self::Unsaved { .. } => "it has unsaved changes in an editor that takes no edits".to_owned(),
            Self::TooLarge { size, .. } => format!("the new text has {size} bytes, more than {EDIT_LIMIT}"),
            Self::Unencodable { encoding, character, .. } => {
                format!("its encoding {encoding} has no {character:?}")
            }
            Self::Unreadable(error) => error.to_string().trim_end_matches('.').to_owned(),
            Self::Lock(error) => error.to_string(),
            Self::Unsettled { files } => format!("these could not be restored: {}", files.join(", ")),
            Self::Io { source, .. } => source.to_string(),
        }
    }
}

/// New content beside its file, ready to replace it. Dropping this removes it.
struct Staged<'a> {
    target: &'a Resolved,
    directory: Arc<dyn Folder>,
    name: &'a str,
    pending: PendingCommit,
    /// The exact digest of the file that is replaced; none for a new file.
    before: Option<Digest>,
    /// True if the temporary file holds another program's content and must stay.
    keep: bool,
}

/// Writes a file. Returns the exact digests before and after. A loss of power leaves the old text or the new one; the new
/// one for sure once `unsynced` was synced.
pub(super) fn commit(
    lock: &mut WorkspaceLock,
    unsynced: &UnsyncedNames,
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

    let encoding = old.as_ref().map_or(TextEncoding::UTF_8, |old| old.encoding);
    let content = encode(target, encoding, after)?;
    put(lock, unsynced, target, old.map(|old| old.digest), &content)
}

/// Writes a file as [`commit`] does, whatever it holds and held. Returns the bytes that were there, and the digest after.
pub(super) fn commit_bytes(
    lock: &mut WorkspaceLock,
    unsynced: &UnsyncedNames,
    target: &Resolved,
    expected: Option<Digest>,
    content: &[u8],
) -> Result<(Option<Vec<u8>>, Digest), WriteError> {
    let old = match read_disk(target, EDIT_LIMIT) {
        Ok(bytes) => Some(bytes),
        Err(ReadError::NotFound { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let before = old.as_ref().map(Digest::of);
    match (before, expected) {
        (Some(_), None) => Err(WriteError::Exists { path: target.display() }),
        (actual, Some(expected)) if actual != Some(expected) => {
            Err(WriteError::Stale { path: target.display(), expected, actual })
        }
        _ => put(lock, unsynced, target, before, content).map(|(_, after)| (old, after)),
    }
}

/// Puts new content in the place of what has this digest.
fn put(
    lock: &mut WorkspaceLock,
    unsynced: &UnsyncedNames,
    target: &Resolved,
    before: Option<Digest>,
    content: &[u8],
) -> Result<(Option<Digest>, Digest), WriteError> {
    let digest = Digest::of(content);
    if before == Some(digest) {
        return Ok((before, digest));
    }
    let committed = Staged::new(&WorkspaceFolders, lock, target, before, (content, digest))
        .map_err(|source| WriteError::Io { path: target.display(), source })
        .and_then(|staged| staged.commit(lock))
        .map(|directory| unsynced.add(directory));
    // The commit has ended either way; if its record stays, the next holder of the lock resolves it.
    let _ = lock.record(None);
    committed.map(|()| (before, digest))
}

/// The digest may be of the exact bytes, or of the text that they encode.
pub(super) fn is_expected(old: &FileText, expected: Digest) -> bool {
    let is_plain = old.encoding == TextEncoding::UTF_8;
    old.digest == expected || (!is_plain && Digest::of(&old.text) == expected)
}

/// Checks that the encoding of a file has all characters of the text that it is to hold, before anybody is asked about it.
///
/// # Errors
/// [`WriteError::Unencodable`].
pub fn check_encodable(target: &Resolved, current: &FileText, after: &str) -> Result<(), WriteError> {
    encode(target, current.encoding, after).map(|_| ())
}

/// Returns the content of a file that is to hold a text.
pub(super) fn encode(target: &Resolved, encoding: TextEncoding, text: &str) -> Result<Vec<u8>, WriteError> {
    encoding.encode(text).map_err(|UnencodableCharacter(character)| WriteError::Unencodable {
        path: target.display(),
        encoding: encoding.name(),
        character,
    })
}

impl<'a> Staged<'a> {
    fn new(
        folders: &dyn Folders,
        lock: &mut WorkspaceLock,
        target: &'a Resolved,
        before: Option<Digest>,
        (content, after): (&[u8], Digest),
    ) -> io::Result<Self> {
        let directory =
            if before.is_some() { folders.parent(target)? } else { folders.parent_created(target)? };
        let temporary = roo_durable::temporary_name();
        let pending =
            PendingCommit { target: target.absolute().to_path_buf(), temporary, after, exchanging: None };
        lock.record(Some(&pending))?;

        let (_, name) = target.names_below();
        let staged = Self { target, directory: directory.into(), name, pending, before, keep: false };
        staged.directory.create(&staged.pending.temporary, content, before.map(|_| target))?;
        Ok(staged)
    }

    /// Gives the file its name. Returns the directory, which is to be synced.
    fn commit(mut self, lock: &mut WorkspaceLock) -> Result<Arc<dyn Folder>, WriteError> {
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
        // The content is durable, which `create` saw to before the file got its name.
        Ok(Arc::clone(&self.directory))
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
                // Without an exchange, a check right before the rename is the best there is.
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
            // After a commit there is none any more.
            let _ = self.directory.remove(&self.pending.temporary);
        }
    }
}

/// Gives a displaced file its name back, unless another program has saved yet another version over ours: the
/// newest one wins. Returns whether the temporary file may be removed.
pub(super) fn put_back(directory: &dyn Folder, temporary: &str, name: &str, ours: Digest) -> bool {
    let mut spent = Some(ours);
    // Only a concurrent write causes another round.
    for _ in 0..ROUNDS {
        let displaced = digest_of(directory, temporary);
        match directory.exchange(temporary, name) {
            Ok(()) if digest_of(directory, temporary) == spent => return true,
            // The file that came out is newer than the one that went in, and goes back in.
            Ok(()) => spent = displaced,
            // Deleted; the displaced file takes the free name.
            Err(_) if directory.rename_new(temporary, name).is_ok() => return true,
            Err(_) => {}
        }
    }
    tracing::warn!(file = name, kept = temporary, "another version of a file was kept beside it");
    false
}

/// The digest of a regular file; none where it is missing, too large or can't be read.
pub(super) fn digest_of(directory: &dyn Folder, name: &str) -> Option<Digest> {
    directory.digest(name).ok().flatten()
}

/// Completes or undoes a commit whose process ended.
pub(super) fn settle(roots: &Roots, lock: &mut WorkspaceLock) -> io::Result<()> {
    let Some(pending) = lock.pending()? else { return Ok(()) };
    // A place that no longer exists has nothing to settle.
    if let Some(target) = roots.resolve_kept(&pending.target)?
        && let Ok((directory, name)) = target.parent()
    {
        let temporary = pending.temporary.as_str();
        let found = digest_of(&directory, temporary);
        let spent = match pending.exchanging {
            None => true,
            Some(before) if found == Some(before) || found == Some(pending.after) => true,
            // Exchanged, and another program had written just before.
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
