//! Text as values: lines, positions, diffs and the edits that the file tools make.
//!
//! Everything here is pure: from text to text, without files or buffers, and every input has
//! an answer. Errors are worded for the model that asked for the edit. Which file is meant and whether
//! it may change is decided elsewhere.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(unreachable_pub)]

pub mod bash_grammar;
pub mod blocks;
pub mod diff;
pub mod durations;
pub mod edit;
pub mod entities;
pub mod expected_edit;
pub mod hunks;
pub mod indented_block;
pub mod lines;
pub mod merge;
pub mod misspelling;
pub mod name_patterns;
pub mod names;
pub mod nearest;
pub mod omission;
pub mod patch;
pub mod position;
pub mod render;
#[doc(hidden)]
pub mod work;
