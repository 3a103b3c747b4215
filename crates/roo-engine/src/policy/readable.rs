//! Check that a place may be looked at: one answer for every tool that reads or writes.

use serde_json::json;

use super::action::Action;
use super::check::{Access, CheckContext, Finding, Hook};
use super::gate::{CallAssessment, Gate, Reason, Refusal, TITLE, ToolCallContext};
use super::plan::Plan;
use super::rule::RefusalRule;
use roo_protocol::rule::RuleSubject;
use roo_text::render;
use roo_workspace::{ReadAccess, Resolved};

pub(super) struct Readable;

impl Hook for Readable {
    fn check(&self, context: &CheckContext<'_>) -> Finding {
        let place = context.place;
        let ask = |rule, text| Finding::Ask(Reason { rule, text });
        match context.policy_context.workspace.read_access(place) {
            // A command starts in a directory; what it may see there is not told by that.
            _ if context.access == Access::Run => {}
            ReadAccess::Free => {}
            ReadAccess::Ignored => {
                let reason = context.policy_context.workspace.ignore_reason(place);
                let text = format!("{} is ignored. {reason}", place.display());
                return Finding::Deny(Refusal::forbidden(RefusalRule::Rooignore, text));
            }
            ReadAccess::Secret => return ask("secret", format!("{} may hold secrets", place.display())),
            ReadAccess::Outside => {
                return ask("outside", format!("{} is outside of the workspace", place.display()));
            }
        }
        if context.access == Access::Run
            && context.policy_context.workspace.read_access(place) == ReadAccess::Outside
        {
            return ask("outside", format!("{} is outside of the workspace", place.display()));
        }
        odd_name(place).map_or(Finding::Pass, Finding::Ask)
    }
}

impl Gate {
    /// Judges a look at what is below a directory.
    pub(crate) fn look<A: Action>(
        &self,
        call_context: ToolCallContext<'_>,
        title: &'static str,
        directory: Resolved,
        what: String,
        action: impl FnOnce(Resolved) -> A,
    ) -> Result<CallAssessment, Refusal> {
        let must_ask = self.examine(call_context, &directory, Access::Look)?;
        let subject = directory.display();
        Ok(CallAssessment {
            identity: json!({ "tool": title, "path": subject, "what": what }),
            title: format!("{title} {}", render::one_line(&subject, TITLE)),
            subject: render::visible(&subject).into_owned(),
            action: Some(Box::new(action(directory))),
            must_ask,
            undecided: None,
            allowed_by: self.read_rule(),
            standing: Some(RuleSubject::Reads),
            alternative: None,
            plan: Plan::Nothing,
        })
    }
}

/// A name that could fool a reader or another system.
fn odd_name(path: &Resolved) -> Option<Reason> {
    if path.backslash() {
        Some(Reason { rule: "path", text: format!("the name {} holds a backslash", path.display()) })
    } else if path.invisible() {
        Some(Reason { rule: "path", text: format!("the name {} holds invisible characters", path.display()) })
    } else {
        None
    }
}
