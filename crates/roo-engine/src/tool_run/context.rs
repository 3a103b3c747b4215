//! Context of a running tool: what it may use, set up for each call by whoever runs it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::background::BackgroundCommands;
use super::command_runner::CommandRunner;
use super::shadow::{ShadowRepositories, Sources};
use super::task_browser::TaskBrowser;
use crate::intent_store::Orchestration;
use crate::server_tools::CallingTask;
use roo_documents::Extractor;
use roo_formats::intents::Recent;
use roo_protocol::ids::CommandId;
use roo_protocol::rule::SandboxAccess;
use roo_sandbox::exec::redaction::TextMask;
use roo_sandbox::exec::{Environment, EnvironmentRules, known_secrets};
use roo_workspace::Workspace;

/// Context of a running tool.
#[derive(Clone)]
pub struct ToolContext {
    /// Files and open buffers.
    pub workspace: Arc<Workspace>,
    /// Receives output while the tool runs; only shown, never part of the result.
    pub output: Arc<dyn Fn(&str) + Send + Sync>,
    /// Ends the tool. A tool that is ended returns [`ToolStatus::Interrupted`](roo_protocol::event::ToolStatus::Interrupted).
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
    /// The task's browser.
    pub browser: Arc<TaskBrowser>,
    /// Steers the command that the call runs in the foreground.
    pub foreground: ForegroundControl,
    /// Runs commands that no sandbox bounds.
    pub commands: Arc<dyn CommandRunner>,
    /// Through which it is found what a command changes that nothing supervises; none where that isn't wanted.
    pub shadow: Option<Arc<ShadowRepositories>>,
    /// Changes that the request has made so far.
    pub changes: Arc<dyn RequestChanges>,
    /// Reads documents that are no text files.
    pub extractor: Extractor,
    /// Answers what a server asks that is called.
    pub caller: Arc<dyn CallingTask>,
}

impl ToolContext {
    /// Returns what snapshots of the workspace are taken of.
    pub(crate) fn sources(&self) -> Sources {
        let context = self.clone();
        Sources {
            workspace: Arc::clone(&self.workspace),
            environment: self.environment.clone(),
            mask: Arc::new(move || context.mask()),
        }
    }

    /// Returns the mask of what a tool shows of files. Reads the disk.
    pub(crate) fn mask(&self) -> TextMask {
        let environment = || Environment::inherited_by(&self.environment).with(&self.variables);
        TextMask::new(self.redact_secrets, || {
            known_secrets(&environment(), self.workspace.roots().paths(), &[])
        })
    }

    /// Returns the same mask, made on a thread that may block.
    pub(crate) async fn read_mask(&self) -> TextMask {
        let context = self.clone();
        // There is no such thread any more where the program ends.
        roo_durable::spawn_blocking(move || context.mask()).await.unwrap_or_else(|_| self.mask())
    }
}

/// Changes that a request has made so far.
pub trait RequestChanges: Send + Sync {
    /// Returns those that the files still hold, of one file or of all. What can't be read is told in words.
    fn diff<'a>(&'a self, path: Option<&'a str>) -> BoxFuture<'a, Result<RequestDiff, String>>;
}

/// Changes of a request as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestDiff {
    /// A unified diff; empty where there are none.
    pub text: String,
    /// Number of files in it.
    pub files: usize,
}

/// Changes of a call that belongs to no request: none.
#[derive(Debug)]
pub struct NoChanges;

impl RequestChanges for NoChanges {
    fn diff<'a>(&'a self, _: Option<&'a str>) -> BoxFuture<'a, Result<RequestDiff, String>> {
        Box::pin(std::future::ready(Ok(RequestDiff::default())))
    }
}

/// What the user may want of a command in the foreground. Clones steer the same one.
#[derive(Clone, Debug, Default)]
pub struct ForegroundControl {
    /// Sends it to the background.
    pub to_background: CancellationToken,
    /// Ends it; its call has the result that it was stopped.
    pub stop: CancellationToken,
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
