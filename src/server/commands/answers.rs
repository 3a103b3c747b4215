//! Commands that answer what waits for its user: approvals and questions.

use std::sync::Arc;

use serde_json::{Value, json};
use tower_lsp::jsonrpc::{Error, Result};

use super::super::answer_outcome::{answer_in_words, resume_after_answer};
use super::super::session::{MESSAGE, Session, WorkspaceServices};
use super::super::{customization, engine_failure, failure};
use super::call::{CommandCall, CommandOutcome, Fields};
use super::lookup::{no_approval, nothing, pending_approvals, waiting};
use roo_protocol::error::ErrorKind;
use roo_protocol::event::{OptionKind, Suggestion};
use roo_protocol::ids::{HunkId, TaskId};
use roo_protocol::review::{Hunk, HunkDecision};
use roo_protocol::task::{
    ALLOW_ONCE, ApprovalRespondParams, PendingApproval, QuestionAnswerParams, REVIEW_ONCE, TaskSnapshot,
};
use roo_text::render::one_line;

pub(super) async fn respond(call: CommandCall<'_>, kind: OptionKind) -> Result<CommandOutcome> {
    let CommandCall { session, services, .. } = call;
    // A bare text is an approval's id, which begins with its request's, or else words for the model.
    let is_id = call
        .argument
        .as_str()
        .and_then(|text| text.split_once('.'))
        .is_some_and(|(request, _)| uuid::Uuid::try_parse(request).is_ok());
    let fields: Fields = call.read(if is_id { "approvalId" } else { "text" })?;
    let mut waiting = pending_approvals(services, &fields).await?;
    let others = waiting.split_off(1.min(waiting.len()));
    let Some((root, approval)) = waiting.pop() else { return Err(no_approval()) };
    let option = match fields.option_id.clone() {
        Some(id) => id,
        None => match approval.options.iter().find(|option| option.kind == kind) {
            Some(option) => option.id.clone(),
            None => {
                return Err(Error::invalid_params(
                    "the approval has no such option; give the optionId of one that it has",
                ));
            }
        },
    };
    // To refuse what one has not seen does no harm, and what is chosen in a preview is seen there.
    let allows_unseen = option != REVIEW_ONCE
        && approval.options.iter().all(|known| known.id != option || known.kind.allows());
    if fields.digest.is_none() && allows_unseen {
        check_seen(session, &approval, &others)?;
    }
    if let Some(scope) =
        approval.options.iter().find(|known| known.id == option).and_then(|it| it.scope.as_ref())
        && !session.is_typed()
        && !session.shown_approvals.tell_scope(&approval, &option)
    {
        let message =
            format!("nothing was answered yet. {scope} Run the command again if that is what you want");
        return Err(failure(ErrorKind::Mismatch, message, None, "Show the scope before the answer is sent."));
    }
    if !fields.hunk_ids.is_empty() {
        return decide_hunks(session, services, &root, approval, &option, fields).await;
    }
    // Whoever allows the rest has decided on these before; whoever refuses the whole refuses them too.
    let allows_once =
        approval.options.iter().any(|known| known.id == option && known.kind == OptionKind::AllowOnce);
    let params = ApprovalRespondParams {
        opened: session.shown_approvals.has_in_full(&approval),
        approval_id: approval.approval_id.clone(),
        digest: fields.digest.unwrap_or(approval.digest),
        option_id: option,
        text: fields.text,
        hunks: if allows_once { session.review_drafts.answers(&approval) } else { vec![] },
    };
    submit_answer(session, services, &root, &approval.title, params).await
}

/// Answers an approval with what its user will choose in their editor.
pub(super) async fn review_in_preview(call: CommandCall<'_>) -> Result<CommandOutcome> {
    let mut fields = match call.argument {
        Value::String(id) => json!({ "approvalId": id }),
        Value::Object(_) => call.argument.clone(),
        _ => json!({}),
    };
    fields["optionId"] = REVIEW_ONCE.into();
    respond(CommandCall { argument: &fields, ..call }, OptionKind::AllowOnce).await
}

/// Answers an approval, and resumes its request where that is interrupted. `title` names the approval.
async fn submit_answer(
    session: &Arc<Session>,
    services: &Arc<WorkspaceServices>,
    root: &TaskId,
    title: &str,
    params: ApprovalRespondParams,
) -> Result<CommandOutcome> {
    let approval_id = params.approval_id.clone();
    let answer = customization::respond(session, services, params).await;
    let answer = answer.map_err(|error| engine_failure(&error, None))?;
    // An answer that was refused leaves the decisions, to be sent again.
    session.review_drafts.forget(&approval_id);
    let goes_on = resume_after_answer(session, services, root, &answer).await;
    Ok(CommandOutcome::told(json!(answer), answer_in_words(&answer, title, goes_on)))
}

/// Decides on single hunks of an edit. The approval is answered when each has its decision.
async fn decide_hunks(
    session: &Arc<Session>,
    services: &Arc<WorkspaceServices>,
    root: &TaskId,
    approval: PendingApproval,
    option: &str,
    fields: Fields,
) -> Result<CommandOutcome> {
    let files = services.engine.preview(&approval.approval_id).await;
    let files = files.map_err(|error| engine_failure(&error, None))?;
    let all: Vec<&Hunk> = files.iter().flat_map(|file| &file.hunks).collect();
    let kind = approval.options.iter().find(|known| known.id == option).map(|known| known.kind);
    let decision = match (kind, fields.text) {
        (Some(OptionKind::RejectOnce), text) => HunkDecision::Refuse { text },
        (Some(OptionKind::AllowOnce), None) => HunkDecision::Accept,
        (Some(OptionKind::AllowOnce), Some(text)) if fields.hunk_ids.len() == 1 => {
            HunkDecision::Edit { text }
        }
        (Some(OptionKind::AllowOnce), Some(_)) => {
            return Err(Error::invalid_params(
                "`text` replaces the lines of one change: give one of `hunkIds`",
            ));
        }
        _ => return Err(Error::invalid_params("single changes can only be allowed or denied once")),
    };
    let mut chosen = Vec::new();
    for id in &fields.hunk_ids {
        let found = all.iter().find(|hunk| hunk.hunk_id == *id).map(|hunk| Hunk::clone(hunk));
        chosen.push(found.ok_or_else(|| nothing(&format!("the approval has no change '{id}'")))?);
    }
    session.review_drafts.decide(&approval, &chosen, &decision);
    let answers = session.review_drafts.answers(&approval);
    let is_open = |hunk: &&Hunk| answers.iter().all(|answer| answer.hunk_id != hunk.hunk_id);
    let open: Vec<&HunkId> = all.iter().copied().filter(is_open).map(|hunk| &hunk.hunk_id).collect();
    if !open.is_empty() {
        let value =
            json!({ "accepted": false, "decided": all.len() - open.len(), "of": all.len(), "open": open });
        let left = open.len();
        let what = one_line(&approval.title, MESSAGE);
        let text = format!("{} of {} changes are decided, {left} left: {what}", all.len() - left, all.len());
        return Ok(CommandOutcome::told(value, text));
    }
    let params = ApprovalRespondParams {
        opened: session.shown_approvals.has_in_full(&approval),
        approval_id: approval.approval_id.clone(),
        digest: fields.digest.unwrap_or(approval.digest),
        option_id: ALLOW_ONCE.to_owned(),
        text: None,
        hunks: answers,
    };
    submit_answer(session, services, root, &approval.title, params).await
}

/// Refuses to allow what the user has not seen. A client that says no digest means the one approval that waits,
/// and that only as it was shown.
fn check_seen(
    session: &Session,
    approval: &PendingApproval,
    others: &[(TaskId, PendingApproval)],
) -> Result<()> {
    let refused = |message: String, hint| Err(failure(ErrorKind::Mismatch, message, None, hint));
    if !others.is_empty() {
        let message = format!(
            "nothing was allowed: {} approvals wait, so answer in the task document (roo.openTask)",
            others.len() + 1
        );
        return refused(message, "Give the approvalId of one and the digest that was shown.");
    }
    if session.shown_approvals.has(approval) {
        return Ok(());
    }
    let what = one_line(&approval.title, MESSAGE);
    // A plain client's user reads this; another client has shown nothing yet.
    if !session.is_typed() {
        session.shown_approvals.note(approval);
    }
    let message =
        format!("nothing was allowed yet: you had not seen {what}. Run the command again to allow it");
    refused(message, "Give the digest that was shown.")
}

pub(super) async fn answer(call: CommandCall<'_>) -> Result<CommandOutcome> {
    let CommandCall { session, services, .. } = call;
    let fields: Fields = match call.argument {
        Value::Number(_) | Value::Bool(_) => Fields::default(),
        _ => call.read("text")?,
    };
    let fits = |task: &TaskSnapshot| {
        task.question
            .as_ref()
            .is_some_and(|question| fields.question_id.as_ref().is_none_or(|id| *id == question.question_id))
            && fields.means(task)
    };
    let waiting = waiting(services, fits).await?.map(|waiting| waiting.task);
    let Some((root, question)) = waiting.and_then(|task| Some((task.root_id, task.question?))) else {
        return Err(nothing("no question waits for an answer"));
    };
    let text = bare_answer(call.argument, &question.suggestions).or(fields.text);
    let Some(text) = text.filter(|text| !text.trim().is_empty()) else {
        return Err(Error::invalid_params("roo.answer needs a `text` or the number of a suggestion"));
    };
    let params = QuestionAnswerParams { question_id: question.question_id, text, images: fields.images };
    let answer = services.engine.answer(params, session.decider()).await;
    let answer = answer.map_err(|error| engine_failure(&error, None))?;
    let goes_on = resume_after_answer(session, services, &root, &answer).await;
    Ok(CommandOutcome::told(json!(answer), answer_in_words(&answer, &question.text, goes_on)))
}

/// Reads an answer that is neither text nor object, as clients make of what is typed where they read arguments as JSON: the
/// number of a suggestion, or else what was typed.
fn bare_answer(argument: &Value, suggestions: &[Suggestion]) -> Option<String> {
    let place = argument.as_u64().and_then(|number| usize::try_from(number).ok()?.checked_sub(1));
    match (place.and_then(|place| suggestions.get(place)), argument) {
        (Some(suggestion), _) => Some(suggestion.text.clone()),
        (None, Value::Number(_) | Value::Bool(_)) => Some(argument.to_string()),
        (None, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_the_place_of_a_suggestion_or_the_answer_itself() {
        let suggestion = |text: &str| Suggestion { text: text.to_owned(), mode: None };
        let suggestions = ["80", "443"].map(suggestion);
        let cases = [
            (json!(1), Some("80")),
            (json!(2), Some("443")),
            (json!(0), Some("0")),
            (json!(3), Some("3")),
            (json!(8080), Some("8080")),
            (json!(-1), Some("-1")),
            (json!(3.5), Some("3.5")),
            (json!(true), Some("true")),
            (json!("1"), None),
            (json!({ "text": "1" }), None),
            (Value::Null, None),
        ];
        for (argument, text) in cases {
            assert_eq!(bare_answer(&argument, &suggestions).as_deref(), text, "{argument}");
        }
    }
}
