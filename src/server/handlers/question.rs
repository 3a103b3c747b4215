//! `roo/question/*`.

use tower_lsp::jsonrpc::Result;

use super::{Params, Server};
use crate::server::engine_failure;
use roo_protocol::task::{AnswerResult, QuestionAnswerParams};

pub(super) async fn answer(
    server: &Server,
    Params(params): Params<QuestionAnswerParams>,
) -> Result<AnswerResult> {
    let services = server.session.typed().await?;
    let by = server.session.decider();
    services.engine.answer(params, by).await.map_err(|error| engine_failure(&error, None))
}
