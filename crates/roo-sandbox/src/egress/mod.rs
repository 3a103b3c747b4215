//! The filtering proxy by which sandboxed commands reach the network.
//!
//! A command has a network namespace with nothing but a private loopback. A listener that was made in there is
//! served from here, outside: HTTP (CONNECT, and plain requests in absolute form) and SOCKS5 on one port. Each
//! destination is checked by [`HostRules`], its addresses are checked once more, and exactly those are connected to.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use roo_sandbox::egress::{Egress, HostRules, Preset, UpstreamProxies, proxy_environment};
//! use tokio::sync::{mpsc, watch};
//! use tokio_util::sync::CancellationToken;
//!
//! # async fn example(listener: std::net::TcpListener) -> Result<(), Box<dyn std::error::Error>> {
//! let cargo = Preset::named("cargo").ok_or("no such preset")?;
//! let rules = HostRules::default().allow("git.example.com:22".parse()?).allow_public(&cargo.hosts);
//! let (rules, watched) = watch::channel(Arc::new(rules));
//! let (report, mut decisions) = mpsc::unbounded_channel();
//! let variables = proxy_environment(listener.local_addr()?.port(), |_| None);
//! let egress = Egress::new(watched, report).with_upstream(UpstreamProxies::from_environment()?);
//! let cancel = CancellationToken::new();
//! let served = tokio::spawn(egress.serve(listener, cancel.clone()));
//! // Run the command with these variables. New rules apply to its next request:
//! rules.send_replace(Arc::new(HostRules::default().allow("any:443".parse()?)));
//! // The command has ended.
//! cancel.cancel();
//! let summary = served.await??;
//! while let Some(decision) = decisions.recv().await {
//!     let text = format!("{:?} {}:{}: {}", decision.verdict, decision.host, decision.port, decision.reason);
//!     # drop(text);
//! }
//! # drop((variables, summary));
//! # Ok(())
//! # }
//! ```
//!
//! - **Listener**: [`Egress::serve`] takes any bound [`std::net::TcpListener`]. One that was made in another network
//!   namespace stays in it, so that only the command can connect; destinations are reached from this process's own
//!   namespace. Set close-on-exec on a listener that was received from another process.
//! - **Rules**: [`HostRules::allow`] takes what the user wrote or granted, [`HostRules::allow_public`] the hosts of a
//!   [`Preset`], [`HostRules::narrowed_by`] intersects two sets. Without a rule nothing is reached. Rules can change
//!   while a proxy is served: established tunnels stay, each further request is checked by the new rules.
//! - **Variables**: [`proxy_environment`] has those by which programs find the proxy.
//! - **End**: cancel the token. `serve` returns when every connection has ended, with an [`EgressSummary`]. Dropping its
//!   future cancels the connections too, without waiting for them.
//! - **Reports**: each [`EgressDecision`] has host, port, verdict, reason, and for a refusal the rules that would allow it
//!   ([`EgressDecision::grant`]). Each destination is reported once for each verdict, not once for each connection, at
//!   the moment of the first decision, and once more after [`ReportedDecisions::forget`]; at most 1,000 until then, the
//!   rest is counted in the summary. The channel closes when `serve` returns. A refused program gets the reason and these rules as an HTTP response (403), and by
//!   SOCKS5 an error code.
//!
//! TLS is not decrypted, so a request to another site on an allowed server is not noticed. A lookup that is under way
//! when the proxy is cancelled ends by itself in the background. The policy for a command is made in
//! `roo_engine::policy`, its namespace in [`crate::exec::sandbox`].

mod activity;
mod address;
mod connect;
mod decision;
mod host;
mod http;
mod loopback;
mod preset;
mod rules;
mod socks;
#[cfg(test)]
mod tests;
mod tunnel;
mod upstream;

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::header::HeaderValue;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, BufReader};
use tokio::net::TcpListener;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use address::{AddressClass, address_class, is_this_machine, name_class};
pub use connect::{Resolve, SystemResolver};
pub use decision::{EgressDecision, ReportedDecisions, Verdict};
pub use host::{Destination, Host, InvalidHost};
pub use loopback::Loopback;
pub use preset::{Preset, presets, proxy_environment};
pub use rules::{HostPattern, HostRules, InvalidPattern, Reason};
pub use upstream::{UnusableProxy, UpstreamProxies};

use activity::{Activity, ActivityStream};
use connect::{ConnectError, allowed_addresses, connect};
use decision::Decisions;
use upstream::{Outbound, Traffic, UpstreamProxy};

/// The setting that a refusal points to.
pub(crate) const NETWORK_SETTING: &str = "sandbox.network";

/// Time limit of a local lookup if the user's own proxy resolves the name as well.
const LOCAL_LOOKUP: Duration = Duration::from_secs(2);
/// The most names that are remembered as unknown to this machine's resolver.
const UNRESOLVED: usize = 1000;
/// Pause before the next accept after a failed one, such as without free file descriptors.
const EXHAUSTED: Duration = Duration::from_millis(100);
/// Failed accepts in a row after which the listener is taken for broken.
const FAILURES: u32 = 100;

/// Limits of one proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time; more wait to be accepted.
    pub connections: usize,
    /// Bytes of a request's or answer's header, from 8,192.
    pub header_bytes: usize,
    /// Time for a request to arrive.
    pub request: Duration,
    /// Time for a name to be resolved, and time for a connection to be made.
    pub connect: Duration,
    /// Idle time after which a connection is closed.
    pub idle: Duration,
    /// Idle time after which a connection is closed that one side has ended.
    pub half_closed: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 512,
            header_bytes: 64 * 1024,
            request: Duration::from_secs(60),
            connect: Duration::from_secs(20),
            idle: Duration::from_secs(15 * 60),
            half_closed: Duration::from_secs(60),
        }
    }
}

/// A proxy, to be configured and served.
pub struct Egress {
    rules: watch::Receiver<Arc<HostRules>>,
    decisions: UnboundedSender<EgressDecision>,
    reported: ReportedDecisions,
    upstream: UpstreamProxies,
    resolver: Arc<dyn Resolve>,
    loopback: Option<Arc<dyn Loopback>>,
    limits: Limits,
}

/// Statistics of a proxy that has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EgressSummary {
    /// Connections of clients.
    pub connections: u64,
    /// Decisions that were not reported because there were too many.
    pub unreported: u64,
}

impl Egress {
    /// Creates a proxy. It applies the newest rules to each request and reports each decision once, until that is forgotten.
    pub fn new(rules: watch::Receiver<Arc<HostRules>>, decisions: UnboundedSender<EgressDecision>) -> Self {
        let (upstream, resolver) = (UpstreamProxies::default(), Arc::new(SystemResolver));
        let (reported, limits) = (ReportedDecisions::default(), Limits::default());
        Self { rules, decisions, reported, upstream, resolver, loopback: None, limits }
    }

    /// Returns what it has reported, to have it reported again.
    pub fn reported(&self) -> ReportedDecisions {
        self.reported.clone()
    }

    /// Sets the user's own proxies for connections that leave the machine.
    #[must_use]
    pub fn with_upstream(self, upstream: UpstreamProxies) -> Self {
        Self { upstream, ..self }
    }

    /// Replaces the machine's resolver.
    #[must_use]
    pub fn with_resolver(self, resolver: Arc<dyn Resolve>) -> Self {
        Self { resolver, ..self }
    }

    /// Sets programs that are reached at names of the loopback, whatever the rules.
    #[must_use]
    pub fn with_loopback(self, loopback: Arc<dyn Loopback>) -> Self {
        Self { loopback: Some(loopback), ..self }
    }

    /// Replaces the default limits.
    #[cfg(test)]
    #[must_use]
    fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Serves a listener until cancelled. All connections have ended when this returns.
    ///
    /// # Errors
    /// The listener can't be used.
    pub async fn serve(
        self,
        listener: std::net::TcpListener,
        cancel: CancellationToken,
    ) -> io::Result<EgressSummary> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let proxy = Arc::new(Proxy {
            rules: self.rules,
            decisions: Decisions::new(self.decisions, self.reported),
            upstream: self.upstream,
            unresolved: Mutex::default(),
            resolver: self.resolver,
            loopback: self.loopback,
            limits: self.limits,
            tasks: TaskTracker::new(),
            // So that connections end with this future, however that ends.
            cancel: cancel.child_token(),
        });
        let _guard = proxy.cancel.clone().drop_guard();
        let mut summary = EgressSummary::default();
        let accepted = accept(&listener, &proxy, &mut summary.connections);
        let ended = proxy.cancel.run_until_cancelled(accepted).await;
        drop(listener);
        proxy.cancel.cancel();
        proxy.tasks.close();
        proxy.tasks.wait().await;
        summary.unreported = proxy.decisions.unreported();
        match ended {
            Some(Err(error)) => Err(error),
            _ => Ok(summary),
        }
    }
}

async fn accept(listener: &TcpListener, proxy: &Arc<Proxy>, count: &mut u64) -> io::Result<()> {
    let free = Arc::new(Semaphore::new(proxy.limits.connections));
    let mut failures = 0;
    loop {
        let permit = Arc::clone(&free).acquire_owned().await.map_err(io::Error::other)?;
        match listener.accept().await {
            Ok((stream, _)) => {
                failures = 0;
                *count += 1;
                // Tunnels carry small messages both ways.
                let _ = stream.set_nodelay(true);
                let (serving, cancel) = (Arc::clone(proxy), proxy.cancel.clone());
                proxy.tasks.spawn(async move {
                    cancel.run_until_cancelled(serving.serve(stream)).await;
                    drop(permit);
                });
            }
            Err(error) if failures >= FAILURES => return Err(error),
            // The client has disconnected, or there is no free file descriptor.
            Err(_) => {
                failures += 1;
                sleep(EXHAUSTED).await;
            }
        }
    }
}

/// State that the connections of one proxy share.
struct Proxy {
    rules: watch::Receiver<Arc<HostRules>>,
    decisions: Decisions,
    upstream: UpstreamProxies,
    unresolved: Mutex<HashSet<Host>>,
    resolver: Arc<dyn Resolve>,
    loopback: Option<Arc<dyn Loopback>>,
    limits: Limits,
    tasks: TaskTracker,
    cancel: CancellationToken,
}

/// The next hop to a destination.
enum Route {
    Direct(Vec<std::net::SocketAddr>),
    Upstream(UpstreamProxy),
}

impl Proxy {
    /// Serves one client until it leaves or falls silent.
    async fn serve<S>(self: Arc<Self>, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let limits = self.limits;
        let activity = Activity::new();
        let stream = BufReader::new(ActivityStream::new(stream, activity.clone()));
        tokio::select! {
            () = self.by_protocol(stream) => {}
            () = activity.until_idle(limits.idle, limits.half_closed) => {}
        }
    }

    async fn by_protocol<S>(self: Arc<Self>, mut stream: BufReader<ActivityStream<S>>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let first = match timeout(self.limits.request, stream.fill_buf()).await {
            Ok(Ok([first, ..])) => *first,
            _ => return,
        };
        if first == socks::VERSION {
            // The client has disconnected: there is nobody to report to.
            let _ = self.serve_socks(stream).await;
        } else {
            http::serve(stream, self).await;
        }
    }

    async fn serve_socks<S>(&self, mut stream: S) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let asked = timeout(self.limits.request, socks::accept(&mut stream)).await??;
        let Some(destination) = asked else { return Ok(()) };
        match self.open(&destination).await {
            Ok(outbound) => {
                socks::reply(&mut stream, socks::Reply::Succeeded).await?;
                tunnel::splice(stream, outbound).await
            }
            Err(error) => socks::reply(&mut stream, error.reply()).await,
        }
    }

    /// Returns the rules as they are now.
    fn rules(&self) -> Arc<HostRules> {
        Arc::clone(&self.rules.borrow())
    }

    /// Connects to the program at the loopback, if one listens at this destination.
    async fn connect_own(&self, destination: &Destination) -> Result<Option<Outbound>, ConnectError> {
        let Some(loopback) = self.loopback.as_deref().filter(|_| destination.is_loopback()) else {
            return Ok(None);
        };
        let connected = loopback.connect(destination.port).await.map_err(ConnectError::Unreachable)?;
        Ok(connected.map(Either::Left))
    }

    /// Checks a destination as the command names it.
    fn check(&self, destination: &Destination, rules: &HostRules) -> Result<(), ConnectError> {
        rules.check(destination).map(drop).map_err(|reason| {
            self.decisions.add(&EgressDecision::refused(destination, reason.clone()));
            ConnectError::Refused(reason)
        })
    }

    /// Opens a tunnel to a destination.
    async fn open(&self, destination: &Destination) -> Result<Outbound, ConnectError> {
        if let Some(connected) = self.connect_own(destination).await? {
            return Ok(connected);
        }
        let rules = self.rules();
        self.check(destination, &rules)?;
        match self.route(destination, &rules, Traffic::Tunnel).await? {
            Route::Direct(addresses) => self.connect(&addresses).await,
            Route::Upstream(proxy) => proxy.tunnel(destination, self.limits.connect).await,
        }
    }

    /// Opens a connection for plain requests to a destination, if these rules allow it. If it leads to a proxy that takes
    /// requests in absolute form, its `Proxy-Authorization` is returned, if it needs one.
    async fn open_http(
        &self,
        destination: &Destination,
        rules: &HostRules,
    ) -> Result<(Outbound, Option<Option<HeaderValue>>), ConnectError> {
        if let Some(connected) = self.connect_own(destination).await? {
            return Ok((connected, None));
        }
        self.check(destination, rules)?;
        match self.route(destination, rules, Traffic::Http).await? {
            Route::Direct(addresses) => Ok((self.connect(&addresses).await?, None)),
            Route::Upstream(proxy) => match proxy.takes_requests() {
                Some(login) => {
                    let stream = proxy.connect(self.limits.connect).await?;
                    Ok((Either::Left(stream), Some(login.cloned())))
                }
                None => Ok((proxy.tunnel(destination, self.limits.connect).await?, None)),
            },
        }
    }

    async fn connect(&self, addresses: &[std::net::SocketAddr]) -> Result<Outbound, ConnectError> {
        connect(addresses, self.limits.connect).await.map(Either::Left).map_err(ConnectError::Unreachable)
    }

    /// Checks the addresses of a destination and reports the decision.
    async fn route(
        &self,
        destination: &Destination,
        rules: &HostRules,
        traffic: Traffic,
    ) -> Result<Route, ConnectError> {
        let upstream = self.upstream.for_destination(destination, traffic);
        let checked = match upstream {
            None => {
                let limit = self.limits.connect;
                allowed_addresses(destination, rules, &*self.resolver, limit).await.map(Route::Direct)
            }
            Some(proxy) => {
                self.check_before_upstream(destination, rules).await.map(|()| Route::Upstream(proxy))
            }
        };
        match (&checked, rules.check(destination)) {
            (Err(ConnectError::Refused(reason)), _) => {
                self.decisions.add(&EgressDecision::refused(destination, reason.clone()));
            }
            (_, Ok(pattern)) => self.decisions.add(&EgressDecision::allowed(destination, pattern)),
            (_, Err(_)) => {}
        }
        checked
    }

    /// Refuses a destination that the user's proxy would resolve to a closed address, as far as this machine can tell:
    /// behind a company's proxy it may resolve no public names at all.
    async fn check_before_upstream(
        &self,
        destination: &Destination,
        rules: &HostRules,
    ) -> Result<(), ConnectError> {
        let unresolved = || self.unresolved.lock().unwrap_or_else(PoisonError::into_inner);
        if unresolved().contains(&destination.host) {
            return Ok(());
        }
        match allowed_addresses(destination, rules, &*self.resolver, LOCAL_LOOKUP).await {
            Err(ConnectError::Unresolved(_)) => {
                let mut unresolved = unresolved();
                if unresolved.len() < UNRESOLVED {
                    unresolved.insert(destination.host.clone());
                }
                Ok(())
            }
            checked => checked.map(|_| ()),
        }
    }

    /// Composes the text that a refused command gets.
    fn refusal_message(&self, destination: &Destination, reason: &Reason) -> String {
        EgressDecision::refused(destination, reason.clone()).refusal_message(NETWORK_SETTING)
    }
}

impl ConnectError {
    fn reply(&self) -> socks::Reply {
        match self {
            Self::Refused(_) => socks::Reply::NotAllowed,
            Self::Unresolved(_) => socks::Reply::HostUnreachable,
            Self::Unreachable(error) => match error.kind() {
                io::ErrorKind::ConnectionRefused => socks::Reply::Refused,
                io::ErrorKind::TimedOut => socks::Reply::TimedOut,
                _ => socks::Reply::HostUnreachable,
            },
            Self::Upstream(_) => socks::Reply::Failed,
        }
    }
}
