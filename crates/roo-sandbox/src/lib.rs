//! Commands: how they are started, what confines them, which hosts they reach, and what they changed.
//!
//! - [`exec`] runs a command in a session of its own that ends with it. [`exec::run`] runs it without bounds, and
//!   [`exec::run_confined`] in those of an [`exec::sandbox::Confinement`], which says what it may write, read and
//!   reach. [`exec::ConfinedProgram`] is a program that is talked to over its standard streams, such as an MCP server.
//!   [`exec::Environment`] has the variables that a command sees, [`exec::Collector`] its output, and
//!   [`exec::redaction`] masks secrets in it.
//! - [`exec::sandbox`] builds the bounds. [`exec::sandbox::Sandbox`] finds out once what this machine has of
//!   namespaces, Landlock and seccomp. The helper process of a sandbox is this program again, so `main` has to call
//!   [`exec::sandbox::enter`] first.
//! - [`egress`] is the proxy by which a confined command reaches the network: [`egress::Egress`] serves it by
//!   [`egress::HostRules`].
//! - [`changes`] finds what a command did to files. A [`changes::Recording`] lasts as long as the command, and what is
//!   out of the [`changes::Scope`] can be undone. A [`changes::Stage`] is for commands that write to an overlay, and
//!   [`changes::StagedChanges`] for what of that reaches the workspace.
//!
//! What is not here: whether a command may run, and within which bounds (`roo_engine::policy`); how its result is
//! worded for a model (`roo_engine::tools`); how a command line is read (`roo_shell`). How processes are started and
//! ended is in `roo_process`. Nothing here knows tasks or users.

#![warn(unreachable_pub)]

pub mod changes;
pub mod egress;
pub mod exec;
