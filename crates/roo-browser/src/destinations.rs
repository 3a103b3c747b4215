//! Hosts that the pages of a browser may lead to: those that its user allowed it to open, and what the request's own
//! commands serve for as long as they do.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use url::Url;

/// Host of a page, with its port where that is not the usual one: `example.com`, `localhost:3000`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WebHost {
    host: String,
    /// None for the usual ports of http and https.
    port: Option<u16>,
}

impl WebHost {
    /// Returns the host of an address; none for what is neither http nor https.
    pub fn from_url(url: &Url) -> Option<Self> {
        let is_web = matches!(url.scheme(), "http" | "https");
        let host = url.host_str().filter(|host| is_web && !host.is_empty())?;
        let port = url.port_or_known_default()?;
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        Some(Self { host, port: Some(port).filter(|port| !matches!(port, 80 | 443)) })
    }

    /// Returns the name or the address, with brackets around an IPv6 address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the ports that are meant.
    pub fn ports(&self) -> Vec<u16> {
        self.port.map_or(vec![80, 443], |port| vec![port])
    }
}

impl fmt::Display for WebHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.host),
            None => f.write_str(&self.host),
        }
    }
}

/// The hosts that a browser may reach, and its network to them. Whoever starts the browser brings it.
pub trait HostAccess: Send + Sync {
    /// Allows one more host, which the browser reaches from now on.
    fn allow(&self, host: WebHost);

    /// Reports whether a host was allowed.
    fn allows(&self, host: &WebHost) -> bool;

    /// Finds out whether the request's own commands serve a host at this moment.
    fn serves<'a>(&'a self, host: &'a WebHost) -> BoxFuture<'a, bool>;
}

/// The hosts that the pages of one browser may lead to. Shared by whoever allows them and by the browser, which stops a
/// page that goes anywhere else.
#[derive(Clone)]
pub struct Destinations(Arc<dyn HostAccess>);

impl fmt::Debug for Destinations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Destinations").finish_non_exhaustive()
    }
}

impl Default for Destinations {
    /// Those that are allowed, where no network has to be told and no command serves any.
    fn default() -> Self {
        Self::of_network(HostSet::default())
    }
}

impl Destinations {
    /// Those that a network lets a browser reach.
    pub fn of_network(network: impl HostAccess + 'static) -> Self {
        Self(Arc::new(network))
    }

    /// Allows one more host, for as long as the browser runs.
    pub fn allow(&self, host: WebHost) {
        self.0.allow(host);
    }

    /// Reports whether a host was allowed.
    pub fn allows(&self, host: &WebHost) -> bool {
        self.0.allows(host)
    }

    /// Reports whether a page may lead to an address.
    pub(crate) async fn allows_address(&self, url: &str) -> bool {
        match Url::parse(url) {
            Ok(url) => match WebHost::from_url(&url) {
                Some(host) => self.allows(&host) || self.0.serves(&host).await,
                // What comes from no host: it is made of what the page has.
                None => matches!(url.scheme(), "about" | "blob" | "data"),
            },
            Err(_) => false,
        }
    }
}

/// Hosts that were allowed, where that is all there is to it.
#[derive(Default)]
struct HostSet(Mutex<BTreeSet<WebHost>>);

impl HostAccess for HostSet {
    fn allow(&self, host: WebHost) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(host);
    }

    fn allows(&self, host: &WebHost) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(host)
    }

    fn serves<'a>(&'a self, _host: &'a WebHost) -> BoxFuture<'a, bool> {
        Box::pin(std::future::ready(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(url: &str) -> Option<String> {
        WebHost::from_url(&Url::parse(url).unwrap()).map(|host| host.to_string())
    }

    #[test]
    fn a_host_has_its_port_where_that_is_not_the_usual_one() {
        assert_eq!(host("https://Example.com./a").as_deref(), Some("example.com"));
        assert_eq!(host("http://example.com:443").as_deref(), Some("example.com"));
        assert_eq!(host("http://user:pass@localhost:3000/x").as_deref(), Some("localhost:3000"));
        assert_eq!(host("http://[::1]:8080").as_deref(), Some("[::1]:8080"));
        assert_eq!(host("http://0x7f.1:81").as_deref(), Some("127.0.0.1:81"));
        for other in ["file:///etc/passwd", "about:blank", "chrome://settings", "ftp://example.com"] {
            assert_eq!(host(other), None, "{other}");
        }
    }

    fn parsed(url: &str) -> WebHost {
        WebHost::from_url(&Url::parse(url).unwrap()).unwrap()
    }

    #[tokio::test]
    async fn pages_lead_to_what_was_allowed_and_to_nothing_of_the_machine() {
        let destinations = Destinations::default();
        destinations.allow(parsed("http://localhost:3000"));
        for open in ["http://localhost:3000/a", "about:blank", "blob:http://localhost:3000/1"] {
            assert!(destinations.allows_address(open).await, "{open}");
        }
        for closed in
            ["http://localhost:3001/", "https://example.com", "file:///etc/passwd", "chrome://gpu", "x"]
        {
            assert!(!destinations.allows_address(closed).await, "{closed}");
        }
    }

    /// A network in which a command serves a host, as long as it does.
    struct Serving(Arc<Mutex<Option<WebHost>>>);

    impl HostAccess for Serving {
        fn allow(&self, host: WebHost) {
            panic!("nobody has allowed {host}");
        }

        fn allows(&self, _host: &WebHost) -> bool {
            false
        }

        fn serves<'a>(&'a self, host: &'a WebHost) -> BoxFuture<'a, bool> {
            let serves = self.0.lock().unwrap().as_ref() == Some(host);
            Box::pin(std::future::ready(serves))
        }
    }

    #[tokio::test]
    async fn what_a_command_serves_is_led_to_until_the_command_ends_and_is_never_allowed() {
        let served = Arc::new(Mutex::new(Some(parsed("http://localhost:8080"))));
        let destinations = Destinations::of_network(Serving(Arc::clone(&served)));
        assert!(destinations.allows_address("http://localhost:8080/a").await);
        assert!(!destinations.allows_address("http://localhost:8081/a").await);
        assert!(!destinations.allows(&parsed("http://localhost:8080")));
        *served.lock().unwrap() = None;
        assert!(!destinations.allows_address("http://localhost:8080/a").await);
    }
}
