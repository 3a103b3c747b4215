//! One request to a model endpoint: connection, deadlines, and what HTTP says when it fails.
//!
//! Paths, headers and the meaning of a stream's events are the business of an [`HttpFormat`].

use std::borrow::Cow;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Client, RequestBuilder, Response, Url};
use serde_json::Value;
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep, timeout};

use super::fault::Fault;
use super::http_format::{Decoder, HttpFormat};
use super::key::{Key, RequestKey};
use super::secret::Secret;
use super::{AccountId, ModelError, ModelErrorKind, Output};
use crate::parser::{SseEvent, SseReader};
use roo_catalog::ToolName;
use roo_formats::config::{Profile, WireFormat};
use roo_text::render::one_line;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Number of connections that are kept open for later requests.
const MAX_IDLE_CONNECTIONS: usize = 16;
/// Longest silence where the profile sets no limit: a model may reason for minutes without a sign, and some endpoints send
/// a call only when it is whole.
const SILENCE: Duration = Duration::from_secs(300);
/// The same for a server of the user's own, which may have to load the model first and reads a long conversation slowly.
const OWN_SERVER_SILENCE: Duration = Duration::from_secs(600);
/// No endpoint makes us wait longer than this.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(600);
/// Time that the end of a body may take once its content is known.
const MAX_BODY_END_WAIT: Duration = Duration::from_millis(100);
/// Time that an endpoint may take to list its models.
const LIST_TIMEOUT: Duration = Duration::from_secs(20);
/// Number of bytes of an answer that is one document, such as a list of models, that are read.
const DOCUMENT_LIMIT: usize = 16 * 1024 * 1024;
/// Number of bytes of an error's body that are read.
const ERROR_BODY_LIMIT: usize = 64 * 1024;
/// Number of characters of the provider's own words that an error carries.
const ERROR_TEXT_LIMIT: usize = 500;
/// Number of characters of an error behind its URL: a redirect's target and a broken event are another's words too.
const MESSAGE_LIMIT: usize = 1000;

/// One URL, with everything that a request to it needs besides its body.
pub(super) struct Endpoint {
    base_url: Url,
    url: Url,
    /// URL where the endpoint lists its models.
    list_url: Url,
    /// The URL without credentials and query, for messages.
    shown: String,
    format: &'static dyn HttpFormat,
    model: String,
    headers: HeaderMap,
    /// The values of the user's own headers: they may be keys.
    header_secrets: Vec<Secret>,
    /// The keys in the query of the base URL.
    query_secrets: Vec<Secret>,
    key: Key,
    /// Reason why there is no key, and what to do, where its owner named a source of one.
    missing_key: Option<String>,
    first_byte: Duration,
    idle: Duration,
    client: OnceCell<Client>,
    /// The end of the body of the answer before: with it, its connection is free.
    ending: Mutex<Option<JoinHandle<()>>>,
}

impl Endpoint {
    /// The endpoint of a profile, or its provider's own; without a key yet.
    pub(super) fn new(
        format: &'static dyn HttpFormat,
        profile: &Profile,
        model: &str,
    ) -> Result<Self, ModelError> {
        let default_root = profile.provider.spec().base_url_for(profile.wire_format());
        let path = format.path(model);
        let root = profile.base_url.as_deref().unwrap_or(&default_root).trim();
        let unusable = |problem: String| {
            ModelError::new(
                ModelErrorKind::Configuration,
                format!(
                    "The profile's `baseUrl` {problem}. Give an http: or https: URL such as {default_root}."
                ),
            )
        };
        let mut base_url = Url::parse(root).map_err(|error| unusable(format!("is not a URL ({error})")))?;
        if !matches!(base_url.scheme(), "http" | "https") {
            return Err(unusable(format!("has the scheme {}", base_url.scheme())));
        }
        if base_url.path() == "/" && lacks_version(profile) {
            base_url.set_path("/v1");
        }
        let (list_path, list_query) = format.list_path();
        let list_url = below(&base_url, list_path, list_query);
        let url = below(&base_url, &path, format.query());
        let shown = shown(&url);

        let silence = match profile.provider.spec().is_local() || is_nearby(&base_url) {
            true => OWN_SERVER_SILENCE,
            false => SILENCE,
        };
        let limit = |seconds: Option<u64>| seconds.map_or(silence, Duration::from_secs);

        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in format.headers() {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        let mut header_secrets = Vec::new();
        for (name, value) in &profile.headers.0 {
            let (Ok(header), Ok(mut header_value)) =
                (HeaderName::try_from(name.as_str()), HeaderValue::try_from(value.as_str()))
            else {
                return Err(ModelError::new(
                    ModelErrorKind::Configuration,
                    format!(
                        "The profile's `headers` entry {name:?} can't be sent: check its name and value."
                    ),
                ));
            };
            header_value.set_sensitive(true);
            headers.insert(header, header_value);
            header_secrets.push(Secret::new(value));
        }
        if let Some((name, added)) = format.added_header(model) {
            let own = headers.get(name).and_then(|own| own.to_str().ok());
            let value = own.map_or(added.to_owned(), |own| format!("{own},{added}"));
            // Both parts are valid.
            headers.extend(
                HeaderValue::try_from(value).ok().map(|value| (HeaderName::from_static(name), value)),
            );
        }
        let named = base_url.query_pairs().filter(|(name, _)| is_key_name(name));
        let query_secrets = named.map(|(_, value)| Secret::new(&value)).collect();
        Ok(Self {
            base_url,
            url,
            list_url,
            shown,
            format,
            model: model.to_owned(),
            headers,
            header_secrets,
            query_secrets,
            key: Key::None,
            missing_key: None,
            first_byte: limit(profile.timeouts.first_byte_sec),
            idle: limit(profile.timeouts.idle_sec),
            client: OnceCell::new(),
            ending: Mutex::default(),
        })
    }

    /// Asks for another document than the list of models.
    pub(super) fn list_at(&mut self, path: &str) {
        self.list_url = below(&self.base_url, path, None);
    }

    /// Keeps the reason why requests have no key, for an endpoint that wants one.
    pub(super) fn lacks_key(&mut self, reason: String) {
        self.missing_key = Some(reason);
    }

    pub(super) fn set_key(&mut self, key: Key) {
        self.key = key;
    }

    fn ending(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        // Every change under the lock is one call.
        self.ending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The account of its requests.
    pub(super) fn account(&self) -> AccountId {
        AccountId::new(&self.url, &self.key, &self.header_secrets)
    }

    /// The URL for messages.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    /// The host's name.
    pub(super) fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// Returns whether the endpoint is on this machine.
    pub(super) fn is_loopback(&self) -> bool {
        is_loopback(&self.url)
    }

    /// Makes one request.
    pub(super) fn ask(
        self: &Arc<Self>,
        body: Vec<u8>,
        decoder: Box<dyn Decoder>,
    ) -> BoxStream<'static, Result<Output, ModelError>> {
        let exchange = Exchange {
            connection: Connection { shown: self.shown.clone(), endpoint: Arc::clone(self), key: None },
            decoder,
            reader: SseReader::new(),
            outputs: VecDeque::new(),
            phase: Phase::New(body.into()),
            silence: None,
        };
        // Boxed, as it is handed round with every piece of the answer.
        stream::unfold(Box::new(exchange), |mut exchange| async move {
            exchange.next().await.map(|output| (output, exchange))
        })
        .boxed()
    }

    /// The document with the endpoint's models.
    pub(super) async fn list(self: Arc<Self>) -> Result<Value, ModelError> {
        let connection = Connection {
            shown: shown(&self.list_url),
            key: self.key.get().await?,
            endpoint: Arc::clone(&self),
        };
        let answer = timeout(LIST_TIMEOUT, connection.list()).await;
        answer.unwrap_or_else(|_| {
            let text = format!("no list of models within {} s", LIST_TIMEOUT.as_secs());
            Err(connection.error(Fault::new(ModelErrorKind::TimedOut, text)))
        })
    }

    /// Sends a document to a path below the base URL, and returns the document that comes back.
    pub(super) async fn post(self: Arc<Self>, path: &str, body: Vec<u8>) -> Result<Value, ModelError> {
        self.post_within(Duration::ZERO, path, body).await
    }

    /// As [`Self::post`], with this time for the answer where the profile gives it less.
    pub(super) async fn post_within(
        self: Arc<Self>,
        least: Duration,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Value, ModelError> {
        let url = below(&self.base_url, path, None);
        let mut connection =
            Connection { shown: shown(&url), key: self.key.get().await?, endpoint: Arc::clone(&self) };
        let wait = self.first_byte.max(least);
        let answer = timeout(wait, connection.post(url, body.into())).await;
        answer.unwrap_or_else(|_| {
            let text = format!("no answer within {} s", wait.as_secs());
            Err(connection.error(Fault::new(ModelErrorKind::TimedOut, text)))
        })
    }

    /// The URL of a path below the base URL, for messages.
    pub(super) fn shown_at(&self, path: &str) -> String {
        shown(&below(&self.base_url, path, None))
    }

    /// The endpoint answers, but not with a list of models.
    pub(super) fn no_list(&self) -> ModelError {
        let text = format!(
            "{}: the answer is not a list of models. Check `baseUrl` and `provider`.",
            shown(&self.list_url)
        );
        ModelError::new(ModelErrorKind::Invalid, text)
    }

    async fn client(&self) -> Result<&Client, Fault> {
        self.client
            .get_or_try_init(|| async {
                let loopback = self.is_loopback();
                if self.url.scheme() == "http" {
                    return build_client(loopback, false);
                }
                // Reading the system's certificates takes some ten milliseconds of file access.
                tokio::task::spawn_blocking(move || build_client(loopback, true))
                    .await
                    .map_err(|error| client_fault(&error))?
            })
            .await
    }

    /// The header that carries a key. Azure has one of its own for keys, and takes the tokens of a login as others do.
    fn key_header(&self, key: &str) -> (&'static str, String) {
        match self.format.key_header(key) {
            ("authorization", _)
                if self.host().ends_with(".azure.com")
                    && !key.starts_with("eyJ")
                    && !self.headers.contains_key("authorization") =>
            {
                ("api-key", key.to_owned())
            }
            header => header,
        }
    }

    fn request_headers(&self, key: Option<&Secret>) -> HeaderMap {
        let mut headers = self.headers.clone();
        let Some(key) = key else { return headers };
        let (name, value) = self.key_header(key.expose());
        // A key is checked when it is read, so it is a valid header value.
        if let (false, Ok(mut value)) = (headers.contains_key(name), HeaderValue::try_from(value)) {
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        headers
    }
}

/// A URL without credentials and query.
fn shown(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{host}{port}{}", url.scheme(), url.path())
}

/// Returns whether a parameter of a query is a key by its name.
fn is_key_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["key", "token", "secret", "sig"].iter().any(|word| name.contains(word))
}

/// Returns the address that stands in the place of a host's name.
fn address_of(url: &Url) -> Option<IpAddr> {
    let host = url.host_str()?.trim_start_matches('[').trim_end_matches(']');
    host.parse().ok().map(|address: IpAddr| address.to_canonical())
}

/// Returns whether an endpoint is on this machine or in a private network, as far as its URL tells.
fn is_nearby(url: &Url) -> bool {
    match address_of(url) {
        Some(IpAddr::V4(address)) => {
            // Private networks of providers, which Tailscale uses too.
            let is_shared = matches!(address.octets(), [100, 64..=127, ..]);
            address.is_loopback() || address.is_private() || address.is_link_local() || is_shared
        }
        Some(IpAddr::V6(address)) => {
            address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local()
        }
        None => {
            let name = url.host_str().unwrap_or_default().trim_end_matches('.');
            // A name without a dot is found in the local network only.
            !name.contains('.')
                || [".localhost", ".local", ".lan", ".internal", ".home.arpa"]
                    .iter()
                    .any(|zone| name.ends_with(zone))
        }
    }
}

/// Returns whether a profile's format needs a version in the URL of a host that its provider's own needs none in.
fn lacks_version(profile: &Profile) -> bool {
    profile.provider.spec().wire_format == WireFormat::AnthropicMessages
        && matches!(profile.wire_format(), WireFormat::OpenAiChat | WireFormat::OpenAiResponses)
}

/// A path below a base URL, which may have a query of its own. A version that both have is there once.
fn below(base: &Url, path: &str, query: Option<&str>) -> Url {
    let mut url = base.clone();
    let root = base.path().trim_end_matches('/');
    let root = root.strip_suffix("/v1").filter(|_| path.starts_with("/v1/")).unwrap_or(root);
    url.set_path(&format!("{root}{path}"));
    if let Some(query) = query {
        url.set_query(Some(&base.query().map_or(query.to_owned(), |own| format!("{own}&{query}"))));
    }
    url
}

fn build_client(loopback: bool, https: bool) -> Result<Client, Fault> {
    // Fails when a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .user_agent(concat!("roo-lsp/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
        // A redirect could carry the conversation and the key to another origin.
        .redirect(reqwest::redirect::Policy::none());
    if loopback {
        builder = builder.no_proxy();
    }
    if !https {
        builder = builder.tls_certs_only(std::iter::empty::<reqwest::Certificate>());
    }
    builder.build().map_err(|error| client_fault(&error))
}

fn client_fault(error: &dyn std::error::Error) -> Fault {
    Fault::new(ModelErrorKind::Configuration, format!("the HTTP client can't be set up: {}", chain(error)))
}

/// Phases of one request.
enum Phase {
    /// Not sent. Holds the body.
    New(Bytes),
    /// The answer has begun.
    Reading(Box<Response>),
    /// To be said after what was decoded before.
    Failed(ModelError),
    /// Nothing more comes.
    Over,
}

/// One request on its way. Dropping it closes the connection.
struct Exchange {
    connection: Connection,
    decoder: Box<dyn Decoder>,
    reader: SseReader,
    outputs: VecDeque<Output>,
    phase: Phase,
    /// Watches an answer that has begun.
    silence: Option<SilenceWatch>,
}

/// Measures how long nothing came, in parts of the longest silence: pieces come by the ten thousand, and to look at the
/// clock and to set a timer for each would cost more than to read them.
struct SilenceWatch {
    part: Duration,
    timer: Pin<Box<Sleep>>,
    /// Number of parts that ended since the last piece.
    ended: u32,
    /// Whom the timer wakes; none while it has not been asked to.
    waker: Option<Waker>,
}

impl SilenceWatch {
    /// The parts that a silence is measured in. It may last one part longer than allowed, as its first one began before it.
    const PARTS: u32 = 8;

    fn new(longest: Duration) -> Self {
        let part = longest / Self::PARTS;
        Self { part, timer: Box::pin(tokio::time::sleep(part)), ended: 0, waker: None }
    }

    /// Returns the next piece of a body; none when nothing came for too long.
    async fn piece(&mut self, response: &mut Response) -> Option<reqwest::Result<Option<Bytes>>> {
        let mut piece = pin!(response.chunk());
        poll_fn(|context| {
            if let Poll::Ready(piece) = piece.as_mut().poll(context) {
                self.ended = 0;
                return Poll::Ready(Some(piece));
            }
            // It wakes this task when it ends, and needn't be asked to again for each piece.
            if self.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker()))
                && !self.timer.is_elapsed()
            {
                return Poll::Pending;
            }
            self.waker = Some(context.waker().clone());
            while self.timer.as_mut().poll(context).is_ready() {
                self.ended += 1;
                if self.ended > Self::PARTS {
                    return Poll::Ready(None);
                }
                let end = self.timer.deadline() + self.part;
                self.timer.as_mut().reset(end);
            }
            Poll::Pending
        })
        .await
    }
}

impl Exchange {
    async fn next(&mut self) -> Option<Result<Output, ModelError>> {
        loop {
            if let Some(output) = self.outputs.pop_front() {
                return Some(Ok(output));
            }
            let step = match std::mem::replace(&mut self.phase, Phase::Over) {
                Phase::New(body) => self.open(body).await,
                Phase::Reading(response) => self.read(response).await,
                Phase::Failed(error) => return Some(Err(error)),
                Phase::Over => return None,
            };
            self.phase = step.unwrap_or_else(Phase::Failed);
        }
    }

    /// Sends the request, and once more with a newer key where the endpoint refuses one from before.
    async fn open(&mut self, body: Bytes) -> Result<Phase, ModelError> {
        let endpoint = Arc::clone(&self.connection.endpoint);
        self.connection.key = endpoint.key.get().await?;
        let ending = endpoint.ending().take();
        if let Some(ending) = ending {
            // It can't panic, and nobody aborts it.
            let _ = ending.await;
        }
        match self.send(body.clone()).await {
            Err(refused) if self.connection.has_newer_key(&refused).await? => self.send(body).await,
            outcome => outcome,
        }
    }

    /// Sends the request and waits for the first byte of the answer's body: some servers send their
    /// headers before they begin to work.
    async fn send(&mut self, body: Bytes) -> Result<Phase, ModelError> {
        let endpoint = Arc::clone(&self.connection.endpoint);
        let client = endpoint.client().await.map_err(|fault| self.error(fault))?;
        let request = client
            .post(endpoint.url.clone())
            .headers(endpoint.request_headers(self.connection.secret()))
            .body(body);
        let begun = Instant::now();
        let silent = || self.error(silent(endpoint.first_byte));
        let mut response = match timeout(endpoint.first_byte, request.send()).await {
            Err(_) => return Err(silent()),
            Ok(Err(error)) => return Err(self.error(transport_fault(error))),
            Ok(Ok(response)) => response,
        };
        if response.status() != 200 {
            return Err(self.connection.refusal(response).await);
        }
        if !may_be_a_stream(&response) {
            return self.take_document(response).await;
        }
        let left = endpoint.first_byte.saturating_sub(begun.elapsed());
        match timeout(left, response.chunk()).await {
            Err(_) => Err(silent()),
            Ok(chunk) => self.take(Box::new(response), chunk),
        }
    }

    /// Takes an answer that is one document: a failure with the status 200, or an answer of an endpoint that
    /// doesn't stream.
    async fn take_document(&mut self, mut response: Response) -> Result<Phase, ModelError> {
        let endpoint = Arc::clone(&self.connection.endpoint);
        let mut bytes = Vec::new();
        while bytes.len() <= DOCUMENT_LIMIT {
            match timeout(endpoint.first_byte, response.chunk()).await {
                Ok(Ok(Some(chunk))) => bytes.extend_from_slice(&chunk),
                Ok(Ok(None)) => break,
                Ok(Err(error)) => return Err(self.error(cut(Some(error)))),
                Err(_) => return Err(self.error(silent(endpoint.first_byte))),
            }
        }
        let body = String::from_utf8_lossy(&bytes);
        match self.decoder.document(&body, &mut self.outputs) {
            Ok(true) => Ok(Phase::Over),
            Err(fault) if fault.kind != ModelErrorKind::Malformed => Err(self.error(fault)),
            _ => {
                self.outputs.clear();
                Err(self.connection.not_a_stream(&body))
            }
        }
    }

    async fn read(&mut self, mut response: Box<Response>) -> Result<Phase, ModelError> {
        let idle = self.connection.endpoint.idle;
        let silence = self.silence.get_or_insert_with(|| SilenceWatch::new(idle));
        match silence.piece(&mut response).await {
            Some(chunk) => self.take(response, chunk),
            None if self.decoder.end(&mut self.outputs) => Ok(Phase::Over),
            None => Err(self.error(Fault::new(
                ModelErrorKind::TimedOut,
                format!("the answer stalled for {} s (the profile's `timeouts.idleSec`)", idle.as_secs()),
            ))),
        }
    }

    /// Decodes what was read.
    fn take(
        &mut self,
        response: Box<Response>,
        chunk: reqwest::Result<Option<impl AsRef<[u8]>>>,
    ) -> Result<Phase, ModelError> {
        let mut decoding =
            Decoding { decoder: &mut *self.decoder, outputs: &mut self.outputs, end: Ok(false) };
        let error = match chunk {
            Ok(Some(bytes)) => {
                let pushed = self.reader.push(bytes.as_ref(), |event| decoding.event(event));
                let finished = decoding.end.map_err(|fault| self.error(fault))?;
                pushed
                    .map_err(|error| self.error(Fault::new(ModelErrorKind::Malformed, error.to_string())))?;
                if finished {
                    // The answer needn't wait for the end of its body.
                    *self.connection.endpoint.ending() = Some(tokio::spawn(end(response)));
                    return Ok(Phase::Over);
                }
                return Ok(Phase::Reading(response));
            }
            Ok(None) => {
                self.reader.finish(|event| decoding.event(event));
                // The last event may lack its end. If it can't be read, it was cut.
                if decoding.end.unwrap_or(false) {
                    return Ok(Phase::Over);
                }
                None
            }
            Err(error) => Some(error),
        };
        if self.decoder.end(&mut self.outputs) {
            return Ok(Phase::Over);
        }
        Err(self.error(cut(error)))
    }

    fn error(&self, fault: Fault) -> ModelError {
        self.connection.error(fault)
    }
}

/// The decoding of what was read at once, event by event.
struct Decoding<'a> {
    decoder: &'a mut dyn Decoder,
    outputs: &'a mut VecDeque<Output>,
    /// Whether the answer is finished, or what is wrong with it: further events don't count.
    end: Result<bool, Fault>,
}

impl Decoding<'_> {
    fn event(&mut self, event: SseEvent<'_>) {
        if let Ok(false) = self.end {
            let decoded = self.decoder.event(event, self.outputs);
            self.end = decoded.map(|()| matches!(self.outputs.back(), Some(Output::Finished(_))));
        }
    }
}

/// An endpoint and the key that it is asked with.
struct Connection {
    /// Request, as messages show it.
    shown: String,
    endpoint: Arc<Endpoint>,
    key: Option<RequestKey>,
}

impl Connection {
    fn secret(&self) -> Option<&Secret> {
        self.key.as_ref().map(|key| &key.secret)
    }

    /// Returns whether the endpoint refused a key in whose place there is another one now, which is then the connection's.
    async fn has_newer_key(&mut self, error: &ModelError) -> Result<bool, ModelError> {
        let (ModelErrorKind::Unauthorized, Some(refused)) = (error.kind, &self.key) else { return Ok(false) };
        let Some(newer) = self.endpoint.key.renewed(refused).await? else { return Ok(false) };
        self.key = Some(newer);
        Ok(true)
    }

    async fn list(&self) -> Result<Value, ModelError> {
        let endpoint = &self.endpoint;
        let client = endpoint.client().await.map_err(|fault| self.error(fault))?;
        let mut headers = endpoint.request_headers(self.secret());
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let request = client.get(endpoint.list_url.clone()).headers(headers);
        let bytes = self.document(request, "list of models").await?;
        serde_json::from_slice(&bytes).map_err(|_| endpoint.no_list())
    }

    /// Posts a document, and once more with a newer key where the endpoint refuses one from before.
    async fn post(&mut self, url: Url, body: Bytes) -> Result<Value, ModelError> {
        match self.post_once(url.clone(), body.clone()).await {
            Err(refused) if self.has_newer_key(&refused).await? => self.post_once(url, body).await,
            outcome => outcome,
        }
    }

    async fn post_once(&self, url: Url, body: Bytes) -> Result<Value, ModelError> {
        let client = self.endpoint.client().await.map_err(|fault| self.error(fault))?;
        let mut headers = self.endpoint.request_headers(self.secret());
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let bytes = self.document(client.post(url).headers(headers).body(body), "answer").await?;
        serde_json::from_slice(&bytes).map_err(|_| {
            let text = "the answer is not JSON. Check `baseUrl` and `provider`.";
            self.error(Fault::new(ModelErrorKind::Malformed, text.to_owned()))
        })
    }

    /// The body of an answer with the status 200.
    async fn document(&self, request: RequestBuilder, what: &str) -> Result<Vec<u8>, ModelError> {
        let mut response = request.send().await.map_err(|error| self.error(transport_fault(error)))?;
        if response.status() != 200 {
            return Err(self.refusal(response).await);
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.error(transport_fault(error)))? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > DOCUMENT_LIMIT {
                let text = format!("the {what} is longer than {} MiB", DOCUMENT_LIMIT >> 20);
                return Err(self.error(Fault::new(ModelErrorKind::Malformed, text)));
            }
        }
        Ok(bytes)
    }

    /// The error of an answer whose status is not 200.
    async fn refusal(&self, mut response: Response) -> ModelError {
        let status = response.status().as_u16();
        let now = jiff::Timestamp::now();
        let wait = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| retry_after(value, now));
        // Its query may repeat that of the base URL, with a key.
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let location = location.and_then(|target| response.url().join(target).ok()).map(|url| shown(&url));
        let body = self.error_body(&mut response).await;
        let said = error_text(&self.redact(&body));
        let body: Option<Value> = serde_json::from_str(&body).ok();
        let own_kind = body.as_ref().and_then(|body| self.endpoint.format.error_kind(status, body));
        let words = body.as_ref().map(error_words).unwrap_or_default();
        let kind = match kind_of_status(status, &said, wait) {
            ModelErrorKind::RateLimited(_) if is_out_of_credit(&words) => ModelErrorKind::Invalid,
            ModelErrorKind::Invalid if names_context_overflow(&words) => ModelErrorKind::ContextWindow,
            // A header that says how long to wait is as good as the body.
            kind if kind.retry_after().is_some() => kind,
            kind => own_kind.unwrap_or(kind),
        };
        let remedy = match status {
            300..=399 => {
                format!(" It redirects to {}: set `baseUrl` there.", location.as_deref().unwrap_or("nowhere"))
            }
            400..=499 if lacks_function_calling(&said) => {
                " Set `toolProtocol: xml` in the model's profile: it works without function calling."
                    .to_owned()
            }
            404 if self.endpoint.model.is_empty() => " Check `baseUrl` and `provider`.".to_owned(),
            404 => format!(" Check `baseUrl`, `provider` and the model's name, {}.", self.endpoint.model),
            _ if kind == ModelErrorKind::Unauthorized => match &self.endpoint.missing_key {
                Some(reason) => format!(" No key was sent, because {reason}."),
                None => " Check the profile's key.".to_owned(),
            },
            429 if kind == ModelErrorKind::Invalid => " Check the account's credit and billing.".to_owned(),
            _ => String::new(),
        };
        if let (ModelErrorKind::Unauthorized, Some(refused)) = (kind, self.secret()) {
            self.endpoint.key.forget(refused).await;
        }
        let said = if remedy.is_empty() { said } else { sentence(said) };
        self.error(Fault::new(kind, format!("status {status}: {said}{remedy}")))
    }

    /// The error of an answer with status 200 that is a page, or a document of another kind.
    fn not_a_stream(&self, body: &str) -> ModelError {
        let said = sentence(error_text(&self.redact(body)));
        let text = format!("the answer is not an event stream: {said} Check `baseUrl` and `provider`.");
        self.error(Fault::new(ModelErrorKind::Invalid, text))
    }

    async fn error_body(&self, response: &mut Response) -> String {
        let mut bytes = Vec::new();
        // What can be read is enough: the status has been told already.
        while let Ok(Ok(Some(chunk))) =
            timeout(self.endpoint.idle.min(CONNECT_TIMEOUT), response.chunk()).await
        {
            bytes.extend_from_slice(&chunk);
            if bytes.len() >= ERROR_BODY_LIMIT {
                bytes.truncate(ERROR_BODY_LIMIT);
                break;
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn error(&self, fault: Fault) -> ModelError {
        let text = one_line(&self.redact(&fault.text), MESSAGE_LIMIT);
        ModelError::new(fault.kind, format!("{}: {text}", self.shown))
    }

    /// Removes keys: some providers repeat what they were sent.
    fn redact(&self, text: &str) -> String {
        let mut text = text.to_owned();
        let endpoint = &self.endpoint;
        for secret in self.secret().into_iter().chain(&endpoint.header_secrets).chain(&endpoint.query_secrets)
        {
            // Short header values are no keys, and would tear ordinary words.
            if secret.expose().len() >= 8 {
                text = text.replace(secret.expose(), "[redacted]");
            }
        }
        text
    }
}

/// Reads the end of a body whose content is known, so that its connection needn't be closed.
/// A new connection costs about as much as the longest wait.
async fn end(mut response: Box<Response>) {
    let rest = async { while let Ok(Some(_)) = response.chunk().await {} };
    let _ = timeout(MAX_BODY_END_WAIT, rest).await;
}

fn may_be_a_stream(response: &Response) -> bool {
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    !content_type.is_some_and(|value| {
        ["application/json", "text/html"].iter().any(|document| value.trim_start().starts_with(document))
    })
}

/// The fault of an endpoint that has sent nothing for so long.
fn silent(limit: Duration) -> Fault {
    let text = format!("no answer within {} s (the profile's `timeouts.firstByteSec`)", limit.as_secs());
    Fault::new(ModelErrorKind::TimedOut, text)
}

/// The fault of an answer that has no end.
fn cut(error: Option<reqwest::Error>) -> Fault {
    let cause = error.map(|error| format!(": {}", chain(&error.without_url()))).unwrap_or_default();
    Fault::new(ModelErrorKind::Cut, format!("the connection ended before the answer did{cause}"))
}

fn transport_fault(error: reqwest::Error) -> Fault {
    let connecting = error.is_connect();
    let is_of_this_machine = error.url().is_some_and(is_loopback);
    let error = error.without_url();
    if connecting {
        let causes = causes(&error);
        let text = match unknown_host(&causes) {
            _ if is_refused(&error) => {
                "no connection: nothing listens there. Check `baseUrl`, and that the server runs.".to_owned()
            }
            Some(said) => format!(
                "no connection: no address was found for this host ({said}). Check `baseUrl` and the network."
            ),
            None => format!(
                "no connection: {}. Check `baseUrl`, the network and that the server runs.",
                beyond_the_client(&causes)
            ),
        };
        let kind = match is_of_this_machine && is_refused(&error) {
            true => ModelErrorKind::NotRunning,
            false => ModelErrorKind::Unreachable,
        };
        return Fault::new(kind, text);
    }
    Fault::new(
        ModelErrorKind::Cut,
        format!("the connection ended before the answer began: {}", chain(&error)),
    )
}

fn is_loopback(url: &Url) -> bool {
    url.host_str() == Some("localhost") || address_of(url).is_some_and(|address| address.is_loopback())
}

/// Returns whether the machine answered that no program listens on the port.
fn is_refused(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source())
        .filter_map(|error| error.downcast_ref::<std::io::Error>())
        .any(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
}

/// Returns what the system says of a host whose name it can't resolve.
fn unknown_host(causes: &[String]) -> Option<&str> {
    causes.iter().find(|cause| cause.starts_with("dns error"))?;
    causes.last()?.rsplit(": ").next()
}

/// The causes without the client's own layers, which come first and say only that there is no connection.
fn beyond_the_client(causes: &[String]) -> String {
    let is_of_the_client =
        |cause: &&String| cause.starts_with("error sending request") || cause.starts_with("client error (");
    let beyond: Vec<&str> = causes.iter().skip_while(is_of_the_client).map(String::as_str).collect();
    if beyond.is_empty() { causes.join(": ") } else { beyond.join(": ") }
}

/// An error with its causes, each said once.
fn chain(error: &dyn std::error::Error) -> String {
    causes(error).join(": ")
}

/// The texts of an error and its causes, without those that end the text before them.
fn causes(error: &dyn std::error::Error) -> Vec<String> {
    let mut texts = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !texts.last().is_some_and(|text| text.ends_with(&next)) {
            texts.push(next);
        }
        cause = error.source();
    }
    texts
}

/// Returns whether a provider says that the model, or the server as it was started, calls no functions. Covers the wordings of
/// Ollama, OpenRouter, vLLM, llama.cpp, Groq and Gemini.
fn lacks_function_calling(said: &str) -> bool {
    let said = said.to_lowercase();
    [
        "does not support tools",
        "support tool use",
        "enable-auto-tool-choice",
        "tools param requires --jinja",
        "`tool calling` is not supported",
        "function calling is not enabled",
    ]
    .iter()
    .any(|words| said.contains(words))
}

/// Returns whether the account of the key has no credit: to wait brings none.
fn is_out_of_credit(words: &[String]) -> bool {
    words.iter().any(|word| word == "insufficient_quota")
}

/// Returns whether an error's own words say that the conversation is too long.
fn names_context_overflow(words: &[String]) -> bool {
    words.iter().any(|word| matches!(&**word, "context_length_exceeded" | "exceed_context_size_error"))
}

/// The kind of failure that an HTTP status means. `said` is the provider's own text.
pub(super) fn kind_of_status(status: u16, said: &str, wait: Option<Duration>) -> ModelErrorKind {
    match status {
        401 | 403 => ModelErrorKind::Unauthorized,
        408 | 409 | 429 => ModelErrorKind::RateLimited(wait),
        400 | 413 | 422 if is_context_overflow(said) => ModelErrorKind::ContextWindow,
        500.. => ModelErrorKind::Unavailable(wait),
        _ => ModelErrorKind::Invalid,
    }
}

/// Windows that a model may have, in tokens.
const PLAUSIBLE_WINDOWS: std::ops::RangeInclusive<u64> = 1_000..=100_000_000;

/// Returns whether a provider says that the conversation is too long. Covers the wordings of Anthropic, OpenAI,
/// OpenRouter, Gemini, Groq, Cerebras, llama.cpp, vLLM and Ollama.
pub(super) fn is_context_overflow(said: &str) -> bool {
    let said = said.to_lowercase();
    let has = |words: &str| said.contains(words);
    has("prompt is too long")
        || has("input is too long")
        || has("context_length_exceeded")
        || has("exceed_context_size")
        || has("max_tokens_to_sample")
        || has("too many tokens")
        || has("maximum context")
        || has("tokens exceed")
        || has("reduce the length of the messages")
        || (has("token count") && has("exceed"))
        || (has("context")
            && (has("length") || has("window") || has("size") || has("too long") || has("exceed")))
        || (has("maximum") && has("tokens") && has("prompt"))
        || (has("token") && has("limit") && has("exceed"))
}

/// Returns whether a refusal is about images, all or single ones. A tool whose name has the word is not meant.
pub(super) fn speaks_of_images(said: &str) -> bool {
    let said = said.to_lowercase().replace(ToolName::GenerateImage.as_str(), "");
    ["image", "multimodal", "multi-modal"].iter().any(|word| said.contains(word))
}

/// Returns whether a refusal says that the model takes no images, as against one that is too large, damaged or of another
/// kind. Covers the wordings of Anthropic, OpenAI, OpenRouter, Mistral, Groq, DeepSeek, Bedrock, vLLM, llama.cpp and Ollama.
pub(super) fn refuses_all_images(said: &str) -> bool {
    let said = said.to_lowercase();
    let has = |words: &str| said.contains(words);
    let is_refused =
        ["not support", "n't support", "no endpoints", "unsupported", "not enabled", "not available"]
            .into_iter()
            .any(has);
    let images =
        ["image input", "support image", "support vision", "support multimodal", "support multi-modal"];
    is_refused && images.into_iter().any(has)
        || has("at most 0 image")
        || has("image_url") && (has("unknown variant") || has("only supported by certain models"))
        || has("support the image content")
        || has("not a multimodal model")
        || has("not a vision model")
        || has("required for image input")
}

/// Returns whether a server says that its model takes no images: llama.cpp does so with status 500.
pub(super) fn has_no_image_input(said: &str) -> bool {
    said.to_lowercase().contains("image input is not supported")
}

/// Returns the window that a provider names where it refuses a conversation as too long, in tokens. Covers the wordings of
/// Anthropic, OpenAI, OpenRouter, Gemini, Cerebras, llama.cpp and vLLM.
pub(super) fn stated_window(said: &str) -> Option<u64> {
    let said = said.to_lowercase();
    let behind = |marker: &str| {
        let text = &said[said.find(marker)? + marker.len()..];
        let digits: String = text.chars().take_while(|c| c.is_ascii_digit() || *c == ',').collect();
        digits.replace(',', "").parse().ok()
    };
    ["maximum context length is ", "context size (", "tokens allowed (", "while limit is ", " > "]
        .into_iter()
        .find_map(behind)
        .filter(|tokens| PLAUSIBLE_WINDOWS.contains(tokens))
}

/// Returns what a body says went wrong: its error message if it is JSON, otherwise its text; made visible, and at most
/// 500 characters on one line.
pub(super) fn error_text(body: &str) -> String {
    let parsed: Option<Value> = serde_json::from_str(body).ok();
    let message = parsed.as_ref().and_then(error_message);
    let text = one_line(message.as_deref().unwrap_or(body), ERROR_TEXT_LIMIT);
    if text.is_empty() { "(no explanation)".to_owned() } else { text }
}

/// Ends a text with a full stop where it has no end of its own.
fn sentence(mut text: String) -> String {
    if !text.ends_with(['.', '!', '?', '…']) {
        text.push('.');
    }
    text
}

/// Returns the message of an error's body. Where a gateway says only that a provider failed, it is what that one said.
fn error_message(body: &Value) -> Option<Cow<'_, str>> {
    let body = only_entry(body);
    let error = &body["error"];
    let told = [&error["message"], error, &body["message"], &body["detail"]];
    let told = told.into_iter().find_map(Value::as_str)?;
    let Some(cause) = provider_error(body) else { return Some(told.into()) };
    let said = match &cause {
        Value::String(text) => Some(text.as_str().into()),
        // One level is all that gateways have.
        cause if provider_error(cause).is_none() => error_message(cause),
        _ => None,
    };
    let said = said.filter(|said| !said.trim().is_empty()).unwrap_or(Cow::Borrowed(told));
    Some(match error["metadata"]["provider_name"].as_str() {
        Some(provider) => format!("{provider}: {said}").into(),
        None => said.into_owned().into(),
    })
}

/// Returns what the provider behind OpenRouter answered, as text if it is no JSON. None where the error says itself what it
/// is, or nothing was passed on.
fn provider_error(body: &Value) -> Option<Value> {
    let error = &only_entry(body)["error"];
    let is_generic = error["message"].as_str()?.trim_end_matches('.') == "Provider returned error";
    let raw = Some(&error["metadata"]["raw"]).filter(|raw| is_generic && !raw.is_null())?;
    let text = raw.as_str();
    Some(text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_else(|| raw.clone()))
}

/// Returns the codes and types of a body's error, and of the one that a gateway passed on.
fn error_words(body: &Value) -> Vec<String> {
    let own = |body: &Value| {
        let body = only_entry(body);
        // Cerebras has no object around it.
        let error = if body["error"].is_object() { &body["error"] } else { body };
        let words = [&error["code"], &error["type"]].into_iter().filter_map(Value::as_str);
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    let passed_on = provider_error(body).map(|cause| own(&cause)).unwrap_or_default();
    [own(body), passed_on].concat()
}

/// Google's OpenAI-compatible endpoint has a list around its error.
fn only_entry(body: &Value) -> &Value {
    body.get(0).unwrap_or(body)
}

/// Reads a `Retry-After` header: seconds, or an HTTP date. Never negative, never over ten minutes.
fn retry_after(value: &str, now: jiff::Timestamp) -> Option<Duration> {
    let seconds = match value.trim().parse::<f64>() {
        Ok(seconds) => seconds,
        Err(_) => {
            let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value.trim()).ok()?;
            date.duration_since(now).as_secs_f64()
        }
    };
    let longest = MAX_RETRY_AFTER.as_secs_f64();
    (!seconds.is_nan()).then(|| Duration::from_secs_f64(seconds.clamp(0.0, longest)))
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod request_tests;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_missing_connection_is_explained_without_the_layers_of_the_client() {
        let causes = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let layers = ["error sending request", "client error (Connect)"];
        let unknown = "failed to lookup address information: Name or service not known";
        let dns = causes(&[&layers[..], &["dns error", "error resolving DNS", unknown]].concat());
        assert_eq!(unknown_host(&dns), Some("Name or service not known"));
        let tls = causes(&[&layers[..], &["invalid peer certificate: UnknownIssuer"]].concat());
        assert_eq!(unknown_host(&tls), None);
        assert_eq!(beyond_the_client(&tls), "invalid peer certificate: UnknownIssuer");
        assert_eq!(beyond_the_client(&causes(&layers)), "error sending request: client error (Connect)");
    }

    #[test]
    fn a_model_without_function_calling_is_recognized() {
        for said in [
            "registry.ollama.ai/library/gemma:2b does not support tools",
            "No endpoints found that support tool use. To learn more about provider routing, visit our site",
            "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set",
            "tools param requires --jinja flag",
            "`tool calling` is not supported with this model",
            "Function calling is not enabled for models/gemma-3-27b-it",
        ] {
            assert!(lacks_function_calling(said), "{said}");
        }
        assert!(!lacks_function_calling("Invalid schema for function 'read_file'"));
    }

    #[test]
    fn an_account_without_credit_is_not_a_rate_limit() {
        let is_out = |error: Value| is_out_of_credit(&error_words(&json!({ "error": error })));
        assert!(is_out(json!({ "message": "You exceeded it.", "code": "insufficient_quota" })));
        assert!(is_out(json!({ "type": "insufficient_quota", "code": null })));
        assert!(!is_out(json!({ "message": "You exceeded it.", "code": "rate_limit_exceeded" })));
    }

    #[test]
    fn a_retry_after_header_is_read_and_kept_within_bounds() {
        let now: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let read = |value| retry_after(value, now).map(|wait| wait.as_secs());
        assert_eq!(read("7"), Some(7));
        assert_eq!(read(" 1.5 "), Some(1));
        assert_eq!(read("-5"), Some(0));
        assert_eq!(read("1000000000"), Some(600));
        assert_eq!(read("inf"), Some(600));
        assert_eq!(read("Thu, 01 Jan 2026 00:00:30 GMT"), Some(30));
        assert_eq!(read("Wed, 31 Dec 2025 00:00:00 GMT"), Some(0));
        assert_eq!(read("NaN"), None);
        assert_eq!(read("soon"), None);
    }

    #[test]
    fn a_conversation_that_is_too_long_is_recognised_by_what_providers_say() {
        for said in [
            "prompt is too long: 209123 tokens > 200000 maximum",
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
            "the request exceeds the available context size. try increasing the context size",
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
            "This endpoint's maximum context length is 32768 tokens.",
            "context_length_exceeded",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            "Please reduce the length of the messages or completion.",
            "Please reduce the length of the messages or completion. Current length is 42328 while limit is 40000",
        ] {
            assert_eq!(kind_of_status(400, said, None), ModelErrorKind::ContextWindow, "{said}");
        }
        for said in ["max_tokens: must be at least 1", "tools.0.name: invalid", "unknown field `context`"] {
            assert_eq!(kind_of_status(400, said, None), ModelErrorKind::Invalid, "{said}");
        }
    }

    #[test]
    fn a_refusal_of_all_images_is_recognised_by_what_providers_say() {
        let refusal = |kind, said: &str| ModelError::new(kind, said).refuses_all_images();
        for said in [
            "No endpoints found that support image input",
            "Failed to deserialize the JSON body: unknown variant `image_url`, expected `text`",
            "At most 0 image(s) may be provided in one prompt.",
            "m is not a multimodal model",
            "Invalid content type. image_url is only supported by certain models.",
            "This model does not support image inputs.",
            "'m' does not support images",
            "Image input is not enabled for this model",
            "This model doesn't support the image content block that you provided.",
            "Failed to create new sequence: this model is missing data required for image input",
        ] {
            assert!(refusal(ModelErrorKind::Invalid, said), "{said}");
            assert!(!refusal(ModelErrorKind::Unavailable(None), said), "{said}");
        }
        assert!(refusal(ModelErrorKind::Unavailable(None), "status 500: image input is not supported"));
        for said in [
            "max_tokens: must be at least 1",
            "messages.4.content.0.image.source.base64: image exceeds 5 MB maximum: 5900000 bytes > 5242880 bytes",
            "Could not process image",
            "You uploaded an unsupported image. Please make sure your image is valid.",
            "Model m supports at most 1 image per prompt.",
        ] {
            assert!(!refusal(ModelErrorKind::Invalid, said), "{said}");
        }
    }

    #[test]
    fn a_refusal_of_a_single_image_is_about_images_and_one_of_a_tool_is_not() {
        let refusal = |kind, said: &str| ModelError::new(kind, said).speaks_of_images();
        for said in
            ["image exceeds 5 MB maximum", "Could not process image", "At most 0 image(s) may be provided"]
        {
            assert!(refusal(ModelErrorKind::Invalid, said), "{said}");
            assert!(!refusal(ModelErrorKind::Unavailable(None), said), "{said}");
        }
        for said in
            ["max_tokens: must be at least 1", "tools.7.custom.name: generate_image is not allowed here"]
        {
            assert!(!refusal(ModelErrorKind::Invalid, said), "{said}");
        }
    }

    #[test]
    fn the_window_is_taken_from_what_a_provider_says_of_it() {
        for (said, window) in [
            ("prompt is too long: 209123 tokens > 200000 maximum", Some(200_000)),
            (
                "This model's maximum context length is 128,000 tokens. However, you requested 130000.",
                Some(128_000),
            ),
            ("the request exceeds the available context size (4096 tokens), try increasing it", Some(4_096)),
            ("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000", Some(200_000)),
            (
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
                Some(1_048_576),
            ),
            (
                "Please reduce the length of the messages or completion. Current length is 42328 while limit is 40000",
                Some(40_000),
            ),
            ("maximum context length is 8 tokens", None),
            ("context_length_exceeded", None),
        ] {
            assert_eq!(stated_window(said), window, "{said}");
        }
    }

    #[test]
    fn a_remedy_begins_behind_a_full_stop() {
        assert_eq!(sentence("Incorrect API key provided".to_owned()), "Incorrect API key provided.");
        assert_eq!(sentence("No such model.".to_owned()), "No such model.");
    }

    #[test]
    fn an_error_body_gives_its_message_on_one_short_line() {
        assert_eq!(error_text(r#"{"error":{"message":"no\n  such model"}}"#), "no ⏎ such model");
        assert_eq!(error_text(r#"{"error":"model missing"}"#), "model missing");
        assert_eq!(error_text(r#"{"detail":"not found"}"#), "not found");
        assert_eq!(error_text("<html>Bad\ngateway</html>"), "<html>Bad ⏎ gateway</html>");
        assert_eq!(error_text("no\u{202e}key\u{1b}[2J"), "no<U+202E>key<U+001B>[2J");
        assert_eq!(error_text(r#"[{"error":{"code":400,"message":"no such model"}}]"#), "no such model");
        assert_eq!(error_text(""), "(no explanation)");
        assert_eq!(error_text(&"é".repeat(2000)).chars().count(), ERROR_TEXT_LIMIT);
    }

    #[test]
    fn what_a_provider_behind_a_gateway_said_takes_the_place_of_a_message_without_a_cause() {
        let told = |message: &str, metadata: Value| {
            error_text(
                &json!({ "error": { "code": 400, "message": message, "metadata": metadata } }).to_string(),
            )
        };
        let generic = "Provider returned error";
        let raw = r#"{"error":{"type":"invalid_request_error","message":"At most 1 image per prompt."}}"#;
        let by_name = |raw: Value| told(generic, json!({ "raw": raw, "provider_name": "Crucible" }));
        assert_eq!(by_name(raw.into()), "Crucible: At most 1 image per prompt.");
        assert_eq!(by_name(serde_json::from_str(raw).unwrap()), "Crucible: At most 1 image per prompt.");
        assert_eq!(by_name(format!("[{raw}]").into()), "Crucible: At most 1 image per prompt.");
        assert_eq!(by_name("m is rate-limited upstream.".into()), "Crucible: m is rate-limited upstream.");
        for nothing in [json!(null), json!(""), json!("{}"), json!("null"), json!(7)] {
            assert!(by_name(nothing.clone()).ends_with(generic), "{nothing}");
        }
        assert_eq!(told(generic, json!({ "raw": "upstream" })), "upstream");
        assert_eq!(told(generic, json!(null)), generic);
        let clear = "No endpoints found for m.";
        assert_eq!(told(clear, json!({ "raw": raw })), clear);
        // What names itself as its cause has an end.
        let endless = json!({ "error": { "message": generic, "metadata": { "raw": "x" } } }).to_string();
        assert_eq!(by_name(endless.into()), format!("Crucible: {generic}"));
    }

    #[test]
    fn words_of_an_error_are_its_codes_and_types_wherever_they_stand() {
        let flat =
            json!({ "message": "told", "type": "invalid_request_error", "code": "context_length_exceeded" });
        for body in [
            flat.clone(),
            json!({ "error": flat }),
            json!([{ "error": flat }]),
            json!({ "error": { "message": "Provider returned error", "metadata": { "raw": flat.to_string() } } }),
        ] {
            assert!(names_context_overflow(&error_words(&body)), "{body}");
        }
        let other = json!({ "error": { "message": "context_length_exceeded", "code": 400 } });
        assert!(error_words(&other).is_empty());
    }
}
