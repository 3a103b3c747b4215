//! Texts for the model besides the conversation: the system prompt, the first message, the environment details after
//! every message, and the fixed answers of the server.
//!
//! Everything is a pure function of its input. The system prompt holds nothing that changes
//! between the requests of a task, nor between tasks of one mode and workspace, so that a
//! provider's prompt cache works; what changes is in the first message or in the environment details.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod authoring;
mod brief;
pub mod condense;
mod delegation;
mod environment;
mod overrides;
pub mod replies;
pub mod sampling;
mod sections;
mod system;
mod system_input;
mod tool_use;
mod untrusted;

pub use authoring::{Authoring, OVERRIDE_LIMIT, Specification, UnfitPrompt, authoring, checked_override};
pub use brief::{Brief, DelegatedBrief, Place, brief, delegated_brief, system_context, user_message};
pub use environment::{
    ActiveFile, CommandStatus, Environment, Problems, beginning, ended_command, ended_commands, environment,
    is_beginning,
};
pub use overrides::{OverrideInput, override_prompt};
pub use system::system;
pub use system_input::{DeclaredIntents, RuleText, SkillEntry, SystemInput};
pub use untrusted::untrusted;

#[cfg(test)]
mod tests;
