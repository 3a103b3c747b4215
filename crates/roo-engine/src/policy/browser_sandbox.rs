//! The sandbox of a task's browser: it reads neither the workspace nor the user's files, writes a private directory alone,
//! and reaches through a proxy the hosts that its user allowed and what the request's own commands serve.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::bounds::Bounds;
use super::private_directory::{BROWSER_PREFIX, PrivateDirectory, PrivatePaths, TEMPORARY};
use super::task_network::{NetworkRules, TaskNetwork, destinations, with_page_host};
use crate::tool_run::{BackgroundCommands, BrowserNetwork};
use roo_browser::{HostAccess, WebHost};
use roo_formats::config::Settings;
use roo_sandbox::egress::{HostRules, Loopback};
use roo_sandbox::exec::sandbox::{Confinement, Network, Sandbox};
use roo_sandbox::exec::{Environment, EnvironmentRules};
use roo_workspace::Workspace;

/// Where a browser sees its private directory.
const PRIVATE: &str = "/tmp";
/// The most helpers of a browser that connect to servers of commands at a time. Each takes a thread.
const CONNECTING: usize = 8;

/// A browser that is to be confined.
pub(crate) struct BrowserSandboxRequest<'a> {
    pub(crate) workspace: &'a Arc<Workspace>,
    pub(crate) settings: &'a Settings,
    /// The hosts that it may reach, without those that its user allowed for it.
    pub(crate) rules: NetworkRules,
    /// The program, which stays visible, with the files beside it.
    pub(crate) program: &'a Path,
    /// The request's commands, whose servers it reaches.
    pub(crate) commands: Arc<BackgroundCommands>,
}

/// The bounds of a browser that runs. What was made for it is removed when they are dropped, which must be after its end.
pub(crate) struct BrowserBounds {
    /// Path by which the program is seen.
    pub(crate) program: PathBuf,
    pub(crate) sandbox: Sandbox,
    pub(crate) confinement: Confinement,
    pub(crate) environment: Environment,
    /// Directory for its profile, as it sees it.
    pub(crate) profile: PathBuf,
    /// Port of its proxy.
    pub(crate) proxy: u16,
    pub(crate) network: PageNetwork,
    _private: PrivateDirectory,
}

/// The network of a browser. It reaches the hosts of its rules, those that its user has allowed for it, and what the request's
/// commands serve.
#[derive(Clone)]
pub(crate) struct PageNetwork(Arc<Shared>);

struct Shared {
    network: TaskNetwork,
    hosts: Mutex<ReachedHosts>,
    commands: Arc<BackgroundCommands>,
}

struct ReachedHosts {
    rules: HostRules,
    /// Allowed by the user besides, as far as intents in the rules let them: also what the browser's pages may lead to.
    allowed: BTreeSet<WebHost>,
}

impl PageNetwork {
    fn new(network: TaskNetwork, rules: HostRules, commands: Arc<BackgroundCommands>) -> Self {
        let hosts = Mutex::new(ReachedHosts { rules, allowed: BTreeSet::new() });
        Self(Arc::new(Shared { network, hosts, commands }))
    }

    fn hosts(&self) -> MutexGuard<'_, ReachedHosts> {
        self.0.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the proxy go by these hosts from now on.
    fn reach(&self, ReachedHosts { rules, allowed }: &ReachedHosts) {
        match allowed.iter().try_fold(rules.clone(), with_page_host) {
            Ok(all) => {
                self.0.network.reach(&all);
            }
            Err(error) => tracing::warn!(%error, "a host can't be added to a browser's network"),
        }
    }
}

impl HostAccess for PageNetwork {
    fn allow(&self, host: WebHost) {
        let mut hosts = self.hosts();
        // Connections outlast what was allowed before.
        if hosts.allowed.insert(host) {
            self.reach(&hosts);
        }
    }

    fn allows(&self, host: &WebHost) -> bool {
        self.hosts().allowed.contains(host)
    }

    fn serves<'a>(&'a self, host: &'a WebHost) -> BoxFuture<'a, bool> {
        Box::pin(is_served(&self.0.commands, host))
    }
}

impl BrowserNetwork for PageNetwork {
    fn renew(&self, rules: &HostRules) {
        let mut hosts = self.hosts();
        // Connections outlast rules that are the same.
        if hosts.rules != *rules {
            hosts.rules = rules.clone();
            self.reach(&hosts);
        }
    }
}

/// Finds out whether commands of a request serve the pages of a host at this moment.
pub(super) async fn is_served(commands: &BackgroundCommands, host: &WebHost) -> bool {
    for destination in destinations(host).unwrap_or_default() {
        if destination.is_loopback() && commands.serving(destination.port).await.is_some() {
            return true;
        }
    }
    false
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
        let prepare = {
            let (program, private) = (program.to_owned(), self.private(&own));
            move || io::Result::Ok((program.canonicalize()?, PrivateDirectory::create(private)?))
        };
        let prepared = roo_durable::spawn_blocking(prepare).await.map_err(io::Error::other).flatten();
        let (real, directory) = prepared?;
        let confined = self.confined(workspace, settings, vec![], places, None, rules.clone()).await?;
        let mut confinement = confined.without_git();
        if confinement.temp.is_none() {
            return Err(io::Error::other(format!("{} can't be made", directory.path.display())));
        }
        confinement.sockets.clear();
        confinement.variables.clear();
        confinement.network = Network::Off;
        // A page that takes over the browser finds nothing of the user's.
        let folders = workspace.roots().paths().map(Path::to_path_buf);
        let private: Vec<PathBuf> = folders.chain(self.home()).collect();
        let is_covered = |path: &Path| private.iter().any(|place| path.starts_with(place));
        let needed = is_covered(&real).then(|| with_its_files(&real, &private));
        let program = if is_covered(program) { real } else { program.to_owned() };
        cover(&mut confinement, private);
        confinement.read_only.extend(needed);
        let sandbox = confined.sandbox.clone();
        let servers = Arc::new(CommandServers {
            commands: Arc::clone(&commands),
            sandbox: sandbox.clone(),
            room: Arc::new(Semaphore::new(CONNECTING)),
        });
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
            program,
            sandbox,
            confinement,
            environment,
            profile: within("profile"),
            proxy,
            network: PageNetwork::new(network, rules.hosts().clone(), commands),
            _private: directory,
        })
    }
}

/// The place that a program in a covered one needs: its directory, where the files lie that it comes with.
fn with_its_files(program: &Path, covered: &[PathBuf]) -> PathBuf {
    let directory = program.parent().filter(|directory| !covered.iter().any(|place| place == directory));
    directory.unwrap_or(program).to_owned()
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
    /// Room for helpers that connect.
    room: Arc<Semaphore>,
}

impl Loopback for CommandServers {
    fn connect(&self, port: u16) -> BoxFuture<'_, io::Result<Option<TcpStream>>> {
        Box::pin(async move {
            let command = self.commands.serving(port).await;
            let Some(network) = command.and_then(|command| command.handle.network().cloned()) else {
                return Ok(None);
            };
            let room = Arc::clone(&self.room).acquire_owned().await.map_err(io::Error::other)?;
            let sandbox = self.sandbox.clone();
            let connect = move || {
                let _room = room;
                sandbox.connect(&network, port)
            };
            let stream = roo_durable::spawn_blocking(connect).await.map_err(io::Error::other).flatten()?;
            stream.set_nonblocking(true)?;
            TcpStream::from_std(stream).map(Some)
        })
    }
}
