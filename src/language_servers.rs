//! Language servers for the engine: which there are, and how their programs are started.
//!
//! A server runs what a workspace brings (build scripts, plugins), so its bounds are those of a workspace's MCP server: only
//! in a trusted workspace, only in the sandbox, writing nothing there but a cache of its own, and without network but for `sandbox.network`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use roo_engine::customization::Customization;
use roo_engine::policy::{Bounds, ServerSandbox, ServerSandboxRequest};
use roo_formats::config::{SandboxLevel, Settings, SettingsSource};
use roo_formats::mcp::Level;
use roo_language_servers::{
    InstalledServer, LanguageServers, LaunchedServer, Launcher, ServerProcess, installed,
};
use roo_sandbox::exec::sandbox::Helper;
use roo_workspace::Workspace;

use crate::confined_server::ConfinedServer;
use crate::workspace_parts::WorkspaceParts;

/// The installed language servers of a workspace. None is started by that. Reads the disk.
pub(crate) fn language_servers(parts: &WorkspaceParts) -> LanguageServers {
    let WorkspaceParts { settings, workspace, customization, directory, directories } = parts.clone();
    let folders: Vec<PathBuf> = workspace.roots().paths().map(Path::to_path_buf).collect();
    let installed = installed(&folders, &std::env::var_os("PATH").unwrap_or_default());
    if installed.is_empty() {
        return LanguageServers::none();
    }
    let bounds = Bounds::new(Helper::own(), directories, directory.path().to_owned());
    LanguageServers::new(
        &folders,
        installed,
        Arc::new(LanguageServerLauncher { bounds, workspace, settings, customization }),
    )
}

/// Starts language servers in the sandbox.
struct LanguageServerLauncher {
    bounds: Bounds,
    workspace: Arc<Workspace>,
    settings: Arc<dyn SettingsSource>,
    customization: Arc<Customization>,
}

impl LanguageServerLauncher {
    async fn start(&self, server: &InstalledServer) -> Result<LaunchedServer, String> {
        let Some(folder) = self.workspace.roots().paths().next().map(Path::to_path_buf) else {
            return Err("there is no workspace folder".to_owned());
        };
        let (customization, source) = (Arc::clone(&self.customization), Arc::clone(&self.settings));
        let read = move || {
            let settings = source.settings();
            (may_launch(&customization, &settings), settings)
        };
        let read = tokio::task::spawn_blocking(read).await;
        let (may_launch, settings) = read.map_err(|_| "roo-lsp is ending".to_owned())?;
        if !may_launch {
            return Err("the workspace is not trusted, or the sandbox is off".to_owned());
        }
        let name = format!("language-server/{}", server.name);
        let workspace = &self.workspace;
        let wanted = ServerSandboxRequest {
            server: &name,
            level: Level::Workspace,
            workspace,
            settings: &settings,
            writable: &[],
        };
        let bounds = match self.bounds.server_sandbox(wanted).await {
            ServerSandbox::On(bounds) => bounds,
            ServerSandbox::Off(_) | ServerSandbox::Unbounded => {
                return Err("language servers run only in the sandbox, which this machine lacks".to_owned());
            }
            ServerSandbox::Refused(reason) => return Err(reason),
        };
        let program = server.program.to_string_lossy().into_owned();
        let argv: Vec<String> =
            std::iter::once(program).chain(server.args.iter().map(|&arg| arg.to_owned())).collect();
        let cache = bounds.confinement.cache.clone();
        let environment = bounds.environment.clone();
        let started = ConfinedServer::start(&argv, &folder, &environment, bounds).await;
        let (process, streams) = started.map_err(|error| error.to_string())?;
        let (stdout, stdin) = streams.socket.into_split();
        Ok(LaunchedServer {
            stdin: Box::new(stdin),
            stdout: Box::new(stdout),
            stderr: Box::new(streams.stderr),
            cache,
            process: Box::new(process),
        })
    }
}

/// Returns whether the workspace is trusted and the sandbox is on. Reads the disk.
fn may_launch(customization: &Customization, settings: &Settings) -> bool {
    customization.is_trusted() && settings.sandbox.level != SandboxLevel::Off
}

impl Launcher for LanguageServerLauncher {
    fn may_launch(&self) -> bool {
        may_launch(&self.customization, &self.settings.settings())
    }

    fn launch<'a>(&'a self, server: &'a InstalledServer) -> BoxFuture<'a, Result<LaunchedServer, String>> {
        Box::pin(self.start(server))
    }
}

impl ServerProcess for ConfinedServer {
    fn end(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin((*self).end())
    }
}
