//! Restores of files for a client of plain LSP: what would change is said in a message request, and done when its user
//! agrees.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tower_lsp::ls_types::MessageType;

use super::popup::{ANOTHER_IS_OPEN, show_popup};
use super::session::{Session, WorkspaceServices};
use roo_protocol::checkpoint::{
    CheckpointRestoreParams, CheckpointRestoreResult, FileDiff, RestoreConflicts, RestoreScope, RestoreWhat,
};
use roo_protocol::ids::TaskId;
use roo_text::render::{counted, exact_line};

/// The harmless first choice.
const CANCEL: &str = "Cancel";
const RESTORE: &str = "Restore";
/// The most files that a question names.
const NAMED: usize = 10;

/// Asks, restores, and tells what came of it. Ends where the user closes the question.
pub(super) async fn run(session: &Arc<Session>, services: &Arc<WorkspaceServices>, task: TaskId, seq: u64) {
    match restore(session, services, task, seq).await {
        Ok(Some(message)) => session.tell(MessageType::INFO, &message).await,
        Ok(None) => {}
        Err(problem) => session.tell(MessageType::ERROR, &problem).await,
    }
}

async fn restore(
    session: &Session,
    services: &WorkspaceServices,
    task: TaskId,
    seq: u64,
) -> Result<Option<String>, String> {
    let params = CheckpointRestoreParams {
        task_id: task,
        seq,
        what: RestoreWhat::Files,
        scope: RestoreScope::Request,
        preview: true,
        conflicts: RestoreConflicts::Keep,
        digest: None,
    };
    let by = session.client_name();
    let preview = services.engine.restore(params.clone(), by).await.map_err(|error| error.to_string())?;
    let question = question(&preview);
    if preview.files.is_empty() {
        return Ok(Some(question));
    }
    let choices = [CANCEL, RESTORE].map(str::to_owned).into();
    let never = CancellationToken::new();
    let question = format!("roo: {question}");
    let answer =
        show_popup(session, MessageType::WARNING, question, choices, &never, Some(ANOTHER_IS_OPEN)).await;
    let answer = answer.map_err(|error| format!("the editor can't ask whether to restore: {error}"))?;
    if answer.is_none_or(|answer| answer.title != RESTORE) {
        return Ok(None);
    }
    let params = CheckpointRestoreParams { preview: false, digest: Some(preview.digest), ..params };
    let restored = services.engine.restore(params, by).await.map_err(|error| error.to_string())?;
    Ok(Some(format!("{} restored", counted(restored.files.len(), "file"))))
}

/// Says what would change, and what stays.
fn question(preview: &CheckpointRestoreResult) -> String {
    let change = |file: &FileDiff| {
        let path = exact_line(&file.path);
        match (&file.before, &file.after) {
            (None, _) => format!("{path} comes back"),
            (_, None) => format!("{path} is deleted"),
            _ => format!("{path} is changed"),
        }
    };
    let mut text = match preview.files.is_empty() {
        true => "Nothing to restore.".to_owned(),
        false => {
            format!(
                "Restore {}? {}.",
                counted(preview.files.len(), "file"),
                named(preview.files.iter().map(change))
            )
        }
    };
    let conflicts = preview.conflicts.iter().map(|file| (&file.path, &file.reason));
    let left_out = preview.left_out.iter().map(|file| (&file.path, &file.reason));
    let stays: Vec<String> =
        conflicts.chain(left_out).map(|(path, reason)| format!("{} ({reason})", exact_line(path))).collect();
    if !stays.is_empty() {
        text.push_str(&format!(" These stay as they are: {}.", named(stays.into_iter())));
    }
    text
}

fn named(mut items: impl ExactSizeIterator<Item = String>) -> String {
    let list = items.by_ref().take(NAMED).collect::<Vec<_>>().join(", ");
    match items.len() {
        0 => list,
        more => format!("{list}, and {more} more"),
    }
}
