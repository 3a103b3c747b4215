//! What the end-to-end figures stand on: an endpoint that knows when bytes came and went, the program
//! in a home of its own, and a table.

#![allow(dead_code, reason = "each measurement uses a part of it")]

pub mod answer;
pub mod endpoint;
pub mod long_conversation;
pub mod memory;
pub mod program;
pub mod responses;
pub mod table;

/// A measurement that could not be made.
pub type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;
