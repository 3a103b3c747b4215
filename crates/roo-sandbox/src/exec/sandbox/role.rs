//! Roles in which a helper is started.

use super::confinement::Network;
use super::helper_program::HELPER;
use super::helper_protocol::{Mechanism, Order};

/// Outer helpers, by their network.
pub(super) const OUTER: &str = "outer";
pub(super) const OUTER_WITH_NETWORK: &str = "outer-with-network";
pub(super) const OUTER_JOINING: &str = "outer-joining";
/// The helper without namespaces.
pub(super) const WATCH: &str = "watch";

/// The arguments of the helper that carries out an order.
pub(in crate::exec) fn helper_arguments(order: &Order, joins: bool) -> [&'static str; 2] {
    let role = match (order.mechanism, order.network) {
        (Mechanism::Namespaces, Network::Off) if joins => OUTER_JOINING,
        (Mechanism::Namespaces, Network::Off) => OUTER,
        (Mechanism::Namespaces, Network::On) => OUTER_WITH_NETWORK,
        (Mechanism::Landlock, _) => WATCH,
    };
    [HELPER, role]
}
