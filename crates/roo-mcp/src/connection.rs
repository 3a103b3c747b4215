//! One live connection: how it is made, what is listed and asked over it, and how it ends.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use rmcp::model::{
    ArgumentInfo, CallToolRequest, CallToolRequestParams, ClientRequest, CompleteRequest,
    CompleteRequestParams, CompleteResult, CompletionContext, CompletionInfo, CustomResult, ErrorCode,
    Extensions, GetPromptRequest, GetPromptRequestParams, InputRequiredResult, InputResponses, JsonObject,
    PaginatedRequestParams, ProtocolVersion, ReadResourceRequest, ReadResourceRequestParams, Reference,
    RequestOptionalParam, ServerPeerInfo, ServerResult, SubscriptionFilter,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, Peer, PeerRequestOptions, RequestHandle, RoleClient,
    RunningService, ServiceError, Subscription, serve_client_with_lifecycle,
};
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig, StreamableHttpError,
};
use roo_formats::mcp::{ResolvedRemote, ResolvedServer, Transport};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use crate::authorized::{Authorization, AuthorizedClient, names_its_user};
use crate::call::{CallError, CallOptions, CompletionOf, CompletionRequest, Operation};
use crate::catalog::{ENTRIES, ServerCatalog};
use crate::events::{Changed, Events, QuestionRegistration, Signals, Signs};
use crate::fault::{ServerFault, short};
use crate::http_fault::http_fault;
use crate::launcher::{LaunchRequest, ServerProcess};
use crate::log::{LogSource, ServerLog};
use crate::login::{CredentialKey, HeldCredentials, RefreshError};
use crate::network::{self, AddressPolicy};
use crate::services::HubServices;
use crate::sse::SseTransport;
use crate::stdio::{MESSAGE, StdioTransport, keep_stderr};
use crate::tool::{self, ListedTool};

/// Time limit for a server to be ready for its first request. Package runners download it in this time.
const STARTUP: Duration = Duration::from_secs(60);
/// Time limit for a list.
const LISTING: Duration = Duration::from_secs(30);
/// The time after which the library sends `initialize` to a server that has not answered `server/discover`.
const DISCOVERY: Duration = Duration::from_secs(10);
/// Time limit for a server to be ready over the transport that was before streamable HTTP, where it is only tried.
const OLDER_TRANSPORT: Duration = Duration::from_secs(10);
/// The most pages of a list.
const PAGES: usize = 100;
/// Time limit for a call, however often it reports progress.
const MAX_CALL_TIME: Duration = Duration::from_secs(3600);
/// The most times that a request is sent because the server wants something before it goes on.
const ROUNDS: usize = rmcp::model::DEFAULT_MRTR_MAX_ROUNDS;
/// The longest state that a server gets back meanwhile, in bytes.
const REQUEST_STATE: usize = 64 << 10;
/// Time limit for telling a server that a request was cancelled.
const FAREWELL: Duration = Duration::from_secs(2);
/// Time limit for the reason of a program's end, after the end of its output.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Versions of the protocol without a handshake, the newest first.
const MODERN: [ProtocolVersion; 1] = [ProtocolVersion::V_2026_07_28];

/// A server and what belongs to the way to it.
#[derive(Clone)]
pub(crate) struct Target {
    pub server: ResolvedServer,
    /// Addresses that the owner of its configuration may name.
    pub policy: AddressPolicy,
    /// What its login is kept by; none if nobody can log in to it.
    pub credentials: Option<CredentialKey>,
    /// True if it may ask the model of the task that calls it.
    pub sampling: bool,
}

impl Target {
    /// The same server over the transport that was before streamable HTTP; none if it is reached otherwise.
    fn over_events(&self) -> Option<Self> {
        let Transport::StreamableHttp(remote) = &self.server.transport else { return None };
        let server = ResolvedServer { transport: Transport::Sse(remote.clone()), ..self.server.clone() };
        Some(Self { server, ..self.clone() })
    }
}

/// Handle for requests. Clones use the same connection.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    server: Arc<str>,
    peer: Peer<RoleClient>,
    signals: Signals,
    events: EventsHandle,
    log: ServerLog,
}

#[derive(Clone)]
struct EventsHandle(Events);

impl std::fmt::Debug for EventsHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Events")
    }
}

/// A connection and what keeps it alive.
pub(crate) struct Session {
    pub connection: Connection,
    running: RunningService<RoleClient, Events>,
    program: Option<Program>,
    log: ServerLog,
    /// Over which lists change, where the protocol has no notifications unasked.
    subscription: Option<Subscription>,
    changes: watch::Receiver<Changed>,
}

/// A program that was started for a session.
struct Program {
    process: Box<dyn ServerProcess>,
    /// Takes its standard error into the log.
    stderr: JoinHandle<()>,
}

pub(crate) enum SessionEvent {
    /// Lists are to be asked for again.
    Changed(Changed),
    /// It is over.
    Ended,
}

/// First messages of a conversation with a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Handshake {
    /// As versions from 2026-07-28 on do it, and as before if the server says that it doesn't know that.
    #[default]
    Newest,
    /// As all versions before did it.
    Initialize,
}

impl Handshake {
    fn other(self) -> Self {
        match self {
            Self::Newest => Self::Initialize,
            Self::Initialize => Self::Newest,
        }
    }

    /// Reports whether the server answers, and may only not know these messages.
    fn may_cause(self, fault: &ServerFault) -> bool {
        match fault {
            ServerFault::Protocol(_) => true,
            ServerFault::Http { status, .. } if *status >= 500 => true,
            // A refusal of the newest comes after the older one was tried. A server that was updated may know that no more.
            ServerFault::Refused(_) | ServerFault::Version(_) | ServerFault::Http { .. } => {
                self == Self::Initialize
            }
            _ => false,
        }
    }
}

impl Session {
    /// Starts or connects a server until it is ready for requests. `handshake` becomes what is to be tried the next time.
    pub(crate) async fn open(
        target: &Target,
        services: &HubServices,
        log: &ServerLog,
        handshake: &mut Handshake,
    ) -> Result<Self, ServerFault> {
        let fault = match Self::negotiate(target, services, log, handshake).await {
            Ok(session) => return Ok(session),
            Err(fault) => fault,
        };
        // So the protocol has it: a server that knows only events takes no messages at its address.
        let older = target
            .over_events()
            .filter(|_| matches!(fault, ServerFault::Http { status: 400 | 404 | 405, .. }));
        let Some(older) = older else { return Err(fault) };
        let opening = Self::open_with(&older, services, log, Handshake::Initialize);
        match timeout(OLDER_TRANSPORT, opening).await {
            Ok(Ok(session)) => {
                let text = "it speaks the older transport; write `\"type\": \"sse\"` into mcp.json to connect it so at once";
                log.add(LogSource::Hub, text);
                Ok(session)
            }
            Ok(Err(fault @ ServerFault::NeedsLogin { .. })) => Err(fault),
            _ => Err(fault),
        }
    }

    /// Opens a session with the one handshake or the other.
    async fn negotiate(
        target: &Target,
        services: &HubServices,
        log: &ServerLog,
        handshake: &mut Handshake,
    ) -> Result<Self, ServerFault> {
        let (began, tried) = (Instant::now(), *handshake);
        let fault = match Self::open_with(target, services, log, tried).await {
            Ok(session) => {
                if tried == Handshake::Newest && session.has_ignored_discovery(began.elapsed()) {
                    *handshake = Handshake::Initialize;
                }
                return Ok(session);
            }
            Err(fault) => fault,
        };
        if tried.may_cause(&fault) {
            return match Self::open_with(target, services, log, tried.other()).await {
                Ok(session) => {
                    *handshake = tried.other();
                    Ok(session)
                }
                // A server that is out of order says nothing about what it would refuse otherwise.
                Err(_) if matches!(fault, ServerFault::Http { .. }) => Err(fault),
                Err(fault) => Err(fault),
            };
        }
        // Some servers don't survive a request that they don't know. The next attempt is another start.
        if matches!(fault, ServerFault::Ended { .. } | ServerFault::Closed) {
            *handshake = tried.other();
        }
        Err(fault)
    }

    /// Reports whether a server that took so long to be ready speaks an older version, and never answered the first request.
    fn has_ignored_discovery(&self, elapsed: Duration) -> bool {
        // One that started slowly has answered late.
        let has_answered = self.connection.signals.now().unexpected_answers > 0;
        elapsed >= DISCOVERY && !has_answered && !self.connection.is_modern()
    }

    async fn open_with(
        target: &Target,
        services: &HubServices,
        log: &ServerLog,
        handshake: Handshake,
    ) -> Result<Self, ServerFault> {
        let signals = Signals::new();
        let folders: &[PathBuf] = match target.server.transport {
            Transport::Stdio(_) => &services.folders,
            Transport::StreamableHttp(_) | Transport::Sse(_) => &[],
        };
        let config = services.identity.config(!folders.is_empty(), target.sampling);
        let events = Events::new(config, folders, log.clone());
        let opening = Opening { target, signals: &signals, events: &events, log, handshake };
        let mut program = None;
        let opened = timeout(STARTUP, opening.run(services, &mut program)).await;
        let outcome = opened
            .unwrap_or_else(|_| Err(ServerFault::NoAnswer { waited: STARTUP, stderr: log.last_stderr() }));
        match outcome {
            Ok(running) => {
                let connection = Connection {
                    server: target.server.name.as_str().into(),
                    peer: running.peer().clone(),
                    signals,
                    events: EventsHandle(events.clone()),
                    log: log.clone(),
                };
                let changes = events.changes();
                Ok(Self { connection, running, program, log: log.clone(), subscription: None, changes })
            }
            Err(fault) => {
                Err(end_program(program, log).await.filter(|_| fault == ServerFault::Closed).unwrap_or(fault))
            }
        }
    }

    /// Asks for everything that the server offers.
    pub(crate) async fn catalog(&mut self) -> Result<ServerCatalog, ServerFault> {
        let info = self.connection.peer.peer_info();
        let Some(info) = info else {
            return Err(ServerFault::Protocol("it did not say what it is".to_owned()));
        };
        let mut catalog = ServerCatalog::new(&info);
        self.subscribe(&info).await;
        let everything = Changed { tools: true, resources: true, prompts: true };
        self.refresh(&mut catalog, everything).await?;
        Ok(catalog)
    }

    /// Asks for lists that changed. One that the server can't give stays as it was. That is an error of the tools alone: the rest
    /// may be missing.
    pub(crate) async fn refresh(
        &self,
        catalog: &mut ServerCatalog,
        changed: Changed,
    ) -> Result<(), ServerFault> {
        let info = self.connection.peer.peer_info();
        let capabilities = info.as_deref().map(|info| info.capabilities.clone()).unwrap_or_default();
        let connection = &self.connection;
        let tools = async {
            if changed.tools && capabilities.tools.is_some() {
                Some(connection.list_tools().await)
            } else {
                None
            }
        };
        let resources = async {
            if changed.resources && capabilities.resources.is_some() {
                Some(tokio::join!(connection.list_resources(), connection.list_templates()))
            } else {
                None
            }
        };
        let prompts = async {
            if changed.prompts && capabilities.prompts.is_some() {
                Some(connection.list_prompts().await)
            } else {
                None
            }
        };
        let (tools, resources, prompts) = tokio::join!(tools, resources, prompts);
        if let Some((resources, templates)) = resources {
            if let Some(resources) = self.or_none("resources", resources) {
                catalog.resources = resources.into_iter().map(Into::into).collect();
            }
            if let Some(templates) = self.or_none("resource templates", templates) {
                catalog.resource_templates = templates.into_iter().map(Into::into).collect();
            }
        }
        if let Some(prompts) = prompts.and_then(|prompts| self.or_none("prompts", prompts)) {
            catalog.prompts = prompts.into_iter().map(Into::into).collect();
        }
        if let Some(tools) = tools {
            (catalog.tools, catalog.rejected_tools) = tool::take_in_listed(self.or_fault("tools", tools)?);
            for rejected in &catalog.rejected_tools {
                self.log.add(
                    LogSource::Hub,
                    &format!("the tool `{}` is not offered: {}", rejected.name, rejected.reason),
                );
            }
        }
        Ok(())
    }

    fn or_fault<T>(&self, what: &str, list: Result<Vec<T>, ListError>) -> Result<Vec<T>, ServerFault> {
        match list {
            Ok(list) => Ok(list),
            Err(ListError::Closed) => Err(ServerFault::Closed),
            Err(error) => Err(self
                .connection
                .signals
                .fault()
                .unwrap_or_else(|| ServerFault::Protocol(format!("its {what} can't be listed: {error}")))),
        }
    }

    fn or_none<T>(&self, what: &str, list: Result<Vec<T>, ListError>) -> Option<Vec<T>> {
        let failed = |error: &ListError| {
            self.log.add(LogSource::Hub, &format!("its {what} can't be listed: {error}"));
        };
        list.inspect_err(failed).ok()
    }

    /// Asks for notifications of changed lists where they are not sent unasked.
    async fn subscribe(&mut self, info: &ServerPeerInfo) {
        if info.protocol_version < ProtocolVersion::V_2026_07_28 {
            return;
        }
        let capabilities = &info.capabilities;
        let mut filter = SubscriptionFilter::default();
        let wanted = |changes: Option<bool>| changes.filter(|&changes| changes);
        filter.tools_list_changed = wanted(capabilities.tools.as_ref().and_then(|tools| tools.list_changed));
        filter.prompts_list_changed =
            wanted(capabilities.prompts.as_ref().and_then(|prompts| prompts.list_changed));
        filter.resources_list_changed =
            wanted(capabilities.resources.as_ref().and_then(|resources| resources.list_changed));
        if filter == SubscriptionFilter::default() {
            return;
        }
        match timeout(LISTING, self.connection.peer.listen(filter)).await {
            Ok(Ok(subscription)) => self.subscription = Some(subscription),
            Ok(Err(error)) => {
                self.log.add(LogSource::Hub, &format!("changes of its lists can't be followed: {error}"));
            }
            Err(_) => self.log.add(LogSource::Hub, "changes of its lists can't be followed: no answer"),
        }
    }

    /// Waits until something happens. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> SessionEvent {
        let events = self.connection.events.0.clone();
        let signals = self.connection.signals.clone();
        let mut signs = signals.subscribe();
        loop {
            let (subscription, program) = (&mut self.subscription, &mut self.program);
            let notification = async {
                match subscription {
                    Some(subscription) => subscription.next().await,
                    None => std::future::pending().await,
                }
            };
            let program_ended = async {
                let _ended = match program {
                    Some(program) => program.process.ended().await,
                    None => std::future::pending().await,
                };
                // What it wrote before may still be read.
                let _ = timeout(LAST_WORDS, signals.closed()).await;
            };
            tokio::select! {
                biased;
                _ = signs.wait_for(|signs| signs.fault.is_some()) => return SessionEvent::Ended,
                () = signals.closed() => return SessionEvent::Ended,
                () = program_ended => return SessionEvent::Ended,
                notification = notification => match notification {
                    Ok(Some(notification)) => note(&events, &notification),
                    Ok(None) | Err(_) => self.subscription = None,
                },
                changed = self.changes.wait_for(|changed| changed.any()) => {
                    if changed.is_err() {
                        return SessionEvent::Ended;
                    }
                }
            }
            let changed = events.take_changes();
            if changed.any() {
                return SessionEvent::Changed(changed);
            }
        }
    }

    /// Ends the session and everything that belongs to it. Gives why it ended by itself, if it did.
    pub(crate) async fn close(mut self) -> Option<ServerFault> {
        drop(self.subscription.take());
        // The transport closes the program's standard input, or says goodbye to a session of HTTP.
        let _ = self.running.close_with_timeout(FAREWELL).await;
        let fault = self.connection.signals.now().fault;
        let ended = end_program(self.program.take(), &self.log).await;
        fault.or(ended)
    }
}

/// Ends a program. Gives how it ended.
async fn end_program(program: Option<Program>, log: &ServerLog) -> Option<ServerFault> {
    let Program { mut process, stderr } = program?;
    // Whether it ends by itself is known now or very soon.
    let by_itself = timeout(LAST_WORDS, process.ended()).await.ok();
    let ended = match by_itself {
        Some(ended) => ended,
        None => process.end().await,
    };
    let _ = timeout(LAST_WORDS, stderr).await;
    Some(ServerFault::Ended { how: ended.to_string(), stderr: log.last_stderr() })
}

fn note(events: &Events, notification: &rmcp::model::ServerNotification) {
    use rmcp::model::ServerNotification as Notification;
    events.note_change(|changed| match notification {
        Notification::ToolListChangedNotification(_) => changed.tools = true,
        Notification::ResourceListChangedNotification(_) => changed.resources = true,
        Notification::PromptListChangedNotification(_) => changed.prompts = true,
        _ => {}
    });
}

/// What a server wanted before it goes on with a request.
#[derive(Default)]
struct Given {
    /// The answers by the server's names for its questions.
    responses: Option<InputResponses>,
    /// Its own state, as it gave it.
    state: Option<String>,
}

/// The way to a session.
struct Opening<'a> {
    target: &'a Target,
    signals: &'a Signals,
    events: &'a Events,
    log: &'a ServerLog,
    handshake: Handshake,
}

impl Opening<'_> {
    async fn run(
        &self,
        services: &HubServices,
        program: &mut Option<Program>,
    ) -> Result<RunningService<RoleClient, Events>, ServerFault> {
        let Target { server, policy, .. } = self.target;
        match &server.transport {
            Transport::Stdio(stdio) => {
                let request =
                    LaunchRequest { server: server.name.clone(), policy: *policy, program: stdio.clone() };
                let launched = services.launcher.launch(&request).await;
                let launched = launched.map_err(|error| ServerFault::Launch(error.to_string()))?;
                // Ends with the last process that holds the other end.
                let stderr = tokio::spawn(keep_stderr(launched.stderr, self.log.clone()));
                *program = Some(Program { process: launched.process, stderr });
                let (signals, log) = (self.signals.clone(), self.log.clone());
                let transport = StdioTransport::new(launched.stdout, launched.stdin, signals, log);
                self.shake_hands(transport).await
            }
            Transport::StreamableHttp(remote) => {
                let (client, headers) = self.http(remote, services).await?;
                let mut config = StreamableHttpClientTransportConfig::with_uri(remote.url.as_str())
                    .custom_headers(headers);
                config.max_json_response_size = MESSAGE;
                config.max_sse_event_size = MESSAGE;
                // A call is never repeated; a session that expired is reopened by the hub.
                config.reinit_on_expired_session = false;
                self.shake_hands(StreamableHttpClientTransport::with_client(client, config)).await
            }
            Transport::Sse(remote) => {
                let (client, headers) = self.http(remote, services).await?;
                let url = network::check(&remote.url)?;
                let (signals, log) = (self.signals.clone(), self.log.clone());
                let transport = SseTransport::connect(client, &url, headers, signals, log).await;
                let transport = transport.map_err(|fault| self.signals.fault().unwrap_or(fault))?;
                self.shake_hands(transport).await
            }
        }
    }

    async fn http(
        &self,
        remote: &ResolvedRemote,
        services: &HubServices,
    ) -> Result<(AuthorizedClient, HashMap<HeaderName, HeaderValue>), ServerFault> {
        let Target { server, policy, .. } = self.target;
        let url = network::check(&remote.url)?;
        let user_agent = services.identity.user_agent();
        let client = network::client(&url, *policy, Arc::clone(&services.resolver), &user_agent)
            .map_err(|error| ServerFault::Unreachable(network::error_chain(&error)))?;
        let mut headers = HashMap::new();
        for (name, value) in &remote.headers {
            let (Ok(header), Ok(mut value)) = (HeaderName::try_from(name), HeaderValue::try_from(value))
            else {
                return Err(ServerFault::Configuration(format!(
                    "`{name}` or its value can't be a header of HTTP"
                )));
            };
            value.set_sensitive(true);
            headers.insert(header, value);
        }
        let authorization = match names_its_user(&headers) {
            true => Authorization::Configured,
            false => self.login(remote, services).await?,
        };
        let client = AuthorizedClient::new(client, &server.name, authorization, self.signals.clone());
        Ok((client, headers))
    }

    /// What a login to the server gave, if there was one.
    async fn login(
        &self,
        remote: &ResolvedRemote,
        services: &HubServices,
    ) -> Result<Authorization, ServerFault> {
        let Target { server, policy, credentials, .. } = self.target;
        let (Some(key), Some(store)) = (credentials, &services.credentials) else {
            return Ok(Authorization::Nobody);
        };
        let (store, resolver) = (Arc::clone(store), Arc::clone(&services.resolver));
        let user_agent = services.identity.user_agent();
        match HeldCredentials::load(key.clone(), store, &remote.url, *policy, resolver, user_agent).await {
            Ok(Some(held)) => Ok(Authorization::Login(held)),
            Ok(None) => Ok(Authorization::Nobody),
            Err(RefreshError::NeedsLogin(reason)) => {
                Err(ServerFault::NeedsLogin { server: server.name.clone(), last: Some(reason) })
            }
            Err(RefreshError::Unavailable(reason)) => Err(ServerFault::Unreachable(reason)),
            Err(RefreshError::Store(reason)) => Err(ServerFault::Credentials(reason)),
        }
    }

    async fn shake_hands<T>(&self, transport: T) -> Result<RunningService<RoleClient, Events>, ServerFault>
    where
        T: rmcp::transport::Transport<RoleClient> + 'static,
    {
        let lifecycle = match self.handshake {
            Handshake::Initialize => ClientLifecycleMode::Initialize,
            Handshake::Newest => ClientLifecycleMode::Auto {
                preferred_versions: MODERN.to_vec(),
                legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
            },
        };
        let transport = self.signals.watch(transport);
        let running = serve_client_with_lifecycle(self.events.clone(), transport, lifecycle).await;
        let running = running.map_err(|error| {
            let server = &self.target.server.name;
            self.signals.fault().unwrap_or_else(|| initialize_fault(&error, server))
        })?;
        // A server may settle on what was never offered.
        match running.peer().peer_info() {
            Some(info) if !ProtocolVersion::KNOWN_VERSIONS.contains(&info.protocol_version) => Err(
                ServerFault::Version(format!("it insists on {}", short(&info.protocol_version.to_string()))),
            ),
            _ => Ok(running),
        }
    }
}

fn initialize_fault(error: &ClientInitializeError, server: &str) -> ServerFault {
    match error {
        ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::Cancelled => ServerFault::Closed,
        ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
            let versions: Vec<String> = server_supported.iter().take(10).map(ToString::to_string).collect();
            ServerFault::Version(format!("it offers {}", versions.join(", ")))
        }
        ClientInitializeError::JsonRpcError(error)
            if error.code == ErrorCode::UNSUPPORTED_PROTOCOL_VERSION =>
        {
            ServerFault::Version(short(&error.message))
        }
        ClientInitializeError::JsonRpcError(error) => ServerFault::Refused(short(&error.message)),
        // The older protocol was tried last, so its answer says more.
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => initialize_fault(fallback, server),
        ClientInitializeError::TransportError { error, .. } => transport_fault(error.error.as_ref(), server),
        other => ServerFault::Protocol(short(&other.to_string())),
    }
}

/// Returns the fault behind an error of the transport.
fn transport_fault(error: &(dyn std::error::Error + 'static), server: &str) -> ServerFault {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
            return http_fault(error, server);
        }
        if error.is::<std::io::Error>() {
            return ServerFault::Closed;
        }
        next = error.source();
    }
    ServerFault::Unreachable(short(&network::error_chain(error)))
}

/// Reasons why a list could not be read.
#[derive(Debug, thiserror::Error)]
enum ListError {
    #[error("the connection ended")]
    Closed,
    #[error("no answer within {} s", LISTING.as_secs())]
    Slow,
    #[error("its list of pages has no end")]
    Endless,
    #[error("{0}")]
    Refused(String),
}

impl Connection {
    /// Asks for page after page. Of a list without end, what was listed until then counts.
    async fn list<T>(
        &self,
        most: usize,
        request: impl Fn(Option<PaginatedRequestParams>) -> ClientRequest,
        page: impl Fn(ServerResult) -> Option<(Vec<T>, Option<String>)>,
    ) -> Result<Vec<T>, ListError> {
        let mut items = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..PAGES {
            let params =
                cursor.clone().map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
            let oversized = self.signals.now().oversized;
            let mut signs = self.signals.subscribe();
            let answer = tokio::select! {
                answer = timeout(LISTING, self.peer.send_request(request(params))) => {
                    let answer = answer.map_err(|_| ListError::Slow)?;
                    answer.map_err(|error| self.list_error(error))?
                }
                _ = signs.wait_for(|signs| signs.oversized > oversized) => {
                    return Err(ListError::Refused(format!("a message of more than {} MiB", MESSAGE >> 20)));
                }
            };
            let (more, next) =
                page(answer).ok_or_else(|| ListError::Refused("an answer of another kind".to_owned()))?;
            items.extend(more);
            // One more than is wanted tells that there were more.
            if items.len() > most {
                items.truncate(most + 1);
                return Ok(items);
            }
            // Some servers write the end as an empty text.
            match next.filter(|next| !next.is_empty()) {
                None => return Ok(items),
                Some(next) if Some(&next) == cursor.as_ref() => break,
                Some(next) => cursor = Some(next),
            }
        }
        if items.is_empty() {
            return Err(ListError::Endless);
        }
        let text = format!("{}; the {} entries of its pages so far count", ListError::Endless, items.len());
        self.log.add(LogSource::Hub, &text);
        Ok(items)
    }

    fn list_error(&self, error: ServiceError) -> ListError {
        match error {
            ServiceError::TransportClosed => ListError::Closed,
            ServiceError::TransportSend(error) => {
                let text = short(&error.to_string());
                match transport_fault(error.error.as_ref(), &self.server) {
                    fault @ ServerFault::Expired => self.over(fault),
                    fault @ ServerFault::Unauthorized { status: 401 } => {
                        self.over(self.signals.now().refusal.unwrap_or(fault))
                    }
                    _ => ListError::Refused(text),
                }
            }
            other => ListError::Refused(short(&other.to_string())),
        }
    }

    /// Nothing more can be asked for over it.
    fn over(&self, fault: ServerFault) -> ListError {
        self.signals.fail(fault);
        ListError::Closed
    }

    async fn list_tools(&self) -> Result<Vec<ListedTool>, ListError> {
        self.list(
            2 * tool::TOOLS,
            |params| ClientRequest::ListToolsRequest(paginated(params)),
            |result| match result {
                ServerResult::ListToolsResult(list) => {
                    Some((list.tools.into_iter().map(Ok).collect(), list.next_cursor))
                }
                // One entry that is no tool makes the whole page something else.
                ServerResult::CustomResult(CustomResult(page)) => tool::read_page(page),
                _ => None,
            },
        )
        .await
    }

    async fn list_resources(&self) -> Result<Vec<rmcp::model::Resource>, ListError> {
        self.list(
            ENTRIES - 1,
            |params| ClientRequest::ListResourcesRequest(paginated(params)),
            |result| match result {
                ServerResult::ListResourcesResult(list) => Some((list.resources, list.next_cursor)),
                _ => None,
            },
        )
        .await
    }

    async fn list_templates(&self) -> Result<Vec<rmcp::model::ResourceTemplate>, ListError> {
        self.list(
            ENTRIES - 1,
            |params| ClientRequest::ListResourceTemplatesRequest(paginated(params)),
            |result| match result {
                ServerResult::ListResourceTemplatesResult(list) => {
                    Some((list.resource_templates, list.next_cursor))
                }
                _ => None,
            },
        )
        .await
    }

    async fn list_prompts(&self) -> Result<Vec<rmcp::model::Prompt>, ListError> {
        self.list(
            ENTRIES - 1,
            |params| ClientRequest::ListPromptsRequest(paginated(params)),
            |result| match result {
                ServerResult::ListPromptsResult(list) => Some((list.prompts, list.next_cursor)),
                _ => None,
            },
        )
        .await
    }

    /// Calls a tool once.
    pub(crate) async fn call_tool(
        &self,
        tool: &str,
        arguments: JsonObject,
        limit: Duration,
        options: &CallOptions,
    ) -> Result<rmcp::model::CallToolResult, CallError> {
        let operation = Operation::Tool(tool.to_owned());
        let request = |given: Given| {
            let mut params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments.clone());
            (params.input_responses, params.request_state) = (given.responses, given.state);
            ClientRequest::CallToolRequest(CallToolRequest::new(params))
        };
        match self.ask(operation.clone(), request, limit, options).await? {
            ServerResult::CallToolResult(result) => Ok(result),
            // A result may be empty.
            ServerResult::EmptyResult(_) => Ok(rmcp::model::CallToolResult::default()),
            other => Err(self.unsupported(operation, &other)),
        }
    }

    pub(crate) async fn read_resource(
        &self,
        uri: &str,
        limit: Duration,
        options: &CallOptions,
    ) -> Result<rmcp::model::ReadResourceResult, CallError> {
        let operation = Operation::Resource(uri.to_owned());
        let request = |given: Given| {
            let mut params = ReadResourceRequestParams::new(uri);
            (params.input_responses, params.request_state) = (given.responses, given.state);
            ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params))
        };
        match self.ask(operation.clone(), request, limit, options).await? {
            ServerResult::ReadResourceResult(result) => Ok(result),
            other => Err(self.unsupported(operation, &other)),
        }
    }

    pub(crate) async fn get_prompt(
        &self,
        name: &str,
        arguments: JsonObject,
        limit: Duration,
        options: &CallOptions,
    ) -> Result<rmcp::model::GetPromptResult, CallError> {
        let operation = Operation::Prompt(name.to_owned());
        let request = |given: Given| {
            let mut params = GetPromptRequestParams::new(name).with_arguments(arguments.clone());
            (params.input_responses, params.request_state) = (given.responses, given.state);
            ClientRequest::GetPromptRequest(GetPromptRequest::new(params))
        };
        match self.ask(operation.clone(), request, limit, options).await? {
            ServerResult::GetPromptResult(result) => Ok(result),
            other => Err(self.unsupported(operation, &other)),
        }
    }

    /// Asks for values of an argument.
    pub(crate) async fn complete(
        &self,
        wanted: &CompletionRequest,
        limit: Duration,
        options: &CallOptions,
    ) -> Result<CompletionInfo, CallError> {
        let operation = Operation::Completion(wanted.argument.clone());
        let of = match &wanted.of {
            CompletionOf::Prompt(name) => Reference::for_prompt(name),
            CompletionOf::Template(uri) => Reference::for_resource(uri),
        };
        let argument = ArgumentInfo::new(&wanted.argument, &wanted.value);
        let mut params = CompleteRequestParams::new(of, argument);
        if !wanted.known.is_empty() {
            let known = wanted.known.clone().into_iter().collect();
            params = params.with_context(CompletionContext::with_arguments(known));
        }
        let request = |_| ClientRequest::CompleteRequest(CompleteRequest::new(params.clone()));
        match self.ask(operation.clone(), request, limit, options).await? {
            ServerResult::CompleteResult(CompleteResult { completion, .. }) => Ok(completion),
            other => Err(self.unsupported(operation, &other)),
        }
    }

    /// Returns whether the server speaks a version without a handshake.
    fn is_modern(&self) -> bool {
        self.peer.peer_info().is_some_and(|info| info.protocol_version >= ProtocolVersion::V_2026_07_28)
    }

    /// Sends a request and waits for its answer, as long as it may take. Where the server wants something before it goes on,
    /// it gets that with the request, which is still the same one.
    async fn ask(
        &self,
        operation: Operation,
        request: impl Fn(Given) -> ClientRequest,
        limit: Duration,
        options: &CallOptions,
    ) -> Result<ServerResult, CallError> {
        // Before the server knows of it: what it asks from then on may be for this call. Completions ask nothing.
        let asks = !matches!(operation, Operation::Completion(_));
        let asking = asks.then(|| self.events.0.ask_during(options));
        let end = Instant::now() + MAX_CALL_TIME.max(limit);
        let mut given = Given::default();
        for _ in 0..ROUNDS {
            let answer = self
                .ask_once(operation.clone(), request(given), (limit, end), options, asking.as_ref())
                .await?;
            match (answer, &asking) {
                (ServerResult::InputRequiredResult(wanted), Some(asking)) if self.is_modern() => {
                    given = self.give(&operation, wanted, (limit, end), options, asking).await?;
                }
                (answer, _) => return Ok(answer),
            }
        }
        let reason = format!("it has asked {ROUNDS} times");
        Err(CallError::Unfulfilled { server: self.server.to_string(), operation, reason })
    }

    /// Gets what a server wants before it goes on.
    async fn give(
        &self,
        operation: &Operation,
        wanted: InputRequiredResult,
        (limit, end): (Duration, Instant),
        options: &CallOptions,
        asking: &QuestionRegistration,
    ) -> Result<Given, CallError> {
        let (server, operation) = (self.server.to_string(), operation.clone());
        let mut signs = self.signals.subscribe();
        let before = self.signals.now();
        if wanted.request_state.as_ref().is_some_and(|state| state.len() > REQUEST_STATE) {
            let reason = format!("the state that it wants back has more than {} KiB", REQUEST_STATE >> 10);
            return Err(CallError::Unfulfilled { server, operation, reason });
        }
        let responses = async {
            match wanted.input_requests {
                Some(requests) => self.events.0.give(requests, asking).await.map(Some),
                None => Ok(None),
            }
        };
        tokio::select! {
            biased;
            () = options.cancel.cancelled() => Err(CallError::Cancelled { server, operation }),
            () = self.signals.closed() => {
                Err(CallError::Interrupted { server, operation, fault: ServerFault::Closed })
            }
            _ = signs.wait_for(|signs| is_worse(signs, &before)) => {
                let fault = self.signals.now().fault.unwrap_or(ServerFault::Closed);
                Err(CallError::Interrupted { server, operation, fault })
            }
            responses = responses => match responses {
                Ok(responses) => Ok(Given { responses, state: wanted.request_state }),
                Err(reason) => Err(CallError::Unfulfilled { server, operation, reason }),
            },
            () = sleep_until(end) => {
                Err(CallError::Timeout { server, operation, after: limit, unexpected_answers: false })
            }
        }
    }

    /// Sends a request and waits for its answer.
    async fn ask_once(
        &self,
        operation: Operation,
        request: ClientRequest,
        (limit, end): (Duration, Instant),
        options: &CallOptions,
        asking: Option<&QuestionRegistration>,
    ) -> Result<ServerResult, CallError> {
        let mut signs = self.signals.subscribe();
        let before = self.signals.now();
        let sent = self.peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
        let mut handle = match sent {
            Ok(handle) => handle,
            Err(error) => return Err(self.failed(operation, error)),
        };
        // Progress tells that the server is at work.
        let (progress, mut told) = tokio::sync::mpsc::channel(1);
        let following = self.events.0.follow(handle.progress_token.clone(), progress);
        let mut open = asking.map(|asking| asking.open.clone());
        let mut deadline = (Instant::now() + limit).min(end);
        let server = || self.server.to_string();
        let outcome = loop {
            tokio::select! {
                biased;
                answer = &mut handle.rx => {
                    let answer = answer.unwrap_or(Err(ServiceError::TransportClosed));
                    return answer.map_err(|error| self.failed(operation, error));
                }
                () = options.cancel.cancelled() => break CallError::Cancelled { server: server(), operation },
                _ = signs.wait_for(|signs| is_worse(signs, &before)) => {
                    break match self.signals.now().fault {
                        Some(fault) => CallError::Interrupted { server: server(), operation, fault },
                        None => CallError::Oversized { server: server(), operation, limit: MESSAGE >> 20 },
                    };
                }
                Some(()) = told.recv() => {
                    if open.as_ref().is_none_or(|open| *open.borrow() == 0) {
                        deadline = (Instant::now() + limit).min(end);
                    }
                }
                is_asked = question_asked_or_answered(&mut open) => {
                    // The user takes as long as they need.
                    deadline = if is_asked { end } else { (Instant::now() + limit).min(end) };
                }
                () = sleep_until(deadline) => {
                    let unexpected_answers = self.signals.now().unexpected_answers > before.unexpected_answers;
                    break CallError::Timeout { server: server(), operation, after: limit, unexpected_answers };
                }
            }
        };
        drop(following);
        give_up(handle, outcome.to_string());
        Err(outcome)
    }

    fn failed(&self, operation: Operation, error: ServiceError) -> CallError {
        let server = self.server.to_string();
        match error {
            ServiceError::McpError(error) => {
                CallError::Refused { server, operation, message: short(&error.message), code: error.code.0 }
            }
            ServiceError::TransportSend(error) => {
                match transport_fault(error.error.as_ref(), &server) {
                    fault @ ServerFault::Scope { .. } => CallError::Forbidden { server, operation, fault },
                    ServerFault::Unauthorized { status } => {
                        let refusal = self.signals.now().refusal.filter(|_| status == 401);
                        let fault = refusal.unwrap_or(ServerFault::Unauthorized { status });
                        // Who it does not know can ask for nothing more.
                        if status == 401 {
                            self.signals.fail(fault.clone());
                        }
                        CallError::Forbidden { server, operation, fault }
                    }
                    fault @ ServerFault::Expired => {
                        // Nothing can be asked over it any more, so that its actor begins another one.
                        self.signals.fail(fault);
                        CallError::SessionExpired { server, operation }
                    }
                    // After a time limit of the server's own it is unknown what was done.
                    ServerFault::Http { status, body } if (400..500).contains(&status) && status != 408 => {
                        let message = match body.is_empty() {
                            true => format!("HTTP {status}"),
                            false => body,
                        };
                        CallError::Refused { server, operation, message, code: i32::from(status) }
                    }
                    fault => {
                        let fault = self.signals.now().fault.unwrap_or(fault);
                        CallError::Interrupted { server, operation, fault }
                    }
                }
            }
            ServiceError::TransportClosed => {
                let fault = self.signals.now().fault.unwrap_or(ServerFault::Closed);
                CallError::Interrupted { server, operation, fault }
            }
            other => CallError::Unsupported { server, operation, what: short(&other.to_string()) },
        }
    }

    fn unsupported(&self, operation: Operation, result: &ServerResult) -> CallError {
        let what = match result {
            ServerResult::InputRequiredResult(_) => {
                "a question, which its version of the protocol has no place for"
            }
            ServerResult::CreateTaskResult(_) => "a task in the background, which is not supported",
            _ => "a result of another kind",
        };
        CallError::Unsupported { server: self.server.to_string(), operation, what: what.to_owned() }
    }
}

/// Waits until the number of open questions changes. Tells whether any is open.
async fn question_asked_or_answered(open: &mut Option<watch::Receiver<u32>>) -> bool {
    let Some(open) = open else { return std::future::pending().await };
    match open.changed().await {
        Ok(()) => *open.borrow() > 0,
        Err(_) => std::future::pending().await,
    }
}

fn is_worse(signs: &Signs, before: &Signs) -> bool {
    signs.fault.is_some() || signs.oversized > before.oversized
}

/// Tells a server that an answer is not waited for any more, without waiting for that.
fn give_up(handle: RequestHandle<RoleClient>, reason: String) {
    tokio::spawn(timeout(FAREWELL, handle.cancel(Some(reason))));
}

fn paginated<M: Default>(
    params: Option<PaginatedRequestParams>,
) -> RequestOptionalParam<M, PaginatedRequestParams> {
    RequestOptionalParam { method: M::default(), params, extensions: Extensions::default() }
}
