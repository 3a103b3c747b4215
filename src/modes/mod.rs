//! Modes: who the model is, which tools it has, and which files it may change.
//!
//! [`BUILT_IN`] is the one table; a mode's prompt, its gate and its description for users all come
//! from it. Whether a permitted call may run is for [`crate::hooks`] to decide.

mod built_in;
mod mode;
mod urid;

pub use built_in::BUILT_IN;
pub use mode::{FileRestriction, Mode, ModeRefusal, UnknownMode, find};
pub use urid::{task_directory, urid};
