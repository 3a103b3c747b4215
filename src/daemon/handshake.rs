//! What a client and the daemon say to each other first: a line of JSON each. Unknown keys are ignored, so that versions that
//! know more can tell each other that they differ.
//!
//! Behind it, a client that is served writes the messages of the language server protocol as they are. What it gets is cut
//! into pieces of a length and bytes; the length 0 is followed by the exit code of the server, in one byte.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::server::ConnectionKind;
use roo_protocol::PROTOCOL_VERSION;
use roo_protocol::ids::{Digest, TaskId, Urid};

/// The longest line, in bytes.
const LINE: u64 = 8 * 1024 * 1024;
/// The version of this handshake, and of what follows it.
const HANDSHAKE: u32 = 2;

/// A program that takes part: clients and daemons of one kind understand each other in everything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Build {
    /// The version of the program, for people.
    pub(crate) version: String,
    /// A digest of its file and of the protocols that it speaks.
    pub(crate) digest: String,
}

impl Build {
    /// This program. Its file is told by its place, size and time: to read all of it would take longer than to start it.
    ///
    /// # Errors
    /// When the program's file can't be looked at.
    pub(super) fn own() -> io::Result<Self> {
        // It leads to the file even where another one has taken its name.
        let (linked, named) = (Path::new("/proc/self/exe"), std::env::current_exe()?);
        let found = std::fs::metadata(linked).or_else(|_| std::fs::metadata(&named))?;
        let file = (found.dev(), found.ino(), found.size(), found.mtime(), found.mtime_nsec());
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let told = format!("{version} {HANDSHAKE} {PROTOCOL_VERSION} {file:?}");
        Ok(Self { version, digest: Digest::of(told.as_bytes()).hex() })
    }
}

/// The client's line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Hello {
    pub(super) build: Build,
    /// The key of the daemon, which only its user's own programs can read.
    pub(super) key: String,
    /// The digest of its environment; none where it doesn't matter.
    pub(super) environment: Option<String>,
    pub(super) wish: Wish,
}

/// What a client wants.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "kind")]
pub(super) enum Wish {
    /// To be served as the client of a language server.
    Serve {
        /// The settings file in place of the user's own, as an absolute path.
        settings_file: Option<PathBuf>,
        /// The kind of the client.
        #[serde(default)]
        client: ConnectionKind,
        /// The live request that it is about, in whatever workspace.
        #[serde(default)]
        request: Option<TaskId>,
    },
    /// To be told how the daemon is, now and whenever its requests have changed: a line of [`DaemonStatus`] each time, and `null`
    /// when it ends in good order.
    Watch {
        /// Requests that the client knows from an earlier daemon, and wants to be told of, whether or not they live.
        #[serde(default)]
        known: Vec<TaskId>,
    },
    /// To know how the daemon is.
    Status,
    /// That it ends.
    Stop {
        /// Only if no other client is connected and no request is at work.
        only_if_idle: bool,
    },
}

/// The daemon's line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub(super) enum Answer {
    /// The client is served, or told what it watches.
    Welcome,
    /// How the daemon is.
    Status(DaemonStatus),
    /// It ends, and then closes the connection.
    Stopping,
    /// It is not idle, and goes on.
    Busy,
    /// It was about to end already, and then closes the connection.
    Ending,
    /// It is another build, which serves its own clients alone.
    OtherBuild(Build),
    /// The client is refused, for this reason.
    Refused { reason: String },
}

/// How a daemon is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DaemonStatus {
    /// What it is.
    pub(crate) build: Build,
    pub(crate) process: u32,
    /// When it began, in milliseconds since the Unix epoch.
    pub(crate) since: i64,
    /// The number of clients that it serves.
    pub(crate) clients: usize,
    /// The requests that live in it.
    pub(crate) requests: Vec<RequestStatus>,
    /// The requests that the daemon before was killed with and that are about to go on.
    #[serde(default)]
    pub(crate) resuming: Vec<TaskId>,
}

/// A request that lives in a daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RequestStatus {
    pub(crate) id: TaskId,
    /// Its id for people.
    pub(crate) urid: Urid,
    pub(crate) title: String,
    /// The state of its own task, as clients are told.
    pub(crate) state: String,
    /// True if something in it goes on without its user.
    pub(crate) is_at_work: bool,
    /// The number of its tasks that wait for an answer of their user. Earlier versions don't say.
    #[serde(default)]
    pub(crate) waiting: usize,
    /// True if it is completed, failed or cancelled.
    #[serde(default)]
    pub(crate) has_ended: bool,
    /// The folders of its workspace.
    pub(crate) folders: Vec<PathBuf>,
    /// The number of clients in its workspace.
    pub(crate) clients: usize,
}

pub(super) async fn write_line(
    output: &mut (impl AsyncWrite + Unpin),
    line: &impl Serialize,
) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    output.write_all(&bytes).await?;
    output.flush().await
}

pub(super) async fn read_line<T: DeserializeOwned>(input: &mut (impl AsyncBufRead + Unpin)) -> io::Result<T> {
    let mut bytes = Vec::new();
    input.take(LINE).read_until(b'\n', &mut bytes).await?;
    if bytes.last() != Some(&b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&bytes)?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_line_of_a_version_that_knows_more_is_read() {
        let line = json!({
            "build": { "version": "9.0.0", "digest": "d", "more": 1 },
            "key": "k",
            "wish": { "kind": "serve", "settingsFile": null, "more": {} },
            "more": [],
        });
        let text = format!("{line}\nContent-Length: 2\r\n\r\n{{}}");
        let mut input = text.as_bytes();
        let hello: Hello = read_line(&mut input).await.unwrap();
        assert_eq!((hello.build.version.as_str(), hello.environment), ("9.0.0", None));
        assert!(matches!(
            hello.wish,
            Wish::Serve { settings_file: None, client: ConnectionKind::Editor, request: None }
        ));
        assert_eq!(input, b"Content-Length: 2\r\n\r\n{}", "what follows is left alone");
    }

    #[test]
    fn a_client_that_names_no_requests_watches_those_that_live() {
        let wish: Wish = serde_json::from_value(json!({ "kind": "watch" })).unwrap();
        assert!(matches!(wish, Wish::Watch { known } if known.is_empty()));
    }

    #[tokio::test]
    async fn a_line_without_an_end_is_an_error() {
        for text in ["", "{", &"x".repeat(9 * 1024 * 1024)] {
            assert!(read_line::<Answer>(&mut text.as_bytes()).await.is_err());
        }
    }

    #[tokio::test]
    async fn every_answer_is_read_as_it_was_written() {
        let build = Build { version: "1".into(), digest: "d".into() };
        let status = DaemonStatus {
            build: build.clone(),
            process: 7,
            since: 1,
            clients: 2,
            requests: vec![],
            resuming: vec![TaskId::new("a")],
        };
        for answer in [
            Answer::Welcome,
            Answer::Status(status),
            Answer::Stopping,
            Answer::Busy,
            Answer::Ending,
            Answer::OtherBuild(build),
            Answer::Refused { reason: "no".into() },
        ] {
            let mut bytes = Vec::new();
            write_line(&mut bytes, &answer).await.unwrap();
            let read: Answer = read_line(&mut bytes.as_slice()).await.unwrap();
            assert_eq!(format!("{read:?}"), format!("{answer:?}"));
        }
    }
}
