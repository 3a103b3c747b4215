//! Modes: who the model is, which tools it has, and which files it may change.
//!
//! A mode's prompt, its gate and its description for users all come from one [`Mode`]. Whether a
//! permitted call may run is for `roo_engine::policy` to decide; which files of modes there are, and which
//! of them count, for `roo_engine::customization`.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod built_in;
mod declaration;
pub mod delegation;
mod file;
mod mode;
mod mode_list;
mod pictograph;
mod urid;

pub use built_in::ENTRY;
pub use declaration::{
    DECLARATION, FilePattern, GroupEntry, GroupName, GroupOptions, LimitedGroup, McpServerName, ModeEntry,
    ModeFile, ModeSlug, NewModeSlug, schema,
};
pub use file::{FILE_LIMIT, ModePart, ParsedModes, is_slug, locate, places_limit};
pub use mode::{FileRestriction, Mode, ModeRefusal, PatternError, Source};
pub use mode_list::{Modes, UnknownMode};
pub use urid::{is_urid, task_directory, urid};
