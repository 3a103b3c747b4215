//! Requests of the workspace to an editor, independent of the protocol.

use std::path::Path;

use futures_util::future::BoxFuture;

use roo_protocol::code::{CodeAskParams, CodeAskResult};
use roo_protocol::task::Range;

/// An editor among those that are attached to the documents of a workspace. The default one is the workspace's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct EditorId(pub(super) u64);

/// An editor that has documents open.
pub trait Editor: Send + Sync {
    /// Makes [`super::Documents`] hold what the editor has of a file. It is called before the file at this real path is read or
    /// written, for editors that don't say by themselves what is open.
    fn refresh<'a>(&'a self, path: &'a Path, purpose: FilePurpose) -> BoxFuture<'a, ()> {
        let _ = (path, purpose);
        Box::pin(std::future::ready(()))
    }

    /// Applies edits to a document that is at `version`, as one step of undo. The ranges are those of
    /// the text before, and don't overlap. `label` is for the editor's history.
    fn apply_edit<'a>(
        &'a self,
        label: &'a str,
        uri: &'a str,
        version: i32,
        edits: Vec<(Range, String)>,
    ) -> BoxFuture<'a, Result<(), EditRefused>>;

    /// Applies several changes, as one step of undo where the editor can, in their order.
    fn apply_all<'a>(
        &'a self,
        label: &'a str,
        changes: Vec<DocumentChange>,
    ) -> BoxFuture<'a, Result<(), EditRefused>>;

    /// Returns the operations on files that it does itself when that is part of an edit.
    fn file_operations(&self) -> FileOperations;

    /// Returns whether it can have its user choose among the changes of an edit.
    fn reviews(&self) -> bool {
        false
    }

    /// Shows its user several changes, and applies those that they choose. Waits for the user; an error says
    /// that they chose none, or that it could not be asked. Which ones were applied shows in the texts.
    fn review<'a>(
        &'a self,
        label: &'a str,
        changes: Vec<DocumentChange>,
    ) -> BoxFuture<'a, Result<(), EditRefused>> {
        let _ = (label, changes);
        Box::pin(std::future::ready(Err(EditRefused { reason: "it has no preview".to_owned() })))
    }

    /// Another editor has changed a file of which this one has other unsaved text: its user is told. Returns at once.
    fn changed_elsewhere(&self, uri: &str) {
        let _ = uri;
    }

    /// Returns whether it passes questions about code on to language servers that it runs.
    fn answers_code(&self) -> bool {
        false
    }

    /// Asks the language servers that it runs. Returns none where it can't be asked.
    fn ask_code(&self, question: CodeAskParams) -> BoxFuture<'_, Option<CodeAskResult>> {
        let _ = question;
        Box::pin(std::future::ready(None))
    }

    /// Saves documents. Returns those that are saved now; an editor that can't be asked returns none.
    fn save<'a>(&'a self, uris: &'a [String]) -> BoxFuture<'a, Vec<String>>;
}

/// Purpose for which the text of a file is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilePurpose {
    Read,
    /// It is about to be written.
    Write,
}

/// One change of an edit of several documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentChange {
    /// Creates a file with this text.
    Create {
        /// Its name, which is free.
        uri: String,
        /// The whole text.
        text: String,
    },
    /// Changes the text of a document.
    Text {
        /// As the editor names it.
        uri: String,
        /// The version that the ranges are of, where it is open.
        version: Option<i32>,
        /// Ranges of the text before, which don't overlap.
        edits: Vec<(Range, String)>,
    },
    /// Renames a file, and then changes its text.
    Rename {
        /// As the editor names it.
        from: String,
        /// The new name, which is free.
        to: String,
        /// Ranges of the text before.
        edits: Vec<(Range, String)>,
    },
    /// Deletes a file.
    Delete {
        /// As the editor names it.
        uri: String,
    },
}

/// File operations that an editor supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileOperations {
    /// Renames files.
    pub rename: bool,
    /// Deletes files.
    pub delete: bool,
}

/// An editor did not apply an edit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the editor refused the edit: {reason}")]
pub struct EditRefused {
    /// In the editor's words.
    pub reason: String,
}
