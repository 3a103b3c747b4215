//! The loopback address to which the browser brings the answer (RFC 8252). It takes the one answer that has the login's
//! `state`; every other request is turned away, and after too many of them the login is given up.

use std::convert::Infallible;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::header::{CACHE_CONTROL, CONTENT_TYPE, HOST, REFERRER_POLICY};
use http::{HeaderValue, Method, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use url::form_urlencoded;

use super::error::LoginError;
use crate::fault::short;

/// Path of the address.
const PATH: &str = "/callback";
/// Time limit for one connection.
const CONNECTION: Duration = Duration::from_secs(10);
/// Time limit for the page that the browser still gets.
const LAST_PAGE: Duration = Duration::from_secs(2);
/// The most connections at once.
const CONNECTIONS: usize = 16;
/// The most answers that don't belong to the login.
const STRAY_ANSWERS: usize = 20;

/// Waits for the browser.
pub(super) struct Callback {
    listener: TcpListener,
    port: u16,
}

/// What the browser brought.
#[derive(Debug)]
pub(super) struct BrowserAnswer {
    /// A code for tokens, or the reason why there is none.
    pub code: Result<String, String>,
    /// The authorization server that it says to be of.
    pub sender: Option<String>,
}

impl Callback {
    /// Takes a port of the loopback, whichever is free if none is named.
    pub(super) async fn bind(port: Option<u16>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).await?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port })
    }

    /// The address that the browser is to be sent to.
    pub(super) fn address(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Waits for the answer with this `state`.
    pub(super) async fn answer(self, state: &str) -> Result<BrowserAnswer, LoginError> {
        let (found, mut answers) = mpsc::channel(1);
        let desk = Arc::new(Desk {
            host: format!("127.0.0.1:{}", self.port),
            state: state.to_owned(),
            found,
            strays: AtomicUsize::new(0),
        });
        let mut connections = JoinSet::new();
        let answer = loop {
            tokio::select! {
                Some(answer) = answers.recv() => break answer,
                accepted = self.listener.accept() => {
                    let (stream, _) = accepted.map_err(LoginError::Listener)?;
                    if connections.len() < CONNECTIONS {
                        connections.spawn(timeout(CONNECTION, serve(stream, Arc::clone(&desk))));
                    }
                }
                Some(_) = connections.join_next() => {
                    if desk.strays.load(Ordering::Relaxed) > STRAY_ANSWERS {
                        return Err(LoginError::StrayAnswers(STRAY_ANSWERS));
                    }
                }
            }
        };
        // Nobody else is to be served, but the browser gets its page.
        drop(self.listener);
        let _ = timeout(LAST_PAGE, async { while connections.join_next().await.is_some() {} }).await;
        Ok(answer)
    }
}

/// What all connections of a login share.
struct Desk {
    /// The header `Host` of requests for us: another one is of a page that has its name lead here.
    host: String,
    state: String,
    found: mpsc::Sender<BrowserAnswer>,
    strays: AtomicUsize,
}

async fn serve(stream: TcpStream, desk: Arc<Desk>) {
    let service = service_fn(|request| {
        let page = desk.page(&request);
        async move { Ok::<_, Infallible>(page) }
    });
    // Whoever breaks off gets no page.
    let _ = http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), service).await;
}

impl Desk {
    fn page(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
        let is_ours = host == Some(self.host.as_str()) && request.uri().path() == PATH;
        if !is_ours || request.method() != Method::GET {
            self.strays.fetch_add(1, Ordering::Relaxed);
            return page(StatusCode::NOT_FOUND, "There is nothing here.");
        }
        let query = request.uri().query().unwrap_or_default().as_bytes();
        let field = |name: &str| {
            form_urlencoded::parse(query).find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
        };
        if field("state").as_deref() != Some(&self.state) {
            self.strays.fetch_add(1, Ordering::Relaxed);
            return page(
                StatusCode::BAD_REQUEST,
                "This does not belong to the login that roo-lsp waits for.",
            );
        }
        let code = match (field("error"), field("code")) {
            (None, Some(code)) => Ok(code),
            (error, _) => {
                let reason = error.unwrap_or_else(|| "the answer has no code".to_owned());
                Err(match field("error_description") {
                    Some(description) => short(&format!("{reason}: {description}")),
                    None => short(&reason),
                })
            }
        };
        let text = match &code {
            Ok(_) => "You can close this page. roo-lsp says whether the login succeeded.",
            Err(_) => "The login was refused. roo-lsp says why.",
        };
        // A browser that asks twice is answered twice; the first answer counts.
        let _ = self.found.try_send(BrowserAnswer { code, sender: field("iss") });
        page(StatusCode::OK, text)
    }
}

fn page(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    let html = format!("<!doctype html><meta charset=\"utf-8\"><title>roo-lsp</title><p>{text}</p>\n");
    let mut response = Response::new(Full::new(Bytes::from(html)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // The address of this page has the code.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}
