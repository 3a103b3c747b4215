//! Host names and addresses as clients spell them, parsed into one canonical form.
//!
//! All spellings that a resolver accepts give the same value: upper case, a trailing dot, internationalized names,
//! IPv4 addresses in hexadecimal, octal or as one number, IPv4-mapped IPv6 addresses. Ambiguous text, such as a host
//! with user information, is an error.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use thiserror::Error;

use super::address::{AddressClass, address_class, name_class};

/// Bytes of the longest host name, as DNS has it.
const MAX_NAME_BYTES: usize = 253;
/// Bytes of the longest label of a host name.
const MAX_LABEL_BYTES: usize = 63;

/// A host in its canonical form.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// A name: lower-case ASCII, no trailing dot.
    Name(String),
    /// An address; never an IPv4 address that is mapped into IPv6.
    Address(IpAddr),
}

/// An error in a host or port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum InvalidHost {
    /// No text at all.
    #[error("the host is empty")]
    Empty,
    /// User information before the host; it serves to hide where a URL leads.
    #[error("user information in front of a host is not accepted")]
    UserInformation,
    /// Characters or a form that no host has.
    #[error("this is neither a host name nor an address")]
    Malformed,
    /// A port that is missing, no number, or out of range.
    #[error("the port must be a number from 1 to 65535")]
    Port,
}

impl Host {
    /// Parses a host: a name, an IPv4 address in any spelling, an IPv6 address with or without brackets.
    ///
    /// # Errors
    /// The text names no host.
    pub fn parse(text: &str) -> Result<Self, InvalidHost> {
        if text.is_empty() {
            return Err(InvalidHost::Empty);
        }
        if text.contains('@') {
            return Err(InvalidHost::UserInformation);
        }
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            return Ok(Self::Address(IpAddr::V6(address).to_canonical()));
        }
        match url::Host::parse(text).map_err(|_| InvalidHost::Malformed)? {
            url::Host::Ipv4(address) => Ok(Self::Address(address.into())),
            url::Host::Ipv6(address) => Ok(Self::Address(IpAddr::V6(address).to_canonical())),
            url::Host::Domain(name) => {
                let name = name.strip_suffix('.').unwrap_or(&name).to_ascii_lowercase();
                if is_name(&name) { Ok(Self::Name(name)) } else { Err(InvalidHost::Malformed) }
            }
        }
    }

    /// Formats the host as in front of a port, with IPv6 addresses in brackets.
    pub(super) fn bracketed(&self) -> String {
        match self {
            Self::Address(IpAddr::V6(address)) => format!("[{address}]"),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
        }
    }
}

/// The host and port that a command asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Destination {
    pub host: Host,
    /// The port, from 1.
    pub port: u16,
}

impl Destination {
    /// Combines a host and a port.
    ///
    /// # Errors
    /// The port is 0.
    pub fn new(host: Host, port: u16) -> Result<Self, InvalidHost> {
        if port == 0 { Err(InvalidHost::Port) } else { Ok(Self { host, port }) }
    }

    /// Parses `host:port`, or `host` if there is a default port.
    ///
    /// # Errors
    /// The text names no host, or the port is missing or no port.
    pub fn parse(text: &str, default_port: Option<u16>) -> Result<Self, InvalidHost> {
        if text.contains('@') {
            return Err(InvalidHost::UserInformation);
        }
        let (host, port) = split_port(text)?;
        let port = match port {
            Some(port) => port,
            None => default_port.ok_or(InvalidHost::Port)?,
        };
        Self::new(Host::parse(host)?, port)
    }

    /// Reports whether the host is an address of the loopback, or a name that stands for one and for nothing else.
    pub fn is_loopback(&self) -> bool {
        self.closed_class() == Some(AddressClass::Loopback)
    }

    /// Returns the class of the host where it is closed unless a rule names it, as far as that can be told without resolving
    /// a name.
    pub fn closed_class(&self) -> Option<AddressClass> {
        match &self.host {
            Host::Address(address) => address_class(*address),
            Host::Name(name) => name_class(name),
        }
    }

    /// Returns the socket address if the host is an address.
    pub fn address(&self) -> Option<SocketAddr> {
        match self.host {
            Host::Address(address) => Some(SocketAddr::new(address, self.port)),
            Host::Name(_) => None,
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host.bracketed(), self.port)
    }
}

/// Splits a port off. A text with several colons is an IPv6 address and has a port only behind brackets.
pub(super) fn split_port(text: &str) -> Result<(&str, Option<u16>), InvalidHost> {
    let (host, port) = match text.strip_prefix('[').map(|_| text.rfind(']')) {
        Some(None) => return Err(InvalidHost::Malformed),
        Some(Some(end)) => {
            let (host, rest) = text.split_at(end + 1);
            match rest.strip_prefix(':') {
                None if rest.is_empty() => return Ok((host, None)),
                None => return Err(InvalidHost::Malformed),
                Some(port) => (host, port),
            }
        }
        None => match text.split_once(':') {
            Some((host, port)) if !port.contains(':') => (host, port),
            _ => return Ok((text, None)),
        },
    };
    // `u16::from_str` accepts a sign.
    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse().ok().filter(|&port: &u16| is_number && port > 0);
    port.map(|port| (host, Some(port))).ok_or(InvalidHost::Port)
}

/// Reports whether a lower-case text is a valid host name.
fn is_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
        !label.is_empty() && label.len() <= MAX_LABEL_BYTES && label.bytes().all(allowed)
    };
    name.len() <= MAX_NAME_BYTES && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(Host::parse(text).map(|host| host.to_string()), Ok(expected.to_owned()), "{text:?}");
    }

    #[test]
    fn every_spelling_of_an_ipv4_address_is_that_address() {
        for text in [
            "127.0.0.1",
            "127.1",
            "127.0.1",
            "2130706433",
            "0x7f000001",
            "0x7F.1",
            "0177.0.0.1",
            "017700000001",
            "127.0.0.1.",
            "0x7f.0x0.0x0.0x1",
            "１２７.0.0.1",
            "127。0。0。1",
            "%31%32%37.0.0.1",
            "::ffff:127.0.0.1",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "0:0:0:0:0:ffff:7f00:0001",
        ] {
            check(text, "127.0.0.1");
        }
        check("0", "0.0.0.0");
        check("0xa9fea9fe", "169.254.169.254");
        check("2852039166", "169.254.169.254");
    }

    #[test]
    fn names_have_one_form() {
        check("Example.COM", "example.com");
        check("example.com.", "example.com");
        check("bücher.example", "xn--bcher-kva.example");
        check("XN--BCHER-KVA.example", "xn--bcher-kva.example");
        check("ｅｘａｍｐｌｅ.com", "example.com");
        check("my_host", "my_host");
        check("FD00:EC2::254", "fd00:ec2::254");
    }

    #[test]
    fn what_names_no_host_is_refused() {
        for text in [
            "",
            ".",
            "..",
            "a..b",
            "a b",
            "a\u{0}b",
            "a/b",
            "a#b",
            "a?b",
            "a\\b",
            "a%2fb",
            "a%00b",
            "[::1",
            "::1]",
            "[fe80::1%25eth0]",
            "fe80::1%eth0",
            "256.1.1.1",
            "1.2.3.4.5",
            "a,b",
            "*",
        ] {
            assert!(Host::parse(text).is_err(), "{text:?}: {:?}", Host::parse(text));
        }
        assert_eq!(Host::parse("good@evil"), Err(InvalidHost::UserInformation));
        let label = "a".repeat(64);
        assert!(Host::parse(&label).is_err() && Host::parse(&format!("{}.b", "a.".repeat(130))).is_err());
    }

    #[test]
    fn a_destination_has_a_port() {
        let parse = |text, default| Destination::parse(text, default).map(|found| found.to_string());
        assert_eq!(parse("example.com:443", None), Ok("example.com:443".to_owned()));
        assert_eq!(parse("example.com", Some(80)), Ok("example.com:80".to_owned()));
        assert_eq!(parse("[::1]:8080", None), Ok("[::1]:8080".to_owned()));
        assert_eq!(parse("::1", Some(80)), Ok("[::1]:80".to_owned()));
        for text in ["a", "a:", "a:0", "a:65536", "a:+80", "a:-1", "a:80:", "a: 80", "[::1]80", "[::1]:"] {
            assert!(parse(text, None).is_err(), "{text:?}");
        }
        for text in ["good@evil:443", "good:80@evil:443", "a:b@c"] {
            assert_eq!(parse(text, None), Err(InvalidHost::UserInformation), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn the_form_of_a_form_is_itself(text in "\\PC{0,40}|[a-zA-Z0-9.:\\[\\]%@_-]{0,30}") {
            if let Ok(host) = Host::parse(&text) {
                prop_assert_eq!(Host::parse(&host.to_string()), Ok(host.clone()));
                prop_assert!(host.to_string().is_ascii());
                let destination = Destination::new(host, 443).unwrap();
                prop_assert_eq!(Destination::parse(&destination.to_string(), None), Ok(destination));
            }
        }

        #[test]
        fn addresses_are_read_as_they_are_written(address: std::net::IpAddr) {
            let expected = Host::Address(address.to_canonical());
            prop_assert_eq!(Host::parse(&address.to_string()), Ok(expected));
        }
    }
}
