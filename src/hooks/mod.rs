//! The gate: where every tool call gets its verdict before any effect.
//!
//! [`Gate::judge`] runs the checks in their fixed order and ends in a [`Decision`]; a [`Permit`] is
//! made here and nowhere else. Intents, scope, locks, the trace and user hooks are further checks
//! between *protected names* and *approval policy*; they don't exist yet.

mod action;
mod command;
mod delegation;
mod gate;
mod plan;

pub use action::{Action, Native, Permit, Proposal, ReadTarget};
pub use command::{is_context_command, is_urid_recipe};
pub use gate::{Decision, Gate, Judgement, Subject};
pub use plan::{ModeChange, Plan, PlannedBranch, PlannedWrite};

#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing {
    pub use super::command::{CommandVerdict, judge};
}
