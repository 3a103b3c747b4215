//! The helper process of a sandboxed command, as the server sees it: a child with a socket.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Stdio;

use roo_process::{ChildSession, open_files};
use tokio::io::{AsyncReadExt, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::name_changes::NameChanges;
use super::sandbox::{Helper, HelperRole, LeftRunning, Mechanism, Message, Order, send};

/// The standard output and standard error of a command.
pub(super) type Streams = [OwnedFd; 2];

/// A helper that has been started and has no order yet. Ends when it is dropped.
#[derive(Debug)]
pub(super) struct HelperProcess {
    child: ChildSession,
    control: Control,
}

impl HelperProcess {
    /// Starts one with these streams, or without any.
    pub(super) fn start(helper: &Helper, role: &HelperRole, streams: Option<Streams>) -> io::Result<Self> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        if let Some(network) = role.joined() {
            // Before all else: the first of the helpers takes it.
            network.hand_to(&ours)?;
        }
        let [stdout, stderr] =
            streams.map_or_else(|| [(); 2].map(|()| Stdio::null()), |it| it.map(Stdio::from));
        let mut program = tokio::process::Command::new(helper.path());
        // The helper keeps no directory of the workspace; the order says where the shell starts.
        program
            .args(role.arguments())
            .args(open_files::inherited_limit().map(|limit| limit.to_string()))
            .env_clear()
            .current_dir("/")
            .stdin(OwnedFd::from(theirs))
            .stdout(stdout)
            .stderr(stderr);
        // The streams go with `program`, so that a pipe ends with the last process.
        let mut child = ChildSession::spawn_leader(program)?;
        // A helper sees its socket close.
        child.disable_kill_on_drop();
        Ok(Self { child, control: Control::new(UnixStream::from_std(ours)?) })
    }

    /// Hands over the streams of its command.
    pub(super) fn hand_over(&self, streams: &Streams) -> io::Result<()> {
        send(&self.control.socket, &streams.each_ref().map(AsFd::as_fd))
    }

    /// Gives it its order, which it reads while the messages of what is returned are waited for.
    pub(super) fn order(mut self, order: &Order) -> io::Result<(ChildSession, Control)> {
        self.control.order = order.frame()?;
        if order.mechanism == Mechanism::Namespaces {
            let changes = NameChanges::new()?;
            send(&self.control.socket, &[changes.as_fd()])?;
            self.control.changes = Some(changes);
        }
        Ok((self.child, self.control))
    }
}

/// The socket to a helper: an order that goes out and messages that come in.
#[derive(Debug)]
pub(super) struct Control {
    socket: UnixStream,
    order: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
    /// What the helper watches, kept open until it has ended.
    changes: Option<NameChanges>,
}

impl Control {
    fn new(socket: UnixStream) -> Self {
        Self { socket, order: Vec::new(), sent: 0, received: Vec::new(), changes: None }
    }

    /// Asks for the end of what is left; what the helper says of it before it ends.
    pub(super) async fn finish(&mut self) -> Option<LeftRunning> {
        // A helper that has ended already left nothing.
        self.socket.shutdown().await.ok()?;
        loop {
            match self.next().await {
                Ok(Some(Message::Left(left))) => return Some(left),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return None,
            }
        }
    }

    /// Closes the socket. What is returned is to be kept until the helper has ended.
    pub(super) fn close(self) -> Option<NameChanges> {
        self.changes
    }

    /// The next message; none when the helper has ended. May be dropped and called again.
    pub(super) async fn next(&mut self) -> io::Result<Option<Message>> {
        loop {
            if let Some(end) = self.received.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                return Ok(Some(serde_json::from_slice(&line)?));
            }
            let (mut reader, mut writer) = self.socket.split();
            tokio::select! {
                biased;
                read = reader.read_buf(&mut self.received) => if read? == 0 {
                    return Ok(None);
                },
                written = writer.write(&self.order[self.sent..]), if self.sent < self.order.len() => {
                    match written {
                        Ok(count) => self.sent += count,
                        // A helper that takes no order says why.
                        Err(_) => self.sent = self.order.len(),
                    }
                }
            }
        }
    }
}
