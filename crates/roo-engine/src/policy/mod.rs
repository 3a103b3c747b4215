//! The gate: where every tool call gets its verdict before any effect.
//!
//! [`Gate::judge`] runs the checks in their fixed order and ends in a [`GateOutcome`]; a [`Permit`] is
//! made here and nowhere else. What a call leads to is looked at by the checks of `check.rs`, in their
//! order; to add one is a file here and a line in that list.

mod action;
mod bounds;
mod check;
pub mod command;
mod command_place;
mod confined_commands;
mod delegation;
mod edit;
mod escaped;
mod execute;
mod external_paths;
mod gate;
mod git;
mod hook_decision;
mod hook_sandbox;
mod in_flight;
mod intent;
mod patch;
mod plan;
pub mod post;
mod protected;
mod readable;
mod remote;
mod rule;
mod scope;
mod server_files;
mod server_sandbox;
mod standing;
mod task_network;
mod tool_configuration;
mod tool_homes;
mod trace;
mod withheld_paths;

pub use self::trace::Recorder;
pub use action::{Action, Execute, Native, Permit, Permitted, Proposal, ProposedPatch};
pub use bounds::{Bounds, Captured, CommandScope, Confined, GitUse, Held, Staging, Watch};
pub(crate) use check::Access;
pub use command::{is_context_command, is_urid_recipe};
pub(crate) use delegation::{named as named_mode, rights as rights_of_mode};
pub(crate) use edit::{Edit, FileBefore, of_masked, shown as shown_edit};
pub use escaped::decode_command;
pub(crate) use gate::{CallAssessment, Checked, Reason, Refusal, TITLE, Tool, own_command};
pub use gate::{Gate, GateOutcome, Offers, PolicyContext, PolicyDecision, Preview, ToolCallContext};
pub use git::{GitGuard, GitOutcome, Signing, SigningMethod, WithheldGitChange};
pub use hook_decision::{HookMessages, UserHookContext, real_path, stopped};
pub use in_flight::{Turn, UnderWay};
pub(crate) use intent::{refuse as refuse_intent, require as require_intent};
pub(crate) use patch::shown as shown_patch;
pub use plan::{ModeChange, Plan, PlannedBranch, PlannedEdit, PlannedFile, PlannedPatch, PlannedWrite};
pub use rule::RefusalRule;
pub use server_sandbox::{ServerBounds, ServerSandbox, ServerSandboxRequest};
pub use task_network::TaskNetwork;
