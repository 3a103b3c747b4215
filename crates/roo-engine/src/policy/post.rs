//! Work that follows a tool call: the list of hooks that run when it has happened, or was refused.
//!
//! To add one: a file beside this one with a `PostHook`, and a line in `POST_HOOKS`.

use super::post_hook::{AuditRecord, PostHook};
use super::recorder::Recorder;
use super::trace::TraceHook;

/// The hooks, in their order.
const POST_HOOKS: &[&dyn PostHook] = &[&TraceHook];

/// Runs the hooks on an audit record. What they keep is durable after [`Recorder::settle`].
pub fn after(recorder: &Recorder, audit_record: &AuditRecord) {
    POST_HOOKS.iter().for_each(|hook| hook.after(recorder, audit_record));
}
