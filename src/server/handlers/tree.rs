//! `roo/tree/*`.

use tower_lsp::jsonrpc::Result;

use super::{Params, Server};
use crate::server::engine_failure;
use roo_protocol::tree::{TreeGetParams, TreeGetResult};

pub(super) async fn get(server: &Server, Params(params): Params<TreeGetParams>) -> Result<TreeGetResult> {
    let services = server.session.typed().await?;
    services.engine.tree(&params.task_id).await.map_err(|error| engine_failure(&error, Some(&params.task_id)))
}
