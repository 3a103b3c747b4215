//! `select_active_intent`: binds a task to an intent, by the server's own change to the file of intents.

use futures_util::future::BoxFuture;
use serde_json::json;

use crate::intent_store::{Binding, IntentRefusal, Intents};
use crate::policy::{
    Action, AskReason, AskRule, CallAssessment, CheckedCall, Gate, NamedAllowRule, Permitted, Plan, Refusal,
    Tool, ToolCallContext, refuse_intent,
};
use crate::tool_run::{Outcome, ToolContext};
use roo_catalog::SelectActiveIntent;
use roo_formats::intents::{Intent, Recent, Status, intent_context};
use roo_protocol::event::ToolStatus;
use roo_text::render;

/// Binds an intent.
#[derive(Debug)]
struct Bind {
    /// As it is accepted.
    intent: Intent,
    /// Those that it is within, accepted with it.
    within: Vec<Intent>,
    /// Scopes that cover the same files, in words.
    overlapping: Vec<String>,
}

impl Tool for SelectActiveIntent {
    /// Binding an intent is free, as it only narrows; one that has been widened since the user accepted it is
    /// shown first.
    async fn judge(self, gate: &Gate, _: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        let id = self.intent_id.as_str();
        let orchestration = gate.orchestration();
        let file = orchestration.selectable(id).map_err(|refusal| refuse_intent(&refusal, None))?;
        let gone = || refuse_intent(&IntentRefusal::NoActive(String::new()), None);
        let intent = file.get(id).ok_or_else(gone)?.clone();
        let ancestors: Vec<Intent> = file.ancestors(&intent).ok_or_else(gone)?.into_iter().cloned().collect();
        let widened: Vec<String> = std::iter::once(&intent)
            .chain(&ancestors)
            .flat_map(|intent| {
                let loosened = orchestration.loosened(intent);
                loosened.into_iter().map(|what| format!("{}: {what}", intent.id))
            })
            .collect();
        let overlapping = overlapping(&intent, &orchestration.intents());
        let must_ask = (!widened.is_empty()).then(|| AskReason {
            rule: AskRule::Intent,
            text: format!("{id} allows more than you have accepted: {}", widened.join("; ")),
        });
        let shown = format!("{} ({})\n{}", intent.name, intent.status.as_str(), widened.join("\n"));
        Ok(CheckedCall::from(CallAssessment {
            identity: json!({ "tool": "select_active_intent", "intent": intent.governing() }),
            title: format!("Accept the changed intent {id}"),
            subject: render::visible(&shown).into_owned(),
            must_ask,
            undecided: None,
            allowed_by: Some(NamedAllowRule::Intents.into()),
            standing: None,
            alternative: None,
            plan: Plan::Nothing,
            action: Some(Box::new(Bind { intent, within: ancestors, overlapping })),
        }))
    }
}

impl Action for Bind {
    fn run<'a>(self: Box<Self>, _: Permitted, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(select(self.intent, self.within, self.overlapping, context))
    }
}

/// Other intents that are worked on and cover the same files.
fn overlapping(intent: &Intent, intents: &Intents) -> Vec<String> {
    let Intents::Present { file, .. } = intents else { return vec![] };
    file.intents
        .iter()
        .filter(|other| other.id != intent.id && other.status == roo_formats::intents::Status::InProgress)
        .filter_map(|other| {
            let pairs = intent.scope.overlaps(&other.scope);
            let (one, another) = pairs.first()?;
            Some(format!("`{one}` and `{another}` of {}", other.id))
        })
        .collect()
}

/// Binds an intent: it is accepted as it is, and worked on from now.
async fn select(
    mut intent: Intent,
    within: Vec<Intent>,
    overlapping: Vec<String>,
    context: &ToolContext,
) -> Outcome {
    for accepted in within.iter().chain([&intent]) {
        if let Err(error) = context.orchestration.accept(accepted) {
            return Outcome::failed(error.to_string());
        }
    }
    if intent.status == Status::Pending {
        match context.orchestration.begin(&intent.id).await {
            Ok(()) => intent.status = Status::InProgress,
            // To select it is what counts; a file that is laid out oddly stays as it is.
            Err(error) => tracing::warn!(intent = %intent.id, %error, "an intent's status was not changed"),
        }
    }
    let recent: Vec<Recent> = (context.recent)(&intent.id);
    let mut text = intent_context(&intent, &recent);
    if !overlapping.is_empty() {
        text.push_str(&format!(
            "\nOthers work on the same files: {}. Read a file again before you change it.",
            overlapping.join("; ")
        ));
    }
    bound(intent, text)
}

/// Returns the outcome for a task whose intent is bound from now on, or covers more.
pub(super) fn bound(intent: Intent, text: String) -> Outcome {
    let summary = format!("{}: {}", intent.id, intent.name);
    let binding = Binding { digest: intent.digest(), id: intent.id };
    Outcome { intent: Some((binding, intent.name)), ..Outcome::new(ToolStatus::Ok, text, summary) }
}
