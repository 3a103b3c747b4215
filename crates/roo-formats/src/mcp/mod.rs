//! MCP servers as users configure them: `mcp.json` of the user and `.roo/mcp.json` of a workspace, in the format of
//! Roo Code, and the files of other programs that can be imported.
//!
//! Texts and values only. Where the files are and which of them count is decided by the caller; servers are started and
//! called by `roo_mcp`.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod edit;
mod file;
mod import;
mod jsonc;
mod levels;
mod server;
mod template;

pub use file::{DECLARATION, FILE_LIMIT, ParsedServers, ServerEntry, ServerList, ServerType, schema};
pub use import::{ForeignFormat, Imported};
pub use jsonc::{comments, without_comments};
pub use levels::{ConfiguredServer, Level, merge};
pub use server::{
    Access, Remote, ResolveError, ResolvedRemote, ResolvedServer, ResolvedStdio, Server, Stdio, ToolNames,
    Transport, Variables,
};
pub use template::{Template, TemplateProblem};
