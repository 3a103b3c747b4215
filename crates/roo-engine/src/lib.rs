//! The engine: tasks and the tree that they form, the tools, the policy that every call passes, and the hooks.

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
