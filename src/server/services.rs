//! Services that a connection works with: those of its process, and those of its workspace.

use std::sync::Arc;

use super::provenance::Provenance;
use crate::live_settings::LiveSettings;
use crate::mcp::McpServers;
use roo_durable::WorkspaceDirectory;
use roo_engine::customization::Customization;
use roo_engine::engine::Engine;
use roo_engine::engine::clock::Clock;
use roo_formats::config::Directories;

/// Services of the process for a connection.
pub(super) struct ProcessServices {
    /// The user's directories, with the settings file.
    pub(super) directories: Directories,
    /// Time and randomness.
    pub(super) clock: Arc<dyn Clock>,
}

/// The engine, what steers its agents, the servers whose tools they call, and where its logs are.
pub(super) struct WorkspaceServices {
    pub(super) engine: Engine,
    pub(super) settings: Arc<LiveSettings>,
    pub(super) customization: Arc<Customization>,
    pub(super) directory: WorkspaceDirectory,
    pub(super) provenance: Provenance,
    pub(super) mcp: Arc<McpServers>,
}
