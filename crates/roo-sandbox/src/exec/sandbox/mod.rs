//! The command sandbox: what bounds a command whatever its text says.
//!
//! A [`Confinement`] says what one command may write, read and reach. [`Sandbox`] found out by trying
//! what this machine can hold of that, once, and says so in its [`Probe`]. A confined command runs
//! below a helper process, which is this program again ([`enter`]): it builds the bounds, starts the
//! shell inside them, reaps what the shell leaves, and ends everything when the server goes away.
//!
//! Two mechanisms exist, and the better one that works is taken. *Namespaces*: a mount tree of the
//! command's own in which only its grants can be written, a process namespace that dies as a whole,
//! no network but its own loopback; Landlock and seccomp once more on top. *Landlock* alone, where
//! namespaces are forbidden: it bounds writing and the network as well, but can't take something back
//! out of a grant, so that protected names are only restored afterwards ([`crate::changes`]), and
//! ignored files within a grant stay readable.
//!
//! With namespaces a command's writes can be staged besides: it sees a folder through an overlay, and what it
//! writes goes to a directory of the server's own, for [`crate::changes`] to read.
//!
//! Within namespaces a supervisor in the helper carries out every call that may change a file or that names a socket. It
//! keeps files as they were, tells what the command touched ([`Capture`], [`Journal`]), and connects no Unix socket of
//! programs outside.
//!
//! What the model says never gets here but as the shell's argument and the directory to start in.

#[cfg(target_os = "linux")]
mod caller;
mod confinement;
#[cfg(target_os = "linux")]
mod connections;
mod credentials;
#[cfg(target_os = "linux")]
mod helper;
mod helper_program;
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "there is no helper yet"))]
mod helper_protocol;
#[cfg(target_os = "linux")]
mod inherited;
#[cfg(target_os = "linux")]
mod joined_network;
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "there is no supervisor yet"))]
mod journal;
#[cfg(target_os = "linux")]
mod landlock;
#[cfg(target_os = "linux")]
mod mounts;
#[cfg(target_os = "linux")]
mod namespaces;
mod network;
#[cfg(target_os = "linux")]
mod notifications;
#[cfg(target_os = "linux")]
mod privileges;
mod probe;
#[cfg(target_os = "linux")]
mod protected_mounts;
mod proxy_command;
#[cfg(target_os = "linux")]
mod reaper;
#[cfg(target_os = "linux")]
mod remounting;
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "there is no helper yet"))]
mod role;
#[cfg(target_os = "linux")]
mod setup_failure;
mod signing;
mod sockets;
#[cfg(target_os = "linux")]
mod supervisor;
#[cfg(target_os = "linux")]
mod system_calls;

use std::path::PathBuf;
use std::process::ExitCode;

pub use confinement::{Capture, Confinement, ConfinementError, Limits, Network, Staged, Substitute};
pub use credentials::{credentials, never_granted};
pub use helper_program::Helper;
pub use helper_protocol::{Active, LeftRunning, Mechanism};
pub use journal::{BeforeImage, Journal, JournalReader, MovedDirectory};
pub use network::PrivateNetwork;
pub use probe::{Level, Probe, Required, Sandbox};
pub use proxy_command::git_ssh_command;
pub use signing::{SigningKey, SigningService};

pub(super) use helper_protocol::{End, Message, Order, Stage};
pub(super) use network::send;
pub(super) use role::{HelperRole, WaitingRole};

use helper_program::HELPER;

/// Runs as a helper if that is what this process was started for. To be called first of all, while
/// the process has one thread.
pub fn enter() -> Option<ExitCode> {
    let mut arguments = std::env::args_os();
    let program = PathBuf::from(arguments.next()?);
    if program.ends_with(signing::PROGRAM) {
        return Some(signing::run(&program, &arguments.collect::<Vec<_>>()));
    }
    if arguments.next()? != HELPER {
        return None;
    }
    let role = arguments.next().unwrap_or_default();
    if role == proxy_command::PROXY_COMMAND {
        let arguments: Vec<String> = arguments.map(|text| text.to_string_lossy().into_owned()).collect();
        return Some(proxy_command::run(&arguments));
    }
    #[cfg(target_os = "linux")]
    return Some(helper::run(&role.to_string_lossy()));
    #[cfg(not(target_os = "linux"))]
    {
        let _ = role;
        Some(ExitCode::FAILURE)
    }
}

/// Forbids this process to leave core dumps, and others of the same user to read its memory and
/// environment. For the server, which holds keys.
pub fn harden_process() {
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    // Nothing that the process needs depends on either.
    let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}
