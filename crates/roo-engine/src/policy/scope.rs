//! Check that a place is inside of what the task's intent owns, and every intent above it.

use serde_json::json;

use super::decision::Refusal;
use super::place_check::{Access, CheckContext, CheckFinding, PlaceCheck};
use super::rule::RefusalRule;
use super::{intent, protected};
use roo_formats::intents::{Covered, Enforced};
use roo_workspace::{Location, ProtectedBy, Protection};

pub(super) struct ScopeCheck;

impl PlaceCheck for ScopeCheck {
    fn check(&self, context: &CheckContext<'_>) -> CheckFinding {
        // What steers agents is asked about, whatever the scope; a command's own reach is for the sandbox. What
        // users protect besides stays in the scope: a pattern of theirs must not take a bound away.
        let free = matches!(
            protected::protection_of(context),
            Protection::OwnTaskDirectory | Protection::Tier1 { by: ProtectedBy::Name(_) }
        );
        if !context.access.changes() || free {
            return CheckFinding::Pass;
        }
        let grant = match intent::grant(context.policy_context, context.call_context) {
            Ok(Some(grant)) => grant,
            // The implicit intent owns the workspace; what is outside of it is refused in any case.
            Ok(None) => return CheckFinding::Pass,
            Err(refusal) => return CheckFinding::Deny(intent::refuse(&refusal, context.call_context.intent)),
        };
        let inside = matches!(context.place.location(), Location::Inside { root: 0 });
        for intent in &grant.intents {
            let rule = match intent.scope.covers(context.place.relative()) {
                Covered::By(_) if inside => continue,
                Covered::Excluded(pattern) => Some(pattern),
                Covered::By(_) | Covered::No => None,
            };
            let path = context.place.display();
            let text = format!(
                "Scope Violation: {} is not authorized to edit {path}. Request scope expansion.",
                intent.id
            );
            let detail = json!({
                "code": "SCOPE_VIOLATION",
                "intentId": intent.id,
                "path": path,
                "canonical": context.place.absolute(),
                "matchedRule": rule,
            });
            return CheckFinding::Deny(Refusal::mistake(RefusalRule::Scope, text).detailed(detail));
        }
        if let Some(intent) = grant.enforces(Enforced::NoDelete)
            && context.access == Access::Remove
        {
            let text = format!(
                "{} allows no file to be deleted or moved, and {} would be.",
                intent.id,
                context.place.display()
            );
            let detail = json!({ "code": "CONSTRAINT", "intentId": intent.id, "constraint": "no_delete" });
            return CheckFinding::Deny(Refusal::mistake(RefusalRule::Scope, text).detailed(detail));
        }
        if let Some(intent) = grant.enforces(Enforced::NoNewFiles)
            && !context.place.is_file()
        {
            let text = format!(
                "{} allows no new files, and {} does not exist. Change the files that are there.",
                intent.id,
                context.place.display()
            );
            let detail = json!({ "code": "CONSTRAINT", "intentId": intent.id, "constraint": "no_new_files" });
            return CheckFinding::Deny(Refusal::mistake(RefusalRule::Scope, text).detailed(detail));
        }
        CheckFinding::Pass
    }
}
