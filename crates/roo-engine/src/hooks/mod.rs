//! The gate: where every tool call gets its verdict before any effect.
//!
//! [`Gate::judge`] runs the checks in their fixed order and ends in a [`Decision`]; a [`Permit`] is
//! made here and nowhere else. What a call leads to is looked at by the checks of `hook.rs`, in their
//! order; to add one is a file here and a line in that list.

mod action;
mod bounds;
pub mod command;
mod command_place;
mod confined_commands;
mod delegation;
mod escaped;
mod execute;
mod gate;
mod git;
mod hook;
mod hook_sandbox;
mod intent;
mod intent_tools;
mod outside;
mod patch;
mod places;
mod plan;
pub mod post;
mod protected;
mod readable;
mod remote;
mod scope;
mod server_files;
mod standing;
mod task_network;
mod tool_configuration;
mod tool_homes;
mod trace;
mod under_way;
mod user;

pub use self::trace::Recorder;
pub use action::{Action, Native, Permit, Proposal, ProposedPatch, ReadTarget};
pub use bounds::{Bounds, Captured, CommandScope, Confined, GitUse, Held, Staging, Watch};
pub use command::{is_context_command, is_urid_recipe};
pub use escaped::decode_command;
pub use gate::{Decision, Gate, Grounds, Judgement, Offers, Preview, Subject};
pub use git::{GitGuard, GitOutcome, Signing, SigningMethod, WithheldGitChange};
pub use plan::{ModeChange, Plan, PlannedBranch, PlannedEdit, PlannedFile, PlannedPatch, PlannedWrite};
pub use task_network::TaskNetwork;
pub use under_way::{Turn, UnderWay};
pub use user::{Heard, UserHooksHere, real_path, stopped};
