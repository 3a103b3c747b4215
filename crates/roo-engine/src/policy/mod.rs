//! The gate: where every tool call gets its verdict before any effect.
//!
//! [`Gate::judge`] runs the checks in their fixed order and ends in a [`GateOutcome`]; it alone can make
//! a [`Permit`]. What a call leads to is looked at by the checks of `check.rs`, in their
//! order; to add one is a file here and a line in that list.

mod action;
mod bare_repository;
mod bounds;
mod browser;
mod browser_sandbox;
mod check;
pub mod command;
mod command_input;
mod command_place;
mod command_scope;
mod confined;
mod confined_commands;
mod context;
mod decision;
mod delegation;
mod edit;
mod escaped;
mod execute;
mod external_paths;
mod free_places;
mod gate;
mod git;
mod grant;
mod hook_decision;
mod hook_sandbox;
mod in_flight;
mod intent;
mod links;
mod look;
mod merge;
mod mode_check;
mod own_places;
mod patch;
mod place_check;
mod plan;
pub mod post;
mod post_hook;
mod preview;
mod private_directory;
mod protected;
mod readable;
mod recorded_verdict;
mod recorder;
mod remote;
mod review;
mod rule;
mod scope;
mod server_files;
mod server_sandbox;
mod standing;
mod task_network;
mod tool_configuration;
mod tool_homes;
mod tool_overlays;
mod trace;
mod user_edit;
mod watch;
mod withheld_paths;

pub use action::{
    CommandSession, ConflictingFile, Execute, MergeConflict, Native, ProposedEdit, ProposedMerge,
    ProposedPatch, ProposedRefactoring, ReviewedTexts,
};
pub use bounds::{AvailableSandbox, Bounds};
pub(crate) use browser::{PageGrant, PageRequest};
pub(crate) use browser_sandbox::{BrowserBounds, BrowserSandboxRequest, PageNetwork};
pub use command::{is_context_command, is_urid_recipe};
pub use command_scope::CommandScope;
pub use confined::Confined;
pub use context::{MergeSource, Offers, PolicyContext, ToolCallContext, UserHookContext};
pub use decision::PolicyDecision;
pub(crate) use decision::{AskReason, CallAssessment, CheckedCall, Refusal, TITLE};
pub(crate) use delegation::{named as named_mode, rights as rights_of_mode};
pub(crate) use edit::{Edit, FileBefore, of_masked, shown as shown_edit};
pub use escaped::decode_command;
pub use gate::{Action, Gate, GateOutcome, Permit, Permitted};
pub(crate) use gate::{Tool, own_command};
pub use git::{
    GitGuard, GitOutcome, MadeRepositories, Signing, SigningMethod, WithheldGitChange, WorkTreesBefore,
};
pub use hook_decision::{HookMessages, real_path, stopped};
pub use in_flight::{CommandTurn, InFlightCommands};
pub(crate) use intent::{refuse as refuse_intent, require_for_server as require_intent_for_server};
pub(crate) use mode_check::{check_delegation, check_files, check_switch, check_tool};
pub(crate) use patch::shown as shown_patch;
pub(crate) use place_check::Access;
pub use plan::{
    ModeChange, Plan, PlannedBranch, PlannedEdit, PlannedFile, PlannedMerge, PlannedPatch, PlannedWrite,
};
pub use post_hook::AuditRecord;
pub use preview::Preview;
pub use recorded_verdict::{RecordedRule, RecordedVerdict};
pub use recorder::Recorder;
pub(crate) use review::mask_preview;
pub use review::{Review, ReviewError, hunks_of};
pub use rule::{AllowRule, AskRule, NamedAllowRule, RefusalRule};
pub use server_sandbox::{ServerBounds, ServerSandbox, ServerSandboxRequest};
pub(crate) use task_network::NetworkRules;
pub use task_network::TaskNetwork;
pub(crate) use tool_homes::caches;
pub(crate) use user_edit::{MadeThere, ReplacedPlace, RestoreEdits};
pub use watch::{Captured, GitUse, Staging, Watch};
