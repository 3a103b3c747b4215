//! The HTTP/1.1 side of the proxy: tunnels by CONNECT, and plain requests in absolute form.
//!
//! Messages are read and rewritten by hyper, so that what is checked and what a server gets can't differ: the
//! host of a plain request is its URL's, whatever its `Host` says.

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self as client, SendRequest};
use hyper::ext::ReasonPhrase;
use hyper::header::{
    CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio_util::either::Either as Stream;

use super::Proxy;
use super::connect::ConnectError;
use super::host::Destination;
use super::rules::HostRules;
use super::tunnel::splice;
use super::upstream::{Outbound, Traffic};

/// The most header fields of a message.
const HEADERS: usize = 200;
/// Fields that concern a single connection (RFC 9110, 7.6.1).
const CONNECTION_FIELDS: [HeaderName; 6] =
    [CONNECTION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING];

/// The reason why a proxy answers in the place of a server (RFC 9209).
const PROXY_STATUS: &str = "proxy-status";

/// A response body: an error text, or a server's body.
type Body = Either<Full<Bytes>, Incoming>;

/// Serves a client until it disconnects, including the tunnel that it opens.
pub(super) async fn serve<S>(stream: S, proxy: Arc<Proxy>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let session = Arc::new(Session { proxy, tunnel: Mutex::default(), kept: Mutex::default() });
    let answering = Arc::clone(&session);
    let service = service_fn(move |request| {
        let session = Arc::clone(&answering);
        async move { Ok::<_, Infallible>(session.answer(request).await) }
    });
    let limits = session.proxy.limits;
    let connection = server::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.request)
        .max_buf_size(limits.header_bytes.max(8192))
        .max_headers(HEADERS)
        .half_close(true)
        .auto_date_header(false)
        .preserve_header_case(true)
        .serve_connection(TokioIo::new(stream), service);
    // The client has disconnected: there is nobody to report to.
    if connection.with_upgrades().await.is_err() {
        return;
    }
    let tunnel = session.tunnel.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(PendingTunnel { client, outbound }) = tunnel
        && let Ok(client) = client.await
    {
        // The client has disconnected.
        let _ = pass::<S>(client, outbound).await;
    }
}

/// Joins the two ends of a tunnel.
async fn pass<S>(client: Upgraded, mut outbound: Outbound) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    match client.downcast::<TokioIo<S>>() {
        Ok(parts) => {
            // What the client sent without waiting for the answer.
            outbound.write_all(&parts.read_buf).await?;
            splice(parts.io.into_inner(), outbound).await
        }
        Err(client) => splice(TokioIo::new(client), outbound).await,
    }
}

/// One client's connection.
struct Session {
    proxy: Arc<Proxy>,
    /// The tunnel that the connection becomes after the response.
    tunnel: Mutex<Option<PendingTunnel>>,
    /// The connection of the previous request.
    kept: Mutex<Option<KeptConnection>>,
}

/// A tunnel that starts when the response has been sent.
struct PendingTunnel {
    client: OnUpgrade,
    outbound: Outbound,
}

/// A server connection that can be reused.
struct KeptConnection {
    destination: Destination,
    /// The rules by which it was made.
    rules: Arc<HostRules>,
    sender: SendRequest<Incoming>,
    form: TargetForm,
}

/// The form of a request target.
#[derive(Clone)]
enum TargetForm {
    /// A path, for the server itself.
    Path,
    /// A full URL, for the user's proxy, with the value of `Proxy-Authorization`.
    Absolute(Option<HeaderValue>),
}

/// The reason for which there is no response of a server.
enum ProxyFailure {
    ConnectError(ConnectError),
    BadRequest(String),
    BadGateway(String),
}

impl From<ConnectError> for ProxyFailure {
    fn from(error: ConnectError) -> Self {
        Self::ConnectError(error)
    }
}

impl Session {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let target = target(&request);
        let answered = match &target {
            Ok((destination, Traffic::Tunnel)) => self.tunnel(request, destination).await,
            Ok((destination, Traffic::Http)) => self.forward(request, destination).await,
            Err(problem) => Err(ProxyFailure::BadRequest(problem.clone())),
        };
        answered.unwrap_or_else(|failure| {
            self.error_response(&failure, target.as_ref().ok().map(|(destination, _)| destination))
        })
    }

    async fn tunnel(
        &self,
        mut request: Request<Incoming>,
        destination: &Destination,
    ) -> Result<Response<Body>, ProxyFailure> {
        let outbound = self.proxy.open(destination).await?;
        self.set_tunnel(PendingTunnel { client: hyper::upgrade::on(&mut request), outbound });
        Ok(Response::new(Either::Left(Full::default())))
    }

    async fn forward(
        &self,
        mut request: Request<Incoming>,
        destination: &Destination,
    ) -> Result<Response<Body>, ProxyFailure> {
        let rules = self.proxy.rules();
        let upgrade = upgrade_of(request.headers());
        let client = upgrade.is_some().then(|| hyper::upgrade::on(&mut request));
        let mut kept = match self.take_kept(destination, &rules).filter(|_| upgrade.is_none()) {
            Some(kept) => kept,
            None => self.server(destination, &rules).await?,
        };
        prepare(&mut request, destination, upgrade.as_ref(), &kept.form)?;
        let mut response = match kept.sender.try_send_request(request).await {
            Ok(response) => response,
            // The server has closed the connection since the request before.
            Err(mut error) => match error.take_message() {
                Some(request) => {
                    kept = self.server(destination, &rules).await?;
                    kept.sender.send_request(request).await.map_err(|error| unreadable(&error))?
                }
                None => return Err(unreadable(error.error())),
            },
        };
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let (Some(client), Some(upgrade)) = (client, upgrade) else {
                return Err(ProxyFailure::BadGateway(
                    "the server switched to a protocol that was not requested".to_owned(),
                ));
            };
            let server = hyper::upgrade::on(&mut response).await.map_err(|error| unreadable(&error))?;
            self.set_tunnel(PendingTunnel { client, outbound: Stream::Right(TokioIo::new(server)) });
            from_server(response.headers_mut());
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
            response.headers_mut().entry(UPGRADE).or_insert(upgrade);
        } else {
            from_server(response.headers_mut());
            *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
        }
        *response.version_mut() = Version::HTTP_11;
        Ok(response.map(Either::Right))
    }

    /// Takes the connection of the previous request if it leads to the same server and is idle.
    fn take_kept(&self, destination: &Destination, rules: &Arc<HostRules>) -> Option<KeptConnection> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).take();
        kept.filter(|kept| {
            kept.destination == *destination && Arc::ptr_eq(&kept.rules, rules) && kept.sender.is_ready()
        })
    }

    /// Connects to a server, or to the user's proxy for it.
    async fn server(
        &self,
        destination: &Destination,
        rules: &Arc<HostRules>,
    ) -> Result<KeptConnection, ProxyFailure> {
        let (outbound, form) = match self.proxy.open_http(destination, rules).await? {
            (outbound, None) => (outbound, TargetForm::Path),
            (outbound, Some(authorization)) => (outbound, TargetForm::Absolute(authorization)),
        };
        let handshake = client::Builder::new()
            .max_buf_size(self.proxy.limits.header_bytes.max(8192))
            .max_headers(HEADERS)
            .preserve_header_case(true)
            .handshake(TokioIo::new(outbound));
        let (sender, connection) = handshake.await.map_err(|error| unreadable(&error))?;
        let cancel = self.proxy.cancel.clone();
        self.proxy.tasks.spawn(async move {
            // Errors reach the request that uses the connection.
            let _ = cancel.run_until_cancelled(connection.with_upgrades()).await;
        });
        Ok(KeptConnection { destination: destination.clone(), rules: Arc::clone(rules), sender, form })
    }

    fn set_tunnel(&self, tunnel: PendingTunnel) {
        *self.tunnel.lock().unwrap_or_else(PoisonError::into_inner) = Some(tunnel);
    }

    fn error_response(&self, failure: &ProxyFailure, destination: Option<&Destination>) -> Response<Body> {
        let name = || destination.map(ToString::to_string).unwrap_or_default();
        let (status, error, text) = match failure {
            ProxyFailure::ConnectError(ConnectError::Refused(reason)) => {
                let text = destination
                    .map(|destination| self.proxy.refusal_message(destination, reason))
                    .unwrap_or_default();
                (StatusCode::FORBIDDEN, "http_request_denied", text)
            }
            ProxyFailure::ConnectError(ConnectError::Unresolved(error)) => {
                (StatusCode::BAD_GATEWAY, "dns_error", format!("{} can't be resolved: {error}.\n", name()))
            }
            ProxyFailure::ConnectError(ConnectError::Unreachable(error))
                if error.kind() == io::ErrorKind::TimedOut =>
            {
                (StatusCode::GATEWAY_TIMEOUT, "connection_timeout", format!("{}: {error}.\n", name()))
            }
            ProxyFailure::ConnectError(ConnectError::Unreachable(error)) => {
                (StatusCode::BAD_GATEWAY, "destination_unavailable", format!("{}: {error}.\n", name()))
            }
            ProxyFailure::ConnectError(ConnectError::Upstream(problem)) => {
                (StatusCode::BAD_GATEWAY, "destination_unavailable", format!("{}: {problem}.\n", name()))
            }
            ProxyFailure::BadGateway(problem) => {
                (StatusCode::BAD_GATEWAY, "http_protocol_error", format!("{}: {problem}.\n", name()))
            }
            ProxyFailure::BadRequest(problem) => {
                (StatusCode::BAD_REQUEST, "http_request_error", format!("The proxy of roo-lsp: {problem}.\n"))
            }
        };
        let mut response = Response::new(Either::Left(Full::from(text)));
        *response.status_mut() = status;
        if status == StatusCode::FORBIDDEN {
            // Most clients show only the status line of a response to CONNECT.
            response.extensions_mut().insert(ReasonPhrase::from_static(b"Refused by the sandbox of roo-lsp"));
        }
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        if let Ok(value) = HeaderValue::try_from(format!("roo-lsp; error={error}")) {
            headers.insert(PROXY_STATUS, value);
        }
        response
    }
}

/// Returns the destination of a request and the kind of traffic.
fn target<T>(request: &Request<T>) -> Result<(Destination, Traffic), String> {
    let uri = request.uri();
    let parse = |default| {
        let authority = uri.authority().map(|authority| authority.as_str()).unwrap_or_default();
        Destination::parse(authority, default).map_err(|problem| problem.to_string())
    };
    if request.method() == Method::CONNECT {
        return Ok((parse(None)?, Traffic::Tunnel));
    }
    match uri.scheme_str() {
        Some(scheme) if scheme.eq_ignore_ascii_case("http") => Ok((parse(Some(80))?, Traffic::Http)),
        Some(scheme) if scheme.eq_ignore_ascii_case("https") => {
            Err("https requests must use a tunnel (CONNECT)".to_owned())
        }
        Some(_) => Err("only http and https are supported".to_owned()),
        None => Err("the request to the proxy names no host".to_owned()),
    }
}

/// Returns the protocol that a client wants to switch to.
fn upgrade_of(headers: &HeaderMap) -> Option<HeaderValue> {
    let wanted = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let wanted =
        wanted.flat_map(|value| value.split(',')).any(|token| token.trim().eq_ignore_ascii_case("upgrade"));
    headers.get(UPGRADE).filter(|_| wanted).cloned()
}

/// Turns a client's request into the one for the server.
fn prepare(
    request: &mut Request<Incoming>,
    destination: &Destination,
    upgrade: Option<&HeaderValue>,
    form: &TargetForm,
) -> Result<(), ProxyFailure> {
    let bad = |error: hyper::http::Error| ProxyFailure::BadRequest(error.to_string());
    let host = if destination.port == 80 { destination.host.bracketed() } else { destination.to_string() };
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let uri = Uri::builder().path_and_query(path);
    *request.uri_mut() = match form {
        TargetForm::Path => uri.build(),
        TargetForm::Absolute(_) => uri.scheme("http").authority(host.as_str()).build(),
    }
    .map_err(bad)?;
    *request.version_mut() = Version::HTTP_11;
    without_connection_fields(request.headers_mut());
    let host = HeaderValue::try_from(host).map_err(|error| bad(error.into()))?;
    request.headers_mut().insert(HOST, host);
    if let Some(upgrade) = upgrade {
        request.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
        request.headers_mut().insert(UPGRADE, upgrade.clone());
    }
    if let TargetForm::Absolute(Some(authorization)) = form {
        request.headers_mut().insert(PROXY_AUTHORIZATION, authorization.clone());
    }
    Ok(())
}

/// Removes from a server's answer what it can't say: fields that concern a single connection, and the reason of a proxy,
/// which a client would take for this one's.
fn from_server(headers: &mut HeaderMap) {
    without_connection_fields(headers);
    headers.remove(PROXY_STATUS);
}

/// Removes fields that concern a single connection, including those that `Connection` names.
fn without_connection_fields(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.into_iter().chain(CONNECTION_FIELDS) {
        headers.remove(name);
    }
    for name in ["keep-alive", "proxy-connection"] {
        headers.remove(name);
    }
    headers.remove(UPGRADE);
}

fn unreadable(error: &hyper::Error) -> ProxyFailure {
    ProxyFailure::BadGateway(format!("the server's answer can't be read: {error}"))
}
