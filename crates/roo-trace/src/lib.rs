//! The trace: which agent changed what, why, and for which intent, so that it can be checked later.
//!
//! A record is an Agent Trace record ([`record`]) with the class of its change ([`mutation`]). Records are chained by
//! their hashes and kept outside of the workspace ([`ledger`]); the workspace gets a copy ([`projection`]). [`verify`]
//! detects changes to either, [`query`] finds records, [`blame`] finds the record that wrote a line, [`map`] lists the
//! code of each intent, [`export`] writes other formats.
//!
//! Which actions are allowed is decided elsewhere. Records never contain the content of files or commands, only digests
//! and line numbers.

#![warn(unreachable_pub)]

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

pub use ledger::{Appended, CurrentCopies, Damage, Ledger, LedgerError, RecordPosition, Setup};
pub use normal_form_cache::ComparableForms;
