//! Calls that open a file: what is there is kept before it may be written, and the caller gets what was looked at.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fcntl_setfl, major, minor, openat};
use rustix::io::Errno;
use rustix::process::umask;

use super::Supervisor;
use super::supervised_call::SupervisedCall;
use crate::exec::sandbox::caller::{GivenPath, ResolvedFile, Target, Unresolved};
use crate::exec::sandbox::notifications::CallAnswer;

/// Maximum number of attempts to open a file that appears or disappears each time.
const MAX_OPEN_ATTEMPTS: usize = 16;
/// Time between two looks whether a pipe has a reader.
const READER_POLL_INTERVAL: Duration = Duration::from_millis(5);
/// The number of the driver of `/dev/tty`, and those of terminals, by `Documentation/admin-guide/devices.txt`.
const TERMINAL: u32 = 5;
const TERMINALS: std::ops::RangeInclusive<u32> = 136..=143;

/// Mode of opening a file.
#[derive(Clone, Copy)]
pub(super) struct Opening {
    flags: OFlags,
    mode: Mode,
}

impl Supervisor {
    pub(super) fn open_how(&mut self, call: &SupervisedCall<'_>) -> Result<CallAnswer, Unresolved> {
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

    pub(super) fn open(
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
        for _ in 0..MAX_OPEN_ATTEMPTS {
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
        match openat(CWD, found.by_handle(), with, Mode::empty()) {
            Ok(file) => give(call, file, flags),
            Err(error) => Err(self.refusal(&found, error)),
        }
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

fn writes(flags: OFlags) -> bool {
    flags.intersects(OFlags::WRONLY | OFlags::RDWR | OFlags::TRUNC)
}

pub(super) fn opening(flags: i32, mode: Mode) -> Opening {
    Opening { flags: OFlags::from_bits_retain(flags.cast_unsigned()), mode }
}
