//! Starts servers' programs: in the sandbox, or as the user's own programs where there is none.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use roo_engine::customization::{Customization, McpServer};
use roo_engine::policy::{Bounds, ServerBounds, ServerSandbox, ServerSandboxRequest};
use roo_formats::config::SettingsSource;
use roo_formats::mcp::Level;
use roo_mcp::{
    AddressPolicy, Ended, LaunchError, LaunchRequest, LaunchedServer, PlainLauncher, ServerLauncher,
    ServerProcess,
};
use roo_sandbox::exec::Status;
use roo_workspace::Workspace;
use tokio::time::timeout;

use crate::confined_server::ConfinedServer;

/// Time limit for a program to end after its standard input was closed.
const GRACE: Duration = Duration::from_secs(2);

/// Starts programs of servers for one workspace.
pub(super) struct McpLauncher {
    bounds: Bounds,
    workspace: Arc<Workspace>,
    settings: Arc<dyn SettingsSource>,
    customization: Arc<Customization>,
}

impl McpLauncher {
    pub(super) fn new(
        bounds: Bounds,
        workspace: Arc<Workspace>,
        settings: Arc<dyn SettingsSource>,
        customization: Arc<Customization>,
    ) -> Self {
        Self { bounds, workspace, settings, customization }
    }

    /// The workspace folder; the user's home, or the root, where there is none.
    fn directory(&self) -> PathBuf {
        let root = self.workspace.roots().paths().next().map(PathBuf::from);
        root.or_else(|| std::env::var_os("HOME").map(PathBuf::from)).unwrap_or_else(|| PathBuf::from("/"))
    }

    async fn start(&self, request: &LaunchRequest) -> Result<LaunchedServer, LaunchError> {
        let level = match request.policy {
            AddressPolicy::User => Level::User,
            AddressPolicy::Workspace => Level::Workspace,
        };
        let (customization, source) = (Arc::clone(&self.customization), Arc::clone(&self.settings));
        let name = request.server.clone();
        let read = tokio::task::spawn_blocking(move || {
            (level == Level::User || is_approved(&customization, &name), source.settings())
        });
        let (may_run, settings) =
            read.await.map_err(|_| LaunchError::Other("roo-lsp is ending".to_owned()))?;
        if !may_run {
            return Err(LaunchError::Other(
                "it is not what you approved any more; approve it again with `roo-lsp trust --approve .roo/mcp.json`"
                    .to_owned(),
            ));
        }
        let workspace = &self.workspace;
        let folder = self.directory();
        let writable: Vec<PathBuf> = request.program.writable.iter().map(|path| folder.join(path)).collect();
        let wanted = ServerSandboxRequest {
            server: &request.server,
            level,
            workspace,
            settings: &settings,
            writable: &writable,
        };
        match self.bounds.server_sandbox(wanted).await {
            ServerSandbox::Refused(reason) => Err(LaunchError::Other(reason)),
            ServerSandbox::Unbounded => Err(LaunchError::Other(
                "a server of a workspace runs only in the sandbox, which is off or not there; see `sandbox.level`, or \
                 configure the server in your own mcp.json"
                    .to_owned(),
            )),
            ServerSandbox::Off(environment) => {
                let variables = environment.variables();
                let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
                PlainLauncher::new(variables, self.directory()).launch(request).await
            }
            ServerSandbox::On(bounds) => self.confined(request, bounds).await,
        }
    }

    async fn confined(
        &self,
        request: &LaunchRequest,
        bounds: Box<ServerBounds>,
    ) -> Result<LaunchedServer, LaunchError> {
        let program = &request.program;
        let directory = match &program.directory {
            Some(directory) => self.directory().join(directory),
            None => self.directory(),
        };
        if !directory.is_dir() {
            return Err(LaunchError::Directory(directory));
        }
        let argv: Vec<String> = std::iter::once(&program.command).chain(&program.args).cloned().collect();
        let environment = bounds.environment.clone().with(&program.env);
        let started = ConfinedServer::start(&argv, &directory, &environment, bounds);
        let (server, streams) = started.await.map_err(|error| LaunchError::Other(error.to_string()))?;
        let (stdout, stdin) = streams.socket.into_split();
        Ok(LaunchedServer {
            stdin: Box::new(stdin),
            stdout: Box::new(stdout),
            stderr: Box::new(streams.stderr),
            process: Box::new(server),
        })
    }
}

/// Returns whether a workspace's server is still approved. Its script may have changed while it ran, and it is started again
/// without anybody's doing when it crashes. Reads the disk.
fn is_approved(customization: &Customization, name: &str) -> bool {
    let is_it = |server: &McpServer| {
        server.configured.server.name == name && server.configured.level == Level::Workspace
    };
    customization.mcp_servers().into_iter().any(|server| is_it(&server) && server.is_approved)
}

impl ServerLauncher for McpLauncher {
    fn launch<'a>(
        &'a self,
        request: &'a LaunchRequest,
    ) -> BoxFuture<'a, Result<LaunchedServer, LaunchError>> {
        Box::pin(self.start(request))
    }
}

async fn ended(server: &mut ConfinedServer) -> Ended {
    match server.ended().await {
        Ok(Status::Code(code)) => Ended::Code(code),
        Ok(Status::Signal(signal)) => Ended::Signal(signal),
        Ok(_) | Err(_) => Ended::Unknown,
    }
}

impl ServerProcess for ConfinedServer {
    fn ended(&mut self) -> BoxFuture<'_, Ended> {
        Box::pin(ended(self))
    }

    fn end(self: Box<Self>) -> BoxFuture<'static, Ended> {
        Box::pin(async move {
            let mut server = *self;
            let how = timeout(GRACE, ended(&mut server)).await.unwrap_or(Ended::Unknown);
            // Whatever became of the program itself, what it started goes with it.
            server.end().await;
            how
        })
    }
}
