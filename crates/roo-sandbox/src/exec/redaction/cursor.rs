//! Lookahead in a text that may be incomplete.

/// More text is needed to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Incomplete;

/// A position in a text. Reading past the end of an incomplete text fails with [`Incomplete`], so that no decision
/// depends on how the text was cut.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
    /// The text is complete.
    last: bool,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a [u8], last: bool) -> Self {
        Self { text, at: 0, last }
    }

    /// Returns the offset.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Returns the text from an offset to here.
    pub(super) fn since(&self, from: usize) -> &'a [u8] {
        self.text.get(from..self.at).unwrap_or_default()
    }

    /// Returns the next byte; none at the end of the text.
    pub(super) fn peek(&self) -> Result<Option<u8>, Incomplete> {
        match self.text.get(self.at) {
            None if !self.last => Err(Incomplete),
            byte => Ok(byte.copied()),
        }
    }

    /// Skips a byte.
    pub(super) fn skip(&mut self) {
        self.at = (self.at + 1).min(self.text.len());
    }

    /// Skips the next byte if it is this one.
    pub(super) fn byte(&mut self, wanted: u8) -> Result<bool, Incomplete> {
        let is_there = self.peek()? == Some(wanted);
        if is_there {
            self.skip();
        }
        Ok(is_there)
    }

    /// Skips this text if it is next.
    pub(super) fn literal(&mut self, wanted: &str) -> Result<bool, Incomplete> {
        let mut ahead = self.clone();
        for byte in wanted.bytes() {
            if !ahead.byte(byte)? {
                return Ok(false);
            }
        }
        *self = ahead;
        Ok(true)
    }

    /// Skips at most so many bytes of a kind. Returns their number.
    pub(super) fn run(&mut self, most: usize, is_kind: impl Fn(u8) -> bool) -> Result<usize, Incomplete> {
        let from = self.at;
        while self.at - from < most && self.peek()?.is_some_and(&is_kind) {
            self.skip();
        }
        Ok(self.at - from)
    }
}
