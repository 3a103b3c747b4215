//! What a connection knows of its configuration files: where they may be, which checks of them wait, and which diagnostics its
//! client has.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::kind::{ConfigFile, Places};
use roo_engine::customization::Customization;
use roo_formats::config::Directories;
use roo_workspace::path_of;

/// Configuration files of a connection.
#[derive(Default)]
pub(in crate::server) struct ConfigFiles {
    pub(super) places: OnceLock<Places>,
    /// The checks of documents that are being typed; cancelled by the next change.
    waiting: Mutex<HashMap<String, CancellationToken>>,
    /// Held while new ones are made and sent, so that the last to be sent are the newest.
    pub(super) shown: tokio::sync::Mutex<SentDiagnostics>,
}

/// The diagnostics that the client has, by file, as they were sent.
pub(super) type SentDiagnostics = BTreeMap<PathBuf, Value>;

impl ConfigFiles {
    /// Takes where files of ours may be. Asks the disk.
    pub(in crate::server) fn settle(&self, folders: &[PathBuf], directories: &Directories) {
        let global = Customization::global_mode_files(directories);
        // The first time counts, as for everything that is settled.
        let _ = self.places.set(Places::new(folders, directories, global));
    }

    pub(super) fn find(&self, uri: &str) -> Option<ConfigFile> {
        self.places.get()?.find(&path_of(uri)?)
    }

    /// Cancels the check of a document that waits, and returns the token of the next.
    pub(super) fn next_check(&self, uri: &str) -> CancellationToken {
        let token = CancellationToken::new();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|_, token| !token.is_cancelled());
        if let Some(before) = waiting.insert(uri.to_owned(), token.clone()) {
            before.cancel();
        }
        token
    }
}
