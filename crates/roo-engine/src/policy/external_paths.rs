//! Nothing is written and no command starts outside of the workspace, whoever would allow it. It comes last:
//! a call that an intent doesn't cover is refused for that reason.

use super::decision::Refusal;
use super::place_check::{Access, CheckContext, CheckFinding, PlaceCheck};
use super::rule::RefusalRule;
use roo_workspace::Location;

pub(super) struct OutsideCheck;

impl PlaceCheck for OutsideCheck {
    fn check(&self, context: &CheckContext<'_>) -> CheckFinding {
        if context.access == Access::Look || matches!(context.place.location(), Location::Inside { .. }) {
            return CheckFinding::Pass;
        }
        let name = context.place.display();
        let text =
            format!("{name} is outside of the workspace: nothing is written and no command starts there.");
        CheckFinding::Deny(Refusal::forbidden(RefusalRule::Outside, text))
    }
}
