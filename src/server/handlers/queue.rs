//! `roo/queue/*`.

use tower_lsp::jsonrpc::Result;

use super::Server;
use super::task::done;
use crate::protocol::task::{Done, QueueDeleteParams, QueueEditParams};

pub(super) async fn edit(server: &Server, params: QueueEditParams) -> Result<Done> {
    let house = server.session.typed().await?;
    let task = params.task_id.clone();
    done(house.engine.edit_queued(params).await, &task)
}

pub(super) async fn delete(server: &Server, params: QueueDeleteParams) -> Result<Done> {
    let house = server.session.typed().await?;
    let task = params.task_id.clone();
    done(house.engine.delete_queued(params).await, &task)
}
