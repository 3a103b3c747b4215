//! Context of a decision: what is known of the workspace, and of the call and its task.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::bounds::Bounds;
use super::recorder::Recorder;
use super::review::Review;
use crate::approvals::StandingRules;
use crate::customization::Customization;
use crate::hooks::{HookContext, UserHooks};
use crate::intent_store::{Binding, Orchestration};
use crate::server_tools::ServerTools;
use crate::tool_run::{BackgroundCommands, TaskBrowser};
use roo_formats::config::{Settings, ToolChoice};
use roo_formats::modes::{Mode, Modes};
use roo_index::CodeIndex;
use roo_language_servers::LanguageServers;
use roo_model::providers::ModelSource;
use roo_protocol::ids::{Digest, Urid};
use roo_protocol::rule::SandboxAccess;
use roo_workspace::Workspace;

/// Data on which decisions rest.
#[derive(Clone)]
pub struct PolicyContext {
    /// The files.
    pub workspace: Arc<Workspace>,
    /// The user's settings.
    pub settings: Arc<Settings>,
    /// Customization by users and workspaces.
    pub customization: Arc<Customization>,
    /// The workspace's intents.
    pub orchestration: Arc<Orchestration>,
    /// Rules by which the user always allows or refuses.
    pub rules: Arc<StandingRules>,
    /// Bounds of commands.
    pub bounds: Arc<Bounds>,
    /// Keeps the trace.
    pub recorder: Arc<Recorder>,
    pub server_tools: Arc<dyn ServerTools>,
    /// The language servers of the workspace folders; none for a work tree.
    pub language_servers: Arc<LanguageServers>,
    /// The index of the code in the workspace folders; none for a work tree.
    pub code_index: Arc<CodeIndex>,
    /// Connects profiles with models, for those that make images.
    pub models: Arc<dyn ModelSource>,
    /// True if the files are those of a branch's work tree.
    pub is_worktree: bool,
}

/// Task that makes a call, and its knowledge.
#[derive(Clone, Copy)]
pub struct ToolCallContext<'a> {
    /// The task's mode.
    pub mode: &'a Mode,
    /// The modes that there are.
    pub modes: &'a Modes,
    /// The model profile that the user chose for the request, whatever the mode.
    pub profile: Option<&'a str>,
    /// Choice of the mode's tools for the task's model.
    pub tools: &'a ToolChoice,
    /// True if another task delegated it.
    pub is_branch: bool,
    /// True if the same answer opens other branches too.
    pub opens_parallel_branches: bool,
    /// The work tree that the call would merge; none for any other call.
    pub merge: Option<MergeSource<'a>>,
    /// Number of delegations of the task since its user's last message.
    pub delegations: u32,
    /// The request.
    pub urid: &'a Urid,
    /// The whole-file digests that the task last saw, by path.
    pub seen: &'a BTreeMap<String, Digest>,
    /// The digest of the action that the user allowed; it counts for that action alone.
    pub approved: Option<Digest>,
    /// The user's decisions on the hunks of the edit that they allowed; none where they answered it as a whole.
    pub review: Option<&'a Review>,
    /// The intent that the task has bound.
    pub intent: Option<&'a Binding>,
    /// Intents that the tasks above it had bound when they delegated: it never covers more than those.
    pub within: &'a [Binding],
    /// The user hooks that are asked; none where none are.
    pub hooks: Option<UserHookContext<'a>>,
    /// Standing rules that the user may be offered.
    pub offers: Offers<'a>,
    /// The commands of the request that run in the background; none where there is no such place.
    pub commands: Option<&'a BackgroundCommands>,
    /// The task's browser; none where there can't be one.
    pub browser: Option<&'a TaskBrowser>,
}

/// A branch's work tree whose changes are to be merged.
#[derive(Clone, Copy, Debug)]
pub struct MergeSource<'a> {
    /// The folder in it that stands for the workspace folder.
    pub folder: &'a Path,
    /// The snapshot that the merge begins with.
    pub base: &'a str,
    /// The ids of the texts with which it begins in files of which a conflict was found; none where the file was not there.
    pub conflict_bases: &'a BTreeMap<String, Option<String>>,
    /// Private directory for its snapshots.
    pub store: &'a Path,
}

/// The user hooks that count, and the context in which they are asked.
#[derive(Clone, Copy)]
pub struct UserHookContext<'a> {
    pub hooks: &'a UserHooks,
    /// Who asks, and where.
    pub hook_context: HookContext<'a>,
    /// True if the call would end the task; then they are asked about that too.
    pub ends: bool,
    /// Number of times in a row that they have kept the task from ending.
    pub continuations: u32,
}

/// Data on the standing rules that a task's user may be offered for commands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offers<'a> {
    /// The user has said that commands are to be asked about each time.
    pub declines_confined: bool,
    /// Access that the sandbox withheld from this very call before, and the user has not declined to grant.
    pub withheld: Option<&'a SandboxAccess>,
    /// Access that the user has declined to grant to the task; none where they have declined none.
    pub declined: Option<&'a SandboxAccess>,
    /// The SSH key with which git did not sign for an earlier command of the task.
    pub signing_key: Option<&'a str>,
}
