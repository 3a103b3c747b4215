//! The documents that are being written: the request of each, and the texts that its editor may have.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

use super::transcript::{MarkdownTranscript, Rendering};
use roo_protocol::ids::{Digest, TaskId};
use roo_workspace::path_of;

/// The document's name in the directory of its request.
pub(super) const FILE: &str = "task.md";

/// The documents that are being written, by request.
#[derive(Default)]
pub(in crate::server) struct TaskDocuments(Mutex<HashMap<TaskId, Arc<TaskDocument>>>);

impl TaskDocuments {
    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<TaskId, Arc<TaskDocument>>> {
        // Every change under the lock is one call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The document of this URI, if it is being written.
    pub(super) fn find(&self, uri: &str) -> Option<Arc<TaskDocument>> {
        let request = request_of(&path_of(uri)?)?;
        self.lock().get(&request).cloned()
    }
}

/// The request whose document a path would be, by its names alone.
pub(super) fn request_of(path: &Path) -> Option<TaskId> {
    if path.file_name()? != FILE {
        return None;
    }
    let request = path.parent()?;
    let id = request.file_name()?.to_str()?;
    (request.parent()?.file_name()? == "requests").then(|| TaskId::new(id))
}

/// The document of one request.
pub(super) struct TaskDocument {
    pub(super) root: TaskId,
    pub(super) path: PathBuf,
    pub(super) transcript: Mutex<MarkdownTranscript>,
    pub(super) texts: Mutex<Texts>,
    /// True if the first text is written.
    pub(super) begun: watch::Sender<bool>,
    /// There is something to do besides what events bring.
    pub(super) wake: Notify,
}

/// Texts that the server has written to a document.
#[derive(Clone, Default)]
pub(super) struct Texts {
    /// The last one that is known to have arrived.
    pub(super) arrived: Arc<Rendering>,
    /// The last one that was sent.
    pub(super) sent: Arc<Rendering>,
    /// A prompt that was sent to the task, to be taken out.
    pub(super) taken: Option<String>,
    /// Of all that was on disk when a prompt was last sent: what it has there below the heading was sent.
    pub(super) sent_on_disk: Option<Digest>,
}

impl Texts {
    /// The texts that an editor may have, the newest first.
    pub(super) fn known(&self) -> [&str; 2] {
        [&self.sent.text, &self.arrived.text]
    }

    /// Returns the rendering that the editor has.
    pub(super) fn shown(&self, text: &str) -> &Arc<Rendering> {
        let is_sent = !self.sent.text.is_empty() && text.starts_with(&self.sent.text);
        if is_sent { &self.sent } else { &self.arrived }
    }
}

impl TaskDocument {
    pub(super) fn transcript(&self) -> MutexGuard<'_, MarkdownTranscript> {
        // An event is folded in whole or not at all, as far as rendering can tell.
        self.transcript.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn texts(&self) -> MutexGuard<'_, Texts> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
