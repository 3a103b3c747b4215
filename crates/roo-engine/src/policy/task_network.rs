//! The network of a task's commands: a loopback that they share, so that a server of one is reached by the next, and a
//! proxy in it that lets them reach the hosts that the user and the task's intents allow.

use std::collections::VecDeque;
use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use roo_browser::WebHost;
use roo_formats::intents::Intent;
use roo_protocol::ids::Urid;
use roo_sandbox::egress::{
    Destination, Egress, EgressDecision, HostPattern, HostRules, InvalidHost, Loopback, Preset,
    ReportedDecisions, UpstreamProxies, Verdict,
};
use roo_sandbox::exec::sandbox::{PrivateNetwork, Sandbox};

/// The most tasks whose networks are kept while no command of theirs runs.
const MAX_IDLE_NETWORKS: usize = 16;

/// Names of the machine's loopback, before a port.
const LOOPBACK: &[&str] = &["127.0.0.1", "localhost", "[::1]"];

/// Hosts that a command may reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NetworkRules {
    /// None means no host.
    rules: HostRules,
    /// As they are written, for the question and to tell rules from others.
    pub(super) shown: Vec<String>,
    /// Key that tells them from other rules.
    key: String,
    /// Ports of the machine's loopback that are there in the command's as well.
    forwarded: Vec<u16>,
    /// True if they are those of this command alone.
    is_wanted: bool,
    /// True if intents narrow what the user allows.
    is_narrowed: bool,
}

impl NetworkRules {
    /// Returns the rules that the user's settings and all intents of a task allow. `wanted` says whether the command
    /// asks for the network by itself: then it reaches what the intents allow, or all public hosts where there is none.
    ///
    /// # Errors
    /// What is no host and no preset, and where it is written.
    pub(super) fn new(settings: &[String], intents: &[Intent], wanted: bool) -> Result<Self, String> {
        let any = ["any".to_owned()];
        let own: Vec<&String> = settings.iter().chain(any.iter().filter(|_| wanted)).collect();
        let rules = parse(own.iter().copied(), "sandbox.network")?;
        let key = format!("{own:?} {:?}", intents.iter().map(|intent| &intent.network).collect::<Vec<_>>());
        let within = |port: &u16| intents.iter().all(|intent| ports(&intent.network).contains(port));
        let mut forwarded = ports(settings);
        forwarded.retain(within);
        let Some((first, others)) = intents.split_first() else {
            let shown = own.into_iter().cloned().collect();
            return Ok(Self { rules, shown, key, forwarded, is_wanted: wanted, is_narrowed: false });
        };
        let hosts = |intent: &Intent| parse(&intent.network, &format!("network of {}", intent.id));
        let mut rules = if wanted { hosts(first)? } else { rules.narrowed_by(hosts(first)?) };
        for intent in others {
            rules = rules.narrowed_by(hosts(intent)?);
        }
        let shown = if wanted { first.network.clone() } else { settings.to_vec() };
        Ok(Self { rules, shown, key, forwarded, is_wanted: wanted, is_narrowed: true })
    }

    /// Adds hosts that the user has granted to all commands, where intents don't narrow them. A name counts for public
    /// addresses alone. Commands that run already reach them as well, but not ports of this machine: these are there in a new
    /// network only.
    ///
    /// # Errors
    /// What is no host.
    pub(super) fn with_granted(mut self, hosts: &[String]) -> Result<Self, String> {
        self.rules = self.rules.allow_public(&granted(hosts)?);
        let ports = self.forward(hosts);
        if !ports.is_empty() {
            self.key.push_str(&format!(" {ports:?}"));
        }
        Ok(self)
    }

    /// Forwards those of the hosts that are ports of this machine's loopback, where no intent stands against it. Returns what
    /// was not forwarded before.
    fn forward(&mut self, hosts: &[String]) -> Vec<u16> {
        let mut ports = if self.is_narrowed { vec![] } else { ports(hosts) };
        ports.retain(|port| !self.forwarded.contains(port));
        self.forwarded.extend(&ports);
        ports
    }

    /// Adds hosts that the user has granted to this command alone, which gives it a network of its own.
    ///
    /// # Errors
    /// What is no host.
    pub(super) fn with_own(mut self, hosts: &[String]) -> Result<Self, String> {
        if !hosts.is_empty() {
            self.key.push_str(&format!(" {hosts:?}"));
            self.rules = self.rules.allow_public(&granted(hosts)?);
            self.forward(hosts);
        }
        Ok(self)
    }

    /// Returns the hosts.
    pub(crate) fn hosts(&self) -> &HostRules {
        &self.rules
    }

    /// Returns whether what the user grants would count: no intent stands against it.
    pub(super) fn may_be_granted(&self) -> bool {
        !self.is_narrowed
    }

    /// Returns whether the command itself asks for the network.
    pub(super) fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// Returns whether no host may be reached.
    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

/// The destinations that pages of a host come from.
pub(super) fn destinations(host: &WebHost) -> Result<Vec<Destination>, InvalidHost> {
    let at = |port| Destination::parse(&format!("{}:{port}", host.host()), None);
    host.ports().into_iter().map(at).collect()
}

/// Adds a host whose pages the user lets a browser open. A name counts for public addresses alone, unless it is this
/// machine's own.
///
/// # Errors
/// What is no host.
pub(super) fn with_page_host(rules: HostRules, host: &WebHost) -> Result<HostRules, InvalidHost> {
    let add = |rules: HostRules, destination: &Destination| {
        let pattern = HostPattern::exactly(destination);
        match destination.is_loopback() {
            true => rules.allow(pattern),
            false => rules.allow_public([&pattern]),
        }
    };
    Ok(destinations(host)?.iter().fold(rules, add))
}

fn granted(hosts: &[String]) -> Result<Vec<HostPattern>, String> {
    let patterns = hosts.iter().map(|host| host.parse()).collect::<Result<_, _>>();
    patterns.map_err(|error| format!("a standing rule names {error}"))
}

fn parse<'a>(texts: impl IntoIterator<Item = &'a String>, place: &str) -> Result<HostRules, String> {
    texts.into_iter().try_fold(HostRules::default(), |rules, text| add(rules, text, place))
}

/// The ports of this machine's loopback that are named.
fn ports(texts: &[String]) -> Vec<u16> {
    let port = |text: &String| {
        let port = LOOPBACK.iter().find_map(|host| text.strip_prefix(host)?.strip_prefix(':'))?;
        port.parse().ok().filter(|port| *port != 0)
    };
    texts.iter().filter_map(port).collect()
}

fn add(rules: HostRules, text: &str, place: &str) -> Result<HostRules, String> {
    if let Some(preset) = Preset::named(text) {
        return Ok(rules.allow_public(&preset.hosts));
    }
    let pattern: HostPattern = text.parse().map_err(|error| format!("{place}: {error}"))?;
    Ok(rules.allow(pattern))
}

/// The networks of a workspace's tasks.
#[derive(Default)]
pub(super) struct TaskNetworks {
    /// Those that were used last stand at the end.
    known: Mutex<VecDeque<(NetworkOwner, String, Arc<Slot>)>>,
}

/// Whose commands share a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NetworkOwner {
    pub(super) request: Urid,
    /// The folder in which they run. Branches with work trees of their own run the same servers, each its own.
    pub(super) folder: Option<PathBuf>,
}

impl TaskNetworks {
    /// The network for a command, whose owner's commands reach these hosts from now on. Waits for a helper, so not for
    /// a thread of the runtime; within one, since a proxy is served there.
    ///
    /// # Errors
    /// When it can't be made, or the user's own proxy is of a kind that can't be used.
    pub(super) fn join(
        &self,
        owner: &NetworkOwner,
        rules: &NetworkRules,
        sandbox: &Sandbox,
    ) -> io::Result<Arc<TaskNetwork>> {
        // What was allowed for one command is no other's.
        if rules.is_wanted {
            return TaskNetwork::make(sandbox, rules).map(Arc::new);
        }
        let slot = self.slot(owner, rules);
        // Only who shares this network waits until it is made.
        let mut network = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(network) = network.as_ref().filter(|network| network.reach(&rules.rules)) {
            return Ok(Arc::clone(network));
        }
        let made = TaskNetwork::make(sandbox, rules)?;
        let made = Arc::new(TaskNetwork { loopback: made.loopback.shared(), ..made });
        *network = Some(Arc::clone(&made));
        Ok(made)
    }

    /// The place of an owner's network, which is used last from now on.
    fn slot(&self, owner: &NetworkOwner, rules: &NetworkRules) -> Arc<Slot> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.iter().position(|(known, key, _)| known == owner && *key == rules.key);
        let entry = found.and_then(|position| known.remove(position));
        let entry = entry.unwrap_or_else(|| (owner.clone(), rules.key.clone(), Arc::default()));
        let slot = Arc::clone(&entry.2);
        known.push_back(entry);
        if known.len() > MAX_IDLE_NETWORKS
            && let Some(idle) = known.iter().position(|(_, _, slot)| is_idle(slot))
        {
            known.remove(idle);
        }
        slot
    }
}

/// A network, once it is made.
type Slot = Mutex<Option<Arc<TaskNetwork>>>;

/// Returns whether no command uses a network, nor is about to.
fn is_idle(slot: &Arc<Slot>) -> bool {
    let is_unused = |network: &Option<Arc<TaskNetwork>>| {
        network.as_ref().is_none_or(|network| Arc::strong_count(network) == 1)
    };
    Arc::strong_count(slot) == 1 && slot.try_lock().is_ok_and(|network| is_unused(&network))
}

/// A network that commands share, and the proxy in it.
#[derive(Debug)]
pub struct TaskNetwork {
    /// Network that the commands join.
    pub loopback: PrivateNetwork,
    proxy: Option<Proxy>,
    _served: DropGuard,
}

/// Proxy that lets commands reach hosts, and notes which it refused.
#[derive(Debug)]
struct Proxy {
    port: u16,
    rules: watch::Sender<Arc<HostRules>>,
    refused: Mutex<mpsc::UnboundedReceiver<EgressDecision>>,
    reported: ReportedDecisions,
}

/// Forwards connections to a port of this machine's loopback, until it is dropped.
async fn forward(listener: std::net::TcpListener, port: u16) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (mut inner, _) = accepted?;
                connections.spawn(async move {
                    // Whoever connects sees the end of the connection.
                    if let Ok(mut outer) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
                        let _ = copy_bidirectional(&mut inner, &mut outer).await;
                    }
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

impl TaskNetwork {
    /// A network that is shared with nobody. Waits for a helper, so not for a thread of the runtime; within one.
    ///
    /// # Errors
    /// As [`TaskNetworks::join`].
    pub(super) fn make(sandbox: &Sandbox, rules: &NetworkRules) -> io::Result<Self> {
        Self::make_with(sandbox, rules, &rules.forwarded, None)
    }

    /// A network for one browser, whose proxy leads names of the loopback to these servers too.
    ///
    /// # Errors
    /// As [`Self::make`].
    pub(super) fn make_for_browser(
        sandbox: &Sandbox,
        rules: &NetworkRules,
        servers: Arc<dyn Loopback>,
    ) -> io::Result<Self> {
        // It reaches the machine's ports through the proxy.
        Self::make_with(sandbox, rules, &[], Some(servers))
    }

    fn make_with(
        sandbox: &Sandbox,
        rules: &NetworkRules,
        forwarded: &[u16],
        servers: Option<Arc<dyn Loopback>>,
    ) -> io::Result<Self> {
        let loopback = sandbox.private_network(forwarded)?;
        let served = CancellationToken::new();
        let runtime = tokio::runtime::Handle::current();
        let mut listeners = loopback.listeners()?.into_iter();
        let upstream = match UpstreamProxies::from_environment() {
            Ok(upstream) => Some(upstream),
            // Where no host may be reached it is not needed.
            Err(_) if rules.is_empty() => None,
            Err(error) => return Err(io::Error::other(error)),
        };
        let proxy = match listeners.next().zip(upstream) {
            Some((listener, upstream)) => {
                let port = listener.local_addr()?.port();
                let (report, decisions) = mpsc::unbounded_channel();
                let (rules, watched) = watch::channel(Arc::new(rules.rules.clone()));
                let mut egress = Egress::new(watched, report).with_upstream(upstream);
                if let Some(servers) = servers {
                    egress = egress.with_loopback(servers);
                }
                let (ended, reported) = (served.clone(), egress.reported());
                runtime.spawn(async move {
                    if let Err(error) = egress.serve(listener, ended).await {
                        tracing::warn!(%error, "the proxy of a task's commands has ended");
                    }
                });
                Some(Proxy { port, rules, refused: Mutex::new(decisions), reported })
            }
            None => None,
        };
        for (listener, port) in listeners.zip(forwarded.iter().copied()) {
            let ended = served.clone();
            runtime.spawn(async move {
                if let Some(Err(error)) = ended.run_until_cancelled(forward(listener, port)).await {
                    tracing::warn!(%error, port, "a port of this machine is no longer forwarded to commands");
                }
            });
        }
        Ok(Self { loopback, proxy, _served: served.drop_guard() })
    }

    /// Lets the commands reach what these rules allow, and nothing else. Reports whether that can be done.
    pub(super) fn reach(&self, rules: &HostRules) -> bool {
        match &self.proxy {
            Some(proxy) => {
                proxy.rules.send_replace(Arc::new(rules.clone()));
                true
            }
            None => rules.is_empty(),
        }
    }

    /// Returns the port of the proxy that reaches hosts for the commands; none where the user's own proxy can't be used
    /// and no host may be reached.
    pub(crate) fn proxy_port(&self) -> Option<u16> {
        self.proxy.as_ref().map(|proxy| proxy.port)
    }

    /// Returns the hosts that were refused since the last look, each once.
    pub fn refused(&self) -> Vec<EgressDecision> {
        let Some(proxy) = &self.proxy else { return vec![] };
        let mut refused = proxy.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let decisions = std::iter::from_fn(|| refused.try_recv().ok());
        let mut found: Vec<EgressDecision> = Vec::new();
        for decision in decisions.filter(|decision| decision.verdict == Verdict::Refused) {
            if !found.contains(&decision) {
                found.push(decision);
            }
        }
        // The next command that is refused one of them is told too.
        proxy.reported.forget();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_with_a_work_tree_shares_no_network_with_the_others() {
        let networks = TaskNetworks::default();
        let rules = NetworkRules::default();
        let slot = |folder: &str| {
            let request = Urid::new("20260102-03-04-abcdef01");
            networks.slot(&NetworkOwner { request, folder: Some(folder.into()) }, &rules)
        };
        let (one, other) = (slot("/w-1"), slot("/w-2"));
        assert!(!Arc::ptr_eq(&one, &other));
        assert!(Arc::ptr_eq(&one, &slot("/w-1")));
    }
}
