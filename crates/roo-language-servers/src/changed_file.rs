//! Files that others changed on disk, as a server is told of them before the next question.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use roo_workspace::file_uri;
use serde_json::{Value, json};

/// The most changes that are kept for a server; further ones are not told.
const KEPT: usize = 10_000;

/// A file that changed on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFile {
    /// Absolute path.
    pub path: PathBuf,
    /// What became of it.
    pub change: DiskChange,
}

/// What became of a file on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskChange {
    /// It is new.
    Created,
    /// It has another content.
    Changed,
    /// It is gone.
    Deleted,
}

impl DiskChange {
    /// What became of a file by this and a later change.
    fn then(self, later: Self) -> Self {
        match (self, later) {
            (Self::Created, Self::Changed) => Self::Created,
            (Self::Deleted, Self::Created) => Self::Changed,
            (_, later) => later,
        }
    }

    /// The number of LSP.
    fn number(self) -> u8 {
        match self {
            Self::Created => 1,
            Self::Changed => 2,
            Self::Deleted => 3,
        }
    }
}

/// Changes that a server has not been told of.
#[derive(Default)]
pub(crate) struct Untold {
    /// None while it doesn't run: it reads the disk when it starts.
    changes: Mutex<Option<Vec<ChangedFile>>>,
}

impl Untold {
    /// Keeps changes from now on: a server is about to start.
    pub(crate) fn begin(&self) {
        *self.lock() = Some(vec![]);
    }

    /// Keeps none any more.
    pub(crate) fn end(&self) {
        *self.lock() = None;
    }

    pub(crate) fn add(&self, changed: &[ChangedFile]) {
        if let Some(changes) = &mut *self.lock() {
            let room = KEPT.saturating_sub(changes.len());
            changes.extend(changed.iter().take(room).cloned());
        }
    }

    /// Returns the number of the changes, and the parameters of a notification of them; none where there are none.
    pub(crate) fn notification(&self) -> Option<(usize, Value)> {
        let changes = self.lock().clone().filter(|changes| !changes.is_empty())?;
        let count = changes.len();
        let mut files: BTreeMap<PathBuf, DiskChange> = BTreeMap::new();
        for ChangedFile { path, change } in changes {
            files.entry(path).and_modify(|before| *before = before.then(change)).or_insert(change);
        }
        let events = files
            .iter()
            .map(|(path, change)| json!({ "uri": file_uri(path), "type": change.number() }))
            .collect::<Vec<_>>();
        Some((count, json!({ "changes": events })))
    }

    /// Forgets the first changes, which were told.
    pub(crate) fn told(&self, count: usize) {
        if let Some(changes) = &mut *self.lock() {
            changes.drain(..count.min(changes.len()));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Vec<ChangedFile>>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
