//! Intents: declared goals with an owned scope, as `.orchestration/active_intents.yaml` tells them.
//!
//! Here is what the file says, what a scope covers, and how the file's text is changed without losing
//! what people wrote in it. Pure: no path is looked up. Which intent a task has bound, and whether a
//! change of the file counts, is for `roo_engine::intent_store`; whether a call may run, for
//! `roo_engine::policy`.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod context;
mod declaration;
mod edit;
mod file;
mod intent;
mod scope;

pub use context::{Recent, intent_context};
pub use declaration::{DECLARATION, IntentEntry, IntentList, ScopePattern, StatusWord, schema};
pub use edit::{Change, EditError, NewIntent, create, update};
pub use file::{FILE_LIMIT, IntentFile, Invalid};
pub use intent::{Enforced, Intent, Status};
pub use scope::{BadPattern, Covered, Prefix, Scope};

/// The file of intents, relative to the first root.
pub const INTENTS_FILE: &str = ".orchestration/active_intents.yaml";
/// The ids that may not be selected, relative to the first root.
pub const IGNORED_INTENTS: &str = ".intentignore";
