//! One hook's process: its input, its two outputs, its end.
//!
//! What runs is as in [`roo_sandbox::exec`], a session of its own that ends with it. But a hook reads an event
//! from its standard input, and what it prints on which stream has a meaning.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStdin, Command};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::file::Program;
use roo_process::{ChildSession, GRACE, LINGER, ProcessEnd, time_is_over};
use roo_sandbox::exec::{Environment, shell};

/// Maximum length of kept output, in bytes.
pub(super) const OUTPUT_LIMIT: usize = 1 << 20;
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
        let taken = (OUTPUT_LIMIT - self.bytes.len()).min(bytes.len());
        self.bytes.extend_from_slice(bytes.get(..taken).unwrap_or_default());
        self.cut |= taken < bytes.len();
    }

    async fn take(&mut self, pipe: Option<impl AsyncRead + Unpin>) {
        let Some(mut pipe) = pipe else { return };
        let mut buffer = vec![0; CHUNK];
        // Read to the end whatever is kept: whoever prints must not wait forever.
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
    let started = command(&job, environment).and_then(ChildSession::spawn);
    let ending = match started {
        Ok(session) => follow(session, job, &mut stdout, &mut stderr, cancel).await,
        Err(error) => HookEnd::Failed(error.to_string()),
    };
    FinishedHook { ending, stdout, stderr, is_confined: false }
}

async fn follow(
    mut session: ChildSession,
    job: Job,
    stdout: &mut Printed,
    stderr: &mut Printed,
    cancel: &CancellationToken,
) -> HookEnd {
    let (input, out, err) = session.take_pipes();
    let mut pipes = pin!(async {
        tokio::join!(feed(input, job.input), stdout.take(out), stderr.take(err));
    });
    let mut open = true;
    let ended = {
        let mut overdue = pin!(time_is_over(Some(job.timeout)));
        let mut exited = pin!(session.exited());
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => break None,
                () = &mut overdue => break Some(HookEnd::TimedOut),
                ended = &mut exited => break Some(match ended {
                    Ok(ProcessEnd::Code(code)) => HookEnd::Code(code),
                    Ok(ProcessEnd::Signal(signal)) => HookEnd::Signal(signal),
                    Err(error) => HookEnd::Failed(format!("waiting for its end failed: {error}")),
                }),
                () = &mut pipes, if open => open = false,
            }
        }
    };
    let ending = ended.unwrap_or(HookEnd::Cancelled);
    if matches!(ending, HookEnd::TimedOut | HookEnd::Cancelled) {
        session.terminate();
        let _ = timeout(GRACE, async {
            let _ = session.exited().await;
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

/// The process of a hook, with its three streams piped.
fn command(job: &Job, environment: &Environment) -> io::Result<Command> {
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
    command
        .current_dir(&job.directory)
        .env_clear()
        .envs(environment.variables())
        .envs(job.variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Ok(command)
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
