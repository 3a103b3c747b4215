//! `roo-lsp run --detach`: a request that is started in the daemon and left there.

use std::io::Write as _;

use serde_json::Value;

use super::arguments::{Common, Run};
use super::run::{check, confirm_wide_folder, flags, prompt_of};
use super::session::SessionContext;
use super::terminal::{self, TERMINAL_USER};
use super::{CliError, Ending};
use crate::daemon::{RequestClient, RequestStart};
use roo_formats::config::Layer;
use roo_protocol::task::{TaskStartParams, TaskStartResult};

/// Starts a request in the daemon, prints its id and returns.
pub(super) async fn run_detached(common: Common, mut run: Run) -> Result<Ending, CliError> {
    let context = SessionContext::find(&common)?;
    confirm_wide_folder(&context, common.workspace.is_some(), !run.reads_input())?;
    // The daemon is in another directory.
    if let Some(script) = &mut run.view.script {
        *script = std::path::absolute(&*script)?;
    }
    let settings = flags(&run.view);
    let profile = run.profile();
    let configured = context.live_settings(Layer::from_command_line(settings.clone()))?.newest();
    let customization = context.customization_at_work()?;
    check(&configured.settings, &customization, run.mode.as_deref(), profile.as_deref())?;
    let prompt = prompt_of(&run)?;
    let params = TaskStartParams { prompt, mode: run.mode, profile, ..TaskStartParams::default() };
    let start = RequestStart {
        directories: &context.directories,
        folder: &context.folder,
        settings: Value::Object(settings),
        params,
        client: TERMINAL_USER,
    };
    let started = RequestClient::start(start).await.map_err(|error| CliError::Other(error.to_string()))?;
    let TaskStartResult { urid, .. } = started;
    writeln!(terminal::stdout(), "{urid}")?;
    writeln!(
        terminal::stderr(),
        "roo-lsp: the request runs in the daemon; follow it with: roo-lsp attach {urid}"
    )?;
    Ok(Ending::Done)
}
