//! Decision whether a file of a workspace may steer agents. Its text goes to a model without anybody having asked for
//! it, so only what every reader may have without asking does; decided by where the file really is.

use roo_workspace::{Ignores, ReadAccess, Resolved, is_git};

/// Reasons why a file steers nobody.
#[derive(Debug, thiserror::Error)]
pub(super) enum Withheld {
    #[error("it is a symlink that points outside the workspace; put the text itself there")]
    Outside,
    #[error("it points into the git directory; put the text itself there")]
    Git,
    #[error("it is hidden by .rooignore, or leads to a file that is")]
    Ignored,
    #[error("it has the name of a secret, or leads to a file that has")]
    Secret,
}

/// Asks the one rule for readers about a place of a workspace.
pub(super) fn check(ignores: &Ignores, place: &Resolved) -> Result<(), Withheld> {
    match ignores.access(place) {
        ReadAccess::Outside => Err(Withheld::Outside),
        ReadAccess::Ignored => Err(Withheld::Ignored),
        ReadAccess::Secret => Err(Withheld::Secret),
        ReadAccess::Free if is_git(place.relative()) => Err(Withheld::Git),
        ReadAccess::Free => Ok(()),
    }
}
