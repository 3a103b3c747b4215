//! New namespaces for the next child, and the loopback in a new network.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;

use nix::sched::{CloneFlags, unshare};
use rustix::fs::{Mode, OFlags, openat};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, sendto, socket_with};
use rustix::process::{getegid, geteuid};

use super::confinement::Network;
use super::setup_failure::{SetupFailure, StepContext as _};

/// Namespaces of each command, besides a user namespace, mounts and perhaps a network.
pub(super) const OTHERS: CloneFlags =
    CloneFlags::CLONE_NEWPID.union(CloneFlags::CLONE_NEWIPC).union(CloneFlags::CLONE_NEWUTS);

/// Makes this process a user namespace of its own, in which it is root, and the other namespaces but for mounts. The
/// process namespace begins with its next child.
pub(super) fn enter(network: Network) -> Result<(), SetupFailure> {
    match network {
        Network::Off => enter_anew(OTHERS | CloneFlags::CLONE_NEWNET),
        Network::On => enter_anew(OTHERS),
    }
}

/// Makes this process a user namespace of its own, in which it is root, and others with it.
pub(super) fn enter_anew(others: CloneFlags) -> Result<(), SetupFailure> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    unshare(CloneFlags::CLONE_NEWUSER | others).step("new namespaces")?;
    // Needed before a group is mapped without privilege; user_namespaces(7).
    std::fs::write("/proc/self/setgroups", "deny").step("the groups of the user namespace")?;
    std::fs::write("/proc/self/uid_map", format!("0 {user} 1")).step("the user of the namespace")?;
    std::fs::write("/proc/self/gid_map", format!("0 {group} 1")).step("the group of the namespace")
}

/// Gives this process a copy of the mount tree, as it is at this moment.
pub(super) fn copy_mounts() -> Result<(), SetupFailure> {
    unshare(CloneFlags::CLONE_NEWNS).step("a new mount namespace")
}

/// Makes this process who it was again, in a second user namespace: its mounts belong to the first,
/// so that nothing it may ever do in a namespace of its own undoes them. `proc` is a writable `/proc`.
pub(super) fn become_user(user: u32, group: u32, proc: &OwnedFd) -> Result<(), SetupFailure> {
    unshare(CloneFlags::CLONE_NEWUSER).step("the second user namespace")?;
    let write = |name: &str, text: String| {
        let file = openat(proc, name, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        File::from(file).write_all(text.as_bytes())
    };
    write("self/uid_map", format!("{user} 0 1")).step("the user of the second namespace")?;
    write("self/gid_map", format!("{group} 0 1")).step("the group of the second namespace")
}

/// Brings up the loopback, by one message of rtnetlink(7): without it not even a command's own server
/// on 127.0.0.1 can be reached.
pub(super) fn raise_loopback() -> io::Result<()> {
    const HEADER: u32 = 16;
    const LINK: u32 = 16;
    const NEW_LINK: u16 = 16;
    const REQUEST_WITH_ANSWER: u16 = 1 | 4;
    const UP: u32 = 1;
    let mut message = Vec::new();
    // nlmsghdr: length, type, flags, number, sender.
    message.extend((HEADER + LINK).to_ne_bytes());
    message.extend(NEW_LINK.to_ne_bytes());
    message.extend(REQUEST_WITH_ANSWER.to_ne_bytes());
    message.extend(1_u32.to_ne_bytes());
    message.extend(0_u32.to_ne_bytes());
    // ifinfomsg: family, kind, the first interface (which is the loopback), flags and which of them.
    message.extend([0, 0, 0, 0]);
    message.extend(1_i32.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    message.extend(UP.to_ne_bytes());

    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    sendto(&socket, &message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = [0_u8; 64];
    let (length, _) = rustix::net::recv(&socket, &mut answer[..], rustix::net::RecvFlags::empty())?;
    // nlmsgerr: the header, then a negated error number.
    let code = answer[..length].get(16..20).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
    match code {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(code.saturating_neg())),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}
