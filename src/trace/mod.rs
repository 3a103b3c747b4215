//! The trace.
pub mod mutation;
mod normal_form;
pub mod ranges;
pub mod record;
mod syntax;
mod value;
