//! Addresses that servers may have, and the HTTP client that enforces it.
//!
//! A name is checked when it is resolved, and exactly the checked addresses are connected to: a name that leads
//! elsewhere the second time (DNS rebinding) is checked the second time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Client;
use reqwest::dns::{Addrs, Name, Resolving};
use roo_sandbox::egress::{AddressClass, Resolve, address_class, is_this_machine, name_class};
use url::{Host, Url};

/// Time limit for a connection.
const CONNECT: Duration = Duration::from_secs(15);
/// Maximum number of redirects within the same origin.
const REDIRECTS: usize = 3;

/// Owner of the configuration that an address comes from, which decides where it may lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressPolicy {
    /// The user's: names may lead into private networks, as those of a company do.
    User,
    /// The workspace's: names lead to public addresses, and the addresses of this machine are written as such.
    Workspace,
}

/// An address that is not connected to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefusedAddress {
    /// No address at all.
    #[error("`url` is not an HTTP address: {0}")]
    Invalid(String),
    /// A name that leads to a closed address.
    #[error(
        "`{host}` resolves to {class} ({address}), which may be an attack (DNS rebinding); if the address is right, write it in place of the name"
    )]
    Rebound {
        /// The name.
        host: String,
        address: String,
        /// Kind of the address.
        class: AddressClass,
    },
    /// An address that never has a server.
    #[error("{0} is not connected to")]
    Closed(AddressClass),
}

/// Parses an address and refuses those that are never connected to.
pub(crate) fn check(url: &str) -> Result<Url, RefusedAddress> {
    let url = Url::parse(url).map_err(|error| RefusedAddress::Invalid(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(RefusedAddress::Invalid(format!("`{}` is not supported", url.scheme())));
    }
    let class = match url.host() {
        None => return Err(RefusedAddress::Invalid("it has no host".to_owned())),
        Some(Host::Domain(name)) => name_class(name.trim_end_matches('.')),
        Some(Host::Ipv4(address)) => address_class(address.into()),
        Some(Host::Ipv6(address)) => address_class(address.into()),
    };
    match class {
        Some(
            class @ (AddressClass::Metadata
            | AddressClass::Multicast
            | AddressClass::Reserved
            | AddressClass::LinkLocal),
        ) => Err(RefusedAddress::Closed(class)),
        _ => Ok(url),
    }
}

/// An HTTP client for one server.
pub(crate) fn client(
    url: &Url,
    policy: AddressPolicy,
    resolver: Arc<dyn Resolve>,
    user_agent: &str,
) -> reqwest::Result<Client> {
    // Fails when a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let origin = url.origin();
    let redirects = reqwest::redirect::Policy::custom(move |attempt| {
        // Elsewhere the headers and the arguments of calls are nobody's business.
        if attempt.url().origin() == origin && attempt.previous().len() <= REDIRECTS {
            attempt.follow()
        } else {
            attempt.stop()
        }
    });
    let is_local = match url.host() {
        Some(Host::Domain(name)) => name_class(name.trim_end_matches('.')) == Some(AddressClass::Loopback),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    let mut proxies = proxy_hosts(&|name| std::env::var(name).ok());
    // A server at the proxy's own host is one like any other.
    proxies.retain(|proxy| Some(proxy.as_str()) != url.host_str());
    let mut builder = Client::builder()
        .user_agent(user_agent)
        .connect_timeout(CONNECT)
        .redirect(redirects)
        .referer(false)
        .dns_resolver(Arc::new(CheckedResolver { policy, is_local, proxies, resolver }));
    if is_local {
        builder = builder.no_proxy();
    }
    if url.scheme() == "http" {
        // Loading the machine's certificates takes a while.
        builder = builder.tls_certs_only(std::iter::empty::<reqwest::Certificate>());
    }
    builder.build()
}

/// The names of the proxies' hosts that the client takes from the environment.
fn proxy_hosts(environment: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    const VARIABLES: [&str; 6] =
        ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
    let set = VARIABLES.iter().filter_map(|name| environment(name));
    let urls = set.filter_map(|value| match value.contains("://") {
        true => Url::parse(value.trim()).ok(),
        false => Url::parse(&format!("http://{}", value.trim())).ok(),
    });
    urls.filter_map(|url| Some(url.host_str()?.to_ascii_lowercase())).collect()
}

/// Resolves names and refuses closed addresses.
struct CheckedResolver {
    policy: AddressPolicy,
    /// True if the name itself says that it is this machine.
    is_local: bool,
    /// Hosts of proxies. Whoever set the environment decides where they are.
    proxies: Vec<String>,
    resolver: Arc<dyn Resolve>,
}

impl reqwest::dns::Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (policy, is_local, resolver) = (self.policy, self.is_local, Arc::clone(&self.resolver));
        let is_proxy = self.proxies.iter().any(|proxy| proxy.eq_ignore_ascii_case(name.as_str()));
        Box::pin(async move {
            let host = name.as_str();
            if is_proxy {
                let addresses = resolver.resolve(host, 0).await?;
                return Ok(Box::new(addresses.into_iter()) as Addrs);
            }
            let addresses = match is_local {
                true => vec![([127, 0, 0, 1], 0).into(), (std::net::Ipv6Addr::LOCALHOST, 0).into()],
                // The client puts in the port.
                false => resolver.resolve(host, 0).await?,
            };
            let mut allowed = Vec::new();
            let mut refused = None;
            for address in addresses {
                match closed(address, policy).filter(|_| !is_local) {
                    None => allowed.push(address),
                    Some(class) => {
                        refused = Some(RefusedAddress::Rebound {
                            host: host.to_owned(),
                            address: address.ip().to_string(),
                            class,
                        });
                    }
                }
            }
            match refused {
                Some(refused) if allowed.is_empty() => Err(refused.into()),
                _ => Ok(Box::new(allowed.into_iter()) as Addrs),
            }
        })
    }
}

/// The class of an address that a name must not lead to.
fn closed(address: SocketAddr, policy: AddressPolicy) -> Option<AddressClass> {
    match address_class(address.ip()) {
        Some(AddressClass::Private | AddressClass::Shared) if policy == AddressPolicy::User => None,
        Some(class) => Some(class),
        None => is_this_machine(address).then_some(AddressClass::ThisMachine),
    }
}

/// An error with its causes, without addresses, which may hold secrets.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// A refusal of ours among an error's causes.
pub(crate) fn refusal<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a RefusedAddress> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(refused) = error.downcast_ref::<RefusedAddress>() {
            return Some(refused);
        }
        next = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io;

    use futures_util::future::BoxFuture;

    use super::*;

    struct Fixed(&'static str);

    impl Resolve for Fixed {
        fn resolve<'a>(&'a self, _: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
            let addresses = self.0.split(' ').map(|ip| SocketAddr::new(ip.parse().unwrap(), port)).collect();
            Box::pin(async move { Ok(addresses) })
        }
    }

    async fn resolve(host: &str, to: &'static str, policy: AddressPolicy) -> Result<Vec<String>, String> {
        let is_local = name_class(host) == Some(AddressClass::Loopback);
        let proxies = vec!["proxy.corp".to_owned()];
        let resolver = CheckedResolver { policy, is_local, proxies, resolver: Arc::new(Fixed(to)) };
        let found = reqwest::dns::Resolve::resolve(&resolver, host.parse().unwrap()).await;
        found
            .map(|found| found.map(|address| address.ip().to_string()).collect())
            .map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn a_name_leads_neither_to_this_machine_nor_to_metadata() {
        for to in ["127.0.0.1", "::1", "0.0.0.0", "169.254.169.254", "::ffff:127.0.0.1", "fe80::1"] {
            for policy in [AddressPolicy::User, AddressPolicy::Workspace] {
                let refused = resolve("mcp.example.com", to, policy).await.unwrap_err();
                assert!(refused.contains("DNS rebinding"), "{to}: {refused}");
            }
        }
        let public = resolve("mcp.example.com", "127.0.0.1 192.0.2.1", AddressPolicy::Workspace).await;
        assert_eq!(public, Ok(vec!["192.0.2.1".to_owned()]));
    }

    #[tokio::test]
    async fn private_networks_are_for_the_users_own_servers() {
        for to in ["10.1.2.3", "192.168.1.1", "100.64.0.1"] {
            assert!(resolve("mcp.corp", to, AddressPolicy::User).await.is_ok(), "{to}");
            assert!(resolve("mcp.corp", to, AddressPolicy::Workspace).await.is_err(), "{to}");
        }
    }

    #[tokio::test]
    async fn a_proxy_of_the_environment_may_be_anywhere() {
        for to in ["127.0.0.1", "10.1.2.3"] {
            let found = resolve("Proxy.corp", to, AddressPolicy::Workspace).await;
            assert_eq!(found, Ok(vec![to.to_owned()]));
            assert!(resolve("other.corp", to, AddressPolicy::Workspace).await.is_err(), "{to}");
        }
    }

    #[test]
    fn proxies_are_found_where_the_client_finds_them() {
        let environment = |name: &str| {
            let value = match name {
                "HTTPS_PROXY" => "http://user:password@Proxy.corp:3128/",
                "http_proxy" => "localhost:3128",
                "ALL_PROXY" => "socks5h://socks.corp:1080",
                "all_proxy" => "",
                _ => return None,
            };
            Some(value.to_owned())
        };
        let found = ["proxy.corp", "localhost", "socks.corp"];
        assert_eq!(proxy_hosts(&environment), found);
        assert!(proxy_hosts(&|_| None).is_empty());
    }

    #[tokio::test]
    async fn localhost_is_this_machine_whatever_the_resolver_says() {
        let found = resolve("localhost", "203.0.113.9", AddressPolicy::Workspace).await;
        assert_eq!(found, Ok(vec!["127.0.0.1".to_owned(), "::1".to_owned()]));
    }

    #[test]
    fn addresses_without_servers_are_refused_as_written() {
        for url in [
            "http://169.254.169.254/latest",
            "http://metadata.google.internal./",
            "http://[fe80::1]/",
            "http://0xA9FEA9FE/",
            "http://224.0.0.1/",
        ] {
            assert!(matches!(check(url), Err(RefusedAddress::Closed(_))), "{url}");
        }
        for url in ["file:///etc/passwd", "http://", "x", "https://"] {
            assert!(matches!(check(url), Err(RefusedAddress::Invalid(_))), "{url}");
        }
        for url in
            ["http://localhost:8080/mcp", "http://127.0.0.1/", "https://mcp.example.com/", "http://10.0.0.1/"]
        {
            assert!(check(url).is_ok(), "{url}");
        }
    }
}
