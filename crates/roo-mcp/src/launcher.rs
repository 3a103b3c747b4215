//! Starting a server's program. How that is done is the caller's choice; [`PlainLauncher`] does it without bounds.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use futures_util::future::BoxFuture;
use roo_formats::mcp::ResolvedStdio;
use roo_process::{ChildSession, ProcessEnd};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use crate::network::AddressPolicy;

/// Time limit for a program to end after its standard input was closed, and again after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);

/// Starts the programs of servers.
pub trait ServerLauncher: Send + Sync + 'static {
    /// Starts a program. The server lives in the process that is given back and in what it starts.
    fn launch<'a>(&'a self, request: &'a LaunchRequest)
    -> BoxFuture<'a, Result<LaunchedServer, LaunchError>>;
}

/// A program to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchRequest {
    /// The server's name.
    pub server: String,
    /// Addresses that the owner of the configuration may name.
    pub policy: AddressPolicy,
    /// The program, with its arguments, variables and directory.
    pub program: ResolvedStdio,
}

/// A program that was started.
pub struct LaunchedServer {
    /// Its standard input. Dropped when it is to end.
    pub stdin: Box<dyn AsyncWrite + Send + Sync + Unpin>,
    /// Its standard output.
    pub stdout: Box<dyn AsyncRead + Send + Sync + Unpin>,
    /// Its standard error.
    pub stderr: Box<dyn AsyncRead + Send + Sync + Unpin>,
    pub process: Box<dyn ServerProcess>,
}

impl fmt::Debug for LaunchedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaunchedServer").finish_non_exhaustive()
    }
}

/// A running program and everything that it started. Dropping it kills all of that.
pub trait ServerProcess: Send + Sync {
    /// Waits for the program's end. May be dropped and called again.
    fn ended(&mut self) -> BoxFuture<'_, Ended>;

    /// Ends the program and what it started: lets it end by itself for a moment, since its standard input is closed,
    /// asks it to, and kills it. Gives how it ended.
    fn end(self: Box<Self>) -> BoxFuture<'static, Ended>;
}

/// End of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// In a way that is not known.
    Unknown,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Unknown => f.write_str("in an unknown way"),
        }
    }
}

/// Reasons why a program did not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// There is none of that name.
    #[error("`{0}` is not found; install it, or write its full path into `command`")]
    NotFound(String),
    /// There is no such directory.
    #[error("`{}` is not a directory; correct `cwd`", .0.display())]
    Directory(PathBuf),
    /// Something else.
    #[error("{0}")]
    Other(String),
}

/// Starts programs as they are, without a sandbox, each in a session of its own.
#[derive(Clone, Debug)]
pub struct PlainLauncher {
    environment: BTreeMap<OsString, OsString>,
    directory: PathBuf,
}

impl PlainLauncher {
    /// A launcher that gives programs these variables besides their own, and starts them in this directory unless they
    /// name another.
    pub fn new(environment: BTreeMap<OsString, OsString>, directory: PathBuf) -> Self {
        Self { environment, directory }
    }

    fn spawn(&self, program: &ResolvedStdio) -> Result<LaunchedServer, LaunchError> {
        let directory = match &program.directory {
            Some(directory) => self.directory.join(directory),
            None => self.directory.clone(),
        };
        if !directory.is_dir() {
            return Err(LaunchError::Directory(directory));
        }
        let mut command = tokio::process::Command::new(&program.command);
        command
            .args(&program.args)
            .current_dir(directory)
            .env_clear()
            .envs(&self.environment)
            .envs(&program.env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut session = ChildSession::spawn(command).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => LaunchError::NotFound(program.command.clone()),
            _ => LaunchError::Other(format!("`{}`: {error}", program.command)),
        })?;
        match session.take_pipes() {
            (Some(stdin), Some(stdout), Some(stderr)) => Ok(LaunchedServer {
                stdin: Box::new(stdin),
                stdout: Box::new(stdout),
                stderr: Box::new(stderr),
                process: Box::new(PlainProcess { session, ended: None }),
            }),
            _ => Err(LaunchError::Other("its standard streams can't be reached".to_owned())),
        }
    }
}

impl ServerLauncher for PlainLauncher {
    fn launch<'a>(
        &'a self,
        request: &'a LaunchRequest,
    ) -> BoxFuture<'a, Result<LaunchedServer, LaunchError>> {
        Box::pin(async move { self.spawn(&request.program) })
    }
}

/// A process and what it started.
struct PlainProcess {
    session: ChildSession,
    /// Its end, once it is reaped.
    ended: Option<Ended>,
}

impl PlainProcess {
    async fn wait(&mut self) -> Ended {
        if let Some(ended) = &self.ended {
            return ended.clone();
        }
        let ended = match self.session.exited().await {
            Ok(ProcessEnd::Code(code)) => Ended::Code(code),
            Ok(ProcessEnd::Signal(signal)) => Ended::Signal(signal),
            Err(_) => Ended::Unknown,
        };
        self.session.kill().await;
        self.ended.insert(ended).clone()
    }
}

impl ServerProcess for PlainProcess {
    fn ended(&mut self) -> BoxFuture<'_, Ended> {
        Box::pin(self.wait())
    }

    fn end(mut self: Box<Self>) -> BoxFuture<'static, Ended> {
        Box::pin(async move {
            if let Ok(ended) = timeout(GRACE, self.wait()).await {
                return ended;
            }
            self.session.terminate();
            if let Ok(ended) = timeout(GRACE, self.wait()).await {
                return ended;
            }
            self.session.kill().await;
            Ended::Signal(rustix::process::Signal::KILL.as_raw())
        })
    }
}
