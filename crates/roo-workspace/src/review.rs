//! A change of several files that its user chooses from, in the preview of their editor.
//!
//! The whole change is permitted before; a review can only leave parts of it out. The result is read from the texts, as
//! editors also answer `applied` for a part.

use std::sync::Arc;

use tokio::time::Instant;

use super::commit::WriteError;
use super::editor::{DocumentChange, EditRefused, Editor};
use super::file::{Contents, EDIT_LIMIT, read_disk};
use super::multi_file_edit::{ChangedFile, FileEdit, RemovedFile};
use super::resolver::Resolved;
use super::{CHANGE_DEADLINE, Document, EditorId, Workspace, blocking, is_on_disk};
use roo_protocol::ids::Digest;
use roo_text::position::minimal_edits;

/// Result of a user's review of one file of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reviewed {
    /// The file has its new text.
    Taken(ChangedFile),
    /// The file is unchanged.
    Left,
    /// The file has another text.
    Other {
        /// The text that it has; none when nothing readable is there.
        text: Option<String>,
        /// Outcome.
        changed: ChangedFile,
    },
}

impl Workspace {
    /// Returns whether there is an editor that can have its user choose among changes.
    pub fn can_review(&self) -> bool {
        !self.reviewers().is_empty()
    }

    /// The editors that can have their user choose among changes, the one that was attached last first.
    fn reviewers(&self) -> Vec<(EditorId, Arc<dyn Editor>)> {
        let attached = self.documents.editors().into_iter().rev();
        let attached = attached.filter_map(|(id, attached)| Some((id, attached.editor?)));
        let own = self.editor.clone().map(|editor| (EditorId::default(), editor));
        attached.chain(own).filter(|(_, editor)| editor.reviews()).collect()
    }

    /// Has the user choose among changes in their editor, which then makes those that they chose. Waits for
    /// the user, without a lock: the editor refuses changes of documents whose text has changed meanwhile, and the
    /// result is read from the files.
    ///
    /// # Errors
    /// [`WriteError`], when nothing was shown to the user.
    pub async fn review(&self, edits: &[FileEdit], label: &str) -> Result<Vec<Reviewed>, WriteError> {
        let first = || edits.first().map(|edit| edit.file().display()).unwrap_or_default();
        let refused = |reason: &str| WriteError::Refused { path: first(), reason: reason.to_owned() };
        let holders = edits.iter().filter_map(|edit| self.holder(edit));
        let holders: Vec<EditorId> = holders.map(|document| document.editor).collect();
        let mut reviewers = self.reviewers();
        let place = reviewers.iter().position(|(id, _)| holders.iter().all(|holder| holder == id));
        let (id, editor) = match place {
            Some(place) => reviewers.swap_remove(place),
            None if reviewers.is_empty() => return Err(refused("it has no preview")),
            None => return Err(refused("another editor without a preview has one of the files open")),
        };
        let removed = self.removed_files(edits).await;
        let mut changes = Vec::new();
        for edit in edits {
            for place in edit.places() {
                self.check_ignored(place)?;
            }
            changes.push(self.to_review(edit, id).await?);
        }
        // The files count, not the editor's answer.
        if let Err(EditRefused { reason }) = editor.review(label, changes).await {
            tracing::debug!(reason, "a review ended without all changes");
            return Ok(self.reviewed(edits, id, removed).await);
        }
        // Its texts may come after its answer.
        let deadline = Instant::now() + CHANGE_DEADLINE;
        for edit in edits {
            if let (Some(after), place) = (edit.after(), edit.moved_to().unwrap_or(edit.file()))
                && !self.holds(place, id, after, deadline).await
            {
                break;
            }
        }
        Ok(self.reviewed(edits, id, removed).await)
    }

    /// The document that an edit was made from.
    fn holder(&self, edit: &FileEdit) -> Option<Document> {
        self.documents.at_with(edit.file().absolute(), edit.before().map(Digest::of))
    }

    async fn to_review(&self, edit: &FileEdit, editor: EditorId) -> Result<DocumentChange, WriteError> {
        let (file, document) = (edit.file(), self.holder(edit));
        let encoding = self.encoding_of(editor);
        let now = self.text_of(file, editor).await;
        if now.as_deref() != edit.before() {
            let path = file.display();
            return Err(match edit.before().map(Digest::of) {
                None => WriteError::Exists { path },
                Some(expected) => {
                    WriteError::Stale { path, expected, actual: now.as_deref().map(Digest::of) }
                }
            });
        }
        let version = document.as_ref().map(|document| document.version);
        let uri = document.map_or_else(|| file.uri(), |document| document.uri);
        let edits = |after: &str| minimal_edits(edit.before().unwrap_or_default(), after, encoding);
        Ok(match edit {
            FileEdit::Create { text, .. } => DocumentChange::Create { uri, text: text.clone() },
            FileEdit::Update { after, .. } => DocumentChange::Text { uri, version, edits: edits(after) },
            FileEdit::Delete { .. } => DocumentChange::Delete { uri },
            FileEdit::Move { to, after, .. } => {
                DocumentChange::Rename { from: uri, to: to.uri(), edits: edits(after) }
            }
        })
    }

    /// Returns the content of the files, or of the documents over them, after a review.
    async fn reviewed(
        &self,
        edits: &[FileEdit],
        editor: EditorId,
        removed: Vec<RemovedFile>,
    ) -> Vec<Reviewed> {
        let same = |now: Option<&str>, wanted: Option<&str>| match (now, wanted) {
            (Some(now), Some(wanted)) => now.lines().eq(wanted.lines()),
            (now, wanted) => now == wanted,
        };
        let mut all = Vec::new();
        for (edit, removed) in edits.iter().zip(removed) {
            let place = edit.moved_to().unwrap_or(edit.file());
            let now = self.text_of(place, editor).await;
            let is_gone = edit.moved_to().is_none() || self.text_of(edit.file(), editor).await.is_none();
            let changed = ChangedFile {
                uri: self
                    .documents
                    .at_in(place.absolute(), editor)
                    .map_or_else(|| place.uri(), |document| document.uri),
                before: edit.before().map(Digest::of),
                after: now.as_deref().map(Digest::of),
                text_after: now.as_deref().map(Digest::of),
                removed_encoding: removed.encoding,
                removed_executable: removed.executable,
            };
            all.push(if is_gone && same(now.as_deref(), edit.after()) {
                Reviewed::Taken(changed)
            } else if same(self.text_of(edit.file(), editor).await.as_deref(), edit.before())
                && (edit.moved_to().is_none() || now.is_none())
            {
                Reviewed::Left
            } else {
                Reviewed::Other { text: now, changed }
            });
        }
        all
    }

    /// The text of a document in an editor, or of the file where none is open there.
    async fn text_of(&self, place: &Resolved, editor: EditorId) -> Option<String> {
        if let Some(document) = self.documents.at_in(place.absolute(), editor)
            && (is_on_disk(place) || !document.text.is_empty())
        {
            return Some(document.text.to_string());
        }
        let place = place.clone();
        let read =
            blocking(move || read_disk(&place, EDIT_LIMIT).map(Contents::from_bytes)).await.ok()?.ok()?;
        match read {
            Contents::Text(text) if !text.lossy => Some(text.text),
            _ => None,
        }
    }
}
