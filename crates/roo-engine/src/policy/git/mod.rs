//! Git in commands: which git directories they write to, and what of these stays as it was because it would make git run
//! programs or trust somebody else.
//!
//! Reading repositories for prompts is [`crate::mentions`]'s.

mod build_output;
mod committed;
mod config;
mod directories;
mod effective;
mod exclude;
mod guard;
mod hooks;
mod program;
mod replace;
mod sequencer;

pub(super) use committed::CommittedFiles;
pub(super) use directories::GitDirectory;
pub(super) use effective::EffectiveConfiguration;
pub use effective::{Signing, SigningMethod};
pub(super) use exclude::exclude_private_files;
pub use guard::{GitGuard, GitOutcome, WithheldGitChange};
pub(super) use hooks::{HookDirectories, generated_hooks};
