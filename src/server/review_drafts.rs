//! Decisions on single hunks of an edit, as a plain client's user makes them one after another: they are one answer, which is
//! sent when each hunk has its decision.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use roo_protocol::ids::{ApprovalId, Digest, HunkId};
use roo_protocol::review::{Hunk, HunkAnswer, HunkDecision};
use roo_protocol::task::PendingApproval;

/// The decisions that wait for others of the same approval.
#[derive(Default)]
pub(super) struct ReviewDrafts(Mutex<HashMap<ApprovalId, Draft>>);

struct Draft {
    /// Of the action that was decided on.
    digest: Digest,
    answers: BTreeMap<HunkId, HunkAnswer>,
}

impl ReviewDrafts {
    /// Adds a decision on some hunks. The newest on each counts.
    pub(super) fn decide(&self, approval: &PendingApproval, hunks: &[Hunk], decision: &HunkDecision) {
        let mut drafts = self.lock();
        let draft = drafts
            .entry(approval.approval_id.clone())
            .or_insert_with(|| Draft { digest: approval.digest, answers: BTreeMap::new() });
        if draft.digest != approval.digest {
            *draft = Draft { digest: approval.digest, answers: BTreeMap::new() };
        }
        for hunk in hunks {
            let (hunk_id, digest, decision) = (hunk.hunk_id.clone(), Some(hunk.digest), decision.clone());
            draft.answers.insert(hunk_id.clone(), HunkAnswer { hunk_id, digest, decision });
        }
    }

    /// The decisions on an approval so far.
    pub(super) fn answers(&self, approval: &PendingApproval) -> Vec<HunkAnswer> {
        let drafts = self.lock();
        let draft = drafts.get(&approval.approval_id).filter(|draft| draft.digest == approval.digest);
        draft.map(|draft| draft.answers.values().cloned().collect()).unwrap_or_default()
    }

    /// Forgets the decisions on an approval, which has its answer.
    pub(super) fn forget(&self, approval: &ApprovalId) {
        self.lock().remove(approval);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ApprovalId, Draft>> {
        // Every change under the lock leaves a whole draft.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
