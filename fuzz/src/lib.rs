//! What the fuzz targets share: one function a target, over any bytes. A property that does not hold
//! panics.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a target fails by panicking")]

pub mod apply_diff;
pub mod apply_patch;
pub mod command_classifier;
pub mod egress;
pub mod globs;
pub mod ipc_frames;
pub mod log_reader;
pub mod path_resolver;
pub mod redaction;
pub mod scopes;
pub mod sse_decoder;
pub mod stream_parser;

/// Takes bytes from the front of an input for decisions, and the rest as it is.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// The next byte; 0 at the end.
    pub fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((byte, rest)) => {
                self.0 = rest;
                *byte
            }
            None => 0,
        }
    }

    /// A number below `limit`, which is at least 1.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte()) % limit
    }

    /// One of these.
    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// Up to so many of the next bytes.
    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    /// The rest, as text.
    pub fn text(self) -> String {
        String::from_utf8_lossy(self.0).into_owned()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Where to cut something of this length, in order: from the byte that `seed` gives.
pub fn cuts(length: usize, seed: u8) -> Vec<usize> {
    let step = usize::from(seed) % 13 + 1;
    (0..length).step_by(step).skip(1).collect()
}
