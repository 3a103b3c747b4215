//! The files that configure servers, as far as this program changes them by itself: whether a server is switched off.

use std::path::{Path, PathBuf};

use crate::configuration_file::ConfigurationFile;
use roo_engine::customization::PROJECT_MCP;
use roo_formats::mcp::edit::{EditError, with_disabled};
use roo_formats::mcp::{FILE_LIMIT, Level};
use roo_text::render::exact_line;

/// The files of both levels.
pub(super) struct ServerFiles {
    /// The user's own `mcp.json`.
    pub user: PathBuf,
    /// The workspace folder, if there is one.
    pub workspace: Option<PathBuf>,
}

/// Reasons why a server was not switched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SwitchError {
    /// There is none of this name.
    #[error("there is no MCP server '{0}'")]
    Unknown(String),
    /// The file can't be edited.
    #[error("{file}: {error}")]
    Edit { file: String, error: EditError },
    /// The file can't be read or written.
    #[error("{file}: {reason}")]
    Disk { file: String, reason: String },
}

impl ServerFiles {
    /// Switches a server off or on.
    pub(super) fn switch(&self, level: Level, server: &str, on: bool) -> Result<(), SwitchError> {
        let workspace = self.workspace.as_deref().unwrap_or(Path::new("/"));
        let path = match level {
            Level::User => self.user.clone(),
            Level::Workspace => workspace.join(PROJECT_MCP),
        };
        let shown = exact_line(&path.to_string_lossy());
        let disk = |error: Box<dyn std::error::Error>| SwitchError::Disk {
            file: shown.clone(),
            reason: error.to_string(),
        };
        let file = ConfigurationFile::open(path, FILE_LIMIT as u64).map_err(disk)?;
        let edited = with_disabled(file.text(), server, !on)
            .map_err(|error| SwitchError::Edit { file: shown.clone(), error })?;
        match edited {
            Some(text) => file.replace(workspace, &text).map_err(disk),
            None => Ok(()),
        }
    }
}
