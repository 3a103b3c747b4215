//! `select_active_intent` and `request_scope_expansion`: the server's own changes to the file of intents.

use super::{Outcome, ToolContext};
use crate::intent_store::Binding;
use roo_formats::intents::{Change, Intent, Recent, Status, intent_context};
use roo_protocol::event::ToolStatus;

/// Binds an intent: it is accepted as it is, and worked on from now.
pub async fn select(
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

/// Gives the bound intent the scope that the user has granted.
pub async fn expand(changes: Vec<Change>, after: Intent, context: &ToolContext) -> Outcome {
    match context.orchestration.update(&after.id, &changes, Some(after.digest())).await {
        Ok(intent) => {
            let text = intent_context(&intent, &[]);
            bound(intent, format!("The user has granted it.\n{text}"))
        }
        Err(error) => Outcome::failed(error.to_string()),
    }
}

fn bound(intent: Intent, text: String) -> Outcome {
    let summary = format!("{}: {}", intent.id, intent.name);
    let binding = Binding { digest: intent.digest(), id: intent.id };
    Outcome { intent: Some((binding, intent.name)), ..Outcome::new(ToolStatus::Ok, text, summary) }
}
