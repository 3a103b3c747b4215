//! Running commands: one shell per command, in a session of its own that ends with it.
//!
//! [`run`] starts, watches and ends a command, [`run_confined`] does so in a [`sandbox`], [`ConfinedProgram`] is one that
//! is talked to over its standard streams, [`Environment`]
//! says which variables it sees, and [`Collector`] turns what it prints into a text of bounded size.
//! Whether a command may run is decided in `roo_engine::policy`; how a result reads is decided in
//! `roo_engine::tools`.
//!
//! What [`run`] does not hold: a process that starts a session of its own leaves the group and outlives
//! it, and a server that is killed by SIGKILL leaves its commands running. The sandbox holds both.

mod confined;
mod decode;
mod disk_quota;
mod environment;
mod escapes;
mod handle;
mod helper_process;
mod known_secrets;
mod name_changes;
mod output;
mod process;
mod program;
mod ready_helper;
pub mod redaction;
pub mod sandbox;
mod shell;
mod terminal;

pub use confined::{ConfinedProgram, ProgramChannel, ProgramStreams, run_confined};
pub use environment::{Environment, EnvironmentRules, NO_SIGNING};
pub use escapes::Escapes;
pub use handle::{CommandHandle, machine_listens_at};
pub use known_secrets::known_secrets;
pub use output::{Collector, Output, Overflow};
pub use process::{Command, ExecError, Status, run};
pub use program::find_program;
pub use shell::{Shell, shell};
pub use terminal::Terminal;
