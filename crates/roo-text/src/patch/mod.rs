//! Patches of several files, the language of `apply_patch`: [`parse`] reads one, [`apply`] finds the place
//! of each hunk in the text of one file.
//!
//! The format is Codex's and Roo's. Where theirs guess, this refuses: a hunk that fits in several places has
//! no place. Which files are meant and whether they may change is decided elsewhere.

mod apply;
mod format;

pub use apply::{Applied, HunkError, HunkProblem, apply};
pub use format::{FilePatch, FormatError, Hunk, HunkLine, Mark, Patch, PatchOf, parse};

#[cfg(test)]
mod tests;
