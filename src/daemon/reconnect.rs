//! How a client that has lost its daemon gets another one: an editor's relay, and what follows requests in a terminal.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::client::start;
use super::connection::{Connection, ConnectionError};
use super::environment::SessionEnvironment;
use super::place::DaemonPlace;
use roo_formats::config::Directories;

/// Time limit for everything before a client is served.
const CONNECT_DEADLINE: Duration = Duration::from_secs(40);
/// The most daemons that may be lost within this time: more of them would be killed by what they are told.
const LOSSES: usize = 30;
const LOSSES_WITHIN: Duration = Duration::from_secs(60);
/// Number of attempts to connect to another daemon.
const ATTEMPTS: usize = 3;
/// Pauses before another look for a daemon that only others can start.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(6),
];

/// The daemons that a client has lost.
#[derive(Default)]
pub(crate) struct LostDaemons(VecDeque<Instant>);

impl LostDaemons {
    /// One was lost. Returns what `connect` makes of another one, which it finds or starts; a daemon that is killed meanwhile
    /// is no reason to give up.
    ///
    /// # Errors
    /// [`ConnectionError`], also where daemons are lost again and again.
    pub(crate) async fn replace<T, C>(&mut self, mut connect: impl FnMut() -> C) -> Result<T, ConnectionError>
    where
        C: Future<Output = Result<T, ConnectionError>>,
    {
        self.0.push_back(Instant::now());
        self.0.retain(|loss| loss.elapsed() < LOSSES_WITHIN);
        if self.0.len() > LOSSES {
            return Err(ConnectionError::Unsteady);
        }
        let mut attempts = 1;
        loop {
            match connect().await {
                Err(error) if error.is_passing() && attempts < ATTEMPTS => attempts += 1,
                done => return done,
            }
        }
    }
}

/// Connects within the time limit.
pub(super) async fn in_time<T>(
    connecting: impl Future<Output = Result<T, ConnectionError>>,
) -> Result<T, ConnectionError> {
    tokio::time::timeout(CONNECT_DEADLINE, connecting).await.unwrap_or(Err(ConnectionError::Silent))
}

/// Waits until a daemon listens at a place where one was lost. It is started if it is that of the own environment; any other one
/// is started by those who have its environment.
pub(super) async fn listens_again(
    directories: &Directories,
    place: &DaemonPlace,
) -> Result<(), ConnectionError> {
    let environment = SessionEnvironment::new(std::env::vars_os());
    if *place == DaemonPlace::new(directories, &environment) {
        return start(place, &environment).await;
    }
    for pause in PAUSES {
        if Connection::open(place).await?.is_some() {
            return Ok(());
        }
        tokio::time::sleep(pause).await;
    }
    Err(ConnectionError::Elsewhere)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[tokio::test]
    async fn a_daemon_that_is_killed_meanwhile_is_no_reason_to_give_up_and_any_other_failure_is() {
        let mut lost = LostDaemons::default();
        let killed = || ConnectionError::Io(io::ErrorKind::ConnectionReset.into());
        let mut attempts = 0;
        let third = || {
            attempts += 1;
            std::future::ready(if attempts < ATTEMPTS { Err(killed()) } else { Ok(()) })
        };
        lost.replace(third).await.unwrap();
        assert_eq!(attempts, ATTEMPTS);
        let mut attempts = 0;
        let never = || {
            attempts += 1;
            std::future::ready(Err::<(), _>(killed()))
        };
        assert!(matches!(lost.replace(never).await, Err(ConnectionError::Io(_))));
        assert_eq!(attempts, ATTEMPTS);
        let mut attempts = 0;
        let refused = || {
            attempts += 1;
            std::future::ready(Err::<(), _>(ConnectionError::Stranger))
        };
        assert!(matches!(lost.replace(refused).await, Err(ConnectionError::Stranger)));
        assert_eq!(attempts, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn daemons_that_are_lost_again_and_again_are_not_replaced_for_ever() {
        let mut lost = LostDaemons::default();
        let found = || std::future::ready(Ok(()));
        for _ in 0..LOSSES {
            lost.replace(found).await.unwrap();
        }
        assert!(matches!(lost.replace(found).await, Err(ConnectionError::Unsteady)));
        tokio::time::advance(LOSSES_WITHIN).await;
        lost.replace(found).await.unwrap();
    }
}
