//! Faults of HTTP servers, by the errors of the client.

use http::StatusCode;
use rmcp::transport::streamable_http_client::StreamableHttpError;

use crate::fault::{ServerFault, short};
use crate::network;
use crate::stdio::MESSAGE;

/// Reports whether a server wants to know who asks.
pub(crate) fn is_unauthorized(error: &StreamableHttpError<reqwest::Error>) -> bool {
    match error {
        StreamableHttpError::AuthRequired(_) => true,
        StreamableHttpError::Client(error) => error.status() == Some(StatusCode::UNAUTHORIZED),
        // Without a challenge the client has no other name for it.
        StreamableHttpError::UnexpectedServerResponse(text) => text.starts_with("HTTP 401"),
        _ => false,
    }
}

/// Fault of an error of the transport to a server.
pub(crate) fn http_fault(error: &StreamableHttpError<reqwest::Error>, server: &str) -> ServerFault {
    match error {
        error if is_unauthorized(error) => ServerFault::Unauthorized { status: 401 },
        StreamableHttpError::InsufficientScope(error) => match error.get_required_scope() {
            Some(scopes) => ServerFault::Scope { server: server.to_owned(), scopes: scopes_to_show(scopes) },
            None => ServerFault::Unauthorized { status: 403 },
        },
        StreamableHttpError::Client(error) => reqwest_fault(error),
        StreamableHttpError::SessionExpired => ServerFault::Expired,
        StreamableHttpError::ResponseBodyTooLarge { .. } => ServerFault::Oversized { limit: MESSAGE >> 20 },
        StreamableHttpError::HttpStatus(error) => status_fault(error.status, ""),
        StreamableHttpError::UnexpectedServerResponse(text) => match status_and_body(text) {
            Some((status, body)) => status_fault(status, body),
            None => ServerFault::Unreachable(short(&network::error_chain(error))),
        },
        other => ServerFault::Unreachable(short(&network::error_chain(other))),
    }
}

/// Status and body of an answer that the client did not expect, from its text for it: `HTTP 400 Bad Request: no such tool`.
pub(crate) fn status_and_body(text: &str) -> Option<(u16, &str)> {
    let (status, rest) = text.strip_prefix("HTTP ")?.split_at_checked(3)?;
    let body = rest.split_once(": ").map_or("", |(_, body)| body.trim());
    Some((status.parse().ok()?, body))
}

fn status_fault(status: u16, body: &str) -> ServerFault {
    match status {
        // The client gives an unfollowed redirect as an answer like any other.
        300..400 => ServerFault::Redirect("another address".to_owned()),
        _ => ServerFault::Http { status, body: short(body) },
    }
}

/// Scopes without characters that have none in them, as they stand in a command.
fn scopes_to_show(scopes: &str) -> String {
    short(&scopes.replace(|c: char| !(c.is_ascii_graphic() || c == ' ') || "'\"\\`".contains(c), ""))
}

/// Fault of an error of the HTTP client.
pub(crate) fn reqwest_fault(error: &reqwest::Error) -> ServerFault {
    if let Some(refused) = network::refusal(error) {
        return ServerFault::Address(refused.clone());
    }
    match error.status().map(|status| status.as_u16()) {
        Some(status @ (401 | 403)) => ServerFault::Unauthorized { status },
        Some(status) => status_fault(status, ""),
        None => ServerFault::Unreachable(short(&network::error_chain(error))),
    }
}
