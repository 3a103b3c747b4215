//! Directories in which a file was replaced and whose names are still to survive a loss of power.
//!
//! A sync of a directory takes as long as one of a file, and an edit is told to the model before it. Whoever is to record
//! for good that a file was changed syncs these first.

use std::sync::{Arc, Mutex, PoisonError};

use super::folder::Folder;

/// The directories, with the newest last.
#[derive(Default)]
pub struct UnsyncedNames {
    waiting: Mutex<Vec<Arc<dyn Folder>>>,
    /// Held while some are synced, so that nobody returns before what another one has taken is durable.
    turn: Mutex<()>,
}

impl UnsyncedNames {
    pub(super) fn add(&self, directory: Arc<dyn Folder>) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(directory);
    }

    /// Makes the names of all files that were replaced before the call survive a loss of power. Waits for the disk.
    pub fn sync(&self) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        for directory in waiting {
            // The content is durable; at worst a loss of power brings the old file back.
            if let Err(error) = directory.sync() {
                tracing::warn!(%error, "the directory of a changed file can't be synced");
            }
        }
    }
}

impl std::fmt::Debug for UnsyncedNames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UnsyncedNames").finish_non_exhaustive()
    }
}

impl Drop for UnsyncedNames {
    fn drop(&mut self) {
        self.sync();
    }
}
