//! Programs of servers in the sandbox: MCP servers and language servers.

use std::path::Path;

use roo_engine::policy::ServerBounds;
use roo_sandbox::exec::{ConfinedProgram, Environment, ExecError, ProgramChannel, ProgramStreams, Status};

/// A server's program in the sandbox, and what was made for it. Dropping it kills the program.
pub(crate) struct ConfinedServer {
    /// Before the bounds, so that it has ended when they go.
    program: ConfinedProgram,
    _bounds: Box<ServerBounds>,
}

impl ConfinedServer {
    /// Starts a program by its argv. Returns when the bounds are in force.
    ///
    /// # Errors
    /// Those of [`ConfinedProgram::start`].
    pub(crate) async fn start(
        argv: &[String],
        directory: &Path,
        environment: &Environment,
        bounds: Box<ServerBounds>,
    ) -> Result<(Self, ProgramStreams), ExecError> {
        let channel = ProgramChannel::StandardStreams;
        let ServerBounds { sandbox, confinement, .. } = &*bounds;
        let started =
            ConfinedProgram::start(argv, channel, directory, environment, sandbox, confinement).await;
        let (program, streams) = started?;
        Ok((Self { program, _bounds: bounds }, streams))
    }

    /// Waits for the program's end. May be dropped and called again.
    pub(crate) async fn ended(&mut self) -> Result<Status, ExecError> {
        self.program.ended().await
    }

    /// Ends the program and what it started.
    pub(crate) async fn end(self) {
        let Self { program, _bounds } = self;
        program.end().await;
    }
}
