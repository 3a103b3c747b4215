//! The sandbox of user hooks: what bounds a command of the user's own would have, and nothing of the network.
//!
//! A hook is the user's program or an approved one of the workspace, but what it opens in its turn may be a file that
//! an agent has written. What a hook needs besides is added in [`crate::hooks`].

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::bounds::BoundsRequest;
use super::gate::Gate;
use super::task_network::NetworkRules;
use crate::hooks::{HookBounds, HookSandbox, UserHooks};
use roo_formats::config::SandboxLevel;
use roo_protocol::ids::Urid;
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
        let policy_context = self.policy_context();
        let request = BoundsRequest {
            workspace: &policy_context.workspace,
            settings: &policy_context.settings,
            urid,
            grant: None,
            changes_work_tree: false,
        };
        let confined = match bounds.command(&request, NetworkRules::default()).await {
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
        // The same holds for its cache, which each run gets again with its overlays.
        let confinement = Confinement { temp: Some(temp), cache: None, variables: vec![], ..confinement };
        let overlays = Arc::new(confined.overlays());
        HookSandbox::On(Box::new(HookBounds { sandbox: confined.sandbox, confinement, exchange, overlays }))
    }
}

async fn private_directory(path: PathBuf) -> io::Result<PathBuf> {
    let make = move || {
        DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
        path.canonicalize()
    };
    roo_durable::spawn_blocking(make).await.map_err(io::Error::other).flatten()
}
