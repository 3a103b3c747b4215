//! The sandbox of MCP servers that are programs: they read what commands read, and write nothing but a private temporary
//! directory, a cache of their own, and what their user opens to them.
//!
//! Whether a server may be started at all is decided elsewhere; here is what it could do then.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::bounds::Bounds;
use super::links::{NameKind, follow};
use super::private_directory::{PrivateDirectory, PrivatePaths, SERVER_PREFIX, TEMPORARY};
use super::task_network::{NetworkRules, TaskNetwork};
use super::tool_configuration;
use roo_formats::config::{SandboxLevel, Settings};
use roo_formats::mcp::Level;
use roo_protocol::ids::Digest;
use roo_sandbox::changes::LeasedLayers;
use roo_sandbox::egress::proxy_environment;
use roo_sandbox::exec::sandbox::{Confinement, Network, Sandbox};
use roo_sandbox::exec::{Environment, EnvironmentRules};
use roo_workspace::Workspace;

/// MCP server that is to be confined, and the settings for it.
pub struct ServerSandboxRequest<'a> {
    /// Its name.
    pub server: &'a str,
    /// Owner of the server.
    pub level: Level,
    /// The workspace that it is started for.
    pub workspace: &'a Arc<Workspace>,
    /// The user's settings.
    pub settings: &'a Settings,
    /// Folders that it may write. Protected names in them stay closed.
    pub writable: &'a [PathBuf],
}

/// Confinement of a server's program.
pub enum ServerSandbox {
    /// Whatever its user may: the settings turn the sandbox off, or the machine has none and the settings allow that. It
    /// sees these variables.
    Off(Environment),
    /// Within these limits.
    On(Box<ServerBounds>),
    /// Nothing: it must not be started, as the sandbox is off or not there.
    Unbounded,
    /// Nothing: it must not be started, for this reason.
    Refused(String),
}

/// The bounds of a program that runs. What was made for it is removed when they are dropped, which must be after its end.
pub struct ServerBounds {
    /// Sandbox that enforces the limits.
    pub sandbox: Sandbox,
    /// The limits.
    pub confinement: Confinement,
    /// The variables that it sees.
    pub environment: Environment,
    _network: Option<TaskNetwork>,
    _layers: LeasedLayers,
    _private: PrivateDirectory,
}

impl Bounds {
    /// Makes the bounds of a server's program that is about to be started.
    pub async fn server_sandbox(&self, request: ServerSandboxRequest<'_>) -> ServerSandbox {
        let ServerSandboxRequest { level, workspace, settings, .. } = request;
        let left_out = settings.sandbox.env.iter().filter(|pattern| pattern.excludes()).cloned().collect();
        let environment = Environment::inherited_by(&EnvironmentRules::new(left_out));
        // A server's writes are in its own directories at once.
        let wanted = settings.sandbox.level.min(SandboxLevel::Namespaces);
        let roots: Vec<PathBuf> = workspace.roots().paths().map(Path::to_path_buf).collect();
        let is_bounded = match self.check(wanted, &roots).await {
            Err(error) => return ServerSandbox::Refused(error.to_string()),
            Ok(held) => held.is_some_and(|held| held.probe.active.is_some()),
        };
        match (is_bounded, level) {
            (true, _) => {}
            (false, Level::User) => return ServerSandbox::Off(environment),
            (false, Level::Workspace) => return ServerSandbox::Unbounded,
        }
        match self.server_bounds(request, environment).await {
            Ok(bounds) => ServerSandbox::On(Box::new(bounds)),
            Err(error) => ServerSandbox::Refused(format!("its bounds can't be made: {error}")),
        }
    }

    async fn server_bounds(
        &self,
        request: ServerSandboxRequest<'_>,
        environment: Environment,
    ) -> io::Result<ServerBounds> {
        let ServerSandboxRequest { server, level, workspace, settings, writable } = request;
        // Of the workspace's server of a name nothing gets to the user's of the same name.
        let key: String = Digest::of(format!("{level:?} {server}")).hex().chars().take(16).collect();
        let own = Path::new(TEMPORARY).join(format!("{SERVER_PREFIX}{}", uuid::Uuid::new_v4()));
        let places = PrivatePaths { temp: own.join("tmp"), cache: PathBuf::from("cache-mcp").join(&key) };
        let prepare = {
            let (writable, private) = (writable.to_vec(), self.private(&own));
            let roots: Vec<PathBuf> = workspace.roots().paths().map(Path::to_path_buf).collect();
            let by_commands = settings.sandbox.writable.clone();
            move || {
                io::Result::Ok((opened(&writable, roots, &by_commands)?, PrivateDirectory::create(private)?))
            }
        };
        let prepared = roo_durable::spawn_blocking(prepare).await.map_err(io::Error::other).flatten();
        let (opened, directory) = prepared?;
        let rules = match level {
            Level::User => NetworkRules::default(),
            Level::Workspace => {
                NetworkRules::new(&settings.sandbox.network, &[], false).map_err(io::Error::other)?
            }
        };
        let confined = self.confined(workspace, settings, opened, places, None, rules.clone()).await?;
        if !writable.is_empty() && !confined.sandbox.probe().holds_within_grants() {
            let reason = "what it may write can't be opened to it without namespaces, as protected files in there would be open too";
            return Err(io::Error::other(reason));
        }
        let mut confinement = confined.without_git();
        if confinement.temp.is_none() {
            return Err(io::Error::other(format!("{} can't be made", directory.path.display())));
        }
        match level {
            // The user's own programs reach what the user reaches.
            Level::User => confinement.network = Network::On,
            // Sockets are opened to the user's commands, not to what a workspace brings.
            Level::Workspace => confinement.sockets.clear(),
        }
        let (sandbox, area) = (confined.sandbox.clone(), self.layers_of_server(&format!("mcp-{key}")));
        let has_own_network = level == Level::Workspace && sandbox.probe().holds_within_grants();
        let make = move || {
            let overlays = confined.overlays();
            let layers = LeasedLayers::lease(&area, &overlays.layered)?;
            let substituted = directory.path.join("configuration");
            fs::create_dir_all(&substituted)?;
            let substitutes = tool_configuration::substitutes(&overlays.configuration, &substituted)?;
            let network =
                has_own_network.then(|| TaskNetwork::make(&confined.sandbox, &rules)).transpose()?;
            io::Result::Ok((layers, substitutes, network, directory))
        };
        let made = roo_durable::spawn_blocking(make).await.map_err(io::Error::other).flatten();
        let (layers, substitutes, network, directory) = made?;
        confinement.staged.extend(layers.layers().iter().cloned());
        confinement.substitutes.extend(substitutes);
        let mut environment = environment;
        if let Some(network) = &network {
            confinement.loopback = Some(network.loopback.clone());
            if let Some(port) = network.proxy_port() {
                let present =
                    |name: &str| environment.get(name).map(|value| value.to_string_lossy().into_owned());
                let proxy = proxy_environment(port, present);
                environment = environment.with(&proxy);
            }
        }
        Ok(ServerBounds {
            sandbox,
            confinement,
            environment,
            _network: network,
            _layers: layers,
            _private: directory,
        })
    }
}

/// The real paths of what the user opens to a server, of whose workspace these are the roots. Reads the disk.
fn opened(writable: &[PathBuf], roots: Vec<PathBuf>, by_commands: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    // Where commands may write, they may put links.
    let by_commands = by_commands.iter().flat_map(|path| path.canonicalize());
    let of_agents: Vec<PathBuf> = roots.into_iter().chain(by_commands).collect();
    let of_agents: Vec<&Path> = of_agents.iter().map(PathBuf::as_path).collect();
    let without_links = |path: &PathBuf| {
        let told = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        without_links(path, &of_agents).map_err(told)
    };
    writable.iter().map(without_links).collect()
}

/// The real path of what the user opens to a server. Links lead there as far as the user has made them: one below a
/// directory that agents write is refused, as it would open whatever place an agent, or the workspace, chose.
fn without_links(path: &Path, of_agents: &[&Path]) -> io::Result<PathBuf> {
    follow(path, |name, kind| match kind {
        NameKind::Unknown(error) => Err(error),
        NameKind::Link if of_agents.iter().any(|directory| name.starts_with(directory)) => {
            Err(io::Error::other("the path goes through a symbolic link that an agent could change"))
        }
        NameKind::Link | NameKind::Other => Ok(()),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_a_user_opens_to_a_server_is_reached_by_no_link_that_an_agent_could_make() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        for path in ["work/docs/a", "work/sub", "outside/a"] {
            fs::create_dir_all(top.join(path)).unwrap();
        }
        symlink("../outside", top.join("work/out")).unwrap();
        symlink("docs", top.join("work/inner")).unwrap();
        symlink(top.join("work"), top.join("project")).unwrap();
        symlink("project/out", top.join("chosen")).unwrap();
        let root = top.join("work");
        let opened = |path: &str| without_links(&top.join(path), &[&root]).map_err(|error| error.to_string());
        for (path, real) in [
            ("work/docs", "work/docs"),
            ("work/./docs/../docs/a", "work/docs/a"),
            ("outside", "outside"),
            // The user's own link to the workspace.
            ("project/docs", "work/docs"),
            ("project", "work"),
        ] {
            assert_eq!(opened(path), Ok(top.join(real)), "{path}");
        }
        for path in ["work/out", "work/out/a", "work/inner/a", "work/inner/../sub", "project/out", "chosen"] {
            let refused = opened(path).unwrap_err();
            assert!(refused.contains("goes through a symbolic link"), "{path}: {refused}");
        }
        assert!(opened("work/none").is_err());
        symlink("loop", top.join("loop")).unwrap();
        assert!(opened("loop").unwrap_err().contains("too many"));
    }
}
