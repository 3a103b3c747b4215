//! The user's answer to the question whether modes of their own may delegate to each other, as in Roo Code. It counts in all
//! workspaces, and is kept in the state directory: `delegation.json`, for the user alone.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::trust::{DelegationAnswer, TrustError};
use roo_durable::PrivateFile;

/// The version of the file's format.
const VERSION: u32 = 1;
/// The largest file that is read, in bytes.
const LIMIT: u64 = 64 << 10;

/// The file.
#[derive(Serialize, Deserialize)]
struct Stored {
    version: u32,
    answer: DelegationAnswer,
}

/// Keeps the answer.
pub(super) struct OwnDelegation(PrivateFile);

impl OwnDelegation {
    pub(super) fn new(state_directory: &Path) -> Self {
        Self(PrivateFile::new(state_directory.join("delegation.json")))
    }

    /// The answer that there is. One that can't be read is none: it is asked for again.
    pub(super) fn read(&self) -> Option<DelegationAnswer> {
        let bytes = self.0.read(LIMIT).ok()??;
        let stored: Stored = serde_json::from_slice(&bytes).ok()?;
        (stored.version == VERSION).then_some(stored.answer)
    }

    /// Keeps an answer, or takes it back; it outlives a loss of power.
    ///
    /// # Errors
    /// [`TrustError::Write`].
    pub(super) fn write(&self, answer: Option<DelegationAnswer>) -> Result<(), TrustError> {
        let write = || -> std::io::Result<()> {
            let _lock = self.0.lock()?;
            match answer {
                Some(answer) => {
                    self.0.replace(&serde_json::to_vec_pretty(&Stored { version: VERSION, answer })?)
                }
                None => self.0.remove().map(drop),
            }
        };
        write().map_err(|source| TrustError::Write { path: self.0.path().to_owned(), source })
    }
}
