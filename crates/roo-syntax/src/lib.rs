//! Source files as syntax: which grammar a path has, its tree within bounds, and what it defines.
//!
//! It neither reads files nor knows tools. What a change means is in `roo-trace`, which asks for trees of the languages
//! that its records compare.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod definitions;
mod grammar;
mod markdown;
mod outline;
mod parse;
mod symbols;

pub use definitions::{SyntaxError, definitions, definitions_of, is_supported};
pub use grammar::Language;
pub use parse::parse;
pub use symbols::{Symbol, SymbolName, is_code, symbols};
