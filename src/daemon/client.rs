//! The client's side: it finds the daemon or starts it, and relays what an editor and the daemon say to each other.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{
    AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader, DuplexStream,
};
use tokio::net::unix::OwnedReadHalf;
use tokio::process::Command;

use super::connection::{Connection, ConnectionError};
use super::environment::SessionEnvironment;
use super::handshake::{Answer, Build, Hello, Wish};
use super::place::{DaemonPlace, lock_within};
use roo_formats::config::Directories;

/// Time limit for a daemon to listen once it was started.
const START_DEADLINE: Duration = Duration::from_secs(15);
/// Time limit for everything before a client is served.
const CONNECT_DEADLINE: Duration = Duration::from_secs(40);
/// Time for which the last answers are waited for once the editor says nothing more.
const LAST_ANSWERS: Duration = Duration::from_secs(5);
/// Number of attempts while daemons end just as they are found.
const ATTEMPTS: usize = 3;
/// What the daemon prints once it listens.
const READY: &str = "ready";
/// The exit code of a server whose client did not say `shutdown`.
const CUT_OFF: i32 = 1;

/// What came of relaying.
pub(crate) enum Relayed {
    /// The client was served; the exit code of its server.
    Served(i32),
    /// No daemon serves it. Nothing was read from it yet.
    Unavailable(ConnectionError),
}

/// Relays between standard input and output and the daemon of this environment, which is started if need be.
/// `settings_file` is an absolute path; `told_to_end` resolves when the process is asked to end.
pub(crate) async fn relay(
    directories: &Directories,
    settings_file: Option<PathBuf>,
    told_to_end: impl Future<Output = ()>,
) -> Relayed {
    let connected = tokio::time::timeout(CONNECT_DEADLINE, connect(directories, settings_file)).await;
    let Connection { mut input, mut output } = match connected {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => return Relayed::Unavailable(error),
        Err(_) => return Relayed::Unavailable(ConnectionError::Silent),
    };
    let up = async {
        // If either end is gone, the other direction tells.
        let _ = tokio::io::copy(&mut tokio::io::stdin(), &mut output).await;
        let _ = output.shutdown().await;
    };
    let mut stdout = tokio::io::stdout();
    let down = receive(&mut input, &mut stdout);
    tokio::pin!(down);
    let code = tokio::select! {
        code = &mut down => code,
        () = up => tokio::time::timeout(LAST_ANSWERS, down).await.unwrap_or(Ok(CUT_OFF)),
        () = told_to_end => Ok(CUT_OFF),
    };
    Relayed::Served(code.unwrap_or_else(|error| {
        tracing::error!(%error, "the connection to the daemon is broken; its requests can be resumed");
        CUT_OFF
    }))
}

/// Relays between a stream of this process and the daemon of this environment, which is started if need be, until either ends.
pub(crate) async fn relay_stream(
    directories: &Directories,
    settings_file: Option<PathBuf>,
    stream: DuplexStream,
) -> Result<(), ConnectionError> {
    let connected = tokio::time::timeout(CONNECT_DEADLINE, connect(directories, settings_file)).await;
    let Connection { mut input, mut output } = connected.map_err(|_| ConnectionError::Silent)??;
    let (mut from, mut to) = tokio::io::split(stream);
    let up = async {
        let _ = tokio::io::copy(&mut from, &mut output).await;
        let _ = output.shutdown().await;
    };
    let down = receive(&mut input, &mut to);
    tokio::pin!(down);
    tokio::select! {
        ended = &mut down => ended.map(drop)?,
        // What was said last is still carried out.
        () = up => drop(tokio::time::timeout(LAST_ANSWERS, down).await),
    }
    Ok(())
}

/// Writes what the daemon sends, and returns the exit code that it ends with.
async fn receive(
    input: &mut BufReader<OwnedReadHalf>,
    output: &mut (impl AsyncWrite + Unpin),
) -> std::io::Result<i32> {
    loop {
        let length = input.read_u32().await?;
        if length == 0 {
            return Ok(i32::from(input.read_u8().await?));
        }
        let mut piece = (&mut *input).take(u64::from(length));
        if tokio::io::copy_buf(&mut piece, output).await? < u64::from(length) {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        output.flush().await?;
    }
}

async fn connect(
    directories: &Directories,
    settings_file: Option<PathBuf>,
) -> Result<Connection, ConnectionError> {
    let environment = SessionEnvironment::new(std::env::vars_os());
    let place = DaemonPlace::new(directories, &environment);
    place.prepare()?;
    let build = Build::own()?;
    let hello =
        |key, wish| Hello { build: build.clone(), key, environment: Some(environment.digest()), wish };
    let serve = Wish::Serve { settings_file, request: None };
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
        match connection.ask(&hello(key.clone(), serve.clone())).await? {
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
    let mut child = Command::new(std::env::current_exe()?)
        .args(["daemon", "run"])
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
