//! The user's own proxies, for connections that leave the machine. A command sees neither them nor their credentials.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue, PROXY_AUTHORIZATION};
use hyper::upgrade::Upgraded;
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::either::Either;

use super::connect::{ConnectError, connect};
use super::host::{Destination, Host};
use super::socks;

/// A connection to a destination: direct, or through an HTTP proxy.
pub(super) type Outbound = Either<TcpStream, TokioIo<Upgraded>>;

/// The proxies of the user's environment, none by default.
#[derive(Default)]
pub struct UpstreamProxies {
    matcher: Option<Matcher>,
}

impl fmt::Debug for UpstreamProxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamProxies").field("any", &self.matcher.is_some()).finish()
    }
}

/// An unusable proxy setting. Its value may hold a password and is not repeated.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the proxy in `{variable}` can't be used: give an http:// or socks5:// URL of a host")]
pub struct UnusableProxy {
    /// The variable that names it.
    pub variable: String,
}

/// A kind of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Traffic {
    /// Plain HTTP requests.
    Http,
    /// TLS, or anything else in a tunnel.
    Tunnel,
}

/// The proxy for one destination.
pub(super) struct UpstreamProxy {
    destination: Destination,
    login: Login,
}

enum Login {
    Http(Option<HeaderValue>),
    Socks(Option<(String, String)>),
}

impl UpstreamProxies {
    /// Reads the proxies that `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` name, or their lower-case forms,
    /// which go first.
    ///
    /// # Errors
    /// A variable that names no proxy of a kind that can be used.
    pub(crate) fn from_variables(value: impl Fn(&str) -> Option<String>) -> Result<Self, UnusableProxy> {
        let first = |variable: &str| {
            let lower = variable.to_lowercase();
            let found = [lower.as_str(), variable].into_iter().find_map(|name| Some((name, value(name)?)));
            found.filter(|(_, value)| !value.is_empty()).map(|(name, value)| (name.to_owned(), value))
        };
        let usable = |variable: &str| {
            let Some((variable, value)) = first(variable) else { return Ok(String::new()) };
            let probe = Matcher::builder().all(value.clone()).build();
            let proxy = probe.intercept(&Uri::from_static("https://example.invalid/"));
            match proxy.as_ref().and_then(UpstreamProxy::new) {
                Some(_) => Ok(value),
                None => Err(UnusableProxy { variable }),
            }
        };
        let (http, https, all) = (usable("HTTP_PROXY")?, usable("HTTPS_PROXY")?, usable("ALL_PROXY")?);
        if http.is_empty() && https.is_empty() && all.is_empty() {
            return Ok(Self::default());
        }
        let no = first("NO_PROXY").map(|(_, value)| value).unwrap_or_default();
        Ok(Self { matcher: Some(Matcher::builder().http(http).https(https).all(all).no(no).build()) })
    }

    /// Reads the proxies of this process's environment.
    ///
    /// # Errors
    /// As of `UpstreamProxies::from_variables`.
    pub fn from_environment() -> Result<Self, UnusableProxy> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    pub(super) fn for_destination(
        &self,
        destination: &Destination,
        traffic: Traffic,
    ) -> Option<UpstreamProxy> {
        // For the proxy it would be another machine.
        if destination.is_loopback() {
            return None;
        }
        let scheme = match traffic {
            Traffic::Http => "http",
            Traffic::Tunnel => "https",
        };
        let uri = format!("{scheme}://{destination}/").parse().ok()?;
        UpstreamProxy::new(&self.matcher.as_ref()?.intercept(&uri)?)
    }
}

impl UpstreamProxy {
    fn new(proxy: &Intercept) -> Option<Self> {
        let uri = proxy.uri();
        let (login, port) = match uri.scheme_str()? {
            "http" => (Login::Http(proxy.basic_auth().cloned()), 80),
            "socks5" | "socks5h" => {
                let owned = |(user, password): (&str, &str)| (user.to_owned(), password.to_owned());
                (Login::Socks(proxy.raw_auth().map(owned)), 1080)
            }
            _ => return None,
        };
        let destination = Destination::parse(uri.authority()?.as_str(), Some(port)).ok()?;
        Some(Self { destination, login })
    }

    /// Returns the value of `Proxy-Authorization` for plain requests; the outer option is none if the proxy takes no
    /// requests but only makes tunnels.
    pub(super) fn takes_requests(&self) -> Option<Option<&HeaderValue>> {
        match &self.login {
            Login::Http(authorization) => Some(authorization.as_ref()),
            Login::Socks(_) => None,
        }
    }

    /// Connects to the proxy itself. No rule is checked: the user has configured it.
    pub(super) async fn connect(&self, limit: Duration) -> Result<TcpStream, ConnectError> {
        let failed =
            |error: io::Error| ConnectError::Upstream(format!("the proxy can't be reached: {error}"));
        let addresses: Vec<SocketAddr> = match &self.destination.host {
            Host::Address(address) => vec![SocketAddr::new(*address, self.destination.port)],
            Host::Name(name) => {
                let found =
                    timeout(limit, tokio::net::lookup_host((name.as_str(), self.destination.port))).await;
                found.map_err(|error| failed(error.into()))?.map_err(failed)?.collect()
            }
        };
        connect(&addresses, limit).await.map_err(failed)
    }

    /// Connects to a destination through the proxy, which resolves its name.
    pub(super) async fn tunnel(
        &self,
        destination: &Destination,
        limit: Duration,
    ) -> Result<Outbound, ConnectError> {
        let mut stream = self.connect(limit).await?;
        let tunnel = async {
            match &self.login {
                Login::Http(authorization) => {
                    http_tunnel(stream, destination, authorization.as_ref()).await.map(Either::Right)
                }
                Login::Socks(credentials) => {
                    let credentials =
                        credentials.as_ref().map(|(user, password)| (user.as_str(), password.as_str()));
                    let asked = socks::request(&mut stream, destination, credentials).await;
                    asked.map(|()| Either::Left(stream)).map_err(|error| error.to_string())
                }
            }
        };
        let made =
            timeout(limit, tunnel).await.unwrap_or_else(|_| Err("the proxy does not answer".to_owned()));
        made.map_err(ConnectError::Upstream)
    }
}

async fn http_tunnel(
    stream: TcpStream,
    destination: &Destination,
    authorization: Option<&HeaderValue>,
) -> Result<TokioIo<Upgraded>, String> {
    let told = |error: hyper::Error| format!("the proxy's answer can't be read: {error}");
    let authority = destination.to_string();
    let mut request = Request::builder().method(Method::CONNECT).uri(&authority).header(HOST, &authority);
    if let Some(authorization) = authorization {
        request = request.header(PROXY_AUTHORIZATION, authorization);
    }
    let request = request.body(Empty::<Bytes>::new()).map_err(|error| error.to_string())?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(told)?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(told)?;
        match response.status() {
            status if status.is_success() => {
                hyper::upgrade::on(response).await.map(TokioIo::new).map_err(told)
            }
            StatusCode::PROXY_AUTHENTICATION_REQUIRED => Err("the proxy requires another login".to_owned()),
            status => Err(format!("the proxy answered {status}")),
        }
    };
    // The connection has to be polled until the upgrade is complete.
    let (connection, exchange) = (std::pin::pin!(connection.with_upgrades()), std::pin::pin!(exchange));
    match futures_util::future::select(exchange, connection).await {
        futures_util::future::Either::Left((exchanged, _)) => exchanged,
        futures_util::future::Either::Right((_, exchange)) => exchange.await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(variables: &[(&str, &str)]) -> Result<UpstreamProxies, UnusableProxy> {
        UpstreamProxies::from_variables(|name| {
            variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn proxy(variables: &[(&str, &str)], destination: &str, traffic: Traffic) -> Option<String> {
        let destination = Destination::parse(destination, Some(443)).unwrap();
        let proxy = proxies(variables).unwrap().for_destination(&destination, traffic)?;
        Some(proxy.destination.to_string())
    }

    #[test]
    fn each_kind_of_traffic_has_its_proxy() {
        use Traffic::{Http, Tunnel};
        let both = [
            ("http_proxy", "http://a:1"),
            ("HTTPS_PROXY", "http://user:secret@B.example:2/"),
            ("NO_PROXY", "x.test, 10.0.0.0/8"),
        ];
        assert_eq!(proxy(&both, "example.com", Http).as_deref(), Some("a:1"));
        assert_eq!(proxy(&both, "example.com", Tunnel).as_deref(), Some("b.example:2"));
        for direct in ["x.test", "a.x.test:80", "10.1.2.3", "localhost:3000", "127.0.0.1", "[::1]:8080"] {
            assert_eq!(proxy(&both, direct, Tunnel), None, "{direct}");
        }
        assert_eq!(
            proxy(&[("ALL_PROXY", "socks5h://c")], "[2001:db8::1]:22", Tunnel).as_deref(),
            Some("c:1080")
        );
        assert_eq!(proxy(&[("all_proxy", "proxy:3128")], "example.com", Http).as_deref(), Some("proxy:3128"));
        assert_eq!(proxy(&[], "example.com", Tunnel), None);
    }

    #[test]
    fn what_can_not_be_used_is_said_without_its_value() {
        for value in ["https://user:secret@a", "socks4://secret", "ftp://secret", "secret secret"] {
            let error = proxies(&[("HTTPS_PROXY", value)]).unwrap_err();
            assert_eq!(error.variable, "HTTPS_PROXY");
            assert!(!error.to_string().contains("secret"));
        }
        let hidden = proxies(&[("HTTPS_PROXY", "http://user:secret@a")]).unwrap();
        assert!(!format!("{hidden:?}").contains("secret"));
    }
}
