//! Contents of files that are no text, which a call wrote or replaced: what changes tell of them is a digest, and checkpoints keep
//! them by their bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use roo_protocol::ids::Digest;

/// Contents by their digests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BinaryContents(BTreeMap<Digest, Arc<[u8]>>);

impl BinaryContents {
    /// Adds a content.
    pub fn add(&mut self, bytes: impl Into<Arc<[u8]>>) {
        let bytes = bytes.into();
        self.0.insert(Digest::of(&bytes), bytes);
    }

    /// The content of this digest.
    pub(super) fn of(&self, digest: Digest) -> Option<&[u8]> {
        self.0.get(&digest).map(AsRef::as_ref)
    }
}
