//! The gate: where every tool call gets its verdict before any effect.

mod action;
pub mod command;

pub use action::{Action, Permit, Proposal, ReadTarget};
