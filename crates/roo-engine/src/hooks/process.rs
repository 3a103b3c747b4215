//! One hook's process: its input, its two outputs, its end.
//!
//! What runs is as in [`roo_sandbox::exec`], a session of its own that ends with it. But a hook reads an event
//! from its standard input, and what it prints on which stream has a meaning.

use std::ffi::{OsStr, OsString};
use std::future::pending;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::Stdio;
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessSession};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStdin, Command};
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::file::Program;
use roo_sandbox::exec::{Environment, shell};

/// Maximum length of kept output, in bytes.
pub(super) const OUTPUT_LIMIT: usize = 1 << 20;
/// Grace period of a hook that is asked to end before it is killed.
const GRACE: Duration = Duration::from_millis(500);
/// Time for which processes left behind by the hook may go on writing.
const LINGER: Duration = Duration::from_millis(50);
/// Time for the kernel to end a killed process.
const REAP: Duration = Duration::from_secs(2);
/// Bytes read at once: what a pipe holds.
const CHUNK: usize = 64 << 10;

/// Program to run and its environment.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) program: Program,
    /// Working directory; the project's directory.
    pub(super) directory: PathBuf,
    /// Besides what every child of ours sees.
    pub(super) variables: Vec<(&'static str, OsString)>,
    pub(super) input: Vec<u8>,
    pub(super) timeout: Duration,
}

/// End of a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HookEnd {
    Code(i32),
    /// By a signal that we did not send.
    Signal(i32),
    /// By us, when it timed out.
    TimedOut,
    /// By us, when nobody needed it any more.
    Cancelled,
    /// It never ran, or its end can't be seen.
    Failed(String),
}

/// A hook's end and what it printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FinishedHook {
    pub(super) ending: HookEnd,
    pub(super) stdout: Printed,
    pub(super) stderr: Printed,
    /// True if it ran in the sandbox.
    pub(super) is_confined: bool,
}

/// Output of one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Printed {
    pub(super) bytes: Vec<u8>,
    /// True if there was more than is kept.
    pub(super) cut: bool,
}

impl Printed {
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// Adds what came, as far as it is kept.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let room = (OUTPUT_LIMIT - self.bytes.len()).min(bytes.len());
        self.bytes.extend_from_slice(bytes.get(..room).unwrap_or_default());
        self.cut |= room < bytes.len();
    }

    async fn take(&mut self, pipe: Option<impl AsyncRead + Unpin>) {
        let Some(mut pipe) = pipe else { return };
        let mut buffer = vec![0; CHUNK];
        // Read to the end whatever is kept: who prints must not wait for ever.
        while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
            self.add(buffer.get(..count).unwrap_or_default());
        }
    }
}

/// Runs a hook to its end, outside of the sandbox.
///
/// When it is cancelled or its time is over, all its processes get SIGTERM and, half a second later, SIGKILL;
/// what it leaves behind when it exits is killed too, and so is everything when the future is dropped.
pub(super) async fn run(job: Job, environment: &Environment, cancel: &CancellationToken) -> FinishedHook {
    let (mut stdout, mut stderr) = (Printed::default(), Printed::default());
    let ending = match Session::start(&job, environment) {
        Ok(session) => follow(session, job, &mut stdout, &mut stderr, cancel).await,
        Err(error) => HookEnd::Failed(error.to_string()),
    };
    FinishedHook { ending, stdout, stderr, is_confined: false }
}

async fn follow(
    mut session: Session,
    job: Job,
    stdout: &mut Printed,
    stderr: &mut Printed,
    cancel: &CancellationToken,
) -> HookEnd {
    let (input, out, err) =
        (session.child.stdin().take(), session.child.stdout().take(), session.child.stderr().take());
    let mut pipes = pin!(async {
        tokio::join!(feed(input, job.input), stdout.take(out), stderr.take(err));
    });
    let mut open = true;
    let ended = {
        let deadline = Instant::now().checked_add(job.timeout);
        let mut overdue = pin!(async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => pending().await,
            }
        });
        let mut exited = pin!(session.exited());
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => break None,
                () = &mut overdue => break Some(HookEnd::TimedOut),
                ending = &mut exited => break Some(ending),
                () = &mut pipes, if open => open = false,
            }
        }
    };
    let ending = ended.unwrap_or(HookEnd::Cancelled);
    if matches!(ending, HookEnd::TimedOut | HookEnd::Cancelled) {
        session.terminate();
        let _ = timeout(GRACE, async {
            session.exited().await;
            if open {
                pipes.await;
            }
        })
        .await;
    } else if open {
        // Whoever still holds a pipe gets a moment; usually nobody does and it ends at once.
        let _ = timeout(LINGER, pipes).await;
    }
    session.kill().await;
    ending
}

/// Hands over the input. A hook need not read it.
async fn feed(pipe: Option<ChildStdin>, input: Vec<u8>) {
    if let Some(mut pipe) = pipe {
        // It may have ended, or closed its end: that is its own affair.
        let _ = pipe.write_all(&input).await;
        let _ = pipe.shutdown().await;
    }
}

/// A hook and everything in its process group. Kills the group when dropped.
struct Session {
    child: Box<dyn ChildWrapper>,
    pid: Pid,
    /// Tells when any child of ours ended.
    child_ended: SignalStream,
    reaped: bool,
}

impl Session {
    fn start(job: &Job, environment: &Environment) -> io::Result<Self> {
        let mut command = match &job.program {
            Program::Line(line) => {
                let mut command = Command::new(shell().program());
                // The line is the user's own: nothing is added to it.
                command.arg("-c").arg(line);
                command
            }
            Program::Direct { program, arguments } => {
                let mut command = Command::new(resolved(program, job, environment)?);
                command.args(arguments.iter().map(|argument| substituted(argument, job)));
                command
            }
        };
        let child_ended = signal(SignalKind::child())?;
        command
            .current_dir(&job.directory)
            .env_clear()
            .envs(environment.variables())
            .envs(job.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut command = CommandWrap::from(command);
        command.wrap(ProcessSession);
        let mut child = command.spawn()?;
        let Some(pid) = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) else {
            let _ = child.start_kill();
            return Err(io::Error::other("it has no process id"));
        };
        Ok(Self { child, pid, child_ended, reaped: false })
    }

    /// Waits for the end and leaves the process unreaped: until then no other process gets its id, so that a
    /// signal to the group can't hit a stranger.
    async fn exited(&mut self) -> HookEnd {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        loop {
            match rustix::io::retry_on_intr(|| waitid(WaitId::Pid(self.pid), options)) {
                Ok(Some(ended)) => {
                    return match (ended.exit_status(), ended.terminating_signal()) {
                        (Some(code), _) => HookEnd::Code(code),
                        (None, Some(signal)) => HookEnd::Signal(signal),
                        (None, None) => HookEnd::Failed("it neither exited nor was killed".to_owned()),
                    };
                }
                Ok(None) => {}
                Err(error) => return HookEnd::Failed(format!("waiting for its end failed: {error}")),
            }
            if self.child_ended.recv().await.is_none() {
                return HookEnd::Failed("the runtime is shutting down".to_owned());
            }
        }
    }

    /// Asks every process of the group to end.
    fn terminate(&self) {
        // A group that is gone already is what we want.
        let _ = self.child.signal(Signal::TERM.as_raw());
    }

    /// Kills what is left of the group and reaps it.
    async fn kill(&mut self) {
        let _ = self.child.start_kill();
        self.reaped = timeout(REAP, self.child.wait()).await.is_ok();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.reaped {
            let _ = self.child.start_kill();
        }
    }
}

/// A word in which the project's directory stands for its placeholder.
pub(super) fn substituted(word: &str, job: &Job) -> OsString {
    let mut text = word.to_owned();
    for name in ["CLAUDE_PROJECT_DIR", "ROO_PROJECT_DIR"] {
        // A directory that is no text can't be put into one; the variable still has it.
        if let Some(directory) = job.directory.to_str() {
            text = text.replace(&format!("${{{name}}}"), directory);
        }
    }
    text.into()
}

/// The program of a hook without a shell. A bare name is looked for in absolute directories only, so that no
/// file of a workspace takes the place of a program.
pub(super) fn resolved(program: &str, job: &Job, environment: &Environment) -> io::Result<PathBuf> {
    let program = substituted(program, job);
    let path = Path::new(&program);
    if path.components().count() > 1 {
        return Ok(job.directory.join(path));
    }
    let search =
        environment.variables().find(|(name, _)| *name == OsStr::new("PATH")).map(|(_, value)| value);
    let mut places = search.into_iter().flat_map(std::env::split_paths).map(|place| place.join(path));
    places.find(|place| place.is_file()).ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("there is no program '{}'", path.display()))
    })
}

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
