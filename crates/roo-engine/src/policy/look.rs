//! Assessment of a look at what is below a directory, for the tools that list and search.

use serde_json::json;

use super::context::ToolCallContext;
use super::decision::{CallAssessment, Refusal, TITLE};
use super::gate::Action;
use super::gate::Gate;
use super::place_check::Access;
use super::plan::Plan;
use roo_protocol::rule::RuleSubject;
use roo_text::render;
use roo_workspace::Resolved;

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
