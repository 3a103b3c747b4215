//! A child process in a session of its own: its start, its end, and the end of everything in its process group. What it
//! prints and when it has to end is the business of whoever starts it.

use std::future::pending;
use std::io;
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessSession};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};
use tokio::time::{Instant, sleep_until, timeout};

/// Time that a process that is asked to end may take before it is killed.
pub const GRACE: Duration = Duration::from_millis(500);
/// Time that processes which a child left behind may go on writing.
pub const LINGER: Duration = Duration::from_millis(50);
/// Time that the kernel may take to end a killed process; one in an unanswered system call takes longer.
pub const REAP: Duration = Duration::from_secs(2);

/// Ways in which a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// With this exit code.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

/// A child and everything in its process group, which has no terminal that a password prompt could take over. Kills the
/// group when dropped.
pub struct ChildSession {
    child: Box<dyn ChildWrapper>,
    pid: Pid,
    /// Signals that any child of this process ended.
    child_ended: SignalStream,
    /// True if nothing is left to kill when dropped.
    is_over: bool,
}

impl ChildSession {
    /// Starts a command. Its standard streams are those that the command says.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn spawn(command: Command) -> io::Result<Self> {
        let child_ended = signal(SignalKind::child())?;
        let mut command = CommandWrap::from(command);
        command.wrap(ProcessSession);
        let mut child = command.spawn()?;
        let Some(pid) = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) else {
            let _ = child.start_kill();
            return Err(io::Error::other("it has no process id"));
        };
        Ok(Self { child, pid, child_ended, is_over: false })
    }

    /// Takes the piped standard streams; each can be taken once.
    pub fn take_pipes(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdin().take(), self.child.stdout().take(), self.child.stderr().take())
    }

    /// Waits for the end and leaves the process unreaped: until then no other process gets its id, so that a signal to
    /// the group can't hit a stranger.
    ///
    /// # Errors
    /// When the end can't be observed.
    pub async fn exited(&mut self) -> io::Result<ProcessEnd> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        loop {
            if let Some(ended) = rustix::io::retry_on_intr(|| waitid(WaitId::Pid(self.pid), options))? {
                return match (ended.exit_status(), ended.terminating_signal()) {
                    (Some(code), _) => Ok(ProcessEnd::Code(code)),
                    (None, Some(signal)) => Ok(ProcessEnd::Signal(signal)),
                    (None, None) => Err(io::Error::other("it neither exited nor was killed")),
                };
            }
            if self.child_ended.recv().await.is_none() {
                return Err(io::Error::other("the runtime is shutting down"));
            }
        }
    }

    /// Asks every process of the group to end.
    pub fn terminate(&self) {
        // A group that is gone already is what is wanted.
        let _ = self.child.signal(Signal::TERM.as_raw());
    }

    /// Kills what is left of the group and reaps the child.
    pub async fn kill(&mut self) {
        if !self.is_over {
            let _ = self.child.start_kill();
            self.reap().await;
        }
    }

    /// Reaps a child that ends by itself within [`REAP`].
    pub async fn reap(&mut self) {
        self.is_over = timeout(REAP, self.child.wait()).await.is_ok();
    }

    /// Leaves the end of the group to the child, which sees another way that it is over.
    pub fn end_itself_when_dropped(&mut self) {
        self.is_over = true;
    }
}

impl Drop for ChildSession {
    fn drop(&mut self) {
        if !self.is_over {
            let _ = self.child.start_kill();
        }
    }
}

/// Waits until a process has had its time; for ever without a limit.
pub async fn time_is_over(limit: Option<Duration>) {
    match limit.and_then(|limit| Instant::now().checked_add(limit)) {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}

/// The end of a program that was run for what it prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessOutput {
    /// End of the process.
    pub end: ProcessEnd,
    /// The beginning of its standard output.
    pub stdout: Vec<u8>,
    /// The beginning of its standard error.
    pub stderr: Vec<u8>,
}

impl ProcessOutput {
    /// Reports whether it ended with exit code 0.
    pub fn is_success(&self) -> bool {
        self.end == ProcessEnd::Code(0)
    }
}

/// The most bytes that [`run_for_output`] reads of standard error.
const ERROR_OUTPUT: u64 = 4 << 10;

/// Runs a program to its end and returns what it prints: of standard output no more than `limit` bytes, after which the
/// pipe is closed. Only streams that the command says are piped are read. Everything in its process group is killed when
/// the future is dropped.
///
/// # Errors
/// When it can't be started, its output can't be read, or its end can't be observed.
pub async fn run_for_output(command: Command, limit: u64) -> io::Result<ProcessOutput> {
    let mut session = ChildSession::spawn(command)?;
    let (_, stdout, stderr) = session.take_pipes();
    let (stdout, stderr) = tokio::join!(read(stdout, limit), read(stderr, ERROR_OUTPUT));
    let end = session.exited().await?;
    session.kill().await;
    Ok(ProcessOutput { end, stdout: stdout?, stderr: stderr? })
}

async fn read(pipe: Option<impl AsyncRead + Unpin>, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(limit).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}
