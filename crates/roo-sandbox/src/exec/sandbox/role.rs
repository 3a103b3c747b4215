//! Roles in which a helper is started.

use super::confinement::Network;
use super::helper_program::HELPER;
use super::helper_protocol::{Mechanism, Order};
use super::network::{PrivateNetwork, WeakNetwork};

/// Outer helpers, by their network.
pub(super) const OUTER: &str = "outer";
pub(super) const OUTER_WITH_NETWORK: &str = "outer-with-network";
pub(super) const OUTER_JOINING: &str = "outer-joining";
/// The helper without namespaces.
pub(super) const WATCH: &str = "watch";

/// What a helper does before it has its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::exec) struct HelperRole {
    name: &'static str,
    /// The network that it joins.
    joined: Option<PrivateNetwork>,
}

impl HelperRole {
    /// The role of the helper that carries out an order, in a network that exists already or not.
    pub(in crate::exec) fn new(order: &Order, loopback: Option<&PrivateNetwork>) -> Self {
        let name = match (order.mechanism, order.network) {
            (Mechanism::Namespaces, Network::Off) if loopback.is_some() => OUTER_JOINING,
            (Mechanism::Namespaces, Network::Off) => OUTER,
            (Mechanism::Namespaces, Network::On) => OUTER_WITH_NETWORK,
            (Mechanism::Landlock, _) => WATCH,
        };
        Self { name, joined: loopback.filter(|_| name == OUTER_JOINING).cloned() }
    }

    /// Returns whether the streams of a command that has no terminal are handed over with its order.
    pub(in crate::exec) fn takes_streams(&self) -> bool {
        self.name != WATCH
    }

    /// Returns whether a later command may want a helper in the same role.
    pub(in crate::exec) fn may_come_again(&self) -> bool {
        self.joined.as_ref().is_none_or(PrivateNetwork::is_shared)
    }

    /// The role of a helper that waits, which keeps no network alive.
    pub(in crate::exec) fn waiting(&self) -> WaitingRole {
        WaitingRole { name: self.name, joined: self.joined.as_ref().map(PrivateNetwork::downgrade) }
    }

    pub(in crate::exec) fn joined(&self) -> Option<&PrivateNetwork> {
        self.joined.as_ref()
    }

    pub(in crate::exec) fn arguments(&self) -> [&'static str; 2] {
        [HELPER, self.name]
    }
}

/// A [`HelperRole`] that holds no network.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::exec) struct WaitingRole {
    name: &'static str,
    joined: Option<WeakNetwork>,
}

impl WaitingRole {
    /// Returns whether no command can come for it any more.
    pub(in crate::exec) fn is_over(&self) -> bool {
        self.joined.as_ref().is_some_and(WeakNetwork::is_gone)
    }
}
