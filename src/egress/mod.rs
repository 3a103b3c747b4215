//! The filtering proxy by which sandboxed commands reach the network.
//!
//! A command has a network namespace with nothing but a private loopback. A listener that was made in there is
//! served from here, outside: HTTP (CONNECT, and plain requests in absolute form) and SOCKS5 on one port. Each
//! destination is judged by [`HostRules`], its addresses are judged once more, and exactly those are connected to.
//! [`proxy_environment`] has the variables by which programs find the proxy, [`presets`] the hosts of package
//! managers.
//!
//! The content of TLS is not looked at: what an allowed server does with a request, such as serving another site
//! by the same address, can't be seen here. The policy for a command is made in [`crate::hooks`], its namespace in
//! [`crate::exec::sandbox`].

mod activity;
mod address;
mod connect;
mod decision;
mod host;
mod http;
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

pub use address::Closed;
pub use connect::{Resolve, SystemResolver};
pub use decision::{EgressDecision, Reason, Verdict};
pub use host::{Destination, Host, InvalidHost};
pub use preset::{Preset, presets, proxy_environment};
pub use rules::{HostPattern, HostRules, InvalidPattern};
pub use upstream::{UnusableProxy, UpstreamProxies};

use activity::{Activity, Watched};
use connect::{NoWay, connect, judged_addresses};
use decision::Decisions;
use upstream::{Outbound, Traffic, UpstreamProxy};

/// The setting that a refusal points to.
pub const NETWORK_SETTING: &str = "sandbox.network";

/// How long this machine's resolver may take where the user's proxy resolves names.
const SECOND_OPINION: Duration = Duration::from_secs(2);
/// Names that this machine could not resolve and the user's proxy may; more are looked up each time.
const UNRESOLVED: usize = 1000;
/// How long accepting rests when the machine has no more handles.
const EXHAUSTED: Duration = Duration::from_millis(100);
/// Accepts that may fail in a row.
const FAILURES: u32 = 100;

/// What a proxy spends on its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time; a further one waits to be accepted.
    pub connections: usize,
    /// Bytes of a request's or answer's header, from 8,192.
    pub header_bytes: usize,
    /// How long a request may take to arrive.
    pub request: Duration,
    /// How long a name may take to be resolved, and how long a connection to be made.
    pub connect: Duration,
    /// How long a connection may be silent.
    pub idle: Duration,
    /// How long it may be silent once one side has ended.
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

/// A proxy that is not yet served.
pub struct Egress {
    rules: watch::Receiver<Arc<HostRules>>,
    decisions: UnboundedSender<EgressDecision>,
    upstream: UpstreamProxies,
    resolver: Arc<dyn Resolve>,
    limits: Limits,
}

/// What a proxy has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EgressSummary {
    /// Connections of clients.
    pub connections: u64,
    /// Decisions that were made and, for their number, not reported.
    pub unreported: u64,
}

impl Egress {
    /// A proxy that goes by the newest rules for each destination and reports each decision once.
    pub fn new(rules: watch::Receiver<Arc<HostRules>>, decisions: UnboundedSender<EgressDecision>) -> Self {
        let (upstream, resolver) = (UpstreamProxies::default(), Arc::new(SystemResolver));
        Self { rules, decisions, upstream, resolver, limits: Limits::default() }
    }

    /// With proxies of the user's before what leaves the machine.
    #[must_use]
    pub fn with_upstream(self, upstream: UpstreamProxies) -> Self {
        Self { upstream, ..self }
    }

    /// With another resolver than the machine's.
    #[must_use]
    pub fn with_resolver(self, resolver: Arc<dyn Resolve>) -> Self {
        Self { resolver, ..self }
    }

    /// With other limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
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
            decisions: Decisions::new(self.decisions),
            upstream: self.upstream,
            unresolved: Mutex::default(),
            resolver: self.resolver,
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
        let place = Arc::clone(&free).acquire_owned().await.map_err(io::Error::other)?;
        match listener.accept().await {
            Ok((stream, _)) => {
                failures = 0;
                *count += 1;
                // Tunnels carry small messages both ways.
                let _ = stream.set_nodelay(true);
                let (serving, cancel) = (Arc::clone(proxy), proxy.cancel.clone());
                proxy.tasks.spawn(async move {
                    cancel.run_until_cancelled(serving.serve(stream)).await;
                    drop(place);
                });
            }
            Err(error) if failures >= FAILURES => return Err(error),
            // A client that has left, or no more handles for now.
            Err(_) => {
                failures += 1;
                sleep(EXHAUSTED).await;
            }
        }
    }
}

/// What the connections of one proxy share.
struct Proxy {
    rules: watch::Receiver<Arc<HostRules>>,
    decisions: Decisions,
    upstream: UpstreamProxies,
    unresolved: Mutex<HashSet<Host>>,
    resolver: Arc<dyn Resolve>,
    limits: Limits,
    tasks: TaskTracker,
    cancel: CancellationToken,
}

/// Where the next hop to a destination is.
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
        let stream = BufReader::new(Watched::new(stream, activity.clone()));
        tokio::select! {
            () = self.by_protocol(stream) => {}
            () = activity.ceases(limits.idle, limits.half_closed) => {}
        }
    }

    async fn by_protocol<S>(self: Arc<Self>, mut stream: BufReader<Watched<S>>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let first = match timeout(self.limits.request, stream.fill_buf()).await {
            Ok(Ok([first, ..])) => *first,
            _ => return,
        };
        if first == socks::VERSION {
            // A client that breaks off has nobody to tell.
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
            Err(no_way) => socks::reply(&mut stream, no_way.reply()).await,
        }
    }

    /// Decides on a destination as it was asked for. Returns the rules that allow it.
    fn judge(&self, destination: &Destination) -> Result<Arc<HostRules>, NoWay> {
        let rules = Arc::clone(&self.rules.borrow());
        match rules.judge(destination) {
            Ok(_) => Ok(rules),
            Err(reason) => {
                self.decisions.add(&EgressDecision::refused(destination, reason.clone()));
                Err(NoWay::Refused(reason))
            }
        }
    }

    /// A tunnel to a destination.
    async fn open(&self, destination: &Destination) -> Result<Outbound, NoWay> {
        let rules = self.judge(destination)?;
        match self.route(destination, &rules, Traffic::Tunnel).await? {
            Route::Direct(addresses) => self.connect(&addresses).await,
            Route::Upstream(proxy) => proxy.tunnel(destination, self.limits.connect).await,
        }
    }

    /// A connection for plain requests to a destination that these rules allow. Where it leads to a proxy that
    /// takes them in absolute form, the login for it is told.
    async fn open_http(
        &self,
        destination: &Destination,
        rules: &HostRules,
    ) -> Result<(Outbound, Option<Option<HeaderValue>>), NoWay> {
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

    async fn connect(&self, addresses: &[std::net::SocketAddr]) -> Result<Outbound, NoWay> {
        connect(addresses, self.limits.connect).await.map(Either::Left).map_err(NoWay::Unreachable)
    }

    /// Decides on the addresses of a destination, and reports what comes of it.
    async fn route(
        &self,
        destination: &Destination,
        rules: &HostRules,
        traffic: Traffic,
    ) -> Result<Route, NoWay> {
        let upstream = self.upstream.for_destination(destination, traffic);
        let judged = match upstream {
            None => {
                let limit = self.limits.connect;
                judged_addresses(destination, rules, &*self.resolver, limit).await.map(Route::Direct)
            }
            Some(proxy) => self.second_opinion(destination, rules).await.map(|()| Route::Upstream(proxy)),
        };
        match (&judged, rules.judge(destination)) {
            (Err(NoWay::Refused(reason)), _) => {
                self.decisions.add(&EgressDecision::refused(destination, reason.clone()));
            }
            (_, Ok(pattern)) => self.decisions.add(&EgressDecision::allowed(destination, pattern)),
            (_, Err(_)) => {}
        }
        judged
    }

    /// Refuses what the user's proxy would resolve to a closed address, as far as this machine can tell: it may
    /// know no public names at all.
    async fn second_opinion(&self, destination: &Destination, rules: &HostRules) -> Result<(), NoWay> {
        let unresolved = || self.unresolved.lock().unwrap_or_else(PoisonError::into_inner);
        if unresolved().contains(&destination.host) {
            return Ok(());
        }
        match judged_addresses(destination, rules, &*self.resolver, SECOND_OPINION).await {
            Err(NoWay::Unresolved(_)) => {
                let mut unresolved = unresolved();
                if unresolved.len() < UNRESOLVED {
                    unresolved.insert(destination.host.clone());
                }
                Ok(())
            }
            judged => judged.map(|_| ()),
        }
    }

    /// What a command is told of a refusal.
    fn told(&self, destination: &Destination, reason: &Reason) -> String {
        EgressDecision::refused(destination, reason.clone()).told(NETWORK_SETTING)
    }
}

impl NoWay {
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
