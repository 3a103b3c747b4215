//! Addresses and names that are closed to commands unless a rule names them: this machine, private networks, and
//! the metadata services of cloud providers.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// The class of an address that is closed by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressClass {
    /// A loopback address, or the unspecified one, which leads to it.
    Loopback,
    /// Another address of this machine: what listens on all addresses would answer there.
    ThisMachine,
    /// Metadata of a cloud provider, which hands out credentials.
    Metadata,
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

impl fmt::Display for AddressClass {
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

/// Returns the class of a name that is closed whatever it resolves to.
pub fn name_class(name: &str) -> Option<AddressClass> {
    if name == "localhost" || name.ends_with(".localhost") {
        Some(AddressClass::Loopback)
    } else {
        METADATA_NAMES.contains(&name).then_some(AddressClass::Metadata)
    }
}

/// Returns whether a name is that of this machine, as `hostname` prints it.
pub(super) fn is_own_name(name: &str) -> bool {
    rustix::system::uname().nodename().to_str().is_ok_and(|own| own.eq_ignore_ascii_case(name))
}

/// Returns the class of an address that is closed; none if it is public.
pub fn address_class(address: IpAddr) -> Option<AddressClass> {
    match address.to_canonical() {
        IpAddr::V4(address) => class_of_v4(address),
        IpAddr::V6(address) => class_of_v6(address),
    }
}

// 198.18.0.0/15 stays open: proxies on developers' machines resolve every name to it.
fn class_of_v4(address: Ipv4Addr) -> Option<AddressClass> {
    let [a, b, c, _] = address.octets();
    match (a, b, c) {
        _ if METADATA_V4.contains(&address) => Some(AddressClass::Metadata),
        (0 | 127, ..) => Some(AddressClass::Loopback),
        (169, 254, _) => Some(AddressClass::LinkLocal),
        (10, ..) | (192, 168, _) | (172, 16..=31, _) => Some(AddressClass::Private),
        (100, 64..=127, _) => Some(AddressClass::Shared),
        (224..=239, ..) => Some(AddressClass::Multicast),
        _ if address.is_broadcast() => Some(AddressClass::Multicast),
        (240..=255, ..) | (192, 0, 0) => Some(AddressClass::Reserved),
        _ => None,
    }
}

fn class_of_v6(address: Ipv6Addr) -> Option<AddressClass> {
    let inner = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        class_of_v4(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        _ if METADATA_V6.contains(&address) => Some(AddressClass::Metadata),
        _ if address.is_loopback() || address.is_unspecified() => Some(AddressClass::Loopback),
        [0xff00..=0xffff, ..] => Some(AddressClass::Multicast),
        [0xfe80..=0xfebf, ..] => Some(AddressClass::LinkLocal),
        [0xfc00..=0xfdff | 0xfec0..=0xfeff, ..] => Some(AddressClass::Private),
        // Translation to IPv4: a network without IPv4 reaches public servers so.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => inner(high, low),
        [0x64, 0xff9b, ..] => Some(AddressClass::Reserved),
        [0x2002, high, low, ..] => inner(high, low),
        // Teredo, and the forms in which IPv4 stands at the end: nothing public is reached by these.
        [0x2001, 0, ..] | [0, 0, 0, 0, 0, 0, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => {
            Some(AddressClass::Reserved)
        }
        _ => None,
    }
}

/// Reports whether the kernel would deliver to this machine itself. Nothing is sent.
pub fn is_this_machine(address: SocketAddr) -> bool {
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
        use AddressClass::*;
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
                assert_eq!(address_class(address.parse().unwrap()), Some(class), "{address}");
            }
        }
        for address in "1.1.1.1 100.63.255.255 100.128.0.0 172.15.0.1 172.32.0.1 192.0.1.1 193.168.1.1 \
                        2606:4700::1111 64:ff9b::101:101 2002:101:101::1 198.18.0.1"
            .split_whitespace()
        {
            assert_eq!(address_class(address.parse().unwrap()), None, "{address}");
        }
    }

    #[test]
    fn names_of_this_machine_and_of_metadata_are_closed() {
        assert_eq!(name_class("localhost"), Some(AddressClass::Loopback));
        assert_eq!(name_class("app.localhost"), Some(AddressClass::Loopback));
        assert_eq!(name_class("metadata.google.internal"), Some(AddressClass::Metadata));
        assert_eq!(name_class("notlocalhost"), None);
    }

    #[test]
    fn the_kernel_knows_this_machine() {
        assert!(is_this_machine("127.0.0.1:80".parse().unwrap()));
        assert!(!is_this_machine("192.0.2.1:80".parse().unwrap()));
    }
}
