//! Plan of an allowed call, as far as the task has to know before it does.
//!
//! Plain values for the log, unlike [`super::Permit`]: to know a plan allows nothing.

use serde::{Deserialize, Serialize};

use crate::tool_run::FileDetails;
use roo_catalog::ToolProtocol;
use roo_formats::modes::delegation::Delegation;
use roo_protocol::ids::Digest;
use roo_protocol::task::TodoStatus;
use roo_workspace::TextEncoding;

/// Plans of allowed calls.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// Nothing that has to be known.
    Nothing,
    /// Write a file.
    Write(PlannedWrite),
    /// Change several files, all or none.
    WriteAll(PlannedPatch),
    /// Have a conflict resolved: nothing is merged, and the branch gets both versions in its work tree.
    Conflict,
    /// Open a branch.
    Branch(Box<PlannedBranch>),
    /// Go on in another mode.
    Mode(ModeChange),
}

/// Plan of a write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedWrite {
    /// The file, relative to its root, or absolute outside of the first root.
    pub path: String,
    /// The digest before; none for a new file.
    pub before: Option<Digest>,
    /// The digest after.
    pub after: Digest,
    /// True if it saves context that the request's branches share.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
}

/// Plan of a change of several files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedPatch {
    /// Every place that changes: of a file that is moved both.
    pub files: Vec<PlannedFile>,
    /// The merge of a branch's work tree that it is; none for a patch of a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<PlannedMerge>,
}

/// Merge of a branch's work tree into the folder that it was made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedMerge {
    /// The snapshot of the work tree that is merged.
    pub snapshot: String,
    /// Changed files that stay behind, as they can't be merged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// One place of a change of several files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedFile {
    /// The file, relative to its root, or absolute outside of the first root.
    pub path: String,
    /// The digest before; none where nothing is.
    pub before: Option<Digest>,
    /// The digest after; none where nothing will be.
    pub after: Option<Digest>,
    /// The name before, of one that is moved here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_from: Option<String>,
    /// The encoding of a file that will be gone; none for plain UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<TextEncoding>,
}

/// Plan of an edit, as logged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PlannedEdit {
    /// Of one file.
    File(PlannedWrite),
    /// Of several.
    Patch(PlannedPatch),
}

impl PlannedEdit {
    /// The merge of a branch's work tree that it is.
    pub fn merge(&self) -> Option<&PlannedMerge> {
        match self {
            Self::File(_) => None,
            Self::Patch(patch) => patch.merge.as_ref(),
        }
    }

    /// Returns whether it saves context that the request's branches share.
    pub fn shared(&self) -> bool {
        matches!(self, Self::File(PlannedWrite { shared: true, .. }))
    }

    /// The encodings of the files that it deletes or moves.
    pub fn removed_encodings(&self) -> FileDetails {
        let mut encodings = FileDetails::default();
        if let Self::Patch(patch) = self {
            for file in &patch.files {
                if let Some(encoding) = file.encoding {
                    encodings.add_encoding(file.path.clone(), encoding);
                }
            }
        }
        encodings
    }

    /// Every place that it changes, with the digests before and after.
    pub fn places(&self) -> Vec<(&str, Option<Digest>, Option<Digest>)> {
        match self {
            Self::File(write) => vec![(&write.path, write.before, Some(write.after))],
            Self::Patch(patch) => {
                patch.files.iter().map(|file| (file.path.as_str(), file.before, file.after)).collect()
            }
        }
    }
}

/// Plan of a new branch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedBranch {
    /// The slug of its mode.
    pub mode: String,
    /// Emoji that marks the mode.
    pub emoji: String,
    /// The name of its model profile.
    pub profile: String,
    /// Protocol in which its model calls tools.
    pub protocol: ToolProtocol,
    /// The brief.
    pub delegation: Delegation,
    /// The request's directory, relative to the first root; none when there is no root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_directory: Option<String>,
    /// Its first to-do list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub todos: Vec<(String, TodoStatus)>,
    /// True if it is to work in a git worktree of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub worktree: bool,
}

/// A task goes on in another mode, or with another model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModeChange {
    /// The slug of the mode and what marks it; none when it stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<(String, String)>,
    /// The name of the profile and how its model calls tools; none when it stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<(String, ToolProtocol)>,
}

impl ModeChange {
    /// Into this mode, with the model that the settings give it; none for the profile when they
    /// define none of that name, so that the old one stays.
    pub(crate) fn into_mode(
        mode: &roo_formats::modes::Mode,
        settings: &roo_formats::config::Settings,
    ) -> Self {
        let (name, profile) = settings.profile_of(&mode.slug);
        Self {
            mode: Some((mode.slug.clone(), mode.emoji.clone())),
            profile: profile.map(|profile| (name.to_owned(), profile.tool_protocol())),
        }
    }
}
