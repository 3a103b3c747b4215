//! What comes of a call that a server was permitted to get, whichever of its offers it was for.

use crate::policy::{AskReason, AskRule};
use crate::server_tools::{ServerAnswer, ServerToolError, ServerTools};
use crate::tool_run::{Outcome, ToolContext};
use roo_catalog::Object;
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::Digest;
use roo_trace::record::ServerCall;

/// The call for the trace. `offer` is as `server/tool`.
pub(super) fn recorded(offer: String, arguments: &Object) -> ServerCall {
    let text = serde_json::Value::from(arguments.clone()).to_string();
    ServerCall { tool: offer, arguments: Digest::of(text) }
}

/// Reason to ask for what nothing allows.
pub(super) fn unknown_effects() -> AskReason {
    AskReason { rule: AskRule::Server, text: "what a server will do can't be known in advance".to_owned() }
}

/// Waits for a server that is starting to be one that can be called. Nothing was done where it can't.
pub(super) async fn started(
    servers: &dyn ServerTools,
    server: &str,
    context: &ToolContext,
) -> Result<(), ServerToolError> {
    tokio::select! {
        biased;
        () = context.cancel.cancelled() => {
            let reason = "the call was cancelled before it had started".to_owned();
            Err(ServerToolError::Unreachable { server: server.to_owned(), reason })
        }
        started = servers.connected(server) => started,
    }
}

/// The outcome for the model and for the trace. `subject` names for people what was called.
pub(super) async fn outcome(
    answered: Result<ServerAnswer, ServerToolError>,
    made: ServerCall,
    subject: &str,
    context: &ToolContext,
) -> Outcome {
    // Of what was not reached there is nothing to record.
    let server_call = match &answered {
        Err(ServerToolError::Gone(_) | ServerToolError::Unreachable { .. }) => None,
        _ => Some(made),
    };
    let outcome = match answered {
        Ok(answer) => {
            let (status, what) = match answer.failed {
                true => (ToolStatus::Failed, "failed"),
                false => (ToolStatus::Ok, "answered"),
            };
            let text = context.read_mask().await.masked(&answer.text).unwrap_or(answer.text);
            Outcome { images: answer.images, ..Outcome::new(status, text, format!("{subject} {what}")) }
        }
        Err(error @ ServerToolError::Cancelled(_)) => Outcome::interrupted(error.to_string()),
        Err(error) => Outcome::failed(error.to_string()),
    };
    Outcome { server_call, ..outcome }
}
