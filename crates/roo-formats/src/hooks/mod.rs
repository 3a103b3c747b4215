//! Hooks files: their declaration, and the events of the public hook contract.
//!
//! What a file means, and how its hooks run, is for `roo_engine::hooks`.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod declaration;
mod event;

pub use declaration::{
    DECLARATION, HookEntry, HookGroup, HookList, HookOptions, HookShell, HookType, HooksByEvent, MatcherText,
    schema,
};
pub use event::{Compared, EventName, Refusal};
