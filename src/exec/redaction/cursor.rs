//! Reading ahead in a text of which more may come.

/// More text is needed to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct More;

/// A place in a text. What depends on text that is not there yet fails with [`More`], so that a decision never
/// depends on where the text was cut.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
    /// Whether the text is whole.
    last: bool,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a [u8], last: bool) -> Self {
        Self { text, at: 0, last }
    }

    /// Bytes from the beginning to here.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// What was read from a place on.
    pub(super) fn since(&self, from: usize) -> &'a [u8] {
        self.text.get(from..self.at).unwrap_or_default()
    }

    /// The next byte; none at the end of the text.
    pub(super) fn peek(&self) -> Result<Option<u8>, More> {
        match self.text.get(self.at) {
            None if !self.last => Err(More),
            byte => Ok(byte.copied()),
        }
    }

    /// Goes over a byte that was seen.
    pub(super) fn skip(&mut self) {
        self.at = (self.at + 1).min(self.text.len());
    }

    /// Goes over the next byte if it is this one.
    pub(super) fn byte(&mut self, wanted: u8) -> Result<bool, More> {
        let is_there = self.peek()? == Some(wanted);
        if is_there {
            self.skip();
        }
        Ok(is_there)
    }

    /// Goes over this text if it is next.
    pub(super) fn literal(&mut self, wanted: &str) -> Result<bool, More> {
        let mut ahead = self.clone();
        for byte in wanted.bytes() {
            if !ahead.byte(byte)? {
                return Ok(false);
            }
        }
        *self = ahead;
        Ok(true)
    }

    /// Goes over bytes of a kind, at most so many. Returns how many.
    pub(super) fn run(&mut self, most: usize, is_kind: impl Fn(u8) -> bool) -> Result<usize, More> {
        let from = self.at;
        while self.at - from < most && self.peek()?.is_some_and(&is_kind) {
            self.skip();
        }
        Ok(self.at - from)
    }
}
