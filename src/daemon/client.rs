//! The client's side: it finds the daemon or starts it.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use super::connection::{Connection, ConnectionError};
use super::environment::SessionEnvironment;
use super::handshake::{Answer, Build, Hello, Wish};
use super::place::{DaemonPlace, lock_within};
use crate::server::ConnectionKind;
use roo_formats::config::Directories;
use roo_process::own_program;

/// Time limit for a daemon to listen once it was started.
const START_DEADLINE: Duration = Duration::from_secs(15);
/// Number of attempts while daemons end just as they are found.
const ATTEMPTS: usize = 3;
/// What the daemon prints once it listens.
const READY: &str = "ready";

/// Connects to the daemon of this environment, which is started if need be, to be served as a client of this kind.
/// `settings_file` is an absolute path.
///
/// # Errors
/// [`ConnectionError`].
pub(super) async fn connect(
    directories: &Directories,
    settings_file: Option<PathBuf>,
    client: ConnectionKind,
) -> Result<Connection, ConnectionError> {
    let environment = SessionEnvironment::new(std::env::vars_os());
    let place = DaemonPlace::new(directories, &environment);
    place.prepare()?;
    let build = Build::own()?;
    let hello =
        |key, wish| Hello { build: build.clone(), key, environment: Some(environment.digest()), wish };
    let serve = Wish::Serve { settings_file, client, request: None };
    for _ in 0..ATTEMPTS {
        let mut connection = match Connection::open(&place).await? {
            Some(connection) => connection,
            None => {
                start(&place, &environment).await?;
                let Some(connection) = Connection::open(&place).await? else { continue };
                connection
            }
        };
        // A daemon that has just begun has another one.
        let key = place.read_key()?;
        let answer = match connection.ask(&hello(key.clone(), serve.clone())).await {
            // It ended, or was killed, before it could answer.
            Err(ConnectionError::Io(_)) => continue,
            answer => answer?,
        };
        match answer {
            Answer::Welcome => return Ok(connection),
            Answer::Ending => connection.closed().await?,
            Answer::OtherBuild(other) => {
                let Some(mut connection) = Connection::open(&place).await? else { continue };
                match connection.ask(&hello(key, Wish::Stop { only_if_idle: true })).await? {
                    Answer::Stopping | Answer::Ending => connection.closed().await?,
                    Answer::Busy => return Err(ConnectionError::OtherBuild(other)),
                    _ => return Err(ConnectionError::Mismatch),
                }
            }
            Answer::Refused { reason } => return Err(ConnectionError::Refused(reason)),
            Answer::Status(_) | Answer::Stopping | Answer::Busy => return Err(ConnectionError::Mismatch),
        }
    }
    Err(ConnectionError::Unsteady)
}

/// Starts the daemon of a place, unless there is one. Of several clients that want to at once, one does.
pub(crate) async fn start(
    place: &DaemonPlace,
    environment: &SessionEnvironment,
) -> Result<(), ConnectionError> {
    place.prepare()?;
    let lock = lock_within(place.start_lock(), START_DEADLINE).await?;
    let Some(_lock) = lock else { return Err(ConnectionError::Silent) };
    if Connection::open(place).await?.is_some() {
        return Ok(());
    }
    let mut child = Command::new(own_program()?)
        .args(["daemon", "run", "--in-background"])
        .env_clear()
        .envs(environment.variables().iter().map(|(name, value)| (name, value)))
        // No folder of a client is kept in use.
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let Some(stdout) = child.stdout.take() else { return Err(ConnectionError::Mismatch) };
    let mut line = String::new();
    let mut stdout = BufReader::new(stdout);
    match tokio::time::timeout(START_DEADLINE, stdout.read_line(&mut line)).await {
        Ok(Ok(_)) if line.trim() == READY => Ok(()),
        Ok(Ok(_)) => {
            let log = format!("see its log {}", place.log().display());
            let told = Some(line.trim()).filter(|line| !line.is_empty()).unwrap_or(&log);
            Err(ConnectionError::NotStarted(told.to_owned()))
        }
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(ConnectionError::Silent),
    }
}
