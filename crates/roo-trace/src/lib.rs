//! The trace: which agent changed what, why, and for which intent, so that it can be checked later.
//!
//! A record is an Agent Trace record ([`record`]) with the class of its change ([`mutation`]). Records are
//! chained by their hashes and kept outside of the workspace ([`ledger`]); the workspace gets a copy
//! ([`projection`]). [`verify`] finds whether someone changed either, [`query`] finds records, [`blame`] says
//! which record wrote a line, [`map`] draws what intents came to, [`export`] writes other shapes.
//!
//! What an action is, and whether it may be, is decided elsewhere. Nothing here writes what stands in a file
//! or a command: only digests and line numbers.

pub mod blame;
pub mod export;
pub mod ledger;
pub mod map;
pub mod mutation;
pub mod projection;
pub mod query;
pub mod ranges;
pub mod record;
pub mod verify;

mod anchor;
mod chain;
mod directory;
#[cfg(test)]
mod fixture;
mod history;
mod normal_form;
mod normal_form_cache;
mod revision;
mod scan;
mod source;
mod syntax;
mod value;

pub use ledger::{Appended, CurrentCopies, Damage, Ledger, LedgerError, Placed, Setup};
pub use normal_form_cache::Forms;
