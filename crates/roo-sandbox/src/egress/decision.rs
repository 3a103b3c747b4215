//! Decisions of the proxy: their report to the server, and the message to the command.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc::UnboundedSender;

use super::address::{AddressClass, is_own_name};
use super::host::{Destination, Host};
use super::rules::{HostPattern, Reason};

/// Destinations of one proxy that are reported. A command can make up names without end.
const REPORTED: usize = 1000;

/// A decision about one destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressDecision {
    /// The host that the command asked for.
    pub host: Host,
    pub port: u16,
    pub verdict: Verdict,
    /// The reason of the verdict.
    pub reason: Reason,
}

/// A verdict about a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// A connection was made, or tried.
    Allowed,
    /// Nothing was connected to. The name was resolved only if the address was the reason.
    Refused,
}

impl EgressDecision {
    pub(super) fn refused(destination: &Destination, reason: Reason) -> Self {
        Self::new(destination, Verdict::Refused, reason)
    }

    pub(super) fn allowed(destination: &Destination, pattern: &HostPattern) -> Self {
        Self::new(destination, Verdict::Allowed, Reason::Rule(pattern.clone()))
    }

    fn new(destination: &Destination, verdict: Verdict, reason: Reason) -> Self {
        Self { host: destination.host.clone(), port: destination.port, verdict, reason }
    }

    /// Returns the rules that would allow what was refused, and nothing more; none if it was allowed.
    pub fn grant(&self) -> Vec<HostPattern> {
        let own = Destination { host: self.host.clone(), port: self.port };
        let mut grant = match (&self.verdict, &self.host) {
            (Verdict::Allowed, _) => return vec![],
            (Verdict::Refused, _) => vec![HostPattern::exactly(&own)],
        };
        if let (Reason::ClosedAddress { address, .. }, Host::Name(_)) = (&self.reason, &self.host) {
            let behind = Destination { host: Host::Address(*address), port: self.port };
            grant.push(HostPattern::exactly(&behind));
        }
        grant
    }

    /// Composes the text that a refused command gets. `setting` is the setting that holds the rules.
    pub(super) fn refusal_message(&self, setting: &str) -> String {
        let destination = Destination { host: self.host.clone(), port: self.port };
        let refused =
            format!("The sandbox of roo-lsp refused the connection to {destination}: {}.\n", self.reason);
        let own = self.own_server().map(|server| {
            format!("A server that a command has started is reached at {server}, without the proxy.\n")
        });
        let own = own.unwrap_or_default();
        // A rule would lead to the user's machine instead.
        if destination.is_loopback() || self.names_this_machine() {
            return format!("{refused}{own}");
        }
        let grant: Vec<String> = self.grant().iter().map(|pattern| format!("`{pattern}`")).collect();
        format!(
            "{refused}{own}To allow it, the user can add {} to the setting `{setting}`, or grant it when asked.\n",
            grant.join(" and ")
        )
    }

    /// Returns where a command reaches a server of its own, if the destination is one by which it may have meant that.
    pub fn own_server(&self) -> Option<String> {
        let class = match self.reason {
            Reason::ClosedName(class) | Reason::ClosedAddress { class, .. } => class,
            Reason::NoRule if self.names_this_machine() => AddressClass::ThisMachine,
            Reason::Rule(_) | Reason::NoRule => return None,
        };
        matches!(class, AddressClass::Loopback | AddressClass::ThisMachine)
            .then(|| format!("localhost:{}", self.port))
    }

    fn names_this_machine(&self) -> bool {
        matches!(&self.host, Host::Name(name) if is_own_name(name))
    }
}

/// The report of decisions, each once until it is forgotten.
#[derive(Debug)]
pub(super) struct Decisions {
    report: UnboundedSender<EgressDecision>,
    reported: ReportedDecisions,
}

/// The decisions that a proxy has reported, and does not report again.
#[derive(Clone, Debug, Default)]
pub struct ReportedDecisions(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    reported: HashSet<(Destination, Verdict)>,
    unreported: u64,
}

impl ReportedDecisions {
    /// Has the same decisions reported once more.
    pub fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).reported.clear();
    }
}

impl Decisions {
    pub(super) fn new(report: UnboundedSender<EgressDecision>, reported: ReportedDecisions) -> Self {
        Self { report, reported }
    }

    pub(super) fn add(&self, decision: &EgressDecision) {
        let destination = Destination { host: decision.host.clone(), port: decision.port };
        let mut seen = self.reported.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (destination, decision.verdict);
        if seen.reported.contains(&key) {
            return;
        }
        if seen.reported.len() >= REPORTED {
            seen.unreported = seen.unreported.saturating_add(1);
            return;
        }
        seen.reported.insert(key);
        // Listening is optional.
        let _ = self.report.send(decision.clone());
    }

    /// Returns how many decisions were not reported because there were too many.
    pub(super) fn unreported(&self) -> u64 {
        self.reported.0.lock().unwrap_or_else(PoisonError::into_inner).unreported
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(destination: &str, reason: Reason) -> EgressDecision {
        EgressDecision::refused(&Destination::parse(destination, None).unwrap(), reason)
    }

    #[test]
    fn a_refusal_names_what_would_allow_it() {
        let told = refused("example.com:443", Reason::NoRule).refusal_message("sandbox.network");
        assert_eq!(
            told,
            "The sandbox of roo-lsp refused the connection to example.com:443: no rule matches this host.\n\
             To allow it, the user can add `example.com:443` to the setting `sandbox.network`, or grant it when \
             asked.\n"
        );
        let address = "127.0.0.1".parse().unwrap();
        let closed =
            refused("example.com:80", Reason::ClosedAddress { address, class: AddressClass::Loopback });
        assert!(
            closed.refusal_message("s").contains("127.0.0.1 is a loopback address"),
            "{}",
            closed.refusal_message("s")
        );
        assert!(
            closed.refusal_message("s").contains("`example.com:80` and `127.0.0.1:80`"),
            "{}",
            closed.refusal_message("s")
        );
    }

    #[test]
    fn a_refusal_of_the_loopback_names_the_commands_own_and_no_rule() {
        for (host, reason) in
            [("0.0.0.0:3000", "0.0.0.0"), ("127.0.0.2:3000", "127.0.0.2"), ("[::]:3000", "::")]
        {
            let address = reason.parse().unwrap();
            let class = AddressClass::Loopback;
            let told = refused(host, Reason::ClosedAddress { address, class }).refusal_message("s");
            assert!(told.contains("is reached at localhost:3000, without the proxy"), "{told}");
            assert!(!told.contains("To allow it"), "{told}");
        }
        let address = "192.168.1.7".parse().unwrap();
        let own = rustix::system::uname();
        if let Ok(Host::Name(name)) = Host::parse(own.nodename().to_str().unwrap()) {
            let told = refused(&format!("{name}:3000"), Reason::NoRule).refusal_message("s");
            assert!(told.contains("localhost:3000") && !told.contains("To allow it"), "{told}");
        }
        let reason = Reason::ClosedAddress { address, class: AddressClass::ThisMachine };
        let told = refused("dev.example:3000", reason).refusal_message("s");
        assert!(told.contains("localhost:3000") && told.contains("To allow it"), "{told}");
    }

    #[test]
    fn the_grant_of_a_refusal_allows_it() {
        use super::super::rules::HostRules;
        let address = "169.254.169.254".parse().unwrap();
        for decision in [
            refused("example.com:443", Reason::NoRule),
            refused("localhost:80", Reason::ClosedName(AddressClass::Loopback)),
            refused(
                "[::1]:80",
                Reason::ClosedAddress { address: "::1".parse().unwrap(), class: AddressClass::Loopback },
            ),
            refused("example.com:80", Reason::ClosedAddress { address, class: AddressClass::Metadata }),
        ] {
            let destination = Destination { host: decision.host.clone(), port: decision.port };
            let rules = decision.grant().into_iter().fold(HostRules::default(), HostRules::allow);
            assert!(rules.check(&destination).is_ok(), "{decision:?}");
            if let Reason::ClosedAddress { address, .. } = decision.reason {
                assert_eq!(rules.check_address(&destination, address, false), Ok(()), "{decision:?}");
            }
        }
    }

    #[test]
    fn a_destination_is_reported_once_for_each_verdict_and_not_without_end() {
        let (report, mut reports) = tokio::sync::mpsc::unbounded_channel();
        let reported = ReportedDecisions::default();
        let decisions = Decisions::new(report, reported.clone());
        let one = refused("example.com:443", Reason::NoRule);
        let allowed = EgressDecision { verdict: Verdict::Allowed, ..one.clone() };
        for decision in [&one, &one, &allowed, &one] {
            decisions.add(decision);
        }
        assert_eq!((reports.try_recv(), reports.try_recv()), (Ok(one.clone()), Ok(allowed.clone())));
        assert!(reports.try_recv().is_err());
        reported.forget();
        for decision in [&one, &one, &allowed] {
            decisions.add(decision);
        }
        assert_eq!((reports.try_recv(), reports.try_recv()), (Ok(one), Ok(allowed)));
        for number in 0..2 * REPORTED {
            decisions.add(&refused(&format!("a{number}.example:1"), Reason::NoRule));
        }
        let mut count = 2;
        while reports.try_recv().is_ok() {
            count += 1;
        }
        assert_eq!((count, decisions.unreported()), (REPORTED, REPORTED as u64 + 2));
    }
}
