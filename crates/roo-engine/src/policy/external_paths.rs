//! Nothing is written and no command starts outside of the workspace, whoever would allow it. It comes last:
//! what an intent doesn't cover is told as that.

use super::check::{Access, CheckContext, Finding, Hook};
use super::gate::Refusal;
use super::rule::RefusalRule;
use roo_workspace::Location;

pub(super) struct Outside;

impl Hook for Outside {
    fn check(&self, context: &CheckContext<'_>) -> Finding {
        if context.access == Access::Look || matches!(context.place.location(), Location::Inside { .. }) {
            return Finding::Pass;
        }
        let name = context.place.display();
        let text =
            format!("{name} is outside of the workspace: nothing is written and no command starts there.");
        Finding::Deny(Refusal::forbidden(RefusalRule::Outside, text))
    }
}
