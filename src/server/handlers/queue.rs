//! `roo/queue/*`.

use tower_lsp::jsonrpc::Result;

use super::task::done;
use super::{Params, Server};
use roo_protocol::task::{Done, QueueDeleteParams, QueueEditParams};

pub(super) async fn edit(server: &Server, Params(params): Params<QueueEditParams>) -> Result<Done> {
    let services = server.session.typed().await?;
    let task = params.task_id.clone();
    done(services.engine.edit_queued(params).await, &task)
}

pub(super) async fn delete(server: &Server, Params(params): Params<QueueDeleteParams>) -> Result<Done> {
    let services = server.session.typed().await?;
    let task = params.task_id.clone();
    done(services.engine.delete_queued(params).await, &task)
}
