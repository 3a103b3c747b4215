//! A child process in a session of its own: its start, its end, and the end of everything in its process group. Callers
//! handle its output and decide when it has to end.

use std::future::pending;
use std::io;
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessSession};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, ioctl_tiocsctty, kill_process_group, setsid, waitid,
};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};
use tokio::time::{Instant, sleep_until, timeout};

use super::open_files;

/// Time between the request to end and the kill.
pub const GRACE: Duration = Duration::from_millis(500);
/// Time for which processes that outlive the child may keep writing.
pub const LINGER: Duration = Duration::from_millis(50);
/// Time that the kernel may take to end a killed process; one in an unanswered system call takes longer.
pub const REAP: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// With this exit code.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

/// A child and everything in its process group, which has no terminal that a password prompt could take over. Kills the
/// group when dropped.
#[derive(Debug)]
pub struct ChildSession {
    child: Box<dyn ChildWrapper>,
    pid: Pid,
    /// Signals that any child of this process ended.
    child_ended: SignalStream,
    /// True if nothing is left to kill when dropped.
    is_over: bool,
}

impl ChildSession {
    /// Starts a command with the standard streams that it configures, and the limit on open files that this process was
    /// started with.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn spawn(mut command: Command) -> io::Result<Self> {
        open_files::inherit_limit(&mut command);
        let mut command = CommandWrap::from(command);
        command.wrap(ProcessSession);
        Self::start(command)
    }

    /// As [`Self::spawn`], with standard input, which has to be a terminal, as the session's own: keys such as Ctrl-C there
    /// reach the command.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn spawn_in_terminal(mut command: Command) -> io::Result<Self> {
        open_files::inherit_limit(&mut command);
        let lead = || {
            setsid()?;
            ioctl_tiocsctty(rustix::stdio::stdin())?;
            Ok(())
        };
        #[expect(
            unsafe_code,
            reason = "between fork and exec it makes two system calls and allocates nothing"
        )]
        unsafe {
            command.pre_exec(lead);
        }
        Self::start(CommandWrap::from(command))
    }

    /// Starts a program that first of all makes itself the leader of a session, and takes the limit on open files from
    /// its arguments. It is started without a copy of this process, however large that is.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn spawn_leader(command: Command) -> io::Result<Self> {
        Self::start(CommandWrap::from(command))
    }

    fn start(mut command: CommandWrap) -> io::Result<Self> {
        let child_ended = signal(SignalKind::child())?;
        let mut child = command.spawn()?;
        let Some(pid) = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) else {
            let _ = child.start_kill();
            return Err(io::Error::other("it has no process id"));
        };
        Ok(Self { child, pid, child_ended, is_over: false })
    }

    /// Returns the id of the process.
    pub fn id(&self) -> Option<u32> {
        u32::try_from(self.pid.as_raw_nonzero().get()).ok()
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
        // The group may have ended already.
        let _ = kill_process_group(self.pid, Signal::TERM);
    }

    /// Kills what is left of the group and reaps the child.
    pub async fn kill(&mut self) {
        if !self.is_over {
            self.kill_group();
            self.reap().await;
        }
    }

    /// Reaps a child that ends by itself within [`REAP`].
    pub async fn reap(&mut self) {
        self.is_over = timeout(REAP, self.child.wait()).await.is_ok();
    }

    fn kill_group(&mut self) {
        let _ = kill_process_group(self.pid, Signal::KILL);
        // The child itself, if it has no group yet.
        let _ = self.child.start_kill();
    }

    /// Leaves it to the child to end the group, as it learns of the end in another way.
    pub fn disable_kill_on_drop(&mut self) {
        self.is_over = true;
    }
}

impl Drop for ChildSession {
    fn drop(&mut self) {
        if !self.is_over {
            self.kill_group();
        }
    }
}

/// Waits for the time limit of a process; without one, forever.
pub async fn time_is_over(limit: Option<Duration>) {
    match limit.and_then(|limit| Instant::now().checked_add(limit)) {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}

/// Result of a program that was run for its output.
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

/// The most bytes that [`run_for_output`] returns of standard error.
const ERROR_OUTPUT: u64 = 4 << 10;

/// Runs a program until it exits and returns its output: the first `limit` bytes of standard output, after which the
/// pipe is closed, and the first 4 KiB of standard error; the rest of that is read and dropped, so that diagnostics
/// never end a program. Only streams that the command pipes are read. Everything in its process group is killed when
/// the future is dropped.
///
/// # Errors
/// When it can't be started, its output can't be read, or its end can't be observed.
pub async fn run_for_output(command: Command, limit: u64) -> io::Result<ProcessOutput> {
    run_with_input(command, &[], limit).await
}

/// Runs a program as [`run_for_output`] does, with `input` as its standard input, which the command has to pipe. A program that
/// doesn't read all of it is no error.
///
/// # Errors
/// When it can't be started, its output can't be read, or its end can't be observed.
pub async fn run_with_input(command: Command, input: &[u8], limit: u64) -> io::Result<ProcessOutput> {
    let mut session = ChildSession::spawn(command)?;
    let (stdin, stdout, stderr) = session.take_pipes();
    let write = async {
        if let Some(mut stdin) = stdin {
            // Where it doesn't read, its end says why.
            let _ = stdin.write_all(input).await;
        }
    };
    let (stdout, stderr, ()) =
        tokio::join!(read_beginning(stdout, limit), read_all(stderr, ERROR_OUTPUT), write);
    let end = session.exited().await?;
    session.kill().await;
    Ok(ProcessOutput { end, stdout: stdout?, stderr: stderr? })
}

/// Reads at most `limit` bytes, then closes the pipe.
async fn read_beginning(pipe: Option<impl AsyncRead + Unpin>, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(limit).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

/// Reads to the end and returns the first `limit` bytes.
async fn read_all(pipe: Option<impl AsyncRead + Unpin>, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        (&mut pipe).take(limit).read_to_end(&mut bytes).await?;
        tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    async fn run(script: &str, limit: u64) -> ProcessOutput {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        run_for_output(command, limit).await.unwrap()
    }

    #[tokio::test]
    async fn a_program_gets_its_input_and_may_leave_it() {
        let input = vec![b'x'; 1 << 20];
        for (script, printed) in [("wc -c", "1048576"), ("echo done", "done")] {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let output = run_with_input(command, &input, 100).await.unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), printed);
        }
    }

    #[tokio::test]
    async fn a_program_may_write_more_to_standard_error_than_is_returned() {
        // More than a pipe holds.
        let script = "yes diagnostics | head -c 1000000 >&2 && echo done";
        let output = run(script, 100).await;
        assert!(output.is_success(), "{:?}", output.end);
        assert_eq!(output.stdout, b"done\n");
        assert_eq!(output.stderr.len() as u64, ERROR_OUTPUT);
        assert!(output.stderr.starts_with(b"diagnostics\n"));
    }

    #[tokio::test]
    async fn a_program_that_prints_more_than_the_limit_finds_its_pipe_closed() {
        let output = run("exec yes", 10).await;
        assert_eq!(output.end, ProcessEnd::Signal(Signal::PIPE.as_raw()));
        assert_eq!(output.stdout, b"y\ny\ny\ny\ny\n");
    }
}
