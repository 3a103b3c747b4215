//! Running commands that no sandbox bounds.

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use roo_sandbox::exec::{self, Command, Environment, ExecError, Status};

/// Takes what a command prints, piece by piece.
pub type ShowOutput<'a> = Box<dyn FnMut(&str) + Send + 'a>;

/// Runs commands that no sandbox bounds. Tests have one without processes.
pub trait CommandRunner: Send + Sync {
    /// Runs a command to its end, or until it is stopped; see [`exec::run`].
    ///
    /// # Errors
    /// As [`exec::run`].
    fn run<'a>(
        &'a self,
        command: &'a Command,
        environment: &'a Environment,
        show: ShowOutput<'a>,
        stopped: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Status, ExecError>>;

    /// Returns whether processes may be started for commands, also to find out what they changed.
    fn starts_processes(&self) -> bool {
        true
    }
}

/// Runs commands in the user's shell.
#[derive(Clone, Copy, Debug, Default)]
pub struct UserShell;

impl CommandRunner for UserShell {
    fn run<'a>(
        &'a self,
        command: &'a Command,
        environment: &'a Environment,
        show: ShowOutput<'a>,
        stopped: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Status, ExecError>> {
        Box::pin(exec::run(command, environment, show, stopped))
    }
}
