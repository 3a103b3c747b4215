//! Git in commands: which git directories they write to, and what of these stays as it was because it would make git run
//! programs or trust somebody else.
//!
//! Reading repositories for prompts is [`crate::mentions`]'s.

mod bare;
mod brought_back;
mod build_output;
mod committed;
mod config;
mod directories;
mod effective;
mod exclude;
mod guard;
mod hooks;
mod known_commits;
mod program;
mod references;
mod replace;
mod sequencer;
mod unfit;

pub(super) use bare::bare_repository;
pub(super) use brought_back::BroughtFile;
pub use brought_back::WorkTreesBefore;
pub(super) use brought_back::stays_closed;
pub(super) use committed::CommittedFiles;
pub(super) use directories::{GitDirectory, is_guarded};
pub(super) use effective::EffectiveConfiguration;
pub use effective::{Signing, SigningMethod};
pub(super) use exclude::exclude_private_files;
pub use guard::{GitGuard, GitOutcome, WithheldGitChange};
pub(super) use hooks::{HookDirectories, generated_hooks};
pub(super) use known_commits::KnownCommits;
pub use unfit::MadeRepositories;
