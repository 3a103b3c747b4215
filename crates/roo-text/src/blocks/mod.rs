//! SEARCH/REPLACE blocks, the language of `apply_diff`: [`parse`] reads them, [`apply`] finds each
//! block's place and changes the text there.
//!
//! ```text
//! <<<<<<< SEARCH
//! :start_line:10
//! -------
//! old lines
//! =======
//! new lines
//! >>>>>>> REPLACE
//! ```
//!
//! The format is Roo's. What it accepts is accepted here; where it guesses (several equal places) the
//! model is asked, and lines that a block doesn't change keep their bytes.

mod apply;
mod document;
mod format;
mod indentation;
mod line;
mod readings;
mod replacement;
#[cfg(test)]
mod tests;

pub use apply::{
    Applied, AppliedBlock, BlockFailure, BlockProblem, NothingApplied, Reading, Rung, Threshold, apply,
};
pub use format::{Block, FormatError, parse};
pub(crate) use indentation::IndentationStep;
pub(crate) use line::DocumentLine;
pub(crate) use replacement::{Destination, Origin, Unclear, new_lines, new_lines_of};
