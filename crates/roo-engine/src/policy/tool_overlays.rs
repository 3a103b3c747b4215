//! Overlays that hooks and MCP servers see in place of the user's files, as commands do.

use std::io;
use std::path::{Path, PathBuf};

use super::tool_configuration;
use crate::hooks::{HookOverlays, Overlaid};
use roo_sandbox::changes::LeasedLayers;

/// Overlays in place of the user's files.
#[derive(Debug)]
pub(super) struct ToolOverlays {
    /// Directories of build tools that are seen through layers, and where those are.
    pub(super) layered: Vec<PathBuf>,
    pub(super) area: PathBuf,
    /// Configuration that is seen without the secrets in it.
    pub(super) configuration: Vec<(PathBuf, String)>,
}

impl HookOverlays for ToolOverlays {
    fn make(&self, directory: &Path) -> io::Result<Overlaid> {
        let leased = LeasedLayers::lease(&self.area, &self.layered)?;
        let substitutes = tool_configuration::substitutes(&self.configuration, directory)?;
        Ok(Overlaid { layers: leased.layers().to_vec(), substitutes, lease: Box::new(leased) })
    }
}
