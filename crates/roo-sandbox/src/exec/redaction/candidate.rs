//! A text in which a recognizer may find a secret, and what it found.

use std::ops::Range;

use super::characters::Characters;
use super::cursor::Cursor;

/// Bytes in front of a candidate that show whether it begins a word.
pub(super) const BEFORE: usize = 3;

/// A recognized secret.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Secret<'a> {
    /// The range to mask, relative to the candidate.
    pub(super) mask: Range<usize>,
    /// The name in the mask.
    pub(super) name: &'a str,
    /// The treatment of the text behind the mask.
    pub(super) then: AfterMask,
}

/// The treatment of the text behind a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterMask {
    /// It is scanned as usual.
    Go,
    /// Characters of this kind are skipped.
    Skip(Characters),
    /// The rest of a value in these quotes, or without quotes, is skipped.
    SkipValue(Option<u8>),
    /// The rest of a private key is skipped.
    Key {
        /// The current line is not complete.
        in_line: bool,
    },
}

/// A text that begins with an anchor, and the bytes in front of it.
pub(super) struct Candidate<'a> {
    pub(super) before: [u8; BEFORE],
    pub(super) text: &'a [u8],
    pub(super) last: bool,
}

impl<'a> Candidate<'a> {
    pub(super) fn cursor(&self) -> Cursor<'a> {
        Cursor::new(self.text, self.last)
    }

    /// Reports whether a word begins here. A letter that ends an escape, as in `\n`, is no part of a word.
    pub(super) fn begins_word(&self) -> bool {
        match self.before {
            [_, b'\\', b'n' | b'r' | b't'] => true,
            [b'%', high, low] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => true,
            [.., last] => !last.is_ascii_alphanumeric(),
        }
    }
}
