//! Child processes: each starts in a session of its own and ends together with everything that it started.
//!
//! Agents' commands, user hooks, MCP servers, git, signing and key commands all start here. The sandbox confines a
//! process; its caller handles its output.

#![warn(unreachable_pub)]

mod child_session;
pub mod open_files;
mod own_program;

pub use child_session::{
    ChildSession, GRACE, LINGER, ProcessEnd, ProcessOutput, REAP, run_for_output, run_with_input,
    time_is_over,
};
pub use own_program::{own_program, own_program_file};
