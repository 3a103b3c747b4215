//! A client that is told how a daemon is, now and whenever its requests have changed.

use std::io;

use super::connection::{Connection, ConnectionError};
use super::handshake::{Answer, Build, DaemonStatus, Hello, Wish, read_line};
use super::place::DaemonPlace;

/// A connection to a daemon that is watched.
pub(crate) struct Watcher(Connection);

impl Watcher {
    /// Watches the daemon at a place; none where nobody listens.
    ///
    /// # Errors
    /// [`ConnectionError`].
    pub(crate) async fn connect(place: &DaemonPlace) -> Result<Option<Self>, ConnectionError> {
        let Some(mut connection) = Connection::open(place).await? else { return Ok(None) };
        let (key, wish) = (place.read_key()?, Wish::Watch);
        let hello = Hello { build: Build::own()?, key, environment: None, wish };
        match connection.ask(&hello).await? {
            Answer::Welcome => Ok(Some(Self(connection))),
            Answer::Refused { reason } => Err(ConnectionError::Refused(reason)),
            _ => Err(ConnectionError::Mismatch),
        }
    }

    /// How the daemon is now; none once it has ended. Not to be given up before it returns.
    pub(crate) async fn next(&mut self) -> Option<DaemonStatus> {
        let told: io::Result<DaemonStatus> = read_line(&mut self.0.input).await;
        // An end in the middle of a line is an end too.
        told.ok()
    }
}
