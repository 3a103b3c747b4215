//! `roo/editor/*`: what a typed client says of its editor. Applied at once and in order, like text sync:
//! positions are those of the text that was sent before.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Server;
use crate::server::negotiated::Negotiated;
use crate::server::params::in_words;
use roo_protocol::editor::{EditorDiagnosticsParams, EditorDidChangeParams};

pub(super) async fn did_change(server: &Server, params: Value) {
    if listening(server).is_some()
        && let Some(EditorDidChangeParams { active }) = read("roo/editor/didChange", params)
    {
        server.session.documents.set_active(active);
    }
}

pub(super) async fn diagnostics(server: &Server, params: Value) {
    if let Some(negotiated) = listening(server)
        && let Some(params) = read::<EditorDiagnosticsParams>("roo/editor/diagnostics", params)
    {
        server.session.documents.set_diagnostics(params, negotiated.encoding);
    }
}

/// Returns the capabilities of a client that is listened to: one that opted in, before `shutdown`.
pub(super) fn listening(server: &Server) -> Option<&Negotiated> {
    let session = &server.session;
    session.negotiated().filter(|negotiated| negotiated.typed && !session.was_shut_down())
}

/// Reads parameters. Nobody can be answered, so what is wrong is only logged.
pub(super) fn read<T: DeserializeOwned>(method: &str, params: Value) -> Option<T> {
    let read = serde_path_to_error::deserialize(params);
    read.inspect_err(|error| tracing::warn!("{method}: {}", in_words(error))).ok()
}
