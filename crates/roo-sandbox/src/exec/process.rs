//! One command from start to end.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use roo_process::{ChildSession, GRACE, LINGER, ProcessEnd, REAP, time_is_over};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::decode::Decoder;
use super::disk_quota;
use super::environment::Environment;
use super::handle::CommandHandle;
use super::helper_process::{Control, HelperProcess, Streams};
use super::ready_helper::ReadyHelpers;
use super::sandbox::{
    Active, ConfinementError, End, Helper, HelperRole, LeftRunning, Message, Order, PrivateNetwork, Stage,
};
use super::shell::shell;

/// Bytes read at once: what a pipe holds.
const CHUNK: usize = 64 * 1024;

/// A command to run.
#[derive(Clone, Debug)]
pub struct Command {
    /// For the [`shell`].
    pub line: String,
    /// Working directory.
    pub directory: PathBuf,
    /// Timeout; none for no limit.
    pub timeout: Option<Duration>,
    /// Through which somebody looks after it, and which has its terminal; none where nobody does.
    pub handle: Option<Arc<CommandHandle>>,
}

/// End of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// With this exit code.
    Code(i32),
    /// By a signal that we did not send.
    Signal(i32),
    /// By us, when it timed out.
    TimedOut,
    /// By us, when it was cancelled.
    Cancelled,
    /// By us, when it left too little room on a disk.
    DiskFilled,
}

/// Reasons why a command did not run to an end.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// There is no such directory to run in.
    #[error("{} is not a directory that a command can run in; name one that exists", .0.display())]
    Directory(PathBuf),
    /// The line can't be handed to a shell.
    #[error("the command contains a NUL character, which no shell accepts; remove it")]
    Nul,
    /// The shell did not start.
    #[error("{} can't be started in {}: {source}", shell().name(), .directory.display())]
    Start {
        /// Intended working directory.
        directory: PathBuf,
        /// Reason why it did not.
        source: io::Error,
    },
    /// Less is held than has to be, with what there is and what is missing.
    #[error(
        "no sufficient sandbox is available, so no command runs: {0}; to run commands anyway, change sandbox.level"
    )]
    NoSandbox(String),
    /// The sandbox works on this machine, and not for this command.
    #[error("the sandbox can't be set up, so the command did not run: {0}")]
    Sandbox(String),
    /// The confinement can't be enforced.
    #[error(transparent)]
    Confinement(#[from] ConfinementError),
    /// The shell started and its end can't be observed.
    #[error("waiting for the end of the command failed, so its effects are unknown: {0}")]
    Wait(#[source] io::Error),
}

/// Runs a command to its end.
///
/// It has no standard input and no terminal, unless its handle has one. What it prints, standard output and error in the order
/// of arrival, goes to `on_output` piece by piece, decoded. When it is cancelled or its time is over,
/// all its processes get SIGTERM and, half a second later, SIGKILL; what the shell leaves behind when it
/// exits is killed too, and so is everything when the future is dropped. What leaves less than
/// 256 MiB or 10,000 files free on a disk that it may write, or half of what was free if that is less, is
/// ended in the same way. One that is cancelled already is not started.
pub async fn run(
    command: &Command,
    environment: &Environment,
    on_output: impl FnMut(&str),
    cancel: &CancellationToken,
) -> Result<Status, ExecError> {
    if cancel.is_cancelled() {
        return Ok(Status::Cancelled);
    }
    let places = vec![command.directory.clone(), std::env::temp_dir()];
    check(command)?;
    let started = ProcessGroup::start(command, environment)
        .map_err(|source| ExecError::Start { directory: command.directory.clone(), source })?;
    Ok(watch(command, started, places, on_output, cancel).await?.0)
}

/// Order for a helper.
#[derive(Clone, Copy)]
pub(super) struct Ordered<'a> {
    pub helper: &'a Helper,
    pub ready: &'a ReadyHelpers,
    pub order: &'a Order,
    /// The network that the command joins.
    pub loopback: Option<&'a PrivateNetwork>,
}

impl Ordered<'_> {
    pub(super) fn role(&self) -> HelperRole {
        HelperRole::new(self.order, self.loopback)
    }

    /// Has a helper carry it out for a command with these streams: one that is ready, or else a new one.
    pub(super) fn start(self, streams: Streams) -> io::Result<ProcessGroup> {
        let role = self.role();
        if !role.takes_streams() {
            return ProcessGroup::below(HelperProcess::start(self.helper, &role, Some(streams))?, self.order);
        }
        if let Some(ready) = self.ready.take(&role)
            // It may have been ended, by the kernel for example.
            && ready.hand_over(&streams).is_ok()
        {
            return ProcessGroup::below(ready, self.order);
        }
        let helper = HelperProcess::start(self.helper, &role, None)?;
        helper.hand_over(&streams)?;
        ProcessGroup::below(helper, self.order)
    }

    /// As [`Self::start`], for a command in a terminal, whose session the helper leads.
    fn start_in_terminal(self, streams: Streams) -> io::Result<ProcessGroup> {
        ProcessGroup::below(HelperProcess::start(self.helper, &self.role(), Some(streams))?, self.order)
    }
}

/// Runs a command by a helper. Gives what was in force as well, and what the shell left running.
pub(super) async fn run_ordered(
    command: &Command,
    job: Ordered<'_>,
    on_output: impl FnMut(&str),
    cancel: &CancellationToken,
) -> Result<(Active, Status, LeftRunning), ExecError> {
    let order = job.order;
    let places = order.writable().map(Path::to_path_buf).collect();
    check(command)?;
    let started = ProcessGroup::start_confined(command, job)
        .map_err(|error| ExecError::Sandbox(format!("its helper can't be started: {error}")))?;
    let (status, active, left) = watch(command, started, places, on_output, cancel).await?;
    match active {
        Some(active) => Ok((active, status, left)),
        None if matches!(status, Status::Cancelled | Status::TimedOut | Status::DiskFilled) => {
            Ok((order.nothing(), status, left))
        }
        None => Err(ExecError::Sandbox("the sandbox helper did not report its restrictions".to_owned())),
    }
}

/// Checks what no shell can be started with.
fn check(command: &Command) -> Result<(), ExecError> {
    if command.line.contains('\0') {
        return Err(ExecError::Nul);
    }
    if !command.directory.is_dir() {
        return Err(ExecError::Directory(command.directory.clone()));
    }
    Ok(())
}

/// Follows a command to its end, and ends it when that is asked for, or when it fills the places that it writes.
async fn watch(
    command: &Command,
    (mut shell, pipe): (ProcessGroup, pipe::Receiver),
    written: Vec<PathBuf>,
    on_output: impl FnMut(&str),
    cancel: &CancellationToken,
) -> Result<(Status, Option<Active>, LeftRunning), ExecError> {
    let mut output =
        Printed { pipe, open: true, buffer: vec![0; CHUNK], decoder: Decoder::default(), on_output };

    let ended = {
        let mut overdue = pin!(time_is_over(command.timeout));
        let mut full = pin!(disk_quota::runs_out(written));
        let mut exited = pin!(shell.exited());
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => break Err(Status::Cancelled),
                () = &mut overdue => break Err(Status::TimedOut),
                () = &mut full => break Err(Status::DiskFilled),
                status = &mut exited => break Ok(status?),
                () = output.read(), if output.open => {}
            }
        }
    };
    let (status, left) = match ended {
        Ok(status) => {
            // Whoever still holds the pipe gets a moment; usually nobody does and it ends at once.
            let _ = timeout(LINGER, output.read_to_end()).await;
            (status, shell.finish().await)
        }
        Err(status) => {
            shell.child.terminate();
            let _ = timeout(GRACE, async { tokio::join!(shell.exited(), output.read_to_end()) }).await;
            (status, LeftRunning::default())
        }
    };
    shell.kill().await;
    output.finish();
    Ok((status, shell.active, left))
}

/// The shell and everything in its process group, or the helper that a confined one runs below. Ends
/// all of it when dropped.
pub(super) struct ProcessGroup {
    pub(super) child: ChildSession,
    /// The helper's socket.
    control: Option<Control>,
    /// Restrictions in force, when the helper has reported them.
    active: Option<Active>,
    /// To be told when the helper has started the shell.
    handle: Option<Arc<CommandHandle>>,
}

impl ProcessGroup {
    fn start(command: &Command, environment: &Environment) -> io::Result<(Self, pipe::Receiver)> {
        let mut program = tokio::process::Command::new(shell().program());
        program.args(shell().arguments(&command.line)).current_dir(&command.directory);
        program.env_clear().envs(environment.variables());
        let handle = command.handle.as_ref();
        let (child, reader) = match handle.and_then(|handle| handle.terminal.as_ref()) {
            Some(terminal) => {
                let (stdin, [stdout, stderr], reader) = terminal.take()?;
                program.stdin(stdin).stdout(stdout).stderr(stderr);
                (ChildSession::spawn_in_terminal(program)?, reader)
            }
            None => {
                let ([stdout, stderr], reader) = output()?;
                program.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
                (ChildSession::spawn(program)?, reader)
            }
        };
        if let Some(handle) = handle {
            handle.set_started(child.id());
        }
        Ok((Self::new(child, None), reader))
    }

    fn start_confined(command: &Command, job: Ordered<'_>) -> io::Result<(Self, pipe::Receiver)> {
        let (mut group, reader) = match command.handle.as_ref().and_then(|handle| handle.terminal.as_ref()) {
            Some(terminal) => {
                let (_, streams, reader) = terminal.take()?;
                (job.start_in_terminal(streams)?, reader)
            }
            None => {
                let (streams, reader) = output()?;
                (job.start(streams)?, reader)
            }
        };
        // A helper enters the network of its command later.
        group.handle = command.handle.clone();
        Ok((group, reader))
    }

    /// What a helper carries out.
    fn below(helper: HelperProcess, order: &Order) -> io::Result<Self> {
        let (child, control) = helper.order(order)?;
        Ok(Self::new(child, Some(control)))
    }

    fn new(child: ChildSession, control: Option<Control>) -> Self {
        Self { child, control, active: None, handle: None }
    }

    /// Hands the order to the helper, and waits until the shell has started in its bounds.
    pub(super) async fn started(&mut self) -> Result<(), ExecError> {
        let Some(control) = &mut self.control else { return Ok(()) };
        loop {
            match control.next().await {
                Ok(Some(Message::Started(active))) => {
                    self.active = Some(active);
                    return Ok(());
                }
                Ok(Some(Message::Failed(_, reason))) => return Err(ExecError::Sandbox(reason)),
                Ok(Some(_)) => {}
                Ok(None) => return Err(ExecError::Sandbox("its helper ended before it began".to_owned())),
                Err(error) => return Err(ExecError::Sandbox(error.to_string())),
            }
        }
    }

    /// Waits for the shell's end.
    pub(super) async fn exited(&mut self) -> Result<Status, ExecError> {
        match &mut self.control {
            None => match self.child.exited().await.map_err(ExecError::Wait)? {
                ProcessEnd::Code(code) => Ok(Status::Code(code)),
                ProcessEnd::Signal(signal) => Ok(Status::Signal(signal)),
            },
            Some(control) => loop {
                match control.next().await {
                    Ok(Some(Message::Started(active))) => {
                        self.active = Some(active);
                        if let Some(handle) = &self.handle {
                            handle.set_started(self.child.id());
                        }
                    }
                    Ok(Some(Message::Failed(Stage::Sandbox, reason))) => {
                        return Err(ExecError::Sandbox(reason));
                    }
                    Ok(Some(Message::Failed(Stage::Shell, reason))) => {
                        let reason = format!("{} can't be started in it: {reason}", shell().name());
                        return Err(ExecError::Sandbox(reason));
                    }
                    Ok(Some(Message::Ended(End::Code(code)))) => return Ok(Status::Code(code)),
                    Ok(Some(Message::Ended(End::Signal(signal)))) => return Ok(Status::Signal(signal)),
                    // Nothing is told before it is asked for.
                    Ok(Some(Message::Left(_))) => {}
                    Ok(None) if self.active.is_none() => {
                        return Err(ExecError::Sandbox("its helper exited before it was ready".to_owned()));
                    }
                    Ok(None) => return Err(ExecError::Wait(io::Error::other("the sandbox was stopped"))),
                    Err(error) if self.active.is_none() => return Err(ExecError::Sandbox(error.to_string())),
                    Err(error) => return Err(ExecError::Wait(error)),
                }
            },
        }
    }

    /// Lets a helper say what the shell left running, and end that.
    async fn finish(&mut self) -> LeftRunning {
        let Some(control) = &mut self.control else { return LeftRunning::default() };
        let told = timeout(REAP, control.finish()).await;
        told.ok().flatten().unwrap_or_default()
    }

    /// Kills what is left and reaps it.
    pub(super) async fn kill(&mut self) {
        // A helper kills all that is below it, also what left the group, and ends last.
        if let Some(control) = self.control.take() {
            let changes = control.close();
            self.child.reap().await;
            drop(changes);
        }
        self.child.kill().await;
    }
}

/// Both streams of a command in one pipe, which keeps the order in which things were printed, and its other end.
fn output() -> io::Result<(Streams, pipe::Receiver)> {
    let (reader, writer) = io::pipe()?;
    let reader = pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?;
    Ok(([writer.try_clone()?.into(), writer.into()], reader))
}

/// The reading end of a command's output.
struct Printed<F> {
    pipe: pipe::Receiver,
    /// True if anybody may still write.
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

    /// Takes what the pipe holds now. A process that left the group may write on forever, so no more
    /// than that.
    fn finish(&mut self) {
        // Straight from the descriptor: the runtime may not have heard yet that it is readable.
        let mut room = CHUNK;
        // A terminal gives it in smaller pieces than a pipe.
        while self.open
            && room > 0
            && let Ok(count @ 1..) = rustix::io::read(&self.pipe, &mut self.buffer[..room])
        {
            room -= count;
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
