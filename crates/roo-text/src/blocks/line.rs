//! A line of a text that blocks change.

use std::borrow::Cow;

use crate::lines::{Eol, Line};

/// A line of the text as it is by now.
#[derive(Clone)]
pub(crate) struct DocumentLine<'a> {
    pub(crate) text: Cow<'a, str>,
    pub(crate) eol: Option<Eol>,
    /// True if a block of this diff wrote it.
    pub(crate) new: bool,
}

impl<'a> From<Line<'a>> for DocumentLine<'a> {
    fn from(line: Line<'a>) -> Self {
        Self { text: line.text.into(), eol: line.eol, new: false }
    }
}
