//! Context of the intent that a task has bound.

use std::fmt::Write as _;

use quick_xml::escape::escape;

use super::intent::Intent;

/// The most entries of the trace that are told.
const RECENT: usize = 20;

/// A change that was made for an intent before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recent {
    /// Time, RFC 3339.
    pub at: String,
    /// The file, or the command's tool.
    pub what: String,
    /// Outcome of the call, or kind of the change.
    pub outcome: String,
}

/// The block that answers `select_active_intent`. Everything in it is data: no value can close a tag.
/// `recent` has the newest last.
pub fn intent_context(intent: &Intent, recent: &[Recent]) -> String {
    let mut text = String::from("<intent_context>\n");
    let mut tag = |name: &str, value: &str| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "  <{name}>{}</{name}>", escape(value));
    };
    tag("intent_id", &intent.id);
    tag("name", &intent.name);
    tag("status", intent.status.as_str());
    tag("scope", &intent.owned_scope.join(", "));
    let mut list = |name: &str, item: &str, values: &mut dyn Iterator<Item = String>| {
        let mut values = values.peekable();
        if values.peek().is_none() {
            return;
        }
        let _ = writeln!(text, "  <{name}>");
        for value in values {
            let _ = writeln!(text, "    <{item}>{}</{item}>", escape(value.as_str()));
        }
        let _ = writeln!(text, "  </{name}>");
    };
    let enforced = intent.enforce.iter().map(|enforced| format!("{} (checked)", enforced.as_str()));
    list("constraints", "constraint", &mut intent.constraints.iter().cloned().chain(enforced));
    list("acceptance_criteria", "criterion", &mut intent.acceptance_criteria.iter().cloned());
    list("requirements", "requirement", &mut intent.requirements.iter().cloned());
    list("related_files", "file", &mut intent.related_files.iter().cloned());
    let newest = &recent[recent.len().saturating_sub(RECENT)..];
    let mut lines = newest.iter().map(|entry| format!("{} {} ({})", entry.at, entry.what, entry.outcome));
    list("recent_trace", "entry", &mut lines);
    text.push_str("</intent_context>");
    text
}
