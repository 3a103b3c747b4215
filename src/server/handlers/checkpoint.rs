//! `roo/checkpoint/*`.

use tower_lsp::jsonrpc::Result;

use super::{Params, Server};
use crate::server::engine_failure;
use roo_protocol::checkpoint::{
    CheckpointDiffParams, CheckpointDiffResult, CheckpointListParams, CheckpointListResult,
    CheckpointRestoreParams, CheckpointRestoreResult,
};

pub(super) async fn list(
    server: &Server,
    Params(params): Params<CheckpointListParams>,
) -> Result<CheckpointListResult> {
    let services = server.session.typed().await?;
    let checkpoints = services.engine.checkpoints(&params.task_id).await;
    checkpoints.map_err(|error| engine_failure(&error, Some(&params.task_id)))
}

pub(super) async fn diff(
    server: &Server,
    Params(params): Params<CheckpointDiffParams>,
) -> Result<CheckpointDiffResult> {
    let services = server.session.typed().await?;
    let diff = services.engine.checkpoint_diff(&params).await;
    diff.map_err(|error| engine_failure(&error, Some(&params.task_id)))
}

pub(super) async fn restore(
    server: &Server,
    Params(params): Params<CheckpointRestoreParams>,
) -> Result<CheckpointRestoreResult> {
    let services = server.session.typed().await?;
    let task = params.task_id.clone();
    let restored = services.engine.restore(params, server.session.client_name()).await;
    restored.map_err(|error| engine_failure(&error, Some(&task)))
}
