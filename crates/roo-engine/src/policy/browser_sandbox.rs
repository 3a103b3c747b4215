//! The sandbox of a task's browser: it reads neither the workspace nor the user's files, writes a private directory alone,
//! and reaches through a proxy the hosts that its user allowed and what the request's own commands serve.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use tokio::net::TcpStream;

use super::bounds::Bounds;
use super::private_directory::{BROWSER_PREFIX, PrivateDirectory, PrivatePaths, TEMPORARY};
use super::task_network::{NetworkRules, TaskNetwork};
use crate::tool_run::BackgroundCommands;
use roo_browser::WebHost;
use roo_formats::config::Settings;
use roo_sandbox::egress::Loopback;
use roo_sandbox::exec::sandbox::{Confinement, Network, Sandbox};
use roo_sandbox::exec::{Environment, EnvironmentRules};
use roo_workspace::Workspace;

/// Where a browser sees its private directory.
const PRIVATE: &str = "/tmp";

/// A browser that is to be confined.
pub(crate) struct BrowserSandboxRequest<'a> {
    pub(crate) workspace: &'a Arc<Workspace>,
    pub(crate) settings: &'a Settings,
    /// The hosts that it may reach, without those that its user allowed for it.
    pub(crate) rules: NetworkRules,
    /// The program, which stays visible.
    pub(crate) program: &'a Path,
    /// The request's commands, whose servers it reaches.
    pub(crate) commands: Arc<BackgroundCommands>,
}

/// The bounds of a browser that runs. What was made for it is removed when they are dropped, which must be after its end.
pub(crate) struct BrowserBounds {
    pub(crate) sandbox: Sandbox,
    pub(crate) confinement: Confinement,
    pub(crate) environment: Environment,
    /// Directory for its profile, as it sees it.
    pub(crate) profile: PathBuf,
    /// Port of its proxy.
    pub(crate) proxy: u16,
    pub(crate) network: BrowserNetwork,
    _private: PrivateDirectory,
}

/// The network of a browser, for who allows it one more host.
#[derive(Clone)]
pub(crate) struct BrowserNetwork(Arc<(TaskNetwork, Mutex<NetworkRules>)>);

impl BrowserNetwork {
    /// Lets the browser reach a host.
    pub(crate) fn allow(&self, host: &WebHost) {
        let (network, rules) = &*self.0;
        let mut rules = rules.lock().unwrap_or_else(PoisonError::into_inner);
        match rules.clone().with_page_host(host) {
            Ok(wider) => {
                network.reach(&wider);
                *rules = wider;
            }
            Err(problem) => tracing::warn!(%host, problem, "a browser can't be let reach a host"),
        }
    }
}

impl Bounds {
    /// Returns the reason why no browser can be confined here; none where one can.
    pub(crate) async fn no_browser_sandbox(&self) -> Option<String> {
        let probe = self.sandbox().await.probe();
        (!probe.holds_within_grants()).then(|| {
            "a browser runs only in the sandbox of commands with namespaces, which this machine lacks (`roo-lsp doctor` \
             tells why)"
                .to_owned()
        })
    }

    /// Makes the bounds of a browser that is about to be started.
    pub(crate) async fn browser_sandbox(
        &self,
        request: BrowserSandboxRequest<'_>,
    ) -> io::Result<BrowserBounds> {
        let BrowserSandboxRequest { workspace, settings, rules, program, commands } = request;
        let own = Path::new(TEMPORARY).join(format!("{BROWSER_PREFIX}{}", uuid::Uuid::new_v4()));
        let places = PrivatePaths { temp: own.join("tmp"), cache: own.join("cache") };
        let directory = PrivateDirectory::create(self.private(&own))?;
        let confined = self.confined(workspace, settings, vec![], places, None, rules.clone()).await?;
        let mut confinement = confined.without_git();
        if confinement.temp.is_none() {
            return Err(io::Error::other(format!("{} can't be made", directory.path.display())));
        }
        confinement.sockets.clear();
        confinement.variables.clear();
        confinement.network = Network::Off;
        // A page that takes over the browser finds nothing of the user's.
        let program = program.canonicalize()?;
        let folders = workspace.roots().paths().map(Path::to_path_buf);
        let private = folders.chain(self.home()).filter(|place| !program.starts_with(place));
        cover(&mut confinement, private.collect());
        let sandbox = confined.sandbox.clone();
        let servers = Arc::new(CommandServers { commands, sandbox: sandbox.clone() });
        let make = {
            let (sandbox, rules) = (sandbox.clone(), rules.clone());
            move || TaskNetwork::make_for_browser(&sandbox, &rules, servers)
        };
        let network = roo_durable::spawn_blocking(make).await.map_err(io::Error::other).flatten()?;
        let Some(proxy) = network.proxy_port() else {
            return Err(io::Error::other("the proxy that your environment names can't be used"));
        };
        confinement.loopback = Some(network.loopback.clone());
        let within = |name: &str| Path::new(PRIVATE).join(name);
        let variables = [
            ("HOME", PRIVATE),
            ("TMPDIR", PRIVATE),
            ("XDG_CONFIG_HOME", PRIVATE),
            ("XDG_CACHE_HOME", PRIVATE),
        ];
        let variables: BTreeMap<String, String> =
            variables.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let environment = Environment::inherited_by(&EnvironmentRules::default()).with(&variables);
        Ok(BrowserBounds {
            sandbox,
            confinement,
            environment,
            profile: within("profile"),
            proxy,
            network: BrowserNetwork(Arc::new((network, Mutex::new(rules)))),
            _private: directory,
        })
    }
}

/// Hides places with all that is in them.
fn cover(confinement: &mut Confinement, places: Vec<PathBuf>) {
    let is_outside = |path: &PathBuf| !places.iter().any(|place| path.starts_with(place));
    // What is covered has no places of its own any more.
    for inner in [
        &mut confinement.writable,
        &mut confinement.read_only,
        &mut confinement.hidden,
        &mut confinement.visible,
    ] {
        inner.retain(is_outside);
    }
    confinement.cache = None;
    confinement.hidden.extend(places);
}

/// The servers among the commands of a request.
struct CommandServers {
    commands: Arc<BackgroundCommands>,
    sandbox: Sandbox,
}

impl Loopback for CommandServers {
    fn listens_at(&self, port: u16) -> bool {
        self.commands.serving(port).is_some()
    }

    fn connect(&self, port: u16) -> BoxFuture<'_, io::Result<TcpStream>> {
        let network = self.commands.serving(port).and_then(|command| command.handle.network().cloned());
        let sandbox = self.sandbox.clone();
        Box::pin(async move {
            let network = network.ok_or(io::ErrorKind::ConnectionRefused)?;
            let connect = move || sandbox.connect(&network, port);
            let stream = roo_durable::spawn_blocking(connect).await.map_err(io::Error::other).flatten()?;
            stream.set_nonblocking(true)?;
            TcpStream::from_std(stream)
        })
    }
}
