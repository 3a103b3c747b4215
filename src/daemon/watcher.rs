//! A client that is told how a daemon is, now and whenever its requests have changed.

use std::io;

use super::client::start;
use super::connection::{Connection, ConnectionError};
use super::control::{FoundDaemon, find_all};
use super::environment::SessionEnvironment;
use super::handshake::{Answer, Build, DaemonStatus, Hello, Wish, read_line};
use super::place::DaemonPlace;
use super::reconnect::{in_time, listens_again};
use crate::server::InterruptedRequests;
use roo_formats::config::Directories;
use roo_protocol::ids::TaskId;

/// A connection to a daemon that is watched.
pub(crate) struct Watcher(Connection);

/// What is told of a daemon.
pub(crate) enum Watched {
    /// How it is now.
    Status(DaemonStatus),
    /// It ends, as somebody wanted.
    Ended,
    /// It is gone: it was killed.
    Lost,
}

impl Watcher {
    /// Watches the daemon at a place; none where nobody listens. It tells of these requests too, if it knows them.
    ///
    /// # Errors
    /// [`ConnectionError`].
    pub(crate) async fn connect(
        place: &DaemonPlace,
        known: Vec<TaskId>,
    ) -> Result<Option<Self>, ConnectionError> {
        let Some(mut connection) = Connection::open(place).await? else { return Ok(None) };
        let (key, wish) = (place.read_key()?, Wish::Watch { known });
        let hello = Hello { build: Build::own()?, key, environment: None, wish };
        match connection.ask(&hello).await? {
            Answer::Welcome => Ok(Some(Self(connection))),
            Answer::Refused { reason } => Err(ConnectionError::Refused(reason)),
            _ => Err(ConnectionError::Mismatch),
        }
    }

    /// Watches another daemon at a place where one was lost.
    ///
    /// # Errors
    /// [`ConnectionError`].
    pub(crate) async fn reconnect(
        directories: &Directories,
        place: &DaemonPlace,
        known: Vec<TaskId>,
    ) -> Result<Self, ConnectionError> {
        in_time(async {
            listens_again(directories, place).await?;
            // It may have been killed already.
            let gone = || ConnectionError::Io(io::ErrorKind::ConnectionRefused.into());
            Self::connect(place, known).await?.ok_or_else(gone)
        })
        .await
    }

    /// What is told next. Not to be given up before it returns.
    pub(crate) async fn next(&mut self) -> Watched {
        let told: io::Result<Option<DaemonStatus>> = read_line(&mut self.0.input).await;
        match told {
            Ok(Some(status)) => Watched::Status(status),
            Ok(None) => Watched::Ended,
            // An end in the middle of a line is an end too.
            Err(_) => Watched::Lost,
        }
    }

    /// How the daemon is once it has gone on with what the one before was killed with; none where it ends meanwhile.
    pub(super) async fn settled(&mut self) -> Option<DaemonStatus> {
        loop {
            match self.next().await {
                Watched::Status(status) if status.resuming.is_empty() => return Some(status),
                Watched::Status(_) => {}
                Watched::Ended | Watched::Lost => return None,
            }
        }
    }
}

/// Starts the daemon of this environment where one was killed with requests under way, and finds all daemons that listen, once
/// they have gone on with such requests.
///
/// # Errors
/// [`ConnectionError`].
pub(crate) async fn find_resumed(directories: &Directories) -> Result<Vec<FoundDaemon>, ConnectionError> {
    let environment = SessionEnvironment::new(std::env::vars_os());
    let place = DaemonPlace::new(directories, &environment);
    if InterruptedRequests::are_in(&place.marks()) {
        in_time(start(&place, &environment)).await?;
    }
    let mut found = find_all(directories).await?;
    for FoundDaemon { place, status } in &mut found {
        if status.as_ref().is_ok_and(|status| !status.resuming.is_empty())
            && let Some(mut watcher) = Watcher::connect(place, vec![]).await?
            && let Ok(settled) = in_time(async { Ok(watcher.settled().await) }).await
        {
            *status = settled.ok_or(ConnectionError::Unsteady);
        }
    }
    Ok(found)
}
