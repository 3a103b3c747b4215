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
use std::sync::Arc;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use super::helper_program::{CONNECT, HELPER, Helper, NETWORK};

/// The most ports that are wanted.
const MOST_PORTS: usize = 64;
/// The most descriptors that are handed over: the namespaces and the listeners.
const MOST: usize = MOST_PORTS + 3;

/// Namespaces that commands join.
#[derive(Clone, Debug)]
pub struct PrivateNetwork(Arc<Namespaces>);

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
        Arc::ptr_eq(&self.0, &other.0)
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
        let ports = ports.iter().take(MOST_PORTS).copied();
        let mut received = descriptors_from(helper, NETWORK, ports, None)?.into_iter();
        let (Some(user), Some(network)) = (received.next(), received.next()) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let listeners = received.map(TcpListener::from).collect();
        Ok(Self(Arc::new(Namespaces { user, network, sockets: socket_list()?, listeners })))
    }

    /// The listeners at ports of the loopback: at one that was free, then at those that were wanted. They stay in the
    /// namespace, wherever they are served.
    ///
    /// # Errors
    /// When there are no file descriptors left.
    pub fn listeners(&self) -> io::Result<Vec<TcpListener>> {
        self.0.listeners.iter().map(TcpListener::try_clone).collect()
    }

    /// Connects to a port of the loopback, from outside. Waits for a helper, so not for a thread of the runtime.
    ///
    /// # Errors
    /// When the helper can't be started, and [`io::ErrorKind::ConnectionRefused`] when nothing listens there.
    pub(super) fn connect(&self, helper: &Helper, port: u16) -> io::Result<TcpStream> {
        let received = match descriptors_from(helper, CONNECT, [port], Some(self)) {
            Ok(received) => received,
            // It ends without a word where it can't connect.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => vec![],
            Err(error) => return Err(error),
        };
        let connected = received.into_iter().next().map(TcpStream::from);
        connected.ok_or_else(|| io::ErrorKind::ConnectionRefused.into())
    }

    /// Hands the namespaces to a helper that is to join them.
    pub(in crate::exec) fn hand_to(&self, helper: &impl AsFd) -> io::Result<()> {
        send(helper, &[self.0.user.as_fd(), self.0.network.as_fd(), self.0.sockets.as_fd()])
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

/// Runs a helper, which is given a network to join or none, and returns the descriptors that it hands over. Waits for it.
fn descriptors_from(
    helper: &Helper,
    role: &str,
    ports: impl IntoIterator<Item = u16>,
    joined: Option<&PrivateNetwork>,
) -> io::Result<Vec<OwnedFd>> {
    let (ours, theirs) = UnixStream::pair()?;
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
    let received = receive(&ours);
    // It ends by itself once it has told, or can't.
    child.wait()?;
    received
}

pub(in crate::exec) fn send(socket: &impl AsFd, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(socket, &[IoSlice::new(b"n")], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

pub(super) fn receive(socket: &impl AsFd) -> io::Result<Vec<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
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
