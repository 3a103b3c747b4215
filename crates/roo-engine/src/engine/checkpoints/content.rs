//! What a file or a document holds now, and how a content is told to clients, to the log and to the trace.

use std::sync::Arc;

use super::saved_changes::{self, Content};
use crate::engine::Engine;
use crate::tool_run::SavedFile;
use roo_protocol::checkpoint::FileDiff;
use roo_protocol::ids::Digest;
use roo_text::diff;
use roo_trace::record::Side;
use roo_workspace::{
    Contents, ImageType, PathEntry, PathError, Purpose, ReadError, Resolved, TextEncoding,
    UnencodableCharacter, Workspace,
};

impl Engine {
    /// What stands at a path as it is written; none for one that is in no workspace folder or can't be looked at.
    pub(super) fn standing(&self, path: &str) -> Option<(Resolved, PathEntry)> {
        self.workspace().path_entry(path).ok().flatten()
    }

    pub(super) fn file_diff(
        &self,
        path: String,
        before: Option<&Content>,
        after: Option<&Content>,
    ) -> FileDiff {
        let uri = self.workspace().resolve(&path, Purpose::Read).map_or_else(
            |_| self.standing(&path).map_or_else(|| path.clone(), |(place, _)| place.uri()),
            |place| {
                let open = self.workspace().documents().at(place.absolute());
                open.map_or_else(|| place.uri(), |document| document.uri)
            },
        );
        let diff = diff_of(before, after, &path);
        FileDiff { path, uri, before: before.map(in_words), after: after.map(in_words), diff }
    }
}

/// The content of a file, or of the document over it; none where no file is. Where it was a link, the link is meant.
pub(super) async fn content_now(
    workspace: &Workspace,
    path: &str,
    saved: &[&SavedFile],
) -> Result<Option<Content>, String> {
    if saved_changes::was_link(saved)
        && let Some((_, PathEntry::Link(target))) = workspace.path_entry(path).ok().flatten()
    {
        return Ok(Some(Content::Link(target.into())));
    }
    let place = match workspace.resolve(path, Purpose::Read) {
        Err(PathError::IsADirectory { .. } | PathError::NotADirectory { .. }) => return Ok(None),
        place => place.map_err(|error| error.to_string())?,
    };
    match workspace.read_to_replace(&place).await {
        Ok(Contents::Text(file)) => Ok(Some(Content::Text(file.text))),
        Ok(Contents::Binary { bytes, .. }) => Ok(Some(Content::Bytes(bytes.into()))),
        Err(ReadError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns whether a file's bytes are this text, in whatever encoding.
pub(super) fn holds(bytes: &[u8], text: &str) -> bool {
    match Contents::from_bytes(bytes.to_vec()) {
        Contents::Text(now) => saved_changes::without_mark(&now.text) == saved_changes::without_mark(text),
        Contents::Binary { .. } => false,
    }
}

/// A content as bytes, of a text in this encoding.
pub(super) fn bytes_of(content: &Content, encoding: TextEncoding) -> Result<Arc<[u8]>, String> {
    match content {
        Content::Bytes(bytes) | Content::Link(bytes) => Ok(Arc::clone(bytes)),
        Content::Text(text) => {
            encoding.encode(text).map(Arc::from).map_err(|UnencodableCharacter(character)| {
                format!("its encoding {} has no {character:?}", encoding.name())
            })
        }
    }
}

/// A content as the trace and the log get it: what is no text by its digest alone.
pub(super) fn side_of(content: Option<&Content>) -> Side {
    match content {
        None => Side::Absent,
        Some(Content::Text(text)) => Side::text(text.as_str()),
        Some(other @ (Content::Bytes(_) | Content::Link(_))) => Side::Opaque(other.digest()),
    }
}

pub(super) fn digest_of(side: &Side) -> Option<Digest> {
    match side {
        Side::Absent => None,
        Side::Text { digest, .. } | Side::Opaque(digest) => Some(*digest),
    }
}

/// A content for people: what it is, where it is no text.
fn in_words(content: &Content) -> String {
    match content {
        Content::Text(text) => text.clone(),
        Content::Bytes(bytes) => {
            let kind = ImageType::of_bytes(bytes).map_or("not text", ImageType::media_type);
            format!("({kind}, {} bytes)\n", bytes.len())
        }
        Content::Link(target) => format!("(symbolic link to {})\n", String::from_utf8_lossy(target)),
    }
}

pub(super) fn diff_of(before: Option<&Content>, after: Option<&Content>, path: &str) -> String {
    match (before, after) {
        (Some(Content::Text(before)), None) => diff::of_deleted(before, path),
        (None, None) => String::new(),
        (None, Some(Content::Text(after))) => diff::of_file(None, after, path),
        (Some(Content::Text(before)), Some(Content::Text(after))) => diff::of_file(Some(before), after, path),
        (before, after) => diff::of_bytes(before.is_some(), after.is_some(), path),
    }
}
