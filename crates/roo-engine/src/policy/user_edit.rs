//! Edits that the user makes themselves through the server, such as to undo what an agent has changed.

use std::collections::BTreeMap;

use super::gate::Gate;
use roo_workspace::{ChangedFile, FileEdit, Location, TextEncoding};

impl Gate {
    /// Writes edits of the user's to files of one workspace folder, all or none, if each file is as its edit says. Rules
    /// for agents don't bind the user, but nothing outside of the workspace folders is written.
    ///
    /// # Errors
    /// The reason, in words for the user.
    pub(crate) async fn write_all_for_user(
        &self,
        edits: &[FileEdit],
        label: &str,
    ) -> Result<Vec<ChangedFile>, String> {
        let mut places = edits.iter().flat_map(FileEdit::places);
        if let Some(place) = places.find(|place| !matches!(place.location(), Location::Inside { .. })) {
            return Err(format!("{} is outside of the workspace", place.display()));
        }
        self.workspace().write_all(edits, label).await.map_err(|error| error.reason())
    }

    /// Restores files: those of a workspace folder all or none, and where one folder fails, those of the others get back
    /// what they held.
    ///
    /// # Errors
    /// The reason, in words for the user.
    pub(crate) async fn restore_for_user(&self, edits: &[FileEdit], label: &str) -> Result<(), String> {
        let mut by_root: BTreeMap<usize, Vec<FileEdit>> = BTreeMap::new();
        for edit in edits {
            let Location::Inside { root } = edit.file().location() else {
                return Err(format!("{} is outside of the workspace", edit.file().display()));
            };
            by_root.entry(root).or_default().push(edit.clone());
        }
        let mut inverses: Vec<Vec<FileEdit>> = Vec::new();
        for edits in by_root.into_values() {
            match self.write_all_for_user(&edits, label).await {
                Ok(changed) => {
                    let encodings = changed
                        .into_iter()
                        .map(|changed| changed.removed_encoding.unwrap_or(TextEncoding::UTF_8));
                    let inverse = edits.into_iter().zip(encodings);
                    inverses.push(inverse.map(|(edit, encoding)| edit.inverse(encoding)).collect());
                }
                Err(reason) => {
                    let mut left = String::new();
                    for back in inverses.into_iter().rev() {
                        if let Err(error) = self.write_all_for_user(&back, label).await {
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

    /// Writes an edit of the user's, if its file is as the edit says. Rules for agents don't bind the user, but nothing
    /// outside of the workspace folders is written.
    ///
    /// # Errors
    /// The reason, in words for the user.
    pub(crate) async fn write_for_user(&self, edit: FileEdit) -> Result<Vec<ChangedFile>, String> {
        let name = edit.file().display();
        self.write_all_for_user(&[edit], &format!("roo-lsp: undo changes of {name}")).await
    }
}
