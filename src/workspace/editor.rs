//! What the workspace asks of an editor, and nothing about how it is asked.

use futures_util::future::BoxFuture;

use crate::protocol::task::Range;

/// An editor that has documents open.
pub trait Editor: Send + Sync {
    /// Applies edits to a document that is at `version`, as one step of undo. The ranges are those of
    /// the text before, and don't overlap. `label` is for the editor's history.
    fn apply_edit<'a>(
        &'a self,
        label: &'a str,
        uri: &'a str,
        version: i32,
        edits: Vec<(Range, String)>,
    ) -> BoxFuture<'a, Result<(), EditRefused>>;

    /// Saves documents. Returns those that are saved now; an editor that can't be asked returns none.
    fn save<'a>(&'a self, uris: &'a [String]) -> BoxFuture<'a, Vec<String>>;
}

/// An editor did not apply an edit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the editor refused the edit: {reason}")]
pub struct EditRefused {
    /// In the editor's words.
    pub reason: String,
}
