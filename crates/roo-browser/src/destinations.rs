//! Hosts that the pages of a browser may lead to: those that its user allowed it to open.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    pub fn of(url: &Url) -> Option<Self> {
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

    /// Reports whether it is this machine by one of the names of its loopback.
    pub fn is_loopback(&self) -> bool {
        matches!(self.host.as_str(), "localhost" | "127.0.0.1" | "[::1]") || self.host.ends_with(".localhost")
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

/// The hosts that the pages of one browser may lead to. Shared by whoever allows them and by the browser, which stops a
/// page that goes anywhere else.
#[derive(Clone, Default)]
pub struct Destinations(Arc<Shared>);

#[derive(Default)]
struct Shared {
    hosts: Mutex<BTreeSet<WebHost>>,
    /// Told of each host before it is allowed.
    allowing: Option<Box<dyn Fn(&WebHost) + Send + Sync>>,
}

impl fmt::Debug for Destinations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Destinations").field(&*self.hosts()).finish()
    }
}

impl Destinations {
    /// None yet. `allowing` is told of each host, such as to let the browser's network reach it.
    pub fn telling(allowing: impl Fn(&WebHost) + Send + Sync + 'static) -> Self {
        Self(Arc::new(Shared { allowing: Some(Box::new(allowing)), ..Shared::default() }))
    }

    fn hosts(&self) -> MutexGuard<'_, BTreeSet<WebHost>> {
        self.0.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allows one more host.
    pub fn allow(&self, host: WebHost) {
        if let Some(allowing) = self.0.allowing.as_ref().filter(|_| !self.allows(&host)) {
            allowing(&host);
        }
        self.hosts().insert(host);
    }

    /// Reports whether a host was allowed.
    pub fn allows(&self, host: &WebHost) -> bool {
        self.hosts().contains(host)
    }

    /// Reports whether a page may lead to an address.
    pub(crate) fn allows_address(&self, url: &str) -> bool {
        match Url::parse(url) {
            Ok(url) => match WebHost::of(&url) {
                Some(host) => self.allows(&host),
                // What comes from no host: it is made of what the page has.
                None => matches!(url.scheme(), "about" | "blob" | "data"),
            },
            Err(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(url: &str) -> Option<String> {
        WebHost::of(&Url::parse(url).unwrap()).map(|host| host.to_string())
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

    #[test]
    fn pages_lead_to_what_was_allowed_and_to_nothing_of_the_machine() {
        let destinations = Destinations::default();
        destinations.allow(WebHost::of(&Url::parse("http://localhost:3000").unwrap()).unwrap());
        for open in ["http://localhost:3000/a", "about:blank", "blob:http://localhost:3000/1"] {
            assert!(destinations.allows_address(open), "{open}");
        }
        for closed in
            ["http://localhost:3001/", "https://example.com", "file:///etc/passwd", "chrome://gpu", "x"]
        {
            assert!(!destinations.allows_address(closed), "{closed}");
        }
    }
}
