//! The answers that an approval offers: what each is called, the standing rule that it makes, and what a task remembers
//! of those that were declined.

use std::collections::BTreeMap;

use super::Choice;
use super::identity;
use crate::policy::Offers;
use roo_catalog::ToolCall;
use roo_protocol::event::ApprovalOption;
use roo_protocol::ids::Digest;
use roo_protocol::rule::{RuleScope, RuleSubject, RuleVerdict, SandboxAccess};
use roo_protocol::task::PendingApproval;

/// The answers to an approval, the harmless one first; the last one allows something else for good, where that is offered.
pub(super) fn options(rule: Option<&RuleSubject>, alternative: Option<&RuleSubject>) -> Vec<ApprovalOption> {
    let mut options = options_of_rule(rule);
    if let Some(rule) = rule {
        for option in &mut options {
            option.scope = Choice::parse(&option.id).and_then(|choice| choice.scope(rule));
        }
    }
    if let Some(alternative) = alternative {
        let choice = match alternative {
            RuleSubject::CommandAccess { .. } => Choice::AllowCommands,
            _ => Choice::AllowPreset,
        };
        let named = choice.named(&format!("Always allow {}", alternative.text()));
        options.push(ApprovalOption { scope: choice.scope(alternative), ..named });
    }
    options
}

fn options_of_rule(rule: Option<&RuleSubject>) -> Vec<ApprovalOption> {
    match rule {
        None => vec![Choice::RejectOnce.named("Deny"), Choice::AllowOnce.named("Allow")],
        Some(RuleSubject::ConfinedCommands) => vec![
            Choice::RejectOnce.named("Deny this command"),
            Choice::AllowOnce.named("Only this command"),
            Choice::AllowAlways.named("Yes, for this project"),
            Choice::RejectAlways.named("No, ask each time"),
        ],
        Some(RuleSubject::TrustAndConfinedCommands { .. }) => vec![
            Choice::RejectOnce.named("Deny this command"),
            Choice::AllowOnce.named("Only this command"),
            Choice::AllowAlways.named("Yes, trust this folder"),
            Choice::RejectAlways.named("No, ask each time"),
        ],
        Some(RuleSubject::SandboxAccess(_)) => vec![
            Choice::RejectOnce.named("Run without it"),
            Choice::AllowOnce.named("Allow once"),
            Choice::AllowAlways.named("Allow for this project"),
            Choice::AllowEverywhere.named("Allow for all projects"),
            Choice::RejectAlways.named("Never in this project"),
        ],
        Some(rule) => {
            let what = rule.text();
            vec![
                Choice::RejectOnce.named("Deny"),
                Choice::AllowOnce.named("Allow"),
                Choice::AllowAlways.named(&format!("Always allow {what}")),
                Choice::RejectAlways.named(&format!("Always deny {what}")),
            ]
        }
    }
}

/// A standing rule that an answer makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine) struct NewRule {
    /// Scope of the rule.
    pub(in crate::engine) scope: RuleScope,
    /// Effect of the rule.
    pub(in crate::engine) verdict: RuleVerdict,
    /// Subject of the rule.
    pub(in crate::engine) subject: RuleSubject,
    /// Files that the workspace's folder was shown to have, where the answer trusts it.
    pub(in crate::engine) trusts: Option<Vec<String>>,
}

impl NewRule {
    /// The rule that an option of an approval makes.
    pub(in crate::engine) fn from_answer(approval: &PendingApproval, choice: Choice) -> Option<Self> {
        let (scope, verdict, subject) = match choice {
            Choice::AllowAlways => (RuleScope::Workspace, RuleVerdict::Allow, approval.rule.as_ref()),
            Choice::AllowEverywhere => (RuleScope::User, RuleVerdict::Allow, approval.rule.as_ref()),
            Choice::RejectAlways => (RuleScope::Workspace, RuleVerdict::Deny, approval.rule.as_ref()),
            Choice::AllowPreset | Choice::AllowCommands => {
                (RuleScope::Workspace, RuleVerdict::Allow, approval.alternative.as_deref())
            }
            Choice::AllowOnce | Choice::ReviewOnce | Choice::RejectOnce => return None,
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
    pub(super) fn call_ended(&mut self, call: &ToolCall, withheld: Option<&SandboxAccess>) {
        match withheld {
            Some(paths) => {
                self.withheld.insert(identity(call), paths.clone());
            }
            None if self.withheld.is_empty() => {}
            None => {
                self.withheld.remove(&identity(call));
            }
        }
    }

    /// Returns the access that the user has declined to grant.
    pub(in crate::engine) fn declined(&self) -> &SandboxAccess {
        &self.declined
    }

    /// Returns the offers as the gate has to know them.
    pub(in crate::engine) fn for_gate(&self, call: &ToolCall) -> Offers<'_> {
        // To tell what kind of call it is, all of it is read, which may be a whole file.
        let withheld = if self.withheld.is_empty() { None } else { self.withheld.get(&identity(call)) };
        // A commit is not made a second time, so whatever makes one may be asked about.
        let signing_key = self.withheld.values().find_map(|withheld| withheld.signing_keys.first());
        Offers {
            declines_confined: self.declines_confined,
            withheld,
            declined: Some(&self.declined),
            signing_key: signing_key.map(String::as_str),
        }
    }
}
