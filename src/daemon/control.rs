//! Asks daemons how they are, and has them end.

use super::connection::{Connection, ConnectionError};
use super::handshake::{Answer, Build, DaemonStatus, Hello, Wish};
use super::place::{DaemonPlace, PlaceError};
use roo_formats::config::Directories;

/// A daemon that listens, and how it is.
pub(crate) struct FoundDaemon {
    /// Where it is.
    pub(crate) place: DaemonPlace,
    /// How it is, or why that can't be told.
    pub(crate) status: Result<DaemonStatus, ConnectionError>,
}

/// Finds the daemons of the user that listen, one for each environment.
///
/// # Errors
/// When their folder can't be read, or isn't the user's alone.
pub(crate) async fn find_all(directories: &Directories) -> Result<Vec<FoundDaemon>, PlaceError> {
    let mut found = Vec::new();
    for place in DaemonPlace::all(directories)? {
        let status = match ask(&place, Wish::Status).await {
            Ok(None) => continue,
            Ok(Some((Answer::Status(status), _))) => Ok(status),
            Ok(Some(_)) => Err(ConnectionError::Mismatch),
            Err(error) => Err(error),
        };
        found.push(FoundDaemon { place, status });
    }
    Ok(found)
}

/// Has a daemon end, whatever it does, and waits until it has. Its requests can be resumed. Returns whether there was one.
pub(crate) async fn stop(place: &DaemonPlace) -> Result<bool, ConnectionError> {
    match ask(place, Wish::Stop { only_if_idle: false }).await? {
        None => Ok(false),
        Some((Answer::Stopping | Answer::Ending, connection)) => {
            connection.closed().await?;
            Ok(true)
        }
        Some(_) => Err(ConnectionError::Mismatch),
    }
}

async fn ask(place: &DaemonPlace, wish: Wish) -> Result<Option<(Answer, Connection)>, ConnectionError> {
    let Some(mut connection) = Connection::open(place).await? else { return Ok(None) };
    let hello = Hello { build: Build::own()?, key: place.read_key()?, environment: None, wish };
    let answer = connection.ask(&hello).await?;
    Ok(Some((answer, connection)))
}
