//! A pseudo-terminal for a command that wants one: what a person would sit at.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::io::ioctl_fionbio;
use rustix::pty::{OpenptFlags, grantpt, openpt, unlockpt};
use rustix::termios::{OptionalActions, OutputModes, Winsize, tcgetattr, tcsetattr, tcsetwinsize};
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;
use tokio::time::timeout;

/// Its size, in rows and columns.
const SIZE: (u16, u16) = (40, 160);
/// Time for a program to read what is typed, when its terminal holds all that it can.
const TYPING: Duration = Duration::from_secs(2);

/// A pseudo-terminal, from the side of who sits at it.
#[derive(Debug)]
pub struct Terminal {
    output: Mutex<Option<pipe::Receiver>>,
    /// The command's side, until the command has started.
    command: Mutex<Option<OwnedFd>>,
    keyboard: tokio::sync::Mutex<pipe::Sender>,
}

impl Terminal {
    /// Opens one. To be called in the context of the runtime.
    ///
    /// # Errors
    /// When the system has none left, or no file descriptors.
    pub fn open() -> io::Result<Self> {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        let command = open_peer(&ours)?;
        let mut modes = tcgetattr(&command)?;
        // Nothing shows the output by rows and columns, so a newline needs no carriage return.
        modes.output_modes.remove(OutputModes::ONLCR);
        tcsetattr(&command, OptionalActions::Now, &modes)?;
        let (ws_row, ws_col) = SIZE;
        tcsetwinsize(&command, Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 })?;
        ioctl_fionbio(&ours, true)?;
        let keyboard = pipe::Sender::from_owned_fd_unchecked(ours.try_clone()?)?;
        let output = pipe::Receiver::from_owned_fd_unchecked(ours)?;
        Ok(Self {
            output: Mutex::new(Some(output)),
            command: Mutex::new(Some(command)),
            keyboard: tokio::sync::Mutex::new(keyboard),
        })
    }

    /// Types this.
    ///
    /// # Errors
    /// When the program doesn't read it within two seconds, or has ended.
    pub async fn send(&self, input: &[u8]) -> io::Result<()> {
        let mut keyboard = self.keyboard.lock().await;
        timeout(TYPING, keyboard.write_all(input)).await.map_err(|_| io::ErrorKind::TimedOut)?
    }

    /// Takes the standard input and the other streams of the command that is to start in it, and its output. To be taken
    /// once.
    pub(super) fn take(&self) -> io::Result<(OwnedFd, [OwnedFd; 2], pipe::Receiver)> {
        let command = self.command.lock().unwrap_or_else(PoisonError::into_inner).take();
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (Some(command), Some(output)) = (command, output) else {
            return Err(io::Error::other("another command has the terminal"));
        };
        Ok((command.try_clone()?, [command.try_clone()?, command], output))
    }
}

#[cfg(target_os = "linux")]
fn open_peer(ours: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    Ok(rustix::pty::ioctl_tiocgptpeer(ours, flags)?)
}

#[cfg(not(target_os = "linux"))]
fn open_peer(ours: &OwnedFd) -> io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags, open};

    let name = rustix::pty::ptsname(ours, Vec::new())?;
    Ok(open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?)
}
