//! Exact actions, and the one-use key to run one.

use std::time::Duration;

use super::bounds::{Confined, Watch};
use crate::customization::Skill;
use roo_formats::intents::{Change, Intent};
use roo_protocol::ids::{CommandId, ToolCallId, Urid};
use roo_text::lines::LineRange;
use roo_workspace::{FileEdit, Resolved};

/// What a tool call would do, with every path resolved. Made by the gate only.
#[derive(Debug)]
pub enum Action {
    /// Read files.
    Read {
        /// The files, in the order asked for.
        files: Vec<ReadTarget>,
    },
    /// List a directory.
    List {
        /// The directory.
        directory: Resolved,
        /// Whether to go into directories.
        recursive: bool,
    },
    /// Search below a directory.
    Search {
        /// The directory.
        directory: Resolved,
        /// Rust regex syntax.
        regex: String,
        /// A glob on file names.
        file_pattern: Option<String>,
    },
    /// Load the instructions of a skill.
    Skill {
        /// The skill.
        skill: Skill,
        /// What it is to be used on.
        arguments: Option<String>,
    },
    /// Write one file.
    Write(Proposal),
    /// Change several files, all or none.
    WriteAll(ProposedPatch),
    /// Run a command.
    Execute {
        /// For the shell.
        command: String,
        /// The commands that it joins, where each is to run whatever came of those before; else none.
        parts: Vec<String>,
        /// The directory to run in.
        directory: Resolved,
        /// How long its end is waited for, where the model says so.
        timeout: Option<Duration>,
        /// What bounds it; none where nothing does.
        confined: Option<Box<Confined>>,
        /// How its changes are found; none where they are not.
        watch: Option<Box<Watch>>,
    },
    /// Read the new output of a command in the background.
    ReadCommand {
        /// The command; none to list all.
        command: Option<CommandId>,
        /// How long its end is waited for.
        timeout: Duration,
    },
    /// End a command in the background.
    StopCommand(CommandId),
    /// Answer a command without running it.
    Native(Native),
    /// Bind an intent.
    SelectIntent {
        /// As it is accepted.
        intent: Box<Intent>,
        /// Those that it is within, accepted with it.
        within: Vec<Intent>,
        /// Scopes that cover the same files, in words.
        overlapping: Vec<String>,
    },
    /// Give the bound intent more scope.
    ExpandIntent {
        /// What is added.
        changes: Vec<Change>,
        /// The intent as the user has accepted it.
        after: Box<Intent>,
    },
}

/// What the server answers itself instead of running a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Native {
    /// The command for the system context.
    SystemContext,
    /// A recipe that draws an id for the request, which has one.
    Urid(Urid),
    /// A command that makes the request's own directory, relative to the first root.
    TaskDirectory(String),
}

/// One file to read.
#[derive(Debug)]
pub struct ReadTarget {
    /// The file, or why it can't be read; one unreadable file doesn't hide the others.
    pub path: Result<Resolved, String>,
    /// As the model wrote it.
    pub named: String,
    /// The ranges; the whole file when empty.
    pub ranges: Vec<LineRange>,
}

/// A proposed new text of one file.
#[derive(Debug)]
pub struct Proposal {
    /// The file.
    pub path: Resolved,
    /// The text that the proposal was made from; none for a new file.
    pub before: Option<String>,
    /// The whole new text.
    pub after: String,
    /// What the model should know about how the edit was applied.
    pub notice: Option<String>,
}

/// Proposed changes of several files, which happen together or not at all.
#[derive(Debug)]
pub struct ProposedPatch {
    /// In the order of the patch; at least one, no place twice, all in one workspace folder.
    pub edits: Vec<FileEdit>,
    /// What the model should know about how the patch was applied.
    pub notice: Option<String>,
}

/// The gate's one-use key to run one exact action: it can be neither cloned nor stored, and only
/// the gate makes one.
#[derive(Debug)]
pub struct Permit {
    call_id: ToolCallId,
    action: Box<Action>,
}

impl Permit {
    pub(super) fn new(call_id: ToolCallId, action: Action) -> Self {
        Self { call_id, action: Box::new(action) }
    }

    /// The call that may run.
    pub fn call_id(&self) -> &ToolCallId {
        &self.call_id
    }

    /// The whole texts that an edit replaces and writes, each with its file's path.
    pub fn texts(&self) -> Vec<(String, String)> {
        match &*self.action {
            Action::Write(Proposal { path, before, after, .. }) => [before.as_ref(), Some(after)]
                .into_iter()
                .flatten()
                .map(|text| (path.display(), text.clone()))
                .collect(),
            Action::WriteAll(patch) => patch.edits.iter().flat_map(FileEdit::texts).collect(),
            _ => vec![],
        }
    }

    /// Gives up the permit for its action.
    pub fn consume(self) -> Action {
        *self.action
    }
}
