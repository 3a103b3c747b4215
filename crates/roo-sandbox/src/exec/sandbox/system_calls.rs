//! The filter of system calls: what neither namespaces nor Landlock hold.

use std::collections::BTreeMap;
use std::io;

use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

use super::confinement::Network;
use super::helper_protocol::Mechanism;
use super::notifications;
use super::setup_failure::{SetupFailure, StepContext as _};

/// Families of sockets that a network namespace holds, besides those that only reach the kernel.
const HELD: &[libc::c_int] = &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Calls that are refused: the user's kernel keyrings, which no namespace separates; rings of requests
/// that pass by this filter; and what has no use in a command but to attack the kernel.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_add_key,
    libc::SYS_keyctl,
    libc::SYS_request_key,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_open_by_handle_at,
];

/// On x86-64 the same calls have a second number each.
#[cfg(target_arch = "x86_64")]
const SECOND_NUMBERS: &[libc::c_long] = &[0, 0x4000_0000];
#[cfg(not(target_arch = "x86_64"))]
const SECOND_NUMBERS: &[libc::c_long] = &[0];

/// Installs the filter for this process and what it starts. False where there is none for this kind of
/// processor.
pub(super) fn filter(mechanism: Mechanism, network: Network) -> Result<bool, SetupFailure> {
    let Ok(architecture) = TargetArch::try_from(std::env::consts::ARCH) else { return Ok(false) };
    let programs = [compile(architecture, &rules(mechanism, network)?)?, without_clone3(architecture)?];
    match programs.iter().try_for_each(|program| seccompiler::apply_filter(program)) {
        Ok(()) => Ok(true),
        Err(seccompiler::Error::Seccomp(error) | seccompiler::Error::Prctl(error))
            if error.raw_os_error() == Some(libc::EINVAL) =>
        {
            Ok(false)
        }
        Err(error) => Err(io::Error::other(error.to_string())).step("the filter of system calls"),
    }
}

/// Hides a call whose flags no filter can read: programs that start others use the older one instead.
fn without_clone3(architecture: TargetArch) -> Result<BpfProgram, SetupFailure> {
    let unknown = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let calls = SECOND_NUMBERS.iter().map(|offset| (libc::SYS_clone3 + offset, vec![])).collect();
    SeccompFilter::new(calls, SeccompAction::Allow, unknown, architecture)
        .and_then(BpfProgram::try_from)
        .map_err(|error| io::Error::other(error.to_string()))
        .step("the filter of system calls")
}

type FilterRules = BTreeMap<i64, Vec<SeccompRule>>;

fn compile(architecture: TargetArch, rules: &FilterRules) -> Result<BpfProgram, SetupFailure> {
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    SeccompFilter::new(rules.clone(), SeccompAction::Allow, refuse, architecture)
        .and_then(BpfProgram::try_from)
        .map_err(|error| io::Error::other(error.to_string()))
        .step("the filter of system calls")
}

fn rules(mechanism: Mechanism, network: Network) -> Result<FilterRules, SetupFailure> {
    let family = |comparison: SeccompCmpOp, family: libc::c_int| {
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, comparison, u64::from(family.unsigned_abs()))
    };
    let sockets: Result<Vec<_>, _> = match (mechanism, network) {
        // What a namespace doesn't hold, such as sockets to the host of a virtual machine.
        (Mechanism::Namespaces, _) => HELD.iter().map(|held| family(SeccompCmpOp::Ne, *held)).collect(),
        // Sockets in the file system reach other programs of the user, and Landlock lets them.
        (Mechanism::Landlock, Network::On) => family(SeccompCmpOp::Eq, libc::AF_UNIX).map(|unix| vec![unix]),
        // All of them; pairs of connected sockets are made by another call.
        (Mechanism::Landlock, Network::Off) => family(SeccompCmpOp::Ge, 0).map(|any| vec![any]),
    };
    let sockets = sockets
        .and_then(SeccompRule::new)
        .map_err(|error| io::Error::other(error.to_string()))
        .step("the filter of system calls")?;
    let datagrams = datagrams()
        .map_err(|error| io::Error::other(error.to_string()))
        .step("the filter of system calls")?;
    // In a user namespace of its own a process is root, with all that the kernel lets such a root try.
    let new_user = u64::from(libc::CLONE_NEWUSER.unsigned_abs());
    let new_user =
        SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(new_user), new_user)
            .and_then(|condition| SeccompRule::new(vec![condition]))
            .map_err(|error| io::Error::other(error.to_string()))
            .step("the filter of system calls")?;
    let mut rules = FilterRules::new();
    for offset in SECOND_NUMBERS {
        rules.extend(REFUSED.iter().map(|call| (call + offset, vec![])));
        let mut refused = vec![sockets.clone()];
        if mechanism == Mechanism::Namespaces {
            refused.push(datagrams.clone());
            rules.insert(libc::SYS_socketpair + offset, vec![datagrams.clone()]);
        }
        rules.insert(libc::SYS_socket + offset, refused);
        for call in [libc::SYS_unshare, libc::SYS_clone] {
            rules.insert(call + offset, vec![new_user.clone()]);
        }
    }
    // By these the supervisor would not see the calls.
    for offset in SECOND_NUMBERS.iter().filter(|offset| **offset != 0) {
        rules.extend(notifications::supervised().map(|call| (call + offset, vec![])));
    }
    Ok(rules)
}

/// Unix sockets that send each message to a path of its own (`SOCK_DGRAM` and `SOCK_RAW`, which is the same): where a
/// message leads is only in memory, which a command can change after any look at it.
fn datagrams() -> Result<SeccompRule, seccompiler::BackendError> {
    const KIND: u64 = 0b1110;
    let unix = u64::from(libc::AF_UNIX.unsigned_abs());
    let datagram = u64::from(libc::SOCK_DGRAM.unsigned_abs());
    SeccompRule::new(vec![
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, unix)?,
        SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(KIND), datagram)?,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_filter_compiles_for_every_processor() {
        for mechanism in [Mechanism::Namespaces, Mechanism::Landlock] {
            for network in [Network::Off, Network::On] {
                let rules = rules(mechanism, network).unwrap();
                for architecture in [TargetArch::x86_64, TargetArch::aarch64, TargetArch::riscv64] {
                    assert!(!compile(architecture, &rules).unwrap().is_empty());
                }
            }
        }
    }
}
