//! Files as they were before a change and after it, as checkpoints keep them: by digests of contents that are kept beside
//! the request's log.
//!
//! What holds a secret is kept nowhere. Of such a file the changed lines are kept where they hold none.

use std::io;

use serde::{Deserialize, Serialize};

use super::binary_contents::BinaryContents;
use super::file_details::FileDetails;
use super::recorded::{RecordedLines, lines_without_secrets};
use roo_durable::{Contents, MAX_CONTENT_BYTES};
use roo_protocol::checkpoint::FileChangeKind;
use roo_protocol::ids::Digest;
use roo_sandbox::exec::redaction::TextMask;
use roo_trace::record::{FileChange, Side};
use roo_workspace::TextEncoding;

/// A file that a task changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedFile {
    /// The file as tools name it.
    pub path: String,
    /// Content before.
    pub before: SavedContent,
    /// Content after.
    pub after: SavedContent,
    /// The changes by lines, where a content holds a secret elsewhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<RecordedLines>,
    /// The encoding of a file that is gone after; none for plain UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<TextEncoding>,
    /// True for a file that is gone after, and could be executed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executable: bool,
    /// The number of directories right above a new file that were made with it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub directories: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Content of a file at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SavedContent {
    /// There was no file.
    Absent,
    /// The text of it is kept.
    Kept(Digest),
    /// Its bytes are kept, as it is no text.
    KeptBytes(Digest),
    /// It was a symbolic link, whose target is kept.
    Link(Digest),
    /// It is not kept.
    LeftOut(WhyLeftOut),
}

/// Reasons why a content is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
pub enum WhyLeftOut {
    /// It holds what looks like a secret.
    #[error("it holds what looks like a secret, which is kept nowhere")]
    Secret,
    /// It is too large.
    #[error("it is larger than {} MiB", MAX_CONTENT_BYTES >> 20)]
    TooLarge,
    /// Nobody knows it.
    #[error("it is larger than {} MiB, or its content from before the change is not known", MAX_CONTENT_BYTES >> 20)]
    Unknown,
    /// The disk refused it.
    #[error("its content could not be written to the state directory")]
    Disk,
}

impl SavedContent {
    /// Keeps a text, unless it holds a secret or is too large.
    pub fn keep(text: Option<&str>, contents: &Contents, mask: &TextMask) -> io::Result<(Self, bool)> {
        let Some(text) = text else { return Ok((Self::Absent, false)) };
        if text.len() as u64 > MAX_CONTENT_BYTES {
            return Ok((Self::LeftOut(WhyLeftOut::TooLarge), false));
        }
        if mask.masked(text).is_some() {
            return Ok((Self::LeftOut(WhyLeftOut::Secret), false));
        }
        contents.keep(text.as_bytes()).map(|(digest, is_new)| (Self::Kept(digest), is_new))
    }

    /// Keeps what is no text, unless it holds a secret or is too large.
    fn keep_bytes(bytes: &[u8], contents: &Contents, mask: &TextMask) -> io::Result<(Self, bool)> {
        if bytes.len() as u64 > MAX_CONTENT_BYTES {
            return Ok((Self::LeftOut(WhyLeftOut::TooLarge), false));
        }
        if mask.finds_in(bytes) {
            return Ok((Self::LeftOut(WhyLeftOut::Secret), false));
        }
        contents.keep(bytes).map(|(digest, is_new)| (Self::KeptBytes(digest), is_new))
    }

    /// The digest of what is kept.
    pub fn kept(self) -> Option<Digest> {
        match self {
            Self::Kept(digest) | Self::KeptBytes(digest) | Self::Link(digest) => Some(digest),
            Self::Absent | Self::LeftOut(_) => None,
        }
    }
}

impl SavedFile {
    /// What the change does to the file.
    pub fn kind(&self) -> FileChangeKind {
        match (self.before, self.after) {
            (SavedContent::Absent, _) => FileChangeKind::Created,
            (_, SavedContent::Absent) => FileChangeKind::Deleted,
            _ => FileChangeKind::Changed,
        }
    }

    /// Reason why the content before can't be restored; none where it can.
    pub fn left_out(&self) -> Option<WhyLeftOut> {
        match (self.before, self.after) {
            _ if !self.lines.is_empty() => None,
            (SavedContent::LeftOut(why), _) | (_, SavedContent::LeftOut(why)) => Some(why),
            _ => None,
        }
    }
}

/// Saves changes of files. A file that is moved is deleted in one place and created in the other. Returns the digests of
/// contents that are new too: they are not durable yet.
pub fn save(
    changes: &[FileChange],
    details: &FileDetails,
    binaries: &BinaryContents,
    contents: &Contents,
    mask: &TextMask,
) -> (Vec<SavedFile>, Vec<Digest>) {
    let (mut files, mut new) = (Vec::new(), Vec::new());
    let mut keep = |side: &Side| {
        let kept = match side {
            Side::Absent => return SavedContent::Absent,
            Side::Opaque(digest) => match (binaries.of(*digest), binaries.target_of(*digest)) {
                (Some(bytes), _) => SavedContent::keep_bytes(bytes, contents, mask),
                (None, Some(target)) => {
                    SavedContent::keep_bytes(target, contents, mask).map(|(kept, is_new)| {
                        let link = kept.kept().map_or(kept, SavedContent::Link);
                        (link, is_new)
                    })
                }
                (None, None) => return SavedContent::LeftOut(WhyLeftOut::Unknown),
            },
            Side::Text { text, .. } => SavedContent::keep(Some(text), contents, mask),
        };
        match kept {
            Ok((kept, is_new)) => {
                new.extend(kept.kept().filter(|_| is_new));
                kept
            }
            Err(error) => {
                tracing::warn!(%error, "a checkpoint lacks the content of a file");
                SavedContent::LeftOut(WhyLeftOut::Disk)
            }
        }
    };
    for change in changes {
        let (before, after) = (keep(&change.before), keep(&change.after));
        let from = change.old_path.as_ref().filter(|from| **from != change.path);
        if from.is_none() && before == after && !matches!(before, SavedContent::LeftOut(_)) {
            continue;
        }
        let is_secret = [before, after].contains(&SavedContent::LeftOut(WhyLeftOut::Secret));
        let lines = is_secret.then(|| lines_without_secrets(change, mask)).flatten().unwrap_or_default();
        let file = |path: &String, before, after, lines| {
            let encoding = details.encoding_of(path).filter(|_| after == SavedContent::Absent);
            let executable = after == SavedContent::Absent && details.was_executable(path);
            let is_new = before == SavedContent::Absent && after != SavedContent::Absent;
            let directories = if is_new { details.directories_of(path) } else { 0 };
            SavedFile { path: path.clone(), before, after, lines, encoding, executable, directories }
        };
        match from {
            Some(from) => files.extend([
                file(from, before, SavedContent::Absent, vec![]),
                file(&change.path, SavedContent::Absent, after, vec![]),
            ]),
            None => files.push(file(&change.path, before, after, lines)),
        }
    }
    (files, new)
}

/// The digest of what a checkpoint keeps.
pub fn digest_of(files: &[SavedFile]) -> Digest {
    // Writing plain data as JSON can't fail.
    Digest::of(serde_json::to_vec(files).unwrap_or_default())
}
