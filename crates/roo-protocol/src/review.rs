//! The types of a review: a proposed edit as hunks, each of which its user accepts, refuses or changes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ids::{Digest, HunkId};

/// What a hunk does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum HunkKind {
    /// Lines of a file are replaced, added or removed.
    #[default]
    Edit,
    /// A file is created.
    Create,
    /// A file is deleted.
    Delete,
    /// A file gets another name. Changes of its lines are hunks of their own.
    Move,
}

/// Lines of a text, counted from 0; the end is exclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LineRange {
    /// First line.
    pub start: u32,
    /// Behind the last line.
    pub end: u32,
}

/// One change of a proposed edit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hunk {
    /// Answer with this id. Ids count through all files of the approval.
    pub hunk_id: HunkId,
    /// Binds an answer to this exact change.
    pub digest: Digest,
    /// What it does.
    #[serde(default)]
    pub kind: HunkKind,
    /// Lines of the text before.
    pub old_range: LineRange,
    /// Lines of the text after.
    pub new_range: LineRange,
    /// The lines before, with their ends.
    pub old_text: String,
    /// The lines after, with their ends.
    pub new_text: String,
}

/// Decision of a user on one hunk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "decision", rename_all = "camelCase")]
pub enum HunkDecision {
    /// It is applied as proposed.
    Accept,
    /// It is not applied.
    Refuse {
        /// The user's words; the model is told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// Other lines are put in the place of the old ones.
    Edit {
        /// These.
        text: String,
    },
}

/// Answer to one hunk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HunkAnswer {
    /// The hunk.
    pub hunk_id: HunkId,
    /// Its digest, as it was shown; the approval's digest alone counts when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// Decision.
    #[serde(flatten)]
    pub decision: HunkDecision,
}

/// A hunk with the decision on it, as it was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReviewedHunk {
    /// The hunk.
    pub hunk_id: HunkId,
    /// Of the exact change.
    pub digest: Digest,
    /// What it does.
    #[serde(default)]
    pub kind: HunkKind,
    /// The file, relative to its workspace folder, or absolute outside of the first one.
    pub path: String,
    /// First line, counted from 1, of what the file holds for it once the answer is carried out.
    pub line: u32,
    /// The lines before.
    pub old_text: String,
    /// The proposed lines.
    pub new_text: String,
    /// Decision.
    #[serde(flatten)]
    pub decision: HunkDecision,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_one_flat_object() {
        let answers = json!([
            { "hunkId": "h1", "decision": "accept" },
            { "hunkId": "h2", "decision": "refuse", "text": "Keep it." },
            { "hunkId": "h3", "digest": Digest::of("x"), "decision": "edit", "text": "x\n" },
        ]);
        let read: Vec<HunkAnswer> = serde_json::from_value(answers.clone()).unwrap();
        assert_eq!(read[1].decision, HunkDecision::Refuse { text: Some("Keep it.".into()) });
        assert_eq!(serde_json::to_value(&read).unwrap(), answers);
    }
}
