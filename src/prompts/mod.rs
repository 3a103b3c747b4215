//! What the model reads besides the conversation: the system prompt, the first message, the
//! environment details after every message, and the fixed answers of the server.
//!
//! Everything is a pure function of its input. The system prompt holds nothing that changes
//! between the requests of a task, nor between tasks of one mode and workspace, so that a
//! provider's prompt cache works; what changes is in the first message or in the environment details.

mod brief;
mod environment;
pub mod replies;
mod sections;
mod system;
mod tool_use;
mod untrusted;

pub use brief::{Brief, Place, brief, user_message};
pub use environment::{Environment, environment};
pub use system::{SystemInput, system};
pub use untrusted::untrusted;

#[cfg(test)]
mod tests;
