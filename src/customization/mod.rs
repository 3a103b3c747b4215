//! What users and workspaces bring to steer agents: slash commands and skills.
//!
//! Files are read here, bounded and without being obeyed. What a command expands to in a message is
//! in [`crate::mentions`]; whether a workspace's files are loaded at all is for the caller to decide.

mod commands;
mod directory;
mod front_matter;
mod skills;

use std::fmt;
use std::path::PathBuf;

use crate::config::Position;
use crate::modes::Source;

pub use commands::SlashCommand;
pub use front_matter::{Fault, FrontMatter};
pub use skills::{Origin, Skill, SkillError, SkillSource, Skills, read_body};

pub(crate) use commands::is_name as is_command_name;

/// Reading the slash commands of several directories.
pub use commands::load as load_commands;

/// Whose files they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The user's own, for every workspace. Links lead anywhere.
    Global,
    /// The workspace's. Links lead nowhere out of it.
    Project,
}

impl From<Scope> for Source {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::Global => Self::Global,
            Scope::Project => Self::Project,
        }
    }
}

/// What is wrong with a file that was read. Shown as `/home/ada/.roo/commands/x.md:2:7: …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file or directory.
    pub path: PathBuf,
    /// The place in the file.
    pub position: Option<Position>,
    /// What is wrong and what to do.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.path.display())?;
        if let Some(Position { line, column }) = self.position {
            write!(f, "{line}:{column}:")?;
        }
        write!(f, " {}", self.message)
    }
}
