//! Code actions that answer a proposed edit change by change: in the file itself, and in the diff document of its approval.

use std::sync::Arc;

use serde_json::json;
use tokio::fs::canonicalize;
use tower_lsp::jsonrpc::Result;

use super::super::commands::document_of;
use super::{AUTOMATIC, Action, CodeActionParams, Effect, QUICK_FIX, TITLE};
use crate::server::review_diff::{self, ShownHunk};
use crate::server::session::{Session, WorkspaceServices};
use crate::server::task_document::lines;
use roo_protocol::ids::{ApprovalId, HunkId, TaskId};
use roo_protocol::review::Hunk;
use roo_protocol::task::{FilePreview, PendingApproval};
use roo_text::render::one_line;
use roo_workspace::path_of;

/// Actions on proposed changes.
#[derive(Default)]
pub(super) struct ReviewActions {
    /// All actions of a diff document; none where the document is another one.
    pub(super) diff: Option<Vec<Action>>,
    /// The actions on the lines of a file.
    pub(super) actions: Vec<Action>,
}

/// Returns what can be answered here. Typed clients show proposed changes in a way of their own.
pub(super) async fn offered(
    session: &Arc<Session>,
    asked: &CodeActionParams,
    text: &str,
) -> Result<ReviewActions> {
    let uri = &asked.text_document.uri;
    if let Some(approval) = approval_of(uri) {
        let services = session.services().await?;
        if is_document_of(services, &approval, uri).await {
            let diff = in_diff(session, services, (&approval, text), asked).await;
            return Ok(ReviewActions { diff: Some(diff.unwrap_or_default()), actions: vec![] });
        }
    }
    let is_automatic = asked.context.trigger_kind == Some(AUTOMATIC);
    if session.is_typed() || is_automatic || session.shown_approvals.is_empty() {
        return Ok(ReviewActions::default());
    }
    let actions = in_file(session, session.services().await?, asked).await;
    Ok(ReviewActions { diff: None, actions })
}

/// The approval whose diff document has this name, wherever it is.
fn approval_of(uri: &str) -> Option<ApprovalId> {
    let path = path_of(uri)?;
    let name = path.file_name()?.to_str()?.strip_prefix("approval-")?.strip_suffix(".diff")?;
    let requests = path.parent()?.parent()?.file_name()?;
    (requests == "requests").then(|| ApprovalId::new(name))
}

/// Returns whether this is the diff document that the server wrote for an approval. A file of that name in the workspace may be
/// anyone's.
async fn is_document_of(services: &WorkspaceServices, approval: &ApprovalId, uri: &str) -> bool {
    let (Some(own), Some(path)) = (document_of(services, approval), path_of(uri)) else { return false };
    // Some editors tell the path behind symbolic links.
    own == path
        || matches!(tokio::join!(canonicalize(own), canonicalize(path)), (Ok(own), Ok(path)) if own == path)
}

/// The approval of this id, if it waits.
async fn waiting(services: &WorkspaceServices, id: &ApprovalId) -> Option<PendingApproval> {
    let (task, _) = id.as_str().rsplit_once('.')?;
    let approval = services.engine.get(&TaskId::new(task)).await.ok()?.approval?;
    (approval.approval_id == *id).then_some(approval)
}

async fn in_diff(
    session: &Session,
    services: &WorkspaceServices,
    (id, text): (&ApprovalId, &str),
    asked: &CodeActionParams,
) -> Option<Vec<Action>> {
    let approval = waiting(services, id).await?;
    let files = services.engine.preview(id).await.ok()?;
    let hunks: Vec<&Hunk> = files.iter().flat_map(|file| &file.hunks).collect();
    // As the document was written; names don't matter.
    let written = review_diff::render(&services.engine.masked_preview(id).await.ok()?, |_| String::new());
    let written = review_diff::hunks(&written);
    let edit_of = |shown: ShownHunk<'_>| {
        let hunk = hunks.iter().find(|hunk| hunk.hunk_id.as_str() == shown.id)?;
        let written = written.iter().find(|written| written.id == shown.id)?;
        Some(edit_of(hunk, written, shown))
    };
    let line = usize::try_from(asked.range.start.line).ok()?;
    let mut actions = Vec::new();
    if let Some(shown) = review_diff::hunk_at(text, line)
        && let Some((number, hunk)) = (1..).zip(&hunks).find(|(_, hunk)| hunk.hunk_id.as_str() == shown.id)
        && let Some(edit) = edit_of(shown)
    {
        on_hunk(&mut actions, &approval, (number, hunks.len()), hunk, edit);
    }
    let is_edited = review_diff::hunks(text)
        .into_iter()
        .any(|shown| edit_of(shown).is_some_and(|edit| !matches!(edit, LineEdit::None)));
    on_rest(&mut actions, session, &approval, &hunks, is_edited);
    Some(actions)
}

/// The user's changes of a hunk's added lines in its diff document.
enum LineEdit {
    None,
    /// The lines that take their place.
    Lines(String),
    /// Changes that can't be taken from the document.
    Unreadable,
}

/// Returns the user's changes of a hunk in a document that was `written` and now is `shown`.
fn edit_of(hunk: &Hunk, written: &ShownHunk<'_>, shown: ShownHunk<'_>) -> LineEdit {
    // What the document can't show as it is, such as control characters and secrets, is not taken from it.
    let is_exact = written.added == hunk.new_text.replace("\r\n", "\n");
    // A new line without its sign is among the others.
    if written.others != shown.others {
        LineEdit::Unreadable
    } else if shown.added == written.added {
        LineEdit::None
    } else if is_exact {
        LineEdit::Lines(shown.added)
    } else {
        LineEdit::Unreadable
    }
}

async fn in_file(session: &Session, services: &WorkspaceServices, asked: &CodeActionParams) -> Vec<Action> {
    let uri = &asked.text_document.uri;
    let (first, last) = lines(asked.range);
    let mut actions = Vec::new();
    for id in session.shown_approvals.ids() {
        let Some(approval) = waiting(services, &id).await else {
            session.shown_approvals.forget(&id);
            session.review_drafts.forget(&id);
            continue;
        };
        let Ok(files) = services.engine.preview(&id).await else { continue };
        if !session.shown_approvals.has(&approval) || files.iter().all(|file| file.uri != *uri) {
            continue;
        }
        let all: Vec<(&FilePreview, &Hunk)> =
            files.iter().flat_map(|file| file.hunks.iter().map(move |hunk| (file, hunk))).collect();
        let touches = |hunk: &Hunk| {
            let (start, end) = (hunk.old_range.start, hunk.old_range.end);
            // What is only added stands between two lines.
            let end = if start == end { end.saturating_add(1) } else { end };
            start < last && end >= first
        };
        for (number, (file, hunk)) in (1..).zip(&all) {
            if file.uri == *uri && touches(hunk) {
                on_hunk(&mut actions, &approval, (number, all.len()), hunk, LineEdit::None);
            }
        }
        let hunks: Vec<&Hunk> = all.into_iter().map(|(_, hunk)| hunk).collect();
        on_rest(&mut actions, session, &approval, &hunks, false);
    }
    actions
}

fn on_hunk(
    actions: &mut Vec<Action>,
    approval: &PendingApproval,
    (number, of): (usize, usize),
    hunk: &Hunk,
    edit: LineEdit,
) {
    let what = one_line(&approval.title, TITLE);
    let argument = |ids: &[&HunkId], text: Option<&String>| {
        let mut argument =
            json!({ "approvalId": approval.approval_id, "digest": approval.digest, "hunkIds": ids });
        if let Some(text) = text {
            argument["text"] = text.as_str().into();
        }
        argument
    };
    let ids = [&hunk.hunk_id];
    if let LineEdit::Lines(lines) = &edit {
        let title = format!("Roo: accept this change as edited here ({number} of {of}): {what}");
        actions.push(action(title, "roo.approve", argument(&ids, Some(lines))));
    }
    let title = format!("Roo: refuse this change ({number} of {of}): {what}");
    actions.push(action(title, "roo.deny", argument(&ids, None)));
    let as_proposed = match edit {
        LineEdit::None => "",
        LineEdit::Lines(_) => " as proposed",
        LineEdit::Unreadable => " as proposed, since your lines can't be read",
    };
    let title = format!("Roo: accept this change{as_proposed} ({number} of {of}): {what}");
    actions.push(action(title, "roo.approve", argument(&ids, None)));
}

/// Actions on all changes, or on those that the user has not decided on yet. Lines that were edited in the diff document count
/// for the action on their change alone.
fn on_rest(
    actions: &mut Vec<Action>,
    session: &Session,
    approval: &PendingApproval,
    hunks: &[&Hunk],
    is_edited: bool,
) {
    let what = one_line(&approval.title, TITLE);
    let as_proposed = if is_edited { " as proposed" } else { "" };
    let argument = json!({ "approvalId": approval.approval_id, "digest": approval.digest });
    let decided = session.review_drafts.answers(approval);
    let is_open = |hunk: &&&Hunk| decided.iter().all(|answer| answer.hunk_id != hunk.hunk_id);
    let open: Vec<&HunkId> = hunks.iter().filter(is_open).map(|hunk| &hunk.hunk_id).collect();
    let which = match (decided.is_empty(), hunks.len()) {
        (true, 1) => String::new(),
        (true, count) => format!(" all {count} changes"),
        (false, _) => format!(" the other {} changes", open.len()),
    };
    if !decided.is_empty() {
        let argument_of_all = argument.clone();
        let mut argument = argument;
        argument["hunkIds"] = json!(open);
        actions.push(action(format!("Roo: refuse{which}: {what}"), "roo.deny", argument.clone()));
        actions.push(action(format!("Roo: accept{which}{as_proposed}: {what}"), "roo.approve", argument));
        actions.push(action(
            format!("Roo: refuse all {} changes: {what}", hunks.len()),
            "roo.deny",
            argument_of_all,
        ));
        return;
    }
    actions.push(action(format!("Roo: refuse{which}: {what}"), "roo.deny", argument.clone()));
    actions.push(action(format!("Roo: accept{which}{as_proposed}: {what}"), "roo.approve", argument));
}

fn action(title: String, command: &'static str, argument: serde_json::Value) -> Action {
    Action { title, kind: QUICK_FIX, effect: Effect::Command { name: command, argument }, fixes: None }
}
