//! Host rules: patterns that a user writes, and the decision about one destination.
//!
//! A destination is checked twice: as the command names it, before anything is resolved, and by each address before
//! that address is connected to. Resolving and connecting are in [`super::connect`].

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use thiserror::Error;

use super::address::{AddressClass, address_class, name_class};
use super::host::{Destination, Host, InvalidHost, split_port};

/// Hosts by pattern: `registry.npmjs.org`, `*.crates.io`, `git.example.com:22`, `192.168.1.10`, `10.20.0.0/16`,
/// `[::1]:8080`, or `any`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPattern {
    hosts: Hosts,
    /// The one port; none for all.
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Hosts {
    /// All public hosts.
    Any,
    /// One name.
    Name(String),
    /// The names below this one, at any depth.
    Below(String),
    /// Addresses.
    Network(IpNet),
}

/// An error in a host pattern.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidPattern {
    /// A URL or a path.
    #[error("`{0}` is not a host: remove `https://` and everything after the host and its port")]
    Url(String),
    /// A `*` anywhere else than before the other labels.
    #[error("`{0}`: a `*` is allowed only before the other labels, as in `*.example.com`")]
    Wildcard(String),
    /// An invalid host or port.
    #[error("`{pattern}`: {problem}")]
    Host {
        /// The text.
        pattern: String,
        /// The error.
        problem: InvalidHost,
    },
}

impl FromStr for HostPattern {
    type Err = InvalidPattern;

    fn from_str(text: &str) -> Result<Self, InvalidPattern> {
        let invalid = |problem| InvalidPattern::Host { pattern: text.to_owned(), problem };
        if let Ok(network) = text.parse::<IpNet>() {
            return Ok(Self { hosts: Hosts::Network(canonical(network)), port: None });
        }
        if text.contains('/') {
            return Err(InvalidPattern::Url(text.to_owned()));
        }
        let (host, port) = split_port(text).map_err(invalid)?;
        let hosts = match host.strip_prefix("*.") {
            _ if host == "*" || host.eq_ignore_ascii_case("any") => Hosts::Any,
            _ if host.trim_start_matches("*.").contains('*') => {
                return Err(InvalidPattern::Wildcard(text.to_owned()));
            }
            Some(parent) => match Host::parse(parent).map_err(invalid)? {
                Host::Name(parent) => Hosts::Below(parent),
                Host::Address(_) => return Err(InvalidPattern::Wildcard(text.to_owned())),
            },
            None => match Host::parse(host).map_err(invalid)? {
                Host::Name(name) => Hosts::Name(name),
                Host::Address(address) => Hosts::Network(address.into()),
            },
        };
        Ok(Self { hosts, port })
    }
}

impl<'de> Deserialize<'de> for HostPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hosts {
            Hosts::Any => f.write_str("any")?,
            Hosts::Name(name) => f.write_str(name)?,
            Hosts::Below(parent) => write!(f, "*.{parent}")?,
            Hosts::Network(network) if network.prefix_len() == network.max_prefix_len() => {
                f.write_str(&Host::Address(network.addr()).bracketed())?;
            }
            Hosts::Network(network) => network.fmt(f)?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

impl HostPattern {
    /// Returns the pattern of exactly one destination.
    pub fn exactly(destination: &Destination) -> Self {
        let hosts = match &destination.host {
            Host::Name(name) => Hosts::Name(name.clone()),
            Host::Address(address) => Hosts::Network((*address).into()),
        };
        Self { hosts, port: Some(destination.port) }
    }

    fn has_port(&self, port: u16) -> bool {
        self.port.is_none_or(|own| own == port)
    }

    /// Reports whether the pattern is this very name.
    fn is_name(&self, name: &str, port: u16) -> bool {
        self.has_port(port) && matches!(&self.hosts, Hosts::Name(own) if own == name)
    }

    fn covers_name(&self, name: &str, port: u16) -> bool {
        self.has_port(port)
            && match &self.hosts {
                Hosts::Any => true,
                Hosts::Name(own) => own == name,
                Hosts::Below(parent) => name
                    .strip_suffix(parent.as_str())
                    .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
                Hosts::Network(_) => false,
            }
    }

    fn covers_address(&self, address: IpAddr, port: u16) -> bool {
        self.has_port(port) && matches!(&self.hosts, Hosts::Network(network) if network.contains(&address))
    }
}

/// Turns a network of IPv4-mapped addresses into one of IPv4 addresses, as in destinations.
fn canonical(network: IpNet) -> IpNet {
    match network {
        IpNet::V6(inner) if inner.prefix_len() >= 96 => match inner.addr().to_ipv4_mapped() {
            Some(address) => IpNet::new(address.into(), inner.prefix_len() - 96).unwrap_or(network),
            None => network,
        },
        _ => network,
    }
}

/// A pattern with its reach.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    pattern: HostPattern,
    /// An exact name may lead into a private network.
    private: bool,
}

/// The hosts that a command may reach. Without a rule, none.
///
/// Addresses of this machine, of private networks and of metadata services are closed even to `any` and to `*.`
/// patterns. They are opened by:
/// - a rule that names the address (`10.1.2.3`, `127.0.0.1:5432`, `10.1.0.0/16`);
/// - for private networks, a rule of the user's that names the very host ([`HostRules::allow`]);
/// - for loopback and metadata, a rule for a name that stands for nothing else (`localhost`).
///
/// So the operator of an allowed host gains nothing by resolving its name to `127.0.0.1`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostRules {
    rules: Vec<Rule>,
    /// Further rules, each of which must allow a destination as well.
    within: Vec<HostRules>,
}

impl HostRules {
    /// Adds a rule that the user wrote or granted.
    #[must_use]
    pub fn allow(mut self, pattern: HostPattern) -> Self {
        self.rules.push(Rule { pattern, private: true });
        self
    }

    /// Adds rules that open public addresses only, such as those of a [preset](super::Preset).
    #[must_use]
    pub fn allow_public<'a>(mut self, patterns: impl IntoIterator<Item = &'a HostPattern>) -> Self {
        self.rules
            .extend(patterns.into_iter().map(|pattern| Rule { pattern: pattern.clone(), private: false }));
        self
    }

    /// Restricts these rules to what the others allow as well.
    #[must_use]
    pub fn narrowed_by(mut self, others: HostRules) -> Self {
        self.within.push(others);
        self
    }

    /// Reports whether these rules allow nothing.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() || self.within.iter().any(Self::is_empty)
    }

    /// Checks a destination as the command names it. Returns the rule that allows it.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub fn check(&self, destination: &Destination) -> Result<&HostPattern, Reason> {
        for others in &self.within {
            others.check(destination)?;
        }
        match &destination.host {
            Host::Address(address) => self.check_literal(*address, destination.port),
            Host::Name(name) => self.check_name(name, destination.port),
        }
    }

    /// Checks an address of a destination that [`HostRules::check`] allows.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub(super) fn check_address(
        &self,
        destination: &Destination,
        address: IpAddr,
        is_this_machine: bool,
    ) -> Result<(), Reason> {
        let address = address.to_canonical();
        for others in &self.within {
            others.check_address(destination, address, is_this_machine)?;
        }
        let class = match address_class(address) {
            Some(AddressClass::Loopback) => AddressClass::Loopback,
            _ if is_this_machine => AddressClass::ThisMachine,
            Some(class) => class,
            None => return Ok(()),
        };
        let opens = |rule: &Rule| {
            rule.pattern.covers_address(address, destination.port)
                || matches!(&destination.host, Host::Name(name)
                    if rule.pattern.is_name(name, destination.port) && name_opens(name, class, rule.private))
        };
        if self.rules.iter().any(opens) { Ok(()) } else { Err(Reason::ClosedAddress { address, class }) }
    }

    fn check_literal(&self, address: IpAddr, port: u16) -> Result<&HostPattern, Reason> {
        let class = address_class(address);
        let allows = |rule: &&Rule| {
            let is_any = class.is_none() && matches!(rule.pattern.hosts, Hosts::Any);
            rule.pattern.covers_address(address, port) || (is_any && rule.pattern.has_port(port))
        };
        match (self.rules.iter().find(allows), class) {
            (Some(rule), _) => Ok(&rule.pattern),
            (None, Some(class)) => Err(Reason::ClosedAddress { address, class }),
            (None, None) => Err(Reason::NoRule),
        }
    }

    fn check_name(&self, name: &str, port: u16) -> Result<&HostPattern, Reason> {
        let class = name_class(name);
        let allows = |rule: &&Rule| match class {
            Some(class) => rule.pattern.is_name(name, port) && name_opens(name, class, rule.private),
            None => rule.pattern.covers_name(name, port),
        };
        match (self.rules.iter().find(allows), class) {
            (Some(rule), _) => Ok(&rule.pattern),
            (None, Some(class)) => Err(Reason::ClosedName(class)),
            (None, None) => Err(Reason::NoRule),
        }
    }
}

/// Reports whether a rule for exactly this name opens a class of addresses.
fn name_opens(name: &str, class: AddressClass, private: bool) -> bool {
    private
        && match class {
            AddressClass::Private | AddressClass::Shared => true,
            // The name stands for such an address and for nothing else.
            class => name_class(name) == Some(class),
        }
}

/// The reason for which a destination is allowed or refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A rule names it.
    Rule(HostPattern),
    /// No rule names it.
    NoRule,
    /// The name stands for something that is closed unless a rule names it.
    ClosedName(AddressClass),
    /// It is, or resolves to, an address that is closed unless a rule names it.
    ClosedAddress { address: IpAddr, class: AddressClass },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(pattern) => write!(f, "the rule `{pattern}` matches it"),
            Self::NoRule => f.write_str("no rule matches this host"),
            Self::ClosedName(class) => write!(f, "this name refers to {class}"),
            Self::ClosedAddress { address, class } => write!(f, "{address} is {class}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rules(patterns: &[&str]) -> HostRules {
        patterns.iter().fold(HostRules::default(), |rules, pattern| rules.allow(pattern.parse().unwrap()))
    }

    fn check(rules: &HostRules, destination: &str) -> Result<String, Reason> {
        rules.check(&Destination::parse(destination, Some(443)).unwrap()).map(HostPattern::to_string)
    }

    /// Reports whether a name that resolves to an address can be reached.
    fn reaches(rules: &HostRules, destination: &str, address: &str) -> bool {
        let destination = Destination::parse(destination, Some(443)).unwrap();
        let address = address.parse().unwrap();
        rules.check(&destination).is_ok() && rules.check_address(&destination, address, false).is_ok()
    }

    #[test]
    fn without_a_rule_nothing_is_reached() {
        assert_eq!(check(&rules(&[]), "example.com"), Err(Reason::NoRule));
        assert!(rules(&[]).is_empty() && !rules(&["any"]).is_empty());
    }

    #[test]
    fn a_name_is_itself_and_a_star_what_is_below() {
        let rules = rules(&["crates.io", "*.Crates.IO.", "git.example.com:22"]);
        assert_eq!(check(&rules, "crates.io"), Ok("crates.io".to_owned()));
        assert_eq!(check(&rules, "CRATES.io."), Ok("crates.io".to_owned()));
        assert_eq!(check(&rules, "a.b.crates.io"), Ok("*.crates.io".to_owned()));
        assert_eq!(check(&rules, "git.example.com:22"), Ok("git.example.com:22".to_owned()));
        for other in ["evilcrates.io", "crates.io.evil.com", "git.example.com:443", "example.com", "1.1.1.1"]
        {
            assert_eq!(check(&rules, other), Err(Reason::NoRule), "{other}");
        }
        assert_eq!(check(&self::rules(&["*.crates.io"]), "crates.io"), Err(Reason::NoRule));
    }

    #[test]
    fn any_is_every_public_host() {
        let rules = rules(&["any"]);
        assert!(check(&rules, "example.com").is_ok() && check(&rules, "1.1.1.1:53").is_ok());
        for closed in [
            "127.0.0.1",
            "2130706433",
            "0x7f.1",
            "[::ffff:127.0.0.1]",
            "0.0.0.0",
            "10.0.0.1",
            "[fe80::1]",
            "169.254.169.254",
            "[fd00:ec2::254]",
            "100.100.100.200",
        ] {
            assert!(matches!(check(&rules, closed), Err(Reason::ClosedAddress { .. })), "{closed}");
        }
        for closed in ["localhost", "LOCALHOST.", "a.localhost", "metadata.google.internal."] {
            assert!(matches!(check(&rules, closed), Err(Reason::ClosedName(_))), "{closed}");
        }
        assert!(reaches(&rules, "example.com", "93.184.216.34"));
        for address in ["127.0.0.1", "10.0.0.1", "::1", "169.254.169.254", "::ffff:10.0.0.1"] {
            assert!(!reaches(&rules, "example.com", address), "{address}");
        }
    }

    #[test]
    fn an_address_opens_itself() {
        let rules = rules(&["127.0.0.1:8080", "10.1.0.0/16", "[::1]:5432", "169.254.169.254"]);
        for open in ["127.0.0.1:8080", "0x7f000001:8080", "10.1.2.3", "[::ffff:10.1.2.3]", "[::1]:5432"] {
            assert!(check(&rules, open).is_ok(), "{open}");
        }
        assert!(check(&rules, "169.254.169.254:80").is_ok());
        for closed in ["127.0.0.1:8081", "127.0.0.2:8080", "10.2.0.1", "[::1]:80"] {
            assert!(matches!(check(&rules, closed), Err(Reason::ClosedAddress { .. })), "{closed}");
        }
    }

    #[test]
    fn the_users_own_name_leads_into_a_private_network_and_a_pattern_does_not() {
        let named = rules(&["nexus.corp.example"]);
        assert!(reaches(&named, "nexus.corp.example", "10.1.2.3"));
        assert!(
            reaches(&named, "nexus.corp.example", "fd12::1")
                && reaches(&named, "nexus.corp.example", "100.64.1.1")
        );
        // Turning a name that is allowed to this machine, or to what hands out credentials, gives nothing.
        for address in ["127.0.0.1", "::1", "0.0.0.0", "169.254.169.254", "fe80::1", "224.0.0.1"] {
            assert!(!reaches(&named, "nexus.corp.example", address), "{address}");
        }
        assert!(!reaches(&rules(&["*.corp.example"]), "nexus.corp.example", "10.1.2.3"));
        assert!(reaches(&rules(&["*.corp.example", "10.1.2.3"]), "nexus.corp.example", "10.1.2.3"));
        assert!(!reaches(&rules(&["*.corp.example", "10.1.2.3:80"]), "nexus.corp.example", "10.1.2.3"));
        assert!(reaches(&rules(&["app.test", "127.0.0.1"]), "app.test", "127.0.0.1"));
        let pattern: HostPattern = "nexus.corp.example".parse().unwrap();
        assert!(!reaches(&HostRules::default().allow_public([&pattern]), "nexus.corp.example", "10.1.2.3"));
    }

    #[test]
    fn localhost_and_metadata_are_opened_by_their_own_names() {
        assert!(reaches(&rules(&["localhost"]), "localhost", "127.0.0.1"));
        assert!(reaches(
            &rules(&["metadata.google.internal"]),
            "metadata.google.internal",
            "169.254.169.254"
        ));
        assert!(!reaches(&rules(&["*.google.internal"]), "metadata.google.internal", "169.254.169.254"));
        assert!(!reaches(&rules(&["localhost"]), "localhost", "169.254.169.254"));
    }

    #[test]
    fn an_address_of_this_machine_must_be_named() {
        let check = |patterns: &[&str], address: &str| {
            let destination = Destination::parse("example.com:80", None).unwrap();
            rules(patterns).check_address(&destination, address.parse().unwrap(), true)
        };
        for address in ["1.2.3.4", "192.168.1.20"] {
            let class = AddressClass::ThisMachine;
            let refused = Err(Reason::ClosedAddress { address: address.parse().unwrap(), class });
            assert_eq!(
                (check(&["any"], address), check(&["example.com"], address)),
                (refused.clone(), refused)
            );
            assert!(check(&["example.com", address], address).is_ok());
        }
    }

    #[test]
    fn rules_can_be_narrowed() {
        let wide = || rules(&["*.crates.io", "example.com"]);
        let narrow = wide().narrowed_by(rules(&["any:443"]));
        assert!(check(&narrow, "static.crates.io").is_ok());
        assert_eq!(check(&narrow, "static.crates.io:80"), Err(Reason::NoRule));
        // Both must open what is closed by default.
        assert!(reaches(&wide(), "example.com", "10.0.0.1") && !reaches(&narrow, "example.com", "10.0.0.1"));
        assert!(rules(&["any"]).narrowed_by(HostRules::default()).is_empty());
    }

    #[test]
    fn a_pattern_is_written_in_its_one_form() {
        for (text, form) in [
            ("Registry.NPMJS.org", "registry.npmjs.org"),
            ("*.Crates.io:443", "*.crates.io:443"),
            ("*", "any"),
            ("ANY:80", "any:80"),
            ("0x7f.1:80", "127.0.0.1:80"),
            ("::1", "[::1]"),
            ("[::1]:80", "[::1]:80"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("*.bücher.example", "*.xn--bcher-kva.example"),
        ] {
            let pattern: HostPattern = text.parse().unwrap();
            assert_eq!(pattern.to_string(), form);
            assert_eq!(form.parse(), Ok(pattern));
        }
        let problem = |text: &str| text.parse::<HostPattern>().unwrap_err().to_string();
        assert!(problem("https://example.com/x").contains("remove `https://`"));
        for text in ["a*.example.com", "*.*.example.com", "example.*", "*.", "*example.com", "*.1.2.3.4"] {
            assert!(text.parse::<HostPattern>().is_err(), "{text}");
        }
        assert!(problem("a*.example.com").contains("before the other labels"));
        assert_eq!(
            problem("example.com:99999"),
            "`example.com:99999`: the port must be a number from 1 to 65535"
        );
        assert_eq!(problem(""), "``: the host is empty");
    }

    proptest! {
        #[test]
        fn whatever_is_written_no_address_of_this_machine_is_reached_unnamed(
            patterns in prop::collection::vec("any|\\*|([a-z*]{1,3}\\.){0,2}[a-z]{1,3}(:80)?", 0..4),
            name in "([a-z]{1,3}\\.){0,2}[a-z]{1,3}",
            address in prop::sample::select(vec!["127.0.0.1", "::1", "169.254.169.254", "0.0.0.0", "fe80::1"]),
        ) {
            let rules = patterns.iter().filter_map(|pattern| pattern.parse().ok());
            let rules = rules.fold(HostRules::default(), HostRules::allow);
            prop_assert!(!reaches(&rules, &name, address));
            prop_assert!(check(&rules, &Host::Address(address.parse().unwrap()).bracketed()).is_err());
        }

        #[test]
        fn what_is_exactly_named_is_reached(name in "([a-z]{1,5}\\.){1,2}[a-z]{2,3}", port in 1u16..) {
            let destination = Destination::parse(&format!("{name}:{port}"), None).unwrap();
            prop_assume!(name_class(&name).is_none());
            let rules = HostRules::default().allow(HostPattern::exactly(&destination));
            prop_assert!(rules.check(&destination).is_ok());
            let other = Destination::new(destination.host, port.checked_add(1).unwrap_or(1)).unwrap();
            prop_assert!(rules.check(&other).is_err());
        }
    }
}
