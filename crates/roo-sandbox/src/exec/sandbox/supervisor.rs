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

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use nix::libc;
use nix::sched::{CloneFlags, unshare};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, ResolveFlags, XattrFlags, chmodat, fcntl_setfl,
    ftruncate, linkat, major, minor, mkdirat, mknodat, openat, readlinkat, renameat_with, setxattr, statat,
    symlinkat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::umask;

use super::caller::{Caller, DirectoryEntry, GivenPath, ResolvedFile, Target, Unresolved};
use super::confinement::Access;
use super::connections::{Connection, SocketPolicy, absolute_path, read_address};
use super::helper_protocol::{JsonPath, Order};
use super::journal::{BeforeImage, JournalLine, Writer, path_of};
use super::notifications::{CallAnswer, FCHMODAT2, Listener, Notification, SETXATTRAT};
use super::protected_mounts::{MountState, ProtectedMount, is_read_only, open_place};

/// The largest file whose content is kept, in bytes.
const MAX_CAPTURED_FILE_BYTES: u64 = 8 << 20;
/// The most that is kept of one command, in bytes.
const MAX_CAPTURED_BYTES: u64 = 512 << 20;
/// The same of what git keeps.
const MAX_CAPTURED_GIT_BYTES: u64 = 64 << 20;
/// The most paths that a command is told it may not write.
const MAX_REFUSED_PATHS: usize = 64;
/// The largest git configuration, in bytes.
const LARGEST_CONFIGURATION: u64 = 1 << 20;
/// The most paths that are put down as touched.
const MOST_TOUCHED: usize = 1 << 20;
/// The most connections and readers of pipes that are waited for at once.
const MOST_WAITING: usize = 64;
/// Time between two looks whether a pipe has a reader.
const READER_POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Maximum number of attempts to open a file that appears or disappears each time.
const ATTEMPTS: usize = 16;
/// Time that a call waits for a mount that was taken away, and between two looks at it.
const REMOUNT_TIMEOUT: Duration = Duration::from_millis(500);
const REMOUNT_POLL_INTERVAL: Duration = Duration::from_millis(1);
/// The largest value of an extended attribute that the kernel takes, in bytes.
const LARGEST_ATTRIBUTE: usize = 64 << 10;
/// Beginnings of the names of extended attributes that mean the same to every process of the command. Who may set a label is for
/// the kernel to say, and the same for all of them.
const ATTRIBUTES: &[&[u8]] = &[b"security.selinux", b"system.posix_acl_", b"user."];
/// The number of the driver of `/dev/tty`, and those of terminals, by `Documentation/admin-guide/devices.txt`.
const TERMINAL: u32 = 5;
const TERMINALS: std::ops::RangeInclusive<u32> = 136..=143;
/// Directories without files of users.
const KERNEL: &[&str] = &["/proc", "/sys", "/dev"];

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

/// The numbers of a file's device and of the file on it.
type Identity = (u64, u64);

/// A directory that was moved, or was to be.
struct MovedDirectory {
    /// Path when the command began.
    original: PathBuf,
    /// Possible current paths.
    places: Vec<PathBuf>,
}

/// Mode of opening a file.
#[derive(Clone, Copy)]
struct Opening {
    flags: OFlags,
    mode: Mode,
}

/// A call that is looked at.
struct SupervisedCall<'a> {
    listener: &'a Arc<Listener>,
    notification: &'a Notification,
    caller: Caller,
}

impl SupervisedCall<'_> {
    fn argument(&self, number: usize) -> u64 {
        self.notification.arguments.get(number).copied().unwrap_or_default()
    }

    /// The registers hold integers of the C language in their lower half.
    #[allow(clippy::cast_possible_truncation, reason = "what is cut off is no part of the argument")]
    fn integer(&self, number: usize) -> i32 {
        self.argument(number) as i32
    }

    fn mode(&self, number: usize) -> Mode {
        Mode::from_raw_mode(self.integer(number).cast_unsigned() & 0o7777)
    }

    fn text(&self, number: usize) -> Result<Vec<u8>, Unresolved> {
        self.caller.text(self.argument(number))
    }

    /// A path from the working directory.
    fn here(&self, number: usize) -> Result<GivenPath, Unresolved> {
        Ok(GivenPath::new(libc::AT_FDCWD, self.text(number)?))
    }

    /// A path from a directory that is named too.
    fn at(&self, directory: usize, number: usize) -> Result<GivenPath, Unresolved> {
        Ok(GivenPath::new(self.integer(directory), self.text(number)?))
    }

    /// The value of an extended attribute.
    fn attribute_value(&self) -> Result<Vec<u8>, Unresolved> {
        let length = usize::try_from(self.argument(3)).map_err(|_| Errno::TOOBIG)?;
        if length > LARGEST_ATTRIBUTE {
            return Err(Errno::TOOBIG.into());
        }
        if length == 0 {
            return Ok(vec![]);
        }
        let value = self.caller.memory(self.argument(2), length)?;
        if value.len() == length { Ok(value) } else { Err(Errno::FAULT.into()) }
    }

    /// Checks that what was read of the caller is its own, and not of another process that got its number.
    fn check(&self) -> Result<(), Unresolved> {
        let is_waiting = self.listener.is_waiting(self.notification);
        if is_waiting { Ok(()) } else { Err(Errno::INTR.into()) }
    }
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

    fn open_how(&mut self, call: &SupervisedCall<'_>) -> Result<CallAnswer, Unresolved> {
        // `struct open_how`: flags, mode and what is asked of the resolution.
        let how = call.caller.memory(call.argument(2), 24)?;
        let field = |number: usize| {
            let bytes = how.get(number * 8..number * 8 + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map(u64::from_ne_bytes).ok_or(Errno::INVAL)
        };
        let flags = i32::try_from(field(0)?).map_err(|_| Errno::INVAL)?;
        let mode = u32::try_from(field(1)?).map_err(|_| Errno::INVAL)?;
        let resolve = ResolveFlags::from_bits(field(2)?).ok_or(Errno::INVAL)?;
        if resolve.contains(ResolveFlags::CACHED) {
            return Err(Errno::AGAIN.into());
        }
        let named = call.at(0, 1)?.resolved_with(resolve);
        let opening = opening(flags, Mode::from_raw_mode(mode & 0o7777));
        // What is only in memory may be another call by then, so that nothing is left to the kernel.
        if opening.flags.contains(OFlags::TMPFILE) {
            return Err(Unresolved::CallersOwn);
        }
        if opening.flags.contains(OFlags::PATH) && self.carries_out {
            let found = call.caller.find(&named, !opening.flags.contains(OFlags::NOFOLLOW));
            let found = found.map_err(Unresolved::of_reading)?;
            call.check()?;
            let is_wrong = opening.flags.contains(OFlags::DIRECTORY) && !found.is_directory();
            return if is_wrong {
                Err(Errno::NOTDIR.into())
            } else {
                give(call, found.handle, opening.flags)
            };
        }
        self.open(call, named, opening)
    }

    fn open(
        &mut self,
        call: &SupervisedCall<'_>,
        named: GivenPath,
        opening: Opening,
    ) -> Result<CallAnswer, Unresolved> {
        let Opening { flags, mode } = opening;
        // What these open has no name.
        if flags.contains(OFlags::PATH) || flags.contains(OFlags::TMPFILE) {
            return Ok(CallAnswer::Continue);
        }
        let creates = flags.contains(OFlags::CREATE);
        let is_exclusive = creates && flags.contains(OFlags::EXCL);
        if creates && named.is_of_directory() {
            return Err(Errno::ISDIR.into());
        }
        let follows = !flags.contains(OFlags::NOFOLLOW) && !is_exclusive;
        let mut named = named;
        for _ in 0..ATTEMPTS {
            let found = call.caller.target(&mut named, follows, creates);
            let found = if writes(flags) { found? } else { found.map_err(Unresolved::of_reading)? };
            call.check()?;
            match found {
                Target::Existing(_) if is_exclusive => return Err(Errno::EXIST.into()),
                Target::Existing(found) if creates && found.is_directory() => return Err(Errno::ISDIR.into()),
                Target::Existing(found) => match self.open_found(call, found, flags) {
                    Err(Unresolved::Fails(Errno::NOENT)) if creates => {}
                    opened => return opened,
                },
                Target::Missing(entry) if self.is_fixed(&entry.path) => return Err(Errno::ACCESS.into()),
                Target::Missing(entry) => {
                    self.check_held(&entry.path, &entry.directory)?;
                    self.check_writer(call.caller, &entry.path)?;
                    if !self.is_refused(&entry.path, &entry.directory) {
                        self.touch(&entry.path, false)?;
                        self.is_own(&entry.path);
                    }
                    if !self.carries_out {
                        return Ok(CallAnswer::Continue);
                    }
                    umask(call.caller.umask());
                    let flags = flags | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
                    match openat(&entry.directory, &entry.name, flags, mode) {
                        Ok(file) => return give(call, file, opening.flags),
                        // Somebody else was first.
                        Err(Errno::EXIST) if !is_exclusive => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            }
        }
        Err(Errno::BUSY.into())
    }

    fn open_found(
        &mut self,
        call: &SupervisedCall<'_>,
        mut found: ResolvedFile,
        flags: OFlags,
    ) -> Result<CallAnswer, Unresolved> {
        let kind = found.kind();
        if kind == FileType::Symlink {
            return Err(Errno::LOOP.into());
        }
        let writes = writes(flags);
        if writes {
            self.check_writer(call.caller, &found.path)?;
            self.about_to_change(&found, true)?;
        }
        if !self.carries_out {
            return Ok(CallAnswer::Continue);
        }
        let without = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mut with = flags.difference(without) | OFlags::CLOEXEC | OFlags::NOCTTY;
        match kind {
            FileType::CharacterDevice => match major(found.stat.st_rdev) {
                TERMINAL if minor(found.stat.st_rdev) == 0 => match call.caller.session() {
                    Some(session) if session.terminal == 0 => return Err(Errno::NXIO.into()),
                    // The terminal of the command, which is this process's as well.
                    Some(session) if session.is_ours() => {}
                    // Another one.
                    Some(session) => {
                        found = call.caller.terminal(session).ok_or(Unresolved::CallersOwn)?;
                    }
                    None => return Err(Unresolved::CallersOwn),
                },
                // It becomes the caller's terminal, which only the kernel can do. Where that may carry out nothing that is
                // named in memory, the caller gets a terminal that is not its session's.
                number
                    if TERMINALS.contains(&number)
                        && !flags.contains(OFlags::NOCTTY)
                        && self.for_git.is_empty()
                        && call.caller.session().is_none_or(|session| session.takes_terminal()) =>
                {
                    return Err(Unresolved::CallersOwn);
                }
                _ => {}
            },
            // Who opens one end waits for the other.
            FileType::Fifo if !writes && !found.is_nameless() => return Err(Unresolved::CallersOwn),
            FileType::Fifo => with |= OFlags::NONBLOCK,
            _ => {}
        }
        if kind == FileType::Fifo && !flags.contains(OFlags::NONBLOCK) {
            return match open_pipe(&found, with) {
                Err(Errno::NXIO) => Ok(self.open_pipe_later(call, found, with, flags)),
                opened => give(call, opened?, flags),
            };
        }
        give(call, openat(CWD, found.by_handle(), with, Mode::empty())?, flags)
    }

    /// Opens a pipe for writing as soon as somebody reads it.
    fn open_pipe_later(
        &self,
        call: &SupervisedCall<'_>,
        pipe: ResolvedFile,
        with: OFlags,
        flags: OFlags,
    ) -> CallAnswer {
        let (listener, notification, caller) = (Arc::clone(call.listener), *call.notification, call.caller);
        self.answer_later(call, move || {
            while listener.is_waiting(&notification) {
                match open_pipe(&pipe, with) {
                    Err(Errno::NXIO) if caller.has_pending_signal() => return CallAnswer::Fail(Errno::INTR),
                    Err(Errno::NXIO) => std::thread::sleep(READER_POLL_INTERVAL),
                    Err(error) => return CallAnswer::Fail(error),
                    Ok(file) => {
                        let given = listener.give(&notification, file, flags.contains(OFlags::CLOEXEC));
                        return given.map_or_else(CallAnswer::Fail, CallAnswer::Done);
                    }
                }
            }
            // Nobody is left to be told.
            CallAnswer::Fail(Errno::INTR)
        })
    }

    fn truncate(&mut self, call: &SupervisedCall<'_>) -> Result<CallAnswer, Unresolved> {
        let found = call.caller.find(&call.here(0)?, true)?;
        call.check()?;
        match found.kind() {
            FileType::RegularFile => {}
            FileType::Directory => return Err(Errno::ISDIR.into()),
            _ => return Err(Errno::INVAL.into()),
        }
        self.check_writer(call.caller, &found.path)?;
        self.about_to_change(&found, true)?;
        self.perform(|| {
            let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
            let file = openat(CWD, found.by_handle(), flags, Mode::empty())?;
            ftruncate(file, call.argument(1))
        })
    }

    fn remove(
        &mut self,
        call: &SupervisedCall<'_>,
        named: &GivenPath,
        flags: AtFlags,
    ) -> Result<CallAnswer, Unresolved> {
        let entry = call.caller.entry(named)?;
        call.check()?;
        if self.is_fixed(&entry.path) {
            return Err(Errno::ACCESS.into());
        }
        if let Some(found) = &entry.there {
            self.check_writer(call.caller, &entry.path)?;
            if self.loses_history(call.caller, found, None) {
                return Ok(CallAnswer::Fail(Errno::PERM));
            }
            self.about_to_change(found, true)?;
        }
        if self.is_mounted_on(&entry) {
            return Ok(CallAnswer::Fail(Errno::BUSY));
        }
        self.perform(|| unlinkat(&entry.directory, &entry.name, flags))
    }

    fn chmod(
        &mut self,
        call: &SupervisedCall<'_>,
        named: &GivenPath,
        follows: bool,
        mode: Mode,
    ) -> Result<CallAnswer, Unresolved> {
        let found = call.caller.find(named, follows)?;
        self.chmod_found(call, &found, mode)
    }

    fn chmod_found(
        &mut self,
        call: &SupervisedCall<'_>,
        found: &ResolvedFile,
        mode: Mode,
    ) -> Result<CallAnswer, Unresolved> {
        call.check()?;
        if found.kind() == FileType::Symlink {
            return Err(Errno::OPNOTSUPP.into());
        }
        self.check_writer(call.caller, &found.path)?;
        self.about_to_change(found, false)?;
        self.perform(|| chmodat(CWD, found.by_handle(), mode, AtFlags::empty()))
    }

    /// Sets an extended attribute, as programs do that copy a file with its mode. An access list can change the mode.
    fn set_attribute(
        &mut self,
        call: &SupervisedCall<'_>,
        found: &ResolvedFile,
    ) -> Result<CallAnswer, Unresolved> {
        let name = call.text(1)?;
        let value = call.attribute_value()?;
        let flags = XattrFlags::from_bits(call.integer(4).cast_unsigned()).ok_or(Errno::INVAL)?;
        call.check()?;
        if !ATTRIBUTES.iter().any(|known| name.starts_with(known)) {
            return Err(Unresolved::CallersOwn);
        }
        self.about_to_change(found, false)?;
        self.perform(|| setxattr(found.by_handle(), name, &value, flags))
    }

    /// Puts down that something comes up.
    fn comes_up(
        &mut self,
        call: &SupervisedCall<'_>,
        named: &GivenPath,
    ) -> Result<DirectoryEntry, Unresolved> {
        let entry = call.caller.entry(named)?;
        call.check()?;
        if entry.there.is_some() {
            return Err(Errno::EXIST.into());
        }
        if self.is_fixed(&entry.path) {
            return Err(Errno::ACCESS.into());
        }
        self.check_held(&entry.path, &entry.directory)?;
        self.check_writer(call.caller, &entry.path)?;
        if !self.is_refused(&entry.path, &entry.directory) {
            self.touch(&entry.path, false)?;
            self.is_own(&entry.path);
        }
        if self.carries_out {
            umask(call.caller.umask());
        }
        Ok(entry)
    }

    fn make_directory(
        &mut self,
        call: &SupervisedCall<'_>,
        named: &GivenPath,
        mode: Mode,
    ) -> Result<CallAnswer, Unresolved> {
        let entry = self.comes_up(call, named)?;
        self.perform(|| mkdirat(&entry.directory, &entry.name, mode))
    }

    fn make_node(
        &mut self,
        call: &SupervisedCall<'_>,
        named: &GivenPath,
        mode: i32,
        device: u64,
    ) -> Result<CallAnswer, Unresolved> {
        let entry = self.comes_up(call, named)?;
        let mode = mode.cast_unsigned();
        let kind = match mode & libc::S_IFMT {
            0 => FileType::RegularFile,
            _ => FileType::from_raw_mode(mode),
        };
        self.perform(|| {
            mknodat(&entry.directory, &entry.name, kind, Mode::from_raw_mode(mode & 0o7777), device)
        })
    }

    fn make_link(
        &mut self,
        call: &SupervisedCall<'_>,
        to: &[u8],
        named: &GivenPath,
    ) -> Result<CallAnswer, Unresolved> {
        let entry = self.comes_up(call, named)?;
        self.perform(|| symlinkat(path_of(to.to_vec()), &entry.directory, &entry.name))
    }

    fn rename(
        &mut self,
        call: &SupervisedCall<'_>,
        from: &GivenPath,
        to: &GivenPath,
        flags: i32,
    ) -> Result<CallAnswer, Unresolved> {
        let (source, target) = (call.caller.entry(from)?, call.caller.entry(to)?);
        call.check()?;
        let Some(moved) = &source.there else { return Err(Errno::NOENT.into()) };
        if self.leads_to_fixed(&source.path) || self.leads_to_fixed(&target.path) {
            return Err(Errno::ACCESS.into());
        }
        if let Some(held) = self.held_by(&source).or_else(|| self.held_by(&target)) {
            self.record_refused_path(&held);
            // As for a directory that is mounted on.
            return Ok(CallAnswer::Fail(Errno::BUSY));
        }
        self.check_held(&source.path, &moved.handle)?;
        self.check_writer(call.caller, &source.path)?;
        self.check_writer(call.caller, &target.path)?;
        if self.configurations.contains(&target.path) {
            let copy = open_place(&target.path)?;
            self.check_held(&target.path, &copy)?;
            return Ok(match replace_configuration(moved, &copy) {
                Ok(()) => CallAnswer::Done(0),
                Err(error) => CallAnswer::Fail(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
            });
        }
        let displaced = target.there.as_ref().map_or(&target.directory, |there| &there.handle);
        self.check_held(&target.path, displaced)?;
        let is_refused = self.is_refused(&source.path, &source.directory)
            | self.is_refused(&target.path, &target.directory);
        if !is_refused {
            if self.loses_history(call.caller, moved, Some(&target.path)) {
                return Ok(CallAnswer::Fail(Errno::PERM));
            }
            self.about_to_change(moved, true)?;
            if let Some(displaced) = &target.there {
                self.about_to_change(displaced, true)?;
            }
            let holds = moved.is_directory() || target.there.as_ref().is_some_and(ResolvedFile::is_directory);
            if self.is_mounted_on(&source) || self.is_mounted_on(&target) {
                return Ok(CallAnswer::Fail(Errno::BUSY));
            }
            self.touch(&source.path, holds)?;
            self.touch(&target.path, holds)?;
            if moved.is_directory() && self.may_hold_repositories(&target.path) {
                self.record_path(&target.path, true)?;
            }
            self.is_own(&target.path);
            if moved.is_directory() {
                self.directory_moves(moved, &target.path);
            }
        }
        let flags = RenameFlags::from_bits(flags.cast_unsigned()).ok_or(Errno::INVAL)?;
        self.perform(|| {
            let (from, to) = (&source, &target);
            renameat_with(&from.directory, &from.name, &to.directory, &to.name, flags)
        })
    }

    /// Makes a hard link, or says why not. Under a second name a file could be written without a notice at its first:
    /// so a file that is tracked gets one only beside it. Programs copy what they can't link.
    ///
    /// This is a boundary, so what is looked at is what is linked, and the kernel does nothing by itself.
    fn link(
        &mut self,
        call: &SupervisedCall<'_>,
        from: &GivenPath,
        to: &GivenPath,
        follows: bool,
    ) -> Result<CallAnswer, Unresolved> {
        let mut linked = || -> Result<(), Unresolved> {
            let (source, target) = (call.caller.find(from, follows)?, call.caller.entry(to)?);
            call.check()?;
            if target.there.is_some() {
                return Err(Errno::EXIST.into());
            }
            if source.is_directory() {
                return Err(Errno::PERM.into());
            }
            if self.is_fixed(&target.path) {
                return Err(Errno::ACCESS.into());
            }
            self.check_held(&source.path, &source.handle)?;
            self.check_held(&target.path, &target.directory)?;
            self.check_writer(call.caller, &source.path)?;
            self.check_writer(call.caller, &target.path)?;
            if self.is_refused(&target.path, &target.directory) {
                return Err(Errno::ROFS.into());
            }
            if self.is_tracked(&source.path) && source.path.parent() != target.path.parent() {
                return Err(Errno::XDEV.into());
            }
            self.touch(&target.path, false)?;
            self.is_own(&target.path);
            let (directory, name) = (&target.directory, &target.name);
            Ok(linkat(CWD, source.by_handle(), directory, name, AtFlags::SYMLINK_FOLLOW)?)
        };
        match linked() {
            Ok(()) => Ok(CallAnswer::Done(0)),
            Err(Unresolved::Fails(error)) => Ok(CallAnswer::Fail(error)),
            Err(Unresolved::CallersOwn | Unresolved::ReadOnlyProc) => Ok(CallAnswer::Fail(Errno::XDEV)),
            Err(error) => Err(error),
        }
    }

    /// Gives a socket its name.
    fn bind(&mut self, call: &SupervisedCall<'_>) -> Result<CallAnswer, Unresolved> {
        let address = read_address(call.caller, call.argument(1), call.argument(2))?;
        let binding = self.sockets.binding(call.caller, call.integer(0), address)?;
        call.check()?;
        if let Some((entry, _)) = &binding.entry {
            self.check_held(&entry.path, &entry.directory)?;
            self.check_writer(call.caller, &entry.path)?;
            if !self.is_refused(&entry.path, &entry.directory) {
                self.touch(&entry.path, false)?;
            }
        }
        if !self.carries_out {
            return Ok(CallAnswer::Continue);
        }
        self.sockets.bind(call.caller, &binding)?;
        Ok(CallAnswer::Done(0))
    }

    /// Makes a connection, or says why not. Whoever waits for one is answered later.
    fn connect(&mut self, call: &SupervisedCall<'_>) -> CallAnswer {
        if !self.carries_out {
            return CallAnswer::Continue;
        }
        let connection = read_address(call.caller, call.argument(1), call.argument(2)).and_then(|address| {
            let connection = self.sockets.connection(call.caller, call.integer(0), &address);
            call.check()?;
            if connection.is_err() {
                self.record_refused_socket(&address);
            }
            connection
        });
        match connection {
            Ok(connection) if connection.may_block() => {
                self.answer_later(call, move || connected(&connection))
            }
            Ok(connection) => connected(&connection),
            Err(Unresolved::Fails(error) | Unresolved::Refused(error)) => CallAnswer::Fail(error),
            // What can't be looked at may lead anywhere.
            Err(Unresolved::CallersOwn | Unresolved::ReadOnlyProc | Unresolved::Exposed) => {
                CallAnswer::Fail(Errno::ACCESS)
            }
        }
    }

    fn record_refused_socket(&mut self, address: &[u8]) {
        let Some(path) = absolute_path(address) else { return };
        if self.refused.len() < MAX_REFUSED_PATHS
            && self.refused.insert(path.clone())
            && let Some(writer) = &mut self.writer
        {
            let _ = writer.add(&JournalLine::RefusedSocket { path: JsonPath(path) });
        }
    }

    /// Has another thread find the answer to a call, for which it may wait.
    fn answer_later(
        &self,
        call: &SupervisedCall<'_>,
        answer: impl FnOnce() -> CallAnswer + Send + 'static,
    ) -> CallAnswer {
        let (listener, notification) = (Arc::clone(call.listener), *call.notification);
        let waiting = Arc::clone(&self.waiting);
        if waiting.fetch_add(1, Ordering::SeqCst) >= MOST_WAITING {
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

    /// Marks a new file as the command's own: there is nothing to keep.
    fn is_own(&mut self, path: &Path) {
        let original = self.original(path);
        self.captured.entry(original).or_insert(true);
    }

    /// Writes a line. What can't be put down must not happen.
    fn record(&mut self, line: &JournalLine) -> Result<(), Errno> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        writer.add(line).map_err(|_| Errno::NOSPC)
    }

    /// Puts down that the command changes what is at a path, or has `all` below it come up or go.
    fn touch(&mut self, path: &Path, all: bool) -> Result<(), Errno> {
        if self.is_tracked(path) { self.record_path(path, all) } else { Ok(()) }
    }

    fn record_path(&mut self, path: &Path, all: bool) -> Result<(), Errno> {
        if self.touched.get(path).is_some_and(|known| *known || !all) {
            return Ok(());
        }
        if self.touched.len() >= MOST_TOUCHED {
            // No more is put down, and so what is missing says nothing.
            return match self.leave_to_kernel() {
                CallAnswer::Fail(error) => Err(error),
                _ => Ok(()),
            };
        }
        self.record(&JournalLine::Touched { path: JsonPath(path.to_owned()), all, file: None })?;
        self.touched.insert(path.to_owned(), all);
        Ok(())
    }

    /// As that, of what is there and may have other names besides.
    fn touch_found(&mut self, found: &ResolvedFile) -> Result<(), Errno> {
        let Some(file) = found.shared() else { return self.touch(&found.path, false) };
        if !self.is_tracked(&found.path) || !self.touched_files.insert(file) {
            return self.touch(&found.path, false);
        }
        self.record(&JournalLine::Touched {
            path: JsonPath(found.path.clone()),
            all: false,
            file: Some(file),
        })?;
        self.touched.entry(found.path.clone()).or_default();
        Ok(())
    }

    /// Puts down what is there before it changes, and keeps it if nobody has yet.
    fn about_to_change(&mut self, found: &ResolvedFile, with_content: bool) -> Result<(), Unresolved> {
        self.check_held(&found.path, &found.handle)?;
        if self.is_refused(&found.path, &found.handle) || !self.is_tracked(&found.path) {
            return Ok(());
        }
        self.touch_found(found)?;
        let original = self.original(&found.path);
        let known = self.captured.get(&original).copied();
        if known.is_some_and(|has_content| has_content || !with_content) {
            return Ok(());
        }
        if let Err(error) = self.capture(found, original, with_content) {
            // What could not be kept is told as a change whose earlier content is not known.
            let _ = error;
        }
        Ok(())
    }

    fn capture(&mut self, found: &ResolvedFile, original: PathBuf, with_content: bool) -> io::Result<()> {
        let (left, is_wanted) = match self.is_in_roots(&found.path) {
            true => (&mut self.left, true),
            false => (&mut self.left_for_git, may_have_to_be_restored(&found.path)),
        };
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let mut image = BeforeImage::from_stat(original.clone(), &found.stat);
        let kind = found.kind();
        image.keeps_content = !with_content;
        match kind {
            FileType::RegularFile
                if with_content && is_wanted && image.size <= MAX_CAPTURED_FILE_BYTES.min(*left) =>
            {
                let copied = writer.copy(&found.reopen()?, image.size)?;
                image.content = Some(copied);
                *left -= copied.1;
            }
            FileType::Symlink => {
                let target = readlinkat(&found.handle, "", Vec::new())?;
                image.target = Some(target.into_bytes());
            }
            _ => {}
        }
        writer.add(&JournalLine::Before(Box::new(image)))?;
        self.captured.insert(original, with_content || kind != FileType::RegularFile);
        Ok(())
    }

    /// Puts down that a directory is about to be moved, with those in it that were moved before.
    fn directory_moves(&mut self, source: &ResolvedFile, to: &Path) {
        let Some(identity) = identity_of(&source.path) else { return };
        let original = self.original(&source.path);
        self.moved
            .entry(identity)
            .or_insert_with(|| MovedDirectory { original, places: vec![source.path.clone()] });
        let mut lines = Vec::new();
        for (identity, directory) in &mut self.moved {
            // A move that was seen before may have failed.
            directory.places.retain(|place| identity_of(place) == Some(*identity));
            let within = directory.places.iter().filter_map(|place| place.strip_prefix(&source.path).ok());
            let new: Vec<_> = within.map(|rest| joined(to, rest)).collect();
            for place in new {
                lines.push((place.clone(), directory.original.clone(), *identity));
                directory.places.push(place);
            }
        }
        lines.sort();
        for (now, original, (device, inode)) in lines {
            if self.is_tracked(&original)
                && let Some(writer) = &mut self.writer
            {
                let line = JournalLine::MovedDirectory {
                    from: JsonPath(original),
                    to: JsonPath(now),
                    device,
                    inode,
                };
                // What is lost is told as a change whose earlier content is not known.
                let _ = writer.add(&line);
            }
        }
    }

    /// Returns the path that a file had when the command began.
    fn original(&self, path: &Path) -> PathBuf {
        if self.moved.is_empty() {
            return path.to_owned();
        }
        let moved = path.ancestors().find_map(|above| {
            let directory = self.moved.get(&identity_of(above)?)?;
            Some(joined(&directory.original, path.strip_prefix(above).ok()?))
        });
        moved.unwrap_or_else(|| path.to_owned())
    }

    /// Returns whether the history of a repository would lose something, by another program than git. It is not kept
    /// for the user, so a line that clears too much must not reach it. This is care, and no boundary.
    fn loses_history(&self, caller: Caller, source: &ResolvedFile, target: Option<&Path>) -> bool {
        let place = |path: &Path| self.git_history.iter().find(|place| path.starts_with(place)).cloned();
        let Some(history) = place(&source.path) else { return false };
        let stays = target.and_then(place) == Some(history);
        !stays && !is_transient(&source.path) && !caller.is_git()
    }

    /// Fails where a file is at a held place, or below one, and not in what is mounted there.
    fn check_held(&self, path: &Path, handle: &OwnedFd) -> Result<(), Unresolved> {
        let Some(place) = self.held_place(path) else { return Ok(()) };
        if is_read_only(handle) || place.shows(handle) {
            return Ok(());
        }
        match place.state() {
            // It was there when the command began, so that the command could not have made it.
            MountState::Missing => Err(Unresolved::Refused(Errno::ACCESS)),
            MountState::Mounted | MountState::Exposed => Err(Unresolved::Exposed),
        }
    }

    /// Returns whether an entry is a held place itself, which the kernel neither removes nor replaces. A call that acts by name
    /// must not depend on that: another program may take the mount away at any time.
    fn is_mounted_on(&self, entry: &DirectoryEntry) -> bool {
        self.held.get(&entry.path).is_some_and(Option::is_some) && !is_read_only(&entry.directory)
    }

    /// The innermost place that holds what is at a path, if any.
    fn held_place(&self, path: &Path) -> Option<&ProtectedMount> {
        path.ancestors().find_map(|above| self.held.get(above))?.as_ref()
    }

    fn is_any_exposed(&self) -> bool {
        self.held.values().flatten().any(|place| place.state() == MountState::Exposed)
    }

    /// Checks that a path is not one that only git writes, or that git is the caller.
    fn check_writer(&mut self, caller: Caller, path: &Path) -> Result<(), Unresolved> {
        let is_below = |places: &[PathBuf]| places.iter().any(|place| path.starts_with(place));
        if !is_below(&self.for_git) || is_below(&self.configurations) || caller.is_installed_git() {
            return Ok(());
        }
        self.record_refused_path(path);
        Err(Unresolved::Refused(Errno::ROFS))
    }

    fn is_fixed(&self, path: &Path) -> bool {
        self.fixed.iter().any(|fixed| fixed == path)
    }

    /// Returns whether a fixed path is this one or below it.
    fn leads_to_fixed(&self, path: &Path) -> bool {
        self.fixed.iter().any(|fixed| fixed.starts_with(path))
    }

    fn is_in_roots(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(root))
            && !self.except.iter().any(|except| path.starts_with(except))
    }

    fn is_tracked(&self, path: &Path) -> bool {
        self.is_in_roots(path)
            || self
                .repositories
                .iter()
                .any(|place| path.starts_with(place) && self.may_steer_git(place, path))
    }

    /// Returns whether a path may steer a repository in a directory: a `.git`, or one without.
    fn may_steer_git(&self, place: &Path, path: &Path) -> bool {
        !is_git_object(path) && (may_steer_dot_git(path) || self.may_steer_bare_repository(place, path))
    }

    /// Returns whether a path in a directory is one of those that make any directory a repository, or may steer one that is
    /// made: that has a `HEAD`, or had one that the command touched.
    fn may_steer_bare_repository(&self, place: &Path, path: &Path) -> bool {
        let has_head = |git: &Path| {
            let head = git.join("HEAD");
            self.touched.contains_key(&head) || identity_of(&head).is_some()
        };
        let mut above = path.ancestors().take_while(|above| above.starts_with(place) && *above != place);
        path.file_name().is_some_and(|name| is_one_of(name, REPOSITORY_PARTS))
            || above.any(|inner| {
                let Some((name, git)) = inner.file_name().zip(inner.parent()) else { return false };
                let above_objects = git.parent().filter(|_| name == "info" && git.ends_with("objects"));
                is_one_of(name, STEERING) && (has_head(git) || above_objects.is_some_and(has_head))
            })
    }

    fn may_hold_repositories(&self, path: &Path) -> bool {
        self.repositories.iter().any(|place| path.starts_with(place))
    }

    /// Returns whether the file system of a handle can't be written, which is put down of a path there.
    fn is_refused(&mut self, path: &Path, handle: &OwnedFd) -> bool {
        if !is_read_only(handle) {
            return false;
        }
        if !KERNEL.iter().any(|kernel| path.starts_with(kernel)) {
            self.record_refused_path(path);
        }
        true
    }

    fn record_refused_path(&mut self, path: &Path) {
        if self.refused.len() < MAX_REFUSED_PATHS
            && self.refused.insert(path.to_owned())
            && let Some(writer) = &mut self.writer
        {
            let _ = writer.add(&JournalLine::Refused { path: JsonPath(path.to_owned()) });
        }
    }

    /// Returns a path that an entry is or leads to, and that keeps its place.
    fn held_by(&self, entry: &DirectoryEntry) -> Option<PathBuf> {
        let is_directory = entry.there.as_ref().is_some_and(ResolvedFile::is_directory);
        let mut held = self.in_place.iter().filter(|_| is_directory);
        held.find(|held| held.starts_with(&entry.path)).cloned()
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

/// Gives a caller a file that was opened for it.
fn give(call: &SupervisedCall<'_>, file: OwnedFd, flags: OFlags) -> Result<CallAnswer, Unresolved> {
    let number = call.listener.give(call.notification, file, flags.contains(OFlags::CLOEXEC))?;
    Ok(CallAnswer::Done(number))
}

/// Opens a named pipe without waiting, as a file that waits afterwards.
fn open_pipe(pipe: &ResolvedFile, with: OFlags) -> rustix::io::Result<OwnedFd> {
    let file = openat(CWD, pipe.by_handle(), with, Mode::empty())?;
    fcntl_setfl(&file, with.difference(OFlags::NONBLOCK | OFlags::CLOEXEC))?;
    Ok(file)
}

fn connected(connection: &Connection) -> CallAnswer {
    match connection.make() {
        Ok(()) => CallAnswer::Done(0),
        Err(error) => CallAnswer::Fail(error),
    }
}

fn writes(flags: OFlags) -> bool {
    flags.intersects(OFlags::WRONLY | OFlags::RDWR | OFlags::TRUNC)
}

fn opening(flags: i32, mode: Mode) -> Opening {
    Opening { flags: OFlags::from_bits_retain(flags.cast_unsigned()), mode }
}

fn unlink_flags(flags: i32) -> AtFlags {
    AtFlags::from_bits_retain(flags.cast_unsigned())
}

/// The places of an order, with what is mounted on those that are held.
fn held_by_path(order: &Order, held: Vec<ProtectedMount>) -> HashMap<PathBuf, Option<ProtectedMount>> {
    let writable = order.places.iter().filter(|(_, access)| *access <= Access::Staged);
    let mut places: HashMap<_, _> = writable.map(|(place, _)| (place.0.clone(), None)).collect();
    places.extend(held.into_iter().map(|place| (place.path.0.clone(), Some(place))));
    places
}

/// Returns the identity of the file at a path, if any.
fn identity_of(path: &Path) -> Option<Identity> {
    let found = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    #[allow(clippy::unnecessary_cast, reason = "not on all processors")]
    Some((found.st_dev as u64, found.st_ino as u64))
}

/// A path below another, or that one itself where nothing is below.
fn joined(above: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() { above.to_owned() } else { above.join(rest) }
}

/// Entries of a git directory that hold its history and make git run nothing.
const GIT_HISTORY: &[&str] = &["HEAD", "index", "logs", "refs", "packed-refs", "ORIG_HEAD", "FETCH_HEAD"];

/// Entries that make a directory a repository, whatever its name.
const REPOSITORY_PARTS: &[&str] = &["HEAD", "commondir", "objects", "refs"];
/// Further entries of such a directory that steer git, with all below them.
const STEERING: &[&str] =
    &["config", "config.worktree", "gitdir", "hooks", "info", "rebase-merge", "sequencer"];

fn is_one_of(name: &OsStr, known: &[&str]) -> bool {
    known.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Returns whether a path of a repository, whose `.git` is a part of it or not, may be that of a file whose earlier content is
/// needed at the end. What git keeps besides may be large, and is many.
fn may_have_to_be_restored(path: &Path) -> bool {
    path.ends_with(".git")
        || path.file_name().is_some_and(|name| is_one_of(name, REPOSITORY_PARTS))
        || path.components().any(|name| is_one_of(name.as_os_str(), STEERING))
}

/// Returns whether a path has the name that git, or its extension for large files, gives an object or a pack of them. Such a file
/// steers nothing, wherever it is.
fn is_git_object(path: &Path) -> bool {
    let mut names = path.components().rev().map(|name| name.as_os_str().as_encoded_bytes());
    let (Some(name), Some(directory)) = (names.next(), names.next()) else { return false };
    let is_hexadecimal = |text: &[u8]| text.iter().all(u8::is_ascii_hexdigit);
    let is_loose =
        name.len() >= 38 && is_hexadecimal(name) && directory.len() == 2 && is_hexadecimal(directory);
    is_loose || (directory == b"pack" && name.starts_with(b"pack-"))
}

/// Returns whether a path is that of a `.git`, or of something in it that may steer git: programs that it runs, and where
/// it takes contents and settings from.
fn may_steer_dot_git(path: &Path) -> bool {
    let mut names = path.components().map(std::path::Component::as_os_str);
    if !names.by_ref().any(|name| name == ".git") || is_transient(path) {
        return path.ends_with(".git");
    }
    match (names.next(), names.next()) {
        (None, _) => true,
        (Some(name), inner) if name == "objects" => inner.is_none_or(|inner| inner == "info"),
        (Some(name), _) => !GIT_HISTORY.iter().any(|history| name == *history),
    }
}

/// Returns whether a name in a git directory is one that is left behind when git is interrupted.
fn is_transient(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.ends_with(b".lock") || name.starts_with(b"tmp_")
}

/// Writes what a file holds into a private copy, in place, and removes the file: what git does when it replaces its
/// configuration.
fn replace_configuration(source: &ResolvedFile, copy: &OwnedFd) -> io::Result<()> {
    let mut text = Vec::new();
    source.reopen()?.take(LARGEST_CONFIGURATION + 1).read_to_end(&mut text)?;
    if text.len() as u64 > LARGEST_CONFIGURATION {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::CLOEXEC;
    let copy = format!("/proc/self/fd/{}", copy.as_raw_fd());
    File::from(openat(CWD, copy, flags, Mode::empty())?).write_all(&text)?;
    Ok(unlinkat(CWD, &source.path, AtFlags::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_git_are_known_by_their_names() {
        let object = "0123456789abcdef0123456789abcdef012345";
        let large = object.repeat(2);
        for path in [
            format!("/w/.git/modules/m/objects/ab/{object}"),
            format!("/w/.git/lfs/objects/ab/cd/{large}"),
            "/w/.git/modules/m/objects/pack/pack-ab.idx".to_owned(),
        ] {
            assert!(is_git_object(Path::new(&path)), "{path}");
        }
        for path in [
            format!("/w/.git/modules/m/objects/ab/{object}/config"),
            format!("/w/.git/modules/{object}"),
            "/w/.git/modules/m/objects/ab/HEAD".to_owned(),
            "/w/.git/modules/pack/config".to_owned(),
        ] {
            assert!(!is_git_object(Path::new(&path)), "{path}");
        }
    }
}
