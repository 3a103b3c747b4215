//! The sockets that a command binds and connects. A socket with a path is reached from any network namespace and through
//! a read-only mount, and by one a command could ask a program outside to act for it: so the supervisor makes each
//! connection itself, to what it has looked at.

#![allow(unsafe_code, reason = "no safe wrapper takes an address of any family as bytes")]

use std::collections::HashSet;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use nix::libc;
use rustix::fs::{AtFlags, FileType, OFlags, StatxFlags, fcntl_getfl, statx};
use rustix::io::Errno;
use rustix::net::AddressFamily;
use rustix::net::sockopt::socket_domain;
use rustix::process::{chdir, fchdir, umask};

use super::caller::{Caller, DirectoryEntry, GivenPath, ResolvedFile, Unresolved};
use super::confinement::Network;
use super::helper_protocol::Order;
use super::journal::path_of;

/// Directories of temporary files, which are the command's own.
const TEMPORARY: &[&str] = &["/tmp", "/var/tmp"];

/// The longest address, in bytes.
const MAX_ADDRESS_BYTES: usize = 128;

/// Offset in an address after its family.
const AFTER_FAMILY: usize = 2;

/// Identity of a socket, distinct from a later one with its number: device, number, and the time at which it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SocketIdentity([u64; 4]);

const IDENTITY: usize = 32;

impl SocketIdentity {
    fn from_name(directory: impl AsFd, name: impl rustix::path::Arg) -> Result<Self, Errno> {
        let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::BTIME;
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
        let found = statx(directory, name, flags, wanted)?;
        if FileType::from_raw_mode(found.stx_mode.into()) != FileType::Socket {
            return Err(Errno::CONNREFUSED);
        }
        let device = u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor);
        let made = found.stx_btime;
        Ok(Self([device, found.stx_ino, made.tv_sec.cast_unsigned(), made.tv_nsec.into()]))
    }

    fn bytes(self) -> [u8; IDENTITY] {
        let mut bytes = [0; IDENTITY];
        for (to, from) in bytes.chunks_exact_mut(8).zip(self.0) {
            to.copy_from_slice(&from.to_ne_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: [u8; IDENTITY]) -> Self {
        let mut numbers = [0; 4];
        for (to, from) in numbers.iter_mut().zip(bytes.chunks_exact(8)) {
            *to = u64::from_ne_bytes(from.try_into().unwrap_or_default());
        }
        Self(numbers)
    }
}

/// Sockets that a command may connect to.
pub(super) struct SocketPolicy {
    bound: HashSet<SocketIdentity>,
    /// The sockets that all commands of a network have bound: appended to by each of their supervisors.
    shared: Option<File>,
    /// Number of bytes of that already read.
    read: u64,
    /// Abstract names that the command has bound.
    names: HashSet<Vec<u8>>,
    /// True if abstract names are those of the command's network alone.
    own_names: bool,
    /// Private directories, which are no part of a grant.
    temporary: Vec<PathBuf>,
    /// Directories of the user within those.
    places: Vec<PathBuf>,
    /// Directories of the server's services for the command; a command can't change them.
    services: Vec<PathBuf>,
    /// Sockets that the user lets commands connect to.
    granted: Vec<PathBuf>,
}

/// A connection to be made.
pub(super) struct Connection {
    socket: OwnedFd,
    address: Vec<u8>,
    /// Kept open: the address names it by its number.
    _target: Option<ResolvedFile>,
}

/// A name to be given to a socket.
pub(super) struct Binding {
    socket: OwnedFd,
    address: Vec<u8>,
    /// Location in the file system, and the directory from which the address names it.
    pub entry: Option<(DirectoryEntry, OwnedFd)>,
}

impl SocketPolicy {
    pub(super) fn new(order: &Order, landlock: u8, shared: Option<File>) -> Self {
        let services: Vec<PathBuf> = order.services.iter().map(|place| place.0.clone()).collect();
        let places: Vec<PathBuf> = order.places.iter().map(|(place, _)| place.0.clone()).collect();
        let is_private = |directory: &&Path| !places.iter().any(|place| directory.starts_with(place));
        let temporary = TEMPORARY.iter().map(Path::new).filter(is_private).map(Path::to_path_buf).collect();
        Self {
            bound: HashSet::new(),
            shared,
            read: 0,
            names: HashSet::new(),
            // Landlock's sixth version keeps them apart where the network is the machine's.
            own_names: order.network == Network::Off || landlock >= 6,
            temporary,
            places,
            services,
            granted: order.sockets.iter().map(|socket| socket.0.clone()).collect(),
        }
    }

    /// Resolves the target of a connection. Fails where the command must not make it.
    pub(super) fn connection(
        &mut self,
        caller: Caller,
        descriptor: i32,
        address: &[u8],
    ) -> Result<Connection, Unresolved> {
        let socket = caller.socket(descriptor)?;
        let Some(path) = unix_path(&socket, address)? else {
            return Ok(Connection { socket, address: address.to_vec(), _target: None });
        };
        if path.is_empty() || path.first() == Some(&0) {
            if !path.is_empty() && !self.own_names && !self.names.contains(&path) {
                return Err(Errno::ACCESS.into());
            }
            return Ok(Connection { socket, address: address.to_vec(), _target: None });
        }
        let target = caller.find(&GivenPath::new(libc::AT_FDCWD, path), true)?;
        if target.kind() != FileType::Socket {
            return Err(Errno::CONNREFUSED.into());
        }
        if !self.is_reachable(&target)? {
            return Err(Errno::ACCESS.into());
        }
        let address = unix_address(target.by_handle().as_bytes());
        Ok(Connection { socket, address, _target: Some(target) })
    }

    fn is_reachable(&mut self, target: &ResolvedFile) -> Result<bool, Errno> {
        let is_below = |place: &PathBuf| target.path.starts_with(place);
        if self.temporary.iter().any(is_below) && !self.places.iter().any(is_below) {
            return Ok(true);
        }
        if self.services.iter().any(is_below) || self.granted.contains(&target.path) {
            return Ok(true);
        }
        let identity = SocketIdentity::from_name(&target.handle, c"")?;
        if !self.bound.contains(&identity) {
            self.read_shared();
        }
        Ok(self.bound.contains(&identity))
    }

    fn read_shared(&mut self) {
        let Some(shared) = &self.shared else { return };
        let mut bytes = [0; IDENTITY];
        while shared.read_exact_at(&mut bytes, self.read).is_ok() {
            self.bound.insert(SocketIdentity::from_bytes(bytes));
            self.read += IDENTITY as u64;
        }
    }

    /// Resolves the name that a socket is to get.
    pub(super) fn binding(
        &self,
        caller: Caller,
        descriptor: i32,
        address: Vec<u8>,
    ) -> Result<Binding, Unresolved> {
        let socket = caller.socket(descriptor)?;
        let path = unix_path(&socket, &address)?.filter(|path| !path.is_empty() && path.first() != Some(&0));
        let Some(path) = path else { return Ok(Binding { socket, address, entry: None }) };
        let entry = caller.entry(&GivenPath::new(libc::AT_FDCWD, path))?;
        if entry.there.is_some() {
            return Err(Errno::ADDRINUSE.into());
        }
        Ok(Binding { socket, address, entry: Some((entry, caller.directory()?)) })
    }

    /// Gives a socket its name.
    pub(super) fn bind(&mut self, caller: Caller, binding: &Binding) -> Result<(), Errno> {
        let Some((entry, from)) = &binding.entry else {
            bind(&binding.socket, &binding.address)?;
            if let Ok(Some(name)) = unix_path(&binding.socket, &binding.address) {
                self.names.insert(name);
            }
            return Ok(());
        };
        // The socket keeps the path as it is given, so it is given as the caller has it.
        fchdir(from)?;
        umask(caller.umask());
        let bound = bind(&binding.socket, &binding.address);
        let _ = chdir("/");
        bound?;
        let identity = SocketIdentity::from_name(&entry.directory, entry.name.as_os_str())?;
        self.bound.insert(identity);
        if let Some(shared) = &mut self.shared {
            // Then other commands don't reach it.
            let _ = shared.write_all(&identity.bytes());
        }
        Ok(())
    }
}

impl Connection {
    /// Returns whether it may have to be waited for.
    pub(super) fn may_block(&self) -> bool {
        fcntl_getfl(&self.socket).is_ok_and(|flags| !flags.contains(OFlags::NONBLOCK))
    }

    pub(super) fn make(&self) -> Result<(), Errno> {
        let length = libc::socklen_t::try_from(self.address.len()).map_err(|_| Errno::INVAL)?;
        // SAFETY: the address is so long, and the kernel only reads it.
        let made = unsafe { libc::connect(self.socket.as_raw_fd(), self.address.as_ptr().cast(), length) };
        outcome(made)
    }
}

fn bind(socket: &OwnedFd, address: &[u8]) -> Result<(), Errno> {
    let length = libc::socklen_t::try_from(address.len()).map_err(|_| Errno::INVAL)?;
    // SAFETY: the address is so long, and the kernel only reads it.
    outcome(unsafe { libc::bind(socket.as_raw_fd(), address.as_ptr().cast(), length) })
}

fn outcome(value: libc::c_int) -> Result<(), Errno> {
    match value {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

/// Reads an address from a caller's memory.
pub(super) fn read_address(caller: Caller, at: u64, length: u64) -> Result<Vec<u8>, Unresolved> {
    let length = usize::try_from(length & 0xffff_ffff).unwrap_or(usize::MAX);
    match length {
        0 => Ok(Vec::new()),
        1..=MAX_ADDRESS_BYTES => {
            let mut address = caller.memory(at, length)?;
            while address.len() < length {
                // It lies on the border of two pages.
                let more = caller.memory(at + address.len() as u64, length - address.len())?;
                address.extend(more);
            }
            Ok(address)
        }
        _ => Err(Errno::INVAL.into()),
    }
}

/// The path of an address of a Unix socket, without the NUL at its end; empty where it has none, and beginning with NUL
/// where it is an abstract name.
fn unix_path(socket: &OwnedFd, address: &[u8]) -> Result<Option<Vec<u8>>, Errno> {
    let Some((family, path)) = address.split_at_checked(AFTER_FAMILY) else { return Ok(None) };
    let family = u16::from_ne_bytes(family.try_into().unwrap_or_default());
    if socket_domain(socket)? != AddressFamily::UNIX || family != AddressFamily::UNIX.as_raw() {
        return Ok(None);
    }
    let end = match path.first() {
        Some(0) | None => path.len(),
        Some(_) => path.iter().position(|&byte| byte == 0).unwrap_or(path.len()),
    };
    Ok(path.get(..end).map(<[u8]>::to_vec))
}

/// The absolute path that an address names as a socket; none for any other address.
pub(super) fn absolute_path(address: &[u8]) -> Option<PathBuf> {
    let path = address.strip_prefix(&AddressFamily::UNIX.as_raw().to_ne_bytes())?;
    let end = path.iter().position(|&byte| byte == 0).unwrap_or(path.len());
    path.starts_with(b"/").then(|| path_of(path[..end].to_vec()))
}

fn unix_address(path: &[u8]) -> Vec<u8> {
    [&AddressFamily::UNIX.as_raw().to_ne_bytes()[..], path, b"\0"].concat()
}
