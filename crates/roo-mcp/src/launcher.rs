//! Starting a server's program. How that is done is the caller's choice; [`PlainLauncher`] does it without bounds.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use futures_util::future::BoxFuture;
use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessSession};
use roo_formats::mcp::ResolvedStdio;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};
use tokio::time::timeout;

use crate::network::AddressPolicy;

/// How long a program may take to end after its standard input was closed, and again after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);
/// How long the kernel may take to end a killed process.
const REAP: Duration = Duration::from_secs(2);

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
    /// Whose configuration it comes from.
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
    /// Its process.
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

/// How a program ended.
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

/// Why a program did not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// There is none of that name.
    #[error("`{0}` is not found; install it, or write its full path into `command`")]
    NotFound(String),
    /// There is no such directory.
    #[error("`{}` is no directory; correct `cwd`", .0.display())]
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
        let mut command = CommandWrap::from(command);
        // All that it starts is in its process group, and a password prompt finds no terminal.
        command.wrap(ProcessSession);
        // Before the program starts, so that its end is not missed.
        let child_ended =
            signal(SignalKind::child()).map_err(|error| LaunchError::Other(error.to_string()))?;
        let mut child = command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => LaunchError::NotFound(program.command.clone()),
            _ => LaunchError::Other(format!("`{}`: {error}", program.command)),
        })?;
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        match (pid, child.stdin().take(), child.stdout().take(), child.stderr().take()) {
            (Some(pid), Some(stdin), Some(stdout), Some(stderr)) => Ok(LaunchedServer {
                stdin: Box::new(stdin),
                stdout: Box::new(stdout),
                stderr: Box::new(stderr),
                process: Box::new(PlainProcess { child, pid, child_ended, ended: None }),
            }),
            _ => {
                let _ = child.start_kill();
                Err(LaunchError::Other("its standard streams can't be reached".to_owned()))
            }
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

/// A process and its group.
struct PlainProcess {
    child: Box<dyn ChildWrapper>,
    pid: Pid,
    /// Tells when any child of ours ended.
    child_ended: SignalStream,
    /// How it ended, once it is reaped.
    ended: Option<Ended>,
}

impl PlainProcess {
    async fn wait(&mut self) -> Ended {
        if let Some(ended) = &self.ended {
            return ended.clone();
        }
        // Unreaped, its id is no other process's: the signal to its group hits what it left behind and nobody else.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        loop {
            match rustix::io::retry_on_intr(|| waitid(WaitId::Pid(self.pid), options)) {
                Err(_) => return Ended::Unknown,
                Ok(Some(status)) => {
                    let _ = self.child.start_kill();
                    let _ = timeout(REAP, self.child.wait()).await;
                    let ended = match (status.exit_status(), status.terminating_signal()) {
                        (Some(code), _) => Ended::Code(code),
                        (None, Some(signal)) => Ended::Signal(signal),
                        (None, None) => Ended::Unknown,
                    };
                    self.ended = Some(ended.clone());
                    return ended;
                }
                Ok(None) => {
                    if self.child_ended.recv().await.is_none() {
                        return Ended::Unknown;
                    }
                }
            }
        }
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
            let _ = self.child.signal(rustix::process::Signal::TERM.as_raw());
            if let Ok(ended) = timeout(GRACE, self.wait()).await {
                return ended;
            }
            let _ = self.child.start_kill();
            timeout(REAP, self.wait()).await.unwrap_or(Ended::Unknown)
        })
    }
}

impl Drop for PlainProcess {
    fn drop(&mut self) {
        if self.ended.is_none() {
            let _ = self.child.start_kill();
        }
    }
}
