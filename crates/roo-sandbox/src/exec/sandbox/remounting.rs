//! Mounting again what keeps a command from its held places, by the helper that is outside of the command's process
//! namespace and has the privilege.
//!
//! When an editor or git outside replaces a file by name, what was mounted on it is gone from the command's mount
//! namespace. This process hears of it with inotify(7) and mounts it again. Writing in between is refused by the
//! [`super::supervisor`]; for reading there are the microseconds until this process runs.

use std::collections::BTreeSet;
use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::libc;
use nix::sched::{CloneFlags, setns};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify::{self, ReadFlags, Reader, WatchFlags};
use rustix::fs::{AtFlags, FileType, fstat};
use rustix::io::Errno;

use super::mounts::{ProtectedMounts, attach, clone_tree};
use super::network::{MAX_DESCRIPTORS, receive, send};
use super::protected_mounts::{MountKind, MountState, ProtectedMount, open_place};

/// The longest list of places, in bytes.
const MAX_LIST_BYTES: u32 = 64 << 20;
/// The longest names come with less.
const EVENTS: usize = 16 << 10;

/// Changes in a directory by which a name in it means something else.
const NAMES_CHANGE: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::DONT_FOLLOW);

/// Tells the other helper what is mounted where in this process's mount namespace, and gives it the queue of notifications.
pub(super) fn hand_over(
    socket: &UnixStream,
    changes: Vec<OwnedFd>,
    held: &ProtectedMounts,
) -> io::Result<()> {
    let namespace = File::open("/proc/self/ns/mnt")?;
    let places = serde_json::to_vec(&held.places)?;
    let length = u32::try_from(places.len()).map_err(io::Error::other)?;
    let mut stream = socket;
    stream.write_all(&length.to_le_bytes())?;
    stream.write_all(&places)?;
    stream.write_all(&u32::try_from(held.copies.len()).map_err(io::Error::other)?.to_le_bytes())?;
    let closed = [held.closed_directory.as_fd(), held.closed_file.as_fd()];
    let first = changes.iter().take(1).map(OwnedFd::as_fd).chain([namespace.as_fd()]).chain(closed);
    send(socket, &first.collect::<Vec<_>>())?;
    let copies: Vec<BorrowedFd<'_>> = held.copies.iter().map(OwnedFd::as_fd).collect();
    copies.chunks(MAX_DESCRIPTORS).try_for_each(|copies| send(socket, copies))
}

/// Takes what the other helper hands over and keeps it mounted until that one is gone.
pub(super) fn keep(socket: &UnixStream) -> io::Result<()> {
    let mut stream = socket;
    let length = read_number(stream)?.min(MAX_LIST_BYTES);
    let mut places = vec![0; usize::try_from(length).unwrap_or_default()];
    stream.read_exact(&mut places)?;
    let number_of_copies = usize::try_from(read_number(stream)?).unwrap_or_default();
    let mut handles = receive(socket)?.into_iter();
    let (Some(changes), Some(namespace), Some(closed_directory), Some(closed_file)) =
        (handles.next(), handles.next(), handles.next(), handles.next())
    else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let mut copies = Vec::new();
    while copies.len() < number_of_copies {
        let received = receive(socket)?;
        if received.is_empty() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        copies.extend(received);
    }
    let places = serde_json::from_slice(&places)?;
    setns(namespace, CloneFlags::CLONE_NEWNS)?;
    let held = ProtectedMounts { places, closed_directory, closed_file, copies };
    watch(&changes, &held.places);
    let names: BTreeSet<&OsStr> = held.places.iter().flat_map(|place| place.path.0.iter()).collect();
    loop {
        mount_missing(&held, &changes);
        if !wait(socket, &changes, &names)? {
            return Ok(());
        }
    }
}

fn read_number(mut stream: &UnixStream) -> io::Result<u32> {
    let mut number = [0; 4];
    stream.read_exact(&mut number)?;
    Ok(u32::from_le_bytes(number))
}

/// Watches all directories that lead to these places. One that is gone or can't be watched is left out.
fn watch<'a>(changes: &OwnedFd, places: impl IntoIterator<Item = &'a ProtectedMount>) {
    let places = places.into_iter();
    let directories: BTreeSet<&Path> = places.flat_map(|place| place.path.0.ancestors().skip(1)).collect();
    for directory in directories {
        let _ = inotify::add_watch(changes, directory, NAMES_CHANGE);
    }
}

/// Waits until one of the names changes; false when the other helper is gone.
fn wait(socket: &UnixStream, changes: &OwnedFd, names: &BTreeSet<&OsStr>) -> io::Result<bool> {
    loop {
        let mut watched = [PollFd::new(socket, PollFlags::RDHUP), PollFd::new(changes, PollFlags::IN)];
        rustix::io::retry_on_intr(|| poll(&mut watched, None))?;
        if watched.first().is_none_or(|socket| !socket.revents().is_empty()) {
            return Ok(false);
        }
        if have_changed(changes, names) {
            return Ok(true);
        }
    }
}

/// Reads all that is there to be read.
fn have_changed(changes: &OwnedFd, names: &BTreeSet<&OsStr>) -> bool {
    let mut space = [MaybeUninit::uninit(); EVENTS];
    let mut reader = Reader::new(changes, &mut space);
    let mut have_changed = false;
    while let Ok(event) = reader.next() {
        let name = event.file_name().map(CStr::to_bytes).map(OsStr::from_bytes);
        have_changed |= event.events().contains(ReadFlags::QUEUE_OVERFLOW)
            || name.is_some_and(|name| names.contains(name));
    }
    have_changed
}

fn mount_missing(held: &ProtectedMounts, changes: &OwnedFd) {
    // What could not be shown and is covered instead stays so: another cover would lie on the first.
    let is_closed = |place: &&ProtectedMount| {
        [&held.closed_directory, &held.closed_file].into_iter().any(|cover| place.is_covered_by(cover))
    };
    let exposed = held.places.iter().filter(|place| place.state() == MountState::Exposed);
    for place in exposed.filter(|place| !is_closed(place)) {
        // What has been replaced again meanwhile is told by the next event.
        let _ = mount_anew(held, place);
        watch(changes, [place]);
    }
}

fn mount_anew(held: &ProtectedMounts, place: &ProtectedMount) -> rustix::io::Result<()> {
    let target = open_place(&place.path.0)?;
    let closed = match FileType::from_raw_mode(fstat(&target)?.st_mode) {
        // It came just now.
        FileType::Symlink => return Ok(()),
        FileType::Directory => &held.closed_directory,
        _ => &held.closed_file,
    };
    let wanted = match place.kind {
        MountKind::Closed => clone_tree(closed),
        MountKind::ReadOnly => clone_tree(&target).and_then(|tree| make_read_only(&tree).map(|()| tree)),
        MountKind::Copy { number, .. } => held.copies.get(number).ok_or(Errno::NOENT).and_then(clone_tree),
    };
    let attached = wanted.and_then(|tree| attach(&tree, &target));
    // Better nothing than what the command should not find.
    attached.or_else(|_| attach(&clone_tree(closed)?, &target))
}

/// Makes a tree that is mounted nowhere yet read-only, with all that is mounted in it (mount_setattr(2)).
#[allow(unsafe_code, reason = "neither nix nor rustix wraps this call")]
fn make_read_only(tree: &OwnedFd) -> rustix::io::Result<()> {
    let attributes =
        libc::mount_attr { attr_set: libc::MOUNT_ATTR_RDONLY, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let flags = AtFlags::EMPTY_PATH.bits() | libc::AT_RECURSIVE.cast_unsigned();
    // SAFETY: the kernel reads a structure of just this type and size, and a text that ends with NUL.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            flags,
            std::ptr::from_ref(&attributes),
            size_of::<libc::mount_attr>(),
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}
