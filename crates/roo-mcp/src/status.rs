//! State of each server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::catalog::ServerCatalog;
use crate::fault::ServerFault;

/// The servers of a hub by name.
pub type Statuses = BTreeMap<String, ServerStatus>;

/// State of a server.
#[derive(Clone, Debug)]
pub enum ServerStatus {
    /// It is switched off.
    Disabled,
    /// The user has not approved it.
    WaitingForApproval,
    /// It is started when it is called: [`crate::Hub::start`].
    NotStarted,
    /// It is being started or connected to.
    Starting,
    /// It wants a login, which is left to the user: [`ServerFault::NeedsLogin`].
    NeedsLogin(ServerFault),
    /// It can be used.
    Connected(Arc<ServerCatalog>),
    /// It can't be used.
    Failed {
        /// Reason.
        fault: ServerFault,
        /// The pause before it is started again; none when that is left to the user.
        retry_after: Option<Duration>,
    },
}

impl ServerStatus {
    /// Returns everything that the server offers; none when it is not connected.
    pub fn catalog(&self) -> Option<&Arc<ServerCatalog>> {
        match self {
            Self::Connected(catalog) => Some(catalog),
            _ => None,
        }
    }

    /// Reports whether a call starts the server: it waits for that, or for the end of a pause after it failed. Restarts are
    /// counted whoever asks for them, so that calls can't start a server more often than it would be restarted by itself.
    pub fn starts_when_called(&self) -> bool {
        match self {
            Self::NotStarted => true,
            Self::Failed { retry_after, .. } => retry_after.is_some(),
            _ => false,
        }
    }

    /// The status in a few words, for a list.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::WaitingForApproval => "waiting for approval",
            Self::NotStarted => "not started",
            Self::Starting => "starting",
            Self::NeedsLogin(_) => "needs login",
            Self::Connected(_) => "connected",
            Self::Failed { .. } => "failed",
        }
    }

    /// The status with the fault, if there is one.
    pub fn summary(&self) -> String {
        match self {
            Self::NeedsLogin(fault) | Self::Failed { fault, .. } => format!("{}: {fault}", self.label()),
            _ => self.label().to_owned(),
        }
    }
}

/// The statuses of a hub as its actors tell them. An actor that was replaced can't change the status of the one that
/// took its place.
#[derive(Debug)]
pub(crate) struct StatusBoard {
    statuses: watch::Sender<Statuses>,
    /// Number of the actor that counts, by name.
    current: Mutex<BTreeMap<String, u64>>,
}

impl StatusBoard {
    pub(crate) fn new() -> Self {
        Self { statuses: watch::Sender::new(Statuses::new()), current: Mutex::default() }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Statuses> {
        self.statuses.subscribe()
    }

    pub(crate) fn get(&self, name: &str) -> Option<ServerStatus> {
        self.statuses.borrow().get(name).cloned()
    }

    /// Gives a name to a new actor, with its first status.
    pub(crate) fn assign(&self, name: &str, actor: u64, status: ServerStatus) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.insert(name.to_owned(), actor);
        self.statuses.send_modify(|statuses| {
            statuses.insert(name.to_owned(), status);
        });
    }

    pub(crate) fn remove(&self, name: &str) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.remove(name);
        self.statuses.send_modify(|statuses| {
            statuses.remove(name);
        });
    }

    /// Publishes a status, if the actor still counts.
    pub(crate) fn publish(&self, name: &str, actor: u64, status: ServerStatus) {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.get(name) == Some(&actor) {
            self.statuses.send_modify(|statuses| {
                statuses.insert(name.to_owned(), status);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_actor_that_was_replaced_changes_nothing() {
        let board = StatusBoard::new();
        board.assign("a", 1, ServerStatus::Starting);
        board.assign("a", 2, ServerStatus::Disabled);
        board.publish("a", 1, ServerStatus::Starting);
        assert_eq!(board.get("a").unwrap().label(), "disabled");
        board.remove("a");
        board.publish("a", 2, ServerStatus::Starting);
        assert!(board.get("a").is_none());
    }
}
