//! Decision whether a file of a workspace may steer agents. Its text goes to a model without anybody having asked for
//! it, so only what every reader may have without asking does; decided by where the file really is.
//!
//! `.rooignore` limits what the tools of models read, as in Roo Code: it doesn't hide the files that steer agents by their
//! own names, however wide its patterns are. A link to what it hides is refused.

use roo_workspace::{Ignores, ReadAccess, Resolved, is_git};

/// Reasons why a file steers nobody.
#[derive(Debug, thiserror::Error)]
pub(super) enum Withheld {
    #[error("it is a symlink that points outside the workspace; put the text itself there")]
    Outside,
    #[error("it points into the git directory; put the text itself there")]
    Git,
    #[error("it leads to a file that is hidden by .rooignore")]
    Ignored,
    #[error("it has the name of a secret, or leads to a file that has")]
    Secret,
}

/// Asks the one rule for readers about a place of a workspace. `by_links` says that links led there from the name that was
/// looked for.
pub(super) fn check(ignores: &Ignores, place: &Resolved, by_links: bool) -> Result<(), Withheld> {
    let access = if by_links { ignores.access(place) } else { ignores.access_at_known_name(place) };
    match access {
        ReadAccess::Outside => Err(Withheld::Outside),
        ReadAccess::Ignored => Err(Withheld::Ignored),
        ReadAccess::Secret => Err(Withheld::Secret),
        ReadAccess::Free if is_git(place.relative()) => Err(Withheld::Git),
        ReadAccess::Free => Ok(()),
    }
}
