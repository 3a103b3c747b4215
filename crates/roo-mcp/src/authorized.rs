//! The HTTP client of one server: it sends the token of the server's login with every request, and refreshes it once for a
//! request that is refused. A refused request was not carried out, so it may be sent again.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::stream::BoxStream;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, StatusCode};
use reqwest::{Client, RequestBuilder, Response};
use rmcp::model::{ClientJsonRpcMessage, ErrorCode, JsonRpcError, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, InsufficientScopeError, SseError, StreamableHttpClient, StreamableHttpError,
    StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use sse_stream::Sse;
use url::Url;

use crate::events::Signals;
use crate::fault::ServerFault;
use crate::http_fault::{is_unauthorized, status_and_body};
use crate::login::{Challenge, HeldCredentials, RefreshError};

/// The media type of a stream of events.
const EVENT_STREAM: &str = "text/event-stream";

type Headers = HashMap<HeaderName, HeaderValue>;
type Failed = StreamableHttpError<reqwest::Error>;

/// Sends requests to one server.
#[derive(Clone)]
pub(crate) struct AuthorizedClient {
    client: Client,
    server: Arc<str>,
    authorization: Authorization,
    signals: Signals,
}

/// How requests prove whose they are.
#[derive(Clone)]
pub(crate) enum Authorization {
    /// By a header of the configuration: whether the server takes it is left to the user.
    Configured,
    /// Not at all.
    Nobody,
    /// By a login.
    Login(HeldCredentials),
}

impl AuthorizedClient {
    /// A client for the server of this name. Why a request is refused is noted in the signals.
    pub(crate) fn new(client: Client, server: &str, authorization: Authorization, signals: Signals) -> Self {
        Self { client, server: server.into(), authorization, signals }
    }

    /// Name of the server.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Posts a message whose answer comes another way.
    pub(crate) async fn post(
        &self,
        url: &Url,
        headers: &Headers,
        message: &ClientJsonRpcMessage,
    ) -> Result<(), Failed> {
        let send = |token| async move {
            let request = with_headers(self.client.post(url.clone()).json(message), headers, token);
            accepted(request.send().await?).await.map(|_| ())
        };
        self.authorized(send).await
    }

    /// Opens a stream of events. How large they may be is for its reader to say.
    pub(crate) async fn open_events(&self, url: &Url, headers: &Headers) -> Result<Response, Failed> {
        let send = |token| async move {
            let request = self.client.get(url.clone()).header(ACCEPT, EVENT_STREAM);
            let response = accepted(with_headers(request, headers, token).send().await?).await?;
            let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
            let media_type = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
            match media_type.trim().eq_ignore_ascii_case(EVENT_STREAM) {
                true => Ok(response),
                false => Err(StreamableHttpError::UnexpectedContentType(kind.map(str::to_owned))),
            }
        };
        self.authorized(send).await
    }

    /// Sends a request with the token of the login, and once more with another one if that is refused.
    async fn authorized<T, F>(&self, send: impl Fn(Option<String>) -> F) -> Result<T, Failed>
    where
        F: Future<Output = Result<T, Failed>>,
    {
        let held = match &self.authorization {
            Authorization::Configured => return send(None).await,
            Authorization::Nobody => {
                let answered = send(None).await;
                if answered.as_ref().is_err_and(is_unauthorized) {
                    self.needs_login(None);
                }
                return answered;
            }
            Authorization::Login(held) => held,
        };
        let token = held.token().await.map_err(|error| self.without_token(error))?;
        let answered = send(Some(token.clone())).await;
        if !answered.as_ref().is_err_and(is_unauthorized) {
            return answered;
        }
        let token = held.token_after(token).await.map_err(|error| self.without_token(error))?;
        let answered = send(Some(token)).await;
        if answered.as_ref().is_err_and(is_unauthorized) {
            self.needs_login(Some("the server does not accept it any more".to_owned()));
        }
        answered
    }

    fn needs_login(&self, last: Option<String>) {
        self.signals.refuse(ServerFault::NeedsLogin { server: self.server.to_string(), last });
    }

    /// Notes why there is no token. The error itself says nothing.
    fn without_token(&self, error: RefreshError) -> Failed {
        match error {
            RefreshError::NeedsLogin(reason) => self.needs_login(Some(reason)),
            RefreshError::Unavailable(reason) => self.signals.refuse(ServerFault::Unreachable(reason)),
            RefreshError::Store(reason) => self.signals.refuse(ServerFault::Credentials(reason)),
        }
        StreamableHttpError::AuthRequired(AuthRequiredError::new(String::new()))
    }
}

fn with_headers(mut request: RequestBuilder, headers: &Headers, token: Option<String>) -> RequestBuilder {
    for (name, value) in headers {
        request = request.header(name, value);
    }
    match token {
        Some(token) => request.bearer_auth(token),
        None => request,
    }
}

/// The response of a server that did as it was asked.
async fn accepted(response: Response) -> Result<Response, Failed> {
    let status = response.status();
    let challenge = response.headers().get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
    if let (StatusCode::FORBIDDEN, Some(text)) = (status, challenge) {
        let scopes = Challenge::parse([text]).map(|challenge| challenge.scope.join(" "));
        let error = InsufficientScopeError::new(text.to_owned(), scopes.filter(|scopes| !scopes.is_empty()));
        return Err(StreamableHttpError::InsufficientScope(error));
    }
    match status {
        status if status.is_success() => Ok(response),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Ok(response.error_for_status()?),
        // A redirect that is not followed is no error to the client.
        status => {
            let text = format!("HTTP {}: {}", status.as_u16(), beginning(response).await);
            Err(StreamableHttpError::UnexpectedServerResponse(text.into()))
        }
    }
}

/// The beginning of a body, which is more than is shown of it.
async fn beginning(mut response: Response) -> String {
    const ENOUGH: usize = 8 << 10;
    let mut body = Vec::new();
    while body.len() < ENOUGH
        && let Ok(Some(piece)) = response.chunk().await
    {
        body.extend_from_slice(&piece);
    }
    String::from_utf8_lossy(&body).into_owned()
}

/// The answer to a message that was posted. An error under another id or none is the server's answer too, which nobody would
/// wait for; and many servers say of a session that they don't know what only the status 404 is to say.
fn answer_to(
    message: &ClientJsonRpcMessage,
    is_in_session: bool,
    answer: Result<StreamableHttpPostResponse, Failed>,
) -> Result<StreamableHttpPostResponse, Failed> {
    match answer {
        Err(StreamableHttpError::UnexpectedServerResponse(text))
            if is_in_session && is_unknown_session(&text) =>
        {
            Err(StreamableHttpError::SessionExpired)
        }
        Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(mut error), session)) => {
            if let ClientJsonRpcMessage::Request(request) = message
                && error.id.as_ref() != Some(&request.id)
            {
                if is_in_session && denies_session(&error) {
                    return Err(StreamableHttpError::SessionExpired);
                }
                error.id = Some(request.id.clone());
            }
            Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(error), session))
        }
        answer => answer,
    }
}

/// Reports whether an error that answers no request says that there is no such session. Its status isn't known here: behind an
/// internal error, the request may have been carried out.
fn denies_session(error: &JsonRpcError) -> bool {
    error.error.code != ErrorCode::INTERNAL_ERROR && speaks_of_session(&error.error.message)
}

/// Reports whether an answer without a message of the protocol says that there is no such session: the status 400 with a text
/// about it, or with none. With any other text it is about the request.
fn is_unknown_session(answer: &str) -> bool {
    match status_and_body(answer) {
        Some((400, body)) => body.is_empty() || speaks_of_session(body),
        _ => false,
    }
}

fn speaks_of_session(text: &str) -> bool {
    let text = text.to_lowercase();
    ["session", "not initialized"].iter().any(|words| text.contains(words))
}

/// Whether headers of a configuration prove whose the requests are.
pub(crate) fn names_its_user(headers: &Headers) -> bool {
    headers.contains_key(&AUTHORIZATION)
}

impl StreamableHttpClient for AuthorizedClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session_id, auth_header, custom_headers, limits)
            .await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _: Option<String>,
        custom_headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let send = |token| {
            self.client.post_message_with_response_limits(
                Arc::clone(&uri),
                message.clone(),
                session_id.clone(),
                token,
                custom_headers.clone(),
                limits,
            )
        };
        answer_to(&message, session_id.is_some(), self.authorized(send).await)
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _: Option<String>,
        custom_headers: Headers,
    ) -> Result<(), Failed> {
        self.authorized(|token| {
            self.client.delete_session(
                Arc::clone(&uri),
                Arc::clone(&session_id),
                token,
                custom_headers.clone(),
            )
        })
        .await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _: Option<String>,
        custom_headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failed> {
        self.authorized(|token| {
            self.client.get_stream(
                Arc::clone(&uri),
                session_id.clone(),
                last_event_id.clone(),
                token,
                custom_headers.clone(),
            )
        })
        .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _: Option<String>,
        custom_headers: Headers,
        max_sse_event_size: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failed> {
        self.authorized(|token| {
            self.client.get_stream_with_max_sse_event_size(
                Arc::clone(&uri),
                session_id.clone(),
                last_event_id.clone(),
                token,
                custom_headers.clone(),
                max_sse_event_size,
            )
        })
        .await
    }
}
