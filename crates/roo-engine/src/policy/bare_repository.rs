//! Repositories without a `.git`: what steers one is no name by itself, and is found by what is beside it.

use super::decision::AskReason;
use super::git::bare_repository;
use super::place_check::{CheckContext, CheckFinding, PlaceCheck};
use super::rule::AskRule;
use roo_workspace::Location;

pub(super) struct BareRepositoryCheck;

impl PlaceCheck for BareRepositoryCheck {
    fn check(&self, context: &CheckContext<'_>) -> CheckFinding {
        let Location::Inside { root } = context.place.location() else { return CheckFinding::Pass };
        let root = context.policy_context.workspace.roots().paths().nth(root);
        let Some(root) = root.filter(|_| context.access.changes()) else { return CheckFinding::Pass };
        if bare_repository(root, context.place.absolute()).is_none() {
            return CheckFinding::Pass;
        }
        let name = context.place.display();
        CheckFinding::Ask(AskReason {
            rule: AskRule::Protected,
            text: format!("{name} is part of a git repository, which can make git run programs"),
        })
    }
}
