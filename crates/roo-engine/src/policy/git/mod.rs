//! Git in commands: which git directories they write to, and what of these stays as it was because it would make git run
//! programs or trust somebody else.
//!
//! Reading repositories for prompts is [`crate::mentions`]'s.

mod bare;
mod build_output;
mod checked_out_files;
mod committed;
mod config;
mod directories;
mod disallowed_repositories;
mod effective;
mod exclude;
mod guard;
mod hooks;
mod known_commits;
mod program;
mod references;
mod replace;
mod sequencer;

pub(super) use bare::bare_repository;
pub(super) use checked_out_files::CheckedOutFile;
pub use checked_out_files::WorkTreesBefore;
pub(super) use checked_out_files::stays_closed;
pub(super) use committed::CommittedFiles;
pub(super) use directories::{GitDirectory, is_guarded};
pub use disallowed_repositories::MadeRepositories;
pub(super) use effective::EffectiveConfiguration;
pub use effective::{Signing, SigningMethod};
pub(super) use exclude::{TASK_RULES, exclude_private_files, ignore_task_files};
pub use guard::{GitGuard, GitOutcome, WithheldGitChange};
pub(super) use hooks::{HookDirectories, generated_hooks};
pub(super) use known_commits::KnownCommits;
