//! Names by which the server may be reached, and origins of its own pages. Everything else is refused, so that neither a page of
//! another site nor a name that was made to lead to this machine (DNS rebinding) reaches it.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use hyper::Uri;
use hyper::header::{HOST, HeaderMap, HeaderName, ORIGIN};

/// The port that a browser leaves out of `http:` addresses.
const HTTP_PORT: u16 = 80;
/// The one that it leaves out of `https:` addresses.
const HTTPS_PORT: u16 = 443;

/// One name of the server.
struct Name {
    /// As in the header `Host`.
    host: String,
    /// As in the header `Origin` of its pages.
    origin: String,
}

/// The names of one server.
pub(super) struct Origins(Vec<Name>);

/// An origin under which a proxy of the user's makes the server reachable, such as `https://desk.example.com`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PublicOrigin {
    /// `https` or `http`.
    scheme: String,
    host: String,
}

/// Text that is no origin.
#[derive(Debug, thiserror::Error)]
#[error("an origin is a scheme and a host, such as https://desk.example.com, without a path")]
pub(crate) struct InvalidOrigin;

impl FromStr for PublicOrigin {
    type Err = InvalidOrigin;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let uri: Uri = text.parse().map_err(|_| InvalidOrigin)?;
        let scheme =
            uri.scheme_str().filter(|scheme| ["http", "https"].contains(scheme)).ok_or(InvalidOrigin)?;
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'));
        let mut host = authority.ok_or(InvalidOrigin)?.as_str().to_ascii_lowercase();
        // Browsers leave it out, in `Host` as in `Origin`.
        let default_port = if scheme == "https" { HTTPS_PORT } else { HTTP_PORT };
        if let Some(bare) = host.strip_suffix(&format!(":{default_port}")) {
            host = bare.to_owned();
        }
        let is_bare = uri.path_and_query().is_none_or(|rest| rest.as_str() == "/");
        is_bare.then(|| Self { scheme: scheme.to_owned(), host }).ok_or(InvalidOrigin)
    }
}

impl Origins {
    /// The names of a server that listens at an address, and the one that its user adds.
    pub(super) fn new(address: SocketAddr, public: Option<&PublicOrigin>) -> Self {
        let port = match address.port() {
            HTTP_PORT => String::new(),
            port => format!(":{port}"),
        };
        let own = match address.ip() {
            IpAddr::V4(own) => own.to_string(),
            IpAddr::V6(own) => format!("[{own}]"),
        };
        let local = ["127.0.0.1", "localhost", "[::1]", own.as_str()].map(|name| {
            let host = format!("{name}{port}");
            Name { origin: format!("http://{host}"), host }
        });
        let public = public.map(|PublicOrigin { scheme, host }| Name {
            host: host.clone(),
            origin: format!("{scheme}://{host}"),
        });
        Self(local.into_iter().chain(public).collect())
    }

    /// Returns whether a request is meant for this server: it names one of its hosts, in its only header `Host`, and in its
    /// target, where that names one.
    pub(super) fn are_meant(&self, target: &Uri, headers: &HeaderMap) -> bool {
        let Some(host) = only(headers, &HOST) else { return false };
        let is_known = |host: &str| self.0.iter().any(|name| name.host.eq_ignore_ascii_case(host));
        is_known(host)
            && target.authority().is_none_or(|authority| authority.as_str().eq_ignore_ascii_case(host))
    }

    /// Returns whether a request comes from a page of the host that it is sent to. One that doesn't say where it comes from
    /// does so only if `unsaid` counts as that.
    pub(super) fn is_from_own_page(&self, headers: &HeaderMap, unsaid: bool) -> bool {
        if !headers.contains_key(ORIGIN) {
            return unsaid;
        }
        let (Some(host), Some(origin)) = (only(headers, &HOST), only(headers, &ORIGIN)) else { return false };
        self.0.iter().any(|name| name.host.eq_ignore_ascii_case(host) && name.origin == origin)
    }
}

/// The value of a header that comes once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn headers(all: &[(HeaderName, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in all {
            headers.append(name, HeaderValue::from_static(value));
        }
        headers
    }

    fn origins() -> Origins {
        let public = "https://desk.example.com".parse().unwrap();
        Origins::new("127.0.0.1:4000".parse().unwrap(), Some(&public))
    }

    #[test]
    fn only_its_own_names_with_its_own_port_are_meant() {
        let (origins, target) = (origins(), Uri::from_static("/"));
        for host in ["127.0.0.1:4000", "localhost:4000", "LOCALHOST:4000", "[::1]:4000", "desk.example.com"] {
            assert!(origins.are_meant(&target, &headers(&[(HOST, host)])), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "127.0.0.1",
            "127.0.0.1:4001",
            "127.0.0.1:4000.evil.example",
            "desk.example.com:4000",
        ] {
            assert!(!origins.are_meant(&target, &headers(&[(HOST, host)])), "{host}");
        }
        assert!(!origins.are_meant(&target, &headers(&[])));
        let twice = headers(&[(HOST, "localhost:4000"), (HOST, "evil.example")]);
        assert!(!origins.are_meant(&target, &twice));
        let own = headers(&[(HOST, "localhost:4000")]);
        assert!(!origins.are_meant(&Uri::from_static("http://evil.example/"), &own));
    }

    #[test]
    fn a_page_is_its_own_by_the_host_that_it_was_loaded_from() {
        let origins = origins();
        let from = |host, origin| headers(&[(HOST, host), (ORIGIN, origin)]);
        assert!(origins.is_from_own_page(&from("localhost:4000", "http://localhost:4000"), false));
        assert!(origins.is_from_own_page(&from("desk.example.com", "https://desk.example.com"), false));
        for (host, origin) in [
            ("localhost:4000", "http://127.0.0.1:4000"),
            ("localhost:4000", "https://localhost:4000"),
            ("localhost:4000", "http://localhost:3000"),
            ("localhost:4000", "null"),
            ("desk.example.com", "http://desk.example.com"),
        ] {
            assert!(!origins.is_from_own_page(&from(host, origin), false), "{origin}");
        }
        let unsaid = headers(&[(HOST, "localhost:4000")]);
        assert!(origins.is_from_own_page(&unsaid, true) && !origins.is_from_own_page(&unsaid, false));
    }

    #[test]
    fn the_port_of_a_scheme_is_left_out_as_browsers_do() {
        for (given, host, origin) in [
            ("https://desk.example.com:443", "desk.example.com", "https://desk.example.com"),
            ("http://desk.example.com:80/", "desk.example.com", "http://desk.example.com"),
            ("https://[::1]:443", "[::1]", "https://[::1]"),
            ("https://desk.example.com:80", "desk.example.com:80", "https://desk.example.com:80"),
            ("http://desk.example.com:443", "desk.example.com:443", "http://desk.example.com:443"),
        ] {
            let public: PublicOrigin = given.parse().unwrap();
            let origins = Origins::new("127.0.0.1:4000".parse().unwrap(), Some(&public));
            let page = headers(&[(HOST, host), (ORIGIN, origin)]);
            assert!(origins.are_meant(&Uri::from_static("/"), &page), "{given}");
            assert!(origins.is_from_own_page(&page, false), "{given}");
        }
    }

    #[test]
    fn an_origin_is_a_scheme_and_a_host() {
        assert!("https://desk.example.com:8443/".parse::<PublicOrigin>().is_ok());
        for wrong in
            ["desk.example.com", "ftp://a.b", "https://a.b/c", "https://user@a.b", "https://", "*", "null"]
        {
            assert!(wrong.parse::<PublicOrigin>().is_err(), "{wrong}");
        }
    }
}
