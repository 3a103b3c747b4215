//! Requests of a login, which go to addresses that a server names. They obey the rules for the server's own address
//! (`crate::network`), and these: they are encrypted unless they stay on this machine, and a server that is elsewhere names
//! no address of this machine or of a private network.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use roo_sandbox::egress::{AddressClass, Resolve, address_class, name_class};
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use url::{Host, Url};

use super::error::LoginError;
use crate::fault::short;
use crate::network::{self, AddressPolicy};

/// Time limit for one request.
const REQUEST: Duration = Duration::from_secs(30);
/// The longest answer, in bytes.
const ANSWER: usize = 256 << 10;

/// Sends the requests that a server's login needs.
pub(super) struct Web {
    server: Url,
    policy: AddressPolicy,
    resolver: Arc<dyn Resolve>,
    user_agent: String,
}

/// An answer.
pub(super) struct Reply {
    pub status: StatusCode,
    pub body: Vec<u8>,
}

impl Web {
    /// # Errors
    /// The server's own address can't be used for a login.
    pub(super) fn new(
        server: &str,
        policy: AddressPolicy,
        resolver: Arc<dyn Resolve>,
        user_agent: String,
    ) -> Result<Self, LoginError> {
        let mut server = network::check(server)?;
        server.set_fragment(None);
        if server.scheme() != "https" && class_of(&server) != Some(AddressClass::Loopback) {
            return Err(LoginError::Unencrypted);
        }
        Ok(Self { server, policy, resolver, user_agent })
    }

    /// The server that the login is for.
    pub(super) fn server(&self) -> &Url {
        &self.server
    }

    /// Parses an address that `owner` names, and refuses those that it may not name.
    pub(super) fn allow(&self, owner: &str, what: &'static str, address: &str) -> Result<Url, LoginError> {
        let refused = |reason: String| {
            let shown = address.split(['?', '#']).next().unwrap_or_default();
            LoginError::Named { owner: owner.to_owned(), what, address: short(shown), reason }
        };
        let url = network::check(address).map_err(|error| refused(error.to_string()))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refused("it has a user or a password".to_owned()));
        }
        if url.fragment().is_some() {
            return Err(refused("it has a fragment".to_owned()));
        }
        let (class, own) = (class_of(&url), class_of(&self.server));
        if url.scheme() != "https" && class != Some(AddressClass::Loopback) {
            return Err(refused("it is not encrypted".to_owned()));
        }
        match class {
            None => Ok(url),
            // From this machine everything can be reached, and from a private network what is in it.
            Some(_) if own == Some(AddressClass::Loopback) => Ok(url),
            Some(AddressClass::Private | AddressClass::Shared)
                if matches!(own, Some(AddressClass::Private | AddressClass::Shared)) =>
            {
                Ok(url)
            }
            Some(class) => Err(refused(format!("it is {class}, and the server is elsewhere"))),
        }
    }

    /// Decides where the name of a host may lead: into private networks only if the server is in one itself.
    async fn policy_for(&self, url: &Url) -> AddressPolicy {
        if self.policy == AddressPolicy::Workspace || url.origin() == self.server.origin() {
            return self.policy;
        }
        let is_private = match class_of(&self.server) {
            Some(_) => true,
            None => {
                let host = self.server.host_str().unwrap_or_default();
                let addresses = self.resolver.resolve(host, 0).await.unwrap_or_default();
                addresses.iter().any(|address| address_class(address.ip()).is_some())
            }
        };
        if is_private { AddressPolicy::User } else { AddressPolicy::Workspace }
    }

    /// Reads a document of JSON; none if there is none, or something else.
    pub(super) async fn document<T: DeserializeOwned>(&self, url: &Url) -> Result<Option<T>, LoginError> {
        let reply =
            self.send(url, |client| client.get(url.clone()).header("accept", "application/json")).await?;
        if reply.status.is_server_error() {
            let reason = format!("HTTP {}", reply.status.as_u16());
            return Err(LoginError::Unreachable { host: host_of(url), reason });
        }
        Ok(if reply.status.is_success() { serde_json::from_slice(&reply.body).ok() } else { None })
    }

    /// Sends a request to an address that was allowed. What is redirected elsewhere comes back as the redirect.
    pub(super) async fn send(
        &self,
        url: &Url,
        request: impl FnOnce(&Client) -> RequestBuilder,
    ) -> Result<Reply, LoginError> {
        let answered = async {
            let response = self.respond(url, request).await?;
            let status = response.status();
            let mut body = Vec::new();
            let mut stream = response.bytes_stream();
            while let Some(piece) = stream.next().await {
                let piece = piece.map_err(|error| failed(url, error))?;
                if body.len() + piece.len() > ANSWER {
                    return Err(unreachable(url, format!("its answer has more than {} KiB", ANSWER >> 10)));
                }
                body.extend_from_slice(&piece);
            }
            Ok(Reply { status, body })
        };
        timeout(REQUEST, answered).await.unwrap_or_else(|_| Err(late(url)))
    }

    /// Sends a request whose answer may have no end, and gives its status and its headers `WWW-Authenticate`.
    pub(super) async fn probe(
        &self,
        url: &Url,
        request: impl FnOnce(&Client) -> RequestBuilder,
    ) -> Result<(StatusCode, Vec<String>), LoginError> {
        let answered = timeout(REQUEST, self.respond(url, request));
        let response = answered.await.unwrap_or_else(|_| Err(late(url)))?;
        let headers = response.headers().get_all(http::header::WWW_AUTHENTICATE);
        let challenges = headers.iter().filter_map(|value| Some(value.to_str().ok()?.to_owned()));
        Ok((response.status(), challenges.collect()))
    }

    async fn respond(
        &self,
        url: &Url,
        request: impl FnOnce(&Client) -> RequestBuilder,
    ) -> Result<Response, LoginError> {
        let policy = self.policy_for(url).await;
        let client = network::client(url, policy, Arc::clone(&self.resolver), &self.user_agent)
            .map_err(|error| failed(url, error))?;
        request(&client).send().await.map_err(|error| failed(url, error))
    }
}

/// The class of the host of an address as it is written.
fn class_of(url: &Url) -> Option<AddressClass> {
    match url.host()? {
        Host::Domain(name) => name_class(name.trim_end_matches('.')),
        Host::Ipv4(address) => address_class(address.into()),
        Host::Ipv6(address) => address_class(address.into()),
    }
}

/// The host of an address, with its port where that is not the usual one.
pub(super) fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

fn unreachable(url: &Url, reason: String) -> LoginError {
    LoginError::Unreachable { host: host_of(url), reason }
}

fn failed(url: &Url, error: reqwest::Error) -> LoginError {
    unreachable(url, short(&network::error_chain(&error.without_url())))
}

fn late(url: &Url) -> LoginError {
    unreachable(url, format!("no answer within {} s", REQUEST.as_secs()))
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::SocketAddr;

    use futures_util::future::BoxFuture;
    use roo_sandbox::egress::SystemResolver;

    use super::*;

    fn web(server: &str) -> Result<Web, LoginError> {
        Web::new(server, AddressPolicy::User, Arc::new(SystemResolver), "test".to_owned())
    }

    #[test]
    fn a_login_needs_encryption_unless_it_stays_on_this_machine() {
        assert!(matches!(web("http://mcp.example.com/"), Err(LoginError::Unencrypted)));
        assert!(matches!(web("http://10.0.0.1/"), Err(LoginError::Unencrypted)));
        for server in
            ["https://mcp.example.com/", "http://localhost:8080/mcp", "http://127.0.0.1/", "http://[::1]/"]
        {
            assert!(web(server).is_ok(), "{server}");
        }
    }

    #[tokio::test]
    async fn names_that_a_server_gives_lead_into_private_networks_only_from_there() {
        struct Corporate;
        impl Resolve for Corporate {
            fn resolve<'a>(&'a self, name: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
                let address = if name.ends_with(".corp.example") { [10, 0, 0, 1] } else { [192, 0, 2, 1] };
                Box::pin(async move { Ok(vec![(address, port).into()]) })
            }
        }
        for (server, expected) in [
            ("https://mcp.example.com/mcp", AddressPolicy::Workspace),
            ("https://mcp.corp.example/mcp", AddressPolicy::User),
            ("https://10.0.0.7/mcp", AddressPolicy::User),
        ] {
            let web = |policy| Web::new(server, policy, Arc::new(Corporate), "test".to_owned()).unwrap();
            let issuer = Url::parse("https://vault.corp.example/token").unwrap();
            assert_eq!(web(AddressPolicy::User).policy_for(&issuer).await, expected, "{server}");
            let own = Url::parse(server).unwrap();
            assert_eq!(web(AddressPolicy::User).policy_for(&own).await, AddressPolicy::User, "{server}");
            let strict = web(AddressPolicy::Workspace).policy_for(&issuer).await;
            assert_eq!(strict, AddressPolicy::Workspace, "{server}");
        }
    }

    #[test]
    fn a_server_names_no_address_that_it_could_not_be_at_itself() {
        let elsewhere = web("https://mcp.example.com/mcp").unwrap();
        let private = web("https://10.0.0.1/mcp").unwrap();
        let local = web("http://127.0.0.1:3000/mcp").unwrap();
        for (address, allowed) in [
            ("https://auth.example.com/token", [true, true, true]),
            ("http://auth.example.com/token", [false, false, false]),
            ("http://127.0.0.1:9/token", [false, false, true]),
            ("https://localhost/token", [false, false, true]),
            ("https://[::ffff:127.0.0.1]/token", [false, false, true]),
            ("https://192.168.1.1/token", [false, true, true]),
            ("https://169.254.169.254/token", [false, false, false]),
            ("https://me:word@auth.example.com/token", [false, false, false]),
            ("https://auth.example.com/token#x", [false, false, false]),
            ("javascript:alert(1)", [false, false, false]),
            ("file:///etc/passwd", [false, false, false]),
            ("token", [false, false, false]),
        ] {
            let found = [&elsewhere, &private, &local].map(|web| web.allow("it", "tokens", address).is_ok());
            assert_eq!(found, allowed, "{address}");
        }
        let error =
            elsewhere.allow("it", "tokens", "http://127.0.0.1/token?key=s3cret").unwrap_err().to_string();
        assert!(!error.contains("s3cret"), "{error}");
    }
}
