//! A network of its own for some commands: a loopback that they share and nobody else reaches, with a listener in it
//! that is served from outside.
//!
//! A helper makes it and hands its namespaces over; commands join them. It lasts as long as a command or this value
//! does.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::{Arc, Weak};
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use super::helper_program::{CONNECT, HELPER, Helper, NETWORK};

/// The most ports that are wanted.
const MAX_PORTS: usize = 64;
/// The most descriptors that are handed over at once: the namespaces and the listeners.
pub(super) const MAX_DESCRIPTORS: usize = MAX_PORTS + 3;

/// Time for a helper that connects. It gives up by itself before: see [`super::joined_network`].
const CONNECTING: Duration = Duration::from_secs(15);

/// Namespaces that commands join.
#[derive(Clone, Debug)]
pub struct PrivateNetwork {
    namespaces: Arc<Namespaces>,
    is_shared: bool,
}

/// A [`PrivateNetwork`] that doesn't last for this.
#[derive(Clone, Debug)]
pub(super) struct WeakNetwork(Weak<Namespaces>);

impl WeakNetwork {
    /// Returns whether it is gone.
    pub(super) fn is_gone(&self) -> bool {
        self.0.strong_count() == 0
    }
}

impl PartialEq for WeakNetwork {
    fn eq(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }
}

#[derive(Debug)]
struct Namespaces {
    user: OwnedFd,
    network: OwnedFd,
    /// The Unix sockets that commands in it have bound, for their supervisors: see [`super::connections`].
    sockets: OwnedFd,
    /// At a port that was free, then at those that were wanted.
    listeners: Vec<TcpListener>,
}

impl PartialEq for PrivateNetwork {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.namespaces, &other.namespaces)
    }
}

impl Eq for PrivateNetwork {}

impl PrivateNetwork {
    /// Makes one with listeners at these ports, at most 64, and one more. Waits for a helper, so not for a thread of the
    /// runtime.
    ///
    /// # Errors
    /// When the helper can't be started or the kernel refuses.
    pub fn make(helper: &Helper, ports: &[u16]) -> io::Result<Self> {
        let ports = ports.iter().take(MAX_PORTS).copied();
        let mut received = descriptors_from(helper, NETWORK, ports, None, None)?.into_iter();
        let (Some(user), Some(network)) = (received.next(), received.next()) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let listeners = received.map(TcpListener::from).collect();
        let namespaces = Namespaces { user, network, sockets: socket_list()?, listeners };
        Ok(Self { namespaces: Arc::new(namespaces), is_shared: false })
    }

    /// Marks it as one that further commands join, for which it pays to start helpers ahead.
    #[must_use]
    pub fn shared(self) -> Self {
        Self { is_shared: true, ..self }
    }

    pub(super) fn is_shared(&self) -> bool {
        self.is_shared
    }

    pub(super) fn downgrade(&self) -> WeakNetwork {
        WeakNetwork(Arc::downgrade(&self.namespaces))
    }

    /// The listeners at ports of the loopback: at one that was free, then at those that were wanted. They stay in the
    /// namespace, wherever they are served.
    ///
    /// # Errors
    /// When there are no file descriptors left.
    pub fn listeners(&self) -> io::Result<Vec<TcpListener>> {
        self.namespaces.listeners.iter().map(TcpListener::try_clone).collect()
    }

    /// Returns whether one of [`Self::listeners`] is at a port: then what answers there is none of the commands.
    pub fn serves(&self, port: u16) -> bool {
        let is_at = |listener: &TcpListener| listener.local_addr().is_ok_and(|at| at.port() == port);
        self.namespaces.listeners.iter().any(is_at)
    }

    /// Connects to a port of the loopback, from outside. Waits for a helper, at most for 15 seconds, so not for a thread of
    /// the runtime.
    ///
    /// # Errors
    /// When the helper can't be started, [`io::ErrorKind::TimedOut`] when it doesn't answer, and
    /// [`io::ErrorKind::ConnectionRefused`] when nothing listens there or takes the connection.
    pub(super) fn connect(&self, helper: &Helper, port: u16) -> io::Result<TcpStream> {
        let received = match descriptors_from(helper, CONNECT, [port], Some(self), Some(CONNECTING)) {
            Ok(received) => received,
            // It ends silently if it can't connect.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => vec![],
            Err(error) => return Err(error),
        };
        let connected = received.into_iter().next().map(TcpStream::from);
        connected.ok_or_else(|| io::ErrorKind::ConnectionRefused.into())
    }

    /// Hands the namespaces to a helper that is to join them.
    pub(in crate::exec) fn hand_to(&self, helper: &impl AsFd) -> io::Result<()> {
        let Namespaces { user, network, sockets, .. } = &*self.namespaces;
        send(helper, &[user.as_fd(), network.as_fd(), sockets.as_fd()])
    }
}

/// An empty file without a name, to which everybody who has it appends.
#[cfg(target_os = "linux")]
fn socket_list() -> io::Result<OwnedFd> {
    use rustix::fs::{MemfdFlags, OFlags, fcntl_setfl, memfd_create};

    let list = memfd_create("sockets", MemfdFlags::CLOEXEC)?;
    fcntl_setfl(&list, OFlags::APPEND)?;
    Ok(list)
}

#[cfg(not(target_os = "linux"))]
fn socket_list() -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Runs a helper, which is given a network to join or none, and returns the descriptors that it hands over. Waits for it, at
/// most for `limit`.
fn descriptors_from(
    helper: &Helper,
    role: &str,
    ports: impl IntoIterator<Item = u16>,
    joined: Option<&PrivateNetwork>,
    limit: Option<Duration>,
) -> io::Result<Vec<OwnedFd>> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_read_timeout(limit)?;
    if let Some(network) = joined {
        // Before the helper starts, which takes it first of all.
        network.hand_to(&ours)?;
    }
    let mut child = Command::new(helper.path())
        .args([HELPER, role])
        .args(ports.into_iter().map(|port| port.to_string()))
        .current_dir("/")
        .env_clear()
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let received = receive(&ours).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    });
    if received.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut) {
        // It may have ended just now.
        let _ = child.kill();
    }
    // It ends by itself once it has told, or can't.
    child.wait()?;
    received
}

pub(in crate::exec) fn send(socket: &impl AsFd, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(socket, &[IoSlice::new(b"n")], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

pub(super) fn receive(socket: &impl AsFd) -> io::Result<Vec<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let received = rustix::io::retry_on_intr(|| {
        recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    let descriptors = ancillary
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        })
        .flatten()
        .collect();
    if received.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(descriptors)
}
