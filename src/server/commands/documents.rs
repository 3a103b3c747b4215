//! Commands that show a document: a task, the diff of an approval, the tree of a request, the page for a browser.

use std::path::{Path, PathBuf};

use serde_json::json;
use tower_lsp::jsonrpc::Result;
use tower_lsp::ls_types::{ShowDocumentParams, Uri};

use super::super::session::{Session, WorkspaceServices};
use super::super::{browser, engine_failure, failure, review_diff, task_document};
use super::call::{CommandCall, CommandOutcome, Fields};
use super::lookup::{named_or_newest, pending_approval};
use roo_protocol::error::ErrorKind;
use roo_protocol::ids::{ApprovalId, TaskId};
use roo_protocol::task::PendingApproval;
use roo_workspace::{file_uri, path_of};

pub(super) async fn open_task(call: CommandCall<'_>) -> Result<CommandOutcome> {
    let CommandCall { session, services, .. } = call;
    let fields: Fields = call.read("taskId")?;
    let task = named_or_newest(services, fields.task_id, "to open", |_| true).await?;
    let path = task_document::open(session, services, &task).await?;
    Ok(opened(session, path, "the task is written there".to_owned()).await)
}

/// Shows a document, or tells where it is.
pub(super) async fn opened(session: &Session, path: PathBuf, advice: String) -> CommandOutcome {
    let shown = show(session, &path, true).await;
    let value = json!({ "path": path, "shown": shown });
    if shown {
        return CommandOutcome::silent(value);
    }
    CommandOutcome::told(value, format!("open {}: {advice}", path.display()))
}

pub(super) async fn show_diff(call: CommandCall<'_>) -> Result<CommandOutcome> {
    let CommandCall { session, services, .. } = call;
    let fields: Fields = call.read("approvalId")?;
    let (task, approval) = pending_approval(services, &fields).await?;
    let (path, shown) = open_details(session, services, &task, &approval).await?;
    let value = json!({ "path": path, "shown": shown });
    if shown {
        return Ok(CommandOutcome::silent(value));
    }
    Ok(CommandOutcome::told(value, format!("the details are in {}", path.display())))
}

pub(super) async fn show_tree(call: CommandCall<'_>) -> Result<CommandOutcome> {
    let CommandCall { session, services, .. } = call;
    let fields: Fields = call.read("taskId")?;
    let task = named_or_newest(services, fields.task_id, "to show", |_| true).await?;
    let tree = services.engine.tree(&task).await.map_err(|error| engine_failure(&error, Some(&task)))?;
    let path = write_beside(services, &task, "tree.txt", &format!("{}\n", tree.text)).await?;
    let shown = show(session, &path, true).await;
    let value = json!({ "nodes": tree.nodes, "text": tree.text, "path": path, "shown": shown });
    if shown {
        return Ok(CommandOutcome::silent(value));
    }
    Ok(CommandOutcome::told(value, format!("the tree is in {}", path.display())))
}

/// Opens the page for a browser, which is served from now on, or tells its address.
pub(super) async fn open_in_browser(call: CommandCall<'_>) -> Result<CommandOutcome> {
    let CommandCall { session, services, .. } = call;
    let fields: Fields = call.read("taskId")?;
    let address = browser::address(session, services, fields.task_id.as_ref()).await;
    let address = address.map_err(|error| {
        let message = format!("the page for a browser can't be served: {error}");
        failure(ErrorKind::Storage, message, None, "Run `roo-lsp web` in a terminal.")
    })?;
    let shown = show_outside(session, &address).await;
    let value = json!({ "address": address, "shown": shown });
    if shown {
        return Ok(CommandOutcome::silent(value));
    }
    Ok(CommandOutcome::told(value, format!("open {address}")))
}

/// Writes what an approval is about to a file beside its request's log: of files a unified diff, which its first
/// lines leave valid. Opens it, and returns the path and whether the editor opened it.
pub(in super::super) async fn open_details(
    session: &Session,
    services: &WorkspaceServices,
    task: &TaskId,
    approval: &PendingApproval,
) -> Result<(PathBuf, bool)> {
    let files = services.engine.masked_preview(&approval.approval_id).await.unwrap_or_default();
    let roots: Vec<PathBuf> = services.engine.workspace().roots().paths().map(PathBuf::from).collect();
    let name_of = |uri: &str| {
        let path = path_of(uri).unwrap_or_else(|| PathBuf::from(uri));
        let below = roots.iter().find_map(|root| path.strip_prefix(root).ok());
        below.unwrap_or(&path).to_string_lossy().into_owned()
    };
    let (subject, advice) = match files.iter().any(|file| !file.hunks.is_empty()) {
        false => (approval.subject.clone(), ""),
        true => (
            review_diff::render(&files, name_of),
            "# Code actions accept or refuse the change at the cursor. Its + lines may be changed first.\n",
        ),
    };
    let (title, reason) = (&approval.title, &approval.reason);
    let text = format!("# {title}\n# {reason}\n{advice}\n{}\n", subject.trim_end());
    let path = write_beside(services, task, &document_name(&approval.approval_id), &text).await?;
    let shown = show(session, &path, true).await;
    // Where an editor opens nothing, its user is told the path.
    session.shown_approvals.note_in_full(approval);
    Ok((path, shown))
}

fn document_name(approval: &ApprovalId) -> String {
    format!("approval-{approval}.diff")
}

/// The path that [`open_details`] writes to for an approval; none where the id names no task.
pub(in super::super) fn document_of(services: &WorkspaceServices, approval: &ApprovalId) -> Option<PathBuf> {
    let (task, _) = approval.as_str().rsplit_once('.')?;
    let request = services.directory.request(&TaskId::new(task).root());
    Some(request.path().join(document_name(approval)))
}

/// Writes a file beside the log of the request that a task belongs to.
async fn write_beside(
    services: &WorkspaceServices,
    task: &TaskId,
    name: &str,
    text: &str,
) -> Result<PathBuf> {
    let path = services.directory.request(&task.root()).path().join(name);
    match tokio::fs::write(&path, text).await {
        Ok(()) => Ok(path),
        Err(error) => {
            let message = format!("can't write {}: {error}", path.display());
            Err(failure(ErrorKind::Storage, message, Some(task.clone()), "Check the state directory."))
        }
    }
}

/// Opens a file in the editor, in the user's sight or beside it; whether it did.
pub(in super::super) async fn show(session: &Session, path: &Path, take_focus: bool) -> bool {
    if !session.negotiated().is_some_and(|negotiated| negotiated.shows_documents) {
        return false;
    }
    let Ok(uri) = file_uri(path).parse::<Uri>() else { return false };
    let params = ShowDocumentParams { uri, external: None, take_focus: Some(take_focus), selection: None };
    session.client.show_document(params).await.unwrap_or(false)
}

/// Has the client open an address in the user's browser; whether it did.
async fn show_outside(session: &Session, address: &str) -> bool {
    if !session.negotiated().is_some_and(|negotiated| negotiated.shows_documents) {
        return false;
    }
    let Ok(uri) = address.parse::<Uri>() else { return false };
    let params = ShowDocumentParams { uri, external: Some(true), take_focus: Some(true), selection: None };
    session.client.show_document(params).await.unwrap_or(false)
}
