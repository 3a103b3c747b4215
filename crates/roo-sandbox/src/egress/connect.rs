//! Ways to a destination: names resolved, addresses checked, and a connection to exactly what was checked.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::address::{AddressClass, is_this_machine, name_class};
use super::host::{Destination, Host};
use super::rules::{HostRules, Reason};

/// Time before the next address is tried beside a slow one (RFC 8305).
const HEAD_START: Duration = Duration::from_millis(250);
/// The most addresses of a name that are tried.
const TRIED: usize = 16;

/// Resolves host names.
pub trait Resolve: Send + Sync {
    /// The addresses of a name, the preferred one first.
    ///
    /// # Errors
    /// The name has none, or none can be found out now.
    fn resolve<'a>(&'a self, name: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>>;
}

/// The resolver of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        Box::pin(async move { Ok(tokio::net::lookup_host((name, port)).await?.collect()) })
    }
}

/// The reason for which there is no connection to a destination.
#[derive(Debug)]
pub(super) enum ConnectError {
    /// No rule allows an address of it.
    Refused(Reason),
    /// Its name can't be resolved.
    Unresolved(io::Error),
    /// Nothing answers there.
    Unreachable(io::Error),
    /// The user's proxy gives no connection to it.
    Upstream(String),
}

/// Returns the addresses of a destination that the rules allow. `limit` bounds the lookup.
pub(super) async fn allowed_addresses(
    destination: &Destination,
    rules: &HostRules,
    resolver: &dyn Resolve,
    limit: Duration,
) -> Result<Vec<SocketAddr>, ConnectError> {
    let addresses = match (&destination.host, destination.address()) {
        (_, Some(address)) => vec![address],
        (Host::Name(name), _) if name_class(name) == Some(AddressClass::Loopback) => {
            let addresses: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
            addresses.map(|address| SocketAddr::new(address, destination.port)).to_vec()
        }
        (host, _) => {
            let name = host.to_string();
            let found = timeout(limit, resolver.resolve(&name, destination.port)).await;
            found
                .unwrap_or_else(|_| Err(timed_out("no answer from the resolver")))
                .map_err(ConnectError::Unresolved)?
        }
    };
    let mut allowed = Vec::new();
    let mut refused = None;
    for address in addresses {
        let address = SocketAddr::new(address.ip().to_canonical(), destination.port);
        match rules.check_address(destination, address.ip(), is_this_machine(address)) {
            Ok(()) if allowed.len() < TRIED && !allowed.contains(&address) => allowed.push(address),
            Ok(()) => {}
            Err(reason) => {
                refused.get_or_insert(reason);
            }
        }
    }
    match (allowed.is_empty(), refused) {
        (false, _) => Ok(allowed),
        (true, Some(reason)) => Err(ConnectError::Refused(reason)),
        (true, None) => Err(ConnectError::Unresolved(io::Error::other("the name has no addresses"))),
    }
}

/// Connects to the first of these addresses that answers, trying IPv4 and IPv6 in turn (RFC 8305).
pub(super) async fn connect(addresses: &[SocketAddr], limit: Duration) -> io::Result<TcpStream> {
    match timeout(limit, race(alternating(addresses))).await {
        Ok(Ok(stream)) => {
            // Tunnels carry small messages both ways.
            stream.set_nodelay(true)?;
            Ok(stream)
        }
        Ok(Err(error)) => Err(error),
        Err(_) => Err(timed_out("no address answered")),
    }
}

async fn race(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut attempts = FuturesUnordered::new();
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    let mut waiting = addresses.into_iter();
    if let Some(first) = waiting.next() {
        attempts.push(TcpStream::connect(first));
    }
    while !attempts.is_empty() {
        let overtaken = tokio::select! {
            Some(ended) = attempts.next() => match ended {
                Ok(stream) => return Ok(stream),
                Err(error) => {
                    last = error;
                    true
                }
            },
            () = sleep(HEAD_START), if waiting.len() > 0 => true,
        };
        if overtaken && let Some(next) = waiting.next() {
            attempts.push(TcpStream::connect(next));
        }
    }
    Err(last)
}

/// Interleaves IPv4 and IPv6 addresses, keeping the order within each.
fn alternating(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let leading = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (mut first, mut second): (Vec<_>, Vec<_>) =
        addresses.iter().rev().partition(|address| address.is_ipv6() == leading);
    let mut ordered = Vec::new();
    while let Some(next) = first.pop().or_else(|| second.pop()) {
        ordered.push(next);
        std::mem::swap(&mut first, &mut second);
    }
    ordered
}

fn timed_out(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Resolves every name to these.
    struct Fixed(Vec<SocketAddr>);

    impl Resolve for Fixed {
        fn resolve<'a>(&'a self, _: &'a str, _: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
            Box::pin(std::future::ready(Ok(self.0.clone())))
        }
    }

    fn sockets(addresses: &[&str]) -> Vec<SocketAddr> {
        addresses.iter().map(|address| address.parse().unwrap()).collect()
    }

    async fn checked(
        patterns: &[&str],
        name: &str,
        resolved: &[&str],
    ) -> Result<Vec<SocketAddr>, ConnectError> {
        let rules = patterns.iter().map(|pattern| pattern.parse().unwrap());
        let rules = rules.fold(HostRules::default(), HostRules::allow);
        let destination = Destination::parse(name, Some(80)).unwrap();
        allowed_addresses(&destination, &rules, &Fixed(sockets(resolved)), Duration::from_secs(5)).await
    }

    #[tokio::test]
    async fn only_addresses_that_may_be_reached_are_connected_to() {
        let open = checked(&["any"], "a.test", &["127.0.0.1:80", "93.184.216.34:80", "[fe80::1]:80"]).await;
        assert_eq!(open.unwrap(), sockets(&["93.184.216.34:80"]));
        let class = AddressClass::Loopback;
        let address = "127.0.0.1".parse().unwrap();
        assert!(matches!(
            checked(&["any"], "a.test", &["127.0.0.1:80", "10.0.0.1:80"]).await,
            Err(ConnectError::Refused(reason)) if reason == Reason::ClosedAddress { address, class }
        ));
        assert!(matches!(checked(&["any"], "a.test", &[]).await, Err(ConnectError::Unresolved(_))));
    }

    #[tokio::test]
    async fn a_resolver_chooses_neither_port_nor_the_form_of_an_address() {
        let open = checked(&["any"], "a.test:443", &["93.184.216.34:22", "[::ffff:93.184.216.34]:1"]).await;
        assert_eq!(open.unwrap(), sockets(&["93.184.216.34:443"]));
        assert!(checked(&["any"], "a.test", &["[::ffff:127.0.0.1]:80"]).await.is_err());
    }

    #[tokio::test]
    async fn localhost_asks_no_resolver() {
        let open = checked(&["localhost"], "localhost", &["93.184.216.34:80"]).await;
        assert_eq!(open.unwrap(), sockets(&["127.0.0.1:80", "[::1]:80"]));
    }

    #[test]
    fn families_take_turns() {
        let ordered = alternating(&sockets(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1", "2.2.2.2:1"]));
        assert_eq!(ordered, sockets(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "2.2.2.2:1", "[::3]:1"]));
        assert_eq!(alternating(&[]), []);
    }

    #[tokio::test]
    async fn the_next_address_is_tried_where_one_refuses() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let open = listener.local_addr().unwrap();
        let stream = connect(&[closed, open], Duration::from_secs(20)).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), open);
        let refused = connect(&[closed], Duration::from_secs(20)).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
}
