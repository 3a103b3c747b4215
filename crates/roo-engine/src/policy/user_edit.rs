//! Edits that the user makes themselves through the server, such as to undo what an agent has changed.

use std::collections::BTreeMap;

use super::gate::Gate;
use roo_workspace::{BytesEdit, ChangedFile, FileEdit, Location, Resolved, TextEncoding};

/// Edits of a restore.
#[derive(Clone, Debug, Default)]
pub(crate) struct RestoreEdits {
    /// Of texts.
    pub(crate) texts: Vec<FileEdit>,
    /// Of files that are no text, or become none or text again.
    pub(crate) bytes: Vec<BytesEdit>,
}

impl RestoreEdits {
    pub(crate) fn is_empty(&self) -> bool {
        self.texts.is_empty() && self.bytes.is_empty()
    }
}

impl Gate {
    /// Writes edits of the user's to files of one workspace folder, all or none, if each file is as its edit says. Rules
    /// for agents don't bind the user, but nothing outside of the workspace folders is written.
    async fn write_all_for_user(
        &self,
        edits: &[FileEdit],
        bytes: &[BytesEdit],
        label: &str,
    ) -> Result<Vec<ChangedFile>, String> {
        let mut places = edits.iter().flat_map(FileEdit::places).chain(bytes.iter().map(|edit| &edit.file));
        if let Some(place) = places.find(|place| !matches!(place.location(), Location::Inside { .. })) {
            return Err(format!("{} is outside of the workspace", place.display()));
        }
        self.workspace().write_all_with(edits, bytes, label).await.map_err(|error| error.reason())
    }

    /// Restores files: those of a workspace folder all or none, and where one folder fails, those of the others get back
    /// what they held.
    ///
    /// # Errors
    /// The reason, in words for the user.
    pub(crate) async fn restore_for_user(&self, edits: &RestoreEdits, label: &str) -> Result<(), String> {
        let root_of = |file: &Resolved| match file.location() {
            Location::Inside { root } => Ok(root),
            Location::Outside => Err(format!("{} is outside of the workspace", file.display())),
        };
        let mut by_root: BTreeMap<usize, RestoreEdits> = BTreeMap::new();
        for edit in &edits.texts {
            by_root.entry(root_of(edit.file())?).or_default().texts.push(edit.clone());
        }
        for edit in &edits.bytes {
            by_root.entry(root_of(&edit.file)?).or_default().bytes.push(edit.clone());
        }
        let mut inverses: Vec<RestoreEdits> = Vec::new();
        for RestoreEdits { texts, bytes } in by_root.into_values() {
            match self.write_all_for_user(&texts, &bytes, label).await {
                Ok(changed) => {
                    let encodings = changed
                        .into_iter()
                        .map(|changed| changed.removed_encoding.unwrap_or(TextEncoding::UTF_8));
                    let texts = texts.into_iter().zip(encodings);
                    inverses.push(RestoreEdits {
                        texts: texts.map(|(edit, encoding)| edit.inverse(encoding)).collect(),
                        bytes: bytes.into_iter().map(BytesEdit::inverse).collect(),
                    });
                }
                Err(reason) => {
                    let mut left = String::new();
                    for RestoreEdits { texts, bytes } in inverses.into_iter().rev() {
                        if let Err(error) = self.write_all_for_user(&texts, &bytes, label).await {
                            left.push_str(&format!(
                                "; files of another folder could not be put back: {error}"
                            ));
                        }
                    }
                    return Err(format!("{reason}{left}"));
                }
            }
        }
        Ok(())
    }
}
