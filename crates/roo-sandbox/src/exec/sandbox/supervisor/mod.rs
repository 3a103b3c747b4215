//! The supervisor of a command: it learns of every system call that may change a file or that names a socket before the
//! kernel carries it out, keeps what the file was, and puts down what the command touches.
//!
//! It carries out such a call itself, on what it has looked at, and gives its caller the result. So nothing that the
//! command does to its memory, to links or to names makes it another call than the one that was put down, and what was not
//! put down is somebody else's work. Where the kernel has to carry it out (something in `/proc`, a terminal that
//! becomes the caller's) that is no longer certain, and the journal says so.
//!
//! What must not be changed is held by mounts and Landlock, which bind the supervisor like the command, and what was
//! changed is found by [`crate::changes`]. Where another program replaced a file that was mounted on, the supervisor lets the
//! call wait until the mount is there again ([`super::remounting`]).
//!
//! Which call is which is seen here; what is done about them is in `open.rs`, `change.rs` and `connect.rs`, what must not
//! be touched in `checks.rs`, and what is put down and kept in `record.rs`.

mod change;
mod checks;
mod connect;
mod git_paths;
mod open;
mod record;
mod supervised_call;

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use nix::libc;
use nix::sched::{CloneFlags, unshare};
use rustix::fs::AtFlags;
use rustix::io::Errno;

use self::change::unlink_flags;
use self::open::opening;
use self::record::{Identity, MovedDirectory};
use self::supervised_call::SupervisedCall;
use super::caller::{Caller, ResolvedFile, Unresolved};
use super::confinement::Access;
use super::connections::SocketPolicy;
use super::helper_protocol::{JsonPath, Order};
use super::journal::{JournalLine, Writer};
use super::notifications::{CallAnswer, FCHMODAT2, Listener, Notification, SETXATTRAT};
use super::protected_mounts::ProtectedMount;

/// The most that is kept of one command, in bytes.
const MAX_CAPTURED_BYTES: u64 = 512 << 20;
/// The same of what git keeps.
const MAX_CAPTURED_GIT_BYTES: u64 = 64 << 20;
/// The most connections and readers of pipes that are waited for at once.
const MAX_WAITING_CALLS: usize = 64;
/// Time that a call waits for a mount that was taken away, and between two looks at it.
const REMOUNT_TIMEOUT: Duration = Duration::from_millis(500);
const REMOUNT_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Supervises what a listener is told of.
pub(super) struct Supervisor {
    writer: Option<Writer>,
    /// True if it carries out calls itself.
    carries_out: bool,
    /// True if it has left to the kernel what may have become another call.
    left_to_kernel: bool,
    roots: Vec<PathBuf>,
    except: Vec<PathBuf>,
    /// Among those, directories in which what steers a git directory counts all the same.
    repositories: Vec<PathBuf>,
    /// Git configurations that are private copies: a file that is mounted on can't be replaced by name.
    configurations: Vec<PathBuf>,
    /// Directories in which only git removes files.
    git_history: Vec<PathBuf>,
    /// Paths that only git itself writes.
    for_git: Vec<PathBuf>,
    /// Paths that are neither made nor removed nor replaced.
    fixed: Vec<PathBuf>,
    /// Paths that keep their place: no directory that leads to one is renamed.
    in_place: Vec<PathBuf>,
    /// What is mounted on places; none for those that may be written.
    held: HashMap<PathBuf, Option<ProtectedMount>>,
    /// Captured files, by their paths when the command began, and whether with content.
    captured: HashMap<PathBuf, bool>,
    /// Recorded paths, and whether with all below them.
    touched: HashMap<PathBuf, bool>,
    /// Files with several names among that.
    touched_files: HashSet<Identity>,
    /// Directories that were moved, or were to be: what the kernel makes of a call is not seen.
    moved: HashMap<Identity, MovedDirectory>,
    refused: HashSet<PathBuf>,
    /// What may still be kept, in bytes.
    left: u64,
    left_for_git: u64,
    sockets: SocketPolicy,
    /// Connections and readers of pipes that are waited for.
    waiting: Arc<AtomicUsize>,
}

/// Preparations of a supervisor that must precede the confinement of its process.
pub(super) struct Prepared(Option<Writer>);

/// Opens the journal. To be called before this thread gives up the right to write what the command may not.
pub(super) fn prepare(captures: Option<OwnedFd>) -> io::Result<Prepared> {
    Ok(Prepared(captures.map(Writer::new).transpose()?))
}

/// Starts a supervisor, which begins when it is handed a listener. To be called when Landlock binds this thread, and
/// before its calls would wait for a supervisor.
pub(super) fn start(
    order: &Order,
    held: Vec<ProtectedMount>,
    Prepared(writer): Prepared,
    sockets: SocketPolicy,
) -> io::Result<Sender<Listener>> {
    let (sender, receiver): (Sender<Listener>, Receiver<Listener>) = channel();
    let paths = |places: &[JsonPath]| places.iter().map(|place| place.0.clone()).collect::<Vec<_>>();
    let capture = order.capture.as_ref();
    let mut supervisor = Supervisor {
        writer,
        carries_out: false,
        left_to_kernel: false,
        roots: capture.map(|capture| paths(&capture.roots)).unwrap_or_default(),
        except: capture.map(|capture| paths(&capture.except)).unwrap_or_default(),
        repositories: capture.map(|capture| paths(&capture.repositories)).unwrap_or_default(),
        configurations: order
            .substitutes
            .iter()
            .filter(|substitute| substitute.is_writable)
            .map(|substitute| substitute.place.0.clone())
            .collect(),
        git_history: paths(&order.git_history),
        for_git: paths(&order.for_git),
        fixed: paths(&order.fixed),
        in_place: paths(&order.in_place),
        held: held_by_path(order, held),
        captured: HashMap::new(),
        touched: HashMap::new(),
        touched_files: HashSet::new(),
        moved: HashMap::new(),
        refused: HashSet::new(),
        left: MAX_CAPTURED_BYTES,
        left_for_git: MAX_CAPTURED_GIT_BYTES,
        sockets,
        waiting: Arc::default(),
    };
    std::thread::Builder::new().stack_size(256 << 10).spawn(move || {
        let Ok(listener) = receiver.recv() else { return };
        let listener = Arc::new(listener);
        // Its own directory and mode mask, apart from the process's other threads.
        supervisor.carries_out =
            listener.keeps_calls && may_look_at_processes() && unshare(CloneFlags::CLONE_FS).is_ok();
        if supervisor.carries_out {
            let seen = |places: &[PathBuf]| {
                let seen = places.iter().filter(|place| ResolvedFile::is_named_as_it_is(place));
                seen.cloned().map(JsonPath).collect()
            };
            let (roots, repositories) = (seen(&supervisor.roots), seen(&supervisor.repositories));
            let except = supervisor.except.iter().cloned().map(JsonPath).collect();
            // Where this can't be written, the journal counts as one that says not all.
            let _ = supervisor.record(&JournalLine::CarriesOut { roots, except, repositories });
        }
        while let Ok(Some(call)) = listener.next() {
            let answer = supervisor.decide(&listener, &call);
            listener.answer(&call, answer);
        }
        // Without a supervisor every such call would fail for no reason that a command could see.
        std::process::exit(1);
    })?;
    Ok(sender)
}

/// Returns whether a process may look at those that it started, where the machine's rules on tracing are Yama's.
fn may_look_at_processes() -> bool {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    scope.trim().parse::<u32>().is_ok_and(|scope| scope < 2) || scope.is_empty()
}

impl Supervisor {
    fn decide(&mut self, listener: &Arc<Listener>, notification: &Notification) -> CallAnswer {
        let call = SupervisedCall { listener, notification, caller: Caller(notification.thread) };
        if notification.call == libc::SYS_connect {
            return self.connect(&call);
        }
        let mut waited = Duration::ZERO;
        loop {
            let decided = match self.look(&call) {
                // The kernel would carry out whatever the call has become by then.
                Err(Unresolved::CallersOwn)
                    if !self.for_git.is_empty()
                        && names_a_path(notification.call)
                        && !call.caller.is_installed_git() =>
                {
                    Err(Unresolved::Refused(Errno::ACCESS))
                }
                Err(Unresolved::CallersOwn)
                    if may_change_names_or_contents(&call) && self.is_any_exposed() =>
                {
                    Err(Unresolved::Exposed)
                }
                decided => decided,
            };
            return match decided {
                Ok(answer) => answer,
                Err(Unresolved::CallersOwn) => self.leave_to_kernel(),
                Err(Unresolved::ReadOnlyProc) if !self.carries_out => CallAnswer::Continue,
                Err(Unresolved::ReadOnlyProc) => CallAnswer::Fail(Errno::ROFS),
                Err(Unresolved::Fails(_)) if !self.carries_out => CallAnswer::Continue,
                Err(Unresolved::Fails(error) | Unresolved::Refused(error)) => CallAnswer::Fail(error),
                Err(Unresolved::Exposed) if waited < REMOUNT_TIMEOUT => {
                    std::thread::sleep(REMOUNT_POLL_INTERVAL);
                    waited += REMOUNT_POLL_INTERVAL;
                    continue;
                }
                Err(Unresolved::Exposed) => CallAnswer::Fail(Errno::ACCESS),
            };
        }
    }

    fn look(&mut self, call: &SupervisedCall<'_>) -> Result<CallAnswer, Unresolved> {
        match call.notification.call {
            libc::SYS_bind => self.bind(call),
            libc::SYS_openat => self.open(call, call.at(0, 1)?, opening(call.integer(2), call.mode(3))),
            libc::SYS_openat2 => self.open_how(call),
            libc::SYS_truncate => self.truncate(call),
            libc::SYS_unlinkat => self.remove(call, &call.at(0, 1)?, unlink_flags(call.integer(2))),
            libc::SYS_fchmodat => self.chmod(call, &call.at(0, 1)?, true, call.mode(2)),
            FCHMODAT2 if call.integer(3) & libc::AT_EMPTY_PATH != 0 => Err(Unresolved::CallersOwn),
            FCHMODAT2 => {
                let follows = call.integer(3) & libc::AT_SYMLINK_NOFOLLOW == 0;
                self.chmod(call, &call.at(0, 1)?, follows, call.mode(2))
            }
            libc::SYS_fchmod => {
                self.chmod_found(call, &call.caller.descriptor(call.integer(0))?, call.mode(1))
            }
            libc::SYS_mkdirat => self.make_directory(call, &call.at(0, 1)?, call.mode(2)),
            libc::SYS_mknodat => self.make_node(call, &call.at(0, 1)?, call.integer(2), call.argument(3)),
            libc::SYS_symlinkat => self.make_link(call, &call.text(0)?, &call.at(1, 2)?),
            libc::SYS_linkat => {
                let follows = call.integer(4) & libc::AT_SYMLINK_FOLLOW != 0;
                self.link(call, &call.at(0, 1)?, &call.at(2, 3)?, follows)
            }
            libc::SYS_renameat2 => self.rename(call, &call.at(0, 1)?, &call.at(2, 3)?, call.integer(4)),
            #[cfg(not(target_arch = "riscv64"))]
            libc::SYS_renameat => self.rename(call, &call.at(0, 1)?, &call.at(2, 3)?, 0),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => self.open(call, call.here(0)?, opening(call.integer(1), call.mode(2))),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_creat => {
                let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
                self.open(call, call.here(0)?, opening(flags, call.mode(1)))
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_unlink => self.remove(call, &call.here(0)?, AtFlags::empty()),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rmdir => self.remove(call, &call.here(0)?, AtFlags::REMOVEDIR),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chmod => self.chmod(call, &call.here(0)?, true, call.mode(1)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mkdir => self.make_directory(call, &call.here(0)?, call.mode(1)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mknod => self.make_node(call, &call.here(0)?, call.integer(1), call.argument(2)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_symlink => self.make_link(call, &call.text(0)?, &call.here(1)?),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_link => self.link(call, &call.here(0)?, &call.here(1)?, false),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename => self.rename(call, &call.here(0)?, &call.here(1)?, 0),
            libc::SYS_setxattr => self.set_attribute(call, &call.caller.find(&call.here(0)?, true)?),
            libc::SYS_lsetxattr => self.set_attribute(call, &call.caller.find(&call.here(0)?, false)?),
            libc::SYS_fsetxattr => self.set_attribute(call, &call.caller.descriptor(call.integer(0))?),
            // Subvolumes bring names: what is seldom used is not looked at.
            SETXATTRAT | libc::SYS_ioctl => Err(Unresolved::CallersOwn),
            _ => Ok(CallAnswer::Continue),
        }
    }

    /// Lets the kernel carry out what may be another call by then.
    fn leave_to_kernel(&mut self) -> CallAnswer {
        if !self.left_to_kernel && self.carries_out {
            if self.record(&JournalLine::LeftToKernel).is_err() {
                return CallAnswer::Fail(Errno::NOSPC);
            }
            self.left_to_kernel = true;
        }
        CallAnswer::Continue
    }

    /// Carries out a call, or leaves that to the kernel where a signal could make its caller call again.
    fn perform(&self, act: impl FnOnce() -> rustix::io::Result<()>) -> Result<CallAnswer, Unresolved> {
        if !self.carries_out {
            return Ok(CallAnswer::Continue);
        }
        act()?;
        Ok(CallAnswer::Done(0))
    }

    /// Has another thread find the answer to a call, for which it may wait.
    fn answer_later(
        &self,
        call: &SupervisedCall<'_>,
        answer: impl FnOnce() -> CallAnswer + Send + 'static,
    ) -> CallAnswer {
        let (listener, notification) = (Arc::clone(call.listener), *call.notification);
        let waiting = Arc::clone(&self.waiting);
        if waiting.fetch_add(1, Ordering::SeqCst) >= MAX_WAITING_CALLS {
            waiting.fetch_sub(1, Ordering::SeqCst);
            return CallAnswer::Fail(Errno::AGAIN);
        }
        let wait = move || {
            listener.answer(&notification, answer());
            waiting.fetch_sub(1, Ordering::SeqCst);
        };
        match std::thread::Builder::new().stack_size(64 << 10).spawn(wait) {
            Ok(_) => CallAnswer::Later,
            Err(_) => {
                self.waiting.fetch_sub(1, Ordering::SeqCst);
                CallAnswer::Fail(Errno::AGAIN)
            }
        }
    }
}

/// Returns whether a call could change more than attributes.
fn may_change_names_or_contents(call: &SupervisedCall<'_>) -> bool {
    let attributes = [libc::SYS_setxattr, libc::SYS_lsetxattr, libc::SYS_fsetxattr, SETXATTRAT];
    !attributes.contains(&call.notification.call)
}

/// Returns whether a call can change the content of a file that is only named in memory.
fn names_a_path(call: libc::c_long) -> bool {
    let others = [
        libc::SYS_bind,
        libc::SYS_fchmod,
        libc::SYS_fsetxattr,
        libc::SYS_ioctl,
        libc::SYS_lsetxattr,
        libc::SYS_setxattr,
        SETXATTRAT,
    ];
    !others.contains(&call)
}

/// The places of an order, with what is mounted on those that are held.
fn held_by_path(order: &Order, held: Vec<ProtectedMount>) -> HashMap<PathBuf, Option<ProtectedMount>> {
    let writable = order.places.iter().filter(|(_, access)| *access <= Access::Staged);
    let mut places: HashMap<_, _> = writable.map(|(place, _)| (place.0.clone(), None)).collect();
    places.extend(held.into_iter().map(|place| (place.path.0.clone(), Some(place))));
    places
}
