//! The MCP client: servers that users configure, started or connected, watched, and called.
//!
//! A [`Hub`] holds one actor a server. [`Hub::configure`] says which servers there are to be; what changed is restarted
//! and nothing else. [`Hub::statuses`] tells what became of each, with its tools, resources and prompts; [`Hub::call_tool`],
//! [`Hub::read_resource`] and [`Hub::get_prompt`] use them.
//!
//! What is not here: the format of `mcp.json` (`roo_formats::mcp`), whether a server may be started or a tool be called
//! (`roo_engine::policy`), and what a model gets to see of a result. What servers say is data of strangers: it is bounded
//! here, and neither trusted nor cleaned of instructions.
//!
//! HTTP servers are logged in to by [`login`]; what a login gives is kept by a [`login::CredentialStore`] of the caller's.
//!
//! Programs are started by a [`ServerLauncher`] of the caller's choosing. A program is never started twice at once, and
//! [`Hub::shutdown`] leaves none behind.

#![warn(unreachable_pub)]

mod authorized;
mod backoff;
mod call;
mod catalog;
mod connection;
mod content;
mod elicitation;
mod events;
mod fault;
mod http_fault;
mod hub;
mod launcher;
mod log;
pub mod login;
mod network;
mod sampling;
mod server;
mod services;
mod sse;
mod status;
mod stdio;
mod stored;
mod tool;

pub use call::{CallError, CallOptions, Completion, CompletionOf, CompletionRequest, Operation};
pub use catalog::{Prompt, PromptArgument, Resource, ResourceTemplate, ServerCatalog};
pub use content::{
    Content, Media, Omitted, PromptMessage, ResourceContent, ResourceLink, Speaker, ToolResult,
};
pub use elicitation::{Answer, Choice, Elicitation, FieldKind, FormField, TextFormat, Wanted};
pub use fault::ServerFault;
pub use hub::{DesiredServer, DesiredState, Hub};
pub use launcher::{
    Ended, LaunchError, LaunchRequest, LaunchedServer, PlainLauncher, ServerLauncher, ServerProcess,
};
pub use log::{LogLine, LogSource, ServerLog};
pub use network::{AddressPolicy, RefusedAddress};
pub use sampling::{Sampled, SampledMessage, Sampling};
pub use services::{ClientIdentity, HubServices};
pub use status::{ServerStatus, Statuses};
pub use tool::{RejectedTool, ToolDescription, ToolDigest, ToolHints};
