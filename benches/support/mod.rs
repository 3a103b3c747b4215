//! What the end-to-end figures stand on: an endpoint that knows when bytes came and went, the program
//! in a home of its own, and a table.

pub mod answer;
pub mod endpoint;
#[allow(dead_code, reason = "not every measurement is about long tasks")]
pub mod long_conversation;
pub mod memory;
pub mod program;
pub mod table;

/// A measurement that could not be made.
pub type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;
