//! Commands and programs within the bounds of the sandbox.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use roo_process::GRACE;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::environment::Environment;
use super::process::{Command, ExecError, ProcessGroup, Status, run_ordered};
use super::sandbox::{Confinement, LeftRunning, Sandbox};

/// Runs a command to its end as [`super::run`] does, within bounds. Its processes end with it in any case,
/// also when the server is killed. Tells which processes the shell left running, which are ended.
///
/// # Errors
/// Besides those of [`super::run`]: [`ExecError::NoSandbox`], [`ExecError::Sandbox`] and
/// [`ExecError::Confinement`] when the bounds can't be held. Then it did not run.
pub async fn run_confined(
    command: &Command,
    environment: &Environment,
    sandbox: &Sandbox,
    confinement: &Confinement,
    on_output: impl FnMut(&str),
    cancel: &CancellationToken,
) -> Result<(Status, LeftRunning), ExecError> {
    let order = sandbox.prepare(command, environment, confinement)?;
    if let (Some(handle), Some(loopback)) = (&command.handle, &confinement.loopback) {
        handle.set_network(loopback.clone());
    }
    let job = sandbox.job(&order, confinement.loopback.as_ref());
    let (_, status, left) = run_ordered(command, job, on_output, cancel).await?;
    // The next command is likely to want the same.
    job.ready.prepare(job.helper, job.role());
    Ok((status, left))
}

/// Descriptors by which a [`ConfinedProgram`] is talked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramChannel {
    /// Its standard input and output.
    StandardStreams,
    /// It reads descriptor 3 and writes descriptor 4, as browsers do with `--remote-debugging-pipe`. Its standard output
    /// goes where its errors go.
    Descriptors3And4,
}

impl ProgramChannel {
    /// Redirections of the shell. The helper's own standard input is its order, so there is one socket for both ways, where
    /// the output goes.
    fn redirections(self) -> &'static str {
        match self {
            Self::StandardStreams => "<&1",
            Self::Descriptors3And4 => "3<&1 4>&1 1>&2",
        }
    }
}

/// A program that runs within bounds for as long as it is talked to, such as an MCP server. Dropping it ends the program
/// and everything below it.
pub struct ConfinedProgram {
    running: ProcessGroup,
    status: Option<Status>,
}

/// The streams of a [`ConfinedProgram`].
pub struct ProgramStreams {
    /// Both ways of its [`ProgramChannel`], which are one socket.
    pub socket: UnixStream,
    /// Its standard error.
    pub stderr: pipe::Receiver,
}

impl ConfinedProgram {
    /// Starts a program by its argv, in a directory and within bounds. Returns when the bounds are in force.
    ///
    /// # Errors
    /// As [`run_confined`]; then it did not run. A program that is not found ends at once, with a word on standard error.
    pub async fn start(
        argv: &[String],
        channel: ProgramChannel,
        directory: &Path,
        environment: &Environment,
        sandbox: &Sandbox,
        confinement: &Confinement,
    ) -> Result<(Self, ProgramStreams), ExecError> {
        let words = shlex::try_join(argv.iter().map(String::as_str)).map_err(|_| ExecError::Nul)?;
        if !directory.is_dir() {
            return Err(ExecError::Directory(directory.to_owned()));
        }
        let command = Command {
            line: format!("exec {words} {}", channel.redirections()),
            directory: directory.to_owned(),
            timeout: None,
            handle: None,
        };
        let order = sandbox.prepare(&command, environment, confinement)?;
        let job = sandbox.job(&order, confinement.loopback.as_ref());
        let start = || {
            let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
            ours.set_nonblocking(true)?;
            let (stderr, writer) = io::pipe()?;
            let running = job.start([theirs.into(), writer.into()])?;
            let stderr = pipe::Receiver::from_owned_fd(OwnedFd::from(stderr))?;
            Ok((running, ProgramStreams { socket: UnixStream::from_std(ours)?, stderr }))
        };
        let (mut running, streams) = start().map_err(|error: io::Error| {
            ExecError::Sandbox(format!("its helper can't be started: {error}"))
        })?;
        running.started().await?;
        Ok((Self { running, status: None }, streams))
    }

    /// Waits for the program's end. May be dropped and called again.
    ///
    /// # Errors
    /// Its end can't be observed.
    pub async fn ended(&mut self) -> Result<Status, ExecError> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        let status = self.running.exited().await?;
        self.status = Some(status);
        Ok(status)
    }

    /// Asks the program to end, gives it half a second, and kills it with everything below it.
    pub async fn end(mut self) {
        if self.status.is_none() {
            self.running.child.terminate();
            let _ = timeout(GRACE, self.running.exited()).await;
        }
        self.running.kill().await;
    }
}
