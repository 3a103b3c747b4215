//! One command from start to end.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::pin::pin;
use std::process::Stdio;
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessSession};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::decode::Decoder;
use super::environment::Environment;

/// The shell that runs commands.
pub const SHELL: &str = "/bin/sh";

/// How long a command that is asked to end may take before it is killed.
const GRACE: Duration = Duration::from_millis(500);
/// How long processes that the shell left behind may go on writing.
const LINGER: Duration = Duration::from_millis(50);
/// How long the kernel may take to end a killed process; one in an unanswered system call takes longer.
const REAP: Duration = Duration::from_secs(2);
/// Bytes read at once: what a pipe holds.
const CHUNK: usize = 64 * 1024;

/// A command to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// For [`SHELL`]` -c`.
    pub line: String,
    /// Where it starts.
    pub directory: PathBuf,
    /// When to end it; never when none.
    pub timeout: Option<Duration>,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// With this exit code.
    Code(i32),
    /// By a signal that we did not send.
    Signal(i32),
    /// By us, when its time was over.
    TimedOut,
    /// By us, when it was cancelled.
    Cancelled,
}

/// Why a command did not run to an end.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// There is no such directory to run in.
    #[error("{} is not a directory that a command can run in; name one that exists", .0.display())]
    Directory(PathBuf),
    /// The line can't be handed to a shell.
    #[error("the command contains a NUL character, which no shell takes; leave it out")]
    Nul,
    /// The shell did not start.
    #[error("{SHELL} can't be started in {}: {source}", .directory.display())]
    Start {
        /// Where it should have started.
        directory: PathBuf,
        /// Why it did not.
        source: io::Error,
    },
    /// The shell started and its end can't be observed.
    #[error("the end of the command can't be observed, so its effects are unknown: {0}")]
    Wait(#[source] io::Error),
}

/// Runs a command to its end.
///
/// It has no standard input and no terminal. What it prints, standard output and error in the order
/// of arrival, goes to `on_output` piece by piece, decoded. When it is cancelled or its time is over,
/// all its processes get SIGTERM and, half a second later, SIGKILL; what the shell leaves behind when it
/// exits is killed too, and so is everything when the future is dropped.
pub async fn run(
    command: &Command,
    environment: &Environment,
    on_output: impl FnMut(&str),
    cancel: &CancellationToken,
) -> Result<Status, ExecError> {
    let (mut shell, pipe) = Shell::start(command, environment)?;
    let mut output =
        Printed { pipe, open: true, buffer: vec![0; CHUNK], decoder: Decoder::default(), on_output };

    let ended = {
        let deadline = command.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut overdue = pin!(async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        });
        let mut exited = pin!(shell.exited());
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => break Err(Status::Cancelled),
                () = &mut overdue => break Err(Status::TimedOut),
                status = &mut exited => break Ok(status?),
                () = output.read(), if output.open => {}
            }
        }
    };
    let status = match ended {
        Ok(status) => {
            // Whoever still holds the pipe gets a moment; usually nobody does and it ends at once.
            let _ = timeout(LINGER, output.read_to_end()).await;
            status
        }
        Err(status) => {
            shell.terminate();
            let _ = timeout(GRACE, async { tokio::join!(shell.exited(), output.read_to_end()) }).await;
            status
        }
    };
    shell.kill().await;
    output.finish();
    Ok(status)
}

/// The shell and everything in its process group. Kills the group when dropped.
struct Shell {
    child: Box<dyn ChildWrapper>,
    pid: Pid,
    /// Tells when any child of ours ended.
    child_ended: SignalStream,
    reaped: bool,
}

impl Shell {
    fn start(command: &Command, environment: &Environment) -> Result<(Self, pipe::Receiver), ExecError> {
        if command.line.contains('\0') {
            return Err(ExecError::Nul);
        }
        if !command.directory.is_dir() {
            return Err(ExecError::Directory(command.directory.clone()));
        }
        Self::spawn(command, environment)
            .map_err(|source| ExecError::Start { directory: command.directory.clone(), source })
    }

    fn spawn(command: &Command, environment: &Environment) -> io::Result<(Self, pipe::Receiver)> {
        // One pipe for both streams keeps the order in which things were printed.
        let (reader, writer) = io::pipe()?;
        let reader = pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?;
        let child_ended = signal(SignalKind::child())?;
        let mut shell = tokio::process::Command::new(SHELL);
        shell
            .arg("-c")
            .arg(&command.line)
            .current_dir(&command.directory)
            .env_clear()
            .envs(environment.variables())
            .stdin(Stdio::null())
            .stdout(writer.try_clone()?)
            .stderr(writer);
        let mut shell = CommandWrap::from(shell);
        // A session has its own process group, and no terminal that a password prompt could take over.
        shell.wrap(ProcessSession);
        let mut child = shell.spawn()?;
        let Some(pid) = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) else {
            let _ = child.start_kill();
            return Err(io::Error::other("it has no process id"));
        };
        // The writing ends go with `shell`, so that the pipe ends with the last process.
        Ok((Self { child, pid, child_ended, reaped: false }, reader))
    }

    /// Waits for the shell's end and leaves it unreaped: until then no other process gets its id, so
    /// that a signal to the group can't hit a stranger.
    async fn exited(&mut self) -> Result<Status, ExecError> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        loop {
            let ended = rustix::io::retry_on_intr(|| waitid(WaitId::Pid(self.pid), options))
                .map_err(|error| ExecError::Wait(error.into()))?;
            if let Some(ended) = ended {
                return match (ended.exit_status(), ended.terminating_signal()) {
                    (Some(code), _) => Ok(Status::Code(code)),
                    (None, Some(signal)) => Ok(Status::Signal(signal)),
                    (None, None) => {
                        Err(ExecError::Wait(io::Error::other("it neither exited nor was killed")))
                    }
                };
            }
            if self.child_ended.recv().await.is_none() {
                return Err(ExecError::Wait(io::Error::other("the runtime is shutting down")));
            }
        }
    }

    /// Asks every process of the group to end.
    fn terminate(&self) {
        // A group that is gone already is what we want.
        let _ = self.child.signal(rustix::process::Signal::TERM.as_raw());
    }

    /// Kills what is left of the group and reaps it.
    async fn kill(&mut self) {
        let _ = self.child.start_kill();
        self.reaped = timeout(REAP, self.child.wait()).await.is_ok();
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        if !self.reaped {
            let _ = self.child.start_kill();
        }
    }
}

/// The reading end of a command's output.
struct Printed<F> {
    pipe: pipe::Receiver,
    /// Whether anybody may still write.
    open: bool,
    buffer: Vec<u8>,
    decoder: Decoder,
    on_output: F,
}

impl<F: FnMut(&str)> Printed<F> {
    /// Waits for a piece of output or its end.
    async fn read(&mut self) {
        match self.pipe.read(&mut self.buffer).await {
            Ok(0) | Err(_) => self.open = false,
            Ok(count) => self.hand_out(count),
        }
    }

    async fn read_to_end(&mut self) {
        while self.open {
            self.read().await;
        }
    }

    /// Takes what the pipe holds now. A process that left the group may write on for ever, so no more
    /// than that.
    fn finish(&mut self) {
        // Straight from the descriptor: the runtime may not have heard yet that it is readable.
        if self.open
            && let Ok(count @ 1..) = rustix::io::read(&self.pipe, &mut self.buffer)
        {
            self.hand_out(count);
        }
        let rest = self.decoder.finish();
        if !rest.is_empty() {
            (self.on_output)(&rest);
        }
    }

    fn hand_out(&mut self, count: usize) {
        let text = self.decoder.decode(&self.buffer[..count]);
        if !text.is_empty() {
            (self.on_output)(&text);
        }
    }
}

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
