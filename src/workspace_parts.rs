//! What the services of a workspace are built from. Each front end opens these as its client needs them: with an editor or
//! without, with settings of its own.

use std::sync::Arc;

use roo_durable::WorkspaceDirectory;
use roo_engine::customization::Customization;
use roo_formats::config::{Directories, SettingsSource};
use roo_workspace::Workspace;

/// What the services of a workspace are built from. Clones share it.
#[derive(Clone)]
pub(crate) struct WorkspaceParts {
    /// The user's settings, as they are at any moment.
    pub(crate) settings: Arc<dyn SettingsSource>,
    /// The files.
    pub(crate) workspace: Arc<Workspace>,
    /// Configuration of users and workspaces.
    pub(crate) customization: Arc<Customization>,
    /// Directory for state of the workspace.
    pub(crate) directory: WorkspaceDirectory,
    /// The user's directories; programs that are started don't see into them.
    pub(crate) directories: Directories,
}
