//! Names that steer agents, git and editors, and those that the user adds: no scope and no setting grants them.

use super::check::{CheckContext, Finding, Hook};
use super::gate::{PolicyContext, Reason, Refusal, ToolCallContext};
use super::rule::RefusalRule;
use roo_workspace::{Location, ProtectedBy, Protection, Resolved, protection};

pub(super) struct Protected;

impl Hook for Protected {
    fn check(&self, context: &CheckContext<'_>) -> Finding {
        let Location::Inside { .. } = context.place.location() else { return Finding::Pass };
        if !context.access.changes() {
            return Finding::Pass;
        }
        let name = context.place.display();
        // A workspace may hold them, as a home directory does.
        if context.policy_context.bounds.is_own(context.place.absolute()) {
            let text = format!(
                "{name} is kept by the server and can't be edited by tools. Ask the user to change it."
            );
            return Finding::Deny(Refusal::forbidden(RefusalRule::Protected, text));
        }
        match of(context) {
            Protection::Denied => {
                let text = format!(
                    "{name} is kept by the server and can't be edited by tools. An intent's scope changes by \
                     request_scope_expansion."
                );
                Finding::Deny(Refusal::forbidden(RefusalRule::Protected, text))
            }
            Protection::Tier1 { by } => Finding::Ask(Reason {
                rule: "protected",
                text: match by {
                    ProtectedBy::Name(rule) => format!("{name} steers agents or tools ({rule})"),
                    ProtectedBy::Pattern(pattern) => format!("{name} is protected ({pattern})"),
                },
            }),
            Protection::None | Protection::Tier2 { .. } | Protection::OwnTaskDirectory => Finding::Pass,
        }
    }
}

/// Returns the protection of the place of a call.
pub(super) fn of(context: &CheckContext<'_>) -> Protection {
    of_place(context.policy_context, context.call_context, context.place)
}

/// Returns the protection of a place. Requests live in the first root; a directory of that name elsewhere is like any
/// other.
pub(super) fn of_place(
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
