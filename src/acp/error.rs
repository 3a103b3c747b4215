//! Failures in the words of the protocol.

use agent_client_protocol::{Error, ErrorCode};
use roo_engine::engine::EngineError;
use roo_protocol::error::ErrorKind;
use serde_json::json;

/// Converts a failure of the engine.
pub(super) fn from_engine(error: &EngineError) -> Error {
    if error.kind() == ErrorKind::HeldElsewhere {
        return internal(
            "the session is open in another roo-lsp, such as an editor or a terminal, and is steered there",
        );
    }
    let code = match error.kind() {
        ErrorKind::NotFound => ErrorCode::RESOURCE_NOT_FOUND,
        ErrorKind::Configuration | ErrorKind::Mismatch => ErrorCode::INVALID_PARAMS,
        _ => ErrorCode::INTERNAL_ERROR,
    };
    let message = format!("{error}. {}", error.hint());
    Error::new(code, message).data(json!({ "kind": error.kind(), "hint": error.hint() }))
}

/// What the client sent can't be used.
pub(super) fn invalid(problem: impl Into<String>) -> Error {
    Error::new(ErrorCode::INVALID_PARAMS, problem)
}

/// Something failed that the client has no part in.
pub(super) fn internal(problem: impl Into<String>) -> Error {
    Error::new(ErrorCode::INTERNAL_ERROR, problem)
}

/// There is no such session.
pub(super) fn no_session(id: &str) -> Error {
    Error::new(
        ErrorCode::RESOURCE_NOT_FOUND,
        format!("there is no session '{id}'; session/list has those of a folder"),
    )
}
