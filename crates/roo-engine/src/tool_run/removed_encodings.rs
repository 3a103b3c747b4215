//! Encodings of files that a call deleted or moved. Texts are kept in UTF-8, so who brings such a file back has to know in what
//! encoding its bytes were.

use std::collections::BTreeMap;

use roo_workspace::TextEncoding;

/// Encodings of files that are gone from their places, by path. Plain UTF-8 needs no entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemovedEncodings(BTreeMap<String, TextEncoding>);

impl RemovedEncodings {
    /// Adds the encoding of a file.
    pub fn add(&mut self, path: String, encoding: TextEncoding) {
        if encoding != TextEncoding::UTF_8 {
            self.0.insert(path, encoding);
        }
    }

    /// The encoding of a file; none for plain UTF-8.
    pub(crate) fn of(&self, path: &str) -> Option<TextEncoding> {
        self.0.get(path).copied()
    }
}
