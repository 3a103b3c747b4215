//! The sandbox of user hooks: what bounds a command of the user's own would have, and nothing of the network.
//!
//! A hook is the user's program or an approved one of the workspace, but what it opens in its turn may be a file that
//! an agent has written. What a hook needs besides is added in [`crate::hooks`].

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::gate::{Gate, Offers, ToolCallContext};
use super::task_network::NetworkRules;
use super::tool_configuration;
use crate::hooks::{HookBounds, HookOverlays, HookSandbox, Overlaid, UserHooks};
use roo_formats::config::{SandboxLevel, ToolChoice};
use roo_formats::modes::{ENTRY, Modes};
use roo_protocol::ids::Urid;
use roo_sandbox::changes::LeasedLayers;
use roo_sandbox::exec::sandbox::Confinement;

impl Gate {
    /// The sandbox in which hooks of a request run. Where none of them needs one, nothing is looked at.
    pub async fn hook_sandbox(&self, hooks: &UserHooks, urid: &Urid) -> HookSandbox {
        // What hooks write is written at once, as what editors write.
        let level = self.settings().sandbox.level.min(SandboxLevel::Namespaces);
        if level == SandboxLevel::Off || !hooks.need_sandbox() {
            return HookSandbox::Off;
        }
        let bounds = &self.policy_context().bounds;
        let roots: Vec<PathBuf> = self.workspace().roots().paths().map(Path::to_path_buf).collect();
        match bounds.check(level, &roots).await {
            Err(error) => return HookSandbox::Missing(error.to_string()),
            Ok(held) if held.is_none_or(|held| held.probe.active.is_none()) => return HookSandbox::Off,
            Ok(_) => {}
        }
        // The bounds go by the request and the workspace; no mode and no intent narrows what is the user's.
        let modes = Modes::built_in();
        let mode = match modes.find(ENTRY) {
            Ok(mode) => mode,
            Err(unknown) => return HookSandbox::Missing(unknown.to_string()),
        };
        let call_context = ToolCallContext {
            mode,
            modes: &modes,
            profile: None,
            tools: &ToolChoice::default(),
            is_branch: false,
            delegations: 0,
            urid,
            seen: &BTreeMap::new(),
            approved: None,
            intent: None,
            within: &[],
            hooks: None,
            offers: Offers::default(),
        };
        let confined =
            match bounds.of(self.policy_context(), call_context, None, NetworkRules::default()).await {
                Ok(Some(confined)) => confined,
                Ok(None) => return HookSandbox::Off,
                Err(error) => {
                    return HookSandbox::Missing(format!("the protected paths can't be listed: {error}"));
                }
            };
        let confinement = confined.without_git();
        let Some(temp) = &confinement.temp else {
            return HookSandbox::Missing("its private directory can't be made".to_owned());
        };
        // Apart from the commands' own, so that none of them changes what a hook keeps.
        let exchange = temp.with_file_name(format!("{urid}-hooks"));
        let temp = match private_directory(exchange.join("tmp")).await {
            Ok(temp) => temp,
            Err(error) => {
                return HookSandbox::Missing(format!("{} can't be made: {error}", exchange.display()));
            }
        };
        let confinement = Confinement { temp: Some(temp), ..confinement };
        let overlays = Arc::new(confined.overlays(bounds.layers_of(None)));
        HookSandbox::On(Box::new(HookBounds { sandbox: confined.sandbox, confinement, exchange, overlays }))
    }
}

/// Overlays that hooks see in place of the user's files, as commands do.
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

async fn private_directory(path: PathBuf) -> io::Result<PathBuf> {
    let make = move || {
        DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
        path.canonicalize()
    };
    tokio::task::spawn_blocking(make).await.map_err(io::Error::other).flatten()
}
