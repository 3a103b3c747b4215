//! Git in commands: which git directories they write to, and what of these stays as it was because it would make git run
//! programs or trust somebody else.
//!
//! Reading repositories for prompts is [`crate::mentions`]'s.

mod config;
mod directories;
mod guard;

pub(super) use directories::GitDirectory;
pub use guard::{GitGuard, GitOutcome, WithheldGitChange};
