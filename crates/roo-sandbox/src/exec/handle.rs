//! What can be done with a command while it runs, besides ending it.

use std::sync::OnceLock;

use super::sandbox::PrivateNetwork;
use super::terminal::Terminal;

/// A command, for whoever looks after it while it runs.
#[derive(Debug, Default)]
pub struct CommandHandle {
    /// The terminal in which it runs, if it runs in one.
    pub terminal: Option<Terminal>,
    /// A process in its network.
    process: OnceLock<u32>,
    /// Its network, where it is not the machine's.
    network: OnceLock<PrivateNetwork>,
}

impl CommandHandle {
    /// For a command that is about to start, in a terminal or without one.
    pub fn new(terminal: Option<Terminal>) -> Self {
        Self { terminal, ..Self::default() }
    }

    /// It has started, and this process is in its network.
    pub(super) fn set_started(&self, process: Option<u32>) {
        if let Some(process) = process {
            let _ = self.process.set(process);
        }
    }

    /// It is to run in this network.
    pub(super) fn set_network(&self, network: PrivateNetwork) {
        let _ = self.network.set(network);
    }

    /// Returns the command's network; none where it is the machine's, or one that nothing else can reach.
    pub fn network(&self) -> Option<&PrivateNetwork> {
        self.network.get()
    }

    /// Returns whether a program listens at a TCP port of the command's network: its own one, that of its task, or the
    /// machine's. False before it has started and when it has ended.
    pub fn listens_at(&self, port: u16) -> bool {
        self.process.get().is_some_and(|process| listens(*process, port))
    }
}

/// Returns whether a program listens at a TCP port of this process's own network.
pub fn machine_listens_at(port: u16) -> bool {
    listens(std::process::id(), port)
}

/// By proc_pid_net(5), so that nobody is connected to.
#[cfg(target_os = "linux")]
fn listens(process: u32, port: u16) -> bool {
    ["tcp", "tcp6"].iter().any(|table| {
        let table = std::fs::read_to_string(format!("/proc/{process}/net/{table}"));
        table.is_ok_and(|table| table.lines().filter_map(listening_port).any(|found| found == port))
    })
}

#[cfg(not(target_os = "linux"))]
fn listens(_: u32, port: u16) -> bool {
    std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
}

/// The local port of a line of the table, if it is of a listening socket.
#[cfg(target_os = "linux")]
fn listening_port(line: &str) -> Option<u16> {
    const LISTEN: &str = "0A";
    let mut words = line.split_whitespace().skip(1);
    let (_, port) = words.next()?.rsplit_once(':')?;
    (words.nth(1)? == LISTEN).then(|| u16::from_str_radix(port, 16).ok()).flatten()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_listening_sockets_count() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n   \
                     0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0\n   \
                     1: 0100007F:1F91 0100007F:D2B4 01 00000000:00000000 00:00000000 00000000     0\n   \
                     2: 00000000000000000000000000000000:0050 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0\n";
        assert_eq!(table.lines().filter_map(listening_port).collect::<Vec<_>>(), [8080, 80]);
    }
}
