//! The answers that an approval offers: what each is called, the standing rule that it makes, and what a task remembers
//! of those that were declined.

use std::collections::BTreeMap;

use super::{
    ALLOW_ALWAYS, ALLOW_COMMANDS, ALLOW_EVERYWHERE, ALLOW_ONCE, ALLOW_PRESET, REJECT_ALWAYS, REJECT_ONCE,
    identity,
};
use crate::policy::Offers;
use roo_catalog::ToolCall;
use roo_protocol::event::{ApprovalOption, OptionKind};
use roo_protocol::ids::Digest;
use roo_protocol::rule::{RuleScope, RuleSubject, RuleVerdict, SandboxAccess};
use roo_protocol::task::PendingApproval;

/// The answers to an approval, the harmless one first; the last one allows something else for good, where that is offered.
pub(super) fn options(rule: Option<&RuleSubject>, alternative: Option<&RuleSubject>) -> Vec<ApprovalOption> {
    let mut options = options_of_rule(rule);
    if let Some(alternative) = alternative {
        let id = match alternative {
            RuleSubject::CommandAccess { .. } => ALLOW_COMMANDS,
            _ => ALLOW_PRESET,
        };
        let name = format!("Always allow {}", alternative.text());
        options.push(ApprovalOption { id: id.to_owned(), name, kind: OptionKind::AllowAlways });
    }
    options
}

fn options_of_rule(rule: Option<&RuleSubject>) -> Vec<ApprovalOption> {
    let option = |id: &str, name: &str, kind| ApprovalOption { id: id.into(), name: name.into(), kind };
    let (deny, once) = (OptionKind::RejectOnce, OptionKind::AllowOnce);
    let (never, always) = (OptionKind::RejectAlways, OptionKind::AllowAlways);
    match rule {
        None => vec![option(REJECT_ONCE, "Deny", deny), option(ALLOW_ONCE, "Allow", once)],
        Some(RuleSubject::ConfinedCommands) => vec![
            option(REJECT_ONCE, "Deny", deny),
            option(ALLOW_ONCE, "Only this command", once),
            option(ALLOW_ALWAYS, "Yes, for this project", always),
            option(REJECT_ALWAYS, "No, ask each time", never),
        ],
        Some(RuleSubject::TrustAndConfinedCommands { .. }) => vec![
            option(REJECT_ONCE, "Deny", deny),
            option(ALLOW_ONCE, "Only this command", once),
            option(ALLOW_ALWAYS, "Yes, trust this folder", always),
            option(REJECT_ALWAYS, "No, ask each time", never),
        ],
        Some(RuleSubject::SandboxAccess(_)) => vec![
            option(REJECT_ONCE, "Run without it", deny),
            option(ALLOW_ONCE, "Allow once", once),
            option(ALLOW_ALWAYS, "Allow for this project", always),
            option(ALLOW_EVERYWHERE, "Allow for all projects", always),
            option(REJECT_ALWAYS, "Never in this project", never),
        ],
        Some(rule) => {
            let what = rule.text();
            vec![
                option(REJECT_ONCE, "Deny", deny),
                option(ALLOW_ONCE, "Allow", once),
                option(ALLOW_ALWAYS, &format!("Always allow {what}"), always),
                option(REJECT_ALWAYS, &format!("Always deny {what}"), never),
            ]
        }
    }
}

/// A standing rule that an answer makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine) struct NewRule {
    /// Scope of the rule.
    pub(in crate::engine) scope: RuleScope,
    /// Which way it goes.
    pub(in crate::engine) verdict: RuleVerdict,
    /// Subject of the rule.
    pub(in crate::engine) subject: RuleSubject,
    /// Files that the workspace's folder was shown to have, where the answer trusts it.
    pub(in crate::engine) trusts: Option<Vec<String>>,
}

impl NewRule {
    /// The rule that an option of an approval makes.
    pub(in crate::engine) fn from_answer(approval: &PendingApproval, option: &str) -> Option<Self> {
        let (scope, verdict, subject) = match option {
            ALLOW_ALWAYS => (RuleScope::Workspace, RuleVerdict::Allow, approval.rule.as_ref()),
            ALLOW_EVERYWHERE => (RuleScope::User, RuleVerdict::Allow, approval.rule.as_ref()),
            REJECT_ALWAYS => (RuleScope::Workspace, RuleVerdict::Deny, approval.rule.as_ref()),
            ALLOW_PRESET | ALLOW_COMMANDS => {
                (RuleScope::Workspace, RuleVerdict::Allow, approval.alternative.as_deref())
            }
            _ => return None,
        };
        let (subject, trusts) = match subject?.clone() {
            RuleSubject::TrustAndConfinedCommands { brings } => {
                (RuleSubject::ConfinedCommands, (verdict == RuleVerdict::Allow).then_some(brings))
            }
            subject => (subject, None),
        };
        Some(Self { scope, verdict, subject, trusts })
    }
}

/// Returns whether this option declines an offer without refusing the call, which is then judged again without the
/// offer.
pub(super) fn judges_again(offer: &RuleSubject, option: &str) -> bool {
    match offer {
        RuleSubject::ConfinedCommands | RuleSubject::TrustAndConfinedCommands { .. } => {
            option == REJECT_ALWAYS
        }
        RuleSubject::SandboxAccess(_) => matches!(option, REJECT_ONCE | REJECT_ALWAYS),
        _ => false,
    }
}

/// Memory of a task's offers. An answer counts for the task at once, whether or not its standing rule is kept already.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfferMemory {
    /// The user wants to be asked about each command.
    declines_confined: bool,
    /// Access that the sandbox withheld from commands at their last run, by the identity of the call.
    withheld: BTreeMap<Digest, SandboxAccess>,
    /// Access that the user has declined to grant.
    declined: SandboxAccess,
}

impl OfferMemory {
    /// Declines an offer.
    pub(super) fn decline(&mut self, offer: &RuleSubject) {
        match offer {
            RuleSubject::ConfinedCommands | RuleSubject::TrustAndConfinedCommands { .. } => {
                self.declines_confined = true;
            }
            RuleSubject::SandboxAccess(paths) => {
                self.declined.extend(paths);
                self.withheld.values_mut().for_each(|withheld| withheld.remove(paths));
                self.withheld.retain(|_, withheld| !withheld.is_empty());
            }
            _ => {}
        }
    }

    /// Remembers what was withheld from a command until it has run again.
    pub(super) fn command_ended(&mut self, call: Digest, withheld: Option<&SandboxAccess>) {
        match withheld {
            Some(paths) => self.withheld.insert(call, paths.clone()),
            None => self.withheld.remove(&call),
        };
    }

    /// Returns the access that the user has declined to grant.
    pub(in crate::engine) fn declined(&self) -> &SandboxAccess {
        &self.declined
    }

    /// Returns the offers as the gate has to know them.
    pub(in crate::engine) fn for_gate(&self, call: &ToolCall) -> Offers<'_> {
        let withheld = self.withheld.get(&identity(call));
        // A commit is not made a second time, so whatever makes one may be asked about.
        let signing_key = self.withheld.values().find_map(|withheld| withheld.signing_keys.first());
        Offers {
            declines_confined: self.declines_confined,
            withheld,
            signing_key: signing_key.map(String::as_str),
        }
    }
}
