//! Preview of one file of an edit: what it is and what it is to become.

use super::action::ProposedEdit;
use roo_workspace::{FileEdit, Resolved};

/// One file of an edit, before and after.
#[derive(Clone, Debug)]
pub struct Preview {
    pub file: Resolved,
    /// Its new name, if it gets one.
    pub moved_to: Option<Resolved>,
    /// Its text; none for a new file.
    pub before: Option<String>,
    /// Its new text; none for one that is deleted.
    pub after: Option<String>,
}

impl From<FileEdit> for Preview {
    fn from(edit: FileEdit) -> Self {
        Self {
            file: edit.file().clone(),
            moved_to: edit.moved_to().cloned(),
            before: edit.before().map(str::to_owned),
            after: edit.after().map(str::to_owned),
        }
    }
}

impl From<&ProposedEdit> for Preview {
    fn from(proposal: &ProposedEdit) -> Self {
        Self {
            file: proposal.path.clone(),
            moved_to: None,
            before: proposal.before.clone(),
            after: Some(proposal.after.clone()),
        }
    }
}
