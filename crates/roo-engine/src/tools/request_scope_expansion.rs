//! `request_scope_expansion`: lets the bound intent own more files, by the server's own change to the file of intents.

use futures_util::future::BoxFuture;
use serde_json::json;

use super::select_active_intent::bound;
use crate::intent_store::{ChangeError, IntentRefusal};
use crate::policy::{
    Action, AskReason, AskRule, CallAssessment, CheckedCall, Gate, Permitted, Plan, Refusal, RefusalRule,
    Tool, ToolCallContext, refuse_intent,
};
use crate::tool_run::{Outcome, ToolContext};
use roo_catalog::RequestScopeExpansion;
use roo_formats::intents::{Change, Intent, Scope, intent_context};
use roo_text::{diff, render};

/// Gives the bound intent more scope.
#[derive(Debug)]
struct Expand {
    /// Additions.
    changes: Vec<Change>,
    /// The intent as the user has accepted it.
    after: Intent,
}

impl Tool for RequestScopeExpansion {
    /// More scope is always the user's to give.
    async fn judge(self, gate: &Gate, call_context: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        let Some(binding) = call_context.intent else {
            return Err(refuse_intent(
                &IntentRefusal::NoActive(" Call select_active_intent first.".to_owned()),
                None,
            ));
        };
        if let Err(bad) = Scope::parse(&self.patterns) {
            let why: Vec<String> = bad
                .iter()
                .map(|bad| if bad.index.is_some() { bad.to_string() } else { bad.why.clone() })
                .collect();
            return Err(Refusal::mistake(RefusalRule::Parameters, why.join("; ")));
        }
        let changes: Vec<Change> = self
            .patterns
            .iter()
            .map(|text| Change::Add { list: "owned_scope", text: text.clone() })
            .collect();
        let (before, after) = match gate.orchestration().preview(&binding.id, &changes).await {
            Ok(both) => both,
            Err(error @ ChangeError::Edit(_)) => return Err(Refusal::mistake(RefusalRule::Intent, error)),
            Err(error) => return Err(Refusal::forbidden(RefusalRule::Intent, error)),
        };
        let lines = |intent: &Intent| format!("{}\n", intent.owned_scope.join("\n"));
        let shown = format!(
            "{}\nBecause: {}",
            diff::unified(&lines(&before), &lines(&after), &format!("owned_scope of {}", before.id)),
            self.reason
        );
        Ok(CheckedCall::from(CallAssessment {
            identity: json!({ "tool": "request_scope_expansion", "before": before.governing(), "after": after.governing() }),
            title: format!("Let {} cover {}", before.id, render::one_line(&self.patterns.join(", "), 60)),
            subject: render::visible(&shown).into_owned(),
            must_ask: Some(AskReason {
                rule: AskRule::Intent,
                text: "only you can give an intent more scope".to_owned(),
            }),
            undecided: None,
            allowed_by: None,
            standing: None,
            alternative: None,
            plan: Plan::Nothing,
            action: Some(Box::new(Expand { changes, after })),
        }))
    }
}

impl Action for Expand {
    fn run<'a>(self: Box<Self>, _: Permitted, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(expand(self.changes, self.after, context))
    }
}

/// Gives the bound intent the scope that the user has granted.
async fn expand(changes: Vec<Change>, after: Intent, context: &ToolContext) -> Outcome {
    match context.orchestration.update(&after.id, &changes, Some(after.digest())).await {
        Ok(intent) => {
            let text = intent_context(&intent, &[]);
            bound(intent, format!("The user has granted it.\n{text}"))
        }
        Err(error) => Outcome::failed(error.to_string()),
    }
}
