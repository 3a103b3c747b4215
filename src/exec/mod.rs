//! Running commands: one `/bin/sh -c` per command, in a session of its own that ends with it.
//!
//! [`run`] starts, watches and ends a command, [`Environment`] says which variables it sees, and
//! [`Collector`] turns what it prints into a text of bounded size. Whether a command may run is
//! decided in [`crate::hooks`]; how a result reads is decided in [`crate::tools`].
//!
//! What is not held: a process that starts a session of its own leaves the group and outlives it,
//! and a server that is killed by SIGKILL leaves its commands running (the kernel's parent-death
//! signal has to be set between fork and exec, which takes unsafe code). Both need a sandbox with
//! its own process namespace.

mod decode;
mod environment;
mod escapes;
mod output;
mod process;

pub use environment::Environment;
pub use escapes::Escapes;
pub use output::{Collector, Output, Overflow};
pub use process::{Command, ExecError, SHELL, Status, run};
