//! Requests that were interrupted while they waited, in plain LSP clients: whoever answers them wants them to go on.
//! Clients that speak `roo/*` resume them by themselves.

use tower_lsp::ls_types::MessageType;

use super::session::{Session, WorkspaceServices};
use roo_engine::engine::EngineError;
use roo_protocol::ids::TaskId;
use roo_protocol::task::AnswerResult;

/// Goes on with an interrupted request after an answer that counts. Returns whether it goes on; why it can't is told.
pub(super) async fn go_on(
    session: &Session,
    services: &WorkspaceServices,
    task: &TaskId,
    answer: &AnswerResult,
) -> bool {
    if session.is_typed() || !answer.accepted || !answer.interrupted {
        return false;
    }
    match services.engine.resume(&task.root()).await {
        // The user was faster.
        Ok(()) | Err(EngineError::WrongState { .. }) => true,
        Err(error) => {
            session.tell(MessageType::ERROR, &error.to_string()).await;
            false
        }
    }
}
