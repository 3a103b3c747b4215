//! Work that follows a tool call: what a hook is given. The list of the hooks is in `post.rs`.

use super::recorder::Recorder;
use crate::intent_store::Binding;
use roo_trace::record::Entry;

/// Work after a call. It can't undo the call, nor fail it.
pub(super) trait PostHook: Sync {
    /// Does what it does, or has it done. Waits for nothing.
    fn after(&self, recorder: &Recorder, audit_record: &AuditRecord);
}

/// Something that an agent did, or was refused.
#[derive(Clone, Debug)]
pub struct AuditRecord {
    /// Entry for the trace; its intent is filled in there.
    pub entry: Entry,
    /// The intent that was bound.
    pub intent: Option<Binding>,
}
