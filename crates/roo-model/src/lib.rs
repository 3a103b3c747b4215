//! Models: what they are told, how they are reached, and how what they say is read.

pub mod parser;
pub mod prompts;
pub mod providers;
