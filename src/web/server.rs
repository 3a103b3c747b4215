//! The listener, and what it answers: files of the page to everyone who can name this server, a WebSocket to those who know its
//! token.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    CONNECTION, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_util::sync::CancellationToken;

use super::access::Access;
use super::assets::{self, refusal};
use super::origins::{Origins, PublicOrigin};
use super::relay::{Connect, Session, relay};
use crate::accept::accept;

/// The path of the WebSocket.
const SOCKET: &str = "/socket";
/// The subprotocol; it comes with another one that is the token after a word.
const PROTOCOL: &str = "roo-lsp";
const TOKEN: &str = "token.";
/// The longest message of a page, in bytes: a prompt with all images that the page takes.
const MESSAGE: usize = 48 << 20;
/// Time limit for a request's headers; connections that say nothing are closed, too.
const HEADERS: Duration = Duration::from_secs(5);

/// A server of pages, before it serves.
pub(crate) struct WebServer {
    listener: TcpListener,
    address: SocketAddr,
    access: Arc<Access>,
    origins: Origins,
}

/// Where the page of a server is, with what lets it in.
pub(crate) struct PageAddress {
    address: SocketAddr,
    access: Arc<Access>,
}

impl PageAddress {
    /// An address that is good for as long as the server runs.
    pub(crate) fn lasting(&self) -> String {
        self.with(self.access.token())
    }

    /// An address that opens the page once.
    pub(crate) fn once(&self) -> String {
        self.with(&self.access.ticket())
    }

    fn with(&self, secret: &str) -> String {
        format!("http://{}/#token={secret}", self.address)
    }
}

/// What all connections share.
struct Shared {
    access: Arc<Access>,
    origins: Origins,
    connect: Connect,
    folders: Arc<[PathBuf]>,
    cancel: CancellationToken,
}

impl WebServer {
    /// Listens at an address, which has to be a loopback address: there is no encryption.
    ///
    /// # Errors
    /// When it can't be listened at.
    pub(crate) async fn bind(address: SocketAddr, public: Option<&PublicOrigin>) -> io::Result<Self> {
        if !address.ip().is_loopback() {
            let problem =
                "it can be reached from other machines; name a loopback address, such as 127.0.0.1:7467";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self {
            listener,
            address,
            access: Arc::new(Access::new()),
            origins: Origins::new(address, public),
        })
    }

    pub(crate) fn page_address(&self) -> PageAddress {
        PageAddress { address: self.address, access: Arc::clone(&self.access) }
    }

    /// Serves pages of these folders until it is cancelled.
    ///
    /// # Errors
    /// The last one of the listener when it can't accept connections for a while.
    pub(crate) async fn serve(
        self,
        folders: Vec<PathBuf>,
        connect: Connect,
        cancel: CancellationToken,
    ) -> io::Result<()> {
        let Self { listener, address: _, access, origins } = self;
        let shared = Shared { access, origins, connect, folders: folders.into(), cancel: cancel.clone() };
        let shared = Arc::new(shared);
        accept(&listener, &cancel, |stream, place| connection(stream, Arc::clone(&shared), Arc::new(place)))
            .await
    }
}

/// Answers what comes over a connection. `place` is held for as long as it or its WebSocket lives.
async fn connection(stream: TcpStream, shared: Arc<Shared>, place: Arc<OwnedSemaphorePermit>) {
    let answer = service_fn(move |request| {
        let response = answer(request, &shared, &place);
        async move { Ok::<_, Infallible>(response) }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADERS);
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), answer).with_upgrades().await {
        tracing::debug!(%error, "a connection ended early");
    }
}

fn answer(
    request: Request<Incoming>,
    shared: &Arc<Shared>,
    place: &Arc<OwnedSemaphorePermit>,
) -> Response<Full<Bytes>> {
    let (target, headers) = (request.uri(), request.headers());
    if !shared.origins.are_meant(target, headers) {
        return refusal(StatusCode::MISDIRECTED_REQUEST, "this server has another name");
    }
    let is_socket = target.path() == SOCKET;
    // Every browser says where a WebSocket comes from; whoever doesn't is no page.
    if !shared.origins.is_from_own_page(headers, !is_socket) {
        return refusal(StatusCode::FORBIDDEN, "only pages of this server are served");
    }
    if request.method() != Method::GET {
        return refusal(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered");
    }
    if is_socket {
        return upgrade(request, shared, place);
    }
    assets::file(target.path())
        .unwrap_or_else(|| refusal(StatusCode::NOT_FOUND, "there is nothing but the page"))
}

/// Lets a page in that knows the token.
fn upgrade(
    mut request: Request<Incoming>,
    shared: &Arc<Shared>,
    place: &Arc<OwnedSemaphorePermit>,
) -> Response<Full<Bytes>> {
    let headers = request.headers();
    let key = headers.get(SEC_WEBSOCKET_KEY).cloned();
    let is_upgrade = says(headers, &UPGRADE, "websocket")
        && says(headers, &CONNECTION, "upgrade")
        && says(headers, &SEC_WEBSOCKET_VERSION, "13");
    let Some(key) = key.filter(|_| is_upgrade) else {
        return refusal(StatusCode::UPGRADE_REQUIRED, "this is a WebSocket");
    };
    let secret = words(headers, &SEC_WEBSOCKET_PROTOCOL).find_map(|word| word.strip_prefix(TOKEN));
    if !says(headers, &SEC_WEBSOCKET_PROTOCOL, PROTOCOL)
        || !secret.is_some_and(|secret| shared.access.admits(secret))
    {
        return refusal(StatusCode::UNAUTHORIZED, "the token is missing or wrong");
    }
    let accept = derive_accept_key(key.as_bytes());
    let upgraded = hyper::upgrade::on(&mut request);
    let (shared, place) = (Arc::clone(shared), Arc::clone(place));
    let cancel = shared.cancel.clone();
    let serve = async move {
        let stream = match upgraded.await {
            Ok(stream) => TokioIo::new(stream),
            Err(error) => return tracing::debug!(%error, "a page is gone before it was served"),
        };
        let config = WebSocketConfig::default().max_message_size(Some(MESSAGE)).max_frame_size(Some(MESSAGE));
        let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
        let Shared { connect, folders, access, .. } = &*shared;
        let (connect, folders) = (Arc::clone(connect), Arc::clone(folders));
        relay(socket, Session { connect, folders, token: access.token().to_owned() }).await;
        drop(place);
    };
    tokio::spawn(async move { cancel.run_until_cancelled(serve).await });
    // Refusals and files have a policy; this has no content.
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let answers = [
        (UPGRADE, Ok(HeaderValue::from_static("websocket"))),
        (CONNECTION, Ok(HeaderValue::from_static("Upgrade"))),
        (SEC_WEBSOCKET_PROTOCOL, Ok(HeaderValue::from_static(PROTOCOL))),
        (SEC_WEBSOCKET_ACCEPT, HeaderValue::try_from(accept)),
    ];
    for (name, value) in answers {
        match value {
            Ok(value) => response.headers_mut().insert(name, value),
            // Base64 always is one.
            Err(_) => return refusal(StatusCode::BAD_REQUEST, "the key of the WebSocket is wrong"),
        };
    }
    response
}

/// The words of a header with a list, over all of its lines.
fn words<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(',').map(str::trim))
}

fn says(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    words(headers, name).any(|found| found.eq_ignore_ascii_case(word))
}
