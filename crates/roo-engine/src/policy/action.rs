//! Actions that checks of several tools know: commands, edits and merges, with every path resolved.

use std::path::PathBuf;
use std::time::Duration;

use super::confined::Confined;
use super::plan::PlannedMerge;
use super::watch::Watch;
use roo_protocol::ids::{Digest, Urid};
use roo_workspace::{FileEdit, Resolved};

/// A command to run.
#[derive(Debug)]
pub struct Execute {
    /// For the shell.
    pub command: String,
    /// The commands that it joins, where each is to run whatever came of those before; else none.
    pub parts: Vec<String>,
    /// The directory to run in.
    pub directory: Resolved,
    /// Time to wait for its end, if the model sets one.
    pub timeout: Option<Duration>,
    /// Whether it is to run on, and in what.
    pub session: CommandSession,
    /// Sandbox that bounds it; none where nothing does.
    pub confined: Option<Box<Confined>>,
    /// Watch that finds its changes; none where they are not.
    pub watch: Option<Box<Watch>>,
}

/// How a command is to run, as its call asks for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandSession {
    /// True if it is to go to the background at once.
    pub background: bool,
    /// True if it is to run in a terminal.
    pub pty: bool,
    /// Bounds in which what is typed to it can do no more than a command that the sandbox holds; none where it can.
    pub held: Option<Digest>,
}

/// Answers that the server gives itself instead of running a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Native {
    /// The command for the system context.
    SystemContext,
    /// A recipe that draws an id for the request, which has one.
    Urid(Urid),
    /// A command that makes the request's own directory, relative to the first root.
    TaskDirectory(String),
}

/// A proposed new text of one file.
#[derive(Debug)]
pub struct ProposedEdit {
    /// The file.
    pub path: Resolved,
    /// The text that the proposal was made from; none for a new file.
    pub before: Option<String>,
    /// The whole new text.
    pub after: String,
    /// Note to the model on how the edit was applied.
    pub notice: Option<String>,
    /// How the user answered, if they did hunk by hunk.
    pub review: Option<ReviewedTexts>,
}

/// Texts of an edit of which the user answered each hunk.
#[derive(Debug, Default)]
pub struct ReviewedTexts {
    /// By file in the order of the edit, the text with the model's lines where the user put others; none where they put none.
    pub by_model: Vec<Option<String>>,
}

/// Proposed changes of several files, which happen together or not at all.
#[derive(Debug)]
pub struct ProposedPatch {
    /// In the order of the patch; at least one, no place twice, all in one workspace folder.
    pub edits: Vec<FileEdit>,
    /// Note to the model on how the patch was applied.
    pub notice: Option<String>,
    /// How the user answered, if they did hunk by hunk.
    pub review: Option<ReviewedTexts>,
}

/// Proposed changes of a language server: a rename or a code action.
#[derive(Debug)]
pub struct ProposedRefactoring {
    /// The changes of files.
    pub patch: ProposedPatch,
}

/// Proposed merge of a branch's work tree.
#[derive(Debug)]
pub struct ProposedMerge {
    /// The changes of files that it comes to; maybe none.
    pub patch: ProposedPatch,
    /// What is merged, and what stays behind.
    pub merge: PlannedMerge,
}

/// Files of a branch's work tree in which its changes conflict with those of others.
#[derive(Debug)]
pub struct MergeConflict {
    /// The folder of the work tree.
    pub folder: PathBuf,
    /// Private directory for its snapshots.
    pub store: PathBuf,
    pub files: Vec<ConflictingFile>,
}

/// File in which a branch's changes conflict with those of others.
#[derive(Debug)]
pub struct ConflictingFile {
    /// Its path in the folder.
    pub path: String,
    /// Its text in the folder of the parent; none where it is not there.
    pub ours: Option<String>,
    /// Its text in the work tree; none where it is not there.
    pub theirs: Option<String>,
    /// The text that it gets in the work tree; none where it stays.
    pub resolving: Option<String>,
    /// The path, and what conflicts.
    pub description: String,
}
