//! The server over streamable HTTP, for clients of the same machine: at a loopback address alone, behind a bearer token, with
//! `Host` and `Origin` checked against pages in a browser.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, HeaderMap, WWW_AUTHENTICATE};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::tools::RooServer;
use crate::accept::accept;
use roo_protocol::ids::Digest;

/// The path of the endpoint.
pub(super) const PATH: &str = "/mcp";
/// Time limit for a request's headers.
const HEADERS: Duration = Duration::from_secs(30);

type McpService = StreamableHttpService<RooServer, LocalSessionManager>;

/// What a client has to know to be served. It is compared by its digest, which takes the same time for every wrong one.
pub(super) struct Token(Digest);

impl Token {
    pub(super) fn new(secret: &str) -> Self {
        Self(Digest::of(secret.as_bytes()))
    }

    fn is_in(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let secret = given.and_then(|value| {
            let (scheme, secret) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim())
        });
        secret.is_some_and(|secret| Digest::of(secret.as_bytes()) == self.0)
    }
}

/// Serves all clients that come, until it is cancelled.
///
/// # Errors
/// The last one of the listener when it can't accept connections for a while.
pub(super) async fn serve(
    listener: TcpListener,
    token: Token,
    server: RooServer,
    cancel: CancellationToken,
) -> io::Result<()> {
    let address = listener.local_addr()?;
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(hosts(address))
        .with_allowed_origins(hosts(address).map(|host| format!("http://{host}:{}", address.port())))
        .with_cancellation_token(cancel.child_token());
    let service = StreamableHttpService::new(move || Ok(server.clone()), Arc::default(), config);
    let token = Arc::new(token);
    accept(&listener, &cancel, |stream, place| connection(stream, place, Arc::clone(&token), service.clone()))
        .await
}

/// The names of this machine by which the server is reached. With its port they are the origins of pages that it would serve
/// itself, if it had any; every other page is refused.
fn hosts(address: SocketAddr) -> [String; 4] {
    let own = match address.ip() {
        IpAddr::V4(own) => own.to_string(),
        IpAddr::V6(own) => format!("[{own}]"),
    };
    ["127.0.0.1".to_owned(), "localhost".to_owned(), "[::1]".to_owned(), own]
}

/// Answers what comes over a connection, whose place is free after that.
async fn connection(stream: TcpStream, _place: OwnedSemaphorePermit, token: Arc<Token>, service: McpService) {
    let answer = service_fn(move |request| {
        let (token, service) = (Arc::clone(&token), service.clone());
        async move { Ok::<_, Infallible>(answer(request, &token, service).await) }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADERS);
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), answer).await {
        tracing::debug!(%error, "a connection ended early");
    }
}

async fn answer(
    request: Request<Incoming>,
    token: &Token,
    service: McpService,
) -> Response<BoxBody<Bytes, Infallible>> {
    if !token.is_in(request.headers()) {
        let mut response = refusal(StatusCode::UNAUTHORIZED, "the token is missing or wrong");
        response.headers_mut().insert(WWW_AUTHENTICATE, hyper::header::HeaderValue::from_static("Bearer"));
        return response;
    }
    if request.uri().path() != PATH {
        return refusal(StatusCode::NOT_FOUND, "the endpoint is /mcp");
    }
    service.handle(request).await
}

fn refusal(status: StatusCode, reason: &'static str) -> Response<BoxBody<Bytes, Infallible>> {
    let mut response = Response::new(Full::new(Bytes::from_static(reason.as_bytes())).boxed());
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn only_the_token_itself_is_taken() {
        let token = Token::new("s3cret");
        let headers =
            |value: &'static str| HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(value))]);
        assert!(token.is_in(&headers("Bearer s3cret")));
        assert!(token.is_in(&headers("bearer s3cret")));
        for wrong in ["Bearer", "Bearer ", "Bearer s3cre", "Bearer s3cret1", "Basic s3cret", "s3cret"] {
            assert!(!token.is_in(&headers(wrong)), "{wrong}");
        }
        assert!(!token.is_in(&HeaderMap::new()));
    }
}
