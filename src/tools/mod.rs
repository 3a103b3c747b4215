//! The tools that act on the world: one file each, and [`run`], which consumes the gate's permit.
//!
//! Tools that only steer the conversation (questions, to-do list, completion) are transitions of
//! the task in [`crate::engine`] and have no file here.

pub mod list_files;
pub mod read_file;
pub mod search_files;
pub mod write;

#[cfg(test)]
#[cfg(unix)]
mod fixture;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::protocol::event::ToolStatus;
use crate::protocol::ids::Digest;
use crate::workspace::Workspace;

/// What a running tool may use.
pub struct ToolContext {
    /// Files and open buffers.
    pub workspace: Arc<Workspace>,
    /// Receives output while the tool runs; only shown, never part of the result.
    pub output: Arc<dyn Fn(&str) + Send + Sync>,
    /// Ends the tool. A tool that is ended returns [`ToolStatus::Interrupted`].
    pub cancel: CancellationToken,
    /// Names the file that takes output over the limit, inside the request's task directory:
    /// `.roo/tasks/<URID>/<stem>.txt`.
    pub overflow_stem: String,
    /// The request's task directory, relative to the first root.
    pub task_directory: String,
}

/// What came of a tool call.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub status: ToolStatus,
    /// For the model.
    pub text: String,
    /// Images as data URLs.
    pub images: Vec<String>,
    /// One line for people.
    pub summary: String,
    /// Whole-file digests that the task has now seen, by path relative to its root.
    pub seen: Vec<(String, Option<Digest>)>,
    /// Edits that happened.
    pub edits: Vec<AppliedEdit>,
}

impl Outcome {
    /// An outcome of text alone.
    pub fn new(status: ToolStatus, text: impl Into<String>, summary: impl Into<String>) -> Self {
        Self {
            status,
            text: text.into(),
            images: Vec::new(),
            summary: summary.into(),
            seen: Vec::new(),
            edits: Vec::new(),
        }
    }
}

/// An edit that reached a buffer or the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedEdit {
    /// The document.
    pub uri: String,
    /// The digest before; none for a new file.
    pub before: Option<Digest>,
    /// The digest after.
    pub after: Digest,
}
