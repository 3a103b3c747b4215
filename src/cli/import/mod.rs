//! `roo-lsp import`: settings, modes, MCP servers and tasks of other programs, taken over beside what the user has already.
//!
//! `roo` and `claude_code` read what a program keeps, `settings` what it exported; `tasks` makes requests of conversations, `modes`
//! takes modes over, `unasked` finds calls of MCP servers that nobody is asked about. Each says what was taken, what wasn't, and why; a second import takes only what is new. MCP servers
//! are taken over by the code of `mcp import`.

mod claude_code;
mod modes;
mod roo;
mod settings;
mod tasks;
mod unasked;

use super::arguments::{Common, ImportCommand};
use super::{CliError, Ending};

/// Imports what another program exported or keeps. Fails if something was left out that could have been taken over.
pub(super) fn import(common: &Common, command: ImportCommand) -> Result<Ending, CliError> {
    match command {
        ImportCommand::Roo(arguments) => match &arguments.path {
            Some(file) if !file.is_dir() => settings::import(common, &arguments, file),
            _ => roo::import(common, &arguments),
        },
        ImportCommand::ClaudeCode(arguments) => claude_code::import(common, &arguments),
    }
}
