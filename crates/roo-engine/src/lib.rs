//! The engine: requests as trees of tasks, the tools that tasks use, and the policy that every call of a tool passes.
//!
//! Front ends hold an [`engine::Engine`]. It starts and steers requests, answers their questions and gives out a
//! [`engine::Follower`] for each client. One actor drives a request: it decides on an input, appends the events that
//! follow to the request's log, applies them to the [`engine::tree::Tree`] of its [`engine::task::Task`]s, and starts
//! the effects that the new state calls for. The tree is pure, so a log can be replayed ([`engine::replay()`]) and a
//! request survives a kill.
//!
//! The modules are in layers, and each imports only from those before it:
//!
//! - [`approvals`], [`hooks`], [`customization`] and [`intent_store`] know what users and workspaces say: standing
//!   rules, programs that run at events, modes, rules and trust, and intents.
//! - [`server_prompts`] and [`server_tools`] are the interface to MCP servers. [`mentions`] and [`project_info`] find
//!   what a model is told besides a message.
//! - [`tool_run`] has input and output of a tool's run.
//! - [`policy`] judges: [`policy::Gate`] gives each call a [`policy::GateOutcome`], and makes the [`policy::Permit`]
//!   without which nothing touches a file or a process.
//! - [`tools`] has a file for each tool: how its calls are judged, and what a permitted one does.
//! - [`engine`] drives it all.
//!
//! What is not here: editors and protocols (the root crate), how models are reached (`roo_model`), how commands are
//! confined (`roo_sandbox`), how files are written without losing anybody's changes (`roo_workspace`), and the formats
//! of the files that users write (`roo_formats`).

#![warn(unreachable_pub)]

pub mod approvals;
pub mod customization;
pub mod engine;
mod file_contents;
pub mod hooks;
pub mod intent_store;
pub mod mentions;
pub mod policy;
pub mod project_info;
pub mod server_prompts;
pub mod server_tools;
mod tagged_text;
pub mod tool_run;
pub mod tools;
