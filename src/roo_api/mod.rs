//! Roo Code's own vocabulary: a request's events as the events and messages of Roo Code's API, for programs that were
//! written against it. Pure, and the same for the same events, however they come in.
//!
//! [`Vocabulary`] is the one translation; front ends that speak Roo's vocabulary carry what it returns. It knows no socket and
//! no clock: what is told at intervals is told by the times of the events, and by [`Vocabulary::flush`].
//!
//! Source of names and formats: Roo Code, `packages/types/src/{message,events,mcp}.ts`. [`names`] says which names never
//! come, and why.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod call;
mod event;
mod message;
mod message_times;
mod names;
mod payload;
mod task;
mod vocabulary;

#[cfg(test)]
mod tests;

pub(crate) use self::event::{Lifecycle, RooEvent, notice};
pub(crate) use self::vocabulary::Vocabulary;
