//! `roo/prompt/*`.

use tower_lsp::jsonrpc::Result;

use super::{Params, Server};
use crate::server::prompt_completion::{self, PromptCompletion};
use roo_protocol::prompt::{PromptCompleteParams, PromptCompleteResult};

pub(super) async fn complete(
    server: &Server,
    Params(PromptCompleteParams { prompt }): Params<PromptCompleteParams>,
) -> Result<PromptCompleteResult> {
    let services = server.session.typed().await?;
    let completion = prompt_completion::complete(&server.session, services, &prompt).await?;
    let PromptCompletion { replaced, items, is_incomplete } = completion.unwrap_or_default();
    Ok(PromptCompleteResult { replaced, items, is_incomplete })
}
