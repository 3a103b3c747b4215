//! Chunks of files as the index has them, and their place in an order.

use roo_protocol::ids::Digest;
use roo_text::lines::LineRange;

/// A chunk of a file that is in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptChunk {
    pub(crate) id: i64,
    /// Id of the root.
    pub(crate) root: i64,
    /// Path of the file below the root.
    pub(crate) path: String,
    pub(crate) lines: LineRange,
    pub(crate) file_digest: Digest,
    /// Of the chunk's text, as it was masked.
    pub(crate) digest: Digest,
}

/// A chunk in an order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RankedChunk {
    pub(crate) chunk: KeptChunk,
    /// At most 1.
    pub(crate) score: f64,
}
