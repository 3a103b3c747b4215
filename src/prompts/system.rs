//! The system prompt of a task.

use crate::catalog::ToolName;
use crate::modes::Mode;
use crate::parser::ToolProtocol;

use super::{sections, tool_use};

/// What a system prompt depends on. Nothing here changes while a task runs.
#[derive(Clone, Copy, Debug)]
pub struct SystemInput<'a> {
    /// The mode.
    pub mode: &'a Mode,
    /// The tools that are there, in the order of the catalogue: the mode's, without those that are
    /// not available.
    pub tools: &'a [ToolName],
    /// How they are called.
    pub protocol: ToolProtocol,
    /// The absolute paths of the workspace's roots; relative paths start at the first.
    pub roots: &'a [String],
    /// The name of the operating system.
    pub operating_system: &'a str,
    /// The shell that runs commands.
    pub shell: &'a str,
}

impl SystemInput<'_> {
    pub(super) fn has(&self, tool: ToolName) -> bool {
        self.tools.contains(&tool)
    }
}

/// Composes the prompt. Equal inputs give equal bytes.
pub fn system(input: &SystemInput<'_>) -> String {
    let sections = [
        Some(sections::header(input)),
        Some(sections::process(input)),
        sections::task_directory(input),
        Some(tool_use::tool_use(input)),
        Some(sections::capabilities(input)),
        Some(sections::rules(input)),
        Some(sections::error_handling()),
        Some(sections::output_format(input)),
        Some(sections::system_information(input)),
        Some(sections::objective()),
    ];
    let mut prompt = sections.into_iter().flatten().collect::<Vec<_>>().join("\n\n");
    prompt.push('\n');
    prompt
}
