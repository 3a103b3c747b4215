//! Modes: who the model is, which tools it has, and which files it may change.
//!
//! A mode's prompt, its gate and its description for users all come from one [`Mode`]. Whether a
//! permitted call may run is for [`crate::hooks`] to decide.

mod built_in;
pub mod delegation;
mod mode;
mod urid;

pub use built_in::ENTRY;
pub use mode::{FileRestriction, Mode, ModeRefusal, Modes, Source, UnknownMode};
pub use urid::{is_urid, task_directory, urid};
