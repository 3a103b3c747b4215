//! The supervisor of a command: it learns of every system call that may change a file before the kernel carries it
//! out, and keeps what the file was.
//!
//! Where it lets the kernel go on it is no boundary: a command that changes a path between the supervisor's look and the
//! call itself gets past it. What must not be changed is held by mounts and Landlock, and what was changed is found by
//! [`crate::changes`]. The calls that it carries out itself, hard links and the replacement of a git configuration, work on
//! what it has looked at.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, IoSliceMut, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};

use nix::libc;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, StatVfsMountFlags, fstat, fstatvfs, linkat, openat, readlinkat,
    statat, unlinkat,
};
use rustix::io::Errno;

use super::journal::{BeforeImage, Line, Writer, path_of};
use super::notifications::{Answer, FCHMODAT2, Listener, Notification};
use super::order::{Order, Place};

/// The longest path that the kernel takes, in bytes.
const LONGEST_PATH: usize = 4096;
/// A read of another process's memory ends at the end of a page that is not there, so it goes page by page.
const PAGE: usize = 4096;
/// The largest file whose content is kept, in bytes.
const LARGEST: u64 = 8 << 20;
/// The most that is kept of one command, in bytes.
const TOTAL: u64 = 512 << 20;
/// The most paths that a command is told it may not write.
const REFUSED: usize = 64;
/// The largest git configuration, in bytes.
const LARGEST_CONFIGURATION: u64 = 1 << 20;
/// Where no files of anybody are.
const KERNEL: &[&str] = &["/proc", "/sys", "/dev"];

/// Supervises what a listener is told of.
pub(super) struct Supervisor {
    writer: Option<Writer>,
    roots: Vec<PathBuf>,
    except: Vec<PathBuf>,
    /// Git configurations that are private copies: a file that is mounted on can't be replaced by name.
    configurations: Vec<PathBuf>,
    /// Where only git removes anything.
    git_history: Vec<PathBuf>,
    /// What was captured, by where it was when the command began, and whether with its content.
    captured: HashMap<PathBuf, bool>,
    /// Directories that were moved, or were to be: what the kernel makes of a call is not seen.
    moved: HashMap<Identity, MovedDirectory>,
    refused: HashSet<PathBuf>,
    left: u64,
}

/// Starts a supervisor, which begins when it is handed a listener. To be called before this thread gives up the right
/// to write what the command may not.
pub(super) fn start(order: &Order, captures: Option<OwnedFd>) -> io::Result<Sender<Listener>> {
    let (sender, receiver): (Sender<Listener>, Receiver<Listener>) = channel();
    let writer = captures.map(Writer::new).transpose()?;
    let paths = |places: &[Place]| places.iter().map(|place| place.0.clone()).collect::<Vec<_>>();
    let capture = order.capture.as_ref();
    let mut supervisor = Supervisor {
        writer,
        roots: capture.map(|capture| paths(&capture.roots)).unwrap_or_default(),
        except: capture.map(|capture| paths(&capture.except)).unwrap_or_default(),
        configurations: order
            .substitutes
            .iter()
            .filter(|substitute| substitute.is_writable)
            .map(|substitute| substitute.place.0.clone())
            .collect(),
        git_history: paths(&order.git_history),
        captured: HashMap::new(),
        moved: HashMap::new(),
        refused: HashSet::new(),
        left: TOTAL,
    };
    std::thread::Builder::new().stack_size(256 << 10).spawn(move || {
        let Ok(listener) = receiver.recv() else { return };
        while let Ok(Some(call)) = listener.next() {
            let answer = supervisor.decide(&listener, &call);
            listener.answer(&call, answer);
        }
        // Without a supervisor every such call would fail for no reason that a command could see.
        std::process::exit(1);
    })?;
    Ok(sender)
}

/// What a call is about to do with a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Writes the content; may make the file where `creates`.
    Write { creates: bool },
    /// Takes the name away.
    Remove,
    /// Changes the mode alone.
    Mode,
}

/// A path as a thread names it: from a directory of its own.
struct Named {
    directory: i32,
    path: Vec<u8>,
}

/// The numbers of a file's device and of the file on it.
type Identity = (u64, u64);

/// A directory that was moved, or was to be.
struct MovedDirectory {
    /// Where it was when the command began.
    original: PathBuf,
    /// Where it may be.
    places: Vec<PathBuf>,
}

/// Where a path leads.
struct Found {
    /// Through no link but, where nothing is there yet, the last name.
    path: PathBuf,
    /// What is there; the directory that would hold it where nothing is.
    handle: OwnedFd,
    is_there: bool,
}

impl Supervisor {
    fn decide(&mut self, listener: &Listener, call: &Notification) -> Answer {
        match self.look(listener, call) {
            Some(answer) => answer,
            // What can't be looked at is the kernel's to judge.
            None => Answer::Continue,
        }
    }

    fn look(&mut self, listener: &Listener, call: &Notification) -> Option<Answer> {
        let thread = call.thread;
        let argument = |number: usize| call.arguments.get(number).copied().unwrap_or_default();
        // The registers hold integers of the C language in their lower half.
        #[allow(clippy::cast_possible_truncation, reason = "what is cut off is no part of the argument")]
        let integer = |number: usize| argument(number) as i32;
        let here = |number: usize| {
            Some(Named { directory: libc::AT_FDCWD, path: read_path(thread, argument(number))? })
        };
        let at = |directory: usize, number: usize| {
            Some(Named { directory: integer(directory), path: read_path(thread, argument(number))? })
        };
        let (named, effect, follows) = match call.call {
            libc::SYS_openat => (at(0, 1)?, open_effect(integer(2)), follows(integer(2))),
            libc::SYS_openat2 => {
                // `struct open_how` begins with the flags.
                let flags = u64::from_ne_bytes(read(thread, argument(2), 8)?.try_into().ok()?);
                let flags = i32::try_from(flags & 0x7fff_ffff).ok()?;
                if flags & (libc::O_WRONLY | libc::O_RDWR | libc::O_TRUNC) == 0 {
                    return None;
                }
                (at(0, 1)?, open_effect(flags), follows(flags))
            }
            libc::SYS_truncate => (here(0)?, Effect::Write { creates: false }, true),
            libc::SYS_unlinkat => (at(0, 1)?, Effect::Remove, false),
            libc::SYS_fchmodat | FCHMODAT2 => (at(0, 1)?, Effect::Mode, true),
            libc::SYS_fchmod => {
                let path = format!("/proc/{thread}/fd/{}", integer(0)).into_bytes();
                (Named { directory: libc::AT_FDCWD, path }, Effect::Mode, true)
            }
            #[cfg(not(target_arch = "riscv64"))]
            libc::SYS_renameat => return self.rename(listener, call, &at(0, 1)?, &at(2, 3)?),
            libc::SYS_linkat => {
                let follows = integer(4) & libc::AT_SYMLINK_FOLLOW != 0;
                return Some(at(0, 1).zip(at(2, 3)).map_or(Answer::Fail(Errno::FAULT), |(from, to)| {
                    self.link(listener, call, &from, &to, follows)
                }));
            }
            libc::SYS_renameat2 => return self.rename(listener, call, &at(0, 1)?, &at(2, 3)?),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename => return self.rename(listener, call, &here(0)?, &here(1)?),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_link => {
                let named = here(0).zip(here(1));
                return Some(named.map_or(Answer::Fail(Errno::FAULT), |(from, to)| {
                    self.link(listener, call, &from, &to, false)
                }));
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => (here(0)?, open_effect(integer(1)), follows(integer(1))),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_creat => (here(0)?, Effect::Write { creates: true }, true),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_unlink | libc::SYS_rmdir => (here(0)?, Effect::Remove, false),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chmod => (here(0)?, Effect::Mode, true),
            _ => return None,
        };
        let found = find(thread, &named, follows)?;
        if !listener.is_waiting(call) {
            return None;
        }
        match effect {
            Effect::Write { creates } if !found.is_there => {
                if creates && !self.is_refused(&found) {
                    // From now on it is the command's own.
                    let original = self.original(&found.path);
                    self.captured.entry(original).or_insert(true);
                }
            }
            Effect::Remove if self.loses_history(thread, &found, None) => {
                return Some(Answer::Fail(Errno::PERM));
            }
            Effect::Write { .. } | Effect::Remove => self.about_to_change(&found, true),
            Effect::Mode => self.about_to_change(&found, false),
        }
        Some(Answer::Continue)
    }

    fn rename(
        &mut self,
        listener: &Listener,
        call: &Notification,
        from: &Named,
        to: &Named,
    ) -> Option<Answer> {
        let (source, target) = (find(call.thread, from, false)?, find(call.thread, to, false)?);
        if !listener.is_waiting(call) || !source.is_there {
            return None;
        }
        if self.configurations.contains(&target.path) {
            return Some(match replace_configuration(&source, &target.path) {
                Ok(()) => Answer::Done,
                Err(error) => Answer::Fail(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
            });
        }
        let is_refused = self.is_refused(&source) | self.is_refused(&target);
        if is_refused {
            return Some(Answer::Continue);
        }
        if self.loses_history(call.thread, &source, Some(&target.path)) {
            return Some(Answer::Fail(Errno::PERM));
        }
        self.about_to_change(&source, true);
        if target.is_there {
            self.about_to_change(&target, true);
        }
        if is_directory(&source) {
            self.directory_moves(&source, &target.path);
        }
        Some(Answer::Continue)
    }

    /// Makes a hard link, or says why not. Under a second name a file could be written without a notice at its first:
    /// so a file that is tracked gets one only beside it. Programs copy what they can't link.
    ///
    /// This is a boundary, so what is looked at is what is linked, and the kernel does nothing by itself.
    fn link(
        &mut self,
        listener: &Listener,
        call: &Notification,
        from: &Named,
        to: &Named,
        follows: bool,
    ) -> Answer {
        let (Some(source), Some(target)) = (find(call.thread, from, follows), find(call.thread, to, false))
        else {
            return Answer::Fail(Errno::NOENT);
        };
        if !listener.is_waiting(call) || !source.is_there {
            return Answer::Fail(Errno::NOENT);
        }
        if target.is_there {
            return Answer::Fail(Errno::EXIST);
        }
        if is_directory(&source) {
            return Answer::Fail(Errno::PERM);
        }
        if self.is_refused(&target) {
            return Answer::Fail(Errno::ROFS);
        }
        if self.is_tracked(&source.path) && source.path.parent() != target.path.parent() {
            return Answer::Fail(Errno::XDEV);
        }
        let Some(name) = target.path.file_name() else { return Answer::Fail(Errno::INVAL) };
        let handle = format!("/proc/self/fd/{}", source.handle.as_raw_fd());
        match linkat(CWD, handle, &target.handle, name, AtFlags::SYMLINK_FOLLOW) {
            Ok(()) => Answer::Done,
            Err(error) => Answer::Fail(error),
        }
    }

    /// Keeps what is there, if nobody has yet.
    fn about_to_change(&mut self, found: &Found, with_content: bool) {
        if !found.is_there || self.is_refused(found) || !self.is_tracked(&found.path) {
            return;
        }
        let original = self.original(&found.path);
        let known = self.captured.get(&original).copied();
        if known.is_some_and(|has_content| has_content || !with_content) {
            return;
        }
        if let Err(error) = self.capture(found, original, with_content) {
            // What could not be kept is told as a change whose earlier content is not known.
            let _ = error;
        }
    }

    fn capture(&mut self, found: &Found, original: PathBuf, with_content: bool) -> io::Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let stat = fstat(&found.handle)?;
        let mut image = BeforeImage::of(original.clone(), &stat);
        let kind = FileType::from_raw_mode(stat.st_mode);
        match kind {
            FileType::RegularFile if with_content && image.size <= LARGEST.min(self.left) => {
                let copied = writer.copy(&reopen(&found.handle)?, image.size)?;
                image.content = Some(copied);
                self.left -= copied.1;
            }
            FileType::Symlink => {
                let target = readlinkat(&found.handle, "", Vec::new())?;
                image.target = Some(target.into_bytes());
            }
            _ => {}
        }
        writer.add(&Line::Before(Box::new(image)))?;
        self.captured.insert(original, with_content || kind != FileType::RegularFile);
        Ok(())
    }

    /// Puts down that a directory is about to be moved, with those in it that were moved before.
    fn directory_moves(&mut self, source: &Found, to: &Path) {
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
                let line = Line::MovedDirectory { from: Place(original), to: Place(now), device, inode };
                // What is lost is told as a change whose earlier content is not known.
                let _ = writer.add(&line);
            }
        }
    }

    /// Where something was when the command began.
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

    /// Whether the history of a repository would lose something, by another program than git. It is not kept for the
    /// user, so a line that clears too much must not reach it. This is care, and no boundary.
    fn loses_history(&self, thread: i32, source: &Found, target: Option<&Path>) -> bool {
        let place = |path: &Path| self.git_history.iter().find(|place| path.starts_with(place)).cloned();
        let Some(history) = place(&source.path).filter(|_| source.is_there) else { return false };
        let stays = target.and_then(place) == Some(history);
        !stays && !is_transient(&source.path) && !is_git(thread)
    }

    fn is_tracked(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(root))
            && !self.except.iter().any(|except| path.starts_with(except))
    }

    /// Whether the file system there can't be written, which is put down.
    fn is_refused(&mut self, found: &Found) -> bool {
        let is_read_only =
            fstatvfs(&found.handle).is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::RDONLY));
        if !is_read_only {
            return false;
        }
        let is_kernels = KERNEL.iter().any(|kernel| found.path.starts_with(kernel));
        if !is_kernels
            && self.refused.len() < REFUSED
            && self.refused.insert(found.path.clone())
            && let Some(writer) = &mut self.writer
        {
            let _ = writer.add(&Line::Refused { path: Place(found.path.clone()) });
        }
        true
    }
}

/// What is at a path, where anything is.
fn identity_of(path: &Path) -> Option<Identity> {
    let found = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    #[allow(clippy::unnecessary_cast, reason = "not on all processors")]
    Some((found.st_dev as u64, found.st_ino as u64))
}

/// A path below another, or that one itself where nothing is below.
fn joined(above: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() { above.to_owned() } else { above.join(rest) }
}

/// Whether a name in a git directory is one that is left behind when git is interrupted.
fn is_transient(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.ends_with(b".lock") || name.starts_with(b"tmp_")
}

/// Whether a thread runs a program of git.
fn is_git(thread: i32) -> bool {
    let program =
        readlinkat(CWD, format!("/proc/{thread}/exe"), Vec::new()).map(|path| path_of(path.into_bytes()));
    program.is_ok_and(|program| {
        program.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"git"))
    })
}

fn open_effect(flags: i32) -> Effect {
    Effect::Write { creates: flags & libc::O_CREAT != 0 }
}

fn follows(flags: i32) -> bool {
    flags & libc::O_NOFOLLOW == 0
}

fn is_directory(found: &Found) -> bool {
    fstat(&found.handle).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

/// Finds where a thread's path leads.
fn find(thread: i32, named: &Named, follows: bool) -> Option<Found> {
    let text = absolute(thread, named)?;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let with = if follows { flags } else { flags | OFlags::NOFOLLOW };
    match openat(CWD, &text, with, Mode::empty()) {
        Ok(handle) => Some(Found { path: place_of(&handle)?, handle, is_there: true }),
        Err(Errno::NOENT) => {
            let Some(Component::Normal(name)) = text.components().next_back() else { return None };
            let directory = openat(CWD, text.parent()?, flags | OFlags::DIRECTORY, Mode::empty()).ok()?;
            Some(Found { path: place_of(&directory)?.join(name), handle: directory, is_there: false })
        }
        Err(_) => None,
    }
}

/// A path that means here what a thread's means there.
fn absolute(thread: i32, named: &Named) -> Option<PathBuf> {
    let own = |rest: &[u8]| path_of([format!("/proc/{thread}/").as_bytes(), rest].concat());
    let path = named.path.as_slice();
    if path.is_empty() {
        return None;
    }
    for (begin, stands_for) in
        [(&b"/proc/self/"[..], &b""[..]), (b"/proc/thread-self/", b""), (b"/dev/fd/", b"fd/")]
    {
        if let Some(rest) = path.strip_prefix(begin) {
            return Some(own(&[stands_for, rest].concat()));
        }
    }
    if path.starts_with(b"/") {
        return Some(path_of(path.to_vec()));
    }
    let from = match named.directory {
        libc::AT_FDCWD => b"cwd/".to_vec(),
        number => format!("fd/{number}/").into_bytes(),
    };
    Some(own(&[&from, path].concat()))
}

/// Where a handle leads; none where it leads to nothing that has a name.
fn place_of(handle: &OwnedFd) -> Option<PathBuf> {
    let link = readlinkat(CWD, format!("/proc/self/fd/{}", handle.as_raw_fd()), Vec::new()).ok()?;
    let path = path_of(link.into_bytes());
    path.is_absolute().then_some(path)
}

/// Opens for reading what a handle only names.
fn reopen(handle: &OwnedFd) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    Ok(openat(CWD, format!("/proc/self/fd/{}", handle.as_raw_fd()), flags, Mode::empty())?.into())
}

/// Reads a thread's path, without the NUL at its end.
fn read_path(thread: i32, address: u64) -> Option<Vec<u8>> {
    let mut path = Vec::new();
    let mut from = usize::try_from(address).ok().filter(|address| *address != 0)?;
    while path.len() < LONGEST_PATH {
        let piece = read(thread, u64::try_from(from).ok()?, PAGE - from % PAGE)?;
        if let Some(end) = piece.iter().position(|&byte| byte == 0) {
            path.extend(piece.get(..end)?);
            return Some(path);
        }
        from += piece.len();
        path.extend(piece);
    }
    None
}

/// Reads a thread's memory.
fn read(thread: i32, address: u64, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    let remote = RemoteIoVec { base: usize::try_from(address).ok()?, len: length };
    let count =
        process_vm_readv(Pid::from_raw(thread), &mut [IoSliceMut::new(&mut bytes)], &[remote]).ok()?;
    bytes.truncate(count);
    (count > 0).then_some(bytes)
}

/// Writes what a file holds into a private copy, in place, and removes the file: what git does when it replaces its
/// configuration.
fn replace_configuration(source: &Found, target: &Path) -> io::Result<()> {
    let mut text = Vec::new();
    reopen(&source.handle)?.take(LARGEST_CONFIGURATION + 1).read_to_end(&mut text)?;
    if text.len() as u64 > LARGEST_CONFIGURATION {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    File::from(openat(CWD, target, flags, Mode::empty())?).write_all(&text)?;
    Ok(unlinkat(CWD, &source.path, AtFlags::empty())?)
}
