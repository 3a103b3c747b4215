//! The connection: what the agent can do, its sessions, and its end.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    AgentCapabilities, AuthMethod, AuthMethodAgent, AuthMethodTerminal, AuthenticateRequest,
    AuthenticateResponse, CancelNotification, CloseSessionRequest, CloseSessionResponse,
    DeleteSessionRequest, DeleteSessionResponse, ForkSessionRequest, ForkSessionResponse, Implementation,
    InitializeRequest, InitializeResponse, ListSessionsRequest, ListSessionsResponse, LoadSessionRequest,
    LoadSessionResponse, McpServer, NewSessionRequest, NewSessionResponse, PromptCapabilities, PromptRequest,
    PromptResponse, ResumeSessionRequest, ResumeSessionResponse, SessionAdditionalDirectoriesCapabilities,
    SessionCapabilities, SessionCloseCapabilities, SessionDeleteCapabilities, SessionForkCapabilities,
    SessionId, SessionInfo, SessionListCapabilities, SessionResumeCapabilities,
    SetSessionConfigOptionRequest, SetSessionConfigOptionResponse, SetSessionModeRequest,
    SetSessionModeResponse,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{
    Agent, Client as ClientRole, Error, ErrorCode, JsonRpcResponse, Lines, on_receive_notification,
    on_receive_request,
};
use jiff::Timestamp;
use roo_formats::config::{Directories, NoHome};
use roo_protocol::ids::TaskId;
use roo_protocol::task::{HistoryItem, TaskForkParams};
use roo_text::render::{exact_line, one_line};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::client::{Client, ClientInfo};
use super::error;
use super::lines::{self, Backlog};
use super::session::{Choices, Open, SessionHandle};
use super::workspace::{NoModel, Workspace, Workspaces};
use crate::masking::Mask;

/// Time limit for requests to stop when the client has gone.
const GRACE: Duration = Duration::from_millis(200);
/// Time limit for a client that says no more to read what was sent.
const UNREAD: Duration = Duration::from_secs(2);
/// The longest name of a client, in characters.
const NAME: usize = 80;
/// The most problems of settings that a session begins with.
const PROBLEMS: usize = 5;
/// The longest list of servers in a notice, in characters.
const SERVERS: usize = 400;
/// Ids of the ways to set up a model.
const SETUP: &str = "setup";
const SETUP_IN_TERMINAL: &str = "setup-in-terminal";

/// Serves one client on standard input and output until it is done, or `told_to_end` resolves. `config` is the settings file, in
/// place of the user's own; absolute.
///
/// A read of standard input may still be under way: the process must be ended, not the runtime.
///
/// # Errors
/// [`NoHome`] when there is no place for settings and logs.
pub(crate) async fn serve_stdio(
    config: Option<PathBuf>,
    told_to_end: impl Future<Output = ()>,
) -> Result<(), NoHome> {
    let mut directories = Directories::from_environment(|name| std::env::var_os(name))?;
    directories.settings_file = config;
    serve(tokio::io::stdin(), tokio::io::stdout(), directories, told_to_end).await;
    Ok(())
}

async fn serve(
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    directories: Directories,
    told_to_end: impl Future<Output = ()>,
) {
    let server = Arc::new(Server {
        workspaces: Workspaces::new(directories),
        client_info: OnceLock::new(),
        backlog: Arc::default(),
        sessions: Mutex::default(),
        ended: CancellationToken::new(),
    });
    let input_over = CancellationToken::new();
    let transport = Lines::new(
        lines::outgoing(output, Arc::clone(&server.backlog)),
        lines::incoming(input, input_over.clone().drop_guard()),
    );
    let unread = async {
        input_over.cancelled().await;
        tokio::time::sleep(UNREAD).await;
    };
    tokio::select! {
        served = connect(&server, transport) => match served {
            Ok(()) => tracing::info!("the client closed the connection"),
            Err(error) => tracing::warn!(%error, "the connection is broken"),
        },
        () = unread => tracing::info!("the client has gone, and leaves unread what was sent"),
        () = told_to_end => tracing::info!("ended by a signal"),
    }
    server.ended.cancel();
    if tokio::time::timeout(GRACE, server.workspaces.stop()).await.is_err() {
        tracing::warn!("requests did not stop in time");
    }
    // Each has its own, short time; what does not react is killed.
    server.workspaces.end_servers().await;
}

/// Registers handlers: `at_once` for those whose order counts, `apart` for those that may take a while, `opens` for those that open
/// a session, of which more is told once the client has its answer.
macro_rules! handlers {
    ($builder:expr, $server:expr; at_once { $($now:ident: $now_request:ty => $now_response:ty,)* } opens { $($open:ident: $open_request:ty => $open_response:ty,)* } apart { $($later:ident: $later_request:ty => $later_response:ty,)* }) => {
        $builder
        $(.on_receive_request(
            {
                let server = Arc::clone($server);
                async move |request: $now_request, responder: Responder<$now_response>, connection: ConnectionTo<ClientRole>| {
                    server.$now(request, responder, connection);
                    Ok(())
                }
            },
            on_receive_request!(),
        ))*
        $(.on_receive_request(
            {
                let server = Arc::clone($server);
                async move |request: $open_request, responder: Responder<$open_response>, connection: ConnectionTo<ClientRole>| {
                    let client = match server.client(connection) {
                        Ok(client) => client,
                        Err(error) => return responder.respond_with_error(error),
                    };
                    let server = Arc::clone(&server);
                    tokio::spawn(async move {
                        match server.$open(&client, request).await {
                            Ok((opened, answer)) => {
                                client.respond(responder, Ok(answer));
                                opened.session.introduce(opened.notices);
                            }
                            Err(error) => client.respond(responder, Err(error)),
                        }
                    });
                    Ok(())
                }
            },
            on_receive_request!(),
        ))*
        $(.on_receive_request(
            {
                let server = Arc::clone($server);
                async move |request: $later_request, responder: Responder<$later_response>, connection: ConnectionTo<ClientRole>| {
                    let client = match server.client(connection) {
                        Ok(client) => client,
                        Err(error) => return responder.respond_with_error(error),
                    };
                    let server = Arc::clone(&server);
                    tokio::spawn(async move {
                        let answer = server.$later(&client, request).await;
                        client.respond(responder, answer);
                    });
                    Ok(())
                }
            },
            on_receive_request!(),
        ))*
    };
}

async fn connect(
    server: &Arc<Server>,
    transport: impl agent_client_protocol::ConnectTo<Agent> + 'static,
) -> Result<(), Error> {
    let builder = handlers!(Agent.v1().name("roo-lsp"), server;
    at_once {
        initialize: InitializeRequest => InitializeResponse,
        prompt: PromptRequest => PromptResponse,
        set_mode: SetSessionModeRequest => SetSessionModeResponse,
        set_option: SetSessionConfigOptionRequest => SetSessionConfigOptionResponse,
    }
    opens {
        new_session: NewSessionRequest => NewSessionResponse,
        load_session: LoadSessionRequest => LoadSessionResponse,
        resume_session: ResumeSessionRequest => ResumeSessionResponse,
        fork_session: ForkSessionRequest => ForkSessionResponse,
    }
    apart {
        authenticate: AuthenticateRequest => AuthenticateResponse,
        list_sessions: ListSessionsRequest => ListSessionsResponse,
        close_session: CloseSessionRequest => CloseSessionResponse,
        delete_session: DeleteSessionRequest => DeleteSessionResponse,
    });
    let this = Arc::clone(server);
    let builder = builder.on_receive_notification(
        async move |cancel: CancelNotification, _connection: ConnectionTo<ClientRole>| {
            if let Some(session) = this.session(&cancel.session_id) {
                session.cancel();
            }
            Ok(())
        },
        on_receive_notification!(),
    );
    builder.connect_to(transport).await
}

/// One connection.
struct Server {
    workspaces: Workspaces,
    /// None before `initialize`; the first time counts.
    client_info: OnceLock<Arc<ClientInfo>>,
    backlog: Arc<Backlog>,
    sessions: Mutex<HashMap<SessionId, SessionHandle>>,
    /// The connection is over.
    ended: CancellationToken,
}

impl Server {
    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, SessionHandle>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn session(&self, id: &SessionId) -> Option<SessionHandle> {
        self.sessions().get(id).cloned()
    }

    fn open_session(&self, id: &SessionId) -> Result<SessionHandle, Error> {
        self.session(id).ok_or_else(|| error::no_session(&one_line(&id.0, NAME)))
    }

    fn client(&self, connection: ConnectionTo<ClientRole>) -> Result<Client, Error> {
        let info = self.client_info.get().cloned();
        let early = || Error::new(ErrorCode::INVALID_REQUEST, "the first request must be initialize");
        Ok(Client::new(connection, info.ok_or_else(early)?, Arc::clone(&self.backlog)))
    }

    fn initialize(
        self: &Arc<Self>,
        request: InitializeRequest,
        responder: Responder<InitializeResponse>,
        connection: ConnectionTo<ClientRole>,
    ) {
        let named = request.client_info.as_ref().map(|client| one_line(&client.name, NAME));
        let name = named.filter(|name| !name.is_empty()).unwrap_or_else(|| "acp".to_owned());
        let info = ClientInfo { capabilities: request.client_capabilities, name };
        let info = Arc::clone(self.client_info.get_or_init(|| Arc::new(info)));
        let in_terminal = info.capabilities.auth.terminal;
        let client = Client::new(connection, info, Arc::clone(&self.backlog));
        let this = Arc::clone(self);
        tokio::spawn(async move {
            let server = Arc::clone(&this);
            let model = tokio::task::spawn_blocking(move || server.workspaces.check_model()).await;
            let methods = match model {
                Ok(Err(_)) => auth_methods(in_terminal),
                Ok(Ok(())) | Err(_) => vec![],
            };
            client.respond(responder, Ok(initialized(methods)));
        });
    }

    fn prompt(
        self: &Arc<Self>,
        request: PromptRequest,
        responder: Responder<PromptResponse>,
        connection: ConnectionTo<ClientRole>,
    ) {
        match self.open_session(&request.session_id) {
            Ok(session) => session.prompt(request.prompt, responder),
            Err(error) => self.refuse(responder, error, connection),
        }
    }

    fn set_mode(
        self: &Arc<Self>,
        request: SetSessionModeRequest,
        responder: Responder<SetSessionModeResponse>,
        connection: ConnectionTo<ClientRole>,
    ) {
        match self.open_session(&request.session_id) {
            Ok(session) => session.set_mode(request.mode_id, responder),
            Err(error) => self.refuse(responder, error, connection),
        }
    }

    fn set_option(
        self: &Arc<Self>,
        request: SetSessionConfigOptionRequest,
        responder: Responder<SetSessionConfigOptionResponse>,
        connection: ConnectionTo<ClientRole>,
    ) {
        match self.open_session(&request.session_id) {
            Ok(session) => session.set_option(request, responder),
            Err(error) => self.refuse(responder, error, connection),
        }
    }

    fn refuse<T: JsonRpcResponse>(
        &self,
        responder: Responder<T>,
        error: Error,
        connection: ConnectionTo<ClientRole>,
    ) {
        match self.client(connection) {
            Ok(client) => client.respond(responder, Err(error)),
            Err(early) => {
                if let Err(error) = responder.respond_with_error(early) {
                    tracing::debug!(%error, "a client was not answered");
                }
            }
        }
    }

    /// Setting up a model is done in a terminal, so this only looks whether it was.
    async fn authenticate(
        self: &Arc<Self>,
        _client: &Client,
        request: AuthenticateRequest,
    ) -> Result<AuthenticateResponse, Error> {
        if &*request.method_id.0 != SETUP {
            return Err(error::invalid(format!(
                "there is no method '{}'",
                one_line(&request.method_id.0, NAME)
            )));
        }
        self.check_model().await?;
        Ok(AuthenticateResponse::new())
    }

    async fn check_model(self: &Arc<Self>) -> Result<(), Error> {
        let this = Arc::clone(self);
        let checked = tokio::task::spawn_blocking(move || this.workspaces.check_model()).await;
        let unusable = |error: NoModel| Error::new(ErrorCode::AUTH_REQUIRED, error.to_string());
        checked.map_err(|_| error::internal("the server is ending"))?.map_err(unusable)
    }

    async fn new_session(
        self: &Arc<Self>,
        client: &Client,
        request: NewSessionRequest,
    ) -> Result<(Opened, NewSessionResponse), Error> {
        self.check_model().await?;
        let workspace = self.workspace(client, &request.cwd, &request.additional_directories).await?;
        let task = workspace.engine.draw_id();
        let id = SessionId::new(task.as_str());
        let (session, Choices { modes, config }) = self.begin(client, workspace, task, Open::New).await?;
        let answer = NewSessionResponse::new(id).modes(modes).config_options(config);
        Ok((self.opened(session, &request.mcp_servers), answer))
    }

    async fn load_session(
        self: &Arc<Self>,
        client: &Client,
        request: LoadSessionRequest,
    ) -> Result<(Opened, LoadSessionResponse), Error> {
        let LoadSessionRequest { session_id, cwd, additional_directories, mcp_servers, .. } = request;
        let known = self.known(client, &session_id, &cwd, &additional_directories, Open::Load).await?;
        let (session, Choices { modes, config }) = known;
        let answer = LoadSessionResponse::new().modes(modes).config_options(config);
        Ok((self.opened(session, &mcp_servers), answer))
    }

    async fn resume_session(
        self: &Arc<Self>,
        client: &Client,
        request: ResumeSessionRequest,
    ) -> Result<(Opened, ResumeSessionResponse), Error> {
        let ResumeSessionRequest { session_id, cwd, additional_directories, mcp_servers, .. } = request;
        let known = self.known(client, &session_id, &cwd, &additional_directories, Open::Resume).await?;
        let (session, Choices { modes, config }) = known;
        let answer = ResumeSessionResponse::new().modes(modes).config_options(config);
        Ok((self.opened(session, &mcp_servers), answer))
    }

    async fn fork_session(
        self: &Arc<Self>,
        client: &Client,
        request: ForkSessionRequest,
    ) -> Result<(Opened, ForkSessionResponse), Error> {
        let workspace = self.workspace(client, &request.cwd, &request.additional_directories).await?;
        let task_id = task_of(&request.session_id)?;
        let params = TaskForkParams { task_id, seq: None, prompt: None, worktree: false };
        let forked =
            workspace.engine.begin_fork(&params).await.map_err(|error| error::from_engine(&error))?;
        let id = SessionId::new(forked.task_id.as_str());
        let (session, Choices { modes, config }) =
            self.begin(client, workspace, forked.task_id, Open::Resume).await?;
        let answer = ForkSessionResponse::new(id).modes(modes).config_options(config);
        Ok((self.opened(session, &request.mcp_servers), answer))
    }

    async fn list_sessions(
        self: &Arc<Self>,
        client: &Client,
        request: ListSessionsRequest,
    ) -> Result<ListSessionsResponse, Error> {
        let Some(cwd) = request.cwd else {
            // Folders that nobody has named are not searched.
            let mut sessions = Vec::new();
            for workspace in self.workspaces.all().await {
                let items = workspace.engine.list_all().await.map_err(|error| error::from_engine(&error))?;
                let mask = workspace.mask().await;
                sessions.extend(items.into_iter().map(|item| listed(&workspace, item, &mask)));
            }
            // Workspaces that begin with the same folder have the same requests.
            let mut known = HashSet::new();
            sessions.retain(|session: &SessionInfo| known.insert(session.session_id.clone()));
            sessions.sort_by(|one, other| other.updated_at.cmp(&one.updated_at));
            return Ok(ListSessionsResponse::new(sessions));
        };
        let workspace = self.workspaces.open(client, &cwd, &[]).await?;
        let page = workspace.engine.list(request.cursor).await.map_err(|error| error::from_engine(&error))?;
        let mask = workspace.mask().await;
        let sessions = page.items.into_iter().map(|item| listed(&workspace, item, &mask)).collect();
        Ok(ListSessionsResponse::new(sessions).next_cursor(page.next_cursor))
    }

    async fn close_session(
        self: &Arc<Self>,
        _client: &Client,
        request: CloseSessionRequest,
    ) -> Result<CloseSessionResponse, Error> {
        // Whoever opens it from now on gets one of its own.
        let session = self.sessions().remove(&request.session_id);
        let session = session.ok_or_else(|| error::no_session(&one_line(&request.session_id.0, NAME)))?;
        session.close().await;
        Ok(CloseSessionResponse::new())
    }

    async fn delete_session(
        self: &Arc<Self>,
        _client: &Client,
        request: DeleteSessionRequest,
    ) -> Result<DeleteSessionResponse, Error> {
        let task = task_of(&request.session_id)?;
        let mut is_deleted = false;
        for workspace in self.workspaces.all().await {
            match workspace.delete(&task).await {
                Ok(()) => is_deleted = true,
                Err(error) if error.code == ErrorCode::RESOURCE_NOT_FOUND => continue,
                // The session stays as it is, open or not.
                Err(error) => return Err(error),
            }
            break;
        }
        let open = self.sessions().remove(&request.session_id);
        match open {
            // Where nothing was said in it, nothing was kept of it.
            Some(session) => session.close().await,
            None if is_deleted => {}
            None => return Err(error::no_session(&one_line(&request.session_id.0, NAME))),
        }
        Ok(DeleteSessionResponse::new())
    }

    /// The workspace of a session, whose MCP servers start long before a request needs their tools.
    async fn workspace(
        &self,
        client: &Client,
        cwd: &Path,
        additional: &[PathBuf],
    ) -> Result<Arc<Workspace>, Error> {
        let workspace = self.workspaces.open(client, cwd, additional).await?;
        workspace.mcp.refresh_apart().await;
        Ok(workspace)
    }

    /// Opens a session that may be open here, or has a request.
    async fn known(
        self: &Arc<Self>,
        client: &Client,
        id: &SessionId,
        cwd: &Path,
        additional: &[PathBuf],
        how: Open,
    ) -> Result<(SessionHandle, Choices), Error> {
        let workspace = self.workspace(client, cwd, additional).await?;
        self.begin(client, workspace, task_of(id)?, how).await
    }

    /// Opens a session, or again the one that is open.
    async fn begin(
        self: &Arc<Self>,
        client: &Client,
        workspace: Arc<Workspace>,
        task: TaskId,
        how: Open,
    ) -> Result<(SessionHandle, Choices), Error> {
        let id = SessionId::new(task.as_str());
        let (session, is_new) = match self.sessions().entry(id) {
            Entry::Occupied(open) => {
                in_its_folders(&open.get().workspace, &workspace, open.key())?;
                (open.get().clone(), false)
            }
            // Known before it is open, so that nobody begins another one.
            Entry::Vacant(free) => {
                let session = SessionHandle::begin(client.clone(), workspace, task, self.ended.clone());
                (free.insert(session).clone(), true)
            }
        };
        let opened = session.open(how).await;
        if opened.is_err() && is_new {
            self.sessions().retain(|_, open| !open.is_same(&session));
            session.close().await;
        }
        opened.map(|choices| (session, choices))
    }

    /// An open session, with what its user should know of its folder and of what the client wants for it.
    fn opened(&self, session: SessionHandle, servers: &[McpServer]) -> Opened {
        let workspace = &session.workspace;
        let mut notices: Vec<String> =
            workspace.settings.newest().problems().map(ToString::to_string).take(PROBLEMS).collect();
        notices.extend(workspace.take_unresolved().iter().map(ToString::to_string));
        if let Some(what) = self.workspaces.directories().too_wide(workspace.folder()) {
            let folder = exact_line(&workspace.folder().to_string_lossy());
            notices.push(format!("The folder {folder} is {what}: agents work on all of it."));
        }
        let names: Vec<String> = servers.iter().filter_map(server_name).map(exact_line).collect();
        if !names.is_empty() {
            notices.push(format!(
                "The client's MCP servers ({}) are not started. `roo-lsp mcp add` adds a server for roo-lsp.",
                one_line(&names.join(", "), SERVERS)
            ));
        }
        Opened { session, notices }
    }
}

/// Refuses to open a session that is open in other folders: all that its agents do is done in those.
fn in_its_folders(open: &Arc<Workspace>, wanted: &Arc<Workspace>, id: &SessionId) -> Result<(), Error> {
    if Arc::ptr_eq(open, wanted) {
        return Ok(());
    }
    let id = one_line(&id.0, NAME);
    // Workspaces that begin with the same folder have the same requests.
    Err(match open.folder() == wanted.folder() {
        true => {
            error::invalid(format!("the session '{id}' is open with other folders beside; close it first"))
        }
        false => error::no_session(&id),
    })
}

/// A session that was opened.
struct Opened {
    session: SessionHandle,
    notices: Vec<String>,
}

fn server_name(server: &McpServer) -> Option<&str> {
    match server {
        McpServer::Http(server) => Some(&server.name),
        McpServer::Sse(server) => Some(&server.name),
        McpServer::Stdio(server) => Some(&server.name),
        _ => None,
    }
}

/// The request of a session.
fn task_of(id: &SessionId) -> Result<TaskId, Error> {
    let task = TaskId::new(&*id.0);
    match task.is_root() {
        true => Ok(task),
        false => Err(error::no_session(&one_line(&id.0, NAME))),
    }
}

fn listed(workspace: &Workspace, item: HistoryItem, mask: &Mask) -> SessionInfo {
    let updated = Timestamp::from_millisecond(item.updated_at).ok().map(|time| time.to_string());
    SessionInfo::new(SessionId::new(item.task_id.as_str()), workspace.folder().to_owned())
        .title(mask.masked(item.title))
        .updated_at(updated)
        .additional_directories(workspace.folders.get(1..).unwrap_or_default().to_vec())
}

fn auth_methods(in_terminal: bool) -> Vec<AuthMethod> {
    let mut methods = Vec::new();
    if in_terminal {
        let about = "Choose a provider and a model, and enter a key, by questions in a terminal";
        methods.push(AuthMethod::Terminal(
            AuthMethodTerminal::new(SETUP_IN_TERMINAL, "Set up a model")
                .description(about.to_owned())
                .args(vec!["--setup".to_owned()]),
        ));
    }
    let about = "Run `roo-lsp setup` in a terminal, then come back";
    methods.push(AuthMethod::Agent(
        AuthMethodAgent::new(SETUP, "Set up a model in a terminal").description(about.to_owned()),
    ));
    methods
}

fn initialized(auth_methods: Vec<AuthMethod>) -> InitializeResponse {
    let prompt = PromptCapabilities::new().image(true).embedded_context(true);
    let session = SessionCapabilities::new()
        .list(SessionListCapabilities::new())
        .delete(SessionDeleteCapabilities::new())
        .additional_directories(SessionAdditionalDirectoriesCapabilities::new())
        .fork(SessionForkCapabilities::new())
        .resume(SessionResumeCapabilities::new())
        .close(SessionCloseCapabilities::new());
    let capabilities =
        AgentCapabilities::new().load_session(true).prompt_capabilities(prompt).session_capabilities(session);
    InitializeResponse::new(ProtocolVersion::V1)
        .agent_capabilities(capabilities)
        .auth_methods(auth_methods)
        .agent_info(Implementation::new("roo-lsp", env!("CARGO_PKG_VERSION")).title("Roo".to_owned()))
}
