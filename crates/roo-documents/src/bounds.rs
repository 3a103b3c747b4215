//! Bounds of a process that reads a document: it can read its input, write its text, and compute, within limits of memory
//! and processor time.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Limit of its address space, in bytes.
const MEMORY: u64 = 1 << 30;

/// Limit of its processor time, in seconds.
const PROCESSOR_TIME: u64 = 15;

/// Takes from this process what reading a document doesn't need: it can open no file and no connection, start nothing, and
/// neither grow nor run without end. To be called while it has one thread.
///
/// # Errors
/// When the system refuses one of the bounds.
pub(crate) fn bound_process() -> io::Result<()> {
    for (resource, most) in [
        (Resource::Core, 0),
        (Resource::Fsize, 0),
        (Resource::Nofile, 0),
        (Resource::As, MEMORY),
        (Resource::Cpu, PROCESSOR_TIME),
    ] {
        // The limit may be lower already.
        let most = getrlimit(resource).maximum.map_or(most, |maximum| maximum.min(most));
        match setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) }) {
            Err(error) if cfg!(target_os = "linux") => return Err(error.into()),
            // Other systems lack some of them.
            Ok(()) | Err(_) => {}
        }
    }
    filter_system_calls()
}

/// Leaves this process the system calls that allocate memory, read, write and end. Where the kernel or the kind of processor
/// has no such filter, the limits hold alone.
#[cfg(target_os = "linux")]
fn filter_system_calls() -> io::Result<()> {
    use nix::libc;
    use seccompiler::{
        BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
        SeccompRule, TargetArch,
    };

    const ALLOWED: &[libc::c_long] = &[
        libc::SYS_brk,
        libc::SYS_clock_gettime,
        libc::SYS_close,
        libc::SYS_exit,
        libc::SYS_exit_group,
        libc::SYS_fstat,
        libc::SYS_futex,
        libc::SYS_getpid,
        libc::SYS_getrandom,
        libc::SYS_gettid,
        libc::SYS_madvise,
        libc::SYS_mmap,
        libc::SYS_mprotect,
        libc::SYS_mremap,
        libc::SYS_munmap,
        libc::SYS_read,
        libc::SYS_restart_syscall,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_sched_yield,
        libc::SYS_sigaltstack,
        libc::SYS_write,
        libc::SYS_writev,
    ];
    let Ok(architecture) = TargetArch::try_from(std::env::consts::ARCH) else { return Ok(()) };
    let failed = |error: &dyn std::fmt::Display| io::Error::other(error.to_string());
    // To abort is a signal to itself, and to no other process.
    let itself =
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, std::process::id().into())
            .and_then(|condition| SeccompRule::new(vec![condition]))
            .map_err(|error| failed(&error))?;
    let rules = ALLOWED.iter().map(|call| (*call, vec![])).chain([(libc::SYS_tgkill, vec![itself])]);
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let program: BpfProgram = SeccompFilter::new(rules.collect(), refuse, SeccompAction::Allow, architecture)
        .and_then(BpfProgram::try_from)
        .map_err(|error| failed(&error))?;
    match seccompiler::apply_filter(&program) {
        Err(Error::Seccomp(error) | Error::Prctl(error)) if error.raw_os_error() == Some(libc::EINVAL) => {
            Ok(())
        }
        applied => applied.map_err(|error| failed(&error)),
    }
}

#[cfg(not(target_os = "linux"))]
fn filter_system_calls() -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::net::TcpListener;
    use std::process::Command;

    use super::*;

    /// Set in the process that is bounded.
    const BOUNDED: &str = "ROO_DOCUMENTS_TEST_BOUNDED";

    #[test]
    fn a_bounded_process_opens_nothing_starts_nothing_and_gets_no_more_memory() {
        if std::env::var_os(BOUNDED).is_some() {
            bound_process().unwrap();
            assert!(File::open("/dev/null").is_err());
            assert!(TcpListener::bind("127.0.0.1:0").is_err());
            assert!(Command::new("/bin/true").spawn().is_err());
            assert!(Vec::<u8>::new().try_reserve_exact(2 << 30).is_err());
            assert!(Vec::<u8>::new().try_reserve_exact(64 << 20).is_ok());
            return;
        }
        let mut again = Command::new(std::env::current_exe().unwrap());
        let name = std::thread::current().name().unwrap().to_owned();
        let output = again.args(["--exact", &name, "--nocapture"]).env(BOUNDED, "1").output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && printed.contains("1 passed"), "{output:?}");
    }
}
