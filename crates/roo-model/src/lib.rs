//! Models: what they are told, how they are reached, and how what they say is read.

#![warn(unreachable_pub)]

pub mod parser;
pub mod prompts;
pub mod providers;
