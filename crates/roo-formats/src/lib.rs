//! Files that users write: settings, modes and intents, with their defaults and what is wrong in them.

pub mod config;
pub mod intents;
pub mod modes;
