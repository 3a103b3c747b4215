//! Contents of files that are no text, and targets of symbolic links, which a call wrote or replaced: what changes tell of them is a
//! digest, and checkpoints keep them by their bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use roo_protocol::ids::Digest;
use roo_trace::record::Side;

/// Contents by their digests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BinaryContents {
    files: BTreeMap<Digest, Arc<[u8]>>,
    links: BTreeMap<Digest, Arc<[u8]>>,
}

impl BinaryContents {
    /// Adds a content.
    pub fn add(&mut self, bytes: impl Into<Arc<[u8]>>) {
        let bytes = bytes.into();
        self.files.insert(Digest::of(&bytes), bytes);
    }

    /// A symbolic link with this target, which is added.
    pub(crate) fn link(&mut self, target: impl Into<Arc<[u8]>>) -> Side {
        let target = target.into();
        let digest = Digest::of(&target);
        self.links.insert(digest, target);
        Side::Opaque(digest)
    }

    /// The target of a link that has this digest.
    pub(crate) fn target_of(&self, digest: Digest) -> Option<&[u8]> {
        self.links.get(&digest).map(AsRef::as_ref)
    }

    /// A file with this content, which is added where it is no text.
    pub(crate) fn side(&mut self, bytes: Vec<u8>) -> Side {
        match String::from_utf8(bytes) {
            Ok(text) => Side::text(text),
            Err(no_text) => {
                let bytes = no_text.into_bytes();
                let side = Side::Opaque(Digest::of(&bytes));
                self.add(bytes);
                side
            }
        }
    }

    /// Adds all contents of others.
    pub(crate) fn extend(&mut self, others: Self) {
        self.files.extend(others.files);
        self.links.extend(others.links);
    }

    /// The content of this digest.
    pub(crate) fn of(&self, digest: Digest) -> Option<&[u8]> {
        self.files.get(&digest).map(AsRef::as_ref)
    }
}
