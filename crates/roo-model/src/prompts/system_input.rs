//! Input of the system prompt.

use std::sync::Arc;

use roo_catalog::{ServerResources, ServerTool, ToolName, ToolProtocol};
use roo_formats::modes::{Mode, Modes};

/// Input of a system prompt. Nothing here changes while a task runs.
#[derive(Clone, Copy, Debug)]
pub struct SystemInput<'a> {
    pub mode: &'a Mode,
    /// All modes, for the hierarchy.
    pub modes: &'a Modes,
    /// The slug of the mode at the top of the hierarchy, see [`roo_formats::modes::ENTRY`].
    pub entry: &'a str,
    /// The tools that are there, in the order of the catalogue: the mode's, without those that are
    /// not available. The tool for skills is available where there are skills, that for delegation
    /// where one of the mode's targets is among `modes`.
    pub tools: &'a [ToolName],
    pub server_tools: &'a [Arc<ServerTool>],
    pub server_resources: &'a [ServerResources],
    /// The skills of this mode.
    pub skills: &'a [SkillEntry<'a>],
    /// The workspace's intents; none where it has none.
    pub intents: Option<DeclaredIntents<'a>>,
    /// Tool protocol.
    pub protocol: ToolProtocol,
    /// The absolute paths of the workspace's roots; relative paths start at the first.
    pub roots: &'a [String],
    /// The name of the operating system.
    pub operating_system: &'a str,
    /// The shell that runs commands.
    pub shell: &'a str,
    /// The rules of user and project, in the order in which they are to be read.
    pub rules: &'a [RuleText<'a>],
}

/// The intents of a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeclaredIntents<'a> {
    /// Those that may be selected, by id and name.
    pub active: &'a [(String, String)],
    /// True if every tool needs one, and not only those that change something.
    pub for_every_tool: bool,
}

/// A rule that the user or the project has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleText<'a> {
    /// Source.
    pub heading: &'a str,
    /// Content.
    pub text: &'a str,
}

/// A skill that can be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkillEntry<'a> {
    pub name: &'a str,
    /// Purpose.
    pub description: &'a str,
}

impl<'a> SystemInput<'a> {
    pub(super) fn has(&self, tool: ToolName) -> bool {
        self.tools.contains(&tool)
    }

    /// The directory lives in the first root; without one there is none.
    pub(super) fn has_task_directory(&self) -> bool {
        !self.roots.is_empty()
    }

    /// The modes to which this one may delegate, among those that there are.
    pub(super) fn targets(&self) -> Vec<&'a Mode> {
        if self.has(ToolName::NewTask) { self.targets_of(self.mode) } else { Vec::new() }
    }

    pub(super) fn targets_of(&self, mode: &Mode) -> Vec<&'a Mode> {
        let modes = self.modes;
        mode.can_delegate_to.iter().filter_map(|slug| modes.find(slug).ok()).map(|mode| &**mode).collect()
    }
}
