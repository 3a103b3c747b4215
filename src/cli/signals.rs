//! The signals that end a command which follows a task.

use tokio::signal::unix::{self, SignalKind};

use super::CliError;

/// Meaning of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// The user wants the task to end.
    Interrupt,
    /// The process shall end; its task is kept.
    Terminate,
}

/// The signals of this process. From its creation on, none of them ends the process by itself.
pub(super) struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    /// None when whoever started the process wants it to outlive the terminal.
    hang_up: Option<unix::Signal>,
}

impl Signals {
    /// Listens from now on.
    pub(super) fn listen() -> Result<Self, CliError> {
        let signal = |kind| {
            unix::signal(kind).map_err(|error| CliError::Other(format!("signals can't be handled: {error}")))
        };
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: if hang_up_is_ignored() { None } else { Some(signal(SignalKind::hangup())?) },
        })
    }

    /// The next signal.
    pub(super) async fn next(&mut self) -> Signal {
        let hang_up = async {
            match &mut self.hang_up {
                Some(hang_up) => hang_up.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::Terminate,
            _ = hang_up => Signal::Terminate,
        }
    }
}

/// Returns whether the process was started with hang-ups ignored, as by `nohup`; unknown counts as no. The line
/// `SigIgn` of proc_pid_status(5) is a mask in which SIGHUP, number 1, is the lowest bit.
fn hang_up_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}
