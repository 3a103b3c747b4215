//! `roo-lsp bridge`: a workspace that is followed and steered over NATS.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use roo_formats::config::Layer;
use roo_text::render::exact_line;
use uuid::Uuid;

use super::arguments::{self, Common};
use super::session::SessionContext;
use super::signals::{Signal, Signals};
use super::{CliError, Ending, nats, run, terminal};
use crate::bridge::{Bridge, Setup};

/// Serves until a signal.
pub(super) async fn bridge(common: Common, bridge: arguments::Bridge) -> Result<Ending, CliError> {
    let context = SessionContext::find(&common)?;
    if let Some(what) = context.directories.too_wide(&context.folder)
        && common.workspace.is_none()
    {
        return Err(CliError::Usage(format!(
            "the workspace would be {}, which is {what}. Name one: roo-lsp --workspace DIRECTORY bridge",
            exact_line(&context.folder.to_string_lossy())
        )));
    }
    let mut signals = Signals::listen()?;
    let settings = context.live_settings(Layer::from_command_line(run::allowed(&bridge.allow)))?;
    let customization = context.customization_at_work()?;
    let instance =
        bridge.instance.map_or_else(|| Uuid::new_v4().simple().to_string(), |instance| instance.to_string());
    let connection = nats::connect(&bridge.nats, &format!("roo-lsp bridge {instance}")).await?;
    let engine = context.engine(settings)?;
    let setup = Setup {
        engine: Arc::new(engine),
        customization,
        folder: context.folder,
        instance: instance.clone(),
        takes_approvals: bridge.remote_approvals,
        heartbeat: Duration::from_secs(bridge.heartbeat),
    };
    let bridge = Bridge::open(connection, setup).await?;
    writeln!(terminal::stderr(), "roo-lsp: the bridge {instance} is connected")?;
    let mut signal = None;
    let told_to_end = async { signal = Some(signals.next().await) };
    bridge.serve(told_to_end).await;
    Ok(match signal {
        None => Ending::Done,
        Some(Signal::Interrupt) => Ending::Interrupted,
        Some(Signal::Terminate) => Ending::Terminated,
    })
}
