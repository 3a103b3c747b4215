//! The engine: tasks and the tree that they form, the tools, the policy that every call passes, and the hooks.

pub mod approvals;
pub mod customization;
pub mod engine;
pub mod hooks;
pub mod mentions;
pub mod orchestration;
pub mod surroundings;
pub mod tools;
pub mod user_hooks;
