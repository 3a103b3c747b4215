//! A client's connection to a daemon, up to the answer to its first line.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::handshake::{Answer, Build, Hello, read_line, write_line};
use super::place::{DaemonPlace, PlaceError};

/// Time limit for the daemon's answer.
const ANSWER_DEADLINE: Duration = Duration::from_secs(5);
/// Time limit for a daemon that ends: its requests are saved, and its servers ended.
const END_DEADLINE: Duration = Duration::from_secs(20);

/// Reasons why no daemon serves a client.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    /// Its files can't be used.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The system returned an error.
    #[error("the connection to the daemon failed: {0}")]
    Io(#[from] io::Error),
    /// Another user listens at the socket.
    #[error("a process of another user listens at its socket")]
    Stranger,
    /// It doesn't answer.
    #[error("the daemon doesn't answer")]
    Silent,
    /// It could not be started.
    #[error("the daemon could not be started: {0}")]
    NotStarted(String),
    /// It ends as soon as it was started.
    #[error("the daemon ends again and again")]
    Unsteady,
    /// It would have to be started with another environment.
    #[error("no other daemon has begun in its environment, in which an editor or terminal has to start it")]
    Elsewhere,
    /// It is another build, and at work.
    #[error("a daemon of another build (version {}) is at work; run `roo-lsp daemon restart` to replace it", .0.version)]
    OtherBuild(Build),
    /// It refused the client.
    #[error("the daemon refused: {0}")]
    Refused(String),
    /// It answered something else than what was asked.
    #[error("the daemon's answer doesn't fit what was asked")]
    Mismatch,
}

impl ConnectionError {
    /// Returns whether a daemon that was just killed can be the reason.
    pub(super) fn is_passing(&self) -> bool {
        matches!(self, Self::Io(_) | Self::NotStarted(_) | Self::Unsteady)
    }
}

pub(super) struct Connection {
    pub(super) input: BufReader<OwnedReadHalf>,
    pub(super) output: OwnedWriteHalf,
}

impl Connection {
    /// Connects to the daemon at a place; none where nobody listens.
    pub(super) async fn open(place: &DaemonPlace) -> Result<Option<Self>, ConnectionError> {
        if !place.has_socket()? {
            return Ok(None);
        }
        let stream = match UnixStream::connect(place.socket()).await {
            Ok(stream) => stream,
            // It was left by a daemon that was killed, or removed in between.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        if stream.peer_cred()?.uid() != rustix::process::geteuid().as_raw() {
            return Err(ConnectionError::Stranger);
        }
        let (input, output) = stream.into_split();
        Ok(Some(Self { input: BufReader::new(input), output }))
    }

    /// Says the first line, and returns the answer.
    pub(super) async fn ask(&mut self, hello: &Hello) -> Result<Answer, ConnectionError> {
        write_line(&mut self.output, hello).await?;
        let answer = tokio::time::timeout(ANSWER_DEADLINE, read_line(&mut self.input)).await;
        Ok(answer.map_err(|_| ConnectionError::Silent)??)
    }

    /// Waits until a daemon has ended that is about to.
    pub(super) async fn closed(mut self) -> Result<(), ConnectionError> {
        // A reset connection is closed too.
        let end = async { while self.input.read_u8().await.is_ok() {} };
        tokio::time::timeout(END_DEADLINE, end).await.map_err(|_| ConnectionError::Silent)
    }
}
