//! The kernel's side of seccomp user notifications (seccomp_unotify(2)): the filter by which a system call waits
//! for a supervisor, and the descriptor by which the supervisor learns of it and answers.
//!
//! What is done about a call is decided in [`super::supervisor`].

#![allow(unsafe_code, reason = "neither nix nor rustix wraps these calls")]

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};

use nix::libc;
use rustix::io::Errno;
use rustix::ioctl::{IntegerSetter, Opcode, Updater, ioctl, opcode};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

/// `BPF_RET | BPF_K`: the instruction that ends a filter with a constant.
const RETURN: u16 = 0x06;

/// Placeholder in the compiled filter for the notify action: the library has no action for that, so that this one,
/// which nothing here uses otherwise, stands for it.
const STANDS_FOR_NOTIFY: SeccompAction = SeccompAction::Trace(0);

/// A file is opened for writing by these bits of its flags.
const WRITE_MODES: &[libc::c_int] = &[libc::O_WRONLY, libc::O_RDWR];

/// A system call that waits for its supervisor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Notification {
    id: u64,
    /// The thread that called, in the supervisor's process namespace.
    pub thread: i32,
    /// Its number.
    pub call: libc::c_long,
    /// Its arguments, as the registers hold them.
    pub arguments: [u64; 6],
}

/// The supervisor's end of a filter.
#[derive(Debug)]
pub(super) struct Listener {
    descriptor: OwnedFd,
    /// True if only death interrupts a call once it is received (Linux 5.19). Before, a signal makes its caller call a
    /// second time, so a supervisor must not carry out anything in its place.
    pub keeps_calls: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallAnswer {
    /// The kernel carries it out.
    Continue,
    /// It has been carried out, and gives this.
    Done(i64),
    Fail(Errno),
    /// Another thread answers it.
    Later,
}

/// Has every call of this thread, and of what it starts from now on, that may change what a file holds, its name or
/// its mode, or that names a socket, wait for a supervisor.
///
/// # Errors
/// When the kernel has no such notifications (before 5.5), or the process has a listener already.
pub(super) fn listen() -> io::Result<Listener> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)
        .map_err(|_| io::Error::from(io::ErrorKind::Unsupported))?;
    let program = program(architecture).map_err(|error| io::Error::other(error.to_string()))?;
    let attempts = [
        (libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, true),
        (libc::SECCOMP_FILTER_FLAG_NEW_LISTENER, false),
    ];
    let mut refused = io::Error::from(io::ErrorKind::Unsupported);
    for (flags, keeps_calls) in attempts {
        match install(&program, flags) {
            Ok(descriptor) => {
                // Older kernels know no such flags, and are only slower.
                // SAFETY: the request takes a plain number.
                let _ =
                    unsafe { ioctl(descriptor.as_fd(), IntegerSetter::<SET_FLAGS>::new_usize(WAKE_IN_STEP)) };
                return Ok(Listener { descriptor, keeps_calls });
            }
            Err(error) => refused = error,
        }
        if refused.raw_os_error() != Some(libc::EINVAL) {
            break;
        }
    }
    Err(refused)
}

fn install(program: &BpfProgram, flags: libc::c_ulong) -> io::Result<OwnedFd> {
    let length = libc::c_ushort::try_from(program.len()).map_err(io::Error::other)?;
    let filter = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut().cast() };
    // SAFETY: the kernel copies the filter during the call and writes nothing; `program` outlives it, and its elements
    // have the layout of `sock_filter`.
    let number = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, std::ptr::from_ref(&filter))
    };
    match i32::try_from(number) {
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(number) if number >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(number) }),
        _ => Err(io::Error::last_os_error()),
    }
}

fn program(architecture: TargetArch) -> Result<BpfProgram, seccompiler::BackendError> {
    let filter = SeccompFilter::new(
        rules()?.into_iter().collect(),
        SeccompAction::Allow,
        STANDS_FOR_NOTIFY,
        architecture,
    )?;
    let mut program = BpfProgram::try_from(filter)?;
    let stands_for_notify = u32::from(STANDS_FOR_NOTIFY);
    for instruction in &mut program {
        if instruction.code == RETURN && instruction.k == stands_for_notify {
            instruction.k = libc::SECCOMP_RET_USER_NOTIF;
        }
    }
    Ok(program)
}

/// Calls that always wait, but for those that only some processors have.
const ALWAYS: &[libc::c_long] = &[
    libc::SYS_openat2,
    libc::SYS_truncate,
    libc::SYS_unlinkat,
    libc::SYS_linkat,
    libc::SYS_renameat2,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_symlinkat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    SETXATTRAT,
    libc::SYS_bind,
    libc::SYS_connect,
];

/// Older calls that always wait.
#[cfg(target_arch = "x86_64")]
const ALWAYS_OLDER: &[libc::c_long] = &[
    libc::SYS_creat,
    libc::SYS_unlink,
    libc::SYS_rmdir,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_mkdir,
    libc::SYS_mknod,
    libc::SYS_symlink,
    libc::SYS_chmod,
    libc::SYS_link,
];
#[cfg(all(not(target_arch = "x86_64"), not(target_arch = "riscv64")))]
const ALWAYS_OLDER: &[libc::c_long] = &[libc::SYS_renameat];
#[cfg(target_arch = "riscv64")]
const ALWAYS_OLDER: &[libc::c_long] = &[];

/// Calls that open a file, with the number of the argument that has the flags.
#[cfg(target_arch = "x86_64")]
const OPENS: &[(libc::c_long, u8)] = &[(libc::SYS_openat, 2), (libc::SYS_open, 1)];
#[cfg(not(target_arch = "x86_64"))]
const OPENS: &[(libc::c_long, u8)] = &[(libc::SYS_openat, 2)];

/// Every call of which some or all wait for a supervisor.
pub(super) fn supervised() -> impl Iterator<Item = libc::c_long> {
    ALWAYS.iter().chain(ALWAYS_OLDER).copied().chain(OPENS.iter().map(|(call, _)| *call))
}

/// Requests of ioctl(2) that make and remove subvolumes of btrfs, which are names like any others: of `struct
/// btrfs_ioctl_vol_args`, and of its second version.
const SUBVOLUMES: &[u32] = &[0x5000_9401, 0x5000_940e, 0x5000_940f, 0x5000_9417, 0x5000_9418, 0x5000_943f];

fn rules() -> Result<Vec<(i64, Vec<SeccompRule>)>, seccompiler::BackendError> {
    let bits = |argument: u8, mask: libc::c_int, value: libc::c_int| {
        let (mask, value) = (u64::from(mask.unsigned_abs()), u64::from(value.unsigned_abs()));
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask), value)
    };
    // Where the flags of an open are, by number of the argument.
    let opens = |flags: u8| -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
        let mut rules = Vec::new();
        for mode in WRITE_MODES {
            rules.push(SeccompRule::new(vec![bits(flags, libc::O_ACCMODE, *mode)?])?);
        }
        for flag in [libc::O_TRUNC, libc::O_CREAT] {
            rules.push(SeccompRule::new(vec![bits(flags, flag, flag)?])?);
        }
        Ok(rules)
    };
    let subvolume = |request: &u32| {
        let request = u64::from(*request);
        SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, request)
            .and_then(|condition| SeccompRule::new(vec![condition]))
    };
    let mut rules: Vec<(i64, Vec<SeccompRule>)> =
        ALWAYS.iter().chain(ALWAYS_OLDER).map(|call| (*call, vec![])).collect();
    for (call, flags) in OPENS {
        rules.push((*call, opens(*flags)?));
    }
    rules.push((libc::SYS_ioctl, SUBVOLUMES.iter().map(subvolume).collect::<Result<_, _>>()?));
    Ok(rules)
}

/// The same number on all processors; newer than the table of the library.
pub(super) const FCHMODAT2: libc::c_long = 452;
/// As that.
pub(super) const SETXATTRAT: libc::c_long = 463;

const RECEIVE: Opcode = opcode::read_write::<libc::seccomp_notif>(b'!', 0);
const SEND: Opcode = opcode::read_write::<libc::seccomp_notif_resp>(b'!', 1);
const IS_VALID: Opcode = opcode::write::<u64>(b'!', 2);
const ADD_DESCRIPTOR: Opcode = opcode::write::<libc::seccomp_notif_addfd>(b'!', 3);
const SET_FLAGS: Opcode = opcode::write::<u64>(b'!', 4);

/// Has the kernel wake the supervisor on the caller's processor, where it waits anyway (Linux 6.6).
const WAKE_IN_STEP: usize = 1;

impl Listener {
    /// Waits for the next call; none when nobody is left who could make one.
    ///
    /// # Errors
    /// When the listener can't be used any more.
    pub(super) fn next(&self) -> io::Result<Option<Notification>> {
        use rustix::event::{PollFd, PollFlags, poll};

        loop {
            let mut watched = [PollFd::new(&self.descriptor, PollFlags::IN)];
            rustix::io::retry_on_intr(|| poll(&mut watched, None))?;
            let events = watched.first().map_or(PollFlags::HUP, PollFd::revents);
            if !events.contains(PollFlags::IN) {
                return Ok(None);
            }
            // SAFETY: the structure is plain numbers, and the kernel wants it zeroed.
            let mut received: libc::seccomp_notif = unsafe { std::mem::zeroed() };
            // SAFETY: the kernel fills a structure of just this type for this request.
            let outcome =
                unsafe { ioctl(self.descriptor.as_fd(), Updater::<RECEIVE, _>::new(&mut received)) };
            match outcome {
                Ok(()) => {
                    let thread = i32::try_from(received.pid).unwrap_or_default();
                    let libc::seccomp_data { nr, args, .. } = received.data;
                    return Ok(Some(Notification {
                        id: received.id,
                        thread,
                        call: libc::c_long::from(nr),
                        arguments: args,
                    }));
                }
                // The caller was killed, or interrupted, before it was seen.
                Err(Errno::INTR | Errno::NOENT | Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns whether a call still waits: what was read of its caller since it was received is its caller's then, and
    /// not of another process that got the number.
    pub(super) fn is_waiting(&self, call: &Notification) -> bool {
        let mut id = call.id;
        // SAFETY: the kernel reads a number of this size for this request.
        unsafe { ioctl(self.descriptor.as_fd(), Updater::<IS_VALID, _>::new(&mut id)) }.is_ok()
    }

    /// Gives a caller an open file. Returns the number that it has there.
    ///
    /// # Errors
    /// When the caller is gone, or may have no more files open.
    pub(super) fn give(
        &self,
        call: &Notification,
        file: OwnedFd,
        closes_on_exec: bool,
    ) -> Result<i64, Errno> {
        let source = u32::try_from(file.as_raw_fd()).map_err(|_| Errno::BADF)?;
        let flags = if closes_on_exec { libc::O_CLOEXEC.unsigned_abs() } else { 0 };
        let added =
            libc::seccomp_notif_addfd { id: call.id, flags: 0, srcfd: source, newfd: 0, newfd_flags: flags };
        // SAFETY: the kernel reads a structure of just this type for this request.
        let number = unsafe {
            libc::ioctl(
                self.descriptor.as_raw_fd(),
                ADD_DESCRIPTOR as libc::Ioctl,
                std::ptr::from_ref(&added),
            )
        };
        // Closed before the caller goes on: a program that is open for writing anywhere can't be started.
        drop(file);
        match number {
            number if number >= 0 => Ok(i64::from(number)),
            _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
        }
    }

    /// Answers a call. A caller that is gone needs no answer.
    pub(super) fn answer(&self, call: &Notification, answer: CallAnswer) {
        let (val, error, flags) = match answer {
            CallAnswer::Continue => {
                (0, 0, u32::try_from(libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE).unwrap_or(1))
            }
            CallAnswer::Done(value) => (value, 0, 0),
            CallAnswer::Fail(error) => (0, -error.raw_os_error(), 0),
            CallAnswer::Later => return,
        };
        let mut response = libc::seccomp_notif_resp { id: call.id, val, error, flags };
        // SAFETY: the kernel reads a structure of just this type for this request.
        let _ = unsafe { ioctl(self.descriptor.as_fd(), Updater::<SEND, _>::new(&mut response)) };
    }
}
