//! Files that users write: settings, modes, intents, hooks, MCP servers and front matter, with their defaults and what is wrong in them.

pub mod config;
pub mod declaration;
pub mod front_matter;
pub mod hooks;
pub mod intents;
pub mod mcp;
pub mod modes;
