//! A line of a text that blocks change.

use std::borrow::Cow;

use crate::lines::Eol;

/// A line of the text as it is by now.
#[derive(Clone)]
pub(super) struct DocumentLine<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) eol: Option<Eol>,
    /// True if a block of this diff wrote it.
    pub(super) new: bool,
}
