//! MCP servers for the engine: which of the configured ones run, their tools, and their calls.
//!
//! The servers themselves are connected by [`roo_mcp`]. Whether a workspace's may run is known to
//! [`roo_engine::customization`], what their programs may do to [`roo_engine::policy`], and whether a tool may be called is
//! decided there too.

mod descriptions;
mod elicitation;
mod files;
mod launcher;
mod logins;
mod prompts;
mod requests;
mod resources;
mod results;
mod stored_catalogs;
mod watched;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use roo_catalog::{Annotations, Object, ServerResources, ServerTool, ServerToolName};
use roo_engine::customization::{Customization, GLOBAL_MCP, McpServer};
use roo_engine::policy::Bounds;
use roo_engine::server_prompts::{ServerPrompt, ServerPrompts};
use roo_engine::server_tools::{CallingTask, KnownDescription, ServerAnswer, ServerToolError, ServerTools};
use roo_formats::config::{SandboxSettings, Settings, SettingsSource};
use roo_formats::mcp::{
    Access, Level, ResolveError, ResolvedServer, Server, Stdio, ToolNames, Transport, Variables,
};
use roo_mcp::{
    AddressPolicy, CallError, CallOptions, ClientIdentity, CompletionRequest, DesiredServer, DesiredState,
    Hub, HubServices, ServerCatalog, ServerStatus, Statuses, ToolDescription,
};
use roo_sandbox::exec::sandbox::Helper;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::descriptions::KnownDescriptions;
use self::files::ServerFiles;
pub(crate) use self::files::SwitchError;
use self::launcher::McpLauncher;
pub(crate) use self::logins::{LoginPlace, LoginTarget, Logins, LoginsError};
use self::requests::Requests;
use self::results::Origin;
use self::stored_catalogs::StoredCatalogs;
use self::watched::FilesState;
use crate::workspace_parts::WorkspaceParts;

/// The most bytes of descriptions and schemas of all tools together: they are a part of every request.
const BUDGET: usize = 96 << 10;
/// The longest description that a model gets, in bytes.
const DESCRIPTION: usize = 4 << 10;
/// Time limit for a server that is starting, where it is called. It has less to answer `initialize`.
const START: Duration = Duration::from_secs(90);
/// Time limit for a prompt or a resource that a message names. A server's `timeout` may be longer than a user waits for a turn to begin.
const PROMPT: Duration = Duration::from_secs(30);

/// The MCP servers of one workspace. Their programs end with [`ServerTools::shut_down`], or when this is dropped.
pub(crate) struct McpServers {
    hub: Hub,
    customization: Arc<Customization>,
    /// The workspace folder, for references to it.
    root: String,
    descriptions: KnownDescriptions,
    catalogs: Arc<StoredCatalogs>,
    files: ServerFiles,
    settings: Arc<dyn SettingsSource>,
    logins: Arc<Logins>,
    state: Mutex<State>,
}

struct State {
    statuses: watch::Receiver<Statuses>,
    /// As the hub was told last.
    configured: Vec<McpServer>,
    /// The settings with which it was told.
    sandbox: SandboxSettings,
    /// The states of the files of `watchPaths`, and of logins, with which it was told, by server.
    watched: BTreeMap<String, u64>,
    offered: Offered,
    /// True once what servers offer is being stored.
    is_followed: bool,
}

impl State {
    fn refresh_offered(&mut self, catalogs: &StoredCatalogs) {
        // Not borrowed meanwhile: whoever changes them may hold the lock of the catalogs.
        let statuses = self.statuses.borrow_and_update().clone();
        self.offered = offered(&statuses, |server| catalogs.catalog(server));
    }
}

/// The tools of all servers that are connected, and of those that are starting as they were last.
#[derive(Default)]
struct Offered {
    tools: Vec<Arc<ServerTool>>,
    /// Those that the budget has no place for.
    further: Vec<Arc<ServerTool>>,
    resources: Vec<ServerResources>,
}

/// A server as its user sees it.
pub(crate) struct ServerReport {
    pub name: String,
    pub level: Level,
    /// Program or address of the server.
    pub target: String,
    pub status: ServerStatus,
    /// Names of tools that are not offered, with the reason.
    pub left_out: Vec<(String, String)>,
}

impl McpServers {
    /// The servers of a workspace. None is started yet.
    pub(crate) fn new(parts: WorkspaceParts) -> Self {
        let WorkspaceParts { settings, workspace, customization, directory, directories } = parts;
        let root =
            workspace.roots().paths().next().map(|root| root.display().to_string()).unwrap_or_default();
        let folders = workspace.roots().paths().map(Path::to_path_buf).collect();
        let files = ServerFiles {
            user: directories.config.join(GLOBAL_MCP),
            workspace: workspace.roots().paths().next().map(Path::to_path_buf),
        };
        let logins = Arc::new(Logins::new(&directories));
        let bounds = Bounds::new(Helper::own(), directories, directory.path().to_owned());
        let bounded_by = Arc::clone(&settings);
        let launcher = McpLauncher::new(bounds, workspace, bounded_by, Arc::clone(&customization));
        let identity =
            ClientIdentity { name: "roo-lsp".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
        let services = HubServices::new(Arc::new(launcher), identity).with_folders(folders);
        let hub = Hub::new(services.with_credentials(Arc::clone(&logins) as _));
        let state = State {
            statuses: hub.statuses(),
            configured: vec![],
            sandbox: SandboxSettings::default(),
            watched: BTreeMap::new(),
            offered: Offered::default(),
            is_followed: false,
        };
        let descriptions = KnownDescriptions::new(directory.path().join("mcp-tools.json"));
        let catalogs = Arc::new(StoredCatalogs::new(directory.path().join("mcp-catalogs.json")));
        let state = Mutex::new(state);
        Self { hub, customization, root, descriptions, catalogs, files, settings, logins, state }
    }

    /// Reads configuration and settings if they have changed, and starts, ends and restarts what they say. Waits for no
    /// server. Not for the runtime's threads.
    pub(crate) fn refresh(&self) {
        // Servers live in a runtime.
        if Handle::try_current().is_err() {
            return;
        }
        let servers = self.customization.mcp_servers();
        if !servers.is_empty() {
            self.catalogs.read();
        }
        let watched = watched(&servers, &self.root, &self.logins);
        self.configure(servers, watched, &self.settings.settings());
    }

    /// The same for callers on the runtime's threads.
    pub(crate) async fn refresh_apart(&self) {
        let (customization, settings) = (Arc::clone(&self.customization), Arc::clone(&self.settings));
        let (root, logins) = (self.root.clone(), Arc::clone(&self.logins));
        let catalogs = Arc::clone(&self.catalogs);
        let read = move || {
            let servers = customization.mcp_servers();
            if !servers.is_empty() {
                catalogs.read();
            }
            let watched = watched(&servers, &root, &logins);
            (servers, watched, settings.settings())
        };
        // While the process ends nothing new begins.
        if let Ok((servers, watched, settings)) = tokio::task::spawn_blocking(read).await {
            self.configure(servers, watched, &settings);
        }
    }

    fn configure(&self, servers: Vec<McpServer>, watched: BTreeMap<String, u64>, settings: &Settings) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.configured != servers || state.sandbox != settings.sandbox || state.watched != watched {
            let files = |server: &McpServer| watched.get(&server.configured.server.name).copied();
            let desired = servers
                .iter()
                .map(|server| self.desired(server, files(server).unwrap_or_default(), &settings.sandbox));
            let desired: Vec<DesiredServer> = desired.collect();
            self.catalogs.configure(&servers, || self.hub.configure(desired));
            if !state.is_followed && !servers.is_empty() {
                state.is_followed = true;
                tokio::spawn(Arc::clone(&self.catalogs).follow(self.hub.statuses()));
            }
            state.configured = servers;
            state.watched = watched;
            state.sandbox = settings.sandbox.clone();
            // What is offered of a server that waits may have changed while its status has not.
            state.refresh_offered(&self.catalogs);
        }
    }

    fn desired(&self, known: &McpServer, files: u64, sandbox: &SandboxSettings) -> DesiredServer {
        let McpServer { configured, is_approved } = known;
        let (level, server) = (configured.level, &configured.server);
        let state = if server.disabled {
            DesiredState::Disabled
        } else if !is_approved {
            DesiredState::WaitingForApproval
        } else {
            match resolved(&configured.server, level, &self.root) {
                Ok(resolved) => DesiredState::Running {
                    credentials: logins::key(&resolved, level, &self.root),
                    server: Box::new(resolved),
                    policy: policy_of(level),
                    disabled_tools: server.disabled_tools.clone(),
                    sampling: configured.may_sample(),
                    // Before, models could not be told of its tools.
                    lazy: configured.server.lazy && self.catalogs.has(known),
                    prefers_initialize: self.catalogs.prefers_initialize(known),
                    sandbox: match server.transport {
                        Transport::Stdio(_) => Box::new(bounding(level, sandbox)),
                        Transport::StreamableHttp(_) | Transport::Sse(_) => Box::default(),
                    },
                    files,
                },
                Err(error) => DesiredState::Unusable(error.to_string()),
            }
        };
        DesiredServer { name: server.name.clone(), state }
    }

    /// Starts those of these servers that a call would start, waits until none is being started, or until the time is over, and
    /// reports the state of each server of the workspace. One that has failed while others were waited for is reported so,
    /// although it may be starting again.
    pub(crate) async fn settled(&self, servers: &[&str], limit: Duration) -> Vec<ServerReport> {
        let failures = join_all(servers.iter().map(async |server| {
            let mut failed = None;
            // At the limit there is what there is.
            let _ = tokio::time::timeout(limit, self.started(server, &mut failed)).await;
            failed
        }));
        let failures = servers.iter().zip(failures.await);
        let failures: BTreeMap<&str, ServerStatus> =
            failures.filter_map(|(server, failed)| Some((*server, failed?))).collect();
        let mut report = self.report();
        for server in report.iter_mut().filter(|server| matches!(server.status, ServerStatus::Starting)) {
            if let Some(failed) = failures.get(server.name.as_str()) {
                server.status = failed.clone();
            }
        }
        report
    }

    /// Starts a server that waits for its first call, or once one that waits for its restart after it failed, and waits
    /// until it is not being started any more. Returns its status then; none if there is no such server. `failed` becomes the
    /// last status in which it had failed.
    async fn started(&self, server: &str, failed: &mut Option<ServerStatus>) -> Option<ServerStatus> {
        let mut statuses = self.hub.statuses();
        let mut was_tried = false;
        loop {
            let status = statuses.borrow_and_update().get(server).cloned();
            if let Some(ServerStatus::Failed { .. } | ServerStatus::NeedsLogin(_)) = &status {
                failed.clone_from(&status);
            }
            match status {
                // Also where its configuration changed meanwhile.
                Some(ServerStatus::NotStarted) => self.hub.start(server).await,
                Some(ServerStatus::Starting) => {}
                Some(waiting) if !was_tried && waiting.starts_when_called() => {
                    was_tried = true;
                    self.hub.start(server).await;
                    continue;
                }
                status => return status,
            }
            if statuses.changed().await.is_err() {
                // Everything ends.
                return Some(ServerStatus::Starting);
            }
        }
    }

    /// Reports the state of each server.
    pub(crate) fn report(&self) -> Vec<ServerReport> {
        self.refresh();
        self.reported()
    }

    /// Reports the state of each server as it was configured when the files were read last.
    pub(crate) fn reported(&self) -> Vec<ServerReport> {
        let further = self.offered(|offered| offered.further.clone());
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let statuses = state.statuses.borrow().clone();
        let servers = state.configured.iter().filter_map(|McpServer { configured, .. }| {
            let name = configured.server.name.clone();
            let status = statuses.get(&name)?.clone();
            let rejected = status.catalog().into_iter().flat_map(|catalog| &catalog.rejected_tools);
            let further = further.iter().map(|tool| tool.name()).filter(|tool| tool.server() == name);
            let left_out = rejected
                .map(|tool| (tool.name.clone(), tool.reason.clone()))
                .chain(further.map(|tool| (tool.tool().to_owned(), further_reason())));
            let target = match &configured.server.transport {
                Transport::Stdio(stdio) => {
                    let words = std::iter::once(&stdio.command).chain(&stdio.args);
                    words.map(ToString::to_string).collect::<Vec<_>>().join(" ")
                }
                Transport::StreamableHttp(remote) | Transport::Sse(remote) => remote.url.to_string(),
            };
            Some(ServerReport { left_out: left_out.collect(), name, level: configured.level, target, status })
        });
        servers.collect()
    }

    /// Follows what [`Self::reported`] says.
    pub(crate) fn changes(&self) -> watch::Receiver<Statuses> {
        self.hub.statuses()
    }

    /// Returns the values that a server proposes for an argument that its user is writing. None where it fails, or is late:
    /// that is in its log. When this is dropped, the server is told that nobody waits.
    pub(crate) async fn complete(this: &Arc<Self>, server: String, wanted: CompletionRequest) -> Vec<String> {
        let (this, cancel) = (Arc::clone(this), CancellationToken::new());
        let options = CallOptions { cancel: cancel.clone(), ..CallOptions::default() };
        let _cancelled = cancel.drop_guard();
        let asked = tokio::spawn(async move { this.hub.complete(&server, &wanted, &options).await });
        asked.await.ok().and_then(Result::ok).map(|found| found.values).unwrap_or_default()
    }

    /// Ends a server and starts it again. Returns false if there is none that is to run.
    pub(crate) async fn restart(&self, server: &str) -> bool {
        self.hub.restart(server).await
    }

    /// Switches a server off or on in the file that configures it. Reads and writes the disk.
    ///
    /// # Errors
    /// See [`SwitchError`]; the file is then unchanged.
    pub(crate) fn switch(&self, server: &str, on: bool) -> Result<(), SwitchError> {
        let Some((level, _)) = self.level_of(server) else {
            return Err(SwitchError::Unknown(server.to_owned()));
        };
        self.files.switch(level, server, on)?;
        self.refresh();
        Ok(())
    }

    /// The last lines that a server wrote to standard error, and what went wrong with it.
    pub(crate) fn log(&self, server: &str) -> Vec<String> {
        let lines = self.hub.log(server).map(|log| log.lines()).unwrap_or_default();
        lines.into_iter().map(|line| line.text).collect()
    }

    /// Looks at what there is now.
    fn offered<T>(&self, look: impl FnOnce(&Offered) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.statuses.has_changed().unwrap_or_default() {
            state.refresh_offered(&self.catalogs);
        }
        look(&state.offered)
    }

    fn level_of(&self, server: &str) -> Option<(Level, ToolNames)> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let found = state.configured.iter().find(|known| known.configured.server.name == server)?;
        Some((found.configured.level, found.configured.always_allowed().clone()))
    }

    /// By what a tool's description is kept: the workspace's server of a name is another than the user's.
    fn key(&self, tool: &ServerToolName) -> String {
        match self.level_of(tool.server()) {
            Some((Level::User, _)) => format!("user {tool}"),
            _ => format!("workspace {tool}"),
        }
    }
}

/// A server with its references filled in. `root` is the workspace folder.
fn resolved(server: &Server, level: Level, root: &str) -> Result<ResolvedServer, ResolveError> {
    let access = match level {
        Level::User => Access::All,
        // What was approved names them.
        Level::Workspace => {
            Access::Granted(server.variables().into_iter().map(str::to_owned).collect::<BTreeSet<_>>())
        }
    };
    let environment = |name: &str| std::env::var(name).ok();
    let mut resolved =
        server.resolve(&Variables { environment: &environment, access: &access, workspace: root })?;
    if let (Level::Workspace, Transport::Stdio(stdio)) = (level, &mut resolved.transport) {
        // Only the user opens anything.
        stdio.writable.clear();
    }
    Ok(resolved)
}

/// The states of the files that servers name in `watchPaths`, and of logins to servers. Reads the disk.
fn watched(servers: &[McpServer], root: &str, logins: &Logins) -> BTreeMap<String, u64> {
    let state = |McpServer { configured, is_approved }: &McpServer| {
        let server = &configured.server;
        if server.disabled || !is_approved {
            return None;
        }
        if let Transport::Stdio(Stdio { watched, .. }) = &server.transport
            && watched.is_empty()
        {
            return None;
        }
        let resolved = resolved(server, configured.level, root).ok()?;
        let state = match &resolved.transport {
            Transport::Stdio(stdio) => FilesState::read(&stdio.watched, Path::new(root)).number(),
            Transport::StreamableHttp(_) | Transport::Sse(_) => {
                logins.made(&logins::key(&resolved, configured.level, root)?)
            }
        };
        Some((server.name.clone(), state))
    };
    servers.iter().filter_map(state).collect()
}

/// Returns the settings by which the sandbox of a server is made, without those that make no difference to it. It writes
/// nothing of the user's, so what commands may write is not among them; the rest is as in [`Bounds::server_sandbox`].
fn bounding(level: Level, settings: &SandboxSettings) -> SandboxSettings {
    let mut bounding = SandboxSettings { writable: vec![], signing_keys: vec![], ..settings.clone() };
    bounding.env.retain(|pattern| pattern.excludes());
    match level {
        Level::User => bounding.network.clear(),
        Level::Workspace => bounding.sockets.clear(),
    }
    bounding
}

fn policy_of(level: Level) -> AddressPolicy {
    match level {
        Level::User => AddressPolicy::User,
        Level::Workspace => AddressPolicy::Workspace,
    }
}

/// Reason for which a tool is not listed for models.
fn further_reason() -> String {
    format!(
        "all tools together take more than {} KiB of every request, so models have to search for it; disable some in \
         `disabledTools`",
        BUDGET >> 10
    )
}

/// The prompts of a server, as users write them.
pub(crate) fn prompts_of(catalog: &ServerCatalog) -> Vec<ServerPrompt> {
    catalog.prompts.iter().map(prompts::of_server).collect()
}

/// The tools and resources of the servers that are connected, in the order of their names, as far as the budgets go. Those
/// that are starting, or that a call starts, have what is `known` of them.
fn offered(statuses: &Statuses, known: impl Fn(&str) -> Option<ServerCatalog>) -> Offered {
    let catalogs = statuses.iter().filter_map(|(server, status)| {
        let catalog = match status {
            ServerStatus::Starting => Arc::new(known(server)?),
            status if status.starts_when_called() => Arc::new(known(server)?),
            status => Arc::clone(status.catalog()?),
        };
        Some((server.as_str(), catalog))
    });
    let catalogs: Vec<(&str, Arc<ServerCatalog>)> = catalogs.collect();
    let mut offered = Offered::default();
    let mut left = BUDGET;
    for (server, catalog) in &catalogs {
        let mut tools: Vec<&ToolDescription> = catalog.tools.iter().collect();
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        for described in tools {
            let Ok(name) = ServerToolName::new(server, &described.name) else { continue };
            let tool = tool_of(name, described);
            let size = tool.description().len() + tool.schema().to_string().len();
            match left.checked_sub(size) {
                Some(rest) => {
                    left = rest;
                    offered.tools.push(Arc::new(tool));
                }
                None => offered.further.push(Arc::new(tool)),
            }
        }
    }
    offered.resources = resources::offered(&catalogs);
    offered
}

fn tool_of(name: ServerToolName, described: &ToolDescription) -> ServerTool {
    // What can't be seen could hide words from the user that the model reads.
    let mut description = roo_text::render::visible(&described.description).into_owned();
    if description.len() > DESCRIPTION {
        description.truncate(description.floor_char_boundary(DESCRIPTION));
        description.push_str(" … (cut)");
    }
    let hints = described.hints;
    let annotations = Annotations {
        title: described.title.clone(),
        read_only: hints.read_only,
        destructive: hints.destructive,
        idempotent: hints.idempotent,
        open_world: hints.open_world,
    };
    let schema = Value::Object((*described.input_schema).clone());
    ServerTool::new(name, &description, schema, annotations)
}

impl ServerTools for McpServers {
    fn list(&self) -> Vec<Arc<ServerTool>> {
        self.refresh();
        self.offered(|offered| offered.tools.clone())
    }

    fn further(&self) -> Vec<Arc<ServerTool>> {
        self.offered(|offered| offered.further.clone())
    }

    fn tool<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Option<Arc<ServerTool>>> {
        Box::pin(async move {
            self.refresh_apart().await;
            self.offered(|offered| {
                let mut all = offered.tools.iter().chain(&offered.further);
                all.find(|tool| tool.is_named(name)).cloned()
            })
        })
    }

    fn refreshed(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.refresh_apart())
    }

    fn resources(&self) -> Vec<ServerResources> {
        self.offered(|offered| offered.resources.clone())
    }

    fn prompts(&self) -> BoxFuture<'_, Vec<ServerPrompts>> {
        Box::pin(async move {
            self.refresh_apart().await;
            prompts::offered(&self.hub.statuses().borrow())
        })
    }

    fn connected<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<(), ServerToolError>> {
        Box::pin(async move {
            let mut failed = None;
            let started = tokio::time::timeout(START, self.started(server, &mut failed)).await;
            match started.unwrap_or_else(|_| failed.or(Some(ServerStatus::Starting))) {
                None | Some(ServerStatus::Connected(_)) => Ok(()),
                Some(status) => Err(ServerToolError::Unreachable {
                    server: server.to_owned(),
                    reason: format!("it is {}", status.summary()),
                }),
            }
        })
    }

    fn starting(&self) -> Vec<String> {
        let statuses = self.hub.statuses();
        let statuses = statuses.borrow();
        let starting = statuses.iter().filter(|(_, status)| matches!(status, ServerStatus::Starting));
        starting.map(|(name, _)| name.clone()).collect()
    }

    fn always_allows(&self, tool: &ServerToolName) -> bool {
        self.level_of(tool.server()).is_some_and(|(_, allowed)| allowed.contains(tool.tool()))
    }

    fn known_description<'a>(&'a self, tool: &'a ServerTool) -> BoxFuture<'a, KnownDescription> {
        Box::pin(self.descriptions.of(self.key(tool.name()), tool))
    }

    fn keep_description<'a>(&'a self, tool: &'a ServerTool) -> BoxFuture<'a, ()> {
        Box::pin(self.descriptions.keep(self.key(tool.name()), tool))
    }

    fn shut_down(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // What has been connected within the last second is not stored yet.
            self.catalogs.store(&self.hub.statuses()).await;
            self.hub.shutdown().await;
        })
    }

    fn call<'a>(
        &'a self,
        tool: &'a ServerToolName,
        arguments: Object,
        cancel: &'a CancellationToken,
        task: &'a dyn CallingTask,
    ) -> BoxFuture<'a, Result<ServerAnswer, ServerToolError>> {
        Box::pin(async move {
            let (options, requests) = Requests::of_call(cancel);
            let call = self.hub.call_tool(tool.server(), tool.tool(), arguments, &options);
            match requests.answered_by(task, tool.server(), call).await {
                Ok(result) => Ok(results::answer(tool, result)),
                // An answer too.
                Err(error @ CallError::Refused { .. }) => {
                    Ok(ServerAnswer { failed: true, ..results::text(Origin::Tool(tool), &error.to_string()) })
                }
                Err(
                    CallError::UnknownServer { .. }
                    | CallError::UnknownTool { .. }
                    | CallError::DisabledTool { .. },
                ) => Err(ServerToolError::Gone(tool.clone())),
                Err(error) => Err(failure(tool.server(), error)),
            }
        })
    }

    fn read_resource<'a>(
        &'a self,
        server: &'a str,
        uri: &'a str,
        cancel: &'a CancellationToken,
        task: &'a dyn CallingTask,
    ) -> BoxFuture<'a, Result<ServerAnswer, ServerToolError>> {
        Box::pin(async move {
            let (options, requests) = Requests::of_call(cancel);
            let read = self.hub.read_resource(server, uri, &options);
            match requests.answered_by(task, server, read).await {
                Ok((contents, omitted)) => Ok(results::resource(server, uri, contents, omitted)),
                // An answer too.
                Err(error @ CallError::Refused { .. }) => Ok(ServerAnswer {
                    failed: true,
                    ..results::text(Origin::Resource { server, uri }, &error.to_string())
                }),
                Err(error) => Err(failure(server, error)),
            }
        })
    }

    fn get_prompt<'a>(
        &'a self,
        server: &'a str,
        prompt: &'a str,
        arguments: Object,
    ) -> BoxFuture<'a, Result<ServerAnswer, ServerToolError>> {
        Box::pin(async move {
            let options = CallOptions::default();
            let got = self.hub.get_prompt(server, prompt, arguments, &options);
            let got = tokio::time::timeout(PROMPT, got).await.map_err(|_| late(server))?;
            got.map(|(messages, omitted)| results::prompt(messages, omitted))
                .map_err(|error| failure(server, error))
        })
    }

    fn get_resource<'a>(
        &'a self,
        server: &'a str,
        uri: &'a str,
    ) -> BoxFuture<'a, Result<ServerAnswer, ServerToolError>> {
        Box::pin(async move {
            let options = CallOptions::default();
            let read = tokio::time::timeout(PROMPT, self.hub.read_resource(server, uri, &options)).await;
            let read = read.map_err(|_| late(server))?;
            read.map(|(contents, omitted)| results::attachment(contents, omitted))
                .map_err(|error| failure(server, error))
        })
    }
}

/// Error of a server that took longer than a message waits for it.
fn late(server: &str) -> ServerToolError {
    let reason = format!("it took longer than {} s", PROMPT.as_secs());
    ServerToolError::Unanswered { server: server.to_owned(), reason }
}

fn failure(server: &str, error: CallError) -> ServerToolError {
    let server = server.to_owned();
    let reason = error.to_string();
    match error {
        CallError::UnknownServer { .. }
        | CallError::NotConnected { .. }
        | CallError::Forbidden { .. }
        | CallError::SessionExpired { .. } => ServerToolError::Unreachable { server, reason },
        CallError::Cancelled { .. } => ServerToolError::Cancelled(server),
        _ => ServerToolError::Unanswered { server, reason },
    }
}

impl std::fmt::Debug for McpServers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpServers").field("hub", &self.hub).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_server_is_bound_by_the_settings_that_its_sandbox_is_made_of() {
        let of = |level, settings: Value| {
            bounding(level, &serde_json::from_value::<SandboxSettings>(settings).unwrap())
        };
        let plain = SandboxSettings::default();
        for (settings, user, workspace) in [
            (json!({ "level": "namespaces" }), true, true),
            (json!({ "readable": ["/p/.env"] }), true, true),
            (json!({ "env": ["!CI"] }), true, true),
            (json!({ "sockets": ["/run/db.sock"] }), true, false),
            (json!({ "network": ["cargo"] }), false, true),
            (json!({ "writable": ["/p"], "signingKeys": ["~/.ssh/id"], "env": ["CI"] }), false, false),
        ] {
            assert_eq!(of(Level::User, settings.clone()) != plain, user, "{settings}");
            assert_eq!(of(Level::Workspace, settings.clone()) != plain, workspace, "{settings}");
        }
    }
}
