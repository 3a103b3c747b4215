//! The bridge: a workspace that is followed and steered over NATS, as Roo Code's was over its cloud. An instance registers and
//! tells that it lives; tasks are started, stopped and resumed on its channel, and each task has one for its messages and for
//! what is said to it.
//!
//! A translation between subjects and the engine, in the vocabulary of [`crate::roo_api`]. Who may write to a subject is up to
//! the NATS server; what is said there allows an action only where the user of this machine lets it (`--remote-approvals`),
//! and then one action, by its digest. No request waits for a listener.
//!
//! Source of names and formats: Roo Code, `packages/types/src/cloud.ts`.

mod command;
mod instance;
#[cfg(test)]
mod plain_server;
mod requests;
mod server;

pub(crate) use self::requests::Setup;
pub(crate) use self::server::Bridge;
