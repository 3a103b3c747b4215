//! Outcome of an answer in plain LSP clients: an interrupted request goes on, as whoever answers it wants that, and its user is
//! told where the answer doesn't count. Clients that speak `roo/*` see to both by themselves.

use tower_lsp::ls_types::MessageType;

use super::session::{MESSAGE, Session, WorkspaceServices};
use roo_engine::engine::EngineError;
use roo_protocol::ids::TaskId;
use roo_protocol::task::{AnswerResult, Settled};
use roo_text::render::one_line;

/// Resumes a request that is interrupted after an answer that counts. Returns whether nothing holds it up any more; why it can't
/// go on is told.
pub(super) async fn resume_after_answer(
    session: &Session,
    services: &WorkspaceServices,
    task: &TaskId,
    answer: &AnswerResult,
) -> bool {
    if !answer.interrupted {
        return true;
    }
    if session.is_typed() || !answer.accepted {
        return false;
    }
    match services.engine.resume_interrupted(&task.root()).await {
        // The user was faster.
        Ok(()) | Err(EngineError::WrongState { .. }) => true,
        Err(error) => {
            session.tell(MessageType::ERROR, &error.to_string()).await;
            false
        }
    }
}

/// Describes what became of an answer to this question or approval.
pub(super) fn answer_in_words(answer: &AnswerResult, what: &str, goes_on: bool) -> String {
    let what = one_line(what, MESSAGE);
    match answer {
        AnswerResult { waits: true, .. } => {
            format!("earlier turns are summarised before the next model request; this still waits: {what}")
        }
        AnswerResult { accepted: true, .. } if !goes_on => {
            format!("answered, but the request is interrupted: continue it with roo.resume ({what})")
        }
        AnswerResult { accepted: true, .. } => format!("answered: {what}"),
        AnswerResult { settled: Some(Settled::Rule { rule_id }), .. } => {
            format!("the standing rule {rule_id} has decided it already: {what}")
        }
        AnswerResult { settled: Some(Settled::Void), .. } => void_in_words(&what),
        AnswerResult { by, .. } => format!("{by} answered first: {what}"),
    }
}

/// Says that nobody waits for an answer to this any more.
pub(super) fn void_in_words(what: &str) -> String {
    format!("it is no longer asked: {}", one_line(what, MESSAGE))
}
