//! The helpers' part of a [`PrivateNetwork`](super::PrivateNetwork): it is made, joined, or connected to.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::sched::{CloneFlags, setns, unshare};

use super::namespaces;
use super::network::{receive, send};
use super::setup_failure::{SetupFailure, StepContext as _};

/// Time for a program to take a connection, at each address. One whose queue is full doesn't.
const CONNECTING: Duration = Duration::from_secs(5);

/// Makes the namespaces, and hands them with a listener to the server.
pub(super) fn make(control: &UnixStream, ports: impl Iterator<Item = u16>) -> Result<(), SetupFailure> {
    namespaces::enter_anew(CloneFlags::CLONE_NEWNET)?;
    namespaces::raise_loopback().step("the loopback")?;
    let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).step("the listener");
    let listeners: Vec<TcpListener> = [0].into_iter().chain(ports).map(bind).collect::<Result<_, _>>()?;
    let open = |name: &str| std::fs::File::open(format!("/proc/self/ns/{name}"));
    let (user, network) = (open("user").step("the namespace")?, open("net").step("the namespace")?);
    let listeners = listeners.iter().map(TcpListener::as_fd);
    let all: Vec<BorrowedFd<'_>> = [user.as_fd(), network.as_fd()].into_iter().chain(listeners).collect();
    send(control, &all).step("handing over the network")
}

/// Joins the namespaces that the server hands over, and makes the others. Gives the list of sockets that comes with them.
pub(super) fn join(control: &UnixStream, others: CloneFlags) -> Result<OwnedFd, SetupFailure> {
    let received = receive(control).step("the network")?;
    let [user, network, sockets]: [OwnedFd; 3] =
        received.try_into().map_err(|_| io::Error::from(io::ErrorKind::InvalidData)).step("the network")?;
    setns(user, CloneFlags::CLONE_NEWUSER).step("joining the user namespace")?;
    setns(network, CloneFlags::CLONE_NEWNET).step("joining the network")?;
    unshare(others).step("new namespaces")?;
    Ok(sockets)
}

/// Joins the network that the server hands over, connects to the first of these ports there, and hands the connection to
/// the server.
pub(super) fn connect(
    control: &UnixStream,
    mut ports: impl Iterator<Item = u16>,
) -> Result<(), SetupFailure> {
    let port = ports.next().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput)).step("the port")?;
    join(control, CloneFlags::empty())?;
    let connect = |address: IpAddr| TcpStream::connect_timeout(&(address, port).into(), CONNECTING);
    let connected = connect(Ipv4Addr::LOCALHOST.into()).or_else(|_| connect(Ipv6Addr::LOCALHOST.into()));
    send(control, &[connected.step("the connection")?.as_fd()]).step("handing over the connection")
}
