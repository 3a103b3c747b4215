//! Files that users write: settings, modes, intents, hooks and MCP servers, with their defaults and what is wrong in them.

pub mod config;
pub mod declaration;
pub mod hooks;
pub mod intents;
pub mod mcp;
pub mod modes;
