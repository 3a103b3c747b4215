//! The calls that bind an intent or ask for more scope: what they would do, and whether the user has a say.

use serde_json::json;

use super::action::Action;
use super::gate::{CallAssessment, Gate, Reason, Refusal, ToolCallContext};
use super::intent::refuse;
use super::plan::Plan;
use crate::intent_store::{ChangeError, IntentRefusal, Intents};
use roo_catalog::RequestScopeExpansion;
use roo_formats::intents::{Change, Intent, Scope};
use roo_text::{diff, render};

impl Gate {
    /// Binding an intent is free, as it only narrows; one that has been widened since the user accepted it is
    /// shown first.
    pub(super) fn select_intent(&self, id: &str) -> Result<CallAssessment, Refusal> {
        let orchestration = self.orchestration();
        let file = orchestration.selectable(id).map_err(|refusal| refuse(&refusal, None))?;
        let gone = || refuse(&IntentRefusal::NoActive(String::new()), None);
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
        let must_ask = (!widened.is_empty()).then(|| Reason {
            rule: "intent",
            text: format!("{id} allows more than you have accepted: {}", widened.join("; ")),
        });
        let subject = format!("{} ({})\n{}", intent.name, intent.status.as_str(), widened.join("\n"));
        Ok(CallAssessment {
            identity: json!({ "tool": "select_active_intent", "intent": intent.governing() }),
            title: format!("Accept the changed intent {id}"),
            subject: render::visible(&subject).into_owned(),
            must_ask,
            undecided: None,
            allowed_by: Some("intents".to_owned()),
            standing: None,
            alternative: None,
            plan: Plan::Nothing,
            action: Some(Action::SelectIntent { intent: Box::new(intent), within: ancestors, overlapping }),
        })
    }

    /// More scope is always the user's to give.
    pub(super) async fn expand_intent(
        &self,
        subject: ToolCallContext<'_>,
        request: RequestScopeExpansion,
    ) -> Result<CallAssessment, Refusal> {
        let Some(binding) = subject.intent else {
            return Err(refuse(
                &IntentRefusal::NoActive(" Call select_active_intent first.".to_owned()),
                None,
            ));
        };
        if let Err(bad) = Scope::parse(&request.patterns) {
            let why: Vec<String> = bad
                .iter()
                .map(|bad| if bad.index.is_some() { bad.to_string() } else { bad.why.clone() })
                .collect();
            return Err(Refusal::mistake("parameters", why.join("; ")));
        }
        let changes: Vec<Change> = request
            .patterns
            .iter()
            .map(|text| Change::Add { list: "owned_scope", text: text.clone() })
            .collect();
        let (before, after) = match self.orchestration().preview(&binding.id, &changes).await {
            Ok(both) => both,
            Err(error @ ChangeError::Edit(_)) => return Err(Refusal::mistake("intent", error)),
            Err(error) => return Err(Refusal::forbidden("intent", error)),
        };
        let lines = |intent: &Intent| format!("{}\n", intent.owned_scope.join("\n"));
        let shown = format!(
            "{}\nBecause: {}",
            diff::unified(&lines(&before), &lines(&after), &format!("owned_scope of {}", before.id)),
            request.reason
        );
        Ok(CallAssessment {
            identity: json!({ "tool": "request_scope_expansion", "before": before.governing(), "after": after.governing() }),
            title: format!("Let {} cover {}", before.id, render::one_line(&request.patterns.join(", "), 60)),
            subject: render::visible(&shown).into_owned(),
            must_ask: Some(Reason {
                rule: "intent",
                text: "only you can give an intent more scope".to_owned(),
            }),
            undecided: None,
            allowed_by: None,
            standing: None,
            alternative: None,
            plan: Plan::Nothing,
            action: Some(Action::ExpandIntent { changes, after: Box::new(after) }),
        })
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
