//! Overlays that hooks and MCP servers see in place of the user's files, as commands do.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::tool_configuration;
use super::tool_homes::{self, Redirection};
use crate::hooks::{HookOverlays, Overlaid};
use roo_sandbox::changes::LeasedLayers;

/// Overlays in place of the user's files.
#[derive(Debug)]
pub(super) struct ToolOverlays {
    /// Directories of build tools that are seen through layers.
    pub(super) layered: Vec<PathBuf>,
    /// Variables that lead build tools to a private cache.
    pub(super) redirected: Vec<Redirection>,
    /// Configuration that is seen without the secrets in it.
    pub(super) configuration: Vec<(PathBuf, String)>,
}

impl HookOverlays for ToolOverlays {
    /// A hook loads programs and libraries from there, so no run keeps anything for the next one: neither what a
    /// command has written nor what an agent's code has written that an earlier hook ran.
    fn make(&self, directory: &Path) -> io::Result<Overlaid> {
        let leased = LeasedLayers::lease(&directory.join("layers"), &self.layered)?;
        let cache = directory.join("cache");
        DirBuilder::new().mode(0o700).create(&cache)?;
        let cache = cache.canonicalize()?;
        let substitutes = tool_configuration::substitutes(&self.configuration, directory)?;
        Ok(Overlaid {
            layers: leased.layers().to_vec(),
            substitutes,
            variables: tool_homes::variables(&self.redirected, &cache),
            cache,
            lease: Box::new(leased),
        })
    }
}
