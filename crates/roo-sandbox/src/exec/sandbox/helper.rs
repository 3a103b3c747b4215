//! The helper processes between the server and a confined shell.
//!
//! With namespaces: `outer` makes them and goes on as `init` too, the first process in them, which builds the
//! bounds and starts the shell. With Landlock alone: `watch` starts `confine`, which bounds itself and
//! becomes the shell. The one next to the shell can't be traced by it, and neither hands it the socket.
//!
//! To start this program once takes a millisecond and more, most of it for its relocations. So `init` is a copy of
//! `outer`, which has one thread and holds nothing but the socket. And it may be started before there is an order for it
//! (see [`crate::exec::ready_helper`]): up to there nothing depends on the command, nor on what is mounted.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, fork};
use rustix::process::{
    DumpableBehavior, Signal, ioctl_tiocsctty, set_dumpable_behavior, set_parent_process_death_signal, setsid,
};
use rustix::stdio::{dup2_stderr, dup2_stdout, stdout};
use rustix::termios::isatty;
use rustix::thread::CapabilitySet;

use super::confinement::Network;
use super::connections::SocketPolicy;
use super::helper_program::{CONNECT, HELPER, NETWORK};
use super::helper_protocol::{Active, Mechanism, Message, Order, Stage};
use super::network::receive;
use super::role::{OUTER, OUTER_JOINING, OUTER_WITH_NETWORK, WATCH};
use super::setup_failure::{SetupFailure, StepContext as _};
use super::{
    inherited, joined_network, landlock, mounts, namespaces, notifications, privileges, reaper, remounting,
    supervisor, system_calls,
};

/// Argument of the helper that a helper starts.
const CONFINE: &str = "confine";

/// This program, whatever has become of its file.
const SELF: &str = "/proc/self/exe";

/// Runs in a role. There is nobody to tell anything but the server, over the socket.
pub(super) fn run(role: &str) -> ExitCode {
    let Ok(control) = io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from) else {
        return ExitCode::FAILURE;
    };
    if let Err(error) = inherited::keep_from_children() {
        let _ = Message::Failed(Stage::Sandbox, format!("what others left open: {error}")).send(&control);
        return ExitCode::FAILURE;
    }
    if let (OUTER | OUTER_WITH_NETWORK | OUTER_JOINING | WATCH, Err(failure)) = (role, lead_session()) {
        let _ = Message::Failed(Stage::Sandbox, failure.to_string()).send(&control);
        return ExitCode::FAILURE;
    }
    let outcome = match role {
        OUTER => outer(&control, || namespaces::enter(Network::Off).map(|()| None)),
        OUTER_WITH_NETWORK => outer(&control, || namespaces::enter(Network::On).map(|()| None)),
        OUTER_JOINING => outer(&control, || joined_network::join(&control, namespaces::OTHERS).map(Some)),
        NETWORK => joined_network::make(&control, ports()).map(|()| ExitCode::SUCCESS),
        CONNECT => joined_network::connect(&control, ports()).map(|()| ExitCode::SUCCESS),
        WATCH => watch(&control),
        CONFINE => confine(&control),
        _ => return ExitCode::FAILURE,
    };
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            // Without a server there is nobody to hear it.
            let _ = Message::Failed(Stage::Sandbox, failure.to_string()).send(&control);
            ExitCode::FAILURE
        }
    }
}

/// The ports that the server wants listeners at, or a connection to.
fn ports() -> impl Iterator<Item = u16> {
    std::env::args().skip(3).filter_map(|port| port.parse().ok())
}

/// Makes this process the first of a session, with the terminal to which its output goes or without one, and gives it the
/// limit on open files that the server was started with. Done here, as a server that had to do it between fork and exec
/// would have to copy its page tables for each command.
fn lead_session() -> Result<(), SetupFailure> {
    setsid().step("a session")?;
    if isatty(stdout()) {
        ioctl_tiocsctty(stdout()).step("the terminal")?;
    }
    let limit = std::env::args().nth(3).and_then(|limit| limit.parse().ok());
    roo_process::open_files::lower_limit(limit).step("the limit on open files")
}

fn outer(
    control: &UnixStream,
    enter: impl FnOnce() -> Result<Option<OwnedFd>, SetupFailure>,
) -> Result<ExitCode, SetupFailure> {
    // The command may take its time to end; this process has to be there until then.
    reaper::outlive_requests_to_end().step("the signal mask")?;
    let sockets = enter()?;
    let (ours, theirs) = UnixStream::pair().step("the socket between the helpers")?;
    #[expect(
        unsafe_code,
        reason = "the copy of a process with several threads could be left with a lock of another one"
    )]
    // SAFETY: the kernel lets only a process with one thread into another user namespace, as happened just now.
    match unsafe { fork() }.step("the next helper")? {
        ForkResult::Child => {
            drop(ours);
            init(control, &theirs, sockets.map(File::from))
        }
        ForkResult::Parent { child } => {
            drop((sockets, theirs));
            // Without it the supervisor still keeps the command from writing.
            let _ = remounting::keep(&ours);
            let _ = waitpid(child, None);
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn init(control: &UnixStream, outer: &UnixStream, sockets: Option<File>) -> Result<ExitCode, SetupFailure> {
    // If `outer` is gone already, then so is the server's end of the socket or will be.
    set_parent_process_death_signal(Some(Signal::KILL)).step("the parent's death signal")?;
    privileges::be_the_first_to_go();
    take_streams(control)?;
    let changes = receive(control).step("the notifications")?;
    let order = Order::read(control).step("the order")?;
    namespaces::copy_mounts()?;
    let kernel = mounts::build(&order)?;
    remounting::hand_over(outer, changes, &kernel.held).step("the mounts")?;
    // One that is joined has it.
    if order.network == Network::Off && sockets.is_none() {
        namespaces::raise_loopback().step("the loopback")?;
    }
    namespaces::become_user(order.user, order.group, &kernel.proc)?;
    privileges::limit(&order.limits)?;
    // For the supervisor, which has to look at programs that let nobody else look at them.
    privileges::drop_capabilities(CapabilitySet::SYS_PTRACE)?;
    let prepared = supervisor::prepare(kernel.captures).step("the supervisor")?;
    let landlock = landlock::restrict(&landlock::within_namespaces(&order), order.network)?;
    // It is bound as the command is, for which it makes calls; its own must not wait for it.
    let supervisor = match kernel.own_proc {
        true => {
            let sockets = SocketPolicy::new(&order, landlock, sockets);
            Some(supervisor::start(&order, kernel.held.places, prepared, sockets).step("the supervisor")?)
        }
        // Without a /proc of its own it can't find where a path leads.
        false => None,
    };
    privileges::drop_kept_capabilities()?;
    let seccomp = system_calls::filter(Mechanism::Namespaces, order.network)?;
    let listener = match supervisor {
        Some(supervisor) => notifications::listen().ok().map(|listener| (supervisor, listener)),
        None => None,
    };
    let supervised = listener.is_some_and(|(supervisor, listener)| supervisor.send(listener).is_ok());
    set_dumpable_behavior(DumpableBehavior::NotDumpable).step("the protection from tracing")?;
    let active = Active {
        mechanism: Mechanism::Namespaces,
        landlock,
        seccomp,
        own_proc: kernel.own_proc,
        // The kernel exempts the machine's root from the limit that every user has.
        process_limit: kernel.process_limit || !rustix::process::getuid().is_root(),
        supervised,
    };
    keep(&order, &active)?;

    // Before the shell, which may at once use up all the processes that there may be.
    reaper::end_with(control, kernel.own_proc).step("the watch over the server")?;
    // Only now, for the shell: the other threads of this process keep the mask. The kernel spares the first process of a
    // namespace only in the thread that it asks first; where that one blocks a signal, as it does for a moment while it
    // starts a program, another thread that does not would take it, and end them all.
    reaper::take_requests_to_end().step("the signal mask")?;
    let mut command = shell(&order);
    match command.spawn() {
        Err(error) => {
            let _ = Message::Failed(Stage::Shell, error.to_string()).send(control);
            Ok(ExitCode::FAILURE)
        }
        Ok(child) => {
            drop(command);
            // A server that is gone ends this process by itself.
            let _ = Message::Started(active).send(control);
            reaper::reap(&child, |end| {
                let _ = Message::Ended(end).send(control);
            });
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Takes the streams of the command, which come before its order. A terminal is there from the start.
fn take_streams(control: &UnixStream) -> Result<(), SetupFailure> {
    if isatty(stdout()) {
        return Ok(());
    }
    let received = receive(control).step("the streams")?;
    let [output, errors]: [OwnedFd; 2] =
        received.try_into().map_err(|_| io::Error::from(io::ErrorKind::InvalidData)).step("the streams")?;
    dup2_stdout(output).and_then(|()| dup2_stderr(errors)).step("the streams")
}

fn watch(control: &UnixStream) -> Result<ExitCode, SetupFailure> {
    reaper::outlive_requests_to_end().step("the signal mask")?;
    rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1)).step("taking in orphans")?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).step("the protection from tracing")?;
    // Before the shell, which may at once use up all the processes that there may be.
    let ending = reaper::kill_with(control).step("the watch over the server")?;
    let socket = control.as_fd().try_clone_to_owned().step("the socket")?;
    let mut helper = Command::new(SELF);
    helper.args([HELPER, CONFINE]).stdin(Stdio::from(socket));
    let child = helper.spawn().step("the next helper")?;
    reaper::reap_watched(&child, &ending, |end| {
        let _ = Message::Ended(end).send(control);
    });
    Ok(ExitCode::SUCCESS)
}

fn confine(control: &UnixStream) -> Result<ExitCode, SetupFailure> {
    set_parent_process_death_signal(Some(Signal::KILL)).step("the parent's death signal")?;
    reaper::take_requests_to_end().step("the signal mask")?;
    let order = Order::read(control).step("the order")?;
    privileges::be_the_first_to_go();
    privileges::limit(&order.limits)?;
    let rules = landlock::alone(&order);
    // Before the capabilities go: what root can't read without them is needed by nobody.
    privileges::drop_capabilities(CapabilitySet::empty())?;
    let landlock = landlock::restrict(&rules, order.network)?;
    if landlock == 0 {
        return Err(io::Error::from(io::ErrorKind::Unsupported)).step("Landlock");
    }
    let seccomp = system_calls::filter(Mechanism::Landlock, order.network)?;
    if !seccomp {
        return Err(io::Error::from(io::ErrorKind::Unsupported)).step("the filter of system calls");
    }
    let active = Active {
        mechanism: Mechanism::Landlock,
        landlock,
        seccomp,
        own_proc: false,
        process_limit: !rustix::process::getuid().is_root(),
        supervised: false,
    };
    keep(&order, &active)?;
    // Reported early, because this process then becomes the shell.
    let _ = Message::Started(active).send(control);
    let error = shell(&order).exec();
    let _ = Message::Failed(Stage::Shell, error.to_string()).send(control);
    Ok(ExitCode::FAILURE)
}

/// Returns whether all that was promised is in force.
fn keep(order: &Order, active: &Active) -> Result<(), SetupFailure> {
    match order.promised.and_then(|promised| promised.lacks(active)) {
        None => Ok(()),
        Some(what) => Err(io::Error::other("it worked when it was probed and fails now")).step(what),
    }
}

/// The shell. It gets this process's output, with the keyboard where that is a terminal, and nothing else (see
/// [`inherited`]).
fn shell(order: &Order) -> Command {
    let mut command = Command::new::<&Path>(&order.program.0);
    let keyboard = isatty(stdout()).then(|| stdout().try_clone_to_owned().ok()).flatten();
    command
        .args(&order.arguments)
        .env_clear()
        .envs(order.environment.iter())
        .current_dir(&order.directory.0)
        .stdin(keyboard.map_or_else(Stdio::null, Stdio::from));
    command
}
