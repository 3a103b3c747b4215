//! Child processes: each starts in a session of its own and ends together with everything that it started.
//!
//! Agents' commands, user hooks, MCP servers, git, signing and key commands all start here. A [`ChildSession`] is such
//! a process; [`run_for_output`] and [`run_with_input`] run one to its end and keep a bounded part of its output.
//! [`own_program()`] finds this program for processes that are this program again, and [`open_files`] raises the limit
//! on open files for the server and not for its children.
//!
//! What is not here: what confines a process (`roo_sandbox`), and what its output means.

#![warn(unreachable_pub)]

mod child_session;
pub mod open_files;
mod own_program;

pub use child_session::{
    ChildSession, GRACE, LINGER, ProcessEnd, ProcessOutput, REAP, run_for_output, run_with_input,
    time_is_over,
};
pub use own_program::{own_program, own_program_file};
