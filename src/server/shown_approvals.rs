//! Which approvals the user of a client has been shown. What nobody has seen is allowed by nobody: a command
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
}

impl ShownApprovals {
    /// The user is asked about an approval, by its title.
    pub(super) fn note(&self, approval: &PendingApproval) {
        let mut shown = self.lock();
        let known = shown.get(&approval.approval_id).filter(|known| known.digest == approval.digest);
        let in_full = known.is_some_and(|known| known.in_full);
        shown.insert(approval.approval_id.clone(), ShownApproval { digest: approval.digest, in_full });
    }

    /// The details of an approval were shown to the user.
    pub(super) fn note_in_full(&self, approval: &PendingApproval) {
        let shown = ShownApproval { digest: approval.digest, in_full: true };
        self.lock().insert(approval.approval_id.clone(), shown);
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
