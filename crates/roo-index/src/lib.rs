//! The code index: which parts of a workspace a question is about, by the words that they share and, where the user has
//! configured an endpoint for it, by vectors.
//!
//! [`CodeIndex::search`] answers a question. Nothing is indexed before somebody asks: then a thread of low priority brings
//! the index up to date, in small steps that are kept. Files are cut into chunks at their definitions, identifiers at
//! their capitals and underscores, and SQLite ranks them.
//!
//! The index has words, lines and digests, no text. What a search returns is read from the files, under the rules as they
//! are at that moment: what may not be read can't come out of it. What a model gets to see of it is the tool's.

#![warn(unreachable_pub)]

mod chunks;
mod embedder;
mod embedding;
mod index;
mod pass;
mod passes;
mod ranked_chunk;
mod ranking;
mod store;
#[cfg(test)]
mod tests;
mod vector;
mod words;

pub use embedder::{Embedder, EmbedderSource};
pub use index::{CodeIndex, Findings, FoundChunk, IndexStatus, Question, SearchError};
pub use pass::Mask;
pub use store::StoreError;
