//! `switch_mode`: another mode for the same conversation. The switch itself is the task machine's.

use serde_json::json;

use crate::policy::{
    AskReason, AskRule, CallAssessment, CheckedCall, Gate, ModeChange, Plan, Refusal, Tool, ToolCallContext,
    check_switch, named_mode, rights_of_mode,
};
use roo_catalog::SwitchMode;
use roo_protocol::rule::RuleSubject;
use roo_text::render;

/// The longest title of a question, in characters.
const TITLE: usize = 80;

impl Tool for SwitchMode {
    async fn judge(self, gate: &Gate, call_context: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        let mode = check_switch(&self, call_context.mode, call_context.modes)?;
        let title = format!("Switch from {} to {}", call_context.mode.name, named_mode(mode));
        Ok(CheckedCall::from(CallAssessment {
            action: None,
            identity: json!({ "tool": "switch_mode", "from": call_context.mode.slug, "to": rights_of_mode(mode) }),
            title: render::one_line(&title, TITLE),
            subject: render::visible(self.reason.as_deref().unwrap_or_default()).into_owned(),
            // Whoever delegated the task chose what it may do.
            must_ask: call_context.is_branch.then(|| AskReason {
                rule: AskRule::Mode,
                text: "a subtask wants the rights of another mode".to_owned(),
            }),
            undecided: None,
            allowed_by: gate.delegation_rule(),
            standing: Some(RuleSubject::Delegation),
            alternative: None,
            plan: Plan::Mode(ModeChange::into_mode(mode, gate.settings())),
        }))
    }
}
