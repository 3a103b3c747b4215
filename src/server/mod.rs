//! The language server: the one module that knows the LSP crate.
//!
//! A translation between one client and the engine. What comes in keeps its order (`intake`); what was settled at the
//! start is in `negotiated`; typed clients use `handlers` and get `subscription`s, plain ones use `commands` and
//! `code_actions` and are shown `progress`, `delivery` and `task_document`; `config_files` is what an editor shows in the
//! files that steer the server. A `session` holds what each feature keeps of a connection and knows none of them: they are
//! given the session, and those that begin by themselves are started by `startup`. No task waits for this module, and
//! nothing here decides what a task may do.

mod answer_outcome;
mod browser;
mod capabilities;
mod code_actions;
mod commands;
mod config_files;
mod configuration;
mod customization;
mod delivery;
mod document_request;
mod documents;
mod editor;
mod handlers;
mod intake;
mod interrupted_requests;
mod lifecycle;
mod line_hover;
mod mcp_servers;
mod negotiated;
mod params;
mod parent_process;
mod popup;
mod profiles;
mod progress;
mod prompt_completion;
mod provenance;
mod restore_questions;
mod review_diff;
mod review_drafts;
mod roo_ipc;
mod services;
mod session;
mod setup_questions;
mod shared_engines;
mod shown_approvals;
mod startup;
mod subscription;
mod task_document;

use tower_lsp::jsonrpc::{Error, ErrorCode};

use roo_engine::engine::EngineError;
use roo_protocol::error::{ErrorData, ErrorKind};
use roo_protocol::ids::TaskId;

pub(crate) use documents::TextSync;
pub(crate) use interrupted_requests::InterruptedRequests;
pub use lifecycle::serve_stdio;
pub(crate) use lifecycle::{Connection, serve_connection};
pub(crate) use shared_engines::{ConnectionKind, LiveRequest, SharedEngines, Sharing};

/// The code of a request that failed for a reason of ours: LSP's `RequestFailed`.
const REQUEST_FAILED: i64 = -32803;

/// Converts a failure of the engine to an error for the client.
fn engine_failure(error: &EngineError, task: Option<&TaskId>) -> Error {
    failure(error.kind(), error.to_string(), task.cloned(), error.hint())
}

fn failure(kind: ErrorKind, message: String, task_id: Option<TaskId>, hint: &str) -> Error {
    let data = ErrorData { kind, task_id, hint: hint.to_owned() };
    Error {
        code: ErrorCode::ServerError(REQUEST_FAILED),
        message: message.into(),
        // A plain value always becomes JSON.
        data: serde_json::to_value(data).ok(),
    }
}
