//! Work that follows a tool call: the list of hooks that run when it has happened, or was refused.
//!
//! To add one: a file beside this one with a `PostHook`, and a line in `POST_HOOKS`.

use super::trace::{Recorder, Trace};
use crate::intent_store::Binding;
use roo_trace::record::Entry;

/// The hooks, in their order.
const POST_HOOKS: &[&dyn PostHook] = &[&Trace];

/// Work after a call. It can't undo the call, nor fail it.
pub(super) trait PostHook: Sync {
    /// Does what it does. May wait for the disk.
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

/// Runs the hooks on an audit record. Waits for the disk.
pub fn after(recorder: &Recorder, audit_record: &AuditRecord) {
    POST_HOOKS.iter().for_each(|hook| hook.after(recorder, audit_record));
}
