//! `roo/mode/*`.

use tower_lsp::jsonrpc::Result;

use super::task::done;
use super::{Params, Server};
use crate::server::customization;
use roo_protocol::customization::{ModeListParams, ModeListResult, ModeSwitchParams};
use roo_protocol::task::Done;

pub(super) async fn list(
    server: &Server,
    Params(ModeListParams {}): Params<ModeListParams>,
) -> Result<ModeListResult> {
    let services = server.session.typed().await?;
    let settings = services.engine.settings().await;
    customization::ask(services, move |customization| customization.mode_list(&settings)).await
}

pub(super) async fn switch(server: &Server, Params(params): Params<ModeSwitchParams>) -> Result<Done> {
    let services = server.session.typed().await?;
    done(services.engine.switch_mode(&params.task_id, &params.mode).await, &params.task_id)
}
