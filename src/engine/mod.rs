//! engine
pub mod clock;
pub mod event;
pub mod journal;
pub mod task;
