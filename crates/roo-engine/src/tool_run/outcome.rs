//! Outcome of a tool call: what its model, its user, the log and the trace get of it.

use serde::{Deserialize, Serialize};

use super::binary_contents::BinaryContents;
use super::file_details::FileDetails;
use super::recorded::RecordedFile;
use super::saved::SavedFile;
use crate::intent_store::Binding;
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::{CommandId, Digest};
use roo_protocol::rule::SandboxAccess;
use roo_text::render::{first_line, one_line};
use roo_trace::record::{CommandRun, CommitMade, FileChange, ServerCall, Violation};

/// Outcome of a tool call.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Status at its end.
    pub status: ToolStatus,
    /// For the model.
    pub text: String,
    /// Images as data URLs.
    pub images: Vec<String>,
    /// One line for people.
    pub summary: String,
    /// Whole-file digests that the task has now seen, by the name of [`roo_workspace::Resolved::display`].
    /// None forgets a file.
    pub seen: Vec<(String, Option<Digest>)>,
    /// Edits that happened.
    pub edits: Vec<AppliedEdit>,
    /// Files that changed, as far as their texts are known.
    pub changes: Vec<FileChange>,
    /// What else is to be known of those.
    pub details: FileDetails,
    /// The contents of those that are no text, as far as checkpoints are to keep them.
    pub binaries: BinaryContents,
    /// The same changes for the log.
    pub recorded: Vec<RecordedFile>,
    /// The same files before and after, for checkpoints.
    pub saved: Vec<SavedFile>,
    /// The command that ran.
    pub command: Option<CommandRun>,
    /// The commits that it made.
    pub commits: Vec<CommitMade>,
    /// Changes out of scope, and what became of that.
    pub violations: Vec<Violation>,
    /// Sandbox level of a command, such as `L2`.
    pub sandbox: Option<String>,
    /// Access that the sandbox withheld from a command and the user may grant.
    pub withheld: SandboxAccess,
    /// The intent that is bound from now on, and its name.
    pub intent: Option<(Binding, String)>,
    /// The command that runs on in the background, and its line.
    pub background: Option<(CommandId, String)>,
    /// Gap in what is known of a command's changes; none where all is known.
    pub fault: Option<ChangesUnknown>,
    /// The call of a server's tool that was made.
    pub server_call: Option<ServerCall>,
    /// The exit code of the command that ran; none where none has ended by itself.
    pub exit_code: Option<i32>,
    /// True if nothing was written, as a file has changed since the call was judged.
    pub is_stale: bool,
    /// True if the user left out some of the changes in their editor.
    pub is_partial: bool,
    /// Conflicts that kept a branch's changes from being merged: the files, and the ids of their texts in the parent's folder.
    pub conflicts: Vec<(String, Option<String>)>,
}

/// The longest command in what the user is told of it, in characters.
const COMMAND: usize = 80;

/// A command of which it can't be said what it changed. Its task waits for its user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("What `{}` changed is not known: {reason}.", one_line(.command, COMMAND))]
pub struct ChangesUnknown {
    /// Its line.
    pub command: String,
    /// Reason, without a full stop.
    pub reason: String,
}

impl Outcome {
    /// An outcome of text alone.
    pub fn new(status: ToolStatus, text: impl Into<String>, summary: impl Into<String>) -> Self {
        Self {
            status,
            text: text.into(),
            images: vec![],
            summary: summary.into(),
            seen: vec![],
            edits: vec![],
            changes: vec![],
            details: FileDetails::default(),
            binaries: BinaryContents::default(),
            recorded: vec![],
            saved: vec![],
            command: None,
            commits: vec![],
            violations: vec![],
            sandbox: None,
            withheld: SandboxAccess::default(),
            intent: None,
            background: None,
            fault: None,
            server_call: None,
            exit_code: None,
            is_stale: false,
            is_partial: false,
            conflicts: vec![],
        }
    }

    /// A tool that did not reach its aim, in words for the model.
    pub fn failed(text: impl Into<String>) -> Self {
        Self::without_effect(ToolStatus::Failed, text.into())
    }

    /// A tool that was ended before it was done, in words for the model.
    pub fn interrupted(text: impl Into<String>) -> Self {
        Self::without_effect(ToolStatus::Interrupted, text.into())
    }

    fn without_effect(status: ToolStatus, text: String) -> Self {
        let summary = first_line(&text).to_owned();
        Self::new(status, text, summary)
    }
}

/// An edit that reached a buffer or the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedEdit {
    /// The document.
    pub uri: String,
    /// The digest before; none for a new file.
    pub before: Option<Digest>,
    /// The digest after; none for a deleted file.
    pub after: Option<Digest>,
}
