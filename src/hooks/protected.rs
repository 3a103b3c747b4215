//! Names that steer agents, git and editors: no scope and no setting grants them.

use super::gate::{Reason, Refusal};
use super::hook::{Finding, Hook, Scene};
use crate::workspace::{Location, Protection, protection};

pub(super) struct Protected;

impl Hook for Protected {
    fn check(&self, scene: &Scene<'_>) -> Finding {
        let Location::Inside { .. } = scene.place.location() else { return Finding::Pass };
        if !scene.access.changes() {
            return Finding::Pass;
        }
        let name = scene.place.display();
        match of(scene) {
            Protection::Denied => {
                let text = format!(
                    "{name} is kept by the server and can't be edited by tools. An intent's scope changes by \
                     request_scope_expansion."
                );
                Finding::Deny(Refusal::forbidden("protected", text))
            }
            Protection::Tier1 { rule } => Finding::Ask(Reason {
                rule: "protected",
                text: format!("{name} steers agents or tools ({rule})"),
            }),
            Protection::None | Protection::Tier2 { .. } | Protection::OwnTaskDirectory => Finding::Pass,
        }
    }
}

/// How a place is protected. Requests live in the first root; a directory of that name elsewhere is like
/// any other.
pub(super) fn of(scene: &Scene<'_>) -> Protection {
    let is_first = matches!(scene.place.location(), Location::Inside { root: 0 });
    protection(scene.place.relative(), is_first.then_some(scene.subject.urid.as_str()))
}
