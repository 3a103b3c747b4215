//! `roo/context/*`.

use tower_lsp::jsonrpc::Result;

use super::task::done;
use super::{Params, Server};
use crate::server::engine_failure;
use roo_protocol::context::{ContextGetResult, ContextRestoreParams};
use roo_protocol::task::{Done, TaskParams};

pub(super) async fn get(server: &Server, Params(params): Params<TaskParams>) -> Result<ContextGetResult> {
    let services = server.session.typed().await?;
    services
        .engine
        .context(&params.task_id)
        .await
        .map_err(|error| engine_failure(&error, Some(&params.task_id)))
}

pub(super) async fn condense(server: &Server, Params(params): Params<TaskParams>) -> Result<Done> {
    let services = server.session.typed().await?;
    done(services.engine.condense(&params.task_id).await, &params.task_id)
}

pub(super) async fn restore(server: &Server, Params(params): Params<ContextRestoreParams>) -> Result<Done> {
    let services = server.session.typed().await?;
    let task = params.task_id.clone();
    done(services.engine.restore_context(params).await, &task)
}
