//! Files that users write: settings, modes, intents, hooks, MCP servers and front matter, with their defaults and what is wrong in them.
//! And files of other programs that are taken over.

#![warn(unreachable_pub)]

pub mod claude_code;
pub mod config;
pub mod declaration;
pub mod front_matter;
pub mod hooks;
pub mod intents;
pub mod mcp;
pub mod modes;
mod placed;
mod problem;
mod problem_list;
pub mod roo_code;
mod text_range;
mod yaml_edit;

pub use placed::Placed;
pub use problem::{FileProblem, Problem, Severity};
pub use problem_list::ProblemList;
pub use text_range::{Position, TextRange};
