//! Approvals that the user of a client has been shown. What nobody has seen is allowed by nobody: a command
//! without the digest of what was shown counts only for these.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use roo_protocol::ids::{ApprovalId, Digest};
use roo_protocol::task::PendingApproval;

/// The approvals that a client was shown, in a message, a document or a diagnostic.
#[derive(Default)]
pub(super) struct ShownApprovals(Mutex<HashMap<ApprovalId, ShownApproval>>);

/// Form in which an approval was shown.
struct ShownApproval {
    /// Of the action that was shown.
    digest: Digest,
    /// True if all of it was, and not its title alone.
    in_full: bool,
    /// The options whose scope was told.
    scopes: Vec<String>,
}

impl ShownApprovals {
    /// The user is asked about an approval, by its title.
    pub(super) fn note(&self, approval: &PendingApproval) {
        let mut shown = self.lock();
        let known = shown.get(&approval.approval_id).filter(|known| known.digest == approval.digest);
        if known.is_none() {
            let new = ShownApproval { digest: approval.digest, in_full: false, scopes: vec![] };
            shown.insert(approval.approval_id.clone(), new);
        }
    }

    /// The details of an approval were shown to the user.
    pub(super) fn note_in_full(&self, approval: &PendingApproval) {
        let shown = ShownApproval { digest: approval.digest, in_full: true, scopes: vec![] };
        self.lock().insert(approval.approval_id.clone(), shown);
    }

    /// The user is told what an option of an approval allows or refuses from now on. Returns whether they had been told
    /// before.
    pub(super) fn tell_scope(&self, approval: &PendingApproval, option: &str) -> bool {
        self.note(approval);
        let mut shown = self.lock();
        let Some(known) = shown.get_mut(&approval.approval_id) else { return false };
        let was_told = known.scopes.iter().any(|told| told == option);
        if !was_told {
            known.scopes.push(option.to_owned());
        }
        was_told
    }

    /// Returns whether nothing was shown.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// The approvals that were shown, in one order; some may have their answers by now.
    pub(super) fn ids(&self) -> Vec<ApprovalId> {
        let mut ids: Vec<ApprovalId> = self.lock().keys().cloned().collect();
        ids.sort();
        ids
    }

    /// Forgets an approval that has its answer.
    pub(super) fn forget(&self, approval: &ApprovalId) {
        self.lock().remove(approval);
    }

    /// Returns whether the user was shown this very action.
    pub(super) fn has(&self, approval: &PendingApproval) -> bool {
        self.lock().get(&approval.approval_id).is_some_and(|shown| shown.digest == approval.digest)
    }

    /// Returns whether the user was shown all of this very action.
    pub(super) fn has_in_full(&self, approval: &PendingApproval) -> bool {
        let shown = self.lock();
        shown.get(&approval.approval_id).is_some_and(|shown| shown.digest == approval.digest && shown.in_full)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ApprovalId, ShownApproval>> {
        // Every change under the lock is one call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
