//! What a document has on disk when its prompt is sent. The prompt is taken out of the editor's text; an editor that is then
//! closed without saving leaves the old text on disk, where it would look unsent. So its digest is kept beside the document,
//! for the next server too.

use std::io;
use std::path::{Path, PathBuf};

use roo_durable::PrivateFile;
use roo_protocol::ids::Digest;

/// The longest mark, in bytes.
const MAX_MARK_BYTES: u64 = 256;

/// The file with the mark of a document.
fn mark(document: &Path) -> PrivateFile {
    PrivateFile::new(document.with_extension("sent"))
}

/// Marks what the document has on disk now, at most `largest` bytes, as sent; its digest. None where it has nothing there.
pub(super) async fn remember(document: &Path, largest: u64) -> Option<Digest> {
    on_disk(document, move |document| {
        let Some(bytes) = PrivateFile::new(document).read(largest)? else { return Ok(None) };
        let digest = Digest::of(bytes);
        mark(document).replace(digest.to_string().as_bytes())?;
        Ok(Some(digest))
    })
    .await
}

/// The digest of what the document had on disk when its prompt was last sent.
pub(super) async fn known(document: &Path) -> Option<Digest> {
    on_disk(document, |document| {
        let bytes = mark(document).read(MAX_MARK_BYTES)?;
        Ok(bytes.and_then(|bytes| String::from_utf8(bytes).ok()).and_then(|text| Digest::parse(text.trim())))
    })
    .await
}

/// The document has another text on disk. Reads and writes the disk.
pub(super) fn forget(document: &Path) {
    if let Err(error) = mark(document).remove() {
        tracing::warn!(document = %document.display(), %error, "the mark of a text that was sent can't be removed");
    }
}

async fn on_disk(
    document: &Path,
    look: impl FnOnce(&Path) -> io::Result<Option<Digest>> + Send + 'static,
) -> Option<Digest> {
    let path: PathBuf = document.to_owned();
    let looked = tokio::task::spawn_blocking(move || look(&path)).await;
    looked.map_err(io::Error::other).flatten().unwrap_or_else(|error| {
        tracing::warn!(document = %document.display(), %error, "what was sent of a document is not known");
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_on_disk_when_it_was_sent_is_known_until_that_changes() {
        let directory = tempfile::tempdir().unwrap();
        let document = directory.path().join("gone/task.md");
        assert_eq!(remember(&document, 100).await, None);
        assert!(!document.parent().unwrap().exists(), "what was deleted doesn't come back");
        let document = directory.path().join("task.md");
        std::fs::write(&document, "do it").unwrap();
        assert_eq!(known(&document).await, None);
        let sent = remember(&document, 100).await;
        assert_eq!((sent, known(&document).await), (Some(Digest::of("do it")), sent));
        forget(&document);
        assert_eq!(known(&document).await, None);
    }
}
