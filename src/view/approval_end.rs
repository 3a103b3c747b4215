//! How an approval came to its end.

use roo_protocol::event::ApprovalOption;
use roo_protocol::task::PendingApproval;

/// How an approval came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApprovalEnd<'a> {
    /// By an answer, of which more is known than its id where it was seen what the approval offers.
    Chosen { id: &'a str, option: Option<&'a ApprovalOption> },
    /// By the standing rule of this id.
    ByRule(&'a str),
    /// Nothing has to be decided any more.
    Void,
}

/// What is said where nothing has to be decided, or answered, any more.
pub(crate) const VOID_LINE: &str = "no longer asked";

/// Says which standing rule decided.
pub(crate) fn ruled_line(rule: &str) -> String {
    format!("decided by the standing rule {rule}")
}

/// The end of an approval, if that is known, with the id of the answer or of the standing rule.
pub(crate) fn approval_end<'a>(
    approval: Option<&'a PendingApproval>,
    option_id: Option<&'a str>,
    rule: Option<&'a str>,
) -> ApprovalEnd<'a> {
    match (option_id, rule) {
        (Some(id), _) => {
            let mut options = approval.iter().flat_map(|approval| &approval.options);
            ApprovalEnd::Chosen { id, option: options.find(|option| option.id == id) }
        }
        (None, Some(rule)) => ApprovalEnd::ByRule(rule),
        (None, None) => ApprovalEnd::Void,
    }
}
