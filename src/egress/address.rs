//! Addresses and names that no command reaches unless a rule names them: this machine, the networks behind it,
//! and the metadata services of cloud providers.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Why a destination is closed by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Closed {
    /// A loopback address, or the unspecified one, which leads to it.
    Loopback,
    /// Another address of this machine: what listens on all addresses would answer there.
    ThisMachine,
    /// Metadata of a cloud provider, which hands out credentials.
    Metadata,
    /// Link-local.
    LinkLocal,
    /// A private network (RFC 1918, RFC 4193).
    Private,
    /// The shared address space of carriers and overlay networks (RFC 6598).
    Shared,
    /// Multicast or broadcast.
    Multicast,
    /// Reserved, or IPv4 in a form of IPv6 that leads through a translator.
    Reserved,
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "a loopback address",
            Self::ThisMachine => "an address of this machine",
            Self::Metadata => "a metadata service of a cloud provider",
            Self::LinkLocal => "a link-local address",
            Self::Private => "an address of a private network",
            Self::Shared => "an address of a carrier's or overlay network",
            Self::Multicast => "a multicast address",
            Self::Reserved => "a reserved address",
        })
    }
}

/// Metadata services that answer at IPv4 addresses.
const METADATA_V4: [Ipv4Addr; 8] = [
    Ipv4Addr::new(169, 254, 169, 254), // AWS, Azure, Google, Oracle, DigitalOcean, OpenStack, IBM
    Ipv4Addr::new(169, 254, 170, 2),   // AWS, credentials of containers
    Ipv4Addr::new(169, 254, 170, 23),  // AWS, credentials of pods
    Ipv4Addr::new(169, 254, 0, 23),    // Tencent
    Ipv4Addr::new(169, 254, 42, 42),   // Scaleway
    Ipv4Addr::new(100, 100, 100, 200), // Alibaba
    Ipv4Addr::new(192, 0, 0, 192),     // Oracle, classic
    Ipv4Addr::new(168, 63, 129, 16),   // Azure, host services, at a public address
];

/// Metadata services that answer at IPv6 addresses.
const METADATA_V6: [Ipv6Addr; 4] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), // AWS
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),  // AWS, credentials of pods
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),  // Google
    Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe), // Oracle
];

/// Names of metadata services.
const METADATA_NAMES: [&str; 7] = [
    "instance-data",
    "instance-data.ec2.internal",
    "metadata",
    "metadata.goog",
    "metadata.google.internal",
    "metadata.tencentyun.com",
    "metadata.platformequinix.com",
];

/// Why a name is closed, whatever it resolves to.
pub(super) fn closed_name(name: &str) -> Option<Closed> {
    if name == "localhost" || name.ends_with(".localhost") {
        Some(Closed::Loopback)
    } else {
        METADATA_NAMES.contains(&name).then_some(Closed::Metadata)
    }
}

/// Why an address is closed, by its number alone.
pub(super) fn closed_address(address: IpAddr) -> Option<Closed> {
    match address.to_canonical() {
        IpAddr::V4(address) => closed_v4(address),
        IpAddr::V6(address) => closed_v6(address),
    }
}

// 198.18.0.0/15 stays open: proxies on developers' machines resolve every name to it.
fn closed_v4(address: Ipv4Addr) -> Option<Closed> {
    let [a, b, c, _] = address.octets();
    match (a, b, c) {
        _ if METADATA_V4.contains(&address) => Some(Closed::Metadata),
        (0 | 127, ..) => Some(Closed::Loopback),
        (169, 254, _) => Some(Closed::LinkLocal),
        (10, ..) | (192, 168, _) | (172, 16..=31, _) => Some(Closed::Private),
        (100, 64..=127, _) => Some(Closed::Shared),
        (224..=239, ..) => Some(Closed::Multicast),
        _ if address.is_broadcast() => Some(Closed::Multicast),
        (240..=255, ..) | (192, 0, 0) => Some(Closed::Reserved),
        _ => None,
    }
}

fn closed_v6(address: Ipv6Addr) -> Option<Closed> {
    let inner = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        closed_v4(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        _ if METADATA_V6.contains(&address) => Some(Closed::Metadata),
        _ if address.is_loopback() || address.is_unspecified() => Some(Closed::Loopback),
        [0xff00..=0xffff, ..] => Some(Closed::Multicast),
        [0xfe80..=0xfebf, ..] => Some(Closed::LinkLocal),
        [0xfc00..=0xfdff | 0xfec0..=0xfeff, ..] => Some(Closed::Private),
        // Translation to IPv4: a network without IPv4 reaches public servers so.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => inner(high, low),
        [0x64, 0xff9b, ..] => Some(Closed::Reserved),
        [0x2002, high, low, ..] => inner(high, low),
        // Teredo, and the forms in which IPv4 stands at the end: nothing public is reached by these.
        [0x2001, 0, ..] | [0, 0, 0, 0, 0, 0, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => Some(Closed::Reserved),
        _ => None,
    }
}

/// Whether the kernel would deliver to this machine itself. Nothing is sent.
pub(super) fn is_this_machine(address: SocketAddr) -> bool {
    let unspecified: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // The source address that the kernel chooses for a local destination is the destination.
    let source = UdpSocket::bind((unspecified, 0)).and_then(|socket| {
        socket.connect(address)?;
        socket.local_addr()
    });
    source.is_ok_and(|source| source.ip() == address.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_public_is_closed() {
        use Closed::*;
        for (class, addresses) in [
            (
                Loopback,
                "127.0.0.1 127.255.0.9 0.0.0.0 0.1.2.3 ::1 :: ::ffff:127.0.0.1 64:ff9b::7f00:1 2002:7f00:1::",
            ),
            (LinkLocal, "169.254.1.1 fe80::1 febf::1 64:ff9b::a9fe:101"),
            (
                Private,
                "10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 fc00::1 fdff::1 fec0::1 2002:c0a8:101::1",
            ),
            (Shared, "100.64.0.1 100.127.255.255"),
            (Multicast, "224.0.0.1 239.1.1.1 255.255.255.255 ff02::1"),
            (Reserved, "240.0.0.1 192.0.0.8 2001:0:1::1 ::7f00:1 ::8.8.8.8 ::ffff:0:8.8.8.8 64:ff9b:1::1"),
            (
                Metadata,
                "169.254.169.254 169.254.170.2 100.100.100.200 192.0.0.192 168.63.129.16 fd00:ec2::254 \
                 ::ffff:169.254.169.254 64:ff9b::a9fe:a9fe 2002:a9fe:a9fe::",
            ),
        ] {
            for address in addresses.split_whitespace() {
                assert_eq!(closed_address(address.parse().unwrap()), Some(class), "{address}");
            }
        }
        for address in "1.1.1.1 100.63.255.255 100.128.0.0 172.15.0.1 172.32.0.1 192.0.1.1 193.168.1.1 \
                        2606:4700::1111 64:ff9b::101:101 2002:101:101::1 198.18.0.1"
            .split_whitespace()
        {
            assert_eq!(closed_address(address.parse().unwrap()), None, "{address}");
        }
    }

    #[test]
    fn names_of_this_machine_and_of_metadata_are_closed() {
        assert_eq!(closed_name("localhost"), Some(Closed::Loopback));
        assert_eq!(closed_name("app.localhost"), Some(Closed::Loopback));
        assert_eq!(closed_name("metadata.google.internal"), Some(Closed::Metadata));
        assert_eq!(closed_name("notlocalhost"), None);
    }

    #[test]
    fn the_kernel_knows_this_machine() {
        assert!(is_this_machine("127.0.0.1:80".parse().unwrap()));
        assert!(!is_this_machine("192.0.2.1:80".parse().unwrap()));
    }
}
