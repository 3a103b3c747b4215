//! `roo/changes/*`.

use tower_lsp::jsonrpc::Result;

use super::{Params, Server};
use crate::server::engine_failure;
use roo_protocol::changes::{ChangesListParams, ChangesListResult, ChangesUndoParams, ChangesUndoResult};

pub(super) async fn list(
    server: &Server,
    Params(params): Params<ChangesListParams>,
) -> Result<ChangesListResult> {
    let services = server.session.typed().await?;
    let changes = services.engine.changes(&params.task_id).await;
    changes.map_err(|error| engine_failure(&error, Some(&params.task_id)))
}

pub(super) async fn undo(
    server: &Server,
    Params(params): Params<ChangesUndoParams>,
) -> Result<ChangesUndoResult> {
    let services = server.session.typed().await?;
    let task = params.task_id.clone();
    let undone = services.engine.undo_changes(params, server.session.client_name()).await;
    undone.map_err(|error| engine_failure(&error, Some(&task)))
}
