//! Decisions on a call: what the checks find on the way, and the verdict in which they end.

use serde_json::Value;

use super::gate::Action;
use super::plan::Plan;
use super::rule::{AllowRule, AskRule, NamedAllowRule, RefusalRule};
use roo_catalog::ToolCall;
use roo_protocol::ids::Digest;
use roo_protocol::rule::RuleSubject;

/// The longest command or list of paths in a title, in characters.
pub(crate) const TITLE: usize = 60;

/// The gate's verdict on a call.
#[derive(Clone, Debug, PartialEq)]
pub enum PolicyDecision {
    /// It may run.
    Allow {
        /// The rule that decided.
        rule: AllowRule,
        reason: String,
        /// Plan of the call.
        plan: Plan,
    },
    /// The user decides.
    Ask {
        /// The rule that decided.
        rule: AskRule,
        reason: String,
        /// Binds the answer to the action.
        digest: Digest,
        /// Question in a few words.
        title: String,
        /// Object of the call: a diff, a command line, a path.
        subject: String,
        /// Subject of a standing rule that the user can be offered; none where each case needs a look.
        rule_subject: Option<RuleSubject>,
        /// Subject of a broader or narrower standing rule: a preset of rules that would allow it, or access for such
        /// commands alone.
        alternative: Option<RuleSubject>,
    },
    /// It may not run.
    Deny {
        /// The rule that decided.
        rule: RefusalRule,
        /// Reason, worded for the model.
        reason: String,
        /// True if the call itself was wrong, as against forbidden.
        mistake: bool,
        /// True if it would have saved context that the request's branches share, and can't.
        saves: bool,
        /// The same for programs: a code, and what it is about.
        detail: Option<Value>,
    },
}

/// A refusal on the way to a verdict.
pub(crate) struct Refusal {
    pub(super) rule: RefusalRule,
    pub(super) reason: String,
    pub(super) mistake: bool,
    pub(super) detail: Option<Value>,
}

impl Refusal {
    pub(crate) fn mistake(rule: RefusalRule, reason: impl ToString) -> Self {
        Self { rule, reason: reason.to_string(), mistake: true, detail: None }
    }

    pub(crate) fn forbidden(rule: RefusalRule, reason: impl ToString) -> Self {
        Self { rule, reason: reason.to_string(), mistake: false, detail: None }
    }

    /// Returns the reason, worded for the model.
    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }

    /// Returns the verdict in which it ends, for a call that saves nothing.
    pub(crate) fn into_decision(self) -> PolicyDecision {
        let Self { rule, reason, mistake, detail } = self;
        PolicyDecision::Deny { rule, reason, mistake, saves: false, detail }
    }

    /// With other words.
    pub(crate) fn saying(self, reason: String) -> Self {
        Self { reason, ..self }
    }

    /// Returns the reason, worded for the model.
    pub(crate) fn into_reason(self) -> String {
        self.reason
    }

    /// Of a call that is no longer as its model made it.
    pub(super) fn after_rewrite(self) -> Self {
        let reason = format!("A hook rewrote this call, and so it can't run: {}", self.reason);
        Self { reason, mistake: false, ..self }
    }

    /// With fields for programs.
    pub(crate) fn detailed(self, detail: Value) -> Self {
        Self { detail: Some(detail), ..self }
    }
}

/// Reasons to ask the user, the weightiest first.
pub(crate) struct AskReason {
    pub(crate) rule: AskRule,
    pub(crate) text: String,
}

/// Results of the checks.
pub(crate) enum CheckedCall {
    /// It needs nobody's leave, unless a hook wants it asked.
    Free { rule: NamedAllowRule, reason: &'static str, action: Option<Box<dyn Action>> },
    /// Policy decides.
    CallAssessment(Box<CallAssessment>),
}

impl CheckedCall {
    /// Returns the call as which user hooks see it, where that is another one than the model's.
    pub(super) fn for_hooks(&self) -> Option<ToolCall> {
        match self {
            Self::Free { action, .. } => action.as_ref()?.for_hooks(),
            Self::CallAssessment(assessment) => assessment.action.as_ref()?.for_hooks(),
        }
    }
}

impl From<CallAssessment> for CheckedCall {
    fn from(assessment: CallAssessment) -> Self {
        Self::CallAssessment(Box::new(assessment))
    }
}

/// A call as far as the checks have come.
pub(crate) struct CallAssessment {
    /// Action that a permit is for; none for a call that only steers the conversation.
    pub(crate) action: Option<Box<dyn Action>>,
    /// Identity that binds an approval: everything that makes the action this action.
    pub(crate) identity: serde_json::Value,
    pub(crate) title: String,
    pub(crate) subject: String,
    /// Reason why the user must be asked whatever the policy says.
    pub(crate) must_ask: Option<AskReason>,
    /// Reason why policy alone does not allow it, where more can be told; a standing rule may.
    pub(crate) undecided: Option<AskReason>,
    /// The rule by which policy allows it.
    pub(crate) allowed_by: Option<AllowRule>,
    /// Subject of a standing rule that the user can be offered.
    pub(crate) standing: Option<RuleSubject>,
    /// Subject of a broader or narrower standing rule.
    pub(crate) alternative: Option<RuleSubject>,
    pub(crate) plan: Plan,
}
