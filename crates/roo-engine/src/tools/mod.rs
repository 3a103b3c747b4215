//! The tools: one file each, with how its calls are judged and what a permitted one does. To add one: a file here, and
//! its line below. What models read of it is in `roo_catalog`.
//!
//! Tools that only steer the conversation (questions, to-do list, completion) are transitions of
//! the task in [`crate::engine`].

mod apply_diff;
mod apply_patch;
mod background;
mod command_effects;
mod context_command;
mod conversation;
mod edit;
mod execute_command;
mod fetch_instructions;
#[cfg(test)]
mod fixture;
mod insert_content;
mod list_files;
mod native;
mod new_task;
mod read_command_output;
mod read_file;
mod request_scope_expansion;
mod search_and_replace;
mod search_files;
mod select_active_intent;
pub(crate) mod skill;
mod stop_command;
mod switch_mode;
mod use_mcp_tool;
mod withheld;
mod write_to_file;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::intent_store::{Binding, Orchestration};
use roo_formats::intents::Recent;
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::{CommandId, Digest};
use roo_protocol::rule::SandboxAccess;
use roo_sandbox::exec::redaction::TextMask;
use roo_sandbox::exec::{Environment, EnvironmentRules, known_secrets};
use roo_text::render::{first_line, one_line};
use roo_trace::record::{CommandRun, CommitMade, FileChange, ServerCall, Violation};
use roo_workspace::Workspace;

pub use self::background::{BackgroundCommands, RunningCommand, StopReason};
pub use self::execute_command::outcome_of;

/// Context of a running tool.
#[derive(Clone)]
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
    /// Variables that commands see beside those that they always see.
    pub variables: BTreeMap<String, String>,
    /// The user's choice of variables that commands see besides the usual ones.
    pub environment: EnvironmentRules,
    /// True if what looks like a secret is masked in what commands print and tools read.
    pub redact_secrets: bool,
    /// The workspace's intents.
    pub orchestration: Arc<Orchestration>,
    /// Finds what was done for an intent before, the newest last.
    pub recent: RecentOf,
    /// True if the user chooses in their editor among the changes of several files.
    pub review: bool,
    /// Access that the user has refused to grant to commands.
    pub declined: SandboxAccess,
    /// Time limits of commands.
    pub command_limits: CommandLimits,
    /// The id of the command that the call runs, if it runs one.
    pub command_id: CommandId,
    /// The commands of the request that run in the background.
    pub background: Arc<BackgroundCommands>,
    /// Sends the running command to the background.
    pub to_background: CancellationToken,
}

impl ToolContext {
    /// Returns the mask of what a tool shows of files. Reads the disk.
    fn mask(&self) -> TextMask {
        let environment = || Environment::inherited_by(&self.environment).with(&self.variables);
        TextMask::new(self.redact_secrets, || {
            known_secrets(&environment(), self.workspace.roots().paths(), &[])
        })
    }
}

/// Time limits of commands, in the foreground and in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandLimits {
    /// Time after which a command is ended wherever it runs; none for never.
    pub timeout: Option<Duration>,
    /// Time after which a command goes to the background; none for never by itself.
    pub foreground: Option<Duration>,
}

/// Finds what was done for an intent of this id, the newest last.
pub type RecentOf = Arc<dyn Fn(&str) -> Vec<Recent> + Send + Sync>;

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
