//! Resolution of system call arguments in the place of their caller: its memory, its paths and its file descriptors.
//!
//! Paths are resolved once. What comes back are handles, on which a [`super::supervisor`] carries out the call, so that
//! nothing the caller does meanwhile to its memory or to names makes it another one.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use nix::libc;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use rustix::fs::{
    CWD, Dev, FileType, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags, Stat, StatVfsMountFlags, fstat,
    fstatfs, fstatvfs, major, minor, openat, openat2, readlinkat, stat,
};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::journal::path_of;
use super::protected_mounts::is_read_only;

/// The longest path that the kernel takes, in bytes.
const MAX_PATH_BYTES: usize = 4096;
/// A read of another process's memory ends at the end of a page that is not there, so it goes page by page.
const PAGE: usize = 4096;
/// Number of links the kernel follows in one path.
const MAX_LINKS: usize = 40;

/// A thread that waits for the answer to a system call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller(pub i32);

/// The session of a process, and its controlling terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Session {
    /// The number of the process.
    process: i64,
    /// The number of the process that leads the session; 0 for one outside of this process namespace.
    leader: i64,
    /// The number of the terminal's device; 0 for none.
    pub terminal: i64,
}

impl Session {
    /// Reads the fourth and the fifth field after the name (proc_pid_stat(5)).
    fn parse(stat: &str, process: i64) -> Option<Self> {
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(3).map(str::parse);
        Some(Self { process, leader: fields.next()?.ok()?, terminal: fields.next()?.ok()? })
    }

    /// Returns whether it is the session of this process, which the helper outside of the namespace leads.
    pub(super) fn is_ours(self) -> bool {
        let own = std::fs::read_to_string("/proc/self/stat").ok();
        let own = own.and_then(|stat| Self::parse(&stat, 0));
        own.is_some_and(|own| own.leader == self.leader && own.terminal == self.terminal)
    }

    /// Returns whether a device is the controlling terminal.
    #[allow(clippy::useless_conversion, reason = "not on all processors")]
    fn has_terminal(self, device: Dev) -> bool {
        let (major, minor) = (i64::from(major(device)), i64::from(minor(device)));
        // As the kernel writes a device into one number.
        self.terminal == (minor & 0xff) | (major << 8) | ((minor & 0xfff00) << 12)
    }

    /// Returns whether a terminal that the process opens becomes that of its session.
    pub(super) fn takes_terminal(self) -> bool {
        self.leader == self.process && self.terminal == 0
    }
}

/// A path as it was given: from a directory of its own.
pub(super) struct GivenPath {
    directory: BaseDirectory,
    path: Vec<u8>,
    resolve: ResolveFlags,
}

enum BaseDirectory {
    /// A file descriptor of the caller, or `AT_FDCWD`.
    Descriptor(i32),
    Handle(OwnedFd),
}

/// A name in a directory.
pub(super) struct DirectoryEntry {
    pub directory: OwnedFd,
    pub name: OsString,
    /// Through no link but, perhaps, the last name.
    pub path: PathBuf,
    /// Existing file, the link itself where it is one.
    pub there: Option<ResolvedFile>,
}

/// Something that exists.
pub(super) struct ResolvedFile {
    /// Through no link.
    pub path: PathBuf,
    pub handle: OwnedFd,
    pub stat: Stat,
}

/// Target of a path that is to be opened.
pub(super) enum Target {
    Existing(ResolvedFile),
    /// Nothing is there, and this is where it would be made.
    Missing(DirectoryEntry),
}

/// Reasons why a path was not resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unresolved {
    /// So the call fails.
    Fails(Errno),
    /// It means something to the caller alone, as in `/proc`.
    CallersOwn,
    /// It is in a `/proc` that nobody can write.
    ReadOnlyProc,
    /// The command must not do that, whoever carries it out.
    Refused(Errno),
    /// What was to keep the command from it has been taken away for the moment.
    Exposed,
}

impl Unresolved {
    /// For a call that only reads.
    pub(super) fn of_reading(self) -> Self {
        if self == Self::ReadOnlyProc { Self::CallersOwn } else { self }
    }
}

impl From<Errno> for Unresolved {
    fn from(error: Errno) -> Self {
        Self::Fails(error)
    }
}

impl GivenPath {
    pub(super) fn new(directory: i32, path: Vec<u8>) -> Self {
        Self { directory: BaseDirectory::Descriptor(directory), path, resolve: ResolveFlags::empty() }
    }

    /// Returns whether it can only name a directory.
    pub(super) fn is_of_directory(&self) -> bool {
        self.path.ends_with(b"/")
    }

    /// With what the caller asks of the resolution itself (openat2(2)).
    pub(super) fn resolved_with(self, resolve: ResolveFlags) -> Self {
        Self { resolve, ..self }
    }
}

impl ResolvedFile {
    pub(super) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    pub(super) fn is_directory(&self) -> bool {
        self.kind() == FileType::Directory
    }

    /// A path by which this process names it, whatever becomes of its name.
    pub(super) fn by_handle(&self) -> String {
        format!("/proc/self/fd/{}", self.handle.as_raw_fd())
    }

    /// Returns whether the kernel has the same path for a place as this one. Otherwise what is found there would not be
    /// known as a part of it.
    pub(super) fn is_named_as_it_is(place: &Path) -> bool {
        let handle = openat(CWD, place, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        handle.is_ok_and(|handle| Self::from_handle(handle).is_ok_and(|found| found.path == place))
    }

    fn from_handle(handle: OwnedFd) -> Result<Self, Unresolved> {
        let stat = fstat(&handle)?;
        if fstatfs(&handle).is_ok_and(|found| found.f_type == PROC_SUPER_MAGIC) {
            return Err(match is_read_only(&handle) {
                true => Unresolved::ReadOnlyProc,
                false => Unresolved::CallersOwn,
            });
        }
        // A pipe or a socket that has no name is no place at all.
        let path = readlinkat(CWD, format!("/proc/self/fd/{}", handle.as_raw_fd()), Vec::new())?;
        Ok(Self { path: path_of(path.into_bytes()), handle, stat })
    }

    /// Device and number of a file that has other names than its path.
    #[allow(clippy::unnecessary_cast, reason = "not on all processors")]
    pub(super) fn shared(&self) -> Option<(u64, u64)> {
        // The kernel's mark of a name that is gone; the file may have others.
        let is_gone = self.path.as_os_str().as_encoded_bytes().ends_with(b" (deleted)");
        let is_shared = self.kind() == FileType::RegularFile && (is_gone || self.stat.st_nlink as u64 > 1);
        is_shared.then_some((self.stat.st_dev as u64, self.stat.st_ino as u64))
    }

    /// Returns whether it is in no directory, as pipes between programs.
    pub(super) fn is_nameless(&self) -> bool {
        !self.path.is_absolute()
    }

    /// Opens for reading what is only named so far.
    pub(super) fn reopen(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        Ok(openat(CWD, self.by_handle(), flags, Mode::empty())?.into())
    }
}

impl Caller {
    /// Finds what is at a path.
    pub(super) fn find(self, named: &GivenPath, follows: bool) -> Result<ResolvedFile, Unresolved> {
        let (base, rest) = self.base(named)?;
        let link = if follows { OFlags::empty() } else { OFlags::NOFOLLOW };
        ResolvedFile::from_handle(self.resolve(base, &rest, OFlags::PATH | link, named.resolve)?)
    }

    /// Finds a name and the directory that holds it.
    pub(super) fn entry(self, named: &GivenPath) -> Result<DirectoryEntry, Unresolved> {
        let (base, rest) = self.base(named)?;
        let (above, name) = split(&rest);
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let directory = ResolvedFile::from_handle(self.resolve(base, above, flags, named.resolve)?)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let there = match openat(&directory.handle, name, flags, Mode::empty()) {
            Ok(handle) => Some(ResolvedFile::from_handle(handle)?),
            Err(Errno::NOENT | Errno::NOTDIR) => None,
            Err(error) => return Err(error.into()),
        };
        let path = directory.path.join(path_of(name.to_vec()));
        Ok(DirectoryEntry {
            directory: directory.handle,
            name: OsString::from_vec(name.to_vec()),
            path,
            there,
        })
    }

    /// Finds what would be opened, or where it would be made: through links that lead to nothing yet.
    /// Afterwards `named` is the last of these.
    pub(super) fn target(
        self,
        named: &mut GivenPath,
        follows: bool,
        creates: bool,
    ) -> Result<Target, Unresolved> {
        for _ in 0..MAX_LINKS {
            match self.find(named, follows) {
                Err(Unresolved::Fails(Errno::NOENT)) if creates => {}
                found => return found.map(Target::Existing),
            }
            let entry = self.entry(named)?;
            let Some(link) = &entry.there else { return Ok(Target::Missing(entry)) };
            if link.kind() != FileType::Symlink || !named.resolve.is_empty() {
                return Err(Errno::LOOP.into());
            }
            let path = readlinkat(&link.handle, "", Vec::new())?.into_bytes();
            let directory = BaseDirectory::Handle(entry.directory);
            *named = GivenPath { directory, path, resolve: ResolveFlags::empty() };
        }
        Err(Errno::LOOP.into())
    }

    /// Returns the directory at which the resolution of a path begins, and the rest to be resolved.
    fn base(self, named: &GivenPath) -> Result<(OwnedFd, Vec<u8>), Unresolved> {
        let path = named.path.as_slice();
        if path.is_empty() {
            return Err(Errno::NOENT.into());
        }
        if named.resolve.is_empty() {
            if let Some((descriptor, rest)) = self.own_descriptor(path) {
                return Ok((self.open_own(&format!("fd/{descriptor}"))?, rest.to_vec()));
            }
            if path.starts_with(b"/") {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                return Ok((openat(CWD, "/", flags, Mode::empty())?, path.to_vec()));
            }
        }
        let base = match &named.directory {
            BaseDirectory::Descriptor(libc::AT_FDCWD) => self.directory()?,
            BaseDirectory::Descriptor(number) => self.open_descriptor(*number)?,
            BaseDirectory::Handle(handle) => {
                handle.try_clone().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::MFILE))?
            }
        };
        Ok((base, path.to_vec()))
    }

    /// A path that begins with one of the caller's own file descriptors, and what follows.
    fn own_descriptor(self, path: &[u8]) -> Option<(u32, &[u8])> {
        for (name, number) in [(&b"/dev/stdin"[..], 0), (b"/dev/stdout", 1), (b"/dev/stderr", 2)] {
            if path == name {
                return Some((number, b""));
            }
        }
        let numbered = format!("/proc/{}/fd/", self.0).into_bytes();
        let begins: [&[u8]; 4] = [b"/dev/fd/", b"/proc/self/fd/", b"/proc/thread-self/fd/", &numbered];
        let rest = begins.into_iter().find_map(|begin| path.strip_prefix(begin))?;
        let end = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
        let (number, rest) = rest.split_at_checked(end)?;
        let rest = rest.iter().position(|&byte| byte != b'/').and_then(|begin| rest.get(begin..));
        Some((std::str::from_utf8(number).ok()?.parse().ok()?, rest.unwrap_or_default()))
    }

    /// Resolves what is left of a path.
    fn resolve(
        self,
        base: OwnedFd,
        rest: &[u8],
        flags: OFlags,
        resolve: ResolveFlags,
    ) -> Result<OwnedFd, Unresolved> {
        if rest.is_empty() {
            return Ok(base);
        }
        // Through no link that means something else to this process than to the caller.
        let with = resolve | ResolveFlags::NO_MAGICLINKS;
        let path = path_of(rest.to_vec());
        match rustix::io::retry_on_intr(|| {
            openat2(base.as_fd(), &path, flags | OFlags::CLOEXEC, Mode::empty(), with)
        }) {
            Ok(handle) => Ok(handle),
            Err(Errno::LOOP) if resolve.is_empty() => self.walk(base, rest, flags),
            Err(Errno::LOOP) => Err(Unresolved::CallersOwn),
            Err(error) => Err(error.into()),
        }
    }

    /// Resolves a path name by name, through links in `/proc` as the caller's.
    fn walk(self, base: OwnedFd, rest: &[u8], flags: OFlags) -> Result<OwnedFd, Unresolved> {
        let mut place = base;
        let mut names = names_of(rest);
        names.reverse();
        let mut links = 0;
        while let Some(name) = names.pop() {
            let with = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let found = openat(&place, &name, with, Mode::empty())?;
            let is_link = FileType::from_raw_mode(fstat(&found)?.st_mode) == FileType::Symlink;
            if !is_link || (names.is_empty() && flags.contains(OFlags::NOFOLLOW)) {
                place = found;
                continue;
            }
            links += 1;
            if links > MAX_LINKS {
                return Err(Errno::LOOP.into());
            }
            let target = match LinkTarget::find(self, &place, &name, &found)? {
                LinkTarget::Handle(handle) => {
                    place = handle;
                    continue;
                }
                LinkTarget::Path(target) => target,
            };
            if target.starts_with(b"/") {
                place = openat(CWD, "/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
            }
            let target = names_of(&target);
            names.extend(target.into_iter().rev());
        }
        let is_directory = FileType::from_raw_mode(fstat(&place)?.st_mode) == FileType::Directory;
        if flags.contains(OFlags::DIRECTORY) && !is_directory {
            return Err(Errno::NOTDIR.into());
        }
        Ok(place)
    }

    fn open_own(self, what: &str) -> Result<OwnedFd, Unresolved> {
        let path = format!("/proc/{}/{what}", self.0);
        openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(|error| match error {
            // It lets nobody look.
            Errno::ACCESS | Errno::PERM => Unresolved::CallersOwn,
            error => error.into(),
        })
    }

    fn open_descriptor(self, number: i32) -> Result<OwnedFd, Unresolved> {
        match self.open_own(&format!("fd/{number}")) {
            Err(Unresolved::Fails(Errno::NOENT)) => Err(Errno::BADF.into()),
            // It forbids others to look, which the capability of this thread overrules.
            Err(Unresolved::CallersOwn) => self.copy_descriptor(number).map_err(|_| Unresolved::CallersOwn),
            opened => opened,
        }
    }

    fn copy_descriptor(self, number: i32) -> Result<OwnedFd, Errno> {
        let process = self.status("Tgid:").and_then(|text| text.parse().ok()).and_then(Pid::from_raw);
        let process = pidfd_open(process.ok_or(Errno::SRCH)?, PidfdFlags::empty())?;
        pidfd_getfd(process, number, PidfdGetfdFlags::empty())
    }

    /// Returns the file that one of its file descriptors is open on.
    pub(super) fn descriptor(self, number: i32) -> Result<ResolvedFile, Unresolved> {
        ResolvedFile::from_handle(self.open_descriptor(number)?)
    }

    /// Its working directory.
    pub(super) fn directory(self) -> Result<OwnedFd, Unresolved> {
        self.open_own("cwd")
    }

    /// A socket of its own, to be used in its place.
    pub(super) fn socket(self, number: i32) -> Result<OwnedFd, Errno> {
        let socket = self.copy_descriptor(number)?;
        // Of a thread that shares its process's file descriptors; of others another file has that number.
        let stat = fstat(&socket)?;
        let own = readlinkat(CWD, format!("/proc/{}/fd/{number}", self.0), Vec::new())?;
        let is_same = own.as_bytes() == format!("socket:[{}]", stat.st_ino).as_bytes();
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Socket if is_same => Ok(socket),
            FileType::Socket => Err(Errno::BADF),
            _ => Err(Errno::NOTSOCK),
        }
    }

    /// Its file mode creation mask.
    pub(super) fn umask(self) -> Mode {
        let mask = self.status("Umask:").and_then(|text| u32::from_str_radix(&text, 8).ok());
        Mode::from_raw_mode(mask.unwrap_or(0o22))
    }

    /// Returns its session; none where it can't be looked at.
    pub(super) fn session(self) -> Option<Session> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0)).ok()?;
        let leads = self.status("Tgid:")?.parse().ok()?;
        Session::parse(&stat, leads)
    }

    /// Returns the terminal of its session where one of its standard streams is that.
    pub(super) fn terminal(self, session: Session) -> Option<ResolvedFile> {
        let streams = (0..=2).filter_map(|number| self.descriptor(number).ok());
        let mut terminals = streams.filter(|found| found.kind() == FileType::CharacterDevice);
        terminals.find(|found| session.has_terminal(found.stat.st_rdev))
    }

    /// Returns whether a signal waits for it that its program handles.
    pub(super) fn has_pending_signal(self) -> bool {
        let mask = |field| self.status(field).and_then(|text| u64::from_str_radix(&text, 16).ok());
        let mask = |field| mask(field).unwrap_or_default();
        (mask("SigPnd:") | mask("ShdPnd:")) & !mask("SigBlk:") & !mask("SigIgn:") != 0
    }

    fn status(self, field: &str) -> Option<String> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0)).ok()?;
        Some(status.lines().find_map(|line| line.strip_prefix(field))?.trim().to_owned())
    }

    /// Returns whether it runs a program of git.
    pub(super) fn is_git(self) -> bool {
        let program = readlinkat(CWD, format!("/proc/{}/exe", self.0), Vec::new());
        let program = program.map(|path| path_of(path.into_bytes()));
        let name = program.as_deref().ok().and_then(Path::file_name);
        name.is_some_and(|name| name.as_encoded_bytes().starts_with(b"git"))
    }

    /// Returns whether it runs a program of git as it is installed: one that no command can have put there.
    pub(super) fn is_installed_git(self) -> bool {
        let link = format!("/proc/{}/exe", self.0);
        let is_installed = || -> rustix::io::Result<bool> {
            let path = path_of(readlinkat(CWD, &link, Vec::new())?.into_bytes());
            let named = openat(CWD, &path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
            let (running, found) = (stat(&link)?, fstat(&named)?);
            let is_read_only = fstatvfs(&named)?.f_flag.contains(StatVfsMountFlags::RDONLY);
            Ok(is_read_only && (running.st_dev, running.st_ino) == (found.st_dev, found.st_ino))
        };
        self.is_git() && is_installed().unwrap_or_default()
    }

    /// Reads a text that ends with NUL, without that.
    pub(super) fn text(self, address: u64) -> Result<Vec<u8>, Unresolved> {
        let mut text = Vec::new();
        let mut from = usize::try_from(address).map_err(|_| Errno::FAULT)?;
        while text.len() < MAX_PATH_BYTES {
            let piece = self.memory(u64::try_from(from).map_err(|_| Errno::FAULT)?, PAGE - from % PAGE)?;
            if let Some(end) = piece.iter().position(|&byte| byte == 0) {
                text.extend(piece.get(..end).unwrap_or_default());
                let is_path = text.len() < MAX_PATH_BYTES;
                return if is_path { Ok(text) } else { Err(Errno::NAMETOOLONG.into()) };
            }
            from += piece.len();
            text.extend(piece);
        }
        Err(Errno::NAMETOOLONG.into())
    }

    /// Reads memory: at least one byte.
    pub(super) fn memory(self, address: u64, length: usize) -> Result<Vec<u8>, Unresolved> {
        let mut bytes = vec![0; length];
        let base = usize::try_from(address).ok().filter(|address| *address != 0).ok_or(Errno::FAULT)?;
        let remote = RemoteIoVec { base, len: length };
        let process = nix::unistd::Pid::from_raw(self.0);
        let count =
            process_vm_readv(process, &mut [IoSliceMut::new(&mut bytes)], &[remote]).map_err(|error| {
                match error {
                    nix::errno::Errno::EPERM => Unresolved::CallersOwn,
                    _ => Errno::FAULT.into(),
                }
            })?;
        if count == 0 {
            return Err(Errno::FAULT.into());
        }
        bytes.truncate(count);
        Ok(bytes)
    }
}

/// What a link leads to.
enum LinkTarget {
    Path(Vec<u8>),
    /// The file of a process, such as its working directory.
    Handle(OwnedFd),
}

impl LinkTarget {
    /// Finds where a link leads its caller, by the directory that holds it, its name and itself.
    fn find(caller: Caller, directory: &OwnedFd, name: &[u8], link: &OwnedFd) -> Result<Self, Unresolved> {
        let text = || readlinkat(link, "", Vec::new()).map(|text| Self::Path(text.into_bytes()));
        if fstatfs(link)?.f_type != PROC_SUPER_MAGIC {
            return Ok(text()?);
        }
        let above = readlinkat(CWD, format!("/proc/self/fd/{}", directory.as_raw_fd()), Vec::new())?;
        let Some(below) = above.as_bytes().strip_prefix(b"/proc/") else {
            let own = || caller.status("Tgid:").ok_or(Errno::SRCH);
            return match name {
                b"self" => Ok(Self::Path(own()?.into_bytes())),
                b"thread-self" => Ok(Self::Path(format!("{}/task/{}", own()?, caller.0).into_bytes())),
                _ => Ok(text()?),
            };
        };
        let process = below.split(|&byte| byte == b'/').next().unwrap_or_default();
        let process = std::str::from_utf8(process).ok().and_then(|number| number.parse().ok()).map(Caller);
        let group = process.and_then(|process| process.status("Tgid:")).and_then(|text| text.parse().ok());
        // This process's own files are not for commands, and the kernel says so.
        if group.is_none_or(|group: u32| group == std::process::id()) {
            return Err(Unresolved::CallersOwn);
        }
        match openat(directory, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            Ok(handle) => Ok(Self::Handle(handle)),
            Err(Errno::ACCESS | Errno::PERM) => Err(Unresolved::CallersOwn),
            Err(error) => Err(error.into()),
        }
    }
}

/// The names of a path, in order.
fn names_of(path: &[u8]) -> Vec<Vec<u8>> {
    path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect()
}

/// The directory of a path, and its last name with the slashes after it.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    let (whole, _) = path.split_at_checked(end).unwrap_or((path, b""));
    match whole.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => path.split_at_checked(slash + 1).unwrap_or((b"", path)),
        None if whole.is_empty() => (path, b"."),
        None => (b".", path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_split_before_its_last_name() {
        let split = |path: &'static str| {
            let (above, name) = split(path.as_bytes());
            (std::str::from_utf8(above).unwrap(), std::str::from_utf8(name).unwrap())
        };
        assert_eq!(split("a"), (".", "a"));
        assert_eq!(split("a/b"), ("a/", "b"));
        assert_eq!(split("/b//"), ("/", "b//"));
        assert_eq!(split("a/.."), ("a/", ".."));
        assert_eq!(split("/"), ("/", "."));
    }

    #[test]
    fn a_process_takes_a_terminal_where_it_leads_a_session_without_one() {
        let session = |stat: &str| Session::parse(stat, 7).unwrap();
        assert!(session("7 (a) b) S 1 7 7 0 -1 4194304").takes_terminal());
        assert!(!session("7 (sh) S 1 7 7 34816 7 4194304").takes_terminal());
        assert!(!session("7 (sh) S 1 7 0 0 -1 4194304").takes_terminal());
        assert_eq!(Session::parse("7 (sh) S 1", 7), None);
        let with_terminal = session("7 (sh) S 1 7 7 34820 7 4194304");
        assert!(with_terminal.has_terminal(rustix::fs::makedev(136, 4)));
        assert!(!with_terminal.has_terminal(rustix::fs::makedev(136, 5)));
    }

    #[test]
    fn descriptors_of_the_caller_are_named_in_several_ways() {
        let caller = Caller(7);
        for path in ["/dev/fd/5", "/proc/self/fd/5", "/proc/thread-self/fd/5", "/proc/7/fd/5"] {
            assert_eq!(caller.own_descriptor(path.as_bytes()), Some((5, &b""[..])), "{path}");
        }
        assert_eq!(caller.own_descriptor(b"/proc/self/fd/5//x/y"), Some((5, &b"x/y"[..])));
        assert_eq!(caller.own_descriptor(b"/dev/stderr"), Some((2, &b""[..])));
        for path in ["/proc/1/fd/5", "/proc/self/fd/x", "/proc/self/cwd/a", "/dev/fdx"] {
            assert_eq!(caller.own_descriptor(path.as_bytes()), None, "{path}");
        }
    }
}
