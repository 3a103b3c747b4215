//! The trace of what agents do: the check that refuses to go on while it can't be kept, and the hook that keeps it.

use super::decision::Refusal;
use super::place_check::{Access, CheckContext, CheckFinding, PlaceCheck};
use super::post_hook::{AuditRecord, PostHook};
use super::recorder::Recorder;
use super::rule::RefusalRule;

/// Refuses what would change something while the trace of earlier changes can't be kept.
pub(super) struct TraceCheck;

impl PlaceCheck for TraceCheck {
    fn check(&self, context: &CheckContext<'_>) -> CheckFinding {
        if context.access == Access::Look {
            return CheckFinding::Pass;
        }
        match context.policy_context.recorder.settle() {
            Ok(()) => CheckFinding::Pass,
            Err(error) => {
                let text = format!("Nothing can be changed now: {error}. Ask the user to fix that.");
                CheckFinding::Deny(Refusal::forbidden(RefusalRule::Trace, text))
            }
        }
    }
}

/// Puts every audit record into the trace.
pub(super) struct TraceHook;

impl PostHook for TraceHook {
    fn after(&self, recorder: &Recorder, audit_record: &AuditRecord) {
        recorder.enqueue(audit_record.entry.clone(), audit_record.intent.clone());
    }
}
