//! Checks of tool calls, and the list of those that look at where a call leads.
//!
//! To add one: a file beside this one with a [`Hook`], and a line in [`HOOKS`].

use super::gate::{PolicyContext, Reason, Refusal, ToolCallContext};
use super::{external_paths, intent, protected, readable, scope, trace};
use roo_workspace::Resolved;

/// The checks, in their order. The first that refuses decides; of several that ask, the first is told.
pub(super) const HOOKS: &[&dyn Hook] = &[
    &trace::Traceable,
    &readable::Readable,
    &protected::Protected,
    &intent::Bound,
    &scope::Owned,
    &external_paths::Outside,
];

/// One check. It looks, and changes nothing. What it can't find out, it refuses.
pub(super) trait Hook: Sync {
    /// Its finding on one call.
    fn check(&self, context: &CheckContext<'_>) -> Finding;
}

/// Findings of a check.
pub(super) enum Finding {
    /// Nothing against the call.
    Pass,
    /// The user must be asked, whatever the settings say.
    Ask(Reason),
    /// The call must not run.
    Deny(Refusal),
}

/// Place that a call is about to touch, and how.
pub(super) struct CheckContext<'a> {
    pub(super) policy_context: &'a PolicyContext,
    pub(super) call_context: ToolCallContext<'a>,
    /// Resolved path.
    pub(super) place: &'a Resolved,
    /// Access that the call wants.
    pub(super) access: Access,
}

/// Kinds of access of a call to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Looks at it.
    Look,
    /// Writes it.
    Write,
    /// Deletes it, or gives it another name.
    Remove,
    /// Runs something there.
    Run,
}

impl Access {
    /// Returns whether something is another afterwards, by the tool's own hand.
    pub(super) fn changes(self) -> bool {
        matches!(self, Self::Write | Self::Remove)
    }
}

/// Runs the checks over one place; what has to be asked of it.
pub(super) fn check(context: &CheckContext<'_>) -> Result<Option<Reason>, Refusal> {
    let mut asks = None;
    for hook in HOOKS {
        match hook.check(context) {
            Finding::Pass => {}
            Finding::Ask(reason) => asks = asks.or(Some(reason)),
            Finding::Deny(refusal) => return Err(refusal),
        }
    }
    Ok(asks)
}
