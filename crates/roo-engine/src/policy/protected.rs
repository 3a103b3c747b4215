//! Names that steer agents, git and editors, and those that the user adds: no scope and no setting grants them.

use super::context::{PolicyContext, ToolCallContext};
use super::decision::{AskReason, Refusal};
use super::place_check::{CheckContext, CheckFinding, PlaceCheck};
use super::rule::{AskRule, RefusalRule};
use roo_workspace::{Location, ProtectedBy, Protection, Resolved, protection};

pub(super) struct ProtectedNameCheck;

impl PlaceCheck for ProtectedNameCheck {
    fn check(&self, context: &CheckContext<'_>) -> CheckFinding {
        let Location::Inside { .. } = context.place.location() else { return CheckFinding::Pass };
        if !context.access.changes() {
            return CheckFinding::Pass;
        }
        let name = context.place.display();
        // A workspace may hold them, as a home directory does.
        if context.policy_context.bounds.is_own(context.place.absolute()) {
            let text = format!(
                "{name} is kept by the server and can't be edited by tools. Ask the user to change it."
            );
            return CheckFinding::Deny(Refusal::forbidden(RefusalRule::Protected, text));
        }
        match protection_of(context) {
            Protection::Denied => {
                let text = format!(
                    "{name} is kept by the server and can't be edited by tools. To widen an intent's scope, call \
                     request_scope_expansion."
                );
                CheckFinding::Deny(Refusal::forbidden(RefusalRule::Protected, text))
            }
            Protection::Tier1 { by } => CheckFinding::Ask(AskReason {
                rule: AskRule::Protected,
                text: match by {
                    ProtectedBy::Name(rule) => format!("{name} steers agents or tools ({rule})"),
                    ProtectedBy::Pattern(pattern) => format!("{name} is protected ({pattern})"),
                },
            }),
            Protection::None | Protection::Tier2 { .. } | Protection::OwnTaskDirectory => CheckFinding::Pass,
        }
    }
}

/// Returns the protection of the place of a call.
pub(super) fn protection_of(context: &CheckContext<'_>) -> Protection {
    protection_at(context.policy_context, context.call_context, context.place)
}

/// Returns the protection of a place. Requests live in the first root; a directory of that name elsewhere is like any
/// other.
pub(super) fn protection_at(
    policy_context: &PolicyContext,
    call_context: ToolCallContext<'_>,
    place: &Resolved,
) -> Protection {
    match place.location() {
        Location::Inside { root } => {
            let names = policy_context.workspace.protected(root, &policy_context.settings.protected);
            names.protection(place.relative(), (root == 0).then_some(call_context.urid.as_str()))
        }
        Location::Outside => protection(place.relative(), None),
    }
}
