//! Check that a place may be looked at: one answer for every tool that reads or writes.

use super::decision::{AskReason, Refusal};
use super::free_places::FreePlaces;
use super::place_check::{Access, CheckContext, CheckFinding, PlaceCheck};
use super::rule::{AskRule, RefusalRule};
use roo_workspace::{ReadAccess, Resolved};

pub(super) struct ReadAccessCheck;

impl PlaceCheck for ReadAccessCheck {
    fn check(&self, context: &CheckContext<'_>) -> CheckFinding {
        let place = context.place;
        let ask = |rule, text| CheckFinding::Ask(AskReason { rule, text });
        match context.policy_context.workspace.read_access(place) {
            // A command starts in a directory; what it may see there is not told by that.
            _ if context.access == Access::Run => {}
            ReadAccess::Free => {}
            ReadAccess::Ignored => {
                let reason = context.policy_context.workspace.ignore_reason(place);
                let text = format!("{} is ignored. {reason}", place.display());
                return CheckFinding::Deny(Refusal::forbidden(RefusalRule::Rooignore, text));
            }
            ReadAccess::Secret => {
                return ask(AskRule::Secret, format!("{} may hold secrets", place.display()));
            }
            // Dependencies and toolchains hold nothing of a user's.
            ReadAccess::Outside if context.access == Access::Look && is_free(context) => {}
            ReadAccess::Outside => {
                return ask(AskRule::Outside, format!("{} is outside of the workspace", place.display()));
            }
        }
        if context.access == Access::Run
            && context.policy_context.workspace.read_access(place) == ReadAccess::Outside
        {
            return ask(AskRule::Outside, format!("{} is outside of the workspace", place.display()));
        }
        odd_name(place).map_or(CheckFinding::Pass, CheckFinding::Ask)
    }
}

fn is_free(context: &CheckContext<'_>) -> bool {
    let place = context.place.absolute();
    let is_own = || context.policy_context.bounds.is_own(place);
    FreePlaces::find(context.policy_context).contain_all_of(place) && !is_own()
}

/// A name that could fool a reader or another system.
fn odd_name(path: &Resolved) -> Option<AskReason> {
    if path.backslash() {
        Some(AskReason {
            rule: AskRule::Path,
            text: format!("the name {} holds a backslash", path.display()),
        })
    } else if path.invisible() {
        Some(AskReason {
            rule: AskRule::Path,
            text: format!("the name {} holds invisible characters", path.display()),
        })
    } else {
        None
    }
}
