//! List of the checks that look at where a call leads.
//!
//! To add one: a file beside this one with a [`PlaceCheck`], and a line in [`CHECKS`].

use super::decision::{AskReason, Refusal};
use super::place_check::{CheckContext, CheckFinding, PlaceCheck};
use super::{bare_repository, external_paths, intent, protected, readable, scope, trace};

/// The checks, in their order. The first that refuses decides; of several that ask, the first is told.
pub(super) const CHECKS: &[&dyn PlaceCheck] = &[
    &trace::TraceCheck,
    &readable::ReadAccessCheck,
    &protected::ProtectedNameCheck,
    &bare_repository::BareRepositoryCheck,
    &intent::IntentBoundCheck,
    &scope::ScopeCheck,
    &external_paths::OutsideCheck,
];

/// Runs the checks over one place; what has to be asked of it.
pub(super) fn check(context: &CheckContext<'_>) -> Result<Option<AskReason>, Refusal> {
    let mut asks = None;
    for hook in CHECKS {
        match hook.check(context) {
            CheckFinding::Pass => {}
            CheckFinding::Ask(reason) => asks = asks.or(Some(reason)),
            CheckFinding::Deny(refusal) => return Err(refusal),
        }
    }
    Ok(asks)
}
