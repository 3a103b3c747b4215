//! Checks that look at where a tool call leads: what one is given, and what it finds. Their list is in `check.rs`.

use super::context::{PolicyContext, ToolCallContext};
use super::decision::{AskReason, Refusal};
use roo_workspace::Resolved;

/// One check. It looks, and changes nothing. What it can't find out, it refuses.
pub(super) trait PlaceCheck: Sync {
    /// Its finding on one call.
    fn check(&self, context: &CheckContext<'_>) -> CheckFinding;
}

pub(super) enum CheckFinding {
    /// Nothing against the call.
    Pass,
    /// The user must be asked, whatever the settings say.
    Ask(AskReason),
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
