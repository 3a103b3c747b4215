//! `roo/mode/*`.

use tower_lsp::jsonrpc::Result;

use super::{Params, Server};
use crate::protocol::customization::{ModeListParams, ModeListResult};
use crate::server::customization;

pub(super) async fn list(
    server: &Server,
    Params(ModeListParams {}): Params<ModeListParams>,
) -> Result<ModeListResult> {
    let house = server.session.typed().await?;
    customization::ask(house, |customization| customization.mode_list()).await
}
